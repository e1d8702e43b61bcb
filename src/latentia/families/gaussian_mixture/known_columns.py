"""Posteriors of the columns that have values.

A column without any value says nothing of a component, but the degrees of freedom of a matrix of
one more row and column and the strength of the means' prior would count it. So beliefs are about
the known columns alone; where rows are read, the others have the mean zero and a unit variance of
their own.
"""

from __future__ import annotations

import numpy as np

from latentia.arrays.namespace import Array, asarray_like, namespace, transpose
from latentia.families.gaussian_mixture.covariance import Covariance, Moments
from latentia.families.gaussian_mixture.covariance_types import Spherical
from latentia.families.gaussian_mixture.full_covariance import Full


class KnownColumns:
    """Arrays of all columns as arrays of the `known` ones (a mask), and back."""

    def __init__(self, known: np.ndarray, covariance_type: Covariance):
        self.selection = np.eye(known.size)[known]  # (known, D)
        self.empty = np.where(known, 0.0, 1.0)
        self.is_matrix, self.is_number = isinstance(covariance_type, Full), isinstance(covariance_type, Spherical)

    def select(self, a: Array) -> Array:
        """The known columns of the last axis."""
        return namespace(a).matmul(a, transpose(asarray_like(self.selection, a)))

    def select_matrix(self, a: Array) -> Array:
        """The known columns of the last two axes."""
        return transpose(self.select(transpose(self.select(a))))

    def select_covariance(self, a: Array) -> Array:
        return a if self.is_number else self.select_matrix(a) if self.is_matrix else self.select(a)

    def select_moments(self, moments: Moments) -> Moments:
        second = self.select_matrix(moments.second) if self.is_matrix else self.select(moments.second)
        return Moments(moments.count, self.select(moments.n_observed), self.select(moments.first), second)

    def embed(self, a: Array) -> Array:
        """All columns; zero where they are empty."""
        return namespace(a).matmul(a, asarray_like(self.selection, a))

    def embed_covariance(self, a: Array) -> Array:
        """All columns; of unit variance where they are empty."""
        empty = asarray_like(self.empty, a)
        if self.is_number:
            return a
        if self.is_matrix:
            unit = empty[:, None] * asarray_like(np.eye(self.empty.size), a)
            return transpose(self.embed(transpose(self.embed(a)))) + unit
        return self.embed(a) + empty
