"""What a model must know of a table's columns before it can read them: names, dtypes, distinct
values.

A digest has no more entries than the columns have values, so that of a table in parts is joined
from those of its parts, and both kinds of table are read by the same rules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from latentia.inputs.column_kinds import as_numbers, holds_only_bits, is_textual
from latentia.inputs.dataframes import (
    ColumnType,
    column_names,
    column_types,
    distinct_values,
    frame_type,
    raw_column,
    sorting_key,
)


class TableDigest(ABC):
    """The columns of a table."""

    frame: str  # "pandas", "polars", "pyarrow" or "array"
    names: list[Any]
    types: tuple[ColumnType, ...]  # of a data frame's columns; none for an array
    is_textual: bool  # whether it is an array of objects or text
    whole: tuple[bool, ...]  # which columns have integers for a dtype

    def __init__(self, table: Any):
        self.frame, self.names, self.types = frame_type(table), column_names(table), column_types(table)
        self.is_textual = is_textual(table)
        if self.types:
            self.whole = tuple(kind.is_integer for kind in self.types)
        else:
            self.whole = ("int" in str(getattr(table, "dtype", "")),) * table.shape[1]

    @property
    @abstractmethod
    def only_bits(self) -> bool:
        """Whether all known cells of a numeric array are 0 or 1, and there are any."""

    @abstractmethod
    def distinct(self, place: int) -> tuple[list[Any], np.ndarray]:
        """The values of a column, in their order, and how many cells have each."""

    @abstractmethod
    def frequencies(self, place: int) -> np.ndarray:
        """What the known cells with each value of a column weigh: a row of weight two has two."""

    @abstractmethod
    def numbers(self, place: int) -> tuple[np.ndarray, np.ndarray | None]:
        """The known cells of a column of numbers, or its values and how many cells have each."""


class MemoryDigest(TableDigest):
    """The columns of a table in memory."""

    def __init__(self, table: Any, weight: np.ndarray | None = None):
        super().__init__(table)
        self.table, self.weight = table, weight

    @cached_property
    def only_bits(self) -> bool:
        return holds_only_bits(self.table)

    def distinct(self, place: int) -> tuple[list[Any], np.ndarray]:
        return self._count(place, None)

    def frequencies(self, place: int) -> np.ndarray:
        return self._count(place, self.weight)[1]

    def _count(self, place: int, weight: np.ndarray | None) -> tuple[list[Any], np.ndarray]:
        try:
            values, numbers = distinct_values(self.table, place)
        except TypeError:  # a list has no hash
            as_numbers(raw_column(self.table, place), self.names[place])  # whose error names the column
            raise
        known = numbers >= 0
        return values, np.bincount(numbers[known], None if weight is None else weight[known], minlength=len(values))

    def numbers(self, place: int) -> tuple[np.ndarray, np.ndarray | None]:
        cells = as_numbers(raw_column(self.table, place), self.names[place])
        return cells[~np.isnan(cells)], None


def digest_of(table: Any) -> TableDigest:
    """A digest, or that of a table in memory."""
    return table if isinstance(table, TableDigest) else MemoryDigest(table)


def join_distinct(parts: Sequence[tuple[list[Any], np.ndarray]], is_category: bool) -> tuple[list[Any], np.ndarray]:
    """The distinct values of a column, from those of its parts.

    Categories are in one order in all parts; other values are sorted, numbers before text.
    """
    counts: dict[Any, int | float] = {}
    for values, numbers in parts:
        for value, number in zip(values, numbers.tolist(), strict=True):
            counts[value] = counts.get(value, 0) + number
    values = list(counts) if is_category else sorted(counts, key=sorting_key)
    dtype = np.result_type(*(numbers for _, numbers in parts))
    return values, np.array([counts[value] for value in values], dtype=dtype)
