"""Labels as users pass them: classes, codes, unlabeled rows."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from latentia.numerics.array_api import Array, asarray_like, namespace, to_numpy


class EncodedLabels(NamedTuple):
    """Classes in sorted order, and the code of each row's class, -1 where unlabeled."""

    classes: np.ndarray
    codes: np.ndarray


NO_LABEL = "y has no label: all its entries are -1, None or NaN. At least one row of each class must be labeled."


def encode_labels(y: Any, n_rows: int) -> EncodedLabels:
    """Classes and codes of labels; -1 (integers), None or NaN (others) mark unlabeled rows.

    Integer labels that are all -1 or 1 are the two classes of the -1/+1 convention: with a single
    other label there would be nothing to classify.
    """
    labels, unlabeled = split_unlabeled(y, n_rows)
    if unlabeled.all():
        raise ValueError(NO_LABEL)
    check_classification_targets(labels)
    classes, label_codes = np.unique(labels, return_inverse=True)
    codes = np.full(n_rows, -1, dtype=np.int64)
    codes[~unlabeled] = label_codes
    return EncodedLabels(classes, codes)


def split_unlabeled(y: Any, n_rows: int, classes: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The labels of the labeled rows, in one dtype, and which rows are unlabeled."""
    if y is None:
        raise ValueError(
            "y=None: a classifier requires y to be passed, but the target y is None. "
            "Pass a class for each row, -1 or None for unlabeled rows."
        )
    if isinstance(y, str | bytes):
        raise ValueError(f"y={y!r} is a string: pass the labels themselves, for example the column of that name.")
    if isinstance(y, list | tuple) and any(isinstance(v, list | tuple | set) for v in y):
        raise ValueError(
            "y holds lists of labels: for several labels per row, make an indicator matrix with scikit-learn's "
            "MultiLabelBinarizer and use ProbitEmbeddingClassifier."
        )
    if np.ma.isMaskedArray(y):  # masked labels are unknown
        mask, y = np.ma.getmaskarray(y), y.data.astype(object)
        y[mask] = None
    # missing entries turn a column of integers into floats
    is_integer = str(getattr(y, "dtype", "")).lower().startswith(("int", "uint"))
    # NaN among strings would become the string "nan"
    has_strings = isinstance(y, list | tuple) and any(isinstance(v, str) for v in y)
    y = np.asarray(to_numpy(y) if hasattr(y, "__dlpack__") else y, dtype=object if has_strings else None)
    y = column_or_1d(y, warn=True)
    if y.shape[0] != n_rows:
        raise ValueError(f"y has {y.shape[0]} entries and X has {n_rows} rows: they must be equal.")
    unlabeled = _is_unlabeled(y, classes)
    labels = y[~unlabeled]
    if labels.dtype == object:
        types = {type(v) for v in labels.tolist()}
        if len(types) > 1 and any(issubclass(kind, str) for kind in types):
            names = sorted(kind.__name__ for kind in types)
            raise ValueError(f"y holds labels of the types {', '.join(names)}; allowed are labels of one type.")
        if all(issubclass(kind, str | bool | np.bool_ | Real) for kind in types):
            labels = np.array(labels.tolist())
    if labels.dtype.kind == "f" and is_integer:
        labels = labels.astype(np.int64)
    return labels, unlabeled


def _is_unlabeled(y: np.ndarray, classes: np.ndarray | None) -> np.ndarray:
    """Which rows are unlabeled. -1 among integers marks one, unless -1 and 1 are the classes."""
    unlabeled = is_missing(y)
    labels = y[~unlabeled].tolist()
    if y.dtype.kind == "i" or (y.dtype.kind == "O" and all(_is_integer(v) for v in labels)):
        is_class = set(labels) == {-1, 1} if classes is None else -1 in classes.tolist()
        if not is_class:
            unlabeled[~unlabeled] = [v == -1 for v in labels]
    return unlabeled


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_missing(values: np.ndarray) -> np.ndarray:
    """Which values are None, NaN or pandas' NA."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind != "O":
        return np.zeros(values.shape, bool)
    missing = [v is None or type(v).__name__ in ("NAType", "NaTType") or v != v for v in values.ravel().tolist()]
    return np.array(missing, dtype=bool).reshape(values.shape)


def encode_known_labels(y: Any, classes: np.ndarray, n_rows: int) -> np.ndarray:
    """Codes of labels among known classes; -1 for unlabeled rows."""
    labels, unlabeled = split_unlabeled(y, n_rows, classes)
    code_of = {label: code for code, label in enumerate(classes.tolist())}
    unknown = [label for label in labels.tolist() if label not in code_of]
    if unknown:
        raise ValueError(
            f"y holds the class {unknown[0]!r}, which was not seen in fit. The classes are {classes.tolist()}."
        )
    codes = np.full(n_rows, -1, dtype=np.int64)
    codes[~unlabeled] = [code_of[label] for label in labels.tolist()]
    return codes


def decode_labels(classes: np.ndarray, codes: Array) -> Array:
    """Classes of codes: in the codes' namespace if they are numbers."""
    xp = namespace(codes)
    if classes.dtype.kind in "iuf":
        return xp.take(asarray_like(classes, codes, dtype=getattr(xp, str(classes.dtype))), codes, axis=0)
    return classes[to_numpy(codes)]
