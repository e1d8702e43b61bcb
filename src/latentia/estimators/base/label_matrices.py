"""Classifiers of one label a row, or of label matrices whose entries may be unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from latentia.arrays.namespace import Array, namespace, to_numpy
from latentia.estimators.base.classifier import ProbabilisticClassifier
from latentia.table.labels import read_label_matrix
from latentia.table.lazy import RawPart, lazy_table
from latentia.table.rows import AnswerPart, method_of_rows
from latentia.table.weights import LABELED, check_total_weight, check_weight


class ClassOrLabelsClassifier(ProbabilisticClassifier):
    """Decisions and accuracy; which of the two it is, `fit` has seen."""

    multilabel_: bool

    @method_of_rows
    def predict(self, X: Any) -> Array:
        """The class with the least expected loss; for label matrices, the labels that are more
        probable than not.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as `predict_log_proba` takes them.

        Returns
        -------
        y : array of shape (n_samples,) or (n_samples, n_labels)
        """
        self._require_fitted()
        if not self.multilabel_:
            return super().predict(X)
        refuse_class_options(loss_matrix=self.loss_matrix)
        proba = self.predict_proba(X)
        xp = namespace(proba)
        return xp.astype(proba > 0.5, xp.int64)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy on the rows whose class is known; for label matrices, the share of rows all of
        whose known labels are right.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Rows without any known label do not count.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        accuracy : float
        """
        self._require_fitted()
        if not self.multilabel_:
            return super().score(X, y, sample_weight)
        table, count = lazy_table(X), _RightRows(AnswerPart(self, "predict"))
        if table is None:
            right, total, n_known = count(RawPart(X if hasattr(X, "shape") else np.asarray(X), y, sample_weight))
        else:
            right, total, n_known = np.sum(table.reduce_rows(count, y, sample_weight), axis=0).tolist()
        if not n_known:
            raise ValueError("y has no known label: all its entries are -1 or NaN.")
        check_total_weight(total, LABELED)
        return right / total


def refuse_class_options(loss_matrix: Any = None, priors: Any = "empirical") -> None:
    """Losses and priors are those of classes, of which a row has one; a label matrix has none."""
    given = {"loss_matrix": loss_matrix is not None, "priors": not (isinstance(priors, str) and priors == "empirical")}
    for name, is_given in given.items():
        if is_given:
            default = "None" if name == "loss_matrix" else "'empirical'"
            raise ValueError(
                f"{name} is for classes, and y is a label matrix: {name}={default} is allowed. To weigh mistakes or "
                "shares of labels otherwise, compare predict_proba with a threshold of your own for each label."
            )


@dataclass(frozen=True)
class _RightRows:
    """The weight of rows all of whose known labels are predicted, of all that have any, and how
    many these are.
    """

    predict: AnswerPart

    def __call__(self, part: RawPart) -> tuple[float, float, int]:
        if not part.X.shape[0]:
            return 0.0, 0.0, 0
        predicted = to_numpy(self.predict(part.X))
        codes = read_label_matrix(part.y)
        if codes.shape != predicted.shape:
            raise ValueError(f"y has shape {codes.shape}; expected is {predicted.shape}.")
        given = check_weight(part.weight, codes.shape[0], may_be_zero=True)
        known = (codes >= 0).any(axis=1)
        weight = known * (1.0 if given is None else given)
        right = ((codes == predicted) | (codes < 0)).all(axis=1)
        return float(weight @ right), float(weight.sum()), int(known.sum())
