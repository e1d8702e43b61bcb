"""Quasi-Newton ascent in unconstrained coordinates, by SciPy's L-BFGS, with optional early stopping on held-out rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from latentia.engine.contracts import Params, Problem, SmoothFamily
from latentia.engine.pytree import add_restart_axis, flatten, select_restart, unflatten
from latentia.numerics.array_api import to_numpy
from latentia.solvers.em import rounding_unit
from latentia.solvers.solution import Solution, Step, StepCallback, ignore_step

#: The loss where a line search has left the numbers: finite, so that its interpolation can come back.
INVALID_LOSS = 1e50


#: A gain below so many rounding units of the value cannot be seen in it: it is a sum over rows, each with its own rounding.
UNSEEN_UNITS = 10


#: Slopes below this count as none: SciPy squares them, and squares that vanish make it divide by zero.
MIN_GRADIENT = 1e-150


BELOW_ROUNDING = "converged: the gain fell below rounding"


NO_STEP = "no step raised the objective"


@dataclass(frozen=True)
class LBFGS:
    """Maximize the objective per unit of sample weight until a step gains less than `tol` / 100 of it.

    A quasi-Newton step gains far less than an EM step that is equally far from the optimum, hence the finer threshold.

    Parameters
    ----------
    validate : callable or None
        Loss of parameters on rows held out. The parameters with the least loss are returned, and the ascent
        ends when it has not fallen for `patience` iterations; the record ends where these parameters were.
    """

    max_iter: int = 200
    tol: float = 1e-4
    memory: int = 10
    validate: Callable[[Params], float] | None = None
    patience: int = 10

    def solve(self, problem: Problem, params: Params, on_step: StepCallback = ignore_step) -> Solution:
        """Ascend from a single start."""
        family = problem.family
        assert isinstance(family, SmoothFamily)
        params = select_restart(params, 0)
        free = family.to_free(params)
        per_row = 1.0 / problem.total_weight
        curve: list[float] = []
        best: tuple[float, np.ndarray] | None = None
        held_out = _HeldOut(self.validate, self.patience)
        stopped = False

        def loss(vector: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal best
            try:
                with np.errstate(all="ignore"):  # the line search may leave the numbers
                    here = family.from_free(unflatten(vector, free), params)
                    value, stats = problem.sweep(here)
                    slope = flatten(family.gradient(here, stats))
            except Exception as error:
                if not type(error).__name__.endswith("LinAlgError"):  # NumPy's or torch's, or another bug
                    raise
                return INVALID_LOSS, np.zeros_like(vector)
            value = float(to_numpy(value))
            if not curve:
                curve.append(value)
            if not (np.isfinite(value) and np.isfinite(slope).all()):  # let it come back
                return INVALID_LOSS, np.zeros_like(vector)
            if best is None or value > best[0]:
                best = value, vector.copy()
            return -value * per_row, -slope * per_row

        def step(intermediate_result: OptimizeResult) -> None:
            if not _is_somewhere(intermediate_result):
                raise StopIteration
            curve.append(float(-intermediate_result.fun / per_row))
            point = intermediate_result.x.copy()  # SciPy writes its next point over this one

            def here() -> Params:
                return family.from_free(unflatten(point, free), params)

            nonlocal stopped
            stopped = on_step(Step("L-BFGS", len(curve) - 1, curve[-1], 1, here))
            if held_out.should_stop(here) or stopped:
                raise StopIteration

        start = flatten(free)
        if self.validate is not None:
            held_out.should_stop(lambda: params)
        result = minimize(
            loss,
            start,
            jac=True,
            method="L-BFGS-B",
            callback=step,
            options={
                "maxiter": self.max_iter,
                "maxfun": 20 * self.max_iter + 20,
                "maxcor": self.memory,
                "ftol": self.tol * 1e-2,
                "gtol": max(self.tol * 1e-2, MIN_GRADIENT),
            },
        )
        lost = not _is_somewhere(result)
        if not lost:
            end = family.from_free(unflatten(result.x, free), params)
        elif best is not None:
            end, curve = family.from_free(unflatten(best[1], free), params), [*curve[:-1], best[0]]
        else:  # not even the start is a number in free coordinates
            end, curve = params, [float(to_numpy(problem.sweep(params).value))]
        if held_out.best is not None:
            end, curve = held_out.best, curve[: held_out.best_step + 1]
        if held_out.stopped:
            reason = "converged: the loss on held-out rows stopped falling"
        elif stopped:
            reason = "stopped by the callback"
        elif lost:
            reason = NO_STEP
        else:
            reason = self._ending(result, rounding_unit(free))
            unseen = UNSEEN_UNITS * rounding_unit(free) * max(1.0, abs(result.fun))
            if reason == NO_STEP and _gain_left(loss, result) <= unseen:
                reason = BELOW_ROUNDING
        return Solution(
            params=add_restart_axis(end),
            value=np.array([curve[-1]]),
            curves=[np.array(curve)],
            n_iter=np.array([len(curve) - 1]),
            converged=np.array([reason.startswith("converged")]),
            reason=[reason],
        )

    def _ending(self, result: OptimizeResult, unit: float) -> str:
        """Why SciPy ended, in arithmetic with that rounding unit."""
        if result.success:
            return "converged: the gain fell below tol"
        if result.status == 1:
            return f"max_iter={self.max_iter} reached"
        # No step raised the value. Where the slope is below the root of the rounding unit, a value that rounds cannot show the gain that is left.
        if np.abs(result.jac).max() <= np.sqrt(unit) * max(1.0, abs(result.fun)):
            return BELOW_ROUNDING
        return NO_STEP


def _gain_left(loss: Callable[[np.ndarray], tuple[float, np.ndarray]], result: OptimizeResult) -> float:
    """What a parabola along the slope promises, its curvature taken from the slope one step on.

    The slope alone does not tell how far off the optimum is: a linear expert of little noise has steep slopes next to it.
    """
    slope = result.jac
    _, there = loss(result.x - slope)
    curvature = float(slope @ (slope - there))
    return float(slope @ slope) ** 2 / (2 * curvature) if curvature > 0 else np.inf


def _is_somewhere(result: OptimizeResult) -> bool:
    """Whether SciPy is at a point with a value; where slopes vanish it has been seen to divide by them."""
    return bool(np.isfinite(result.x).all() and result.fun < INVALID_LOSS)


class _HeldOut:
    """Keeps the parameters with the least loss on held-out rows."""

    def __init__(self, validate: Callable[[Params], float] | None, patience: int):
        self.validate = validate
        self.patience = patience
        self.best: Params = None
        self.best_step = 0
        self.seen = 0
        self.least = np.inf
        self.waited = 0
        self.stopped = False

    def should_stop(self, params: Callable[[], Params]) -> bool:
        if self.validate is None:
            return False
        here = params()
        loss = self.validate(here)
        self.waited += 1
        if loss < self.least:
            self.best, self.best_step, self.least, self.waited = here, self.seen, loss, 0
        self.seen += 1
        self.stopped = self.waited >= self.patience
        return self.stopped
