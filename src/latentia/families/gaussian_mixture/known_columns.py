r"""A conjugate prior for the columns that have values.

A column without any value says nothing of a component, but a matrix of one more row and column, its
degrees of freedom and the means' :math:`\kappa` would count it. So the prior sees the known columns
alone, and the others get the mean zero and a unit variance of their own.
"""

from __future__ import annotations

import numpy as np

from latentia.families.gaussian_mixture.covariance import Moments
from latentia.families.gaussian_mixture.posterior import ComponentPosterior, ConjugatePrior, NormalWishart
from latentia.numerics.array_api import Array, asarray_like, namespace, transpose


class KnownColumnsPrior(ConjugatePrior):
    """The prior `inner` of some columns (a mask)."""

    def __init__(self, inner: ConjugatePrior, known: np.ndarray):
        super().__init__(inner.type, inner.prior)
        self.inner = inner
        self.selection = np.eye(known.size)[known]  # (known, D)
        self.empty = np.where(known, 0.0, 1.0)

    def initial_scale(self, means: Array) -> Array:
        return self.inner.initial_scale(self._select(means))

    def posterior(self, moments: Moments, scale: Array, strength: Array, present: Array) -> ComponentPosterior:
        second = self._select(moments.second)
        if isinstance(self.inner, NormalWishart):
            second = transpose(self._select(transpose(second)))
        known = Moments(moments.count, self._select(moments.n_observed), self._select(moments.first), second)
        found = self.inner.posterior(known, scale, strength, present)
        return found._replace(
            means=self._embed(found.means),
            covariance=self._embed_covariance(found.covariance, moments.first),
            predictive=self._embed_covariance(found.predictive, moments.first),
            cell_constant=self._embed(found.cell_constant),
        )

    def _select(self, a: Array) -> Array:
        """The known columns of the last axis."""
        return namespace(a).matmul(a, transpose(asarray_like(self.selection, a)))

    def _embed(self, a: Array) -> Array:
        """All columns, zero where they are empty."""
        return namespace(a).matmul(a, asarray_like(self.selection, a))

    def _embed_covariance(self, covariance: Array, means: Array) -> Array:
        empty = asarray_like(self.empty, covariance)
        if isinstance(self.inner, NormalWishart):
            rows = transpose(self._embed(transpose(self._embed(covariance))))
            return rows + empty[:, None] * asarray_like(np.eye(self.empty.size), covariance)
        return self._embed(covariance) + empty if covariance.ndim == means.ndim else covariance
