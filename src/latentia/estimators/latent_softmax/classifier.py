"""Classifiers that model p(y | x) alone, by a softmax model of any kind."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from latentia.arrays.namespace import Array, namespace, take_rows, to_numpy
from latentia.engine.messages import warn_at_caller
from latentia.engine.rows import MaskedRows
from latentia.estimators.base.classifier import InformationCriteriaMixin, ProbabilisticClassifier
from latentia.estimators.base.table_reading import read_parts
from latentia.estimators.base.training_record import LabelCounts
from latentia.estimators.latent_softmax.base import LatentSoftmaxEstimator, SoftmaxInput
from latentia.estimators.latent_softmax.distinct_rows import merge_equal_rows
from latentia.estimators.latent_softmax.fitted import plugin
from latentia.estimators.latent_softmax.model_specs import WeightEstimate
from latentia.scale.tables import ClassReader, is_small
from latentia.table.labels import encode_known_labels, read_labels
from latentia.table.lazy import LazyTable, lazy_table
from latentia.table.standardization import source_moments
from latentia.table.weights import check_loss_matrix, check_weight


class DiscriminativeClassifier(InformationCriteriaMixin, ProbabilisticClassifier, LatentSoftmaxEstimator):
    """Reads labels, and predicts from log probabilities of the classes."""

    n_features_in_: int

    @abstractmethod
    def _class_log_proba(self, estimate: WeightEstimate, rows: MaskedRows) -> Array:
        """Log probabilities (N, C) of rows."""

    def _read_input(self, X: Any, y: Any, sample_weight: Any) -> SoftmaxInput:
        table = lazy_table(X)
        if table is not None:
            return self._read_in_parts(table, y, sample_weight)
        X, attributes = self._read_rows(X)
        n_rows, distinct = X.shape[0], is_small(*X.shape)
        labels = read_labels(y, X.shape[0], self.unlabeled)
        weight = check_weight(sample_weight, X.shape[0], labels.codes, labels.classes)
        check_loss_matrix(self.loss_matrix, len(labels.classes))
        codes, labeled = labels.codes, labels.codes >= 0
        self._warn_of_dropped(int((~labeled).sum()), n_rows)
        if not labeled.all():
            X = take_rows(X, np.flatnonzero(labeled))
            codes, weight = codes[labeled], None if weight is None else weight[labeled]
        if distinct:
            X, codes, weight = merge_equal_rows(X, codes, weight)
        rows, preprocessor = self._array_rows(X, codes, weight, distinct)
        attributes = {**attributes, "classes_": labels.classes}
        counts = LabelCounts.of_codes(labels.codes)
        return SoftmaxInput(X, rows, preprocessor, len(labels.classes), attributes, n_rows, counts)

    def _read_in_parts(self, table: LazyTable, y: Any, sample_weight: Any) -> SoftmaxInput:
        """The same for a large table in parts."""
        read = read_parts(self, table, y, sample_weight, ClassReader(self.unlabeled), only_known=True)
        classes = read.targets.classes
        check_loss_matrix(self.loss_matrix, len(classes))
        self._warn_of_dropped(read.n_rows - read.rows.n_rows, read.n_rows)
        moments = source_moments(read.rows)
        rows, preprocessor = self._modeled_rows(read.rows, moments)
        attributes, counts = {**read.attributes, "classes_": classes}, LabelCounts.of_totals(read.rows.label_totals)
        like = moments.mean[None, :]
        return SoftmaxInput(like, rows, preprocessor, len(classes), attributes, read.n_rows, counts)

    def _warn_of_dropped(self, n_dropped: int, n_rows: int) -> None:
        if n_dropped:
            warn_at_caller(
                f"{n_dropped} of {n_rows} rows have no label and are dropped: {type(self).__name__} models p(y | x), "
                "so they carry no information. GaussianMixtureClassifier and LatentClassificationModel learn from "
                "them."
            )

    def _log_proba(self, X: Any) -> Array:
        log_proba = self._map_rows(X, self._class_log_proba)
        return namespace(log_proba).clip(log_proba, max=0.0)  # metrics refuse what is above one by a rounding

    def _log_likelihood(self, X: Any, y: Any) -> tuple[float, int]:
        """At the point estimate, of the labeled rows."""
        log_proba = to_numpy(self._map_rows(X, self._class_log_proba, plugin)).astype(float)
        codes = encode_known_labels(y, self.classes_, log_proba.shape[0], self.unlabeled)
        labeled = np.flatnonzero(codes >= 0)
        return float(log_proba[labeled, codes[labeled]].sum()), labeled.size

    def _n_free_params(self) -> int:
        return self._model.fitted.spec.n_free(self.n_features_in_ + 1)
