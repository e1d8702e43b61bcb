"""The wrapper search of latent classification models: trials, what is better, and when to stop."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning

from latentia.estimators.base.delegation import as_frame_if_possible
from latentia.inputs.splits import Fold
from latentia.numerics.array_api import Array, take_rows, to_numpy

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


class TrainingRows(NamedTuple):
    """Coded rows, labels (-1 for none) and weights."""

    X: Array
    y: np.ndarray
    weight: np.ndarray | None


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
        rows: TrainingRows,
        report: Callable[[CVTrial], bool],
        refine: Callable[[Setting], list[Setting]],
    ) -> list[CVTrial]:
        """Score the settings, one group after the other; a group counts by its best.

        What `refine` says of the best comes last. `report` may end the search.
        """
        trials: list[CVTrial] = []
        best: tuple[float, float] | None = None
        waited = 0
        with Parallel(n_jobs=self.n_jobs) as parallel:

            def score(group: Sequence[Setting]) -> tuple[list[CVTrial], bool]:
                jobs = [(setting, fold) for setting in group for fold in self.folds]
                scores = parallel(delayed(_score_fold)(model_of(s), rows, *fold) for s, fold in jobs)
                n = len(self.folds)
                mine = [self._summary(s, scores[n * k : n * k + n]) for k, s in enumerate(group)]
                return mine, any([report(trial) for trial in mine])

            for group in groups:
                mine, stop = score(group)
                trials += mine
                top = max(trial.rank(self.scoring) for trial in mine)
                waited = 0 if best is None or top > best else waited + 1
                best = top if best is None else max(best, top)
                if stop:
                    return trials
                if self.patience is not None and waited >= self.patience:
                    break
            for setting in refine(self.best(trials).setting):
                mine, stop = score([setting])
                trials += mine
                if stop:
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


def _score_fold(model: Any, rows: TrainingRows, train: np.ndarray, test: np.ndarray) -> _FoldScore:
    """Fit on one part of the coded rows and score on the other."""
    started = time.perf_counter()
    X, y, weight = rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)  # columns or values that a fold happens to lack
        model.fit(take_rows(X, train), y[train], None if weight is None else weight[train])
        log_proba = to_numpy(model.predict_log_proba(take_rows(X, test)))
    full = np.full((len(test), y.max() + 1), MIN_LOG_PROBA)
    full[:, model.classes_] = np.maximum(log_proba, MIN_LOG_PROBA)
    each = np.ones(len(test)) if weight is None else weight[test]
    right = np.average(full.argmax(axis=1) == y[test], weights=each)
    loss = -np.average(full[np.arange(len(test)), y[test]], weights=each)
    return _FoldScore(float(right), float(loss), float(each.sum()), time.perf_counter() - started)


def as_table(trials: Sequence[CVTrial]) -> Any:
    """A data frame with one row per trial, or a dict of lists without pandas."""
    return as_frame_if_possible({name: [getattr(t, name) for t in trials] for name in CVTrial._fields})
