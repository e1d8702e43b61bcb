"""Rows to begin with: clusters by k-means++ seeds and a few Lloyd steps, for all restarts at once;
and made-up rows, complete and with labels or outputs, on which tests try conditional families.
"""

from __future__ import annotations

import numpy as np

#: Enough to leave the seeds' noise behind; EM does the rest.
N_LLOYD_STEPS = 5


def cluster_restarts(
    X: np.ndarray, n_clusters: int, n_restarts: int, rng: np.random.Generator, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means (S, K, D), variances (S, K, D) and weights (S, K) of clusters of (weighted) rows.

    Distinct rows are drawn, in sorted order and by their weight: a row of weight 2 is that row
    twice, in any order of the rows. A cluster without rows is put on the row that is farthest from
    its center. Variances lean on those of all rows, as one more row of the typical weight, so that
    a cluster of a single row does not start collapsed; the unit of the weights does not matter.
    """
    if X.shape[0] == 0:  # a class without a single row: at the origin of the preprocessed rows
        X = np.zeros((1, X.shape[1]))
        weight = None
    X, place = np.unique(X, axis=0, return_inverse=True)
    weight = np.bincount(place.ravel(), weight, minlength=X.shape[0]).astype(float)
    weight = weight / weight.max()
    weight = weight * (weight.sum() / (weight @ weight))
    squares = (X * X).sum(axis=1)
    centers = _seeds(X, squares, weight, n_clusters, n_restarts, rng)
    for _ in range(N_LLOYD_STEPS):
        distance = _distances(X, squares, centers)
        member = _members(distance) * weight
        count = member.sum(axis=2)
        centers = _means(X, member, count)
        for s, k in zip(*np.nonzero(count == 0), strict=True):
            far = int(np.argmax(distance[s].min(axis=0)))
            centers[s, k] = X[far]
            distance[s, :, far] = 0.0
    member = _members(_distances(X, squares, centers)) * weight
    count = member.sum(axis=2)
    means = np.where(count[:, :, None] > 0, _means(X, member, count), centers)
    second = np.einsum("skn,nd->skd", member, X * X, optimize=True)
    scatter = (
        second
        - count[:, :, None] * means**2
        + np.average((X - np.average(X, axis=0, weights=weight)) ** 2, axis=0, weights=weight)
    )
    return (
        means,
        np.maximum(scatter, 0.0) / (count[:, :, None] + 1.0),
        (count + 1.0) / (count + 1.0).sum(axis=1, keepdims=True),
    )


def _seeds(
    X: np.ndarray, squares: np.ndarray, weight: np.ndarray, n_clusters: int, n_restarts: int, rng: np.random.Generator
) -> np.ndarray:
    """k-means++: each next seed is a row drawn by its squared distance from the seeds so far."""
    chosen = _draw(np.tile(weight, (n_restarts, 1)), rng)
    centers = np.empty((n_restarts, n_clusters, X.shape[1]))
    nearest = np.full((n_restarts, X.shape[0]), np.inf)
    for k in range(n_clusters):
        centers[:, k] = X[chosen]
        nearest = np.minimum(nearest, _distances(X, squares, centers[:, k : k + 1])[:, 0])
        chosen = _draw(nearest * weight, rng)
    return centers


def _draw(mass: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A row for each restart (S,), drawn in proportion to its mass (S, N)."""
    edges = np.cumsum(mass, axis=1)
    target = rng.random(len(mass)) * edges[:, -1]
    return np.asarray(np.minimum((edges <= target[:, None]).sum(axis=1), mass.shape[1] - 1))


def _distances(X: np.ndarray, squares: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Squared distances (S, K, N)."""
    n_restarts, n_clusters, D = centers.shape
    cross = (centers.reshape(-1, D) @ X.T).reshape(n_restarts, n_clusters, -1)
    return np.asarray(np.maximum(squares - 2 * cross + (centers**2).sum(axis=2)[:, :, None], 0.0))


def _members(distance: np.ndarray) -> np.ndarray:
    """Indicators (S, K, N) of the nearest center."""
    nearest = np.argmin(distance, axis=1)[:, None, :]
    return np.asarray(nearest == np.arange(distance.shape[1])[:, None], dtype=float)


def _means(X: np.ndarray, member: np.ndarray, count: np.ndarray) -> np.ndarray:
    n_restarts, n_clusters, _ = member.shape
    sums = (member.reshape(n_restarts * n_clusters, -1) @ X).reshape(n_restarts, n_clusters, -1)
    return np.asarray(sums / np.maximum(count, 1.0)[:, :, None])


def make_example_rows(
    rng: np.random.Generator, n_rows: int, n_features: int, n_classes: int, n_outputs: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Rows for tests, complete, with a class each, or with numbers if there are outputs."""
    y = rng.permutation(np.arange(n_rows) % n_classes)
    X = rng.normal(size=(n_rows, n_features)) + rng.normal(size=(n_classes, n_features))[y]
    if not n_outputs:
        return X, y
    return X, np.abs(X[:, :n_outputs]) + 0.1 * rng.normal(size=(n_rows, n_outputs))
