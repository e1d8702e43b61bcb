"""The record of how each restart of a batch went."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from latentia.arrays.namespace import Array, to_numpy
from latentia.engine.contracts import Params
from latentia.engine.tree import select_restart, stack_restarts
from latentia.solvers.solution import Outcome, Solution, Step


class RestartHistory:
    """Curves and ends of all restarts, of which those in `index` still run."""

    def __init__(self, n_restarts: int):
        self.index = np.arange(n_restarts)
        self.curves: list[list[float]] = [[] for _ in range(n_restarts)]
        self.params: list[Params] = [None] * n_restarts
        self.outcomes = [Outcome.MAX_ITER] * n_restarts

    def add(self, values: np.ndarray) -> None:
        """Note the values of those that run."""
        for restart, value in zip(self.index.tolist(), values.tolist(), strict=True):
            self.curves[restart].append(value)

    def finish(self, which: np.ndarray, params: Params, outcome: Outcome) -> None:
        """End these of those that run."""
        for k in which.tolist():
            self.params[self.index[k]] = select_restart(params, k)
            self.outcomes[self.index[k]] = outcome
        self.index = np.delete(self.index, which)

    def solution(self) -> Solution:
        """What all have come to."""
        return Solution(
            params=stack_restarts(self.params),
            value=np.array([curve[-1] for curve in self.curves]),
            curves=[np.array(curve) for curve in self.curves],
            n_iter=np.array([len(curve) - 1 for curve in self.curves]),
            outcomes=self.outcomes,
        )


def best_step(solver: str, iteration: int, values: np.ndarray, params_at: Callable[[int], Params]) -> Step:
    """What callbacks see of a step: the best of the restarts that run."""
    best = int(values.argmax())
    return Step(solver, iteration, float(values[best]), len(values), partial(params_at, best))


def to_float_array(value: Array) -> np.ndarray:
    """Values of the restarts on the host; of a single one, too."""
    return np.array(to_numpy(value), dtype=float, ndmin=1)
