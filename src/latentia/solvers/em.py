"""EM and variational Bayes, plain and with Anderson acceleration, and what every solver reports.

All restarts run as one batched sweep along the first axis of the parameters; those that have
converged drop out of the batch, and `RestartHistory` keeps how each of them went.

Acceleration is for families whose plain steps are slow. Let F be one step in the family's
accelerated coordinates and ``r(x) = F(x) - x``. From the last few points ``x_1, ..., x_m`` with
their images, the weights w of least ``|sum_k w_k r(x_k)|, sum_k w_k = 1``, give the next trial
``sum_k w_k F(x_k)`` (Henderson & Varadhan 2019, "Damped Anderson acceleration with restarts and
monotonicity control"). A trial that lowers the objective is replaced by the plain step, and that
restart forgets its past; so the objective never falls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from latentia.arrays.namespace import Array, namespace, to_numpy
from latentia.engine.contracts import AcceleratedFamily, EMFamily, Params, Posterior, Stats, Sweep
from latentia.engine.messages import warn_at_caller
from latentia.engine.sweep import GivenRows, RowProblem
from latentia.engine.tree import (
    Tree,
    flatten_restarts,
    leaves,
    replace_restarts,
    select_restart,
    stack_restarts,
    take_restarts,
    unflatten_restarts,
)


class Outcome(Enum):
    """Why a solver ended; the value is the sentence that users read."""

    CONVERGED = "converged: the gain fell below tol"
    AT_ROUNDING = "converged: the gain fell below rounding"
    VALIDATED = "converged: the loss on held-out rows stopped falling"
    MAX_ITER = "max_iter reached"
    STOPPED = "stopped by the callback"
    NO_ASCENT = "no step raised the objective"

    @property
    def converged(self) -> bool:
        """Whether the solver ended by its own rule."""
        return self in (Outcome.CONVERGED, Outcome.AT_ROUNDING, Outcome.VALIDATED)


class Step(NamedTuple):
    """One step of a solver, as callbacks see it."""

    solver: str
    iteration: int
    value: float  # best value among the restarts still running
    n_running: int  # restarts that have not converged
    params: Callable[[], Tree]  # of the best restart still running, made when asked for


#: Called after each step; return True to stop the solver.
StepCallback = Callable[[Step], bool]


class Solution(NamedTuple, Generic[Params]):
    """Where a solver ended, per restart."""

    params: Params  # one set per restart along the first axis
    value: np.ndarray  # (n_restarts,)
    curves: list[np.ndarray]  # value after each sweep, per restart
    n_iter: np.ndarray  # (n_restarts,)
    outcomes: list[Outcome]

    @property
    def converged(self) -> np.ndarray:
        """Which restarts ended by the solver's own rule."""
        return np.array([outcome.converged for outcome in self.outcomes])

    def select_restart(self, k: int) -> Solution[Params]:
        """One restart of several."""
        return self.take_restarts([k])

    def take_restarts(self, index: list[int]) -> Solution[Params]:
        """Some of the restarts."""
        return Solution(
            take_restarts(self.params, index),
            self.value[index],
            [self.curves[k] for k in index],
            self.n_iter[index],
            [self.outcomes[k] for k in index],
        )


def ignore_step(step: Step) -> bool:
    """The callback that does nothing."""
    return False


T = TypeVar("T", bound=Tree)
F_contra = TypeVar("F_contra", bound=GivenRows, contravariant=True)


class Solver(Protocol[F_contra]):
    """Raises the objective of a problem from every restart, along the parameters' first axis."""

    def solve(
        self, problem: RowProblem[F_contra], params: Params, on_step: StepCallback = ignore_step
    ) -> Solution[Params]: ...


#: A decrease by more than this share of the value and so many rounding units is no rounding error.
MAX_RELATIVE_DECREASE = 1e-6

MAX_DECREASE_UNITS = 1000

#: Inference that iterates has settled when a further look raises the objective by less than this
#: share of it.
MIN_RELATIVE_RISE = 1e-7


@dataclass(frozen=True)
class EM:
    """Sweep and update until no restart gains more than `tol` per unit of sample weight."""

    max_iter: int = 200
    tol: float = 1e-4

    def solve(
        self,
        problem: RowProblem[EMFamily[Params, Stats, Posterior]],
        params: Params,
        on_step: StepCallback = ignore_step,
    ) -> Solution[Params]:
        """Raise the objective from each restart; `n_iter` counts the updates."""
        record = RestartHistory[Params](next(leaves(params)).shape[0])
        before = np.full(record.index.size, -np.inf)
        stopped = False
        unit = rounding_unit(params)
        for iteration in range(self.max_iter + 1):
            sweep = rising_sweep(problem, params, before)
            values = to_float_array(sweep.value)
            record.add(values)
            gain = values - before
            warn_if_decreased(gain, values, unit)
            done = gain <= self.tol * problem.total_weight
            stats = sweep.stats
            if done.any():
                record.finish(np.flatnonzero(done), params, Outcome.CONVERGED)
                keep = np.flatnonzero(~done)
                if not keep.size:
                    break
                values = values[keep]
                params, stats = take_restarts(params, keep.tolist()), take_restarts(stats, keep.tolist())
                problem = problem.take_restarts(keep)
            if iteration == self.max_iter or stopped:
                record.finish(np.arange(values.size), params, Outcome.STOPPED if stopped else Outcome.MAX_ITER)
                break
            stopped = on_step(best_step("EM", iteration + 1, values, partial(select_restart, params)))
            params = problem.family.update(params, stats)
            before = values
        return record.solution()


def rising_sweep(
    problem: RowProblem[EMFamily[Params, Stats, Posterior]], params: Params, least: np.ndarray
) -> Sweep[Stats]:
    """A sweep at parameters whose objective is at least so large.

    The first look at rows whose inference iterates may still be lower; each further look raises it.
    """
    sweep = problem.sweep(params)
    values = to_float_array(sweep.value)
    while problem.family.inference_iterates and (values < least).any():
        sweep = problem.sweep(params)
        before, values = values, to_float_array(sweep.value)
        if not (values > before + MIN_RELATIVE_RISE * np.abs(before)).any():
            break
    return sweep


def rounding_unit(params: Tree) -> float:
    """The rounding unit of the arithmetic that parameters are in."""
    leaf = next(leaves(params))
    return float(namespace(leaf).finfo(leaf.dtype).eps)


def warn_if_decreased(gain: np.ndarray, values: np.ndarray, unit: float) -> None:
    """Warn where an objective that EM must raise has fallen by more than rounding."""
    decreased = gain < -max(MAX_RELATIVE_DECREASE, MAX_DECREASE_UNITS * unit) * np.maximum(np.abs(values), 1.0)
    if decreased.any():
        worst = int(np.argmin(gain))
        warn_at_caller(
            f"The objective fell by {-gain[worst]:.3g} to {values[worst]:.6g} in an EM step, which EM rules out: "
            "the arithmetic has lost precision. Rescale the columns, raise var_floor, or use float64.",
            RuntimeWarning,
        )


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
        self,
        problem: RowProblem[AcceleratedFamily[Params, Stats, Posterior]],
        params: Params,
        on_step: StepCallback = ignore_step,
    ) -> Solution[Params]:
        """Raise the objective from each restart; `n_iter` counts the steps."""
        batch = _Batch(problem, params, self.memory)
        record = RestartHistory[Params](len(batch.values))
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
            stop = on_step(best_step("EM", iteration + 1, batch.values, partial(select_restart, batch.params)))
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


class _Batch(Generic[Params, Stats, Posterior]):
    """The restarts that have not converged: where they are and where they were."""

    def __init__(self, problem: RowProblem[AcceleratedFamily[Params, Stats, Posterior]], params: Params, memory: int):
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
        image = self.family.to_accelerated(plain)
        trial = self.history.extrapolate(self.family.to_accelerated(self.params), image)
        return self.family.from_accelerated(trial, plain)

    def keep(self, index: np.ndarray) -> None:
        """Drop all restarts but some."""
        if not index.size:
            self.values = self.values[:0]
            return
        self.params, self.stats = take_restarts(self.params, index.tolist()), take_restarts(self.stats, index.tolist())
        self.values = self.values[index]
        self.problem = self.problem.take_restarts(index)
        self.history.keep(index)


class AndersonHistory:
    """The last points of each restart, and the residuals that lead from them to their images.

    All arrays are (restarts, coordinates). Restarts share the lists, but each may forget its past
    alone.
    """

    def __init__(self, memory: int, n_restarts: int):
        self.memory = memory
        self.points: list[np.ndarray] = []
        self.residuals: list[np.ndarray] = []
        self.n_points = np.zeros(n_restarts, dtype=int)  # how many of the last points each restart remembers

    def extrapolate(self, point: T, image: T, step: float = 1.0, metric: Tree | None = None) -> T:
        """Where the newest point of all restarts, whose plain step `step` leads to `image`, and the
        remembered ones lead; to the image if it is the only one.
        """
        here = flatten_restarts(point)
        self.points = [*self.points, here][-self.memory - 1 :]
        self.residuals = [*self.residuals, (flatten_restarts(image) - here) / step][-self.memory - 1 :]
        self.n_points = np.minimum(self.n_points + 1, self.memory + 1)
        unit = None if metric is None else flatten_restarts(metric)
        trial = anderson_update(self.points, self.residuals, self.n_points - 1, step, unit)
        return unflatten_restarts(trial, image)

    def forget(self, restarts: np.ndarray) -> None:
        """Some restarts begin anew with the next point."""
        self.n_points[restarts] = 0

    def forget_all_but_newest(self) -> None:
        """All restarts go on from their newest point."""
        self.points, self.residuals = self.points[-1:], self.residuals[-1:]
        self.n_points = np.minimum(self.n_points, 1)

    def keep(self, restarts: np.ndarray) -> None:
        """Drop all restarts but some."""
        self.n_points = self.n_points[restarts]
        self.points = [point[restarts] for point in self.points]
        self.residuals = [residual[restarts] for residual in self.residuals]


def anderson_update(
    points: list[np.ndarray],
    residuals: list[np.ndarray],
    n_differences: np.ndarray,
    step: float = 1.0,
    metric: np.ndarray | None = None,
) -> np.ndarray:
    """The next trial point of each restart, (restarts, coordinates).

    `residuals` lead from the `points` to their images; of both lists the newest comes last. Of the
    differences between successive points each restart uses the last `n_differences`. Residuals are
    measured in units of `metric`, and followed for a fraction `step`.
    """
    here, residual = points[-1], residuals[-1]
    if len(points) == 1:
        return here + step * residual
    d_point = np.diff(np.stack(points, axis=-1))
    d_residual = np.diff(np.stack(residuals, axis=-1))
    used = np.arange(d_point.shape[-1], 0, -1)[None, :] <= n_differences[:, None]
    d_point, d_residual = d_point * used[:, None, :], d_residual * used[:, None, :]
    columns, target = (d_residual, residual) if metric is None else (d_residual * metric[..., None], residual * metric)
    transposed = np.swapaxes(columns, 1, 2)
    gram = transposed @ columns
    ridge = 1e-10 * np.trace(gram, axis1=1, axis2=2)[:, None, None] + 1e-300
    weights = np.linalg.solve(gram + ridge * np.eye(gram.shape[-1]), transposed @ target[..., None])
    return here + step * residual - ((d_point + step * d_residual) @ weights)[..., 0]


class RestartHistory(Generic[Params]):
    """Curves and ends of all restarts, of which those in `index` still run."""

    def __init__(self, n_restarts: int):
        self.index = np.arange(n_restarts)
        self.curves: list[list[float]] = [[] for _ in range(n_restarts)]
        self.params: dict[int, Params] = {}  # of those that have ended
        self.outcomes = [Outcome.MAX_ITER] * n_restarts

    def add(self, values: np.ndarray) -> None:
        """Note the values of those that run."""
        for restart, value in zip(self.index.tolist(), values.tolist(), strict=True):
            self.curves[restart].append(value)

    def finish(self, which: np.ndarray, params: Params, outcome: Outcome) -> None:
        """End these of those that run."""
        for k in which.tolist():
            restart = int(self.index[k])
            self.params[restart], self.outcomes[restart] = select_restart(params, k), outcome
        self.index = np.delete(self.index, which)

    def solution(self) -> Solution[Params]:
        """What all have come to."""
        return Solution(
            params=stack_restarts([self.params[k] for k in range(len(self.curves))]),
            value=np.array([curve[-1] for curve in self.curves]),
            curves=[np.array(curve) for curve in self.curves],
            n_iter=np.array([len(curve) - 1 for curve in self.curves]),
            outcomes=self.outcomes,
        )


def best_step(solver: str, iteration: int, values: np.ndarray, params_at: Callable[[int], Tree]) -> Step:
    """What callbacks see of a step: the best of the restarts that run."""
    best = int(values.argmax())
    return Step(solver, iteration, float(values[best]), len(values), partial(params_at, best))


def to_float_array(value: Array) -> np.ndarray:
    """Values of the restarts on the host; of a single one, too."""
    return np.array(to_numpy(value), dtype=float, ndmin=1)
