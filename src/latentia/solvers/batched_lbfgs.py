"""L-BFGS from many restarts at once: each evaluation is one batched sweep.

For screening restarts, where dozens of short ascents would otherwise spend their time outside the
arithmetic. Every restart has its own step length and history: a step is cut for the restarts that
gain too little, and a pair of differences with the wrong curvature is left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latentia.engine.contracts import Params, Problem, SmoothFamily
from latentia.engine.tree import flatten_restarts, select_restart, take_restarts, unflatten_restarts
from latentia.solvers.lbfgs_history import LBFGSHistory
from latentia.solvers.restarts import RestartHistory, best_step, to_float_array
from latentia.solvers.solution import Outcome, Solution, StepCallback, ignore_step

#: Share of the decrease that the gradient predicts, which a step must reach.
ARMIJO = 1e-4

#: Cuts of a step at most, and by which factor.
MAX_CUTS, CUT = 25, 0.3

#: Small steps in a row that end a restart.
N_SMALL_STEPS = 2


@dataclass(frozen=True)
class BatchedLBFGS:
    """Maximize until a step gains less than `tol` / 100 of the value per row twice in a row."""

    max_iter: int = 200
    tol: float = 1e-4
    memory: int = 8

    def solve(self, problem: Problem[SmoothFamily], params: Params, on_step: StepCallback = ignore_step) -> Solution:
        """Ascend from every restart along the first axis of the parameters."""
        batch = _Ascent(problem, params, self.memory)
        record = RestartHistory(len(batch.loss))
        record.add(batch.values)
        n_small = np.zeros(len(batch.loss), dtype=int)
        outcome = Outcome.MAX_ITER
        for iteration in range(self.max_iter):
            before = batch.loss
            batch.step()
            record.add(batch.values)
            gain = before - batch.loss
            n_small = np.where(gain <= self.tol * 1e-2 * np.maximum(np.abs(batch.loss), 1.0), n_small + 1, 0)
            stop = on_step(best_step("L-BFGS", iteration + 1, batch.values, batch.params_of))
            done = n_small >= N_SMALL_STEPS
            if done.any():
                record.finish(np.flatnonzero(done), batch.params(), Outcome.CONVERGED)
                batch.keep(np.flatnonzero(~done))
                n_small = n_small[~done]
            if stop:
                outcome = Outcome.STOPPED
            if stop or done.all():
                break
        if len(batch.loss):
            record.finish(np.arange(len(batch.loss)), batch.params(), outcome)
        return record.solution()


class _Ascent:
    """Points, gradients and histories of the restarts that run."""

    def __init__(self, problem: Problem[SmoothFamily], params: Params, memory: int):
        self.family = problem.family
        self.problem, self.template = problem, params
        self.per_row = 1.0 / problem.total_weight
        self.points = flatten_restarts(self.family.to_free(params))
        self.loss, self.gradient = self._evaluate(self.points, np.arange(len(self.points)))
        self.history = LBFGSHistory(memory)

    @property
    def values(self) -> np.ndarray:
        """The objective of each restart."""
        return -self.loss / self.per_row

    def params(self) -> Params:
        """The parameters of all restarts."""
        family = self.family
        return family.from_free(unflatten_restarts(self.points, family.to_free(self.template)), self.template)

    def params_of(self, restart: int) -> Params:
        """The parameters of one restart."""
        return select_restart(self.params(), restart)

    def _evaluate(self, points: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Loss per row and its gradient at points of the restarts `index`; infinity for NaN."""
        family = self.family
        template = take_restarts(self.template, index.tolist())
        params = family.from_free(unflatten_restarts(points, family.to_free(template)), template)
        value, stats = self.problem.sweep(params)
        loss = -to_float_array(value) * self.per_row
        gradient = -flatten_restarts(family.gradient(params, stats)) * self.per_row
        finite = np.isfinite(loss) & np.isfinite(gradient).all(axis=1)
        return np.where(finite, loss, np.inf), np.where(finite[:, None], gradient, 0.0)

    def step(self) -> None:
        """One step of each restart, as long as it lowers the loss enough."""
        direction = self._direction()
        descent = (direction * self.gradient).sum(axis=1)
        length = np.ones(len(self.loss))
        if not self.history.steps:
            length = 1.0 / np.maximum(1.0, np.linalg.norm(direction, axis=1))
        points, loss, gradient = self.points.copy(), self.loss.copy(), self.gradient.copy()
        trying = np.arange(len(loss))
        for _ in range(MAX_CUTS):
            trial = self.points[trying] + length[trying, None] * direction[trying]
            new_loss, new_gradient = self._evaluate(trial, trying)
            good = new_loss <= self.loss[trying] + ARMIJO * length[trying] * descent[trying]
            taken = trying[good]
            points[taken], loss[taken], gradient[taken] = trial[good], new_loss[good], new_gradient[good]
            trying = trying[~good]
            if not trying.size:
                break
            length[trying] *= CUT
        self.history.add(points - self.points, gradient - self.gradient)
        self.points, self.loss, self.gradient = points, loss, gradient

    def _direction(self) -> np.ndarray:
        q = self.history.times_inverse_hessian(self.gradient, self.history.initial_inverse_hessian)
        uphill = (q * self.gradient).sum(axis=1) <= 0
        return -np.where(uphill[:, None], self.gradient, q)

    def keep(self, index: np.ndarray) -> None:
        """Only these restarts."""
        self.points, self.loss, self.gradient = self.points[index], self.loss[index], self.gradient[index]
        self.history.keep(index)
        if index.size:
            self.template = take_restarts(self.template, index.tolist())
