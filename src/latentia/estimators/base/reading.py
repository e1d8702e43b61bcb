"""How a table and its labels become rows that a model trains on.

A table in memory is read in one piece. One in parts is read in two passes: the first takes a digest
of each part, from which columns and classes are learned by the same rules; the second encodes the
rows where they are, and keeps them there.

Estimators of tables of numbers that have no gaps: how they read rows, also part by part.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from latentia.arrays.namespace import Array, compute_dtype, take_rows, to_numpy
from latentia.engine.parts import ChunkedSource, Parts, count_labels, group_small, join_sources
from latentia.engine.rows import ArraySource, MaskMissing, TableSource
from latentia.estimators.base.estimator import Attributes, LatentEstimator, input_attributes
from latentia.scale.tables import Classes, CountRows, TargetReader, Targets
from latentia.table.columns import (
    ColumnKind,
    MemoryDigest,
    TableDigest,
    holds_only_bits,
    join_distinct,
    number_columns,
)
from latentia.table.encoder import ColumnEncoder, as_numbers
from latentia.table.frames import frame_type
from latentia.table.labels import read_labels
from latentia.table.lazy import LazyTable, RawPart
from latentia.table.rows import reject_missing, validate_rows
from latentia.table.weights import check_class_weights, check_total_weight, check_weight

#: Neighboring parts are joined up to this size, in MiB: each costs time in every pass. Where parts
#: stay, up to so many times as much, as long as everyone who works there has two.
SMALL_MIB = 4
MAX_JOINED = 8


class ReadTable(NamedTuple):
    """Rows to train on, how they were encoded, and what is learned from the input alone."""

    rows: TableSource
    encoder: ColumnEncoder
    targets: Any  # the `Targets` that y holds
    attributes: Attributes
    n_rows: int  # of the table, with those that were dropped


def read_in_memory(estimator: Any, X: Any, y: Any, sample_weight: Any) -> ReadTable:
    """A table in memory."""
    X, encoder, attributes = estimator._read_rows(X, sample_weight)
    labels = read_labels(y, X.shape[0], estimator.unlabeled)
    weight = check_weight(sample_weight, X.shape[0], labels.codes, labels.classes)
    rows = ArraySource(X, labels.codes, weight, MaskMissing(compute_dtype(X)))
    return ReadTable(rows, encoder, Classes(labels.classes, estimator.unlabeled), attributes, X.shape[0])


def read_parts(
    estimator: Any, table: LazyTable, y: Any, sample_weight: Any, reader: TargetReader, only_known: bool = False
) -> ReadTable:
    """A table in parts; if asked, without the rows of which y says nothing."""
    parts = table.training_parts(y, sample_weight)
    heads = parts.gather(_TakeHead(table.meta, reader))
    filled = [k for k, head in enumerate(heads) if head.n_rows > 0]
    if not filled:
        raise ValueError(f"X is {table.name} without any row: at least one is required.")
    parts, heads = parts.select(filled), [heads[k] for k in filled]
    is_weighted = any(head.is_weighted for head in heads)
    targets = reader.learn([head.targets for head in heads])
    blank = estimator._blank_copy().set_params(callback=None)
    blank._validate_table(heads[0].first_row, reset=True)
    encoder, attributes = blank._make_encoder(PartedDigest(heads[0].first_row, table.meta, parts, is_weighted))
    encoded = parts.map(_EncodePart(blank, encoder, targets, only_known))
    sizes = [head.n_rows for head in heads]
    limit = int(SMALL_MIB * 2**20) // (8 * len(encoder.columns))
    if parts.n_places is not None:
        limit = max(limit, min(MAX_JOINED * limit, sum(sizes) // (2 * parts.n_places)))
    groups = group_small(sizes, limit)
    if len(groups) < len(encoded):
        encoded = encoded.join(groups, join_sources)
    encoded = encoded.keep()
    totals = encoded.gather(count_labels)
    filled = [k for k, part in enumerate(totals) if part]
    columns = len(encoder.columns)
    rows = ChunkedSource(encoded.select(filled), [totals[k] for k in filled], columns, is_weighted)
    if is_weighted:
        _check_weights(rows, targets)
    attributes = input_attributes(blank) | attributes
    return ReadTable(rows, encoder, targets, attributes, sum(sizes))


def sized_by_weight(
    encoder: ColumnEncoder, rows: TableSource, known_kinds: Mapping[str, type[ColumnKind]]
) -> ColumnEncoder:
    """The encoder, in which cells count by the weight of their rows in what models must know of
    columns beforehand.
    """
    places = tuple(k for k, kind in enumerate(encoder.kinds) if known_kinds[kind].needs_size)
    if not places or not rows.is_weighted:
        return encoder
    look = _WeightedCells(places)
    parts = rows.parts.gather(look) if isinstance(rows, ChunkedSource) else [look(rows)]
    columns = list(encoder.columns)
    for number, k in enumerate(places):
        cells, weight = (np.concatenate(each) for each in zip(*(part[number] for part in parts), strict=True))
        columns[k] = columns[k]._replace(size=known_kinds[columns[k].kind].column_size(cells, weight))
    return encoder._replace(columns=tuple(columns))


@dataclass(frozen=True)
class _WeightedCells:
    """Distinct known cells of some columns of a part, and what their rows weigh."""

    places: tuple[int, ...]

    def __call__(self, rows: Any) -> list[tuple[np.ndarray, np.ndarray]]:
        weight, found = np.ones(rows.n_rows) if rows.weight is None else rows.weight, []
        for place in self.places:
            cells = to_numpy(rows.X[:, place]).astype(float)
            known = ~np.isnan(cells) & (weight > 0)
            values, numbers = np.unique(cells[known], return_inverse=True)
            found.append((values, np.bincount(numbers, weight[known], minlength=values.size)))
        return found


def _check_weights(rows: ChunkedSource, targets: Targets) -> None:
    check_total_weight(rows.total_weight)
    if isinstance(targets, Classes):
        joined, codes = rows.label_totals, range(len(targets.classes))
        check_class_weights(np.array([joined[c].weight for c in codes]), targets.classes)


class _Head(NamedTuple):
    """What is asked of a part first."""

    n_rows: int
    targets: Any  # the digest of y
    is_weighted: bool
    first_row: Any  # of the table


@dataclass(frozen=True)
class _TakeHead:
    """Rows and labels of a part, whose columns must be those of the whole table."""

    meta: Any
    reader: TargetReader

    def __call__(self, part: RawPart) -> _Head:
        X, y, weight = part
        n_rows = CountRows(self.meta)(part)
        first_row = deepcopy(X.iloc[:1] if hasattr(X, "iloc") else X[:1])  # which does not hold the others
        digest = self.reader.digest(y, n_rows) if n_rows else None
        return _Head(n_rows, digest, weight is not None, first_row)


@dataclass(frozen=True)
class _EncodePart:
    """Rows of a part as numbers, with the codes of their classes."""

    reader: Any  # an estimator that has seen the columns
    encoder: ColumnEncoder
    targets: Targets
    only_known: bool

    def __call__(self, part: RawPart) -> ArraySource:
        X = self.reader._encode_table(part.X, self.encoder)
        y = self.targets.encode(part.y, X.shape[0])
        weight = check_weight(part.weight, X.shape[0], may_be_zero=True)
        known = self.targets.known(y) if self.only_known else None
        if known is not None and not known.all():
            X, y, weight = take_rows(X, np.flatnonzero(known)), y[known], None if weight is None else weight[known]
        return ArraySource(X, y, weight, MaskMissing(compute_dtype(X)), cache_mib=0)


class PartedDigest(TableDigest):
    """The columns of a table in parts; distinct values are asked of all parts, once."""

    def __init__(self, first_row: Any, meta: Any, parts: Parts, is_weighted: bool):
        super().__init__(meta if frame_type(meta) != "array" else first_row)
        self.parts, self.is_weighted = parts, is_weighted
        self._found: dict[int, tuple[list[Any], np.ndarray]] = {}

    @cached_property
    def only_bits(self) -> bool:
        found = self.parts.gather(_bits)
        return all(fine for fine, _ in found) and any(seen for _, seen in found)

    def distinct(self, place: int) -> tuple[list[Any], np.ndarray]:
        if place not in self._found:
            asked = [k for k, kind in enumerate(self.types) if not kind.is_float] if self.types else []
            asked = asked if place in asked else ([place] if self.types else list(range(len(self.names))))
            found = self.parts.gather(_Distinct(tuple(asked)))
            for number, k in enumerate(asked):
                self._found[k] = join_distinct([part[number] for part in found], self._is_category(k))
        return self._found[place]

    def frequencies(self, place: int) -> np.ndarray:
        if not self.is_weighted:
            return self.distinct(place)[1]
        return join_distinct(self.parts.gather(_Frequencies(place)), self._is_category(place))[1]

    def numbers(self, place: int) -> tuple[np.ndarray, np.ndarray | None]:
        values, counts = self.distinct(place)
        return as_numbers(np.array(values), self.names[place]), counts

    def _is_category(self, place: int) -> bool:
        return bool(self.types) and self.types[place].categories is not None


@dataclass(frozen=True)
class _Distinct:
    """The distinct values of some columns of a part."""

    places: tuple[int, ...]

    def __call__(self, part: RawPart) -> list[tuple[list[Any], np.ndarray]]:
        digest = MemoryDigest(part.X)
        return [digest.distinct(place) for place in self.places]


@dataclass(frozen=True)
class _Frequencies:
    """The distinct values of a column of a part, and what the cells with each weigh."""

    place: int

    def __call__(self, part: RawPart) -> tuple[list[Any], np.ndarray]:
        digest = MemoryDigest(part.X, check_weight(part.weight, part.X.shape[0], may_be_zero=True))
        return digest.distinct(self.place)[0], digest.frequencies(self.place)


def _bits(part: RawPart) -> tuple[bool, bool]:
    """Whether all known cells are 0 or 1, and whether there are any."""
    known = part.X[part.X == part.X] if part.X.dtype.kind == "f" else part.X
    return not known.size or holds_only_bits(part.X), bool(known.size)


class NumberTableMixin(LatentEstimator):
    """Reads numbers."""

    def _validate_table(self, X: Any, reset: bool) -> Array:
        """Rows as numbers without missing cells; scikit-learn leaves its marks on `self`."""
        X = validate_rows(self, X, reset)
        reject_missing(self, X)
        return X

    def _make_encoder(self, table: Any) -> tuple[ColumnEncoder, Attributes]:
        """How the parts of a table are read."""
        return number_columns(table), {}

    def _encode_table(self, X: Any, encoder: ColumnEncoder) -> Array:
        """Rows of a part as numbers."""
        return self._validate_table(X, reset=False)

    def _check_rows(self, X: Any) -> Array:
        """Rows to predict, as numbers."""
        self._require_fitted()
        return self._validate_table(X, reset=False)

    def _n_rows(self, X: Any, data: Any) -> int:
        return int(data.n_rows)
