"""The classes of `stored_classes` by their names, their objects as states, and back.

Modules of the closed list are all that is imported for a file, and no `__init__` runs.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Collection
from importlib import import_module

from sklearn.base import BaseEstimator

from latentia.persistence.errors import Damage
from latentia.persistence.stored_classes import STORED_CLASSES

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
