"""An array as a member of the archive: a file in NumPy's .npy format, version 1.0.

Its header is never parsed: the manifest says which array to expect, so the header must be the one
that this array has, byte for byte.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from latentia.persistence.archive import Json
from latentia.persistence.errors import Damage

#: Bool, signed and unsigned integers, floats, text, dates and spans of time, of any byte order.
DTYPE = re.compile(r"\|b1|\|[iu]1|[<>]([iu][248]|f[248]|U[1-9][0-9]{0,6}|[Mm]8(\[[0-9]{0,6}[a-zA-Z]{1,2}\])?)")

#: Axes that an array may have, and entries along one of them.
MAX_AXES = 32
MAX_LENGTH = 2**40

_ALIGNMENT = 64


def can_be_member(array: np.ndarray) -> bool:
    """Whether a file holds arrays of this type as they are."""
    return DTYPE.fullmatch(array.dtype.str) is not None and array.ndim <= MAX_AXES


@dataclass(frozen=True)
class ArrayLayout:
    """Type, shape and order of the axes in memory, which predictions to the last bit depend on."""

    dtype: str
    shape: tuple[int, ...]  # as stored: the slowest axis first
    axes: tuple[int, ...]  # of the stored array, in the order that the array itself has

    @classmethod
    def of(cls, array: np.ndarray) -> ArrayLayout:
        order = tuple(int(k) for k in np.argsort([-abs(stride) for stride in array.strides], kind="stable"))
        axes = tuple(int(k) for k in np.argsort(order)) if order else ()
        return cls(array.dtype.str, tuple(array.shape[k] for k in order), axes)

    @classmethod
    def from_manifest(cls, entry: Mapping[str, Json]) -> ArrayLayout:
        """What the manifest says, checked."""
        dtype, shape = entry["dtype"], entry["shape"]
        axes = entry.get("axes", list(range(len(shape))) if isinstance(shape, list) else None)
        if not isinstance(dtype, str) or not DTYPE.fullmatch(dtype):
            raise Damage(f"an array has the dtype {dtype!r}, which is none of numbers, bools, text and dates")
        if not _is_shape(shape):
            raise Damage(f"an array has the shape {str(shape)[:80]}")
        if not (
            isinstance(axes, list) and all(type(k) is int for k in axes) and sorted(axes) == list(range(len(shape)))
        ):
            raise Damage(f"an array has the axes {str(axes)[:80]}")
        return cls(dtype, tuple(shape), tuple(axes))

    def to_manifest(self) -> dict[str, Json]:
        entry: dict[str, Json] = {"dtype": self.dtype, "shape": list(self.shape)}
        return entry if self.axes == tuple(range(len(self.shape))) else entry | {"axes": list(self.axes)}

    @property
    def n_bytes(self) -> int:
        """Of the values, without the header."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    @property
    def header(self) -> bytes:
        shape = "(" + "".join(f"{n}, " for n in self.shape).strip() + ")"
        text = f"{{'descr': '{self.dtype}', 'fortran_order': False, 'shape': {shape}, }}"
        padding = -(len(text) + 11) % _ALIGNMENT
        text += " " * padding + "\n"
        return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode("ascii")

    def stored(self, array: np.ndarray) -> np.ndarray:
        """The array with the slowest axis first."""
        return np.ascontiguousarray(array.transpose(np.argsort(self.axes))) if self.axes else np.array(array)

    def empty(self) -> np.ndarray:
        """Memory for the stored array."""
        return np.empty(self.shape, dtype=self.dtype)

    def restored(self, stored: np.ndarray) -> np.ndarray:
        """The array itself, from the stored one; refuses what NumPy cannot hold."""
        if stored.dtype.kind == "U":
            codes = stored.reshape(-1).view(stored.dtype.byteorder.replace("=", "<").replace("|", "<") + "u4")
            if codes.size and int(codes.max()) > 0x10FFFF:
                raise Damage("an array of text holds what is no character")
        if stored.dtype.kind == "b" and stored.size and int(stored.reshape(-1).view(np.uint8).max()) > 1:
            raise Damage("an array of bools holds other values")
        return stored.transpose(self.axes) if self.axes else stored


def _is_shape(shape: object) -> TypeGuard[list[int]]:
    if not isinstance(shape, list) or len(shape) > MAX_AXES:
        return False
    return all(type(n) is int and 0 <= n <= MAX_LENGTH for n in shape)
