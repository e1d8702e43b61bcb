"""Rows to train on, with a column of weights for each model: a fold has zeros where rows are held
out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from latentia.arrays.namespace import in_main_memory
from latentia.estimators.base.generative_input import GenerativeInput
from latentia.estimators.latent_classifier.folds import SearchFold


class TrainingRows(NamedTuple):
    """Rows, and the weights (N, S) by which S models see them; the last sees them all."""

    data: GenerativeInput
    weights: np.ndarray

    @classmethod
    def whole(cls, data: GenerativeInput) -> TrainingRows:
        """For one model of all rows."""
        weight = np.ones(data.codes.size) if data.weight is None else data.weight
        return cls(data, np.asarray(weight, dtype=float)[:, None])

    def with_folds(self, folds: Sequence[SearchFold]) -> TrainingRows:
        """A model for each fold's training part, before the one of all rows."""
        weight, columns = self.weights[:, -1], []
        for fold in folds:
            column = np.zeros_like(weight)
            column[fold.train] = weight[fold.train]
            columns.append(column)
        return self._replace(weights=np.stack([*columns, weight], axis=1))

    def subset(self, index: np.ndarray) -> TrainingRows:
        """The rows of these numbers."""
        if index.size == self.data.codes.size:
            return self
        weights = self.weights[index]
        return TrainingRows(replace(self.data.subset(index), weight=weights[:, -1]), weights)

    def in_main_memory(self) -> TrainingRows:
        """The same rows for NumPy, which is faster than a device where they are few."""
        data = self.data
        X, moments, preprocessor = map(in_main_memory, (data.X, data.moments, data.preprocessor))
        return self._replace(data=replace(data, X=X, moments=moments, preprocessor=preprocessor))

    def with_unlabeled(self, factor: float) -> TrainingRows:
        """Without the unlabeled rows where they count nothing."""
        return self if factor > 0 else self.subset(np.flatnonzero(self.data.codes >= 0))

    def labeled(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and weights of the labeled rows that a model sees."""
        index = np.flatnonzero((self.data.codes >= 0) & (self.weights[:, number] > 0))
        return index, self.weights[index, number]

    def classes(self, number: int) -> np.ndarray:
        """Codes of the classes that a model sees."""
        return np.unique(self.data.codes[self.labeled(number)[0]])
