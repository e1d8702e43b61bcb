"""What the reference says of a signature is what the signature says."""

from __future__ import annotations

import inspect
import re
from ast import literal_eval

import pytest
from numpydoc.docscrape import ClassDoc, FunctionDoc

import latentia

OBJECTS = [(name, getattr(latentia, name)) for name in latentia.__all__]


def methods(name: str, kind: type) -> list[tuple[str, object]]:
    """Methods that this package documents."""
    found = inspect.getmembers(kind, inspect.isfunction)
    return [
        (f"{name}.{method}", function)
        for method, function in found
        if not method.startswith("_")
        and function.__module__.startswith("latentia")
        and "Parameters" in (function.__doc__ or "")
    ]


SIGNATURES = OBJECTS + [pair for name, thing in OBJECTS if inspect.isclass(thing) for pair in methods(name, thing)]


def documented(thing: object) -> dict[str, str]:
    """Parameters with their types; `a, b : float` are two."""
    found = (ClassDoc if inspect.isclass(thing) else FunctionDoc)(thing)["Parameters"]
    return {name.strip().lstrip("*"): type_ for names, type_, _ in found for name in names.split(",")}


@pytest.mark.parametrize("name, thing", SIGNATURES, ids=[name for name, _ in SIGNATURES])
def test_parameters_are_those_of_the_signature(name, thing):
    if name == "Comparison":  # which nobody makes by hand: its fields are documented as attributes
        return
    taken = {p: q for p, q in inspect.signature(thing).parameters.items() if p != "self"}
    said = documented(thing)
    if said.pop("others", None) is None:
        assert sorted(said) == sorted(taken)
    for parameter, type_ in said.items():
        defaults = re.findall(r"default=(\S+)$", type_)
        if defaults and type_.count("default=") == 1:
            assert literal_eval(defaults[0]) == taken[parameter].default, parameter


@pytest.mark.parametrize("name, thing", OBJECTS, ids=[name for name, _ in OBJECTS])
def test_attributes_that_are_documented_exist(name, thing):
    """Names of attributes end in an underscore, or are fields."""
    if not inspect.isclass(thing):
        return
    for names, _, _ in ClassDoc(thing)["Attributes"]:
        for attribute in names.split(","):
            assert attribute.strip().endswith("_") or hasattr(thing, "__dataclass_fields__"), attribute
