r"""E-steps of continuous rows, and of models without factors: few products for many rows.

In the coordinates of `e_step`, the quadratic :math:`k + h^\top u - \tfrac12 u^\top Ru` of a row is
the sum of those of its known cells, which are the same for all rows but for :math:`x_i` in k and h.

**Complete rows** of a class and component share R, and so the covariance of z. With :math:`A = I +
R`, :math:`W^\top W = A^{-1}` and the *whitened* latents :math:`v = Wh = Gx + g`, the log joint is

.. math:: c + l^\top x - \tfrac12 \sum_i x_i^2 / \theta_i + \tfrac12 |v|^2 ,

and z given x has the mean :math:`\mu + Tv` and the covariance :math:`TT^\top`. So a sweep is a
product with G and its transpose, and sums over v.

**Sums of rows.** All this is also linear in :math:`\Phi(x) = (x_i x_j, x, 1)`: where the weights of
rows never change (one component, all rows labeled, likelihood), the sum of :math:`\Phi` in each
class is as good as its rows, and is taken once (`ClassSums`).

**Rows with gaps.** The quadratics of all rows are products of parameters with the mask, the cells
and their squares, and the expected statistics are products of the posterior moments of u with the
same: between them lies a small system for each row (`solve_entrywise`). Entries of u and of its
moments come first in all arrays, rows last.

**Without factors** classes are mixtures of independent columns. All rows share the predictors of a
component, so the bound of a column is the same for all of them but for what its model calls the
*terms* of a cell: its trials and hits (`columns`). Scores are then products of parameters with the
rows' cells and terms, and statistics are weighted sums of these.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import NamedTuple

import array_api_compat
import numpy as np

from latentia.arrays.linalg import (
    pack,
    packed_diagonal,
    packed_outer,
    params_at_rows,
    quadratic_features,
    solve_entrywise,
    spd_inverse_root,
    symmetric_outer,
    unpack,
    weighted_row_sums,
    with_doubled_offdiagonal,
)
from latentia.arrays.namespace import LOG_2PI, Array, eye_like, namespace, transpose
from latentia.engine.rows import Chunk, K, MaskedRows, Source, Totals, V, rows_per_chunk
from latentia.engine.tree import take_restarts
from latentia.families.latent_factors.columns import CellTerms, Quadratic, SharedBoundModel
from latentia.families.latent_factors.kinds import ColumnLayout
from latentia.families.latent_factors.latents import Uncertainty, WeightSpread
from latentia.families.latent_factors.parameters import FactorParams, FactorPosterior, FactorStats


class RowInvariantPosterior(NamedTuple):
    """Of each class and component: what makes score and posterior of a row from its cells."""

    gain: Array  # (..., C, M, q, n) G
    offset: Array  # (..., C, M, q) g
    back: Array  # (..., C, M, q, q) T
    means: Array  # (..., C, 1, q) mu
    square: Array  # (..., 1, M or 1, n) coefficients of x^2
    linear: Array  # (..., C, M, n) coefficients of x
    constant: Array  # (..., C, M)

    @property
    def natural(self) -> Array:
        """Coefficients (..., C, M, F) of the log joint in the features of a row."""
        xp = namespace(self.gain)
        n = self.gain.shape[-1]
        G_t = transpose(self.gain)
        matrix = 0.5 * xp.matmul(G_t, self.gain) + self.square[..., None] * eye_like(n, self.gain)
        linear = self.linear + xp.matmul(G_t, self.offset[..., None])[..., 0]
        constant = self.constant + 0.5 * xp.sum(self.offset * self.offset, axis=-1)
        return xp.concat([with_doubled_offdiagonal(pack(matrix), n), linear, constant[..., None]], axis=-1)


def row_invariant_posterior(params: FactorParams, uncertainty: Uncertainty | None = None) -> RowInvariantPosterior:
    """Log density and posterior of z of each class and component, as functions of x."""
    xp = namespace(params.loadings)
    mu, root = params.means[..., :, None, :], xp.sqrt(params.variances)[..., :, None, None, :]
    loadings, theta = params.loadings[..., None, :, :, :], params.noise[..., None, :, :]
    K = loadings * root  # (..., C, M, n, q)
    a0 = xp.matmul(loadings, mu[..., None])[..., 0] + params.offsets[..., None, :, :]
    scaled = K / theta[..., None]
    q = K.shape[-1]
    A = eye_like(q, K) + xp.matmul(transpose(K), scaled)
    shift = xp.sum(scaled * a0[..., None], axis=-2)
    per_cell = -0.5 * (LOG_2PI + xp.log(theta) + a0 * a0 / theta)
    constant = params.log_prior[..., :, None] + params.log_mix
    if uncertainty is not None:
        spread = WeightSpread.of(uncertainty, slice(None), q)
        P, cross = unpack(xp.sum(spread.square, axis=-2), q), xp.sum(spread.cross, axis=-2)
        lean = xp.matmul(P, mu[..., None])[..., 0] + cross
        A = A + root * transpose(root) * P
        shift = shift + root[..., 0, :] * lean
        per_cell = per_cell + uncertainty.cell_constant[..., None, :, :] - 0.5 * spread.one
        constant = constant + uncertainty.class_constant[..., :, None] - 0.5 * xp.sum((lean + cross) * mu, axis=-1)
    W, log_det = spd_inverse_root(A)
    return RowInvariantPosterior(
        gain=xp.matmul(W, transpose(scaled)),
        offset=-xp.matmul(W, shift[..., None])[..., 0],
        back=transpose(W * root),
        means=mu,
        square=-0.5 / theta,
        linear=a0 / theta,
        constant=constant + xp.sum(per_cell, axis=-1) - 0.5 * log_det,
    )


class CompleteRowPosterior(NamedTuple):
    """The latents of complete continuous rows."""

    whitened: Array  # (..., C, M, q, N) v
    squares: Array  # (N, n) of the cells
    invariant: RowInvariantPosterior

    def latent_means(self, params: FactorParams, rows: MaskedRows) -> Array:
        step = namespace(self.whitened).matmul(self.invariant.back, self.whitened)
        return self.invariant.means[..., None, :] + transpose(step)

    def statistics(
        self, params: FactorParams, layout: ColumnLayout, rows: MaskedRows, weight: Array, shared_gram: bool
    ) -> FactorStats:
        xp = namespace(weight)
        weighted = weight[..., None, :] * self.whitened
        sums = LatentSums(
            count=xp.sum(weight, axis=-1),
            x=weighted_row_sums(weight, rows.values),
            x_square=weighted_row_sums(xp.sum(weight, axis=-3), self.squares),
            v=xp.sum(weighted, axis=-1),
            vv=xp.matmul(weighted, transpose(self.whitened)),
            vx=weighted_row_sums(weighted, rows.values),
        )
        return sums.statistics(self.invariant, shared_gram)


def infer_complete_rows(invariant: RowInvariantPosterior, values: Array) -> tuple[Array, CompleteRowPosterior]:
    """Log joint of class, component and row (..., C, M, N), and the posterior of the latents."""
    xp = namespace(values)
    squares = values * values
    v = params_at_rows(invariant.gain, values)
    v += invariant.offset[..., None]
    scores = params_at_rows(invariant.linear, values)
    scores += params_at_rows(invariant.square, squares)
    scores += invariant.constant[..., None]
    scores += 0.5 * xp.sum(v * v, axis=-2)
    return scores, CompleteRowPosterior(v, squares, invariant)


class LatentSums(NamedTuple):
    """Weighted sums over rows, of each class and component."""

    count: Array  # type: ignore[assignment]  # (..., C, M)
    x: Array  # (..., C, M, n)
    x_square: Array  # (..., M, n), over the classes
    v: Array  # (..., C, M, q)
    vv: Array  # (..., C, M, q, q)
    vx: Array  # (..., C, M, q, n)

    @classmethod
    def from_features(cls, invariant: RowInvariantPosterior, sums: Array) -> LatentSums:
        """From weighted sums of the features, (..., C, M, F)."""
        xp = namespace(sums)
        G, g, n = invariant.gain, invariant.offset, invariant.gain.shape[-1]
        second, x, count = unpack(sums[..., : -n - 1], n), sums[..., -n - 1 : -1], sums[..., -1]
        v = xp.matmul(G, x[..., None])[..., 0] + count[..., None] * g
        vx = xp.matmul(G, second) + g[..., None] * x[..., None, :]
        vv = xp.matmul(vx, transpose(G)) + v[..., None] * g[..., None, :]
        return cls(count, x, xp.sum(xp.linalg.diagonal(second), axis=-3), v, vv, vx)

    def statistics(self, invariant: RowInvariantPosterior, shared_gram: bool) -> FactorStats:
        """With `shared_gram`, one Gram matrix for all columns."""
        xp = namespace(self.v)
        T, mu, count = invariant.back, invariant.means, self.count[..., None]
        q, n = T.shape[-1], self.x.shape[-1]
        # sums of z - mu and (z - mu)(z - mu)', of z z' and x z'
        e1 = xp.matmul(T, self.v[..., None])[..., 0]
        e2 = xp.matmul(T, xp.matmul(self.vv + count[..., None] * eye_like(q, T), transpose(T)))
        lean = e1[..., :, None] * mu[..., None, :]
        zz = e2 + lean + transpose(lean) + count[..., None] * mu[..., :, None] * mu[..., None, :]
        xz = self.x[..., :, None] * mu[..., None, :] + transpose(xp.matmul(T, self.vx))
        # added up over the classes, which share the loadings
        gram = xp.sum(xp.concat([pack(zz), e1 + count * mu, count], axis=-1), axis=-3)[..., None, :]
        if not shared_gram:
            gram = xp.broadcast_to(gram, (*gram.shape[:-2], n, gram.shape[-1]))
        cross = xp.sum(xp.concat([xz, self.x[..., None]], axis=-1), axis=-4)
        return FactorStats(
            count=self.count,
            centered_sum=xp.sum(e1, axis=-2),
            centered_square=xp.sum(xp.linalg.diagonal(e2), axis=-2),
            gram=gram,
            cross=cross,
            sum_x2=self.x_square,
            bound_gram=xp.zeros_like(gram[..., :0, :]),
            bound_cross=xp.zeros_like(cross[..., :0, :]),
        )


class RowCellTerms(NamedTuple):
    """What a known cell adds to the quadratic of its row, for each class and component."""

    known: Array  # (T + q + 1, ..., C, M, n) R (packed), h and k, whatever the value
    linear: Array  # (q + 1, ..., C, M, n) h and k, times the value
    square: Array  # (..., 1, M or 1, n) k, times the square of the value

    @classmethod
    def of(cls, params: FactorParams, uncertainty: Uncertainty | None) -> RowCellTerms:
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
    observed: Array  # (N, n) which cells are known
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
            by_cell = xp.moveaxis(weighted_row_sums(weighted, self.observed), 0, -1)
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
    terms, squares = RowCellTerms.of(params, uncertainty), rows.values * rows.values
    observed = xp.ones_like(squares) if rows.observed is None else rows.observed
    form = params_at_rows(terms.known, observed)
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
    return scores + log_weight[..., None], GapPosterior(xp.reshape(moments, (-1, *shape)), observed, squares)


class SummedRows(MaskedRows):
    """Sums of Phi over the rows of each class in their place, (C, F), or (S, C, F) by restart."""


class ClassSums(Source):
    """A source in which each class is one row: its sum of Phi.

    Scores and statistics are linear in Phi, so sweeps of a likelihood need no more of complete
    continuous rows that all have labels.
    """

    def __init__(self, source: Source, n_classes: int):
        self.source, self.n_rows, self.n_features = source, n_classes, source.n_features
        n_sums = source.n_features * (source.n_features + 3) // 2 + 1
        totals = source.sum_over_chunks(_class_sums, rows_per_chunk(3 * n_sums, source.rows_like), by_label=True)
        xp = namespace(*totals.values())
        empty = xp.zeros_like(next(iter(totals.values())))
        sums = xp.stack([totals.get(c, empty) for c in range(n_classes)], axis=-2)
        y = xp.arange(n_classes, device=array_api_compat.device(sums))
        self.chunk = Chunk(SummedRows(sums, None), y, None, None)

    @property
    def any_unlabeled(self) -> bool:
        return False

    @property
    def total_weight(self) -> float:
        return self.source.total_weight

    def take_restarts(self, index: np.ndarray) -> Source:
        sums = self.chunk.rows.values
        if sums.ndim == 2:
            return self
        other = copy(self)
        other.chunk = self.chunk._replace(rows=SummedRows(take_restarts(sums, index.tolist()), None))
        return other

    def sum_over_chunks(
        self, fn: Callable[[Chunk], Totals[K, V]], max_rows: int, by_label: bool = False
    ) -> Totals[K, V]:
        return fn(self.chunk)

    def sample_rows(self, n_rows: int, rng: np.random.Generator) -> Chunk:
        return self.source.sample_rows(n_rows, rng)


def _class_sums(chunk: Chunk) -> Totals[int | None, Array]:
    xp = namespace(chunk.rows.values)
    phi = quadratic_features(chunk.rows.values)
    weight = xp.ones_like(phi[:, 0]) if chunk.weight is None else chunk.weight
    if weight.ndim == 1:
        return {chunk.label: xp.matmul(weight[None, :], phi)[0, :]}
    return {chunk.label: xp.matmul(transpose(weight), phi)}


class SummedPosterior(NamedTuple):
    """The latents of complete continuous rows of which the sums are known; of one component."""

    invariant: RowInvariantPosterior
    sums: Array  # (N, F) or (S, N, F)

    def statistics(
        self, params: FactorParams, layout: ColumnLayout, rows: MaskedRows, weight: Array, shared_gram: bool
    ) -> FactorStats:
        sums = namespace(weight).matmul(weight[..., 0, :], self.sums)[..., None, :]
        return LatentSums.from_features(self.invariant, sums).statistics(self.invariant, shared_gram)


def infer_summed_rows(invariant: RowInvariantPosterior, sums: Array) -> FactorPosterior:
    """Sums of the log joint of class and row, and what statistics need."""
    xp = namespace(sums)
    scores = xp.matmul(invariant.natural[..., 0, :], transpose(sums))
    return FactorPosterior(scores, xp.ones_like(scores)[..., None, :], SummedPosterior(invariant, sums))


class NoLatentsPosterior(NamedTuple):
    """What statistics need of rows whose model has no factors."""

    cells: MaskedRows  # of the continuous columns
    terms: CellTerms  # of the bounded ones
    bound: Quadratic  # of one trial, (..., M, H - G)

    def latent_means(self, params: FactorParams, rows: MaskedRows) -> Array:
        xp = namespace(params.means)
        shape = (*params.log_mix.shape, rows.values.shape[0], 0)
        return xp.broadcast_to(params.means[..., :, None, None, :], shape)

    def statistics(
        self, params: FactorParams, layout: ColumnLayout, rows: MaskedRows, weight: Array, shared_gram: bool
    ) -> FactorStats:
        xp = namespace(weight)
        w = xp.sum(weight, axis=-3)  # classes share the predictors
        x, observed = self.cells
        cross = weighted_row_sums(w, x)
        known = xp.sum(w, axis=-1)[..., None] + xp.zeros_like(cross)
        if observed is not None:
            known = weighted_row_sums(w, observed)
        trials = weighted_row_sums(w, self.terms.trials)
        none = xp.zeros_like(params.means)
        return FactorStats(
            count=xp.sum(weight, axis=-1),
            centered_sum=none,
            centered_square=none,
            gram=known[..., : 1 if shared_gram else None, None],
            cross=cross[..., None],
            sum_x2=weighted_row_sums(w, x * x),
            bound_gram=(self.bound.curvature * trials)[..., None],
            bound_cross=(self.bound.linear * trials + weighted_row_sums(w, self.terms.hits))[..., None],
        )


def infer_without_latents(
    layout: ColumnLayout, params: FactorParams, rows: MaskedRows, uncertainty: Uncertainty | None
) -> tuple[Array, NoLatentsPosterior] | None:
    """Log joint of class, component and row (..., C, M, N), and what statistics need; None unless
    there are bounded columns and all of them have a shared bound.
    """
    xp = namespace(params.offsets)
    models = [(model, index) for model, index in layout.bounded_slices() if isinstance(model, SharedBoundModel)]
    if not models or len(models) < len(layout.bounded):
        return None
    terms = CellTerms.joined([model.cell_terms(*layout.select_columns(model, rows)) for model, _ in models])
    G = layout.n_gaussian
    spread = xp.zeros_like(params.offsets) if uncertainty is None else uncertainty.weights[..., -1]  # (..., M, H)
    a, variance = params.offsets[..., G:], spread[..., G:]
    bounds = [model.shared_bound(a[..., index], variance[..., index]) for model, index in models]
    bound = Quadratic(*(xp.concat(arrays, axis=-1) for arrays in zip(*bounds, strict=True)))
    per_trial = bound.constant + bound.linear * a - 0.5 * bound.curvature * (a * a + variance)
    scores = params_at_rows(per_trial, terms.trials)
    scores += params_at_rows(a, terms.hits)
    scores += terms.base
    cells = MaskedRows(*layout.select_columns(layout.gaussian, rows))
    if G:
        _add_continuous(scores, params, cells, spread[..., :G], uncertainty)
    constant = params.log_prior[..., :, None] + params.log_mix
    if uncertainty is not None:
        constant = constant + uncertainty.class_constant[..., :, None]
    return scores[..., None, :, :] + constant[..., None], NoLatentsPosterior(cells, terms, bound)


def _add_continuous(
    scores: Array, params: FactorParams, cells: MaskedRows, spread: Array, uncertainty: Uncertainty | None
) -> None:
    """Add the log densities of the continuous cells to scores (..., M, N)."""
    xp = namespace(scores)
    x, observed = cells
    a, theta = params.offsets[..., : x.shape[1]], params.noise
    per_cell = -0.5 * (LOG_2PI + xp.log(theta) + a * a / theta + spread)
    if uncertainty is not None:
        per_cell = per_cell + uncertainty.cell_constant
    scores += params_at_rows(a / theta, x)
    scores += params_at_rows(-0.5 / theta, x * x)
    scores += xp.sum(per_cell, axis=-1)[..., None] if observed is None else params_at_rows(per_cell, observed)
