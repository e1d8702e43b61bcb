"""What `fit` of a generative model was given, validated and encoded: in memory, or in parts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from latentia.engine.array_source import ArraySource
from latentia.engine.chunked_source import ChunkedSource
from latentia.engine.source import LabelTotals, TableSource
from latentia.estimators.base.fitting import Attributes
from latentia.estimators.base.training_record import LabelCounts
from latentia.inputs.column_encoder import ColumnEncoder
from latentia.inputs.standardization import ColumnMoments, Standardizer
from latentia.numerics.array_api import Array, to_numpy

#: Samples of tables in parts have at most so many MiB.
SAMPLE_MIB = 64


class GenerativeInput(NamedTuple):
    """A table in memory."""

    X: Array  # (N, D) numbers, NaN where a cell is missing
    codes: np.ndarray  # (N,) class codes, -1 where unlabeled
    weight: np.ndarray | None
    n_classes: int
    log_prior: np.ndarray | None  # None: counted
    moments: ColumnMoments
    preprocessor: Standardizer
    encoder: ColumnEncoder
    attributes: Attributes

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    @property
    def label_totals(self) -> dict[int, LabelTotals]:
        return self.rows.label_totals

    @property
    def label_counts(self) -> LabelCounts:
        return LabelCounts.of_totals(self.label_totals)

    @property
    def missing_shares(self) -> np.ndarray:
        return _missing_shares(self.moments, self.rows)

    @property
    def empty_columns(self) -> np.ndarray | None:
        return _empty_columns(self.preprocessor)

    @property
    def rows(self) -> ArraySource:
        """The raw rows."""
        return ArraySource(self.X, self.codes, self.weight)

    def make_source(self) -> ArraySource:
        """The rows as they are modeled."""
        return ArraySource(self.X, self.codes, self.weight, self.preprocessor)


class PartedInput(NamedTuple):
    """A table in parts, wherever they are."""

    rows: ChunkedSource  # raw
    n_classes: int
    log_prior: np.ndarray | None  # None: counted
    moments: ColumnMoments
    preprocessor: Standardizer
    encoder: ColumnEncoder
    attributes: Attributes

    @property
    def X(self) -> Array:
        """What learned arrays are like; the rows are elsewhere."""
        return self.moments.mean[None, :]

    @property
    def n_features(self) -> int:
        return self.rows.n_features

    @property
    def label_totals(self) -> dict[int, LabelTotals]:
        return self.rows.label_totals

    @property
    def label_counts(self) -> LabelCounts:
        return LabelCounts.of_totals(self.label_totals)

    @property
    def missing_shares(self) -> np.ndarray:
        return _missing_shares(self.moments, self.rows)

    @property
    def empty_columns(self) -> np.ndarray | None:
        return _empty_columns(self.preprocessor)

    def make_source(self) -> ChunkedSource:
        return self.rows.with_preprocess(self.preprocessor)

    def sample(self, rng: np.random.Generator) -> GenerativeInput:
        """Random rows of the table, as many as may be brought into memory, for searches."""
        rows = self.rows.subset(self.rows.sample_numbers(SAMPLE_MIB * 2**20 // (8 * self.n_features), rng))
        return GenerativeInput(rows.X, rows.y, rows.weight, *self[1:])


#: What training sees.
TrainingTable = GenerativeInput | PartedInput


def _missing_shares(moments: ColumnMoments, rows: TableSource) -> np.ndarray:
    """The share of each column's cells that are missing, by weight."""
    known = to_numpy(moments.weight_sum).astype(float)
    return np.clip(1 - known / rows.total_weight, 0.0, 1.0)


def _empty_columns(preprocessor: Any) -> np.ndarray | None:
    """Which columns have no value; None if all have some."""
    return None if preprocessor.empty_columns is None else to_numpy(preprocessor.empty_columns)
