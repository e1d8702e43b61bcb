"""Rows that come in parts: in memory, in a temporary folder, or on the workers of a cluster.

`Parts` is all that the library knows of where they are: a function goes to every part, and only
its result comes back. Each part is an `ArraySource`; a pass sends the visitor to all parts and adds
up what they return, so nothing here has the size of the table. What a training keeps for each row
of an array is kept, or made, in the parts:

- class codes and sample weights come with the rows of a part;
- a preprocessed copy, and where the inference of rows has ended in the last sweep, stay with a part
  that is kept where it lives (on a worker, or here if the whole table is small);
- the weight of unlabeled rows is a factor that parts apply to their own;
- the starts, the power transform, the temperature and the choice of the weight of unlabeled rows
  look at a sample, whose rows are the same for every kind of source (`draw_rows`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial, reduce
from typing import TypeVar

import numpy as np

from latentia.arrays.namespace import Array, to_numpy
from latentia.engine.rows import (
    ArraySource,
    Chunk,
    Draw,
    K,
    LabelTotals,
    Limits,
    Preprocess,
    TableSource,
    Totals,
    V,
    add_totals,
    evenly_spaced,
    join_draws,
)

R = TypeVar("R")


class Parts(ABC):
    """Parts in an order. Functions must be values that can travel: they see one part alone, and an
    argument of its own where some are given.
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def select(self, index: Sequence[int]) -> Parts:
        """Some of the parts."""

    @abstractmethod
    def make(self, fn: Callable[..., ArraySource], args: Sequence[object] | None = None) -> Parts:
        """The parts that `fn` makes of these, kept where they are if there is room."""

    @abstractmethod
    def gather(self, fn: Callable[..., R], args: Sequence[object] | None = None) -> list[R]:
        """`fn` of every part, in order, here: it must be small."""

    @abstractmethod
    def total(self, fn: Callable[..., R], add: Callable[[list[R]], R], args: Sequence[object] | None = None) -> R:
        """The same, added up by `add` on the way, in order: no more than the sum comes here."""


class LocalParts(Parts):
    """Parts in this process, one after the other.

    What does not fit into memory lies in a temporary folder: there it is read faster than where it
    came from, and takes as much disk as its numbers do.
    """

    def __init__(self, readers: Sequence[Callable[[], ArraySource]], fits_memory: bool):
        self.readers, self.fits_memory = list(readers), fits_memory

    @classmethod
    def keep(cls, parts: Iterable[ArraySource], fits_memory: bool) -> LocalParts:
        """These parts, of which no two are in memory together unless all may be."""
        folder = None if fits_memory else TemporaryFolder()
        kept = (partial(_same, part) if folder is None else folder.store(part) for part in parts)
        return cls(list(kept), fits_memory)

    def __len__(self) -> int:
        return len(self.readers)

    def select(self, index: Sequence[int]) -> LocalParts:
        return LocalParts([self.readers[k] for k in index], self.fits_memory)

    def make(self, fn: Callable[..., ArraySource], args: Sequence[object] | None = None) -> LocalParts:
        if self.fits_memory:
            return LocalParts.keep(self._each(fn, args), True)
        own = [()] * len(self) if args is None else [(arg,) for arg in args]
        return LocalParts([partial(_made, read, fn, *arg) for read, arg in zip(self.readers, own, strict=True)], False)

    def gather(self, fn: Callable[..., R], args: Sequence[object] | None = None) -> list[R]:
        return list(self._each(fn, args))

    def total(self, fn: Callable[..., R], add: Callable[[list[R]], R], args: Sequence[object] | None = None) -> R:
        return reduce(lambda a, b: add([a, b]), self._each(fn, args))

    def _each(self, fn: Callable[..., R], args: Sequence[object] | None) -> Iterator[R]:
        for k, read in enumerate(self.readers):
            yield fn(read()) if args is None else fn(read(), args[k])


def _same(part: ArraySource) -> ArraySource:
    return part


def _made(read: Callable[[], ArraySource], fn: Callable[..., ArraySource], *args: object) -> ArraySource:
    return fn(read(), *args)


class TemporaryFolder:
    """A folder that is deleted with the last that refers to it, or at exit."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="latentia-")
        self.n_parts = 0
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)

    def store(self, part: ArraySource) -> Callable[[], ArraySource]:
        """What reads a part again, of which nothing stays in memory but how it is preprocessed."""
        path = os.path.join(self.name, f"{self.n_parts}.npy")
        self.n_parts += 1
        arrays = [part.X, part.y] if part.weight is None else [part.X, part.y, part.weight]
        try:
            with open(path, "wb") as file:
                for array in arrays:
                    np.save(file, to_numpy(array), allow_pickle=False)
        except OSError as error:
            raise OSError(
                f"no working copy of the rows can be written to {self.name}: {error}. The environment variable "
                "TMPDIR names another folder."
            ) from error
        return partial(self._read, path, len(arrays), part.preprocess)

    def _read(self, path: str, n_arrays: int, preprocess: Preprocess) -> ArraySource:
        with open(path, "rb") as file:
            X, y, *rest = [np.load(file, allow_pickle=False) for _ in range(n_arrays)]
        return ArraySource(X, y, rest[0] if rest else None, preprocess, cache_mib=0)


class ChunkedSource(TableSource):
    """Rows of a table in parts.

    Parameters
    ----------
    parts : Parts
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

    @classmethod
    def of_parts(cls, parts: Parts, n_features: int, is_weighted: bool) -> ChunkedSource:
        """The rows of parts of which some may be empty."""
        totals = parts.gather(count_labels)
        filled = [k for k, part in enumerate(totals) if part]
        return cls(parts.select(filled), [totals[k] for k in filled], n_features, is_weighted)

    @property
    def label_totals(self) -> dict[int, LabelTotals]:
        joined: dict[int, LabelTotals] = {}
        for part in self.totals:
            for label, total in part.items():
                so_far = joined.get(label, LabelTotals(0, 0, 0.0))
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
        return self._made_by(partial(ArraySource.with_preprocess, preprocess=preprocess))

    def _weigh_unlabeled(self, factor: float) -> ChunkedSource:
        source = self._made_by(partial(ArraySource.with_unlabeled_weight, factor=factor))
        source.totals = [_scale_unlabeled(part, factor) for part in self.totals]
        source.is_weighted = True
        return source

    def labeled_only(self) -> ChunkedSource:
        if self.skip_unlabeled or not self.any_unlabeled:
            return self
        source = self._made_by(ArraySource.labeled_only)
        source.skip_unlabeled = True
        return source

    def drop_rows(self, index: np.ndarray) -> ChunkedSource:
        ends = np.searchsorted(index, self.starts)
        local = [index[a:b] - start for a, b, start in zip(ends[:-1], ends[1:], self.starts[:-1], strict=True)]
        source = self._made_by(ArraySource.drop_rows, local)
        source.totals = source.parts.gather(count_labels)
        source.is_weighted = True
        return source

    def map_targets(self, fn: Callable[[np.ndarray], np.ndarray]) -> ChunkedSource:
        """The same rows, whose y is `fn` of what it was."""
        return self._made_by(partial(_map_targets, fn=fn))

    def map_columns(self, fn: Callable[[Array], Array], n_features: int) -> ChunkedSource:
        """The same rows, with the columns that `fn` makes of theirs."""
        source = self._made_by(partial(_map_columns, fn=fn))
        source.n_features = n_features
        return source

    def _made_by(self, fn: Callable[..., ArraySource], args: Sequence[object] | None = None) -> ChunkedSource:
        """The source whose parts are `fn` of these."""
        parts = self.parts.make(fn, args)
        return ChunkedSource(parts, self.totals, self.n_features, self.is_weighted, self.skip_unlabeled)

    def sum_over_chunks(
        self, fn: Callable[[Chunk], Totals[K, V]], max_rows: int, by_label: bool = False
    ) -> Totals[K, V]:
        visit = partial(_visit, fn=fn, max_rows=max_rows, by_label=by_label, errors=partial(np.errstate, **np.geterr()))
        return self.parts.total(visit, add_totals)

    def first_rows(self, n_rows: int) -> ArraySource:
        found: list[ArraySource] = []
        for k in range(len(self.parts)):
            found += self.parts.select([k]).gather(partial(ArraySource.first_rows, n_rows=n_rows))
            n_rows -= found[-1].n_rows
            if n_rows <= 0:
                break
        return join_sources(found)

    def spread_rows(self, n_rows: int, labeled: bool = False) -> ArraySource:
        least = 0 if labeled or self.skip_unlabeled else -1
        n_counted = [sum(n.n_weighted for label, n in part.items() if label >= least) for part in self.totals]
        starts = np.concatenate([[0], np.cumsum(n_counted)])
        return self._take(evenly_spaced(int(starts[-1]), n_rows), starts, partial(_take_counted, labeled=labeled))

    def subset(self, index: np.ndarray) -> ArraySource:
        return self._take(np.sort(index), self.starts, ArraySource.subset).subset(np.argsort(np.argsort(index)))

    def _take(self, index: np.ndarray, starts: np.ndarray, take: Callable[..., ArraySource]) -> ArraySource:
        """The rows of these sorted numbers, of which part k has those from ``starts[k]`` on."""
        part = np.searchsorted(starts, index, side="right") - 1
        hit = np.unique(part)
        return join_sources(self.parts.select(hit.tolist()).gather(take, [index[part == k] - starts[k] for k in hit]))

    def draw(self, n_rows: Limits, seed: int, rates: str) -> dict[int, Draw]:
        draw, join = partial(_draw, n_rows=n_rows, seed=seed, rates=rates), partial(join_draws, n_rows=n_rows)
        return join_draws([self.parts.total(draw, join, self.starts[:-1].tolist())], n_rows)


def _visit(
    rows: ArraySource,
    fn: Callable[[Chunk], Totals[K, V]],
    max_rows: int,
    by_label: bool,
    errors: Callable[[], AbstractContextManager[None]],
) -> Totals[K, V]:
    """One pass over the chunks of a part, in which floating-point errors are treated as here."""
    with errors():
        return rows.sum_over_chunks(fn, max_rows, by_label)


def _take_counted(rows: ArraySource, index: np.ndarray, labeled: bool) -> ArraySource:
    """Rows of these numbers among the (labeled) ones that have weight."""
    return rows.subset(rows.counted_rows(labeled)[index])


def _draw(rows: ArraySource, first_row: int, n_rows: Limits, seed: int, rates: str) -> dict[int, Draw]:
    """Rows that a part draws, which begins at some row of the table."""
    return rows.draw(n_rows, seed, rates, first_row)


def _map_targets(rows: ArraySource, fn: Callable[[np.ndarray], np.ndarray]) -> ArraySource:
    return rows.with_table(rows.X, fn(rows.y))


def _map_columns(rows: ArraySource, fn: Callable[[Array], Array]) -> ArraySource:
    return rows.with_table(fn(rows.X), rows.y)


def count_labels(rows: ArraySource) -> dict[int, LabelTotals]:
    """The label totals of a part."""
    return rows.label_totals


def _scale_unlabeled(totals: dict[int, LabelTotals], factor: float) -> dict[int, LabelTotals]:
    if -1 not in totals:
        return totals
    n_rows, n_weighted, weight = totals[-1]
    return {**totals, -1: LabelTotals(n_rows, n_weighted if factor > 0 else 0, weight * factor)}


def join_sources(parts: Sequence[ArraySource]) -> ArraySource:
    """The rows of several parts as one source."""
    first = parts[0]
    if len(parts) == 1:
        return first
    weight = None
    if any(part.weight is not None for part in parts):
        weight = np.concatenate([np.ones(part.n_rows) if part.weight is None else part.weight for part in parts])
    X, y = (np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "y"))
    return ArraySource(X, y, weight, first.preprocess, first.skip_unlabeled, first.cache_mib)
