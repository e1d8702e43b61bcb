r"""Structural EM: EM to rest, then the structure that its expected statistics prefer, and again
while that pays.

Friedman (1998), "The Bayesian structural EM algorithm". Changing one edge at a time is not enough:
EM with all edges ends at one of many solutions that are nearly equal, and in most of them no edge
can be spared. So every start of EM goes three ways: from where it ended, from the sparsest of the
solutions equivalent to that, and from there with all weak edges cut at once. On each way the
structure changes as long as the penalized objective rises, and each start ends with the best
structure it has seen, whatever other starts do. While a structure stands, EM raises the objective;
the recorded curve is that of the EM with the structure that was chosen.

The best structure (`best_structure`): let :math:`\ell` be the objective that EM reaches with a
structure of k free parameters, on N rows. The choice maximizes :math:`\ell - \tfrac12 k\ln N`
(Schwarz 1978), which finds a true sparse structure as rows become many. Alone it would give up too
much where there is none: it may trade a hundred parameters that are each worth a little for a fit
that is much worse. So a structure with r parameters less than the largest one is out if twice its
loss against that is above the :math:`1 - \alpha` quantile of :math:`\chi^2_r`, as in a
likelihood-ratio test. For large r this allows a loss of little more than r/2, which is what
superfluous parameters gain by chance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic

import numpy as np
from scipy.special import chdtri

from latentia.arrays.namespace import namespace
from latentia.engine.contracts import Params, Posterior, Stats, StructuredFamily
from latentia.engine.sweep import RowProblem
from latentia.engine.tree import take_restarts, tree_map
from latentia.solvers.em import EM, Outcome, Solution, Step, StepCallback, ignore_step


@dataclass(frozen=True)
class StructuralEM:
    """EM and a search for the structure, which changes at most `max_rounds` times on each way."""

    em: EM
    max_rounds: int = 10

    def solve(
        self,
        problem: RowProblem[StructuredFamily[Params, Stats, Posterior]],
        params: Params,
        on_step: StepCallback = ignore_step,
    ) -> Solution[Params]:
        """Raise the objective from each start, and settle each start's structure."""
        search = _Search(problem, self.em, params, on_step)
        found = search.start
        ways = [found]
        if not search.stopped:
            ways.append(search.run(search.family.sparse_axes(search.params(found)), found))
        if not search.stopped:
            starts = search.family.sparse_structures(search.params(ways[-1]))
            ways += [search.run(start, found) for start in starts]
        running = np.concatenate(ways)
        for _ in range(self.max_rounds):
            if search.stopped or not running.size:
                break
            running = search.improve(running)
        return search.best()


class _Search(Generic[Params, Stats, Posterior]):
    """All solutions of EM so far, and the start that each belongs to."""

    def __init__(
        self,
        problem: RowProblem[StructuredFamily[Params, Stats, Posterior]],
        em: EM,
        params: Params,
        on_step: StepCallback,
    ):
        self.problem, self.em, self.on_step = problem, em, on_step
        self.family = problem.family
        self.stopped = False  # by the callback
        self.seen = em.solve(problem, params, self._notify)
        self.start = np.arange(len(self.seen.value))

    def _notify(self, step: Step) -> bool:
        self.stopped = self.on_step(step) or self.stopped
        return self.stopped

    def params(self, places: np.ndarray) -> Params:
        """Of the solutions at these places."""
        return take_restarts(self.seen.params, places.tolist())

    def run(self, params: Params, origin: np.ndarray) -> np.ndarray:
        """The places of EM's solutions from these parameters, which belong to the same starts as
        those at `origin`.
        """
        new = self.em.solve(self.problem, params, self._notify)
        self.seen, self.start = _join(self.seen, new), np.concatenate([self.start, self.start[origin]])
        return self.start.size - origin.size + np.arange(origin.size)

    def improve(self, running: np.ndarray) -> np.ndarray:
        """Let the structures at these places change once; the places of those now better."""
        settled = self.params(running)
        params, changed = self.family.update_structure(settled, self.problem.sweep(settled).stats)
        running = running[changed]
        if not running.size:
            return running
        new = self.run(take_restarts(params, np.flatnonzero(changed).tolist()), running)
        score = penalized(self.seen.value, self.family.structure_size(self.seen.params), self.problem.total_weight)
        better: np.ndarray = new[score[new] > score[running]]
        return better

    def best(self) -> Solution[Params]:
        """The best solution of each start."""
        value, size = self.seen.value, self.family.structure_size(self.seen.params)
        chosen = []
        for k in range(self.start.max() + 1):
            own = np.flatnonzero(self.start == k)
            chosen.append(own[best_structure(value[own], size[own], self.problem.total_weight)])
        solution = self.seen.take_restarts([int(k) for k in chosen])
        if not self.stopped:
            return solution
        return solution._replace(outcomes=[Outcome.STOPPED] * len(chosen))


def _join(a: Solution[Params], b: Solution[Params]) -> Solution[Params]:
    """The solutions of both."""
    return Solution(
        tree_map(lambda x, y: namespace(x).concat([x, y], axis=0), a.params, b.params),
        np.concatenate([a.value, b.value]),
        [*a.curves, *b.curves],
        np.concatenate([a.n_iter, b.n_iter]),
        [*a.outcomes, *b.outcomes],
    )


#: Level of the likelihood-ratio test.
ALPHA = 0.01


def penalized(value: np.ndarray, size: np.ndarray, total_weight: float) -> np.ndarray:
    """Objectives less half the log of the number of rows for each free parameter.

    Up to a constant that the structures share.
    """
    return np.asarray(value - 0.5 * math.log(max(total_weight, 1.0)) * (size - size.max(initial=0.0)))


def best_structure(value: np.ndarray, size: np.ndarray, total_weight: float) -> int:
    """The place of the best of several structures, by objective and number of free parameters.

    Of structures of one size the one with the highest objective is the best.
    """
    fewer = size.max() - size
    loss = value[fewer == 0].max() - value
    refuted = (fewer > 0) & (2 * loss > chdtri(np.maximum(fewer, 1.0), ALPHA))
    return int(np.argmax(np.where(refuted, -np.inf, penalized(value, size, total_weight))))
