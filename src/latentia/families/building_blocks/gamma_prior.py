r"""Multimodal softmax by maximum likelihood or MAP, and the starts that variational Bayes takes from it.

.. math:: J(w) = \sum_n \ln \sum_{i \in \sigma(d_n)} e^{w_i^T x_n} - \ln \sum_j e^{w_j^T x_n} - \tfrac{\rho}{2} \sum_i |w_i|^2

with the gradient :math:`\sum_n (t_{in} - p_{in}) x_n - \rho w_i`, t and p being the subclass probabilities given the label and without it. With one subclass per class
and :math:`\rho = 0` this is multinomial logistic regression. Adding one vector to all weights changes nothing; the contrasts are identified.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from latentia.numerics.array_api import Array, asarray_like, namespace


def ridge_of(ridge: Any, weights: Array) -> Array:
    """A precision for all weights, or one for each vector (..., W), beside weights (..., W, D)."""
    return asarray_like(ridge, weights) if np.ndim(ridge) == 0 else ridge[..., None]


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
