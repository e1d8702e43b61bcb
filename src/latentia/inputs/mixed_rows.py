"""Rows of mixed tables: validated as they are, and encoded as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from latentia.arrays.namespace import Array, namespace
from latentia.engine.rows import Chunk, TableSource, Totals
from latentia.engine.sweep import rows_per_chunk
from latentia.inputs.column_kinds import is_textual
from latentia.inputs.dataframes import frame_type
from latentia.inputs.rows import plain_table, validate_rows


def validate_table(estimator: Any, X: Any, reset: bool) -> Any:
    """A numeric array, or a table of text and numbers as it is."""
    X = plain_table(X, allow_dates=reset)  # whoever learns the columns refuses all at once
    X = _as_array(X) if isinstance(X, list | tuple) else X
    if frame_type(X) == "array" and not (is_textual(X) and X.ndim == 2):
        return validate_rows(estimator, X, reset, allow_text=True)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    if X.shape[0] == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    return X


def _as_array(rows: list[Any] | tuple[Any, ...]) -> np.ndarray:
    """Rows of cells as an array, in which numbers beside text stay numbers."""
    found = np.asarray(rows)
    return np.asarray(rows, dtype=object) if found.dtype.kind in "US" else found


def is_complete(rows: TableSource, weight_sum: Array) -> bool:
    """Whether no cell is missing. Weights may hide one in the sums: then all rows are read."""
    if not rows.is_weighted:
        return bool(namespace(weight_sum).all(weight_sum == float(rows.n_rows)))
    size = rows_per_chunk(2 * rows.n_features, rows.rows_like)
    return not rows.sum_over_chunks(_count_gaps, size)["chunks with gaps"]


def _count_gaps(chunk: Chunk) -> Totals:
    return {"chunks with gaps": int(chunk.rows.observed is not None)}
