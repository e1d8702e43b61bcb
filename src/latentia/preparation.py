"""How raw rows become the cells that families compute with: columns are moved and scaled, gaps noted.

Around the mean and in units of the standard deviation, sums of products stay accurate in float32 however far from zero a column lies, scales of any size
are alike, and a variance floor is relative to the data.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from latentia._arrays import Array, like, namespace
from latentia.core import Block, Cells, Totals, chunk_rows
from latentia.sources import ArrayRows, as_cells, has_nan


class Standardise(NamedTuple):
    """Prepares raw rows: moves and scales each column, and notes which cells are missing."""

    shift: Array  # (D,)
    scale: Array  # (D,)
    ignored: Array | None  # (D,) True for columns without any value; None if there is none

    @classmethod
    def of(cls, mass: Array, mean: Array, variance: Array, common_scale: bool = False) -> Standardise:
        """From the moments of the columns; with a common scale, axes keep their proportions."""
        xp = namespace(mean)
        known = mass > 0
        if common_scale:
            n_known = xp.clip(xp.sum(xp.astype(known, mean.dtype)), min=1.0)
            variance = xp.broadcast_to(xp.sum(variance) / n_known, variance.shape)
        # A constant column has nothing to scale; what is left of its variance is rounding.
        rounding = 10 * xp.finfo(mean.dtype).eps
        varies = variance > (rounding * mean) ** 2
        scale = xp.where(varies & known, xp.sqrt(variance), xp.ones_like(variance))
        return cls(mean, scale, None if bool(xp.all(known)) else ~known)

    def log_scale(self, cells: Cells) -> Array:
        """Log of the change of units of each row's known cells, (N,)."""
        xp = namespace(self.shift)
        log_scale = xp.log(self.scale)
        if cells.observed is None:
            return xp.broadcast_to(xp.sum(log_scale), (cells.values.shape[0],))
        return xp.matmul(cells.observed, log_scale)

    def restore(self, values: Array) -> Array:
        """Prepared values in the units of the raw rows."""
        return values * self.scale + self.shift

    def __call__(self, X: Array) -> Cells:
        xp = namespace(self.shift)
        # `like` also brings rows of another namespace, dtype or a memory map beside the parameters.
        values = (like(X, self.shift) - self.shift) / self.scale
        if self.ignored is None and not has_nan(values):
            return Cells(values, None)
        missing = xp.isnan(values)
        if self.ignored is not None:
            missing = missing | self.ignored
        return Cells(xp.where(missing, xp.zeros_like(values), values), xp.astype(~missing, values.dtype))


def column_moments(X: Array, weight: np.ndarray | None, dtype: Any) -> tuple[Array, Array, Array]:
    """Weight, mean and variance of the known cells of each column, in one pass."""
    xp = namespace(X)
    raw = ArrayRows(X, np.full(X.shape[0], -1), weight, as_cells(dtype))
    # Sums about a value inside the column's range do not cancel, wherever the column lies.
    first = raw.prepare(X[: min(1000, X.shape[0]), ...])
    seen = xp.ones_like(first.values) if first.observed is None else first.observed
    centre = xp.sum(first.values, axis=0) / xp.clip(xp.sum(seen, axis=0), min=1.0)

    def visit(block: Block) -> Totals:
        values, observed = block.cells
        known = xp.ones_like(values) if observed is None else observed
        if block.weight is not None:
            known = known * block.weight[:, None]
        distance = values - centre
        sums = (
            xp.sum(known, axis=0),
            xp.sum(known * distance, axis=0),
            xp.sum(known * distance * distance, axis=0),
        )
        return {"sums": sums}

    mass, first_moment, second = raw.reduce(visit, chunk_rows(5 * X.shape[1]))["sums"]
    safe = xp.where(mass > 0, mass, xp.ones_like(mass))
    offset = first_moment / safe
    variance = xp.clip(second / safe - offset * offset, min=0.0)
    if not bool(xp.all(xp.isfinite(variance))):
        place = int(xp.argmax(xp.astype(~xp.isfinite(variance), xp.int8)))
        most = float(xp.finfo(variance.dtype).max) ** 0.5
        raise ValueError(
            f"X has values in column {place} whose squares overflow; allowed are values below {most:.0e}. Rescale the column."
        )
    return mass, centre + offset, variance
