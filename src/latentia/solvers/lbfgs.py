"""Quasi-Newton ascent in unconstrained coordinates by SciPy's L-BFGS, with optional early stopping
on held-out rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from latentia.arrays.namespace import to_numpy
from latentia.engine.contracts import Params, Problem, SmoothFamily
from latentia.engine.tree import add_restart_axis, flatten, select_restart, unflatten
from latentia.solvers.em import rounding_unit
from latentia.solvers.held_out import HeldOut
from latentia.solvers.solution import Outcome, Solution, Step, StepCallback, ignore_step

#: The loss where values are not finite: finite itself, so that the line search can interpolate its
#: way back.
INVALID_LOSS = 1e50

#: Gradients below this count as zero: SciPy squares them, and squares that vanish make it divide by
#: zero.
MIN_GRADIENT = 1e-150

#: A gain below this many ulps of the value cannot be seen in it: it is a sum over rows, each
#: rounded.
INVISIBLE_GAIN = 100


@dataclass(frozen=True)
class LBFGS:
    """Maximize the objective per unit of sample weight until a step gains less than `tol` / 100 of
    it.

    A quasi-Newton step gains far less than an EM step that is equally far from the optimum, hence
    the finer threshold. SciPy measures the gain relative to ``max(|objective|, 1)``, and also stops
    where no slope exceeds `tol` / 100, after `max_iter` steps, or after 20 evaluations a step.

    Parameters
    ----------
    validate : callable or None
        Loss of parameters on held-out rows. The parameters with the least loss are returned, and
        the ascent ends when it has not fallen for `patience` iterations; the record ends where
        these parameters were.
    """

    max_iter: int = 200
    tol: float = 1e-4
    memory: int = 10
    validate: Callable[[Params], float] | None = None
    patience: int = 10

    def solve(self, problem: Problem[SmoothFamily], params: Params, on_step: StepCallback = ignore_step) -> Solution:
        """Ascend from a single start."""
        ascent = _Ascent(problem, select_restart(params, 0), HeldOut(self.validate, self.patience), on_step)
        result = minimize(
            ascent.loss,
            flatten(ascent.free),
            jac=True,
            method="L-BFGS-B",
            callback=ascent.step,
            options={
                "maxiter": self.max_iter,
                "maxfun": 20 * self.max_iter + 20,
                "maxcor": self.memory,
                "ftol": self.tol * 1e-2,
                "gtol": max(self.tol * 1e-2, MIN_GRADIENT),
            },
        )
        end, curve = ascent.end(result)
        return Solution(
            params=add_restart_axis(end),
            value=np.array([curve[-1]]),
            curves=[np.array(curve)],
            n_iter=np.array([len(curve) - 1]),
            outcomes=[ascent.outcome(result)],
        )


class _Ascent:
    """What SciPy asks for, and what it has seen."""

    def __init__(self, problem: Problem[SmoothFamily], params: Params, held_out: HeldOut, on_step: StepCallback):
        self.problem, self.family, self.params, self.on_step = problem, problem.family, params, on_step
        self.free = self.family.to_free(params)
        self.per_row = 1.0 / problem.total_weight
        self.curve: list[float] = []
        self.best: tuple[float, np.ndarray] | None = None  # value and point
        self.stopped = False
        self.held_out = held_out
        held_out.should_stop(lambda: params)

    def params_at(self, point: np.ndarray) -> Params:
        return self.family.from_free(unflatten(point, self.free), self.params)

    def loss(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the objective per row and its gradient; a large finite loss where they are not
        finite.
        """
        try:
            with np.errstate(all="ignore"):  # line searches may overflow
                here = self.params_at(point)
                sweep = self.problem.sweep(here)
                gradient = flatten(self.family.gradient(here, sweep.stats))
        except Exception as error:
            if not type(error).__name__.endswith("LinAlgError"):  # NumPy's or torch's, or another bug
                raise
            return INVALID_LOSS, np.zeros_like(point)
        value = float(to_numpy(sweep.value))
        if not self.curve:
            self.curve.append(value)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return INVALID_LOSS, np.zeros_like(point)
        if self.best is None or value > self.best[0]:
            self.best = value, point.copy()
        return -value * self.per_row, -gradient * self.per_row

    def step(self, intermediate_result: OptimizeResult) -> None:
        """Report a step; SciPy stops at StopIteration."""
        if not _is_valid(intermediate_result):
            raise StopIteration
        self.curve.append(float(-intermediate_result.fun / self.per_row))
        point = intermediate_result.x.copy()  # SciPy writes its next point over this one
        step = Step("L-BFGS", len(self.curve) - 1, self.curve[-1], 1, lambda: self.params_at(point))
        self.stopped = self.on_step(step)
        if self.held_out.should_stop(step.params) or self.stopped:
            raise StopIteration

    def end(self, result: OptimizeResult) -> tuple[Params, list[float]]:
        """The parameters to return, and the curve that leads to them."""
        if self.held_out.best is not None:
            return self.held_out.best, self.curve[: self.held_out.best_step + 1]
        if _is_valid(result):
            return self.params_at(result.x), self.curve
        if self.best is not None:
            return self.params_at(self.best[1]), [*self.curve[:-1], self.best[0]]
        # not even the start is finite in free coordinates
        return self.params, [float(to_numpy(self.problem.sweep(self.params).value))]

    def outcome(self, result: OptimizeResult) -> Outcome:
        """Why the ascent ended."""
        if self.held_out.stopped:
            return Outcome.VALIDATED
        if self.stopped:
            return Outcome.STOPPED
        unit = rounding_unit(self.free)
        outcome = outcome_of(result, unit)
        if outcome is Outcome.NO_ASCENT and _is_valid(result):
            invisible = INVISIBLE_GAIN * unit * max(1.0, abs(result.fun))
            return Outcome.AT_ROUNDING if self._gain_left(result) <= invisible else outcome
        return outcome

    def _gain_left(self, result: OptimizeResult) -> float:
        """What a parabola along the gradient promises, its curvature taken from the gradient one
        step on.

        The gradient alone does not tell how far the optimum is: a linear expert with little noise
        has steep gradients next to it.
        """
        gradient = result.jac
        _, there = self.loss(result.x - gradient)
        curvature = float(gradient @ (gradient - there))
        return float(gradient @ gradient) ** 2 / (2 * curvature) if curvature > 0 else np.inf


def outcome_of(result: OptimizeResult, unit: float) -> Outcome:
    """Why SciPy ended, in arithmetic with that rounding unit."""
    if not _is_valid(result):
        return Outcome.NO_ASCENT
    if result.success:
        return Outcome.CONVERGED
    if result.status == 1:
        return Outcome.MAX_ITER
    # Below the root of the rounding unit of gradient, a rounded value cannot show the gain that is
    # left.
    at_rounding = np.abs(result.jac).max() <= np.sqrt(unit) * max(1.0, abs(result.fun))
    return Outcome.AT_ROUNDING if at_rounding else Outcome.NO_ASCENT


def _is_valid(result: OptimizeResult) -> bool:
    """Whether SciPy is at a point with a value; where gradients vanish it has been seen to divide
    by them.
    """
    return bool(np.isfinite(result.x).all() and result.fun < INVALID_LOSS)
