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
    total = xp.sum(shares(a - top), axis=axis, keepdims=True)
    return xp.squeeze(top + log_or_minus_inf(total), axis=axis)


def log_normalised(a: Array, axis: int) -> Array:
    """`a` less its log-sum-exp along an axis; the exponentials add up to one however far from zero `a` lies."""
    xp = namespace(a)
    top = xp.max(a, axis=axis, keepdims=True)
    a = a - xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    return a - log_or_minus_inf(xp.sum(shares(a), axis=axis, keepdims=True))


def shares(log_share: Array) -> Array:
    """Exponentials of numbers up to zero; those of less than about 1e-292 (in float32 1e-31) are exactly zero.

    Processors take up to fifty times as long over an exponential that underflows, and far from all components but one they all do.
    """
    return _shares(log_share, in_place=False)


def _shares(log_share: Array, in_place: bool) -> Array:
    xp = namespace(log_share)
    least = LEAST_LOG_SINGLE if log_share.dtype == xp.float32 else LEAST_LOG
    on_numpy = isinstance(log_share, np.ndarray)
    into = {"out": log_share} if in_place and on_numpy else {}
    if on_numpy and log_share.size and log_share.min() >= least:
        return xp.exp(log_share, **into)
    share = xp.exp(xp.clip(log_share, min=least, **into), **into)
    share -= math.exp(least)
    return share


#: Logarithms so far above that of the smallest normal number that differences of such exponentials are normal too.
LEAST_LOG = float(np.log(np.finfo(np.float64).smallest_normal / np.finfo(np.float64).eps))
LEAST_LOG_SINGLE = float(np.log(np.finfo(np.float32).smallest_normal / np.finfo(np.float32).eps))


def log_or_minus_inf(a: Array) -> Array:
    """Logarithm that is silent at zero."""
    xp = namespace(a)
    positive = a > 0
    return xp.where(positive, xp.log(xp.where(positive, a, xp.ones_like(a))), xp.full_like(a, -math.inf))


def exponentials(a: Array, axis: int) -> tuple[Array, Array, Array]:
    """The log-sum-exp along an axis, exponentials up to a factor, and their sum along the axis; overwrites `a`."""
    xp = namespace(a)
    top = xp.max(a, axis=axis, keepdims=True)
    a -= top
    share = _shares(a, in_place=True)
    total = xp.sum(share, axis=axis)
    return xp.squeeze(top, axis=axis) + xp.log(total), share, total


def normalise_log(a: Array, axis: int) -> tuple[Array, Array]:
    """The log-sum-exp along an axis, and the normalised exponentials; overwrites `a`."""
    log_sum, share, total = exponentials(a, axis)
    share /= namespace(a).expand_dims(total, axis=axis)
    return log_sum, share


def one_hot(codes: Array, n: int, dtype: Any) -> Array:
    """Indicators (n, N) of integer codes (N,); a code outside 0..n-1 gives a zero column."""
    xp = namespace(codes)
    classes = xp.arange(n, dtype=codes.dtype, device=array_api_compat.device(codes))
    return xp.astype(classes[:, None] == codes[None, :], dtype)


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


def working_dtype(X: Any) -> Any:
    """float32 for arrays and sparse matrices of single and half precision, float64 for all else."""
    xp = np if hasattr(X, "tocsr") else namespace(X)
    small = str(X.dtype).rpartition(".")[2] in ("float32", "float16", "bfloat16")
    return xp.float32 if small else xp.float64


def eye_like(n: int, array: Array) -> Array:
    """The identity matrix beside an array."""
    return namespace(array).eye(n, dtype=array.dtype, device=array_api_compat.device(array))


def product_with_rows(natural: Array, rows: Array) -> Array:
    """(..., P) parameters times (N, P) rows: (..., N), as one matrix product."""
    xp = namespace(natural)
    flat = xp.reshape(natural, (-1, natural.shape[-1]))
    N, shape = rows.shape[0], (*natural.shape[:-1], rows.shape[0])
    if not _in_pieces(flat, rows):
        return xp.reshape(xp.matmul(flat, transpose(rows)), shape)
    out = np.empty((flat.shape[0], N), dtype=rows.dtype)
    whole = N - N % PIECE
    np.matmul(flat, _pieces(rows[:whole], PIECE).transpose(0, 2, 1), out=_column_pieces(out[:, :whole], PIECE))
    np.matmul(flat, rows[whole:].T, out=out[:, whole:])
    return out.reshape(shape)


def product_over_rows(weight: Array, rows: Array) -> Array:
    """(..., N) weights times (N, P) rows: (..., P), as one matrix product."""
    xp = namespace(weight)
    flat = xp.reshape(weight, (-1, weight.shape[-1]))
    shape = (*weight.shape[:-1], rows.shape[1])
    if not _in_pieces(flat, rows):
        return xp.reshape(xp.matmul(flat, rows), shape)
    whole = rows.shape[0] - rows.shape[0] % LONG_PIECE
    sums = np.matmul(_column_pieces(flat[:, :whole], LONG_PIECE), _pieces(rows[:whole], LONG_PIECE)).sum(axis=0)
    sums += flat[:, whole:] @ rows[whole:]
    return sums.reshape(shape)


#: Products of a thin matrix with many rows run up to 1.5 times as fast in pieces of so many rows: BLAS then skips its packing.
PIECE = 64
#: The same where the rows are summed.
LONG_PIECE = 256
THIN = range(8, 33)


def _in_pieces(thin: Array, rows: Array) -> bool:
    return (
        isinstance(rows, np.ndarray)
        and thin.shape[0] in THIN
        and rows.shape[0] >= 16 * PIECE
        and rows.flags.c_contiguous
        and thin.dtype == rows.dtype
    )


def _pieces(rows: np.ndarray, size: int) -> np.ndarray:
    return rows.reshape(-1, size, rows.shape[1])


def _column_pieces(a: np.ndarray, size: int) -> np.ndarray:
    """(M, N) as a view (N / size, M, size)."""
    return a.reshape(a.shape[0], -1, size).transpose(1, 0, 2)
