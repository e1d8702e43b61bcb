"""L-BFGS from many starts at once: every evaluation is one batched sweep, every start has its own step and history.

For screening starts, where dozens of short ascents would otherwise spend their time outside the arithmetic. The two-loop recursion runs along the starts' axis; a step is halved
for the starts that gain too little, and a pair of differences with the wrong curvature is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from latentia.engine.contracts import Params, Problem, SmoothFamily
from latentia.engine.pytree import flatten_restarts, select_restart, take_restarts, unflatten_restarts
from latentia.solvers.lbfgs_history import LBFGSHistory
from latentia.solvers.restarts import RestartHistory, to_float_array
from latentia.solvers.solution import Outcome, Solution, Step, StepCallback, ignore_step

ARMIJO = 1e-4


HALVINGS = 25


SMALL_STEPS = 2  # in a row that end a start


@dataclass(frozen=True)
class BatchedLBFGS:
    """Maximize until a step gains less than `tol` / 100 of the value per row, as `LBFGS` does."""

    max_iter: int = 200
    tol: float = 1e-4
    memory: int = 8

    def solve(self, problem: Problem[SmoothFamily], params: Params, on_step: StepCallback = ignore_step) -> Solution:
        """Ascend from every start along the first axis of the parameters."""
        batch = _Ascent(problem, params, self.memory)
        record = RestartHistory(len(batch.loss))
        record.add(-batch.loss / batch.per_row)
        small = np.zeros(len(batch.loss), dtype=int)
        outcome = Outcome.MAX_ITER
        for iteration in range(self.max_iter):
            before = batch.loss
            batch.step()
            record.add(-batch.loss / batch.per_row)
            gain = before - batch.loss
            small = np.where(gain <= self.tol * 1e-2 * np.maximum(np.abs(batch.loss), 1.0), small + 1, 0)
            best = partial(batch.params_of, int(batch.loss.argmin()))
            value = float(-batch.loss.min() / batch.per_row)
            stop = on_step(Step("L-BFGS", iteration + 1, value, len(batch.loss), best))
            done = small >= SMALL_STEPS
            if done.any():
                record.finish(np.flatnonzero(done), batch.params(), Outcome.CONVERGED)
                batch.keep(np.flatnonzero(~done))
                small = small[~done]
            if stop:
                outcome = Outcome.STOPPED
            if stop or done.all():
                break
        if len(batch.loss):
            record.finish(np.arange(len(batch.loss)), batch.params(), outcome)
        return record.solution()


class _Ascent:
    """Points, slopes and histories of the starts that run."""

    def __init__(self, problem: Problem[SmoothFamily], params: Params, memory: int):
        self.family = problem.family
        self.problem, self.template = problem, params
        self.per_row = 1.0 / problem.total_weight
        self.points = flatten_restarts(self.family.to_free(params))
        self.loss, self.slope = self._evaluate(self.points, np.arange(len(self.points)))
        self.past = LBFGSHistory(memory)

    def params(self) -> Params:
        family = self.family
        return family.from_free(unflatten_restarts(self.points, family.to_free(self.template)), self.template)

    def params_of(self, start: int) -> Params:
        return select_restart(self.params(), start)

    def _evaluate(self, points: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Loss per row and its slope at points of some starts; infinite where the numbers end."""
        family = self.family
        template = take_restarts(self.template, index.tolist())
        params = family.from_free(unflatten_restarts(points, family.to_free(template)), template)
        value, stats = self.problem.sweep(params)
        loss = -to_float_array(value) * self.per_row
        slope = -flatten_restarts(family.gradient(params, stats)) * self.per_row
        finite = np.isfinite(loss) & np.isfinite(slope).all(axis=1)
        return np.where(finite, loss, np.inf), np.where(finite[:, None], slope, 0.0)

    def step(self) -> None:
        """One step of each start, as long as it lowers the loss enough."""
        direction = self._direction()
        descent = (direction * self.slope).sum(axis=1)
        length = np.ones(len(self.loss))
        if not self.past.moves:
            length = 1.0 / np.maximum(1.0, np.linalg.norm(direction, axis=1))
        points, loss, slope = self.points.copy(), self.loss.copy(), self.slope.copy()
        open_ = np.arange(len(loss))
        for _ in range(HALVINGS):
            trial = self.points[open_] + length[open_, None] * direction[open_]
            new_loss, new_slope = self._evaluate(trial, open_)
            good = new_loss <= self.loss[open_] + ARMIJO * length[open_] * descent[open_]
            taken = open_[good]
            points[taken], loss[taken], slope[taken] = trial[good], new_loss[good], new_slope[good]
            open_ = open_[~good]
            if not open_.size:
                break
            length[open_] *= 0.3
        self.past.add(points - self.points, slope - self.slope)
        self.points, self.loss, self.slope = points, loss, slope

    def _direction(self) -> np.ndarray:
        q = self.past.times_inverse_hessian(self.slope, self.past.newest_scale)
        uphill = (q * self.slope).sum(axis=1) <= 0
        return -np.where(uphill[:, None], self.slope, q)

    def keep(self, index: np.ndarray) -> None:
        """Only some starts."""
        self.points, self.loss, self.slope = self.points[index], self.loss[index], self.slope[index]
        self.past.keep(index)
        if index.size:
            self.template = take_restarts(self.template, index.tolist())
