"""The values of a coded column: which code each has, and which value stands for a code.

Values that are rare may share a code, as in scikit-learn's `OneHotEncoder`; the most frequent of
them stands for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from latentia.inputs.plain_values import PlainValues


def check_min_frequency(name: str, value: Any) -> None:
    """An integer from 1 on, a share of the cells, or None."""
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1:
        return
    if value is not None and not (isinstance(value, float) and 0 < value < 1):
        raise ValueError(
            f"{name}={value!r}; allowed are an integer >= 1 (cells of a value), a number > 0 and < 1 (their share), "
            "and None."
        )


class Merging(NamedTuple):
    """When values of a column of categories count as rare, and share a code."""

    max_categories: int | None = None  # codes of a column, that of the rare values included
    min_frequency: int | float | None = None  # known cells with a value, or their share

    @property
    def is_asked_for(self) -> bool:
        return self.max_categories is not None or self.min_frequency is not None

    def rare(self, counts: np.ndarray) -> np.ndarray:
        """Which values are rare, given how many known cells have each."""
        rare = np.zeros(counts.size, dtype=bool)
        if self.min_frequency is not None:
            share = isinstance(self.min_frequency, float)
            rare = counts < self.min_frequency * (counts.sum() if share else 1)
        n_codes = counts.size - rare.sum() + bool(rare.any())
        if self.max_categories is not None and self.max_categories < n_codes:
            rare[np.argsort(-counts, kind="stable")[self.max_categories - 1 :]] = True
        return rare


#: Every value has a code of its own.
NO_MERGING = Merging()


class Levels(NamedTuple):
    """Values of a column, their codes 0, 1, ..., and the value that stands for each code."""

    values: PlainValues
    codes: np.ndarray  # (values,)
    shown: np.ndarray  # (codes,) numbers of values

    @classmethod
    def of(cls, values: PlainValues) -> Levels:
        """A code for each value."""
        numbers = np.arange(len(values))
        return cls(values, numbers, numbers)

    def merge(self, counts: np.ndarray, merging: Merging) -> Levels:
        """Rare values share the last code."""
        rare = merging.rare(counts)
        if rare.sum() < 2:
            return self
        kept = np.flatnonzero(~rare)
        codes = np.full(rare.size, kept.size)
        codes[kept] = np.arange(kept.size)
        most_frequent = np.flatnonzero(rare)[np.argmax(counts[rare])]
        return Levels(self.values, codes, np.append(kept, most_frequent))

    @property
    def n_codes(self) -> int:
        return len(self.shown)

    @property
    def is_plain(self) -> bool:
        """Whether the values are the numbers 0, 1, ..., and these their codes."""
        return self.values.is_numeric and np.array_equal(self.categories(), self.codes)

    def categories(self) -> np.ndarray:
        """The value that stands for each code."""
        return self.values.to_array()[self.shown]

    def merged(self) -> np.ndarray | None:
        """The values that share a code; None if none do."""
        shared = np.bincount(self.codes, minlength=self.n_codes)[self.codes] > 1
        return self.values.to_array()[shared] if shared.any() else None

    def find(self, values: Sequence[Any]) -> np.ndarray:
        """The codes of some values, NaN for those that are not known."""
        code_of = dict(zip(self.values.tolist(), self.codes.tolist(), strict=True))
        return np.array([code_of.get(v, np.nan) for v in values], dtype=np.float64)

    def take(self, codes: np.ndarray, between: bool) -> np.ndarray:
        """Values at codes; with `between`, also between the values of a numeric binary column."""
        values = self.categories()
        if not values.size:  # a column without a known value: there is nothing to take
            return np.full(codes.shape, np.nan)
        if between and self.values.is_numeric and values.size == 2:
            # the values' own precision, not that of the continuous columns beside them
            return values[0] + codes.astype(np.float64) * (float(values[1]) - float(values[0]))
        return values[np.clip(np.rint(codes), 0, values.size - 1).astype(int)]
