"""The target left among the columns: a table that holds its own answers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from latentia.engine.user_warnings import warn_at_caller
from latentia.inputs.dataframes import column_names, raw_column
from latentia.inputs.labels import Mark, is_missing, split_unlabeled

#: Labeled rows below which a column may equal the labels by chance, and those looked at first.
ENOUGH, FIRST = 20, 50


def warn_of_leaked_target(X: Any, y: Any, unlabeled: Mark) -> None:
    """Warn of columns that equal the labels of a table in memory, row by row."""
    labels, is_unlabeled, _ = split_unlabeled(y, X.shape[0], unlabeled)
    rows = np.flatnonzero(~is_unlabeled)
    if rows.size < ENOUGH or len(set(labels[:FIRST].tolist())) == 1:
        return
    head = _safe_indexing(X, rows[:FIRST])
    places = [k for k in range(X.shape[1]) if _are_equal(head, k, labels[:FIRST])]
    if not places:
        return
    labeled = _safe_indexing(X, rows)
    for place in places:
        if _are_equal(labeled, place, labels):
            warn_at_caller(
                f"column {column_names(X)[place]!r} of X equals y in all {rows.size} labeled rows: is it the target? "
                "Drop it from X, unless it is known of new rows, too."
            )


def _are_equal(X: Any, place: int, labels: np.ndarray) -> bool:
    """Whether a column holds the labels, without a gap."""
    cells, wanted = raw_column(X, place), labels.tolist()
    if is_missing(cells).any():
        return False
    found = cells.tolist()
    return found[0] == wanted[0] and found == wanted
