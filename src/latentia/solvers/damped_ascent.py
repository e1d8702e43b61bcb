"""Damped fixed-point steps with Anderson acceleration, for families whose full steps may overshoot.

A step goes a fraction of the way from the parameters to where their statistics point. Its direction
is accelerated by Anderson's method, residuals in the family's own units. A trial that lowers the
objective is replaced by the plain step, and the past is forgotten; a plain step that does not raise
the objective is halved, one that does grows again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from latentia.arrays.namespace import to_numpy
from latentia.engine.contracts import DampedFamily, Params, Problem, Stats
from latentia.engine.tree import flatten_restarts, select_restart, unflatten_restarts
from latentia.solvers.anderson import AndersonHistory
from latentia.solvers.solution import Outcome, Solution, Step, StepCallback, ignore_step

#: The ascent ends when this many successful steps together gain less than `tol`.
WINDOW = 6

INITIAL_STEP = 0.5  # fraction of a full step

MIN_STEP = 0.01  # below which nothing is left to gain in this direction

STEP_GROWTH = 1.3  # after each plain step that raised the objective


@dataclass(frozen=True)
class DampedAscent:
    """Damped steps of a single restart, until six gain less than `tol` per unit of weight.

    `name` is what callbacks are told as the name of the solver.
    """

    max_iter: int = 600
    tol: float = 1e-5
    memory: int = 8
    name: str = "damped ascent"

    def solve(self, problem: Problem[DampedFamily], params: Params, on_step: StepCallback = ignore_step) -> Solution:
        """Raise the objective; `n_iter` counts all steps, those that had to be halved too."""
        ascent = _Ascent(problem, params, self.memory)
        curve, raised = [ascent.value], [ascent.value]  # after each step; after each that raised the objective
        outcome = Outcome.MAX_ITER
        for iteration in range(self.max_iter):
            if ascent.step():
                raised = [*raised, ascent.value][-WINDOW - 1 :]
            curve.append(ascent.value)
            here = partial(select_restart, ascent.params, 0)
            stop = on_step(Step(self.name, iteration + 1, ascent.value, 1, here))
            if ascent.length < MIN_STEP:
                outcome = Outcome.AT_ROUNDING
                break
            if len(raised) > WINDOW and raised[-1] - raised[0] < self.tol * problem.total_weight:
                outcome = Outcome.CONVERGED
                break
            if stop:
                outcome = Outcome.STOPPED
                break
        n_iter = np.array([len(curve) - 1])
        return Solution(ascent.params, np.array([ascent.value]), [np.array(curve)], n_iter, [outcome])


class _Ascent:
    """Where the ascent is, how long its next step is, and where it was."""

    def __init__(self, problem: Problem[DampedFamily], params: Params, memory: int):
        self.problem, self.family, self.params = problem, problem.family, params
        self.value, self.stats = self._sweep(params)
        self.length = INITIAL_STEP
        self.history = AndersonHistory(memory, 1)

    def step(self) -> bool:
        """The accelerated step, or the plain one; whether one of them was taken."""
        plain = self.family.damped_update(self.params, self.stats, self.length)
        trial = None if plain is None else self._extrapolated(plain)
        if trial is not None:
            value, stats = self._sweep(trial)
            if value >= self.value:
                self.params, self.value, self.stats = trial, value, stats
                return True
        self.history.forget_all_but_newest()
        if plain is not None:
            value, stats = self._sweep(plain)
            if value > self.value:
                self.params, self.value, self.stats = plain, value, stats
                self.length = min(1.0, STEP_GROWTH * self.length)
                return True
        self.length /= 2
        return False

    def _sweep(self, params: Params) -> tuple[float, Stats]:
        value, stats = self.problem.sweep(params)
        return float(to_numpy(value)[0]), stats

    def _extrapolated(self, plain: Params) -> Params | None:
        """Where the past steps and the plain one lead; None while there are none before it."""
        here = flatten_restarts(self.family.to_accelerated(self.params))
        image = self.family.to_accelerated(plain)
        self.history.add(here, (flatten_restarts(image) - here) / self.length)
        if len(self.history.points) == 1:
            return None
        metric = flatten_restarts(self.family.acceleration_metric(self.params))
        point = self.history.trial_points(self.length, metric)
        return self.family.from_accelerated(unflatten_restarts(point, image), plain)
