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
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy import stats
from sklearn.base import clone

from latentia.arrays.namespace import to_numpy
from latentia.evaluation.comparison_inputs import (
    Dataset,
    folds_of,
    marks_of,
    named_datasets,
    named_estimators,
    named_scorers,
    select_rows,
    weight_argument,
)
from latentia.evaluation.comparison_result import Comparison
from latentia.table.options import integer, optional
from latentia.table.weights import Fold

__all__ = ["Comparison", "compare", "corrected_t_test"]


def compare(
    estimators: Any,
    X: Any,
    y: Any = None,
    cv: Any = 5,
    *,
    scoring: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    n_jobs: int | None = None,
    random_state: Any = 0,
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
    named: dict[str, Any],
    scorers: dict[str, Any],
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
    columns: dict[str, Any] = {field: np.stack([s[field] for s in scores]) for field in _PER_DATASET}
    columns |= {field: tuple(s[field] for s in scores) for field in ("fold_accuracy", "fold_log_loss")}
    return Comparison(
        datasets=tuple(dataset.name for dataset in datasets),
        estimators=tuple(named),
        fitted_on_labeled_only=frozenset(fitted_on_labeled_only),
        scores={name: np.stack([s["scores"][:, k] for s in scores]) for k, name in enumerate(scorers)},
        **columns,
    )


_PER_DATASET = ("accuracy", "accuracy_se", "log_loss", "log_loss_se", "p_value", "best", "rank", "fit_seconds")


def corrected_t_test(differences: Any, test_over_train: float) -> tuple[float, float]:
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
    dataset: Dataset, train: np.ndarray, test: np.ndarray, name: str, estimator: Any, scorers: dict[str, Any]
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


def _fit(dataset: Dataset, train: np.ndarray, name: str, estimator: Any) -> tuple[Any, float, bool]:
    """Fitted on the whole training part, or on its labeled rows if the estimator cannot use the
    others.
    """

    def fit(rows: np.ndarray) -> tuple[Any, float]:
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


def _score(dataset: Dataset, folds: list[Any], grid: list[list[_Trial]]) -> dict[str, np.ndarray]:
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
