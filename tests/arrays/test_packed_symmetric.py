"""Packed products are the same however rows are laid out, and so are matrix products with them."""

import array_api_strict
import numpy as np
import pytest
from tolerances import EQUAL

from latentia.arrays.linalg import (
    LONG_RUN_ROWS,
    _feature_tile,
    packed_outer,
    params_at_rows,
    quadratic_features,
    unpack,
    weighted_row_sums,
)
from latentia.arrays.namespace import to_numpy

LIBRARIES = ["numpy", "array_api_strict", "torch"]


def beside(library, a):
    if library == "torch":
        return pytest.importorskip("torch").asarray(a)
    return array_api_strict.asarray(a) if library == "array_api_strict" else a


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [1, LONG_RUN_ROWS - 1, LONG_RUN_ROWS, 100])
def test_products_are_those_of_each_row(library, dtype, n_rows, rng):
    x = rng.normal(size=(n_rows, 5)).astype(dtype)
    rows = beside(library, x)
    outer, features = to_numpy(packed_outer(rows)), to_numpy(quadratic_features(rows))
    assert outer.dtype == features.dtype == dtype
    np.testing.assert_array_equal(unpack(outer, 5), x[:, :, None] * x[:, None, :])
    np.testing.assert_array_equal(features, np.column_stack([outer, x, np.ones(n_rows, dtype)]))


@pytest.mark.parametrize("n_columns", [3, 30])
@pytest.mark.parametrize("n_thin", [1, 16, 700])
def test_matrix_products_read_either_layout(n_columns, n_thin, rng):
    features = quadratic_features(rng.normal(size=(200, n_columns)))
    assert features.T.flags.c_contiguous
    natural = rng.normal(size=(n_thin, features.shape[1]))
    tile = _feature_tile(natural, features, features.shape[1])
    assert bool(tile) == (n_thin * features.shape[1] * 16 <= 10**6) and 200 % 128  # both ways, with a rest
    by_rows = np.ascontiguousarray(features)
    scores = params_at_rows(natural, features)
    np.testing.assert_allclose(scores, natural @ by_rows.T, **EQUAL)
    np.testing.assert_allclose(weighted_row_sums(scores, features), scores @ by_rows, **EQUAL)
