"""Rows grouped by which of their cells are observed, so that a group shares its matrices."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np

from latentia.arrays.namespace import Array, asarray_like, is_on_cpu, namespace, to_numpy
from latentia.engine.rows import MaskedRows
from latentia.families.gaussian_mixture.missing_data import CompleteRows, PatternRows, RowGroup
from latentia.families.gaussian_mixture.scattered_rows import ScatteredRows

#: A pattern of at least so many rows is treated on its own.
MIN_PATTERN_ROWS = 64

#: Rows whose numbers of missing cells differ by at most this are treated together, and others with
#: them until they are so many rows.
MAX_DIFFERENCE, MIN_GROUP_ROWS = 3, 64

#: Numbers in the upper triangles of all systems of a group, about: the caches hold no more.
GROUP_FLOATS = 2**19


class MissingnessPatterns(NamedTuple):
    """Rows grouped by which of their cells are observed."""

    groups: list[RowGroup]
    order: list[Array] | None  # row numbers of each group; None for a single group in the order of the rows
    back: Array | None  # where each row is among the groups

    @classmethod
    def remembered(cls, rows: MaskedRows, memo: dict[str, Any] | None, n_matrices: int) -> MissingnessPatterns:
        """Those that an earlier sweep has left in `memo`; otherwise they are left there."""
        if memo is None or rows.observed is None:
            return cls.from_mask(rows, n_matrices)
        if "patterns" not in memo:
            memo["patterns"] = cls.from_mask(rows, n_matrices)
        return cast(MissingnessPatterns, memo["patterns"])

    def take_restarts(self, index: Any) -> MissingnessPatterns:
        """All restarts see the same rows."""
        return self

    @classmethod
    def from_mask(cls, rows: MaskedRows, n_matrices: int) -> MissingnessPatterns:
        """Groups of rows that each meet so many matrices."""
        if rows.observed is None:
            return cls([CompleteRows(rows.values)], None, None)
        xp = namespace(rows.values)
        observed = to_numpy(rows.observed) > 0
        _, pattern, size = np.unique(np.packbits(observed, axis=1), axis=0, return_inverse=True, return_counts=True)
        pattern = pattern.ravel()
        n_missing = np.sum(~observed, axis=1)
        is_common = (size[pattern] >= MIN_PATTERN_ROWS) & (n_missing > 0)
        order: list[Array] = []
        groups: list[RowGroup] = []

        def take(index: np.ndarray) -> tuple[Array, Array]:
            order.append(asarray_like(index, rows.values, dtype=xp.int64))
            return xp.take(rows.values, order[-1], axis=0), xp.take(rows.observed, order[-1], axis=0)

        for index in _grouped(np.flatnonzero(is_common), pattern):
            values, mask = take(index)
            groups.append(PatternRows(values, mask[0, :]))
        if (complete := np.flatnonzero(n_missing == 0)).size:
            groups.append(CompleteRows(take(complete)[0]))
        max_floats = GROUP_FLOATS // n_matrices if is_on_cpu(rows.values) else None
        for index in _about_as_many(np.flatnonzero(~is_common & (n_missing > 0)), n_missing, max_floats):
            groups.append(ScatteredRows.from_mask(*take(index), observed[index]))
        return cls(groups, order, xp.argsort(xp.concat(order)))

    def split_by_pattern(self, weight: Array) -> list[Array]:
        """The columns of each group."""
        if self.order is None:
            return [weight]
        xp = namespace(weight)
        return [xp.take(weight, index, axis=-1) for index in self.order]

    def restore_row_order(self, parts: list[Array]) -> Array:
        """The groups' columns put back where their rows are."""
        xp = namespace(parts[0])
        if self.back is None:
            return parts[0]
        return xp.take(xp.concat(parts, axis=-1), self.back, axis=-1)


def _grouped(index: np.ndarray, key: np.ndarray) -> list[np.ndarray]:
    """Row numbers cut into groups of one key each."""
    index = index[np.argsort(key[index], kind="stable")]
    groups = np.split(index, np.flatnonzero(np.diff(key[index])) + 1)
    return [group for group in groups if group.size]


def _about_as_many(index: np.ndarray, n_missing: np.ndarray, max_floats: int | None) -> list[np.ndarray]:
    """Row numbers cut into groups that miss about as many cells, from the most to the fewest; of
    upper triangles with at most so many numbers.
    """
    index = index[np.argsort(-n_missing[index], kind="stable")]
    groups, begin = [], 0
    while begin < index.size:
        most = n_missing[index[begin]]
        enough = n_missing[index[min(begin + MIN_GROUP_ROWS, index.size) - 1]]
        least = min(most - MAX_DIFFERENCE, enough)
        end = begin + int(np.sum(n_missing[index[begin:]] >= least))
        if max_floats is not None:
            end = min(end, begin + max(MIN_GROUP_ROWS, max_floats // int(most * (most + 1) // 2)))
        groups.append(index[begin:end])
        begin = end
    return groups
