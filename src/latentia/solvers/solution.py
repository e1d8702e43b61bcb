"""What every solver reports: a step at a time, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from latentia.engine.contracts import Params
from latentia.engine.pytree import take_restarts


class Step(NamedTuple):
    """One step of a solver, as callbacks see it."""

    solver: str
    iteration: int
    value: float  # best value among the starts still running
    n_running: int  # starts that have not converged
    params: Callable[[], Params]  # of the best start still running, made when asked for


#: Called after each step; a true answer stops the solver.
StepCallback = Callable[[Step], bool]


class Solution(NamedTuple):
    """Where a solver ended. With several starts, everything is per start."""

    params: Params  # one set per start along the first axis
    value: np.ndarray  # (n_restarts,)
    curves: list[np.ndarray]  # value after each sweep, per start
    n_iter: np.ndarray  # (n_restarts,)
    converged: np.ndarray  # (n_restarts,) booleans
    reason: list[str]  # why each start stopped

    def select_restart(self, k: int) -> Solution:
        """One start of several."""
        one = slice(k, k + 1)
        return Solution(
            take_restarts(self.params, [k]),
            self.value[one],
            self.curves[one],
            self.n_iter[one],
            self.converged[one],
            self.reason[one],
        )


def ignore_step(step: Step) -> bool:
    """The callback that does nothing."""
    return False
