r"""E-step of rows with missing cells, binary or categorical columns: each has its own posterior.

What a column adds to it is the `bound` of its model in `column_models`; `e_step_forms` adds up the
columns, and `bound_iteration` brings their bounds to rest.

A row's predictors are :math:`a = Wz + b`, and its columns add up to the quadratic :math:`k +
h^\top z - \tfrac12 z^\top Rz`, which does not depend on the class where the bounds do not. In the
coordinates :math:`z = \mu + \Gamma^{1/2}u`, :math:`u \sim N(0, I)` of a class it reads :math:`k_u +
h_u^\top u - \tfrac12 u^\top R_u u` with :math:`R_u = \Gamma^{1/2}R\,\Gamma^{1/2}`, :math:`h_u =
\Gamma^{1/2}(h - R\mu)`, :math:`k_u = k + h^\top\mu - \tfrac12\mu^\top R\mu`. So u has the precision
:math:`A = I + R_u`, which is well conditioned even where a variance is nearly zero, and the
integral over u is :math:`k_u + \tfrac12 h_u^\top A^{-1}h_u - \tfrac12\ln|A|`. The precisions of all
rows are one product of curvatures with the packed :math:`ww^\top` of the predictors; the variances
of all predictors are one product of the packed posterior covariances with the same matrix.

Where the weights are uncertain (`posterior`), a predictor's expected square has the further term
:math:`\tilde z^\top V \tilde z`, a quadratic in z like the others: what `WeightSpread` holds is
added to the products of a column before the rows see them.

In training, rows with a label need their own class alone: all of them together are as one class
with a prior for each row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from latentia.arrays.linalg import pack, packed_outer
from latentia.arrays.namespace import Array, namespace, transpose
from latentia.engine.rows import MaskedRows
from latentia.families.latent_factors.bound_iteration import BoundRules, BoundState, settle_bounds
from latentia.families.latent_factors.column_contract import Quadratic
from latentia.families.latent_factors.column_layout import ColumnLayout
from latentia.families.latent_factors.e_step_forms import BoundedColumns, LatentPrior, gaussian_form, posterior_of
from latentia.families.latent_factors.posterior import Uncertainty
from latentia.families.latent_factors.values import FactorParams, FactorStats


class RowPosterior(NamedTuple):
    """The latents of each row given class and component."""

    scores: Array  # (..., C, M, N) log joint of class, component and row
    mean: Array  # (..., C, M, N, q)
    cov: Array  # (..., C, M, N, q, q)
    prior_mean: Array  # (..., C, 1, 1 or N, q)
    quadratic: Quadratic  # of the bounded predictors, (..., C or 1, M, N, H - G)

    def latent_means(self, params: FactorParams, rows: MaskedRows) -> Array:
        return self.mean

    def statistics(
        self, params: FactorParams, layout: ColumnLayout, rows: MaskedRows, weight: Array, shared_gram: bool
    ) -> FactorStats:
        xp = namespace(weight)
        deviation = self.mean - self.prior_mean
        variance = xp.linalg.diagonal(self.cov)
        class_weight = weight[..., None, :]
        count = xp.sum(weight, axis=-1)
        centered_sum = xp.sum(xp.matmul(class_weight, deviation), axis=(-3, -2))
        centered_square = xp.sum(xp.matmul(class_weight, deviation * deviation + variance), axis=(-3, -2))
        if self.mean.shape[-4] < weight.shape[-3]:  # rows have their own classes, all others no weight
            weight = xp.sum(weight, axis=-3, keepdims=True)
        w = weight[..., None]
        augmented = xp.concat([self.mean, xp.ones_like(w)], axis=-1)
        moments = w * xp.concat([pack(self.cov) + packed_outer(self.mean), augmented], axis=-1)
        # classes share the loadings, so their sums may be taken first
        in_component = _sum_classes(moments)
        n_augmented = augmented.shape[-1]
        x, observed = layout.select_columns(layout.gaussian, rows)
        if shared_gram:
            gram = xp.sum(in_component, axis=-2, keepdims=True)
        else:
            gram = xp.matmul(transpose(xp.ones_like(x) if observed is None else observed), in_component)
        curvature, linear = self.quadratic.curvature, self.quadratic.linear
        if curvature.shape[-4] == 1:  # classes share the bounds
            moments = in_component[..., None, :, :, :]
        bound_cross = _sum_classes(xp.matmul(transpose(linear), moments[..., -n_augmented:]))
        return FactorStats(
            count=count,
            centered_sum=centered_sum,
            centered_square=centered_square,
            gram=gram,
            cross=xp.matmul(transpose(x), in_component[..., -n_augmented:]),
            sum_x2=xp.matmul(xp.sum(weight, axis=-3), x * x),
            bound_gram=_sum_classes(xp.matmul(transpose(curvature), moments)),
            bound_cross=bound_cross,
        )


def _sum_classes(a: Array) -> Array:
    """Over the fourth axis from the end."""
    return a[..., 0, :, :, :] if a.shape[-4] == 1 else namespace(a).sum(a, axis=-4)


def infer_rows(
    layout: ColumnLayout,
    params: FactorParams,
    rows: MaskedRows,
    rules: BoundRules,
    uncertainty: Uncertainty | None = None,
    memo: dict[str, Any] | None = None,
    labels: Array | None = None,
    share_bounds: bool = False,
) -> RowPosterior:
    """Posterior of z for every row, class and component, with the bounds at their fixed point.

    With `labels` (N,) each row has its own class alone; with `share_bounds` the classes of a row
    share its bounds. The search for the fixed point starts from what an earlier call has left in
    `memo`.
    """
    xp = namespace(params.loadings)
    q, n_rows = params.means.shape[-1], rows.values.shape[0]
    prior = LatentPrior.of(params, uncertainty, labels)
    form = gaussian_form(layout, params, uncertainty, rows)
    none = xp.zeros_like(params.offsets[..., None, :, None, :0])
    quadratic = Quadratic(none, none, 0.0)
    if layout.n_bounded:
        bounded = BoundedColumns(layout, params, uncertainty, rows)
        shared = share_bounds and prior.mean.shape[-4] > 1
        key = f"bounds of {'labeled' if labels is not None else 'unlabeled' if shared else 'all'} rows"
        start = None if memo is None else memo.get(key)
        shape = (*params.log_prior.shape[:-1], prior.mean.shape[-4], params.log_mix.shape[-1], n_rows, q)
        if start is None or start.moments.mean.shape != shape:
            start = BoundState.under_prior(prior, len(layout.bounded), shared)
        here = settle_bounds(bounded, form, prior, start, rules)
        quadratic = bounded.bound(here.bounded_moments, here.warm_starts if start.is_warm else None)
        form = bounded.add_to(form, quadratic)
    latents = posterior_of(form, prior)
    if memo is not None and layout.n_bounded and q:
        memo[key] = here.after(quadratic, latents)
    shape = (*latents.scores.shape[:-1], n_rows)

    def for_each_row(a: Array) -> Array:
        return xp.broadcast_to(a, (*a.shape[:-2], n_rows, a.shape[-1]))

    return RowPosterior(
        xp.broadcast_to(latents.scores, shape),
        xp.broadcast_to(latents.mean, (*shape, q)),
        xp.broadcast_to(latents.cov, (*shape, q, q)),
        prior.mean,
        Quadratic(for_each_row(quadratic.curvature), for_each_row(quadratic.linear), quadratic.constant),
    )
