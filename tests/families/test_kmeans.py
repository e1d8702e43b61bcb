"""Clusters to begin with."""

import numpy as np
import pytest

from latentia.families.blocks import starts as kmeans


def test_empty_clusters_are_put_on_rows_of_their_own(rng, monkeypatch):
    """As many as there are, at once: only a few steps follow."""
    X = rng.normal(size=(12, 2))
    monkeypatch.setattr(kmeans, "_seeds", lambda X, *rest: np.zeros((2, 10, 2)))
    means, variances, weights = kmeans.cluster_restarts(X, 10, 2, rng)
    for restart in means:
        assert len(np.unique(restart, axis=0)) == 10
    assert (variances > 0).all() and np.allclose(weights.sum(axis=1), 1.0)


def test_a_row_of_weight_two_is_that_row_twice(rng):
    X, weight = rng.normal(size=(20, 3)), rng.integers(1, 4, 20)
    weighted = kmeans.cluster_restarts(X, 4, 3, np.random.default_rng(1), weight.astype(float))
    repeated = kmeans.cluster_restarts(np.repeat(X, weight, axis=0), 4, 3, np.random.default_rng(1))
    for a, b in zip(weighted, repeated, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


@pytest.mark.parametrize("weight", [None, np.empty(0)], ids=["plain", "weighted"])
def test_a_class_without_rows_begins_at_the_origin(weight, rng):
    means, variances, weights = kmeans.cluster_restarts(np.empty((0, 3)), 2, 4, rng, weight)
    np.testing.assert_array_equal(means, np.zeros((4, 2, 3)))
    assert np.isfinite(variances).all() and np.allclose(weights.sum(axis=1), 1.0)
