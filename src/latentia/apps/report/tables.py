"""Columns of arrays and data frames: read one, hide some, make rows of which little is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from sklearn.utils import _safe_indexing

from latentia.arrays.namespace import asarray_like, is_sparse, namespace, take_rows, to_numpy
from latentia.table.frames import Table, is_frame, is_missing, is_pandas, is_polars, raw_column


def rows_of(X: Table, rows: np.ndarray) -> Table:
    """Some rows, in the kind of table that X is."""
    return _safe_indexing(X, rows) if is_frame(X) else take_rows(X, rows)


def read_column(X: Table, place: int) -> np.ndarray:
    """The cells of one column on the host."""
    return X[:, [place]].toarray().ravel() if is_sparse(X) else raw_column(X, place)


def numbers_of(X: Table, place: int) -> np.ndarray:
    """A column as numbers, NaN where a cell is missing; all NaN if it holds anything else."""
    cells = read_column(X, place)
    try:
        return np.where(is_missing(cells), np.nan, cells).astype(float)
    except (TypeError, ValueError):
        return np.full(cells.shape, np.nan)


def without_columns(X: Table, places: Mapping[int, float]) -> Table:
    """The rows with one number in all cells of these columns; NaN hides them."""
    n_rows = X.shape[0]
    if is_pandas(X):
        table = X.copy()
        for place, value in places.items():
            table.isetitem(place, np.full(n_rows, value))
        return table
    if is_polars(X):
        import polars

        names = X.columns
        hidden = [
            polars.lit(None if np.isnan(value) else value, dtype=polars.Float64).alias(names[place])
            for place, value in places.items()
        ]
        return X.with_columns(hidden)
    cells = to_numpy(X)
    cells = cells.copy() if cells.dtype.kind in "Of" else cells.astype(object if cells.dtype.kind in "US" else float)
    cells[:, list(places)] = list(places.values())
    return cells if isinstance(X, np.ndarray) else asarray_like(cells, X)


def stacked(tables: Sequence[Table]) -> Table:
    """Tables of the same columns, one below the other."""
    first = tables[0]
    if is_pandas(first):
        import pandas

        return pandas.concat(tables, ignore_index=True)
    if is_polars(first):
        import polars

        return polars.concat(tables, how="vertical_relaxed")
    return namespace(first).concat(list(tables))


def with_values(X: Table, values: Mapping[int, np.ndarray], fill: Mapping[int, float]) -> Table:
    """Rows like those of X that hold these columns; the others hold one number each."""
    n_rows, n_columns = len(next(iter(values.values()))), X.shape[1]
    columns = [values[k] if k in values else np.full(n_rows, fill[k]) for k in range(n_columns)]
    if is_pandas(X):
        import pandas

        table = pandas.concat([pandas.Series(column) for column in columns], axis=1)
        table.columns = X.columns
        return table
    if is_polars(X):
        import polars

        return polars.DataFrame(
            [polars.Series(name, column, nan_to_null=True) for name, column in zip(X.columns, columns, strict=True)]
        )
    table = np.stack(columns, axis=1)
    if isinstance(X, np.ndarray):
        return table.astype(X.dtype if X.dtype.kind in "Of" else float)
    return asarray_like(table, X)


def row_names(X: Table) -> list[str]:
    """The labels of a pandas index, else the numbers of the rows from zero on."""
    if is_pandas(X):
        return [str(label) for label in X.index]
    return [str(place) for place in range(X.shape[0])]


def row_counting(X: Table) -> str:
    """A sentence that says from where rows are counted, if their names are such counts."""
    if not is_pandas(X):
        return "Rows are counted from 0."
    import pandas

    counts = isinstance(X.index, pandas.RangeIndex) and X.index.step == 1
    return f"Rows are counted from {X.index.start}." if counts else ""
