r"""E-step of rows with missing cells, binary or categorical columns: each has its own posterior.

What a column adds to it is the `bound` of its model in `column_models`.

In the coordinates :math:`z = \mu + \Gamma^{1/2}u`, :math:`u \sim N(0, I)` of its class, a row's
predictors are :math:`a_0 + Ku` with :math:`K = W\Gamma^{1/2}`, :math:`a_0 = W\mu + b`, and its
columns add up to the quadratic :math:`k + h^\top u - \tfrac12 u^\top Ru`. So u has the precision
:math:`A = I + R`, which is well conditioned even where a variance is nearly zero, and the integral
over u is :math:`k + \tfrac12 h^\top A^{-1}h - \tfrac12\ln|A|`. The precisions of all rows are one
product of curvatures with the packed :math:`KK^\top` of the predictors; the variances of all
predictors are one product of the packed posterior covariances with the same matrix.

Where the weights are uncertain (`posterior`), a predictor's expected square has the further term
:math:`\tilde z^\top V \tilde z`, a quadratic in u like the others: what `WeightSpread` holds is
added to the products of a column before the rows see them.

`e_step_forms` adds up the columns and brings their bounds to rest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from latentia.engine.source import MaskedRows
from latentia.families.latent_factors.column_contract import Quadratic
from latentia.families.latent_factors.column_layout import ColumnLayout
from latentia.families.latent_factors.e_step_forms import (
    BoundedColumns,
    LatentMoments,
    WeightSpread,
    gaussian_form,
    posterior_moments,
    settle_bounds,
)
from latentia.families.latent_factors.posterior import Uncertainty
from latentia.families.latent_factors.values import FactorParams, FactorStats
from latentia.numerics.array_api import Array, eye_like, namespace, transpose
from latentia.numerics.packed_symmetric import pack, packed_outer

#: Bounds that start where the last sweep has ended need to settle so much less.
WARM_TOLERANCE = 100.0


class RowPosterior(NamedTuple):
    """The latents of each row given class and component."""

    scores: Array  # (..., C, M, N) log joint of class, component and row
    mean: Array  # (..., C, M, N, q)
    cov: Array  # (..., C, M, N, q, q)
    quadratic: Quadratic  # of the bounded predictors, (..., C, M, N, H - G)

    def latent_means(self, params: FactorParams, rows: MaskedRows) -> Array:
        return self.mean

    def statistics(
        self, params: FactorParams, layout: ColumnLayout, rows: MaskedRows, weight: Array, shared_gram: bool
    ) -> FactorStats:
        xp = namespace(weight)
        w = weight[..., None]
        deviation = self.mean - params.means[..., :, None, None, :]
        variance = xp.linalg.diagonal(self.cov)
        augmented = xp.concat([self.mean, xp.ones_like(w)], axis=-1)
        moments = xp.concat([pack(self.cov) + packed_outer(self.mean), augmented], axis=-1)
        # classes share the loadings, so their sums may be taken first
        in_component = w * moments
        in_component = in_component[..., 0, :, :, :] if w.shape[-4] == 1 else xp.sum(in_component, axis=-4)
        x, observed = layout.select_columns(layout.gaussian, rows)
        if shared_gram:
            gram = xp.sum(in_component, axis=-2, keepdims=True)
        else:
            gram = xp.matmul(transpose(xp.ones_like(x) if observed is None else observed), in_component)
        curvature, linear = w * self.quadratic.curvature, w * self.quadratic.linear
        return FactorStats(
            count=xp.sum(weight, axis=-1),
            centered_sum=xp.sum(xp.matmul(weight[..., None, :], deviation), axis=(-3, -2)),
            centered_square=xp.sum(xp.matmul(weight[..., None, :], deviation * deviation + variance), axis=(-3, -2)),
            gram=gram,
            cross=xp.matmul(transpose(x), in_component[..., -augmented.shape[-1] :]),
            sum_x2=xp.matmul(xp.sum(weight, axis=-3), x * x),
            bound_gram=xp.sum(xp.matmul(transpose(curvature), moments), axis=-4),
            bound_cross=xp.sum(xp.matmul(transpose(linear), augmented), axis=-4),
        )


def infer_rows(
    layout: ColumnLayout,
    params: FactorParams,
    rows: MaskedRows,
    tol: float,
    max_rounds: int,
    uncertainty: Uncertainty | None = None,
    memo: dict[str, Any] | None = None,
) -> RowPosterior:
    """Posterior of z for every row, class and component, with the bounds at their fixed point.

    The search for it starts from what an earlier call has left in `memo`.
    """
    xp = namespace(params.loadings)
    G, q, n_rows = layout.n_gaussian, params.means.shape[-1], rows.values.shape[0]
    root = xp.sqrt(params.variances)[..., :, None, None, :]
    loadings = params.loadings[..., None, :, :, :]
    K = loadings * root  # (..., C, M, H, q)
    a0 = xp.matmul(loadings, params.means[..., :, None, :, None])[..., 0] + params.offsets[..., None, :, :]
    spread = WeightSpread.of(params, uncertainty)
    theta = params.noise[..., None, :, :]
    cells = 0.0 if uncertainty is None else uncertainty.cell_constant[..., None, :, :]
    form = gaussian_form(layout, K[..., :G, :], a0[..., :G], theta, rows, spread.first(G), cells)
    quadratic = Quadratic(xp.zeros_like(a0[..., None, :0]), xp.zeros_like(a0[..., None, :0]), 0.0)
    if layout.n_bounded:
        bounded = BoundedColumns(layout, K[..., G:, :], a0[..., None, G:], rows, spread.rest(G))
        moments = LatentMoments(xp.zeros_like(root), pack(eye_like(q, root))[None, :])  # the prior
        if q:  # else all rows share their predictors, and no row moves a bound
            key = f"bounds of {(*a0.shape[-3:-1], n_rows, q)}"
            last = None if memo is None else memo.get(key)
            previous = None
            if last is not None and last.moments.mean.shape[:-4] == a0.shape[:-3]:
                moments, bounded.warm_starts, previous = last
            # from a warm start each round raises the bound, and the next sweep goes on
            warm_tol = tol if previous is None else WARM_TOLERANCE * tol
            settled = settle_bounds(bounded, form, moments, previous, warm_tol, max_rounds - 1)
            moments = settled.moments
            if memo is not None:
                memo[key] = settled
        quadratic = bounded.bound(moments)
        form = bounded.add_to(form, quadratic)
    A, log_det, cov, u = posterior_moments(form, q)
    # h'u - u'Au/2 is largest at the mean, so an error of u enters squared; h'u/2, its value there,
    # has it in full
    maximum = xp.sum((form.linear - 0.5 * xp.matmul(A, u[..., None])[..., 0]) * u, axis=-1)
    scores = form.constant + maximum - 0.5 * log_det
    scores = scores + params.log_prior[..., :, None, None] + params.log_mix[..., None]
    if uncertainty is not None:
        scores = scores + uncertainty.class_constant[..., :, None, None]
    shape = (*scores.shape[:-1], n_rows)
    mean = xp.broadcast_to(params.means[..., :, None, None, :] + root * u, (*shape, q))
    cov = xp.broadcast_to(cov * (root[..., None] * root[..., None, :]), (*shape, q, q))
    return RowPosterior(xp.broadcast_to(scores, shape), mean, cov, quadratic)
