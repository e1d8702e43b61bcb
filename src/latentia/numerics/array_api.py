"""Arrays of any library: what the Array API standard lacks, written once for every namespace."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass, replace
from typing import Any

import array_api_compat
import numpy as np
from array_api_compat import is_numpy_array
from scipy import sparse

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
