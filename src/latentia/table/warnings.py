"""Warnings of what can be read and is yet unlikely to be meant: columns without a known number or
with a few that are far from all others; a single class, or a target that is among the columns.

A column splits at the middle between its least and its largest number. Let the larger part have the
range r. The cells of the other part are far if the parts are more than `FAR` r apart, as 9999 among
ages is: they set the scale of a column that is not transformed, and cost a transformed one part of
its information.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from array_api_compat import is_numpy_array
from sklearn.utils import _safe_indexing

from latentia.arrays.namespace import Array, is_sparse, take_rows, to_numpy
from latentia.engine.messages import warn_at_caller
from latentia.engine.rows import evenly_spaced
from latentia.table.frames import Table, TableLike, column_names, is_frame, is_missing, raw_column
from latentia.table.labels import LabelsLike, Mark, split_unlabeled
from latentia.table.rows import plain_table

#: Ranges of the other cells by which far ones are away from them.
FAR = 50

#: Rows that tell which columns are worth a look at all cells, and columns that a warning names.
N_LOOK, MAX_NAMED = 2000, 5

CURE = "If such cells stand for missing values, make gaps of them; if they are right, clip or transform the column."


class FarCells(NamedTuple):
    """Cells of a column that are far from the others."""

    values: list[float]  # different ones
    n_far: int
    n_known: int

    def __str__(self) -> str:
        more = len(self.values) - 1
        others = f" and {more} other value{'s' * (more > 1)}" if more else ""
        return f"holds {self.values[0]:.15g}{others} in {self.n_far} of {self.n_known} known cells"


def warn_of_empty_columns(names: Sequence[Hashable], is_empty: np.ndarray) -> None:
    """Warn of columns that have no known value and count nothing."""
    empty = [name for name, lacks in zip(names, is_empty.tolist(), strict=True) if lacks]
    if empty:
        which = f"Column {empty[0]!r} has" if len(empty) == 1 else f"Columns {empty} have"
        warn_at_caller(f"{which} no known value and {'is' if len(empty) == 1 else 'are'} ignored.")


def warn_of_far_cells(
    X: Array, weight: np.ndarray | None, std: np.ndarray, names: Sequence[Hashable], is_number: np.ndarray
) -> None:
    """Warn of columns of numbers in which few cells are far from the others."""
    counted = np.arange(X.shape[0]) if weight is None else np.flatnonzero(np.asarray(weight) > 0)
    look = to_numpy(take_rows(X, counted[evenly_spaced(counted.size, N_LOOK)])).astype(float)
    found = {}
    for place in np.flatnonzero(is_number).tolist():
        cells = look[:, place]
        known = cells[~np.isnan(cells)]
        if known.size and 0 < np.subtract(*np.quantile(known, [0.75, 0.25])) < std[place]:
            found[place] = far_cells(to_numpy(X[:, place])[counted].astype(float))
    shown = {names[place]: far for place, far in found.items() if far is not None}
    if shown:
        named = list(shown)[:MAX_NAMED]
        more = f"; {len(shown) - len(named)} more columns do the like" if len(shown) > len(named) else ""
        away = f"more than {FAR} times as far from the other cells as these are from each other"
        warn_at_caller(
            f"{'; '.join(f'column {name!r} of X {shown[name]}' for name in named)}{more}, {away}. {CURE}",
            in_search=f"columns of X, such as {named[0]!r}, hold cells that are {away}. {CURE}",
        )


def far_cells(cells: np.ndarray) -> FarCells | None:
    """The cells that are far from the others of a column, if any."""
    known = cells[~np.isnan(cells)]
    if not known.size:
        return None
    is_high = known > 0.5 * known.min() + 0.5 * known.max()
    is_far = is_high if 2 * is_high.sum() < known.size else ~is_high
    near, far = known[~is_far], known[is_far]
    if not near.size or not far.size:
        return None
    span = near.max() - near.min()
    distance = max(far.min() - near.max(), near.min() - far.max())
    return FarCells(np.unique(far).tolist(), far.size, known.size) if distance > FAR * span > 0 else None


#: Labeled rows below which a column may equal the labels by chance, and those looked at first.
ENOUGH, FIRST = 20, 50


def warn_of_labels(X: TableLike | None, y: LabelsLike, classes: np.ndarray, unlabeled: Mark) -> None:
    """Warn of labels that teach nothing; X and y are as the user passed them, X is None where it is
    not in memory.
    """
    if len(classes) == 1:
        warn_at_caller(
            f"y has a single class, {classes.tolist()[0]!r}: every row will be predicted to be of it, with probability "
            "1. Two classes are needed to learn what tells them apart."
        )
    if X is None or is_sparse(X) or len(classes) < 2:
        return
    X = plain_table(X)
    if not is_frame(X):
        X = X if hasattr(X, "ndim") else np.asarray(X)
        if not is_numpy_array(X):  # an array on a device stays there
            return
    _warn_of_leaked_target(X, y, unlabeled)


def _warn_of_leaked_target(X: Table, y: LabelsLike, unlabeled: Mark) -> None:
    """A column that equals the labels, row by row."""
    labels, is_unlabeled, _ = split_unlabeled(y, X.shape[0], unlabeled, warn=False)
    rows = np.flatnonzero(~is_unlabeled)
    if rows.size < ENOUGH:
        return
    look = np.unique(np.linspace(0, rows.size - 1, FIRST).astype(int))  # tables may be sorted by their classes
    head = _safe_indexing(X, rows[look])
    places = [k for k in range(X.shape[1]) if _are_equal(head, k, labels[look])]
    if not places:
        return
    labeled = _safe_indexing(X, rows)
    for place in places:
        if _are_equal(labeled, place, labels):
            name, cure = column_names(X)[place], "Leave it out, unless it is known of new rows, too."
            warn_at_caller(
                f"column {name!r} of X equals y in all {rows.size} labeled rows: is it the target? {cure}",
                in_search=f"column {name!r} of X equals y in all labeled rows: is it the target? {cure}",
            )


def _are_equal(X: Table, place: int, labels: np.ndarray) -> bool:
    """Whether a column holds the labels, without a gap."""
    cells, wanted = raw_column(X, place), labels.tolist()
    if is_missing(cells).any():
        return False
    found = cells.tolist()
    return found[0] == wanted[0] and found == wanted
