"""What every solver takes and reports: its steps, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from latentia.engine.contracts import Family, Params, Problem
from latentia.engine.tree import take_restarts


class Outcome(Enum):
    """Why a solver ended; the value is the sentence that users read."""

    CONVERGED = "converged: the gain fell below tol"
    AT_ROUNDING = "converged: the gain fell below rounding"
    VALIDATED = "converged: the loss on held-out rows stopped falling"
    MAX_ITER = "max_iter reached"
    STOPPED = "stopped by the callback"
    NO_ASCENT = "no step raised the objective"

    @property
    def converged(self) -> bool:
        """Whether the solver ended by its own rule."""
        return self in (Outcome.CONVERGED, Outcome.AT_ROUNDING, Outcome.VALIDATED)


class Step(NamedTuple):
    """One step of a solver, as callbacks see it."""

    solver: str
    iteration: int
    value: float  # best value among the restarts still running
    n_running: int  # restarts that have not converged
    params: Callable[[], Params]  # of the best restart still running, made when asked for


#: Called after each step; return True to stop the solver.
StepCallback = Callable[[Step], bool]


class Solution(NamedTuple):
    """Where a solver ended, per restart."""

    params: Params  # one set per restart along the first axis
    value: np.ndarray  # (n_restarts,)
    curves: list[np.ndarray]  # value after each sweep, per restart
    n_iter: np.ndarray  # (n_restarts,)
    outcomes: list[Outcome]

    @property
    def converged(self) -> np.ndarray:
        """Which restarts ended by the solver's own rule."""
        return np.array([outcome.converged for outcome in self.outcomes])

    def select_restart(self, k: int) -> Solution:
        """One restart of several."""
        return self.take_restarts([k])

    def take_restarts(self, index: list[int]) -> Solution:
        """Some of the restarts."""
        return Solution(
            take_restarts(self.params, index),
            self.value[index],
            [self.curves[k] for k in index],
            self.n_iter[index],
            [self.outcomes[k] for k in index],
        )


def ignore_step(step: Step) -> bool:
    """The callback that does nothing."""
    return False


F_contra = TypeVar("F_contra", bound=Family, contravariant=True)


class Solver(Protocol[F_contra]):
    """Raises the objective of a problem from every restart, along the parameters' first axis."""

    def solve(self, problem: Problem[F_contra], params: Params, on_step: StepCallback = ignore_step) -> Solution: ...
