r"""Conjugate posteriors of Gaussian components.

Columns are in standard units about the overall mean. With the precision :math:`\lambda` (a number,
or a matrix :math:`\Lambda` of D columns) of a component,

.. math:: \mu \mid \Lambda \sim N(0, (\kappa \Lambda)^{-1}), \qquad
    \Lambda \sim W(\nu_0, \Psi_0^{-1}) \quad\text{or}\quad \lambda \sim G(g/2, b_0),

so :math:`\kappa` rows at the overall mean and g rows of a common covariance are added to those of
each component, :math:`\nu_0 = g + D - 1`. :math:`\kappa`, and the common covariance through
:math:`\Psi_0` or :math:`b_0`, are set where they raise the bound most; the weak prior :math:`\exp(-
\tfrac12 \beta \operatorname{tr} \Psi_0^{-1})` keeps the covariance from vanishing where columns are
collinear. Expectations that the E-step needs:

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

from latentia.families.gaussian_mixture.covariance import Covariance, Diagonal, Moments
from latentia.families.gaussian_mixture.covariance_types import Spherical, Tied
from latentia.families.gaussian_mixture.full_covariance import Full
from latentia.numerics.array_api import Array, eye_like, namespace, transpose
from latentia.numerics.linalg import spd_inverse, symmetric
from latentia.numerics.special import digamma, log_gamma


class GaussianPrior(NamedTuple):
    """What is fixed of the priors; see the module's docstring."""

    pooled_rows: float = 100.0  # g
    barrier: float = 1.0  # beta
    strength_shape: float = 3.0  # the density of kappa is kappa^shape exp(-rate kappa)
    strength_rate: float = 3.0


class ComponentPosterior(NamedTuple):
    """Posterior of means and covariances, and the priors that the next update uses."""

    means: Array  # (..., C, K, D)
    covariance: Array  # inverse of the mean precision, as the covariance type has it
    predictive: Array  # scale of the Student-t of a new row
    dof: Array  # (..., C, K) its degrees of freedom
    row_constant: Array  # (..., C, K) added to the score of a row
    cell_constant: Array  # (..., C, K, D) added for each known cell
    scale: Array  # Psi_0 or b_0
    strength: Array  # (...,) kappa
    kl: Array  # (...,)


class ConjugatePrior(ABC):
    """A conjugate prior for one type of covariance."""

    def __init__(self, covariance_type: Covariance, prior: GaussianPrior):
        self.type, self.prior = covariance_type, prior

    @abstractmethod
    def initial_scale(self, means: Array) -> Array:
        """The prior's scale before rows were seen."""

    @abstractmethod
    def posterior(self, moments: Moments, scale: Array, strength: Array, present: Array) -> ComponentPosterior:
        """The posterior given the moments; `present` (C, K) is zero for padding."""

    def _strength(self, squares: Array, n_means: Array) -> Array:
        """The best kappa for the expected squares of the means, in their covariances."""
        prior = self.prior
        return (0.5 * n_means + prior.strength_shape) / (0.5 * squares + prior.strength_rate)

    def _strength_density(self, strength: Array) -> Array:
        log = namespace(strength).log(strength)
        return self.prior.strength_shape * log - self.prior.strength_rate * strength


class NormalGamma(ConjugatePrior):
    """For a variance per column, or per component."""

    def initial_scale(self, means: Array) -> Array:
        xp = namespace(means)
        per_variance = self.type.initial(xp.ones_like(means))  # (..., C, K, D) or (..., C, K)
        first = per_variance[..., 0, 0, :] if per_variance.ndim == means.ndim else per_variance[..., 0, 0]
        return 0.5 * self.prior.pooled_rows * first

    def posterior(self, moments: Moments, scale: Array, strength: Array, present: Array) -> ComponentPosterior:
        xp, pool = namespace(moments.first), self.type.pool  # type: ignore[attr-defined]
        kappa = strength[..., None, None, None]
        count = kappa + moments.n_observed
        means = moments.first / count
        half = 0.5 * self.prior.pooled_rows
        per_column = scale.ndim == strength.ndim + 1
        b0 = scale[..., None, None, :] if per_column else scale[..., None, None]
        shape = half + 0.5 * pool(moments.n_observed)
        rate = b0 + 0.5 * xp.clip(pool(moments.second - count * means * means), min=0.0)
        precision = shape / rate
        here = present[..., None] if per_column else present
        spread_precision = precision if per_column else precision[..., None]
        # the prior's scale and strength that raise the bound most
        total = xp.sum(precision * here, axis=(-3, -2) if per_column else (-2, -1))
        n_shared = half * xp.sum(present)
        new_scale = (n_shared + xp.sqrt(n_shared**2 + 2 * self.prior.barrier * total)) / (2 * total)
        squares = (spread_precision * means * means + 1.0 / count) * present[..., None]
        n_means = xp.sum(present) * means.shape[-1]
        new_strength = self._strength(xp.sum(squares, axis=(-3, -2, -1)), n_means)
        kl = self._divergence(shape, rate, new_scale, here, per_column)
        kappa = new_strength[..., None, None, None]
        spread = 0.5 * (kappa * squares - present[..., None] * (1.0 + xp.log(kappa / count)))
        kl = kl + xp.sum(spread, axis=(-3, -2, -1)) - self._strength_density(new_strength)
        cell = 0.5 * (digamma(shape) - xp.log(shape))
        cell = (cell if per_column else cell[..., None]) - 0.5 / count
        inflated = rate / shape
        inflated = inflated * (1.0 + 1.0 / count) if per_column else inflated * (1.0 + xp.mean(1.0 / count, axis=-1))
        # columns that were seen differently often share the fewest degrees of freedom
        dof = 2 * (xp.min(shape, axis=-1) if per_column else shape)
        row = xp.zeros_like(moments.count)
        return ComponentPosterior(means, rate / shape, inflated, dof, row, cell, new_scale, new_strength, kl)

    def _divergence(self, shape: Array, rate: Array, scale: Array, present: Array, per_column: bool) -> Array:
        """Of the precisions from their prior, and minus the log density of its scale."""
        xp = namespace(shape)
        half = 0.5 * self.prior.pooled_rows + xp.zeros_like(shape)
        b0 = scale[..., None, None, :] if per_column else scale[..., None, None]
        kl = (shape - half) * digamma(shape) - log_gamma(shape) + log_gamma(half)
        kl = (kl + half * (xp.log(rate) - xp.log(b0)) + shape * (b0 - rate) / rate) * present
        barrier = 0.5 * self.prior.barrier / scale
        barrier = xp.sum(barrier, axis=-1) if per_column else barrier
        return xp.sum(kl, axis=(-3, -2, -1) if per_column else (-2, -1)) + barrier


class NormalWishart(ConjugatePrior):
    """For a matrix per component, or one that all share."""

    def initial_scale(self, means: Array) -> Array:
        xp, D = namespace(means), means.shape[-1]
        ones = xp.ones_like(means[..., 0, 0, :])
        return (self.prior.pooled_rows + D - 1) * ones[..., None] * eye_like(D, means)

    def posterior(self, moments: Moments, scale: Array, strength: Array, present: Array) -> ComponentPosterior:
        xp, D = namespace(moments.first), moments.first.shape[-1]
        pool, spread_out = self.type.pool, self.type.per_component  # type: ignore[attr-defined]
        tied = self.type.covariance_class_axis is None
        prior_scale = scale if tied else scale[..., None, None, :, :]
        count = strength[..., None, None] + moments.count
        means = moments.first / count[..., None]
        nu0 = self.prior.pooled_rows + D - 1
        nu = nu0 + pool(moments.count[..., None, None])[..., 0, 0]
        outer = pool(count[..., None, None] * means[..., :, None] * means[..., None, :])
        psi = symmetric(prior_scale + moments.second - outer)
        inverse, log_det = spd_inverse(psi)
        precision = nu[..., None, None] * inverse
        groups = xp.ones_like(nu) if tied else xp.broadcast_to(present, nu.shape)
        total = precision if tied else xp.sum(precision * groups[..., None, None], axis=(-4, -3))
        n_groups = 1.0 if tied else xp.sum(present)
        new_scale = _barred_scale(total, n_groups * nu0, self.prior.barrier)
        per_mean = xp.matmul(spread_out(precision), means[..., None])[..., 0]
        squares = (xp.sum(means * per_mean, axis=-1) + D / count) * present
        new_strength = self._strength(xp.sum(squares, axis=(-2, -1)), xp.sum(present) * D)
        expected = _expected_log_det(nu, D) - log_det
        kl = self._divergence(nu, nu0, precision, expected, log_det, new_scale, tied)
        kl = kl * groups
        kl = kl if tied else xp.sum(kl, axis=(-2, -1))
        kappa = new_strength[..., None, None]
        spread = 0.5 * (kappa * squares - present * D * (1.0 + xp.log(kappa / count)))
        scale_inverse, _ = spd_inverse(new_scale)
        barrier = 0.5 * self.prior.barrier * xp.sum(xp.linalg.diagonal(scale_inverse), axis=-1)
        kl = kl + xp.sum(spread, axis=(-2, -1)) + barrier - self._strength_density(new_strength)
        gap = 0.5 * (expected + log_det - D * xp.log(nu))  # E[ln |Lambda|] - ln |E[Lambda]|
        row = (gap[..., None, None] if tied else gap) - 0.5 * D / count
        dof = nu - (D - 1)
        growth = 1.0 + 1.0 / count
        growth = xp.mean(growth, axis=(-2, -1))[..., None, None] if tied else growth[..., None, None]
        predictive = psi / dof[..., None, None] * growth
        dof = xp.broadcast_to(dof[..., None, None] if tied else dof, count.shape)
        covariance = psi / nu[..., None, None]
        cells = xp.zeros_like(means)
        return ComponentPosterior(means, covariance, predictive, dof, row, cells, new_scale, new_strength, kl)

    def _divergence(
        self, nu: Array, nu0: float, precision: Array, expected: Array, log_det: Array, scale: Array, tied: bool
    ) -> Array:
        """Of each precision from its prior."""
        xp, D = namespace(nu), precision.shape[-1]
        _, scale_log_det = spd_inverse(scale)
        if not tied:
            scale, scale_log_det = scale[..., None, None, :, :], scale_log_det[..., None, None]
        trace = xp.sum(scale * precision, axis=(-2, -1)) - nu * D
        kl = 0.5 * (nu - nu0) * (expected - D * math.log(2.0)) + 0.5 * trace
        kl = kl + 0.5 * (nu * log_det - nu0 * scale_log_det)
        return kl - _log_multigamma(0.5 * nu, D) + _log_multigamma(0.5 * nu0 + xp.zeros_like(nu), D)


def _expected_log_det(nu: Array, D: int) -> Array:
    """Of the precision, without the log determinant of its scale."""
    return sum(digamma(0.5 * (nu - i)) for i in range(D)) + D * math.log(2.0)


def _log_multigamma(a: Array, D: int) -> Array:
    """Log of the multivariate gamma function."""
    return sum(log_gamma(a - 0.5 * i) for i in range(D)) + 0.25 * D * (D - 1) * math.log(math.pi)


def _barred_scale(total: Array, n_rows: Array | float, barrier: float) -> Array:
    """The matrix P that maximizes n ln|P| - tr(P E) - barrier tr(P^-1), E = `total`.

    With P = E^(-1/2) Y E^(-1/2): n Y - Y^2 + barrier E = 0, so Y has the axes of E.
    """
    xp = namespace(total)
    values, vectors = xp.linalg.eigh(symmetric(total))
    values = xp.clip(values, min=float(xp.finfo(total.dtype).smallest_normal) ** 0.5)
    best = 0.5 * (n_rows + xp.sqrt(n_rows**2 + 4 * barrier * values)) / values
    return xp.matmul(vectors * best[..., None, :], transpose(vectors))


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
