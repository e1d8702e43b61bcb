r"""Counts 0, 1, 2, ...: negative binomial with a logarithmic link.

.. math::

    p(x \mid a) = \frac{\Gamma(x + r)}{\Gamma(r)\, x!} \, \sigma(a)^x (1 - \sigma(a))^r ,
    \qquad E[x \mid a] = r e^a , \quad \operatorname{Var}[x \mid a] = \mu + \mu^2 / r ,

so the logarithm of the mean is linear in the latents. A Poisson column has no quadratic bound,
since :math:`-e^a` falls faster than any; this one is a sum of logistic terms with x successes among
:math:`x + r` trials (see `logistic_column`), and a Poisson column for large r.

The shape r of a column is fixed beforehand. Of what its variance s^2 exceeds its mean
:math:`\mu`, half is left to the latents: :math:`r = 2\mu^2 / (s^2 - \mu)`. It is at least
:math:`\mu / 10` and at most :math:`10 \mu`, where the variance is within a tenth of Poisson's:
beyond, the bound is loose, because its curvature exceeds that of the density ever more (by a factor
of two at either limit).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latentia.arrays.namespace import Array, asarray_like, log_gamma, namespace
from latentia.families.latent_factors.logistic_column import LogisticColumnModel

#: Share of the variance beyond the mean that is left to the latents.
LATENT_SHARE = 0.5

#: Least and largest shape, as multiples of the mean.
MIN_SHAPE, MAX_SHAPE = 0.1, 10.0

#: Logarithm of the largest mean, which float32 holds.
MAX_LOG_MEAN = 60.0


class NegativeBinomial(LogisticColumnModel):
    """Columns of counts; `shapes` says how near they are to Poisson."""

    kind = "count"
    is_count = True
    needs_size = True

    def __init__(self, columns: Sequence[int], shapes: Sequence[float]):
        super().__init__(columns)
        self.shapes = tuple(float(shape) for shape in shapes)

    @classmethod
    def from_columns(cls, columns: Sequence[int], sizes: Sequence[float]) -> NegativeBinomial:
        return cls(columns, sizes)

    @classmethod
    def column_size(cls, cells: np.ndarray, counts: np.ndarray | None = None) -> float:
        """The shape of a column."""
        mean = float(np.average(cells, weights=counts)) if cells.size else 0.0
        if mean <= 0:
            return 1.0
        excess = (1 - LATENT_SHARE) * (float(np.average((cells - mean) ** 2, weights=counts)) - mean)
        return mean * min(max(mean / excess, MIN_SHAPE), MAX_SHAPE) if excess > 0 else mean * MAX_SHAPE

    def trials(self, values: Array, observed: Array | None) -> tuple[Array, Array]:
        n_trials = values + self._shapes(values)
        return (values, n_trials) if observed is None else (values * observed, n_trials * observed)

    def log_base(self, values: Array, observed: Array | None) -> Array:
        xp, shapes = namespace(values), self._shapes(values)
        ways = log_gamma(values + shapes) - log_gamma(shapes + xp.zeros_like(values)) - log_gamma(values + 1.0)
        return xp.sum(ways if observed is None else ways * observed, axis=-1)

    def expected(self, mean: Array, variance: Array) -> Array:
        xp, shapes = namespace(mean), self._shapes(mean)
        return shapes * xp.exp(xp.clip(mean + 0.5 * variance, max=MAX_LOG_MEAN))

    def initial_predictors(self, values: Array, observed: Array, weight: Array) -> tuple[Array, Array]:
        xp = namespace(values)
        count = xp.sum(observed * weight, axis=0)
        mean = (xp.sum(values * observed * weight, axis=0) + 0.5) / (count + 1.0)
        return xp.log(mean / self._shapes(values)), (values - mean) * observed / mean

    def impute(self, expected: Array, mode: bool) -> Array:
        xp = namespace(expected)
        return xp.floor(expected * xp.clip(1.0 - 1.0 / self._shapes(expected), min=0.0)) if mode else expected

    def sample(self, predictors: np.ndarray, noise: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        rate = rng.standard_gamma(self.shapes, predictors.shape) * np.exp(np.minimum(predictors, MAX_LOG_MEAN))
        return rng.poisson(np.minimum(rate, 1e15)).astype(float)

    def example_cells(self, normal: np.ndarray) -> np.ndarray:
        return np.floor(np.abs(normal) * 3)

    def _shapes(self, like: Array) -> Array:
        return asarray_like(self.shapes, like)
