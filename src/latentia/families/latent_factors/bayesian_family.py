r"""Variational Bayes for latent classification models.

The posterior of parameters and latents is approximated by a product, :math:`q(z, m, y) \, q(W,
\theta) \, q(\mu, \Gamma) \, q(\pi)`, each factor conjugate given the others (Ghahramani & Beal
1999, "Variational inference for Bayesian mixtures of factor analysers"). The loop is EM's: the
E-step takes expectations over the parameters where EM has points, the M-step adds the priors'
statistics to the rows'. Where we differ: classes share the loadings and differ in the prior of z,
whose means and variances are pulled towards what the classes have in common; relevances and pulls
are set where the bound is largest rather than given a posterior.

One fit with generous sizes replaces the search over them: factors that no column needs lose their
loadings. The limits are laws: with infinitely many pooled rows all classes share one covariance,
and with many rows of data the posterior is the maximum-likelihood point.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from latentia.engine.contracts import EMFamily
from latentia.engine.objectives import Likelihood
from latentia.engine.problem import RowProblem
from latentia.engine.source import MaskedRows, Source
from latentia.families.latent_factors.bayesian_m_step import update_belief
from latentia.families.latent_factors.e_step_rows import infer_rows
from latentia.families.latent_factors.family import LatentFactors
from latentia.families.latent_factors.posterior import FactorBelief, FactorPrior, Uncertainty, class_axes
from latentia.families.latent_factors.principal_start import principal_start
from latentia.families.latent_factors.values import FactorParams, FactorPosterior, FactorStats
from latentia.numerics.array_api import Array, namespace
from latentia.numerics.logspace import log_softmax, logsumexp_and_softmax


class BayesianLatentFactors(EMFamily):
    """The posterior of a latent classification model, whose points are those of `model`."""

    params_class_axes = class_axes()
    stats_class_axes = LatentFactors.stats_class_axes

    def __init__(self, model: LatentFactors, prior: FactorPrior | None = None):
        self.model, self.prior = model, prior or FactorPrior()
        self.n_classes = model.n_classes

    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> FactorBelief:
        """One M-step from principal axes; restarts differ by small random loadings."""
        point = principal_start(self.model, source, rng, n_restarts)
        belief = self._certain(point)
        return self.update(belief, RowProblem(self, Likelihood(), source).sweep(belief).stats)

    def _certain(self, point: FactorParams) -> FactorBelief:
        """A belief without spread, to take first statistics by."""
        xp = namespace(point.means)
        q = point.means.shape[-1]
        n_packed = q * (q + 1) // 2 + q + 1
        weights = xp.zeros_like(xp.broadcast_to(point.offsets[..., None], (*point.offsets.shape, n_packed)))
        uncertainty = Uncertainty(xp.zeros_like(point.log_prior), xp.zeros_like(point.noise), weights)
        ones, per_factor = xp.ones_like(point.means), xp.ones_like(point.means[..., 0, :])
        return FactorBelief(
            point, uncertainty, ones, ones, per_factor, per_factor, per_factor, xp.zeros_like(point.log_prior[..., 0])
        )

    def infer(self, params: FactorBelief, rows: MaskedRows, y: Array | None = None) -> FactorPosterior:
        model = self.model
        posterior = infer_rows(
            model.layout, params.point, rows, model.bound_tol, model.bound_max_iter, params.uncertainty
        )
        log_joint, component = logsumexp_and_softmax(
            namespace(posterior.scores).asarray(posterior.scores, copy=True), axis=-2
        )
        return FactorPosterior(log_joint, component, posterior)

    def statistics(
        self, params: FactorBelief, rows: MaskedRows, posterior: FactorPosterior, weight: Array
    ) -> FactorStats:
        return self.model.statistics(params.point, rows, posterior, weight)

    def update(self, params: FactorBelief, stats: FactorStats) -> FactorBelief:
        return update_belief(params, stats, self.prior, self.model.fixed_log_prior is None)

    def log_prior(self, params: FactorBelief) -> Array:
        return params.negative_kl

    def floats_per_row(self, params: FactorBelief) -> int:
        return self.model.floats_per_row(params.point)

    def predictive(self, params: FactorBelief) -> FactorParams:
        """The point whose density stands for the average over the posterior.

        The spread of class means and variances is added to the variances of the latents. The
        weights, which all rows share, are taken at their means.
        """
        xp = namespace(params.point.means)
        shape = xp.clip(params.class_shape, min=1.5)
        variances = params.point.variances * shape / (shape - 1.0) * (1.0 + 1.0 / params.class_count)
        return params.point._replace(variances=variances, log_mix=log_softmax(params.point.log_mix, axis=-1))

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[Any]:
        """Those of the points, with bounds as tight as theirs."""
        return [cls(model) for model in LatentFactors.examples(n_features, n_classes) if model.all_edges]

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        return self.model.example_rows(rng, n_rows, n_features)
