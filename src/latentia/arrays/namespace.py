"""Arrays of any library: their types, and what the Array API standard lacks, written once for every
namespace: conversions, sums and softmaxes of logarithms, special functions.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, Protocol, TypeGuard, TypeVar, cast

import array_api_compat
import numpy as np
from array_api_compat import is_numpy_array
from numpy.typing import ArrayLike
from scipy import sparse, special

T = TypeVar("T")

#: Type of the numbers of an array, as its library has it.
DType = Hashable


class Array(Protocol):
    """An array of some library: NumPy, PyTorch, ... What an operator takes, its library decides."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def T(self) -> Array: ...
    @property
    def mT(self) -> Array: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Array]: ...
    def __getitem__(self, key: Any, /) -> Array: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...
    def __bool__(self) -> bool: ...
    def __int__(self) -> int: ...
    def __float__(self) -> float: ...
    def __neg__(self) -> Array: ...
    def __invert__(self) -> Array: ...
    def __add__(self, other: Any, /) -> Array: ...
    def __radd__(self, other: Any, /) -> Array: ...
    def __sub__(self, other: Any, /) -> Array: ...
    def __rsub__(self, other: Any, /) -> Array: ...
    def __mul__(self, other: Any, /) -> Array: ...
    def __rmul__(self, other: Any, /) -> Array: ...
    def __truediv__(self, other: Any, /) -> Array: ...
    def __rtruediv__(self, other: Any, /) -> Array: ...
    def __pow__(self, other: Any, /) -> Array: ...
    def __matmul__(self, other: Any, /) -> Array: ...
    def __and__(self, other: Any, /) -> Array: ...
    def __or__(self, other: Any, /) -> Array: ...
    def __eq__(self, other: Any, /) -> Array: ...  # type: ignore[override]
    def __ne__(self, other: Any, /) -> Array: ...  # type: ignore[override]
    def __lt__(self, other: Any, /) -> Array: ...
    def __le__(self, other: Any, /) -> Array: ...
    def __gt__(self, other: Any, /) -> Array: ...
    def __ge__(self, other: Any, /) -> Array: ...


class FloatInfo(Protocol):
    """Limits of a floating-point type."""

    @property
    def eps(self) -> float: ...
    @property
    def smallest_normal(self) -> float: ...
    @property
    def max(self) -> float: ...


class QR(Protocol):
    """An orthogonal and a triangular factor."""

    @property
    def Q(self) -> Array: ...
    @property
    def R(self) -> Array: ...


class Functions(Protocol):
    """Functions of an array library; those that are not named return one array."""

    def __getattr__(self, name: str, /) -> Callable[..., Array]: ...


class LinearAlgebra(Functions, Protocol):
    """Linear algebra of a namespace."""

    def eigh(self, a: Array, /) -> tuple[Array, Array]: ...
    def qr(self, a: Array, /) -> QR: ...


class NamespaceInfo(Protocol):
    """What a namespace says of itself."""

    def dtypes(self, *, device: Hashable) -> dict[str, DType]: ...


class Namespace(Functions, Hashable, Protocol):
    """An array library, as the Array API standard has it."""

    bool: DType
    int64: DType
    float32: DType
    float64: DType
    linalg: LinearAlgebra
    special: Functions  # of PyTorch alone

    def __array_namespace_info__(self) -> NamespaceInfo: ...
    def finfo(self, dtype: DType, /) -> FloatInfo: ...
    def isdtype(self, dtype: DType, kind: str | tuple[str, ...]) -> builtins.bool: ...
    def nonzero(self, a: Array, /) -> tuple[Array, ...]: ...
    def broadcast_arrays(self, *arrays: Array) -> tuple[Array, ...]: ...


LOG_2PI = math.log(2 * math.pi)


def namespace(*arrays: Array) -> Namespace:
    """The array namespace (NumPy, torch, ...) of the arrays."""
    for array in arrays:
        if type(array) is not np.ndarray:
            return cast(Namespace, array_api_compat.array_namespace(*arrays))
    return cast(Namespace, np)  # it follows the standard; the compatibility layer takes twice the time of a small array


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


def in_main_memory(value: T) -> T:
    """A value whose arrays, and those in its fields, are NumPy's."""
    if array_api_compat.is_array_api_obj(value):
        return cast(T, to_numpy(cast(Array, value)))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: in_main_memory(getattr(value, field.name)) for field in fields(value)})
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(in_main_memory, value))
    return value


def is_on_cpu(array: Array) -> bool:
    """Whether an array lives in the main memory."""
    return isinstance(array, np.ndarray) or str(array_api_compat.device(array)).lower().startswith("cpu")


def asarray_like(values: ArrayLike | Array, array: Array, dtype: DType | None = None) -> Array:
    """`values` as an array beside `array`: same namespace and device, its dtype unless told."""
    xp = namespace(array)
    if isinstance(values, np.ndarray) and not is_numpy_array(array):
        if not values.flags.writeable or min(values.strides, default=0) < 0:
            values = values.copy()  # torch warns of memory that it might write to, and does not go backwards
    return xp.asarray(values, dtype=array.dtype if dtype is None else dtype, device=array_api_compat.device(array))


def is_sparse(X: object) -> TypeGuard[sparse.sparray]:
    """Whether rows are in a matrix or array of `scipy.sparse`."""
    return bool(sparse.issparse(X))


def stored_values(X: Array) -> Array:
    """The array that holds the values of dense or sparse rows: it has their namespace, device and
    dtype.
    """
    return cast(Array, getattr(X, "data")) if is_sparse(X) else X  # noqa: B009


def transpose(a: Array) -> Array:
    """Swap the last two axes."""
    return a.mT


def one_hot(codes: Array, n: int, dtype: DType) -> Array:
    """Indicators (n, N) of integer codes (N,); a code outside 0..n-1 gives a zero column."""
    xp = namespace(codes)
    classes = xp.arange(n, dtype=codes.dtype, device=array_api_compat.device(codes))
    return xp.astype(classes[:, None] == codes[None, :], dtype)


def compute_dtype(X: Array) -> DType:
    """float32 for arrays and sparse matrices of single and half precision, float64 for all else."""
    xp = namespace(stored_values(X))
    small = str(X.dtype).rpartition(".")[2] in ("float32", "float16", "bfloat16")
    return xp.float32 if small else xp.float64


def eye_like(n: int, array: Array) -> Array:
    """The identity matrix beside an array."""
    return namespace(array).eye(n, dtype=array.dtype, device=array_api_compat.device(array))


def take_rows(X: Array, index: np.ndarray) -> Array:
    """The rows of these numbers."""
    if is_sparse(X) or is_numpy_array(X):
        rows: Array = X[index]
        return rows
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
        zeros = xp.zeros((n, values.shape[1]), dtype=values.dtype, device=array_api_compat.device(values))
        return xp.index_add(zeros, 0, index, values)
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


def exp_flush_underflow(log_prob: Array, overwrite: bool = False) -> Array:
    """Exponentials of numbers up to zero; those below about 1e-292 (in float32 1e-31) are exactly
    zero. NumPy's may overwrite the numbers.

    Processors take up to fifty times as long over an exponential that underflows, and far from all
    components but one they all do.
    """
    if isinstance(log_prob, np.ndarray):
        minimum = MIN_LOG_FLOAT32 if log_prob.dtype == np.float32 else MIN_LOG
        out = log_prob if overwrite else None
        if log_prob.size and log_prob.min() >= minimum:
            return np.asarray(np.exp(log_prob, out=out))
        flushed: np.ndarray = np.exp(np.clip(log_prob, min=minimum, out=out), out=out)
        flushed -= math.exp(minimum)
        return flushed
    xp = namespace(log_prob)
    minimum = MIN_LOG_FLOAT32 if log_prob.dtype == xp.float32 else MIN_LOG
    return xp.exp(xp.clip(log_prob, min=minimum)) - math.exp(minimum)


#: Logarithms so far above that of the smallest normal number that differences of exponentials are
#: normal too.
MIN_LOG = float(np.log(np.finfo(np.float64).smallest_normal / np.finfo(np.float64).eps))

MIN_LOG_FLOAT32 = float(np.log(np.finfo(np.float32).smallest_normal / np.finfo(np.float32).eps))


def safe_log(a: Array) -> Array:
    """Logarithm that is silent at zero."""
    if isinstance(a, np.ndarray):
        return np.log(a, out=np.full_like(a, -math.inf), where=a > 0)
    xp = namespace(a)
    positive = a > 0
    return xp.where(positive, xp.log(xp.where(positive, a, xp.ones_like(a))), xp.full_like(a, -math.inf))


def logsumexp_and_unnormalized(a: Array, axis: int) -> tuple[Array, Array, Array]:
    """The log-sum-exp along an axis, exponentials up to a factor, and their sum; overwrites `a`."""
    xp = namespace(a)
    top = xp.max(a, axis=axis, keepdims=True)
    a -= top
    unnormalized = exp_flush_underflow(a, overwrite=True)
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
    if isinstance(x, np.ndarray):
        return np.asarray(special.erfcx(x))
    return asarray_like(special.erfcx(to_numpy(x)), x)


#: The argument is raised by this much before the asymptotic series is used.
SHIFT = 8


def digamma(x: Array) -> Array:
    """Derivative of log gamma: that of SciPy or PyTorch, else the series at x + 8 (within
    1e-13).
    """
    if isinstance(x, np.ndarray):
        return np.asarray(special.psi(x))
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
        return np.asarray(special.gammaln(x))
    xp = namespace(x)
    if array_api_compat.is_torch_array(x):
        return xp.special.gammaln(x)
    shifted = x + SHIFT
    below = sum((xp.log(x + k) for k in range(1, SHIFT)), start=xp.log(x))
    inverse = 1 / (shifted * shifted)
    series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse * (1 / 1680 - inverse / 1188)))) / shifted
    return (shifted - 0.5) * xp.log(shifted) - shifted + LOG_2PI / 2 + series - below
