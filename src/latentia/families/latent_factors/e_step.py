"""Which E-step serves which rows: the cheapest that is exact for them."""

from __future__ import annotations

from typing import Any

from latentia.engine.source import MaskedRows
from latentia.families.latent_factors.column_layout import ColumnLayout
from latentia.families.latent_factors.e_step_complete import infer_complete_rows, row_invariant_posterior
from latentia.families.latent_factors.e_step_no_latents import infer_without_latents
from latentia.families.latent_factors.e_step_rows import infer_rows
from latentia.families.latent_factors.posterior import Uncertainty
from latentia.families.latent_factors.values import FactorParams, LatentPosterior
from latentia.numerics.array_api import Array, namespace


def shares_posterior(layout: ColumnLayout, rows: MaskedRows) -> bool:
    """Whether posteriors of rows differ in their means alone: complete continuous rows."""
    return layout.all_gaussian and rows.observed is None


def infer_latents(
    layout: ColumnLayout,
    params: FactorParams,
    rows: MaskedRows,
    tol: float,
    max_rounds: int,
    uncertainty: Uncertainty | None = None,
    memo: dict[str, Any] | None = None,
) -> tuple[Array, LatentPosterior]:
    """Log joint of class, component and row (may be overwritten), and the posterior of z."""
    if shares_posterior(layout, rows):
        return infer_complete_rows(row_invariant_posterior(params, uncertainty), rows.values)
    if not params.means.shape[-1] and (found := infer_without_latents(layout, params, rows, uncertainty)):
        return found
    posterior = infer_rows(layout, params, rows, tol, max_rounds, uncertainty, memo)
    return namespace(posterior.scores).asarray(posterior.scores, copy=True), posterior
