"""Answers of an estimator to the rows of files: made part by part, when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from latentia.arrays.namespace import to_numpy
from latentia.inputs.dataframes import frame_type


class LazyAnswers:
    """What an estimator says of each row of a scanned table.

    Iterate for one part after the other, each an array or a data frame; `compute` joins them, and
    `to_parquet` writes them to a file as they come.
    """

    def __init__(self, table: Any, answer: Callable[[Any], Any]):
        self._table, self._answer = table, answer

    def __iter__(self) -> Iterator[Any]:
        return (self._answer(rows) for rows in self._table)

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        return f"<answers to {len(self)} rows, part by part: iterate, or call compute() or to_parquet(path)>"

    def compute(self) -> Any:
        """All answers in memory."""
        return join_answers(list(self), ignore_index=True)

    def to_parquet(self, path: Any) -> None:
        """Write the answers to a Parquet file, one part after the other; several arrays, such as
        means and standard deviations, are columns side by side.
        """
        import pyarrow as pa
        from pyarrow import parquet

        writer = None
        try:
            for part in self:
                rows = pa.Table.from_pandas(_as_frame(part), preserve_index=False)
                writer = writer or parquet.ParquetWriter(path, rows.schema)
                writer.write_table(rows.cast(writer.schema))
        finally:
            if writer is not None:
                writer.close()


def _as_frame(part: Any) -> Any:
    """Answers to some rows as a data frame with names of columns."""
    import pandas

    if not hasattr(part, "columns"):
        arrays = [to_numpy(each) for each in (part if isinstance(part, tuple) else (part,))]
        part = pandas.DataFrame(np.concatenate([np.reshape(each, (len(each), -1)) for each in arrays], axis=1))
    return part.set_axis([str(name) for name in part.columns], axis=1)


def join_answers(parts: Sequence[Any], ignore_index: bool = False) -> Any:
    """Answers to the parts of a table, in the main memory: arrays, frames, or tuples of them."""
    kind = frame_type(parts[0])
    if isinstance(parts[0], tuple):
        return tuple(join_answers(each, ignore_index) for each in zip(*parts, strict=True))
    if kind == "array":
        return np.concatenate([to_numpy(part) for part in parts])
    if kind == "pyarrow":
        return import_module(kind).concat_tables(list(parts))
    return import_module(kind).concat(list(parts), **({"ignore_index": ignore_index} if kind == "pandas" else {}))
