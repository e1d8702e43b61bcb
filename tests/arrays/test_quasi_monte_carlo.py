"""Points for averages under a normal: centered, of unit covariance, and near the integrals they stand for."""

import numpy as np
import pytest

from latentia.arrays.linalg import normal_qmc_points


@pytest.mark.parametrize("size", [1, 2, 5])
def test_points_have_the_moments_of_a_standard_normal(size):
    z = normal_qmc_points(256, size)
    half = z[: len(z) // 2]
    np.testing.assert_allclose(
        half.mean(axis=0), 0, atol=1e-12
    )  # strata are met at their centers, even without mirroring
    np.testing.assert_array_equal(z[len(z) // 2 :], -half)
    np.testing.assert_allclose(z.T @ z / len(z), np.eye(size), atol=1e-12)


@pytest.mark.parametrize("size", [90, 300])
def test_points_of_many_dimensions_have_unit_covariance_however_few_they_are(size):
    z = normal_qmc_points(256, size)
    np.testing.assert_allclose(z.T @ z / len(z), np.eye(size), atol=1e-9)


@pytest.mark.parametrize("size", [1, 2])
def test_averages_are_near_the_integrals(size):
    z, a = normal_qmc_points(256, size), np.linspace(0.2, 0.6, size)
    assert np.exp(z @ a).mean() == pytest.approx(np.exp(a @ a / 2), rel=0.02)


def test_points_may_be_written_to():
    normal_qmc_points(64, 2)[:] = 0.0
    assert np.abs(normal_qmc_points(64, 2)).max() > 1
