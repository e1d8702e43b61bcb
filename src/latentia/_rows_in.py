"""Rows that users hand in, as arrays of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from latentia._arrays import namespace


def numeric_rows(estimator: Any, X: Any, reset: bool, **options: Any) -> Any:
    """Rows as a numeric array, NaN where a cell is missing; text is refused by a word on who takes it."""
    try:
        return validate_data(estimator, X, reset=reset, dtype="numeric", ensure_all_finite="allow-nan", **options)
    except ValueError as error:
        if not any(words in str(error) for words in ("could not convert string to float", "arrays of bytes/strings")):
            raise
        raise ValueError(
            f"X holds text{_where(X)}: {type(estimator).__name__} takes numbers. LatentClassificationModel takes columns of text as they are."
        ) from error


def refuse_gaps(estimator: Any, X: Any) -> None:
    """Missing cells are no business of models of p(y | x)."""
    values = X.data if hasattr(X, "tocsr") else X
    xp = namespace(values)
    if xp.isdtype(values.dtype, "real floating") and bool(xp.any(xp.isnan(values))):
        raise ValueError(
            f"X has missing cells (NaN), which {type(estimator).__name__} cannot use: it models p(y | x) and not x. Impute them first, or use a "
            "generative estimator, GaussianMixtureClassifier or LatentClassificationModel, which integrate them out."
        )


def _where(X: Any) -> str:
    """The first column with text that is no number, and the text."""
    cells = np.asarray(X, dtype=object)
    names = list(getattr(X, "columns", range(cells.shape[1] if cells.ndim == 2 else 0)))
    for place, name in enumerate(names):
        for cell in cells[:, place].tolist():
            if isinstance(cell, str | bytes):
                try:
                    float(cell)
                except ValueError:
                    return f" in column {name!r}: {cell!r}"
    return ""
