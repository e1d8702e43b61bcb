"""Rows, label matrices and weights that users of the probit embedding hand in."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from latentia.engine.array_source import ArraySource
from latentia.engine.source import Preprocessor
from latentia.estimators.base.fitting import Attributes, input_attributes
from latentia.estimators.base.training_record import LabelCounts
from latentia.inputs.label_matrix import LabelMatrix, encode_label_matrix, read_label_matrix
from latentia.inputs.lazy_tables import refuse_lazy
from latentia.inputs.rows import reject_missing, validate_rows
from latentia.inputs.standardization import make_preprocessor
from latentia.inputs.weights import check_weight
from latentia.numerics.array_api import Array, is_sparse, to_numpy


class EmbeddingInput(NamedTuple):
    """What `fit` was given, validated and encoded."""

    X: Array  # (N, D), dense or sparse
    labels: LabelMatrix
    weight: np.ndarray | None
    preprocessor: Preprocessor
    attributes: Attributes

    missing_shares: None = None  # no cell may be missing

    @property
    def label_counts(self) -> LabelCounts:
        """Rows with each label, or of each class if there are at most two."""
        codes, n_classes = self.labels.codes, len(self.labels.classes)
        if self.labels.multilabel or n_classes > 2:
            return LabelCounts.of_codes(codes)
        return LabelCounts.of_codes(codes[:, 0] - (codes[:, 0] >= 0) if n_classes == 1 else codes[:, 0])

    @property
    def source(self) -> ArraySource:
        return ArraySource(self.X, self.labels.codes, self.weight, self.preprocessor)


def read_rows(estimator: Any, X: Any, reset: bool) -> Array:
    """Rows as numbers, dense or sparse, without missing cells."""
    X = validate_rows(estimator, X, reset, accept_sparse="csr")
    reject_missing(estimator, X)
    return sparse.csr_array(X) if is_sparse(X) else X


def read_input(blank: Any, X: Any, y: Any, sample_weight: Any) -> EmbeddingInput:
    """Rows, labels and weights; `blank` is a copy of the estimator to validate on."""
    X = read_rows(blank, X, reset=True)
    labels = encode_label_matrix(y, X.shape[0], blank.unlabeled)
    weight = check_weight(sample_weight, X.shape[0])
    _check_label_weights(labels, weight)
    attributes = {**input_attributes(blank), "classes_": labels.classes, "multilabel_": labels.multilabel}
    if labels.names is not None:
        attributes["label_names_"] = labels.names
    return EmbeddingInput(X, labels, weight, make_preprocessor(X, weight, blank.standardize), attributes)


def label_matrix_accuracy(y: Any, answers: Any, sample_weight: Any) -> float:
    """The share of rows all of whose known labels are right; rows without any do not count."""
    for what, values in (("y", y), ("the prediction", answers)):
        refuse_lazy(what, values, "the score of a label matrix")
    predicted = to_numpy(answers)
    codes = read_label_matrix(y)
    if codes.shape != predicted.shape:
        raise ValueError(f"y has shape {codes.shape}; expected is {predicted.shape}.")
    labeled = (codes >= 0).any(axis=1)
    if not labeled.any():
        raise ValueError("y has no known label: all its entries are -1 or NaN.")
    right = ((codes == predicted) | (codes < 0)).all(axis=1)
    weight = check_weight(sample_weight, codes.shape[0])
    return float(np.average(right[labeled], weights=None if weight is None else weight[labeled]))


def _check_label_weights(labels: LabelMatrix, weight: np.ndarray | None) -> None:
    """Every label needs a known entry of positive weight."""
    if weight is None:
        return
    weight_sums = weight @ (labels.codes >= 0)
    if (weight_sums <= 0).any():
        column = int(np.argmin(weight_sums))
        raise ValueError(f"sample_weight is zero for every row with a known entry in column {column} of y.")
