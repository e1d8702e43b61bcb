r"""Variational Bayes for Gaussian mixtures (Bishop 2006, section 10.2), the components of all
classes pulled towards a common mean and covariance.

The loop is EM's. The E-step takes expectations over the parameters where EM has points, and the
M-step adds the priors' statistics to the rows'. Shares of components have the prior
:math:`\mathrm{Dir}(1/K)`, which empties components that are not needed. With infinitely many pooled
rows all components share one covariance; with none, and many rows of data, the posterior is the
maximum-likelihood point.

**Priors.** Columns are in standard units about the overall mean. With the precision :math:`\lambda`
(a number, or a matrix :math:`\Lambda` of D columns) of a component,

.. math:: \mu \mid \Lambda \sim N(0, (\kappa \Lambda)^{-1}), \qquad
    \Lambda \sim W(\nu_0, \Psi_0^{-1}) \quad\text{or}\quad \lambda \sim G(g/2, b_0),

so :math:`\kappa` rows at the overall mean and g rows of a common covariance are added to those of
each component, :math:`\nu_0 = g + D - 1`. :math:`\kappa`, and the common covariance :math:`S_0 =
\Psi_0 / \nu_0` or :math:`2 b_0 / g`, are set where they raise the bound most, the latter under a
prior of h rows of unit variance, :math:`|S_0|^{-h/2} \exp(-\tfrac h2 \operatorname{tr} S_0^{-1})`:
where columns are collinear or have few known cells in common, the rows alone would make it vanish.

**Expectations** that the E-step needs:

.. math::

    E[\ln N(x; \mu, \Lambda^{-1})] = \ln N(x; m, (\nu \Psi^{-1})^{-1})
        + \tfrac12 \left(\sum_{i=1}^D \psi(\tfrac{\nu + 1 - i}{2}) + D \ln \tfrac2\nu\right)
        - \tfrac{D}{2 \kappa_n} ,

which holds for the known cells of a row with the missing ones integrated out, too; and for a
variance of its own for each column, :math:`\tfrac12(\psi(a) - \ln a) - \tfrac1{2\kappa_n}` for each
known cell.

**Columns without any value** say nothing of a component, but the degrees of freedom of a matrix of
one more row and column and the strength of the means' prior would count them. So beliefs are about
the known columns alone; where rows are read, the others have the mean zero and a unit variance of
their own.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np

from latentia.arrays.linalg import eigh, spd_inverse, symmetric
from latentia.arrays.namespace import (
    Array,
    asarray_like,
    digamma,
    eye_like,
    log_gamma,
    log_softmax,
    namespace,
    safe_log,
    to_numpy,
    transpose,
)
from latentia.engine.contracts import PosteriorFamily
from latentia.engine.rows import Chunk, MaskedRows, Memo, Source
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import Axes, Tree
from latentia.families.gaussian_mixture.covariance import Covariance, Diagonal, Full, Moments
from latentia.families.gaussian_mixture.family import (
    GaussianMixtures,
    GaussianParams,
    GaussianPosterior,
    Spherical,
    Tied,
)

#: Rows of each label that the start of the covariances is taken from.
SAMPLE_ROWS = 2000

#: Share of the variances that the start of a covariance matrix has at least on every axis.
MIN_EIGENVALUE = 0.05


class GaussianBelief(NamedTuple):
    """The posterior of a Gaussian mixture's parameters."""

    log_prior: Array  # (..., C) of the classes, a point
    shares: Array  # (..., C, K) Dirichlet shapes; one for padding
    components: ComponentBelief
    point: GaussianParams | tuple[()] = ()  # what follows from the above, for the time of a sweep


class BeliefCoordinates(NamedTuple):
    """What plain steps move slowly."""

    means: Array
    covariance: Array  # in the accelerated coordinates of its type


class BayesianGaussianMixtures(PosteriorFamily[GaussianBelief, Moments, GaussianPosterior]):
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
        self.params_class_axes = (-1, -2, (-3, -3, None, None, None, None), ())
        self.stats_class_axes = model.stats_class_axes

    @property
    def precomputed_class_axes(self) -> Axes:
        """Sweeps cut the point alone, not the belief that it stands for."""
        return (None, None, (None,) * 6, self.model.precomputed_class_axes)

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

    def precompute(self, params: GaussianBelief) -> GaussianBelief:
        return params._replace(point=self._point(params))

    def _point(self, params: GaussianBelief) -> GaussianParams:
        """The point that rows see."""
        if not isinstance(params.point, GaussianParams):
            return self._expected_point(params)
        return params.point

    def _expected_point(self, params: GaussianBelief) -> GaussianParams:
        means, expected = params.components.means, self.conjugate.expectation(params.components)
        covariance, cells = expected.covariance, expected.cell_constant
        if self.known is not None:
            means, cells = self.known.embed(means), self.known.embed(cells)
            covariance = self.known.embed_covariance(covariance)
        log_weights = self._expected_log_shares(params.shares) + expected.row_constant
        point = self.model.precompute(GaussianParams(params.log_prior, log_weights, means, covariance))
        return point._replace(natural=self.model.covariance_type.shift_cells(point.natural, cells))

    def infer(
        self, params: GaussianBelief, rows: MaskedRows, y: Array | None = None, memo: Memo | None = None
    ) -> GaussianPosterior:
        return self.model.infer(self._point(params), rows, y, memo)

    def statistics(
        self, params: GaussianBelief, rows: MaskedRows, posterior: GaussianPosterior, weight: Array
    ) -> Moments:
        return self.model.statistics(self._point(params), rows, posterior, weight)

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

    def from_accelerated(self, coordinates: Tree, params: GaussianBelief) -> GaussianBelief:
        assert isinstance(coordinates, BeliefCoordinates)
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
    def examples(cls, n_features: int, n_classes: int) -> list[Self]:
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
    eigenvalues, axes = map(to_numpy, eigh(covariance / np.outer(roots, roots)))
    raised = (axes * np.maximum(eigenvalues, MIN_EIGENVALUE)) @ axes.T
    return np.asarray(raised * np.outer(roots, roots))


class GaussianPrior(NamedTuple):
    """What is fixed of the priors; see the module's docstring."""

    pooled_rows: float = 300.0  # g
    unit_rows: float = 3.0  # rows of unit variance that the common covariance is given: beta / nu_0
    strength_shape: float = 3.0  # the density of kappa is kappa^shape exp(-rate kappa)
    strength_rate: float = 3.0


class ComponentBelief(NamedTuple):
    """Posteriors of means and precisions, and the priors' common covariance and strength.

    `rows` and `scatter` are the parameters of the precisions: 2 a and 2 b of a gamma posterior, nu
    and Psi of a Wishart one.
    """

    means: Array  # (..., C, K, D)
    count: Array  # type: ignore[assignment]  # (..., C, K, D) or (..., C, K, 1): rows that a mean rests on, the prior's included
    rows: Array  # (...) as the covariance type has it, without the axes of a matrix
    scatter: Array  # as the covariance type has it
    common: Array  # the prior's scatter: (..., D), (...,) or (..., D, D)
    strength: Array  # (...,) kappa


class Expectation(NamedTuple):
    """What the E-step needs of a belief."""

    covariance: Array  # the inverse of the mean precision
    row_constant: Array  # (..., C, K) added to the score of a row
    cell_constant: Array  # (..., C, K, D) added for each known cell


class StudentScale(NamedTuple):
    """The average of a component over its posterior."""

    scale: Array  # as the covariance type has it
    dof: Array  # (..., C, K)


class ConjugatePrior(ABC):
    """A conjugate prior for one type of covariance; `present` (C, K) is zero for padding."""

    def __init__(self, covariance_type: Covariance, prior: GaussianPrior):
        self.type, self.prior = covariance_type, prior

    @abstractmethod
    def certain(self, means: Array, covariance: Array) -> ComponentBelief:
        """A belief with hardly any spread, to take first statistics by."""

    def start(self, covariance: Array, pooled: Callable[[], Array]) -> Array:
        """The covariance to start from, where rows with gaps suggest the matrix `pooled()` (D,
        D).
        """
        return covariance

    def posterior(self, belief: ComponentBelief, moments: Moments, present: Array) -> ComponentBelief:
        """The posterior given the moments, and the best common covariance and strength.

        One determines the other: with few rows, a round moves the common covariance by a small
        share of the way only. Always as many rounds: a test for their end would let rounding
        decide where a step ends, and one restart wait for another.
        """
        for _ in range(N_ROUNDS):
            belief = self.with_best_prior(self.given_moments(belief, moments), present)
        return belief

    @abstractmethod
    def given_moments(self, belief: ComponentBelief, moments: Moments) -> ComponentBelief:
        """The posterior given the moments, the common covariance and the strength."""

    @abstractmethod
    def with_best_prior(self, belief: ComponentBelief, present: Array) -> ComponentBelief:
        """The best common covariance and strength for the posterior."""

    @abstractmethod
    def expectation(self, belief: ComponentBelief) -> Expectation:
        """Expectations over the posterior."""

    @abstractmethod
    def predictive(self, belief: ComponentBelief) -> StudentScale:
        """What a new row of each component looks like."""

    @abstractmethod
    def divergence(self, belief: ComponentBelief, present: Array) -> Array:
        """Of the posteriors from the priors, less the log density of what was set; (...,)."""

    def _best_strength(self, squares: Array, n_means: Array) -> Array:
        """The best kappa for the expected squares of the means, in their covariances."""
        prior = self.prior
        return (0.5 * n_means + prior.strength_shape) / (0.5 * squares + prior.strength_rate)

    def _strength_density(self, strength: Array) -> Array:
        log = namespace(strength).log(strength)
        return self.prior.strength_shape * log - self.prior.strength_rate * strength


#: Rounds of an update. They cost no sweep over the rows; eight take a third of the sweeps of one.
N_ROUNDS = 8

#: Rows of a belief that is as good as certain.
CERTAIN_ROWS = 1e6


def barred_scale(n_rows: Array | float, total: Array, barrier: float) -> Array:
    """The number p that maximizes n ln p - p total - barrier / p."""
    xp = namespace(total)
    return 0.5 * (n_rows + xp.sqrt(n_rows**2 + 4 * barrier * total)) / total


class NormalGamma(ConjugatePrior):
    """For a variance per column, or per component: G(g/2, common/2) for its inverse."""

    type: Diagonal

    def certain(self, means: Array, covariance: Array) -> ComponentBelief:
        xp = namespace(means)
        rows = CERTAIN_ROWS * xp.ones_like(covariance)
        first = xp.ones_like(covariance[..., 0, 0, :] if covariance.ndim == means.ndim else covariance[..., 0, 0])
        strength = xp.ones_like(means[..., 0, 0, 0])
        common = self.prior.pooled_rows * first
        return ComponentBelief(means, CERTAIN_ROWS * xp.ones_like(means), rows, rows * covariance, common, strength)

    def given_moments(self, belief: ComponentBelief, moments: Moments) -> ComponentBelief:
        xp, pool = namespace(moments.first), self.type.pool
        count = belief.strength[..., None, None, None] + moments.n_observed
        means = moments.first / count
        rows = self.prior.pooled_rows + pool(moments.n_observed)
        scatter = self._spread_out(belief) + xp.clip(pool(moments.second - count * means * means), min=0.0)
        return belief._replace(means=means, count=count, rows=rows, scatter=scatter)

    def with_best_prior(self, belief: ComponentBelief, present: Array) -> ComponentBelief:
        xp = namespace(belief.means)
        here = present[..., None] if self._per_column(belief) else present
        total = xp.sum(belief.rows / belief.scatter * here, axis=(-3, -2) if self._per_column(belief) else (-2, -1))
        n = self.prior.pooled_rows * xp.sum(present)
        common = barred_scale(n - self.prior.unit_rows, total, self.prior.unit_rows * self.prior.pooled_rows)
        squares = xp.sum(self._mean_squares(belief) * present[..., None], axis=(-3, -2, -1))
        strength = self._best_strength(squares, xp.sum(present) * belief.means.shape[-1])
        return belief._replace(common=common, strength=strength)

    def expectation(self, belief: ComponentBelief) -> Expectation:
        xp = namespace(belief.means)
        gap = 0.5 * (digamma(0.5 * belief.rows) - xp.log(0.5 * belief.rows))
        cells = (gap if self._per_column(belief) else gap[..., None]) - 0.5 / belief.count
        return Expectation(belief.scatter / belief.rows, xp.zeros_like(belief.means[..., 0]), cells)

    def predictive(self, belief: ComponentBelief) -> StudentScale:
        xp = namespace(belief.means)
        growth, scale = 1.0 + 1.0 / belief.count, belief.scatter / belief.rows
        if not self._per_column(belief):
            return StudentScale(scale * xp.mean(growth, axis=-1), belief.rows)
        # columns that were seen differently often share the fewest degrees of freedom
        return StudentScale(scale * growth, xp.min(belief.rows, axis=-1))

    def divergence(self, belief: ComponentBelief, present: Array) -> Array:
        xp, prior = namespace(belief.means), self.prior
        here = present[..., None] if self._per_column(belief) else present
        a, a0 = 0.5 * belief.rows, 0.5 * prior.pooled_rows + xp.zeros_like(belief.rows)
        ratio = self._spread_out(belief) / belief.scatter
        kl = (a - a0) * digamma(a) - log_gamma(a) + log_gamma(a0) - a0 * xp.log(ratio) + a * (ratio - 1.0)
        kl = xp.sum(kl * here, axis=(-3, -2, -1) if self._per_column(belief) else (-2, -1))
        variance = belief.common / prior.pooled_rows
        unit = 0.5 * prior.unit_rows * (xp.log(variance) + 1.0 / variance)
        kl = kl + (xp.sum(unit, axis=-1) if self._per_column(belief) else unit)
        kappa = belief.strength[..., None, None, None]
        spread = 0.5 * (kappa * self._mean_squares(belief) - 1.0 - xp.log(kappa / belief.count))
        return kl + xp.sum(spread * present[..., None], axis=(-3, -2, -1)) - self._strength_density(belief.strength)

    def _per_column(self, belief: ComponentBelief) -> bool:
        return bool(belief.scatter.ndim == belief.means.ndim)

    def _spread_out(self, belief: ComponentBelief) -> Array:
        """The common scatter for every component."""
        common = belief.common
        return common[..., None, None, :] if self._per_column(belief) else common[..., None, None]

    def _mean_squares(self, belief: ComponentBelief) -> Array:
        precision = belief.rows / belief.scatter
        precision = precision if self._per_column(belief) else precision[..., None]
        return precision * belief.means**2 + 1.0 / belief.count


class NormalWishart(ConjugatePrior):
    """For a matrix per component, or one that all share."""

    type: Full

    def certain(self, means: Array, covariance: Array) -> ComponentBelief:
        xp, D = namespace(means), means.shape[-1]
        rows = CERTAIN_ROWS * xp.ones_like(covariance[..., 0, 0])
        ones = xp.ones_like(means[..., 0, 0, :])
        common = self._prior_rows(D) * ones[..., None] * eye_like(D, means)
        count = CERTAIN_ROWS * xp.ones_like(means[..., :1])
        return ComponentBelief(means, count, rows, rows[..., None, None] * covariance, common, ones[..., 0])

    def start(self, covariance: Array, pooled: Callable[[], Array]) -> Array:
        return pooled() + namespace(covariance).zeros_like(covariance)

    def given_moments(self, belief: ComponentBelief, moments: Moments) -> ComponentBelief:
        D = moments.first.shape[-1]
        pool = self.type.pool
        count = (belief.strength[..., None, None] + moments.count)[..., None]
        means = moments.first / count
        rows = self._prior_rows(D) + pool(moments.count[..., None, None])[..., 0, 0]
        outer = pool(count[..., None] * means[..., :, None] * means[..., None, :])
        scatter = symmetric(self._spread_out(belief.common) + moments.second - outer)
        return belief._replace(means=means, count=count, rows=rows, scatter=scatter)

    def with_best_prior(self, belief: ComponentBelief, present: Array) -> ComponentBelief:
        xp, D = namespace(belief.means), belief.means.shape[-1]
        inverse, _ = spd_inverse(belief.scatter)
        precision = belief.rows[..., None, None] * inverse
        n_groups, total = xp.ones_like(xp.sum(present)), precision
        if not self._tied:
            n_groups, total = xp.sum(present), xp.sum(precision * present[..., None, None], axis=(-4, -3))
        values, axes = eigh(total)
        values = xp.clip(values, min=float(xp.finfo(values.dtype).smallest_normal) ** 0.5)
        n, unit = n_groups * self._prior_rows(D), self.prior.unit_rows
        # the maximum has the axes of the mean precision
        best = barred_scale(n - unit, values, unit * self._prior_rows(D))
        common = xp.matmul(axes * best[..., None, :], transpose(axes))
        squares = xp.sum(self._mean_squares(belief, precision) * present, axis=(-2, -1))
        return belief._replace(common=common, strength=self._best_strength(squares, xp.sum(present) * D))

    def expectation(self, belief: ComponentBelief) -> Expectation:
        xp, D = namespace(belief.means), belief.means.shape[-1]
        gap = 0.5 * (_expected_log_det(belief.rows, D) - D * xp.log(belief.rows))  # E[ln|.|] - ln|E[.]|
        row = (gap[..., None, None] if self._tied else gap) - 0.5 * D / belief.count[..., 0]
        return Expectation(belief.scatter / belief.rows[..., None, None], row, xp.zeros_like(belief.means))

    def predictive(self, belief: ComponentBelief) -> StudentScale:
        xp, D = namespace(belief.means), belief.means.shape[-1]
        dof, growth = belief.rows - (D - 1), 1.0 + 1.0 / belief.count[..., 0]
        if self._tied:  # that of a row's component, whichever it is; padding and empty ones have no row
            count = belief.count[..., 0] - belief.strength[..., None, None]
            growth = xp.sum(count * growth, axis=(-2, -1)) / xp.sum(count, axis=(-2, -1))
        scale = belief.scatter * (growth / dof)[..., None, None]
        return StudentScale(
            scale, xp.broadcast_to(dof[..., None, None] if self._tied else dof, belief.means.shape[:-1])
        )

    def divergence(self, belief: ComponentBelief, present: Array) -> Array:
        xp, D = namespace(belief.means), belief.means.shape[-1]
        nu, nu0 = belief.rows, self._prior_rows(D)
        inverse, log_det = spd_inverse(belief.scatter)
        precision = nu[..., None, None] * inverse
        common_inverse, common_log_det = spd_inverse(belief.common)
        prior_log_det = common_log_det if self._tied else common_log_det[..., None, None]
        trace = xp.sum(self._spread_out(belief.common) * precision, axis=(-2, -1)) - nu * D
        expected = _expected_log_det(nu, D) - log_det - D * math.log(2.0)
        kl = 0.5 * ((nu - nu0) * expected + trace + nu * log_det - nu0 * prior_log_det)
        kl = kl - _log_multigamma(0.5 * nu, D) + _log_multigamma(0.5 * nu0 + xp.zeros_like(nu), D)
        kl = kl if self._tied else xp.sum(kl * present, axis=(-2, -1))
        kappa = belief.strength[..., None, None]
        squares = self._mean_squares(belief, precision)
        spread = 0.5 * (kappa * squares - D * (1.0 + xp.log(kappa / belief.count[..., 0])))
        trace = nu0 * xp.sum(xp.linalg.diagonal(common_inverse), axis=-1)
        unit = 0.5 * self.prior.unit_rows * (common_log_det - D * math.log(nu0) + trace)
        return kl + xp.sum(spread * present, axis=(-2, -1)) + unit - self._strength_density(belief.strength)

    @property
    def _tied(self) -> bool:
        return self.type.covariance_class_axis is None

    def _prior_rows(self, D: int) -> float:
        return self.prior.pooled_rows + D - 1

    def _spread_out(self, common: Array) -> Array:
        """The common scatter for every matrix."""
        return common if self._tied else common[..., None, None, :, :]

    def _mean_squares(self, belief: ComponentBelief, precision: Array) -> Array:
        xp, D = namespace(belief.means), belief.means.shape[-1]
        per_component = self.type.per_component(precision)
        product = xp.matmul(per_component, belief.means[..., None])[..., 0]
        return xp.sum(belief.means * product, axis=-1) + D / belief.count[..., 0]


def _expected_log_det(nu: Array, D: int) -> Array:
    """Of the precision, without the log determinant of its scale."""
    xp = namespace(nu)
    return xp.sum(digamma(0.5 * (nu[..., None] - _integers(D, nu))), axis=-1) + D * math.log(2.0)


def _log_multigamma(a: Array, D: int) -> Array:
    """Log of the multivariate gamma function."""
    xp = namespace(a)
    total = xp.sum(log_gamma(a[..., None] - 0.5 * _integers(D, a)), axis=-1)
    return total + 0.25 * D * (D - 1) * math.log(math.pi)


def _integers(n: int, like: Array) -> Array:
    return asarray_like(np.arange(n, dtype=float), like)


#: By exact type: what a subclass pools or shares another way needs a prior of its own.
CONJUGATE_PRIORS: dict[type[Covariance], type[ConjugatePrior]] = {
    Diagonal: NormalGamma,
    Spherical: NormalGamma,
    Full: NormalWishart,
    Tied: NormalWishart,
}


def conjugate_prior(covariance_type: Covariance, prior: GaussianPrior) -> ConjugatePrior | None:
    """The prior of a type of covariance, if there is one."""
    conjugate = CONJUGATE_PRIORS.get(type(covariance_type))
    return None if conjugate is None else conjugate(covariance_type, prior)


class KnownColumns:
    """Arrays of all columns as arrays of the `known` ones (a mask), and back."""

    def __init__(self, known: np.ndarray, covariance_type: Covariance):
        self.selection = np.eye(known.size)[known]  # (known, D)
        self.empty = np.where(known, 0.0, 1.0)
        self.is_matrix, self.is_number = isinstance(covariance_type, Full), isinstance(covariance_type, Spherical)

    def select(self, a: Array) -> Array:
        """The known columns of the last axis."""
        return namespace(a).matmul(a, transpose(asarray_like(self.selection, a)))

    def select_matrix(self, a: Array) -> Array:
        """The known columns of the last two axes."""
        return transpose(self.select(transpose(self.select(a))))

    def select_covariance(self, a: Array) -> Array:
        return a if self.is_number else self.select_matrix(a) if self.is_matrix else self.select(a)

    def select_moments(self, moments: Moments) -> Moments:
        second = self.select_matrix(moments.second) if self.is_matrix else self.select(moments.second)
        return Moments(moments.count, self.select(moments.n_observed), self.select(moments.first), second)

    def embed(self, a: Array) -> Array:
        """All columns; zero where they are empty."""
        return namespace(a).matmul(a, asarray_like(self.selection, a))

    def embed_covariance(self, a: Array) -> Array:
        """All columns; of unit variance where they are empty."""
        empty = asarray_like(self.empty, a)
        if self.is_number:
            return a
        if self.is_matrix:
            unit = empty[:, None] * asarray_like(np.eye(self.empty.size), a)
            return transpose(self.embed(transpose(self.embed(a)))) + unit
        return self.embed(a) + empty
