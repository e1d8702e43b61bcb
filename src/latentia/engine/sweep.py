"""The one sweep in which family, objective and source meet, which of them may, and the objectives.

An objective gives the value of a row and its derivative in each class score, after W. Roth,
master's thesis, Graz University of Technology, chapter 3. With scores ``s_c = log p(x, c)``, label
y, competitors ``c != y``:

- likelihood:   ``s_y``; for an unlabeled row ``log sum_c exp s_c``, whose derivative is the class
  posterior (eq. 3.33-3.34)
- conditional:  ``s_y - log sum_c exp s_c``; an unlabeled row counts nothing
- margin:       ``-h(gamma - s_y + smax_{c != y} s_c)`` with the soft maximum
  ``smax t = log(sum exp(eta t)) / eta`` (eq. 3.19) and the soft hinge
  ``h(t) = 0, (t + eps)^2 / (4 eps), t`` below, within, above ``[-eps, eps]`` (eq. 3.17); its slope
  runs from 0 to 1 over that interval. With a ramp nu the loss stops growing: ``h(t) - h(t - nu)``.
  An unlabeled row counts nothing.
- hybrid:       likelihood + lambda * margin (eq. 3.35; 3.16 and 3.21 forget the logarithms that
  3.11 has)
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np

from latentia.arrays.namespace import Array, log_softmax, logsumexp, namespace, one_hot, softmax
from latentia.engine.contracts import (
    ConditionalFamily,
    EMFamily,
    Family,
    Objective,
    Params,
    Posterior,
    SmoothFamily,
    Stats,
    Sweep,
)
from latentia.engine.rows import Chunk, Source, rows_per_chunk
from latentia.engine.tree import concat_classes, leaves, select_class, tree_add


class GivenRows(Protocol):
    """What a problem asks of a family whatever its types are (see `Family`)."""

    def given_rows(self, source: Source) -> Self: ...


F_co = TypeVar("F_co", bound=GivenRows, covariant=True)


class RowProblem(Generic[F_co]):
    """Family, objective and source; `sweep` is the only place where they meet.

    All that a solver may touch: `family`, `total_weight`, `sweep` and `take_restarts`.
    """

    def __init__(self, family: F_co, objective: Objective, source: Source, max_chunk_rows: int | None = None):
        self.family = family.given_rows(source)
        self.objective = objective
        self.source = source
        self.max_chunk_rows = max_chunk_rows
        self._chunk_rows = max_chunk_rows  # of the last sweep

    @property
    def total_weight(self) -> float:
        return self.source.total_weight

    def take_restarts(self, index: np.ndarray) -> RowProblem[F_co]:
        """The problem of these restarts, in the same chunks: what a sweep has left for the next
        belongs to chunks.
        """
        source = self.source.take_restarts(index)
        if source is self.source:
            return self
        other = copy(self)  # whose family has been given these rows
        other.source, other.max_chunk_rows = source, self._chunk_rows
        return other

    def sweep(self: RowProblem[Family[Params, Stats, Posterior]], params: Params) -> Sweep[Stats]:
        """Value and weighted expected statistics in one pass."""
        family = self.family
        visit = _Visit(family, self.objective, family.precompute(params))
        self._chunk_rows = self.rows_per_chunk(params)
        one_class = self._own_class and not family.takes_all_labels
        by_label = self.source.sum_over_chunks(visit, self._chunk_rows, by_label=one_class)
        values = [part.value for part in by_label.values()]
        value = sum(values[1:], start=values[0]) + family.log_prior(params)
        stats = None if None not in by_label else by_label[None].stats
        of_classes = {label: part.stats for label, part in by_label.items() if label is not None}
        if of_classes:
            joined = concat_classes(of_classes, family.stats_class_axes, family.n_classes)
            stats = joined if stats is None else tree_add(joined, stats)
        assert stats is not None  # a source has rows
        return Sweep(value, stats)

    @property
    def _own_class(self) -> bool:
        return self.objective.own_class_only and not isinstance(self.family, ConditionalFamily)

    def rows_per_chunk(self: RowProblem[Family[Params, Stats, Posterior]], params: Params) -> int:
        """Rows whose working memory fits the budget."""
        if self.max_chunk_rows is not None:
            return self.max_chunk_rows
        if self._own_class and not self.source.any_unlabeled:
            params = select_class(params, self.family.params_class_axes, 0)
        return rows_per_chunk(self.family.floats_per_row(params), next(leaves(params)))


@dataclass(frozen=True)
class _Visit(Generic[Params, Stats, Posterior]):
    """What a sweep does with a chunk: all that must travel to where the rows are."""

    family: Family[Params, Stats, Posterior]
    objective: Objective
    precomputed: Params

    def __call__(self, chunk: Chunk) -> dict[int | None, Sweep[Stats]]:
        family = self.family
        label = chunk.label if chunk.label is not None and chunk.label >= 0 else None
        mine = self.precomputed
        if label is not None:
            mine = select_class(mine, family.precomputed_class_axes, label)
        y = chunk.y if self.objective.own_class_only else None
        posterior = family.infer(mine, chunk.rows, y, chunk.memo)
        value, weight = self._value_and_weight(posterior.log_joint, chunk.y, label)
        stats = family.statistics(mine, chunk.rows, posterior, chunk.weighted(weight))
        return {label: Sweep(namespace(value).sum(chunk.weighted(value), axis=-1), stats)}

    def _value_and_weight(self, log_joint: Array, y: Array, label: int | None) -> tuple[Array, Array]:
        """The objective of rows, or their only score: of their own class, or conditional."""
        if label is not None or isinstance(self.family, ConditionalFamily):
            return log_joint[..., 0, :], namespace(log_joint).ones_like(log_joint)
        return self.objective.evaluate(log_joint, y)


def check_compatible(
    family: Family[Params, Stats, Posterior], objective: Objective, needs_em: bool, needs_gradient: bool
) -> None:
    """Refuse the combinations of parts that cannot work, each with its reason."""
    name, kind = type(objective).__name__, type(family).__name__
    if needs_em and not objective.rises_under_em:
        raise ValueError(
            f"objective={name} can fall under EM, which takes only objectives that are convex and non-decreasing in "
            "the class scores (likelihood of labeled and unlabeled rows). Use the L-BFGS solver instead."
        )
    if needs_em and not isinstance(family, EMFamily):
        raise ValueError(f"family={kind} has no M-step (`update`), so EM cannot train it. Use L-BFGS.")
    if needs_gradient and not isinstance(family, SmoothFamily):
        raise ValueError(
            f"family={kind} has no unconstrained coordinates (`to_free`, `from_free`, `gradient`), so L-BFGS cannot "
            "train it. Use EM with objective='likelihood'."
        )
    if isinstance(family, ConditionalFamily) and not (objective.rises_under_em and objective.own_class_only):
        raise ValueError(
            f"objective={name} compares class scores, but family={kind} scores only the given labels: "
            "it takes objective=Likelihood alone."
        )


SOFT_HINGE = 0.1  # epsilon of eq. 3.17

SOFT_MAXIMUM = 10.0  # eta of eq. 3.19


@dataclass(frozen=True)
class Likelihood(Objective):
    """log p(x, y); log p(x) for unlabeled rows."""

    rises_under_em: ClassVar[bool] = True
    own_class_only: ClassVar[bool] = True
    is_density: ClassVar[bool] = True

    def evaluate(self, log_joint: Array, y: Array) -> tuple[Array, Array]:
        xp = namespace(log_joint)
        own, known = _labels(log_joint, y)
        score = _own_score(log_joint, own)
        if bool(xp.all(known)):
            return score, xp.broadcast_to(own, log_joint.shape)
        class_posterior = softmax(log_joint, axis=-2)
        return xp.where(known, score, logsumexp(log_joint, axis=-2)), xp.where(known, own, class_posterior)


@dataclass(frozen=True)
class Conditional(Objective):
    """log p(y | x)."""

    def evaluate(self, log_joint: Array, y: Array) -> tuple[Array, Array]:
        xp = namespace(log_joint)
        own, known = _labels(log_joint, y)
        class_posterior = softmax(log_joint, axis=-2)
        value = _own_score(log_softmax(log_joint, axis=-2), own)
        return (
            xp.where(known, value, xp.zeros_like(value)),
            xp.where(known, own - class_posterior, xp.zeros_like(class_posterior)),
        )


@dataclass(frozen=True)
class Margin(Objective):
    """Minus the soft hinge of the desired margin less the log ratio to the best competitor."""

    margin: float = 1.0
    ramp: float | None = None

    def evaluate(self, log_joint: Array, y: Array) -> tuple[Array, Array]:
        xp = namespace(log_joint)
        own, known = _labels(log_joint, y)
        if log_joint.shape[-2] == 1:  # a single class has no competitor
            return xp.zeros_like(log_joint[..., 0, :]), xp.zeros_like(log_joint)
        scores = log_softmax(log_joint, axis=-2)  # differences are all that counts, and keep their digits
        rivals = xp.where(own > 0, xp.full_like(scores, -float("inf")), scores) * SOFT_MAXIMUM
        shortfall = self.margin - _own_score(scores, own) + logsumexp(rivals, axis=-2) / SOFT_MAXIMUM
        loss, slope = soft_hinge(shortfall)
        if self.ramp is not None:
            capped, capped_slope = soft_hinge(shortfall - self.ramp)
            loss, slope = loss - capped, slope - capped_slope
        competitors = softmax(rivals, axis=-2)
        none = xp.zeros_like(slope)
        loss, slope = xp.where(known, loss, none), xp.where(known, slope, none)
        return -loss, slope[..., None, :] * (own - competitors)

    @classmethod
    def examples(cls) -> list[Margin]:
        return [cls(margin=0.7), cls(margin=0.7, ramp=1.5)]


@dataclass(frozen=True)
class Hybrid(Objective):
    """Likelihood plus `trade_off` times the margin; unlabeled rows count in the likelihood."""

    is_density: ClassVar[bool] = True
    trade_off: float = 1.0
    margin: float = 1.0
    ramp: float | None = None

    def evaluate(self, log_joint: Array, y: Array) -> tuple[Array, Array]:
        value, weight = Likelihood().evaluate(log_joint, y)
        margin_value, margin_weight = Margin(self.margin, self.ramp).evaluate(log_joint, y)
        return value + self.trade_off * margin_value, weight + self.trade_off * margin_weight

    @classmethod
    def examples(cls) -> list[Hybrid]:
        return [cls(trade_off=1.7, margin=0.7), cls(trade_off=1.7, margin=0.7, ramp=1.5)]


def soft_hinge(t: Array, width: float = SOFT_HINGE) -> tuple[Array, Array]:
    """The hinge with a parabola of half-width `width` at its kink; its slope (eq. 3.17, 3.18)."""
    xp = namespace(t)
    slope = xp.clip((t + width) / (2 * width), min=0.0, max=1.0)
    return xp.where(t > width, t, slope * slope * width), slope


def _labels(log_joint: Array, y: Array) -> tuple[Array, Array]:
    """Indicators (C, N) of the labels, and which rows have one."""
    return one_hot(y, log_joint.shape[-2], log_joint.dtype), y >= 0


def _own_score(log_joint: Array, own: Array) -> Array:
    xp = namespace(log_joint)
    return xp.sum(xp.where(own > 0, log_joint, xp.zeros_like(log_joint)), axis=-2)


#: Objectives by the names users give; each takes what it needs of trade-off, margin and ramp.
OBJECTIVES: dict[str, Callable[[float, float, float | None], Objective]] = {
    "likelihood": lambda trade_off, margin, ramp: Likelihood(),
    "conditional": lambda trade_off, margin, ramp: Conditional(),
    "margin": lambda trade_off, margin, ramp: Margin(margin, ramp),
    "hybrid": Hybrid,
}
