"""Labels as a matrix of 0, 1 and unknown: a column per label, or a column per class."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from latentia.arrays.namespace import is_sparse, to_numpy
from latentia.engine.messages import warn_at_caller
from latentia.inputs.dataframes import column_names, frame_type, is_missing
from latentia.inputs.labels import LISTS_OF_LABELS, Mark, holds_lists, read_labels

ALLOWED = "0, 1, and -1, NaN or None for an unknown entry"


class LabelMatrix(NamedTuple):
    """Labels as codes, a column each."""

    codes: np.ndarray  # (N, L) of 0, 1, and -1 where unknown
    classes: np.ndarray  # of the rows; the numbers of the labels if there may be several in a row
    multilabel: bool
    names: np.ndarray | None  # of the columns of a data frame


def encode_label_matrix(y: Any, n_rows: int, unlabeled: Mark) -> LabelMatrix:
    """A matrix of several columns is multilabel; else a class is a column each, two classes one.

    In a matrix -1 always marks an unknown entry; `unlabeled` is about rows of one label.
    """
    if is_sparse(y):
        y = y.toarray()
    if holds_lists(y) and not _is_rectangular(y):
        raise ValueError(LISTS_OF_LABELS)
    shape = tuple(y.shape) if hasattr(y, "shape") else np.asarray(y).shape
    if len(shape) == 2 and shape[1] != 1:
        return _multilabel(y, n_rows)
    if len(shape) > 2:
        raise ValueError(f"y has shape {shape}; allowed are (n_samples,) and (n_samples, n_labels).")
    labels = read_labels(y, n_rows, unlabeled)
    return LabelMatrix(class_columns(labels.codes, len(labels.classes)), labels.classes, False, None)


def class_columns(codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Codes (N,) of classes as columns of 0 and 1, -1 for unlabeled rows; two classes make one."""
    if n_classes <= 2:
        columns = codes[:, None]
        return columns + (columns >= 0) if n_classes == 1 else columns  # a single class is always there
    columns = (codes[:, None] == np.arange(n_classes)).astype(np.int64)
    columns[codes < 0] = -1
    return columns


def _is_rectangular(y: Any) -> bool:
    """Whether lists are the rows of a matrix, and not the names of the labels of a row."""
    rows = [v for v in y if isinstance(v, list | tuple)]
    return len(rows) == len(y) and len({len(row) for row in rows}) == 1 and not any(isinstance(v, str) for v in rows[0])


def read_label_matrix(y: Any, name: str = "y") -> np.ndarray:
    """Codes (N, L) of 0, 1 and -1, or an error that names what is wrong."""
    values = y.toarray() if is_sparse(y) else np.asarray(to_numpy(y) if hasattr(y, "__dlpack__") else y)
    if values.ndim != 2:
        raise ValueError(f"{name} has shape {values.shape}; a label matrix has the shape (n_samples, n_labels).")
    if values.dtype.kind == "O":
        values = np.where(is_missing(values), np.nan, values)
    try:
        values = values.astype(float)
    except (TypeError, ValueError):
        cells = values.ravel().tolist()
        unknown = next((v for v in cells if isinstance(v, str)), cells[0])
        raise ValueError(f"{name} holds {unknown!r}; allowed in a label matrix are {ALLOWED}.") from None
    bad = ~(np.isnan(values) | np.isin(values, (-1.0, 0.0, 1.0)))
    if bad.any():
        raise ValueError(f"{name} holds {values[bad][0]:g}; allowed in a label matrix are {ALLOWED}.")
    return np.where(np.isnan(values), -1, values).astype(np.int64)


def _multilabel(y: Any, n_rows: int) -> LabelMatrix:
    columns = column_names(y) if frame_type(y) != "array" else getattr(y, "columns", None)
    codes = read_label_matrix(y)
    if codes.shape[0] != n_rows:
        raise ValueError(f"y has {codes.shape[0]} rows and X has {n_rows}: they must be equal.")
    if codes.shape[1] == 0:
        raise ValueError("y has 0 columns; a label matrix needs at least one label.")
    names = None if columns is None else np.asarray([str(c) for c in columns], dtype=object)
    check_label_columns((codes >= 0).sum(axis=0), (codes == 1).sum(axis=0), names)
    return LabelMatrix(codes, np.arange(codes.shape[1]), True, names)


def check_label_columns(n_known: np.ndarray, n_positive: np.ndarray, names: np.ndarray | None) -> None:
    """Refuse labels (L,) without a known entry; tell of those that are always or never present."""
    empty = np.flatnonzero(n_known == 0)
    if empty.size:
        raise ValueError(f"y has no known entry in column {_say(empty, names)}: drop it, or label at least one row.")
    for count, name in ((n_positive, "positive"), (n_known - n_positive, "negative")):
        columns = np.flatnonzero(count == 0)
        if columns.size:
            is_signed = name == "negative" and columns.size == count.size
            hint = " If -1 stands for no, write 0: -1 marks an unknown entry." if is_signed else ""
            warn_at_caller(
                f"y has no {name} entry in column {_say(columns, names)}: such a label's probability comes from "
                f"its prior and its intercept alone.{hint}"
            )


def _say(columns: np.ndarray, names: np.ndarray | None) -> str:
    shown = ", ".join(str(c) if names is None else repr(names[c]) for c in columns[:10])
    return shown + (", ..." if columns.size > 10 else "")
