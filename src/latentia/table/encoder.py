"""Tables with text, categories and numbers: the cells of each column as numbers, and back.

A binary, categorical or ordinal column becomes the codes 0, 1, ... of its values, others stay as
they are; NaN marks a missing cell. Values that are rare may share a code, as in scikit-learn's
`OneHotEncoder`; the most frequent of them stands for all. Values that the fit did not see are
counted, and reported with the cure.

`columns` learns from a table how its columns are read.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from datetime import date
from numbers import Real
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from latentia.arrays.namespace import Array, asarray_like, namespace, to_numpy
from latentia.engine.messages import warn_at_caller
from latentia.table.cells import PLAIN_AMOUNTS, amount_in, slip_in
from latentia.table.frames import (
    ColumnType,
    DataFrame,
    PlainValues,
    Table,
    as_frame,
    as_objects,
    column_dtypes,
    distinct_values,
    is_frame,
    is_missing,
    is_textual,
    raw_column,
)

if TYPE_CHECKING:
    import pandas


#: From here on not every integer is a float64; from `MAX_INTEGER` on it is none of 64 bits either.
INEXACT, MAX_INTEGER = 2.0**53, 2.0**63


#: Dtypes of pandas, polars and pyarrow columns whose values float32 holds, in lowercase.
NARROW_FLOATS = {"float16", "float32", "halffloat", "float", "halffloat[pyarrow]", "float[pyarrow]"}


#: Known values that a message lists.
LISTED = 10


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

    def find(self, values: Sequence[Hashable]) -> np.ndarray:
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


class EncodedColumn(NamedTuple):
    """How one column is read."""

    kind: str
    levels: Levels | None  # values of a coded column
    size: float  # codes of a coded column; else what its model must know of it
    is_count: bool  # whether only whole numbers from zero on are allowed


class ColumnEncoder(NamedTuple):
    """The kinds of a table's columns and the values of those that are coded."""

    columns: tuple[EncodedColumn, ...]
    names: tuple[Hashable, ...]  # as errors and warnings call the columns
    frame: str  # "pandas", "polars" or "array": what `decode` returns
    types: tuple[ColumnType, ...]  # of a data frame's columns
    whole: tuple[bool, ...]  # which columns have integers for a dtype

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(column.kind for column in self.columns)

    @property
    def levels(self) -> list[Levels | None]:
        return [column.levels for column in self.columns]

    @property
    def categories(self) -> list[np.ndarray | None]:
        """The values of each coded column, one for each code; None for others."""
        return [None if levels is None else levels.categories() for levels in self.levels]

    @property
    def modeled_kinds(self) -> list[str]:
        """Kinds as they are fitted: two categories are logistic in the difference of their
        linear predictors, and the tighter bound serves.
        """
        return [
            "binary" if column.levels is not None and column.levels.n_codes == 2 else column.kind
            for column in self.columns
        ]

    @property
    def sizes(self) -> list[float]:
        """Number of codes of each coded column; what their models must know of the others."""
        return [column.size for column in self.columns]

    @property
    def is_numeric(self) -> bool:
        """Whether all values are numbers, so that rows can be given back as a numeric array."""
        return all(levels is None or levels.values.is_numeric for levels in self.levels)

    def encode(self, X: Table, handle_unknown: str) -> Array:
        """Cells as numbers, in the namespace of a numeric array, else in NumPy's; float32 where all
        continuous columns are narrow floats, else float64.
        """
        if not is_frame(X) and not is_textual(X):
            return self._encode_numeric(X, handle_unknown)
        columns = [self._encode_column(X, place, handle_unknown) for place in range(len(self.columns))]
        is_narrow = is_frame(X) and self._is_narrow(X)
        return np.stack(columns, axis=1, dtype=np.float32 if is_narrow else np.float64)

    def _encode_column(self, X: Table, place: int, handle_unknown: str) -> np.ndarray:
        column, name = self.columns[place], self.names[place]
        if column.levels is not None:
            return self._codes(X, place, handle_unknown)
        numbers = as_numbers(raw_column(X, place), name)
        check_finite(numbers, name)
        if column.is_count:
            check_counts(numbers, name)
        return numbers

    def _is_narrow(self, X: DataFrame) -> bool:
        """Whether there are continuous columns and none needs more than float32; a column says so
        by its dtype, since gaps widen its cells.
        """
        dtypes = zip(column_dtypes(X), self.columns, strict=True)
        found = {str(dtype).lower() for dtype, column in dtypes if column.levels is None}
        return bool(found) and found <= NARROW_FLOATS

    def _encode_numeric(self, X: Array, handle_unknown: str) -> Array:
        for place, column in enumerate(self.columns):
            if column.is_count:
                check_counts(as_numbers(to_numpy(X[:, place]), self.names[place]), self.names[place])
        coded = [place for place, levels in enumerate(self.levels) if levels is not None]
        if not coded:
            return X
        xp = namespace(X)
        if not self._has_strange_codes(X, coded):
            return X if xp.isdtype(X.dtype, "real floating") else xp.astype(X, xp.float64)
        numbers = np.array(to_numpy(X), dtype=np.float64)
        for place in coded:
            numbers[:, place] = self._codes(numbers, place, handle_unknown)
        return asarray_like(numbers, X, dtype=X.dtype if xp.isdtype(X.dtype, "real floating") else xp.float64)

    def _has_strange_codes(self, X: Array, coded: Sequence[int]) -> bool:
        """Whether a cell of a coded column is no code already."""
        levels = [self.columns[k].levels for k in coded]
        if not all(known is not None and known.is_plain for known in levels):
            return True
        part = to_numpy(X)[:, coded]
        fine = (part >= 0) & (part < [known.n_codes for known in levels if known]) & (part == np.floor(part))
        return not bool((fine | (part != part)).all())

    def _codes(self, X: Table, place: int, handle_unknown: str) -> np.ndarray:
        """The codes of a column's cells, NaN where missing or unseen."""
        levels, name = self.columns[place].levels, self.names[place]
        assert levels is not None
        if not (self.types and self.types[place].is_category):  # as a rule, cells are values that the fit has seen
            cells = raw_column(X, place)
            codes = levels.find(cells.tolist())
            if is_missing(cells[np.isnan(codes)]).all():
                return codes
        values, numbers = distinct_values(X, place)
        if levels.values.is_numeric:
            values = as_numbers(as_objects(values), name).tolist()
        counts = np.bincount(numbers[numbers >= 0], minlength=len(values))
        report_unseen(name, levels, values, counts, handle_unknown)
        return np.append(levels.find(values), np.nan)[numbers]  # the number -1 is that of a missing cell

    def decode(self, rows: Array, index: pandas.Index | None = None, source: Table | None = None) -> Table:
        """Coded rows as the user's values: a numeric array, an array of objects, or a data frame
        like the one fitted, with this index. Values of `source` that share a code stay, and
        integers that are no float64.
        """
        if self.is_numeric and self.frame == "array":
            return self._decode_numeric(rows)
        numbers = to_numpy(rows)
        columns = [self._decode_column(numbers[:, place], place) for place in range(len(self.columns))]
        if source is not None:
            columns = [self._keep_known(cells, source, place) for place, cells in enumerate(columns)]
        if self.frame == "array":
            return np.stack([c.astype(object) for c in columns], axis=1)
        return as_frame(self.frame, self.names, columns, self.types, index)

    def _decode_column(self, cells: np.ndarray, place: int) -> np.ndarray:
        column = self.columns[place]
        if column.levels is None:
            return cells
        is_category = bool(self.types) and self.types[place].is_category
        return column.levels.take(cells, between=column.kind == "binary" and not is_category)

    def _keep_known(self, cells: np.ndarray, source: Table, place: int) -> np.ndarray:
        """Cells of a column, with known values that share a code, or a float64, as they were."""
        levels = self.columns[place].levels
        if levels is None:
            return _keep_integers(cells, source, place)
        if levels.merged() is None:
            return cells
        values, numbers = distinct_values(source, place)
        known = np.append(~np.isnan(levels.find(values)), False)[numbers]
        kept = as_objects(cells.tolist())
        kept[known] = [values[number] for number in numbers[known].tolist()]
        return kept

    def _decode_numeric(self, rows: Array) -> Array:
        moved = [k for k, levels in enumerate(self.levels) if levels is not None and not levels.is_plain]
        if not moved:
            return rows
        numbers = np.array(to_numpy(rows))
        for place in moved:
            numbers[:, place] = self._decode_column(numbers[:, place], place)
        return asarray_like(numbers, rows)

    def round_whole(self, rows: Array) -> Array:
        """Coded rows with whole numbers in columns of integers that are not coded."""
        rounded = [whole and levels is None for whole, levels in zip(self.whole, self.levels, strict=True)]
        xp = namespace(rows)
        return xp.where(asarray_like(rounded, rows, dtype=xp.bool), xp.round(rows), rows) if any(rounded) else rows


def as_numbers(cells: np.ndarray, name: Hashable) -> np.ndarray:
    """Cells as float64, NaN where missing."""
    if cells.dtype.kind in "biuf":
        return cells.astype(np.float64)
    out = np.full(cells.shape, np.nan)
    known = ~is_missing(cells)
    try:
        out[known] = [float(c) for c in cells[known].tolist()]
    except TypeError as error:
        strange = next(c for c in cells[known].tolist() if not isinstance(c, str | bytes | Real))
        cure = "convert them to numbers" if isinstance(strange, date) else "allowed are numbers, text and categories"
        what = "dates" if isinstance(strange, date) else f"a {type(strange).__name__}"
        raise TypeError(
            f"column {name!r} of X holds {what}: argument must be a string or a number; {cure} (in pandas, "
            ".astype('category') makes categories of them)."
        ) from error
    except ValueError as error:
        slip = slip_in(cells[known].tolist())
        wrong = str(error).removeprefix("could not convert string to float: ")
        cure = f"{PLAIN_AMOUNTS} Otherwise" if amount_in(cells[known].tolist()) else "Correct or remove such cells;"
        raise ValueError(
            f"column {name!r} of X holds text where numbers are expected: "
            f"{wrong if slip is None else slip.text}. {cure} pass "
            f"kinds={{{name!r}: 'categorical'}} if its values are categories."
        ) from error
    return out


def check_finite(numbers: np.ndarray, name: Hashable) -> None:
    """Refuse infinity by the name of its column."""
    if np.isinf(numbers).any():
        raise ValueError(
            f"Input X contains infinity in column {name!r}; allowed are finite numbers, and NaN or None where a "
            "cell is missing."
        )


def check_counts(numbers: np.ndarray, name: Hashable) -> None:
    """Refuse what is no count."""
    wrong = numbers[(numbers < 0) | (numbers != np.floor(numbers)) & ~np.isnan(numbers)]
    if wrong.size:
        raise ValueError(
            f"column {name!r} of X holds {wrong[0]:g}, but its kind is 'count'; allowed are whole numbers from 0 on, "
            "and NaN or None where a cell is missing."
        )


def _keep_integers(cells: np.ndarray, source: Table, place: int) -> np.ndarray:
    """Whole cells of a column, with known integers as they were where float64 has rounded them."""
    size = np.abs(cells).max(initial=0.0)
    if not INEXACT <= size < MAX_INTEGER or (cells != np.floor(cells)).any():
        return cells
    own = raw_column(source, place)
    if own.dtype.kind != "O":
        return own if own.dtype.kind in "iu" else cells
    pairs = zip(own.tolist(), cells.tolist(), strict=True)
    return as_objects([int(v if isinstance(v, int | np.integer) else cell) for v, cell in pairs])


def report_unseen(
    name: Hashable, levels: Levels, values: Sequence[Hashable], counts: np.ndarray, handle_unknown: str
) -> None:
    """Refuse unseen values, or warn that their cells count as missing.

    `values` are those of a column, and `counts` say how many cells have each.
    """
    unseen = np.flatnonzero(np.isnan(levels.find(values)) & (counts > 0))
    if not unseen.size:
        return
    first, known = values[unseen[0]], levels.values.tolist()
    more = f" and {unseen.size - 1} other value{'s' * (unseen.size > 2)}" if unseen.size > 1 else ""
    n_cells, n_all = int(counts[unseen].sum()), int(counts.sum())
    text = (
        f"column {name!r} holds {first!r}{more}, which fit did not see, in {n_cells} of its {n_all} known cells; known "
        f"are {known[:LISTED]}{' and more' if len(known) > LISTED else ''}"
    )
    hint = _hint(first, known, n_cells == n_all)
    if handle_unknown == "error":
        raise ValueError(f"{text}. Pass handle_unknown='missing' to treat such cells as missing.{hint}")
    cure = f"kinds={{{name!r}: 'continuous'}} reads the column as numbers, " if levels.values.is_numeric else ""
    warn_at_caller(f"{text}: such cells are treated as missing. {cure}handle_unknown='error' refuses such rows.{hint}")


def _hint(value: object, known: Sequence[Hashable], is_all: bool) -> str:
    """What may be behind it: another spelling, or a column that is coded in another way."""
    alike = next((k for k in known if _plainly(k) == _plainly(value)), None)
    if alike is not None:
        return f" {value!r} looks like {alike!r}: write both alike."
    return " The column tells the model nothing here: is it coded as it was in fit?" if is_all else ""


def _plainly(value: object) -> str:
    """Without case, spaces and the type of a number."""
    return str(value).strip().casefold().removesuffix(".0")
