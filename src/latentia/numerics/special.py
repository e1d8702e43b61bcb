"""Special functions for arrays of any library."""

from __future__ import annotations

import array_api_compat
import numpy as np
from scipy import special

from latentia.numerics.array_api import LOG_2PI, Array, asarray_like, namespace, to_numpy


def erfcx(x: Array) -> Array:
    """exp(x^2) erfc(x) in the array's own namespace where it has one, else by way of the host."""
    if array_api_compat.is_torch_array(x):
        return namespace(x).special.erfcx(x)
    if array_api_compat.is_numpy_array(x):
        return special.erfcx(x)
    return asarray_like(special.erfcx(to_numpy(x)), x)


#: The argument is raised by this much before the asymptotic series is used.
SHIFT = 8


def digamma(x: Array) -> Array:
    """Derivative of log gamma: that of SciPy or PyTorch, else the series at x + 8 (within
    1e-13).
    """
    if isinstance(x, np.ndarray):
        return special.psi(x)
    xp = namespace(x)
    if array_api_compat.is_torch_array(x):
        return xp.special.digamma(x)
    shifted = x + SHIFT
    below = sum((1 / (x + k) for k in range(1, SHIFT)), start=1 / x)
    inverse = 1 / (shifted * shifted)
    series = inverse * (1 / 12 - inverse * (1 / 120 - inverse * (1 / 252 - inverse * (1 / 240 - inverse / 132))))
    return xp.log(shifted) - 0.5 / shifted - series - below


def log_gamma(x: Array) -> Array:
    """Log gamma: that of SciPy or PyTorch, else Stirling's series at x + 8 (within 1e-12)."""
    if isinstance(x, np.ndarray):
        return special.gammaln(x)
    xp = namespace(x)
    if array_api_compat.is_torch_array(x):
        return xp.special.gammaln(x)
    shifted = x + SHIFT
    below = sum((xp.log(x + k) for k in range(1, SHIFT)), start=xp.log(x))
    inverse = 1 / (shifted * shifted)
    series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse * (1 / 1680 - inverse / 1188)))) / shifted
    return (shifted - 0.5) * xp.log(shifted) - shifted + LOG_2PI / 2 + series - below
