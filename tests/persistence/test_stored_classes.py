"""The list of classes that a file may name is what `save` writes, and none of them does more than compute."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys

import pytest
from saved_models import fitted_models, written_classes

from latentia.persistence.format import class_name, class_of_name
from latentia.persistence.stored_classes import STORED_CLASSES

CLASSES = [class_of_name(name) for name in sorted(STORED_CLASSES)]

#: What Python calls by itself. A file chooses who is asked for it, so nobody may answer.
BY_ITSELF = {
    f"__{name}__"
    for name in (
        "call iter next aiter anext await getitem setitem delitem contains reversed missing enter exit aenter aexit "
        "get set delete getattr getattribute del reduce reduce_ex getstate setstate copy deepcopy "
        "fspath index int float complex bool bytes format array array_interface array_struct array_ufunc "
        "array_function array_namespace dataframe dlpack arrow_array arrow_c_array buffer instancecheck length_hint"
    ).split()
}

#: Of the estimator that answers through another, and shows its table of trials as a data frame.
ALLOWED = {"LearnedAttributesMixin": {"__getattr__", "__getstate__", "__setstate__"}}

#: Functions, and modules whose functions, no method may call.
CALLS = {"open", "eval", "exec", "compile", "__import__", "import_module", "breakpoint", "input"}
MODULES = {"builtins", "ctypes", "importlib", "io", "mmap", "multiprocessing", "os", "pathlib", "pickle", "shutil"}
MODULES |= {"marshal", "runpy", "socket", "subprocess", "tempfile", "urllib", "joblib", "code"}


def own_bases(cls):
    return [base for base in cls.__mro__ if base.__module__.startswith("latentia.")]


@pytest.mark.filterwarnings("ignore")
def test_the_list_is_what_save_writes(tmp_path):
    """A class in excess could be left out; one that is missing fails here as it would fail for users."""
    assert written_classes(fitted_models(tmp_path)) == STORED_CLASSES


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: class_name(cls))
def test_a_stored_class_does_nothing_by_itself(cls):
    assert not inspect.isabstract(cls) and not issubclass(cls, type | BaseException)
    assert not any("__call__" in vars(base) for base in cls.__mro__)
    assert {base for base in cls.__mro__ if "__iter__" in vars(base)} <= {tuple}
    for base in own_bases(cls):
        found = BY_ITSELF & {name for name, value in vars(base).items() if value is not None}
        assert found <= ALLOWED.get(base.__name__, set()), f"{base.__name__} has {found}"


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: class_name(cls))
def test_a_stored_class_neither_opens_files_nor_runs_text(cls):
    for base in own_bases(cls):
        tree = ast.parse(inspect.getsource(importlib.import_module(base.__module__)))
        (body,) = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == base.__name__]
        for call in [node for node in ast.walk(body) if isinstance(node, ast.Call)]:
            root = call.func
            while isinstance(root, ast.Attribute):
                root = root.value
            name = root.id if isinstance(root, ast.Name) else ""
            assert name not in (MODULES if isinstance(call.func, ast.Attribute) else CALLS), ast.unparse(call)


def test_every_name_is_that_of_its_class():
    for name in STORED_CLASSES:
        module, _, qualified = name.partition(":")
        cls = getattr(sys.modules[module], qualified)
        assert (cls.__module__, cls.__qualname__) == (module, qualified)


class ColumnLayout:
    """A class that says it is another."""


def test_a_class_is_not_stored_for_its_name():
    ColumnLayout.__module__ = "latentia.families.latent_factors.column_layout"
    assert class_name(ColumnLayout) is None
