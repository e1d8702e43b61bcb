"""Two ascents for variational Bayes whose plain steps are slow, or overshoot.

`DampedAscent`, for fixed-point steps that may overshoot: a step goes a fraction of the way from the
parameters to where their statistics point. Its direction is accelerated by Anderson's method (see
`em`), residuals in the family's own units. A trial that lowers the objective is replaced by the
plain step, and the past is forgotten; a plain step that does not raise the objective is halved, one
that does grows again.

`QuasiNewtonVB`, for means that plain updates move too little. Let x be the means of the posteriors
and c the rest of the parameters (covariances, precisions). A plain update moves the means by
``P g``, where g is the gradient of the bound in x and P the covariances: as steep as the most that
rows with hidden variables could say, which is far less than what they do say once they are clearly
on one side. L-BFGS with P in place of the identity learns the difference (Jamshidian & Jennrich
1997, "Acceleration of the EM algorithm by using quasi-Newton methods"). A round is one plain update
of everything, and then `N_STEPS` such steps with c fixed, so that a costly update of c is rare. The
pairs of differences are kept over rounds. Each step must raise the bound, or its restart stays
where it is until the next round; so the bound never falls. All restarts run as one batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Generic

import numpy as np

from latentia.arrays.namespace import to_numpy
from latentia.engine.contracts import DampedFamily, Params, Posterior, QuasiNewtonFamily, Stats, Sweep
from latentia.engine.sweep import RowProblem
from latentia.engine.tree import flatten_restarts, replace_restarts, select_restart, take_restarts, unflatten_restarts
from latentia.solvers.em import (
    AndersonHistory,
    Outcome,
    RestartHistory,
    Solution,
    Step,
    StepCallback,
    best_step,
    ignore_step,
    to_float_array,
)
from latentia.solvers.lbfgs import LBFGSHistory

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

    def solve(
        self,
        problem: RowProblem[DampedFamily[Params, Stats, Posterior]],
        params: Params,
        on_step: StepCallback = ignore_step,
    ) -> Solution[Params]:
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


class _Ascent(Generic[Params, Stats, Posterior]):
    """Where the ascent is, how long its next step is, and where it was."""

    def __init__(self, problem: RowProblem[DampedFamily[Params, Stats, Posterior]], params: Params, memory: int):
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
        here, image = self.family.to_accelerated(self.params), self.family.to_accelerated(plain)
        trial = self.history.extrapolate(here, image, self.length, self.family.acceleration_metric(self.params))
        return None if len(self.history.points) == 1 else self.family.from_accelerated(trial, plain)


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
        self,
        problem: RowProblem[QuasiNewtonFamily[Params, Stats, Posterior]],
        params: Params,
        on_step: StepCallback = ignore_step,
    ) -> Solution[Params]:
        """Raise the objective from each restart; `n_iter` counts updates and steps."""
        batch = _Means(problem, params, self.memory)
        record = RestartHistory[Params](len(batch.values))
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


class _Means(Generic[Params, Stats, Posterior]):
    """The restarts that run: where they are, and the pairs of differences that they have seen."""

    def __init__(self, problem: RowProblem[QuasiNewtonFamily[Params, Stats, Posterior]], params: Params, memory: int):
        self.problem = problem
        self.family = problem.family
        self.history = LBFGSHistory(memory)
        self._move_to(params, problem.sweep(params))

    def _move_to(self, params: Params, sweep: Sweep[Stats]) -> None:
        self.params, self.stats, self.values = params, sweep.stats, to_float_array(sweep.value)
        self.gradient = flatten_restarts(self.family.gradient(params, sweep.stats))

    def update(self) -> None:
        """The plain update of everything."""
        params = self.family.update(self.params, self.stats)
        self._move_to(params, self.problem.sweep(params))

    def step(self) -> None:
        """A step of the means of each restart; none where it would not rise."""
        before, gradient = flatten_restarts(self.family.to_free(self.params)), self.gradient
        direction = self._direction()
        failed = self._search(before, direction, (direction * gradient).sum(axis=1))
        self.gradient = flatten_restarts(self.family.gradient(self.params, self.stats))
        if failed.size:
            self.history.forget(failed)
        self.history.add(flatten_restarts(self.family.to_free(self.params)) - before, gradient - self.gradient)

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

    def _try(self, index: np.ndarray, means: np.ndarray) -> tuple[Params, Sweep[Stats]]:
        """The restarts `index` at other means."""
        everything = len(index) == len(self.values)
        params = self.params if everything else take_restarts(self.params, index.tolist())
        problem = self.problem if everything else self.problem.take_restarts(index)
        params = self.family.from_free(unflatten_restarts(means, self.family.to_free(params)), params)
        return params, problem.sweep(params)

    def _direction(self) -> np.ndarray:
        """The plain step, bettered by what past steps show."""
        template = self.family.to_free(self.params)

        def precondition(q: np.ndarray) -> np.ndarray:
            return flatten_restarts(self.family.precondition(self.params, unflatten_restarts(q, template)))

        return self.history.times_inverse_hessian(self.gradient, precondition)

    def keep(self, index: np.ndarray) -> None:
        """Only these restarts."""
        self.params, self.stats = take_restarts(self.params, index.tolist()), take_restarts(self.stats, index.tolist())
        self.values, self.gradient = self.values[index], self.gradient[index]
        self.problem = self.problem.take_restarts(index)
        self.history.keep(index)
