"""The covariance shapes by the names users give."""

from latentia.families._covariance import Covariance, Diagonal, Spherical
from latentia.families._full_covariance import Full, Tied

SHAPES: dict[str, type[Covariance]] = {"diag": Diagonal, "full": Full, "tied": Tied, "spherical": Spherical}
