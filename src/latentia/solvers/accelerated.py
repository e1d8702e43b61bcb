"""EM and variational Bayes with Anderson acceleration, for families whose plain steps are slow.

Let F be one EM step in the family's free coordinates and ``r(x) = F(x) - x``. From the last few iterates the combination of their residuals that is shortest is found,
and the same combination of their images F(x) is the next trial point (Henderson & Varadhan 2019, "Damped Anderson acceleration with restarts and monotonicity control").
A trial that lowers the objective is replaced by the plain step, and that start forgets its past; so the objective never falls. All starts run as one batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from latentia._arrays import Array, like, namespace, to_numpy
from latentia.core import AnyProblem, Params
from latentia.solvers.record import OnStep, Solution, Step, never_stop
from latentia.tree import Tree, leaves, one_start, stack_starts, take_starts, tree_map

#: Steps with a small gain in a row that end a start: a single poor trial is no sign of convergence.
SMALL_STEPS = 3


@dataclass(frozen=True)
class AcceleratedEM:
    """EM until each start gains less than `tol` per unit of sample weight in three steps running.

    The family must map its parameters to unconstrained coordinates (`to_free`, `from_free`); coordinates that are left out of them follow the plain step.
    """

    max_iter: int = 600
    tol: float = 1e-5
    memory: int = 6

    def solve(self, problem: AnyProblem, params: Params, on_step: OnStep = never_stop) -> Solution:
        """Raise the objective from each start; `n_iter` counts the steps."""
        family = problem.family
        running = _Running(params, problem.sweep(params), self.memory)
        record = _Record(running.values)
        small = np.zeros(len(running.values), dtype=int)
        why = f"max_iter={self.max_iter} reached"
        for iteration in range(self.max_iter):
            before = running.values
            plain = family.update(running.params, running.stats)
            running.step(problem, plain)
            record.add(running.values)
            small = np.where(running.values - before <= self.tol * problem.total_weight, small + 1, 0)
            best = partial(one_start, running.params, int(running.values.argmax()))
            stop = on_step(Step("EM", iteration + 1, float(running.values.max()), len(running.values), best))
            done = small >= SMALL_STEPS
            record.finish(np.flatnonzero(done), running.params, "converged: the gain fell below tol")
            if stop:
                why = "stopped by the callback"
                break
            if done.any():
                small = small[~done]
                running.keep(np.flatnonzero(~done))
            if done.all():
                break
        if len(running.values):
            record.finish(np.arange(len(running.values)), running.params, why)
        return record.solution()


class _Running:
    """The starts that have not converged, where they are and where they were."""

    def __init__(self, params: Params, sweep, memory: int):
        self.params, self.stats = params, sweep.stats
        self.values = _host(sweep.value)
        self.memory = memory
        self.points: list[np.ndarray] = []
        self.residuals: list[np.ndarray] = []
        self.age = np.zeros(len(self.values), dtype=int)  # how much of the past each start may use

    def step(self, problem: AnyProblem, plain: Params) -> None:
        """One trial, and the plain step for the starts it does not lift."""
        family = problem.family
        here = _rows(family.to_free(self.params))
        self.points = [*self.points, here][-self.memory - 1 :]
        self.residuals = [*self.residuals, _rows(family.to_free(plain)) - here][-self.memory - 1 :]
        trial = family.from_free(_unrows(self._mix(), family.to_free(plain)), plain)
        sweep = problem.sweep(trial)
        values = _host(sweep.value)
        good = np.isfinite(values) & (values >= self.values)
        self.age = np.minimum(self.age + 1, self.memory)
        if good.all():
            self.params, self.stats, self.values = trial, sweep.stats, values
            return
        bad = np.flatnonzero(~good)
        instead = take_starts(plain, bad.tolist())
        fallback = problem.sweep(instead)
        values[bad] = _host(fallback.value)
        self.params = _replace(trial, bad, instead)
        self.stats = _replace(sweep.stats, bad, fallback.stats)
        self.values = values
        self.age[bad] = 0

    def _mix(self) -> np.ndarray:
        """The combination of past images with the shortest residual, (starts, coordinates)."""
        here, residual = self.points[-1], self.residuals[-1]
        if len(self.points) == 1:
            return here + residual
        d_point = np.diff(np.stack(self.points, axis=-1))
        d_residual = np.diff(np.stack(self.residuals, axis=-1))
        # what lies before a start's last restart does not count
        past = np.arange(d_point.shape[-1], 0, -1)[None, :] <= self.age[:, None]
        d_point, d_residual = d_point * past[:, None, :], d_residual * past[:, None, :]
        transposed = np.swapaxes(d_residual, 1, 2)
        gram = transposed @ d_residual
        size = gram.shape[-1]
        scale = 1e-10 * np.trace(gram, axis1=1, axis2=2)[:, None, None] + 1e-300
        weights = np.linalg.solve(gram + scale * np.eye(size), transposed @ residual[..., None])
        return here + residual - ((d_point + d_residual) @ weights)[..., 0]

    def keep(self, index: np.ndarray) -> None:
        """Only some starts."""
        if not index.size:
            self.values = self.values[:0]
            return
        self.params, self.stats = take_starts(self.params, index.tolist()), take_starts(self.stats, index.tolist())
        self.values, self.age = self.values[index], self.age[index]
        self.points = [a[index] for a in self.points]
        self.residuals = [a[index] for a in self.residuals]


class _Record:
    """Curves and ends of all starts."""

    def __init__(self, values: np.ndarray):
        self.index = np.arange(len(values))
        self.curves = [[float(v)] for v in values]
        self.params: list[Params] = [None] * len(values)
        self.reason = [""] * len(values)

    def add(self, values: np.ndarray) -> None:
        for start, value in zip(self.index, values, strict=True):
            self.curves[start].append(float(value))

    def finish(self, which: np.ndarray, params: Params, why: str) -> None:
        for k in which:
            self.params[self.index[k]] = one_start(params, int(k))
            self.reason[self.index[k]] = why
        self.index = np.delete(self.index, which)

    def solution(self) -> Solution:
        return Solution(
            params=stack_starts(self.params),
            value=np.array([curve[-1] for curve in self.curves]),
            curves=[np.array(curve) for curve in self.curves],
            n_iter=np.array([len(curve) - 1 for curve in self.curves]),
            converged=np.array([text.startswith("converged") for text in self.reason]),
            reason=self.reason,
        )


def _host(value: Array) -> np.ndarray:
    return np.array(to_numpy(value), dtype=float, ndmin=1)


def _rows(tree: Tree) -> np.ndarray:
    """Each start's coordinates as one row."""
    parts = [to_numpy(a).astype(np.float64) for a in leaves(tree)]
    return np.concatenate([a.reshape(a.shape[0], -1) for a in parts], axis=1)


def _unrows(rows: np.ndarray, template: Tree) -> Tree:
    position = 0

    def cut(a: Array) -> Array:
        nonlocal position
        size = int(np.prod(a.shape[1:]))
        part = rows[:, position : position + size].reshape(a.shape)
        position += size
        return like(part, a)

    return tree_map(cut, template)


def _replace(tree: Tree, index: np.ndarray, other: Tree) -> Tree:
    """`tree` with some starts taken from `other`, which holds those alone."""

    def put(a: Array, b: Array) -> Array:
        xp = namespace(a)
        source = np.arange(a.shape[0])
        source[index] = a.shape[0] + np.arange(len(index))
        return xp.take(xp.concat([a, b], axis=0), like(source, a, dtype=xp.int64), axis=0)

    return tree_map(put, tree, other)
