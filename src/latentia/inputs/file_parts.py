"""Rows of Parquet and Arrow files, some at a time.

A Parquet file is read batch by batch inside its row groups, an Arrow file by its record batches. A
pass asks for the batches in their order, so an open row group goes on where it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from latentia.inputs.lazy_tables import RawPart

#: The column with the labels, or several.
Target = str | tuple[str, ...] | None


def target_names(target: Target) -> tuple[str, ...]:
    """As many as there are."""
    return () if target is None else (target,) if isinstance(target, str) else target


@dataclass
class DataFile:
    """A file of a data set, and the columns that its place in the folders gives to its rows."""

    path: str
    filesystem: Any
    is_parquet: bool
    folder_values: dict[str, Any] = field(default_factory=dict)
    name: str = ""  # what users know it by; a converted file lies elsewhere

    def __post_init__(self) -> None:
        self.name = self.name or self.path

    def open(self) -> Any:
        """The file as pyarrow reads it."""
        import pyarrow as pa
        from pyarrow import ipc, parquet

        try:
            stream = self.filesystem.open_input_file(self.path)
            return parquet.ParquetFile(stream) if self.is_parquet else ipc.open_file(stream)
        except (OSError, pa.ArrowInvalid) as error:
            raise self.failure(error) from error

    def failure(self, error: Exception) -> OSError:
        """What went wrong, with the name of the file."""
        gone = isinstance(error, FileNotFoundError)
        what = "has vanished since it was scanned" if gone else f"cannot be read: {error}"
        return (FileNotFoundError if gone else OSError)(f"the file {self.name} {what}.")

    @property
    def schema(self) -> Any:
        opened = self.open()
        return opened.schema_arrow if self.is_parquet else opened.schema

    def group_sizes(self) -> list[int]:
        """Rows of each row group, or of each record batch."""
        opened = self.open()
        if self.is_parquet:
            return [opened.metadata.row_group(k).num_rows for k in range(opened.metadata.num_row_groups)]
        return [opened.get_batch(k).num_rows for k in range(opened.num_record_batches)]

    def batches(self, group: int, columns: Sequence[str], max_rows: int) -> Iterator[Any]:
        """Tables of at most `max_rows` rows of a group, one after the other."""
        import pyarrow as pa

        inside = [name for name in columns if name not in self.folder_values]
        try:
            if self.is_parquet:
                found = self.open().iter_batches(max_rows, row_groups=[group], columns=inside)
                yield from (self._with_folder_values(pa.table(batch), columns) for batch in found)
            else:
                whole = pa.table(self.open().get_batch(group)).select(inside)
                starts = range(0, whole.num_rows, max_rows)
                yield from (self._with_folder_values(whole.slice(k, max_rows), columns) for k in starts)
        except (OSError, pa.ArrowInvalid) as error:
            raise error if self.name in str(error) else self.failure(error) from error

    def _with_folder_values(self, table: Any, columns: Sequence[str]) -> Any:
        import pyarrow as pa

        for name, value in self.folder_values.items():
            if name in columns:
                table = table.append_column(name, pa.array([value] * table.num_rows))
        return table.select(list(columns))


class RowGroup:
    """A row group, read batch by batch: it goes on where it was, and is closed at its end."""

    def __init__(self, file: DataFile, group: int, n_rows: int, columns: Sequence[str], max_rows: int):
        self.file, self.group, self.columns, self.max_rows = file, group, tuple(columns), max_rows
        self.n_batches = math.ceil(n_rows / max_rows)
        self._open: Iterator[Any] | None = None
        self._next = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_open": None, "_next": 0}

    def batch(self, number: int) -> Any:
        """The table of this number."""
        if self._open is None or self._next != number:
            self._open, self._next = self.file.batches(self.group, self.columns, self.max_rows), 0
        while True:
            table = next(self._open)
            self._next += 1
            if self._next > number:
                break
        if self._next == self.n_batches:
            self._open = None
        return table


@dataclass(frozen=True)
class ReadBatch:
    """Reads one batch as rows, labels and weights."""

    group: RowGroup
    number: int
    to_frame: Callable[[Any], Any]
    target: Target
    weight: str | None

    def __call__(self) -> RawPart:
        frame = self.to_frame(self.group.batch(self.number))
        weight = None if self.weight is None else frame.pop(self.weight)
        if self.target is None or isinstance(self.target, str):
            return RawPart(frame, None if self.target is None else frame.pop(self.target), weight)
        columns = list(self.target)
        return RawPart(frame.drop(columns=columns), frame[columns], weight)
