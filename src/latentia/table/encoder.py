"""Tables with text, categories and numbers: the cells of each column as numbers, and back.

A binary, categorical or ordinal column becomes the codes 0, 1, ... of its values, others stay as
they are; NaN marks a missing cell.

What is read off each column of a table when a model is fitted: its kind and its values.

Values of a coded column that the fit did not see: counted, and told with the cure.

What a model must know of a table's columns before it can read them: names, dtypes, distinct
values.

A digest has no more entries than the columns have values, so that of a table in parts is joined
from those of its parts, and both kinds of table are read by the same rules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from latentia.arrays.namespace import asarray_like, namespace, to_numpy
from latentia.engine.messages import warn_at_caller
from latentia.table.cells import (
    MANY_CATEGORIES,
    DoubtfulColumn,
    dates_in,
    doubt_cells,
    doubt_gaps,
    doubt_many,
    doubt_row_numbers,
    doubt_text,
    doubt_written,
    refusal,
)
from latentia.table.columns import (
    NO_MERGING,
    ColumnKind,
    Levels,
    Merging,
    as_numbers,
    check_counts,
    check_finite,
    found_kind,
    given_kinds,
    holds_only_bits,
    is_textual,
    order_of,
)
from latentia.table.frames import (
    ColumnType,
    PlainValues,
    as_frame,
    as_objects,
    column_dtype,
    column_names,
    column_types,
    distinct_values,
    frame_type,
    raw_column,
    sorting_key,
)

#: Dtypes of pandas, polars and pyarrow columns whose values float32 holds, in lowercase.
NARROW_FLOATS = {"float16", "float32", "halffloat", "float", "halffloat[pyarrow]", "float[pyarrow]"}

#: From here on not every integer is a float64; from `MAX_INTEGER` on it is none of 64 bits either.
INEXACT, MAX_INTEGER = 2.0**53, 2.0**63


class ColumnEncoder(NamedTuple):
    """The kinds of a table's columns and the values of those that are coded."""

    columns: tuple[EncodedColumn, ...]
    names: tuple[Any, ...]  # as errors and warnings call the columns
    frame: str  # "pandas", "polars" or "array": what `decode` returns
    types: tuple[ColumnType, ...]  # of a data frame's columns
    whole: tuple[bool, ...]  # which columns have integers for a dtype

    @classmethod
    def from_table(
        cls, X: Any, kinds: Any, known_kinds: Mapping[str, type[ColumnKind]], merging: Merging = NO_MERGING
    ) -> ColumnEncoder:
        """Read the kinds off a table or its digest, or take given ones, by the names of
        `known_kinds`.
        """
        table = digest_of(X)
        given = given_kinds(kinds, table.names, tuple(known_kinds))
        if any(kind is None for kind in given) and table.frame == "array" and not table.is_textual:
            found = "binary" if table.only_bits else "continuous"
            given = [kind or found for kind in given]
        columns = TableReader(table, known_kinds, merging).columns(given)
        return cls(columns, tuple(table.names), table.frame, table.types, table.whole)

    @classmethod
    def continuous(cls, X: Any) -> ColumnEncoder:
        """For tables of numbers, which stay as they are."""
        table = digest_of(X)
        columns = (EncodedColumn("continuous", None, 0, False),) * len(table.names)
        return cls(columns, tuple(table.names), table.frame, table.types, table.whole)

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

    def encode(self, X: Any, handle_unknown: str) -> Any:
        """Cells as numbers, in the namespace of a numeric array, else in NumPy's; float32 where all
        continuous columns are narrow floats, else float64.
        """
        if frame_type(X) == "array" and not is_textual(X):
            return self._encode_numeric(X, handle_unknown)
        columns = [self._encode_column(X, place, handle_unknown) for place in range(len(self.columns))]
        return np.stack(columns, axis=1, dtype=np.float32 if self._is_narrow(X) else np.float64)

    def _encode_column(self, X: Any, place: int, handle_unknown: str) -> np.ndarray:
        column, name = self.columns[place], self.names[place]
        if column.levels is not None:
            return self._codes(X, place, handle_unknown)
        numbers = as_numbers(raw_column(X, place), name)
        check_finite(numbers, name)
        if column.is_count:
            check_counts(numbers, name)
        return numbers

    def _is_narrow(self, X: Any) -> bool:
        """Whether there are continuous columns and none needs more than float32; a column says so
        by its dtype, since gaps widen its cells.
        """
        found = {str(column_dtype(X, k)).lower() for k, levels in enumerate(self.levels) if levels is None}
        return bool(found) and found <= NARROW_FLOATS

    def _encode_numeric(self, X: Any, handle_unknown: str) -> Any:
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

    def _has_strange_codes(self, X: Any, coded: Sequence[int]) -> bool:
        """Whether a cell of a coded column is no code already."""
        levels = [self.columns[k].levels for k in coded]
        if not all(known is not None and known.is_plain for known in levels):
            return True
        part = to_numpy(X)[:, coded]
        fine = (part >= 0) & (part < [known.n_codes for known in levels if known]) & (part == np.floor(part))
        return not bool((fine | (part != part)).all())

    def _codes(self, X: Any, place: int, handle_unknown: str) -> np.ndarray:
        levels, name = self.columns[place].levels, self.names[place]
        assert levels is not None
        values, numbers = distinct_values(X, place)
        if levels.values.is_numeric:
            values = as_numbers(as_objects(values), name).tolist()
        counts = np.bincount(numbers[numbers >= 0], minlength=len(values))
        report_unseen(name, levels, values, counts, handle_unknown)
        return np.append(levels.find(values), np.nan)[numbers]  # the number -1 is that of a missing cell

    def decode(self, rows: Any, index: Any = None, source: Any = None) -> Any:
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

    def _keep_known(self, cells: np.ndarray, source: Any, place: int) -> np.ndarray:
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

    def _decode_numeric(self, rows: Any) -> Any:
        moved = [k for k, levels in enumerate(self.levels) if levels is not None and not levels.is_plain]
        if not moved:
            return rows
        numbers = np.array(to_numpy(rows))
        for place in moved:
            numbers[:, place] = self._decode_column(numbers[:, place], place)
        return asarray_like(numbers, rows)

    def round_whole(self, rows: Any) -> Any:
        """Coded rows with whole numbers in columns of integers that are not coded."""
        rounded = [whole and levels is None for whole, levels in zip(self.whole, self.levels, strict=True)]
        xp = namespace(rows)
        return xp.where(asarray_like(rounded, rows, dtype=xp.bool), xp.round(rows), rows) if any(rounded) else rows


def _keep_integers(cells: np.ndarray, source: Any, place: int) -> np.ndarray:
    """Whole cells of a column, with known integers as they were where float64 has rounded them."""
    size = np.abs(cells).max(initial=0.0)
    if not INEXACT <= size < MAX_INTEGER or (cells != np.floor(cells)).any():
        return cells
    own = raw_column(source, place)
    if own.dtype.kind != "O":
        return own if own.dtype.kind in "iu" else cells
    pairs = zip(own.tolist(), cells.tolist(), strict=True)
    return as_objects([int(v if isinstance(v, int | np.integer) else cell) for v, cell in pairs])


class EncodedColumn(NamedTuple):
    """How one column is read."""

    kind: str
    levels: Levels | None  # values of a coded column
    size: float  # codes of a coded column; else what its model must know of it
    is_count: bool  # whether only whole numbers from zero on are allowed


class TableReader(NamedTuple):
    """Reads kinds and values off the columns of a table."""

    table: TableDigest
    known_kinds: Mapping[str, type[ColumnKind]]
    merging: Merging

    def columns(self, given: Sequence[str | None]) -> tuple[EncodedColumn, ...]:
        """All columns; those that cannot be used are refused together."""
        found, doubts = [], []
        for place, kind in enumerate(given):
            try:
                found.append(self.column(place, kind))
            except DoubtfulColumn as refused:
                doubts.append(refused.doubt)
        if doubts:
            raise refusal(doubts)
        return tuple(found)

    def column(self, place: int, given: str | None) -> EncodedColumn:
        """The kind of a column, given or found, and what it takes to read it."""
        types, name = self.table.types, self.table.names[place]
        if types and types[place].is_date:
            raise DoubtfulColumn(dates_in(name, types[place].name))
        if given is None and types and types[place].is_float:
            given = "continuous"
        if given is not None and not self.known_kinds[given].is_coded:
            return self._numbers(place, given)
        values, counts = self.table.distinct(place)
        seen = [values[k] for k in np.flatnonzero(counts).tolist()]
        is_category = bool(types) and types[place].is_category
        if given is None and not is_category:
            doubt_cells(name, seen)
            doubt_row_numbers(name, seen, counts[counts > 0])
        kind = given or found_kind(types[place] if types else None, seen)
        if given == "ordinal":
            order = order_of(name, types[place] if types else None, values, counts)
            values, counts = [values[k] for k in order], counts[order]
        if not self.known_kinds[kind].is_coded:
            return self._numbers(place, kind)
        if kind == "categorical" and given is None:
            has_slips = not is_category and doubt_text(name, seen, counts[counts > 0], self.merging.is_asked_for)
            if not has_slips:
                doubt_gaps(name, seen, counts[counts > 0])
            if len(seen) > MANY_CATEGORIES and not self.merging.is_asked_for:
                doubt_many(name, seen, int(counts.sum()))
            elif not is_category and not has_slips:
                doubt_written(name, seen, int(counts.sum()))
        levels = self._levels(place, kind, values, counts)
        return EncodedColumn(kind, levels, max(1, levels.n_codes), False)

    def _numbers(self, place: int, kind: str) -> EncodedColumn:
        """A column that is not coded."""
        model, size = self.known_kinds[kind], 0.0
        if model.needs_size or model.is_count:
            cells, counts = self.table.numbers(place)
            if model.is_count:
                check_counts(cells, self.table.names[place])
            size = model.column_size(cells, counts)
        return EncodedColumn(kind, None, size, model.is_count)

    def _levels(self, place: int, kind: str, values: Sequence[Any], counts: np.ndarray) -> Levels:
        """The values that a coded column shows, in their order."""
        name, types, seen = self.table.names[place], self.table.types, np.flatnonzero(counts)
        is_category = bool(types) and types[place].categories is not None
        if is_category and self.table.frame == "pandas":
            plain = types[place].categories
            known = plain.take(seen.tolist()) if plain is not None else PlainValues.from_values([])
        else:
            shown = [values[k] for k in seen.tolist()]
            if all(isinstance(v, Real) and not isinstance(v, bool) for v in shown):
                check_finite(np.array(shown, dtype=np.float64), name)
            known = PlainValues.from_values(shown)
        n_categories = self.known_kinds[kind].n_categories
        if n_categories is not None and len(known) > n_categories:
            raise ValueError(
                f"column {name!r} is to be {kind}, but holds {len(known)} different values: {known.tolist()[:5]}..."
            )
        if n_categories is not None and len(known) < n_categories and known.is_numeric:
            known = PlainValues("array", (_with_unseen_values(known.to_array(), n_categories),))
        levels = Levels.of(known)
        if kind != "categorical" or not self.merging.is_asked_for:
            return levels
        return levels.merge(self.table.frequencies(place)[seen], self.merging)


def _with_unseen_values(values: np.ndarray, n_categories: int) -> np.ndarray:
    """The sorted values, and as many that a column might have shown besides: 0, 1, ..., or the next
    numbers.
    """
    usual = np.arange(n_categories).astype(values.dtype)
    if np.isin(values, usual).all():
        return usual
    return np.concatenate([values, values[-1] + 1 + np.arange(n_categories - values.size, dtype=values.dtype)])


#: Known values that a message lists.
LISTED = 10


def report_unseen(name: Any, levels: Levels, values: Sequence[Any], counts: np.ndarray, handle_unknown: str) -> None:
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


def _hint(value: Any, known: Sequence[Any], is_all: bool) -> str:
    """What may be behind it: another spelling, or a column that is coded in another way."""
    alike = next((k for k in known if _plainly(k) == _plainly(value)), None)
    if alike is not None:
        return f" {value!r} looks like {alike!r}: write both alike."
    return " The column tells the model nothing here: is it coded as it was in fit?" if is_all else ""


def _plainly(value: Any) -> str:
    """Without case, spaces and the type of a number."""
    return str(value).strip().casefold().removesuffix(".0")


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
