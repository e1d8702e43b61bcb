"""Initial weights of multimodal softmax models."""

from __future__ import annotations

import numpy as np

from latentia.arrays.namespace import Array, asarray_like, to_numpy
from latentia.engine.rows import Source
from latentia.families.building_blocks.kmeans import cluster_restarts

#: Rows of each class that initial weights are made from.
N_INIT_ROWS = 2000


def mixed_restarts(n_subclasses: tuple[int, ...], source: Source, rng: np.random.Generator, n_restarts: int) -> Array:
    """Random weights, small and large, and k-means centroids in turn: none is best on all data."""
    centroids = centroid_restarts(n_subclasses, source, rng, n_restarts)
    turn = np.arange(n_restarts) % 3
    noise = rng.normal(size=centroids.shape) * np.where(turn == 1, 1.0, 0.1)[:, None, None]
    use_centroids = asarray_like(turn == 2, centroids)[:, None, None]
    return asarray_like(noise, centroids) * (1 - use_centroids) + centroids * use_centroids


def centroid_restarts(
    n_subclasses: tuple[int, ...], source: Source, rng: np.random.Generator, n_restarts: int
) -> Array:
    """Weights (n_restarts, S, D) of a softmax by distance to subclass centroids.

    Scores -|x - c_i|^2 / (2 s^2) are linear up to a common term. The centroids are those of k-means
    within each class, s^2 the mean variance of the clusters' features.
    """
    chunk = source.sample_rows(N_INIT_ROWS, rng)
    x, y = to_numpy(chunk.rows.values).astype(float), to_numpy(chunk.y)
    weight = None if chunk.weight is None else to_numpy(chunk.weight).astype(float)
    center = np.average(x, axis=0, weights=weight)
    total_variance = max(float(np.average((x - center) ** 2, axis=0, weights=weight).mean()), 1e-12)
    clusters = []
    for label, n in enumerate(n_subclasses):
        own = y == label
        clusters.append(cluster_restarts(x[own], n, n_restarts, rng, None if weight is None else weight[own]))
    variance = np.concatenate([variances for _, variances, _ in clusters], axis=1).mean(axis=(1, 2))
    variance = np.maximum(variance, 1e-3 * total_variance)[:, None]
    offset = np.concatenate([means for means, _, _ in clusters], axis=1) - center
    slopes = offset / variance[..., None]
    bias = -(offset**2).sum(axis=2) / (2 * variance) - slopes @ center
    weights = np.concatenate([slopes, bias[..., None]], axis=2)
    return asarray_like(weights - weights.mean(axis=1, keepdims=True), chunk.rows.values)
