"""Rows, label matrices and weights that users of the probit embedding hand in."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from latentia.arrays.namespace import Array, is_sparse, namespace, to_numpy
from latentia.engine.messages import warn_at_caller
from latentia.engine.rows import ArraySource, Chunk, Preprocessor, TableSource, Totals
from latentia.engine.sweep import rows_per_chunk
from latentia.estimators.base.fitting import Attributes, input_attributes
from latentia.estimators.base.table_reading import read_parts
from latentia.estimators.base.training_record import LabelCounts
from latentia.scale.tables import LabelColumns, LabelMatrixReader
from latentia.table.labels import LabelMatrix, encode_label_matrix
from latentia.table.lazy import LazyTable, lazy_table
from latentia.table.rows import reject_missing, validate_rows
from latentia.table.standardization import Standardizer, make_preprocessor, source_moments
from latentia.table.weights import check_weight, warn_of_shares


class EmbeddingInput(NamedTuple):
    """What `fit` was given, validated and encoded."""

    X: Array  # (N, D), dense or sparse
    labels: LabelMatrix
    weight: np.ndarray | None
    preprocessor: Preprocessor
    attributes: Attributes

    missing_shares: None = None  # no cell may be missing

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_labels(self) -> int:
        return int(self.labels.codes.shape[1])

    @property
    def n_classes(self) -> int | None:
        """None for a label matrix."""
        return None if self.labels.multilabel else len(self.labels.classes)

    @property
    def label_counts(self) -> LabelCounts:
        """Rows with each label, or of each class if there are at most two."""
        codes, n_classes = self.labels.codes, len(self.labels.classes)
        if self.labels.multilabel:
            return LabelCounts.of_codes(codes)
        if n_classes > 2:
            return LabelCounts.of_codes(codes)._replace(n_known=None)
        return LabelCounts.of_codes(codes[:, 0] - (codes[:, 0] >= 0) if n_classes == 1 else codes[:, 0])

    @property
    def source(self) -> ArraySource:
        return ArraySource(self.X, self.labels.codes, self.weight, self.preprocessor)


class PartedInput(NamedTuple):
    """The same for a large table in parts."""

    X: Array  # what learned arrays are like; the rows are elsewhere
    source: TableSource
    n_labels: int
    n_classes: int | None  # None for a label matrix
    label_counts: LabelCounts
    preprocessor: Preprocessor
    attributes: Attributes

    missing_shares: None = None

    @property
    def n_rows(self) -> int:
        return self.source.n_rows


#: What training sees.
TrainingTable = EmbeddingInput | PartedInput


def read_rows(estimator: Any, X: Any, reset: bool) -> Array:
    """Rows as numbers, dense or sparse, without missing cells."""
    X = validate_rows(estimator, X, reset, accept_sparse="csr")
    reject_missing(estimator, X)
    return sparse.csr_array(X) if is_sparse(X) else X


def read_input(blank: Any, X: Any, y: Any, sample_weight: Any) -> TrainingTable:
    """Rows, labels and weights; `blank` is a copy of the estimator to validate on."""
    table = lazy_table(X)
    if table is not None:
        return _read_in_parts(blank, table, y, sample_weight)
    X = read_rows(blank, X, reset=True)
    labels = encode_label_matrix(y, X.shape[0], blank.unlabeled)
    weight = check_weight(sample_weight, X.shape[0])
    if weight is not None:
        warn_of_shares(weight)
        _check_label_weights(weight @ (labels.codes >= 0))
    if not labels.multilabel:
        _warn_of_unlabeled(blank, int((labels.codes < 0).all(axis=1).sum()), X.shape[0])
    attributes = input_attributes(blank) | _label_attributes(labels.classes, labels.multilabel, labels.names)
    return EmbeddingInput(X, labels, weight, make_preprocessor(X, weight, blank.standardize), attributes)


def _read_in_parts(blank: Any, table: LazyTable, y: Any, sample_weight: Any) -> PartedInput:
    read = read_parts(blank, table, y, sample_weight, LabelMatrixReader(blank.unlabeled))
    targets, multilabel = read.targets, isinstance(read.targets, LabelColumns)
    sums = _label_sums(read.rows)
    if read.rows.is_weighted:
        _check_label_weights(sums["weight"])
    if multilabel:
        counts = LabelCounts(list(targets.n_positive), targets.n_labeled, sums["known"].tolist())
    else:
        of_class, n_labeled = sums["present"].astype(int).tolist(), int(sums["known"][0])
        of_class = [n_labeled - of_class[0], *of_class] if len(targets.classes) == 2 else of_class
        counts = LabelCounts(of_class, n_labeled)
    if not multilabel:
        _warn_of_unlabeled(blank, read.rows.n_rows - counts.n_labeled, read.rows.n_rows)
    moments = source_moments(read.rows)
    preprocessor = Standardizer.from_moments(*moments)
    if not blank.standardize:
        xp = namespace(moments.mean)
        preprocessor = Standardizer(xp.zeros_like(moments.mean), xp.ones_like(moments.mean), None)
    attributes = read.attributes | _label_attributes(targets.classes, multilabel, targets.names if multilabel else None)
    return PartedInput(
        X=moments.mean[None, :],
        source=read.rows.with_preprocess(preprocessor),
        n_labels=sums["known"].size,
        n_classes=None if multilabel else len(targets.classes),
        label_counts=counts,
        preprocessor=preprocessor,
        attributes=attributes,
    )


def _warn_of_unlabeled(blank: Any, n_unlabeled: int, n_rows: int) -> None:
    """Tell of rows that nothing is learned from; in label matrices unknown entries are usual."""
    if n_unlabeled and not blank.semi_supervised:
        what = (
            "have no label: ProbitEmbeddingClassifier models p(y | x), so they count in nothing but how columns are "
            "scaled. semi_supervised=True keeps decision lines clear of them; GaussianMixtureClassifier and "
            "LatentClassificationModel learn from them."
        )
        warn_at_caller(f"{n_unlabeled} of {n_rows} rows {what}", in_search=f"rows {what}")


def _label_sums(rows: TableSource) -> Totals:
    """Of each label: rows in which it is known, in which it is present, and the weight of the
    former.
    """

    def visit(chunk: Chunk) -> Totals:
        known = to_numpy(chunk.y) >= 0
        present = (to_numpy(chunk.y) == 1).sum(axis=0)
        return {"known": known.sum(axis=0), "present": present, "weight": chunk.mean_weight() @ known}

    return rows.sum_over_chunks(visit, rows_per_chunk(4 * rows.n_features, rows.rows_like))


def _label_attributes(classes: np.ndarray, multilabel: bool, names: np.ndarray | None) -> Attributes:
    found: Attributes = {"classes_": classes, "multilabel_": multilabel}
    return found if names is None else {**found, "label_names_": names}


def _check_label_weights(weight_sums: np.ndarray) -> None:
    """Every label needs a known entry of positive weight."""
    if (weight_sums <= 0).any():
        column = int(np.argmin(weight_sums))
        raise ValueError(f"sample_weight is zero for every row with a known entry in column {column} of y.")
