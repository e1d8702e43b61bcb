"""Which entries of the projection share a precision: every entry by itself (sparse entries), a row of Q each (feature selection), or a column each (automatic relevance of dimensions)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from latentia.numerics.array_api import Array, namespace


class PrecisionSharing:
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
class PerEntry(PrecisionSharing):
    """A precision for every entry."""


@dataclass(frozen=True)
class Rows(PrecisionSharing):
    """A precision for every feature."""

    shared: ClassVar[bool] = True

    def pool(self, entries: Array) -> Array:
        return namespace(entries).sum(entries, axis=-2, keepdims=True)

    def count(self, n_latent: int, n_features: int) -> int:
        return n_latent


@dataclass(frozen=True)
class Columns(PrecisionSharing):
    """A precision for every dimension of the embedding."""

    isotropic: ClassVar[bool] = True

    def pool(self, entries: Array) -> Array:
        return namespace(entries).sum(entries, axis=-1, keepdims=True)

    def count(self, n_latent: int, n_features: int) -> int:
        return n_features


GROUPINGS: dict[str, PrecisionSharing] = {"entries": PerEntry(), "columns": Columns(), "rows": Rows()}
