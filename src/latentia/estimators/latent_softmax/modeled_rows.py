"""Rows as softmax models see them, samples of them, and those that have weight."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from latentia.arrays.namespace import take_rows
from latentia.engine.rows import ArraySource, TableSource
from latentia.estimators.latent_softmax.effort import SAMPLE_ROWS, SAMPLE_ROWS_PER_COLUMN
from latentia.table.standardization import Standardizer


class ModeledRows(NamedTuple):
    """The same rows as they are modeled and standardized, often one and the same."""

    modeled: TableSource
    standardized: TableSource
    preprocess: Standardizer  # from the former to the latter
    are_distinct: bool = True  # whether equal rows were merged, as those of small tables are

    def sample(self, rng: np.random.Generator) -> ModeledRows:
        """Random rows of a large table, of each class its share; all rows of others."""
        n_rows = max(SAMPLE_ROWS, SAMPLE_ROWS_PER_COLUMN * self.modeled.n_features)
        if self.modeled.n_rows <= n_rows:
            return self
        return self.replace(self.modeled.subset(self.modeled.sample_numbers(n_rows, rng)))

    def replace(self, modeled: TableSource) -> ModeledRows:
        """Other rows, modeled and standardized alike."""
        same = self.standardized is self.modeled
        return self._replace(
            modeled=modeled, standardized=modeled if same else modeled.with_preprocess(self.preprocess)
        )


def with_weight(rows: ArraySource, weight: np.ndarray) -> ArraySource:
    """The rows of a positive weight, with it."""
    counted = np.flatnonzero(weight > 0)
    some = weight[counted]
    return ArraySource(
        take_rows(rows.X, counted), rows.y[counted], None if (some == 1).all() else some, rows.preprocess
    )
