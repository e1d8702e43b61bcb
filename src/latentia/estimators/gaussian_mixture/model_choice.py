"""How many components a class gets, and which covariances: by BIC for points, by evidence for
posteriors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from latentia.arrays.namespace import namespace, to_numpy
from latentia.engine.rows import Chunk, TableSource, Totals
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import select_class
from latentia.estimators.base.callbacks import StepNotifier
from latentia.families.gaussian_mixture.covariance import Covariance
from latentia.families.gaussian_mixture.family import COVARIANCES, GaussianMixtures, GaussianParams
from latentia.families.gaussian_mixture.posterior import BayesianGaussianMixtures
from latentia.solvers import EM

#: A notifier that sees models of a family; the second is what is trained, its posterior or itself.
TellOf = Callable[[Any, Any], StepNotifier]

#: The most components that n_components="bic" tries for a class.
MAX_COMPONENTS = 10

#: Covariances whose evidences are compared, and the iterations they get.
CANDIDATES = ("full", "tied", "diag")
EVIDENCE_ITERATIONS = 6

#: What a covariance matrix of its own for each class must gain over one for all, in nats per cell:
#: the evidence is of p(x), and where it hardly decides, one matrix tells classes better.
OWN_MATRIX_LEAD = 0.005

#: Tables with more columns get a variance per column.
MAX_MATRIX_COLUMNS = 100


def most_evident_covariance(
    source: TableSource,
    n_classes: int,
    floor: float,
    empty_columns: np.ndarray | None,
    rng: np.random.Generator,
    tell_of: TellOf,
) -> str:
    """The covariances of one Gaussian a class with the largest evidence of the labeled rows."""
    if source.n_features > MAX_MATRIX_COLUMNS:
        return "diag"
    evidence = {}
    for name in CANDIDATES:
        model = GaussianMixtures(np.ones(n_classes, dtype=int), COVARIANCES[name](floor))
        family = BayesianGaussianMixtures(model, empty_columns=empty_columns)
        params, notifier = family.init(source, rng, 1), tell_of(model, family)
        solution = EM(EVIDENCE_ITERATIONS, 1e-3).solve(RowProblem(family, Likelihood(), source), params, notifier)
        evidence[name] = solution.value[0]
        if name == "full":
            evidence[name] -= OWN_MATRIX_LEAD * source.total_weight * source.n_features
        if notifier.stopped:
            break
    return max(evidence, key=lambda name: evidence[name])


class ComponentSearch(NamedTuple):
    """The number of components of each class with the least BIC."""

    covariance: Covariance
    n_classes: int
    n_features: int
    n_init: int
    solver: EM

    def run(self, source: TableSource, rng: np.random.Generator, tell_of: TellOf) -> np.ndarray:
        """A class stops growing after two numbers without gain, all of them when a callback stops
        the fit.
        """
        in_class = _class_sizes(source, self.n_classes)
        best, sizes = np.full(self.n_classes, np.inf), np.ones(self.n_classes, dtype=int)
        for k in range(1, MAX_COMPONENTS + 1):
            growing = (k - sizes <= 2) & (in_class >= 2 * k)
            if k > 1 and not growing.any():
                break
            family = GaussianMixtures(np.where(growing, k, sizes), self.covariance)
            notifier = tell_of(family, family)
            params = family.init(source, rng, self.n_init if k > 1 else 1)
            problem = RowProblem(family, Likelihood(), source)
            fitted = self.solver.solve(problem, params, notifier).params
            scores = _class_log_likelihoods(problem, fitted, self.n_classes)  # (restarts, classes)
            n_free = k - 1 + k * self.n_features + self.covariance.n_free(self.n_features, k)
            bic = -2 * scores.max(axis=0) + n_free * np.log(in_class)
            better = growing & (bic < best) | (k == 1)
            best, sizes = np.where(better, bic, best), np.where(better, k, sizes)
            if notifier.stopped:
                break
        return sizes


def _class_sizes(source: TableSource, n_classes: int) -> np.ndarray:
    """Weight of the rows of each class, but at least their number: weights that sum to one make no
    fewer rows, and no negative logarithm.
    """
    totals = source.label_totals
    return np.array([max(totals[c].weight, totals[c].n_weighted) for c in range(n_classes)])


def _class_log_likelihoods(problem: RowProblem[GaussianMixtures], params: GaussianParams, n_classes: int) -> np.ndarray:
    """Log p(x | y) summed over the labeled rows of each class, for each restart: (R, C)."""
    family = problem.family

    def visit(chunk: Chunk) -> Totals:
        if chunk.label is None or chunk.label < 0:
            return {}
        mine = select_class(params, family.params_class_axes, chunk.label)
        score = family.infer(mine, chunk.rows).log_joint[..., 0, :] - mine.log_prior
        xp = namespace(score)
        return {chunk.label: xp.sum(chunk.weighted(score), axis=-1)}

    totals = problem.source.sum_over_chunks(visit, problem.rows_per_chunk(params), by_label=True)
    return np.stack([to_numpy(totals[c]) for c in range(n_classes)], axis=1)
