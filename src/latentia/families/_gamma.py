r"""Gamma hyper-priors of the precisions of groups of normal entries.

.. math:: \phi \sim G(a, b), \quad e_1..e_n | \phi \sim N(0, 1/\phi), \quad q(\phi) = G(a + n / 2,\ b + \tfrac12 \textstyle\sum_i E[e_i^2]),

shapes and rates. At an inverse temperature :math:`\beta` all that is expected under q counts :math:`\beta` times beside its entropy.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy.special import digamma, gammaln

from latentia._arrays import Array, namespace


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
        """Bound terms of each group: its hyper-prior, the entropy of the precision, and E log p(entries) without log 2 pi.

        `rate` is that of the posterior, `square` the sum of E[e^2] over the group.
        """
        xp = namespace(rate)
        shape = self.posterior_shape(count, beta)
        # the mean of the log, where the appendix of Gönen's paper has the log of the mean
        mean, log_mean = shape / rate, float(digamma(shape)) - xp.log(rate)
        constant = self.shape * math.log(self.rate) - float(gammaln(self.shape))
        expected = constant + (self.shape - 1 + count / 2) * log_mean - mean * (self.rate + square / 2)
        entropy = shape - xp.log(rate) + float(gammaln(shape) + (1 - shape) * digamma(shape))
        return expected + entropy / beta
