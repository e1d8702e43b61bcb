"""The covariance shapes by the names users give."""

from latentia.families.gaussian_mixture.covariance import Covariance, Diagonal, Spherical
from latentia.families.gaussian_mixture.full_covariance import Full, Tied

COVARIANCES: dict[str, type[Covariance]] = {"diag": Diagonal, "full": Full, "tied": Tied, "spherical": Spherical}
