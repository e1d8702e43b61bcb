"""Rows grouped by which of their cells are observed, so that a group shares its matrices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from latentia.engine.source import MaskedRows
from latentia.families.gaussian_mixture.missing_data import CompleteRows, PatternRows, RowGroup
from latentia.families.gaussian_mixture.scattered_rows import N_VIRTUAL, ScatteredRows
from latentia.numerics.array_api import Array, asarray_like, namespace, to_numpy

#: A pattern of at least so many rows is treated on its own.
MIN_PATTERN_ROWS = 64


class MissingnessPatterns(NamedTuple):
    """Rows grouped by which of their cells are observed."""

    groups: list[RowGroup]
    order: list[Array] | None  # row numbers of each group; None for a single group in the order of the rows

    @classmethod
    def from_mask(cls, rows: MaskedRows) -> MissingnessPatterns:
        if rows.observed is None:
            return cls([CompleteRows(rows.values)], None)
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
        for index in _grouped(np.flatnonzero(~is_common), -(-n_missing // (N_VIRTUAL + 1))):
            values, mask = take(index)
            if n_missing[index[0]] == 0:
                groups.append(CompleteRows(values))
            else:
                groups.append(ScatteredRows.from_mask(values, mask, observed[index]))
        return cls(groups, order)

    def split_by_pattern(self, weight: Array) -> list[Array]:
        """The columns of each group."""
        if self.order is None:
            return [weight]
        xp = namespace(weight)
        return [xp.take(weight, index, axis=-1) for index in self.order]

    def restore_row_order(self, parts: list[Array]) -> Array:
        """The groups' columns put back where their rows are."""
        xp = namespace(parts[0])
        if self.order is None:
            return parts[0]
        back = xp.argsort(xp.concat(self.order))
        return xp.take(xp.concat(parts, axis=-1), back, axis=-1)


def _grouped(index: np.ndarray, key: np.ndarray) -> list[np.ndarray]:
    """Row numbers cut into groups of one key each."""
    index = index[np.argsort(key[index], kind="stable")]
    groups = np.split(index, np.flatnonzero(np.diff(key[index])) + 1)
    return [group for group in groups if group.size]
