"""Which entries of the projection share a precision.

Every entry has its own (sparse entries), those of a feature share theirs (feature selection), or
those of a dimension of the embedding do (automatic relevance determination).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from latentia.arrays.namespace import Array, namespace


class PrecisionSharing:
    """Groups of entries of the projection (..., R, D) that share a precision."""

    #: Whether the precision is the same for all features.
    isotropic: ClassVar[bool] = False

    def sum_groups(self, entries: Array) -> Array:
        """Sums over the groups, with axes of length one where they run."""
        return entries

    def group_size(self, n_latent: int, n_features: int) -> int:
        """Entries in a group."""
        return 1


@dataclass(frozen=True)
class PerEntry(PrecisionSharing):
    """A precision for every entry."""


@dataclass(frozen=True)
class PerFeature(PrecisionSharing):
    """A precision for every feature."""

    def sum_groups(self, entries: Array) -> Array:
        return namespace(entries).sum(entries, axis=-2, keepdims=True)

    def group_size(self, n_latent: int, n_features: int) -> int:
        return n_latent


@dataclass(frozen=True)
class PerDimension(PrecisionSharing):
    """A precision for every dimension of the embedding."""

    isotropic: ClassVar[bool] = True

    def sum_groups(self, entries: Array) -> Array:
        return namespace(entries).sum(entries, axis=-1, keepdims=True)

    def group_size(self, n_latent: int, n_features: int) -> int:
        return n_features


#: By the names users give: those of the entries, columns and rows of the matrix Q (D, R).
PRECISION_SHARING: dict[str, PrecisionSharing] = {
    "entries": PerEntry(),
    "columns": PerDimension(),
    "rows": PerFeature(),
}
