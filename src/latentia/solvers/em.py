"""EM and variational Bayes: sweep, update, until the value per row rises by less than `tol`.

All starts run as one batched sweep along the first axis of the parameters; those that have converged drop out of the batch.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np

from latentia._arrays import to_numpy
from latentia.core import AnyProblem, Params
from latentia.solvers.record import OnStep, Solution, Step, never_stop
from latentia.tree import leaves, one_start, stack_starts, take_starts

#: A fall larger than this share of the value is no rounding error.
FALL = 1e-6


@dataclass(frozen=True)
class EM:
    """Sweep and update until no start gains more than `tol` per unit of sample weight."""

    max_iter: int = 200
    tol: float = 1e-4

    def solve(self, problem: AnyProblem, params: Params, on_step: OnStep = never_stop) -> Solution:
        """Raise the objective from each start; `n_iter` counts the updates."""
        n_starts = _n_starts(params)
        running = np.arange(n_starts)
        finished: list[Params] = [None] * n_starts
        curves: list[list[float]] = [[] for _ in range(n_starts)]
        reason = [""] * n_starts
        stopped = False
        for iteration in range(self.max_iter + 1):
            sweep = problem.sweep(params)
            values = np.atleast_1d(to_numpy(sweep.value)).astype(float)
            gain = np.full(running.size, np.inf)
            for k, start in enumerate(running):
                if curves[start]:
                    gain[k] = values[k] - curves[start][-1]
                curves[start].append(float(values[k]))
            _warn_of_fall(gain, values)
            done = gain <= self.tol * problem.total_weight
            if iteration == self.max_iter or stopped:
                why = "stopped by the callback" if stopped else f"max_iter={self.max_iter} reached"
                _finish(np.full(running.size, True), running, params, finished, reason, why, done)
                break
            _finish(done, running, params, finished, reason, "", done)
            if done.all():
                break
            keep = np.flatnonzero(~done)
            stats = sweep.stats
            if done.any():
                running = running[keep]
                params, stats = take_starts(params, keep.tolist()), take_starts(stats, keep.tolist())
            best, here = int(np.argmax(values[keep])), params
            stopped = on_step(
                Step("EM", iteration + 1, float(values[keep].max()), running.size, partial(one_start, here, best))
            )
            params = problem.family.update(params, stats)
        return Solution(
            params=stack_starts(finished),
            value=np.array([curve[-1] for curve in curves]),
            curves=[np.array(curve) for curve in curves],
            n_iter=np.array([len(curve) - 1 for curve in curves]),
            converged=np.array([text.startswith("converged") for text in reason]),
            reason=reason,
        )


def _n_starts(params: Params) -> int:
    return int(next(leaves(params)).shape[0])


def _finish(
    which: np.ndarray,
    running: np.ndarray,
    params: Params,
    finished: list[Params],
    reason: list[str],
    why: str,
    converged: np.ndarray,
) -> None:
    for k in np.flatnonzero(which):
        start = running[k]
        finished[start] = one_start(params, int(k))
        reason[start] = "converged: the gain fell below tol" if converged[k] else why


def _warn_of_fall(gain: np.ndarray, values: np.ndarray) -> None:
    fallen = gain < -FALL * np.maximum(np.abs(values), 1.0)
    if fallen.any():
        worst = int(np.argmin(gain))
        warnings.warn(
            f"The objective fell by {-gain[worst]:.3g} to {values[worst]:.6g} in an EM step, which EM rules out: "
            "the arithmetic has lost precision. Rescale the columns, raise var_floor, or use float64.",
            RuntimeWarning,
            stacklevel=4,
        )
