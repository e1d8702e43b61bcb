"""Tables with text, categories and numbers: the cells of each column as numbers, and back.

A binary, categorical or ordinal column becomes the codes 0, 1, ... of its values, others stay as
they are; NaN marks a missing cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from latentia.arrays.namespace import asarray_like, namespace, to_numpy
from latentia.inputs.column_kinds import (
    ColumnKind,
    as_numbers,
    check_counts,
    check_finite,
    given_kinds,
    is_textual,
)
from latentia.inputs.column_levels import NO_MERGING, Levels, Merging
from latentia.inputs.column_reader import EncodedColumn, TableReader
from latentia.inputs.dataframes import (
    ColumnType,
    as_frame,
    column_dtype,
    distinct_values,
    frame_type,
    raw_column,
)
from latentia.inputs.plain_values import as_objects
from latentia.inputs.table_digest import digest_of
from latentia.inputs.unseen_values import report_unseen

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
