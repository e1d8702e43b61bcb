"""EM and variational Bayes with Anderson acceleration, for families whose plain steps are slow.

Let F be one EM step in the family's accelerated coordinates and ``r(x) = F(x) - x``. From the last
few iterates the combination of their residuals that is shortest is found, and the same combination
of their images F(x) is the next trial point (Henderson & Varadhan 2019, "Damped Anderson
acceleration with restarts and monotonicity control"). A trial that lowers the objective is replaced
by the plain step, and that restart forgets its past; so the objective never falls. All restarts run
as one batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from latentia.engine.contracts import AcceleratedFamily, Params, Problem
from latentia.engine.tree import flatten_restarts, replace_restarts, select_restart, take_restarts, unflatten_restarts
from latentia.solvers.anderson import AndersonHistory
from latentia.solvers.em import rising_sweep, rounding_unit, warn_if_decreased
from latentia.solvers.restarts import RestartHistory, to_float_array
from latentia.solvers.solution import Outcome, Solution, Step, StepCallback, ignore_step

#: A restart ends when so many steps together gain less than `tol`: a few may be poor.
WINDOW = 6


@dataclass(frozen=True)
class AcceleratedEM:
    """EM until each restart gains less than `tol` per unit of sample weight in six steps together.

    Parameters that are left out of the family's accelerated coordinates follow the plain step.
    """

    max_iter: int = 600
    tol: float = 1e-5
    memory: int = 6

    def solve(
        self, problem: Problem[AcceleratedFamily], params: Params, on_step: StepCallback = ignore_step
    ) -> Solution:
        """Raise the objective from each restart; `n_iter` counts the steps."""
        batch = _Batch(problem, params, self.memory)
        record = RestartHistory(len(batch.values))
        record.add(batch.values)
        unit = rounding_unit(params)
        recent = [batch.values]  # values of the last steps
        outcome = Outcome.MAX_ITER
        for iteration in range(self.max_iter):
            before = batch.values
            batch.step()
            warn_if_decreased(batch.values - before, batch.values, unit)
            record.add(batch.values)
            recent = [*recent, batch.values][-WINDOW - 1 :]
            best = partial(select_restart, batch.params, int(batch.values.argmax()))
            stop = on_step(Step("EM", iteration + 1, float(batch.values.max()), len(batch.values), best))
            done = (len(recent) > WINDOW) & (recent[-1] - recent[0] <= self.tol * problem.total_weight)
            record.finish(np.flatnonzero(done), batch.params, Outcome.CONVERGED)
            if stop:
                outcome = Outcome.STOPPED
                break
            if done.any():
                recent = [values[~done] for values in recent]
                batch.keep(np.flatnonzero(~done))
            if done.all():
                break
        if len(batch.values):
            record.finish(np.arange(len(batch.values)), batch.params, outcome)
        return record.solution()


class _Batch:
    """The restarts that have not converged: where they are and where they were."""

    def __init__(self, problem: Problem[AcceleratedFamily], params: Params, memory: int):
        sweep = problem.sweep(params)
        self.problem, self.family = problem, problem.family
        self.params, self.stats = params, sweep.stats
        self.values = to_float_array(sweep.value)
        self.history = AndersonHistory(memory, len(self.values))

    def step(self) -> None:
        """One trial, and the plain step for the restarts it does not lift."""
        plain = self.family.update(self.params, self.stats)
        trial = self._extrapolated(plain)
        sweep = self.problem.sweep(trial)
        values = to_float_array(sweep.value)
        good = np.isfinite(values) & (values >= self.values)
        if good.all():
            self.params, self.stats, self.values = trial, sweep.stats, values
            return
        self.history.forget(~good)
        if not good.any():  # nothing to put together, and no copies of large parameters
            fallback = rising_sweep(self.problem, plain, self.values)
            self.params, self.stats, self.values = plain, fallback.stats, to_float_array(fallback.value)
            return
        bad = np.flatnonzero(~good)
        plain = take_restarts(plain, bad.tolist())
        fallback = rising_sweep(self.problem.take_restarts(bad), plain, self.values[bad])
        values[bad] = to_float_array(fallback.value)
        self.params = replace_restarts(trial, bad, plain)
        self.stats = replace_restarts(sweep.stats, bad, fallback.stats)
        self.values = values

    def _extrapolated(self, plain: Params) -> Params:
        """Where the past steps and the plain one lead."""
        here = flatten_restarts(self.family.to_accelerated(self.params))
        image = self.family.to_accelerated(plain)
        self.history.add(here, flatten_restarts(image) - here)
        return self.family.from_accelerated(unflatten_restarts(self.history.trial_points(), image), plain)

    def keep(self, index: np.ndarray) -> None:
        """Drop all restarts but some."""
        if not index.size:
            self.values = self.values[:0]
            return
        self.params, self.stats = take_restarts(self.params, index.tolist()), take_restarts(self.stats, index.tolist())
        self.values = self.values[index]
        self.problem = self.problem.take_restarts(index)
        self.history.keep(index)
