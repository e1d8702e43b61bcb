"""Variational Bayes whose means take quasi-Newton steps, for families whose plain steps are slow.

Let x be the means of the posteriors and c the rest of the parameters (covariances, precisions). A plain update moves the means by ``P g``, where g is the slope of
the bound in x and P the covariances: as steep as the most that rows with hidden variables could say, which is far less than what they do say once they are clearly
on one side. L-BFGS with P in place of the identity learns the difference (Jamshidian & Jennrich 1997, "Acceleration of the EM algorithm by using
quasi-Newton methods"). A round is one plain update of everything, and then `STEPS` such steps with c fixed, so that a costly update of c is rare. The pairs of differences are kept
over rounds. Each step must raise the bound, or its start stays where it is until the next round; so the bound never falls. All starts run as one batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from latentia.engine.contracts import Params, Problem, QuasiNewtonFamily, Sweep
from latentia.engine.pytree import flatten_restarts, replace_restarts, select_restart, take_restarts, unflatten_restarts
from latentia.solvers.lbfgs_history import LBFGSHistory
from latentia.solvers.restarts import RestartHistory, to_float_array
from latentia.solvers.solution import Outcome, Solution, Step, StepCallback, ignore_step

#: Steps of the means after each plain update.
STEPS = 9


#: Share of the gain that the slope promises, which a step must reach.
ARMIJO = 1e-4


#: Times that a step is cut to a third.
CUTS = 4


@dataclass(frozen=True)
class QuasiNewtonVB:
    """Rounds of one update and nine steps of the means, until a round gains less than `tol` per unit of sample weight."""

    max_iter: int = 1000
    tol: float = 1e-4
    memory: int = 12

    def solve(
        self, problem: Problem[QuasiNewtonFamily], params: Params, on_step: StepCallback = ignore_step
    ) -> Solution:
        """Raise the objective from each start; `n_iter` counts updates and steps."""
        batch = _Means(problem, params, self.memory)
        record = RestartHistory(len(batch.values))
        record.add(batch.values)
        before = batch.values
        outcome = Outcome.MAX_ITER
        for iteration in range(self.max_iter):
            if iteration % (STEPS + 1) == 0:
                batch.update()
            else:
                batch.step()
            record.add(batch.values)
            best = partial(select_restart, batch.params, int(batch.values.argmax()))
            if on_step(Step("VB", iteration + 1, float(batch.values.max()), len(batch.values), best)):
                outcome = Outcome.STOPPED
                break
            if (iteration + 1) % (STEPS + 1):
                continue
            done = batch.values - before <= self.tol * problem.total_weight
            record.finish(np.flatnonzero(done), batch.params, Outcome.CONVERGED)
            if done.all():
                return record.solution()
            if done.any():
                batch.keep(np.flatnonzero(~done))
            before = batch.values
        record.finish(np.arange(len(batch.values)), batch.params, outcome)
        return record.solution()


class _Means:
    """The starts that run: where they are, and the pairs of differences that they have seen."""

    def __init__(self, problem: Problem[QuasiNewtonFamily], params: Params, memory: int):
        self.problem = problem
        self.family = problem.family
        self.past = LBFGSHistory(memory)
        self._at(params, problem.sweep(params))

    def _at(self, params: Params, sweep: Sweep) -> None:
        self.params, self.stats, self.values = params, sweep.stats, to_float_array(sweep.value)

    def update(self) -> None:
        """The plain update of everything."""
        params = self.family.update(self.params, self.stats)
        self._at(params, self.problem.sweep(params))
        self.slope = flatten_restarts(self.family.mean_gradient(params, self.stats))

    def step(self) -> None:
        """A step of the means of each start; none where it would not rise."""
        family = self.family
        here = flatten_restarts(family.to_means(self.params))
        direction = self._direction()
        promise = (direction * self.slope).sum(axis=1)
        old, values = self.values, self.values.copy()
        length = np.ones(len(values))
        open_ = np.arange(len(values))
        new, stats = self.params, self.stats
        for _ in range(CUTS):
            whole = len(open_) == len(values)
            some = self.params if whole else take_restarts(self.params, open_.tolist())
            trial = here[open_] + length[open_, None] * direction[open_]
            params = family.from_means(unflatten_restarts(trial, family.to_means(some)), some)
            sweep = self.problem.sweep(params)
            found = to_float_array(sweep.value)
            good = np.isfinite(found) & (found >= old[open_] + ARMIJO * length[open_] * promise[open_])
            if whole and good.all():
                new, stats, values = params, sweep.stats, found
                open_ = open_[:0]
                break
            if good.any():
                taken, which = open_[good], np.flatnonzero(good).tolist()
                new = replace_restarts(new, taken, take_restarts(params, which))
                stats = replace_restarts(stats, taken, take_restarts(sweep.stats, which))
                values[taken] = found[good]
            open_ = open_[~good]
            length[open_] /= 3
            if not open_.size:
                break
        slope = flatten_restarts(family.mean_gradient(new, stats))
        move = flatten_restarts(family.to_means(new)) - here
        change = self.slope - slope
        if open_.size:
            self.past.forget(open_)
        self.past.add(move, change)
        self.params, self.stats, self.values, self.slope = new, stats, values, slope

    def _direction(self) -> np.ndarray:
        """Past steps about the plain one."""
        template = self.family.to_means(self.params)

        def precondition(q: np.ndarray, rho: list[np.ndarray]) -> np.ndarray:
            return flatten_restarts(self.family.precondition(self.params, unflatten_restarts(q, template)))

        return self.past.times_inverse_hessian(self.slope, precondition)

    def keep(self, index: np.ndarray) -> None:
        """Only some starts."""
        self.params, self.stats = take_restarts(self.params, index.tolist()), take_restarts(self.stats, index.tolist())
        self.values, self.slope = self.values[index], self.slope[index]
        self.past.keep(index)
