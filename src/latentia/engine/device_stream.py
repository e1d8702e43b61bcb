"""Rows in the main memory that pass through the memory of a device, which they need not fit into.

One part of the rows is copied while the device works on the part before. A few buffers on the
device take the parts in turn. Rows in pageable memory, of an array or of a file, go through pinned
buffers that a thread fills. What the device may hold besides is kept there from pass to pass, so a
table that fits is copied once.

Rows in the main memory, computed on a device that they need not fit into.

Parts are read in the order of the table; where a pass goes by label, the rows of each are picked on
the device. Labels, weights and the order of rows, which are small, stay there: on their way they
would wait for the copies of parts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from latentia.arrays.namespace import Array, namespace
from latentia.engine.rows import (
    ArraySource,
    Chunk,
    MaskedRows,
    Preprocess,
    RowRange,
    Totals,
    add_totals,
    evenly_spaced,
    label_ranges,
    split_ranges,
)

#: Rows that are copied together, in MiB.
PART_MIB = 256

#: Parts on the device at a time: one is worked on, the others are being copied.
N_BUFFERS = 3

#: Copies of a part that its preprocessing takes.
N_COPIES = 3

#: Parts whose rows wait on the device for more of their labels: a visit costs the host as much
#: time as the copy of some thousand rows.
N_WAITING = 3


@dataclass(frozen=True)
class Device:
    """Where rows are computed, and how much of its memory they may take."""

    name: str  # as PyTorch calls it
    memory_mib: float | None = None  # None: half of what is free


class RowStream:
    """Rows (N, D) in the main memory, which come to a device in parts.

    Parameters
    ----------
    X : ndarray or tensor
        Also a memory map. Copies from a pinned tensor (`X.pin_memory()`) need no buffer here.
    device : Device
    """

    def __init__(self, X: Any, device: Device):
        self.device = device
        self.X = _host_tensor(X)
        row_bytes = max(1, self.X.element_size() * self.X.shape[1])
        memory = _memory_bytes(device)
        part = max(row_bytes, int(min(PART_MIB * 2**20, memory / (N_BUFFERS + N_COPIES + N_WAITING))))
        self.ranges = split_ranges([RowRange(0, self.X.shape[0], None)], part // row_bytes)
        part = row_bytes * max((rows.stop - rows.start for rows in self.ranges), default=1)
        n_kept = max(0, int(memory // part) - min(N_BUFFERS, len(self.ranges)) - N_COPIES - N_WAITING)
        self.stays = set(evenly_spaced(len(self.ranges), n_kept).tolist())  # copies go on in between
        self._kept: dict[int, Array] = {}  # parts that have come to stay on the device

    def with_rows(self, X: Any) -> RowStream:
        """Other rows that take the same way."""
        return RowStream(X, self.device)

    def __iter__(self) -> Iterator[Array]:
        """The parts on the device, in order; each until the next is asked for."""
        torch: Any = import_module("torch")
        device = torch.device(self.device.name)
        if device.type != "cuda":
            return (self.X[rows.as_slice].to(device) for rows in self.ranges)
        return self._copied(torch, device)

    def _copied(self, torch: Any, device: Any) -> Iterator[Array]:
        kept, n_parts = self._kept, len(self.ranges)
        copier = _Copier(torch, device, self.X, [self.ranges[k] for k in range(n_parts) if k not in kept])
        with ThreadPoolExecutor(1) as pool:
            begin: Any = copier.begin if copier.staging is None else lambda n: pool.submit(copier.begin, n)
            ahead: list[Any] = [begin(n) for n in range(min(N_BUFFERS - 1, copier.n_parts))]
            n_copied = 0
            for k in range(n_parts):
                if k in kept:
                    yield kept[k]
                    continue
                if n_copied + len(ahead) < copier.n_parts:
                    ahead.append(begin(n_copied + len(ahead)))
                part = copier.end(ahead.pop(0))
                if k in self.stays:
                    part = kept[k] = part.clone()
                yield part
                copier.release(n_copied)
                n_copied += 1


class _Copier:
    """Copies parts to the device in a stream of its own."""

    def __init__(self, torch: Any, device: Any, X: Array, ranges: list[RowRange]):
        self.torch, self.device, self.X, self.ranges, self.n_parts = torch, device, X, ranges, len(ranges)
        self.stream = torch.cuda.Stream(device)
        shape = (max((rows.stop - rows.start for rows in ranges), default=0), X.shape[1])
        n_buffers = min(N_BUFFERS, len(ranges))
        self.buffers = [torch.empty(shape, dtype=X.dtype, device=device) for _ in range(n_buffers)]
        self.staging = None
        if not X.is_pinned():
            self.staging = [torch.empty(shape, dtype=X.dtype, pin_memory=True) for _ in range(n_buffers)]
        self.stream.wait_stream(torch.cuda.current_stream(device))
        self.copied: list[Any] = [None] * n_buffers  # events: the last copy into a buffer has ended
        self.released: list[Any] = [None] * n_buffers  # the last work on it, too

    def begin(self, k: int) -> tuple[Array, Any]:
        """Start to copy a part; its buffer, and the event that ends the copy."""
        slot, rows = k % len(self.buffers), self.ranges[k]
        here, there = self.X[rows.as_slice], self.buffers[slot][: rows.stop - rows.start]
        if self.staging is not None:
            if self.copied[slot] is not None:
                self.copied[slot].synchronize()
            here = self.staging[slot][: rows.stop - rows.start].copy_(here)
        with self.torch.cuda.stream(self.stream):
            if self.released[slot] is not None:
                self.stream.wait_event(self.released[slot])
            there.copy_(here, non_blocking=True)
            self.copied[slot] = self.stream.record_event()
        return there, self.copied[slot]

    def end(self, begun: Any) -> Array:
        """The part, which kernels from now on wait for."""
        part, copied = begun.result() if isinstance(begun, Future) else begun
        self.torch.cuda.current_stream(self.device).wait_event(copied)
        return part

    def release(self, k: int) -> None:
        """The buffer of a part may be filled again when the kernels so far have ended."""
        self.released[k % len(self.buffers)] = self.torch.cuda.current_stream(self.device).record_event()


def _host_tensor(X: Any) -> Array:
    """A tensor that shares the memory of rows."""
    torch: Any = import_module("torch")
    if isinstance(X, torch.Tensor):
        return X.detach()
    if X.dtype.kind not in "bif" or X.dtype.itemsize > 8 or not X.dtype.isnative or min(X.strides, default=0) < 0:
        X = np.ascontiguousarray(X, dtype=np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows of a memory map, which nobody writes to
        return torch.from_numpy(X)


def _memory_bytes(device: Device) -> float:
    if device.memory_mib is not None:
        return device.memory_mib * 2**20
    torch: Any = import_module("torch")
    if torch.device(device.name).type != "cuda":
        return PART_MIB * 2**20 * (N_BUFFERS + N_COPIES + N_WAITING)
    return float(torch.cuda.mem_get_info(device.name)[0]) / 2


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
