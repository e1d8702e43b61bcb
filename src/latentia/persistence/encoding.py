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
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import array_api_compat
import numpy as np
import sklearn.model_selection
from sklearn.model_selection import BaseCrossValidator

from latentia.arrays.namespace import Array, to_numpy
from latentia.persistence.archive import Json
from latentia.persistence.array_members import can_be_member
from latentia.persistence.package_classes import class_name, state_of
from latentia.table.frames import PlainValues

if TYPE_CHECKING:
    import pandas

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


def _float(encoder: Encoder, value: float, path: str, depth: int) -> Json:
    return value if math.isfinite(value) else {"float": str(value)}


def _days(encoder: Encoder, value: datetime.timedelta, path: str, depth: int) -> Json:
    return {"days": [value.days, value.seconds, value.microseconds]}


def _tagged_sequence(tag: str) -> Callable[..., Json]:
    return lambda encoder, value, path, depth: {tag: encoder._sequence(value, path, depth)}


def _tagged_text(tag: str, write: Callable[..., str]) -> Callable[..., Json]:
    return lambda encoder, value, path, depth: {tag: write(value)}


_ENCODERS: dict[type, Callable[..., Json]] = {
    float: _float,
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
