"""Sample weights, class priors and loss matrices, validated once, on entry."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from latentia.engine.messages import warn_at_caller
from latentia.inputs.options import _numbers

#: What is scored, where errors speak of it.
LABELED = "row with a label"


def check_weight(
    sample_weight: Any,
    n_rows: int,
    codes: np.ndarray | None = None,
    classes: Any = None,
    may_be_zero: bool = False,
) -> np.ndarray | None:
    """Weights as float64, None where all are one; those of a part of a table may all be zero."""
    if sample_weight is None:
        return None
    weight = _numbers("sample_weight", sample_weight, "one number per row, or None")
    if weight.ndim == 0:
        weight = np.full(n_rows, float(weight))
    if weight.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {weight.shape}, but there are {n_rows} rows: one weight per row is expected."
        )
    if not np.isfinite(weight).all() or (weight < 0).any():
        bad = weight[~np.isfinite(weight) | (weight < 0)][0]
        raise ValueError(f"sample_weight holds {bad}; weights must be finite and not negative.")
    if not may_be_zero:
        check_total_weight(float(weight.max(initial=0.0)))
    if codes is not None:
        warn_of_shares(weight)
        check_class_weights(np.bincount(codes[codes >= 0], weight[codes >= 0], minlength=len(classes)), classes)
    return weight


def warn_of_shares(weight: np.ndarray) -> None:
    """Say that weights count rows, where they look like shares of one: a fit to a single row in all
    stays at its prior.
    """
    n_rows, total = int(np.count_nonzero(weight)), float(np.minimum(weight, 2).sum())
    if 0 < total < 2 and n_rows > 10:
        warn_at_caller(
            f"sample_weight sums to {total:.3g} over {n_rows} rows. A row of weight 2 counts as that row twice, so the "
            "model learns as if from so few rows in all; multiply weights that are shares by the number of rows."
        )


def check_total_weight(total: float, of: str = "row") -> None:
    """Refuse weights that are all zero."""
    if total <= 0:
        raise ValueError(f"sample_weight is zero for every {of}; at least one {of} must have a positive weight.")


def check_class_weights(in_class: np.ndarray, classes: np.ndarray) -> None:
    """Refuse classes whose rows weigh nothing."""
    if (in_class <= 0).any():
        empty = classes.tolist()[int(np.argmin(in_class))]
        raise ValueError(
            f"sample_weight is zero for every row of class {empty!r}; "
            "drop the class from y or give a row a positive weight."
        )


#: How far the sum of given priors may be from one.
PRIOR_ROUNDING = 1e-6


def check_priors(priors: Any, classes: np.ndarray) -> np.ndarray | None:
    """Log class priors; None when they are to be counted."""
    n_classes = len(classes)
    allowed = (
        "'empirical', 'uniform', one positive number per class in the order of classes_, or a dict from class to number"
    )
    if isinstance(priors, str):
        if priors == "empirical":
            return None
        if priors == "uniform":
            return np.full(n_classes, -math.log(n_classes))
        raise ValueError(f"priors={priors!r}; allowed are {allowed}.")
    if isinstance(priors, Mapping):
        unknown = [c for c in priors if c not in classes.tolist()]
        if unknown:
            raise ValueError(
                f"priors names the class {unknown[0]!r}, which has no row in y. The classes are {classes.tolist()}."
            )
        absent = [c for c in classes.tolist() if c not in priors]
        if absent:
            raise ValueError(f"priors has no entry for class {absent[0]!r}; allowed are {allowed}.")
        priors = [priors[c] for c in classes.tolist()]
    values = _numbers("priors", priors, allowed)
    if values.shape != (n_classes,):
        raise ValueError(f"priors has shape {values.shape}, but y has {n_classes} classes; allowed are {allowed}.")
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(f"priors={values.tolist()}; allowed are {allowed}.")
    total = float(values.sum())
    if abs(total - 1) > PRIOR_ROUNDING:
        warn_at_caller(f"priors={values.tolist()} sum to {total:.6g}, not to 1: each is divided by that.")
    return np.log(values / total)


def check_loss_matrix(loss_matrix: Any, n_classes: int) -> np.ndarray | None:
    """Losses (true class, predicted class); None for zero-one loss."""
    if loss_matrix is None:
        return None
    loss = _numbers("loss_matrix", loss_matrix, f"None and a {n_classes} x {n_classes} matrix of numbers")
    found = f"has shape {loss.shape}" if loss.shape != (n_classes, n_classes) else ""
    if not found and not np.isfinite(loss).all():
        found = f"holds {loss[~np.isfinite(loss)][0]}"
    if found:
        raise ValueError(
            f"loss_matrix {found}; expected is a finite {n_classes} x {n_classes} matrix, row = true class, "
            "column = predicted class."
        )
    return loss
