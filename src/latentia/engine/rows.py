"""Rows as every part of the engine sees them: masked, in chunks, from a source.

A pass over a source is cut into ranges of rows, and these into tasks for all cores. Results are
added in the order of the chunks, so sums do not depend on the number of threads. `ArraySource` has
its rows in memory or in a memory-mapped file: small tables are preprocessed once and cached in the
order of their labels and missing cells, so that a chunk of one label is a contiguous view; larger
ones are read and preprocessed chunk by chunk in every pass.

Random rows of each label are the same ones wherever the rows live. Every row has a random key that
depends on a seed and on its number in the table alone: the waiting time of an event whose rate is
the row's weight. The rows with the least keys are a sample without replacement, drawn by weight
(Efraimidis & Spirakis 2006). So each part of a table draws for itself, and the least keys of all
parts together are those of the whole table.
"""

from __future__ import annotations

import math
import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple, Protocol, Self, TypeVar, cast

import numpy as np
from array_api_compat import device, is_numpy_array
from sklearn import get_config

from latentia.arrays.namespace import (
    Array,
    DType,
    asarray_like,
    has_nan,
    is_on_cpu,
    is_sparse,
    namespace,
    stored_values,
    take_rows,
    to_numpy,
)
from latentia.arrays.parallel import parallel
from latentia.engine.tree import tree_add


class Remembered(Protocol):
    """What a sweep leaves for the next one over the same rows."""

    def take_restarts(self, index: np.ndarray) -> Self: ...  # that of some restarts


#: By names that the family chooses.
Memo = dict[str, Remembered]


class MaskedRows(NamedTuple):
    """Some rows and which of their cells are known: what every family computes with."""

    values: Array  # (N, D), zero where a cell is missing
    observed: Array | None  # (N, D) of zeros and ones, or None when no cell is missing


class Chunk(NamedTuple):
    """Some rows with their labels and weights, preprocessed for a family."""

    rows: MaskedRows
    y: Array  # (N,) class codes, -1 where unlabeled; (N, L) or floats for conditional families
    weight: Array | None  # (N,) sample weights, (N, S) where each restart has its own, None for ones
    label: int | None  # the code that all rows share, -1 if all are unlabeled; None if mixed or not a class code
    memo: Memo | None = None  # what the last sweep over these rows left for the next; None: nothing is kept

    def weighted(self, x: Array) -> Array:
        """Numbers (..., N) times the sample weights; restarts are the first axis."""
        if self.weight is None or self.weight.ndim == 1:
            return x if self.weight is None else x * self.weight
        weight = namespace(x).permute_dims(self.weight, (1, 0))
        return x * weight[:, *[None] * (x.ndim - 2), :]

    def mean_weight(self) -> np.ndarray:
        """Sample weights (N,) in NumPy, averaged over the restarts."""
        if self.weight is None:
            return np.ones(self.y.shape[0])
        weight = to_numpy(self.weight).astype(float)
        return weight if weight.ndim == 1 else weight.mean(axis=1)


K = TypeVar("K")
V = TypeVar("V")

#: Sums over rows, arrays or numbers or trees of them, by key.
Totals = dict[K, V]


def add_totals(parts: Iterable[Totals[K, V]]) -> Totals[K, V]:
    """The sums of each key, added in the order of the parts."""
    totals: Totals[K, V] = {}
    for part in parts:
        for key, value in part.items():
            totals[key] = tree_add(totals[key], value) if key in totals else value
    return totals


class Source(ABC):
    """Where rows come from."""

    n_rows: int
    n_features: int

    @property
    @abstractmethod
    def any_unlabeled(self) -> bool:
        """Whether some rows count although they have no label."""

    @property
    @abstractmethod
    def total_weight(self) -> float:
        """Sum of the sample weights."""

    @property
    def rows_like(self) -> Array | None:
        """An array that lives where the rows do, if that is known."""
        return None

    def take_restarts(self, index: np.ndarray) -> Source:
        """The source that these restarts see; the same unless each has weights of its own."""
        return self

    @abstractmethod
    def sum_over_chunks(
        self, fn: Callable[[Chunk], Totals[K, V]], max_rows: int, by_label: bool = False
    ) -> Totals[K, V]:
        """Add up `fn` by key over chunks of at most `max_rows` rows (of one label if asked)."""

    @abstractmethod
    def sample_rows(self, n_rows: int, rng: np.random.Generator) -> Chunk:
        """At most `n_rows` random rows of each label in memory, for initialization."""


class LabelTotals(NamedTuple):
    """How many rows have a label."""

    n_rows: int
    n_weighted: int  # of them, rows of positive weight
    weight: float  # of all of them


#: Rows that are held out lie in memory: at most so many MiB of them.
MAX_HELD_OUT_MIB = 64


#: Rows of a rare class in a sample of a large table.
MIN_SAMPLED = 10


class TableSource(Source):
    """Rows of a table with class codes, some of which can be brought into memory.

    Whatever a training wants to know of single rows it asks of a few, and of the same ones wherever
    the rows live: in an array, in files or on the workers of a cluster.
    """

    @property
    @abstractmethod
    def is_weighted(self) -> bool:
        """Whether rows have weights."""

    @property
    @abstractmethod
    def label_totals(self) -> dict[int, LabelTotals]:
        """Of each class code, and of -1 for unlabeled rows if there are any."""

    @abstractmethod
    def with_preprocess(self, preprocess: Callable[[Array], MaskedRows]) -> TableSource:
        """The same raw rows, preprocessed otherwise."""

    def with_unlabeled_weight(self, factor: float) -> Self:
        """The same rows, in which unlabeled ones count `factor` times, and are left out at zero."""
        if factor == 1.0 or not self.any_unlabeled:
            return self
        if factor == 0.0 and any(code >= 0 for code in self.label_totals):
            return cast("Self", self.labeled_only())
        return cast("Self", self._weigh_unlabeled(factor))

    @abstractmethod
    def _weigh_unlabeled(self, factor: float) -> TableSource:
        """The same rows with these weights of the unlabeled ones, of which there are some."""

    @abstractmethod
    def labeled_only(self) -> TableSource:
        """The same rows without the unlabeled ones."""

    @abstractmethod
    def first_rows(self, n_rows: int) -> ArraySource:
        """The first rows with weight."""

    @abstractmethod
    def spread_rows(self, n_rows: int, labeled: bool = False) -> ArraySource:
        """At most so many (labeled) rows with weight, evenly spaced among those of the table."""

    @abstractmethod
    def subset(self, index: np.ndarray) -> ArraySource:
        """The rows of these numbers, in this order."""

    @abstractmethod
    def drop_rows(self, index: np.ndarray) -> TableSource:
        """The same table, in which the rows of these numbers count nothing."""

    @abstractmethod
    def draw(self, n_rows: Limits, seed: int, rates: str) -> dict[int, Draw]:
        """Random rows of each label that have weight: by their "weight", or alike ("counted")."""

    def draw_numbers(self, n_rows: Mapping[int, int], seed: int) -> np.ndarray:
        """Sorted numbers of so many random rows of each label, of those that count."""
        return np.sort(np.concatenate([draw.rows for draw in self.draw(n_rows, seed, "counted").values()]))

    def hold_out(self, share: float, rng: np.random.Generator) -> tuple[TableSource, ArraySource | None]:
        """The table without a random share of each class, and that share.

        It is rounded down, so that every class stays; None if it is nothing. Unlabeled rows stay,
        and so do rows without weight. Of large tables no more than `MAX_HELD_OUT_MIB` is held out.
        """
        counts = {label: total.n_weighted for label, total in self.label_totals.items() if label >= 0}
        max_rows = MAX_HELD_OUT_MIB * 2**20 // (8 * self.n_features)
        share = min(share, max_rows / max(1, sum(counts.values())))
        counts = {label: int(share * n) for label, n in counts.items()}
        if not any(counts.values()):
            return self, None
        numbers = self.draw_numbers(counts, int(rng.integers(2**62)))
        return self.drop_rows(numbers), self.subset(numbers)

    def sample_numbers(self, n_rows: int, rng: np.random.Generator) -> np.ndarray:
        """Sorted numbers of at most about `n_rows` random rows, of each label its share and a few
        at least; of all rows if they are no more.
        """
        if self.n_rows <= n_rows:
            return np.arange(self.n_rows)
        counts = {label: total.n_weighted for label, total in self.label_totals.items()}
        share = n_rows / sum(counts.values())
        few = {label: min(n, max(MIN_SAMPLED, int(share * n))) for label, n in counts.items()}
        return self.draw_numbers(few, int(rng.integers(2**62)))

    def draw_rows(self, n_rows: int, rng: np.random.Generator, by_weight: bool = True) -> ArraySource:
        """At most `n_rows` random rows of each label, one label after the other.

        If asked, rows of larger weight are drawn more often; those then weigh the same.
        """
        totals = self.label_totals
        counts = {label: total.n_weighted for label, total in totals.items()}
        seed = int(rng.integers(2**62)) if max(counts.values()) > n_rows else 0
        found = self.draw(n_rows, seed, "weight" if by_weight else "counted")
        draws = {label: draw for label, draw in found.items() if label in totals}
        sample = self.subset(np.concatenate([draw.rows for draw in draws.values()]))
        if not by_weight or sample.weight is None:
            return sample
        sizes = [(draw.rows.size, counts[label] > n_rows) for label, draw in draws.items()]
        return sample.with_weight(divide_by_draw(sample.weight, sizes))

    def sample_rows(self, n_rows: int, rng: np.random.Generator) -> Chunk:
        return self.draw_rows(n_rows, rng).all_rows()


class Preprocessor(Protocol):
    """How raw rows become the rows that a family models, and back."""

    @property
    def shift(self) -> Array: ...  # (D,)
    @property
    def scale(self) -> Array: ...  # (D,)
    @property
    def n_empty_columns(self) -> int: ...  # columns without any value
    def prepare(self, X: Array) -> MaskedRows: ...
    def inverse_transform(self, values: Array) -> Array: ...
    def inverse_transform_expected(self, values: Array) -> Array: ...  # of expected values
    def log_det_jacobian(self, rows: MaskedRows) -> Array: ...  # (N,) what densities lose to the scaling


Preprocess = Callable[[Array], MaskedRows]


def map_rows(X: Array, preprocess: Preprocess, fn: Callable[[MaskedRows], Array], max_rows: int) -> list[Array]:
    """`fn` of chunks of at most `max_rows` rows, in the order of the rows."""
    if X.shape[0] <= max_rows:
        return [fn(preprocess(X))]
    ranges = split_ranges([RowRange(0, X.shape[0], None)], max_rows)
    return parallel(lambda rows: fn(preprocess(X[rows.as_slice, ...])), ranges, is_numpy_array(X))


@dataclass(frozen=True)
class MaskMissing:
    """The preprocessor that only notes which cells are missing."""

    dtype: DType | None = None  # of the values; None: that of X, or float64 where X has no floats

    def __call__(self, X: Array) -> MaskedRows:
        if is_sparse(X):
            return MaskedRows(X, None)
        xp = namespace(X)
        values = xp.asarray(X, dtype=self.dtype, device=device(X)) if self.dtype is not None else xp.asarray(X)
        if not xp.isdtype(values.dtype, "real floating"):
            values = xp.astype(values, xp.float64)
        if not has_nan(values):
            return MaskedRows(values, None)
        missing = xp.isnan(values)
        return MaskedRows(xp.where(missing, xp.zeros_like(values), values), xp.astype(~missing, values.dtype))


def is_mapped(X: Array) -> bool:
    """Whether rows lie in a file, which is best read in its own order."""
    memory: object = X
    while isinstance(memory, np.ndarray):
        if isinstance(memory, np.memmap):
            return True
        memory = memory.base
    return isinstance(memory, mmap.mmap)


class RowRange(NamedTuple):
    """Consecutive rows, in the order in which a pass visits them."""

    start: int
    stop: int
    label: int | None  # the label that all of them have, if the pass goes by label

    @property
    def as_slice(self) -> slice:
        return slice(self.start, self.stop)


def label_ranges(sorted_y: np.ndarray) -> list[RowRange]:
    """The range of each label in sorted labels."""
    changes = np.flatnonzero(sorted_y[1:] != sorted_y[:-1]) + 1
    edges = [0, *changes.tolist(), sorted_y.size]
    return [RowRange(a, b, int(sorted_y[a])) for a, b in zip(edges[:-1], edges[1:], strict=True) if b > a]


#: Working memory of a chunk, in MiB: sweeps run fastest at a few times the second-level cache.
CHUNK_MIB = 8


def rows_per_chunk(floats_per_row: int, like: Array | None = None) -> int:
    """Rows whose workspace fits `CHUNK_MIB`, or scikit-learn's `working_memory` if that is less.

    An accelerator, where `like` may live, wants few large chunks: it gets all of `working_memory`.
    """
    budget = get_config()["working_memory"] * 2**20
    if like is None or is_on_cpu(like):
        budget = min(budget, CHUNK_MIB * 2**20)
    return max(1, int(budget // (8 * max(1, floats_per_row))))


def split_ranges(ranges: list[RowRange], max_rows: int, by_label: bool = False) -> list[RowRange]:
    """Adjacent ranges, cut evenly into some of at most `max_rows` rows; of one label if asked."""
    if ranges and not by_label:
        ranges = [RowRange(ranges[0].start, ranges[-1].stop, None)]
    out = []
    for start, stop, label in ranges:
        size = stop - start
        n_parts = max(1, math.ceil(size / max_rows))
        edges = [start + k * size // n_parts for k in range(n_parts + 1)]
        out += [RowRange(a, b, label) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    return out


def join_ranges(ranges: list[RowRange], max_rows: int) -> Iterator[list[RowRange]]:
    """Tasks of adjacent ranges with at most `max_rows` rows together.

    A label with few rows makes no task of its own.
    """
    task: list[RowRange] = []
    for rows in ranges:
        if task and rows.stop - task[0].start > max_rows:
            yield task
            task = []
        task.append(rows)
    if task:
        yield task


def pack_tasks(tasks: list[list[RowRange]], max_tasks: int) -> list[list[RowRange]]:
    """The same work in at most `max_tasks` tasks."""
    size = max(1, math.ceil(len(tasks) / max_tasks))
    return [[rows for task in tasks[k : k + size] for rows in task] for k in range(0, len(tasks), size)]


class CachedRows(NamedTuple):
    """A preprocessed copy of a small table, rows in the order of labels and missing cells."""

    chunk: Chunk
    labels: list[RowRange]  # one for each label

    def take_restarts(self, index: np.ndarray) -> CachedRows:
        weight = self.chunk.weight
        if weight is None:
            return self
        keep = asarray_like(index, weight, dtype=namespace(weight).int64)
        chunk = self.chunk._replace(weight=namespace(weight).take(weight, keep, axis=1))
        return self._replace(chunk=chunk)

    def read(self, rows: RowRange, memos: dict[RowRange, Memo] | None = None) -> Iterator[Chunk]:
        (values, observed), y, weight, *_ = self.chunk
        here = rows.as_slice
        masked = MaskedRows(values[here, ...], None if observed is None else observed[here, ...])
        memo = None if memos is None else memos.setdefault(rows, {})
        yield Chunk(masked, y[here, ...], None if weight is None else weight[here, ...], rows.label, memo)


def with_gaps_side_by_side(X: Array, y: np.ndarray, by_label: np.ndarray) -> np.ndarray:
    """Row numbers sorted by label, then by how many cells a row misses and by which of the first
    64; as they are (`by_label`) where no cell is missing.

    Families that treat rows together which miss the same cells, or about as many, find more of them
    in a chunk.
    """
    if not isinstance(X, np.ndarray) or X.dtype.kind != "f":
        return by_label
    missing = np.isnan(X)
    if not missing.any():
        return by_label
    bits = np.zeros((X.shape[0], 8), dtype=np.uint8)
    first = np.packbits(missing[:, :64], axis=1)
    bits[:, : first.shape[1]] = first
    return np.lexsort((bits.view(">u8")[:, 0], missing.sum(axis=1), y))


def preprocess_rows(X: np.ndarray, preprocess: Preprocess, order: np.ndarray | None, max_rows: int) -> MaskedRows:
    """All rows in some order, preprocessed in chunks: no second table is as large."""
    ranges = split_ranges([RowRange(0, X.shape[0], None)], max_rows)
    values = np.empty(X.shape, dtype=to_numpy(preprocess(X[:1]).values).dtype)

    def fill(rows: RowRange) -> Array | None:
        index = rows.as_slice if order is None else order[rows.as_slice]
        values[rows.as_slice], observed = preprocess(X[index])
        return observed

    masks = parallel(fill, ranges)
    if all(mask is None for mask in masks):
        return MaskedRows(values, None)
    observed = np.ones_like(values)
    for rows, mask in zip(ranges, masks, strict=True):
        observed[rows.as_slice] = 1.0 if mask is None else mask
    return MaskedRows(values, observed)


#: Which rows of a table: consecutive ones, or those of these numbers.
RowIndex = slice | np.ndarray

#: Preprocessed tables up to this size are kept, in MiB, or to scikit-learn's `working_memory`; a
#: multiple of it where the table itself is in memory.
CACHE_MIB, IN_MEMORY_FACTOR = 64, 4

#: Tables up to this size are remembered from sweep to sweep, in MiB.
MEMO_MIB = 64

#: On an accelerator, where reading rows again costs more than the memory.
DEVICE_CACHE_MIB = 8192

#: Tasks of one pass at most: each keeps its sums until all have ended.
MAX_TASKS = 64


class ArraySource(TableSource):
    """Rows of an array or of a memory map.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,) or (n_rows, n_labels)
        Class codes, -1 where unlabeled; or label matrices and numbers, all of them known.
    weight : ndarray of shape (n_rows,), (n_rows, n_restarts) or None
        With a column for each restart, a batch of restarts trains on different rows: a fold of
        cross-validation is a column with zeros.
    preprocess : callable or None
        By default missing cells are masked.
    skip_unlabeled : bool
        Whether rows without a label are passed over.
    cache_mib : float or None
        The largest preprocessed table to keep; by default 64, at most `working_memory`.
    gather_chunk_rows : int
        Rows preprocessed together.
    """

    def __init__(
        self,
        X: Array,
        y: np.ndarray,
        weight: np.ndarray | None = None,
        preprocess: Preprocess | None = None,
        skip_unlabeled: bool = False,
        cache_mib: float | None = None,
        gather_chunk_rows: int = 4096,
    ):
        self.X = X
        self.y = np.asarray(y)
        self.weight = None if weight is None else np.asarray(weight)
        self.preprocess = preprocess or MaskMissing()
        self.n_rows, self.n_features = X.shape
        self.skip_unlabeled = skip_unlabeled
        self.cache_mib = cache_mib
        self.gather_chunk_rows = gather_chunk_rows
        self._cache: CachedRows | None = None
        remembers = self._n_bytes <= MEMO_MIB * 2**20
        self._memos: dict[RowRange, Memo] | None = {} if remembers else None

    def __getstate__(self) -> dict[str, object]:
        """What travels to another process: not what can be made anew there."""
        state = {name: value for name, value in vars(self).items() if name != "_label_order"}
        return state | {"_cache": None, "_memos": None if self._memos is None else {}}

    @property
    def any_unlabeled(self) -> bool:
        return not self.skip_unlabeled and self._has_codes and bool((self.y < 0).any())

    @property
    def rows_like(self) -> Array:
        return stored_values(self.X)

    @cached_property
    def total_weight(self) -> float:
        counted = self.y >= 0 if self._skips else slice(None)
        return float(self.y[counted].shape[0] if self.weight is None else self.weight[counted].sum(axis=0).mean())

    @property
    def is_weighted(self) -> bool:
        return self.weight is not None

    @property
    def label_totals(self) -> dict[int, LabelTotals]:
        place = self._sampled_labels + 1  # codes begin at -1
        counts = np.bincount(place)
        sums, numbers = counts.astype(float), counts
        if self.weight is not None:
            weight = self._mean_weight
            sums, numbers = np.bincount(place, weight), np.bincount(place, weight > 0).astype(int)
        totals = enumerate(zip(counts.tolist(), numbers.tolist(), sums.tolist(), strict=True), start=-1)
        return {code: LabelTotals(*rest) for code, rest in totals if rest[0] and not (self._skips and code < 0)}

    def with_weight(self, weight: np.ndarray | None) -> ArraySource:
        """The same rows with other weights."""
        return self if weight is self.weight else self._with_rows(self.X, self.y, weight, self.skip_unlabeled)

    def with_table(self, X: Array, y: np.ndarray) -> ArraySource:
        """The same rows with other columns, labels or outputs."""
        return self._with_rows(X, y, self.weight, self.skip_unlabeled)

    def with_preprocess(self, preprocess: Preprocess) -> ArraySource:
        return ArraySource(self.X, self.y, self.weight, preprocess, self.skip_unlabeled)

    def _weigh_unlabeled(self, factor: float) -> ArraySource:
        return self.with_weight(np.where(self.y < 0, factor, 1.0) * (1.0 if self.weight is None else self.weight))

    def take_restarts(self, index: np.ndarray) -> ArraySource:
        weight, cache = self.weight, self._cache
        if weight is not None and weight.ndim == 2:
            weight, cache = weight[:, index], None if cache is None else cache.take_restarts(index)
        source = self._with_rows(self.X, self.y, weight, self.skip_unlabeled)
        source._cache = cache
        if self._memos is not None:
            source._memos = {
                rows: {key: left.take_restarts(index) for key, left in memo.items()}
                for rows, memo in self._memos.items()
            }
        return source

    def labeled_only(self) -> ArraySource:
        source = self._with_rows(self.X, self.y, self.weight, skip=True)
        source._cache = self._cache
        return source

    def subset(self, index: np.ndarray) -> ArraySource:
        weight = None if self.weight is None else self.weight[index]
        return self._with_rows(take_rows(self.X, index), self.y[index], weight, self.skip_unlabeled)

    def drop_rows(self, index: np.ndarray) -> ArraySource:
        """They get no weight: the others, which are drawn by their numbers, keep these."""
        stays = np.ones(self.n_rows)
        stays[index] = 0.0
        return self.with_weight(stays if self.weight is None else stays * self.weight)

    def draw(self, n_rows: Limits, seed: int, rates: str, first_row: int = 0) -> dict[int, Draw]:
        """As for any table, whose first row is number `first_row` of a larger one."""
        weight = None if self.weight is None else self._mean_weight
        if weight is not None and rates == "counted":
            weight = (weight > 0).astype(float)
        return draw_rows(self._sampled_labels, weight, n_rows, seed, first_row)

    def sum_over_chunks(
        self, fn: Callable[[Chunk], Totals[K, V]], max_rows: int, by_label: bool = False
    ) -> Totals[K, V]:
        read, tasks = self._plan(max_rows, by_label and self._has_codes)
        errors = np.geterr()  # of this thread, which others would not know of

        def run(ranges: list[RowRange]) -> Totals[K, V]:
            with np.errstate(**errors):
                return add_totals(fn(chunk) for rows in ranges for chunk in read(rows))

        return add_totals(parallel(run, pack_tasks(tasks, MAX_TASKS), is_numpy_array(self.X)))

    def first_rows(self, n_rows: int) -> ArraySource:
        return self.subset(np.flatnonzero(self._mean_weight > 0)[:n_rows])

    def spread_rows(self, n_rows: int, labeled: bool = False) -> ArraySource:
        index = self.counted_rows(labeled)
        return self.subset(index[evenly_spaced(index.size, n_rows)])

    def counted_rows(self, labeled: bool = False) -> np.ndarray:
        """Numbers of the (labeled) rows that have weight."""
        return np.flatnonzero((self._mean_weight > 0) & (self.y >= 0 if labeled or self._skips else True))

    def all_rows(self) -> Chunk:
        """All rows, preprocessed, in their order."""
        return self._gather(None)

    @property
    def _has_codes(self) -> bool:
        """Whether y holds class codes, of which -1 marks unlabeled rows."""
        return self.y.ndim == 1 and self.y.dtype.kind in "iu"

    @property
    def _skips(self) -> bool:
        return self.skip_unlabeled and self._has_codes

    @property
    def _sampled_labels(self) -> np.ndarray:
        """The class codes, or one for all rows where y has none."""
        return self.y if self._has_codes else np.zeros(self.n_rows, dtype=int)

    @property
    def _mean_weight(self) -> np.ndarray:
        """Weights (N,), averaged over the restarts."""
        weight = np.ones(self.n_rows) if self.weight is None else self.weight
        return weight if weight.ndim == 1 else weight.mean(axis=1)

    def _with_rows(self, X: Array, y: np.ndarray, weight: np.ndarray | None, skip: bool) -> ArraySource:
        return ArraySource(X, y, weight, self.preprocess, skip, self.cache_mib, self.gather_chunk_rows)

    def _plan(
        self, max_rows: int, by_label: bool
    ) -> tuple[Callable[[RowRange], Iterable[Chunk]], list[list[RowRange]]]:
        """How ranges of rows are read, and the tasks of a pass: few ranges each, in their order."""
        if self._fits_cache and self._cache is None:
            self._cache = self._fill_cache()
        if self._cache is not None:
            ranges = split_ranges(self._counted(self._cache.labels), max_rows, by_label)
            return partial(self._cache.read, memos=self._memos), list(join_ranges(ranges, max_rows))
        if by_label and not is_mapped(self.X):  # rows in memory can be gathered from anywhere
            labels = self._counted(label_ranges(self.y[self._label_order]))
            return self._read_sorted, [[rows] for rows in split_ranges(labels, max_rows, by_label)]
        whole = [RowRange(0, self.n_rows, None)]
        return partial(self._read_in_order, by_label=by_label), [[rows] for rows in split_ranges(whole, max_rows)]

    def _counted(self, labels: list[RowRange]) -> list[RowRange]:
        return [rows for rows in labels if not (self._skips and rows.label == -1)]

    @property
    def _n_bytes(self) -> int:
        """Memory of the values in double precision."""
        return 8 * math.prod(self.rows_like.shape)

    @property
    def _fits_cache(self) -> bool:
        """Whether a preprocessed copy may be kept."""
        limit = self.cache_mib
        if limit is None:
            limit = CACHE_MIB if is_mapped(self.X) else IN_MEMORY_FACTOR * CACHE_MIB
            limit = min(limit, get_config()["working_memory"]) if is_on_cpu(self.rows_like) else DEVICE_CACHE_MIB
        return bool(self._n_bytes <= limit * 2**20)

    @cached_property
    def _label_order(self) -> np.ndarray:
        """Row numbers in the order of the labels; short integers are sorted in linear time."""
        short = self.y.size and -(2**15) <= self.y.min() and self.y.max() < 2**15
        return np.argsort(self.y.astype(np.int16) if short else self.y, kind="stable")

    def _read_sorted(self, rows: RowRange) -> Iterator[Chunk]:
        """Rows of one label, from wherever they lie."""
        yield self._remembered(self._chunk(self._label_order[rows.as_slice], rows.label), rows)

    def _read_in_order(self, rows: RowRange, by_label: bool) -> Iterator[Chunk]:
        """Rows that lie side by side, in one chunk or in one for each label."""
        y = self.y[rows.as_slice]
        if by_label:
            for label in np.unique(y):
                if not (self._skips and label < 0):
                    chunk = self._chunk(rows.start + np.flatnonzero(y == label), int(label))
                    yield self._remembered(chunk, rows._replace(label=int(label)))
        elif self._skips:
            if (y >= 0).any():
                yield self._remembered(self._chunk(rows.start + np.flatnonzero(y >= 0), None), rows)
        else:
            yield self._remembered(self._chunk(rows.as_slice, None), rows)

    def _remembered(self, chunk: Chunk, rows: RowRange) -> Chunk:
        """The chunk with what the last sweep has left for it."""
        return chunk if self._memos is None else chunk._replace(memo=self._memos.setdefault(rows, {}))

    def _fill_cache(self) -> CachedRows:
        if not self._has_codes:
            return CachedRows(self.all_rows(), [RowRange(0, self.n_rows, None)])
        order = with_gaps_side_by_side(self.X, self.y, self._label_order)
        return CachedRows(self._gather(order), label_ranges(self.y[order]))

    def _gather(self, order: np.ndarray | None) -> Chunk:
        """All rows in some order."""
        index = slice(0, self.n_rows) if order is None else order
        if self.n_rows <= self.gather_chunk_rows or not is_numpy_array(self.X):
            return self._chunk(index, None)
        rows = preprocess_rows(self.X, self.preprocess, order, self.gather_chunk_rows)
        return self._labeled(rows, index, None)

    def _chunk(self, index: RowIndex, label: int | None) -> Chunk:
        rows = self.preprocess(self.X[index, ...] if isinstance(index, slice) else take_rows(self.X, index))
        return self._labeled(rows, index, label)

    def _labeled(self, rows: MaskedRows, index: RowIndex, label: int | None) -> Chunk:
        """Preprocessed rows with their labels and weights."""
        like = stored_values(rows.values)
        y_dtype = namespace(like).int64 if self.y.dtype.kind in "iu" else like.dtype
        weight = None if self.weight is None else asarray_like(self.weight[index], like)
        return Chunk(rows, asarray_like(self.y[index], like, dtype=y_dtype), weight, label)


#: Rows of each label at most: one number for all, or one for each; labels that it lacks have none.
Limits = int | Mapping[int, int]


class Draw(NamedTuple):
    """Rows drawn from one label: their keys, and their numbers in the table."""

    keys: np.ndarray
    rows: np.ndarray

    def least(self, n_rows: int) -> Draw:
        """At most so many rows, those with the least keys, in the order of the table."""
        if self.rows.size <= n_rows:
            return self
        chosen = np.sort(np.argpartition(self.keys, n_rows)[:n_rows])
        return Draw(self.keys[chosen], self.rows[chosen])


def draw_rows(
    labels: np.ndarray, weight: np.ndarray | None, n_rows: Limits, seed: int, first_row: int = 0
) -> dict[int, Draw]:
    """At most `n_rows` rows of each label; the first row is number `first_row` of the table.

    Rows without weight are never drawn.
    """
    bits = np.random.PCG64(seed)
    bits.advance(first_row)  # one number for each row of the table
    waiting = -np.log1p(-np.random.Generator(bits).random(labels.size))
    draws = {}
    for label in (np.flatnonzero(np.bincount(labels + 1)) - 1).tolist():  # codes begin at -1
        mine = labels == label
        rows = np.flatnonzero(mine if weight is None else mine & (weight > 0))
        keys = waiting[rows] if weight is None else waiting[rows] / weight[rows]
        draws[int(label)] = Draw(keys, first_row + rows).least(_limit(n_rows, label))
    return draws


def join_draws(parts: list[dict[int, Draw]], n_rows: Limits) -> dict[int, Draw]:
    """The rows drawn from the whole table, from those drawn from its parts, in order."""
    labels = sorted({label for part in parts for label in part})
    joined = {}
    for label in labels:
        draws = [part[label] for part in parts if label in part]
        keys, rows = (np.concatenate(arrays) for arrays in zip(*draws, strict=True))
        joined[label] = Draw(keys, rows).least(_limit(n_rows, label))
    return joined


def _limit(n_rows: Limits, label: int) -> int:
    return n_rows if isinstance(n_rows, int) else n_rows.get(label, 0)


def divide_by_draw(weight: np.ndarray, groups: Sequence[tuple[int, bool]]) -> np.ndarray:
    """Weights (N,) or (N, S) of rows in groups, one after the other, of which some were drawn.

    A row that was drawn by its weight has had its say: all of a group stand for as much, and
    together for what they weigh. Where each restart has its own weights, the mean has drawn.
    """
    weight, end = weight.astype(float), 0
    for size, was_drawn in groups:
        begin, end = end, end + size
        if was_drawn:
            mine = weight[begin:end].reshape(size, -1)
            drawn_by = mine.mean(axis=1, keepdims=True)
            weight[begin:end] = (mine * (drawn_by.mean() / drawn_by)).reshape(weight[begin:end].shape)
    return weight


def evenly_spaced(n_rows: int, n_wanted: int) -> np.ndarray:
    """At most `n_wanted` numbers of rows, spread over all of them."""
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, n_wanted)).astype(int))
