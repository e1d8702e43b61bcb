r"""The start of variational Bayes: factors along the principal axes of all rows.

With the axes V and standard deviations S of the centered predictors the loadings start as
:math:`VS(I + \epsilon)`, cut after q columns, with small normal :math:`\epsilon` that restarts do
not share; class means start where the regression of the latents on the rows puts them. Random
numbers belong to principal axes, so permuting the columns permutes the parameters.
"""

from __future__ import annotations

import numpy as np

from latentia.arrays.namespace import asarray_like, to_numpy
from latentia.engine.rows import Source
from latentia.families.latent_factors.family import LatentFactors
from latentia.families.latent_factors.initialization import (
    SAMPLE_ROWS,
    class_moments,
    initial_predictors,
    orient_axes,
    principal_axes,
)
from latentia.families.latent_factors.values import FactorParams

#: Standard deviation of the random part of the loadings, in principal standard deviations.
RANDOM_PART = 0.05

#: Share of the variance along a principal axis that the loadings start with.
AXIS_SHARE = 0.64

#: Share of the columns' variance that the noise starts with.
NOISE_SHARE = 0.5

#: How far components start towards a random row.
CENTER_STEP = 0.5


def principal_start(model: LatentFactors, source: Source, rng: np.random.Generator, n_restarts: int) -> FactorParams:
    """Parameters of each restart, beside the source's arrays."""
    sample = source.sample_rows(SAMPLE_ROWS, rng)
    y = to_numpy(sample.y)
    weight = sample.mean_weight()
    weights = weight if sample.weight is None else to_numpy(sample.weight).astype(float)  # (N,) or (N, S)
    offsets, rows = initial_predictors(model.layout, sample, weight)
    C, M, q, H = model.n_classes, model.n_components, model.n_latent, rows.shape[1]
    axes, deviations = principal_axes(rows, weight / weight.sum())
    n_axes = axes.shape[1]
    shares = rng.random((n_restarts, M)) if M > 1 else None  # of the weight of rows before those that centers go to
    mixing = np.zeros((n_restarts, M, n_axes, q))
    mixing[..., np.arange(min(n_axes, q)), np.arange(min(n_axes, q))] = np.sqrt(AXIS_SHARE)
    # axis by axis: what a column without values adds comes last
    mixing += RANDOM_PART * np.moveaxis(rng.standard_normal((H, n_restarts, M, q)), 0, 2)[..., :n_axes, :]
    loadings = (axes * deviations) @ mixing
    between = _class_axes(rows, weights, y, C)[..., : q // 2]  # (S or 1, H, k)
    k = between.shape[-1]
    if k:
        loadings = np.concatenate(
            [np.broadcast_to(between[:, None], (n_restarts, M, H, k)), loadings[..., : q - k]], axis=-1
        )
    centers = np.broadcast_to(offsets, (n_restarts, M, H))
    if shares is not None:
        order = np.argsort(rows @ axes[:, 0], kind="stable")
        cumulative = np.cumsum(weight[order])
        chosen = order[np.searchsorted(cumulative, shares * cumulative[-1] * (1 - 1e-9))]
        centers = centers + CENTER_STEP * rows[chosen]
    means, _ = class_moments(loadings.mean(axis=1), rows, weights, y, C)
    log_prior = np.full(C, -np.log(C)) if model.fixed_log_prior is None else model.fixed_log_prior
    params = FactorParams(
        log_prior=np.tile(log_prior, (n_restarts, 1)),
        log_mix=np.full((n_restarts, C, M), -np.log(M)),
        means=means,
        variances=np.ones_like(means),
        loadings=loadings,
        offsets=centers,
        noise=np.full((n_restarts, 1 if model.tied else M, model.layout.n_gaussian), NOISE_SHARE),
        edges=np.ones((n_restarts, H, q)),
    )
    return FactorParams(*(asarray_like(np.ascontiguousarray(a), sample.rows.values) for a in params))


def _class_axes(rows: np.ndarray, weights: np.ndarray, y: np.ndarray, n_classes: int) -> np.ndarray:
    """Loadings (S, H, C - 1) along the axes in which the class means differ, largest first."""
    columns = weights.reshape(len(y), -1).T  # (S, N)
    counts, sums = [], []
    for c in range(n_classes):
        w = columns[:, y == c]
        counts.append(w.sum(axis=1))
        sums.append(w @ rows[y == c])
    count, total = np.stack(counts, axis=1), np.stack(sums, axis=1)  # (S, C), (S, C, H)
    share = count / np.maximum(count.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    means = total / np.maximum(count, np.finfo(float).tiny)[..., None]
    means = (means - (share[..., None] * means).sum(axis=1, keepdims=True)) * np.sqrt(share)[..., None]
    _, size, axes = np.linalg.svd(means, full_matrices=False)
    axes = orient_axes(axes)
    return np.swapaxes(axes * size[..., None], -1, -2)[..., : n_classes - 1]
