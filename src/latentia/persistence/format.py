"""The values of a model as a tree of JSON and a list of arrays.

None, bools, integers, finite floats, text and lists are themselves. Everything else is an object
with one of these first keys:

- ``float``: "nan", "inf" or "-inf"; ``text``, ``bytes``, ``scalar``: values of NumPy and bytes;
- ``tuple``, ``set``, ``frozenset``: a list of values; ``dict``: a list of pairs;
- ``array``: the number of an array; ``objects``: an array of objects, with its ``shape``;
- ``dtype``, ``date``, ``datetime``, ``days``, ``decimal``: as they are written; ``pandas``: a date,
  span or interval of pandas;
- ``generator``, ``random_state``: where a generator of random numbers stands;
- ``splitter``: folds of scikit-learn, with their ``state``;
- ``object``: a class of `stored_classes`, with its ``state``;
- ``same``: the object that was completed as the n-th, once more.

The tree may come from anyone: modules of the closed list are all that is imported for a file, and
no `__init__` runs. An array is a file in NumPy's .npy format whose header is never parsed: the
manifest says which array to expect, so the header must be the one that this array has, byte for
byte.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import inspect
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, cast

import array_api_compat
import numpy as np
import sklearn.model_selection
from sklearn.base import BaseEstimator
from sklearn.model_selection import BaseCrossValidator

from latentia.arrays.namespace import Array, to_numpy
from latentia.persistence.stored_classes import STORED_CLASSES
from latentia.table.frames import PlainValues

if TYPE_CHECKING:
    import pandas

#: What JSON holds.
Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | float | bool | None"

#: Objects within objects; deeper ones are refused by both sides.
MAX_DEPTH = 60

#: Bit generators whose whole state NumPy checks, or `decoding` does.
BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "SFC64")

#: Folds of scikit-learn whose constructor takes their attributes.
SPLITTERS = ("KFold", "LeaveOneOut", "ShuffleSplit", "StratifiedKFold", "StratifiedShuffleSplit", "TimeSeriesSplit")

#: Those that repeat others, whose arguments they keep apart.
REPEATED = ("RepeatedKFold", "RepeatedStratifiedKFold")

PANDAS_SCALARS = ("Interval", "Period", "Timedelta", "Timestamp")


class Encoder:
    """Encodes values; keeps the arrays that it meets, each once."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self._array_numbers: dict[int, int] = {}
        self._object_numbers: dict[int, int] = {}
        self._kept: list[object] = []  # so that no id is used twice

    def encode(self, value: object, path: str, depth: int = 0) -> Json:
        """The tree of a value; `path` is how its owner would write it."""
        if depth > MAX_DEPTH:
            raise ValueError(f"{path} lies too deep to be saved: an object within itself?")
        if value is None or (isinstance(value, bool | int | str) and type(value) in (bool, int, str)):
            return value
        encode = _ENCODERS.get(type(value)) or self._other(value)
        if encode is None:
            raise ValueError(f"{path}={_short(value)} cannot be saved: {_reason(value)}.")
        return encode(self, value, path, depth + 1)

    def _other(self, value: object) -> Callable[..., Json] | None:
        """How a value is encoded whose type is not in the table."""
        cls = type(value)
        if array_api_compat.is_array_api_obj(value) and not isinstance(value, np.generic):
            return Encoder._array
        if isinstance(value, np.str_):
            return lambda *_: {"text": str(value)}
        if isinstance(value, np.generic):
            return Encoder._scalar if can_be_member(np.asarray(value)) else None
        if isinstance(value, np.dtype):
            return (lambda *_: {"dtype": value.str}) if can_be_member(np.empty(0, value)) else None
        if cls.__module__.partition(".")[0] == "pandas" and cls.__name__ in PANDAS_SCALARS:
            return Encoder._pandas
        if cls.__module__.startswith("sklearn.") and cls is getattr(sklearn.model_selection, cls.__name__, None):
            return Encoder._splitter if cls.__name__ in (*SPLITTERS, *REPEATED) else None
        return Encoder._object if class_name(cls) else None

    def _sequence(self, value: Iterable[object], path: str, depth: int) -> list[Json]:
        return [self.encode(part, f"{path}[{k}]", depth) for k, part in enumerate(value)]

    def _dict(self, value: dict[object, object], path: str, depth: int) -> Json:
        pairs = value.items()
        return {
            "dict": [
                [self.encode(k, f"a key of {path}", depth), self.encode(v, f"{path}[{k!r}]", depth)] for k, v in pairs
            ]
        }

    def _array(self, value: Array, path: str, depth: int) -> Json:
        array = to_numpy(value)
        if array.dtype == object:
            items = [self.encode(item, f"{path}[{k}]", depth) for k, item in enumerate(array.ravel().tolist())]
            return {"objects": items, "shape": list(array.shape)}
        if not can_be_member(array):
            raise ValueError(f"{path} cannot be saved: it is an array of dtype {array.dtype}.")
        if id(value) not in self._array_numbers:
            self._array_numbers[id(value)] = len(self.arrays)
            self.arrays.append(array)
            self._kept.append(value)
        return {"array": self._array_numbers[id(value)]}

    def _scalar(self, value: np.generic, path: str, depth: int) -> Json:
        return {"scalar": [value.dtype.str, value.tobytes().hex()]}

    def _pandas(
        self, value: pandas.Timestamp | pandas.Timedelta | pandas.Period | pandas.Interval, path: str, depth: int
    ) -> Json:
        import pandas

        return {"pandas": self.encode(PlainValues.from_index(pandas.Index([value])), path, depth)}

    def _splitter(self, value: BaseCrossValidator, path: str, depth: int) -> Json:
        state = {name: part for name, part in vars(value).items() if not name.startswith("_")}
        if type(value).__name__ in REPEATED:
            state = {**state.pop("cvargs"), **{name: part for name, part in state.items() if name != "cv"}}
        return {"splitter": type(value).__name__, "state": self._state(state, path, depth)}

    def _generator(self, value: np.random.Generator, path: str, depth: int) -> Json:
        state = value.bit_generator.state
        if state["bit_generator"] not in BIT_GENERATORS:
            raise ValueError(f"{path} cannot be saved: allowed are the bit generators {', '.join(BIT_GENERATORS)}.")
        return {"generator": self.encode(dict(state), path, depth)}

    def _random_state(self, value: np.random.RandomState, path: str, depth: int) -> Json:
        state = value.get_state(legacy=False)
        if state["bit_generator"] != "MT19937":
            raise ValueError(f"{path} cannot be saved: its bit generator is {state['bit_generator']}, not MT19937.")
        return {"random_state": self.encode(state, path, depth)}

    def _object(self, value: object, path: str, depth: int) -> Json:
        if id(value) in self._object_numbers:
            return {"same": self._object_numbers[id(value)]}
        tree = {"object": class_name(type(value)), "state": self._state(state_of(value), path, depth)}
        self._object_numbers[id(value)] = len(self._object_numbers)
        self._kept.append(value)
        return tree

    def _state(self, state: Mapping[str, object], path: str, depth: int) -> Json:
        return {name: self.encode(part, f"{path}.{name}", depth) for name, part in state.items()}


def _encoded_float(encoder: Encoder, value: float, path: str, depth: int) -> Json:
    return value if math.isfinite(value) else {"float": str(value)}


def _days(encoder: Encoder, value: datetime.timedelta, path: str, depth: int) -> Json:
    return {"days": [value.days, value.seconds, value.microseconds]}


def _tagged_sequence(tag: str) -> Callable[..., Json]:
    return lambda encoder, value, path, depth: {tag: encoder._sequence(value, path, depth)}


def _tagged_text(tag: str, write: Callable[..., str]) -> Callable[..., Json]:
    return lambda encoder, value, path, depth: {tag: write(value)}


_ENCODERS: dict[type, Callable[..., Json]] = {
    float: _encoded_float,
    bytes: _tagged_text("bytes", bytes.hex),
    list: Encoder._sequence,
    tuple: _tagged_sequence("tuple"),
    set: _tagged_sequence("set"),
    frozenset: _tagged_sequence("frozenset"),
    dict: Encoder._dict,
    np.ndarray: Encoder._array,
    np.random.Generator: Encoder._generator,
    np.random.RandomState: Encoder._random_state,
    datetime.date: _tagged_text("date", datetime.date.isoformat),
    datetime.datetime: _tagged_text("datetime", datetime.datetime.isoformat),
    datetime.timedelta: _days,
    decimal.Decimal: _tagged_text("decimal", str),
}


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _reason(value: object) -> str:
    cls = type(value)
    if cls.__module__.startswith("latentia."):
        return f"{cls.__module__}.{cls.__qualname__} is none of the classes that model files hold"
    if callable(value) and not isinstance(value, type):
        return "model files hold no functions"
    if hasattr(value, "get_n_splits"):
        return f"of folds, model files hold {', '.join((*SPLITTERS, *REPEATED))}; pass cv as an integer or one of these"
    return f"model files hold plain values and objects of latentia, and this is a {cls.__module__}.{cls.__qualname__}"


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


def _decoded_float(decoder: Decoder, text: Json, depth: int) -> float:
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
    "float": _decoded_float,
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


#: Attributes of estimators that neither the constructor nor `fit` sets.
SETTINGS = ("_sklearn_output_config",)

#: What is not stored of an estimator: it holds the user's own functions.
NOT_STORED = ("callback", "_skl_callbacks", "_metadata_request")


def class_name(cls: type) -> str | None:
    """The name that stands for a class in files; None for one that files do not hold."""
    name = f"{cls.__module__}:{cls.__qualname__}"
    return name if _look_up(name) is cls else None


def class_of_name(name: object) -> type:
    """The class of a name in a file."""
    found = _look_up(name) if isinstance(name, str) else None
    if found is None:
        raise Damage(f"it names the class {str(name)[:120]!r}, which no model of this version has")
    return found


def _look_up(name: str) -> type | None:
    module, _, qualified = name.partition(":")
    return getattr(import_module(module), qualified, None) if name in STORED_CLASSES else None


def is_named_tuple(cls: type) -> bool:
    """Whether instances are tuples with names."""
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def state_of(value: object) -> dict[str, object]:
    """The attributes of an object, by name."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    if isinstance(value, BaseEstimator):
        return {k: v for k, v in value.__getstate__().items() if k not in NOT_STORED}
    return dict(vars(value))


def from_state(cls: type, state: dict[str, object]) -> object:
    """An object with these attributes; those that it lacks have their defaults."""
    if is_named_tuple(cls):
        fields, defaults = cls._fields, cls._field_defaults  # type: ignore[attr-defined]
        values = _completed(cls, state, fields, defaults)
        return tuple.__new__(cls, [values[name] for name in fields])
    if issubclass(cls, BaseEstimator):
        return _estimator(cls, state)
    if dataclasses.is_dataclass(cls):
        fields = {f.name: f.default for f in dataclasses.fields(cls)}
        state = _completed(cls, state, fields, {k: v for k, v in fields.items() if v is not dataclasses.MISSING})
    value: object = object.__new__(cls)
    for name, part in state.items():
        object.__setattr__(value, name, part)
    return value


def _completed(
    cls: type, state: dict[str, object], fields: Collection[str], defaults: dict[str, object]
) -> dict[str, object]:
    unknown = [name for name in state if name not in fields]
    values = defaults | state
    missing = [name for name in fields if name not in values]
    if unknown or missing:
        raise _other_fields(cls, unknown, missing)
    return {name: values[name] for name in fields}


def _estimator(cls: type[BaseEstimator], state: dict[str, object]) -> BaseEstimator:
    signature = inspect.signature(cls.__init__).parameters
    defaults = {k: p.default for k, p in signature.items() if k != "self"}
    unknown = [k for k in state if k not in defaults and k != "_model" and not k.endswith("_") and k not in SETTINGS]
    if unknown:
        raise _other_fields(cls, unknown, [])
    absent = {k: v for k, v in defaults.items() if k not in state and v is not inspect.Parameter.empty}
    estimator = object.__new__(cls)
    estimator.__setstate__(state | absent)
    return estimator


def _other_fields(cls: type, unknown: list[str], missing: list[str]) -> Damage:
    what = [
        f"{word} {', '.join(map(repr, names))[:120]}" for word, names in (("has", unknown), ("lacks", missing)) if names
    ]
    return Damage(f"its {cls.__name__} {' and '.join(what)}, other than in this version")


class ModelFileError(ValueError):
    """A file that holds no model which this version can read; says which file, and why."""


class Damage(Exception):
    """A reason to refuse a file, on its way to where the file's name is known."""


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
