"""Rows in the main memory, computed on a device that they need not fit into.

Parts are read in the order of the table; where a pass goes by label, the rows of each are picked on
the device. Labels, weights and the order of rows, which are small, stay there: on their way they
would wait for the copies of parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from latentia.arrays.namespace import Array, namespace
from latentia.engine.array_source import ArraySource
from latentia.engine.masking import Preprocess
from latentia.engine.row_ranges import RowRange, label_ranges, split_ranges
from latentia.engine.row_stream import N_WAITING, RowStream
from latentia.engine.source import Chunk, MaskedRows, Totals, add_totals


class StreamedSource(ArraySource):
    """Rows of a `RowStream`. Other parameters are those of `ArraySource`; samples, which are small,
    live on the device.
    """

    def __init__(
        self,
        stream: RowStream,
        y: np.ndarray,
        weight: np.ndarray | None = None,
        preprocess: Preprocess | None = None,
        skip_unlabeled: bool = False,
    ):
        super().__init__(stream.X, y, weight, preprocess, skip_unlabeled, cache_mib=0)
        self.stream = stream
        self._orders: dict[bool, list[_Order]] = {}  # by label or not

    def with_preprocess(self, preprocess: Preprocess) -> StreamedSource:
        return StreamedSource(self.stream, self.y, self.weight, preprocess, self.skip_unlabeled)

    def with_table(self, X: Array, y: np.ndarray) -> StreamedSource:
        stream = self.stream if X is self.X else self.stream.with_rows(X)
        return StreamedSource(stream, y, self.weight, self.preprocess, self.skip_unlabeled)

    def sum_over_chunks(self, fn: Callable[[Chunk], Totals], max_rows: int, by_label: bool = False) -> Totals:
        return add_totals(fn(chunk) for chunk in self._chunks(max_rows, by_label and self._has_codes))

    def _chunks(self, max_rows: int, by_label: bool) -> Iterator[Chunk]:
        if by_label not in self._orders:
            self._orders[by_label] = [self._order(rows, by_label) for rows in self.stream.ranges]
        waiting: dict[Any, list[Chunk]] = {}
        last = len(self.stream.ranges) - 1
        for k, (here, order) in enumerate(zip(self.stream, self._orders[by_label], strict=True)):
            preprocessed = self.preprocess(here) if order.labels else None
            for rows in order.labels:
                waiting.setdefault(rows.label, []).append(_visited(preprocessed, order, rows))
            at_once = len(order.labels) == 1 or k == last
            for label in [label for label in waiting if at_once or label % N_WAITING == k % N_WAITING]:
                yield from self._pieces(waiting.pop(label), self.stream.ranges[k].start, max_rows)

    def _pieces(self, chunks: list[Chunk], first: int, max_rows: int) -> Iterator[Chunk]:
        """Rows of one label that came with the part of row `first` or before, not too many at a
        time.
        """
        if any(chunk.rows.observed is not None for chunk in chunks):
            chunks = [chunk._replace(rows=_with_mask(chunk.rows)) for chunk in chunks]
        columns = zip(*((*chunk.rows, chunk.y, chunk.weight) for chunk in chunks), strict=True)
        (values, observed, y, weight), label = map(_joined, columns), chunks[0].label
        for rows in split_ranges([RowRange(0, values.shape[0], label)], max_rows):
            here = rows.as_slice
            mask, w = (None if a is None else a[here] for a in (observed, weight))
            place = RowRange(first + rows.start, first + rows.stop, label)
            yield self._remembered(Chunk(MaskedRows(values[here], mask), y[here], w, label), place)

    def _order(self, rows: RowRange, by_label: bool) -> _Order:
        """How the rows of a part are visited."""
        y = self.y[rows.as_slice]
        index, labels = None, [RowRange(0, y.shape[0], None)]
        if by_label:
            index = np.argsort(y.astype(np.int16) if y.max() < 2**15 else y, kind="stable")
            labels = self._counted(label_ranges(y[index]))
        elif self._skips:
            index = np.flatnonzero(y >= 0)
            labels = [RowRange(0, index.size, None)] if index.size else []
        if index is not None and index.size == y.shape[0] and (index[:-1] < index[1:]).all():
            index = None
        chosen = slice(None) if index is None else index
        labels_of_rows = None if by_label else y[chosen].astype(np.int32 if y.dtype.kind in "iu" else float)
        weight = None if self.weight is None else self.weight[rows.as_slice][chosen]
        places = None if index is None else index.astype(np.int32)
        return _Order(self._there(places), self._there(labels_of_rows), self._there(weight), labels)

    def _there(self, values: np.ndarray | None) -> Array:
        """Numbers on the device."""
        torch: Any = import_module("torch")
        return None if values is None else torch.from_numpy(np.ascontiguousarray(values)).to(self.stream.device.name)

    def _with_rows(self, X: Array, y: np.ndarray, weight: np.ndarray | None, skip: bool) -> ArraySource:
        if X is self.X:
            return StreamedSource(self.stream, y, weight, self.preprocess, skip)
        return ArraySource(X.to(self.stream.device.name), y, weight, self.preprocess, skip)


def _visited(part: Any, order: _Order, rows: RowRange) -> Chunk:
    """Some rows of a part, which is preprocessed on the device."""
    torch: Any = import_module("torch")
    values, here = part.values, rows.as_slice

    def visited(a: Any) -> Any:
        if order.places is not None:
            return torch.index_select(a, 0, order.places[here])
        return a[here] if len(order.labels) == 1 else a[here].clone()  # the part may go before them

    if rows.label is not None:
        y = torch.full((rows.stop - rows.start,), rows.label, dtype=torch.int64, device=values.device)
    else:
        y = order.y[here].to(torch.int64 if order.y.dtype == torch.int32 else values.dtype)
    weight = None if order.weight is None else order.weight[here].to(values.dtype)
    masked = MaskedRows(visited(values), None if part.observed is None else visited(part.observed))
    return Chunk(masked, y, weight, rows.label)


def _joined(arrays: tuple[Any, ...]) -> Any:
    """Rows of several parts."""
    torch: Any = import_module("torch")
    return arrays[0] if len(arrays) == 1 or arrays[0] is None else torch.cat(arrays)


def _with_mask(rows: MaskedRows) -> MaskedRows:
    """Rows with a mask, as those of a part with gaps have one."""
    return rows if rows.observed is not None else MaskedRows(rows.values, namespace(rows.values).ones_like(rows.values))


class _Order(NamedTuple):
    """In which order a pass visits the rows of a part, and what goes with them in that order."""

    places: Array | None  # (M,) numbers of rows; None: as they lie
    y: Array  # None where rows are visited by label
    weight: Array | None
    labels: list[RowRange]
