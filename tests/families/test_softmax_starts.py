"""Weights to begin with: a softmax by distance to centroids, wherever the rows lie."""

import numpy as np

from latentia.engine.rows import ArraySource
from latentia.families.softmax_tree.leaves import augment
from latentia.families.softmax_tree.tree import centroid_restarts


def test_a_start_from_centroids_tells_rows_by_their_distance(rng):
    centers = np.array([[30.0, -8.0], [33.0, -8.0], [30.0, -5.0]])
    y = np.arange(90) % 3
    X = centers[y] + 0.3 * rng.normal(size=(90, 2))
    for weights in centroid_restarts((1, 1, 1), ArraySource(X, y), rng, 2):
        np.testing.assert_array_equal((augment(X) @ weights.T).argmax(axis=1), y)
