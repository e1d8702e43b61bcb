"""Standard normal points for averages over scores: antithetic, and of unit covariance.

A Sobol sequence where there are points enough, made to have the identity as its covariance. Fewer
than twice as many pairs as dimensions may lie in a plane; then they are the rows of random
orthogonal matrices, whose covariance is the identity however few they are.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import ndtri
from scipy.stats import ortho_group, qmc


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
