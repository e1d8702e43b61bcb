"""Every estimator at a large shape, with few iterations: what the speed benchmarks fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from latentia import (
    GaussianMixtureClassifier,
    LatentClassificationModel,
    LatentClassificationModelCV,
    LatentClassifier,
    MixtureOfExpertsClassifier,
    MixtureOfExpertsRegressor,
    MultimodalSoftmaxClassifier,
    ProbitEmbeddingClassifier,
)


@dataclass(frozen=True)
class Shape:
    """A table drawn at random: clusters in each class, correlated by a few factors."""

    rows: int
    columns: int
    classes: int = 4
    gaps: float = 0.0  # share of missing cells
    binary: int = 0  # columns, the first ones
    levels: int = 0  # categories of the last column
    labels: int = 0  # binary label columns in place of classes
    numeric: bool = False  # whether y is a number
    dtype: str = "float32"

    def words(self) -> str:
        extras = [f"{self.binary} binary"] if self.binary else []
        extras += [f"1 of {self.levels} categories"] if self.levels else []
        extras += [f"{self.gaps:.0%} missing"] if self.gaps else []
        y = f"{self.labels} labels" if self.labels else "numeric y" if self.numeric else f"{self.classes} classes"
        return ", ".join([f"{self.rows} x {self.columns} {self.dtype}", y, *extras])

    def draw(self, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        n_clusters, n_factors = 4, 6
        y = rng.integers(self.classes, size=self.rows)
        centers = rng.normal(scale=0.7, size=(self.classes, n_clusters, self.columns)).astype(self.dtype)
        loadings = rng.normal(scale=0.5, size=(n_factors, self.columns)).astype(self.dtype)
        X = rng.standard_normal((self.rows, self.columns), dtype=self.dtype)
        X += rng.standard_normal((self.rows, n_factors), dtype=self.dtype) @ loadings
        X += centers[y, rng.integers(n_clusters, size=self.rows)]
        scores = X @ rng.normal(size=(self.columns, max(1, self.labels))).astype(self.dtype)
        if self.labels:
            y = (scores + rng.normal(size=scores.shape) > 0).astype(np.int64)
        elif self.numeric:
            y = np.tanh(scores[:, 0]) + 0.1 * rng.standard_normal(self.rows, dtype=self.dtype)
        X[:, : self.binary] = X[:, : self.binary] > 0
        if self.levels:
            X[:, -1] = np.clip(np.floor(X[:, -1] + self.levels / 2), 0, self.levels - 1)
        if self.gaps:
            X[rng.random(X.shape) < self.gaps] = np.nan
        return X, y

    @property
    def kinds(self) -> list[str]:
        continuous = self.columns - self.binary - bool(self.levels)
        return ["binary"] * self.binary + ["continuous"] * continuous + ["categorical"] * bool(self.levels)


@dataclass(frozen=True)
class EstimatorCase:
    """An estimator and the table that it is fitted to."""

    make: Callable[..., Any]  # (max_iter, shape) -> estimator
    shape: Shape
    iterations: int = 5

    def at(self, scale: float) -> EstimatorCase:
        """The same with another number of rows."""
        return replace(self, shape=replace(self.shape, rows=max(200, int(scale * self.shape.rows))))

    def model(self, max_iter: int | None = None) -> Any:
        return self.make(max_iter or self.iterations, self.shape)


def mixture(covariance: str, n_components: int, **options: Any) -> Callable[..., Any]:
    def make(max_iter: int, shape: Shape) -> Any:
        common = {"n_init": 1, "tol": 0, "marginals": "normal", "temperature": 1.0, "random_state": 0}
        return GaussianMixtureClassifier(
            n_components, covariance=covariance, max_iter=max_iter, **{**common, **options}
        )

    return make


def factors(n_latent: int, n_components: int, **options: Any) -> Callable[..., Any]:
    def make(max_iter: int, shape: Shape) -> Any:
        common = {"n_init": 1, "tol": 0, "marginals": "normal", "temperature": 1.0, "random_state": 0}
        return LatentClassificationModel(
            n_latent, n_components, kinds=shape.kinds, max_iter=max_iter, **{**common, **options}
        )

    return make


def _softmax(kind: type, size: int, **options: Any) -> Callable[..., Any]:
    def make(max_iter: int, shape: Shape) -> Any:
        return kind(size, n_init=1, tol=0, max_iter=max_iter, random_state=0, **options)

    return make


def _factor_search(max_iter: int, shape: Shape) -> Any:
    return LatentClassificationModelCV(
        [2, 6], [1, 2], cv=3, n_init=1, max_iter=max_iter, inference="ml", marginals="normal", random_state=0
    )


ESTIMATORS: dict[str, EstimatorCase] = {
    "mixture diag ml": EstimatorCase(mixture("diag", 16, inference="ml"), Shape(1_000_000, 50, 10)),
    "mixture diag vb": EstimatorCase(mixture("diag", 16), Shape(1_000_000, 50, 10)),
    "mixture full ml": EstimatorCase(mixture("full", 16, inference="ml"), Shape(200_000, 50, 4)),
    "mixture hybrid": EstimatorCase(mixture("diag", 16, inference="ml", objective="hybrid"), Shape(500_000, 50, 10)),
    "factors ml": EstimatorCase(factors(8, 4, inference="ml"), Shape(400_000, 40, 4)),
    "factors vb": EstimatorCase(factors(8, 4), Shape(200_000, 40, 4)),
    "factors binary": EstimatorCase(factors(6, 2), Shape(40_000, 60, 4, binary=60)),
    "factors mixed, gaps": EstimatorCase(factors(4, 2), Shape(40_000, 30, 4, gaps=0.2, binary=10, levels=5)),
    "softmax": EstimatorCase(_softmax(MultimodalSoftmaxClassifier, 2), Shape(200_000, 50, 4)),
    "softmax ml": EstimatorCase(_softmax(MultimodalSoftmaxClassifier, 2, inference="ml"), Shape(400_000, 50, 4)),
    "experts": EstimatorCase(_softmax(MixtureOfExpertsClassifier, 4), Shape(100_000, 30, 4)),
    "experts regression": EstimatorCase(_softmax(MixtureOfExpertsRegressor, 4), Shape(200_000, 30, numeric=True)),
    "embedding": EstimatorCase(
        lambda max_iter, shape: ProbitEmbeddingClassifier(8, max_iter=max_iter, tol=0, random_state=0),
        Shape(100_000, 200, labels=20),
    ),
    "factor search": EstimatorCase(_factor_search, Shape(100_000, 30, 4)),
    "latent classifier": EstimatorCase(
        lambda max_iter, shape: LatentClassifier(effort="fast", random_state=0), Shape(20_000, 30, 4)
    ),
}
