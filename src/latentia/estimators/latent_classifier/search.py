"""Every candidate on every fold: predictions of rows that it did not see."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from latentia.estimators.base.generative_input import GenerativeInput
from latentia.estimators.latent_classifier.candidates import Candidate
from latentia.estimators.latent_classifier.folds import SearchFold
from latentia.estimators.latent_classifier.members import Member, part_of
from latentia.estimators.latent_classifier.stacking import MIN_LOG_PROBA, HeldOut, log_loss
from latentia.numerics.array_api import take_rows, to_numpy


class Trial(NamedTuple):
    """A candidate and its cross-validated scores, as callbacks see it."""

    candidate: str
    log_loss: float
    accuracy: float
    seconds: float
    leader: str  # the candidate with the least log loss so far
    best_log_loss: float

    def summary(self) -> str:
        """A line to read."""
        return (
            f"{self.candidate}: log loss {self.log_loss:.4f}, accuracy {self.accuracy:.4f} ({self.seconds:.1f} s); "
            f"{self.leader} leads with {self.best_log_loss:.4f}"
        )


class SearchResult(NamedTuple):
    """The candidates that were tried, and what they said of held-out rows."""

    candidates: list[Candidate]
    trials: list[Trial]
    held_out: HeldOut
    stopped: bool


class FoldModel(NamedTuple):
    """The part of a fold that is trained on, and its first model."""

    data: GenerativeInput
    classes: np.ndarray
    base: Member | None


def run_search(
    candidates: Sequence[Candidate],
    data: GenerativeInput,
    folds: Sequence[SearchFold],
    seed: int,
    n_jobs: int | None,
    report: Callable[[Trial], bool],
) -> SearchResult:
    """Try one candidate after the other; `report` may end the search."""
    held_out = _no_predictions(data, folds)
    if not folds:
        return SearchResult(list(candidates), [], held_out, False)
    tried: list[Candidate] = []
    trials: list[Trial] = []
    predictions: list[np.ndarray] = []
    parts: list[FoldModel] = [FoldModel(*part_of(data, fold.train), None) for fold in folds]
    stop = False
    with Parallel(n_jobs=n_jobs) as parallel:
        for candidate in candidates:
            started = time.perf_counter()
            jobs = ((part, take_rows(data.X, fold.test)) for part, fold in zip(parts, folds, strict=True))
            found = parallel(delayed(_predict_fold)(candidate, part, X, seed, data.n_classes) for part, X in jobs)
            if not tried:
                parts = [part._replace(base=base) for part, (base, _) in zip(parts, found, strict=True)]
            tried.append(candidate)
            predictions.append(np.concatenate([log_proba for _, log_proba in found]))
            trials.append(_trial(candidate.name, predictions[-1], held_out, time.perf_counter() - started, trials))
            stop = report(trials[-1])
            if stop:
                break
    return SearchResult(tried, trials, held_out._replace(log_proba=np.stack(predictions)), stop)


def _no_predictions(data: GenerativeInput, folds: Sequence[SearchFold]) -> HeldOut:
    """The rows that are held out; a row that comes several times weighs as much as once."""
    rows = np.concatenate([np.zeros(0, dtype=int), *(fold.test for fold in folds)])
    number = np.concatenate([np.zeros(0, dtype=int), *(np.full(f.test.size, k) for k, f in enumerate(folds))])
    weight = np.ones(data.codes.size) if data.weight is None else data.weight
    labeled = data.codes >= 0
    share = np.bincount(data.codes[labeled], weight[labeled], minlength=data.n_classes)
    times = np.bincount(rows, minlength=data.codes.size)
    return HeldOut(
        codes=data.codes[rows],
        weight=weight[rows] / np.maximum(times[rows], 1),
        fold=number,
        rows=rows,
        log_prior=np.log(share / share.sum()),
        log_proba=np.zeros((0, rows.size, data.n_classes)),
    )


def _predict_fold(
    candidate: Candidate, part: FoldModel, X: np.ndarray, seed: int, n_classes: int
) -> tuple[Member, np.ndarray]:
    """The model of the fold's training part, and what it says of its test rows (M, C)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        member = candidate.fit(part.data, part.base, seed)
        found = to_numpy(member.log_proba(X)).astype(float)
    if part.classes.size == n_classes:
        return member, np.maximum(found, MIN_LOG_PROBA)
    # a class that the training part lacks could have been as rare as one row
    unseen = np.full((found.shape[0], n_classes), -np.log(part.data.codes.size + 1.0))
    unseen[:, part.classes] = np.maximum(found, MIN_LOG_PROBA)
    return member, unseen - np.logaddexp.reduce(unseen, axis=1, keepdims=True)


def _trial(name: str, log_proba: np.ndarray, held_out: HeldOut, seconds: float, before: Sequence[Trial]) -> Trial:
    loss = log_loss(log_proba, held_out.codes, held_out.weight)
    right = np.average(log_proba.argmax(axis=1) == held_out.codes, weights=held_out.weight)
    leader, best = min([*((t.candidate, t.log_loss) for t in before), (name, loss)], key=lambda pair: pair[1])
    return Trial(name, loss, float(right), seconds, leader, best)
