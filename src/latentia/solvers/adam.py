"""Stochastic ascent in unconstrained coordinates by Adam, for tables that are too large to be read
for every step.

Each step sees a random batch of rows, whose weights stand for all. With the gradient g of a step
and the moments m and v of past ones (Kingma & Ba 2015),

    m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2,  x <- x + rate m / (sqrt(v) + eps),

m and v divided by what they would be of a constant g = 1. The rate falls to zero along a cosine, so
the last steps average over many batches and the ascent comes to rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from latentia.arrays.namespace import namespace, to_numpy
from latentia.engine.contracts import Params, SmoothFamily
from latentia.engine.sweep import RowProblem
from latentia.engine.tree import Tree, add_restart_axis, leaves, select_restart, tree_map
from latentia.solvers.em import Outcome, Solution, Step, StepCallback, ignore_step
from latentia.solvers.lbfgs import HeldOut

#: How fast the moments forget.
DECAY, SQUARED_DECAY = 0.9, 0.999

#: Added to the root of the second moment, of gradients per unit of sample weight.
EPSILON = 1e-8


@dataclass(frozen=True)
class Adam:
    """Ascend by mini-batches from a single start.

    Parameters
    ----------
    batch_size : int
        Rows of a step.
    n_passes : int
        Passes over the rows.
    learning_rate : float
        How far a coordinate moves in a step at first; those of means are standard deviations of
        the columns, those of variances their logarithms.
    tol : float
        The ascent has converged if the last pass gains less per unit of sample weight.
    seed : int
        Of the batches.
    validate : callable or None
        Loss of parameters on held-out rows, asked after each pass. The parameters with the least
        loss are returned; the ascent ends when it has not fallen for `patience` passes.
    """

    batch_size: int = 1024
    n_passes: int = 20
    learning_rate: float = 0.02
    tol: float = 1e-3
    seed: int = 0
    validate: Callable[[Params], float] | None = None
    patience: int = 10

    def solve(self, problem: RowProblem[Any], params: Params, on_step: StepCallback = ignore_step) -> Solution:
        """Ascend; of the start and the end the one with the larger objective is returned.

        The curve has the objective at the start, what the batches of each pass showed of it as
        they were visited, and in place of the last the objective at the end.
        """
        start = select_restart(params, 0)
        held_out = HeldOut(self.validate, self.patience)
        held_out.should_stop(lambda: start)
        ascent = _Ascent(self, problem, start)
        curve, outcome = [_value(problem, start)], Outcome.MAX_ITER
        for number in range(1, self.n_passes + 1):
            curve.append(ascent.run_pass())
            here = partial(ascent.params_at, ascent.free)
            stopped = on_step(Step("Adam", number, curve[-1], 1, here))
            if held_out.should_stop(here) or stopped:
                outcome = Outcome.VALIDATED if held_out.stopped else Outcome.STOPPED
                break
        else:
            if len(curve) > 2 and curve[-1] - curve[-2] <= self.tol * problem.total_weight:
                outcome = Outcome.CONVERGED
        end = here() if held_out.best is None else held_out.best
        if held_out.best is not None:
            curve = curve[: held_out.best_step + 1]
        curve[-1] = _value(problem, end)
        if held_out.best is None and not curve[-1] > curve[0]:
            end, curve, outcome = start, curve[:1], Outcome.NO_ASCENT
        n_iter = np.array([len(curve) - 1])
        return Solution(add_restart_axis(end), np.array(curve[-1:]), [np.array(curve)], n_iter, [outcome])


class _Ascent:
    """Where the ascent is, and the moments of its gradients."""

    def __init__(self, options: Adam, problem: RowProblem[SmoothFamily], start: Params):
        self.options, self.problem, self.family, self.start = options, problem, problem.family, start
        self.free = self.family.to_free(start)
        self.first = self.second = tree_map(lambda a: namespace(a).zeros_like(a), self.free)
        self.rng = np.random.default_rng(options.seed)
        self.n_steps = self.n_passes = 0

    def params_at(self, free: Tree) -> Params:
        return self.family.from_free(free, self.start)

    def run_pass(self) -> float:
        """A step for each batch; the mean of what they showed of the objective."""
        n_steps = max(1, round(self.problem.source.n_rows / self.options.batch_size))
        values = [
            self._step(batch, self.n_passes + min(1.0, k / n_steps))
            for k, batch in enumerate(self.problem.batches(self.options.batch_size, self.rng))
        ]
        self.n_passes += 1
        return float(np.mean(values))

    def _step(self, batch: RowProblem[SmoothFamily], n_passes: float) -> float:
        here = self.params_at(self.free)
        sweep = batch.sweep(here)
        gradient = tree_map(lambda g: g / batch.total_weight, self.family.gradient(here, sweep.stats))
        value = float(to_numpy(sweep.value))
        if not math.isfinite(value + sum(float(namespace(g).sum(g)) for g in leaves(gradient))):
            return value  # a batch of rows that no component explains: pass on
        self.n_steps += 1
        self.first = tree_map(lambda m, g: DECAY * m + (1 - DECAY) * g, self.first, gradient)
        self.second = tree_map(lambda v, g: SQUARED_DECAY * v + (1 - SQUARED_DECAY) * g * g, self.second, gradient)
        rate = self.options.learning_rate * (1 + math.cos(math.pi * n_passes / self.options.n_passes)) / 2
        rate /= 1 - DECAY**self.n_steps
        unit = math.sqrt(1 - SQUARED_DECAY**self.n_steps)
        self.free = tree_map(
            lambda x, m, v: x + rate * m / (namespace(v).sqrt(v) / unit + EPSILON), self.free, self.first, self.second
        )
        return value


def _value(problem: RowProblem[Any], params: Params) -> float:
    return float(to_numpy(problem.sweep(params).value))
