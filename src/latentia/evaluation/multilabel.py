"""Scores of multilabel predictions over the entries that are known: unknown ones (-1, NaN or None
in `y_true`) count nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from latentia.table.labels import LabelsLike, read_label_matrix
from latentia.table.options import check_choice, check_number
from latentia.table.weights import check_weight

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def known_hamming_loss(y_true: LabelsLike, y_pred: LabelsLike, *, sample_weight: ArrayLike | None = None) -> float:
    """The share of known entries that are predicted wrongly.

    Parameters
    ----------
    y_true : array-like of shape (n_samples, n_labels)
        0, 1, and -1, NaN or None for unknown entries.
    y_pred : array-like of shape (n_samples, n_labels)
        0 and 1.
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    loss : float

    Examples
    --------
    >>> known_hamming_loss([[1, -1], [0, 1]], [[1, 1], [1, 1]])
    0.3333333333333333
    """
    truth, found, weight = _check(y_true, y_pred, sample_weight)
    known = weight[:, None] * (truth >= 0)
    return float((known * (truth != found)).sum() / known.sum())


def known_f1_score(
    y_true: LabelsLike,
    y_pred: LabelsLike,
    *,
    average: str = "macro",
    zero_division: float = 0.0,
    sample_weight: ArrayLike | None = None,
) -> float:
    """F1 score of the known entries: 2 TP / (2 TP + FP + FN).

    Parameters
    ----------
    y_true : array-like of shape (n_samples, n_labels)
        0, 1, and -1, NaN or None for unknown entries.
    y_pred : array-like of shape (n_samples, n_labels)
        0 and 1.
    average : {"macro", "micro"}, default="macro"
        The mean over labels that have a known entry, or all entries together.
    zero_division : float, default=0.0
        Score where there is neither a positive entry nor a positive prediction.
    sample_weight : array-like of shape (n_samples,), default=None

    Returns
    -------
    score : float

    Examples
    --------
    >>> known_f1_score([[1, -1], [0, 1]], [[1, 1], [1, 1]], average="micro")
    0.8
    """
    check_choice("average", average, ["macro", "micro"])
    check_number("zero_division", zero_division, ge=0)
    truth, found, weight = _check(y_true, y_pred, sample_weight)
    known = weight[:, None] * (truth >= 0)
    hits = (known * ((truth == 1) & (found == 1))).sum(axis=0)
    errors = (known * (truth != found)).sum(axis=0)
    if average == "micro":
        hits, errors = hits.sum(keepdims=True), errors.sum(keepdims=True)
    else:
        seen = known.sum(axis=0) > 0
        hits, errors = hits[seen], errors[seen]
    below = 2 * hits + errors
    return float(np.where(below > 0, 2 * hits / np.where(below > 0, below, 1.0), zero_division).mean())


def _check(
    y_true: LabelsLike, y_pred: LabelsLike, sample_weight: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    truth, found = read_label_matrix(y_true, "y_true"), read_label_matrix(y_pred, "y_pred")
    if truth.shape != found.shape:
        raise ValueError(f"y_true has shape {truth.shape} and y_pred {found.shape}: they must be equal.")
    if (found < 0).any():
        raise ValueError("y_pred holds unknown entries; allowed are 0 and 1.")
    weight = check_weight(sample_weight, truth.shape[0])
    weight = np.ones(truth.shape[0]) if weight is None else weight
    if not (weight[:, None] * (truth >= 0)).any():
        raise ValueError("y_true has no known entry of positive weight, so there is nothing to score.")
    return truth, found, weight
