"""What `compare` takes: estimators, data sets and folds in several forms, checked and made uniform."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_regressor
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from latentia._arrays import to_numpy
from latentia.validation import Labels, check_weight, encode_labels


class Table(NamedTuple):
    """One data set."""

    name: str
    X: Any
    y: Any  # as the user gave it, for the estimators
    host_y: np.ndarray  # the same on the host
    labels: Labels
    weight: np.ndarray | None
    groups: Any

    @property
    def labelled(self) -> np.ndarray:
        """Which rows may be scored (N,)."""
        return self.labels.codes >= 0


def make_folds(table: Table, cv: Any, random_state: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training and test rows: unlabelled rows are in every training part, and in no test part."""
    labelled, unlabelled = np.flatnonzero(table.labelled), np.flatnonzero(~table.labelled)
    if isinstance(cv, (int, np.integer)):
        if cv < 2:
            raise ValueError(f"cv must be at least 2 folds, got {cv}")
        cv = StratifiedKFold(int(cv), shuffle=True, random_state=random_state)
    if hasattr(cv, "split") and not isinstance(cv, str):
        groups = None if table.groups is None else np.asarray(table.groups)[labelled]
        codes = table.labels.codes[labelled]
        pairs = [(labelled[a], labelled[b]) for a, b in cv.split(codes[:, None], codes, groups)]
    elif isinstance(cv, Iterable) and not isinstance(cv, str):
        pairs = [(_numbers(a), _numbers(b)) for a, b in cv]
    else:
        raise ValueError(f"cv must be an int, a splitter or pairs of row numbers, got {cv!r}")
    usable = table.labelled if table.weight is None else table.labelled & (table.weight > 0)
    folds = [(np.concatenate([train, np.setdiff1d(unlabelled, train)]), test[usable[test]]) for train, test in pairs]
    if len(folds) < 2 or any(len(test) == 0 or not table.labelled[train].any() for train, test in folds):
        raise ValueError(f"cv must give at least 2 folds with labelled rows on both sides, for data set {table.name!r}")
    return folds


def _numbers(rows: Any) -> np.ndarray:
    """Row numbers, from numbers or a mask."""
    rows = np.asarray(rows)
    return np.flatnonzero(rows) if rows.dtype == bool else rows.astype(int)


def named_estimators(estimators: Any) -> dict[str, Any]:
    """Names and classifiers, from any of the accepted forms."""
    if isinstance(estimators, Mapping):
        pairs = list(estimators.items())
    elif isinstance(estimators, Sequence) and not isinstance(estimators, str):
        pairs = [item if isinstance(item, tuple) else ("", item) for item in estimators]
        pairs = [(name or _class_name(estimators, i), item) for i, (name, item) in enumerate(pairs)]
    else:
        pairs = [(type(estimators).__name__, estimators)]
    names = [name for name, _ in pairs]
    if not pairs or len(set(names)) < len(names):
        raise ValueError(f"estimators must have one name each and there must be at least one, got names {names}")
    for name, estimator in pairs:
        if not (hasattr(estimator, "fit") and hasattr(estimator, "predict")):
            raise ValueError(f"estimators[{name!r}] must be a classifier with fit and predict, got {estimator!r}")
        if is_regressor(estimator):
            raise ValueError(f"estimators[{name!r}] must be a classifier, got the regressor {estimator!r}")
    return {str(name): estimator for name, estimator in pairs}


def _class_name(estimators: Sequence[Any], position: int) -> str:
    """The class of an estimator without a name, numbered from the second of its class on."""
    name = type(estimators[position]).__name__
    before = sum(type(other).__name__ == name for other in estimators[:position])
    return f"{name} {before + 1}" if before else name


def named_tables(X: Any, y: Any, sample_weight: Any, groups: Any) -> list[Table]:
    """Checked data sets, from either of the accepted forms."""
    if not isinstance(X, Mapping):
        if y is None:
            raise ValueError("y must be given unless X is a mapping of data-set names to (X, y)")
        return [checked_table("data", X, y, sample_weight, groups)]
    if y is not None or sample_weight is not None or groups is not None:
        raise ValueError(
            "with a mapping as X, labels and weights belong in it, {name: (X, y, sample_weight)}: "
            "y, sample_weight and groups must be None"
        )
    if not X or any(not isinstance(v, tuple) or len(v) not in (2, 3) for v in X.values()):
        raise ValueError("X must map at least one data-set name to (X, y) or (X, y, sample_weight)")
    return [checked_table(str(name), *parts) for name, parts in X.items()]


def checked_table(name: str, X: Any, y: Any, weight: Any = None, groups: Any = None) -> Table:
    """A data set whose labels and weights fit its rows."""
    if isinstance(X, list):
        X = np.asarray(X)
    if isinstance(y, list | tuple):  # objects, lest NaN among strings become the string "nan"
        y = np.asarray(y, dtype=object if any(v is None or v != v for v in y) else None)
    try:
        labels = encode_labels(y, X.shape[0])
        weight = check_weight(weight, X.shape[0])
    except ValueError as error:
        error.add_note(f"(data set {name!r})")
        raise
    if len(labels.classes) < 2:
        raise ValueError(f"y of data set {name!r} must have at least 2 classes, got {labels.classes.tolist()}")
    return Table(name, X, y, np.asarray(to_numpy(y)), labels, weight, groups)


def weight_argument(name: str, estimator: Any) -> str:
    """The keyword by which `fit` takes sample weights."""
    last, prefix = estimator, ""
    while isinstance(last, Pipeline):
        prefix, last = prefix + f"{last.steps[-1][0]}__", last.steps[-1][1]
    if not has_fit_parameter(last, "sample_weight"):
        raise ValueError(f"sample_weight was given, but estimator {name!r} ({type(last).__name__}) takes none in fit")
    return prefix + "sample_weight"


def take_rows(X: Any, rows: np.ndarray) -> Any:
    """Rows of an array, a tensor, a sparse matrix or a data frame."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]
