"""The M-step of latent classification models, and the slope in free coordinates, from the same statistics."""

from __future__ import annotations

from latentia.families.latent_factors.values import FactorFree, FactorParams, FactorStats
from latentia.numerics.array_api import Array, eye_like, namespace, transpose
from latentia.numerics.logspace import safe_log
from latentia.numerics.packed_symmetric import unpack

#: Smallest variance of a latent given the class; its scale is set by the loadings.
LATENT_FLOOR = 1e-6


#: Smallest share of a class or component, so that logarithms stay finite.
SMALLEST_SHARE = 1e-12


#: Pull of new loadings towards the old ones, as a share of the second moments: keeps empty components where they are.
PULL = 1e-10


def augmented_matrix(packed: Array, q: int) -> Array:
    """(..., T) sums of (z z', z, 1) as matrices (..., q + 1, q + 1)."""
    xp = namespace(packed)
    second, first, one = unpack(packed[..., : -q - 1], q), packed[..., -q - 1 : -1], packed[..., -1:]
    top = xp.concat([second, first[..., None]], axis=-1)
    bottom = xp.concat([first, one], axis=-1)[..., None, :]
    return xp.concat([top, bottom], axis=-2)


def log_shares(count: Array, old: Array) -> Array:
    """Log of the normalized counts, never -inf; the old ones where there is no weight at all."""
    xp = namespace(count)
    total = xp.sum(count, axis=-1, keepdims=True)
    share = count / xp.where(total > SMALLEST_SHARE, total, xp.ones_like(total))
    share = xp.clip(share, min=SMALLEST_SHARE)
    log_share = safe_log(share / xp.sum(share, axis=-1, keepdims=True))
    return xp.where(total > SMALLEST_SHARE, log_share, old)


def latent_prior(params: FactorParams, stats: FactorStats, pseudo: float) -> tuple[Array, Array]:
    """New class means and variances of the latents, with `pseudo` rows of unit variance; a class without weight keeps its own."""
    xp = namespace(stats.count)
    count = xp.sum(stats.count, axis=-1)[..., None]
    alive = count > SMALLEST_SHARE
    safe = xp.where(alive, count, xp.ones_like(count))
    move = xp.where(alive, stats.pulled / safe, xp.zeros_like(stats.pulled))
    variances = xp.clip((stats.square - safe * move * move + pseudo) / (safe + pseudo), min=LATENT_FLOOR)
    return params.means + move, xp.where(alive, variances, params.variances)


def regression(gram: Array, cross: Array, old: Array, edges: Array | None, ridge: float) -> Array:
    """Loadings and offset of each head (..., M, H, q + 1): (gram + ridge) w = cross, with a slight pull towards the old."""
    xp = namespace(cross)
    q = cross.shape[-1] - 1
    G = augmented_matrix(gram, q)
    size = xp.sum(xp.linalg.diagonal(G), axis=-1)[..., None, None] / (q + 1)
    pull = PULL * size + xp.finfo(cross.dtype).smallest_normal
    G = G + (pull + ridge) * eye_like(q + 1, cross)
    right = cross + pull[..., 0] * old
    if edges is None:
        if G.shape[-3] == 1:  # complete rows: one factorization serves all columns of a component
            return transpose(xp.linalg.solve(G[..., 0, :, :], transpose(right)))
        return xp.linalg.solve(G, right[..., None])[..., 0]
    on = xp.concat([edges, xp.ones_like(edges[..., :1])], axis=-1)[..., None, :, :]  # (..., 1, H, q + 1)
    G = G * on[..., :, None] * on[..., None, :] + (1 - on)[..., None] * eye_like(q + 1, cross) * (size + 1.0)
    return xp.linalg.solve(G, (right * on)[..., None])[..., 0] * on


def residual(stats: FactorStats, rows: Array, tied: bool) -> tuple[Array, Array]:
    """Expected squared residuals and weights of the cells of continuous columns, pooled if the noise is tied."""
    xp = namespace(rows)
    G = augmented_matrix(stats.gram, rows.shape[-1] - 1)
    one_gram = G.shape[-3] == 1
    reach = xp.matmul(rows, G[..., 0, :, :]) if one_gram else xp.matmul(G, rows[..., None])[..., 0]
    total = stats.sum_x2 + xp.sum(rows * (reach - 2 * stats.cross), axis=-1)
    cells = xp.broadcast_to(stats.gram[..., -1], total.shape)
    if tied:
        return xp.sum(total, axis=-2, keepdims=True), xp.sum(cells, axis=-2, keepdims=True)
    return total, cells


def noise_variance(old: Array, stats: FactorStats, rows: Array, tied: bool, floor: float) -> Array:
    """New noise of the continuous columns; a column without weight keeps its own."""
    xp = namespace(rows)
    total, cells = residual(stats, rows, tied)
    alive = cells > SMALLEST_SHARE
    noise = xp.clip(total / xp.where(alive, cells, xp.ones_like(cells)), min=floor)
    return xp.where(alive, noise, old)


def slope(
    params: FactorParams,
    stats: FactorStats,
    edges: Array | None,
    *,
    tied: bool,
    floor: float,
    ridge: float,
    pseudo: float,
) -> FactorFree:
    """Gradient in free coordinates of the objective whose weights made the statistics."""
    xp = namespace(params.means)
    q, G = params.means.shape[-1], params.noise.shape[-1]
    count = xp.sum(stats.count, axis=-1)[..., None]
    gamma, theta = params.variances, params.noise
    rows = xp.concat([params.loadings, params.offsets[..., None]], axis=-1)
    heads, noise = xp.zeros_like(rows[..., :0, :]), xp.zeros_like(theta)
    if G:
        reach = xp.matmul(augmented_matrix(stats.gram, q), rows[..., :G, :, None])[..., 0]
        heads = (stats.cross - reach) / theta[..., None]
        total, cells = residual(stats, rows[..., :G, :], tied)
        noise = 0.5 * (total / theta - cells) / theta * (theta - floor)
    if stats.bound_cross.shape[-2]:
        own = rows[..., G:, :]
        reach = xp.matmul(augmented_matrix(stats.bound_gram, q), own[..., None])[..., 0]
        heads = xp.concat([heads, stats.bound_cross - reach - ridge * own], axis=-2)
    return FactorFree(
        stats.count - xp.exp(params.log_mix) * count,
        stats.pulled / gamma,
        0.5 * ((stats.square + pseudo) / gamma - count - pseudo) / gamma * (gamma - LATENT_FLOOR),
        heads[..., :q] if edges is None else heads[..., :q] * edges[..., None, :, :],
        heads[..., q],
        noise,
    )
