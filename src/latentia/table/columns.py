"""What is learned from the columns of a table: their kinds, values and order.

A kind is as the user says, or by the dtype: that is the same in every fold, the values that a
column happens to show are not. So an array of numbers is continuous, unless all its cells are 0 or
1: then it is binary. In a data frame floats are continuous; columns of bool, and of integers of
which there are just two, are binary. Text alone has no order, and is no ordinal column.

All of it is read off a digest of the table: names, dtypes, distinct values. A digest has no more
entries than the columns have values, so that of a table in parts is joined from those of its parts,
and both kinds of table are read by the same rules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from numbers import Integral, Real
from typing import ClassVar, NamedTuple, Protocol, TypeAlias

import numpy as np

from latentia.arrays.namespace import to_numpy
from latentia.table.cells import (
    MANY_CATEGORIES,
    NUMBER,
    Fault,
    UnusableColumn,
    check_many_values,
    check_text,
    dates_in,
    refusal,
    refuse_dates,
    warn_of_gap_texts,
    warn_of_row_numbers,
    warn_of_text_values,
)
from latentia.table.encoder import (
    NO_MERGING,
    ColumnEncoder,
    EncodedColumn,
    Levels,
    Merging,
    as_numbers,
    check_counts,
    check_finite,
)
from latentia.table.frames import (
    ColumnType,
    PlainValues,
    Table,
    column_names,
    column_types,
    distinct_values,
    frame_type,
    is_frame,
    is_textual,
    raw_column,
    sorting_key,
)

#: The argument `kinds` of estimators: "auto", a kind for all columns, or one for each.
Kinds: TypeAlias = str | Mapping[str, str] | Mapping[Hashable, str] | Sequence[str]


#: Rows that are looked at together when a table is searched for other cells than 0 and 1.
SCAN_ROWS = 2**12


class ColumnKind(Protocol):
    """How the cells of a kind of column are read."""

    is_coded: ClassVar[bool]  # whether they become the codes 0, 1, ... of the sorted values of their column
    is_count: ClassVar[bool]  # whether only whole numbers from zero on are allowed
    is_standardized: ClassVar[bool]  # whether they are brought to standard units
    needs_size: ClassVar[bool]  # whether `column_size` must see the cells of its columns
    n_categories: ClassVar[int | None]  # how many values a coded column has; None for as many as it shows

    @classmethod
    def column_size(cls, cells: np.ndarray, counts: np.ndarray | None = None) -> float:
        """What the model must know of a column of numbers beforehand: from its known cells, or its
        values and how many cells have each.
        """


class TableDigest(ABC):
    """The columns of a table."""

    frame: str  # "pandas", "polars", "pyarrow" or "array"
    names: list[Hashable]
    types: tuple[ColumnType, ...]  # of a data frame's columns; none for an array
    is_textual: bool  # whether it is an array of objects or text
    whole: tuple[bool, ...]  # which columns have integers for a dtype

    def __init__(self, table: Table):
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
    def distinct(self, place: int) -> tuple[list[Hashable], np.ndarray]:
        """The values of a column, in their order, and how many cells have each."""

    @abstractmethod
    def frequencies(self, place: int) -> np.ndarray:
        """What the known cells with each value of a column weigh: a row of weight two has two."""

    @abstractmethod
    def numbers(self, place: int) -> tuple[np.ndarray, np.ndarray | None]:
        """The known cells of a column of numbers, or its values and how many cells have each."""


class MemoryDigest(TableDigest):
    """The columns of a table in memory."""

    def __init__(self, table: Table, weight: np.ndarray | None = None):
        super().__init__(table)
        self.table, self.weight = table, weight

    @cached_property
    def only_bits(self) -> bool:
        return holds_only_bits(self.table)

    def distinct(self, place: int) -> tuple[list[Hashable], np.ndarray]:
        return self._count(place, None)

    def frequencies(self, place: int) -> np.ndarray:
        return self._count(place, self.weight)[1]

    def _count(self, place: int, weight: np.ndarray | None) -> tuple[list[Hashable], np.ndarray]:
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


def digest_of(table: Table | TableDigest) -> TableDigest:
    """A digest, or that of a table in memory."""
    return table if isinstance(table, TableDigest) else MemoryDigest(table)


def join_distinct(
    parts: Sequence[tuple[list[Hashable], np.ndarray]], is_category: bool
) -> tuple[list[Hashable], np.ndarray]:
    """The distinct values of a column, from those of its parts.

    Categories are in one order in all parts; other values are sorted, numbers before text.
    """
    counts: dict[Hashable, int | float] = {}
    for values, numbers in parts:
        for value, number in zip(values, numbers.tolist(), strict=True):
            counts[value] = counts.get(value, 0) + number
    values = list(counts) if is_category else sorted(counts, key=sorting_key)
    dtype = np.result_type(*(numbers for _, numbers in parts))
    return values, np.array([counts[value] for value in values], dtype=dtype)


def holds_only_bits(X: Table) -> bool:
    """Whether all known cells of a numeric array are 0 or 1, and there are any."""
    if is_frame(X) or is_textual(X):
        return False
    seen = False
    for start in range(0, X.shape[0], SCAN_ROWS):
        part = to_numpy(X[start : min(start + SCAN_ROWS, X.shape[0]), ...])
        is_bit = (part == 0) | (part == 1)
        if not (is_bit | (part != part)).all():
            return False
        seen = seen or bool(is_bit.any())
    return seen


def learn_columns(
    X: Table | TableDigest, kinds: Kinds, known_kinds: Mapping[str, type[ColumnKind]], merging: Merging = NO_MERGING
) -> ColumnEncoder:
    """How a table is encoded: by given kinds, names of `known_kinds`, or those read off it."""
    table = digest_of(X)
    given = given_kinds(kinds, table.names, tuple(known_kinds))
    if any(kind is None for kind in given) and table.frame == "array" and not table.is_textual:
        found = "binary" if table.only_bits else "continuous"
        given = [kind or found for kind in given]
    columns = TableReader(table, known_kinds, merging).columns(given)
    return ColumnEncoder(columns, tuple(table.names), table.frame, table.types, table.whole)


def number_columns(X: Table | TableDigest) -> ColumnEncoder:
    """For tables of numbers, which stay as they are."""
    table = digest_of(X)
    columns = (EncodedColumn("continuous", None, 0, False),) * len(table.names)
    return ColumnEncoder(columns, tuple(table.names), table.frame, table.types, table.whole)


class TableReader(NamedTuple):
    """Reads kinds and values off the columns of a table."""

    table: TableDigest
    known_kinds: Mapping[str, type[ColumnKind]]
    merging: Merging

    def columns(self, given: Sequence[str | None]) -> tuple[EncodedColumn, ...]:
        """All columns; those that cannot be used are refused together."""
        found, faults = [], []
        for place, kind in enumerate(given):
            try:
                found.append(self.column(place, kind))
            except UnusableColumn as refused:
                faults.append(refused.fault)
        if faults:
            raise refusal(faults)
        return tuple(found)

    def column(self, place: int, given: str | None) -> EncodedColumn:
        """The kind of a column, given or found, and what it takes to read it."""
        types, name = self.table.types, self.table.names[place]
        if types and types[place].is_date:
            raise UnusableColumn(dates_in(name, types[place].name))
        if given is None and types and types[place].is_float:
            given = "continuous"
        if given is not None and not self.known_kinds[given].is_coded:
            return self._numbers(place, given)
        values, counts = self.table.distinct(place)
        seen = [values[k] for k in np.flatnonzero(counts).tolist()]
        is_category = bool(types) and types[place].is_category
        if given is None and not is_category:
            refuse_dates(name, seen)
            warn_of_row_numbers(name, seen, counts[counts > 0])
        kind = given or found_kind(types[place] if types else None, seen)
        if given == "ordinal":
            order = order_of(name, types[place] if types else None, values, counts)
            values, counts = [values[k] for k in order], counts[order]
        if not self.known_kinds[kind].is_coded:
            return self._numbers(place, kind)
        if kind == "categorical" and given is None:
            has_slips = not is_category and check_text(name, seen, counts[counts > 0], self.merging.is_asked_for)
            if not has_slips:
                warn_of_gap_texts(name, seen, counts[counts > 0])
            if len(seen) > MANY_CATEGORIES and not self.merging.is_asked_for:
                check_many_values(name, seen, int(counts.sum()))
            elif not is_category and not has_slips:
                warn_of_text_values(name, seen, int(counts.sum()))
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

    def _levels(self, place: int, kind: str, values: Sequence[Hashable], counts: np.ndarray) -> Levels:
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


def given_kinds(kinds: Kinds, names: Sequence[Hashable], known: tuple[str, ...]) -> list[str | None]:
    """The kind that the user gives each column; None where it is to be found."""
    allowed = (
        f"'auto', one of {known} for all columns, a sequence with one of them per column, or a dict from column to kind"
    )
    if isinstance(kinds, str):
        if kinds != "auto" and kinds not in known:
            raise ValueError(f"kinds={kinds!r}; allowed are {allowed}.")
        return [None if kinds == "auto" else kinds] * len(names)
    if isinstance(kinds, Mapping):
        kinds = _by_column(kinds, names)
    if not isinstance(kinds, Sequence | np.ndarray):
        raise ValueError(f"kinds={kinds!r}; allowed are {allowed}.")
    kinds = list(kinds)
    if len(kinds) != len(names):
        raise ValueError(f"kinds has {len(kinds)} entries, but X has {len(names)} columns; allowed are {allowed}.")
    for kind in kinds:
        if kind not in ("auto", *known):
            raise ValueError(f"kinds holds {kind!r}; allowed are {allowed}.")
    return [None if kind == "auto" else kind for kind in kinds]


def _by_column(kinds: Mapping[str, str] | Mapping[Hashable, str], names: Sequence[Hashable]) -> list[str]:
    """A kind for each column, from a dict by names or, where no column has such a name, numbers."""
    found = ["auto"] * len(names)
    for column, kind in kinds.items():
        place = int(column) if isinstance(column, int | np.integer) else len(names)
        if column not in names and not -len(names) <= place < len(names):
            raise ValueError(
                f"kinds names the column {column!r}, which X does not have; its columns are {list(names)}."
            )
        found[names.index(column) if column in names else place] = kind
    return found


def found_kind(kind: ColumnType | None, values: Sequence[Hashable]) -> str:
    """The kind of a column of a data frame, or of an array of objects (which has no dtype)."""
    if kind is not None and kind.is_category:
        return "ordinal" if kind.ordered else "categorical"
    if any(isinstance(v, str | bytes) for v in values):
        return "categorical"
    if values and all(isinstance(v, bool | np.bool_) for v in values):
        return "binary"
    has_dtype = kind is not None and kind.name != "object"
    is_integer = kind.is_integer if has_dtype and kind else all(isinstance(v, int | np.integer) for v in values)
    two_valued = len(values) == 2 or set(values) in ({0}, {1})
    return "binary" if is_integer and two_valued else "continuous"


def order_of(name: Hashable, kind: ColumnType | None, values: Sequence[Hashable], counts: np.ndarray) -> list[int]:
    """The places of values, from low to high: as they are, and numbers that are text by size.

    Other text of three or more values is refused, unless its dtype has an order: the alphabet is
    none.
    """
    shown = [value for value, count in zip(values, counts.tolist(), strict=True) if count]
    as_is = list(range(len(values)))
    if len(shown) < 3 or not any(isinstance(v, str) for v in shown) or (kind is not None and _has_order(kind)):
        return as_is
    is_category = kind is not None and kind.is_category
    if not is_category and all(isinstance(v, str) and NUMBER.fullmatch(v.strip()) for v in values):
        return sorted(as_is, key=lambda k: float(str(values[k])))
    listed = ", ".join(repr(v) for v in shown[:4]) + (", ..." if len(shown) > 4 else "")
    cure = (
        "Name the order by an ordered categorical, such as pandas.Categorical(column, ['low', 'middle', 'high'], "
        "ordered=True), or pass integers: 0 for the lowest level, 1, ..."
    )
    raise UnusableColumn(Fault(name, f"is to be ordinal, but its values are text without an order ({listed})", cure))


def _has_order(kind: ColumnType) -> bool:
    """Whether a dtype says so, or lists its categories otherwise than by the alphabet."""
    known = None if kind.categories is None else kind.categories.tolist()
    return kind.ordered or (known is not None and known != sorted(known, key=str))


def check_min_frequency(name: str, value: object) -> None:
    """An integer from 1 on, a share of the cells, or None."""
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1:
        return
    if value is not None and not (isinstance(value, float) and 0 < value < 1):
        raise ValueError(
            f"{name}={value!r}; allowed are an integer >= 1 (cells of a value), a number > 0 and < 1 (their share), "
            "and None."
        )
