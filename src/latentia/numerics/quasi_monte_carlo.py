"""Standard normal points for averages over scores: a Sobol sequence, antithetic, of unit
covariance.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc


def normal_qmc_points(n_points: int, size: int) -> np.ndarray:
    """Points (P, size) with P at least `n_points`, and enough for their covariance to be the
    identity.
    """
    return _points(n_points, size).copy()  # to be written to, as some array libraries wish


@cache
def _points(n_points: int, size: int) -> np.ndarray:
    half = max(n_points // 2, 1 << (2 * size - 1).bit_length())
    z = ndtri(qmc.Sobol(size, scramble=False).random(half) + 0.5 / half)
    z = np.linalg.solve(np.linalg.cholesky(z.T @ z / half), z.T).T
    return np.concatenate([z, -z])
