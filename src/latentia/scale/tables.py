"""Answers of an estimator to the rows of files: made part by part, when they are asked for.

Tables in parts that are small enough to be brought here: from then on they are like any other.

A fit that looks at the same rows hundreds of times has nothing to gain from rows that are elsewhere
if there are few of them. How many is a constant, so what comes here does not grow with the table.

Labels of a table in parts: its classes, from the distinct labels of each part.

What y holds, for a table in parts: classes, numbers, or a matrix of labels.

Each part sends a digest of its y, from which it is learned what y holds; with that each part reads
its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from latentia.arrays.namespace import to_numpy
from latentia.engine.rows import Chunk, Source, Totals, rows_per_chunk
from latentia.table.frames import column_dtypes, column_names, frame_type, is_missing, on_host
from latentia.table.labels import (
    NO_OUTPUT,
    NO_Y,
    Mark,
    OutputUnits,
    check_label_columns,
    class_columns,
    encode_known_labels,
    encode_labels,
    holds_lists,
    read_label_matrix,
    read_outputs,
    units_of_moments,
    warn_of_assumed,
    warn_of_empty_texts,
)
from latentia.table.lazy import LazyTable, RawPart


class LazyAnswers:
    """What an estimator says of each row of a scanned table.

    Iterate for one part after the other, each an array or a data frame; `compute` joins them, and
    `to_parquet` writes them to a file as they come.
    """

    def __init__(self, table: Any, answer: Callable[[Any], Any]):
        self._table, self._answer = table, answer

    def __iter__(self) -> Iterator[Any]:
        return (self._answer(rows) for rows in self._table)

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        return f"<answers to {len(self)} rows, part by part: iterate, or call compute() or to_parquet(path)>"

    def compute(self) -> Any:
        """All answers in memory."""
        return join_answers(list(self), ignore_index=True)

    def to_parquet(self, path: Any) -> None:
        """Write the answers to a Parquet file, one part after the other; several arrays, such as
        means and standard deviations, are columns side by side.
        """
        import pyarrow as pa
        from pyarrow import parquet

        writer = None
        try:
            for part in self:
                rows = pa.Table.from_pandas(_as_frame(part), preserve_index=False)
                writer = writer or parquet.ParquetWriter(path, rows.schema)
                writer.write_table(rows.cast(writer.schema))
        finally:
            if writer is not None:
                writer.close()


def _as_frame(part: Any) -> Any:
    """Answers to some rows as a data frame with names of columns."""
    import pandas

    if not hasattr(part, "columns"):
        arrays = [to_numpy(each) for each in (part if isinstance(part, tuple) else (part,))]
        part = pandas.DataFrame(np.concatenate([np.reshape(each, (len(each), -1)) for each in arrays], axis=1))
    return part.set_axis([str(name) for name in part.columns], axis=1)


def join_answers(parts: Sequence[Any], ignore_index: bool = False) -> Any:
    """Answers to the parts of a table, in the main memory: arrays, frames, or tuples of them."""
    kind = frame_type(parts[0])
    if isinstance(parts[0], tuple):
        return tuple(join_answers(each, ignore_index) for each in zip(*parts, strict=True))
    if kind == "array":
        return np.concatenate([to_numpy(part) for part in parts])
    if kind == "pyarrow":
        return import_module(kind).concat_tables(list(parts))
    return import_module(kind).concat(list(parts), **({"ignore_index": ignore_index} if kind == "pandas" else {}))


#: Tables of at most so many numbers, in MiB, are small.
SMALL_TABLE_MIB = 64


def is_small(n_rows: int, n_columns: int) -> bool:
    """Whether a table may be brought into memory, or copied there."""
    return 8 * n_rows * n_columns <= SMALL_TABLE_MIB * 2**20


def bring_small(table: LazyTable, y: Any, sample_weight: Any) -> RawPart | None:
    """The rows of a small table, with their labels and weights; None of a large one."""
    if table.n_rows is not None and not is_small(table.n_rows, table.meta.shape[1]):
        return None
    parts = table.training_parts(y, sample_weight)
    sizes = parts.gather(CountRows(table.meta))
    if not is_small(sum(sizes), table.meta.shape[1]):
        return None
    filled = [k for k, size in enumerate(sizes) if size]
    if not filled:
        raise ValueError(f"X is {table.name} without any row: at least one is required.")
    found = parts.select(filled).gather(_itself)
    return RawPart(*(_join(pieces) for pieces in zip(*found, strict=True)))


@dataclass(frozen=True)
class CountRows:
    """How many rows a part has, whose columns must be those of the whole table."""

    meta: Any

    def __call__(self, part: RawPart) -> int:
        X, y, weight = part
        n_rows = int(X.shape[0])
        for what, values in (("y", y), ("sample_weight", weight)):
            if values is not None and len(values) != n_rows:
                raise ValueError(
                    f"{what} has {len(values)} entries where X has {n_rows} rows, in one partition: they must be "
                    "divided alike."
                )
        if n_rows:
            check_schema(X, self.meta)
        return n_rows


def check_schema(X: Any, meta: Any) -> None:
    """Refuse a part whose columns are not those of the whole table."""
    if frame_type(meta) == "array":
        if X.shape[1] != meta.shape[1]:
            raise ValueError(f"a part of X has {X.shape[1]} columns, but X has {meta.shape[1]}.")
        return
    if column_names(X) != column_names(meta):
        raise ValueError(f"a part of X has the columns {column_names(X)}, but X has {column_names(meta)}.")
    for name, found, wanted in zip(column_names(meta), column_dtypes(X), column_dtypes(meta), strict=True):
        if str(found) != str(wanted):
            raise ValueError(
                f"column {name!r} of X has the dtype {found} in one of its parts and {wanted} in the whole: allowed is "
                "one dtype. Convert the column when the table is read."
            )


def _join(pieces: tuple[Any, ...]) -> Any:
    if pieces[0] is None:
        return None
    if hasattr(pieces[0], "iloc"):
        import pandas

        return pandas.concat(list(pieces))
    return np.concatenate([np.asarray(piece) for piece in pieces])


def _itself(part: RawPart) -> RawPart:
    return part


class LabelDigest(NamedTuple):
    """The distinct labels of some rows."""

    labels: np.ndarray
    counts: np.ndarray
    n_missing: int  # rows whose label is None or NaN


def digest_labels(y: Any) -> LabelDigest:
    """The distinct labels of the rows of a part."""
    if y is None:
        raise ValueError(NO_Y)
    labels = on_host(y)
    if labels.ndim != 1 or holds_lists(y):
        raise ValueError(f"y has shape {labels.shape} in one of its parts; allowed is one label for each row.")
    missing = is_missing(labels)
    known = labels[~missing]
    if known.dtype != object:
        return LabelDigest(*np.unique(known, return_counts=True), int(missing.sum()))
    counts = Counter(known.tolist())
    distinct = np.empty(len(counts), dtype=object)
    distinct[:] = list(counts)
    return LabelDigest(distinct, np.array(list(counts.values()), dtype=np.int64), int(missing.sum()))


def read_classes(parts: Sequence[LabelDigest], unlabeled: Mark) -> np.ndarray:
    """The classes of all parts, by the rules for labels in memory; the user is told what was
    assumed.
    """
    kinds = {str(part.labels.dtype) for part in parts if part.labels.size}
    if len({"number" if kind.startswith(("int", "uint", "float")) else "text" for kind in kinds}) > 1:
        raise ValueError(f"y has labels of the dtypes {', '.join(sorted(kinds))} in its parts; allowed is one dtype.")
    distinct = np.concatenate([part.labels for part in parts])
    if any(part.n_missing for part in parts):
        distinct = np.append(distinct.astype(object), [None])
    # each label twice: a table of labels that are all different would be doubted
    some = np.concatenate([distinct, distinct])
    encoded = encode_labels(some, some.size, unlabeled)
    if encoded.n_assumed:
        n_assumed = sum(int(part.counts[part.labels == -1].sum()) for part in parts)
        warn_of_assumed(n_assumed, sum(int(part.counts.sum()) + part.n_missing for part in parts))
    in_parts = [[int(part.counts[part.labels == label].sum()) for part in parts] for label in encoded.classes.tolist()]
    warn_of_empty_texts(encoded.classes, np.sum(in_parts, axis=1))
    return encoded.classes


class Targets(ABC):
    """How y becomes numbers, whatever part it comes from."""

    @abstractmethod
    def encode(self, y: Any, n_rows: int) -> np.ndarray:
        """Codes or outputs of some rows."""

    @abstractmethod
    def known(self, encoded: np.ndarray) -> np.ndarray:
        """Which rows have any."""


class TargetReader(ABC):
    """Learns what y holds."""

    @abstractmethod
    def digest(self, y: Any, n_rows: int) -> Any:
        """What is told of the y of a part."""

    @abstractmethod
    def learn(self, digests: Sequence[Any]) -> Targets:
        """From the digests of all parts."""


@dataclass(frozen=True)
class Classes(Targets):
    """A class for each row."""

    classes: np.ndarray
    unlabeled: Mark

    def encode(self, y: Any, n_rows: int) -> np.ndarray:
        return encode_known_labels(y, self.classes, n_rows, self.unlabeled)

    def known(self, encoded: np.ndarray) -> np.ndarray:
        return np.asarray(encoded >= 0)


@dataclass(frozen=True)
class ClassReader(TargetReader):
    """Reads classes."""

    unlabeled: Mark

    def digest(self, y: Any, n_rows: int) -> LabelDigest:
        return digest_labels(y)

    def learn(self, digests: Sequence[LabelDigest]) -> Classes:
        return Classes(read_classes(digests, self.unlabeled), self.unlabeled)


class OutputDigest(NamedTuple):
    """Of the outputs of a part."""

    n_outputs: int
    is_vector: bool
    n_known: int
    largest: np.ndarray  # (O,) absolute value


@dataclass(frozen=True)
class Outputs(Targets):
    """A number, or several, for each row."""

    n_outputs: int
    is_vector: bool
    largest: np.ndarray  # (O,) absolute value

    def encode(self, y: Any, n_rows: int) -> np.ndarray:
        return read_outputs(y, n_rows, may_be_unknown=True)[0]

    def known(self, encoded: np.ndarray) -> np.ndarray:
        return np.asarray(~np.isnan(encoded[:, 0]))

    def units(self, shift: np.ndarray, variance: np.ndarray, is_weighted: bool, largest: float) -> OutputUnits:
        """Standard units, from the moments of all rows; predictions hold up to `largest`."""
        return units_of_moments(shift, variance, self.largest, is_weighted, self.is_vector, largest)


@dataclass(frozen=True)
class OutputReader(TargetReader):
    """Reads outputs."""

    def digest(self, y: Any, n_rows: int) -> OutputDigest:
        outputs, is_vector = read_outputs(y, n_rows, may_be_unknown=True)
        n_known = int((~np.isnan(outputs[:, 0])).sum())
        largest = np.nan_to_num(np.abs(outputs), nan=0.0, posinf=np.inf).max(axis=0)
        return OutputDigest(outputs.shape[1], is_vector, n_known, largest)

    def learn(self, digests: Sequence[OutputDigest]) -> Outputs:
        sizes = sorted({digest.n_outputs for digest in digests})
        if len(sizes) > 1:
            raise ValueError(f"y has {sizes[0]} outputs in one of its parts and {sizes[-1]} in another.")
        if not any(digest.n_known for digest in digests):
            raise ValueError(NO_OUTPUT)
        largest = np.max([digest.largest for digest in digests], axis=0)
        return Outputs(sizes[0], digests[0].is_vector, largest)


def output_moments(rows: Source) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances (O,) of the outputs of all rows."""

    def average(fn: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        def visit(chunk: Chunk) -> Totals:
            y, weight = to_numpy(chunk.y), chunk.mean_weight()
            return {"sum": (weight @ fn(y), weight.sum())}

        total, weight = rows.sum_over_chunks(visit, rows_per_chunk(8 * rows.n_features, rows.rows_like))["sum"]
        return np.asarray(total / weight)

    with np.errstate(over="ignore", invalid="ignore"):  # overflow is told by the units
        mean = average(lambda y: y)
        return mean, average(lambda y: (y - mean) ** 2)


class MatrixDigest(NamedTuple):
    """Of the labels of a part, a column each."""

    n_known: np.ndarray  # (L,)
    n_positive: np.ndarray  # (L,)
    n_labeled: int  # rows with any known entry
    names: np.ndarray | None


@dataclass(frozen=True)
class LabelColumns(Targets):
    """Labels that are present or not, several in a row."""

    n_positive: tuple[int, ...]
    n_labeled: int
    names: np.ndarray | None

    @property
    def classes(self) -> np.ndarray:
        return np.arange(len(self.n_positive))

    def encode(self, y: Any, n_rows: int) -> np.ndarray:
        return read_label_matrix(y)

    def known(self, encoded: np.ndarray) -> np.ndarray:
        return np.asarray((encoded >= 0).any(axis=1))


@dataclass(frozen=True)
class ClassColumns(Targets):
    """A class for each row, as a column for each class; two classes make one."""

    classes: np.ndarray
    unlabeled: Mark

    def encode(self, y: Any, n_rows: int) -> np.ndarray:
        codes = encode_known_labels(_without_axis(y), self.classes, n_rows, self.unlabeled)
        return class_columns(codes, len(self.classes))

    def known(self, encoded: np.ndarray) -> np.ndarray:
        return np.asarray(encoded[:, 0] >= 0)


@dataclass(frozen=True)
class LabelMatrixReader(TargetReader):
    """Reads matrices of labels, or classes as such."""

    unlabeled: Mark

    def digest(self, y: Any, n_rows: int) -> MatrixDigest | LabelDigest:
        y = _without_axis(y)
        if getattr(y, "ndim", 1) != 2:
            return digest_labels(y)
        codes = read_label_matrix(y)
        columns = getattr(y, "columns", None)
        names = None if columns is None else np.asarray([str(c) for c in columns], dtype=object)
        known = codes >= 0
        return MatrixDigest(known.sum(axis=0), (codes == 1).sum(axis=0), int(known.any(axis=1).sum()), names)

    def learn(self, digests: Sequence[Any]) -> LabelColumns | ClassColumns:
        matrices = [digest for digest in digests if isinstance(digest, MatrixDigest)]
        if not matrices:
            return ClassColumns(read_classes(digests, self.unlabeled), self.unlabeled)
        n_known, n_positive = (sum(getattr(part, name) for part in matrices) for name in ("n_known", "n_positive"))
        names = matrices[0].names
        check_label_columns(n_known, n_positive, names)
        return LabelColumns(tuple(n_positive.tolist()), sum(part.n_labeled for part in matrices), names)


def _without_axis(y: Any) -> Any:
    """A table of one column as that column."""
    if getattr(y, "ndim", 1) != 2 or y.shape[1] != 1:
        return y
    return y.iloc[:, 0] if hasattr(y, "iloc") else y[:, 0]
