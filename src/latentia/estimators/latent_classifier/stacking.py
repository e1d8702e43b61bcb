r"""From held-out predictions to temperatures, weights and expectations.

Each candidate k is tempered on the rows that it did not see,

.. math:: p_k(c \mid x) \propto p(c)\, (p_k(c \mid x) / p(c))^{1/T_k},

T with a prior at one, either way. Then the pool :math:`\sum_k \pi_k\, p_k(c \mid x)` gets the
weights of the largest held-out log score under a Dirichlet prior towards equal ones, by EM:

.. math:: \sum_n w_n \log \sum_k \pi_k\, p_k(y_n \mid x_n) + \alpha \sum_k \log \pi_k .

A pool of calibrated members is less sure than it could be, so it gets a temperature of its own, in
the same way. What to expect of new rows is found by doing all this without one fold and scoring
the pool there, fold by fold.

A fitted stack: what its members say together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_numpy_array
from scipy.optimize import minimize_scalar

from latentia.arrays.namespace import Array, asarray_like, log_softmax, logsumexp, namespace, to_numpy
from latentia.engine.contracts import GenerativeParams
from latentia.estimators.base.fitted_model import FittedModel, log_probas
from latentia.estimators.latent_classifier.candidates import CompletedMember, GenerativeMember, Member
from latentia.estimators.latent_classifier.features import NumberColumns
from latentia.solvers import Outcome, Step, StepCallback, ignore_step
from latentia.table.encoder import ColumnEncoder

#: Held-out log probabilities below this count as this: one confident mistake must not decide.
MIN_LOG_PROBA = -12.0

#: Precision of the normal prior of log temperatures at zero; their largest size.
TEMPERATURE_PRECISION = 20.0
MAX_LOG_TEMPERATURE = 3.0

#: Rows that the prior of the weights is worth, for each candidate.
PRIOR_ROWS = 0.3

#: Members with a smaller weight are dropped.
MIN_WEIGHT = 0.02

#: The weights are settled when a step gains less than this share of `tol` per row.
TOL_SHARE = 1e-3


class HeldOut(NamedTuple):
    """Predictions of rows by models that did not see them; a row may come several times."""

    codes: np.ndarray  # (M,) classes of the rows
    weight: np.ndarray  # (M,)
    fold: np.ndarray  # (M,) numbers of the folds
    rows: np.ndarray  # (M,) numbers of the rows
    log_prior: np.ndarray  # (C,)
    log_proba: np.ndarray  # (K, M, C)

    def subset(self, kept: np.ndarray) -> HeldOut:
        return self._replace(
            codes=self.codes[kept],
            weight=self.weight[kept],
            fold=self.fold[kept],
            rows=self.rows[kept],
            log_proba=self.log_proba[:, kept],
        )


class Stack(NamedTuple):
    """Temperatures and weights of the candidates, and how the weights were found."""

    temperatures: np.ndarray  # (K,)
    weights: np.ndarray  # (K,)
    temperature: float  # of the pool
    curve: np.ndarray
    outcome: Outcome


def temper(log_proba: np.ndarray, log_prior: np.ndarray, temperature: float) -> np.ndarray:
    """Log probabilities (..., C) at a temperature."""
    return np.asarray(log_softmax(log_prior + (log_proba - log_prior) / temperature, axis=-1))


def log_loss(log_proba: np.ndarray, codes: np.ndarray, weight: np.ndarray) -> float:
    """Weighted mean of -log p(own class): zero, not minus zero, where all are certain."""
    own = np.clip(log_proba[np.arange(codes.size), codes], MIN_LOG_PROBA, 0.0)
    return float(0.0 - weight @ own / weight.sum())


def best_temperature(log_proba: np.ndarray, held_out: HeldOut) -> float:
    """Where the held-out log score and the prior together are largest."""

    def loss(log_temperature: float) -> float:
        tempered = temper(log_proba, held_out.log_prior, np.exp(log_temperature))
        own = np.maximum(tempered[np.arange(held_out.codes.size), held_out.codes], MIN_LOG_PROBA)
        return float(-(held_out.weight @ own) + 0.5 * TEMPERATURE_PRECISION * log_temperature**2)

    bounds = (-MAX_LOG_TEMPERATURE, MAX_LOG_TEMPERATURE)
    return float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-9}).x))


def fit_stack(held_out: HeldOut, max_iter: int, tol: float, on_step: StepCallback = ignore_step) -> Stack:
    """Temperatures and weights by the log score of held-out rows."""
    return fit_tempered(held_out, fit_temperatures(held_out), max_iter, tol, on_step)


def equal_stack(n_candidates: int) -> Stack:
    """Where nothing is known of the candidates."""
    equal = np.ones(n_candidates)
    return Stack(equal, equal / n_candidates, 1.0, np.zeros(1), Outcome.CONVERGED)


def fit_temperatures(held_out: HeldOut) -> np.ndarray:
    """The temperature of each candidate, (K,)."""
    return np.array([best_temperature(each, held_out) for each in held_out.log_proba])


def fit_tempered(
    held_out: HeldOut, temperatures: np.ndarray, max_iter: int, tol: float, on_step: StepCallback = ignore_step
) -> Stack:
    """Weights at given temperatures, and the temperature of the pool."""
    own = own_log_proba(held_out, temperatures)
    weights, curve, outcome = fit_weights(own, held_out.weight, max_iter, tol, on_step)
    stack = Stack(temperatures, weights, 1.0, curve, outcome)
    return stack._replace(temperature=best_temperature(pool(held_out, stack), held_out))


def own_log_proba(held_out: HeldOut, temperatures: np.ndarray) -> np.ndarray:
    """Tempered log probabilities of the rows' own classes, (K, M)."""
    rows = np.arange(held_out.codes.size)
    tempered = [temper(p, held_out.log_prior, t) for p, t in zip(held_out.log_proba, temperatures, strict=True)]
    return np.maximum(np.stack(tempered)[:, rows, held_out.codes], MIN_LOG_PROBA)


def fit_weights(
    own: np.ndarray, weight: np.ndarray, max_iter: int, tol: float, on_step: StepCallback = ignore_step
) -> tuple[np.ndarray, np.ndarray, Outcome]:
    """Weights of the largest penalized log score, by EM from equal ones; the curve never falls."""
    n_candidates = own.shape[0]
    pi = np.full(n_candidates, 1 / n_candidates)
    curve: list[float] = []
    outcome = Outcome.MAX_ITER
    for iteration in range(max_iter + 1):
        joint = np.log(pi)[:, None] + own
        total = logsumexp(joint, axis=0)
        curve.append(float(weight @ total + PRIOR_ROWS * np.log(pi).sum()))
        if outcome is Outcome.STOPPED or iteration == max_iter:
            break
        if iteration and curve[-1] - curve[-2] <= tol * TOL_SHARE * weight.sum():
            outcome = Outcome.CONVERGED
            break
        if on_step(Step("Stacking", iteration + 1, curve[-1], n_candidates, partial(np.copy, pi))):
            outcome = Outcome.STOPPED
        counts = np.exp(joint - total) @ weight + PRIOR_ROWS
        pi = counts / counts.sum()
    return pi, np.array(curve), outcome


def without_small(weights: np.ndarray) -> np.ndarray:
    """The weights without those that hardly count; the largest always stays."""
    kept = np.where((weights >= MIN_WEIGHT) | (weights == weights.max()), weights, 0.0)
    return kept / kept.sum()


def pool(held_out: HeldOut, stack: Stack) -> np.ndarray:
    """Log probabilities of the stack, (M, C)."""
    weights = without_small(stack.weights)
    parts = [
        np.log(w) + temper(p, held_out.log_prior, t)
        for p, t, w in zip(held_out.log_proba, stack.temperatures, weights, strict=True)
        if w > 0
    ]
    return temper(np.asarray(logsumexp(np.stack(parts), axis=0)), held_out.log_prior, stack.temperature)


def predict_held_out(held_out: HeldOut, max_iter: int, tol: float) -> np.ndarray:
    """Log probabilities (M, C) of each fold by the stack of the others."""
    log_proba = np.zeros(held_out.log_proba.shape[1:])
    for fold in np.unique(held_out.fold):
        mine = held_out.fold == fold
        others = ~np.isin(held_out.rows, held_out.rows[mine])
        few = equal_stack(held_out.log_proba.shape[0])
        stack = fit_stack(held_out.subset(others), max_iter, tol) if others.any() else few
        log_proba[mine] = pool(held_out.subset(mine), stack)
    return log_proba


def expected_scores(log_proba: np.ndarray, held_out: HeldOut) -> tuple[float, float]:
    """Log loss and accuracy to expect of new rows, from log probabilities (M, C) of held-out
    ones.
    """
    if not held_out.rows.size:
        return float("nan"), float("nan")
    right = log_proba.argmax(axis=1) == held_out.codes
    return log_loss(log_proba, held_out.codes, held_out.weight), float(np.average(right, weights=held_out.weight))


def proba_by_row(log_proba: np.ndarray, rows: np.ndarray, n_rows: int) -> np.ndarray:
    """Probabilities (n_rows, C) of held-out rows, averaged over the times that a row was held out;
    NaN for rows that never were.
    """
    total, times = np.zeros((n_rows, log_proba.shape[1])), np.bincount(rows, minlength=n_rows)
    np.add.at(total, rows, np.exp(log_proba))
    return np.where(times[:, None] > 0, total / np.maximum(times, 1)[:, None], np.nan)


class Vote(NamedTuple):
    """A member, and how much it counts."""

    name: str
    member: Member
    weight: float
    temperature: float


@dataclass(frozen=True)
class StackModel:
    """All that predictions need."""

    votes: tuple[Vote, ...]
    density: GenerativeMember  # the generative member of the largest weight: p(x)
    encoder: ColumnEncoder
    log_prior: np.ndarray  # (C,) about which members and the pool are tempered
    temperature: float  # of the pool
    log_shift: np.ndarray  # (C,) added for class priors other than those of the rows
    leaderboard: dict[str, list[Any]]

    @property
    def params(self) -> GenerativeParams:
        """Arrays that tell the namespace and the device of the rows fitted."""
        return self.density.model.params

    @property
    def factors(self) -> Any:
        """The estimator of the heaviest member with latent factors, None if there is none."""
        estimators = [vote.member.estimator for vote in self.votes if isinstance(vote.member, GenerativeMember)]
        return next((e for e in [*estimators, self.density.estimator] if hasattr(e, "loadings_")), None)

    @property
    def rows_like(self) -> Array:
        """An array of the dtype, namespace and device of rows with gaps."""
        return self.density.model.preprocessor.shift

    @property
    def log_prior_of_rows(self) -> np.ndarray:
        """What is said of a row without any cell, (C,)."""
        nothing = asarray_like(np.full((1, len(self.encoder.columns)), np.nan), self.rows_like)
        return to_numpy(self.log_proba(nothing))[0].astype(float)

    def with_prior(self, log_prior: np.ndarray) -> StackModel:
        """The same for rows among which classes have other shares; members vote as before."""
        return replace(
            self,
            votes=tuple(vote._replace(member=vote.member.published_under(log_prior)) for vote in self.votes),
            density=self.density.published_under(log_prior),
            log_shift=log_prior - self.log_prior_of_rows,
        )

    def log_odds(self, X: Array) -> Array:
        """Log odds of each class against all others, (N, C); zero for a single class."""
        log_proba = self.log_proba(X)
        xp = namespace(log_proba)
        n_classes = log_proba.shape[1]
        if n_classes == 1:
            return xp.zeros_like(log_proba)
        others = [
            logsumexp(xp.concat([log_proba[:, :c], log_proba[:, c + 1 :]], axis=1), axis=1) for c in range(n_classes)
        ]
        return log_proba - xp.stack(others, axis=1)

    def log_proba(self, X: Array) -> Array:
        """Log p(c | x) of coded rows, (N, C)."""
        X = X if is_numpy_array(self.rows_like) else asarray_like(X, self.rows_like)
        parts = [
            self._temper(said, vote.temperature) + float(np.log(vote.weight))
            for vote, said in zip(self.votes, self._say(X), strict=True)
        ]
        total = self._temper(logsumexp(namespace(parts[0]).stack(parts), axis=0), self.temperature)
        return log_softmax(total + asarray_like(self.log_shift, total), axis=-1)

    def _say(self, X: Array) -> list[Array]:
        """Log p(c | x) of each vote: a model that completes rows for others, and votes itself,
        looks at them once, and models that see rows in the same units look together.
        """
        members = [vote.member for vote in self.votes]
        voters = [m.model for m in members if isinstance(m, GenerativeMember) and not m.columns]
        completed: dict[int, Array] = {}
        said: dict[int, Array] = {}
        for member in members:
            if isinstance(member, CompletedMember) and id(member.completion.model) not in completed:
                model, completion = member.completion.model, member.completion
                if any(model is voter for voter in voters):
                    completed[id(model)], said[id(model)] = completion.with_log_proba(X)
                else:
                    completed[id(model)] = completion.complete(X)
        alike: dict[tuple[NumberColumns | None, int], list[FittedModel]] = {}
        for member in members:
            if isinstance(member, GenerativeMember) and id(member.model) not in said:
                alike.setdefault((member.columns, id(member.model.preprocessor)), []).append(member.model)
        for (columns, _), models in alike.items():
            together = log_probas(models, X if columns is None else columns.expand(X))
            said |= {id(model): log_proba for model, log_proba in zip(models, together, strict=True)}
        found = []
        for member in members:
            if isinstance(member, CompletedMember):
                found.append(member.log_proba_of(completed[id(member.completion.model)], X))
            elif isinstance(member, GenerativeMember):
                found.append(said[id(member.model)])
        return found

    def _temper(self, log_proba: Array, temperature: float) -> Array:
        if temperature == 1.0:
            return log_proba
        prior = asarray_like(self.log_prior, log_proba)
        return log_softmax(prior + (log_proba - prior) / temperature, axis=-1)
