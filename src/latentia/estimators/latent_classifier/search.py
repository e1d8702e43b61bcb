"""Every candidate on every fold: predictions of rows that it did not see.

The members that count, fitted again to all rows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from latentia.arrays.namespace import Array, is_on_cpu, take_rows, to_numpy
from latentia.estimators.base.reading import GenerativeInput, PartedInput
from latentia.estimators.latent_classifier.candidates import (
    Candidate,
    CompletedRows,
    GenerativeCandidate,
    GenerativeMember,
    Member,
    SearchFold,
    TrainingRows,
    completed_rows,
)
from latentia.estimators.latent_classifier.stacking import (
    MIN_LOG_PROBA,
    HeldOut,
    Stack,
    StackModel,
    Vote,
    expected_scores,
    log_loss,
    proba_by_row,
    without_small,
)
from latentia.solvers import Outcome


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
    members: list[Member] | None  # the candidates fitted to all rows, if all took part
    trials: list[Trial]
    held_out: HeldOut
    stopped: bool


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
        return SearchResult(list(candidates), None, [], held_out, False)
    chosen = np.unique(np.concatenate([np.concatenate(fold) for fold in folds]))
    local = [SearchFold(*(np.searchsorted(chosen, part) for part in fold)) for fold in folds]
    rows = TrainingRows.whole(data).subset(chosen).with_folds(local)
    tests = [take_rows(data.X, fold.test) for fold in folds]
    n_counted = data.codes.size if data.weight is None else np.count_nonzero(data.weight)
    if chosen.size < n_counted and not is_on_cpu(data.X):  # a sample is too small for a device
        rows, tests = rows.in_main_memory(), list(map(to_numpy, tests))
    tried: list[Candidate] = []
    members: list[Member] = []
    trials: list[Trial] = []
    predictions: list[np.ndarray] = []
    stop = False
    for candidate, (fitted, log_proba, seconds) in _try_all(candidates, rows, tests, seed, n_jobs):
        tried.append(candidate)
        members.append(fitted[-1])
        predictions.append(log_proba)
        trials.append(_trial(candidate.name, log_proba, held_out, seconds, trials))
        stop = report(trials[-1])
        if stop:
            break
    held_out = held_out._replace(log_proba=np.stack(predictions))
    return SearchResult(tried, members if chosen.size == n_counted else None, trials, held_out, stop)


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


Tried = tuple[list[Member], np.ndarray, float]


def _try_all(
    candidates: Sequence[Candidate], rows: TrainingRows, tests: Sequence[Array], seed: int, n_jobs: int | None
) -> Iterator[tuple[Candidate, Tried]]:
    """The first candidate, whose models complete rows, then the others, several at a time."""
    first = _try(candidates[0], rows, None, tests, seed)
    yield candidates[0], first
    bases = completed_rows(first[0], rows, tests)
    parallel = Parallel(n_jobs=n_jobs, return_as="generator")
    others = parallel(delayed(_try)(candidate, rows, bases, tests, seed) for candidate in candidates[1:])
    yield from zip(candidates[1:], others, strict=True)


def _try(
    candidate: Candidate, rows: TrainingRows, bases: Sequence[CompletedRows] | None, tests: Sequence[Array], seed: int
) -> Tried:
    """The models, what those of the folds say of their test rows (M, C), and the seconds."""
    started = time.perf_counter()
    n_classes = rows.data.n_classes
    parts = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        members = candidate.fit(rows, bases, seed)
        for number, X in enumerate(tests):
            said = members[number].log_proba(X) if bases is None else bases[number].log_proba(members[number])
            found = np.maximum(to_numpy(said).astype(float), MIN_LOG_PROBA)
            absent = np.setdiff1d(np.arange(n_classes), rows.classes(number))
            if absent.size:  # a class that the training part lacks could have been as rare as one row
                found[:, absent] = -np.log(rows.labeled(number)[1].sum() + 1.0)
                found -= np.logaddexp.reduce(found, axis=1, keepdims=True)
            parts.append(found)
    return members, np.concatenate(parts), time.perf_counter() - started


def _trial(name: str, log_proba: np.ndarray, held_out: HeldOut, seconds: float, before: Sequence[Trial]) -> Trial:
    loss = log_loss(log_proba, held_out.codes, held_out.weight)
    right = np.average(log_proba.argmax(axis=1) == held_out.codes, weights=held_out.weight)
    leader, best = min([*((t.candidate, t.log_loss) for t in before), (name, loss)], key=lambda pair: pair[1])
    return Trial(name, loss, float(right), seconds, leader, best)


class FittedStack(NamedTuple):
    """A stack, and how it was found."""

    model: StackModel
    stack: Stack
    expected: tuple[float, float]  # log loss and accuracy
    held_out_proba: np.ndarray  # (N, C), NaN for rows that were never held out
    never_held_out: np.ndarray  # codes of classes

    @property
    def outcome(self) -> Outcome:
        return self.stack.outcome


@dataclass(frozen=True)
class Refit:
    """Fits members when they are asked for, each once."""

    search: SearchResult
    data: GenerativeInput
    seed: int
    whole: PartedInput | None = None  # the table in parts that `data` is a sample of
    log_prior: np.ndarray | None = None  # of the classes where the stack is used; None: as in the labeled rows
    members: dict[int, Member] = field(default_factory=dict)
    of_whole: dict[int, Member] = field(default_factory=dict)

    def member(self, number: int) -> Member:
        """The candidate of this number on all rows."""
        if self.search.members is not None:
            return self.search.members[number]
        if number not in self.members:
            base = self.member(0) if number else None
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows = TrainingRows.whole(self.data)
                bases = None if base is None else completed_rows([base], rows)
                self.members[number] = self.search.candidates[number].fit(rows, bases, self.seed)[-1]
        return self.members[number]

    def voter(self, number: int) -> Member:
        """The same on all rows of a table in parts, if it is a generative one."""
        candidate = self.search.candidates[number]
        if self.whole is None or not isinstance(candidate, GenerativeCandidate):
            return self.member(number)
        if number not in self.of_whole:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.of_whole[number] = candidate.fit_in_parts(self.whole, self.seed)
        return self.of_whole[number]

    def stack_model(self, stack: Stack) -> StackModel:
        """The members with weight, and the best of them that has a density."""
        weights = without_small(stack.weights)
        chosen = [int(k) for k in np.argsort(-weights, kind="stable") if weights[k] > 0]
        candidates = self.search.candidates
        votes = [
            Vote(candidates[k].name, self.voter(k), float(weights[k]), float(stack.temperatures[k])) for k in chosen
        ]
        densities = [v.member for v in votes if isinstance(v.member, GenerativeMember) and v.member.estimator]
        base = self.member(0) if densities else self.voter(0)
        assert isinstance(base, GenerativeMember)
        nothing = np.zeros(self.data.n_classes)
        model = StackModel(
            votes=tuple(votes),
            density=densities[0] if densities else base,
            encoder=self.data.encoder,
            log_prior=self.search.held_out.log_prior,
            temperature=stack.temperature,
            log_shift=nothing,
            leaderboard=self._leaderboard(stack, weights),
        )
        return model if self.log_prior is None else model.with_prior(self.log_prior)

    def fitted(self, stack: Stack, log_proba: np.ndarray | None = None) -> FittedStack:
        """The stack, with what it says (M, C) of rows that it has not seen."""
        held_out, n_rows = self.search.held_out, self.data.codes.size
        never = np.setdiff1d(np.arange(self.data.n_classes), held_out.codes)
        if log_proba is None:
            unknown = np.full((n_rows, self.data.n_classes), np.nan)
            return FittedStack(self.stack_model(stack), stack, (np.nan, np.nan), unknown, never)
        proba = proba_by_row(log_proba, held_out.rows, n_rows)
        return FittedStack(self.stack_model(stack), stack, expected_scores(log_proba, held_out), proba, never)

    def _leaderboard(self, stack: Stack, weights: np.ndarray) -> dict[str, list[Any]]:
        """A row for each candidate, the least held-out log loss first."""
        trials, n = self.search.trials, len(self.search.candidates)
        losses = [t.log_loss for t in trials] or [float("nan")] * n
        order = np.argsort(losses, kind="stable").tolist()
        return {
            "candidate": [self.search.candidates[k].name for k in order],
            "log_loss": [losses[k] for k in order],
            "accuracy": [trials[k].accuracy if trials else float("nan") for k in order],
            "temperature": [float(stack.temperatures[k]) for k in order],
            "weight": [float(weights[k]) for k in order],
            "seconds": [trials[k].seconds if trials else float("nan") for k in order],
        }
