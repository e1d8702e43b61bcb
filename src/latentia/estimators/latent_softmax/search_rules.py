"""What every search over sizes follows: which model wins, and when to try no more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: Scores this near to each other are equal: nats of evidence, or of a row's mean log score.
TIE = 1e-3


class HeldOutScore(float):
    """The mean log score of held-out rows, which remembers theirs."""

    rows: np.ndarray
    weight: np.ndarray

    def __new__(cls, rows: np.ndarray, weight: np.ndarray) -> HeldOutScore:
        score = super().__new__(cls, np.average(rows, weights=weight))
        score.rows, score.weight = rows, weight
        return score

    def is_worse(self, than: HeldOutScore) -> bool:
        """Whether the other score is higher by more than the standard error of the difference."""
        gains = than.rows - self.rows
        variance = np.average((gains - (than - self)) ** 2, weights=self.weight)
        return bool(than - self > max(TIE, np.sqrt(variance / self.weight.sum())))


def is_better(score: float, other: float) -> bool:
    """Whether a score exceeds another by more than a tie; NaN exceeds nothing."""
    return bool(score > other + TIE) or bool(np.isnan(other) and not np.isnan(score))


def best_model(scores: Sequence[float], sizes: Sequence[int]) -> int:
    """The smallest model whose score ties with the highest; of equal sizes the first.

    So the choice depends neither on rounding nor on where a solver happened to stop.
    """
    usable = np.where(np.isnan(scores), -np.inf, np.asarray(scores, dtype=float))
    ties = np.flatnonzero(usable >= usable.max() - TIE) if np.isfinite(usable.max()) else np.arange(len(usable))
    return int(ties[np.argmin(np.asarray(sizes)[ties])])


class Patience:
    """Ends a sequence of models after `limit` in a row that were no better; 0 for never.

    One that is worse than chance explains ends it at once.
    """

    def __init__(self, limit: int, best: float = -np.inf):
        self.limit, self.best, self.n_failures = limit, best, 0

    def ends_with(self, score: float) -> bool:
        """Note the score of the next model; whether it was the last to be tried."""
        if is_better(score, self.best):
            self.best, self.n_failures = score, 0
            return False
        hopeless = isinstance(score, HeldOutScore) and isinstance(self.best, HeldOutScore) and score.is_worse(self.best)
        self.n_failures = self.limit if hopeless else self.n_failures + 1
        return self.n_failures == self.limit > 0
