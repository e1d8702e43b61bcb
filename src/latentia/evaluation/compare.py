"""The comparison protocol: the same folds for all estimators, and a test that knows how folds
overlap.

Every estimator is trained and scored on the same J folds. Accuracy is the share of the scored rows
that are right, and its standard error is the binomial one, ``sqrt(a (1 - a) / n)`` (Kohavi 1995).
An estimator is compared with the best one by the corrected resampled t-test of Nadeau and Bengio
(2003): training parts overlap, so the variance of the mean of the J differences ``d_j`` in fold
accuracy is not ``S^2 / J`` but larger,

    t = mean(d) / sqrt((1 / J + n_test / n_train) S^2),     J - 1 degrees of freedom, two-sided.

Over several data sets the summary counts how often an estimator wins, comes among the first three
(ties share a place), and is significantly worse than the winner at the levels 10 % and 1 %: tables
2 and 3 of "Latent classification models" (Langseth and Nielsen).

Rows without a label (None, NaN, and what the estimators' argument `unlabeled` says, -1 among
integers where none has it) are part of every training set and are never scored; rows of weight zero
are neither trained on nor scored.

`compare` takes estimators, data sets and folds in several forms; a `Comparison` shows itself as
plain text, rich tables and data frames.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import chain, count
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

import numpy as np
from joblib import Parallel, delayed
from scipy import stats
from sklearn.base import BaseEstimator, clone, is_regressor
from sklearn.metrics import get_scorer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from latentia.arrays.namespace import to_numpy
from latentia.engine.messages import format_column
from latentia.table.frames import Table, TableLike, on_host
from latentia.table.labels import EncodedLabels, LabelsLike, Mark, check_unlabeled, encode_labels
from latentia.table.options import RandomState, integer, optional
from latentia.table.rows import warn_of_other_order
from latentia.table.weights import Fold, FoldsLike, check_weight, make_folds

if TYPE_CHECKING:
    import pandas
    from numpy.typing import ArrayLike
    from rich.console import Group

__all__ = ["Comparison", "compare", "corrected_t_test"]

#: A score of a fitted estimator on rows and labels, with or without their weights.
Scorer = Callable[..., float]

#: The forms of the arguments of `compare`.
EstimatorsLike: TypeAlias = (
    BaseEstimator | Mapping[str, BaseEstimator] | Sequence[BaseEstimator | tuple[str, BaseEstimator]]
)
DatasetsLike: TypeAlias = "Mapping[str, tuple[TableLike, LabelsLike] | tuple[TableLike, LabelsLike, ArrayLike]]"
ScoringLike: TypeAlias = str | Sequence[str] | Mapping[str, str | Scorer] | None


def compare(
    estimators: EstimatorsLike,
    X: TableLike | DatasetsLike,
    y: LabelsLike | None = None,
    cv: FoldsLike = 5,
    *,
    scoring: ScoringLike = None,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    n_jobs: int | None = None,
    random_state: RandomState = 0,
) -> Comparison:
    """Cross-validate classifiers on the same folds and test each against the best.

    Parameters
    ----------
    estimators : mapping or sequence
        Names to classifiers, (name, classifier) pairs, or classifiers.
    X, y : rows and labels
        Or X a mapping of data-set names to ``(X, y)`` or ``(X, y, sample_weight)``, and y None.
        Rows are unlabeled that the estimators' argument `unlabeled` says, on which they must agree.
    cv : int, scikit-learn splitter or sequence
        An int makes shuffled stratified folds (plain ones if a class has fewer rows). A splitter
        sees the labeled rows of positive weight. A sequence holds (training, test) row numbers or
        masks; of a single split nothing can be said on significance.
    scoring : str, sequence of str or mapping, optional
        Further scores: names of scikit-learn's scorers, or names of your own to scorers. Means over
        the folds are shown beside accuracy, by which estimators are ranked and tested.
    sample_weight : array (N,), optional; used to fit and to score, the same for every estimator
    groups : array (N,), optional; handed to the splitter
    n_jobs : jobs of joblib, over folds and estimators
    random_state : seed of the folds when `cv` is an int

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> result = compare({"NB": GaussianNB(), "LDA": LinearDiscriminantAnalysis()}, X, y)
    >>> result.estimators[result.best[0]]
    'LDA'
    """
    named, scorers = named_estimators(estimators), named_scorers(scoring)
    optional(integer())("n_jobs", n_jobs)
    datasets = named_datasets(X, y, sample_weight, groups, marks_of(named))
    for name, estimator in named.items():
        if any(dataset.weight is not None for dataset in datasets):
            weight_argument(name, estimator)
    if isinstance(cv, Iterator):  # every data set needs them
        cv = list(cv)
    folds = [folds_of(dataset, cv, random_state) for dataset in datasets]
    tasks = [
        (dataset, train, test, name, estimator, scorers)
        for dataset, parts in zip(datasets, folds, strict=True)
        for train, test in parts
        for name, estimator in named.items()
    ]
    trials = iter(Parallel(n_jobs=n_jobs)(delayed(_trial)(*task) for task in tasks))
    return _comparison(named, scorers, datasets, folds, trials)


def _comparison(
    named: Mapping[str, BaseEstimator],
    scorers: Mapping[str, Scorer],
    datasets: list[Dataset],
    folds: list[list[Fold]],
    trials: Iterator[_Trial],
) -> Comparison:
    """The trials, which come by data set, fold and estimator, as tables."""
    scores, fitted_on_labeled_only = [], set()
    for dataset, parts in zip(datasets, folds, strict=True):
        grid = [[next(trials) for _ in named] for _ in parts]  # J lists of E trials
        fitted_on_labeled_only |= {
            name for row in grid for name, trial in zip(named, row, strict=True) if trial.fitted_on_labeled_only
        }
        scores.append(_score(dataset, parts, grid))
    columns = {field: np.stack([s[field] for s in scores]) for field in _PER_DATASET}
    return Comparison(
        datasets=tuple(dataset.name for dataset in datasets),
        estimators=tuple(named),
        fitted_on_labeled_only=frozenset(fitted_on_labeled_only),
        scores={name: np.stack([s["scores"][:, k] for s in scores]) for k, name in enumerate(scorers)},
        fold_accuracy=tuple(s["fold_accuracy"] for s in scores),
        fold_log_loss=tuple(s["fold_log_loss"] for s in scores),
        **columns,
    )


_PER_DATASET = ("accuracy", "accuracy_se", "log_loss", "log_loss_se", "p_value", "best", "rank", "fit_seconds")


def corrected_t_test(differences: ArrayLike, test_over_train: float) -> tuple[float, float]:
    """Statistic and two-sided p-value of Nadeau and Bengio's test that paired differences over
    folds have mean zero.
    """
    d = np.asarray(differences, dtype=float)
    if d.ndim != 1 or d.size < 2:
        raise ValueError(f"differences must be a vector of at least 2 values, got shape {d.shape}")
    if not test_over_train > 0:
        raise ValueError(f"test_over_train must be positive, got {test_over_train}")
    mean, variance = d.mean(), d.var(ddof=1)
    if np.isclose(mean, 0.0, atol=1e-15):
        return 0.0, 1.0
    if variance <= (1e-12 * mean) ** 2:  # the same difference in every fold
        return float(np.copysign(np.inf, mean)), 0.0
    t = mean / np.sqrt((1 / d.size + test_over_train) * variance)
    return float(t), float(2 * stats.t.sf(abs(t), d.size - 1))


class _Trial(NamedTuple):
    """One estimator on one fold."""

    correct: np.ndarray  # of the test rows
    loss: np.ndarray  # -log p(own class), NaN without probabilities
    seconds: float
    fitted_on_labeled_only: bool
    scores: list[float]  # of the scorers that were asked for


def _trial(
    dataset: Dataset,
    train: np.ndarray,
    test: np.ndarray,
    name: str,
    estimator: BaseEstimator,
    scorers: Mapping[str, Scorer],
) -> _Trial:
    """Fit on the training part, score the test part."""
    try:
        fitted, seconds, fitted_on_labeled_only = _fit(dataset, train, name, estimator)
        rows, y = select_rows(dataset.X, test), to_numpy(dataset.classes_of(test))
        correct = np.asarray(to_numpy(fitted.predict(rows)) == y, dtype=float)
        weight = {} if dataset.weight is None else {"sample_weight": dataset.weight[test]}
        scores = [float(scorer(fitted, rows, y, **weight)) for scorer in scorers.values()]
        if not (hasattr(fitted, "predict_proba") and hasattr(fitted, "classes_")):
            return _Trial(correct, np.full(len(test), np.nan), seconds, fitted_on_labeled_only, scores)
        own = y[:, None] == to_numpy(fitted.classes_)[None, :]  # a class absent from the training part has no column
        probability = np.sum(np.where(own, to_numpy(fitted.predict_proba(rows)), 0.0), axis=1)
    except Exception as error:
        error.add_note(f"(estimator {name!r} on data set {dataset.name!r})")
        raise
    loss = 0.0 - np.log(np.clip(probability, np.finfo(float).eps, 1.0))
    return _Trial(correct, loss, seconds, fitted_on_labeled_only, scores)


def _fit(dataset: Dataset, train: np.ndarray, name: str, estimator: BaseEstimator) -> tuple[BaseEstimator, float, bool]:
    """Fitted on the whole training part, or on its labeled rows if the estimator cannot use the
    others.
    """

    def fit(rows: np.ndarray) -> tuple[BaseEstimator, float]:
        weight = {} if dataset.weight is None else {weight_argument(name, estimator): dataset.weight[rows]}
        X, y = select_rows(dataset.X, rows), dataset.classes_of(rows)
        start = time.perf_counter()
        fitted = clone(estimator).fit(X, y, **weight)
        return fitted, time.perf_counter() - start

    known = dataset.labeled[train]
    if known.all():
        return *fit(train), False
    try:
        fitted, seconds = fit(train)
        if hasattr(fitted, "classes_") and np.isin(to_numpy(fitted.classes_), dataset.labels.classes).all():
            return fitted, seconds, False
    except (TypeError, ValueError):  # refuses the marks; a fault of another kind comes up again below
        pass
    return *fit(train[known]), True  # it takes the mark of unlabeled rows for a class, or does not say whether


def _score(dataset: Dataset, folds: list[Fold], grid: list[list[_Trial]]) -> dict[str, np.ndarray]:
    """Scores of one data set, each an array over the estimators."""
    tests = [test for _, test in folds]
    weight = np.ones(len(dataset.y_numpy)) if dataset.weight is None else dataset.weight
    scored, times = np.unique(np.concatenate(tests), return_counts=True)
    share = weight[scored] * times
    n_effective = weight[scored].sum() ** 2 / np.sum(weight[scored] ** 2)
    correct = [np.stack([trial.correct for trial in row]) for row in grid]  # J arrays (E, test rows)
    loss = [np.stack([trial.loss for trial in row]) for row in grid]
    row_loss = _row_means(loss, tests)[:, scored]
    # Sums first: without weights the accuracies are then exact fractions, and equal ones tie.
    accuracy, log_loss = _row_means(correct, tests)[:, scored] @ share / share.sum(), row_loss @ share / share.sum()
    rounded = np.round(accuracy, 12)
    best = int(np.lexsort((np.nan_to_num(log_loss, nan=np.inf), -rounded))[0])
    fold_accuracy = _fold_means(correct, tests, weight)
    ratio = float(np.mean([len(test) / dataset.labeled[train].sum() for train, test in folds]))
    return {
        "accuracy": accuracy,
        "accuracy_se": np.sqrt(accuracy * (1 - accuracy) / n_effective),
        "log_loss": log_loss,
        "log_loss_se": np.sqrt((row_loss - log_loss[:, None]) ** 2 @ share**2) / share.sum(),
        "p_value": _p_values(fold_accuracy, best, ratio),
        "best": np.array(best),
        "rank": 1 + np.sum(rounded[None, :] > rounded[:, None], axis=1),
        "fit_seconds": np.array([[trial.seconds for trial in row] for row in grid]).mean(axis=0),
        "scores": np.array([[trial.scores for trial in row] for row in grid]).mean(axis=0),  # (E, scorers)
        "fold_accuracy": fold_accuracy,
        "fold_log_loss": _fold_means(loss, tests, weight),
    }


def _p_values(fold_accuracy: np.ndarray, best: int, test_over_train: float) -> np.ndarray:
    """Of each estimator (E,) against the best one; of a single fold none but the best's own."""
    if fold_accuracy.shape[1] == 1:
        return np.where(np.arange(len(fold_accuracy)) == best, 1.0, np.nan)
    return np.array([corrected_t_test(fold_accuracy[best] - other, test_over_train)[1] for other in fold_accuracy])


def _row_means(values: list[np.ndarray], tests: list[np.ndarray]) -> np.ndarray:
    """Mean of each row (E, N) over the folds that score it; zero for rows that none scores."""
    n_rows = 1 + max(int(test.max()) for test in tests)
    total, times = np.zeros((len(values[0]), n_rows)), np.zeros(n_rows)
    for test, value in zip(tests, values, strict=True):
        total[:, test] += value
        times[test] += 1
    return total / np.maximum(times, 1)


def _fold_means(values: list[np.ndarray], tests: list[np.ndarray], weight: np.ndarray) -> np.ndarray:
    """Weighted mean of each fold (E, J)."""
    return np.stack(
        [np.average(value, weights=weight[test], axis=1) for test, value in zip(tests, values, strict=True)], axis=1
    )


class Dataset(NamedTuple):
    """One data set."""

    name: str
    X: Table
    y: Table  # in the user's container, for the estimators
    y_numpy: np.ndarray  # the same on the host
    labels: EncodedLabels
    weight: np.ndarray | None
    groups: np.ndarray | None

    @property
    def labeled(self) -> np.ndarray:
        """Which rows may be scored (N,)."""
        return self.labels.codes >= 0

    def classes_of(self, rows: np.ndarray) -> Table:
        """Labels of some rows; of labeled ones without objects, of which scikit-learn takes text
        alone.
        """
        if self.y_numpy.dtype == object and self.labeled[rows].all():
            return self.labels.classes[self.labels.codes[rows]]
        return select_rows(self.y, rows)


def folds_of(dataset: Dataset, cv: FoldsLike, random_state: RandomState) -> list[Fold]:
    """Training and test rows of each fold."""
    try:
        return make_folds(cv, dataset.labels.codes, dataset.weight, lambda: random_state, dataset.groups)
    except ValueError as error:
        error.add_note(f"(data set {dataset.name!r})")
        raise


def named_estimators(estimators: EstimatorsLike) -> dict[str, BaseEstimator]:
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


def _all_named(pairs: Sequence[tuple[str | None, BaseEstimator]]) -> list[str]:
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


def marks_of(named: Mapping[str, BaseEstimator]) -> Marks:
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


def named_datasets(
    X: TableLike | DatasetsLike,
    y: LabelsLike | None,
    sample_weight: ArrayLike | None,
    groups: ArrayLike | None,
    marks: Marks,
) -> list[Dataset]:
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


def _is_bunch(X: object) -> bool:
    """Whether this is what scikit-learn's loaders return unless asked for rows and labels."""
    return isinstance(X, Mapping) and "data" in X and "target" in X


def named_scorers(scoring: ScoringLike) -> dict[str, Scorer]:
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


def _listed(scoring: Sequence[str]) -> list[str]:
    if not isinstance(scoring, Sequence) or not all(isinstance(name, str) for name in scoring):
        raise ValueError(
            f"scoring={scoring!r}; allowed are None, the name of a scorer, several names, or a mapping of names to "
            "scorers."
        )
    return list(scoring)


def _checked_dataset(
    marks: Marks,
    name: str,
    X: TableLike,
    y: LabelsLike,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> Dataset:
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
        weight = check_weight(sample_weight, n_rows)
    except ValueError as error:
        error.add_note(f"(data set {name!r})")
        raise
    if len(labels.classes) < 2:
        raise ValueError(f"y of data set {name!r} must have at least 2 classes, got {labels.classes.tolist()}")
    of_rows = None if groups is None else on_host(groups)
    if of_rows is not None and of_rows.shape != (n_rows,):
        raise ValueError(f"groups has shape {of_rows.shape}, but X has {n_rows} rows: one group per row is expected.")
    return Dataset(name, X, y, on_host(y), labels, weight, of_rows)


def _agreed_labels(y: LabelsLike, n_rows: int, marks: Marks) -> EncodedLabels:
    """Labels as the estimators read them, who must agree on the rows that have one."""
    first = encode_labels(y, n_rows, next(iter(marks.values()), "auto"))
    for mark in set(marks.values()):
        if (encode_labels(y, n_rows, mark).codes != first.codes).any():
            raise ValueError(
                "y holds rows that are unlabeled for some estimators and labeled for others "
                f"({', '.join(f'{name}={value!r}' for name, value in marks.items())}): give all the same `unlabeled`."
            )
    return first


def _rows(name: str, X: TableLike) -> Table:
    """What has rows as it is, a list or tuple of rows as an array."""
    if isinstance(X, list | tuple):
        try:
            X = np.asarray(X)
        except ValueError as error:
            raise ValueError(f"X of data set {name!r} is a {type(X).__name__} whose rows differ in length") from error
    if not getattr(X, "shape", ()):
        raise ValueError(f"X of data set {name!r} must be an array, a data frame or a sequence of rows, got {X!r}")
    return X


def _one_column(y: LabelsLike) -> Table:
    """Labels in one dimension, also where they came as a column."""
    if isinstance(y, list | tuple):
        y = [v[0] if isinstance(v, list | tuple) and len(v) == 1 else v for v in y]
        # objects, lest NaN among strings become the string "nan"
        y = np.asarray(y, dtype=object if any(v is None or v != v for v in y) else None)
    labels = cast(Table, y)
    if len(getattr(labels, "shape", ())) != 2 or labels.shape[1] != 1:
        return labels
    return labels.iloc[:, 0] if hasattr(labels, "iloc") else labels[:, 0]


def weight_argument(name: str, estimator: BaseEstimator) -> str:
    """The keyword by which `fit` takes sample weights."""
    last, prefix = estimator, ""
    while isinstance(last, Pipeline):
        prefix, last = prefix + f"{last.steps[-1][0]}__", last.steps[-1][1]
    if not has_fit_parameter(last, "sample_weight"):
        raise ValueError(f"sample_weight was given, but estimator {name!r} ({type(last).__name__}) takes none in fit")
    return prefix + "sample_weight"


def select_rows(X: Table, rows: np.ndarray) -> Table:
    """Rows of an array, a tensor, a sparse matrix, a data frame or a table of Arrow."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X.take(rows) if hasattr(X, "take") and type(X).__module__.startswith("pyarrow") else X[rows]


#: Levels at which an estimator counts as significantly worse than the best, with the marks of the
#: tables.
LEVELS = ((0.01, "*"), (0.10, "-"))

#: What a data set is called that was given without a name.
UNNAMED = "data"


class SummaryRow(NamedTuple):
    """One estimator over all data sets."""

    estimator: str
    mean_accuracy: float
    mean_log_loss: float
    n_wins: int  # data sets on which no other estimator is more accurate
    n_top3: int
    n_worse_p10: int  # data sets on which it is worse than the best, p < 10 %
    n_worse_p01: int  # p < 1 %


@dataclass(frozen=True, repr=False)
class Comparison:
    """What `compare` found: D data sets, E estimators, J folds.

    Print it, or turn it into data frames.

    Attributes
    ----------
    datasets, estimators : tuples of str
    accuracy, accuracy_se : arrays (D, E), shares of one
    log_loss, log_loss_se : arrays (D, E), NaN without `predict_proba` or `classes_`
    p_value : array (D, E), corrected resampled t-test against the most accurate estimator
    p_adjusted : array (D, E), the same by Holm's method: the chance that any of a data set's
        estimators looks as much worse as this one, if all are equal
    best : array (D,) of int, position of the most accurate estimator (ties: the smaller log loss)
    rank : array (D, E) of int, 1 is most accurate, ties share the better place
    fit_seconds : array (D, E), mean time of one fit
    fold_accuracy, fold_log_loss : tuples of D arrays (E, J)
    fitted_on_labeled_only : frozenset of names that were trained without unlabeled rows
    scores : dict of arrays (D, E), means over the folds of what `scoring` asked for

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from latentia import compare
    >>> models = {"NB": GaussianNB(), "LDA": LinearDiscriminantAnalysis()}
    >>> result = compare(models, *load_iris(return_X_y=True), cv=5)
    >>> result.estimators[result.best[0]], result.accuracy.round(2).tolist()
    ('LDA', [[0.96, 0.98]])
    """

    datasets: tuple[str, ...]
    estimators: tuple[str, ...]
    accuracy: np.ndarray
    accuracy_se: np.ndarray
    log_loss: np.ndarray
    log_loss_se: np.ndarray
    p_value: np.ndarray
    best: np.ndarray
    rank: np.ndarray
    fit_seconds: np.ndarray
    fold_accuracy: tuple[np.ndarray, ...]
    fold_log_loss: tuple[np.ndarray, ...]
    fitted_on_labeled_only: frozenset[str]
    scores: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def p_adjusted(self) -> np.ndarray:
        """Of the others the least p-value counts as often as there are others, the next once less,
        and none less than those before (Holm 1979).
        """
        n_estimators = len(self.estimators)
        times = np.maximum(n_estimators - 1 - np.arange(n_estimators), 1)
        order = np.argsort(self.p_value, axis=1, kind="stable")  # the best, whose own is one, among the last
        sorted_p = np.take_along_axis(self.p_value, order, axis=1)
        adjusted = np.empty_like(sorted_p)
        np.put_along_axis(adjusted, order, np.minimum(np.maximum.accumulate(times * sorted_p, axis=1), 1.0), axis=1)
        return adjusted

    def summary(self) -> list[SummaryRow]:
        """Means, wins, places and defeats of each estimator over the data sets."""
        return [
            SummaryRow(
                name,
                float(self.accuracy[:, e].mean()),
                float(self.log_loss[:, e].mean()),
                int(np.sum(self.rank[:, e] == 1)),
                int(np.sum(self.rank[:, e] <= 3)),
                int(np.sum(self.p_value[:, e] < 0.10)),
                int(np.sum(self.p_value[:, e] < 0.01)),
            )
            for e, name in enumerate(self.estimators)
        ]

    def to_frame(self) -> pandas.DataFrame:
        """One row per data set and estimator, as a pandas data frame."""
        pandas = _pandas()
        n_datasets, n_estimators = self.accuracy.shape
        names = ("accuracy", "accuracy_se", "log_loss", "log_loss_se", "p_value", "p_adjusted", "rank", "fit_seconds")
        return pandas.DataFrame(
            {
                "dataset": np.repeat(np.array(self.datasets, dtype=object), n_estimators),
                "estimator": np.tile(np.array(self.estimators, dtype=object), n_datasets),
                **{name: getattr(self, name).ravel() for name in names},
                **{name: score.ravel() for name, score in self.scores.items()},
                "best": (np.arange(n_estimators)[None, :] == self.best[:, None]).ravel(),
            }
        )

    def summary_frame(self) -> pandas.DataFrame:
        """`summary` as a pandas data frame, one row per estimator."""
        return _pandas().DataFrame(self.summary()).set_index("estimator")

    def mark(self, dataset: int, estimator: int) -> str:
        """'+' for the best, '-' and '*' for significantly worse at 10 % and 1 %, else a blank."""
        if self.best[dataset] == estimator:
            return "+"
        return next((mark for level, mark in LEVELS if self.p_value[dataset, estimator] < level), " ")

    def __str__(self) -> str:
        tables = [_align(header, rows) for header, rows in self._tables()]
        return "\n\n".join([*tables, self._legend()])

    __repr__ = __str__  # so that a terminal shows the whole table

    def _repr_html_(self) -> str:
        """The tables for notebooks; the best estimator is bold."""
        tables = []
        for header, rows in self._tables():
            head = "".join(f"<th>{escape(title)}</th>" for title in header)
            body = "".join(f"<tr>{''.join(_html_cell(cell) for cell in row)}</tr>" for row in rows)
            tables.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        return "".join(tables) + f"<p>{escape(self._legend()).replace(chr(10), '<br>')}</p>"

    def __rich__(self) -> Group:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text  # names may hold brackets, which a plain string would lose as markup

        tables = []
        for header, rows in self._tables():
            table = Table(box=None, pad_edge=False, header_style="bold")
            longest = max(len(word) for row in rows for word in row[0].split() or [""])
            table.add_column(Text(header[0]), min_width=min(longest, 40), overflow="fold")
            for title in header[1:]:
                table.add_column(Text(title.replace("against ", "against\n")), justify="right", overflow="fold")
            for row in rows:
                table.add_row(*(Text(cell, "bold" if cell.startswith("+") else "") for cell in row))
            tables.append(table)
        return Group(*tables, Text(self._legend()))

    def _legend(self) -> str:
        legend = "+ best; significantly worse than the best: - at 10 %, * at 1 % (corrected resampled t-test)"
        if self.fitted_on_labeled_only:
            legend += f"\ntrained on labeled rows alone: {', '.join(sorted(self.fitted_on_labeled_only))}"
        return legend

    def _tables(self) -> list[tuple[list[str], list[list[str]]]]:
        """Headers and cells: one data set in full, several as a grid with a summary."""
        if len(self.datasets) == 1:
            return [self._one_dataset()]
        grid = [
            [name] + [f"{self.mark(d, e)} {self._percent(d, e)}" for e in range(len(self.estimators))]
            for d, name in enumerate(self.datasets)
        ]
        means = [[_number(score[:, e].mean()) for score in self.scores.values()] for e in range(len(self.estimators))]
        summary = [
            [s.estimator, f"{100 * s.mean_accuracy:.1f}", _number(s.mean_log_loss), *scores, *map(str, s[3:])]
            for s, scores in zip(self.summary(), means, strict=True)
        ]
        asked = [f"mean {name}" for name in self.scores]
        titles = ["estimator", "mean accuracy", "mean log loss", *asked, "wins", "top 3", "worse p<10%", "worse p<1%"]
        return [(["accuracy, %", *self.estimators], grid), (titles, summary)]

    def _one_dataset(self) -> tuple[list[str], list[list[str]]]:
        times = format_column(self.fit_seconds[0].tolist())
        rows = [
            [
                name,
                f"{self.mark(0, e)} {self._percent(0, e)}",
                _number(self.log_loss[0, e], self.log_loss_se[0, e]),
                *(_number(score[0, e]) for score in self.scores.values()),
                _number(self.p_value[0, e]),
                _number(self.p_adjusted[0, e]),
                times[e],
            ]
            for e, name in enumerate(self.estimators)
        ]
        title = "estimator" if self.datasets[0] == UNNAMED else self.datasets[0]
        return [title, "accuracy, %", "log loss", *self.scores, "p against best", "adjusted", "fit time"], rows

    def _percent(self, d: int, e: int) -> str:
        return f"{100 * self.accuracy[d, e]:.1f} ± {100 * self.accuracy_se[d, e]:.1f}"


def _align(header: list[str], rows: list[list[str]]) -> str:
    """A plain-text table: first column to the left, the others to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in [header, *rows]
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _html_cell(cell: str) -> str:
    text = escape(cell.strip())
    return f"<td><b>{text}</b></td>" if text.startswith("+") else f"<td>{text}</td>"


def _pandas() -> ModuleType:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("data frames need pandas: pip install pandas") from error
    return pandas


def _number(value: float, error: float | None = None) -> str:
    if np.isnan(value):
        return "none"
    return f"{value:.3f}" if error is None else f"{value:.3f} ± {error:.3f}"
