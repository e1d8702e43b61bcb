"""What is read off each column of a table when a model is fitted: its kind and its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from latentia.inputs.column_doubts import (
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
from latentia.inputs.column_kinds import ColumnKind, check_counts, check_finite, found_kind
from latentia.inputs.column_levels import Levels, Merging
from latentia.inputs.column_order import order_of
from latentia.inputs.plain_values import PlainValues
from latentia.inputs.table_digest import TableDigest


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
