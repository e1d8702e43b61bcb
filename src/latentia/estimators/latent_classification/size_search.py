"""The wrapper search of latent classification models: trials, what is better, and when to stop."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.exceptions import ConvergenceWarning

from latentia.arrays.namespace import take_rows, to_numpy
from latentia.engine.rows import ArraySource
from latentia.estimators.base.delegation import as_frame_if_possible
from latentia.estimators.base.generative_input import GenerativeInput
from latentia.estimators.base.weight_columns import train_columns
from latentia.table.options import random_generator
from latentia.table.rows import rows_for_estimator
from latentia.table.weights import Fold

#: Log probabilities below this count as this: one confident mistake must not decide a search.
MIN_LOG_PROBA = -50.0


class Setting(NamedTuple):
    """What the search varies."""

    n_latent: int
    n_components: int
    objective: str
    ridge: float


class CVTrial(NamedTuple):
    """A setting and its cross-validated scores."""

    n_latent: int
    n_components: int
    objective: str
    ridge: float
    mean_accuracy: float
    std_accuracy: float
    mean_log_loss: float
    std_log_loss: float
    seconds: float

    def score(self, scoring: str) -> float:
        """Accuracy, or log loss with its sign turned, so that more is better."""
        return self.mean_accuracy if scoring == "accuracy" else -self.mean_log_loss

    @property
    def setting(self) -> Setting:
        return Setting(self.n_latent, self.n_components, self.objective, self.ridge)

    def summary(self) -> str:
        """A line to read."""
        sizes = f"n_latent={self.n_latent} n_components={self.n_components}"
        scores = f"accuracy {self.mean_accuracy:.4f}, log loss {self.mean_log_loss:.4f}"
        return f"{sizes} {self.objective} ridge={self.ridge:g}: {scores} ({self.seconds:.1f} s)"

    def rank(self, scoring: str) -> tuple[float, float]:
        """What is compared: accuracy, then log loss, or the other way round."""
        scores = round(self.mean_accuracy, 10), -self.mean_log_loss
        return scores if scoring == "accuracy" else scores[::-1]


class Search(NamedTuple):
    """How settings are compared."""

    folds: list[Fold]
    scoring: str
    patience: int | None  # numbers of factors without gain that end the search; None for all
    n_jobs: int | None

    def run(
        self,
        groups: Sequence[Sequence[Setting]],
        model_of: Callable[[Setting], Any],
        data: GenerativeInput,
        report: Callable[[CVTrial], bool],
        refine: Callable[[Setting], list[Setting]],
    ) -> list[CVTrial]:
        """Score the settings, one group after the other; a group counts by its best.

        What `refine` says of the best comes last. `report` may end the search.
        """
        trials: list[CVTrial] = []
        best: tuple[float, float] | None = None
        waited = 0
        ahead = max(1, effective_n_jobs(self.n_jobs))  # groups that several processes look at together
        with Parallel(n_jobs=self.n_jobs) as parallel:

            def score(settings: Sequence[Setting]) -> list[CVTrial]:
                jobs = [delayed(score_folds)(model_of(setting), data, self.folds) for setting in settings]
                return [self._summary(*done) for done in zip(settings, parallel(jobs), strict=True)]

            def scored(groups: Sequence[Sequence[Setting]]) -> Iterator[list[CVTrial]]:
                for first in range(0, len(groups), ahead):
                    some = groups[first : first + ahead]
                    found = iter(score([setting for group in some for setting in group]))
                    yield from ([next(found) for _ in group] for group in some)

            for mine in scored(groups):
                trials += mine
                top = max(trial.rank(self.scoring) for trial in mine)
                waited = 0 if best is None or top > best else waited + 1
                best = top if best is None else max(best, top)
                if any([report(trial) for trial in mine]):
                    return trials
                if self.patience is not None and waited >= self.patience:
                    break
            for mine in scored([[setting] for setting in refine(self.best(trials).setting)]):
                trials += mine
                if any([report(trial) for trial in mine]):
                    break
        return trials

    def best(self, trials: Sequence[CVTrial]) -> CVTrial:
        """The best trial; of equals the smallest, and of those the first."""
        return max(trials, key=lambda t: (t.rank(self.scoring), -t.n_latent, -t.n_components))

    def _summary(self, setting: Setting, scores: Sequence[_FoldScore]) -> CVTrial:
        sizes = [s.weight for s in scores]
        right, loss = np.array([s.right for s in scores]), np.array([s.log_loss for s in scores])
        mean, mean_loss = float(np.average(right, weights=sizes)), float(np.average(loss, weights=sizes))
        return CVTrial(*setting, mean, float(right.std()), mean_loss, float(loss.std()), sum(s.seconds for s in scores))


class _FoldScore(NamedTuple):
    right: float
    log_loss: float
    weight: float  # of the rows that were scored
    seconds: float


def score_folds(model: Any, data: GenerativeInput, folds: Sequence[Fold]) -> list[_FoldScore]:
    """How well a model of each training part knows the classes of the test part.

    Models that EM trains are one batch, in which a fold is a column of weights. The others are
    trained one after the other.
    """
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)  # columns or values that a fold happens to lack
        predict = _fold_batch if model._trains_in_columns() else _fold_by_fold
        log_proba = predict(model, data, folds)
    seconds = (time.perf_counter() - started) / len(folds)
    scores = []
    for (_, test), each in zip(folds, log_proba, strict=True):
        y, weight = data.codes[test], np.ones(len(test)) if data.weight is None else data.weight[test]
        right = np.average(each.argmax(axis=1) == y, weights=weight)
        loss = 0.0 - np.average(np.clip(each, MIN_LOG_PROBA, 0.0)[np.arange(len(test)), y], weights=weight)
        scores.append(_FoldScore(float(right), float(loss), float(weight.sum()), seconds))
    return scores


def _fold_batch(model: Any, data: GenerativeInput, folds: Sequence[Fold]) -> list[np.ndarray]:
    weight = np.ones(data.codes.shape) if data.weight is None else data.weight
    columns = np.zeros((len(weight), len(folds)))
    for number, (train, _) in enumerate(folds):
        columns[train, number] = weight[train]
    fits = train_columns(model, data, columns, random_generator(model.random_state))
    log_proba = []
    for fit, column, (_, test) in zip(fits, columns.T, folds, strict=True):
        source = ArraySource(data.X, data.codes, column, data.preprocessor)
        tempering = model._choose_tempering(fit.model, source, fit.is_posterior)
        log_proba.append(to_numpy(replace(fit.model, tempering=tempering).log_proba(take_rows(data.X, test))))
    return log_proba


def _fold_by_fold(model: Any, data: GenerativeInput, folds: Sequence[Fold]) -> list[np.ndarray]:
    X, log_proba = rows_for_estimator(data.X), []
    for train, test in folds:
        weight = None if data.weight is None else data.weight[train]
        model.fit(take_rows(X, train), data.codes[train], weight)
        full = np.full((len(test), data.n_classes), MIN_LOG_PROBA)
        full[:, model.classes_] = to_numpy(model.predict_log_proba(take_rows(X, test)))
        log_proba.append(full)
    return log_proba


def as_table(trials: Sequence[CVTrial]) -> Any:
    """A data frame with one row per trial, or a dict of lists without pandas."""
    return as_frame_if_possible({name: [getattr(t, name) for t in trials] for name in CVTrial._fields})
