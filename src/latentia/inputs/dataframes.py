"""Data frames of pandas and polars, without importing either unless one is met: columns out of
them, and a frame of the same dtypes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from latentia.inputs.labels import is_missing
from latentia.numerics.array_api import to_numpy


def frame_type(X: Any) -> str:
    """ "pandas", "polars" or "array"."""
    modules = {base.__module__.split(".")[0] for base in type(X).__mro__}  # of subclasses, too
    return next((m for m in ("pandas", "polars") if m in modules and hasattr(X, "columns")), "array")


def column_names(X: Any) -> list[Any]:
    return list(X.columns) if frame_type(X) != "array" else list(range(X.shape[1]))


def raw_column(X: Any, place: int) -> np.ndarray:
    """One column on the host."""
    if frame_type(X) == "pandas":
        column = X.iloc[:, place]
        return (
            column.astype(object).to_numpy()
            if column.dtype.kind not in "biuf" or column.isna().any()
            else column.to_numpy()
        )
    if frame_type(X) == "polars":
        column = X.to_series(place)
        return (
            column.to_numpy()
            if column.dtype.is_numeric() and not column.null_count()
            else np.array(column.to_list(), dtype=object)
        )
    return to_numpy(X[:, place])


def column_dtype(X: Any, place: int) -> Any:
    """The dtype of one column of a data frame; "" for arrays."""
    if frame_type(X) == "pandas":
        return X.dtypes.iloc[place]
    return X.to_series(place).dtype if frame_type(X) == "polars" else ""


def frame_column_dtypes(X: Any) -> list[Any]:
    """The dtypes of a data frame's columns as they are."""
    return [column_dtype(X, k) for k in range(X.shape[1])]


def is_date(dtype: Any) -> bool:
    """Whether a column of this dtype holds points or spans of time."""
    name = str(dtype).lower()
    return name.startswith(("datetime", "timestamp", "date", "period", "time", "duration", "interval[datetime"))


def frame_dtypes(X: Any) -> tuple[Any, ...]:
    """The dtypes of a data frame's columns, none for an array; bool for objects that are all True,
    False or missing.
    """
    if frame_type(X) == "array":
        return ()
    dtypes = []
    for place in range(X.shape[1]):
        dtype = column_dtype(X, place)
        if str(dtype).lower() == "object":
            cells = raw_column(X, place)
            known = cells[~is_missing(cells)].tolist()
            dtype = np.dtype(bool) if known and all(isinstance(c, bool | np.bool_) for c in known) else dtype
        dtypes.append(dtype)
    return tuple(dtypes)


def as_frame(
    frame: str, names: Sequence[Any], columns: Sequence[np.ndarray], dtypes: Sequence[Any], index: Any = None
) -> Any:
    """A data frame of these columns in their own dtypes; a column keeps its numbers where its dtype
    cannot hold them.

    True and False have no values between them: a bool column gets the nearer one.
    """
    if frame == "polars":
        import polars

        return polars.DataFrame([_as_polars(*column) for column in zip(names, columns, dtypes, strict=True)])
    import pandas

    series = [_as_pandas(cells, dtype) for cells, dtype in zip(columns, dtypes, strict=True)]
    table = pandas.concat(series, axis=1) if series else pandas.DataFrame()
    table.columns = pandas.Index(names)
    return table if index is None else table.set_index(index)


def _as_pandas(cells: np.ndarray, dtype: Any) -> Any:
    import pandas

    series = pandas.Series(cells)
    if pandas.api.types.is_bool_dtype(dtype):
        series = series > 0.5
    try:
        own = series.astype(dtype)
    except (TypeError, ValueError):  # a share in a column of nullable integers
        return series
    exact = pandas.api.types.is_float_dtype(dtype) or bool((own.astype(object) == series.astype(object)).all())
    return own if exact else series


def _as_polars(name: Any, cells: np.ndarray, dtype: Any) -> Any:
    import polars

    series = polars.Series(name, cells.tolist() if cells.dtype.kind in "OU" else cells)
    if dtype == polars.Boolean:
        return series > 0.5
    if dtype == polars.Null:  # a column without any value has no dtype of its own
        return series
    whole = series.dtype.is_float() and bool((series == series.round()).all())
    return series if dtype.is_integer() and not whole else series.cast(dtype)
