"""Clusters to begin with: k-means++ seeds and a few Lloyd steps, for all restarts at once."""

from __future__ import annotations

import numpy as np

#: Enough to leave the seeds' noise behind; EM does the rest.
N_LLOYD_STEPS = 5


def cluster_restarts(
    X: np.ndarray, n_clusters: int, n_restarts: int, rng: np.random.Generator, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means (S, K, D), variances (S, K, D) and weights (S, K) of clusters of (weighted) rows.

    A cluster without rows is put on the row that is farthest from its center. Variances lean on
    those of all rows, as one more row, so that a cluster of a single row does not start collapsed.
    """
    if X.shape[0] == 0:  # a class without a single row: at the origin of the preprocessed rows
        X, weight = np.zeros((1, X.shape[1])), None
    squares = (X * X).sum(axis=1)
    centers = _seeds(X, squares, n_clusters, n_restarts, rng, weight)
    weight = np.ones(X.shape[0]) if weight is None else weight
    for _ in range(N_LLOYD_STEPS):
        distance = _distances(X, squares, centers)
        member = weight * _members(distance)
        count = member.sum(axis=2)
        centers = _means(X, member, count)
        for s, k in zip(*np.nonzero(count == 0), strict=True):
            far = int(np.argmax(distance[s].min(axis=0)))
            centers[s, k] = X[far]
            distance[s, :, far] = 0.0
    member = weight * _members(_distances(X, squares, centers))
    count = member.sum(axis=2)
    means = np.where(count[:, :, None] > 0, _means(X, member, count), centers)
    second = np.einsum("skn,nd->skd", member, X * X, optimize=True)
    variance = np.average((X - np.average(X, axis=0, weights=weight)) ** 2, axis=0, weights=weight)
    scatter = second - count[:, :, None] * means**2 + variance
    return (
        means,
        np.maximum(scatter, 0.0) / (count[:, :, None] + 1.0),
        (count + 1.0) / (count + 1.0).sum(axis=1, keepdims=True),
    )


def _seeds(
    X: np.ndarray,
    squares: np.ndarray,
    n_clusters: int,
    n_restarts: int,
    rng: np.random.Generator,
    weight: np.ndarray | None,
) -> np.ndarray:
    """k-means++: each next seed is a row drawn by its squared distance from the seeds so far."""
    if weight is None:
        chosen = rng.integers(X.shape[0], size=n_restarts)
    else:
        chosen = rng.choice(X.shape[0], size=n_restarts, p=weight / weight.sum())
    centers = np.empty((n_restarts, n_clusters, X.shape[1]))
    nearest = np.full((n_restarts, X.shape[0]), np.inf)
    for k in range(n_clusters):
        centers[:, k] = X[chosen]
        nearest = np.minimum(nearest, _distances(X, squares, centers[:, k : k + 1])[:, 0])
        edges = np.cumsum(nearest if weight is None else nearest * weight, axis=1)
        target = rng.random(n_restarts) * edges[:, -1]
        chosen = np.minimum((edges <= target[:, None]).sum(axis=1), X.shape[0] - 1)
    return centers


def _distances(X: np.ndarray, squares: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Squared distances (S, K, N)."""
    n_restarts, n_clusters, D = centers.shape
    cross = (centers.reshape(-1, D) @ X.T).reshape(n_restarts, n_clusters, -1)
    return np.maximum(squares - 2 * cross + (centers**2).sum(axis=2)[:, :, None], 0.0)


def _members(distance: np.ndarray) -> np.ndarray:
    """Indicators (S, K, N) of the nearest center."""
    return (np.argmin(distance, axis=1)[:, None, :] == np.arange(distance.shape[1])[:, None]).astype(float)


def _means(X: np.ndarray, member: np.ndarray, count: np.ndarray) -> np.ndarray:
    n_restarts, n_clusters, _ = member.shape
    sums = (member.reshape(n_restarts * n_clusters, -1) @ X).reshape(n_restarts, n_clusters, -1)
    return sums / np.maximum(count, 1.0)[:, :, None]
