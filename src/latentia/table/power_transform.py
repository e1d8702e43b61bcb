r"""Columns that are normal after a power transform.

A standardized cell u becomes

.. math:: v = (\psi_\lambda((u - c) / s) - m) / d

with :math:`\psi_\lambda(t) = ((1 + t)^\lambda - 1)/\lambda` for :math:`t \ge 0` and
:math:`-((1 - t)^\mu - 1) / \mu` below. For a column with one long tail :math:`\mu = 2 - \lambda`,
the transform of Yeo & Johnson (2000); for one with two :math:`\mu = \lambda < 1`, which shortens
both. c is the median; a small s makes the transform stronger. As :math:`\lambda, \mu \ge 0`, the
whole line is mapped onto the whole line, so every value that a model draws or expects has an
original. The powers and s are those of the largest likelihood of the known cells under a normal
density of v, the transform's slope included, and a column stays as it is unless that gains more
than :math:`\ln n`, and of :math:`\mu = \lambda` a tenth of a nat a row besides. One cell far from
all others, as a slip or a code such as 99999 is, makes the standard deviation large and all else
next to equal, so s goes down to a tenth of the spread of the middle cells.

What densities owe to the slopes is in `log_det_jacobian`, so they stay densities of the raw rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from latentia.arrays.namespace import Array, asarray_like, namespace, take_rows, to_numpy
from latentia.engine.rows import MaskedRows, evenly_spaced
from latentia.table.standardization import Standardizer, max_standardized_value

#: Values tried, for every column.
POWERS = [(k / 4, 2 - k / 4) for k in range(9) if k != 4] + [(k / 4, k / 4) for k in range(4)]  # above, below
SCALES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)

#: What shortens both tails must gain so much more a row: classes of unequal variances have long
#: tails together, too, and are normal as they are.
MIN_GAIN = 0.1

#: Steps by which smaller scales follow, where the middle cells of a column are closer together.
SCALE_STEP, MIN_SCALE_SHARE = 0.1**0.5, 0.1

#: A column in which one value has this share of the known cells stays as it is: no transform makes
#: it normal, and the likelihood would be that of a steep slope at the value.
MAX_ATOM = 0.3

#: Rows that the transform is learned from at most, evenly spaced among those with weight.
MAX_ROWS = 2000


#: Nodes and weights of expectations under a standard normal (Gauss-Hermite).
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
NODE_WEIGHTS /= NODE_WEIGHTS.sum()


@dataclass(frozen=True)
class PowerTransform:
    """A standardizer followed by a power transform of each column; arrays are (D,)."""

    standardizer: Standardizer
    center: Array  # c
    stretch: Array  # s
    power: Array  # lambda, above the center; one leaves a column as it is
    below: Array  # mu
    mean: Array  # m
    deviation: Array  # d
    low: Array  # the least and the largest transformed cell that it was learned from; infinite
    high: Array  # for columns that stay as they are

    @property
    def shift(self) -> Array:
        """The raw value whose transform is zero."""
        return self.inverse_transform(namespace(self.mean).zeros_like(self.mean))

    @property
    def scale(self) -> Array:
        """Raw units per transformed unit where the transform is zero."""
        xp = namespace(self.mean)
        at_zero = self._original(xp.zeros_like(self.mean))
        return xp.exp(-self._log_slope(at_zero)) * self.standardizer.scale

    @property
    def empty_columns(self) -> Array | None:
        return self.standardizer.empty_columns

    @property
    def n_empty_columns(self) -> int:
        return self.standardizer.n_empty_columns

    def prepare(self, X: Array) -> MaskedRows:
        rows = self.standardizer.prepare(X)
        values = (
            power_of((rows.values - self.center) / self.stretch, self.power, self.below) - self.mean
        ) / self.deviation
        limit = max_standardized_value(values)  # a power of a number whose square is finite
        values = namespace(values).clip(values, min=-limit, max=limit)
        return rows._replace(values=values if rows.observed is None else values * rows.observed)

    def inverse_transform(self, values: Array) -> Array:
        return self.standardizer.inverse_transform(self._standardized(values))

    def inverse_transform_expected(self, values: Array) -> Array:
        """The same of expected values: about medians of the raw ones.

        Where a transform is steep, a little beyond the cells that it was learned from lies another
        world: none is expected there.
        """
        return self.inverse_transform(namespace(values).clip(values, min=self.low, max=self.high))

    def expected_standardized(
        self, mean: Array, variance: Array, columns: Sequence[int], observed: Array | None
    ) -> Array:
        """Expected standardized cells (..., N, n) of some columns, whose transforms are normal with
        these moments, none beyond the cells that the transform was learned from.

        Of missing cells alone: those that `observed` (N, D) knows stay at their means. In raw units
        the expectations are what the standardizer makes of them.
        """
        chosen = np.asarray(columns)
        is_missing = np.ones(mean.shape[-2:]) if observed is None else 1.0 - to_numpy(observed)[:, chosen]
        cells = np.flatnonzero(is_missing * (to_numpy(self.power)[chosen] != 1.0))
        xp = namespace(mean)
        shape, n_cells = mean.shape, is_missing.size

        def take(a: Array, index: np.ndarray) -> Array:
            return xp.take(a, asarray_like(index, mean, dtype=xp.int64), axis=-1)

        means = xp.reshape(mean, (*shape[:-2], n_cells))
        variances = xp.reshape(xp.broadcast_to(variance, shape), means.shape)
        center, spread = take(means, cells), xp.sqrt(take(variances, cells))
        fields = (self.center, self.stretch, self.power, self.below, self.mean, self.deviation, self.low, self.high)
        each = PowerTransform(self.standardizer, *(take(a, chosen[cells % chosen.size]) for a in fields))
        expected = xp.zeros_like(center)
        for node, weight in zip(NODES.tolist(), NODE_WEIGHTS.tolist(), strict=True):
            here = xp.clip(center + node * spread, min=each.low, max=each.high)
            expected = expected + weight * each._standardized(here)
        order = np.arange(n_cells)
        order[cells] = n_cells + np.arange(cells.size)
        return xp.reshape(take(xp.concat([means, expected], axis=-1), order), shape)

    def log_det_jacobian(self, rows: MaskedRows) -> Array:
        """Minus the log slope of what was done to each row's known cells, (N,)."""
        xp = namespace(self.mean)
        slopes = self._log_slope(self._original(rows.values))
        slopes = slopes if rows.observed is None else slopes * rows.observed
        return self.standardizer.log_det_jacobian(rows) - xp.sum(slopes, axis=-1)

    def _standardized(self, values: Array) -> Array:
        """u of transformed values."""
        return self._original(values) * self.stretch + self.center

    def _original(self, values: Array) -> Array:
        """(u - c) / s of transformed values."""
        return inverse_power_of(values * self.deviation + self.mean, self.power, self.below)

    def _log_slope(self, t: Array) -> Array:
        """Log dv/du where (u - c) / s = t."""
        xp = namespace(t)
        slope = (_side(t, self.power, self.below) - 1.0) * xp.log1p(xp.abs(t))
        return slope - xp.log(self.stretch * self.deviation)


def power_of(t: Array, above: Array, below: Array) -> Array:
    """The transform of each cell (..., D) by the powers of its column (D,)."""
    xp = namespace(t)
    side = _side(t, above, below)
    size = _expm1_ratio(xp.log1p(xp.abs(t)), side)
    return xp.where(side == 1.0, t, xp.where(t >= 0, size, -size))


def inverse_power_of(v: Array, above: Array, below: Array) -> Array:
    """The cells whose transforms are `v`."""
    xp = namespace(v)
    side = _side(v, above, below)
    flat = side == 0.0
    safe = xp.where(flat, xp.ones_like(side), side)
    log_size = xp.where(flat, xp.abs(v), xp.log1p(safe * xp.abs(v)) / safe)
    limit = 0.5 * float(np.log(float(xp.finfo(v.dtype).max)))
    size = xp.expm1(xp.clip(log_size, max=limit))
    return xp.where(side == 1.0, v, xp.where(v >= 0, size, -size))


def _side(t: Array, above: Array, below: Array) -> Array:
    """The power of each cell: that of its side of zero."""
    xp = namespace(t)
    return xp.where(t >= 0, above + xp.zeros_like(t), below + xp.zeros_like(t))


def _expm1_ratio(log_size: Array, power: Array) -> Array:
    """(exp(power log_size) - 1) / power, and its limit at zero."""
    xp = namespace(log_size)
    flat = power == 0.0
    safe = xp.where(flat, xp.ones_like(power), power)
    return xp.where(flat, log_size, xp.expm1(safe * log_size) / safe)


def learn_power_transform(
    X: Array, weight: np.ndarray | None, standardizer: Standardizer, columns: Sequence[bool]
) -> Standardizer | PowerTransform:
    """The transform of these columns (a mask) that known cells prefer; none, the standardizer."""
    counted = np.arange(X.shape[0]) if weight is None else np.flatnonzero(np.asarray(weight) > 0)
    index = counted[evenly_spaced(counted.size, MAX_ROWS)]
    rows = standardizer.prepare(take_rows(X, index))
    values = to_numpy(rows.values).astype(float)
    observed = np.ones_like(values) if rows.observed is None else to_numpy(rows.observed).astype(float)
    w = observed if weight is None else observed * np.asarray(weight, dtype=float)[index, None]
    values = np.where(w > 0, values, 0.0)  # numbers without weight may be of any size
    n = w.sum(axis=0)
    usable = np.asarray(columns, dtype=bool) & (n > 2) & (_largest_atoms(values, w) < MAX_ATOM)
    center = _weighted_medians(values, w)
    best = _log_likelihood(values, w, np.zeros_like(center), 1.0, 1.0, 1.0) + np.log(np.maximum(n, 2.0))
    stretch, power, below = np.ones_like(center), np.ones_like(center), np.ones_like(center)
    spread = _weighted_medians(np.abs(values - center), w)
    least = np.clip(MIN_SCALE_SHARE * spread, np.finfo(float).eps, SCALES[0])  # what is smaller is rounding
    for s in [*_scales_below(least[usable].min(initial=SCALES[0])), *SCALES]:
        for lam, mu in POWERS:
            value = _log_likelihood(values, w, center, s, lam, mu) - (lam == mu) * MIN_GAIN * n
            better = usable & (s >= least) & (value > best)
            best = np.where(better, value, best)
            stretch = np.where(better, s, stretch)
            power, below = np.where(better, lam, power), np.where(better, mu, below)
    changed = power != 1.0
    if not changed.any():
        return standardizer
    center = np.where(changed, center, 0.0)
    transformed = to_numpy(power_of((values - center) / stretch, power, below))
    mean, variance = _moments(transformed, w)
    mean, deviation = np.where(changed, mean, 0.0), np.where(changed, np.sqrt(variance), 1.0)
    seen = (transformed - mean) / deviation
    low = np.where(changed, np.where(w > 0, seen, np.inf).min(axis=0), -np.inf)
    high = np.where(changed, np.where(w > 0, seen, -np.inf).max(axis=0), np.inf)
    arrays = (asarray_like(a, standardizer.shift) for a in (center, stretch, power, below, mean, deviation, low, high))
    return PowerTransform(standardizer, *arrays)


def _scales_below(least: float) -> list[float]:
    """Scales smaller than the usual ones, none below `least`."""
    n_steps = int(np.log(least / SCALES[0]) / np.log(SCALE_STEP))
    return [SCALES[0] * SCALE_STEP**k for k in range(n_steps, 0, -1)]


def _log_likelihood(
    values: np.ndarray, w: np.ndarray, center: np.ndarray, s: float, lam: float, mu: float
) -> np.ndarray:
    """Of the cells of each column, at the best mean and variance; -inf where there is none."""
    t = (values - center) / s
    above, below = (np.full(t.shape[1], power) for power in (lam, mu))
    slopes = (_side(t, above, below) - 1.0) * np.log1p(np.abs(t)) - np.log(s)
    with np.errstate(over="ignore", invalid="ignore"):  # next to no weight, and a number of any size
        _, variance = _moments(to_numpy(power_of(t, above, below)), w)
    varies = np.isfinite(variance) & (variance > 1e-12)
    value = -0.5 * w.sum(axis=0) * np.log(np.where(varies, variance, 1.0)) + (w * slopes).sum(axis=0)
    return np.where(varies, value, -np.inf)


def _moments(values: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of each column."""
    n = np.maximum(w.sum(axis=0), np.finfo(float).tiny)
    mean = (w * values).sum(axis=0) / n
    return mean, (w * (values - mean) ** 2).sum(axis=0) / n


def _largest_atoms(values: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The share of the most frequent value of each column."""
    shares = np.zeros(values.shape[1])
    for column, (cells, weight) in enumerate(zip(values.T, w.T, strict=True)):
        _, group = np.unique(cells, return_inverse=True)
        total = weight.sum()
        shares[column] = np.bincount(group, weight).max() / total if total > 0 else 1.0
    return shares


def _weighted_medians(values: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Of the cells of each column; cells without weight do not count."""
    order = np.argsort(values, axis=0, kind="stable")
    cumulative = np.cumsum(np.take_along_axis(w, order, axis=0), axis=0)
    first = (cumulative >= 0.5 * cumulative[-1:]).argmax(axis=0)
    return np.take_along_axis(values, np.take_along_axis(order, first[None, :], axis=0), axis=0)[0]
