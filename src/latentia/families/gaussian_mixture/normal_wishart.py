"""The conjugate prior of covariance matrices: normal-Wishart (see `posterior`)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from latentia.arrays.linalg import eigh, spd_inverse, symmetric
from latentia.arrays.namespace import Array, asarray_like, digamma, eye_like, log_gamma, namespace, transpose
from latentia.families.gaussian_mixture.covariance import Moments
from latentia.families.gaussian_mixture.posterior import (
    CERTAIN_ROWS,
    ComponentBelief,
    ConjugatePrior,
    Expectation,
    StudentScale,
    barred_scale,
)


class NormalWishart(ConjugatePrior):
    """For a matrix per component, or one that all share."""

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
        pool = self.type.pool  # type: ignore[attr-defined]
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
        n_groups, total = 1.0, precision
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
