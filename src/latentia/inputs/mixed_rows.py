"""Rows of mixed tables: validated as they are, and encoded as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from latentia.inputs.column_encoder import ColumnEncoder
from latentia.inputs.column_kinds import is_textual
from latentia.inputs.dataframes import frame_type
from latentia.inputs.rows import plain_table, validate_rows
from latentia.numerics.array_api import Array, has_nan, namespace

#: Rows that are scanned for missing cells at a time.
SCAN_ROWS = 2**16


def validate_table(estimator: Any, X: Any, reset: bool) -> Any:
    """A numeric array, or a table of text and numbers as it is."""
    X = plain_table(X)
    X = np.asarray(X) if isinstance(X, list | tuple) else X
    if frame_type(X) == "array" and not (is_textual(X) and X.ndim == 2):
        return validate_rows(estimator, X, reset, allow_text=True)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    if X.shape[0] == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    return X


def encode_rows(encoder: ColumnEncoder, table: Any, handle_unknown: str) -> Array:
    """The cells as numbers, NaN where missing."""
    return encoder.encode(table, handle_unknown)


def is_complete(X: Array, weight: np.ndarray | None, weight_sum: Array) -> bool:
    """Whether no cell is missing. Weights may hide one in the sums: then X is scanned."""
    if weight is None:
        return bool(namespace(weight_sum).all(weight_sum == float(X.shape[0])))
    if not namespace(X).isdtype(X.dtype, "real floating"):
        return True
    starts = range(0, X.shape[0], SCAN_ROWS)
    return not any(has_nan(X[start : min(start + SCAN_ROWS, X.shape[0]), ...]) for start in starts)
