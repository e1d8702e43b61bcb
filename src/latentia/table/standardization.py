"""From raw rows to rows in standard units: preprocessors, and the moments they are made from.

Dense rows are moved and scaled; sparse ones are scaled only, so that they stay sparse.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from latentia.arrays.namespace import Array, asarray_like, compute_dtype, is_sparse, namespace, to_numpy
from latentia.engine.rows import ArraySource, Chunk, MaskedRows, MaskMissing, TableSource, Totals, rows_per_chunk
from latentia.table.frames import TableLike


class ColumnError(ValueError):
    """What is wrong with the values of a column, which is known by its number here."""

    def __init__(self, column: int, problem: str, name: Hashable = None):
        super().__init__(f"X has values in column {column if name is None else repr(name)} {problem}")
        self.column, self.problem = column, problem

    def of_table(self, X: TableLike) -> ColumnError:
        """The same with the name of the column, if the table has names."""
        names = getattr(X, "columns", None)
        return self if names is None else ColumnError(self.column, self.problem, list(names)[self.column])


@dataclass(frozen=True)
class Scale:
    """Divides the columns of dense or sparse rows."""

    scale: np.ndarray  # (D,)

    @property
    def shift(self) -> np.ndarray:
        return np.zeros_like(self.scale)

    @property
    def n_empty_columns(self) -> int:
        return 0

    def inverse_transform(self, values: Array) -> Array:
        return values * self.scale

    inverse_transform_expected = inverse_transform

    def log_det_jacobian(self, rows: MaskedRows) -> Array:
        total = np.log(self.scale).sum()
        return np.full(rows.values.shape[0], total, dtype=self.scale.dtype)

    def prepare(self, X: Array) -> MaskedRows:
        if is_sparse(X):
            return MaskedRows(
                sparse.csr_array(sparse.csr_array(X).multiply(1 / self.scale)).astype(self.scale.dtype), None
            )
        return MaskedRows(asarray_like(X, self.scale) / self.scale, None)


def make_preprocessor(X: Array, weight: np.ndarray | None, standardize: bool) -> Standardizer | Scale:
    """How rows like these are prepared."""
    if is_sparse(X):
        scale = _root_mean_square(X, weight) if standardize else np.ones(X.shape[1])
        return Scale(scale.astype(np.float32 if compute_dtype(X) == np.float32 else np.float64))
    dtype = compute_dtype(X)
    xp = namespace(X)
    if standardize:
        return Standardizer.from_moments(*column_moments(X, weight, dtype))
    nothing = xp.zeros_like(xp.astype(X[0, ...], dtype))
    return Standardizer(nothing, nothing + 1, None)


def _root_mean_square(X: Array, weight: np.ndarray | None) -> np.ndarray:
    """Of each column about zero; one for empty columns."""
    row_weight = np.ones(X.shape[0]) if weight is None else weight
    cells = sparse.csr_array(X)
    square = np.asarray(cells.multiply(cells).T @ row_weight).ravel() / row_weight.sum()
    return np.sqrt(np.where(square > 0, square, 1.0))


#: Below this many ulps of the mean a standard deviation counts as zero.
EPS_MULTIPLE = 10

#: Rows that tell where a column lies.
N_PILOT_ROWS = 1000

#: Sums of squares about a point that is so many standard deviations from the mean have lost digits.
MAX_OFFSET_STDS = 10


class ColumnMoments(NamedTuple):
    """Of the known cells of each column, (D,) each."""

    weight_sum: Array
    mean: Array
    std: Array


@dataclass(frozen=True)
class Standardizer:
    """Moves and scales each column, and masks missing cells."""

    shift: Array  # (D,)
    scale: Array  # (D,)
    empty_columns: Array | None  # (D,) True for columns without any value; None if there are none

    @classmethod
    def from_moments(cls, weight_sum: Array, mean: Array, std: Array, common_scale: bool = False) -> Standardizer:
        """From the moments of the columns; a common scale keeps the proportions of the axes."""
        xp = namespace(mean)
        has_values = weight_sum > 0
        # what is left of a constant column's standard deviation is rounding
        varies = has_values & (std > EPS_MULTIPLE * xp.finfo(mean.dtype).eps * xp.abs(mean))
        scale = xp.where(varies, std, xp.ones_like(std))
        if common_scale and bool(xp.any(varies)):
            std = xp.where(varies, std, xp.zeros_like(std))
            unit = xp.max(std)  # in which squares do not overflow
            n_columns = xp.sum(xp.astype(has_values, mean.dtype))
            scale = xp.zeros_like(std) + unit * xp.sqrt(xp.sum((std / unit) ** 2) / n_columns)
        return cls(mean, scale, None if bool(xp.all(has_values)) else ~has_values)

    def only(self, columns: Sequence[bool]) -> Standardizer:
        """The same for some columns; the others stay as they are."""
        xp = namespace(self.shift)
        chosen = asarray_like(list(columns), self.shift, dtype=xp.bool)
        shift = xp.where(chosen, self.shift, xp.zeros_like(self.shift))
        return Standardizer(shift, xp.where(chosen, self.scale, xp.ones_like(self.scale)), self.empty_columns)

    def log_det_jacobian(self, rows: MaskedRows) -> Array:
        """Log determinant of the scaling of each row's known cells, (N,)."""
        xp = namespace(self.shift)
        log_scale = xp.log(self.scale)
        if rows.observed is None:
            return xp.broadcast_to(xp.sum(log_scale), (rows.values.shape[0],))
        return xp.matmul(rows.observed, log_scale)

    @property
    def n_empty_columns(self) -> int:
        return 0 if self.empty_columns is None else int(to_numpy(self.empty_columns).sum())

    def inverse_transform(self, values: Array) -> Array:
        """Standardized values in the units of the raw rows."""
        return values * self.scale + self.shift

    inverse_transform_expected = inverse_transform

    def prepare(self, X: Array) -> MaskedRows:
        xp = namespace(self.shift)
        X = X.toarray() if is_sparse(X) else X  # rows that are moved do not stay sparse
        with np.errstate(over="ignore"):  # what overflows is clipped below
            # `asarray_like` also converts rows of another namespace or dtype, and memory maps
            values = (asarray_like(X, self.shift) - self.shift) / self.scale
        # min and max propagate NaN, so one comparison detects missing and extreme values
        limit = max_standardized_value(self.shift)
        if self.empty_columns is None and bool((xp.min(values) >= -limit) & (xp.max(values) <= limit)):
            return MaskedRows(values, None)
        missing = xp.isnan(values)
        if self.empty_columns is not None:
            missing = missing | self.empty_columns
        values = xp.clip(xp.where(missing, xp.zeros_like(values), values), min=-limit, max=limit)
        complete = self.empty_columns is None and not bool(xp.any(missing))
        return MaskedRows(values, None if complete else xp.astype(~missing, values.dtype))


def max_standardized_value(like: Array) -> float:
    """The largest standardized value: sums of 1e8 of its squares over a variance of one ulp do not
    overflow.
    """
    limits = namespace(like).finfo(like.dtype)
    return math.sqrt(float(limits.max) * float(limits.eps)) / 1e4


def column_moments(X: Array, weight: np.ndarray | None, dtype: Any) -> ColumnMoments:
    """The moments of the columns of an array."""
    return source_moments(ArraySource(X, np.full(X.shape[0], -1), weight, MaskMissing(dtype)))


def source_moments(rows: TableSource) -> ColumnMoments:
    """Weight, mean and standard deviation of the known cells of each column, in one pass as a rule.

    With a pilot center c inside the column's range and a power of two u near its spread,

        d = (x - c) / u,  S0 = sum w,  S1 = sum w d,  S2 = sum w d^2,
        mean = c + u S1 / S0,  std = u sqrt(S2 / S0 - (S1 / S0)^2),

    so that sums do not cancel wherever the column lies, and squares neither overflow nor vanish.
    Where the pilot rows were no guide to a column, c and u are corrected and there is another pass.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # overflow is detected below
        center, power = _pilot_estimate(rows)
        xp = namespace(center)
        for _ in range(3):
            unit = asarray_like(np.ldexp(1.0, power), center)
            weight_sum, offset, deviation = _moments_about(rows, center, unit)
            _check_weight_sum(weight_sum)
            mean = center + offset * unit
            overflows = ~xp.isfinite(deviation)
            rounding = EPS_MULTIPLE * xp.finfo(mean.dtype).eps * xp.abs(mean)
            recenter = (xp.abs(offset) > MAX_OFFSET_STDS * deviation) & (xp.abs(offset * unit) > rounding) & ~overflows
            if not bool(xp.any(overflows | recenter)):
                break
            center = xp.where(recenter, mean, center)
            power = np.where(to_numpy(recenter), power + _power_of_two(xp.maximum(xp.abs(offset), deviation)), power)
            most = _max_exponent(center)
            power = np.clip(np.where(to_numpy(overflows), power + most // 2, power), -most, most)
        deviation = deviation * unit
    _check_deviation(deviation)
    return ColumnMoments(weight_sum, mean, deviation)


def _pilot_estimate(rows: TableSource) -> tuple[Array, np.ndarray]:
    """A value inside each column's range and the power of two near its range, from the first rows
    with weight.
    """
    first = rows.first_rows(N_PILOT_ROWS).all_rows().rows
    xp = namespace(first.values)
    seen = xp.ones_like(first.values) if first.observed is None else first.observed
    center = xp.sum(first.values, axis=0) / xp.clip(xp.sum(seen, axis=0), min=1.0)
    return center, _power_of_two(xp.max(xp.abs(first.values - center) * seen, axis=0))


def _power_of_two(size: Array) -> np.ndarray:
    """Exponents of the powers of two near these sizes, zero for zero and infinity."""
    return np.clip(np.frexp(to_numpy(size))[1], -_max_exponent(size), _max_exponent(size))


def _max_exponent(like: Array) -> int:
    """The exponent up to which powers of two and their inverses are normal numbers."""
    return int(math.log2(namespace(like).finfo(like.dtype).max)) - 2


def _moments_about(rows: TableSource, center: Array, unit: Array) -> tuple[Array, Array, Array]:
    """Weight, mean and standard deviation of the distances from a center, in some unit."""
    xp = namespace(center)

    def visit(chunk: Chunk) -> Totals:
        values, observed = chunk.rows
        known = xp.ones_like(values) if observed is None else observed
        distance = (values - center) / unit
        if chunk.weight is not None:
            known = known * chunk.weight[:, None]
            # 0 * inf is NaN
            distance = xp.where(known > 0, distance, xp.zeros_like(distance))
        sums = (
            xp.sum(known, axis=0),
            xp.sum(known * distance, axis=0),
            xp.sum(known * distance * distance, axis=0),
        )
        return {"sums": sums}

    weight_sum, first, second = rows.sum_over_chunks(visit, rows_per_chunk(5 * rows.n_features, center))["sums"]
    safe = xp.where(weight_sum > 0, weight_sum, xp.ones_like(weight_sum))
    offset = first / safe
    return weight_sum, offset, xp.sqrt(xp.clip(second / safe - offset * offset, min=0.0))


def _check_weight_sum(weight_sum: Array) -> None:
    xp = namespace(weight_sum)
    if not bool(xp.all(xp.isfinite(weight_sum))):
        raise ValueError(
            f"sample_weight sums to more than {xp.finfo(weight_sum.dtype).max:.0e}, the largest number of "
            f"{weight_sum.dtype}; "
            "allowed are weights whose sum is a number. Divide them by their mean."
        )


def _check_deviation(deviation: Array) -> None:
    """Reject columns whose variance overflows."""
    xp = namespace(deviation)
    limit = math.sqrt(xp.finfo(deviation.dtype).max) / 100
    bad = ~(deviation < limit)
    if bool(xp.any(bad)):
        column = int(xp.argmax(xp.astype(bad, xp.int8)))
        raise ColumnError(
            column,
            f"so far apart that their squares overflow in {deviation.dtype}; "
            f"allowed are columns with a standard deviation below {limit:.0e}. Rescale the column.",
        )
