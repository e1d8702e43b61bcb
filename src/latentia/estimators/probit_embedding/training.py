"""Variational Bayes for a probit embedding of one number of dimensions, or of several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from latentia.arrays.parallel import one_blas_thread
from latentia.engine.contracts import Params
from latentia.engine.tree import select_restart
from latentia.estimators.base.callbacks import StepNotifier
from latentia.estimators.probit_embedding.prediction import FittedEmbedding, learned_attributes
from latentia.estimators.probit_embedding.reading import TrainingTable
from latentia.families.probit_embedding.family import ProbitEmbedding, problem_maker
from latentia.solvers import Outcome, QuasiNewtonVB, Solution
from latentia.table.options import check_choice, check_number

#: The most dimensions that are used unless more are asked for.
MAX_LATENT = 10

#: Sizes without a gain in evidence after which a search stops.
PATIENCE = 2


class SearchResults(NamedTuple):
    """What a search over sizes has tried, an entry for each size."""

    n_latent: np.ndarray
    log_evidence: np.ndarray
    n_iter: np.ndarray


class EmbeddingFit(NamedTuple):
    """A trained model and how its solver went; of a search, the best one and what was tried."""

    model: FittedEmbedding
    solution: Solution  # of the restart that won
    search_results: SearchResults | None = None

    @property
    def outcome(self) -> Outcome:
        return self.solution.outcomes[0]

    @property
    def log_evidence(self) -> float:
        return float(self.solution.value[0])

    @property
    def summary(self) -> tuple[int, float, int]:
        """The entry of a search."""
        return self.model.family.n_latent, self.log_evidence, int(self.solution.n_iter[0])


class Trainer:
    """Fits families of any number of dimensions to the same rows, which are read once."""

    def __init__(
        self,
        data: TrainingTable,
        family: ProbitEmbedding,
        solver: QuasiNewtonVB,
        n_restarts: int,
        rng: np.random.Generator,
        notifier: StepNotifier,
    ):
        self.data, self.family, self.solver = data, family, solver
        self.n_restarts, self.rng, self.notifier = n_restarts, rng, notifier
        self.make_problem = problem_maker(data.source)
        self.n_classes = data.n_classes

    def train(self, n_latent: int) -> EmbeddingFit:
        """Variational Bayes from all restarts; the largest bound wins."""
        problem = self.make_problem(replace(self.family, n_latent=n_latent))

        def model_at(params: Params) -> FittedEmbedding:
            return FittedEmbedding(problem.family, params, self.data.preprocessor, self.n_classes)

        self.notifier.attributes_at = lambda params: self.data.attributes | learned_attributes(model_at(params))
        params = problem.initial_params(self.rng, self.n_restarts)
        with one_blas_thread(problem.small):  # once, not in every sweep
            solution = self.solver.solve(problem, params, self.notifier)
        solution = solution.select_restart(int(np.argmax(solution.value)))
        return EmbeddingFit(model_at(select_restart(solution.params, 0)), solution)

    def fit(self, n_latent: int | str) -> EmbeddingFit:
        """With a given number of dimensions, as many as can differ, or the most evident number."""
        if n_latent == "evidence":
            return best_size(self.train, self.max_latent, lambda: self.notifier.stopped)
        return self.train(self.max_latent if isinstance(n_latent, str) else n_latent)

    @property
    def max_latent(self) -> int:
        """As many dimensions as the labels can tell apart: one less than there are classes, since
        the scores of the last follow from those of the others.
        """
        n_scores = self.family.n_labels if self.n_classes is None else max(1, self.n_classes - 1)
        return min(n_scores, self.data.X.shape[1], MAX_LATENT)


def best_size(train: Callable[[int], EmbeddingFit], max_latent: int, stopped: Callable[[], bool]) -> EmbeddingFit:
    """The fit with the largest evidence, of sizes from one on.

    They grow until they have not gained for a while, or a callback has stopped the fit.
    """
    best = train(1)
    tried = [best.summary]
    for n_latent in range(2, max_latent + 1):
        if stopped() or len(tried) - best.model.family.n_latent >= PATIENCE:
            break
        fit = train(n_latent)
        tried.append(fit.summary)
        best = fit if fit.log_evidence > best.log_evidence else best
    return best._replace(search_results=SearchResults(*(np.array(column) for column in zip(*tried, strict=True))))


def check_n_latent(name: str, value: Any) -> None:
    """A number of dimensions, "auto" or "evidence"."""
    if isinstance(value, str):
        check_choice(name, value, ["auto", "evidence"], " and integers >= 1")
    else:
        check_number(name, value, ge=1, integer=True, besides=", 'auto' or 'evidence'")
