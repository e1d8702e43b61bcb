"""Symmetric positive definite matrices in batches: inverses, log determinants, a floor of
eigenvalues.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import array_api_compat
import numpy as np
from scipy.linalg import eigh as scipy_eigh
from scipy.linalg import lapack

from latentia.numerics.array_api import Array, asarray_like, eye_like, namespace, to_numpy, transpose
from latentia.numerics.threads import one_blas_thread, parallel


def symmetric(a: Array) -> Array:
    """The symmetric part of matrices on the last two axes."""
    return (a + transpose(a)) / 2


def eigh(a: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of symmetric matrices on the last two axes.

    LAPACK's divide and conquer, which array libraries call, fails on a few well-behaved matrices
    with repeated eigenvalues; its other solvers do not.
    """
    xp = namespace(a)
    a = symmetric(a)
    try:
        eigenvalues, vectors = xp.linalg.eigh(a)
    except (np.linalg.LinAlgError, RuntimeError):
        flat = to_numpy(a).reshape(-1, *a.shape[-2:])
        found = [scipy_eigh(one, driver="evr") for one in flat]
        eigenvalues = asarray_like(np.stack([w for w, _ in found]).reshape(a.shape[:-1]), a, dtype=a.dtype)
        vectors = asarray_like(np.stack([v for _, v in found]).reshape(a.shape), a, dtype=a.dtype)
    return eigenvalues, vectors


def floor_eigenvalues(a: Array, floor: float) -> Array:
    """The matrix with every eigenvalue raised to at least `floor`, and to what rounding leaves of
    it.

    Rounding is that of the largest eigenvalue. Matrices that lie above are left as they are.
    """
    xp = namespace(a)
    a = symmetric(a)
    eps = a.shape[-1] * float(xp.finfo(a.dtype).eps)
    trace = xp.sum(xp.linalg.diagonal(a), axis=-1)[..., None, None]  # no eigenvalue is larger
    above = positive_definite(a - xp.clip(eps * trace, min=floor) * eye_like(a.shape[-1], a))
    if bool(xp.all(above)):
        return a
    eigenvalues, vectors = eigh(a)
    minimum = xp.clip(eps * xp.max(eigenvalues, axis=-1, keepdims=True), min=floor)
    raised = xp.where(eigenvalues > minimum, eigenvalues, minimum + xp.zeros_like(eigenvalues))
    return xp.where(above[..., None, None], a, xp.matmul(vectors * raised[..., None, :], transpose(vectors)))


def positive_definite(a: Array) -> Array:
    """Which of the symmetric matrices are positive definite, by Cholesky factors; (...,)."""
    xp = namespace(a)
    if array_api_compat.is_torch_array(a):
        return xp.linalg.cholesky_ex(a).info == 0
    if not array_api_compat.is_numpy_array(a):
        return xp.all(xp.linalg.eigvalsh(a) > 0, axis=-1)
    try:
        np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        potrf, _ = _cholesky_functions(a.dtype)
        flat = a.reshape(-1, *a.shape[-2:])
        return np.array([potrf(one)[1] == 0 for one in flat]).reshape(a.shape[:-2])
    return np.ones(a.shape[:-2], dtype=bool)


#: Matrices of this size and above are inverted by LAPACK, one by one.
LAPACK_MIN_SIZE = 32

#: And of this size, one to a core.
PARALLEL_MIN_SIZE = 128

#: A matrix of this size is worth several threads.
THREADED_BLAS_MIN_SIZE = 3000

#: Up to this size a matrix is inverted in one piece.
MAX_BLOCK_SIZE = 80


def flat_matmul(a: Array, b: Array) -> Array:
    """The product of (..., n, k) with (k, m) as one matrix product."""
    xp = namespace(a, b)
    flat = xp.reshape(a, (math.prod(a.shape[:-1]), a.shape[-1]))
    return xp.reshape(xp.matmul(flat, b), (*a.shape[:-1], b.shape[-1]))


def spd_inverse(matrix: Array) -> tuple[Array, Array]:
    """Inverses and log determinants of symmetric positive definite matrices (..., P, P).

    By Cholesky factors; where rounding has left no positive definite matrix, by eigenvalues. P may
    be zero. Many small matrices are the matter of `entrywise_spd`.
    """
    xp, size = namespace(matrix), matrix.shape[-1]
    if array_api_compat.is_numpy_array(matrix) and size >= LAPACK_MIN_SIZE:
        return _lapack_inverses(matrix)
    if array_api_compat.is_torch_array(matrix) and size:
        try:
            factor = xp.linalg.cholesky(matrix)
        except RuntimeError:
            return inverse_by_eigenvalues(matrix)
        return xp.cholesky_inverse(factor), _log_det(factor)
    root, log_det = spd_inverse_root(matrix)
    return xp.matmul(transpose(root), root), log_det


def spd_inverse_root(matrix: Array) -> tuple[Array, Array]:
    """R with R'R the inverse of a symmetric positive definite matrix (..., P, P), and its log
    determinant.
    """
    xp = namespace(matrix)
    if matrix.shape[-1] == 0:
        return matrix, xp.zeros(matrix.shape[:-2], dtype=matrix.dtype, device=array_api_compat.device(matrix))
    try:
        factor = xp.linalg.cholesky(matrix)
    except (np.linalg.LinAlgError, RuntimeError):
        eigenvalues, vectors = _raised_eigenvalues(matrix)
        root = transpose(vectors) / xp.sqrt(eigenvalues)[..., :, None]
        return root, xp.sum(xp.log(eigenvalues), axis=-1)
    return xp.linalg.inv(factor), _log_det(factor)


def _log_det(factor: Array) -> Array:
    """Log determinants of matrices with these Cholesky factors."""
    xp = namespace(factor)
    return 2 * xp.sum(xp.log(xp.linalg.diagonal(factor)), axis=-1)


def inverse_by_eigenvalues(matrix: Array) -> tuple[Array, Array]:
    """Inverses and log determinants where rounding has made an eigenvalue negative."""
    xp = namespace(matrix)
    eigenvalues, vectors = _raised_eigenvalues(matrix)
    inverse = xp.matmul(vectors / eigenvalues[..., None, :], transpose(vectors))
    return inverse, xp.sum(xp.log(eigenvalues), axis=-1)


def _raised_eigenvalues(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues, raised to what rounding leaves uncertain of them, and eigenvectors."""
    xp = namespace(matrix)
    eigenvalues, vectors = eigh(matrix)
    rounding = xp.max(eigenvalues, axis=-1, keepdims=True) * (matrix.shape[-1] * float(xp.finfo(matrix.dtype).eps))
    return xp.maximum(eigenvalues, rounding), vectors


def _lapack_inverses(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    flat = np.reshape(matrix, (-1, *matrix.shape[-2:]))
    inverse, log_det = np.empty_like(flat), np.empty(flat.shape[0], dtype=flat.dtype)

    def invert(k: int) -> None:
        try:
            log_det[k] = _invert_blocks(flat[k], inverse[k])
        except np.linalg.LinAlgError:
            inverse[k], log_det[k] = inverse_by_eigenvalues(flat[k])

    map_parallel(invert, flat.shape[0], flat.shape[-1])
    return inverse.reshape(matrix.shape), log_det.reshape(matrix.shape[:-2])


def _invert_blocks(matrix: np.ndarray, out: np.ndarray) -> float:
    """Write the inverse to `out`, and return the log determinant."""
    size = matrix.shape[0]
    if size <= MAX_BLOCK_SIZE:
        return _invert_leaf(matrix, out)
    return _invert_by_halves(matrix, out, (size // 2 + 7) // 8 * 8, _invert_blocks)


def _invert_leaf(matrix: np.ndarray, out: np.ndarray) -> float:
    potrf, trtri = _cholesky_functions(matrix.dtype)
    factor, failed = potrf(matrix.T, lower=0, clean=1)
    if failed:
        raise np.linalg.LinAlgError("not positive definite")
    log_det = 2 * float(np.log(np.diagonal(factor)).sum())
    half, _ = trtri(factor, lower=0, overwrite_c=1)
    np.matmul(half, half.T, out=out)
    return log_det


def _invert_by_halves(matrix: np.ndarray, out: np.ndarray, half: int, invert: Callable[..., Any]) -> Any:
    """Write inverses to `out`, and return log determinants; `invert` does so for smaller matrices.

    Nearly all of the work is then in matrix products: these run faster than LAPACK's inverse, and
    on several threads, while SciPy's calls of LAPACK wait for each other.
    """
    first, second = slice(None, half), slice(half, None)
    side = matrix[..., first, second]
    corner = out[..., first, first]
    log_det = invert(matrix[..., first, first], corner)
    solved = corner @ side
    log_det += invert(matrix[..., second, second] - side.mT @ solved, out[..., second, second])
    across = solved @ out[..., second, second]
    corner += across @ solved.mT
    np.negative(across, out=out[..., first, second])
    out[..., second, first] = out[..., first, second].mT
    return log_det


@cache
def _cholesky_functions(dtype: np.dtype) -> tuple[Any, Any]:
    return tuple(lapack.get_lapack_funcs(("potrf", "trtri"), dtype=dtype))


def map_parallel(fn: Callable[[int], Any], n_tasks: int, size: int) -> list[Any]:
    """Results of fn(0), fn(1), ..., a core each if their matrices are large.

    A single huge matrix has all cores.
    """
    alone = n_tasks == 1
    with one_blas_thread(not alone or size < THREADED_BLAS_MIN_SIZE):
        if alone or size < PARALLEL_MIN_SIZE:
            return [fn(k) for k in range(n_tasks)]
        return parallel(fn, range(n_tasks))
