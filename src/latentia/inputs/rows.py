"""Rows that users hand in, as arrays of numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from array_api_compat import device, is_array_api_obj, is_numpy_array
from scipy import sparse
from sklearn import get_config
from sklearn.utils.validation import validate_data

from latentia.engine.pytree import leaves
from latentia.numerics.array_api import namespace


def validate_rows(estimator: Any, X: Any, reset: bool, **options: Any) -> Any:
    """Rows as a numeric array, NaN where a cell is missing.

    Text raises an error that names an estimator accepting it.
    """
    if hasattr(X, "detach"):  # fit is not differentiable
        X = X.detach()
    try:
        return validate_data(estimator, X, reset=reset, dtype="numeric", ensure_all_finite="allow-nan", **options)
    except ValueError as error:
        if not any(words in str(error) for words in ("could not convert string to float", "arrays of bytes/strings")):
            raise
        raise ValueError(
            f"X holds text{_where(X)}: {type(estimator).__name__} takes numbers. "
            "LatentClassificationModel takes columns of text as they are."
        ) from error


def require_fitted_namespace(method: Callable[..., Any]) -> Callable[..., Any]:
    """Under array API dispatch, rows must be of the library and on the device of those fitted."""

    @wraps(method)
    def checked(estimator: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        _check_same_namespace(estimator, X, method.__name__)
        return method(estimator, X, *args, **kwargs)

    return checked


def _check_same_namespace(estimator: Any, X: Any, method: str) -> None:
    if not get_config()["array_api_dispatch"]:
        return
    estimator._require_fitted()
    ours = next(leaves(estimator._model.params))
    if is_array_api_obj(X) and not sparse.issparse(X):
        if namespace(X) is namespace(ours) and (is_numpy_array(X) or device(X) == device(ours)):
            return
        what = f"an array of {namespace(X).__name__} on {device(X)}"
    elif is_numpy_array(ours):
        return
    else:
        what = f"a {type(X).__name__}"
    raise ValueError(
        f"Inputs passed to {type(estimator).__name__}.{method}() must use the same namespace and the same device "
        "as those passed to fit(): "
        f"X is {what}, but the model was fitted in {namespace(ours).__name__} on {device(ours)}."
    )


def reject_missing(estimator: Any, X: Any) -> None:
    """Discriminative models reject missing values."""
    values = X.data if hasattr(X, "tocsr") else X
    xp = namespace(values)
    if xp.isdtype(values.dtype, "real floating") and bool(xp.any(xp.isnan(values))):
        raise ValueError(
            f"X has missing cells (NaN), which {type(estimator).__name__} cannot use: it models p(y | x) and not x. "
            "Impute them first, or use a generative estimator, GaussianMixtureClassifier or "
            "LatentClassificationModel, which integrate them out."
        )


def _where(X: Any) -> str:
    """The first column with text that is no number, and the text."""
    cells = np.asarray(X, dtype=object)
    names = list(getattr(X, "columns", range(cells.shape[1] if cells.ndim == 2 else 0)))
    for k, name in enumerate(names):
        for cell in cells[:, k].tolist():
            if isinstance(cell, str | bytes):
                try:
                    float(cell)
                except ValueError:
                    return f" in column {name!r}: {cell!r}"
    return ""
