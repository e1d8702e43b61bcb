r"""Variational Bayes for Gaussian mixtures (Bishop 2006, section 10.2), the components of all
classes pulled towards a common mean and covariance.

The loop is EM's. The E-step takes expectations over the parameters where EM has points, and the
M-step adds the priors' statistics to the rows' (`posterior`). Shares of components have the prior
:math:`\mathrm{Dir}(1/K)`, which empties components that are not needed. With infinitely many pooled
rows all components share one covariance; with none, and many rows of data, the posterior is the
maximum-likelihood point.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from latentia.engine.contracts import EMFamily
from latentia.engine.objectives import Likelihood
from latentia.engine.problem import RowProblem
from latentia.engine.source import MaskedRows, Source
from latentia.families.gaussian_mixture.covariance import Moments
from latentia.families.gaussian_mixture.family import GaussianMixtures, GaussianParams, GaussianPosterior
from latentia.families.gaussian_mixture.known_columns import KnownColumnsPrior
from latentia.families.gaussian_mixture.posterior import GaussianPrior, conjugate_prior
from latentia.numerics.array_api import Array, asarray_like, namespace
from latentia.numerics.logspace import log_softmax, safe_log
from latentia.numerics.special import digamma, log_gamma


class GaussianBelief(NamedTuple):
    """The posterior of a Gaussian mixture's parameters."""

    point: GaussianParams  # means, inverse mean precisions, expected log shares
    row_constant: Array  # (..., C, K) added to the score of a row
    cell_constant: Array  # (..., C, K, D) added for each known cell
    predictive: Array  # covariance of a new row
    scale: Any  # what the components' covariances are pulled to
    strength: Array  # (...,) rows at the common mean
    negative_kl: Array  # (...,)


class BayesianGaussianMixtures(EMFamily):
    """The posterior of Gaussian mixtures, whose points are those of `model`.

    `empty_columns`, a mask, says which columns have no value and do not count.
    """

    def __init__(
        self, model: GaussianMixtures, prior: GaussianPrior | None = None, empty_columns: np.ndarray | None = None
    ):
        self.model = model
        conjugate = conjugate_prior(model.covariance_type, prior or GaussianPrior())
        if conjugate is None:
            raise ValueError(f"{type(model.covariance_type).__name__} has no conjugate prior.")
        self.empty_columns = empty_columns
        self.conjugate = conjugate if empty_columns is None else KnownColumnsPrior(conjugate, ~empty_columns)
        self.n_classes = model.n_classes
        axis = model.covariance_type.covariance_class_axis
        self.params_class_axes = GaussianBelief(model.params_class_axes, -2, -3, axis, None, None, None)
        self.stats_class_axes = model.stats_class_axes

    @property
    def precomputed_class_axes(self) -> GaussianBelief:
        return self.params_class_axes._replace(point=self.model.precomputed_class_axes)

    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> GaussianBelief:
        """One M-step from the start of the points."""
        point = self.model.init(source, rng, n_restarts)
        xp = namespace(point.means)
        zeros = xp.zeros_like(point.log_prior[..., 0])
        belief = GaussianBelief(
            point,
            xp.zeros_like(point.log_weights),
            xp.zeros_like(point.means),
            point.covariance,
            self.conjugate.initial_scale(point.means),
            zeros + 1.0,
            zeros,
        )
        return self.update(belief, RowProblem(self, Likelihood(), source).sweep(belief).stats)

    def precompute(self, params: GaussianBelief) -> GaussianBelief:
        point = params.point._replace(log_weights=params.point.log_weights + params.row_constant)
        point = self.model.precompute(point)
        natural = self.model.covariance_type.shift_cells(point.natural, params.cell_constant)
        return params._replace(point=point._replace(natural=natural))

    def infer(self, params: GaussianBelief, rows: MaskedRows, y: Array | None = None) -> GaussianPosterior:
        precomputed = params if params.point.natural else self.precompute(params)
        return self.model.infer(precomputed.point, rows, y)

    def statistics(
        self, params: GaussianBelief, rows: MaskedRows, posterior: GaussianPosterior, weight: Array
    ) -> Moments:
        return self.model.statistics(params.point, rows, posterior, weight)

    def update(self, params: GaussianBelief, stats: Moments) -> GaussianBelief:
        xp = namespace(stats.first)
        present = asarray_like(self.model.present, stats.first)
        posterior = self.conjugate.posterior(stats, params.scale, params.strength, present)
        log_weights, kl = self._shares(stats.count)
        log_prior = params.point.log_prior
        if self.model.fixed_log_prior is None:
            in_class = xp.sum(stats.count, axis=-1)
            log_prior = safe_log(in_class / xp.sum(in_class, axis=-1, keepdims=True))
        point = GaussianParams(log_prior, log_weights, posterior.means, posterior.covariance)
        return GaussianBelief(
            point,
            posterior.row_constant,
            posterior.cell_constant,
            posterior.predictive,
            posterior.scale,
            posterior.strength,
            -(posterior.kl + kl),
        )

    def _shares(self, count: Array) -> tuple[Array, Array]:
        """Expected log shares of the components, and the divergence from Dir(1/K)."""
        xp = namespace(count)
        sizes = asarray_like(self.model.n_components, count)
        present = asarray_like(self.model.present, count, dtype=xp.bool)
        prior = (1.0 / sizes)[:, None] + xp.zeros_like(count)
        zero = xp.zeros_like(count)
        shape = xp.where(present, prior + count, xp.ones_like(count))
        total = xp.sum(xp.where(present, shape, zero), axis=-1)
        expected = digamma(shape) - digamma(total)[..., None]
        terms = (shape - prior) * expected - log_gamma(shape) + log_gamma(prior)
        kl = log_gamma(total) + xp.sum(xp.where(present, terms, zero), axis=-1)  # the prior's shapes sum to one
        padding = xp.full_like(expected, -np.inf)
        return xp.where(present, expected, padding), xp.sum(kl, axis=-1)

    def log_prior(self, params: GaussianBelief) -> Array:
        return params.negative_kl

    def floats_per_row(self, params: GaussianBelief) -> int:
        return self.model.floats_per_row(params.point)

    def predictive(self, params: GaussianBelief) -> GaussianParams:
        """The mixture whose density stands for the average over the posterior.

        A component's average is a Student-t with at least as many degrees of freedom as there are
        pooled rows; it is represented by the normal density of the same covariance.
        """
        point = params.point
        weights = log_softmax(point.log_weights, axis=-1)
        return GaussianParams(point.log_prior, weights, point.means, params.predictive)

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[Any]:
        """Those of the points, and some with a column that has no value."""
        models = GaussianMixtures.examples(n_features, n_classes)
        empty = np.arange(n_features) == 1
        return [*(cls(model) for model in models), *(cls(model, empty_columns=empty) for model in models[1::2])]

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        X, y = super().example_rows(rng, n_rows, n_features)
        return X if self.empty_columns is None else np.where(self.empty_columns, np.nan, X), y
