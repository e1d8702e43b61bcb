"""Equal rows as one row of their joint weight, and rows to be held out.

Restarts and held-out rows are drawn at random. Drawn among rows as they came, a row of weight two
and that row twice would be drawn differently, and a row might be held out while its twin is trained
on. So equal rows are merged first and put in an order of their own: a fit is then the same, to the
last digit, however its rows were written down, and equal rows are computed once.

Only the rows of small tables are compared (`inputs.small_tables`): a copy of others might not fit
into memory, and draws of many rows differ little.
"""

from __future__ import annotations

import numpy as np

from latentia.arrays.namespace import Array, take_rows, to_numpy

#: Equal inputs with more than this part of all weight are not held out as a whole.
MAX_HELD_OUT = 0.05


def merge_equal_rows(X: Array, y: np.ndarray, weight: np.ndarray | None) -> tuple[Array, np.ndarray, np.ndarray | None]:
    """Distinct pairs of rows (N, D) and labels (N,) or outputs (N, O), and their weights.

    Pairs without weight are dropped; the weights are None if all are one.
    """
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
