"""Rows as every part of the engine sees them: masked, in chunks, from a source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, Self, cast

import numpy as np

from latentia.arrays.namespace import Array, namespace, to_numpy
from latentia.engine.pytree import Tree, tree_add
from latentia.engine.row_draws import Draw, Limits, divide_by_draw


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
    memo: dict[str, Any] | None = None  # what the last sweep over these rows left for the next; None: nothing is kept

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


Totals = dict[Hashable, Tree]


def add_totals(parts: Iterable[Totals]) -> Totals:
    """The sums of each key, added in the order of the parts."""
    totals: Totals = {}
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
    def sum_over_chunks(self, fn: Callable[[Chunk], Totals], max_rows: int, by_label: bool = False) -> Totals:
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
    def first_rows(self, n_rows: int) -> Any:
        """An `ArraySource` of the first rows with weight."""

    @abstractmethod
    def spread_rows(self, n_rows: int, labeled: bool = False) -> Any:
        """An `ArraySource` of at most so many (labeled) rows with weight, evenly spaced among those
        of the table.
        """

    @abstractmethod
    def subset(self, index: np.ndarray) -> Any:
        """An `ArraySource` of the rows of these numbers, in this order."""

    @abstractmethod
    def drop_rows(self, index: np.ndarray) -> TableSource:
        """The same table, in which the rows of these numbers count nothing."""

    @abstractmethod
    def draw(self, n_rows: Limits, seed: int, rates: str) -> dict[int, Draw]:
        """Random rows of each label that have weight: by their "weight", or alike ("counted")."""

    def draw_numbers(self, n_rows: Mapping[int, int], seed: int) -> np.ndarray:
        """Sorted numbers of so many random rows of each label, of those that count."""
        return np.sort(np.concatenate([draw.rows for draw in self.draw(n_rows, seed, "counted").values()]))

    def hold_out(self, share: float, rng: np.random.Generator) -> tuple[TableSource, Any]:
        """The table without a random share of each class, and an `ArraySource` of that share.

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

    @abstractmethod
    def batches(self, n_rows: int, rng: np.random.Generator) -> Iterator[Any]:
        """One pass in random order: each row that counts is in one `ArraySource` of about `n_rows`
        rows.
        """

    def draw_rows(self, n_rows: int, rng: np.random.Generator, by_weight: bool = True) -> Any:
        """An `ArraySource` of at most `n_rows` random rows of each label, one label after the
        other. If asked, rows of larger weight are drawn more often; those then weigh the same.
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
        chunk: Chunk = self.draw_rows(n_rows, rng).all_rows()
        return chunk


class Preprocessor(Protocol):
    """How raw rows become the rows that a family models, and back."""

    @property
    def shift(self) -> Array: ...  # (D,)
    @property
    def scale(self) -> Array: ...  # (D,)
    @property
    def n_empty_columns(self) -> int: ...  # columns without any value
    def __call__(self, X: Array) -> MaskedRows: ...
    def inverse_transform(self, values: Array) -> Array: ...
    def inverse_transform_expected(self, values: Array) -> Array: ...  # of expected values
    def log_det_jacobian(self, rows: MaskedRows) -> Array: ...  # (N,) what densities lose to the scaling
