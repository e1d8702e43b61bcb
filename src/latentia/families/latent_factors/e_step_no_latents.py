r"""E-step of models without factors: classes of mixtures of independent columns.

All rows share the predictors of a component, so the bound of a column is the same for all of them
but for what its model calls the *terms* of a cell: its trials and hits (`column_contract`). Scores
are then products of parameters with the rows' cells and terms, and statistics are weighted sums of
these.
"""

from __future__ import annotations

from typing import NamedTuple

from latentia.arrays.linalg import params_at_rows, weighted_row_sums
from latentia.arrays.namespace import LOG_2PI, Array, namespace
from latentia.engine.rows import MaskedRows
from latentia.families.latent_factors.column_contract import CellTerms, Quadratic, SharedBoundModel
from latentia.families.latent_factors.column_layout import ColumnLayout
from latentia.families.latent_factors.posterior import Uncertainty
from latentia.families.latent_factors.values import FactorParams, FactorStats


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
