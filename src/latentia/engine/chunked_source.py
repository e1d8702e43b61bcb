"""Rows that come in parts, from files or from the workers of a cluster.

Each part is an `ArraySource` of its own, made where it is used; a pass sends the visitor to all
parts and adds up what they return. Nothing here has the size of the table. What a training keeps
for each row of an array is kept, or made, in the parts:

- class codes and sample weights come with the rows of a part;
- a preprocessed copy, and where the inference of rows has ended in the last sweep, stay with a part
  that is kept where it lives (on a worker, or here if the whole table is small);
- the weight of unlabeled rows is a factor that parts apply to their own;
- the starts, the power transform, the temperature and the choice of the weight of unlabeled rows
  look at a sample, whose rows are the same for every kind of source (`row_draws`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from latentia.engine.array_source import ArraySource
from latentia.engine.masking import Preprocess
from latentia.engine.parts import Parts, group_small
from latentia.engine.row_draws import Draw, Limits, evenly_spaced, join_draws
from latentia.engine.source import Chunk, LabelTotals, TableSource, Totals, add_totals


class ChunkedSource(TableSource):
    """Rows of a table in parts.

    Parameters
    ----------
    parts : Parts of ArraySource
        None of them may be empty.
    totals : list of dict
        The label totals of each part: how many rows it has of each label, and their weight.
    n_features : int
    is_weighted : bool
        Whether rows have weights.
    skip_unlabeled : bool
        Whether the parts pass over rows without a label.
    """

    is_weighted: bool = False

    def __init__(
        self,
        parts: Parts,
        totals: list[dict[int, LabelTotals]],
        n_features: int,
        is_weighted: bool,
        skip_unlabeled: bool = False,
    ):
        self.parts, self.totals, self.n_features = parts, totals, n_features
        self.is_weighted, self.skip_unlabeled = is_weighted, skip_unlabeled
        sizes = [sum(each.n_rows for each in part.values()) for part in totals]
        self.starts = np.concatenate([[0], np.cumsum(sizes)])
        self.n_rows = int(self.starts[-1])

    @property
    def label_totals(self) -> dict[int, LabelTotals]:
        joined: dict[int, LabelTotals] = {}
        for part in self.totals:
            for label, total in part.items():
                so_far = joined.get(label, NO_ROWS)
                joined[label] = LabelTotals(
                    so_far.n_rows + total.n_rows,
                    so_far.n_weighted + total.n_weighted,
                    so_far.weight + total.weight,
                )
        return {label: joined[label] for label in sorted(joined) if label >= 0 or not self.skip_unlabeled}

    @property
    def any_unlabeled(self) -> bool:
        return -1 in self.label_totals

    @property
    def total_weight(self) -> float:
        return float(sum(total.weight for total in self.label_totals.values()))

    def with_preprocess(self, preprocess: Preprocess) -> ChunkedSource:
        return self._with_parts(_WithPreprocess(preprocess))

    def _weigh_unlabeled(self, factor: float) -> ChunkedSource:
        source = self._with_parts(_WithUnlabeledWeight(factor))
        source.totals = [_scale_unlabeled(part, factor) for part in self.totals]
        source.is_weighted = True
        return source

    def labeled_only(self) -> ChunkedSource:
        if self.skip_unlabeled or not self.any_unlabeled:
            return self
        source = self._with_parts(ArraySource.labeled_only)
        source.skip_unlabeled = True
        return source

    def sum_over_chunks(self, fn: Callable[[Chunk], Totals], max_rows: int, by_label: bool = False) -> Totals:
        totals: Totals = self.parts.total(_Pass(fn, max_rows, by_label, np.geterr()), add_totals)
        return totals

    def first_rows(self, n_rows: int) -> ArraySource:
        found: list[ArraySource] = []
        for k in range(len(self.parts)):
            found += self.parts.select([k]).gather(ArraySource.first_rows, [n_rows])
            n_rows -= found[-1].n_rows
            if n_rows <= 0:
                break
        return join_sources(found)

    def spread_rows(self, n_rows: int, labeled: bool = False) -> ArraySource:
        least = 0 if labeled or self.skip_unlabeled else -1
        n_counted = [sum(n.n_weighted for label, n in part.items() if label >= least) for part in self.totals]
        starts = np.concatenate([[0], np.cumsum(n_counted)])
        return self._take(evenly_spaced(int(starts[-1]), n_rows), starts, _TakeCounted(labeled))

    def subset(self, index: np.ndarray) -> ArraySource:
        return self._take(np.sort(index)).subset(np.argsort(np.argsort(index)))

    def drop_rows(self, index: np.ndarray) -> ChunkedSource:
        ends = np.searchsorted(index, self.starts)
        local = [index[a:b] - start for a, b, start in zip(ends[:-1], ends[1:], self.starts[:-1], strict=True)]
        source = self._with_parts(ArraySource.drop_rows, local)
        source.totals = source.parts.gather(count_labels)
        source.is_weighted = True
        return source

    def batches(self, n_rows: int, rng: np.random.Generator) -> Iterator[ArraySource]:
        """Some parts at a time are brought here and mixed; of a small table all, as of an array."""
        order = rng.spawn(1)[0].permutation(len(self.parts))
        sizes = np.diff(self.starts)[order].tolist()
        for group in group_small(sizes, MIXED_MIB * 2**20 // (8 * self.n_features)):
            parts = self.parts.select(sorted(order[group].tolist())).gather(_itself)
            yield from join_sources(parts).batches(n_rows, rng)

    def map_targets(self, fn: Callable[[np.ndarray], np.ndarray]) -> ChunkedSource:
        """The same rows, whose y is `fn` of what it was."""
        return self._with_parts(_MapTargets(fn))

    def map_columns(self, fn: Callable[[Any], Any], n_features: int) -> ChunkedSource:
        """The same rows, with the columns that `fn` makes of theirs."""
        parts = self.parts.map(_MapColumns(fn)).keep()
        return ChunkedSource(parts, self.totals, n_features, self.is_weighted, self.skip_unlabeled)

    def draw(self, n_rows: Limits, seed: int, rates: str) -> dict[int, Draw]:
        draw, join = _Draw(n_rows, seed, rates), partial(join_draws, n_rows=n_rows)
        return join_draws([self.parts.total(draw, join, self.starts[:-1].tolist())], n_rows)

    def _with_parts(self, fn: Callable[..., Any], args: Sequence[Any] | None = None) -> ChunkedSource:
        """The source whose parts are `fn` of these, kept where they are."""
        parts = self.parts.map(fn, args).keep()
        return ChunkedSource(parts, self.totals, self.n_features, self.is_weighted, self.skip_unlabeled)

    def _take(self, index: np.ndarray, starts: np.ndarray | None = None, take: Any = ArraySource.subset) -> ArraySource:
        """The rows of these sorted numbers, of which part k has those from ``starts[k]`` on."""
        starts = self.starts if starts is None else starts
        part = np.searchsorted(starts, index, side="right") - 1
        hit = np.unique(part)
        local = [index[part == k] - starts[k] for k in hit]
        return join_sources(self.parts.select(hit.tolist()).gather(take, local))


#: Rows of several parts that are mixed for random batches, in MiB.
MIXED_MIB = 256

#: Of a label that a part does not have.
NO_ROWS = LabelTotals(0, 0, 0.0)


@dataclass(frozen=True)
class _Pass:
    """One pass over the chunks of a part."""

    fn: Callable[[Chunk], Totals]
    max_rows: int
    by_label: bool
    errors: Any  # how NumPy treats floating-point errors here

    def __call__(self, rows: ArraySource) -> Totals:
        with np.errstate(**self.errors):
            return rows.sum_over_chunks(self.fn, self.max_rows, self.by_label)


@dataclass(frozen=True)
class _WithPreprocess:
    preprocess: Preprocess

    def __call__(self, rows: ArraySource) -> ArraySource:
        return rows.with_preprocess(self.preprocess)


@dataclass(frozen=True)
class _WithUnlabeledWeight:
    factor: float

    def __call__(self, rows: ArraySource) -> ArraySource:
        return rows.with_unlabeled_weight(self.factor)


@dataclass(frozen=True)
class _TakeCounted:
    """Rows of these numbers among the (labeled) ones that have weight."""

    labeled: bool

    def __call__(self, rows: ArraySource, index: np.ndarray) -> ArraySource:
        return rows.subset(rows.counted_rows(self.labeled)[index])


@dataclass(frozen=True)
class _Draw:
    """Rows that a part draws, which begins at some row of the table."""

    n_rows: Limits
    seed: int
    rates: str

    def __call__(self, rows: ArraySource, first_row: int) -> dict[int, Draw]:
        return rows.draw(self.n_rows, self.seed, self.rates, first_row)


@dataclass(frozen=True)
class _MapTargets:
    fn: Callable[[np.ndarray], np.ndarray]

    def __call__(self, rows: ArraySource) -> ArraySource:
        return rows.with_table(rows.X, self.fn(rows.y))


@dataclass(frozen=True)
class _MapColumns:
    fn: Callable[[Any], Any]

    def __call__(self, rows: ArraySource) -> ArraySource:
        return rows.with_table(self.fn(rows.X), rows.y)


def _itself(rows: ArraySource) -> ArraySource:
    return rows


def count_labels(rows: ArraySource) -> dict[int, LabelTotals]:
    """The label totals of a part."""
    return rows.label_totals


def _scale_unlabeled(totals: dict[int, LabelTotals], factor: float) -> dict[int, LabelTotals]:
    if -1 not in totals:
        return totals
    n_rows, n_weighted, weight = totals[-1]
    return {**totals, -1: LabelTotals(n_rows, n_weighted if factor > 0 else 0, weight * factor)}


def join_sources(parts: list[ArraySource]) -> ArraySource:
    """The rows of several parts as one source."""
    first = parts[0]
    if len(parts) == 1:
        return first
    weighted = any(part.weight is not None for part in parts)
    weight = np.concatenate([_weights(part) for part in parts]) if weighted else None
    X, y = (np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "y"))
    return ArraySource(X, y, weight, first.preprocess, first.skip_unlabeled, first.cache_mib)


def _weights(rows: ArraySource) -> np.ndarray:
    return np.ones(rows.n_rows) if rows.weight is None else rows.weight
