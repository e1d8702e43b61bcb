"""Values of a column in plain arrays and tuples, so that fitted models can be saved by any means.

A category of pandas may be anything: text, a number, an interval, a date, a tuple. Its values are
taken apart here into what serializers know, and put together again when they are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class PlainValues(NamedTuple):
    """Different values, in order."""

    form: str  # "array", "objects", or the pandas index that they are made from
    parts: tuple[Any, ...]

    @classmethod
    def from_values(cls, values: Sequence[Any]) -> PlainValues:
        """Values of one type as an array, others as they are."""
        if values and all(isinstance(v, str) for v in values):
            return cls("array", (np.array(values, dtype=str),))
        if all(isinstance(v, bool | np.bool_) for v in values) or all(is_number(v) for v in values):
            return cls("array", (np.array(values),))
        return cls("objects", tuple(values))

    @classmethod
    def from_index(cls, index: Any) -> PlainValues:
        """The categories of a pandas dtype."""
        form = type(index).__name__
        if form == "IntervalIndex":
            return cls(form, (cls.from_index(index.left), cls.from_index(index.right), str(index.closed)))
        if form == "DatetimeIndex":
            return cls(form, (index.asi8, str(index.unit), None if index.tz is None else str(index.tz)))
        if form == "TimedeltaIndex":
            return cls(form, (index.asi8, str(index.unit)))
        if form == "PeriodIndex":
            return cls(form, (index.asi8, str(index.freqstr)))
        return cls.from_values(index.tolist())

    def take(self, numbers: Sequence[int]) -> PlainValues:
        """Some of them, in this order."""
        if self.form == "objects":
            return PlainValues("objects", tuple(self.parts[k] for k in numbers))
        chosen = np.asarray(numbers, dtype=np.int64)
        n_parts = 2 if self.form == "IntervalIndex" else 1
        taken = (p.take(numbers) if isinstance(p, PlainValues) else p[chosen] for p in self.parts[:n_parts])
        return PlainValues(self.form, (*taken, *self.parts[n_parts:]))

    def __len__(self) -> int:
        return len(self.parts) if self.form == "objects" else len(self.parts[0])

    @property
    def is_numeric(self) -> bool:
        """Whether they are numbers in an array."""
        return self.form == "array" and self.parts[0].dtype.kind in "biuf"

    def tolist(self) -> list[Any]:
        """The values as they came."""
        if self.form == "objects":
            return list(self.parts)
        return self.parts[0].tolist() if self.form == "array" else self.to_index().tolist()

    def to_array(self) -> np.ndarray:
        """The values as an array of numbers, text or objects."""
        return self.parts[0] if self.form == "array" else as_objects(self.tolist())

    def to_index(self) -> Any:
        """The categories of a pandas dtype."""
        import pandas

        if self.form == "IntervalIndex":
            left, right, closed = self.parts
            return pandas.IntervalIndex.from_arrays(left.to_index(), right.to_index(), closed=closed)
        if self.form == "DatetimeIndex":
            stamps, unit, zone = self.parts
            index = pandas.DatetimeIndex(stamps.view(f"M8[{unit}]"))
            return index if zone is None else index.tz_localize("UTC").tz_convert(zone)
        if self.form == "TimedeltaIndex":
            return pandas.TimedeltaIndex(self.parts[0].view(f"m8[{self.parts[1]}]"))
        if self.form == "PeriodIndex":
            return pandas.PeriodIndex.from_ordinals(self.parts[0], freq=self.parts[1])
        return pandas.Index(self.to_array(), tupleize_cols=False)


def is_number(value: Any) -> bool:
    """Whether a value is a real number, and no bool."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def as_objects(values: Sequence[Any]) -> np.ndarray:
    """An array of these objects, tuples and arrays among them, one by one."""
    objects = np.empty(len(values), dtype=object)
    for number, value in enumerate(values):
        objects[number] = value
    return objects
