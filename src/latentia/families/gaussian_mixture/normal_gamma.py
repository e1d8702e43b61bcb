"""The conjugate prior of variances: normal-gamma (see `posterior`)."""

from __future__ import annotations

from latentia.arrays.namespace import Array, digamma, log_gamma, namespace
from latentia.families.gaussian_mixture.covariance import Moments
from latentia.families.gaussian_mixture.posterior import (
    CERTAIN_ROWS,
    ComponentBelief,
    ConjugatePrior,
    Expectation,
    StudentScale,
    barred_scale,
)


class NormalGamma(ConjugatePrior):
    """For a variance per column, or per component: G(g/2, common/2) for its inverse."""

    def certain(self, means: Array, covariance: Array) -> ComponentBelief:
        xp = namespace(means)
        rows = CERTAIN_ROWS * xp.ones_like(covariance)
        first = xp.ones_like(covariance[..., 0, 0, :] if covariance.ndim == means.ndim else covariance[..., 0, 0])
        strength = xp.ones_like(means[..., 0, 0, 0])
        common = self.prior.pooled_rows * first
        return ComponentBelief(means, CERTAIN_ROWS * xp.ones_like(means), rows, rows * covariance, common, strength)

    def given_moments(self, belief: ComponentBelief, moments: Moments) -> ComponentBelief:
        xp, pool = namespace(moments.first), self.type.pool  # type: ignore[attr-defined]
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
