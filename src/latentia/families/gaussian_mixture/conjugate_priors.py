"""Which prior goes with which covariance."""

from __future__ import annotations

from latentia.families.gaussian_mixture.covariance import Covariance, Diagonal
from latentia.families.gaussian_mixture.covariance_types import Spherical, Tied
from latentia.families.gaussian_mixture.full_covariance import Full
from latentia.families.gaussian_mixture.normal_gamma import NormalGamma
from latentia.families.gaussian_mixture.normal_wishart import NormalWishart
from latentia.families.gaussian_mixture.posterior import ConjugatePrior, GaussianPrior

#: By exact type: what a subclass pools or shares another way needs a prior of its own.
CONJUGATE_PRIORS: dict[type[Covariance], type[ConjugatePrior]] = {
    Diagonal: NormalGamma,
    Spherical: NormalGamma,
    Full: NormalWishart,
    Tied: NormalWishart,
}


def conjugate_prior(covariance_type: Covariance, prior: GaussianPrior) -> ConjugatePrior | None:
    """The prior of a type of covariance, if there is one."""
    conjugate = CONJUGATE_PRIORS.get(type(covariance_type))
    return None if conjugate is None else conjugate(covariance_type, prior)
