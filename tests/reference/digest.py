"""Any value as a flat table of numbers and texts, small enough to be kept in a file.

Arrays of up to six numbers are kept whole. Larger ones are multiplied from the left by fixed uneven weights, column by column if there
are few columns, as a whole if there are many: a changed cell, a swapped row or a wrong sign changes the product.
"""

from __future__ import annotations

import dataclasses
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

WHOLE = 6  # numbers of an array that is kept as it is
COLUMNS = 4  # columns that are reduced one by one
LONG_TEXT = 90  # characters of a text that is kept as it is
CUT_OFF = 0.1  # what a number loses in the file, in millionths of itself
FLOOR = 1e-4  # numbers below this are compared as if they were of this size

NOT_A_NUMBER, INFINITE = 1.2345, 54.321  # stand for cells that no product could have

NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)")
DURATION = re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s|seconds|min|h)\b(?: \d+ s\b)?|\b\d+:\d\d(?::\d\d)?\b")
ADDRESS = re.compile(r" at 0x[0-9a-f]+|[^ '\"]*/(?=latentia-\w+/)|(?<=latentia-)\w+(?=/)")


class Leaf(NamedTuple):
    """A text, or numbers with what each of them may be off for a relative error of one."""

    text: str
    numbers: tuple[float, ...] = ()
    scales: tuple[float, ...] = ()
    names: tuple[str, ...] = ()  # of the numbers, where they have any

    @property
    def stored_numbers(self) -> list[float | int]:
        return [_shorten(number) for number in self.numbers]

    def stored(self) -> Any:
        if not self.numbers:
            return self.text
        return self.stored_numbers[0] if self.text == "" else [self.text, *self.stored_numbers]


@dataclasses.dataclass
class Frame:
    """A table with named columns of any kind."""

    names: list[str]
    columns: list[list[Any]]

    def leaf(self) -> Leaf:
        """A number for each column."""
        reduced = [
            array_leaf(np.resize([_code(v) for v in column] or [0.0], (max(1, len(column)), 1)), short=True)
            for column in self.columns
        ]
        numbers, scales = (
            sum(parts, ()) for parts in zip(*((leaf.numbers, leaf.scales) for leaf in reduced), strict=True)
        )
        return Leaf(f"{len(self.names)} named {_crc(' '.join(self.names))}", numbers, scales, tuple(self.names))


def tree(value: Any, shapes: bool = False) -> Frame:
    """Nested named tuples of arrays, a number for each array."""
    named = [(name, np.asarray(array)) for name, array in _arrays(value, "")]
    return Frame(
        [f"{name}{_shape(a) if shapes else ''}" for name, a in named],
        [np.ravel(a.astype(float)).tolist() for _, a in named],
    )


def _shape(array: np.ndarray) -> str:
    return f"[{'x'.join(map(str, array.shape))}]" if array.ndim else ""


def _arrays(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, tuple):
        names = getattr(value, "_fields", range(len(value)))
        for name, part in zip(names, value, strict=True):
            yield from _arrays(part, f"{path}.{name}" if path else str(name))
    elif value is not None:
        yield path or "value", value


def _crc(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def _code(value: Any) -> float:
    """A number for any value, the same on all machines."""
    if isinstance(value, int | float | np.number):
        return _finite(float(value))
    return 0.1 + zlib.crc32(str(value).encode()) % 1000 / 100


def digest(value: Any) -> dict[str, Leaf]:
    """The leaves of a value by their paths."""
    return dict(_leaves(value, ""))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Leaf]]:
    value = _plain(value)
    if isinstance(value, Frame):
        yield path, value.leaf()
    elif isinstance(value, Mapping):
        if not value:
            yield path, Leaf("{}")
        for key, part in value.items():
            yield from _leaves(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, str):
        yield path, text_leaf(value)
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        yield path, array_leaf(value)
    elif isinstance(value, np.ndarray):
        yield from _leaves(_coded(value), path)
    elif isinstance(value, list | tuple):
        yield from _leaves({str(k): part for k, part in enumerate(value)}, path)
    elif value is None or isinstance(value, bool):
        yield path, Leaf(str(value))
    elif isinstance(value, int | float):
        yield path, Leaf("", (_finite(value),), (abs(_finite(value)) + FLOOR,))
    else:
        yield path, text_leaf(repr(value))


def _plain(value: Any) -> Any:
    """Named tuples, frames and the like as mappings; numbers of all libraries as NumPy's or Python's."""
    if hasattr(value, "compute") and hasattr(value, "dask"):
        value = value.compute()
    if hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, Frame):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if hasattr(value, "tocsr"):
        return {"sparse": value.format, "cells": value.toarray()}
    kind = type(value).__module__.split(".")[0]
    if kind == "pandas" and hasattr(value, "columns"):
        names = [f"{n}:{_kind(value[n].dtype)}" for n in value.columns]
        columns = [value[n].astype(object).tolist() for n in value.columns]
        if list(value.index) != list(range(len(value))):
            names, columns = ["index", *names], [value.index.tolist(), *columns]
        return Frame(names, columns)
    if kind == "pandas" and hasattr(value, "to_numpy"):
        text = not hasattr(value.dtype, "kind") or value.dtype.kind not in "biuf"
        return value.astype(object).to_numpy() if text else value.to_numpy()
    if kind == "polars":
        return Frame([f"{n}:{value[n].dtype}" for n in value.columns], [value[n].to_list() for n in value.columns])
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple) and value and all(isinstance(v, int | float | np.number) for v in value):
        return np.array([float(v) for v in value])
    return value


def _kind(dtype: Any) -> str:
    """The type of a column, which is the same in all versions of pandas."""
    if getattr(dtype, "categories", None) is not None:
        return "ordered" if dtype.ordered else "category"
    return "text" if str(dtype) in ("object", "str", "string") else str(dtype)


def _coded(values: np.ndarray) -> Any:
    """Texts as they are if few, else which there are and where."""
    words = [str(value) for value in values.ravel().tolist()]
    if len(words) <= WHOLE:
        return " | ".join([f"{'x'.join(map(str, values.shape))}:", *words])
    return np.array([_code(word) for word in words]).reshape(values.shape)


def _finite(number: float) -> float:
    number = float(number)
    return NOT_A_NUMBER if np.isnan(number) else float(np.sign(number)) * INFINITE if np.isinf(number) else number


def _shorten(number: float) -> float | int:
    short = float(f"{number:.7e}")
    return int(short) if short == int(short) and abs(short) < 1e9 else short


def text_leaf(text: str) -> Leaf:
    """Texts with their numbers apart, since a last digit may differ."""
    text = ADDRESS.sub("", DURATION.sub("TIME", text))
    if len(text) <= LONG_TEXT:
        return Leaf(text)
    words, skeleton = NUMBER.findall(text), NUMBER.sub("#", text)
    start = " ".join(skeleton[:60].split()[:-1][:6])  # whole words
    head = f"{start} ... {len(skeleton)} characters, {_crc(skeleton)}"
    by_unit: dict[float, list[float]] = {}
    for word in words:
        by_unit.setdefault(_unit(word), []).append(_value(word))
    sums = {unit: float(_weights(len(by_unit[unit])) @ by_unit[unit]) for unit in sorted(by_unit)}
    # a few numbers may differ in their last digit, counts may not, but for what is cut off in the file
    allowed = [
        (float(np.linalg.norm(by_unit[unit])) + FLOOR if unit == 0 else (4 * unit if unit < 1 else 0.1) / 1e-6)
        + CUT_OFF * abs(total)
        for unit, total in sums.items()
    ]
    return Leaf(head, tuple(sums.values()), tuple(allowed))


def _weights(n: int) -> np.ndarray:
    """Uneven, of both signs, the same on all machines."""
    if n == 1:
        return np.ones(1)
    sizes = np.random.RandomState(n).uniform(0.4, 2.0, n)
    return np.where(np.random.RandomState(n + 1).uniform(size=n) < 0.3, -sizes, sizes)


def array_leaf(array: np.ndarray, head: str = "", short: bool = False) -> Leaf:
    """The shape and numbers of an array, reduced if it is large."""
    shape = "x".join(map(str, array.shape)) or "scalar"
    head = head or (shape if array.dtype == np.float64 else f"{array.dtype} {shape}")
    if array.size == 0:
        return Leaf(f"{head} empty")
    cells = np.nan_to_num(array.astype(float), nan=NOT_A_NUMBER, posinf=INFINITE, neginf=-INFINITE).reshape(
        array.shape[0] if array.ndim else 1, -1
    )
    if cells.size <= WHOLE and not short:
        floor = 1e-3 * np.abs(cells).max() + FLOOR
        return Leaf(head, tuple(cells.ravel().tolist()), tuple((np.abs(cells.ravel()) + floor).tolist()))
    if cells.shape[1] > COLUMNS or cells.shape[0] == 1:
        cells = cells.reshape(-1, 1)
    sums = _weights(len(cells)) @ cells
    norms = np.sqrt((cells**2).sum(axis=0)) + FLOOR + CUT_OFF * np.abs(sums)
    return Leaf(head, tuple(sums.tolist()), tuple(norms.tolist()))


def differences(stored: Mapping[str, Any], found: Mapping[str, Leaf], rtol: float) -> list[str]:
    """What was found otherwise than stored, a line each."""
    lines = [f"{path}: is no longer there" for path in stored if path not in found]
    lines += [f"{path}: is new" for path in found if path not in stored]
    for path in (path for path in found if path in stored):
        told = _difference(stored[path], found[path], rtol)
        if told:
            lines.append(f"{path}: {told}")
    return lines


def _difference(stored: Any, found: Leaf, rtol: float) -> str:
    if not found.numbers:
        return "" if isinstance(stored, str) and same_text(stored, found.text) else f"{stored!r} -> {found.text!r}"
    text, *numbers = stored if isinstance(stored, list) else ["", stored]
    if text != found.text or len(numbers) != len(found.numbers) or any(isinstance(n, str) for n in numbers):
        return f"{stored!r} -> {found.stored()!r}"
    off = np.abs(np.array(numbers, dtype=float) - found.numbers) / np.array(found.scales)
    if off.max() <= rtol:
        return ""
    worst = int(off.argmax())
    which = f"{found.names[worst]} " if found.names else ""
    return f"{which}{numbers[worst]!r} -> {found.stored_numbers[worst]!r}, off by {off.max():.1e}"


def same_text(stored: str, found: str) -> bool:
    """Equal, but for numbers that differ by one in their last digit."""
    if stored == found:
        return True
    if NUMBER.sub("#", stored) != NUMBER.sub("#", found):
        return False
    pairs = zip(NUMBER.findall(stored), NUMBER.findall(found), strict=True)
    return all(a == b or abs(_value(a) - _value(b)) <= max(_slack(a), _slack(b)) for a, b in pairs)


def _slack(number: str) -> float:
    """By how much a number may differ: by one in its last digit; whole numbers are counts and may not."""
    unit = _unit(number)
    return 1e-6 * abs(_value(number)) if unit == 0 else 1.01 * unit if unit < 1 else 0.0


def _value(number: str) -> float:
    return float(number.replace(",", ""))


def _unit(number: str) -> float:
    """Of the last digit; zero where there are so many digits that it says nothing."""
    mantissa, _, exponent = number.replace(",", "").partition("e")
    n_decimals = len(mantissa.partition(".")[2])
    return 0.0 if n_decimals > 6 else float(10.0 ** (int(exponent or 0) - n_decimals))
