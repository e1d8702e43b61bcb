"""The one sweep in which family, objective and source meet, and which of them may."""

from __future__ import annotations

from sklearn import get_config

from latentia.engine.contracts import Chunk, Family, Objective, Params, SmoothFamily, Source, Sweep, Totals
from latentia.engine.pytree import concat_classes, leaves, select_class, tree_add
from latentia.numerics.array_api import Array, is_on_cpu, namespace


class RowProblem:
    """Family, objective and source; `sweep` is the only place where they meet."""

    def __init__(self, family: Family, objective: Objective, source: Source, max_chunk_rows: int | None = None):
        self.family = family
        self.objective = objective
        self.source = source
        self.max_chunk_rows = max_chunk_rows

    @property
    def total_weight(self) -> float:
        return self.source.total_weight

    def sweep(self, params: Params) -> Sweep:
        """Value and weighted expected statistics in one pass."""
        family = self.family
        own_class = self._own_class
        precomputed = family.precompute(params)

        def visit(chunk: Chunk) -> Totals:
            label = chunk.label if own_class and chunk.label is not None and chunk.label >= 0 else None
            mine = precomputed if label is None else select_class(precomputed, family.precomputed_class_axes, label)
            posterior = family.infer(mine, chunk.cells, chunk.y)
            xp = namespace(posterior.log_joint)
            if label is not None:
                value, weight = posterior.log_joint[..., 0, :], xp.ones_like(posterior.log_joint)
            else:
                value, weight = self.objective(posterior.log_joint, chunk.y)
            if chunk.weight is not None:
                value, weight = value * chunk.weight, weight * chunk.weight
            stats = family.statistics(mine, chunk.cells, posterior, weight)
            return {"all" if label is None else label: stats, "value": xp.sum(value, axis=-1)}

        totals = self.source.sum_over_chunks(visit, self.rows_per_chunk(params), by_label=own_class)
        value = totals.pop("value") + family.log_prior(params)
        every = totals.pop("all", None)
        if not totals:
            return Sweep(value, every)
        stats = concat_classes(totals, family.stats_class_axes, family.n_classes)
        return Sweep(value, stats if every is None else tree_add(stats, every))

    @property
    def _own_class(self) -> bool:
        return self.objective.own_class_only and not self.family.conditional

    def rows_per_chunk(self, params: Params) -> int:
        """Rows whose working memory fits the budget."""
        if self.max_chunk_rows is not None:
            return self.max_chunk_rows
        if self._own_class and not self.source.any_unlabeled:
            params = select_class(params, self.family.params_class_axes, 0)
        return rows_per_chunk(self.family.floats_per_row(params), next(leaves(params)))


#: Working memory of one chunk, in MiB: a few times the second-level cache is where sweeps run fastest.
CHUNK_MIB = 8


def rows_per_chunk(numbers_per_row: int, like: Array | None = None) -> int:
    """Rows whose working memory fits `CHUNK_MIB`, or scikit-learn's `working_memory` if that is less.

    An accelerator, where `like` may live, wants few large chunks: it gets all of `working_memory`.
    """
    budget = get_config()["working_memory"] * 2**20
    if like is None or is_on_cpu(like):
        budget = min(budget, CHUNK_MIB * 2**20)
    return max(1, int(budget // (8 * max(1, numbers_per_row))))


def check_compatible(family: Family, objective: Objective, needs_em: bool, needs_gradient: bool) -> None:
    """Refuse the combinations of parts that cannot work, each with its reason."""
    name = type(objective).__name__
    if needs_em and not objective.rises_under_em:
        raise ValueError(
            f"objective={name} can fall under EM, which takes only objectives that are convex and non-decreasing in the class scores "
            "(likelihood of labeled and unlabeled rows). Use the L-BFGS solver instead."
        )
    if needs_gradient and not isinstance(family, SmoothFamily):
        raise ValueError(
            f"family={type(family).__name__} has no unconstrained coordinates, so L-BFGS cannot train it. Use EM with objective='likelihood'."
        )
    if family.conditional and not (objective.rises_under_em and objective.own_class_only):
        raise ValueError(
            f"objective={name} compares class scores, but family={type(family).__name__} scores only the given labels: it takes objective=Likelihood alone."
        )
