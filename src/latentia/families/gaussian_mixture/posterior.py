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

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from latentia.arrays.namespace import Array, namespace
from latentia.families.gaussian_mixture.covariance import Covariance, Moments


class GaussianPrior(NamedTuple):
    """What is fixed of the priors; see the module's docstring."""

    pooled_rows: float = 300.0  # g
    unit_rows: float = 3.0  # rows of unit variance that the common covariance is given: beta / nu_0
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

    def start(self, covariance: Array, pooled: Callable[[], Array]) -> Array:
        """The covariance to start from, where rows with gaps suggest the matrix `pooled()` (D,
        D).
        """
        return covariance

    def posterior(self, belief: ComponentBelief, moments: Moments, present: Array) -> ComponentBelief:
        """The posterior given the moments, and the best common covariance and strength.

        One determines the other: with few rows, a round moves the common covariance by a small
        share of the way only. Always as many rounds: a test for their end would let rounding
        decide where a step ends, and one restart wait for another.
        """
        for _ in range(N_ROUNDS):
            belief = self.with_best_prior(self.given_moments(belief, moments), present)
        return belief

    @abstractmethod
    def given_moments(self, belief: ComponentBelief, moments: Moments) -> ComponentBelief:
        """The posterior given the moments, the common covariance and the strength."""

    @abstractmethod
    def with_best_prior(self, belief: ComponentBelief, present: Array) -> ComponentBelief:
        """The best common covariance and strength for the posterior."""

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


#: Rounds of an update. They cost no sweep over the rows; eight take a third of the sweeps of one.
N_ROUNDS = 8

#: Rows of a belief that is as good as certain.
CERTAIN_ROWS = 1e6


def barred_scale(n_rows: Array | float, total: Array, barrier: float) -> Array:
    """The number p that maximizes n ln p - p total - barrier / p."""
    xp = namespace(total)
    return 0.5 * (n_rows + xp.sqrt(n_rows**2 + 4 * barrier * total)) / total
