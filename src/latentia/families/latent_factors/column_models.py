r"""The kinds of columns, and the registry of their names.

A new kind is a class and its name in `COLUMN_MODELS`; nothing else needs to know of it. Its `bound`
is its part of the E-step; `e_step_rows` adds up the parts of all columns of a row.

With the quadratic :math:`k - \tfrac12 \sum_h \kappa_h a_h^2 + \sum_h s_h a_h` of `column_contract`:

- `Gaussian` (one predictor): equality, with :math:`\kappa = 1/\theta`, :math:`s = x/\theta`. It
  needs no bound, so the family takes :math:`\theta` out of the sums.
- `Bernoulli` (one predictor): the Jaakkola-Jordan bound of Langseth & Nielsen (2009), eq. 5, in
  which our :math:`\lambda(\xi) = \tanh(\xi/2)/(4\xi)` is minus the paper's: :math:`\kappa =
  2\lambda(\xi)`, :math:`s = t - 1/2`, :math:`k = \lambda\xi^2 - \ln 2\cosh(\xi/2)`, best at
  :math:`\xi^2 = E[a^2]` (their eq. 9 drops w around the mean and takes the prior mean in the cross
  term).
- `Categorical` (one predictor per category): the softmax bound of `logsumexp_bound`, with
  :math:`\xi` and :math:`\gamma` optimal for the moments of the predictors.
- `NegativeBinomial` (one predictor) and `Sequential` (one per step from level to level).

Each but the first has a file of its own.
"""

from __future__ import annotations

import numpy as np

from latentia.arrays.namespace import Array, namespace
from latentia.families.latent_factors.categorical_column import Categorical
from latentia.families.latent_factors.column_contract import ColumnModel
from latentia.families.latent_factors.count_column import NegativeBinomial
from latentia.families.latent_factors.logistic_column import Bernoulli
from latentia.families.latent_factors.ordinal_column import Sequential


class Gaussian(ColumnModel):
    """Continuous columns with normal noise."""

    kind = "continuous"
    is_standardized = True

    def initial_predictors(self, values: Array, observed: Array, weight: Array) -> tuple[Array, Array]:
        xp = namespace(values)
        count = xp.sum(observed * weight, axis=0)
        mean = xp.sum(values * observed * weight, axis=0) / xp.where(count > 0, count, xp.ones_like(count))
        return mean, (values - mean) * observed

    def impute(self, expected: Array, mode: bool) -> Array:
        return expected

    def sample(self, predictors: np.ndarray, noise: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return predictors + np.sqrt(noise) * rng.standard_normal(predictors.shape)

    def example_cells(self, normal: np.ndarray) -> np.ndarray:
        return normal


#: The kinds by the names users give.
COLUMN_MODELS: dict[str, type[ColumnModel]] = {
    model.kind: model for model in (Gaussian, Bernoulli, Categorical, NegativeBinomial, Sequential)
}
