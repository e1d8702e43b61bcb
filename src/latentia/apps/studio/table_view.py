"""A table before any fit: what its columns look like, and which of them could be the classes."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pandas

from latentia.apps import JsonObject
from latentia.apps.tables.table_files import Table
from latentia.apps.tables.typed_columns import TypedColumn, counting_note, kind_of, typed_column, useless_because
from latentia.persistence.format import Json

#: Values of a column that are listed, bars of a histogram, rows that are shown.
MAX_LEVELS, N_BARS, MAX_SHOWN = 12, 16, 12

#: Classes that a target has at most.
MAX_CLASSES = 30

#: Names that columns of classes like to have.
TARGET_NAMES = ("class", "target", "label", "outcome", "diagnosis", "species", "y", "churned", "survived", "result")

#: Kinds that a column of numbers may be given.
NUMBER_KINDS = ("continuous", "binary", "categorical", "ordinal", "count")


def _without_options(text: str) -> str:
    """What is said of a column, without the options of the command line."""
    return text.split("; --")[0]


class TableView:
    """A table and the types that its columns look like."""

    def __init__(self, table: Table):
        self.table = table

    @cached_property
    def looks(self) -> dict[str, TypedColumn]:
        """The columns, typed, and what is odd about them."""
        return {name: typed_column(self.table, name) for name in self.table.names}

    @cached_property
    def columns(self) -> dict[str, pandas.Series]:
        """The columns, typed."""
        return {name: looks.cells for name, looks in self.looks.items()}

    @property
    def notes(self) -> list[str]:
        """What is odd about columns that are not left out."""
        kept = [(name, looks) for name, looks in self.looks.items() if self.useless_because(name) is None]
        notes = [note for name, looks in kept for note in [*looks.notes, *counting_note(name, looks.cells)]]
        return [_without_options(note) for note in notes]

    def useless_because(self, name: str) -> str | None:
        """Why a column is left out by itself."""
        looks = self.looks[name]
        reason = useless_because(name, looks.cells)
        return reason and _without_options(looks.why_text or reason)

    def is_number(self, name: str) -> bool:
        return bool(pandas.api.types.is_numeric_dtype(self.columns[name].dtype))

    def allowed_kinds(self, name: str) -> list[str]:
        """What a column may be, but for left out."""
        column, n_values = self.columns[name], self.n_values(name)
        if not self.is_number(name):
            return ["categorical"]
        cells = column.dropna().to_numpy(dtype=float)
        is_count = cells.size > 0 and bool((cells >= 0).all() and (cells == np.floor(cells)).all())
        few = n_values <= MAX_CLASSES
        found = {"continuous": True, "binary": n_values == 2, "categorical": few, "ordinal": few, "count": is_count}
        return [kind for kind in NUMBER_KINDS if found[kind]]

    def n_values(self, name: str) -> int:
        try:
            return int(self.columns[name].nunique())
        except TypeError:  # lists
            return 0

    @cached_property
    def could_be_target(self) -> list[str]:
        """Columns with at least two and not too many values."""
        return [name for name in self.table.names if 2 <= self.n_values(name) <= MAX_CLASSES]

    @cached_property
    def target(self) -> str | None:
        """What looks most like classes: by its name, else the last column with few values."""
        named = [name for name in self.could_be_target if name.lower() in TARGET_NAMES]
        if named:
            return named[0]
        few = [name for name in self.could_be_target if self.n_values(name) <= 10]
        return few[-1] if few else (self.could_be_target[-1] if self.could_be_target else None)

    def describe(self) -> JsonObject:
        """What the page shows."""
        frame = self.table.frame
        columns = [self._describe_column(name) for name in self.table.names]
        return {
            "name": self.table.title,
            "rows": len(frame),
            "missing": float(frame.isna().to_numpy().mean()),
            "columns": columns,
            "target": self.target,
            "targets": self.could_be_target,
            "shown": [[cell_text(v) for v in row] for row in frame.head(MAX_SHOWN).itertuples(index=False)],
            "notes": self.notes,
        }

    def _describe_column(self, name: str) -> JsonObject:
        column = self.columns[name]
        reason, allowed = self.useless_because(name), self.allowed_kinds(name)
        looks = kind_of(column)
        return {
            "name": name,
            "kind": "left out" if reason else (looks if looks in allowed else allowed[0]),
            "reason": reason,
            "allowed": allowed,
            "missing": float(column.isna().mean()),
            "values": self.n_values(name),
            "levels": self._levels(name),
            "histogram": self._histogram(name),
        }

    def _levels(self, name: str) -> list[Json]:
        """The most frequent values and their counts, of columns with few of them."""
        if self.n_values(name) > MAX_CLASSES or not self.n_values(name):
            return []
        counts = self.columns[name].value_counts()
        return [[cell_text(value), int(n)] for value, n in counts.head(MAX_LEVELS).items()]

    def _histogram(self, name: str) -> JsonObject | None:
        if not self.is_number(name) or self.n_values(name) < 2:
            return None
        cells = self.columns[name].dropna().to_numpy(dtype=float)
        cells = cells[np.isfinite(cells)]
        if not cells.size or not np.ptp(cells) > 0:
            return None
        counts, edges = np.histogram(cells, bins=N_BARS)
        return {"counts": counts.tolist(), "low": number_text(edges[0]), "high": number_text(edges[-1])}


def cell_text(value: object) -> str | None:
    """A cell as the page shows it; None where it is missing."""
    if value is None or value is pandas.NA or (isinstance(value, float) and np.isnan(value)):
        return None
    if isinstance(value, float | np.floating):
        return number_text(float(value))
    return str(value)[:200]


def number_text(value: float) -> str:
    """A number with as many digits as one reads."""
    if float(value).is_integer() and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.6g}"
