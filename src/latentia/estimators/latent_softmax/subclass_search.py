"""Which numbers of subclasses to try: compressive search (Ahmed & Campbell 2011, Table II) and brute force.

Compressive search fits the configurations with equally many subclasses in every class, 1 to r. In each it counts the subclasses whose part of their class exceeds a
threshold (eq. 33); those counts are a new configuration, fitted in the next round from its parents' relevant subclasses. With one threshold it tries at most r models a round, however many classes there are.

The paper notes that this searches the best neighborhood without exploring it. What is left of a budget of models is therefore spent on the neighbors of the best configuration so
far, one subclass more or less in one class, moving on whenever one is better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

Configuration = tuple[int, ...]


class Trial(NamedTuple):
    """A fitted configuration, as the search sees it."""

    score: float  # higher is better
    proportions: np.ndarray  # (S,) part of its class that each subclass holds
    model: Any


class SearchEntry(NamedTuple):
    """A trial's place in the search."""

    trial: Trial
    round: int
    parents: list[Configuration]


#: Fits a configuration, given the trials that it was compressed from and which of their subclasses were kept.
Fit = Callable[[Configuration, Sequence[tuple[Trial, np.ndarray]]], Trial]


def compressive_search(
    fit: Fit,
    limits: Configuration,
    thresholds: Sequence[float],
    max_rounds: int,
    max_models: int = 0,
    stopped: Callable[[], bool] = lambda: False,
) -> dict[Configuration, SearchEntry]:
    """Fit uniform configurations up to the `limits` of the classes, then what they compress to; no more than `max_models` unless that is 0."""
    waiting: dict[Configuration, list[Configuration]] = {}
    for size in range(1, max(limits) + 1):
        waiting[tuple(min(size, limit) for limit in limits)] = []
    seen: dict[Configuration, SearchEntry] = {}
    for number in range(1, max_rounds + 1):
        for config, parents in waiting.items():
            sources = [(seen[p].trial, compressions(p, seen[p].trial, thresholds)[config]) for p in parents]
            seen[config] = SearchEntry(fit(config, sources), number, parents)
            if stopped() or len(seen) == max_models:
                return seen
        if number < max_rounds:
            waiting = _spawned(seen, waiting, thresholds)
    return seen


def _spawned(
    seen: Mapping[Configuration, SearchEntry], configs: Iterable[Configuration], thresholds: Sequence[float]
) -> dict[Configuration, list[Configuration]]:
    """What some configurations compress to, with its parents; where that was fitted before, they join its parents."""
    spawned: dict[Configuration, list[Configuration]] = {}
    for config in configs:
        for child in compressions(config, seen[config].trial, thresholds):
            (seen[child].parents if child in seen else spawned.setdefault(child, [])).append(config)
    return spawned


def children_of(seen: Mapping[Configuration, SearchEntry]) -> dict[Configuration, list[Configuration]]:
    """The fitted configurations that came from each."""
    return {config: [child for child, entry in seen.items() if config in entry.parents] for config in seen}


def refine(
    fit: Fit,
    seen: dict[Configuration, SearchEntry],
    limits: Configuration,
    max_models: int,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Climb from the best configuration through its neighbors until none is better or `max_models` were fitted."""
    best = best_configuration(seen)
    number = max(entry.round for entry in seen.values()) + 1
    grow_first = True
    while len(seen) < max_models and not stopped():
        steps = [(label, step) for step in ((1, -1) if grow_first else (-1, 1)) for label in range(len(best))]
        nearby = [_moved(best, label, step) for label, step in steps]
        fresh = [c for c in nearby if c not in seen and all(1 <= n <= m for n, m in zip(c, limits, strict=True))]
        if not fresh:
            break
        config = fresh[0]
        grows = sum(config) > sum(best)
        sources = [] if grows else [(seen[best].trial, _without_least(best, config, seen[best].trial))]
        seen[config] = SearchEntry(fit(config, sources), number, [best])
        if seen[config].trial.score > seen[best].trial.score:
            # one class has gained: perhaps another has too many, and the other way round
            best, grow_first = config, not grows


def _moved(config: Configuration, label: int, step: int) -> Configuration:
    return tuple(n + step if d == label else n for d, n in enumerate(config))


def _without_least(parent: Configuration, child: Configuration, trial: Trial) -> np.ndarray:
    """Which of the parent's subclasses a child with one less keeps."""
    owner = np.repeat(np.arange(len(parent)), parent)
    label = next(d for d, (a, b) in enumerate(zip(parent, child, strict=True)) if a > b)
    members = np.flatnonzero(owner == label)
    keep = np.ones(len(owner), dtype=bool)
    keep[members[np.argmin(trial.proportions[members])]] = False
    return keep


def compressions(config: Configuration, trial: Trial, thresholds: Sequence[float]) -> dict[Configuration, np.ndarray]:
    """Smaller configurations, and which subclasses each keeps: those above a threshold, at least the largest of a class."""
    owner = np.repeat(np.arange(len(config)), config)
    largest = np.zeros(len(owner), dtype=bool)
    for label in range(len(config)):
        members = np.flatnonzero(owner == label)
        largest[members[np.argmax(trial.proportions[members])]] = True
    found: dict[Configuration, np.ndarray] = {}
    for threshold in thresholds:
        keep = (trial.proportions >= threshold) | largest
        child = tuple(np.bincount(owner[keep], minlength=len(config)).tolist())
        if child != config:
            found.setdefault(child, keep)
    return found


def exhaustive_search(
    fit: Fit, limits: Configuration, stopped: Callable[[], bool] = lambda: False
) -> dict[Configuration, SearchEntry]:
    """Fit every configuration up to the limits."""
    seen: dict[Configuration, SearchEntry] = {}
    for config in product(*(range(1, limit + 1) for limit in limits)):
        seen[config] = SearchEntry(fit(config, ()), 1, [])
        if stopped():
            break
    return seen


def best_configuration(seen: dict[Configuration, SearchEntry]) -> Configuration:
    """The one with the highest score."""
    return max(seen, key=lambda config: seen[config].trial.score)
