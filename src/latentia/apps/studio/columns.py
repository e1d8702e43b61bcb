"""A column of a model's table: cells from text, and values that a gap could have."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import pandas

from latentia.apps import JsonObject
from latentia.apps.studio.problems import Problem
from latentia.apps.studio.table_view import cell_text

#: Values at which the distribution of a number is found, and how far they reach beyond those seen.
N_GRID, REACH = 33, 0.15

#: Levels that are told apart in a gap.
MAX_LEVELS = 60

TRUTH = {"true": True, "false": False, "1": True, "0": False}


@dataclass(frozen=True)
class Column:
    """What cells of a column may be."""

    name: str
    kind: str
    is_number: bool
    levels: tuple[Hashable, ...]  # values of coded columns
    is_whole: bool
    low: float  # the least and largest number seen
    high: float

    @classmethod
    def of(cls, name: str, kind: str, cells: pandas.Series) -> Column:
        known = cells.dropna()
        is_bool = bool(pandas.api.types.is_bool_dtype(cells.dtype))
        is_number = not is_bool and bool(pandas.api.types.is_numeric_dtype(cells.dtype))
        levels: tuple[Hashable, ...] = ()
        if kind not in ("continuous", "count"):
            levels = tuple(sorted(known.unique().tolist(), key=lambda v: (str(type(v)), v)))
        numbers = known.to_numpy(dtype=float) if is_number and len(known) else np.zeros(1)
        is_whole = is_number and bool((numbers == np.floor(numbers)).all())
        return cls(name, kind, is_number, levels, is_whole, float(numbers.min()), float(numbers.max()))

    def describe(self) -> JsonObject:
        return {
            "name": self.name,
            "kind": self.kind,
            "number": self.is_number and not self.levels,
            "levels": [cell_text(level) for level in self.levels],
        }

    def value(self, text: str | None) -> Hashable:
        """A cell from what was written; None where it is blank."""
        text = "" if text is None else text.strip()
        if not text:
            return None
        if self.levels:
            return self._level(text)
        if not self.is_number:
            return TRUTH.get(text.lower(), text)
        try:
            number = float(text.replace(",", "."))
        except ValueError:
            raise Problem(
                f"{text[:40]!r} is no number. Write one, or leave the cell empty.", column=self.name
            ) from None
        if not abs(number) < 1e150:
            raise Problem("A cell holds a finite number. Write one, or leave the cell empty.", column=self.name)
        if self.kind == "count" and (number < 0 or not number.is_integer()):
            raise Problem("A count is a whole number from 0 on. Write one, or leave the cell empty.", column=self.name)
        return number

    def _level(self, text: str) -> Hashable:
        for level in self.levels:
            if cell_text(level) == text:
                return level
        known = ", ".join(str(cell_text(level)) for level in self.levels[:8])
        raise Problem(f"{text[:40]!r} is no value of this column; known are {known}.", column=self.name)

    def text(self, value: Hashable) -> str | None:
        return cell_text(value)

    def array(self, values: list[Hashable]) -> np.ndarray:
        """Cells for a data frame."""
        if self.is_number:
            return np.array([np.nan if value is None else value for value in values], dtype=float)
        found = np.empty(len(values), dtype=object)
        found[:] = values
        return found

    def grid(self) -> list[Hashable]:
        """Values that a gap could have."""
        if self.levels:
            return list(self.levels[:MAX_LEVELS])
        room = REACH * (self.high - self.low or 1.0)
        if self.is_whole and self.high - self.low <= N_GRID:
            return np.arange(self.low, self.high + 1).tolist()
        if self.kind == "count":
            return np.arange(0.0, self.high + room + 1, np.ceil((self.high + room) / N_GRID)).tolist()
        return np.linspace(self.low - room, self.high + room, N_GRID).tolist()
