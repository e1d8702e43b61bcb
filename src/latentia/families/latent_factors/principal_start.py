r"""The start of variational Bayes: factors along the principal axes of all rows.

With the axes V and standard deviations S of the centered predictors the loadings start as
:math:`VS(I + \epsilon)`, cut after q columns, with small normal :math:`\epsilon` that restarts do
not share; class means start where the regression of the latents on the rows puts them. Random
numbers belong to principal axes, so permuting the columns permutes the parameters.
"""

from __future__ import annotations

import numpy as np

from latentia.engine.source import Source
from latentia.families.latent_factors.family import LatentFactors
from latentia.families.latent_factors.initialization import (
    SAMPLE_ROWS,
    class_moments,
    initial_predictors,
    principal_axes,
    sample_weights,
)
from latentia.families.latent_factors.values import FactorParams
from latentia.numerics.array_api import asarray_like, to_numpy

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
    weights = sample_weights(sample, y)  # (N,) or (N, S)
    weight = weights.reshape(len(y), -1).mean(axis=1)
    offsets, rows = initial_predictors(model.layout, sample, weight)
    C, M, q, H = model.n_classes, model.n_components, model.n_latent, rows.shape[1]
    axes, deviations = principal_axes(rows, weight / weight.sum())
    n_axes = axes.shape[1]
    mixing = np.zeros((n_restarts, M, n_axes, q))
    mixing[..., np.arange(min(n_axes, q)), np.arange(min(n_axes, q))] = np.sqrt(AXIS_SHARE)
    mixing += RANDOM_PART * rng.standard_normal((n_restarts, M, H, q))[..., :n_axes, :]
    loadings = (axes * deviations) @ mixing
    centers = np.broadcast_to(offsets, (n_restarts, M, H))
    if M > 1:
        order = np.argsort(rows @ axes[:, 0], kind="stable")
        cumulative = np.cumsum(weight[order])
        chosen = order[np.searchsorted(cumulative, rng.random((n_restarts, M)) * cumulative[-1] * (1 - 1e-9))]
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
