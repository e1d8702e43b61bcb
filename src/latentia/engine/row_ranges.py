"""How a pass over the rows is cut: into ranges of rows, and these into tasks for the cores."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np


class RowRange(NamedTuple):
    """Consecutive rows, in the order in which a pass visits them."""

    start: int
    stop: int
    label: int | None  # the label that all of them have, if the pass goes by label

    @property
    def as_slice(self) -> slice:
        return slice(self.start, self.stop)


def label_ranges(sorted_y: np.ndarray) -> list[RowRange]:
    """The range of each label in sorted labels."""
    changes = np.flatnonzero(sorted_y[1:] != sorted_y[:-1]) + 1
    edges = [0, *changes.tolist(), sorted_y.size]
    return [RowRange(a, b, int(sorted_y[a])) for a, b in zip(edges[:-1], edges[1:], strict=True) if b > a]


def split_ranges(ranges: list[RowRange], max_rows: int, by_label: bool = False) -> list[RowRange]:
    """Adjacent ranges, cut evenly into some of at most `max_rows` rows; of one label if asked."""
    if ranges and not by_label:
        ranges = [RowRange(ranges[0].start, ranges[-1].stop, None)]
    out = []
    for start, stop, label in ranges:
        size = stop - start
        n_parts = max(1, math.ceil(size / max_rows))
        edges = [start + k * size // n_parts for k in range(n_parts + 1)]
        out += [RowRange(a, b, label) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    return out


def join_ranges(ranges: list[RowRange], max_rows: int) -> Iterator[list[RowRange]]:
    """Tasks of adjacent ranges with at most `max_rows` rows together.

    A label with few rows makes no task of its own.
    """
    task: list[RowRange] = []
    for rows in ranges:
        if task and rows.stop - task[0].start > max_rows:
            yield task
            task = []
        task.append(rows)
    if task:
        yield task


def pack_tasks(tasks: list[list[RowRange]], max_tasks: int) -> list[list[RowRange]]:
    """The same work in at most `max_tasks` tasks."""
    size = max(1, math.ceil(len(tasks) / max_tasks))
    return [[rows for task in tasks[k : k + size] for rows in task] for k in range(0, len(tasks), size)]
