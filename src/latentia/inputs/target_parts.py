"""What y holds, for a table in parts: classes, numbers, or a matrix of labels.

Each part sends a digest of its y, from which it is learned what y holds; with that each part reads
its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from latentia.arrays.namespace import to_numpy
from latentia.engine.rows import Chunk, Source, Totals
from latentia.engine.sweep import rows_per_chunk
from latentia.inputs.label_digest import LabelDigest, digest_labels, read_classes
from latentia.inputs.label_matrix import check_label_columns, class_columns, read_label_matrix
from latentia.inputs.labels import Mark, encode_known_labels
from latentia.inputs.outputs import NO_OUTPUT, OutputUnits, read_outputs, units_of_moments


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
