"""Candidates of the multimodal softmax: configurations, trained one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from latentia.arrays.namespace import asarray_like, namespace, to_numpy
from latentia.engine.contracts import ConditionalFamily, Params
from latentia.engine.rows import Chunk, Source, Totals
from latentia.engine.sweep import rows_per_chunk
from latentia.engine.tree import leaves
from latentia.estimators.latent_softmax.fitted import Candidate, search_table
from latentia.estimators.latent_softmax.subclass_search import (
    Configuration,
    FittedConfiguration,
    Parent,
    Proposal,
    SubclassSearch,
    class_of_subclass,
)
from latentia.estimators.latent_softmax.subclass_spec import SubclassSpec
from latentia.estimators.latent_softmax.training import Trainer
from latentia.families.blocks.weights import GammaPrior
from latentia.families.softmax_tree.subclasses import SoftmaxWeights


def train_proposals(
    trainer: Trainer, search: SubclassSearch, proposals: Iterable[Proposal], prior: GammaPrior
) -> tuple[Candidate, dict[str, Any]]:
    """Train what a search proposes, until a callback stops it; the best, and the table of all."""
    for proposal in proposals:
        spec = SubclassSpec(proposal.configuration, prior)
        candidate = trainer.train(spec, tuple(_kept_weights(parent) for parent in proposal.sources))
        family, params = trainer.inference.trained_family(candidate.model)
        proportions = subclass_proportions(proposal.configuration, family, params, trainer.rows.modeled)
        search.record(proposal, FittedConfiguration(candidate.score, proportions, candidate))
        if trainer.stopped:
            break
    entries = search.entries.values()
    columns: dict[str, list[Any]] = {
        "n_subclasses": list(search.entries),
        "round": [entry.round for entry in entries],
        "parents": [entry.parents for entry in entries],
        "children": list(search.children().values()),
    }
    table = search_table([entry.fitted.model for entry in entries], **columns)
    return search.entries[search.best].fitted.model, table


def _kept_weights(parent: Parent) -> SoftmaxWeights:
    """A parent's weights of the subclasses that were kept."""
    weights = parent.fitted.model.model.point_estimate.weights
    xp = namespace(weights)
    return SoftmaxWeights(xp.take(weights, asarray_like(np.flatnonzero(parent.kept), weights, dtype=xp.int64), axis=0))


def subclass_proportions(
    configuration: Configuration, family: ConditionalFamily, params: Params, rows: Source
) -> np.ndarray:
    """Part (S,) of its class that each subclass holds (eq. 33)."""

    def visit(chunk: Chunk) -> Totals:
        responsibilities = family.infer(params, chunk.rows, chunk.y).responsibilities
        return {"sum": namespace(responsibilities).sum(chunk.weighted(responsibilities), axis=-1)}

    sums = rows.sum_over_chunks(visit, rows_per_chunk(family.floats_per_row(params), next(leaves(params))))["sum"]
    subclass_weight = to_numpy(sums).astype(float)
    labels = class_of_subclass(configuration)
    class_weight = np.bincount(labels, subclass_weight, minlength=len(configuration))
    return subclass_weight / np.maximum(class_weight, 1e-300)[labels]
