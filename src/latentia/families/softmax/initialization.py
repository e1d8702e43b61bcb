"""Starts of multimodal softmax models."""

from __future__ import annotations

import numpy as np

from latentia.engine.contracts import Source
from latentia.families.building_blocks.kmeans import cluster_restarts
from latentia.numerics.array_api import Array, asarray_like, to_numpy

#: Rows of each class that starts are made from.
N_START_ROWS = 2000


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

    Scores -|x - c_i|^2 / (2 s^2) are linear up to a common term. The centroids are those of k-means within each class, s^2 the mean variance of the
    clusters' features.
    """
    block = source.sample_rows(N_START_ROWS, rng)
    x, y = to_numpy(block.rows.values).astype(float), to_numpy(block.y)
    center, total = x.mean(axis=0), max(float(x.var(axis=0).mean()), 1e-12)
    parts = [cluster_restarts(x[y == label], n, n_restarts, rng) for label, n in enumerate(n_subclasses)]
    spread = np.concatenate([variance for _, variance, _ in parts], axis=1).mean(axis=(1, 2))
    spread = np.maximum(spread, 1e-3 * total)[:, None]
    offset = np.concatenate([mean for mean, _, _ in parts], axis=1) - center
    slopes = offset / spread[..., None]
    bias = -(offset**2).sum(axis=2) / (2 * spread) - slopes @ center
    weights = np.concatenate([slopes, bias[..., None]], axis=2)
    return asarray_like(weights - weights.mean(axis=1, keepdims=True), block.rows.values)
