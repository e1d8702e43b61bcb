"""Structural EM: EM to rest, then the structure that its expected statistics prefer, and again until the structure stays.

Friedman (1998), "The Bayesian structural EM algorithm". The structure is scored by a marginal likelihood, not by the objective, which may fall when edges
go; the recorded curve is that of the last EM, whose structure is fixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from latentia.core import AnyProblem, Params
from latentia.solvers.em import EM
from latentia.solvers.record import OnStep, Solution, never_stop


@dataclass(frozen=True)
class StructuralEM:
    """Alternate EM and the family's `restructure`, at most `max_rounds` times."""

    em: EM
    max_rounds: int = 10

    def solve(self, problem: AnyProblem, params: Params, on_step: OnStep = never_stop) -> Solution:
        """Raise the objective from each start, and settle each start's structure."""
        family: Any = problem.family
        solution = self.em.solve(problem, params, on_step)
        for _ in range(self.max_rounds):
            stats = problem.sweep(solution.params).stats
            params, changed = family.restructure(solution.params, stats)
            if not changed:
                break
            solution = self.em.solve(problem, params, on_step)
        return solution
