"""EM and variational Bayes: sweep, update, until the value per row rises by less than `tol`.

All restarts run as one batched sweep along the first axis of the parameters; those that have
converged drop out of the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from latentia.arrays.namespace import namespace
from latentia.engine.contracts import EMFamily, Params, Problem, Sweep, WarmStartedFamily
from latentia.engine.messages import warn_at_caller
from latentia.engine.tree import leaves, select_restart, take_restarts
from latentia.solvers.restarts import RestartHistory, best_step, to_float_array
from latentia.solvers.solution import Outcome, Solution, StepCallback, ignore_step

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

    def solve(self, problem: Problem[EMFamily], params: Params, on_step: StepCallback = ignore_step) -> Solution:
        """Raise the objective from each restart; `n_iter` counts the updates."""
        record = RestartHistory(next(leaves(params)).shape[0])
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


def rising_sweep(problem: Problem[EMFamily], params: Params, least: np.ndarray) -> Sweep:
    """A sweep at parameters whose objective is at least so large.

    The first look at rows whose inference iterates may still be lower; each further look raises it.
    """
    sweep = problem.sweep(params)
    values = to_float_array(sweep.value)
    while isinstance(problem.family, WarmStartedFamily) and (values < least).any():
        sweep = problem.sweep(params)
        before, values = values, to_float_array(sweep.value)
        if not (values > before + MIN_RELATIVE_RISE * np.abs(before)).any():
            break
    return sweep


def rounding_unit(params: Params) -> float:
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
