r"""Gamma hyper-priors on the precisions of normal entries, one for each group of entries.

.. math:: \phi_g \sim G(\alpha, \mathrm{scale}\ \beta), \quad e | \phi_g \sim N(0, 1/\phi_g), \quad
   q(\phi_g) = G(\alpha + n_g / 2,\ \mathrm{rate}\ 1/\beta + \tfrac12 \textstyle\sum_{e \in g} E[e^2])

Groups of the projection: every entry by itself (sparse entries), a row of Q each (feature selection), or a column each (automatic
relevance of dimensions). The bound needs :math:`E[\log\phi]`, where the paper's appendix has the log of the mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from scipy.special import digamma, gammaln

from latentia._arrays import Array, namespace


@dataclass(frozen=True)
class GammaPrior:
    """A gamma density by shape and scale, of precisions."""

    shape: float = 1.0
    scale: float = 1.0

    @property
    def rate(self) -> float:
        return 1.0 / self.scale

    def precision(self, rate: Array, count: int) -> Array:
        """Posterior mean of the precisions of groups of `count` entries."""
        return (self.shape + count / 2) / rate

    def log_prior(self, rate: Array, count: int, square: Array) -> Array:
        """Bound terms of each group: its hyper-prior, the entropy of the precision, and E log p(entries) without log 2 pi.

        `square` is the sum of E[e^2] over the group.
        """
        xp = namespace(rate)
        shape = self.shape + count / 2
        mean, log_mean = shape / rate, float(digamma(shape)) - xp.log(rate)
        constant = self.shape * math.log(self.rate) - float(gammaln(self.shape))
        hyper = constant + (self.shape - 1) * log_mean - self.rate * mean
        entropy = shape - xp.log(rate) + float(gammaln(shape) + (1 - shape) * digamma(shape))
        return hyper + entropy + count / 2 * log_mean - mean * square / 2


class Grouping:
    """Which entries of the projection (..., R, D) share a precision."""

    #: Whether all R columns of the projection have the same covariance.
    shared: ClassVar[bool] = False
    #: Whether the precision is the same for all features.
    isotropic: ClassVar[bool] = False

    def pool(self, entries: Array) -> Array:
        """Sums over groups, with axes of length one where they run."""
        return entries

    def count(self, n_latent: int, n_features: int) -> int:
        """Entries in a group."""
        return 1


@dataclass(frozen=True)
class Entries(Grouping):
    """A precision for every entry."""


@dataclass(frozen=True)
class Rows(Grouping):
    """A precision for every feature."""

    shared: ClassVar[bool] = True

    def pool(self, entries: Array) -> Array:
        return namespace(entries).sum(entries, axis=-2, keepdims=True)

    def count(self, n_latent: int, n_features: int) -> int:
        return n_latent


@dataclass(frozen=True)
class Columns(Grouping):
    """A precision for every dimension of the embedding."""

    isotropic: ClassVar[bool] = True

    def pool(self, entries: Array) -> Array:
        return namespace(entries).sum(entries, axis=-1, keepdims=True)

    def count(self, n_latent: int, n_features: int) -> int:
        return n_features


GROUPINGS: dict[str, Grouping] = {"entries": Entries(), "columns": Columns(), "rows": Rows()}
