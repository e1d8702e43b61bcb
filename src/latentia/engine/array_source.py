"""Rows in memory or in a memory-mapped file, visited in blocks on all cores.

Small tables are prepared once and kept in the order of their labels, so that a block of one label is a contiguous view. Larger ones, and memory maps,
are read and prepared block by block in every pass, and the rows of a block are grouped by label inside it. Block results are added in the order of the blocks, so
sums do not depend on the number of threads.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device, is_numpy_array

from latentia.engine.contracts import Chunk, MaskedRows, Source, Totals
from latentia.engine.pytree import tree_add
from latentia.numerics.array_api import Array, asarray_like, has_nan, is_on_cpu, namespace, take_rows
from latentia.numerics.threads import parallel

#: Prepared tables up to this size are kept in memory, in MiB.
CACHE_MIB = 64


#: The same on an accelerator, where reading rows again costs more than the memory.
DEVICE_CACHE_MIB = 8192


#: Rows that are gathered and prepared together.
GATHER_CHUNK_ROWS = 4096


#: Tasks of one pass at most: each keeps its sums until all have ended.
MAX_TASKS = 64


#: First row, row after the last, and the label that the rows share.
Piece = tuple[int, int, int | None]


class ArraySource(Source):
    """Rows of an array or of a memory map."""

    def __init__(
        self,
        X: Array,
        y: np.ndarray,
        weight: np.ndarray | None = None,
        preprocess: Callable[[Array], MaskedRows] | None = None,
        skip_unlabeled: bool = False,
    ):
        self.X = X
        self.y = np.asarray(y)
        self.weight = None if weight is None else np.asarray(weight)
        self.preprocess = preprocess or mask_missing(None)
        self.n_rows, self.n_features = X.shape
        self.skip_unlabeled = skip_unlabeled
        self._sorted: _Sorted | None = None
        self._order: np.ndarray | None = None

    @property
    def any_unlabeled(self) -> bool:
        return not self.skip_unlabeled and bool((self.y < 0).any())

    @property
    def total_weight(self) -> float:
        counted = self.y >= 0 if self.skip_unlabeled else slice(None)
        return float(self.y[counted].shape[0] if self.weight is None else self.weight[counted].sum())

    def labeled_only(self) -> ArraySource:
        """The same rows without the unlabeled ones, for passes by label."""
        rows = ArraySource(self.X, self.y, self.weight, self.preprocess, skip_unlabeled=True)
        rows._sorted = self._sorted
        return rows

    def subset(self, index: np.ndarray) -> ArraySource:
        """Some of the rows, in this order."""
        X = take_rows(self.X, index)
        return ArraySource(X, self.y[index], None if self.weight is None else self.weight[index], self.preprocess)

    def drop_rows(self, index: np.ndarray) -> ArraySource:
        """All rows but these, which get no weight in a table that is read block by block: a copy of the others might not fit into memory."""
        stay = np.ones(self.n_rows)
        stay[index] = 0.0
        if self._fits_cache():
            return self.subset(np.flatnonzero(stay))
        return ArraySource(self.X, self.y, stay if self.weight is None else stay * self.weight, self.preprocess)

    def sum_over_chunks(self, fn: Callable[[Chunk], Totals], rows: int, by_label: bool = False) -> Totals:
        tasks = list(self._tasks(rows, by_label))
        each = math.ceil(len(tasks) / MAX_TASKS)
        errors = np.geterr()  # of this thread, which others would not know of

        def run(several: list[Callable[[], Iterable[Chunk]]]) -> Totals:
            chunks = (chunk for task in several for chunk in task())
            with np.errstate(**errors):
                return _add_up(fn(chunk) for chunk in chunks if not (self.skip_unlabeled and chunk.label == -1))

        together = [tasks[k : k + each] for k in range(0, len(tasks), each)]
        return _add_up(parallel(run, together, is_numpy_array(self.X)))

    def sample_rows(self, n_rows: int, rng: np.random.Generator) -> Chunk:
        """At most `n_rows` random rows of each label, drawn by weight."""
        labels = self.y if self.y.ndim == 1 and self.y.dtype.kind in "iu" else np.zeros(self.n_rows)
        chosen = []
        for label in np.unique(labels):
            if self.skip_unlabeled and label < 0:
                continue
            rows = np.flatnonzero(labels == label)
            if self.weight is not None:
                rows = rows[self.weight[rows] > 0]
            if rows.size > n_rows:
                share = None if self.weight is None else self.weight[rows] / self.weight[rows].sum()
                rows = rng.choice(rows, n_rows, replace=False, p=share)
            chosen.append(np.sort(rows))
        return self._chunk(np.concatenate(chosen), None)

    def _tasks(self, rows: int, by_label: bool) -> Iterator[Callable[[], Iterable[Chunk]]]:
        kept = self._keep()
        if kept is not None:
            for group in _groups(kept.pieces(rows, by_label), rows):
                yield _later(kept.chunks, group)
            return
        if by_label and not _is_mapped(self.X):  # rows in memory can be gathered from anywhere
            if self._order is None:
                self._order = _label_order(self.y)
            for label, first, last in _label_ranges(self.y[self._order]):
                for start, stop in _even_pieces(first, last, rows):
                    yield _later(self._gathered_chunk, start, stop, label)
            return
        for start, stop in _even_pieces(0, self.n_rows, rows):
            yield _later(self._read_chunks, start, stop, by_label)

    def _gathered_chunk(self, start: int, stop: int, label: int) -> Iterator[Chunk]:
        assert self._order is not None
        yield self._chunk(self._order[start:stop], label)

    def _keep(self) -> _Sorted | None:
        if self._sorted is None and self._fits_cache():
            self._sorted = _Sorted.of(self)
        return self._sorted

    def _fits_cache(self) -> bool:
        """Whether a prepared copy may be kept."""
        limit = CACHE_MIB if is_on_cpu(self.X) else DEVICE_CACHE_MIB
        return bool(self.n_rows * self.n_features * 8 <= limit * 2**20)

    def _read_chunks(self, start: int, stop: int, by_label: bool) -> Iterator[Chunk]:
        if not by_label:
            yield self._chunk(slice(start, stop), None)
            return
        y = self.y[start:stop]
        for label in np.unique(y):
            yield self._chunk(start + np.flatnonzero(y == label), int(label))

    def _gather(self, order: np.ndarray) -> Chunk:
        """All rows in another order, prepared piece by piece on all cores: no table on the way is as large as the result."""
        pieces = list(_even_pieces(0, self.n_rows, GATHER_CHUNK_ROWS))
        if len(pieces) == 1 or not is_numpy_array(self.X):
            return self._chunk(order, None)
        first = self._chunk(order[:1], None)
        values = np.empty((self.n_rows, self.n_features), dtype=first.rows.values.dtype)

        def fill(piece: tuple[int, int]) -> tuple[slice, np.ndarray | None]:
            part = slice(*piece)
            values[part], observed = self.preprocess(self.X[order[part]])
            return part, observed

        masks = parallel(fill, pieces)
        observed = None
        if any(mask is not None for _, mask in masks):
            observed = np.ones_like(values)
            for part, mask in masks:
                observed[part] = 1.0 if mask is None else mask
        weight = None if self.weight is None else self.weight[order].astype(values.dtype)
        return Chunk(MaskedRows(values, observed), self.y[order].astype(first.y.dtype), weight, None)

    def _chunk(self, index: Any, label: int | None) -> Chunk:
        cells = self.preprocess(self.X[index, ...] if isinstance(index, slice) else take_rows(self.X, index))
        like = cells.values if not hasattr(cells.values, "tocsr") else cells.values.data
        xp = namespace(like)
        kind = xp.int64 if self.y.dtype.kind in "iu" else like.dtype
        weight = None if self.weight is None else asarray_like(self.weight[index], like)
        return Chunk(cells, asarray_like(self.y[index], like, dtype=kind), weight, label)


def map_rows(
    X: Array, preprocess: Callable[[Array], MaskedRows], fn: Callable[[MaskedRows], Array], rows: int
) -> list[Array]:
    """`fn` of blocks of at most `rows` rows, in the order of the rows."""
    pieces = list(_even_pieces(0, X.shape[0], rows))
    return parallel(lambda piece: fn(preprocess(X[piece[0] : piece[1], ...])), pieces, is_numpy_array(X))


class _Sorted(NamedTuple):
    """A prepared copy of a small table, its rows in the order of their labels."""

    chunk: Chunk
    labels: list[tuple[int, int, int]]  # label, first row, row after the last

    @classmethod
    def of(cls, rows: ArraySource) -> _Sorted:
        if rows.y.ndim > 1 or rows.y.dtype.kind not in "iu":
            return cls(rows._chunk(slice(0, rows.n_rows), None), [(-1, 0, rows.n_rows)])
        order = _label_order(rows.y)
        return cls(rows._gather(order), _label_ranges(rows.y[order]))

    def chunks(self, pieces: list[Piece]) -> Iterator[Chunk]:
        (values, observed), y, weight, _ = self.chunk
        for start, stop, label in pieces:
            part = slice(start, stop)
            cells = MaskedRows(values[part, ...], None if observed is None else observed[part, ...])
            yield Chunk(cells, y[part, ...], None if weight is None else weight[part], label)

    def pieces(self, rows: int, by_label: bool) -> Iterator[Piece]:
        if not by_label:
            n_rows = self.labels[-1][2]
            for start, stop in _even_pieces(0, n_rows, rows):
                yield start, stop, None
            return
        for label, first, last in self.labels:
            for start, stop in _even_pieces(first, last, rows):
                yield start, stop, label


def _label_order(y: np.ndarray) -> np.ndarray:
    """Row numbers in the order of the labels; short integers are sorted by their digits, in linear time."""
    short = y.size and -(2**15) <= y.min() and y.max() < 2**15
    return np.argsort(y.astype(np.int16) if short else y, kind="stable")


def _label_ranges(sorted_y: np.ndarray) -> list[tuple[int, int, int]]:
    """Label, first row and row after the last, of sorted labels."""
    codes, starts = np.unique(sorted_y, return_index=True)
    stops = [*starts[1:], sorted_y.size]
    return [(int(c), int(a), int(b)) for c, a, b in zip(codes, starts, stops, strict=True)]


def _is_mapped(X: Array) -> bool:
    """Whether rows lie in a file, which is best read in its own order."""
    while isinstance(X, np.ndarray):
        if isinstance(X, np.memmap):
            return True
        X = X.base
    return isinstance(X, mmap.mmap)


def mask_missing(dtype: Any) -> Callable[[Array], MaskedRows]:
    def preprocess(X: Array) -> MaskedRows:
        if hasattr(X, "tocsr"):
            return MaskedRows(X, None)
        xp = namespace(X)
        values = xp.asarray(X, dtype=dtype, device=device(X)) if dtype is not None else xp.asarray(X)
        if not xp.isdtype(values.dtype, "real floating"):
            values = xp.astype(values, xp.float64)
        if not has_nan(values):
            return MaskedRows(values, None)
        missing = xp.isnan(values)
        return MaskedRows(xp.where(missing, xp.zeros_like(values), values), xp.astype(~missing, values.dtype))

    return preprocess


def _later(fn: Callable[..., Iterable[Chunk]], *args: Any) -> Callable[[], Iterable[Chunk]]:
    return lambda: fn(*args)


def _even_pieces(first: int, last: int, rows: int) -> Iterator[tuple[int, int]]:
    """Cut first..last into pieces of nearly equal length, at most `rows` each."""
    n_pieces = max(1, math.ceil((last - first) / rows))
    for k in range(n_pieces):
        yield first + k * (last - first) // n_pieces, first + (k + 1) * (last - first) // n_pieces


def _groups(pieces: Iterable[Piece], rows: int) -> Iterator[list[Piece]]:
    """Pieces that follow each other and have at most `rows` rows together: few rows of a label make no task of their own."""
    group: list[Piece] = []
    filled = 0
    for piece in pieces:
        size = piece[1] - piece[0]
        if group and filled + size > rows:
            yield group
            group, filled = [], 0
        group.append(piece)
        filled += size
    if group:
        yield group


def _add_up(parts: Iterable[Totals]) -> Totals:
    totals: Totals = {}
    for part in parts:
        for key, value in part.items():
            totals[key] = tree_add(totals[key], value) if key in totals else value
    return totals
