"""Rows in the main memory, computed on a device that they need not fit into.

A pass copies one range of rows while the device works on the one before: of pinned memory the copy
takes no time of its own. Ranges are read in the order of the table; where a pass goes by label, the
rows of each are picked on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np

from latentia.engine.array_source import ArraySource
from latentia.engine.masking import Preprocess
from latentia.engine.row_ranges import RowRange, split_ranges
from latentia.engine.source import Chunk, Totals, add_totals
from latentia.numerics.array_api import Array, take_rows


class StreamedSource(ArraySource):
    """Rows of a PyTorch tensor in the main memory, of which chunks are copied to `device`.

    `X.pin_memory()` lets copies run behind the computation. Other parameters are those of
    `ArraySource`; samples, which are small, live on the device.
    """

    def __init__(
        self,
        X: Array,
        y: np.ndarray,
        weight: np.ndarray | None = None,
        preprocess: Preprocess | None = None,
        skip_unlabeled: bool = False,
        *,
        device: Any,
    ):
        super().__init__(X, y, weight, preprocess, skip_unlabeled, cache_mib=0)
        self.device = device
        self._memos = None  # they would be as large as the table

    def with_preprocess(self, preprocess: Preprocess) -> StreamedSource:
        return StreamedSource(self.X, self.y, self.weight, preprocess, self.skip_unlabeled, device=self.device)

    def sum_over_chunks(self, fn: Callable[[Chunk], Totals], max_rows: int, by_label: bool = False) -> Totals:
        return add_totals(fn(chunk) for chunk in self._chunks(max_rows, by_label and self._has_codes))

    def _chunks(self, max_rows: int, by_label: bool) -> Iterator[Chunk]:
        ranges = split_ranges([RowRange(0, self.n_rows, None)], max_rows)
        copy = _copy_behind(self.device)
        ahead = copy(self.X[ranges[0].as_slice, ...])
        for k, rows in enumerate(ranges):
            here, ahead = ahead(), copy(self.X[ranges[k + 1].as_slice, ...]) if k + 1 < len(ranges) else ahead
            y = self.y[rows.as_slice]
            labels = np.unique(y).tolist() if by_label else [None]
            for label in labels:
                chosen = y == label if by_label else y >= 0 if self._skips else np.ones(len(y), dtype=bool)
                if chosen.any() and not (self._skips and label == -1):
                    yield self._picked(here, rows, chosen, label)

    def _picked(self, here: Array, rows: RowRange, chosen: np.ndarray, label: int | None) -> Chunk:
        index = np.flatnonzero(chosen)
        some = here if index.size == chosen.size else take_rows(here, index)
        return self._labeled(self.preprocess(some), rows.start + index, label)

    def _with_rows(self, X: Array, y: np.ndarray, weight: np.ndarray | None, skip: bool) -> ArraySource:
        if X is self.X:
            return StreamedSource(X, y, weight, self.preprocess, skip, device=self.device)
        return ArraySource(X.to(self.device), y, weight, self.preprocess, skip)


def _copy_behind(device: Any) -> Callable[[Array], Callable[[], Array]]:
    """A function that begins to copy rows, and returns what waits for their copy."""
    torch: Any = import_module("torch")
    if torch.device(device).type != "cuda":
        return lambda rows: lambda: rows.to(device)
    stream = torch.cuda.Stream(device)

    def begin(rows: Array) -> Callable[[], Array]:
        with torch.cuda.stream(stream):
            copy = rows.to(device, non_blocking=True)
            done = stream.record_event()

        def end() -> Array:
            current = torch.cuda.current_stream(device)
            current.wait_event(done)
            copy.record_stream(current)  # its memory is not given away before the last kernel has read it
            return copy

        return end

    return begin
