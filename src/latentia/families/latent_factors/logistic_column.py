r"""Columns whose log density is a sum of logistic terms.

.. math::

    \ln p(x \mid a) = c(x) + \sum_h y_h(x) a_h - n_h(x) \ln(1 + e^{a_h}) ,

as that of :math:`n_h` trials, :math:`y_h` of which succeed with the probability
:math:`\sigma(a_h)`. The bound of Jaakkola and Jordan holds for each trial, so the quadratic has the
curvatures :math:`\kappa_h = 2 n_h \lambda(\xi_h)` with :math:`2\lambda(\xi) = \tanh(\xi/2)/(2\xi)`,
the linear coefficients :math:`s_h = y_h - n_h/2` and the constant :math:`c + \sum_h \tfrac12
\kappa_h \xi_h^2 - n_h \ln 2\cosh(\xi_h/2)`. It is below the log density everywhere, touches it at
:math:`\pm\xi`, and is best for Gaussian predictors at :math:`\xi_h^2 = E[a_h^2]`. Numbers of trials
need not be whole.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from latentia.arrays.namespace import Array, namespace
from latentia.families.building_blocks.logsumexp_bound import log_two_cosh, logistic_curvature
from latentia.families.latent_factors.column_contract import (
    CellTerms,
    Quadratic,
    SharedBoundModel,
    example_codes,
    shrink_to_mean,
)


class LogisticColumnModel(SharedBoundModel):
    """Subclasses say what the trials of a cell are."""

    @abstractmethod
    def trials(self, values: Array, observed: Array | None) -> tuple[Array, Array]:
        """Successes and trials (N, H) of the cells; none where a cell is missing."""

    def log_base(self, values: Array, observed: Array | None) -> Array | float:
        """What the log density of the known cells of each row has besides, (N,)."""
        return 0.0

    def bound(self, values: Array, observed: Array | None, mean: Array, variance: Array) -> Quadratic:
        xp = namespace(mean)
        _, n_trials = self.trials(values, observed)
        best = self.approximate_bound(values, observed, mean, variance, {})  # which needs no inner steps
        square = mean * mean + variance
        constant = xp.sum(0.5 * best.curvature * square - n_trials * log_two_cosh(xp.sqrt(square)), axis=-1)
        return best._replace(constant=constant + self.log_base(values, observed))

    def approximate_bound(
        self, values: Array, observed: Array | None, mean: Array, variance: Array, warm_start: dict[int, Array]
    ) -> Quadratic:
        xp = namespace(mean)
        successes, n_trials = self.trials(values, observed)
        xi = xp.sqrt(mean * mean + variance)
        return Quadratic(n_trials * logistic_curvature(xi, xp.tanh(xi / 2)), successes - 0.5 * n_trials, 0.0)

    def cell_terms(self, values: Array, observed: Array | None) -> CellTerms:
        successes, n_trials = self.trials(values, observed)
        return CellTerms(n_trials, successes - 0.5 * n_trials, self.log_base(values, observed))

    def shared_bound(self, mean: Array, variance: Array) -> Quadratic:
        xp = namespace(mean)
        xi = xp.sqrt(mean * mean + variance)
        curvature = logistic_curvature(xi, xp.tanh(xi / 2))
        return Quadratic(curvature, xp.zeros_like(xi), 0.5 * curvature * xi * xi - log_two_cosh(xi))

    def log_density(self, values: Array, observed: Array | None, predictors: Array) -> Array:
        xp = namespace(predictors)
        successes, n_trials = self.trials(values, observed)
        softplus = xp.clip(predictors, min=0.0) + xp.log1p(xp.exp(-xp.abs(predictors)))
        return xp.sum(successes * predictors - n_trials * softplus, axis=-1) + self.log_base(values, observed)


class Bernoulli(LogisticColumnModel):
    """Binary columns, values 0 and 1: one trial each."""

    kind = "binary"
    is_coded = True
    n_categories = 2

    def trials(self, values: Array, observed: Array | None) -> tuple[Array, Array]:
        return (values, namespace(values).ones_like(values)) if observed is None else (values * observed, observed)

    def expected(self, mean: Array, variance: Array) -> Array:
        return 0.5 * (1 + namespace(mean).tanh(shrink_to_mean(mean, variance) / 2))

    def initial_predictors(self, values: Array, observed: Array, weight: Array) -> tuple[Array, Array]:
        xp = namespace(values)
        count = xp.sum(observed * weight, axis=0)
        prob = (xp.sum(values * observed * weight, axis=0) + 1.0) / (count + 2.0)
        # the derivative p (1 - p) of the logistic carries a step of the predictor to the value
        return xp.log(prob / (1 - prob)), (values - prob) * observed / (prob * (1 - prob))

    def impute(self, expected: Array, mode: bool) -> Array:
        return namespace(expected).astype(expected > 0.5, expected.dtype) if mode else expected

    def sample(self, predictors: np.ndarray, noise: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        prob = self.expected(predictors, np.zeros_like(predictors))
        return (rng.random(prob.shape) < prob).astype(float)

    def example_cells(self, normal: np.ndarray) -> np.ndarray:
        return example_codes(normal, 2)
