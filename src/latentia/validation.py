"""What users hand in, checked once at the door: labels, weights, class priors, losses, options.

Every error names the argument, the value received and the values allowed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from latentia._arrays import to_numpy


class Labels(NamedTuple):
    """Classes in sorted order, and the code of each row's class, -1 where unlabelled."""

    classes: np.ndarray
    codes: np.ndarray


NO_LABEL = "y has no label: all its entries are -1, None or NaN. At least one row of each class must be labelled."


def encode_labels(y: Any, n_rows: int) -> Labels:
    """Classes and codes of labels; -1 (integers), None or NaN (others) mark unlabelled rows.

    Integer labels that are all -1 or 1 are the two classes of the -1/+1 convention: with a single
    other label there would be nothing to classify.
    """
    known, gaps = labels_and_gaps(y, n_rows)
    if gaps.all():
        raise ValueError(NO_LABEL)
    check_classification_targets(known)
    found, codes_known = np.unique(known, return_inverse=True)
    codes = np.full(n_rows, -1, dtype=np.int64)
    codes[~gaps] = codes_known
    return Labels(found, codes)


def labels_and_gaps(y: Any, n_rows: int, classes: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The labels of the labelled rows, in one dtype, and which rows are unlabelled."""
    if y is None:
        raise ValueError(
            "y=None: a classifier requires y to be passed, but the target y is None. Pass a class for each row, -1 or None for unlabelled rows."
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
    """Which rows are unlabelled. -1 among integers is a gap, unless -1 and 1 are the classes."""
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


def codes_of(y: Any, classes: np.ndarray, n_rows: int) -> np.ndarray:
    """Codes of labels among known classes; -1 for unlabelled rows."""
    known, gaps = labels_and_gaps(y, n_rows, classes)
    place = {label: code for code, label in enumerate(classes.tolist())}
    strange = [label for label in known.tolist() if label not in place]
    if strange:
        raise ValueError(
            f"y holds the class {strange[0]!r}, which was not seen in fit. The classes are {classes.tolist()}."
        )
    codes = np.full(n_rows, -1, dtype=np.int64)
    codes[~gaps] = [place[label] for label in known.tolist()]
    return codes


def check_weight(
    sample_weight: Any, n_rows: int, codes: np.ndarray | None = None, classes: Any = None
) -> np.ndarray | None:
    """Weights as float64, None where all are one."""
    if sample_weight is None:
        return None
    weight = _numbers("sample_weight", sample_weight, "one number per row, or None")
    if weight.ndim == 0:
        weight = np.full(n_rows, float(weight))
    if weight.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {weight.shape}, but X has {n_rows} rows: one weight per row is expected."
        )
    if not np.isfinite(weight).all() or (weight < 0).any():
        bad = weight[~np.isfinite(weight) | (weight < 0)][0]
        raise ValueError(f"sample_weight holds {bad}; weights must be finite and not negative.")
    if not (weight > 0).any():
        raise ValueError("sample_weight is zero for every row; at least one row must have a positive weight.")
    if codes is not None:
        in_class = np.bincount(codes[codes >= 0], weight[codes >= 0], minlength=len(classes))
        if (in_class <= 0).any():
            empty = classes.tolist()[int(np.argmin(in_class))]
            raise ValueError(
                f"sample_weight is zero for every row of class {empty!r}; drop the class from y or give a row a positive weight."
            )
    return weight


def check_priors(priors: Any, classes: np.ndarray) -> np.ndarray | None:
    """Log class priors; None when they are to be counted."""
    n_classes = len(classes)
    allowed = (
        "'empirical', 'uniform', one positive number per class in the order of classes_, or a dict from class to number"
    )
    if isinstance(priors, str):
        if priors == "empirical":
            return None
        if priors == "uniform":
            return np.full(n_classes, -math.log(n_classes))
        raise ValueError(f"priors={priors!r}; allowed are {allowed}.")
    if isinstance(priors, Mapping):
        strange = [c for c in priors if c not in classes.tolist()]
        if strange:
            raise ValueError(
                f"priors names the class {strange[0]!r}, which has no row in y. The classes are {classes.tolist()}."
            )
        absent = [c for c in classes.tolist() if c not in priors]
        if absent:
            raise ValueError(f"priors has no entry for class {absent[0]!r}; allowed are {allowed}.")
        priors = [priors[c] for c in classes.tolist()]
    values = _numbers("priors", priors, allowed)
    if values.shape != (n_classes,):
        raise ValueError(f"priors has shape {values.shape}, but y has {n_classes} classes; allowed are {allowed}.")
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(f"priors={values.tolist()}; allowed are {allowed}.")
    return np.log(values / values.sum())


def check_loss_matrix(loss_matrix: Any, n_classes: int) -> np.ndarray | None:
    """Losses (true class, predicted class); None for zero-one loss."""
    if loss_matrix is None:
        return None
    loss = _numbers("loss_matrix", loss_matrix, f"None and a {n_classes} x {n_classes} matrix of numbers")
    found = f"has shape {loss.shape}" if loss.shape != (n_classes, n_classes) else ""
    if not found and not np.isfinite(loss).all():
        found = f"holds {loss[~np.isfinite(loss)][0]}"
    if found:
        raise ValueError(
            f"loss_matrix {found}; expected is a finite {n_classes} x {n_classes} matrix, row = true class, column = predicted class."
        )
    return loss


def _numbers(name: str, values: Any, allowed: str) -> np.ndarray:
    """An array of real numbers."""
    try:
        found = np.asarray(to_numpy(values))
        if found.dtype.kind == "c":  # which NumPy would take for their real parts
            raise ValueError
        return found.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name}={values!r}; allowed are {allowed}.") from None


def check_choice(name: str, value: Any, allowed: Collection[str], besides: str = "") -> None:
    """One of some strings; `besides` names what else is allowed, where others check it."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name}={value!r}; allowed are {', '.join(repr(a) for a in allowed)}{besides}.")


def check_flag(name: str, value: Any) -> None:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={value!r}; allowed are True and False.")


def check_number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    integer: bool = False,
) -> None:
    """A finite number within bounds."""
    kind = Integral if integer else Real
    bounds = [
        f"> {above}" if above is not None else "",
        f">= {least}" if least is not None else "",
        f"< {below}" if below is not None else "",
    ]
    fits = isinstance(value, kind) and not isinstance(value, bool | np.bool_) and _is_finite(value)
    fits = (
        fits
        and (above is None or value > above)
        and (least is None or value >= least)
        and (below is None or value < below)
    )
    if not fits:
        noun = "an integer" if integer else "a finite number"
        raise ValueError(
            f"{name}={value!r}; allowed is {noun} {' and '.join(b for b in bounds if b)}.".replace(" .", ".")
        )


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that no float is as large as
        return False


def random_generator(random_state: Any) -> np.random.Generator:
    """The generator of scikit-learn's `random_state`; a RandomState moves on by one draw."""
    try:
        state = check_random_state(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            f"random_state={random_state!r}; allowed are None, an integer from 0 to 2**32 - 1, and a RandomState."
        ) from None
    return np.random.default_rng(state.randint(2**31 - 1))
