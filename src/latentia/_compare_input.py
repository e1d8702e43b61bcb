"""What `compare` takes: estimators, data sets and folds in several forms, checked and made uniform."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from latentia._arrays import to_numpy


class Table(NamedTuple):
    """One data set."""

    name: str
    X: Any
    y: Any  # as the user gave it, for the estimators
    labels: np.ndarray  # the same on the host
    labelled: np.ndarray  # (N,) which rows may be scored
    weight: np.ndarray | None
    groups: Any


def make_folds(table: Table, cv: Any, random_state: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training and test rows: unlabelled rows are in every training part, and in no test part."""
    labelled, unlabelled = np.flatnonzero(table.labelled), np.flatnonzero(~table.labelled)
    if isinstance(cv, (int, np.integer)):
        if cv < 2:
            raise ValueError(f"cv must be at least 2 folds, got {cv}")
        cv = StratifiedKFold(int(cv), shuffle=True, random_state=random_state)
    if hasattr(cv, "split") and not isinstance(cv, str):
        groups = None if table.groups is None else np.asarray(table.groups)[labelled]
        # Codes, because splitters refuse labels of mixed types; rows are not looked at.
        codes = np.unique(table.labels[labelled].astype(str), return_inverse=True)[1]
        pairs = [(labelled[a], labelled[b]) for a, b in cv.split(np.zeros((len(labelled), 1)), codes, groups)]
    elif isinstance(cv, Iterable) and not isinstance(cv, str):
        pairs = [(np.asarray(a, dtype=int), np.asarray(b, dtype=int)) for a, b in cv]
    else:
        raise ValueError(f"cv must be an int, a splitter or pairs of row numbers, got {cv!r}")
    usable = table.labelled if table.weight is None else table.labelled & (table.weight > 0)
    folds = [(np.concatenate([train, np.setdiff1d(unlabelled, train)]), test[usable[test]]) for train, test in pairs]
    if len(folds) < 2 or any(len(test) == 0 or not table.labelled[train].any() for train, test in folds):
        raise ValueError(f"cv must give at least 2 folds with labelled rows on both sides, for data set {table.name!r}")
    return folds


def named_estimators(estimators: Any) -> dict[str, Any]:
    """Names and classifiers, from any of the accepted forms."""
    if isinstance(estimators, Mapping):
        pairs = list(estimators.items())
    elif isinstance(estimators, Sequence) and not isinstance(estimators, str):
        pairs = [item if isinstance(item, tuple) else (type(item).__name__, item) for item in estimators]
    else:
        pairs = [(type(estimators).__name__, estimators)]
    names = [name for name, _ in pairs]
    if not pairs or len(set(names)) < len(names):
        raise ValueError(f"estimators must have one name each and there must be at least one, got names {names}")
    for name, estimator in pairs:
        if not (hasattr(estimator, "fit") and hasattr(estimator, "predict")):
            raise ValueError(f"estimators[{name!r}] must be a classifier with fit and predict, got {estimator!r}")
    return {str(name): estimator for name, estimator in pairs}


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
    if isinstance(X, list):
        X = np.asarray(X)
    if isinstance(y, (list, tuple)):
        y = np.asarray(y, dtype=object if any(_is_missing(v) for v in y) else None)
    labels = np.asarray(to_numpy(y))
    n_rows = X.shape[0]
    if labels.shape != (n_rows,):
        raise ValueError(f"y of data set {name!r} must be a vector of {n_rows} labels, got shape {labels.shape}")
    labelled = labelled_rows(labels)
    classes = set(labels[labelled].tolist())
    if len(classes) < 2:
        raise ValueError(
            f"y of data set {name!r} must have at least 2 classes, got {classes or 'no label'} "
            "(-1, None and NaN mark unlabelled rows)"
        )
    if weight is not None:
        weight = np.asarray(to_numpy(weight), dtype=float)
        if weight.shape != (n_rows,) or not np.all(np.isfinite(weight)) or np.any(weight < 0):
            raise ValueError(
                f"sample_weight of data set {name!r} must be {n_rows} finite values >= 0, got shape {weight.shape}"
            )
    return Table(name, X, y, labels, labelled, weight, groups)


def labelled_rows(labels: np.ndarray) -> np.ndarray:
    """Which labels are not marks of a missing one."""
    if labels.dtype.kind == "i":
        return labels != -1
    if labels.dtype.kind == "f":
        return ~np.isnan(labels)
    if labels.dtype.kind != "O":
        return np.ones(labels.shape, dtype=bool)
    present = np.array([not _is_missing(v) for v in labels], dtype=bool)
    if all(isinstance(v, (int, np.integer)) and not isinstance(v, bool) for v in labels[present]):
        present &= labels != -1
    return present


def _is_missing(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, (float, np.floating)) and value != value)
        or type(value).__name__ == "NAType"
    )


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
