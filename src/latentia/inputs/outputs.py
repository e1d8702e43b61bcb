"""Continuous outputs that users hand in: checked, and in standard units."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_array

from latentia.arrays.namespace import to_numpy
from latentia.inputs.labels import holds_lists

_ALLOWED = "a number, or several, for each row of X"


class OutputUnits(NamedTuple):
    """How outputs become standardized ones, and back."""

    shift: np.ndarray  # (O,)
    scale: np.ndarray  # (O,)
    is_vector: bool  # whether y came as one column without an axis of its own

    def standardize(self, outputs: np.ndarray) -> np.ndarray:
        """Outputs (N, O) in standard units."""
        return (outputs - self.shift) / self.scale

    @property
    def log_unit(self) -> float:
        """By how much log densities of standardized outputs exceed those of the raw outputs."""
        return float(np.log(self.scale).sum())


#: Of classes.
NO_UNITS = OutputUnits(np.zeros(0), np.ones(0), True)


NO_OUTPUT = "y has no output: all its entries are NaN."


def read_outputs(y: Any, n_rows: int, may_be_unknown: bool = False) -> tuple[np.ndarray, bool]:
    """Outputs (N, O), and whether they came as one column without an axis of its own.

    Those of a part of a table may all be unknown.
    """
    if y is None:
        raise ValueError(
            "This regressor requires y to be passed, but the target y is None: give a number, or several, for each row."
        )
    y = to_numpy(y) if hasattr(y, "__dlpack__") else y
    if isinstance(y, str | bytes):
        raise ValueError(f"y={y!r} is a string: pass the outputs themselves, for example the column of that name.")
    if np.isscalar(y) or getattr(y, "ndim", 1) == 0:
        raise ValueError(f"y={y!r}; allowed is {_ALLOWED}.")
    if holds_lists(y) and len({len(v) if isinstance(v, list | tuple) else id(v) for v in y}) > 1:
        raise ValueError(f"y holds lists of different lengths; allowed is {_ALLOWED}.")
    try:
        values = check_array(y, ensure_2d=False, dtype=np.float64, ensure_all_finite="allow-nan", input_name="y")
    except ValueError as error:
        if "could not convert string to float" not in str(error):
            raise
        raise ValueError(f"y holds text ({str(error).partition(': ')[2]}); allowed is {_ALLOWED}.") from error
    is_vector = values.ndim == 1
    values = values[:, None] if is_vector else values
    if values.ndim != 2 or values.shape[0] != n_rows:
        raise ValueError(
            f"y has shape {values.shape}, but X has {n_rows} rows; allowed are (n_samples,) and (n_samples, n_outputs)."
        )
    missing = np.isnan(values)
    if (missing.any(axis=1) & ~missing.all(axis=1)).any():
        raise ValueError(
            "y has rows in which some outputs are NaN and others are not; drop those rows or fit the outputs apart."
        )
    if missing.all() and not may_be_unknown:
        raise ValueError(NO_OUTPUT)
    return values, is_vector


def output_units(outputs: np.ndarray, weight: np.ndarray | None, is_vector: bool, largest: float) -> OutputUnits:
    """Mean and std of each output (1 for a constant); predictions hold numbers up to `largest`."""
    with np.errstate(over="ignore", invalid="ignore"):
        shift = np.average(outputs, axis=0, weights=weight)
        variance = np.average((outputs - shift) ** 2, axis=0, weights=weight)
    return units_of_moments(shift, variance, np.abs(outputs).max(axis=0), weight is not None, is_vector, largest)


def units_of_moments(
    shift: np.ndarray, variance: np.ndarray, extreme: np.ndarray, is_weighted: bool, is_vector: bool, largest: float
) -> OutputUnits:
    """The same from means, variances and largest absolute values (O,)."""
    limit = min(float(np.finfo(np.float64).max) ** 0.5, largest)
    fits = np.isfinite(variance) & (extreme < limit)
    if not fits.all():
        product, weights = (", times sample_weight,", " or sample_weight") if is_weighted else ("", "")
        raise ValueError(
            f"y has values in output {int(np.argmin(fits))} whose squares{product} overflow; allowed are values below "
            f"{limit:.0e}. Rescale y{weights}."
        )
    # as in `Standardizer`: what is left of a constant's variance is rounding
    varies = variance > (10 * np.finfo(np.float64).eps * shift) ** 2
    return OutputUnits(shift, np.where(varies, np.sqrt(variance), 1.0), is_vector)
