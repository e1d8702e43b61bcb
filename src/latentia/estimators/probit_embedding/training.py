"""From prepared rows to a fitted probit embedding: problems, starts, the search for a size, and what is published."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from latentia.engine.array_source import ArraySource
from latentia.engine.pytree import select_restart
from latentia.estimators.base.legacy import attributes_if_stopped
from latentia.estimators.probit_embedding.prediction import EmbeddingPredictions
from latentia.families.building_blocks.gamma_prior import GammaPrior
from latentia.families.probit_embedding.family import ProbitEmbedding
from latentia.families.probit_embedding.precision_priors import PRECISION_SHARING
from latentia.families.probit_embedding.problem import problem_maker
from latentia.families.probit_embedding.values import Embedding
from latentia.numerics.array_api import namespace, to_numpy
from latentia.numerics.threads import one_blas_thread
from latentia.solvers import QuasiNewtonVB, Solution, StepCallback

#: The most dimensions that n_latent="auto" tries.
MOST_LATENT = 10


#: Sizes without a gain in evidence after which n_latent="auto" stops.
PATIENCE = 2


#: A dimension counts as effective if it carries this share of the labels' scores.
EFFECTIVE = 0.01


class EmbeddingTraining(EmbeddingPredictions):
    """Fits the posteriors; the estimator adds the door: options and checks."""

    def _train(
        self, X: Any, codes: np.ndarray, weight: np.ndarray | None, rng: np.random.Generator, on_step: StepCallback
    ) -> None:
        n_labels = codes.shape[1]
        self.search_results_ = None
        make = self._problems(X, codes, weight)
        if not isinstance(self.n_latent, str):
            self._keep(*self._ascend(make(self.n_latent), rng, on_step))
            return
        found: list[tuple[int, float, int]] = []
        best = None
        for n_latent in range(1, min(n_labels, X.shape[1], MOST_LATENT) + 1):
            fitted = self._ascend(make(n_latent), rng, on_step)
            value = float(fitted[1].value.max())
            found.append((n_latent, value, int(fitted[1].n_iter[int(np.argmax(fitted[1].value))])))
            if best is None or value > float(best[1].value.max()):
                best = fitted
            if n_latent - best[0].n_latent >= PATIENCE:
                break
        assert best is not None
        self._keep(*best)
        columns = (np.array(column) for column in zip(*found, strict=True))
        self.search_results_ = dict(zip(("n_latent", "log_evidence", "n_iter"), columns, strict=True))

    def _problems(self, X: Any, codes: np.ndarray, weight: np.ndarray | None) -> Callable[[int], Any]:
        """The problem for a number of dimensions."""
        preprocess, n_labels = self.preprocessor_, codes.shape[1]
        options: dict[str, Any] = {
            "sharing": PRECISION_SHARING[self.prior],
            "prior": GammaPrior(float(self.shape), 1 / float(self.scale)),
            "latent_noise": float(self.latent_noise),
            "margin": float(self.margin) if self.semi_supervised else 0.0,
        }
        make = problem_maker(ArraySource(X, codes, weight, preprocess))
        return lambda n_latent: make(ProbitEmbedding(n_labels, n_latent, **options))

    def _ascend(
        self, problem: Any, rng: np.random.Generator, on_step: StepCallback
    ) -> tuple[ProbitEmbedding, Solution]:
        """Variational Bayes from all starts."""
        self.family_ = problem.family
        params = problem.initial_params(rng, self.n_init)
        solver = QuasiNewtonVB(self.max_iter, self.tol * self.family_.n_labels)
        with one_blas_thread(problem.small):  # once, not in every sweep
            return self.family_, solver.solve(problem, params, on_step)

    def _keep(self, family: ProbitEmbedding, solution: Solution) -> None:
        """Keep the start with the largest bound."""
        best = int(np.argmax(solution.value))
        self.family_, self.params_ = family, select_restart(solution.params, best)
        self.objective_curve_ = solution.curves[best]
        self.log_evidence_ = float(solution.value[best])
        self.n_iter_ = int(solution.n_iter[best])
        self.converged_ = bool(solution.converged[best])
        self.stopping_reason_ = solution.outcomes[best].value
        self._set_fitted_attributes()

    def _set_fitted_attributes(self) -> None:
        params: Embedding = self.params_
        xp = namespace(params.projection)
        self.n_latent_ = int(params.projection.shape[0])
        self.projection_ = xp.matrix_transpose(params.projection)
        self.weights_ = params.weights[:, 1:]
        self.intercepts_ = params.weights[:, 0]
        self.weights_covariance_ = params.weights_cov
        self.precisions_ = xp.matrix_transpose(self.family_.precision(params))
        self.feature_shift_, self.feature_scale_ = self.preprocessor_.shift, self.preprocessor_.scale
        strength = xp.sum(self.weights_**2, axis=0)  # (R,)
        share = self.projection_**2 @ strength
        self.feature_relevance_ = share / xp.clip(xp.sum(share), min=float(xp.finfo(share.dtype).smallest_normal))
        carried = to_numpy(xp.sum(params.projection**2, axis=1) * strength)
        self.n_effective_latent_ = int((carried > EFFECTIVE * carried.sum()).sum())

    def _attributes_at(self, params: Embedding) -> dict[str, Any]:
        """Attributes of an estimator that stopped at `params`."""
        return attributes_if_stopped(self, self._set_fitted_attributes, params_=params)
