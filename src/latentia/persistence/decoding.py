"""Values from a tree of JSON and a list of arrays; the tree may come from anyone."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import sklearn.model_selection
from sklearn.model_selection import BaseCrossValidator

from latentia.persistence.archive import Json
from latentia.persistence.array_members import DTYPE
from latentia.persistence.encoding import BIT_GENERATORS, MAX_DEPTH, REPEATED, SPLITTERS
from latentia.persistence.errors import Damage
from latentia.persistence.package_classes import class_of_name, from_state
from latentia.table.frames import PlainValues


class Decoder:
    """Decodes a tree; hands out the arrays that it refers to."""

    def __init__(self, arrays: Sequence[np.ndarray]):
        self.arrays = arrays
        self._objects: list[object] = []

    def decode(self, tree: Json, depth: int = 0) -> object:
        """The value of a tree."""
        if depth > MAX_DEPTH:
            raise Damage("its values lie too deep within each other")
        if isinstance(tree, list):
            return [self.decode(part, depth + 1) for part in tree]
        if not isinstance(tree, dict):
            return tree
        tag = next(iter(tree), None)
        companion = _COMPANIONS.get(str(tag))
        if tag not in _DECODERS or set(tree) != ({tag, companion} if companion else {tag}):
            raise Damage(f"it holds the unknown entry {str(list(tree))[:80]}")
        args = (tree[tag], tree[companion]) if companion else (tree[tag],)
        return _DECODERS[tag](self, *args, depth + 1)

    def _list(self, tree: Json, depth: int) -> list[object]:
        if not isinstance(tree, list):
            raise Damage(f"it holds {str(tree)[:40]!r} where a list belongs")
        return [self.decode(part, depth) for part in tree]

    def _dict(self, tree: Json, depth: int) -> dict[object, object]:
        pairs = cast(list[tuple[object, object]], self._list(tree, depth))
        return {key: value for key, value in pairs}  # noqa: C416

    def _array(self, number: Json, depth: int) -> np.ndarray:
        if type(number) is not int or not 0 <= number < len(self.arrays):
            raise Damage(f"it refers to the array {str(number)[:40]} of {len(self.arrays)}")
        return self.arrays[number]

    def _objects_array(self, tree: Json, shape: Json, depth: int) -> np.ndarray:
        items = self._list(tree, depth)
        if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
            raise Damage(f"an array of objects has the shape {str(shape)[:80]}")
        if math.prod(shape) != len(items) or len(shape) > 32 or max(shape, default=0) > len(items):
            raise Damage(f"an array of objects has {len(items)} values and the shape {str(shape)[:80]}")
        array = np.empty(len(items), dtype=object)
        for k, item in enumerate(items):
            array[k] = item
        return array.reshape(shape)

    def _pandas(self, tree: Json, depth: int) -> object:
        values = self.decode(tree, depth)
        if not isinstance(values, PlainValues) or len(values) != 1:
            raise Damage("a date, span or interval of pandas is none")
        return values.to_index()[0]

    def _splitter(self, name: Json, state: Json, depth: int) -> BaseCrossValidator:
        if name not in (*SPLITTERS, *REPEATED):
            raise Damage(f"it names the folds {str(name)[:80]!r}")
        return getattr(sklearn.model_selection, name)(**self._state(state, depth))

    def _generator(self, tree: Json, depth: int) -> np.random.Generator:
        state = self._random(tree, depth)
        bits = getattr(np.random, state["bit_generator"])(0)
        bits.state = state
        return np.random.Generator(bits)

    def _random_state(self, tree: Json, depth: int) -> np.random.RandomState:
        state = self._random(tree, depth)
        if state["bit_generator"] != "MT19937":
            raise Damage("a random state is none")
        generator = np.random.RandomState(0)
        generator.set_state(state)
        return generator

    def _random(self, tree: Json, depth: int) -> dict[str, Any]:
        """The state of a bit generator. NumPy trusts where a Mersenne twister stands."""
        state = self.decode(tree, depth)
        if not isinstance(state, dict) or state.get("bit_generator") not in BIT_GENERATORS:
            raise Damage("the state of a random generator is none")
        if state["bit_generator"] == "MT19937":
            key, position = state["state"]["key"], state["state"]["pos"]
            is_key = isinstance(key, np.ndarray) and key.shape == (624,) and key.dtype == np.uint32
            if not is_key or type(position) is not int or not 0 <= position <= 624:
                raise Damage("the state of a random generator is none")
        return state

    def _object(self, name: Json, state: Json, depth: int) -> object:
        value = from_state(class_of_name(name), self._state(state, depth))
        self._objects.append(value)
        return value

    def _same(self, number: Json, depth: int) -> object:
        if type(number) is not int or not 0 <= number < len(self._objects):
            raise Damage(f"it refers to the object {str(number)[:40]}, which it does not hold")
        return self._objects[number]

    def _state(self, tree: Json, depth: int) -> dict[str, object]:
        if not isinstance(tree, dict) or not all(_is_attribute(name) for name in tree):
            raise Damage(f"it holds {str(tree)[:40]!r} where attributes belong")
        return {name: self.decode(part, depth) for name, part in tree.items()}


def _is_attribute(name: str) -> bool:
    """Python and NumPy ask objects for attributes with two underscores: `__array_interface__` is an
    address in memory.
    """
    return name.isidentifier() and not name.startswith("__")


def _float(decoder: Decoder, text: Json, depth: int) -> float:
    if text not in ("nan", "inf", "-inf"):
        raise Damage(f"it holds the number {str(text)[:40]!r}")
    return float(text)


def _dtype(decoder: Decoder, text: Json, depth: int) -> np.dtype:
    if not isinstance(text, str) or not DTYPE.fullmatch(text):
        raise Damage(f"it holds the dtype {str(text)[:40]!r}")
    return np.dtype(text)


def _scalar(decoder: Decoder, pair: Json, depth: int) -> np.generic:
    text, digits = cast(tuple[str, str], pair)
    return np.frombuffer(bytes.fromhex(digits), dtype=_dtype(decoder, text, depth))[0]


def _text(make: Callable[[str], object]) -> Callable[..., object]:
    def decode(decoder: Decoder, text: Json, depth: int) -> object:
        if not isinstance(text, str):
            raise Damage(f"it holds {str(text)[:40]!r} where text belongs")
        return make(text)

    return decode


def _sequence(make: Callable[[list[object]], object]) -> Callable[..., object]:
    return lambda decoder, tree, depth: make(decoder._list(tree, depth))


_DECODERS: dict[str, Callable[..., object]] = {
    "float": _float,
    "text": _text(np.str_),
    "bytes": _text(bytes.fromhex),
    "scalar": _scalar,
    "tuple": _sequence(tuple),
    "set": _sequence(set),
    "frozenset": _sequence(frozenset),
    "dict": Decoder._dict,
    "array": Decoder._array,
    "objects": Decoder._objects_array,
    "dtype": _dtype,
    "date": _text(datetime.date.fromisoformat),
    "datetime": _text(datetime.datetime.fromisoformat),
    "days": lambda decoder, parts, depth: datetime.timedelta(*parts),
    "decimal": _text(decimal.Decimal),
    "pandas": Decoder._pandas,
    "generator": Decoder._generator,
    "random_state": Decoder._random_state,
    "splitter": Decoder._splitter,
    "object": Decoder._object,
    "same": Decoder._same,
}

#: Entries that have a second key.
_COMPANIONS = {"objects": "shape", "object": "state", "splitter": "state"}
