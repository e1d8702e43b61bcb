r"""Gamma priors of precisions, and what they add to a variational bound.

A precision :math:`\alpha` of normal entries e has the prior :math:`G(a_0, b_0)`, by shape and rate,
and the posterior :math:`q(\alpha) = G(a, b)`. Its terms of the bound are

.. math:: E[\ln p(e | \alpha)] + E[\ln p(\alpha)] - E[\ln q(\alpha)]

with :math:`E[\alpha] = a / b` and :math:`E[\ln\alpha] = \psi(a) - \ln b`. With annealing at the
inverse temperature :math:`\beta` the entropy counts :math:`1 / \beta` times, and :math:`a = \beta
(a_0 - 1 + n / 2) + 1` for n entries.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy import special as scalars

from latentia.arrays.namespace import Array, digamma, log_gamma, namespace


class GammaPrior(NamedTuple):
    """A gamma density by shape and rate."""

    shape: float = 1.0
    rate: float = 1.0

    def posterior_shape(self, count: int, beta: float = 1.0) -> float:
        """Shape of the posterior of the precision of `count` entries."""
        return beta * (self.shape - 1 + count / 2) + 1

    def precision(self, rate: Array, count: int, beta: float = 1.0) -> Array:
        """Posterior mean of the precisions of groups of `count` entries."""
        return self.posterior_shape(count, beta) / rate

    def log_prior(self, rate: Array, count: int, square: Array, beta: float = 1.0) -> Array:
        """Bound terms of each group of `count` entries, without log 2 pi.

        `rate` is that of the posterior, `square` the sum of E[e^2] over the group.
        """
        return self.bound_terms(self.posterior_shape(count, beta), rate, beta, count, square)

    def bound_terms(
        self, shape: Array | float, rate: Array, beta: float = 1.0, count: int = 0, square: Array | float = 0.0
    ) -> Array:
        """The same for any shape, a number or an array; without entries, of the precision alone."""
        xp = namespace(rate)
        digamma, log_gamma = _digamma_and_log_gamma(shape)
        # the mean of the log, where the appendix of Gönen's paper has the log of the mean
        mean, log_mean = shape / rate, digamma - xp.log(rate)
        constant = self.shape * math.log(self.rate) - math.lgamma(self.shape)
        expected = constant + (self.shape - 1 + count / 2) * log_mean - mean * (self.rate + square / 2)
        entropy = shape - xp.log(rate) + (log_gamma + (1 - shape) * digamma)
        return expected + entropy / beta


def _digamma_and_log_gamma(shape: Array | float) -> tuple[Array, Array]:
    if isinstance(shape, float):  # in double precision, whatever the arrays are in
        return float(scalars.digamma(shape)), math.lgamma(shape)
    return digamma(shape), log_gamma(shape)
