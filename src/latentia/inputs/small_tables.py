"""Tables in parts that are small enough to be brought here: from then on they are like any other.

A fit that looks at the same rows hundreds of times has nothing to gain from rows that are elsewhere
if there are few of them. How many is a constant, so what comes here does not grow with the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from latentia.inputs.dataframes import column_dtype, column_names, frame_type
from latentia.inputs.lazy_tables import LazyTable, RawPart

#: Tables of at most so many numbers, in MiB, are small.
SMALL_TABLE_MIB = 64


def is_small(n_rows: int, n_columns: int) -> bool:
    """Whether a table may be brought into memory, or copied there."""
    return 8 * n_rows * n_columns <= SMALL_TABLE_MIB * 2**20


def bring_small(table: LazyTable, y: Any, sample_weight: Any) -> RawPart | None:
    """The rows of a small table, with their labels and weights; None of a large one."""
    if table.n_rows is not None and not is_small(table.n_rows, table.meta.shape[1]):
        return None
    parts = table.training_parts(y, sample_weight)
    sizes = parts.gather(CountRows(table.meta))
    if not is_small(sum(sizes), table.meta.shape[1]):
        return None
    filled = [k for k, size in enumerate(sizes) if size]
    if not filled:
        raise ValueError(f"X is {table.name} without any row: at least one is required.")
    found = parts.select(filled).gather(_itself)
    return RawPart(*(_join(pieces) for pieces in zip(*found, strict=True)))


@dataclass(frozen=True)
class CountRows:
    """How many rows a part has, whose columns must be those of the whole table."""

    meta: Any

    def __call__(self, part: RawPart) -> int:
        X, y, weight = part
        n_rows = int(X.shape[0])
        for what, values in (("y", y), ("sample_weight", weight)):
            if values is not None and len(values) != n_rows:
                raise ValueError(
                    f"{what} has {len(values)} entries where X has {n_rows} rows, in one partition: they must be "
                    "divided alike."
                )
        if n_rows:
            check_schema(X, self.meta)
        return n_rows


def check_schema(X: Any, meta: Any) -> None:
    """Refuse a part whose columns are not those of the whole table."""
    if frame_type(meta) == "array":
        if X.shape[1] != meta.shape[1]:
            raise ValueError(f"a part of X has {X.shape[1]} columns, but X has {meta.shape[1]}.")
        return
    if column_names(X) != column_names(meta):
        raise ValueError(f"a part of X has the columns {column_names(X)}, but X has {column_names(meta)}.")
    for place, name in enumerate(column_names(meta)):
        found, told = str(column_dtype(X, place)), str(column_dtype(meta, place))
        if found != told:
            raise ValueError(
                f"column {name!r} of X has the dtype {found} in one of its parts and {told} in the whole: allowed is "
                "one dtype. Convert the column when the table is read."
            )


def _join(pieces: tuple[Any, ...]) -> Any:
    if pieces[0] is None:
        return None
    if hasattr(pieces[0], "iloc"):
        import pandas

        return pandas.concat(list(pieces))
    return np.concatenate([np.asarray(piece) for piece in pieces])


def _itself(part: RawPart) -> RawPart:
    return part
