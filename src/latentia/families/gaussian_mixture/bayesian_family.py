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

from latentia.arrays.linalg import eigh
from latentia.arrays.namespace import (
    Array,
    asarray_like,
    digamma,
    log_gamma,
    log_softmax,
    namespace,
    safe_log,
    to_numpy,
)
from latentia.engine.contracts import PosteriorFamily, RememberingFamily
from latentia.engine.rows import Chunk, MaskedRows, Source
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.families.gaussian_mixture.conjugate_priors import conjugate_prior
from latentia.families.gaussian_mixture.covariance import Moments
from latentia.families.gaussian_mixture.family import GaussianMixtures, GaussianParams, GaussianPosterior
from latentia.families.gaussian_mixture.known_columns import KnownColumns
from latentia.families.gaussian_mixture.posterior import ComponentBelief, GaussianPrior

#: Rows of each label that the start of the covariances is taken from.
SAMPLE_ROWS = 2000

#: Share of the variances that the start of a covariance matrix has at least on every axis.
MIN_EIGENVALUE = 0.05


class GaussianBelief(NamedTuple):
    """The posterior of a Gaussian mixture's parameters."""

    log_prior: Array  # (..., C) of the classes, a point
    shares: Array  # (..., C, K) Dirichlet shapes; one for padding
    components: ComponentBelief


class BeliefCoordinates(NamedTuple):
    """What plain steps move slowly."""

    means: Array
    covariance: Array  # in the accelerated coordinates of its type


class BayesianGaussianMixtures(PosteriorFamily, RememberingFamily):
    """The posterior of Gaussian mixtures, whose points are those of `model`.

    `empty_columns`, a mask, says which columns have no value and do not count.
    """

    def __init__(
        self, model: GaussianMixtures, prior: GaussianPrior | None = None, empty_columns: np.ndarray | None = None
    ):
        self.model, self.empty_columns = model, empty_columns
        # a table of empty columns alone keeps them: there is nothing that they could disturb
        self.known = None
        if empty_columns is not None and not empty_columns.all():
            self.known = KnownColumns(~empty_columns, model.covariance_type)
        conjugate = conjugate_prior(model.covariance_type, prior or GaussianPrior())
        if conjugate is None:
            raise ValueError(f"{type(model.covariance_type).__name__} has no conjugate prior.")
        self.conjugate = conjugate
        self.n_classes = model.n_classes
        # sweeps cut what is precomputed, never the belief itself
        self.params_class_axes = GaussianBelief(-1, -2, ComponentBelief(-3, -3, None, None, None, None))
        self.stats_class_axes = model.stats_class_axes

    @property
    def precomputed_class_axes(self) -> GaussianParams:
        return self.model.precomputed_class_axes

    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> GaussianBelief:
        """One M-step from the start of the points."""
        point = self.model.init(source, rng, n_restarts)
        sample = source.sample_rows(SAMPLE_ROWS, rng)
        means, covariance = point.means, point.covariance
        if self.known is not None:
            means, covariance = self.known.select(means), self.known.select_covariance(covariance)

        def pooled() -> Array:
            matrix = asarray_like(pooled_covariance(sample), point.means)
            return matrix if self.known is None else self.known.select_matrix(matrix)

        belief = GaussianBelief(
            point.log_prior,
            1.0 + 1e6 * namespace(point.means).exp(point.log_weights),
            self.conjugate.certain(means, self.conjugate.start(covariance, pooled)),
        )
        return self.update(belief, RowProblem(self, Likelihood(), source).sweep(belief).stats)

    def precompute(self, params: GaussianBelief) -> GaussianParams:
        means, expected = params.components.means, self.conjugate.expectation(params.components)
        covariance, cells = expected.covariance, expected.cell_constant
        if self.known is not None:
            means, cells = self.known.embed(means), self.known.embed(cells)
            covariance = self.known.embed_covariance(covariance)
        log_weights = self._expected_log_shares(params.shares) + expected.row_constant
        point = self.model.precompute(GaussianParams(params.log_prior, log_weights, means, covariance))
        return point._replace(natural=self.model.covariance_type.shift_cells(point.natural, cells))

    def infer(
        self,
        params: GaussianBelief | GaussianParams,
        rows: MaskedRows,
        y: Array | None = None,
        memo: dict[str, Any] | None = None,
    ) -> GaussianPosterior:
        return self.model.infer(self._as_point(params), rows, y, memo)

    def statistics(
        self, params: GaussianBelief | GaussianParams, rows: MaskedRows, posterior: GaussianPosterior, weight: Array
    ) -> Moments:
        return self.model.statistics(self._as_point(params), rows, posterior, weight)

    def _as_point(self, params: GaussianBelief | GaussianParams) -> GaussianParams:
        return params if isinstance(params, GaussianParams) else self.precompute(params)

    def update(self, params: GaussianBelief, stats: Moments) -> GaussianBelief:
        xp = namespace(stats.first)
        log_prior = params.log_prior
        if self.model.fixed_log_prior is None:
            in_class = xp.sum(stats.count, axis=-1)
            log_prior = safe_log(in_class / xp.sum(in_class, axis=-1, keepdims=True))
        shares = xp.where(self._is_present(stats.count), self._prior_shares(stats.count) + stats.count, 1.0)
        moments = stats if self.known is None else self.known.select_moments(stats)
        return GaussianBelief(
            log_prior, shares, self.conjugate.posterior(params.components, moments, self._present(shares))
        )

    def log_prior(self, params: GaussianBelief) -> Array:
        kl = self.conjugate.divergence(params.components, self._present(params.shares))
        return -(kl + self._shares_divergence(params.shares))

    def _present(self, like: Array) -> Array:
        return asarray_like(self.model.present, like)

    def _is_present(self, like: Array) -> Array:
        return asarray_like(self.model.present, like, dtype=namespace(like).bool)

    def _prior_shares(self, like: Array) -> Array:
        """Shapes of Dir(1/K), (C, K)."""
        sizes = asarray_like(self.model.n_components, like)
        return (1.0 / sizes)[:, None] + namespace(like).zeros_like(like)

    def _expected_log_shares(self, shares: Array) -> Array:
        xp = namespace(shares)
        total = xp.sum(shares * self._present(shares), axis=-1, keepdims=True)
        expected = digamma(shares) - digamma(total)
        return xp.where(self._is_present(shares), expected, xp.full_like(expected, -np.inf))

    def _shares_divergence(self, shares: Array) -> Array:
        """From Dir(1/K), whose shapes sum to one."""
        xp, prior, present = namespace(shares), self._prior_shares(shares), self._present(shares)
        total = xp.sum(shares * present, axis=-1)
        expected = digamma(shares) - digamma(total)[..., None]
        terms = (shares - prior) * expected - log_gamma(shares) + log_gamma(prior)
        return xp.sum(log_gamma(total) + xp.sum(terms * present, axis=-1), axis=-1)

    def to_accelerated(self, params: GaussianBelief) -> BeliefCoordinates:
        components = params.components
        covariance = self.conjugate.expectation(components).covariance
        return BeliefCoordinates(components.means, self.model.covariance_type.to_accelerated(covariance))

    def from_accelerated(self, coordinates: BeliefCoordinates, params: GaussianBelief) -> GaussianBelief:
        components = params.components
        covariance = self.model.covariance_type.from_accelerated(coordinates.covariance)
        rows = components.rows
        scatter = covariance * (rows[..., None, None] if rows.ndim < covariance.ndim else rows)
        components = components._replace(means=coordinates.means, scatter=scatter)
        return params._replace(components=self.conjugate.with_best_prior(components, self._present(params.shares)))

    def floats_per_row(self, params: GaussianBelief) -> int:
        n_gaussians = int(np.prod(params.shares.shape))
        return self.model.covariance_type.floats_per_row(params.components.means.shape[-1]) + 3 * n_gaussians

    def predictive(self, params: GaussianBelief) -> GaussianParams:
        """The mixture that averages over the posterior: its components are Student-t.

        For variances per column that is an approximation: the columns of a row share a scale.
        """
        weights = log_softmax(self._expected_log_shares(params.shares), axis=-1)
        means, (scale, dof) = params.components.means, self.conjugate.predictive(params.components)
        if self.known is not None:
            means, scale = self.known.embed(means), self.known.embed_covariance(scale)
        return GaussianParams(params.log_prior, weights, means, scale, (), dof)

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[Any]:
        """Those of the points, and some with a column that has no value."""
        models, empty = GaussianMixtures.examples(n_features, n_classes), np.arange(n_features) == 1
        return [*(cls(model) for model in models), *(cls(model, empty_columns=empty) for model in models[1::2])]

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        X, y = super().example_rows(rng, n_rows, n_features)
        return X if self.empty_columns is None else np.where(self.empty_columns, np.nan, X), y


def pooled_covariance(sample: Chunk) -> np.ndarray:
    """Covariance within the classes, each entry from the rows that know both cells."""
    values, codes, weight = to_numpy(sample.rows.values).astype(float), to_numpy(sample.y), sample.mean_weight()
    observed = np.ones_like(values) if sample.rows.observed is None else to_numpy(sample.rows.observed).astype(float)
    centered = np.zeros_like(values)
    for label in np.unique(codes):
        here = codes == label
        w = observed[here] * weight[here, None]
        mean = (w * values[here]).sum(axis=0) / np.maximum(w.sum(axis=0), np.finfo(float).tiny)
        centered[here] = (values[here] - mean) * observed[here]
    known = (observed * weight[:, None]).T @ observed
    # one more row of unit variance, and no correlation
    covariance = ((centered * weight[:, None]).T @ centered + np.eye(values.shape[1])) / (known + 1.0)
    roots = np.sqrt(np.diagonal(covariance))
    eigenvalues, axes = eigh(covariance / np.outer(roots, roots))
    raised = (axes * np.maximum(eigenvalues, MIN_EIGENVALUE)) @ axes.T
    return np.asarray(raised * np.outer(roots, roots))
