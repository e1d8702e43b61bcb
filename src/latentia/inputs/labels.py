"""Labels as users hand them in: classes, codes, unlabeled rows."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from latentia.numerics.array_api import Array, asarray_like, namespace, to_numpy


class Labels(NamedTuple):
    """Classes in sorted order, and the code of each row's class, -1 where unlabeled."""

    classes: np.ndarray
    codes: np.ndarray


NO_LABEL = "y has no label: all its entries are -1, None or NaN. At least one row of each class must be labeled."


def encode_labels(y: Any, n_rows: int) -> Labels:
    """Classes and codes of labels; -1 (integers), None or NaN (others) mark unlabeled rows.

    Integer labels that are all -1 or 1 are the two classes of the -1/+1 convention: with a single
    other label there would be nothing to classify.
    """
    known, gaps = split_unlabeled(y, n_rows)
    if gaps.all():
        raise ValueError(NO_LABEL)
    check_classification_targets(known)
    found, codes_known = np.unique(known, return_inverse=True)
    codes = np.full(n_rows, -1, dtype=np.int64)
    codes[~gaps] = codes_known
    return Labels(found, codes)


def split_unlabeled(y: Any, n_rows: int, classes: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The labels of the labeled rows, in one dtype, and which rows are unlabeled."""
    if y is None:
        raise ValueError(
            "y=None: a classifier requires y to be passed, but the target y is None. Pass a class for each row, -1 or None for unlabeled rows."
        )
    whole = str(getattr(y, "dtype", "")).lower().startswith(("int", "uint"))  # of a column whose gaps make it floats
    words = isinstance(y, list | tuple) and any(isinstance(v, str) for v in y)  # NaN among words would become "nan"
    y = np.asarray(to_numpy(y) if hasattr(y, "__dlpack__") else y, dtype=object if words else None)
    y = column_or_1d(y, warn=True)
    if y.shape[0] != n_rows:
        raise ValueError(f"y has {y.shape[0]} entries and X has {n_rows} rows: they must be equal.")
    gaps = _gaps(y, classes)
    known = y[~gaps]
    if known.dtype == object:
        kinds = {type(v) for v in known.tolist()}
        if len(kinds) > 1 and any(issubclass(kind, str) for kind in kinds):
            names = sorted(kind.__name__ for kind in kinds)
            raise ValueError(f"y holds labels of the types {', '.join(names)}; allowed are labels of one type.")
        if all(issubclass(kind, str | bool | np.bool_ | Real) for kind in kinds):
            known = np.array(known.tolist())
    if known.dtype.kind == "f" and whole:
        known = known.astype(np.int64)
    return known, gaps


def _gaps(y: np.ndarray, classes: np.ndarray | None) -> np.ndarray:
    """Which rows are unlabeled. -1 among integers is a gap, unless -1 and 1 are the classes."""
    gaps = is_missing(y)
    known = y[~gaps].tolist()
    if y.dtype.kind == "i" or (y.dtype.kind == "O" and all(_is_integer(v) for v in known)):
        signs = set(known) == {-1, 1} if classes is None else -1 in classes.tolist()
        if not signs:
            gaps[~gaps] = [v == -1 for v in known]
    return gaps


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_missing(cells: np.ndarray) -> np.ndarray:
    """None, NaN and pandas' NA."""
    if cells.dtype.kind == "f":
        return np.isnan(cells)
    if cells.dtype.kind != "O":
        return np.zeros(cells.shape, bool)
    gaps = [c is None or type(c).__name__ in ("NAType", "NaTType") or c != c for c in cells.ravel().tolist()]
    return np.array(gaps, dtype=bool).reshape(cells.shape)


def encode_known_labels(y: Any, classes: np.ndarray, n_rows: int) -> np.ndarray:
    """Codes of labels among known classes; -1 for unlabeled rows."""
    known, gaps = split_unlabeled(y, n_rows, classes)
    place = {label: code for code, label in enumerate(classes.tolist())}
    unknown = [label for label in known.tolist() if label not in place]
    if unknown:
        raise ValueError(
            f"y holds the class {unknown[0]!r}, which was not seen in fit. The classes are {classes.tolist()}."
        )
    codes = np.full(n_rows, -1, dtype=np.int64)
    codes[~gaps] = [place[label] for label in known.tolist()]
    return codes


def decode_labels(classes: np.ndarray, codes: Array) -> Array:
    """Classes of codes: in the codes' namespace if they are numbers."""
    xp = namespace(codes)
    if classes.dtype.kind in "iuf":
        return xp.take(asarray_like(classes, codes, dtype=getattr(xp, str(classes.dtype))), codes, axis=0)
    return classes[to_numpy(codes)]
