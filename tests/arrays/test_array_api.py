"""The numerical helpers beside NumPy and SciPy."""

import numpy as np
import pytest
from scipy.special import logsumexp as scipy_logsumexp
from tolerances import EQUAL

from latentia.arrays.linalg import _use_tiles, params_at_rows, weighted_row_sums
from latentia.arrays.namespace import exp_flush_underflow, log_softmax, logsumexp, logsumexp_and_softmax


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shares_are_exponentials_without_underflow(dtype):
    log_share = -np.geomspace(1e-3, 1e4, 400).astype(dtype)
    share, exact = exp_flush_underflow(log_share), np.exp(log_share.astype(np.float64))
    assert share.dtype == dtype
    single = dtype == np.float32
    near_zero = 2e-31 if single else 2e-292
    np.testing.assert_allclose(share, exact, rtol=5e-7 if single else 1e-12, atol=near_zero)
    assert share[share > 0].min() > np.finfo(dtype).smallest_normal
    assert log_share[0] == dtype(-1e-3)  # the argument is left alone


def test_log_sums_survive_minus_infinity_and_huge_ranges(rng):
    a = rng.uniform(-3000, 0, size=(5, 40))
    a[2], a[:, 7] = -np.inf, -np.inf
    np.testing.assert_allclose(logsumexp(a, axis=0), scipy_logsumexp(a, axis=0), rtol=1e-14)
    some = np.delete(a, 7, axis=1)
    log_sum, share = logsumexp_and_softmax(some.copy(), axis=0)
    np.testing.assert_allclose(log_sum, scipy_logsumexp(some, axis=0), rtol=1e-14)
    np.testing.assert_allclose(share.sum(axis=0), 1.0, rtol=1e-14)
    assert (share[2] == 0).all()  # weight zero stays exactly zero


@pytest.mark.parametrize("n_rows", [63, 1024, 1500])
@pytest.mark.parametrize("leading", [(), (2, 5)])
def test_products_in_pieces_are_products(rng, n_rows, leading):
    natural, rows = rng.normal(size=(*leading, 16, 6)), rng.normal(size=(n_rows, 6))
    assert _use_tiles(natural.reshape(-1, 6), rows) == (n_rows >= 1024 and not leading)  # both ways are met here
    scores = params_at_rows(natural, rows)
    np.testing.assert_allclose(scores, natural @ rows.T, **EQUAL)
    np.testing.assert_allclose(weighted_row_sums(scores, rows), scores @ rows, **EQUAL)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("far", [0.0, -1e8, -1e17])
def test_normalized_numbers_add_up_to_one_wherever_they_lie(far, dtype):
    a = (np.array([[0.0, -1.0, -3.0], [2.0, 2.0, 2.0]]) + far).astype(dtype)
    np.testing.assert_allclose(np.exp(log_softmax(a, axis=1)).sum(axis=1), 1.0, rtol=1e-6)
    assert np.isneginf(log_softmax(np.array([0.0, -np.inf]), axis=0)[1])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("n_params", "n_columns"), [(0, 6), (16, 0)])
def test_products_in_pieces_may_have_nothing_in_them(order, n_params, n_columns):
    """A model without factors has no loadings, in either layout of the rows."""
    rows = np.ones((1500, n_columns), order=order)
    if n_columns:
        assert params_at_rows(np.ones((2, n_params, n_columns)), rows).shape == (2, n_params, 1500)
    assert weighted_row_sums(np.ones((n_params, 1500)), rows).shape == (n_params, n_columns)
