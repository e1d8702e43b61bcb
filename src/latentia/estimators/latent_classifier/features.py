"""Coded rows as columns of numbers, and completed rows for models that know no gaps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from latentia.arrays.linalg import eigh
from latentia.arrays.namespace import (
    Array,
    asarray_like,
    log_softmax,
    logsumexp,
    namespace,
    softmax,
    to_numpy,
    transpose,
)
from latentia.engine.rows import MaskedRows
from latentia.estimators.base.fitted_model import FittedModel
from latentia.families.latent_factors.family import LatentFactors, fill_gaps
from latentia.table.encoder import ColumnEncoder

#: Standard deviations beyond which a cell counts as that far away, for the kernel.
MAX_DISTANCE = 4.0

#: Columns and directions that vary less are rounding.
MIN_DEVIATION = 1e-9
MIN_EIGENVALUE = 1e-6


class NumberColumns(NamedTuple):
    """A column of several categories becomes one of zeros and ones for each; others stay.

    Columns without a value are left out. A missing cell stays missing in all its columns.
    """

    n_codes: tuple[int, ...]  # of each column; 1 for those that stay, 0 for those left out

    @classmethod
    def from_encoder(cls, encoder: ColumnEncoder, empty: Array | None) -> NumberColumns:
        left_out = np.zeros(len(encoder.columns), bool) if empty is None else to_numpy(empty)
        sizes = [
            column.levels.n_codes if kind == "categorical" and column.levels is not None else 1
            for column, kind in zip(encoder.columns, encoder.modeled_kinds, strict=True)
        ]
        return cls(tuple(0 if out else size for size, out in zip(sizes, left_out, strict=True)))

    @property
    def n_columns(self) -> int:
        return sum(self.n_codes)

    def expand(self, X: Array) -> Array:
        xp = namespace(X)
        if all(size == 1 for size in self.n_codes):
            return X
        parts = []
        for place, size in enumerate(self.n_codes):
            cells = X[:, place : place + 1]
            if size > 1:
                codes = asarray_like(np.arange(size)[None, :], X)
                cells = xp.where(xp.isnan(cells), cells, xp.astype(cells == codes, X.dtype))
            if size:
                parts.append(cells)
        return xp.concat(parts, axis=1)


class Completion(NamedTuple):
    """How rows with gaps become complete rows of numbers: cells in the standard units of a
    generative model, which fills each gap by what it expects there.
    """

    model: FittedModel
    columns: NumberColumns

    @classmethod
    def by(cls, model: FittedModel) -> Completion:
        return cls(model, NumberColumns.from_encoder(model.encoder, model.preprocessor.empty_columns))

    def complete(self, X: Array) -> Array:
        """Complete rows (N, columns.n_columns)."""
        family, params = self.model.family, self.model.params

        def fill(rows: MaskedRows) -> Array:
            return rows.values if rows.observed is None else _score_and_fill(family, params, rows)[1]

        return self.columns.expand(self.model.map_rows(X, fill, family.impute_floats_per_row(params)))

    def with_log_proba(self, X: Array) -> tuple[Array, Array]:
        """Complete rows, and what the model says of their classes (N, C): rows are inferred once.

        Not for models that average over others.
        """
        family, params = self.model.family, self.model.params

        def both(rows: MaskedRows) -> Array:
            scores, filled = _score_and_fill(family, params, rows)
            log_proba = log_softmax(self.model.temper(scores, rows), axis=-2)
            return namespace(filled).concat([filled, transpose(log_proba)], axis=1)

        floats = family.impute_floats_per_row(params) + family.floats_per_row(params)
        found, n_columns = self.model.map_rows(X, both, floats), X.shape[1]
        return self.columns.expand(found[:, :n_columns]), found[:, n_columns:]


def _score_and_fill(family: Any, params: Any, rows: MaskedRows) -> tuple[Array, Array]:
    """Log joints (C, N), and rows whose gaps are averaged over the classes by them."""
    is_complete = rows.observed is None
    if is_complete or not isinstance(family, LatentFactors) or not params.means.shape[-1]:
        scores = family.infer(params, rows).log_joint
        return scores, rows.values if is_complete else family.impute(params, rows, softmax(scores, axis=-2), False)
    posterior = family.infer_rows(params, rows)
    scores = logsumexp(posterior.scores, axis=-2)
    return scores, fill_gaps(family.layout, params, rows, posterior, softmax(scores, axis=-2))


class KernelMap(NamedTuple):
    """Rows as their similarities to landmarks: the features of a kernel ``exp(-d^2 / 2)``, where
    ``d^2`` is a weighted mean of squared distances in standardized columns (Nyström's
    approximation). Linear models of them are smooth ones of the rows.
    """

    shift: np.ndarray  # (D,)
    scale: np.ndarray  # (D,)
    root_share: np.ndarray  # (D,) roots of the columns' weights in the mean, times the closeness
    landmarks: np.ndarray  # (L, D) standardized, times these roots
    whitening: np.ndarray  # (L, R)

    @classmethod
    def learn(
        cls,
        features: np.ndarray,
        max_landmarks: int,
        rng: np.random.Generator,
        relevance: np.ndarray | None = None,
        weight: np.ndarray | None = None,
        closeness: float = 1.0,
    ) -> KernelMap:
        """From complete rows (N, D); all distinct ones are landmarks if they are not too many.

        Columns count by their `relevance` (D,), and rows in standard units by their `weight` (N,),
        or all alike. Distances count `closeness` times.
        """
        shift = np.average(features, axis=0, weights=weight)
        deviation = np.sqrt(np.average((features - shift) ** 2, axis=0, weights=weight))
        scale = np.where(deviation > MIN_DEVIATION, deviation, 1.0)
        relevance = np.ones_like(scale) if relevance is None else relevance
        root_share = closeness * np.sqrt(relevance / relevance.sum())
        landmarks = np.unique(_standardized(features, shift, scale) * root_share, axis=0)
        if len(landmarks) > max_landmarks:
            landmarks = landmarks[np.sort(rng.choice(len(landmarks), max_landmarks, replace=False))]
        values, vectors = map(to_numpy, eigh(_similarities(landmarks, landmarks)))
        kept = values > MIN_EIGENVALUE * values.max()
        return cls(shift, scale, root_share, landmarks, vectors[:, kept] / np.sqrt(values[kept]))

    def similarities(self, features: Array) -> Array:
        """Features (N, R) of complete rows."""
        rows = _standardized(to_numpy(features).astype(float), self.shift, self.scale) * self.root_share
        return asarray_like(_similarities(rows, self.landmarks) @ self.whitening, features)


def _standardized(features: np.ndarray, shift: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Far rows are no farther than MAX_DISTANCE standard deviations in a column."""
    return np.asarray(np.clip((features - shift) / scale, -MAX_DISTANCE, MAX_DISTANCE))


def _similarities(rows: np.ndarray, landmarks: np.ndarray) -> np.ndarray:
    """The kernel between rows and landmarks, (N, L)."""
    squares = (rows**2).sum(axis=1)[:, None] + (landmarks**2).sum(axis=1) - 2 * rows @ landmarks.T
    return np.asarray(np.exp(-0.5 * np.maximum(squares, 0.0)))


def rows_without_cells(X: Array) -> Array:
    """Which rows have no known cell (N,)."""
    xp = namespace(X)
    if not xp.isdtype(X.dtype, "real floating"):
        return xp.zeros_like(X[:, 0], dtype=xp.bool)
    return xp.all(xp.isnan(X), axis=1)


def with_gap_columns(rows: Array, X: Array) -> Array:
    """Complete rows (N, n), and for each column of the coded rows X (N, D) whether its cell was
    missing, (N, n + D).
    """
    xp = namespace(rows)
    return xp.concat([rows, xp.astype(xp.isnan(X), rows.dtype)], axis=1)


def share_of_gaps(X: Array, weight: np.ndarray | None = None) -> float:
    """The share of missing cells; rows count by their weight (N,), or all alike."""
    xp = namespace(X)
    if not xp.isdtype(X.dtype, "real floating"):
        return 0.0
    shares = to_numpy(xp.mean(xp.astype(xp.isnan(X), X.dtype), axis=1)).astype(float)
    return float(np.average(shares, weights=weight))


#: A column is cut into so many parts at most, each of so many rows on average.
MAX_PARTS, ROWS_PER_PART = 8, 20

#: What every column counts at least, as a share of the one that counts most.
MIN_RELEVANCE = 0.02


def class_relevance(features: np.ndarray, codes: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """What each column (N, D), cut at its quantiles, tells of the classes by itself: their mutual
    information, less what chance explains of it.
    """
    total = weight.sum()
    n_parts = int(np.clip(total // ROWS_PER_PART, 2, MAX_PARTS))
    classes, codes = np.unique(codes, return_inverse=True)
    found = np.array([_information(column, codes, weight, n_parts, classes.size) for column in features.T])
    best = found.max(initial=0.0)
    return found + MIN_RELEVANCE * best if best > 0 else np.ones_like(found)


def _information(column: np.ndarray, codes: np.ndarray, weight: np.ndarray, n_parts: int, n_classes: int) -> float:
    order = np.argsort(column, kind="stable")
    cumulative = np.cumsum(weight[order])
    inner = np.searchsorted(cumulative, cumulative[-1] * np.arange(1, n_parts) / n_parts)
    part = np.searchsorted(np.unique(column[order][inner]), column, side="right")
    table = np.bincount(part * n_classes + codes, weight, minlength=n_parts * n_classes).reshape(-1, n_classes)
    share = table / cumulative[-1]
    chance = share.sum(axis=1, keepdims=True) * share.sum(axis=0)
    known = share > 0
    information = float((share[known] * np.log(share[known] / chance[known])).sum())
    n_used = np.count_nonzero(table.sum(axis=1))
    return max(0.0, information - (n_used - 1) * (n_classes - 1) / (2 * cumulative[-1]))
