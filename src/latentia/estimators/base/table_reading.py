"""How a table and its labels become rows that a generative model trains on.

A table in memory is read in one piece. One in parts is read in two passes: the first takes a digest
of each part, from which columns and classes are learned by the same rules; the second encodes the
rows where they are, and keeps them there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from latentia.engine.array_source import ArraySource
from latentia.engine.chunked_source import ChunkedSource, join_sources
from latentia.engine.masking import MaskMissing
from latentia.engine.parts import Parts, group_small
from latentia.engine.source import TableSource
from latentia.estimators.base.fitting import Attributes, input_attributes
from latentia.inputs.column_encoder import ColumnEncoder
from latentia.inputs.column_kinds import as_numbers, holds_only_bits
from latentia.inputs.dataframes import column_dtype, frame_type
from latentia.inputs.label_digest import LabelDigest, digest_labels, read_classes
from latentia.inputs.labels import Mark, encode_known_labels, read_labels
from latentia.inputs.lazy_tables import LazyTable, RawPart
from latentia.inputs.table_digest import MemoryDigest, TableDigest, join_distinct
from latentia.inputs.weights import check_class_weights, check_weight
from latentia.numerics.array_api import compute_dtype

#: Neighboring parts are joined up to this size, in MiB: each costs time in every pass.
SMALL_MIB = 4


class ReadTable(NamedTuple):
    """Rows to train on, how they were encoded, and what is learned from the input alone."""

    rows: TableSource
    encoder: ColumnEncoder
    classes: np.ndarray
    attributes: Attributes


def read_in_memory(estimator: Any, X: Any, y: Any, sample_weight: Any) -> ReadTable:
    """A table in memory."""
    X, encoder, attributes = estimator._read_rows(X)
    labels = read_labels(y, X.shape[0], estimator.unlabeled)
    weight = check_weight(sample_weight, X.shape[0], labels.codes, labels.classes)
    rows = ArraySource(X, labels.codes, weight, MaskMissing(compute_dtype(X)))
    return ReadTable(rows, encoder, labels.classes, attributes)


def read_parts(estimator: Any, table: LazyTable, y: Any, sample_weight: Any) -> ReadTable:
    """A table in parts."""
    parts = table.training_parts(y, sample_weight)
    heads = parts.gather(_TakeHead(table.meta))
    filled = [k for k, head in enumerate(heads) if head.n_rows > 0]
    if not filled:
        raise ValueError(f"X is {table.name} without any row: at least one is required.")
    parts, heads = parts.select(filled), [heads[k] for k in filled]
    classes = read_classes([head.labels for head in heads], estimator.unlabeled)
    blank = estimator._blank_copy().set_params(callback=None)
    blank._validate_table(heads[0].first_row, reset=True)
    encoder, attributes = blank._make_encoder(PartedDigest(heads[0].first_row, table.meta, parts))
    encode = _EncodePart(blank, encoder, classes, estimator.unlabeled)
    encoded = parts.map(encode)
    groups = group_small([head.n_rows for head in heads], int(SMALL_MIB * 2**20) // (8 * len(encoder.columns)))
    if len(groups) < len(encoded):
        encoded = encoded.join(groups, join_sources)
    encoded = encoded.keep()
    totals = encoded.gather(_label_totals)
    is_weighted = any(head.is_weighted for head in heads)
    rows = ChunkedSource(encoded, totals, len(encoder.columns), is_weighted)
    if is_weighted:
        joined = rows.label_totals
        check_class_weights(np.array([joined[c].weight for c in range(len(classes))]), classes)
    return ReadTable(rows, encoder, classes, input_attributes(blank) | attributes)


class _Head(NamedTuple):
    """What is asked of a part first."""

    n_rows: int
    labels: LabelDigest
    is_weighted: bool
    first_row: Any  # of the table


@dataclass(frozen=True)
class _TakeHead:
    """Rows and labels of a part, whose columns must be those of the whole table."""

    meta: Any

    def __call__(self, part: RawPart) -> _Head:
        X, y, weight = part
        n_rows = X.shape[0]
        for what, values in (("y", y), ("sample_weight", weight)):
            if values is not None and len(values) != n_rows:
                raise ValueError(
                    f"{what} has {len(values)} entries where X has {n_rows} rows, in one partition: they must be "
                    "divided alike."
                )
        if n_rows:
            check_schema(X, self.meta)
        first_row = (X.iloc[:1] if hasattr(X, "iloc") else X[:1]).copy()  # which does not hold the others
        return _Head(n_rows, digest_labels(y), weight is not None, first_row)


def check_schema(X: Any, meta: Any) -> None:
    """Refuse a part whose columns are not those of the whole table."""
    if frame_type(meta) == "array":
        if X.shape[1] != meta.shape[1]:
            raise ValueError(f"a part of X has {X.shape[1]} columns, but X has {meta.shape[1]}.")
        return
    if list(X.columns) != list(meta.columns):
        raise ValueError(f"a part of X has the columns {list(X.columns)}, but X has {list(meta.columns)}.")
    for place, name in enumerate(meta.columns):
        found, told = str(column_dtype(X, place)), str(column_dtype(meta, place))
        if found != told:
            raise ValueError(
                f"column {name!r} of X has the dtype {found} in one of its parts and {told} in the whole: allowed is "
                "one dtype. Convert the column when the table is read."
            )


@dataclass(frozen=True)
class _EncodePart:
    """Rows of a part as numbers, with the codes of their classes."""

    reader: Any  # an estimator that has seen the columns
    encoder: ColumnEncoder
    classes: np.ndarray
    unlabeled: Mark

    def __call__(self, part: RawPart) -> ArraySource:
        X = self.reader._encode_table(part.X, self.encoder)
        codes = encode_known_labels(part.y, self.classes, X.shape[0], self.unlabeled)
        weight = check_weight(part.weight, X.shape[0], may_be_zero=True)
        return ArraySource(X, codes, weight, MaskMissing(compute_dtype(X)), cache_mib=0)


def _label_totals(rows: ArraySource) -> Any:
    return rows.label_totals


class PartedDigest(TableDigest):
    """The columns of a table in parts; distinct values are asked of all parts, once."""

    def __init__(self, first_row: Any, meta: Any, parts: Parts):
        super().__init__(meta if frame_type(meta) != "array" else first_row)
        self.parts = parts
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
                is_category = bool(self.types) and self.types[k].categories is not None
                self._found[k] = join_distinct([part[number] for part in found], is_category)
        return self._found[place]

    def numbers(self, place: int) -> tuple[np.ndarray, np.ndarray | None]:
        values, counts = self.distinct(place)
        return as_numbers(np.array(values), self.names[place]), counts


@dataclass(frozen=True)
class _Distinct:
    """The distinct values of some columns of a part."""

    places: tuple[int, ...]

    def __call__(self, part: RawPart) -> list[tuple[list[Any], np.ndarray]]:
        digest = MemoryDigest(part.X)
        return [digest.distinct(place) for place in self.places]


def _bits(part: RawPart) -> tuple[bool, bool]:
    """Whether all known cells are 0 or 1, and whether there are any."""
    known = part.X[part.X == part.X] if part.X.dtype.kind == "f" else part.X
    return not known.size or holds_only_bits(part.X), bool(known.size)
