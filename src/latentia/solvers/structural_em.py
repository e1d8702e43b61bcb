"""Structural EM: EM to rest, then the structure that its expected statistics prefer, and again until the structure stays.

Friedman (1998), "The Bayesian structural EM algorithm". The structure is scored by a marginal likelihood, not by the objective, which may fall when edges
go; the recorded curve is that of the last EM, whose structure is fixed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latentia.engine.contracts import Params, Problem, StructuredFamily
from latentia.engine.pytree import replace_restarts, take_restarts
from latentia.solvers.em import EM
from latentia.solvers.solution import Solution, StepCallback, ignore_step


@dataclass(frozen=True)
class StructuralEM:
    """Alternate EM and the family's `update_structure`, at most `max_rounds` times."""

    em: EM
    max_rounds: int = 10

    def solve(
        self, problem: Problem[StructuredFamily], params: Params, on_step: StepCallback = ignore_step
    ) -> Solution:
        """Raise the objective from each start, and settle each start's structure."""
        family = problem.family
        solution = self.em.solve(problem, params, on_step)
        running = np.arange(len(solution.value))
        for _ in range(self.max_rounds):
            settled = take_restarts(solution.params, running.tolist())
            params, changed = family.update_structure(settled, problem.sweep(settled).stats)
            if not changed.any():
                break
            running = running[changed]  # a start whose structure stays is done, whatever others do
            again = self.em.solve(problem, take_restarts(params, np.flatnonzero(changed).tolist()), on_step)
            solution = _with_starts(solution, running, again)
        return solution


def _with_starts(solution: Solution, index: np.ndarray, again: Solution) -> Solution:
    """The solution with some starts replaced by those of another one."""
    value, n_iter = solution.value.copy(), solution.n_iter.copy()
    value[index], n_iter[index] = again.value, again.n_iter
    curves, outcomes = list(solution.curves), list(solution.outcomes)
    for start, curve, outcome in zip(index.tolist(), again.curves, again.outcomes, strict=True):
        curves[start], outcomes[start] = curve, outcome
    return Solution(replace_restarts(solution.params, index, again.params), value, curves, n_iter, outcomes)
