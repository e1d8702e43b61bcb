"""What `fit` of a generative model was given, validated and encoded: in memory, or in parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace

import numpy as np

from latentia.arrays.namespace import Array, take_rows, to_numpy
from latentia.engine.parts import ChunkedSource
from latentia.engine.rows import ArraySource, LabelTotals, TableSource
from latentia.estimators.base.fitting import Attributes
from latentia.estimators.base.training_record import LabelCounts
from latentia.table.encoder import ColumnEncoder
from latentia.table.standardization import ColumnMoments, Standardizer, source_moments

#: Samples of tables have at most so many MiB.
SAMPLE_MIB = 64


@dataclass(frozen=True)
class TableInput(ABC):
    """What was learned from the rows before training."""

    n_classes: int
    log_prior: np.ndarray | None  # None: counted
    moments: ColumnMoments
    preprocessor: Standardizer
    encoder: ColumnEncoder
    attributes: Attributes

    @property
    @abstractmethod
    def rows(self) -> TableSource:
        """The raw rows."""

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
        """The share of each column's cells that are missing, by weight."""
        known = to_numpy(self.moments.weight_sum).astype(float)
        return np.clip(1 - known / self.rows.total_weight, 0.0, 1.0)

    @property
    def empty_columns(self) -> np.ndarray | None:
        """Which columns have no value; None if all have some."""
        empty = self.preprocessor.empty_columns
        return None if empty is None else to_numpy(empty)

    def sample(self, rng: np.random.Generator, n_rows: int | None = None) -> GenerativeInput:
        """Random rows of the table, so many at most; by default as many as may be brought into
        memory.
        """
        n_rows = SAMPLE_MIB * 2**20 // (8 * self.n_features) if n_rows is None else n_rows
        some = self.rows.subset(self.rows.sample_numbers(n_rows, rng))
        learned = {field.name: getattr(self, field.name) for field in fields(TableInput)}
        learned["moments"] = source_moments(some)
        return GenerativeInput(**learned, X=some.X, codes=some.y, weight=some.weight)


@dataclass(frozen=True)
class GenerativeInput(TableInput):
    """A table in memory."""

    X: Array  # (N, D) numbers, NaN where a cell is missing
    codes: np.ndarray  # (N,) class codes, -1 where unlabeled
    weight: np.ndarray | None

    @property
    def counted_codes(self) -> np.ndarray:
        """The class codes of the rows that have a weight."""
        return self.codes if self.weight is None else self.codes[self.weight > 0]

    @property
    def labeled_weight(self) -> float:
        """What the labeled rows weigh together."""
        labeled = self.codes >= 0
        return float(labeled.sum() if self.weight is None else self.weight[labeled].sum())

    @property
    def rows(self) -> ArraySource:
        return ArraySource(self.X, self.codes, self.weight)

    def subset(self, index: np.ndarray) -> GenerativeInput:
        """The rows of these numbers, in increasing order."""
        if index.size == self.codes.size:
            return self
        weight = None if self.weight is None else self.weight[index]
        return replace(self, X=take_rows(self.X, index), codes=self.codes[index], weight=weight)

    def make_source(self) -> ArraySource:
        """The rows as they are modeled."""
        return self.rows.with_preprocess(self.preprocessor)


@dataclass(frozen=True)
class PartedInput(TableInput):
    """A table in parts, wherever they are."""

    parts: ChunkedSource

    @property
    def rows(self) -> ChunkedSource:
        return self.parts

    def make_source(self) -> ChunkedSource:
        """The rows as they are modeled."""
        return self.parts.with_preprocess(self.preprocessor)

    @property
    def X(self) -> Array:
        """What learned arrays are like; the rows are elsewhere."""
        return self.moments.mean[None, :]


#: What training sees.
TrainingTable = GenerativeInput | PartedInput
