r"""Conjugate posteriors of Gaussian components.

Columns are in standard units about the overall mean. With the precision :math:`\lambda` (a number,
or a matrix :math:`\Lambda` of D columns) of a component,

.. math:: \mu \mid \Lambda \sim N(0, (\kappa \Lambda)^{-1}), \qquad
    \Lambda \sim W(\nu_0, \Psi_0^{-1}) \quad\text{or}\quad \lambda \sim G(g/2, b_0),

so :math:`\kappa` rows at the overall mean and g rows of a common covariance are added to those of
each component, :math:`\nu_0 = g + D - 1`. :math:`\kappa`, and the common covariance :math:`S_0 =
\Psi_0 / \nu_0` or :math:`2 b_0 / g`, are set where they raise the bound most, the latter under a
prior of h rows of unit variance, :math:`|S_0|^{-h/2} \exp(-\tfrac h2 \operatorname{tr} S_0^{-1})`:
where columns are collinear or have few known cells in common, the rows alone would make it vanish.
Expectations that the E-step needs:

.. math::

    E[\ln N(x; \mu, \Lambda^{-1})] = \ln N(x; m, (\nu \Psi^{-1})^{-1})
        + \tfrac12 \left(\sum_{i=1}^D \psi(\tfrac{\nu + 1 - i}{2}) + D \ln \tfrac2\nu\right)
        - \tfrac{D}{2 \kappa_n} ,

which holds for the known cells of a row with the missing ones integrated out, too; and for a
variance of its own for each column, :math:`\tfrac12(\psi(a) - \ln a) - \tfrac1{2\kappa_n}` for each
known cell.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from latentia.families.gaussian_mixture.covariance import Covariance, Diagonal, Moments
from latentia.families.gaussian_mixture.covariance_types import Spherical, Tied
from latentia.families.gaussian_mixture.full_covariance import Full
from latentia.numerics.array_api import Array, asarray_like, eye_like, namespace, transpose
from latentia.numerics.linalg import spd_inverse, symmetric
from latentia.numerics.special import digamma, log_gamma


class GaussianPrior(NamedTuple):
    """What is fixed of the priors; see the module's docstring."""

    pooled_rows: float = 300.0  # g
    unit_rows: float = 1.0  # rows of unit variance that the common covariance is given: beta / nu_0
    strength_shape: float = 3.0  # the density of kappa is kappa^shape exp(-rate kappa)
    strength_rate: float = 3.0


class ComponentBelief(NamedTuple):
    """Posteriors of means and precisions, and the priors' common covariance and strength.

    `rows` and `scatter` are the parameters of the precisions: 2 a and 2 b of a gamma posterior, nu
    and Psi of a Wishart one.
    """

    means: Array  # (..., C, K, D)
    count: Array  # (..., C, K, D) or (..., C, K, 1): rows that a mean rests on, the prior's included
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

    def start(self, covariance: Array, pooled: Array) -> Array:
        """The covariance to start from, where rows with gaps suggest the matrix `pooled` (D, D)."""
        return covariance

    @abstractmethod
    def posterior(self, belief: ComponentBelief, moments: Moments, present: Array) -> ComponentBelief:
        """The posterior given the moments, then the best common covariance and strength."""

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


#: Rows of a belief that is as good as certain.
CERTAIN_ROWS = 1e6


class NormalGamma(ConjugatePrior):
    """For a variance per column, or per component: G(g/2, common/2) for its inverse."""

    def certain(self, means: Array, covariance: Array) -> ComponentBelief:
        xp = namespace(means)
        rows = CERTAIN_ROWS * xp.ones_like(covariance)
        first = xp.ones_like(covariance[..., 0, 0, :] if covariance.ndim == means.ndim else covariance[..., 0, 0])
        strength = xp.ones_like(means[..., 0, 0, 0])
        common = self.prior.pooled_rows * first
        return ComponentBelief(means, CERTAIN_ROWS * xp.ones_like(means), rows, rows * covariance, common, strength)

    def posterior(self, belief: ComponentBelief, moments: Moments, present: Array) -> ComponentBelief:
        xp, pool = namespace(moments.first), self.type.pool  # type: ignore[attr-defined]
        count = belief.strength[..., None, None, None] + moments.n_observed
        means = moments.first / count
        rows = self.prior.pooled_rows + pool(moments.n_observed)
        scatter = self._spread_out(belief) + xp.clip(pool(moments.second - count * means * means), min=0.0)
        belief = belief._replace(means=means, count=count, rows=rows, scatter=scatter)
        here = present[..., None] if self._per_column(belief) else present
        total = xp.sum(rows / scatter * here, axis=(-3, -2) if self._per_column(belief) else (-2, -1))
        n = self.prior.pooled_rows * xp.sum(present)
        common = _barred_scale(n - self.prior.unit_rows, total, self.prior.unit_rows * self.prior.pooled_rows)
        squares = xp.sum(self._mean_squares(belief) * present[..., None], axis=(-3, -2, -1))
        strength = self._best_strength(squares, xp.sum(present) * means.shape[-1])
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

    def certain(self, means: Array, covariance: Array) -> ComponentBelief:
        xp, D = namespace(means), means.shape[-1]
        rows = CERTAIN_ROWS * xp.ones_like(covariance[..., 0, 0])
        ones = xp.ones_like(means[..., 0, 0, :])
        common = self._prior_rows(D) * ones[..., None] * eye_like(D, means)
        count = CERTAIN_ROWS * xp.ones_like(means[..., :1])
        return ComponentBelief(means, count, rows, rows[..., None, None] * covariance, common, ones[..., 0])

    def start(self, covariance: Array, pooled: Array) -> Array:
        return pooled + namespace(covariance).zeros_like(covariance)

    def posterior(self, belief: ComponentBelief, moments: Moments, present: Array) -> ComponentBelief:
        xp, D = namespace(moments.first), moments.first.shape[-1]
        pool = self.type.pool  # type: ignore[attr-defined]
        count = (belief.strength[..., None, None] + moments.count)[..., None]
        means = moments.first / count
        rows = self._prior_rows(D) + pool(moments.count[..., None, None])[..., 0, 0]
        outer = pool(count[..., None] * means[..., :, None] * means[..., None, :])
        scatter = symmetric(self._spread_out(belief.common) + moments.second - outer)
        belief = belief._replace(means=means, count=count, rows=rows, scatter=scatter)
        inverse, _ = spd_inverse(scatter)
        precision = rows[..., None, None] * inverse
        n_groups, total = 1.0, precision
        if not self._tied:
            n_groups, total = xp.sum(present), xp.sum(precision * present[..., None, None], axis=(-4, -3))
        values, axes = xp.linalg.eigh(symmetric(total))
        values = xp.clip(values, min=float(xp.finfo(values.dtype).smallest_normal) ** 0.5)
        n, unit = n_groups * self._prior_rows(D), self.prior.unit_rows
        # the maximum has the axes of the mean precision
        best = _barred_scale(n - unit, values, unit * self._prior_rows(D))
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
        if self._tied:  # that of a row's component, whichever it is
            count = belief.count[..., 0]
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
        per_component = self.type.per_component(precision)  # type: ignore[attr-defined]
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


def _barred_scale(n_rows: Array | float, total: Array, barrier: float) -> Array:
    """The number p that maximizes n ln p - p total - barrier / p."""
    xp = namespace(total)
    return 0.5 * (n_rows + xp.sqrt(n_rows**2 + 4 * barrier * total)) / total


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
