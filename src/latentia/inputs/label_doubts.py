"""Labels that can be read and are yet unlikely to be meant: a single class, or a target that is
among the columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import is_numpy_array
from sklearn.utils import _safe_indexing

from latentia.arrays.namespace import is_sparse
from latentia.engine.messages import warn_at_caller
from latentia.inputs.dataframes import column_names, frame_type, is_missing, raw_column
from latentia.inputs.labels import Mark, split_unlabeled
from latentia.inputs.lazy_tables import is_lazy
from latentia.inputs.rows import plain_table

#: Labeled rows below which a column may equal the labels by chance, and those looked at first.
ENOUGH, FIRST = 20, 50


def doubt_labels(X: Any, y: Any, classes: np.ndarray, unlabeled: Mark) -> None:
    """Warn of labels that teach nothing; X and y are as the user passed them."""
    if len(classes) == 1:
        warn_at_caller(
            f"y has a single class, {classes.tolist()[0]!r}: every row will be predicted to be of it, with probability "
            "1. Two classes are needed to learn what tells them apart."
        )
    if is_lazy(X) or is_sparse(X) or len(classes) < 2:
        return
    X = plain_table(X)
    if frame_type(X) == "array":
        X = X if hasattr(X, "ndim") else np.asarray(X)
        if not is_numpy_array(X):  # an array on a device stays there
            return
    _warn_of_leaked_target(X, y, unlabeled)


def _warn_of_leaked_target(X: Any, y: Any, unlabeled: Mark) -> None:
    """A column that equals the labels, row by row."""
    labels, is_unlabeled, _ = split_unlabeled(y, X.shape[0], unlabeled, is_told=False)
    rows = np.flatnonzero(~is_unlabeled)
    if rows.size < ENOUGH:
        return
    some = np.unique(np.linspace(0, rows.size - 1, FIRST).astype(int))  # tables may be sorted by their classes
    head = _safe_indexing(X, rows[some])
    places = [k for k in range(X.shape[1]) if _are_equal(head, k, labels[some])]
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


def _are_equal(X: Any, place: int, labels: np.ndarray) -> bool:
    """Whether a column holds the labels, without a gap."""
    cells, wanted = raw_column(X, place), labels.tolist()
    if is_missing(cells).any():
        return False
    found = cells.tolist()
    return found[0] == wanted[0] and found == wanted
