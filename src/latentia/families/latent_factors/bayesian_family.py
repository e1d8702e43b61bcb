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

from typing import Any, NamedTuple

import numpy as np

from latentia.arrays.namespace import Array, log_softmax, namespace
from latentia.engine.contracts import Objective, PosteriorFamily, Problem, WarmStartedFamily
from latentia.engine.rows import MaskedRows, Source
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.families.latent_factors.bayesian_m_step import update_belief
from latentia.families.latent_factors.bound_iteration import BoundRules
from latentia.families.latent_factors.class_moments import ClassMoments
from latentia.families.latent_factors.e_step import infer_posterior
from latentia.families.latent_factors.e_step_complete import RowInvariantPosterior, row_invariant_posterior
from latentia.families.latent_factors.family import LatentFactors
from latentia.families.latent_factors.posterior import (
    BELIEF_CLASS_AXES,
    EXPECTED_CLASS_AXES,
    ExpectedParams,
    FactorBelief,
    FactorPrior,
    divergence,
    expected_params,
)
from latentia.families.latent_factors.principal_start import principal_start
from latentia.families.latent_factors.values import FactorParams, FactorPosterior, FactorStats

#: Counts of a belief that is as good as certain, to take first statistics by.
CERTAIN_COUNT = 1e6


class BeliefCoordinates(NamedTuple):
    """What plain steps move slowly: means, and logs of what is positive."""

    class_mean: Array
    log_class_rate: Array
    weights: Array
    log_noise_rate: Array
    log_precision: Array
    log_bounded_precision: Array
    log_strength: Array


class BayesianLatentFactors(PosteriorFamily, WarmStartedFamily):
    """The posterior of a latent classification model, whose points are those of `model`.

    With `lazy_bounds` the bounds of rows take one round in each sweep and settle as the parameters
    do; otherwise they settle in each sweep.
    """

    params_class_axes = BELIEF_CLASS_AXES
    precomputed_class_axes = EXPECTED_CLASS_AXES
    stats_class_axes = LatentFactors.stats_class_axes

    def __init__(self, model: LatentFactors, prior: FactorPrior | None = None, lazy_bounds: bool = True):
        self.model, self.prior = model, prior or FactorPrior()
        self.lazy_bounds = lazy_bounds
        self.n_classes = model.n_classes

    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> FactorBelief:
        """One M-step from principal axes; restarts differ by small random loadings."""
        belief = self._certain(principal_start(self.model, source, rng, n_restarts))
        return self.update(belief, RowProblem(self, Likelihood(), source).sweep(belief).stats)

    def _certain(self, point: FactorParams) -> FactorBelief:
        """A belief with hardly any spread."""
        xp = namespace(point.means)
        q = point.means.shape[-1]
        n_packed = q * (q + 1) // 2 + q + 1
        many = CERTAIN_COUNT * xp.ones_like(point.means)
        shape = CERTAIN_COUNT * xp.ones_like(point.noise)
        per_factor = xp.ones_like(point.means[..., 0, :])
        return FactorBelief(
            log_prior=point.log_prior,
            mixing=CERTAIN_COUNT * xp.exp(point.log_mix),
            class_mean=point.means,
            class_count=many,
            class_shape=many,
            class_rate=many * point.variances,
            weights=xp.concat([point.loadings, point.offsets[..., None]], axis=-1),
            weight_cov=xp.zeros_like(xp.broadcast_to(point.offsets[..., None], (*point.offsets.shape, n_packed))),
            weight_log_det=xp.zeros_like(point.offsets),
            noise_shape=shape,
            noise_rate=shape * point.noise,
            precision=per_factor,
            bounded_precision=per_factor,
            strength=per_factor,
        )

    def precompute(self, params: FactorBelief) -> ExpectedParams:
        return expected_params(params)

    def with_bounds(self, rules: BoundRules, max_latent: int | None = None) -> BayesianLatentFactors:
        """The same family, whose bounds settle by other rules."""
        return BayesianLatentFactors(self.model.with_bounds(rules, max_latent), self.prior, self.lazy_bounds)

    @property
    def takes_all_labels(self) -> bool:
        return self.model.takes_all_labels

    def infer(
        self,
        params: FactorBelief | ExpectedParams,
        rows: MaskedRows,
        y: Array | None = None,
        memo: dict[str, Any] | None = None,
    ) -> FactorPosterior:
        point, uncertainty = self._expected(params)
        rules = self.model.bound_rules._replace(one_round=self.lazy_bounds and y is not None)
        return infer_posterior(self.model.layout, point, rows, y, rules, uncertainty, memo)

    def _expected(self, params: FactorBelief | ExpectedParams) -> ExpectedParams:
        return params if isinstance(params, ExpectedParams) else self.precompute(params)

    def row_invariant(self, params: FactorBelief) -> RowInvariantPosterior:
        """The posterior of complete continuous rows, as a function of their cells."""
        return row_invariant_posterior(*self.precompute(params))

    def specialized_problem(self, objective: Objective, source: Source) -> Problem | None:
        """Sweeps that do not see the rows (see `class_moments`)."""
        return ClassMoments(self, source) if self.model.needs_moments_only(objective, source) else None

    def statistics(
        self, params: FactorBelief | ExpectedParams, rows: MaskedRows, posterior: FactorPosterior, weight: Array
    ) -> FactorStats:
        point, _ = self._expected(params)
        return self.model.statistics(point, rows, posterior, weight)

    def update(self, params: FactorBelief, stats: FactorStats) -> FactorBelief:
        return update_belief(params, stats, self.prior, self.model.fixed_log_prior is None)

    def move_statistics(self, stats: FactorStats, params: FactorBelief, new: FactorBelief) -> FactorStats:
        return stats.about(params.class_mean, new.class_mean)

    def log_prior(self, params: FactorBelief) -> Array:
        return -divergence(params, self.prior)

    def to_accelerated(self, params: FactorBelief) -> BeliefCoordinates:
        log = namespace(params.weights).log
        return BeliefCoordinates(
            params.class_mean,
            log(params.class_rate),
            params.weights,
            log(params.noise_rate),
            log(params.precision),
            log(params.bounded_precision),
            log(params.strength),
        )

    def from_accelerated(self, coordinates: BeliefCoordinates, params: FactorBelief) -> FactorBelief:
        exp = namespace(params.weights).exp
        return params._replace(
            class_mean=coordinates.class_mean,
            class_rate=exp(coordinates.log_class_rate),
            weights=coordinates.weights,
            noise_rate=exp(coordinates.log_noise_rate),
            precision=exp(coordinates.log_precision),
            bounded_precision=exp(coordinates.log_bounded_precision),
            strength=exp(coordinates.log_strength),
        )

    def floats_per_row(self, params: FactorBelief) -> int:
        return self.model.floats_per_row(expected_params(params).point)

    def predictive(self, params: FactorBelief) -> FactorParams:
        """The point whose density stands for the average over the posterior.

        The spread of class means and variances is added to the variances of the latents. The
        weights, which all rows share, are taken at their means.
        """
        point, _ = self.precompute(params)
        xp = namespace(point.means)
        shape = xp.clip(params.class_shape, min=1.5)
        variances = params.class_rate / (shape - 1.0) * (1.0 + 1.0 / params.class_count)
        return point._replace(variances=variances, log_mix=log_softmax(point.log_mix, axis=-1))

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[Any]:
        """Those of the points, with bounds as tight as theirs."""
        return [
            cls(model, lazy_bounds=False) for model in LatentFactors.examples(n_features, n_classes) if model.all_edges
        ]

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        return self.model.example_rows(rng, n_rows, n_features)
