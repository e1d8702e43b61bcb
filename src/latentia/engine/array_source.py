"""Rows in memory or in a memory-mapped file, visited in chunks on all cores.

Small tables are preprocessed once and cached in the order of their labels and missing cells, so
that a chunk of one label is a contiguous view. Larger ones, and memory maps, are read and
preprocessed chunk by chunk in every pass. Results are added in the order of the chunks, so sums do
not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np
from array_api_compat import is_numpy_array
from sklearn import get_config

from latentia.arrays.namespace import Array, asarray_like, is_on_cpu, namespace, stored_values, take_rows
from latentia.arrays.parallel import parallel
from latentia.engine.cached_rows import CachedRows, preprocess_rows, with_gaps_side_by_side
from latentia.engine.masking import MaskMissing, Preprocess, is_mapped
from latentia.engine.row_draws import Draw, Limits, draw_rows, evenly_spaced, random_batches
from latentia.engine.row_ranges import RowRange, join_ranges, label_ranges, pack_tasks, split_ranges
from latentia.engine.source import Chunk, LabelTotals, TableSource, Totals, add_totals

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
        remembers = X.shape[0] * X.shape[1] * 8 <= MEMO_MIB * 2**20
        self._memos: dict[RowRange, dict[str, Any]] | None = {} if remembers else None

    def __getstate__(self) -> dict[str, Any]:
        """What travels to another process: not what can be made anew there."""
        state = {name: value for name, value in vars(self).items() if name != "_label_order"}
        return state | {"_cache": None, "_memos": None if self._memos is None else {}}

    @property
    def any_unlabeled(self) -> bool:
        return not self.skip_unlabeled and self._has_codes and bool((self.y < 0).any())

    @property
    def rows_like(self) -> Array:
        return self.X

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

    def batches(self, n_rows: int, rng: np.random.Generator) -> Iterator[ArraySource]:
        return map(self.subset, random_batches(self.counted_rows(), n_rows, rng))

    def draw(self, n_rows: Limits, seed: int, rates: str, first_row: int = 0) -> dict[int, Draw]:
        """As for any table, whose first row is number `first_row` of a larger one."""
        weight = None if self.weight is None else self._mean_weight
        if weight is not None and rates == "counted":
            weight = (weight > 0).astype(float)
        return draw_rows(self._sampled_labels, weight, n_rows, seed, first_row)

    def sum_over_chunks(self, fn: Callable[[Chunk], Totals], max_rows: int, by_label: bool = False) -> Totals:
        read, tasks = self._plan(max_rows, by_label and self._has_codes)
        errors = np.geterr()  # of this thread, which others would not know of

        def run(ranges: list[RowRange]) -> Totals:
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
    def _fits_cache(self) -> bool:
        """Whether a preprocessed copy may be kept."""
        limit = self.cache_mib
        if limit is None:
            limit = CACHE_MIB if is_mapped(self.X) else IN_MEMORY_FACTOR * CACHE_MIB
            limit = min(limit, get_config()["working_memory"]) if is_on_cpu(self.X) else DEVICE_CACHE_MIB
        return bool(self.n_rows * self.n_features * 8 <= limit * 2**20)

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

    def _chunk(self, index: Any, label: int | None) -> Chunk:
        rows = self.preprocess(self.X[index, ...] if isinstance(index, slice) else take_rows(self.X, index))
        return self._labeled(rows, index, label)

    def _labeled(self, rows: Any, index: Any, label: int | None) -> Chunk:
        """Preprocessed rows with their labels and weights."""
        like = stored_values(rows.values)
        y_dtype = namespace(like).int64 if self.y.dtype.kind in "iu" else like.dtype
        weight = None if self.weight is None else asarray_like(self.weight[index], like)
        return Chunk(rows, asarray_like(self.y[index], like, dtype=y_dtype), weight, label)
