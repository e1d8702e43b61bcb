"""Which E-step serves which rows: the cheapest that is exact for them."""

from __future__ import annotations

from typing import Any

from latentia.arrays.namespace import Array, logsumexp_and_softmax, namespace
from latentia.engine.rows import MaskedRows
from latentia.families.latent_factors.bound_iteration import BoundRules
from latentia.families.latent_factors.column_layout import ColumnLayout
from latentia.families.latent_factors.e_step_by_label import infer_by_label
from latentia.families.latent_factors.e_step_complete import infer_complete_rows, row_invariant_posterior
from latentia.families.latent_factors.e_step_gaps import infer_rows_with_gaps
from latentia.families.latent_factors.e_step_no_latents import infer_without_latents
from latentia.families.latent_factors.e_step_rows import infer_rows
from latentia.families.latent_factors.posterior import Uncertainty
from latentia.families.latent_factors.values import FactorParams, FactorPosterior, LatentPosterior


def infer_posterior(
    layout: ColumnLayout,
    params: FactorParams,
    rows: MaskedRows,
    y: Array | None,
    rules: BoundRules,
    uncertainty: Uncertainty | None = None,
    memo: dict[str, Any] | None = None,
) -> FactorPosterior:
    """Scores of rows, and the posteriors of components and latents; of labeled rows, where labels y
    are given, perhaps under their own class alone.
    """
    if y is not None and not layout.all_gaussian and params.means.shape[-1]:
        return infer_by_label(layout, params, rows, y, rules, uncertainty, memo)
    scores, latents = infer_latents(layout, params, rows, rules, uncertainty, memo)
    if scores.shape[-2] == 1:
        return FactorPosterior(scores[..., 0, :], namespace(scores).ones_like(scores), latents)
    log_joint, component = logsumexp_and_softmax(scores, axis=-2)
    return FactorPosterior(log_joint, component, latents)


def infer_latents(
    layout: ColumnLayout,
    params: FactorParams,
    rows: MaskedRows,
    rules: BoundRules,
    uncertainty: Uncertainty | None = None,
    memo: dict[str, Any] | None = None,
) -> tuple[Array, LatentPosterior]:
    """Log joint of class, component and row (may be overwritten), and the posterior of z."""
    if layout.all_gaussian and rows.observed is None:  # posteriors differ in their means alone
        return infer_complete_rows(row_invariant_posterior(params, uncertainty), rows.values)
    if layout.all_gaussian and params.means.shape[-1]:
        return infer_rows_with_gaps(params, uncertainty, rows)
    if not params.means.shape[-1] and (found := infer_without_latents(layout, params, rows, uncertainty)):
        return found
    posterior = infer_rows(layout, params, rows, rules, uncertainty, memo)
    return namespace(posterior.scores).asarray(posterior.scores, copy=True), posterior
