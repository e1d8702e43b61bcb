"""E-step of training rows that have posteriors of their own, with a label or without.

A row with a label needs its own class alone; a row without one needs all classes, and one bound
serves them (`bound_iteration`).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from latentia.arrays.namespace import Array, logsumexp_and_softmax, namespace, one_hot
from latentia.engine.rows import MaskedRows
from latentia.engine.tree import tree_add
from latentia.families.latent_factors.bound_iteration import BoundRules
from latentia.families.latent_factors.column_layout import ColumnLayout
from latentia.families.latent_factors.e_step_rows import RowPosterior, infer_rows
from latentia.families.latent_factors.posterior import Uncertainty
from latentia.families.latent_factors.values import FactorParams, FactorPosterior, FactorStats


class RowBlock(NamedTuple):
    """Some of the rows and their latents."""

    numbers: Array | None  # of the rows; None for all rows
    rows: MaskedRows
    latents: RowPosterior


class BlockedPosterior(NamedTuple):
    """The latents of rows with a label, under their own class, and of the others."""

    blocks: list[RowBlock]

    def statistics(
        self, params: FactorParams, layout: ColumnLayout, rows: MaskedRows, weight: Array, shared_gram: bool
    ) -> FactorStats:
        xp = namespace(weight)
        total: Any = None
        for numbers, some, latents in self.blocks:
            w = weight if numbers is None else xp.take(weight, numbers, axis=-1)
            stats = latents.statistics(params, layout, some, w, shared_gram)
            total = stats if total is None else tree_add(total, stats)
        return total


def infer_by_label(
    layout: ColumnLayout,
    params: FactorParams,
    rows: MaskedRows,
    y: Array,
    rules: BoundRules,
    uncertainty: Uncertainty | None = None,
    memo: dict[str, Any] | None = None,
) -> FactorPosterior:
    """Scores of rows with the labels y (N,), -1 for none: -inf where a row is of another class."""
    xp = namespace(params.means)
    infer = partial(infer_rows, layout, params, rules=rules, uncertainty=uncertainty, memo=memo)
    n_classes = params.log_prior.shape[-1]
    blocks, log_joints, components = [], [], []
    for labeled in (False, True) if y.shape[0] else (False,):
        index = xp.nonzero((y >= 0) == labeled)[0]
        if not index.shape[0]:
            continue
        whole = index.shape[0] == y.shape[0]
        some = rows if whole else _take_rows(rows, index)
        labels = xp.take(y, index, axis=0) if labeled else None
        latents = infer(some, labels=labels, share_bounds=not labeled)
        log_joint, component = logsumexp_and_softmax(xp.asarray(latents.scores, copy=True), axis=-2)
        if labels is not None:
            own = one_hot(labels, n_classes, log_joint.dtype) > 0
            log_joint = xp.where(own, log_joint, xp.full_like(log_joint, -float("inf")))
            shape = (*component.shape[:-3], n_classes, *component.shape[-2:])
            component = xp.broadcast_to(component, shape)
        blocks.append(RowBlock(None if whole else index, some, latents))
        log_joints.append(log_joint)
        components.append(component)
    if len(blocks) == 1:
        return FactorPosterior(log_joints[0], components[0], BlockedPosterior(blocks))
    back = xp.argsort(xp.concat([block.numbers for block in blocks]))
    log_joint, component = (xp.take(xp.concat(parts, axis=-1), back, axis=-1) for parts in (log_joints, components))
    return FactorPosterior(log_joint, component, BlockedPosterior(blocks))


def _take_rows(rows: MaskedRows, index: Array) -> MaskedRows:
    xp = namespace(rows.values)
    observed = None if rows.observed is None else xp.take(rows.observed, index, axis=0)
    return MaskedRows(xp.take(rows.values, index, axis=0), observed)
