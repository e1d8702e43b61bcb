"""Accuracy where the class is known."""

from __future__ import annotations

from typing import Any

from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score

from latentia.inputs.labels import NO_LABEL, split_unlabeled
from latentia.inputs.weights import check_weight
from latentia.numerics.array_api import to_numpy


class AccuracyMixin(ClassifierMixin):
    """A classifier whose `y` may have gaps."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the rows whose class is known.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Classes; rows marked as unlabeled, as in `fit`, do not count.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        accuracy : float
        """
        found = self.predict(X)
        labels, gaps = split_unlabeled(y, found.shape[0], self.classes_)
        if gaps.all():
            raise ValueError(NO_LABEL)
        if not gaps.any():
            return float(accuracy_score(y, found, sample_weight=sample_weight))
        weight = check_weight(sample_weight, found.shape[0])
        known = ~gaps
        return float(
            accuracy_score(labels, to_numpy(found)[known], sample_weight=None if weight is None else weight[known])
        )
