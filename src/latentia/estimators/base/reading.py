"""How a table and its labels become rows that a model trains on.

A table in memory is read in one piece. One in parts is read in two passes: the first takes a digest
of each part, from which columns and classes are learned by the same rules; the second encodes the
rows where they are, and keeps them there. What a model takes for a table is an object: numbers
(`NumberTable`), or columns of all kinds (`MixedTable`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from latentia.arrays.namespace import Array, compute_dtype, take_rows, to_numpy
from latentia.engine.parts import ChunkedSource
from latentia.engine.rows import ArraySource, Chunk, LabelTotals, MaskMissing, TableSource, Totals, rows_per_chunk
from latentia.estimators.base.estimator import Attributes, LabelCounts, LatentEstimator, input_attributes
from latentia.scale.tables import (
    Classes,
    ClassReader,
    LazyTable,
    PartedDigest,
    RawPart,
    TableInParts,
    TargetReader,
    Targets,
    lazy_table,
)
from latentia.table.columns import (
    ColumnKind,
    MemoryDigest,
    learn_columns,
    number_columns,
)
from latentia.table.encoder import ColumnEncoder, Merging
from latentia.table.frames import TableLike, frame_type
from latentia.table.labels import LabelsLike, read_labels
from latentia.table.rows import (
    plain_table,
    reject_missing,
    validate_rows,
    validate_table,
    warn_of_empty_columns,
    warn_of_far_cells,
)
from latentia.table.standardization import (
    MAX_ROWS,
    ColumnMoments,
    PowerTransform,
    Standardizer,
    learn_power_transform,
    source_moments,
)
from latentia.table.weights import (
    check_class_weights,
    check_loss_matrix,
    check_priors,
    check_total_weight,
    check_weight,
)


class ReadTable(NamedTuple):
    """Rows to train on, how they were encoded, and what is learned from the input alone."""

    rows: TableSource
    encoder: ColumnEncoder
    targets: Any  # the `Targets` that y holds
    attributes: Attributes
    n_rows: int  # of the table, with those that were dropped


@dataclass(frozen=True)
class NumberTable:
    """Tables of numbers, which stay as they are."""

    takes_gaps: bool = False  # whether cells may be missing

    def validate(self, estimator: LatentEstimator, X: TableLike, reset: bool) -> Array:
        """Rows as numbers; scikit-learn leaves its marks on the estimator."""
        rows = validate_rows(estimator, X, reset)
        if not self.takes_gaps:
            reject_missing(estimator, rows)
        return rows

    def learn(self, table: Any) -> tuple[ColumnEncoder, Attributes]:
        """How the columns of a table, or of its digest, are read; what is learned from them."""
        return number_columns(table), {}

    def encode(self, estimator: LatentEstimator, X: TableLike, encoder: ColumnEncoder) -> Array:
        """Rows like those of the fit, as numbers."""
        return self.validate(estimator, X, reset=False)

    def read(
        self, estimator: LatentEstimator, X: TableLike, sample_weight: ArrayLike | None = None
    ) -> tuple[Array, ColumnEncoder, Attributes]:
        """Rows in memory as numbers, how they were encoded, and what is learned from them."""
        blank, table = estimator._blank_copy(), plain_table(X)
        rows = self.validate(blank, table, reset=True)
        encoder, learned = self.learn(rows if frame_type(table) == "array" else table)
        return rows, encoder, input_attributes(blank) | learned

    def is_standardized(self, encoder: ColumnEncoder) -> list[bool]:
        """Which columns are brought to standard units."""
        return [True] * len(encoder.columns)

    def with_sizes(self, encoder: ColumnEncoder, rows: TableSource) -> ColumnEncoder:
        """The encoder, once the rows have their weights."""
        return encoder


@dataclass(frozen=True)
class MixedTable:
    """Tables of numbers, text and categories, read column by column."""

    kinds: Any  # as users name them
    merging: Merging  # of rare levels
    handle_unknown: str  # levels that were not in the fit
    known_kinds: Mapping[str, type[ColumnKind]]

    def validate(self, estimator: LatentEstimator, X: TableLike, reset: bool) -> Any:
        """The table as it is encoded; scikit-learn leaves its marks on the estimator."""
        return validate_table(estimator, X, reset)

    def learn(self, table: Any) -> tuple[ColumnEncoder, Attributes]:
        """How the columns of a table, or of its digest, are read; what is learned from them."""
        encoder = learn_columns(table, self.kinds, self.known_kinds, self.merging)
        return encoder, {"kinds_": encoder.kinds}

    def encode(self, estimator: LatentEstimator, X: TableLike, encoder: ColumnEncoder) -> Array:
        """Rows like those of the fit, as numbers."""
        return encoder.encode(validate_table(estimator, X, reset=False), self.handle_unknown)

    def read(
        self, estimator: LatentEstimator, X: TableLike, sample_weight: ArrayLike | None = None
    ) -> tuple[Array, ColumnEncoder, Attributes]:
        """Rows in memory as numbers, how they were encoded, and what is learned from them."""
        blank = estimator._blank_copy()
        table = validate_table(blank, X, reset=True)
        encoder, learned = self.learn(MemoryDigest(table, check_weight(sample_weight, table.shape[0])))
        return encoder.encode(table, self.handle_unknown), encoder, input_attributes(blank) | learned

    def is_standardized(self, encoder: ColumnEncoder) -> list[bool]:
        """Which columns are brought to standard units."""
        return [self.known_kinds[kind].is_standardized for kind in encoder.kinds]

    def with_sizes(self, encoder: ColumnEncoder, rows: TableSource) -> ColumnEncoder:
        """The encoder, in which cells count by the weight of their rows in what models must know of
        columns beforehand.
        """
        places = tuple(k for k, kind in enumerate(encoder.kinds) if self.known_kinds[kind].needs_size)
        if not places or not rows.is_weighted:
            return encoder
        size = rows_per_chunk(2 * rows.n_features, rows.rows_like)
        weights: dict[Any, float] = rows.sum_over_chunks(partial(_weigh_cells, places=places), size)
        columns = list(encoder.columns)
        for k in places:
            cells = sorted(cell for place, cell in weights if place == k)
            weight = np.array([weights[k, cell] for cell in cells])
            columns[k] = columns[k]._replace(
                size=self.known_kinds[columns[k].kind].column_size(np.array(cells), weight)
            )
        return encoder._replace(columns=tuple(columns))


def _weigh_cells(chunk: Chunk, places: Sequence[int]) -> Totals:
    """What the rows with each known value of some columns weigh."""
    weight = chunk.mean_weight()
    found: Totals = {}
    for place in places:
        cells = to_numpy(chunk.rows.values[:, place]).astype(float)
        known = weight > 0
        if chunk.rows.observed is not None:
            known &= to_numpy(chunk.rows.observed[:, place]) > 0
        values, numbers = np.unique(cells[known], return_inverse=True)
        sums = np.bincount(numbers, weight[known], minlength=values.size)
        found |= {(place, value): total for value, total in zip(values.tolist(), sums.tolist(), strict=True)}
    return found


#: What a model takes for a table.
TableFormat = NumberTable | MixedTable


def read_in_memory(
    estimator: BaseEstimator, form: TableFormat, X: TableLike, y: LabelsLike | None, sample_weight: ArrayLike | None
) -> ReadTable:
    """A table in memory, and its classes."""
    X, encoder, attributes = form.read(estimator, X, sample_weight)
    labels = read_labels(y, X.shape[0], estimator.unlabeled)
    weight = check_weight(sample_weight, X.shape[0], labels.codes, labels.classes)
    rows = ArraySource(X, labels.codes, weight, MaskMissing(compute_dtype(X)))
    return ReadTable(rows, encoder, Classes(labels.classes, estimator.unlabeled), attributes, X.shape[0])


def read_parts(
    estimator: BaseEstimator,
    form: TableFormat,
    table: LazyTable,
    y: LabelsLike | None,
    sample_weight: ArrayLike | None,
    reader: TargetReader[Any],
    only_known: bool = False,
) -> ReadTable:
    """A table in parts; if asked, without the rows of which y says nothing."""
    parts = TableInParts(table, y, sample_weight, reader)
    targets = parts.targets
    blank = estimator._blank_copy().set_params(callback=None)
    form.validate(blank, parts.first_row, reset=True)
    encoder, attributes = form.learn(PartedDigest(parts))
    rows = parts.encode(_EncodePart(blank, form, encoder, targets, only_known), len(encoder.columns))
    if parts.is_weighted:
        _check_weights(rows, targets)
    return ReadTable(rows, encoder, targets, input_attributes(blank) | attributes, sum(parts.sizes))


def _check_weights(rows: ChunkedSource, targets: Targets) -> None:
    check_total_weight(rows.total_weight)
    if isinstance(targets, Classes) and not targets.as_columns:
        joined, codes = rows.label_totals, range(len(targets.classes))
        check_class_weights(np.array([joined[c].weight for c in codes]), targets.classes)


@dataclass(frozen=True)
class _EncodePart:
    """Rows of a part as numbers, with the codes of their classes."""

    estimator: Any  # which has seen the columns
    form: TableFormat
    encoder: ColumnEncoder
    targets: Targets
    only_known: bool

    def __call__(self, part: RawPart) -> ArraySource:
        X = self.form.encode(self.estimator, part.X, self.encoder)
        y = self.targets.encode(part.y, X.shape[0])
        weight = check_weight(part.weight, X.shape[0], may_be_zero=True)
        known = self.targets.known(y) if self.only_known else None
        if known is not None and not known.all():
            X, y, weight = take_rows(X, np.flatnonzero(known)), y[known], None if weight is None else weight[known]
        return ArraySource(X, y, weight, MaskMissing(compute_dtype(X)), cache_mib=0)


#: Samples of tables have at most so many MiB.
SAMPLE_MIB = 64


@dataclass(frozen=True)
class TableInput(ABC):
    """What was learned from the rows before training."""

    n_classes: int
    log_prior: np.ndarray | None  # None: counted
    moments: ColumnMoments
    preprocessor: Standardizer | PowerTransform
    encoder: ColumnEncoder
    attributes: Attributes

    @property
    @abstractmethod
    def rows(self) -> TableSource:
        """The raw rows."""

    @property
    def n_rows(self) -> int:
        return self.rows.n_rows

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
        return self.rows.with_preprocess(self.preprocessor.prepare)


@dataclass(frozen=True)
class PartedInput(TableInput):
    """A table in parts, wherever they are."""

    parts: ChunkedSource

    @property
    def rows(self) -> ChunkedSource:
        return self.parts

    def make_source(self) -> ChunkedSource:
        """The rows as they are modeled."""
        return self.parts.with_preprocess(self.preprocessor.prepare)

    @property
    def X(self) -> Array:
        """What learned arrays are like; the rows are elsewhere."""
        return self.moments.mean[None, :]


#: What training sees.
TrainingTable = GenerativeInput | PartedInput


def read_training_table(
    estimator: BaseEstimator,
    form: TableFormat,
    X: TableLike,
    y: LabelsLike | None,
    sample_weight: ArrayLike | None,
    power: bool = True,
    common_scale: bool = False,
) -> TrainingTable:
    """Rows, classes and weights of a generative model, and the units in which it sees them.

    With `power`, columns are made as normal as a power transform can make them; with
    `common_scale` they keep the proportions of their units.
    """
    table = lazy_table(X)
    if table is None:
        rows, encoder, targets, attributes, _ = read_in_memory(estimator, form, X, y, sample_weight)
    else:
        reader = ClassReader(estimator.unlabeled)
        rows, encoder, targets, attributes, _ = read_parts(estimator, form, table, y, sample_weight, reader)
    log_prior = check_priors(estimator.priors, targets.classes)
    check_loss_matrix(estimator.loss_matrix, len(targets.classes))
    moments, is_standardized = source_moments(rows), form.is_standardized(encoder)
    preprocessor: Any = Standardizer.from_moments(*moments, common_scale=common_scale)
    if not all(is_standardized):
        preprocessor = preprocessor.only(is_standardized)
    some = rows.spread_rows(MAX_ROWS)
    if power:
        may_change = [each and not common_scale for each in is_standardized]
        preprocessor = learn_power_transform(some.X, some.weight, preprocessor, may_change)
    names = attributes.get("feature_names_in_", np.arange(rows.n_features)).tolist()
    if preprocessor.empty_columns is not None:
        warn_of_empty_columns(names, to_numpy(preprocessor.empty_columns))
    seen = rows if isinstance(rows, ArraySource) else some
    is_number = np.array([column.levels is None for column in encoder.columns])
    warn_of_far_cells(seen.X, seen.weight, to_numpy(moments.std), names, is_number)
    learned: dict[str, Any] = {"n_classes": len(targets.classes), "log_prior": log_prior, "moments": moments}
    learned |= {"preprocessor": preprocessor, "encoder": form.with_sizes(encoder, rows)}
    learned |= {"attributes": {**attributes, "classes_": targets.classes}}
    if isinstance(rows, ArraySource):
        return GenerativeInput(**learned, X=rows.X, codes=rows.y, weight=rows.weight)
    assert isinstance(rows, ChunkedSource)
    return PartedInput(**learned, parts=rows)
