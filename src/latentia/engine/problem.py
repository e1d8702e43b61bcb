"""The one sweep in which family, objective and source meet, and which of them may."""

from __future__ import annotations

from sklearn import get_config

from latentia.engine.contracts import Block, Family, Objective, Params, SmoothFamily, Source, Sweep, Totals
from latentia.engine.pytree import join_classes, leaves, select_class, tree_add
from latentia.numerics.array_api import Array, namespace, on_host


class Problem:
    """Family, objective and source; `sweep` is the only place where they meet."""

    def __init__(self, family: Family, objective: Objective, source: Source, chunk_rows: int | None = None):
        self.family = family
        self.objective = objective
        self.source = source
        self.chunk_rows = chunk_rows

    @property
    def total_weight(self) -> float:
        return self.source.total_weight

    def sweep(self, params: Params) -> Sweep:
        """Value and weighted expected statistics in one pass."""
        family = self.family
        own_class = self._own_class
        prepared = family.prepare(params)

        def visit(block: Block) -> Totals:
            label = block.label if own_class and block.label is not None and block.label >= 0 else None
            mine = prepared if label is None else select_class(prepared, family.prepared_class_axes, label)
            posterior = family.infer(mine, block.cells, block.y)
            xp = namespace(posterior.log_joint)
            if label is not None:
                value, weight = posterior.log_joint[..., 0, :], xp.ones_like(posterior.log_joint)
            else:
                value, weight = self.objective(posterior.log_joint, block.y)
            if block.weight is not None:
                value, weight = value * block.weight, weight * block.weight
            stats = family.statistics(mine, block.cells, posterior, weight)
            return {"all" if label is None else label: stats, "value": xp.sum(value, axis=-1)}

        totals = self.source.reduce(visit, self.rows_per_chunk(params), by_label=own_class)
        value = totals.pop("value") + family.log_prior(params)
        every = totals.pop("all", None)
        if not totals:
            return Sweep(value, every)
        stats = join_classes(totals, family.stats_class_axes, family.n_classes)
        return Sweep(value, stats if every is None else tree_add(stats, every))

    @property
    def _own_class(self) -> bool:
        return self.objective.own_class_only and not self.family.conditional

    def rows_per_chunk(self, params: Params) -> int:
        """Rows whose working memory fits the budget."""
        if self.chunk_rows is not None:
            return self.chunk_rows
        if self._own_class and not self.source.any_unlabelled:
            params = select_class(params, self.family.params_class_axes, 0)
        return chunk_rows(self.family.row_size(params), next(leaves(params)))


#: Working memory of one chunk, in MiB: a few times the second-level cache is where sweeps run fastest.
CHUNK_MIB = 8


def chunk_rows(numbers_per_row: int, beside: Array | None = None) -> int:
    """Rows whose working memory fits `CHUNK_MIB`, or scikit-learn's `working_memory` if that is less.

    An accelerator, where `beside` may live, wants few large chunks: it gets all of `working_memory`.
    """
    budget = get_config()["working_memory"] * 2**20
    if beside is None or on_host(beside):
        budget = min(budget, CHUNK_MIB * 2**20)
    return max(1, int(budget // (8 * max(1, numbers_per_row))))


def check_compatible(family: Family, objective: Objective, needs_em: bool, needs_gradient: bool) -> None:
    """Refuse the combinations of parts that cannot work, each with its reason."""
    name = type(objective).__name__
    if needs_em and not objective.rises_under_em:
        raise ValueError(
            f"objective={name} can fall under EM, which takes only objectives that are convex and non-decreasing in the class scores "
            "(likelihood of labelled and unlabelled rows). Use the L-BFGS solver instead."
        )
    if needs_gradient and not isinstance(family, SmoothFamily):
        raise ValueError(
            f"family={type(family).__name__} has no unconstrained coordinates, so L-BFGS cannot train it. Use EM with objective='likelihood'."
        )
    if family.conditional and not (objective.rises_under_em and objective.own_class_only):
        raise ValueError(
            f"objective={name} compares class scores, but family={type(family).__name__} scores only the given labels: it takes objective=Likelihood alone."
        )
