"""What `compare` takes: estimators, data sets and folds in several forms, made uniform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_regressor
from sklearn.metrics import get_scorer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from latentia.arrays.namespace import to_numpy
from latentia.evaluation.comparison_result import UNNAMED
from latentia.table.labels import EncodedLabels, Mark, check_unlabeled, encode_labels
from latentia.table.rows import warn_of_other_order
from latentia.table.weights import Fold, check_weight, make_folds


class Dataset(NamedTuple):
    """One data set."""

    name: str
    X: Any
    y: Any  # in the user's container, for the estimators
    y_numpy: np.ndarray  # the same on the host
    labels: EncodedLabels
    weight: np.ndarray | None
    groups: np.ndarray | None

    @property
    def labeled(self) -> np.ndarray:
        """Which rows may be scored (N,)."""
        return self.labels.codes >= 0

    def classes_of(self, rows: np.ndarray) -> Any:
        """Labels of some rows; of labeled ones without objects, of which scikit-learn takes text
        alone.
        """
        if self.y_numpy.dtype == object and self.labeled[rows].all():
            return self.labels.classes[self.labels.codes[rows]]
        return select_rows(self.y, rows)


def folds_of(dataset: Dataset, cv: Any, random_state: Any) -> list[Fold]:
    """Training and test rows of each fold."""
    try:
        return make_folds(cv, dataset.labels.codes, dataset.weight, lambda: random_state, dataset.groups)
    except ValueError as error:
        error.add_note(f"(data set {dataset.name!r})")
        raise


def named_estimators(estimators: Any) -> dict[str, Any]:
    """Names and classifiers, from any of the accepted forms."""
    if isinstance(estimators, Mapping):
        pairs = list(estimators.items())
    elif isinstance(estimators, Sequence) and not isinstance(estimators, str):
        pairs = [item if isinstance(item, tuple) else ("", item) for item in estimators]
    else:
        pairs = [("", estimators)]
    malformed = [item for item in pairs if len(item) != 2]
    if malformed:
        raise ValueError(f"estimators holds {malformed[0]!r}; allowed are classifiers and (name, classifier) pairs")
    if not pairs:
        raise ValueError("estimators is empty; allowed are one or more classifiers, or a mapping of names to them.")
    names = _all_named(pairs)
    if len(set(names)) < len(names):
        raise ValueError(f"estimators must have one name each, got names {names}")
    for name, (_, estimator) in zip(names, pairs, strict=True):
        if isinstance(estimator, type):
            raise TypeError(f"estimators[{name!r}] is the class {estimator.__name__}; make an instance of it")
        if not (hasattr(estimator, "fit") and hasattr(estimator, "predict")):
            raise ValueError(f"estimators[{name!r}] must be a classifier with fit and predict, got {estimator!r}")
        if is_regressor(estimator):
            raise ValueError(f"estimators[{name!r}] must be a classifier, got the regressor {estimator!r}")
    return {name: estimator for name, (_, estimator) in zip(names, pairs, strict=True)}


def _all_named(pairs: Sequence[tuple[Any, Any]]) -> list[str]:
    """Names as text; an estimator without one gets that of its class, with the next free number
    where it is taken.
    """
    names = ["" if name is None else str(name) for name, _ in pairs]
    for k, (_, estimator) in enumerate(pairs):
        if not names[k]:
            name = type(estimator).__name__
            numbered = (f"{name} {number}" for number in count(2))
            names[k] = next(free for free in chain([name], numbered) if free not in names)
    return names


#: Which rows are unlabeled for each estimator that has a say in it.
Marks = Mapping[str, Mark]


def marks_of(named: Mapping[str, Any]) -> Marks:
    """The argument `unlabeled` of each estimator that has it, or wraps one that has."""
    marks = {
        f"{name}: {argument}": value
        for name, estimator in named.items()
        for argument, value in (estimator.get_params() if hasattr(estimator, "get_params") else {}).items()
        if argument.split("__")[-1] == "unlabeled"
    }
    for name, mark in marks.items():
        check_unlabeled(name, mark)
    return marks


def named_datasets(X: Any, y: Any, sample_weight: Any, groups: Any, marks: Marks) -> list[Dataset]:
    """Checked data sets, from either of the accepted forms."""
    bunch = "X" if _is_bunch(X) else None
    if isinstance(X, Mapping):
        bunch = next((f"X[{name!r}]" for name, value in X.items() if _is_bunch(value)), bunch)
    if bunch is not None:
        raise ValueError(
            f"{bunch} is a Bunch of scikit-learn: pass its rows and labels, as load_iris(return_X_y=True) returns them."
        )
    if not isinstance(X, Mapping):
        if y is None:
            raise ValueError("y must be given unless X is a mapping of data-set names to (X, y)")
        return [_checked_dataset(marks, UNNAMED, X, y, sample_weight, groups)]
    if y is not None or sample_weight is not None or groups is not None:
        raise ValueError(
            "with a mapping as X, labels and weights belong in it, {name: (X, y, sample_weight)}: "
            "y, sample_weight and groups must be None"
        )
    if not X or any(not isinstance(v, tuple) or len(v) not in (2, 3) for v in X.values()):
        raise ValueError("X must map at least one data-set name to (X, y) or (X, y, sample_weight)")
    return [_checked_dataset(marks, str(name), *parts) for name, parts in X.items()]


def _is_bunch(X: Any) -> bool:
    """Whether this is what scikit-learn's loaders return unless asked for rows and labels."""
    return isinstance(X, Mapping) and "data" in X and "target" in X


def named_scorers(scoring: Any) -> dict[str, Any]:
    """Scorers by name, from one or several names of scikit-learn's, or a mapping to names or
    functions.
    """
    if scoring is None:
        return {}
    if isinstance(scoring, str):
        scoring = [scoring]
    pairs = scoring.items() if isinstance(scoring, Mapping) else [(name, name) for name in _listed(scoring)]
    for name, scorer in pairs:
        if not isinstance(scorer, str) and not callable(scorer):
            raise ValueError(
                f"scoring[{name!r}]={scorer!r}; allowed are names of scikit-learn's scorers and functions of an "
                "estimator, X and y."
            )
    return {str(name): get_scorer(scorer) for name, scorer in pairs}


def _listed(scoring: Any) -> list[str]:
    if not isinstance(scoring, Sequence) or not all(isinstance(name, str) for name in scoring):
        raise ValueError(
            f"scoring={scoring!r}; allowed are None, the name of a scorer, several names, or a mapping of names to "
            "scorers."
        )
    return list(scoring)


def _checked_dataset(marks: Marks, name: str, X: Any, y: Any, weight: Any = None, groups: Any = None) -> Dataset:
    """A data set whose labels and weights fit its rows."""
    warn_of_other_order(X, y)
    X, y = _rows(name, X), _one_column(y)
    n_rows = X.shape[0]
    if len(getattr(y, "shape", ())) > 1:
        raise ValueError(
            f"y of data set {name!r} has shape {tuple(y.shape)}; allowed is one class for each row. Matrices of "
            "labels, which ProbitEmbeddingClassifier and LatentClassifier fit, are compared one column at a time."
        )
    try:
        labels = _agreed_labels(y, n_rows, marks)
        weight = check_weight(weight, n_rows)
    except ValueError as error:
        error.add_note(f"(data set {name!r})")
        raise
    if len(labels.classes) < 2:
        raise ValueError(f"y of data set {name!r} must have at least 2 classes, got {labels.classes.tolist()}")
    if groups is not None:
        groups = np.asarray(to_numpy(groups))
        if groups.shape != (n_rows,):
            raise ValueError(
                f"groups has shape {groups.shape}, but X has {n_rows} rows: one group per row is expected."
            )
    return Dataset(name, X, y, np.asarray(to_numpy(y)), labels, weight, groups)


def _agreed_labels(y: Any, n_rows: int, marks: Marks) -> EncodedLabels:
    """Labels as the estimators read them, who must agree on the rows that have one."""
    first = encode_labels(y, n_rows, next(iter(marks.values()), "auto"))
    for mark in set(marks.values()):
        if (encode_labels(y, n_rows, mark).codes != first.codes).any():
            raise ValueError(
                "y holds rows that are unlabeled for some estimators and labeled for others "
                f"({', '.join(f'{name}={value!r}' for name, value in marks.items())}): give all the same `unlabeled`."
            )
    return first


def _rows(name: str, X: Any) -> Any:
    """What has rows as it is, a list or tuple of rows as an array."""
    if isinstance(X, list | tuple):
        try:
            X = np.asarray(X)
        except ValueError as error:
            raise ValueError(f"X of data set {name!r} is a {type(X).__name__} whose rows differ in length") from error
    if not getattr(X, "shape", ()):
        raise ValueError(f"X of data set {name!r} must be an array, a data frame or a sequence of rows, got {X!r}")
    return X


def _one_column(y: Any) -> Any:
    """EncodedLabels in one dimension, also where they came as a column."""
    if isinstance(y, list | tuple):
        y = [v[0] if isinstance(v, list | tuple) and len(v) == 1 else v for v in y]
        # objects, lest NaN among strings become the string "nan"
        y = np.asarray(y, dtype=object if any(v is None or v != v for v in y) else None)
    if len(getattr(y, "shape", ())) != 2 or y.shape[1] != 1:
        return y
    return y.iloc[:, 0] if hasattr(y, "iloc") else y[:, 0]


def weight_argument(name: str, estimator: Any) -> str:
    """The keyword by which `fit` takes sample weights."""
    last, prefix = estimator, ""
    while isinstance(last, Pipeline):
        prefix, last = prefix + f"{last.steps[-1][0]}__", last.steps[-1][1]
    if not has_fit_parameter(last, "sample_weight"):
        raise ValueError(f"sample_weight was given, but estimator {name!r} ({type(last).__name__}) takes none in fit")
    return prefix + "sample_weight"


def select_rows(X: Any, rows: np.ndarray) -> Any:
    """Rows of an array, a tensor, a sparse matrix, a data frame or a table of Arrow."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X.take(rows) if type(X).__module__.startswith("pyarrow") else X[rows]
