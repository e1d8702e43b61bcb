r"""The posterior of a latent classification model's parameters, as values.

Priors. With the precision :math:`\lambda = 1/\theta` of a continuous column and the weights
:math:`w = (\text{loadings}, \text{offset})` of a predictor,

.. math::

    \lambda_i \sim G(s_0, r_0), \qquad w_i \mid \lambda_i \sim N(0, (\lambda_i D)^{-1}), \qquad
    D = \operatorname{diag}(\alpha_1, \dots, \alpha_q, \alpha_b),

and :math:`w \sim N(0, D^{-1})` for the predictors of bounded columns, whose :math:`\alpha` are
their own. :math:`\alpha_j` is the *relevance* of factor j (a small one; automatic relevance
determination): where no column needs the factor it grows, and the loadings vanish. For the latents
of class c, with :math:`\tau = 1/\Gamma_{cj}`,

.. math:: \tau_{cj} \sim G(g/2, g/2), \qquad \mu_{cj} \mid \tau \sim N(0, (\kappa_j \tau)^{-1}),

so that g rows of a common unit variance and :math:`\kappa_j` rows at the common mean pull each
class towards what all share. Shares of components have the prior :math:`\mathrm{Dir}(1)`.
:math:`\alpha` and :math:`\kappa` are set where they raise the bound most, under weak gamma priors.
"""

from __future__ import annotations

from typing import NamedTuple

from latentia.families.latent_factors.values import FactorParams
from latentia.numerics.array_api import Array


class FactorPrior(NamedTuple):
    """What is fixed of the priors; see the module's docstring."""

    noise_shape: float = 1.0  # s_0
    noise_rate: float = 0.1  # r_0, for columns in standard units
    offset_precision: float = 0.01  # alpha_b of continuous columns, and of bounded ones:
    bounded_offset_precision: float = 0.1
    class_rows: float = 1000.0  # g: rows of the common variance that each class is given
    relevance_shape: float = 1e-3  # the density of alpha is alpha^shape exp(-rate alpha)
    relevance_rate: float = 1e-3
    strength_shape: float = 3.0  # and that of kappa likewise
    strength_rate: float = 3.0


class Uncertainty(NamedTuple):
    """What the E-step needs of the posterior beside its means."""

    class_constant: Array  # (..., C) added to the score of a class
    cell_constant: Array  # (..., M or 1, G) added for each known cell of a continuous column
    weights: Array  # (..., M, H, T) covariances of (loadings, offset), packed; times 1 / theta if continuous


class FactorBelief(NamedTuple):
    """The parameters of a Bayesian family: posterior means, spreads, and the strength of priors."""

    point: FactorParams  # means; variances and noise are inverses of mean precisions
    uncertainty: Uncertainty
    class_count: Array  # (..., C, q) rows that the mean of a latent rests on, the prior's included
    class_shape: Array  # (..., C, q) of the posterior of a latent's precision
    relevance: Array  # (..., q) alpha of the continuous columns
    bounded_relevance: Array  # (..., q) alpha of the bounded ones
    strength: Array  # (..., q) kappa
    negative_kl: Array  # (...,) minus the divergence of all posteriors from their priors


def class_axes() -> FactorBelief:
    """The axis of each array that runs over the classes."""
    return FactorBelief(
        FactorParams(-1, -2, -2, -2, None, None, None, None),
        Uncertainty(-1, None, None),
        -2,
        -2,
        None,
        None,
        None,
        None,
    )
