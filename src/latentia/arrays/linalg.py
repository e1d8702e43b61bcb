"""Positive definite matrices in batches, symmetric matrices as vectors, and the two products of
every sweep.

- Inverses, log determinants, a floor of eigenvalues: large matrices by LAPACK, one to a core.
- A symmetric matrix as its upper triangle, so that sums of them are matrix products. Products of
  the cells of many rows are laid out one after the other, each for all rows: so they are written
  in long runs, and matrix products read them as they are.
- Parameters at rows, and weighted sums of rows. NumPy's products of a thin matrix with many rows
  are computed in tiles, small enough for BLAS to skip its packing: tiles of rows, or where rows
  are laid out feature by feature, of rows in the one product and of features in the other.
  ``python benchmarks/gaussian_mixture_speed.py em hybrid`` times sweeps that are made of these.

Many small symmetric positive definite systems, such as one for each row of a table, and standard
normal points for averages over scores.

A call of LAPACK for each system costs more than its work. So matrices lie *entry by entry*,
``(P(P+1)/2, N)``: each entry of the upper triangles for all N systems, and every operation is one
on all of them. That is also how precisions come out of a product with the rows and how covariances
go into the next.

The points are antithetic, and of unit covariance: a Sobol sequence where there are points enough.
Fewer than twice as many pairs as dimensions may lie in a plane; then they are the rows of random
orthogonal matrices, whose covariance is the identity however few they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from functools import cache
from typing import TypeGuard, TypeVar

import array_api_compat
import numpy as np
from scipy.linalg import eigh as scipy_eigh
from scipy.linalg import lapack
from scipy.special import ndtri
from scipy.stats import ortho_group, qmc

from latentia.arrays.namespace import Array, Namespace, asarray_like, eye_like, namespace, to_numpy, transpose
from latentia.arrays.parallel import one_blas_thread, parallel

T = TypeVar("T")


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
        _, failed = xp.linalg.cholesky_ex(a)
        return failed == 0
    if not array_api_compat.is_numpy_array(a):
        return xp.all(xp.linalg.eigvalsh(a) > 0, axis=-1)
    a = to_numpy(a)
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
    be zero. Many small matrices are the matter of `invert_many`.
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
    """Write the inverse to `out`, and return the log determinant: by halves, whose inverses follow
    likewise.

    Nearly all of the work is then in matrix products: these run faster than LAPACK's inverse, and
    on several threads, while SciPy's calls of LAPACK wait for each other.
    """
    size = matrix.shape[0]
    if size <= MAX_BLOCK_SIZE:
        return _invert_leaf(matrix, out)
    half = (size // 2 + 7) // 8 * 8
    first, second = slice(None, half), slice(half, None)
    side = matrix[first, second]
    corner = out[first, first]
    log_det = _invert_blocks(matrix[first, first], corner)
    solved = corner @ side
    log_det += _invert_blocks(matrix[second, second] - side.T @ solved, out[second, second])
    across = solved @ out[second, second]
    corner += across @ solved.T
    np.negative(across, out=out[first, second])
    out[second, first] = out[first, second].T
    return log_det


def _invert_leaf(matrix: np.ndarray, out: np.ndarray) -> float:
    potrf, trtri = _cholesky_functions(matrix.dtype)
    factor, failed = potrf(matrix.T, lower=0, clean=1)
    if failed:
        raise np.linalg.LinAlgError("not positive definite")
    log_det = 2 * float(np.log(np.diagonal(factor)).sum())
    half, _ = trtri(factor, lower=0, overwrite_c=1)
    np.matmul(half, half.T, out=out)
    return log_det


#: Returns an array, and zero where it succeeded.
LapackFunction = Callable[..., tuple[np.ndarray, int]]


@cache
def _cholesky_functions(dtype: np.dtype) -> tuple[LapackFunction, LapackFunction]:
    return tuple(lapack.get_lapack_funcs(("potrf", "trtri"), dtype=dtype))


def map_parallel(fn: Callable[[int], T], n_tasks: int, size: int) -> list[T]:
    """Results of fn(0), fn(1), ..., a core each if their matrices are large.

    A single huge matrix has all cores.
    """
    alone = n_tasks == 1
    with one_blas_thread(not alone or size < THREADED_BLAS_MIN_SIZE):
        if alone or size < PARALLEL_MIN_SIZE:
            return [fn(k) for k in range(n_tasks)]
        return parallel(fn, range(n_tasks))


#: Fewer rows than this are gathered: long runs do not pay yet.
LONG_RUN_ROWS = 32


@cache
def _upper(n: int) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = np.triu_indices(n)
    return rows.astype(np.int64), columns.astype(np.int64)


@cache
def _triangle_index(n: int) -> np.ndarray:
    """Where each entry of the full matrix lies in its upper triangle."""
    index = np.zeros((n, n), dtype=np.int64)
    index[_upper(n)] = np.arange(n * (n + 1) // 2)
    return np.maximum(index, index.T).ravel()


@cache
def _moved(numbers: bytes, xp: Namespace, device: Hashable) -> Array:
    return xp.asarray(np.frombuffer(numbers, dtype=np.int64).copy(), device=device)


def _index(numbers: np.ndarray, like: Array) -> Array:
    """Row numbers beside an array; on a device they are kept, so that no sweep sends them again."""
    if isinstance(like, np.ndarray):
        return numbers
    return _moved(numbers.tobytes(), namespace(like), array_api_compat.device(like))


def packed_outer(a: Array) -> Array:
    """Products a_i a_j, i <= j, of vectors on the last axis: the packed a a'."""
    if _in_long_runs(a):
        n = a.shape[1]
        out = np.empty((n * (n + 1) // 2, a.shape[0]), dtype=a.dtype)
        _write_products(a.T.copy(), out)
        return out.T
    xp = namespace(a)
    rows, columns = _upper(a.shape[-1])
    return xp.take(a, _index(rows, a), axis=-1) * xp.take(a, _index(columns, a), axis=-1)


def symmetric_outer(a: Array, b: Array) -> Array:
    """The packed a b' + b a' of vectors on the last axis."""
    xp = namespace(a)
    rows, columns = (_index(numbers, a) for numbers in _upper(a.shape[-1]))
    a_rows, a_columns, b_rows, b_columns = (xp.take(x, i, axis=-1) for x in (a, b) for i in (rows, columns))
    return a_rows * b_columns + b_rows * a_columns


def quadratic_features(a: Array) -> Array:
    """(x_i x_j, x, 1) of rows (N, n): (N, n(n+1)/2 + n + 1)."""
    if _in_long_runs(a):
        n = a.shape[1]
        out = np.empty((n * (n + 3) // 2 + 1, a.shape[0]), dtype=a.dtype)
        columns = out[-n - 1 : -1]
        columns[:] = a.T
        out[-1] = 1.0
        _write_products(columns, out)
        return out.T
    xp = namespace(a)
    return xp.concat([packed_outer(a), a, xp.ones_like(a[:, :1])], axis=-1)


def _in_long_runs(a: Array) -> TypeGuard[np.ndarray]:
    return isinstance(a, np.ndarray) and a.ndim == 2 and a.shape[0] >= LONG_RUN_ROWS


def _write_products(columns: np.ndarray, out: np.ndarray) -> None:
    """Products of the columns (n, N) to the first rows of `out`."""
    begin = 0
    for i in range(len(columns)):
        end = begin + len(columns) - i
        np.multiply(columns[i], columns[i:], out=out[begin:end])
        begin = end


def pack(A: Array) -> Array:
    """The upper triangles of symmetric matrices."""
    xp = namespace(A)
    n = A.shape[-1]
    rows, columns = _upper(n)
    return xp.take(xp.reshape(A, (*A.shape[:-2], n * n)), _index(rows * n + columns, A), axis=-1)


def packed_diagonal(packed: Array, n: int) -> Array:
    """The diagonals of matrices of size n, from their upper triangles."""
    index = _triangle_index(n)[:: n + 1]
    return namespace(packed).take(packed, _index(np.ascontiguousarray(index), packed), axis=-1)


def unpack(packed: Array, n: int) -> Array:
    """Upper triangles as full symmetric matrices."""
    xp = namespace(packed)
    return xp.reshape(xp.take(packed, _index(_triangle_index(n), packed), axis=-1), (*packed.shape[:-1], n, n))


def with_doubled_offdiagonal(packed: Array, n: int) -> Array:
    """Off-diagonal entries twice: the sum of products of two packed matrices is then a trace."""
    rows, columns = _upper(n)
    return packed * asarray_like(np.where(rows == columns, 1.0, 2.0), packed)


def params_at_rows(natural: Array, rows: Array) -> Array:
    """(..., P) parameters times (N, P) rows: (..., N), as one matrix product."""
    xp = namespace(natural)
    flat = xp.reshape(natural, (-1, natural.shape[-1]))
    shape = (*natural.shape[:-1], rows.shape[0])
    if isinstance(flat, np.ndarray) and isinstance(rows, np.ndarray):
        N, out_shape = rows.shape[0], (flat.shape[0], rows.shape[0])
        if _use_tiles(flat, rows):
            out, tiled = np.empty(out_shape, dtype=rows.dtype), N - N % TILE_ROWS
            tiles = _row_tiles(rows[:tiled], TILE_ROWS).transpose(0, 2, 1)
            np.matmul(flat, tiles, out=_column_tiles(out[:, :tiled], TILE_ROWS))
            np.matmul(flat, rows[tiled:].T, out=out[:, tiled:])
            return out.reshape(shape)
        if size := _feature_tile(flat, rows, rows.shape[1]):
            out, tiled = np.empty(out_shape, dtype=rows.dtype), N - N % size
            np.matmul(flat, _column_tiles(rows[:tiled].T, size), out=_column_tiles(out[:, :tiled], size))
            np.matmul(flat, rows[tiled:].T, out=out[:, tiled:])
            return out.reshape(shape)
    return xp.reshape(xp.matmul(flat, rows.mT), shape)


def weighted_row_sums(weight: Array, rows: Array) -> Array:
    """(..., N) weights times (N, P) rows: (..., P), as one matrix product."""
    xp = namespace(weight)
    flat = xp.reshape(weight, (-1, weight.shape[-1]))
    shape = (*weight.shape[:-1], rows.shape[1])
    if isinstance(flat, np.ndarray) and isinstance(rows, np.ndarray):
        N, P = rows.shape
        if _use_tiles(flat, rows):
            tiled = N - N % SUM_TILE_ROWS
            tiles = _row_tiles(rows[:tiled], SUM_TILE_ROWS)
            sums: np.ndarray = np.matmul(_column_tiles(flat[:, :tiled], SUM_TILE_ROWS), tiles).sum(axis=0)
            sums += flat[:, tiled:] @ rows[tiled:]
            return sums.reshape(shape)
        if size := _feature_tile(flat, rows, N):
            sums, tiled = np.empty((flat.shape[0], P), dtype=rows.dtype), P - P % size
            tiles = _row_tiles(rows.T[:tiled], size).transpose(0, 2, 1)
            np.matmul(flat, tiles, out=_column_tiles(sums[:, :tiled], size))
            np.matmul(flat, rows[:, tiled:], out=sums[:, tiled:])
            return sums.reshape(shape)
    return xp.reshape(xp.matmul(flat, rows), shape)


#: Rows of a tile where parameters meet rows: products run up to 1.5 times as fast as in one piece.
TILE_ROWS = 64

#: Rows of a tile where rows are summed.
SUM_TILE_ROWS = 256

#: Rows of the thin matrix: outside this range one product is as fast.
THIN_OPERAND = range(8, 33)

#: Multiplications of a tile up to which BLAS skips its packing, of rows laid out by features.
UNPACKED_PRODUCTS = 10**6

#: Least and largest tile of rows or features there.
FEATURE_TILES = (16, 128)


def _use_tiles(thin: np.ndarray, rows: np.ndarray) -> bool:
    return (
        thin.shape[0] in THIN_OPERAND
        and rows.shape[0] >= 16 * TILE_ROWS
        and rows.shape[1] > 0
        and rows.flags.c_contiguous
        and thin.dtype == rows.dtype
    )


def _feature_tile(thin: np.ndarray, rows: np.ndarray, depth: int) -> int:
    """The tile for rows laid out feature by feature, a power of two; zero for one piece."""
    if thin.dtype != rows.dtype or not thin.size or rows.flags.c_contiguous or not rows.T.flags.c_contiguous:
        return 0
    least, largest = FEATURE_TILES
    fits = UNPACKED_PRODUCTS // max(1, thin.shape[0] * depth)
    return 0 if fits < least else min(largest, 1 << (fits.bit_length() - 1))


def _row_tiles(rows: np.ndarray, size: int) -> np.ndarray:
    return rows.reshape(-1, size, rows.shape[1])


def _column_tiles(a: np.ndarray, size: int) -> np.ndarray:
    """(M, N) as a view (N / size, M, size)."""
    return a.reshape(a.shape[0], -1, size).transpose(1, 0, 2)


#: Numbers in the systems that are solved together: more are slower, as the caches do not hold
#: them, and so are fewer, as each operation has too little to do.
WORK_FLOATS = 2**19

#: Larger matrices are worth a call of LAPACK each.
MAX_SIZE = 48

#: Systems are solved in whole vectors of the processor, so that none depends on how many others
#: there are, by rounding neither.
LANES = 16


def solve_entrywise(triangles: Array, right: Array) -> tuple[Array, Array, Array]:
    """Inverses (T, N), solutions (P, S, N) and log determinants (N,) of the systems with the upper
    triangles (T, N) and S right sides each, (P, S, N).

    By Cholesky factors; where rounding has left no positive definite matrix, by eigenvalues.
    """
    xp, P = namespace(triangles), right.shape[0]
    if isinstance(triangles, np.ndarray) and isinstance(right, np.ndarray) and P <= MAX_SIZE:
        return _solve(triangles, right)
    inverse, log_det = spd_inverse(unpack(transpose(triangles), P))
    solution = xp.matmul(inverse, xp.permute_dims(right, (2, 0, 1)))
    return transpose(pack(inverse)), xp.permute_dims(solution, (1, 2, 0)), log_det


def invert_many(matrix: Array) -> tuple[Array, Array]:
    """Inverses and log determinants of many small matrices (..., P, P)."""
    P, leading = matrix.shape[-1], matrix.shape[:-2]
    if not isinstance(matrix, np.ndarray) or not 0 < P <= MAX_SIZE:
        return spd_inverse(matrix)
    triangles = to_numpy(pack(np.reshape(matrix, (math.prod(leading), P, P)))).T
    inverse, _, log_det = _solve(triangles, np.empty((P, 0, triangles.shape[1]), dtype=matrix.dtype))
    return np.reshape(to_numpy(unpack(inverse.T, P)), matrix.shape), log_det.reshape(leading)


def _solve(triangles: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    P, S, N = right.shape
    inverse, solution = np.empty_like(triangles, order="C"), np.empty_like(right, order="C")
    log_det = np.empty(N, dtype=triangles.dtype)
    size = P * (P + S)  # numbers of a system
    n_pieces = max(1, -(-N * size // WORK_FLOATS))
    step = max(1, -(-N // (n_pieces * LANES))) * LANES
    memory = np.empty(size * step, dtype=triangles.dtype)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # of matrices that are not positive definite
        for first in range(0, N, step):
            part = slice(first, min(first + step, N))
            n_lanes = -(-(part.stop - first) // LANES) * LANES
            work = memory[: size * n_lanes].reshape(P, P + S, n_lanes)
            _fill(work, triangles[:, part], right[:, :, part])
            log_det[part] = _factorize(work)[: part.stop - first]
            _substitute(work)
            here = work[:, :, : part.stop - first]
            for i, row in enumerate(_triangle_rows(P)):
                inverse[row, part] = here[i, i:P]
            solution[:, :, part] = here[:, P:]
    failed = np.flatnonzero(~np.isfinite(log_det))
    if failed.size:
        matrices, log_det[failed] = map(to_numpy, inverse_by_eigenvalues(unpack(triangles[:, failed].T, P)))
        inverse[:, failed] = pack(matrices).T
        solution[:, :, failed] = (matrices @ right[:, :, failed].transpose(2, 0, 1)).transpose(1, 2, 0)
    return inverse, solution, log_det


def _triangle_rows(P: int) -> list[slice]:
    """Where the rows of upper triangles lie."""
    ends = np.cumsum(np.arange(P, 0, -1)).tolist()
    return [slice(end - P + i, end) for i, end in enumerate(ends)]


def _fill(work: np.ndarray, triangles: np.ndarray, right: np.ndarray) -> None:
    """Upper triangles and right sides beside them; lanes without a system have the identity."""
    P, _, N = right.shape
    work[:, :, N:] = 0.0
    for i, row in enumerate(_triangle_rows(P)):
        work[i, i:P, :N] = triangles[row]
        work[i, i, N:] = 1.0
    work[:, P:, :N] = right


def _factorize(work: np.ndarray) -> np.ndarray:
    """Write DL' and DL'-times-solutions, where LDL' are the matrices with a unit diagonal of L, and
    -L below the diagonal; return log determinants, NaN or infinite where a matrix is not positive
    definite.
    """
    P = len(work)
    for i in range(P):
        work[i, i:] += np.einsum("kn,kjn->jn", work[i, :i], work[:i, i:])
        np.multiply(work[i, i + 1 : P], -1 / work[i, i], out=work[i + 1 :, i])
    log_det: np.ndarray = np.log(np.einsum("iin->in", work[:, :P])).sum(axis=0)
    return log_det


def _substitute(work: np.ndarray) -> None:
    """Write the inverses and the solutions, from the last row to the first: ``L' A^-1`` is
    ``D^-1 L^-1``, which is zero above its diagonal.
    """
    P = len(work)
    for i in reversed(range(P)):
        variance, column = 1 / work[i, i], work[i + 1 :, i]
        alone = work[i, P:] * variance
        np.einsum("kn,kjn->jn", column, work[i + 1 :, i + 1 :], out=work[i, i + 1 :])
        np.add(variance, np.einsum("kn,kn->n", column, work[i, i + 1 : P]), out=work[i, i])
        work[i, P:] += alone
        column[...] = work[i, i + 1 : P]


def normal_qmc_points(n_points: int, size: int) -> np.ndarray:
    """Points (P, size) with P at least `n_points` and `2 * size`."""
    return _points(n_points, size).copy()  # to be written to, as some array libraries wish


@cache
def _points(n_points: int, size: int) -> np.ndarray:
    half = n_points // 2
    if half < 2 * size:
        blocks = ortho_group(size, seed=0).rvs(-(-half // size)).reshape(-1, size)
        z = np.sqrt(size) * blocks
    else:
        z = ndtri(qmc.Sobol(size, scramble=False).random(half) + 0.5 / half)
        z = np.linalg.solve(np.linalg.cholesky(z.T @ z / half), z.T).T
    return np.concatenate([z, -z])
