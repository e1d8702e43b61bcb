r"""E-step of continuous rows with missing cells.

In the coordinates of `e_step_rows`, the quadratic :math:`k + h^\top u - \tfrac12 u^\top Ru` of a
row is the sum of those of its known cells, which are the same for all rows but for :math:`x_i` in k
and h. So those of all rows are products of parameters with the mask, the cells and their squares,
and the expected statistics are products of the posterior moments of u with the same: between them
lies a small system for each row (`entrywise_spd`). Entries of u and of its moments come first in
all arrays, rows last.
"""

from __future__ import annotations

from typing import NamedTuple

from latentia.arrays.linalg import (
    pack,
    packed_diagonal,
    packed_outer,
    params_at_rows,
    symmetric_outer,
    unpack,
    weighted_row_sums,
    with_doubled_offdiagonal,
)
from latentia.arrays.namespace import LOG_2PI, Array, eye_like, namespace, transpose
from latentia.arrays.small_systems import solve_entrywise
from latentia.engine.rows import MaskedRows
from latentia.families.latent_factors.column_layout import ColumnLayout
from latentia.families.latent_factors.e_step_forms import WeightSpread
from latentia.families.latent_factors.posterior import Uncertainty
from latentia.families.latent_factors.values import FactorParams, FactorStats


class CellTerms(NamedTuple):
    """What a known cell adds to the quadratic of its row, for each class and component."""

    known: Array  # (T + q + 1, ..., C, M, n) R (packed), h and k, whatever the value
    linear: Array  # (q + 1, ..., C, M, n) h and k, times the value
    square: Array  # (..., 1, M or 1, n) k, times the square of the value

    @classmethod
    def of(cls, params: FactorParams, uncertainty: Uncertainty | None) -> CellTerms:
        xp = namespace(params.loadings)
        mu, root = params.means[..., :, None, None, :], xp.sqrt(params.variances)[..., :, None, None, :]
        loadings, theta = params.loadings[..., None, :, :, :], params.noise[..., None, :, :]
        K = loadings * root  # (..., C, M, n, q)
        a0 = xp.sum(loadings * mu, axis=-1) + params.offsets[..., None, :, :]
        scaled = K / theta[..., None]
        square, shift = packed_outer(K) / theta[..., None], scaled * a0[..., None]
        constant = -0.5 * (LOG_2PI + xp.log(theta) + a0 * a0 / theta)
        if uncertainty is not None:
            q = K.shape[-1]
            spread = WeightSpread.of(uncertainty, slice(None), q)
            lean = xp.matmul(unpack(spread.square, q), mu[..., None])[..., 0] + spread.cross
            square, shift = square + packed_outer(root) * spread.square, shift + root * lean
            costs = spread.one + xp.sum((lean + spread.cross) * mu, axis=-1)
            constant = constant + uncertainty.cell_constant[..., None, :, :] - 0.5 * costs
        known = xp.concat([square, -shift, constant[..., None]], axis=-1)
        linear = xp.concat([scaled, (a0 / theta)[..., None]], axis=-1)
        return cls(xp.moveaxis(known, -1, 0), xp.moveaxis(linear, -1, 0), -0.5 / theta)


class GapPosterior(NamedTuple):
    """The latents of continuous rows with missing cells."""

    moments: Array  # (T + q + 1, ..., C, M, N) expected (u u', u, 1)
    squares: Array  # (N, n) of the cells

    def latent_means(self, params: FactorParams, rows: MaskedRows) -> Array:
        xp, q = namespace(self.moments), params.means.shape[-1]
        mu, root = params.means[..., :, None, None, :], xp.sqrt(params.variances)[..., :, None, None, :]
        return mu + root * xp.moveaxis(self.moments[-q - 1 : -1, ...], 0, -1)

    def statistics(
        self, params: FactorParams, layout: ColumnLayout, rows: MaskedRows, weight: Array, shared_gram: bool
    ) -> FactorStats:
        xp, q = namespace(weight), params.means.shape[-1]
        mu, root = params.means[..., :, None, None, :], xp.sqrt(params.variances)[..., :, None, None, :]
        weighted = self.moments * weight
        total = xp.moveaxis(xp.sum(weighted, axis=-1), 0, -1)[..., None, :]  # (..., C, M, 1, T + q + 1)
        by_cell = total
        if not shared_gram:
            by_cell = xp.moveaxis(weighted_row_sums(weighted, rows.observed), 0, -1)
        with_x = xp.moveaxis(weighted_row_sums(weighted[-q - 1 :, ...], rows.values), 0, -1)
        # added up over the classes, which share the loadings
        gram = xp.sum(_moments_of_latents(by_cell, mu, root), axis=-4)
        cross = xp.sum(_means_of_latents(with_x, mu, root), axis=-4)
        return FactorStats(
            count=total[..., 0, -1],
            centered_sum=xp.sum(root * total[..., -q - 1 : -1], axis=(-3, -2)),
            centered_square=xp.sum(root * root * packed_diagonal(total, q), axis=(-3, -2)),
            gram=gram,
            cross=cross,
            sum_x2=weighted_row_sums(xp.sum(weight, axis=-3), self.squares),
            bound_gram=xp.zeros_like(gram[..., :0, :]),
            bound_cross=xp.zeros_like(cross[..., :0, :]),
        )


def _means_of_latents(sums: Array, mu: Array, root: Array) -> Array:
    """Sums of (z, 1) from those of (u, 1), on the last axis."""
    one = sums[..., -1:]
    return namespace(sums).concat([mu * one + root * sums[..., :-1], one], axis=-1)


def _moments_of_latents(sums: Array, mu: Array, root: Array) -> Array:
    """Sums of (z z', z, 1) from those of (u u', u, 1), on the last axis."""
    q = mu.shape[-1]
    square, first = sums[..., : -q - 1], sums[..., -q - 1 :]
    square = packed_outer(root) * square + symmetric_outer(mu, root * first[..., :-1])
    square = square + packed_outer(mu) * first[..., -1:]
    return namespace(sums).concat([square, _means_of_latents(first, mu, root)], axis=-1)


def infer_rows_with_gaps(
    params: FactorParams, uncertainty: Uncertainty | None, rows: MaskedRows
) -> tuple[Array, GapPosterior]:
    """Log joint of class, component and row (..., C, M, N), and the posterior of the latents."""
    xp, q = namespace(rows.values), params.means.shape[-1]
    terms, squares = CellTerms.of(params, uncertainty), rows.values * rows.values
    form = params_at_rows(terms.known, rows.observed)
    form[-q - 1 :, ...] += params_at_rows(terms.linear, rows.values)
    shape, n_packed = form.shape[1:], form.shape[0] - q - 1
    form = xp.reshape(form, (form.shape[0], -1))
    A, h, k = form[:n_packed, :], form[n_packed:-1, :], form[-1, :]
    A += pack(eye_like(q, A))[:, None]
    cov, u, log_det = solve_entrywise(A, h[:, None, :])
    u = u[:, 0, :]
    outer = transpose(packed_outer(transpose(u)))
    # h'u - u'Au/2 is largest at the mean, so an error of u enters squared; h'u/2, its value there,
    # has it in full
    traces = with_doubled_offdiagonal(xp.ones_like(A[:, 0]), q)
    maximum = xp.sum(h * u, axis=0) - 0.5 * xp.matmul(traces, A * outer)
    scores = xp.reshape(k + maximum - 0.5 * log_det, shape) + params_at_rows(terms.square, squares)
    log_weight = params.log_prior[..., None] + params.log_mix
    if uncertainty is not None:
        log_weight = log_weight + uncertainty.class_constant[..., None]
    moments = xp.concat([cov + outer, u, xp.ones_like(u[:1, :])], axis=0)
    return scores + log_weight[..., None], GapPosterior(xp.reshape(moments, (-1, *shape)), squares)
