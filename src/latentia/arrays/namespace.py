"""Arrays of any library: what the Array API standard lacks, written once for every namespace.

Sums and softmaxes of logarithms: one implementation each.

Special functions for arrays of any library.
"""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass, replace
from typing import Any

import array_api_compat
import numpy as np
from array_api_compat import is_numpy_array
from scipy import sparse, special

Array = Any

LOG_2PI = math.log(2 * math.pi)


def namespace(*arrays: Array) -> Any:
    """The array namespace (NumPy, torch, ...) of the arrays."""
    for array in arrays:
        if type(array) is not np.ndarray:
            return array_api_compat.array_namespace(*arrays)
    return np  # which follows the standard, at half the time of the compatibility layer for a small array


def to_numpy(array: Array) -> np.ndarray:
    """A NumPy copy or view of an array that lives anywhere."""
    if isinstance(array, np.ndarray):
        return array
    if hasattr(array, "detach"):
        array = array.detach()
    if hasattr(array, "cpu"):
        array = array.cpu()
    elif hasattr(array, "device") and not is_on_cpu(array):  # array-api-strict emulates a second device
        array = namespace(array).asarray(array, device=namespace(array).Device("CPU_DEVICE"))
    return np.asarray(array)


def in_main_memory(value: Any) -> Any:
    """A value whose arrays, and those in its fields, are NumPy's."""
    if array_api_compat.is_array_api_obj(value):
        return to_numpy(value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: in_main_memory(getattr(value, field.name)) for field in fields(value)})
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(in_main_memory, value))
    return value


def is_on_cpu(array: Array) -> bool:
    """Whether an array lives in the main memory."""
    return isinstance(array, np.ndarray) or str(array_api_compat.device(array)).lower().startswith("cpu")


def asarray_like(values: Any, array: Array, dtype: Any = None) -> Array:
    """`values` as an array beside `array`: same namespace and device, its dtype unless told."""
    xp = namespace(array)
    if isinstance(values, np.ndarray) and not is_numpy_array(array):
        if not values.flags.writeable or min(values.strides, default=0) < 0:
            values = values.copy()  # torch warns of memory that it might write to, and does not go backwards
    return xp.asarray(values, dtype=array.dtype if dtype is None else dtype, device=array_api_compat.device(array))


def is_sparse(X: Any) -> bool:
    """Whether rows are in a matrix or array of `scipy.sparse`."""
    return bool(sparse.issparse(X))


def stored_values(X: Any) -> Array:
    """The array that holds the values of dense or sparse rows: it tells their namespace, device and
    dtype.
    """
    return X.data if is_sparse(X) else X


def transpose(a: Array) -> Array:
    """Swap the last two axes."""
    return namespace(a).matrix_transpose(a)


def one_hot(codes: Array, n: int, dtype: Any) -> Array:
    """Indicators (n, N) of integer codes (N,); a code outside 0..n-1 gives a zero column."""
    xp = namespace(codes)
    classes = xp.arange(n, dtype=codes.dtype, device=array_api_compat.device(codes))
    return xp.astype(classes[:, None] == codes[None, :], dtype)


def compute_dtype(X: Any) -> Any:
    """float32 for arrays and sparse matrices of single and half precision, float64 for all else."""
    xp = namespace(stored_values(X))
    small = str(X.dtype).rpartition(".")[2] in ("float32", "float16", "bfloat16")
    return xp.float32 if small else xp.float64


def eye_like(n: int, array: Array) -> Array:
    """The identity matrix beside an array."""
    return namespace(array).eye(n, dtype=array.dtype, device=array_api_compat.device(array))


def take_rows(X: Array, index: np.ndarray) -> Array:
    """The rows of these numbers."""
    if is_numpy_array(X) or is_sparse(X):
        return X[index]
    xp = namespace(X)
    return xp.take(X, asarray_like(index, X, dtype=xp.int64), axis=0)


def sum_at(index: Array, values: Array, n: int) -> Array:
    """Sums (n, L) of the rows (N, L) of `values` that have the same number in `index` (N,)."""
    if is_numpy_array(values):
        n_rows = len(index)
        places = sparse.csc_array((np.ones(n_rows, values.dtype), index, np.arange(n_rows + 1)), shape=(n, n_rows))
        return np.asarray(places @ values)
    xp = namespace(values)
    if array_api_compat.is_torch_array(values):
        return xp.zeros((n, values.shape[1]), dtype=values.dtype, device=values.device).index_add_(0, index, values)
    return xp.matmul(one_hot(index, n, values.dtype), values)


def has_nan(values: Array) -> bool:
    xp = namespace(values)
    return bool(xp.any(xp.isnan(values)))


def logsumexp(a: Array, axis: int) -> Array:
    """Log of the summed exponentials along an axis; -inf where every entry is -inf."""
    xp = namespace(a)
    top = xp.max(a, axis=axis, keepdims=True)
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    total = xp.sum(exp_flush_underflow(a - top), axis=axis, keepdims=True)
    return xp.squeeze(top + safe_log(total), axis=axis)


def log_softmax(a: Array, axis: int) -> Array:
    """`a` less its log-sum-exp along an axis; the exponentials add up to one however far from zero
    `a` lies.
    """
    xp = namespace(a)
    top = xp.max(a, axis=axis, keepdims=True)
    a = a - xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    return a - safe_log(xp.sum(exp_flush_underflow(a), axis=axis, keepdims=True))


def softmax(a: Array, axis: int) -> Array:
    """Exponentials along an axis, divided by their sum; they add up to one however far from zero
    `a` lies.
    """
    xp = namespace(a)
    top = xp.max(a, axis=axis, keepdims=True)
    unnormalized = exp_flush_underflow(a - xp.where(xp.isfinite(top), top, xp.zeros_like(top)))
    return unnormalized / xp.sum(unnormalized, axis=axis, keepdims=True)


def exp_flush_underflow(log_prob: Array) -> Array:
    """Exponentials of numbers up to zero; those below about 1e-292 (in float32 1e-31) are exactly
    zero.

    Processors take up to fifty times as long over an exponential that underflows, and far from all
    components but one they all do.
    """
    return _exp_flush_underflow(log_prob, in_place=False)


def _exp_flush_underflow(log_prob: Array, in_place: bool) -> Array:
    xp = namespace(log_prob)
    minimum = MIN_LOG_FLOAT32 if log_prob.dtype == xp.float32 else MIN_LOG
    on_numpy = isinstance(log_prob, np.ndarray)
    into = {"out": log_prob} if in_place and on_numpy else {}
    if on_numpy and log_prob.size and log_prob.min() >= minimum:
        return xp.exp(log_prob, **into)
    prob = xp.exp(xp.clip(log_prob, min=minimum, **into), **into)
    prob -= math.exp(minimum)
    return prob


#: Logarithms so far above that of the smallest normal number that differences of exponentials are
#: normal too.
MIN_LOG = float(np.log(np.finfo(np.float64).smallest_normal / np.finfo(np.float64).eps))

MIN_LOG_FLOAT32 = float(np.log(np.finfo(np.float32).smallest_normal / np.finfo(np.float32).eps))


def safe_log(a: Array) -> Array:
    """Logarithm that is silent at zero."""
    xp = namespace(a)
    positive = a > 0
    return xp.where(positive, xp.log(xp.where(positive, a, xp.ones_like(a))), xp.full_like(a, -math.inf))


def logsumexp_and_unnormalized(a: Array, axis: int) -> tuple[Array, Array, Array]:
    """The log-sum-exp along an axis, exponentials up to a factor, and their sum; overwrites `a`."""
    xp = namespace(a)
    top = xp.max(a, axis=axis, keepdims=True)
    a -= top
    unnormalized = _exp_flush_underflow(a, in_place=True)
    total = xp.sum(unnormalized, axis=axis)
    return xp.squeeze(top, axis=axis) + xp.log(total), unnormalized, total


def logsumexp_and_softmax(a: Array, axis: int) -> tuple[Array, Array]:
    """The log-sum-exp along an axis, and the normalized exponentials; overwrites `a`."""
    log_sum, probs, total = logsumexp_and_unnormalized(a, axis)
    probs /= namespace(a).expand_dims(total, axis=axis)
    return log_sum, probs


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
