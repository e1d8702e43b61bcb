"""Weighted expected sums of latent classification models, from complete rows or row by row."""

from __future__ import annotations

from latentia.engine.contracts import MaskedRows
from latentia.families.latent_factors.column_models import ColumnLayout
from latentia.families.latent_factors.complete_rows import LatentMoments
from latentia.families.latent_factors.row_posteriors import RowPosterior
from latentia.families.latent_factors.values import FactorParams, FactorStats
from latentia.numerics.array_api import Array, namespace, transpose
from latentia.numerics.packed_symmetric import pack, packed_outer


def complete_sums(params: FactorParams, moments: LatentMoments, shared_gram: bool) -> FactorStats:
    """Statistics from the moments of complete continuous rows."""
    xp = namespace(moments.count)
    mu, n = params.means[..., :, None, :], moments.count[..., None]
    lean = moments.pulled[..., :, None] * mu[..., None, :]
    second = moments.square + lean + transpose(lean) + n[..., None] * mu[..., :, None] * mu[..., None, :]
    first = moments.pulled + n * mu
    gram = xp.sum(xp.concat([pack(second), first, n], axis=-1), axis=-3)[..., None, :]
    if not shared_gram:
        gram = xp.broadcast_to(gram, (*gram.shape[:-2], moments.first.shape[-1], gram.shape[-1]))
    cross = xp.concat([moments.cross, moments.first[..., None]], axis=-1)
    return FactorStats(
        moments.count,
        xp.sum(moments.pulled, axis=-2),
        xp.sum(xp.linalg.diagonal(moments.square), axis=-2),
        gram,
        xp.sum(cross, axis=-4),
        xp.sum(moments.diagonal, axis=-3),
        xp.zeros_like(gram[..., :0, :]),
        xp.zeros_like(cross[..., 0, :, :0, :]),
    )


def row_sums(
    layout: ColumnLayout, params: FactorParams, rows: MaskedRows, posteriors: RowPosterior, w: Array, shared_gram: bool
) -> FactorStats:
    """Statistics from each row's own posterior, weighted by w (..., C, M, N)."""
    xp = namespace(w)
    away = posteriors.mean - params.means[..., :, None, None, :]
    spread = xp.linalg.diagonal(posteriors.cov)
    augmented = xp.concat([posteriors.mean, xp.ones_like(w)[..., None]], axis=-1)
    moments = xp.concat([pack(posteriors.cov) + packed_outer(posteriors.mean), augmented], axis=-1)
    return FactorStats(
        xp.sum(w, axis=-1),
        xp.sum(w[..., None] * away, axis=(-3, -2)),
        xp.sum(w[..., None] * (away * away + spread), axis=(-3, -2)),
        *_gaussian_sums(layout, rows, moments, augmented, w, shared_gram),
        *_bounded_sums(posteriors, moments, augmented, w),
    )


def _gaussian_sums(
    layout: ColumnLayout, rows: MaskedRows, moments: Array, augmented: Array, w: Array, shared_gram: bool
) -> tuple[Array, Array, Array]:
    xp = namespace(w)
    x, seen = layout.cells_of(layout.gaussian, rows)
    seen = xp.ones_like(x) if seen is None else seen
    # classes share the loadings, so their sums may be taken first
    moments = xp.sum(w[..., None] * moments, axis=-4)
    cross = xp.matmul(transpose(x), xp.sum(w[..., None] * augmented, axis=-4))
    sum_x2 = xp.matmul(xp.sum(w, axis=-3), x * x)
    gram = xp.sum(moments, axis=-2, keepdims=True) if shared_gram else xp.matmul(transpose(seen), moments)
    return gram, cross, sum_x2


def _bounded_sums(rows: RowPosterior, moments: Array, augmented: Array, w: Array) -> tuple[Array, Array]:
    xp = namespace(w)
    if rows.quadratic is None:
        return xp.zeros_like(moments[..., 0, :, :0, :]), xp.zeros_like(augmented[..., 0, :, :0, :])
    curvature, slope = w[..., None] * rows.quadratic.curvature, w[..., None] * rows.quadratic.slope
    gram = xp.sum(xp.matmul(transpose(curvature), moments), axis=-4)
    return gram, xp.sum(xp.matmul(transpose(slope), augmented), axis=-4)
