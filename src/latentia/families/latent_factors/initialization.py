r"""Rough starts of latent classification models.

With the principal axes V and standard deviations S of the centered heads, the loadings start as :math:`L = VSR / \sqrt q` with normal R, so that :math:`LL^\top` has the heads'
covariance as its expectation: a start follows the data in every direction. Components start towards random rows, class means and variances of the latents at those
of their regression on the rows. All random numbers belong to principal axes or to places in the order of the rows along the first of them, so permuting the
columns permutes the start, and a row of weight two is that row twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from latentia.engine.contracts import Source
from latentia.numerics.array_api import Array, asarray_like, namespace, to_numpy
from latentia.numerics.linalg import spd_inverse

#: Rows of each class from which starts are drawn.
HEAD_ROWS = 1000


#: Share of the columns' variance that the loadings start with.
SIGNAL = 0.5


#: Share of the loadings' variance in which the components differ.
OWN = 0.5


#: How far components start towards a random row.
REACH = 0.5


def initial_params(family: Any, source: Source, rng: np.random.Generator, n_restarts: int) -> tuple[Array, ...]:
    """The fields of the parameters, in order, beside the source's arrays."""
    head = source.sample_rows(HEAD_ROWS, rng)
    y = to_numpy(head.y)
    weight = _row_weights(head, y)
    offsets, rows = _heads(family.layout, head.rows, weight)
    weight /= weight.sum()
    C, M, q, G = family.n_classes, family.n_components, family.n_latent, family.layout.n_gaussian
    H = rows.shape[1]
    axes, deviations = _principal_axes(rows, weight)
    spread_out = axes * deviations  # (H, k)
    common = spread_out @ rng.standard_normal((n_restarts, 1, H, q))[..., : axes.shape[1], :]
    mixed = common
    if M > 1:
        own = spread_out @ rng.standard_normal((n_restarts, M, H, q))[..., : axes.shape[1], :]
        mixed = np.sqrt(1 - OWN) * common + np.sqrt(OWN) * own
    loadings = mixed * np.sqrt(SIGNAL / max(q, 1))
    centers = np.broadcast_to(offsets, (n_restarts, M, H))
    if M > 1:
        centers = centers + REACH * rows[_random_rows(rows @ axes[:, 0], weight, rng.random((n_restarts, M)))]
    means, variances = _class_moments(loadings.mean(axis=1), rows, weight, y, C)
    noise = np.maximum((1 - SIGNAL) * (weight @ rows[:, :G] ** 2), family.var_floor)
    log_prior = family.fixed_log_prior
    log_prior = np.full(C, -np.log(C)) if log_prior is None else log_prior
    fields = (
        np.tile(log_prior, (n_restarts, 1)),
        np.full((n_restarts, C, M), -np.log(M)),
        means,
        variances,
        loadings,
        centers,
        np.tile(noise, (n_restarts, 1 if family.tied else M, 1)),
        np.ones((n_restarts, H, q)),
    )
    like = head.rows.values
    return tuple(asarray_like(np.ascontiguousarray(field), like) for field in fields)


def _heads(layout: Any, cells: Any, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Offsets (H,) and centered rows (N, H) of all heads, on the host."""
    offsets, rows = [], []
    for kind in layout.kinds:
        values, observed = layout.cells_of(kind, cells)
        observed = namespace(values).ones_like(values) if observed is None else observed
        offset, centered = kind.initial_predictors(values, observed, asarray_like(weight[:, None], values))
        offsets.append(to_numpy(offset).astype(float))
        rows.append(to_numpy(centered).astype(float))
    return np.concatenate(offsets), np.concatenate(rows, axis=1)


def _row_weights(head: Any, y: np.ndarray) -> np.ndarray:
    """Weights of the rows; rows of a class that was too large were already drawn by their weight."""
    weight = np.ones(len(y)) if head.weight is None else to_numpy(head.weight).astype(float)
    for label in np.unique(y):
        mine = y == label
        if mine.sum() >= HEAD_ROWS:
            weight[mine] = weight[mine].mean()
    return weight


def _principal_axes(rows: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Axes (H, k) and standard deviations (k,), largest first; the sign of an axis makes the sum of its cubes positive."""
    if rows.shape[1] <= rows.shape[0]:
        squares, axes = np.linalg.eigh((rows * weight[:, None]).T @ rows)
        axes, deviations = axes[:, ::-1], np.sqrt(np.maximum(squares[::-1], 0.0))
    else:
        _, deviations, transposed = np.linalg.svd(rows * np.sqrt(weight)[:, None], full_matrices=False)
        axes = transposed.T
    deviations = np.where(deviations > 1e-6 * deviations.max(initial=0.0), deviations, 0.0)  # the rest is rounding
    return axes * np.where((axes**3).sum(axis=0) < 0, -1.0, 1.0), deviations


def _random_rows(scores: np.ndarray, weight: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The rows at these shares of the total weight, in the order of their scores."""
    order = np.argsort(scores, kind="stable")
    reach = np.cumsum(weight[order])
    return order[np.minimum(np.searchsorted(reach, places * reach[-1]), len(order) - 1)]


def _class_moments(
    L: np.ndarray, rows: np.ndarray, weight: np.ndarray, y: np.ndarray, n_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances (S, C, q) of the latents' regression on the rows, as if all heads had unit noise."""
    S, _, q = L.shape
    cov, _ = spd_inverse(np.eye(q) + np.swapaxes(L, -1, -2) @ L)
    means, variances = np.zeros((S, n_classes, q)), np.ones((S, n_classes, q))
    for c in range(n_classes):
        mine, w = rows[y == c], weight[y == c]
        if len(mine) and w.sum() > 0:
            w = w / w.sum()
            z = mine @ (L @ cov)  # (S, n_c, q)
            means[:, c] = w @ z
            variances[:, c] = w @ (z - means[:, c, None, :]) ** 2 + np.diagonal(cov, axis1=-2, axis2=-1)
    return means, variances
