"""Which numbers of subclasses to try: compressive search and brute force.

Compressive search (Ahmed & Campbell 2011, Table II) fits the configurations with equally many
subclasses in every class, 1 to r. In each it counts the subclasses whose part of their class
exceeds a threshold (eq. 33); those counts are a new configuration, fitted in the next round from
its parents' relevant subclasses. With one threshold it tries at most r models a round, however many
classes there are.

The paper notes that this searches the best neighborhood without exploring it. What is left of a
budget of models is therefore spent on the neighbors of the best configuration so far, one subclass
more or less in one class, moving on whenever one is better.

Where one subclass is as good as several, all this is wasted. So with `patience` the equal numbers
end after so many in a row that were no better, and the neighbors after twice as many: as many as
two classes have. On held-out rows, one that is worse than chance explains ends them at once.

A strategy is an iterator of proposals; each has to be fitted and recorded before the next is asked
for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from latentia.estimators.latent_softmax.search_rules import Patience, best_model, is_better

Configuration = tuple[int, ...]


class FittedConfiguration(NamedTuple):
    """A fitted configuration, as the search sees it."""

    score: float  # higher is better
    proportions: np.ndarray  # (S,) part of its class that each subclass holds
    model: Any


class Parent(NamedTuple):
    """What a configuration was made from."""

    fitted: FittedConfiguration
    kept: np.ndarray  # (S,) which of its subclasses were kept


class Proposal(NamedTuple):
    """A configuration to be fitted next."""

    configuration: Configuration
    round: int = 1
    parents: Sequence[Configuration] = ()
    sources: Sequence[Parent] = ()  # parents to start from


class SearchEntry(NamedTuple):
    """A fitted configuration and how the search came to it."""

    fitted: FittedConfiguration
    round: int
    parents: list[Configuration]


class SubclassSearch:
    """Configurations fitted so far, and strategies that propose others within the limits."""

    def __init__(self, limits: Configuration, patience: int = 0):
        self.limits, self.patience = limits, patience
        self.entries: dict[Configuration, SearchEntry] = {}

    def record(self, proposal: Proposal, fitted: FittedConfiguration) -> None:
        """A proposal has been fitted."""
        self.entries[proposal.configuration] = SearchEntry(fitted, proposal.round, list(proposal.parents))

    @property
    def best(self) -> Configuration:
        """The configuration with the highest score; of those that tie, the smallest."""
        scores = [entry.fitted.score for entry in self.entries.values()]
        return list(self.entries)[best_model(scores, [sum(configuration) for configuration in self.entries])]

    def children(self) -> dict[Configuration, list[Configuration]]:
        """The fitted configurations that came from each."""
        return {
            parent: [child for child, entry in self.entries.items() if parent in entry.parents]
            for parent in self.entries
        }

    def exhaustive(self) -> Iterator[Proposal]:
        """Every configuration up to the limits."""
        for configuration in product(*(range(1, limit + 1) for limit in self.limits)):
            yield Proposal(configuration)

    def compressive(self, thresholds: Sequence[float], max_rounds: int, max_models: int = 0) -> Iterator[Proposal]:
        """Uniform configurations, then what they are pruned to; `max_models` in all unless 0."""
        queue: dict[Configuration, list[Configuration]] = {}
        for size in range(1, max(self.limits) + 1):
            queue[tuple(min(size, limit) for limit in self.limits)] = []
        for number in range(1, max_rounds + 1):
            patience = Patience(self.patience if number == 1 else 0)
            for configuration, parents in queue.items():
                sources = [Parent(self.entries[p].fitted, self._pruned(p, thresholds)[configuration]) for p in parents]
                yield Proposal(configuration, number, parents, sources)
                if len(self.entries) == max_models:
                    return
                if patience.ends_with(self.entries[configuration].fitted.score):
                    break
            if number < max_rounds:
                queue = self._next_round([c for c in queue if c in self.entries], thresholds)

    def neighbors(self, max_models: int) -> Iterator[Proposal]:
        """Climb from the best until no neighbor is better or `max_models` were fitted."""
        best = self.best
        number = max(entry.round for entry in self.entries.values()) + 1
        grow_first = True
        patience = Patience(2 * self.patience, self.entries[best].fitted.score)
        while len(self.entries) < max_models:
            untried = self._untried_neighbors(best, grow_first)
            if not untried:
                return
            configuration = untried[0]
            grows = sum(configuration) > sum(best)
            fitted = self.entries[best].fitted
            sources = [] if grows else [Parent(fitted, _without_smallest(best, configuration, fitted))]
            yield Proposal(configuration, number, [best], sources)
            if patience.ends_with(self.entries[configuration].fitted.score):
                return
            if is_better(self.entries[configuration].fitted.score, fitted.score):
                # one class has gained: perhaps another has too many, and the other way round
                best, grow_first = configuration, not grows

    def _pruned(self, configuration: Configuration, thresholds: Sequence[float]) -> dict[Configuration, np.ndarray]:
        return pruned_configurations(configuration, self.entries[configuration].fitted, thresholds)

    def _next_round(
        self, configurations: Iterable[Configuration], thresholds: Sequence[float]
    ) -> dict[Configuration, list[Configuration]]:
        """What is pruned to what; parents of a configuration fitted before join its entry."""
        children: dict[Configuration, list[Configuration]] = {}
        for configuration in configurations:
            for child in self._pruned(configuration, thresholds):
                fitted = child in self.entries
                (self.entries[child].parents if fitted else children.setdefault(child, [])).append(configuration)
        return children

    def _untried_neighbors(self, center: Configuration, grow_first: bool) -> list[Configuration]:
        moves = [(label, step) for step in ((1, -1) if grow_first else (-1, 1)) for label in range(len(center))]
        nearby = [tuple(n + step * (k == label) for k, n in enumerate(center)) for label, step in moves]
        return [c for c in nearby if c not in self.entries and self._is_allowed(c)]

    def _is_allowed(self, configuration: Configuration) -> bool:
        return all(1 <= n <= limit for n, limit in zip(configuration, self.limits, strict=True))


def pruned_configurations(
    configuration: Configuration, fitted: FittedConfiguration, thresholds: Sequence[float]
) -> dict[Configuration, np.ndarray]:
    """Smaller configurations, and what each keeps: what exceeds a threshold, and the largest."""
    labels = class_of_subclass(configuration)
    largest = np.zeros(len(labels), dtype=bool)
    for label in range(len(configuration)):
        members = np.flatnonzero(labels == label)
        largest[members[np.argmax(fitted.proportions[members])]] = True
    pruned: dict[Configuration, np.ndarray] = {}
    for threshold in thresholds:
        kept = (fitted.proportions >= threshold) | largest
        child = tuple(np.bincount(labels[kept], minlength=len(configuration)).tolist())
        if child != configuration:
            pruned.setdefault(child, kept)
    return pruned


def _without_smallest(parent: Configuration, child: Configuration, fitted: FittedConfiguration) -> np.ndarray:
    """Which of the parent's subclasses a child with one less keeps."""
    labels = class_of_subclass(parent)
    label = next(k for k, (a, b) in enumerate(zip(parent, child, strict=True)) if a > b)
    members = np.flatnonzero(labels == label)
    kept = np.ones(len(labels), dtype=bool)
    kept[members[np.argmin(fitted.proportions[members])]] = False
    return kept


def class_of_subclass(configuration: Configuration) -> np.ndarray:
    """The class (S,) of each subclass."""
    return np.repeat(np.arange(len(configuration)), configuration)
