"""Rows that stream to a device are the rows of an array: the same sums, samples and labels."""

import numpy as np
import pytest
from tolerances import EQUAL

from latentia.engine.device_stream import Device, RowStream, StreamedSource
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import leaves
from latentia.families.gaussian_mixture.family import COVARIANCES, GaussianMixtures


@pytest.mark.matrix  # of PyTorch
@pytest.mark.parametrize("labeled", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_sweeps_are_those_of_an_array(labeled, weighted, rng):
    torch = pytest.importorskip("torch")
    X = rng.normal(size=(90, 3))
    X[:45][rng.random((45, 3)) < 0.1] = np.nan  # parts with and without a mask
    y = np.arange(90) % (3 if labeled else 4) - (0 if labeled else 1)
    weight = rng.uniform(0.5, 2.0, size=90) if weighted else None
    here = ArraySource(torch.asarray(X), y, weight)
    there = StreamedSource(RowStream(X, Device("cpu", 0.004)), y, weight)
    assert len(there.stream.ranges) == 5  # so that rows wait for others of their labels
    family = GaussianMixtures(np.array([2, 2, 1]), COVARIANCES["full"](1e-3))
    params = family.init(here, np.random.default_rng(0), 2)
    again = family.init(there, np.random.default_rng(0), 2)
    for a, b in zip(leaves(params), leaves(again), strict=True):
        np.testing.assert_array_equal(a, b)
    for change in (lambda source: source, ArraySource.labeled_only, lambda s: s.with_unlabeled_weight(0.3)):
        expected = RowProblem(family, Likelihood(), change(here)).sweep(params)
        for max_rows in (7, 64, 1000):
            found = RowProblem(family, Likelihood(), change(there), max_rows).sweep(params)
            for a, b in zip(leaves(found), leaves(expected), strict=True):
                np.testing.assert_allclose(a, b, **EQUAL)
    assert isinstance(there.labeled_only(), StreamedSource)
