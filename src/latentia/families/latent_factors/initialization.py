r"""Initial parameters of latent classification models.

With the principal axes V and standard deviations S of the centered predictors, the loadings start
as :math:`L = VSR / \sqrt q` with normal R, so that :math:`LL^\top` has the predictors' covariance
as its expectation: they follow the data in every direction. Components start towards random rows,
class means and variances of the latents at those of their regression on the rows. All random
numbers belong to principal axes or to quantiles of the rows along the first of them, so permuting
the columns permutes the parameters, and a row of weight two is that row twice.
"""

from __future__ import annotations

import numpy as np

from latentia.arrays.linalg import eigh, spd_inverse
from latentia.arrays.namespace import asarray_like, namespace, to_numpy
from latentia.engine.rows import Chunk, Source
from latentia.families.latent_factors.column_layout import ColumnLayout
from latentia.families.latent_factors.values import FactorParams, FactorSizes

#: Rows of each class from which restarts are drawn.
SAMPLE_ROWS = 1000

#: Share of the columns' variance that the loadings start with.
SIGNAL_VARIANCE_SHARE = 0.5

#: Share of the loadings' variance in which the components differ.
COMPONENT_VARIANCE_SHARE = 0.5

#: How far components start towards a random row.
CENTER_STEP = 0.5

#: A sum of cubes of this size says nothing.
ROUNDING = 1e-9


def initial_params(
    layout: ColumnLayout,
    sizes: FactorSizes,
    source: Source,
    rng: np.random.Generator,
    n_restarts: int,
    *,
    tied: bool,
    var_floor: float,
    log_prior: np.ndarray | None,
) -> FactorParams:
    """Parameters of each restart, beside the source's arrays."""
    sample = source.sample_rows(SAMPLE_ROWS, rng)
    y = to_numpy(sample.y)
    weight = sample.mean_weight()
    offsets, rows = initial_predictors(layout, sample, weight)
    weight /= weight.sum()
    C, M, q = sizes
    H = rows.shape[1]
    axes, deviations = principal_axes(rows, weight)
    scaled_axes = axes * deviations  # (H, k)
    loadings = scaled_axes @ rng.standard_normal((n_restarts, 1, H, q))[..., : axes.shape[1], :]
    if M > 1:
        per_component = scaled_axes @ rng.standard_normal((n_restarts, M, H, q))[..., : axes.shape[1], :]
        share = COMPONENT_VARIANCE_SHARE
        loadings = np.sqrt(1 - share) * loadings + np.sqrt(share) * per_component
    loadings = loadings * np.sqrt(SIGNAL_VARIANCE_SHARE / max(q, 1))
    centers = np.broadcast_to(offsets, (n_restarts, M, H))
    if M > 1:
        random_rows = rows[_rows_at_quantiles(rows @ axes[:, 0], weight, rng.random((n_restarts, M)))]
        centers = centers + CENTER_STEP * random_rows
    means, variances = class_moments(loadings.mean(axis=1), rows, weight, y, C)
    noise = (1 - SIGNAL_VARIANCE_SHARE) * (weight @ rows[:, : layout.n_gaussian] ** 2)
    log_prior = np.full(C, -np.log(C)) if log_prior is None else log_prior
    params = FactorParams(
        log_prior=np.tile(log_prior, (n_restarts, 1)),
        log_mix=np.full((n_restarts, C, M), -np.log(M)),
        means=means,
        variances=variances,
        loadings=loadings,
        offsets=centers,
        noise=np.tile(np.maximum(noise, var_floor), (n_restarts, 1 if tied else M, 1)),
        edges=np.ones((n_restarts, H, q)),
    )
    return FactorParams(*(asarray_like(np.ascontiguousarray(a), sample.rows.values) for a in params))


def initial_predictors(layout: ColumnLayout, sample: Chunk, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Offsets (H,) and centered values (N, H) of all predictors, in NumPy."""
    offsets, rows = [], []
    for model in layout.models:
        values, observed = layout.select_columns(model, sample.rows)
        observed = namespace(values).ones_like(values) if observed is None else observed
        offset, centered = model.initial_predictors(values, observed, asarray_like(weight[:, None], values))
        offsets.append(to_numpy(offset).astype(float))
        rows.append(to_numpy(centered).astype(float))
    return np.concatenate(offsets), np.concatenate(rows, axis=1)


def principal_axes(rows: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Axes (H, k) and standard deviations (k,), largest first.

    The sign of an axis makes the sum of its cubes positive.
    """
    if rows.shape[1] <= rows.shape[0]:
        squares, axes = eigh((rows * weight[:, None]).T @ rows)
        axes, deviations = axes[:, ::-1], np.sqrt(np.maximum(squares[::-1], 0.0))
    else:
        _, deviations, transposed = np.linalg.svd(rows * np.sqrt(weight)[:, None], full_matrices=False)
        axes = transposed.T
    deviations = np.where(deviations > 1e-6 * deviations.max(initial=0.0), deviations, 0.0)  # the rest is rounding
    return orient_axes(axes.T).T, deviations


def orient_axes(axes: np.ndarray) -> np.ndarray:
    """Axes (..., k, H) with the sum of their cubes positive, or where it is zero their first entry.

    Two standardized columns have the axis (1, -1), whose sign would else be one of rounding.
    """
    cubes = (axes**3).sum(axis=-1, keepdims=True)
    sign = np.where(np.abs(cubes) > ROUNDING, cubes, axes[..., :1])
    return axes * np.where(sign < 0, -1.0, 1.0)


def _rows_at_quantiles(scores: np.ndarray, weight: np.ndarray, quantiles: np.ndarray) -> np.ndarray:
    """The rows at these weighted quantiles of their scores."""
    order = np.argsort(scores, kind="stable")
    cumulative = np.cumsum(weight[order])
    return order[np.minimum(np.searchsorted(cumulative, quantiles * cumulative[-1]), len(order) - 1)]


def class_moments(
    L: np.ndarray, rows: np.ndarray, weight: np.ndarray, y: np.ndarray, n_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances (S, C, q) of the latents' regression on the rows, as if all had unit
    noise; `weight` is (N,), or (N, S).
    """
    S, _, q = L.shape
    weight = np.broadcast_to(weight[:, None] if weight.ndim == 1 else weight, (len(rows), S)).T
    cov, _ = spd_inverse(np.eye(q) + np.swapaxes(L, -1, -2) @ L)
    means, variances = np.zeros((S, n_classes, q)), np.ones((S, n_classes, q))
    for c in range(n_classes):
        w = weight[:, None, y == c]
        total = w.sum(axis=-1, keepdims=True)
        if total.any():
            w = w / np.where(total > 0, total, 1.0)
            z = rows[y == c] @ (L @ cov)  # (S, n_c, q)
            means[:, c] = (w @ z)[:, 0]
            square = (w @ (z - means[:, c, None, :]) ** 2)[:, 0]
            variances[:, c] = square + np.diagonal(cov, axis1=-2, axis2=-1)
    return means, variances
