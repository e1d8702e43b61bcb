"""Quasi-Newton ascent in unconstrained coordinates by L-BFGS.

`LBFGS` is SciPy's, from one start, with optional early stopping: `HeldOut` keeps the parameters
that predict rows best that are held out. `BatchedLBFGS` runs many starts at once, each evaluation
one batched sweep, to screen restarts: dozens of short ascents would otherwise spend their time
outside the arithmetic. Every restart has its own step length and history there: a step is cut for
the restarts that gain too little, and a pair of differences with the wrong curvature is left out.
`LBFGSHistory` is the two-loop recursion for all of them, along the axis of the restarts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from latentia.arrays.namespace import to_numpy
from latentia.engine.contracts import Params, Posterior, SmoothFamily, Stats
from latentia.engine.sweep import RowProblem
from latentia.engine.tree import (
    add_restart_axis,
    flatten,
    flatten_restarts,
    select_restart,
    take_restarts,
    unflatten,
    unflatten_restarts,
)
from latentia.solvers.em import (
    Outcome,
    RestartHistory,
    Solution,
    Step,
    StepCallback,
    best_step,
    ignore_step,
    rounding_unit,
    to_float_array,
)

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

    def solve(
        self,
        problem: RowProblem[SmoothFamily[Params, Stats, Posterior]],
        params: Params,
        on_step: StepCallback = ignore_step,
    ) -> Solution[Params]:
        """Ascend from a single start."""
        held_out = HeldOut[Params](self.validate, self.patience)
        ascent = _Ascent(problem, select_restart(params, 0), held_out, on_step)
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


class _Ascent(Generic[Params, Stats, Posterior]):
    """What SciPy asks for, and what it has seen."""

    def __init__(
        self,
        problem: RowProblem[SmoothFamily[Params, Stats, Posterior]],
        params: Params,
        held_out: HeldOut[Params],
        on_step: StepCallback,
    ):
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
        here = partial(self.params_at, point)
        self.stopped = self.on_step(Step("L-BFGS", len(self.curve) - 1, self.curve[-1], 1, here))
        if self.held_out.should_stop(here) or self.stopped:
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


class HeldOut(Generic[Params]):
    """Keeps the parameters with the least loss on held-out rows."""

    def __init__(self, validate: Callable[[Params], float] | None, patience: int):
        self.validate = validate
        self.patience = patience
        self.best: Params | None = None
        self.best_step = 0
        self.min_loss = np.inf
        self.n_seen = 0
        self.stopped = False

    def should_stop(self, params: Callable[[], Params]) -> bool:
        if self.validate is None:
            return False
        here = params()
        loss = self.validate(here)
        if loss < self.min_loss:
            self.best, self.best_step, self.min_loss = here, self.n_seen, loss
        self.stopped = self.n_seen - self.best_step >= self.patience
        self.n_seen += 1
        return self.stopped


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

    def solve(
        self,
        problem: RowProblem[SmoothFamily[Params, Stats, Posterior]],
        params: Params,
        on_step: StepCallback = ignore_step,
    ) -> Solution[Params]:
        """Ascend from every restart along the first axis of the parameters."""
        batch = _BatchedAscent(problem, params, self.memory)
        record = RestartHistory[Params](len(batch.loss))
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


class _BatchedAscent(Generic[Params, Stats, Posterior]):
    """Points, gradients and histories of the restarts that run."""

    def __init__(self, problem: RowProblem[SmoothFamily[Params, Stats, Posterior]], params: Params, memory: int):
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


#: vectors -> vectors times a rough inverse Hessian
InverseHessian = Callable[[np.ndarray], np.ndarray]

#: Steps whose curvature is below this share of the product of lengths count nothing.
MIN_CURVATURE = 1e-10


class LBFGSHistory:
    """The last steps of each restart and the gradients' differences, (n_restarts, n_free) each."""

    def __init__(self, memory: int):
        self.memory = memory
        self.steps: list[np.ndarray] = []
        self.gradient_diffs: list[np.ndarray] = []
        self.inverse_curvatures: list[np.ndarray] = []  # (n_restarts,) each, zero if not positive

    def add(self, step: np.ndarray, gradient_diff: np.ndarray) -> None:
        """Remember a step; the oldest is forgotten."""
        self.steps = [*self.steps, step][-self.memory :]
        self.gradient_diffs = [*self.gradient_diffs, gradient_diff][-self.memory :]
        rho = _inverse_curvature(step, gradient_diff)
        self.inverse_curvatures = [*self.inverse_curvatures, rho][-self.memory :]

    def forget(self, index: np.ndarray) -> None:
        """What these restarts have learned misleads them."""
        for values in (*self.steps, *self.gradient_diffs, *self.inverse_curvatures):
            values[index] = 0.0

    def keep(self, index: np.ndarray) -> None:
        """Only these restarts."""
        self.steps = [vectors[index] for vectors in self.steps]
        self.gradient_diffs = [vectors[index] for vectors in self.gradient_diffs]
        self.inverse_curvatures = [rho[index] for rho in self.inverse_curvatures]

    def times_inverse_hessian(self, gradient: np.ndarray, initial: InverseHessian) -> np.ndarray:
        """Gradients times the inverse Hessian that the past steps show, about an initial one.

        Pairs without positive curvature count nothing.
        """
        q = gradient.copy()
        rho = self.inverse_curvatures
        alpha = [np.zeros(len(q))] * len(rho)
        for k in reversed(range(len(rho))):
            alpha[k] = rho[k] * (self.steps[k] * q).sum(axis=1)
            q -= alpha[k][:, None] * self.gradient_diffs[k]
        q = initial(q)
        for k in range(len(rho)):
            beta = rho[k] * (self.gradient_diffs[k] * q).sum(axis=1)
            q += (alpha[k] - beta)[:, None] * self.steps[k]
        return q

    def initial_inverse_hessian(self, q: np.ndarray) -> np.ndarray:
        """The usual rough one: a number for each restart, by its newest usable step."""
        scale, without = np.ones(len(q)), np.ones(len(q), dtype=bool)
        for gradient_diff, inverse in zip(self.gradient_diffs[::-1], self.inverse_curvatures[::-1], strict=True):
            square = (gradient_diff**2).sum(axis=1)
            usable = (inverse > 0) & (square > 0) & without
            scale = np.where(usable, 1 / np.where(usable, inverse * square, 1.0), scale)
            without &= ~usable
            if not without.any():
                break
        return q * scale[:, None]


def _inverse_curvature(step: np.ndarray, gradient_diff: np.ndarray) -> np.ndarray:
    curvature = (step * gradient_diff).sum(axis=1)
    usable = curvature > MIN_CURVATURE * np.linalg.norm(step, axis=1) * np.linalg.norm(gradient_diff, axis=1)
    return np.where(usable, 1 / np.where(usable, curvature, 1.0), 0.0)
