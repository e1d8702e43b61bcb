"""The members that count, fitted again to all rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from latentia.estimators.base.generative_input import GenerativeInput, PartedInput
from latentia.estimators.latent_classifier.candidates import GenerativeCandidate
from latentia.estimators.latent_classifier.completed_rows import completed_rows
from latentia.estimators.latent_classifier.members import GenerativeMember, Member
from latentia.estimators.latent_classifier.prediction import StackModel, Vote
from latentia.estimators.latent_classifier.search import SearchResult
from latentia.estimators.latent_classifier.stacking import Stack, expected_scores, proba_by_row, without_small
from latentia.estimators.latent_classifier.training_rows import TrainingRows
from latentia.solvers import Outcome


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
