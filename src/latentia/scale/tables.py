"""Tables that are not in memory: what estimators know of them, how they are answered and read.

`LazyTable` is a table in parts. Questions about its rows are answered part by part: lazily if the
answers are as many as the rows, else where the parts are. To fit, a table that is small is brought
here: a fit that looks at the same few rows hundreds of times has nothing to gain from rows that are
elsewhere. A larger one is read in two passes (`TableInParts`): the first takes a digest of each
part, from which columns and labels are learned by the rules for tables in memory; the second
encodes the rows, which then stay where they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeGuard, TypeVar, cast

import numpy as np
from array_api_compat import device, is_numpy_array
from sklearn import get_config
from sklearn.base import BaseEstimator

from latentia.arrays.namespace import Array, is_sparse, namespace, to_numpy
from latentia.engine.parts import ChunkedSource, Parts, join_sources
from latentia.engine.rows import ArraySource, Chunk, Source, Totals, rows_per_chunk
from latentia.engine.tree import leaves
from latentia.table.columns import MemoryDigest, TableDigest, holds_only_bits, join_distinct
from latentia.table.encoder import as_numbers
from latentia.table.frames import (
    DataFrame,
    Table,
    TableLike,
    column_dtypes,
    column_names,
    frame_type,
    is_array,
    is_missing,
    on_host,
)
from latentia.table.labels import (
    NO_OUTPUT,
    NO_Y,
    LabelsLike,
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
from latentia.table.weights import check_weight

if TYPE_CHECKING:
    import dask.array
    import dask.dataframe
    import pandas

    from latentia.scale.files import LazyAnswers

R = TypeVar("R")
E = TypeVar("E")
D = TypeVar("D")
RowMethod = TypeVar("RowMethod", bound=Callable[..., Any])

#: Labels and weights as they are passed with a table: in memory, or in parts as it is.
Column: TypeAlias = "LabelsLike | dask.array.Array | dask.dataframe.Series | None"
Weights: TypeAlias = "np.ndarray | pandas.Series | dask.array.Array | dask.dataframe.Series | None"

#: What is said of some rows, and of all rows of a table in parts.
Answer: TypeAlias = "Array | DataFrame | tuple[Array, ...]"
LazyAnswer: TypeAlias = "dask.array.Array | dask.dataframe.DataFrame | LazyAnswers"


class RawPart(NamedTuple):
    """Rows of a table as they came."""

    X: pandas.DataFrame | np.ndarray
    y: LabelsLike | None
    weight: Weights


class LazyTable(ABC):
    """A table in parts. Functions of a part must be values that can travel."""

    name: str  # what errors call it
    #: An empty table with the columns and dtypes of all parts.
    meta: pandas.DataFrame | np.ndarray
    #: How many rows there are; None where that is not known before they are read.
    n_rows: int | None
    #: How many work at a time, if parts stay with them; None where each is read anew.
    n_places: int | None = None

    @abstractmethod
    def gather(self, fn: Callable[[RawPart], R], y: Column = None, sample_weight: Weights = None) -> list[R]:
        """`fn` of each part, with its labels and weights, here: it must be small."""

    @abstractmethod
    def make(
        self,
        fn: Callable[[list[RawPart]], ArraySource],
        groups: Sequence[Sequence[int]],
        y: Column,
        sample_weight: Weights,
    ) -> Parts:
        """What `fn` makes of the parts of each group of neighbors, kept where they are."""

    @abstractmethod
    def map_rows(self, fn: Callable[..., Answer], y: Column = None) -> LazyAnswer:
        """`fn` of the rows of each part, and of their labels if given, as a lazy table or array."""


def lazy_table(X: object) -> LazyTable | None:
    """A table that is not in memory; None for others."""
    if isinstance(X, LazyTable):
        return X
    if is_dask(X):
        from latentia.scale.dask import DaskTable

        return DaskTable(X)
    return None


def is_dask(X: object) -> TypeGuard[dask.array.Array | dask.dataframe.DataFrame]:
    """Whether X is a collection of Dask, which is not imported to find out."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(X, "__dask_graph__")


def is_lazy(X: object) -> bool:
    """Whether X is a table, a column or an array that is not in memory."""
    return isinstance(X, LazyTable) or is_dask(X)


def refuse_lazy(what: str, values: object, why: str) -> None:
    """Say what is wrong with a lazy table or column where only values in memory serve."""
    if is_lazy(values):
        kind = values.name if isinstance(values, LazyTable) else f"a Dask {type(values).__name__}"
        raise TypeError(f"{what} is {kind}, but {why}.")


def method_of_rows(method: RowMethod) -> RowMethod:
    """A method that answers for each row of a table.

    A table that is not in memory is answered part by part, lazily. Under array API dispatch, rows
    must be of the library and on the device of those fitted.
    """

    arguments = signature(method)

    @wraps(method)
    def checked(estimator: BaseEstimator, X: TableLike, *args: object, **kwargs: object) -> object:
        table = lazy_table(X)
        if table is not None:
            estimator._require_fitted()
            given = arguments.bind(estimator, X, *args, **kwargs).arguments
            options = {name: given[name] for name in list(given)[2:]}
            labels = options.pop("y", None)  # which come in parts, too
            return table.map_rows(AnswerPart(estimator, method.__name__, options), labels)
        _check_same_namespace(estimator, X, method.__name__)
        return method(estimator, X, *args, **kwargs)

    return cast(RowMethod, checked)


class AnswerPart:
    """A method of a fitted estimator, with its options, as a function of some rows."""

    def __init__(self, estimator: BaseEstimator, method: str, options: Mapping[str, object]):
        self.estimator, self.method, self.options = _silent(estimator), method, dict(options)

    def __call__(self, X: TableLike, y: LabelsLike | None = None) -> Answer:
        labels = () if y is None else (y,)
        found: Answer = getattr(self.estimator, self.method)(X, *labels, **self.options)
        return found


def answers_of_parts(
    fn: Callable[[E, RawPart], R],
    estimator: E,
    X: TableLike | LazyTable,
    y: Column = None,
    sample_weight: Weights = None,
) -> list[R]:
    """What `fn` of an estimator and of rows with their labels and weights says of each part of a
    table that has rows; a table in memory is one part.
    """
    table = lazy_table(X)
    if table is None:
        return [fn(estimator, RawPart(X, y, sample_weight))]
    found = table.gather(partial(unless_empty, fn=partial(fn, _silent(estimator))), y, sample_weight)
    return [each for each in found if each is not None]


def _silent(estimator: E) -> E:
    """A copy without its callback, which need not travel, and is not called."""
    other = copy(estimator)
    if getattr(other, "callback", None) is not None:
        setattr(other, "callback", None)  # noqa: B010
    return other


def _check_same_namespace(estimator: BaseEstimator, X: TableLike, method: str) -> None:
    if not get_config()["array_api_dispatch"]:
        return
    estimator._require_fitted()
    ours = next(leaves(estimator._model.params))
    if is_array(X) and not is_sparse(X):
        if namespace(X) is namespace(ours) and (is_numpy_array(X) or device(X) == device(ours)):
            return
        what = f"an array of {namespace(X).__name__} on {device(X)}"
    elif is_numpy_array(ours):
        return
    else:
        what = f"a {type(X).__name__}"
    raise ValueError(
        f"Inputs passed to {type(estimator).__name__}.{method}() must use the same namespace and the same device "
        "as those passed to fit(): "
        f"X is {what}, but the model was fitted in {namespace(ours).__name__} on {device(ours)}."
    )


#: Tables of at most so many numbers, in MiB, are small.
SMALL_TABLE_MIB = 64


def is_small(n_rows: int, n_columns: int) -> bool:
    """Whether a table may be brought into memory, or copied there."""
    return 8 * n_rows * n_columns <= SMALL_TABLE_MIB * 2**20


def bring_small(table: LazyTable, y: Column, sample_weight: Weights) -> RawPart | None:
    """The rows of a small table, with their labels and weights; None of a large one."""
    n_columns = table.meta.shape[1]
    if table.n_rows is not None and not is_small(table.n_rows, n_columns):
        return None
    if not is_small(sum(table.gather(partial(count_rows, meta=table.meta), y, sample_weight)), n_columns):
        return None
    found = [part for part in table.gather(_itself, y, sample_weight) if part.X.shape[0]]
    if not found:
        raise ValueError(f"X is {table.name} without any row: at least one is required.")
    return RawPart(_join([p.X for p in found]), _join([p.y for p in found]), _join([p.weight for p in found]))


def count_rows(part: RawPart, meta: pandas.DataFrame | np.ndarray) -> int:
    """How many rows a part has, whose columns must be those of the whole table."""
    X, y, weight = part
    n_rows = int(X.shape[0])
    for what, values in (("y", y), ("sample_weight", weight)):
        n_entries = n_rows if values is None else len(on_host(values))
        if n_entries != n_rows:
            raise ValueError(
                f"{what} has {n_entries} entries where X has {n_rows} rows, in one partition: they must be divided "
                "alike."
            )
    if n_rows:
        _check_schema(X, meta)
    return n_rows


def _check_schema(X: Table, meta: Table) -> None:
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


def _join(pieces: Sequence[R]) -> R:
    """Rows, labels or weights of several parts."""
    if pieces[0] is None:
        return pieces[0]
    if hasattr(pieces[0], "iloc"):
        import pandas

        return cast(R, pandas.concat(list(pieces)))
    return cast(R, np.concatenate([np.asarray(piece) for piece in pieces]))


def _itself(part: RawPart) -> RawPart:
    return part


#: Neighboring parts are joined up to this size, in MiB: each costs time in every pass. Where parts
#: stay, up to so many times as much, as long as everyone who works there has two.
SMALL_MIB = 4
MAX_JOINED = 8


class TableInParts:
    """A table that is too large to be brought here, with its labels and weights, after a first look
    at each part.
    """

    def __init__(self, table: LazyTable, y: Column, sample_weight: Weights, reader: TargetReader[D]):
        self.table, self.y, self.weight = table, y, sample_weight
        heads = table.gather(partial(_look, meta=table.meta, reader=reader), y, sample_weight)
        self.filled = [k for k, head in enumerate(heads) if head.n_rows]
        if not self.filled:
            raise ValueError(f"X is {table.name} without any row: at least one is required.")
        heads = [heads[k] for k in self.filled]
        self.sizes = [head.n_rows for head in heads]
        self.is_weighted = any(head.is_weighted for head in heads)
        self.first_row = heads[0].first_row
        self.targets = reader.learn([head.labels for head in heads if head.labels is not None])

    def gather(self, fn: Callable[[RawPart], R]) -> list[R]:
        """`fn` of each part that has rows."""
        found = self.table.gather(partial(unless_empty, fn=fn), self.y, self.weight)
        return [each for each in found if each is not None]

    def encode(self, fn: Callable[[RawPart], ArraySource], n_columns: int) -> ChunkedSource:
        """The rows as `fn` encodes them, kept where they are."""
        limit = int(SMALL_MIB * 2**20) // (8 * n_columns)
        if self.table.n_places is not None:
            limit = max(limit, min(MAX_JOINED * limit, sum(self.sizes) // (2 * self.table.n_places)))
        groups = [[self.filled[k] for k in group] for group in group_small(self.sizes, limit)]
        parts = self.table.make(partial(_encode_joined, fn=fn), groups, self.y, self.weight)
        return ChunkedSource.of_parts(parts, n_columns, self.is_weighted)


@dataclass(frozen=True)
class _Head(Generic[D]):
    """What is asked of a part first."""

    n_rows: int
    labels: D | None  # the digest of y
    is_weighted: bool
    first_row: pandas.DataFrame | np.ndarray


def _look(part: RawPart, meta: pandas.DataFrame | np.ndarray, reader: TargetReader[D]) -> _Head[D]:
    n_rows = count_rows(part, meta)
    first_row = deepcopy(part.X.iloc[:1] if hasattr(part.X, "iloc") else part.X[:1])  # which does not hold the others
    return _Head(n_rows, reader.digest(part.y, n_rows) if n_rows else None, part.weight is not None, first_row)


def unless_empty(part: RawPart, fn: Callable[[RawPart], R]) -> R | None:
    """None of a part without rows."""
    return fn(part) if part.X.shape[0] else None


def _encode_joined(parts: list[RawPart], fn: Callable[[RawPart], ArraySource]) -> ArraySource:
    return join_sources([fn(part) for part in parts])


def group_small(sizes: Sequence[int], limit: int) -> list[list[int]]:
    """Neighbors together, as long as their sizes add up to no more than a limit."""
    groups: list[list[int]] = []
    total = 0
    for k, size in enumerate(sizes):
        total += size
        if groups and total <= limit:
            groups[-1].append(k)
        else:
            groups.append([k])
            total = size
    return groups


class PartedDigest(TableDigest):
    """The columns of a table in parts; distinct values are asked of all parts, once."""

    def __init__(self, parts: TableInParts):
        meta = parts.table.meta
        super().__init__(meta if frame_type(meta) != "array" else parts.first_row)
        self.parts = parts
        self._found: dict[int, tuple[list[Hashable], np.ndarray]] = {}

    @cached_property
    def only_bits(self) -> bool:
        found = self.parts.gather(_bits)
        return all(fine for fine, _ in found) and any(seen for _, seen in found)

    def distinct(self, place: int) -> tuple[list[Hashable], np.ndarray]:
        if place not in self._found:
            asked = [k for k, kind in enumerate(self.types) if not kind.is_float] if self.types else []
            asked = asked if place in asked else ([place] if self.types else list(range(len(self.names))))
            self._found |= dict(zip(asked, self._join(asked, weighted=False), strict=True))
        return self._found[place]

    def frequencies(self, place: int) -> np.ndarray:
        return self._join([place], weighted=True)[0][1] if self.parts.is_weighted else self.distinct(place)[1]

    def numbers(self, place: int) -> tuple[np.ndarray, np.ndarray | None]:
        values, counts = self.distinct(place)
        return as_numbers(np.array(values), self.names[place]), counts

    def _join(self, places: list[int], weighted: bool) -> list[tuple[list[Hashable], np.ndarray]]:
        found = self.parts.gather(partial(_distinct, places=places, weighted=weighted))
        is_category = [bool(self.types) and self.types[place].categories is not None for place in places]
        return [join_distinct(each, kind) for each, kind in zip(zip(*found, strict=True), is_category, strict=True)]


def _distinct(part: RawPart, places: list[int], weighted: bool) -> list[tuple[list[Hashable], np.ndarray]]:
    """The distinct values of some columns of a part, and how many cells have each, or what these
    weigh.
    """
    if not weighted:
        return [MemoryDigest(part.X).distinct(place) for place in places]
    digest = MemoryDigest(part.X, check_weight(part.weight, part.X.shape[0], may_be_zero=True))
    return [(digest.distinct(place)[0], digest.frequencies(place)) for place in places]


def _bits(part: RawPart) -> tuple[bool, bool]:
    """Whether all known cells are 0 or 1, and whether there are any."""
    known = part.X[part.X == part.X] if part.X.dtype.kind == "f" else part.X
    return not known.size or holds_only_bits(part.X), bool(known.size)


#: How y becomes numbers, whatever part it comes from.
Targets: TypeAlias = "Classes | LabelColumns | Outputs"


class TargetReader(ABC, Generic[D]):
    """Learns what y holds."""

    @abstractmethod
    def digest(self, y: LabelsLike | None, n_rows: int) -> D:
        """What is told of the y of a part."""

    @abstractmethod
    def learn(self, digests: Sequence[D]) -> Targets:
        """From the digests of all parts that have rows."""


class LabelDigest(NamedTuple):
    """The distinct labels of some rows."""

    labels: np.ndarray
    counts: np.ndarray
    n_missing: int  # rows whose label is None or NaN


def digest_labels(y: LabelsLike | None) -> LabelDigest:
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


@dataclass(frozen=True)
class Classes:
    """A class for each row."""

    classes: np.ndarray
    unlabeled: Mark
    as_columns: bool = False  # one for each class; two classes make one

    def encode(self, y: LabelsLike | None, n_rows: int) -> np.ndarray:
        """Codes of some rows."""
        codes = encode_known_labels(_without_axis(y) if self.as_columns else y, self.classes, n_rows, self.unlabeled)
        return class_columns(codes, len(self.classes)) if self.as_columns else codes

    def known(self, encoded: np.ndarray) -> np.ndarray:
        """Which rows have a label."""
        return np.asarray((encoded if encoded.ndim == 1 else encoded.max(axis=1)) >= 0)


@dataclass(frozen=True)
class ClassReader(TargetReader[LabelDigest]):
    """Learns the classes of all parts."""

    unlabeled: Mark

    def digest(self, y: LabelsLike | None, n_rows: int) -> LabelDigest:
        return digest_labels(y)

    def learn(self, digests: Sequence[LabelDigest]) -> Classes:
        return Classes(read_classes(digests, self.unlabeled), self.unlabeled)


@dataclass(frozen=True)
class LabelColumns:
    """Labels that are present or not, several in a row: of a part, or of all."""

    n_known: np.ndarray  # (L,)
    n_positive: np.ndarray  # (L,)
    n_labeled: int  # rows with any known entry
    names: np.ndarray | None

    @property
    def classes(self) -> np.ndarray:
        return np.arange(self.n_positive.size)

    def encode(self, y: LabelsLike | None, n_rows: int) -> np.ndarray:
        """Codes of some rows."""
        return read_label_matrix(y)

    def known(self, encoded: np.ndarray) -> np.ndarray:
        """Which rows have a known entry."""
        return np.asarray((encoded >= 0).any(axis=1))


@dataclass(frozen=True)
class LabelMatrixReader(TargetReader["LabelColumns | LabelDigest"]):
    """Learns label matrices, or classes as such."""

    unlabeled: Mark

    def digest(self, y: LabelsLike | None, n_rows: int) -> LabelColumns | LabelDigest:
        y = _without_axis(y)
        if getattr(y, "ndim", 1) != 2:
            return digest_labels(y)
        codes, columns = read_label_matrix(y), getattr(y, "columns", None)
        names = None if columns is None else np.asarray([str(c) for c in columns], dtype=object)
        known = codes >= 0
        return LabelColumns(known.sum(axis=0), (codes == 1).sum(axis=0), int(known.any(axis=1).sum()), names)

    def learn(self, digests: Sequence[LabelColumns | LabelDigest]) -> LabelColumns | Classes:
        matrices = [digest for digest in digests if isinstance(digest, LabelColumns)]
        if not matrices:
            labels = [digest for digest in digests if isinstance(digest, LabelDigest)]
            return Classes(read_classes(labels, self.unlabeled), self.unlabeled, as_columns=True)
        n_known, n_positive = (sum(getattr(part, name) for part in matrices) for name in ("n_known", "n_positive"))
        check_label_columns(n_known, n_positive, matrices[0].names)
        return LabelColumns(n_known, n_positive, sum(part.n_labeled for part in matrices), matrices[0].names)


def _without_axis(y: LabelsLike | None) -> LabelsLike | None:
    """A table of one column as that column."""
    if y is None or isinstance(y, Sequence) or y.ndim != 2 or y.shape[1] != 1:
        return y
    return y.iloc[:, 0] if hasattr(y, "iloc") else on_host(y)[:, 0]


@dataclass(frozen=True)
class Outputs:
    """A number, or several, for each row: of a part, or of all."""

    n_outputs: int
    is_vector: bool
    n_known: int  # rows
    largest: np.ndarray  # (O,) absolute value

    def encode(self, y: LabelsLike | None, n_rows: int) -> np.ndarray:
        """Outputs of some rows."""
        return read_outputs(y, n_rows, may_be_unknown=True)[0]

    def known(self, encoded: np.ndarray) -> np.ndarray:
        """Which rows have any."""
        return np.asarray(~np.isnan(encoded[:, 0]))

    def units(self, rows: Source, is_weighted: bool, largest: float) -> OutputUnits:
        """Standard units, from the moments of all rows; predictions hold up to `largest`."""
        return units_of_moments(*output_moments(rows), self.largest, is_weighted, self.is_vector, largest)


class OutputReader(TargetReader["Outputs"]):
    """Learns what outputs there are."""

    def digest(self, y: LabelsLike | None, n_rows: int) -> Outputs:
        outputs, is_vector = read_outputs(y, n_rows, may_be_unknown=True)
        largest = np.nan_to_num(np.abs(outputs), nan=0.0, posinf=np.inf).max(axis=0)
        return Outputs(outputs.shape[1], is_vector, int((~np.isnan(outputs[:, 0])).sum()), largest)

    def learn(self, digests: Sequence[Outputs]) -> Outputs:
        sizes = sorted({digest.n_outputs for digest in digests})
        if len(sizes) > 1:
            raise ValueError(f"y has {sizes[0]} outputs in one of its parts and {sizes[-1]} in another.")
        n_known = sum(digest.n_known for digest in digests)
        if not n_known:
            raise ValueError(NO_OUTPUT)
        return Outputs(sizes[0], digests[0].is_vector, n_known, np.max([digest.largest for digest in digests], axis=0))


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
