"""What a latent classification model has to learn, as values; letters as in `family`.

Parameters and statistics, the M-step, the log prior, and the unconstrained coordinates with the
gradient in them: mixing weights are softmaxes of logits; a variance is its floor plus an
exponential.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from latentia.arrays.linalg import unpack
from latentia.arrays.namespace import (
    Array,
    asarray_like,
    eye_like,
    log_softmax,
    namespace,
    safe_log,
    to_numpy,
    transpose,
)
from latentia.engine.rows import MaskedRows
from latentia.families.latent_factors.kinds import ColumnLayout


class FactorParams(NamedTuple):
    """Parameters of a latent classification model."""

    log_prior: Array  # (..., C)
    log_mix: Array  # (..., C, M)
    means: Array  # (..., C, q)
    variances: Array  # (..., C, q)
    loadings: Array  # (..., M, H, q)
    offsets: Array  # (..., M, H)
    noise: Array  # (..., M, G) variances; (..., 1, G) when tied
    edges: Array  # (..., H, q) ones where a loading is free, zeros where it is held at zero


class FactorSizes(NamedTuple):
    """Numbers of classes, components and latents."""

    n_classes: int  # C
    n_components: int  # M
    n_latent: int  # q


class FactorFree(NamedTuple):
    """Unconstrained coordinates: logits, and logs of what variances have above their floors.

    Class priors are counted, not searched.
    """

    logits: Array  # (..., C, M)
    means: Array  # (..., C, q)
    variances: Array  # (..., C, q)
    loadings: Array  # (..., M, H, q)
    offsets: Array  # (..., M, H)
    noise: Array  # (..., M or 1, G)


class FactorStats(NamedTuple):
    """Weighted expected sums."""

    count: Array  # type: ignore[assignment]  # (..., C, M); tuples have a method of this name
    centered_sum: Array  # (..., C, q) of z - mu
    centered_square: Array  # (..., C, q) of (z - mu)^2
    gram: Array  # (..., M, 1 or G, T) of (z z', z, 1), over the observed cells of a continuous column
    cross: Array  # (..., M, G, q + 1) of x (z, 1)
    sum_x2: Array  # (..., M, G) of x^2
    bound_gram: Array  # (..., M, H - G, T) of (z z', z, 1), weighted by the bounds' curvatures
    bound_cross: Array  # (..., M, H - G, q + 1) of (z, 1), weighted by the bounds' linear coefficients

    def about(self, old: Array, new: Array) -> FactorStats:
        """The same sums about other means of the latents (..., C, q)."""
        move = new - old
        count = namespace(move).sum(self.count, axis=-1)[..., None]
        square = self.centered_square - 2 * move * self.centered_sum + count * move * move
        return self._replace(centered_sum=self.centered_sum - count * move, centered_square=square)


class TrainingLatents(Protocol):
    """The latents of some rows as far as training needs them."""

    def statistics(
        self, params: FactorParams, layout: ColumnLayout, rows: MaskedRows, weight: Array, shared_gram: bool
    ) -> FactorStats:
        """Sums weighted by (..., C, M, N); with `shared_gram`, one Gram matrix for all continuous
        columns.
        """


class LatentPosterior(TrainingLatents, Protocol):
    """The posterior of the latents of some rows, given class and component."""

    def latent_means(self, params: FactorParams, rows: MaskedRows) -> Array:
        """Means of z, (..., C, M, N, q)."""


class FactorPosterior(NamedTuple):
    """Scores of rows, and the posteriors of components and latents."""

    log_joint: Array  # (..., C, N)
    component: Array  # (..., C, M, N) p(m | x, c)
    latents: TrainingLatents


#: Smallest variance of a latent given the class; its scale is set by the loadings.
LATENT_FLOOR = 1e-6

#: Smallest probability of a class or component, so that logarithms stay finite.
MIN_PROB = 1e-12

#: Damping of new loadings towards the old ones, relative to the second moments: keeps empty
#: components where they are.
DAMPING = 1e-10


def augmented_matrix(packed: Array, q: int) -> Array:
    """(..., T) sums of (z z', z, 1) as matrices (..., q + 1, q + 1)."""
    xp = namespace(packed)
    second, first, one = unpack(packed[..., : -q - 1], q), packed[..., -q - 1 : -1], packed[..., -1:]
    top = xp.concat([second, first[..., None]], axis=-1)
    bottom = xp.concat([first, one], axis=-1)[..., None, :]
    return xp.concat([top, bottom], axis=-2)


def log_frequencies(count: Array, old: Array) -> Array:
    """Log of the normalized counts, never -inf; the old ones where there is no weight at all."""
    xp = namespace(count)
    total = xp.sum(count, axis=-1, keepdims=True)
    prob = xp.clip(count / xp.where(total > MIN_PROB, total, xp.ones_like(total)), min=MIN_PROB)
    log_prob = safe_log(prob / xp.sum(prob, axis=-1, keepdims=True))
    return xp.where(total > MIN_PROB, log_prob, old)


def update_latent_prior(params: FactorParams, stats: FactorStats, n_pseudo_rows: float) -> tuple[Array, Array]:
    """New class means and variances of the latents, with pseudo rows of unit variance.

    A class without weight keeps its own.
    """
    xp = namespace(stats.count)
    count = xp.sum(stats.count, axis=-1)[..., None]
    alive = count > MIN_PROB
    safe = xp.where(alive, count, xp.ones_like(count))
    move = xp.where(alive, stats.centered_sum / safe, xp.zeros_like(stats.centered_sum))
    square = stats.centered_square - safe * move * move
    variances = xp.clip((square + n_pseudo_rows) / (safe + n_pseudo_rows), min=LATENT_FLOOR)
    return params.means + move, xp.where(alive, variances, params.variances)


def log_prior_density(params: FactorParams, ridge: float, n_pseudo_rows: float) -> Array:
    """Log density, up to a constant, of the prior on bounded columns' weights and on latent
    variances.
    """
    xp = namespace(params.loadings)
    G = params.noise.shape[-1]
    loadings, offsets = params.loadings[..., G:, :], params.offsets[..., G:]
    squares = xp.sum(loadings**2, axis=(-3, -2, -1)) + xp.sum(offsets**2, axis=(-2, -1))
    # without a prior of their variances, wide latents would undo that of the loadings
    variances = xp.sum(xp.log(params.variances) + 1.0 / params.variances, axis=(-2, -1))
    return -0.5 * ridge * squares - 0.5 * n_pseudo_rows * variances


def update_weights(params: FactorParams, stats: FactorStats, edges: Array | None, ridge: float) -> Array:
    """New loadings and offsets side by side, (..., M, H, q + 1); the ridge is that of bounded
    columns.
    """
    xp = namespace(params.loadings)
    G, H = params.noise.shape[-1], params.loadings.shape[-2]
    old = xp.concat([params.loadings, params.offsets[..., None]], axis=-1)
    parts = []
    if G:
        on = None if edges is None else edges[..., :G, :]
        parts.append(regression(stats.gram, stats.cross, old[..., :G, :], on, 0.0))
    if H > G:
        on = None if edges is None else edges[..., G:, :]
        parts.append(regression(stats.bound_gram, stats.bound_cross, old[..., G:, :], on, ridge))
    return xp.concat(parts, axis=-2) if parts else old


def regression(gram: Array, cross: Array, old: Array, edges: Array | None, ridge: float) -> Array:
    """Loadings and offset of each predictor (..., M, H, q + 1): (gram + ridge) w = cross, slightly
    damped.
    """
    xp = namespace(cross)
    q = cross.shape[-1] - 1
    G = augmented_matrix(gram, q)
    size = xp.sum(xp.linalg.diagonal(G), axis=-1)[..., None, None] / (q + 1)
    damping = DAMPING * size + xp.finfo(cross.dtype).smallest_normal
    G = G + (damping + ridge) * eye_like(q + 1, cross)
    right = cross + damping[..., 0] * old
    if edges is None:
        if G.shape[-3] == 1:  # complete rows: one factorization serves all columns of a component
            return transpose(xp.linalg.solve(G[..., 0, :, :], transpose(right)))
        return xp.linalg.solve(G, right[..., None])[..., 0]
    on = xp.concat([edges, xp.ones_like(edges[..., :1])], axis=-1)[..., None, :, :]  # (..., 1, H, q + 1)
    G = G * on[..., :, None] * on[..., None, :] + (1 - on)[..., None] * eye_like(q + 1, cross) * (size + 1.0)
    return xp.linalg.solve(G, (right * on)[..., None])[..., 0] * on


def residual(stats: FactorStats, weights: Array, tied: bool) -> tuple[Array, Array]:
    """Expected squared residuals and counts of the cells of continuous columns, pooled if the noise
    is tied.
    """
    xp = namespace(weights)
    G = augmented_matrix(stats.gram, weights.shape[-1] - 1)
    if G.shape[-3] == 1:  # all columns share it
        product = xp.matmul(weights, G[..., 0, :, :])
    else:
        product = xp.matmul(G, weights[..., None])[..., 0]
    total = stats.sum_x2 + xp.sum(weights * (product - 2 * stats.cross), axis=-1)
    count = xp.broadcast_to(stats.gram[..., -1], total.shape)
    if tied:
        return xp.sum(total, axis=-2, keepdims=True), xp.sum(count, axis=-2, keepdims=True)
    return total, count


def noise_variance(old: Array, stats: FactorStats, weights: Array, tied: bool, floor: float) -> Array:
    """New noise of the continuous columns; a column without weight keeps its own."""
    xp = namespace(weights)
    total, count = residual(stats, weights, tied)
    alive = count > MIN_PROB
    noise = xp.clip(total / xp.where(alive, count, xp.ones_like(count)), min=floor)
    return xp.where(alive, noise, old)


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


def to_canonical_form(params: FactorParams) -> FactorParams:
    r"""The parameters (without leading axes) in coordinates of z that leave the model as it is.

    Any :math:`z' = (z - t) / s` with :math:`L' = L\,\mathrm{diag}(s)`, :math:`\eta' = \eta + Lt`
    describes the same rows. We choose: under the class priors each latent has mean zero and
    variance one; the latents are sorted by the squared loadings they then have (components weighted
    by their probability, continuous columns in standard deviations); and the loading that is
    largest by size, weighted likewise, is positive.
    """
    if params.means.shape[-1] == 0:
        return params
    xp = namespace(params.means)
    prior = np.exp(to_numpy(params.log_prior).astype(float))
    prior /= prior.sum()
    means, variances, loadings = (to_numpy(a).astype(float) for a in (params.means, params.variances, params.loadings))
    t = prior @ means
    s = np.sqrt(np.maximum(prior @ (variances + (means - t) ** 2), np.finfo(float).tiny))
    component_probs = prior @ np.exp(to_numpy(params.log_mix).astype(float))
    flat = (loadings * s * np.sqrt(component_probs)[:, None, None]).reshape(-1, s.size)
    sign = np.where(flat[np.abs(flat).argmax(axis=0), np.arange(s.size)] < 0, -1.0, 1.0)
    order = np.argsort(-(flat**2).sum(axis=0), kind="stable")
    index = asarray_like(order, params.means, dtype=xp.int64)
    shift, scale = asarray_like(t, params.means), asarray_like(s * sign, params.means)
    return params._replace(
        means=xp.take((params.means - shift) / scale, index, axis=-1),
        variances=xp.take(params.variances / scale**2, index, axis=-1),
        loadings=xp.take(params.loadings * scale, index, axis=-1),
        offsets=params.offsets + xp.matmul(params.loadings, shift[:, None])[..., 0],
        edges=xp.take(params.edges, index, axis=-1),
    )
