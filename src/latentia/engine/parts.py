"""Pieces of a table that live anywhere, and how work gets to them.

`Parts` is all that the rest of the library knows of files and of clusters: a function goes to every
piece, wherever it is, and only its result comes back.

Rows that come in parts, from files or from the workers of a cluster.

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

import os
import pickle
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np

from latentia.engine.rows import (
    ArraySource,
    Chunk,
    Draw,
    LabelTotals,
    Limits,
    Preprocess,
    TableSource,
    Totals,
    add_totals,
    evenly_spaced,
    join_draws,
)


class Parts(ABC):
    """Pieces in an order. Functions must be values that can travel: they see one piece alone."""

    @property
    def n_places(self) -> int | None:
        """How many work at a time, if pieces stay with them; None where each is read anew."""
        return None

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def map(self, fn: Callable[..., Any], args: Sequence[Any] | None = None) -> Parts:
        """The pieces that `fn` makes of these, and of an argument of its own for each if given;
        made where they are and when they are needed.
        """

    @abstractmethod
    def keep(self) -> Parts:
        """The same pieces, made once and kept where they are, if there is room."""

    @abstractmethod
    def join(self, groups: Sequence[Sequence[int]], fn: Callable[[list[Any]], Any]) -> Parts:
        """The pieces that `fn` makes of the pieces of each group."""

    @abstractmethod
    def select(self, index: Sequence[int]) -> Parts:
        """Some of the pieces."""

    @abstractmethod
    def gather(self, fn: Callable[..., Any], args: Sequence[Any] | None = None) -> list[Any]:
        """`fn` of every piece, and of an argument of its own if given, in order, here: it must be
        small.
        """

    @abstractmethod
    def total(self, fn: Callable[..., Any], add: Callable[[list[Any]], Any], args: Sequence[Any] | None = None) -> Any:
        """The same, added up by `add` on the way, in order: no more than the sum comes here."""


class LocalParts(Parts):
    """Pieces that are read one after the other in this process, and then forgotten.

    What does not fit into memory is kept in a temporary folder: there it is read again faster than
    where it came from, and takes as much disk as its numbers do.

    Parameters
    ----------
    readers : sequence of callables without arguments
        What reads each piece.
    fits_memory : bool
        Whether `keep` may hold all pieces at once.
    is_kept : bool
        Whether the pieces are at hand already, but for what is quickly done with them.
    """

    def __init__(self, readers: Sequence[Callable[[], Any]], fits_memory: bool = False, is_kept: bool = False):
        self.readers = list(readers)
        self.fits_memory, self.is_kept = fits_memory, is_kept

    def __len__(self) -> int:
        return len(self.readers)

    def map(self, fn: Callable[..., Any], args: Sequence[Any] | None = None) -> LocalParts:
        own = [()] * len(self) if args is None else [(arg,) for arg in args]
        readers = [_Chain(read, fn, arg) for read, arg in zip(self.readers, own, strict=True)]
        return LocalParts(readers, self.fits_memory, self.is_kept)

    def keep(self) -> LocalParts:
        if self.fits_memory:
            return LocalParts([_Kept(read()) for read in self.readers], True, True)
        if self.is_kept:
            return self
        folder = TemporaryFolder()
        return LocalParts([_Stored(read(), folder, k) for k, read in enumerate(self.readers)], False, True)

    def join(self, groups: Sequence[Sequence[int]], fn: Callable[[list[Any]], Any]) -> LocalParts:
        readers = [_Chain(_All([self.readers[k] for k in group]), fn, ()) for group in groups]
        return LocalParts(readers, self.fits_memory, self.is_kept)

    def select(self, index: Sequence[int]) -> LocalParts:
        return LocalParts([self.readers[k] for k in index], self.fits_memory, self.is_kept)

    def gather(self, fn: Callable[..., Any], args: Sequence[Any] | None = None) -> list[Any]:
        return list(self._each(fn, args))

    def total(self, fn: Callable[..., Any], add: Callable[[list[Any]], Any], args: Sequence[Any] | None = None) -> Any:
        return reduce(lambda a, b: add([a, b]), self._each(fn, args))

    def _each(self, fn: Callable[..., Any], args: Sequence[Any] | None) -> Iterator[Any]:
        for k, read in enumerate(self.readers):
            yield fn(read()) if args is None else fn(read(), args[k])


def group_small(sizes: Sequence[int], limit: int) -> list[list[int]]:
    """Neighbors together, as long as their sizes add up to no more than a limit."""
    groups: list[list[int]] = []
    total = 0
    for k, size in enumerate(sizes):
        total += size
        if groups and total <= limit:
            groups[-1].append(k)
        else:
            groups.append([k])
            total = size
    return groups


class _Chain:
    """A reader followed by a function."""

    def __init__(self, read: Callable[[], Any], fn: Callable[..., Any], args: tuple[Any, ...]):
        self.read, self.fn, self.args = read, fn, args

    def __call__(self) -> Any:
        return self.fn(self.read(), *self.args)


class _All:
    """Several readers as one."""

    def __init__(self, readers: list[Callable[[], Any]]):
        self.readers = readers

    def __call__(self) -> list[Any]:
        return [read() for read in self.readers]


class _Kept:
    """A piece that has been read."""

    def __init__(self, piece: Any):
        self.piece = piece

    def __call__(self) -> Any:
        return self.piece


class TemporaryFolder:
    """A folder that is deleted with the last that refers to it, or at exit."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="latentia-")
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


class _Stored:
    """A piece that lies in a temporary folder."""

    def __init__(self, piece: Any, folder: TemporaryFolder, number: int):
        self.folder, self.path = folder, os.path.join(folder.name, f"{number}.part")
        try:
            with open(self.path, "wb") as file:
                pickle.dump(piece, file, protocol=5)
        except OSError as error:
            raise OSError(
                f"no working copy of the rows can be written to {folder.name}: {error}. The environment variable "
                "TMPDIR names another folder."
            ) from error

    def __call__(self) -> Any:
        with open(self.path, "rb") as file:
            return pickle.load(file)


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
