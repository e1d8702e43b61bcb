"""Equal rows as one row of their joint weight, and rows to be held out.

Restarts and held-out rows are drawn at random. Drawn among rows as they came, a row of weight two
and that row twice would be drawn differently, and a row might be held out while its twin is trained
on. So equal rows are merged first and put in an order of their own: a fit is then the same, to the
last digit, however its rows were written down, and equal rows are computed once.
"""

from __future__ import annotations

import numpy as np
from array_api_compat import is_numpy_array

from latentia.inputs.splits import train_validation_split
from latentia.numerics.array_api import Array, is_on_cpu, take_rows, to_numpy

#: Larger tables are taken as they come: their copy might not fit into memory, and draws of many
#: rows differ little.
MAX_COMPARED_MIB = 64

#: Equal inputs with more than this part of all weight are not held out as a whole.
MAX_HELD_OUT = 0.05


def merge_equal_rows(X: Array, y: np.ndarray, weight: np.ndarray | None) -> tuple[Array, np.ndarray, np.ndarray | None]:
    """Distinct pairs of rows (N, D) and labels (N,) or outputs (N, O), and their weights.

    Pairs without weight are dropped; the weights are None if all are one.
    """
    if not _is_compared(X):
        return X, y, weight
    weight = np.ones(X.shape[0]) if weight is None else np.asarray(weight, dtype=float)
    counted = np.flatnonzero(weight > 0)
    first, place = _distinct(np.column_stack([y[counted], to_numpy(X)[counted]]))
    joint = np.bincount(place, weight[counted])
    chosen = counted[first]
    return take_rows(X, chosen), y[chosen], None if (joint == 1).all() else joint


def held_out_weight(
    X: Array, labels: np.ndarray, weight: np.ndarray | None, share: float, rng: np.random.Generator
) -> np.ndarray:
    """The part of each row's weight that is held out, (N,): about a share of each class.

    Equal inputs are held out together, whatever their labels, or not at all; but a few inputs that
    make up a table, such as those of one binary column, give a share of their weight each.
    """
    total = np.ones(X.shape[0]) if weight is None else weight
    if not _is_compared(X):
        apart = train_validation_split(labels, weight, share, rng)[1]
        return np.where(np.isin(np.arange(len(total)), apart), total, 0.0)
    first, group = _distinct(to_numpy(X))
    size = np.bincount(group, total)
    heavy = size > MAX_HELD_OUT * total.sum()
    held_out = np.where(heavy, share, 0.0)
    label_of_group = labels[first]
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero((label_of_group == label) & ~heavy))
        held_out[members[np.cumsum(size[members]) <= share * size[members].sum()]] = 1.0
    return held_out[group] * total


def _distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the first of equal rows, and which of those each row equals."""
    rows = np.ascontiguousarray(rows, dtype=float) + 0.0  # minus zero is zero
    as_bytes = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize)))[:, 0]
    _, first, place = np.unique(as_bytes, return_index=True, return_inverse=True)
    return first, place


def _is_compared(X: Array) -> bool:
    fits = X.shape[0] * X.shape[1] * 8 <= MAX_COMPARED_MIB * 2**20
    return bool(fits and is_on_cpu(X) and not (is_numpy_array(X) and isinstance(X, np.memmap)))
