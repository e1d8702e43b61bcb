"""Inverses of symmetric positive definite matrices, in batches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import array_api_compat
import numpy as np
from scipy.linalg import lapack

from latentia.numerics.array_api import Array, eye_like, namespace, transpose
from latentia.numerics.threads import one_blas_thread, parallel


def symmetric(a: Array) -> Array:
    """The symmetric part of matrices on the last two axes."""
    return (a + transpose(a)) / 2


def floor_eigenvalues(a: Array, floor: float) -> Array:
    """The matrix with every eigenvalue raised to at least `floor`, and to what its rounding leaves positive beside the largest."""
    xp = namespace(a)
    eigenvalues, vectors = xp.linalg.eigh(symmetric(a))
    rounding = a.shape[-1] * xp.finfo(a.dtype).eps * xp.max(eigenvalues, axis=-1, keepdims=True)
    least = xp.clip(rounding, min=floor)
    raised = xp.where(eigenvalues > least, eigenvalues, least + xp.zeros_like(eigenvalues))
    return xp.matmul(vectors * raised[..., None, :], transpose(vectors))


#: Matrices of this size and above are inverted by LAPACK, one by one.
LARGE = 32


#: And of this size, one to a core.
THREADED = 128


#: A matrix of this size is worth several threads.
HUGE = 3000


#: Up to this size a matrix is inverted in one piece.
LEAF = 80


def flat_matmul(a: Array, b: Array) -> Array:
    """The product of (..., n, k) with (k, m) as one matrix product."""
    xp = namespace(a, b)
    flat = xp.reshape(a, (math.prod(a.shape[:-1]), a.shape[-1]))
    return xp.reshape(xp.matmul(flat, b), (*a.shape[:-1], b.shape[-1]))


def spd_inverse(matrix: Array) -> tuple[Array, Array]:
    """Inverses and log determinants of symmetric positive definite matrices (..., P, P)."""
    if array_api_compat.is_numpy_array(matrix) and matrix.shape[-1] >= LARGE:
        return _lapack_inverses(matrix)
    xp = namespace(matrix)
    try:
        factor = xp.linalg.cholesky(matrix)
    except (np.linalg.LinAlgError, RuntimeError):
        return _by_eigenvalues(matrix)
    log_det = 2 * xp.sum(xp.log(xp.linalg.diagonal(factor)), axis=-1)
    if array_api_compat.is_torch_array(matrix):
        return xp.cholesky_inverse(factor), log_det
    eye = eye_like(matrix.shape[-1], matrix)
    half = xp.linalg.solve(factor, xp.zeros_like(factor) + eye)
    return xp.matmul(transpose(half), half), log_det


def _by_eigenvalues(matrix: Array) -> tuple[Array, Array]:
    """The same where rounding has made an eigenvalue negative: such are raised to what rounding leaves uncertain."""
    xp = namespace(matrix)
    eigenvalues, vectors = xp.linalg.eigh(symmetric(matrix))
    least = xp.max(eigenvalues, axis=-1, keepdims=True) * (matrix.shape[-1] * float(xp.finfo(matrix.dtype).eps))
    eigenvalues = xp.maximum(eigenvalues, least)
    inverse = xp.matmul(vectors / eigenvalues[..., None, :], transpose(vectors))
    return inverse, xp.sum(xp.log(eigenvalues), axis=-1)


def _lapack_inverses(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    flat = np.reshape(matrix, (-1, *matrix.shape[-2:]))
    inverse, log_det = np.empty_like(flat), np.empty(flat.shape[0], dtype=flat.dtype)

    def invert(k: int) -> None:
        try:
            log_det[k] = _invert_blocks(flat[k], inverse[k])
        except np.linalg.LinAlgError:
            inverse[k], log_det[k] = _by_eigenvalues(flat[k])

    map_parallel(invert, flat.shape[0], flat.shape[-1])
    return inverse.reshape(matrix.shape), log_det.reshape(matrix.shape[:-2])


def _invert_blocks(matrix: np.ndarray, out: np.ndarray) -> float:
    """Write the inverse to `out`, and return the log determinant.

    By halves, as nearly all of the work is then in matrix products: these run faster than LAPACK's inverse, and on several threads, while
    SciPy's calls of LAPACK wait for each other.
    """
    size = matrix.shape[0]
    if size <= LEAF:
        return _invert_leaf(matrix, out)
    half = (size // 2 + 7) // 8 * 8
    first, second = slice(None, half), slice(half, None)
    side = matrix[first, second]
    corner = out[first, first]
    log_det = _invert_blocks(matrix[first, first], corner)
    pulled = corner @ side
    log_det += _invert_blocks(matrix[second, second] - side.T @ pulled, out[second, second])
    across = pulled @ out[second, second]
    corner += across @ pulled.T
    np.negative(across, out=out[first, second])
    out[second, first] = out[first, second].T
    return log_det


def _invert_leaf(matrix: np.ndarray, out: np.ndarray) -> float:
    potrf, trtri = lapack.get_lapack_funcs(("potrf", "trtri"), (matrix,))
    factor, failed = potrf(matrix.T, lower=0, clean=1)
    if failed:
        raise np.linalg.LinAlgError("not positive definite")
    log_det = 2 * float(np.log(np.diagonal(factor)).sum())
    half, _ = trtri(factor, lower=0, overwrite_c=1)
    np.matmul(half, half.T, out=out)
    return log_det


def map_parallel(fn: Callable[[int], Any], n_tasks: int, size: int) -> list[Any]:
    """Results of fn(0), fn(1), ..., a core each if the matrices they handle are large; a single huge one has all cores."""
    alone = n_tasks == 1
    with one_blas_thread(not alone or size < HUGE):
        if alone or size < THREADED:
            return [fn(k) for k in range(n_tasks)]
        return parallel(fn, range(n_tasks))
