"""What every search over sizes follows: which model wins, and when to try no more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: Scores this near to each other are equal: nats of evidence, or of a row's mean log score.
TIE = 1e-3


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
    """Ends a sequence of models after `limit` in a row that were no better; 0 for never."""

    def __init__(self, limit: int, best: float = -np.inf):
        self.limit, self.best, self.n_failures = limit, best, 0

    def ends_with(self, score: float) -> bool:
        """Note the score of the next model; whether it was the last to be tried."""
        better = is_better(score, self.best)
        self.n_failures = 0 if better else self.n_failures + 1
        self.best = score if better else self.best
        return self.n_failures == self.limit > 0
