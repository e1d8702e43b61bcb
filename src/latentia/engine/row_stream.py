"""Rows in the main memory that pass through the memory of a device, which they need not fit into.

One part of the rows is copied while the device works on the part before. A few buffers on the
device take the parts in turn. Rows in pageable memory, of an array or of a file, go through pinned
buffers that a thread fills. What the device may hold besides is kept there from pass to pass, so a
table that fits is copied once.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from latentia.arrays.namespace import Array
from latentia.engine.row_draws import evenly_spaced
from latentia.engine.row_ranges import RowRange, split_ranges

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
