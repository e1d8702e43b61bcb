"""Rows as every part of the engine sees them: masked, in chunks, from a source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Protocol

import numpy as np

from latentia.engine.pytree import Tree
from latentia.numerics.array_api import Array, namespace, to_numpy


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

    def take_restarts(self, index: np.ndarray) -> Source:
        """The source that these restarts see; the same unless each has weights of its own."""
        return self

    @abstractmethod
    def sum_over_chunks(self, fn: Callable[[Chunk], Totals], max_rows: int, by_label: bool = False) -> Totals:
        """Add up `fn` by key over chunks of at most `max_rows` rows (of one label if asked)."""

    @abstractmethod
    def sample_rows(self, n_rows: int, rng: np.random.Generator) -> Chunk:
        """At most `n_rows` random rows of each label in memory, for initialization."""


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
    def log_det_jacobian(self, rows: MaskedRows) -> Array: ...  # (N,) what densities lose to the scaling
