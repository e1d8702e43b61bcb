"""Many small symmetric positive definite systems, such as one for each row of a table, and standard
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
from functools import cache

import numpy as np
from scipy.special import ndtri
from scipy.stats import ortho_group, qmc

from latentia.arrays.linalg import inverse_by_eigenvalues, pack, spd_inverse, unpack
from latentia.arrays.namespace import Array, namespace, to_numpy, transpose

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
