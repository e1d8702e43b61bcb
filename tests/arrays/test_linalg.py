"""Inverses of positive definite matrices: the same by every path, robust where rounding has left none."""

import array_api_strict
import numpy as np
import pytest
from tolerances import EQUAL

from latentia.arrays import linalg
from latentia.arrays.linalg import floor_eigenvalues, invert_many, pack, solve_entrywise, spd_inverse, spd_inverse_root
from latentia.arrays.namespace import to_numpy

LIBRARIES = ["numpy", "array_api_strict", "torch"]


def beside(library, a):
    if library == "torch":
        return pytest.importorskip("torch").asarray(a)
    return array_api_strict.asarray(a) if library == "array_api_strict" else a


def some_matrices(rng, shape, size):
    half = rng.normal(size=(*shape, size, size + 3))
    return half @ np.swapaxes(half, -1, -2) + np.eye(size)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("size", [0, 1, 2, 8, 20, 21, 32, 100])
@pytest.mark.parametrize("shape", [(), (2, 3)])
@pytest.mark.parametrize("invert", [spd_inverse, invert_many])
def test_inverses_and_determinants_are_those_of_linear_algebra(library, size, shape, invert, rng):
    A = some_matrices(rng, shape, size)
    inverse, log_det = invert(beside(library, A))
    np.testing.assert_allclose(to_numpy(inverse) @ A, np.broadcast_to(np.eye(size), A.shape), atol=1e-9)
    np.testing.assert_allclose(to_numpy(log_det), np.linalg.slogdet(A)[1], rtol=1e-12, atol=1e-12)
    root, again = spd_inverse_root(beside(library, A))
    np.testing.assert_allclose(np.swapaxes(to_numpy(root), -1, -2) @ to_numpy(root), to_numpy(inverse), atol=1e-9)
    np.testing.assert_allclose(to_numpy(again), to_numpy(log_det), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [1, 5, 25, 40])
@pytest.mark.parametrize("invert", [spd_inverse, invert_many])
def test_single_precision_stays_single(size, invert, rng):
    A = some_matrices(rng, (3,), size).astype(np.float32)
    for array in (*invert(A), *spd_inverse_root(A)):
        assert array.dtype == np.float32
    np.testing.assert_allclose(invert(A)[0], np.linalg.inv(A.astype(float)), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("size", [2, 8, 25, 40])
@pytest.mark.parametrize("invert", [spd_inverse, invert_many])
def test_a_matrix_that_rounding_has_left_indefinite_still_has_an_inverse(library, size, invert, rng):
    """Of rank one with large entries: all but one eigenvalue are rounding, of either sign."""
    v = 1e4 * rng.normal(size=(9, size, 1))
    A = v * np.swapaxes(v, -1, -2) - 1e-9 * np.eye(size)
    inverse, log_det = map(to_numpy, invert(beside(library, A)))
    root, again = map(to_numpy, spd_inverse_root(beside(library, A)))
    for array in (inverse, log_det, root, again):
        assert np.isfinite(array).all()
    squared = np.swapaxes(root, -1, -2) @ root
    largest = np.abs(inverse).max(axis=(-2, -1), keepdims=True)
    np.testing.assert_allclose(squared / largest, inverse / largest, atol=1e-6)
    np.testing.assert_allclose(again, log_det, rtol=1e-9)
    for matrix in (inverse, squared):  # positive definite, up to the rounding of that
        eigenvalues = np.linalg.eigvalsh(matrix)
        assert (eigenvalues > -1e-12 * eigenvalues[..., -1:]).all() and (eigenvalues[..., -1] > 0).all()


@pytest.mark.parametrize("size", [3, 20, 25])  # in one piece, and in several
def test_matrices_do_not_see_each_other(size, rng):
    """Neither how many others there are nor a bad one among them changes a bit."""
    A = some_matrices(rng, (3000,), size)
    before, (inverse, log_det) = A.copy(), invert_many(A)
    np.testing.assert_array_equal(A, before)  # which is left alone
    for part in (slice(0, 1), slice(1400, 3000)):
        alone, alone_log_det = invert_many(A[part])
        np.testing.assert_array_equal(alone, inverse[part])
        np.testing.assert_array_equal(alone_log_det, log_det[part])
    bad = [7, 2998]
    A[bad] = np.ones((size, size)) * [[[1.0]], [[3.0]]] - 1e-12 * np.eye(size)
    other, other_log_det = invert_many(A)
    rest = ~np.isin(np.arange(len(A)), bad)
    np.testing.assert_array_equal(other[rest], inverse[rest])
    np.testing.assert_array_equal(other_log_det[rest], log_det[rest])
    for k in bad:
        alone, alone_log_det = invert_many(A[k : k + 1])
        np.testing.assert_array_equal(other[k], alone[0])
        np.testing.assert_array_equal(other_log_det[k], alone_log_det[0])


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("size", [1, 6, 60])  # the last by LAPACK
def test_systems_entry_by_entry_have_the_solutions_of_linear_algebra(library, size, rng):
    """A matrix that rounding has left indefinite among them: its solution is that of its inverse."""
    A, right = some_matrices(rng, (50,), size), rng.normal(size=(size, 2, 50))
    if size > 1:
        A[7] = np.ones((size, size)) - 1e-12 * np.eye(size)
    triangles = np.ascontiguousarray(pack(A).T)
    found = solve_entrywise(beside(library, triangles), beside(library, right))
    inverse, solution, log_det = map(to_numpy, found)
    matrices, expected_log_det = map(to_numpy, invert_many(beside(library, A)))
    np.testing.assert_allclose(inverse, pack(matrices).T, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(solution, np.einsum("nij,jsn->isn", matrices, right), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(log_det, expected_log_det, rtol=1e-12)


def test_matrices_may_share_memory(rng):
    """A view that repeats one matrix is read, never written."""
    A = np.broadcast_to(some_matrices(rng, (), 3), (5, 3, 3))
    for invert in (spd_inverse, invert_many):
        np.testing.assert_allclose(invert(A)[0] @ A, np.broadcast_to(np.eye(3), A.shape), atol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("size", [1, 4, 40])
def test_eigenvalues_are_raised_where_they_are_below_and_only_there(library, size, rng):
    axes = np.linalg.qr(rng.normal(size=(3, size, size)))[0]
    eigenvalues = rng.uniform(0.5, 2.0, size=(3, size))
    eigenvalues[1, 0], eigenvalues[2, -1] = 1e-3, -1e-17
    A = (axes * eigenvalues[:, None, :]) @ axes.mT
    raised = to_numpy(floor_eigenvalues(beside(library, A), 0.1))
    np.testing.assert_allclose(raised, (axes * np.maximum(eigenvalues, 0.1)[:, None, :]) @ axes.mT, atol=1e-14)
    for k in range(3):  # a matrix does not depend on its neighbors
        np.testing.assert_array_equal(to_numpy(floor_eigenvalues(beside(library, A[k : k + 1]), 0.1))[0], raised[k])
    np.testing.assert_array_equal(to_numpy(floor_eigenvalues(beside(library, A[0]), 1e-3)), (A[0] + A[0].T) / 2)


def test_eigenvalues_are_found_where_the_usual_solver_fails(monkeypatch, rng):
    """As it does on a few matrices, which differ by processor."""
    a = rng.normal(size=(2, 3, 5, 5))
    expected, vectors = linalg.eigh(a)

    def fail(a):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    monkeypatch.setattr(np.linalg, "eigh", fail)
    found, others = linalg.eigh(a)
    np.testing.assert_allclose(found, expected, **EQUAL)
    for each in (vectors, others):
        np.testing.assert_allclose((each * found[..., None, :]) @ each.mT, linalg.symmetric(a), **EQUAL)
