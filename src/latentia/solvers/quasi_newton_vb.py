"""Variational Bayes whose means take quasi-Newton steps, for families whose plain steps are slow.

Let x be the means of the posteriors and c the rest of the parameters (covariances, precisions). A
plain update moves the means by ``P g``, where g is the gradient of the bound in x and P the
covariances: as steep as the most that rows with hidden variables could say, which is far less than
what they do say once they are clearly on one side. L-BFGS with P in place of the identity learns
the difference (Jamshidian & Jennrich 1997, "Acceleration of the EM algorithm by using quasi-Newton
methods"). A round is one plain update of everything, and then `N_STEPS` such steps with c fixed,
so that a costly update of c is rare. The pairs of differences are kept over rounds. Each step must
raise the bound, or its restart stays where it is until the next round; so the bound never falls.
All restarts run as one batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from latentia.engine.contracts import Params, Problem, QuasiNewtonFamily, Sweep
from latentia.engine.tree import flatten_restarts, replace_restarts, select_restart, take_restarts, unflatten_restarts
from latentia.solvers.lbfgs_history import LBFGSHistory
from latentia.solvers.restarts import RestartHistory, best_step, to_float_array
from latentia.solvers.solution import Outcome, Solution, StepCallback, ignore_step

#: Steps of the means after each plain update.
N_STEPS = 9

#: Share of the gain that the gradient predicts, which a step must reach.
ARMIJO = 1e-4

#: Lengths of a step that are tried, and the factor between them.
MAX_TRIALS, CUT = 4, 3


@dataclass(frozen=True)
class QuasiNewtonVB:
    """Rounds of one update and nine steps of the means.

    A restart ends when a round gains less than `tol` per unit of sample weight.
    """

    max_iter: int = 1000
    tol: float = 1e-4
    memory: int = 12

    def solve(
        self, problem: Problem[QuasiNewtonFamily], params: Params, on_step: StepCallback = ignore_step
    ) -> Solution:
        """Raise the objective from each restart; `n_iter` counts updates and steps."""
        batch = _Means(problem, params, self.memory)
        record = RestartHistory(len(batch.values))
        record.add(batch.values)
        before = batch.values
        outcome = Outcome.MAX_ITER
        for iteration in range(self.max_iter):
            if iteration % (N_STEPS + 1) == 0:
                batch.update()
            else:
                batch.step()
            record.add(batch.values)
            if on_step(best_step("VB", iteration + 1, batch.values, partial(select_restart, batch.params))):
                outcome = Outcome.STOPPED
                break
            if (iteration + 1) % (N_STEPS + 1):
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
    """The restarts that run: where they are, and the pairs of differences that they have seen."""

    def __init__(self, problem: Problem[QuasiNewtonFamily], params: Params, memory: int):
        self.problem = problem
        self.family = problem.family
        self.history = LBFGSHistory(memory)
        self._move_to(params, problem.sweep(params))

    def _move_to(self, params: Params, sweep: Sweep) -> None:
        self.params, self.stats, self.values = params, sweep.stats, to_float_array(sweep.value)
        self.gradient = flatten_restarts(self.family.mean_gradient(params, sweep.stats))

    def update(self) -> None:
        """The plain update of everything."""
        params = self.family.update(self.params, self.stats)
        self._move_to(params, self.problem.sweep(params))

    def step(self) -> None:
        """A step of the means of each restart; none where it would not rise."""
        before, gradient = flatten_restarts(self.family.to_means(self.params)), self.gradient
        direction = self._direction()
        failed = self._search(before, direction, (direction * gradient).sum(axis=1))
        self.gradient = flatten_restarts(self.family.mean_gradient(self.params, self.stats))
        if failed.size:
            self.history.forget(failed)
        self.history.add(flatten_restarts(self.family.to_means(self.params)) - before, gradient - self.gradient)

    def _search(self, means: np.ndarray, direction: np.ndarray, predicted_gain: np.ndarray) -> np.ndarray:
        """Move each restart along its direction as far as it rises; return those that do not."""
        params, stats, values = self.params, self.stats, self.values.copy()
        length = np.ones(len(values))
        trying = np.arange(len(values))
        for _ in range(MAX_TRIALS):
            trial, sweep = self._try(trying, means[trying] + length[trying, None] * direction[trying])
            trial_values = to_float_array(sweep.value)
            enough = self.values[trying] + ARMIJO * length[trying] * predicted_gain[trying]
            good = np.isfinite(trial_values) & (trial_values >= enough)
            if good.all() and len(trying) == len(values):  # no copies of large parameters
                params, stats, values, trying = trial, sweep.stats, trial_values, trying[:0]
                break
            if good.any():
                taken, index = trying[good], np.flatnonzero(good).tolist()
                params = replace_restarts(params, taken, take_restarts(trial, index))
                stats = replace_restarts(stats, taken, take_restarts(sweep.stats, index))
                values[taken] = trial_values[good]
            trying = trying[~good]
            if not trying.size:
                break
            length[trying] /= CUT
        self.params, self.stats, self.values = params, stats, values
        return trying

    def _try(self, index: np.ndarray, means: np.ndarray) -> tuple[Params, Sweep]:
        """The restarts `index` at other means."""
        everything = len(index) == len(self.values)
        params = self.params if everything else take_restarts(self.params, index.tolist())
        params = self.family.from_means(unflatten_restarts(means, self.family.to_means(params)), params)
        return params, self.problem.sweep(params)

    def _direction(self) -> np.ndarray:
        """The plain step, bettered by what past steps show."""
        template = self.family.to_means(self.params)

        def precondition(q: np.ndarray) -> np.ndarray:
            return flatten_restarts(self.family.precondition(self.params, unflatten_restarts(q, template)))

        return self.history.times_inverse_hessian(self.gradient, precondition)

    def keep(self, index: np.ndarray) -> None:
        """Only these restarts."""
        self.params, self.stats = take_restarts(self.params, index.tolist()), take_restarts(self.stats, index.tolist())
        self.values, self.gradient = self.values[index], self.gradient[index]
        self.history.keep(index)
