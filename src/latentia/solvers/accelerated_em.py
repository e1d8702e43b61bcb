"""EM and variational Bayes with Anderson acceleration, for families whose plain steps are slow.

Let F be one EM step in the family's free coordinates and ``r(x) = F(x) - x``. From the last few iterates the combination of their residuals that is shortest is found,
and the same combination of their images F(x) is the next trial point (Henderson & Varadhan 2019, "Damped Anderson acceleration with restarts and monotonicity control").
A trial that lowers the objective is replaced by the plain step, and that start forgets its past; so the objective never falls. All starts run as one batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from latentia.engine.contracts import AcceleratedFamily, Params, Problem, Sweep
from latentia.engine.pytree import flatten_restarts, replace_restarts, select_restart, take_restarts, unflatten_restarts
from latentia.solvers.anderson import mixed
from latentia.solvers.em import rounding_unit, warn_if_decreased
from latentia.solvers.restarts import RestartHistory, to_float_array
from latentia.solvers.solution import Outcome, Solution, Step, StepCallback, ignore_step

#: A start ends when this many steps together gain less than `tol`: a few poor trials are no sign of convergence.
WINDOW = 6


@dataclass(frozen=True)
class AcceleratedEM:
    """EM until each start gains less than `tol` per unit of sample weight in six steps together.

    Parameters that are left out of the family's accelerated coordinates follow the plain step.
    """

    max_iter: int = 600
    tol: float = 1e-5
    memory: int = 6

    def solve(
        self, problem: Problem[AcceleratedFamily], params: Params, on_step: StepCallback = ignore_step
    ) -> Solution:
        """Raise the objective from each start; `n_iter` counts the steps."""
        family = problem.family
        running = _Running(params, problem.sweep(params), self.memory)
        record = RestartHistory(len(running.values))
        record.add(running.values)
        unit = rounding_unit(params)
        recent = [running.values]  # values of the last steps
        outcome = Outcome.MAX_ITER
        for iteration in range(self.max_iter):
            plain = family.update(running.params, running.stats)
            before = running.values
            running.step(problem, plain)
            warn_if_decreased(running.values - before, running.values, unit)
            record.add(running.values)
            recent = [*recent, running.values][-WINDOW - 1 :]
            best = partial(select_restart, running.params, int(running.values.argmax()))
            stop = on_step(Step("EM", iteration + 1, float(running.values.max()), len(running.values), best))
            done = (len(recent) > WINDOW) & (recent[-1] - recent[0] <= self.tol * problem.total_weight)
            record.finish(np.flatnonzero(done), running.params, Outcome.CONVERGED)
            if stop:
                outcome = Outcome.STOPPED
                break
            if done.any():
                recent = [values[~done] for values in recent]
                running.keep(np.flatnonzero(~done))
            if done.all():
                break
        if len(running.values):
            record.finish(np.arange(len(running.values)), running.params, outcome)
        return record.solution()


class _Running:
    """The starts that have not converged, where they are and where they were."""

    def __init__(self, params: Params, sweep: Sweep, memory: int):
        self.params, self.stats = params, sweep.stats
        self.values = to_float_array(sweep.value)
        self.memory = memory
        self.points: list[np.ndarray] = []
        self.residuals: list[np.ndarray] = []
        self.age = np.zeros(len(self.values), dtype=int)  # how much of the past each start may use

    def step(self, problem: Problem[AcceleratedFamily], plain: Params) -> None:
        """One trial, and the plain step for the starts it does not lift."""
        family = problem.family
        here = flatten_restarts(family.to_accelerated(self.params))
        self.points = [*self.points, here][-self.memory - 1 :]
        self.residuals = [*self.residuals, flatten_restarts(family.to_accelerated(plain)) - here][-self.memory - 1 :]
        trial = family.from_accelerated(
            unflatten_restarts(mixed(self.points, self.residuals, self.age), family.to_accelerated(plain)), plain
        )
        sweep = problem.sweep(trial)
        values = to_float_array(sweep.value)
        good = np.isfinite(values) & (values >= self.values)
        self.age = np.minimum(self.age + 1, self.memory)
        if good.all():
            self.params, self.stats, self.values = trial, sweep.stats, values
            return
        if not good.any():  # nothing to put together, and no copies of large parameters
            fallback = problem.sweep(plain)
            self.params, self.stats, self.values = plain, fallback.stats, to_float_array(fallback.value)
            self.age[:] = 0
            return
        bad = np.flatnonzero(~good)
        instead = take_restarts(plain, bad.tolist())
        fallback = problem.sweep(instead)
        values[bad] = to_float_array(fallback.value)
        self.params = replace_restarts(trial, bad, instead)
        self.stats = replace_restarts(sweep.stats, bad, fallback.stats)
        self.values = values
        self.age[bad] = 0

    def keep(self, index: np.ndarray) -> None:
        """Only some starts."""
        if not index.size:
            self.values = self.values[:0]
            return
        self.params, self.stats = take_restarts(self.params, index.tolist()), take_restarts(self.stats, index.tolist())
        self.values, self.age = self.values[index], self.age[index]
        self.points = [a[index] for a in self.points]
        self.residuals = [a[index] for a in self.residuals]
