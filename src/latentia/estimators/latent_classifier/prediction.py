"""A fitted stack: what its members say together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_numpy_array

from latentia.arrays.namespace import Array, asarray_like, log_softmax, logsumexp, namespace, to_numpy
from latentia.engine.contracts import Params
from latentia.estimators.latent_classifier.members import CompletedMember, GenerativeMember, Member
from latentia.table.encoder import ColumnEncoder


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
    def params(self) -> Params:
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
        looks at them once.
        """
        members = [vote.member for vote in self.votes]
        voters = [m.model for m in members if isinstance(m, GenerativeMember) and not (m.columns or m.model.others)]
        completed: dict[int, Array] = {}
        said: dict[int, Array] = {}
        for member in members:
            if isinstance(member, CompletedMember) and id(member.completion.model) not in completed:
                model, complete = member.completion.model, member.completion
                if any(model is voter for voter in voters):
                    completed[id(model)], said[id(model)] = complete.with_log_proba(X)
                else:
                    completed[id(model)] = complete(X)
        found = []
        for member in members:
            if isinstance(member, CompletedMember):
                found.append(member.log_proba_of(completed[id(member.completion.model)], X))
            elif isinstance(member, GenerativeMember) and id(member.model) in said:
                found.append(said[id(member.model)])
            else:
                found.append(member.log_proba(X))
        return found

    def _temper(self, log_proba: Array, temperature: float) -> Array:
        if temperature == 1.0:
            return log_proba
        prior = asarray_like(self.log_prior, log_proba)
        return log_softmax(prior + (log_proba - prior) / temperature, axis=-1)
