"""What the Array API standard lacks, written once for every namespace."""

from __future__ import annotations

import math
from typing import Any

import array_api_compat
import numpy as np

Array = Any

LOG_2PI = math.log(2 * math.pi)


def namespace(*arrays: Array) -> Any:
    """The array namespace (NumPy, torch, ...) of the arrays."""
    return array_api_compat.array_namespace(*arrays)


def to_numpy(array: Array) -> np.ndarray:
    """A NumPy copy or view of an array that lives anywhere."""
    if isinstance(array, np.ndarray):
        return array
    if hasattr(array, "detach"):
        array = array.detach()
    if hasattr(array, "cpu"):
        array = array.cpu()
    elif hasattr(array, "device") and not on_host(array):  # array-api-strict plays a second device
        array = namespace(array).asarray(array, device=namespace(array).Device("CPU_DEVICE"))
    return np.asarray(array)


def on_host(array: Array) -> bool:
    """Whether an array lives in the main memory."""
    return isinstance(array, np.ndarray) or str(array_api_compat.device(array)).lower().startswith("cpu")


def like(values: Any, array: Array, dtype: Any = None) -> Array:
    """`values` as an array beside `array`: same namespace and device, its dtype unless told."""
    xp = namespace(array)
    return xp.asarray(values, dtype=array.dtype if dtype is None else dtype, device=array_api_compat.device(array))


def transpose(a: Array) -> Array:
    """Swap the last two axes."""
    return namespace(a).matrix_transpose(a)


def logsumexp(a: Array, axis: int) -> Array:
    """Log of the summed exponentials along an axis; -inf where every entry is -inf."""
    xp = namespace(a)
    top = xp.max(a, axis=axis, keepdims=True)
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    total = xp.sum(xp.exp(a - top), axis=axis, keepdims=True)
    return xp.squeeze(top + log_or_minus_inf(total), axis=axis)


def log_or_minus_inf(a: Array) -> Array:
    """Logarithm that is silent at zero."""
    xp = namespace(a)
    positive = a > 0
    return xp.where(positive, xp.log(xp.where(positive, a, xp.ones_like(a))), xp.full_like(a, -math.inf))


def normalise_log(a: Array, axis: int) -> tuple[Array, Array]:
    """The log-sum-exp along an axis, and the normalised exponentials; overwrites `a`."""
    xp = namespace(a)
    top = xp.max(a, axis=axis, keepdims=True)
    a -= top
    share = xp.exp(a)
    total = xp.sum(share, axis=axis, keepdims=True)
    share /= total
    return xp.squeeze(top + xp.log(total), axis=axis), share


def one_hot(codes: Array, n: int, dtype: Any) -> Array:
    """Indicators (n, N) of integer codes (N,); a code outside 0..n-1 gives a zero column."""
    xp = namespace(codes)
    classes = xp.arange(n, dtype=codes.dtype, device=array_api_compat.device(codes))
    return xp.astype(classes[:, None] == codes[None, :], dtype)


def symmetric(a: Array) -> Array:
    """The symmetric part of matrices on the last two axes."""
    return (a + transpose(a)) / 2


def floor_eigenvalues(a: Array, floor: float) -> Array:
    """The matrix with every eigenvalue raised to at least `floor`."""
    xp = namespace(a)
    eigenvalues, vectors = xp.linalg.eigh(symmetric(a))
    raised = xp.where(eigenvalues > floor, eigenvalues, xp.full_like(eigenvalues, floor))
    return xp.matmul(vectors * raised[..., None, :], transpose(vectors))


def eye_like(n: int, array: Array) -> Array:
    """The identity matrix beside an array."""
    return namespace(array).eye(n, dtype=array.dtype, device=array_api_compat.device(array))


def product_with_rows(natural: Array, rows: Array) -> Array:
    """(..., P) parameters times (N, P) rows: (..., N), as one matrix product."""
    xp = namespace(natural)
    flat = xp.reshape(natural, (-1, natural.shape[-1]))
    return xp.reshape(xp.matmul(flat, transpose(rows)), (*natural.shape[:-1], rows.shape[0]))


def product_over_rows(weight: Array, rows: Array) -> Array:
    """(..., N) weights times (N, P) rows: (..., P), as one matrix product."""
    xp = namespace(weight)
    flat = xp.reshape(weight, (-1, weight.shape[-1]))
    return xp.reshape(xp.matmul(flat, rows), (*weight.shape[:-1], rows.shape[1]))
