"""Unconstrained coordinates of latent classification models, and the gradient in them.

Mixing weights are softmaxes of logits; a variance is its floor plus an exponential.
"""

from __future__ import annotations

from latentia.arrays.namespace import Array, log_softmax, namespace
from latentia.families.latent_factors.m_step import LATENT_FLOOR, augmented_matrix, residual
from latentia.families.latent_factors.values import FactorFree, FactorParams, FactorStats

#: Free coordinates of a variance start at least this fraction of the floor above it.
FLOOR_MARGIN = 1e-6


def to_free(params: FactorParams, noise_floor: float) -> FactorFree:
    """The unconstrained coordinates of the parameters."""

    def log_above(variance: Array, floor: float) -> Array:
        xp = namespace(variance)
        return xp.log(xp.clip(variance - floor, min=FLOOR_MARGIN * floor))

    return FactorFree(
        logits=params.log_mix,
        means=params.means,
        variances=log_above(params.variances, LATENT_FLOOR),
        loadings=params.loadings,
        offsets=params.offsets,
        noise=log_above(params.noise, noise_floor),
    )


def from_free(free: FactorFree, params: FactorParams, edges: Array | None, noise_floor: float) -> FactorParams:
    """The parameters at unconstrained coordinates; class priors and edges are those of `params`."""
    xp = namespace(params.means)
    return params._replace(
        log_mix=log_softmax(free.logits, axis=-1),
        means=free.means,
        variances=LATENT_FLOOR + xp.exp(free.variances),
        loadings=free.loadings if edges is None else free.loadings * edges[..., None, :, :],
        offsets=free.offsets,
        noise=noise_floor + xp.exp(free.noise),
    )


def gradient(
    params: FactorParams,
    stats: FactorStats,
    edges: Array | None,
    *,
    tied: bool,
    floor: float,
    ridge: float,
    n_pseudo_rows: float,
) -> FactorFree:
    """Gradient in free coordinates of the objective whose weights made the statistics."""
    xp = namespace(params.means)
    q, G = params.means.shape[-1], params.noise.shape[-1]
    count = xp.sum(stats.count, axis=-1)[..., None]
    gamma, theta = params.variances, params.noise
    weights = xp.concat([params.loadings, params.offsets[..., None]], axis=-1)
    in_weights, in_noise = xp.zeros_like(weights[..., :0, :]), xp.zeros_like(theta)
    if G:
        product = xp.matmul(augmented_matrix(stats.gram, q), weights[..., :G, :, None])[..., 0]
        in_weights = (stats.cross - product) / theta[..., None]
        total, n_cells = residual(stats, weights[..., :G, :], tied)
        in_noise = 0.5 * (total / theta - n_cells) / theta * (theta - floor)
    if stats.bound_cross.shape[-2]:
        bounded = weights[..., G:, :]
        product = xp.matmul(augmented_matrix(stats.bound_gram, q), bounded[..., None])[..., 0]
        in_weights = xp.concat([in_weights, stats.bound_cross - product - ridge * bounded], axis=-2)
    square = (stats.centered_square + n_pseudo_rows) / gamma
    return FactorFree(
        logits=stats.count - xp.exp(params.log_mix) * count,
        means=stats.centered_sum / gamma,
        variances=0.5 * (square - count - n_pseudo_rows) / gamma * (gamma - LATENT_FLOOR),
        loadings=in_weights[..., :q] if edges is None else in_weights[..., :q] * edges[..., None, :, :],
        offsets=in_weights[..., q],
        noise=in_noise,
    )
