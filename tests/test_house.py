"""The size of the house, and the way of one row through it. A figure that fails says how large it is and may be.

The limits stand for a house that one can live in: where keeping one would make it worse, raise it, and say why in the commit.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from estimator_cases import quietly

import latentia

ROOT = Path(latentia.__file__).parent
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(ROOT.rglob("*.py"))}
FILES = [path for path in TREES if path.relative_to(ROOT).parts[0] != "apps"]  # of the library
CORE = ("engine", "solvers", "families")
ESTIMATORS = [
    kind
    for kind in map(vars(latentia).get, [name for name in latentia.__all__ if hasattr(latentia, name)])
    if hasattr(kind, "fit")
]
LINE = {base for kind in ESTIMATORS for base in kind.__mro__ if base.__module__.startswith("latentia")}


def module_name(path):
    parts = ["latentia", *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def files_with_one_importer():
    names = {module_name(path): path for path in TREES}
    packages = {name for name, path in names.items() if path.name == "__init__.py"}
    users = defaultdict(set)
    for name, path in names.items():
        for node in ast.walk(TREES[path]):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("latentia"):
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    users[full if full in names else node.module].add(name)
    library = {module_name(path) for path in FILES} - packages
    return sum(len(users[name]) == 1 and not users[name] & packages for name in library)


def uses_any(node):
    return any(isinstance(part, ast.Name) and part.id == "Any" for part in ast.walk(node))


def share_of_any():
    notes = []
    for tree in TREES.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                notes += [note for note in (*(a.annotation for a in arguments), node.returns) if note is not None]
    return sum(map(uses_any, notes)) / len(notes)


def any_in_the_core():
    return sum(uses_any(tree) for path, tree in TREES.items() if path.relative_to(ROOT).parts[0] in CORE)


def hooks():
    """Methods, but for `fit`, `predict` and `score`, that a class of an estimator's line defines again."""
    found = set()
    for kind in LINE:
        above = [base for base in kind.__mro__[1:] if base.__module__.startswith("latentia")]
        for name in vars(kind):
            own = not name.startswith(("__", "set_")) and name not in ("fit", "predict", "score")
            if own and callable(getattr(kind, name)) and any(name in vars(base) for base in above):
                found.add(name)
    return len(found)


def modules_of_one_estimator():
    code = "import sys, latentia.estimators.gaussian_mixture; print(sum(m.startswith('latentia') for m in sys.modules))"
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


FIGURES = {
    "files": (lambda: len(FILES), 100),
    "lines": (lambda: sum(len(path.read_text(encoding="utf-8").splitlines()) for path in FILES), 31_000),
    "files with one importer": (files_with_one_importer, 12),
    "share of annotations with Any": (share_of_any, 0.05),
    "files of engine, solvers and families with Any": (any_in_the_core, 0),
    "own ancestors of an estimator": (
        lambda: max(sum(base in LINE for base in kind.__mro__) for kind in ESTIMATORS),
        5,
    ),
    "hooks": (hooks, 10),
    "modules loaded by one estimator": (modules_of_one_estimator, 60),
}


@pytest.mark.parametrize("name", FIGURES)
def test_the_house_stays_small(name):
    measure, limit = FIGURES[name]
    assert measure() <= limit, name


def folder(path):
    return Path(path).relative_to(ROOT).parts[:-1][:2]


def walk(action):
    """The files that a call passes through, how often it goes from folder to folder (array functions apart), how deep."""
    seen, crossings, deepest = Counter(), 0, 0

    def profile(frame, event, _):
        nonlocal crossings, deepest
        here = frame.f_code.co_filename
        if event != "call" or not here.startswith(str(ROOT)) or frame.f_code.co_name == "<module>":
            return
        seen[here] += 1
        callers, above = [], frame.f_back
        while above is not None:
            if above.f_code.co_filename.startswith(str(ROOT)):
                callers.append(above.f_code.co_filename)
            above = above.f_back
        deepest = max(deepest, len(callers) + 1)
        crossings += bool(callers) and folder(callers[0]) != folder(here) != ("arrays",)

    sys.setprofile(profile)
    try:
        result = action()
    finally:
        sys.setprofile(None)
    return result, (len(seen), crossings, deepest)


def mixed_table():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    numbers = {"a": rng.normal(size=120), "b": rng.gamma(2, size=120)}
    frame = pandas.DataFrame(
        {**numbers, "city": rng.choice(["x", "y", "z"], 120), "flag": rng.choice([True, False], 120)}
    )
    frame.loc[::7, "a"] = np.nan
    frame.loc[::11, "city"] = None
    return frame, np.where(frame["b"] > 2, "hi", "lo")


#: Files of fit and of predict_proba, its crossings from folder to folder, and its deepest call.
WALKS = {
    "LatentClassifier": (50, 32, 60, 22),
    "LatentClassificationModel": (34, 22, 25, 20),
    "GaussianMixtureClassifier": (27, 15, 14, 14),
    "MultimodalSoftmaxClassifier": (27, 16, 12, 14),
    "MixtureOfExpertsClassifier": (27, 16, 14, 14),
    "ProbitEmbeddingClassifier": (22, 14, 14, 14),
}


@pytest.mark.parametrize("name", WALKS)
def test_the_way_of_a_row_is_short(name):
    X, y = mixed_table()
    kind = getattr(latentia, name)
    model = kind(**({"effort": "fast"} if "effort" in inspect.signature(kind).parameters else {}), random_state=0)
    if name in ("GaussianMixtureClassifier", "MultimodalSoftmaxClassifier", "MixtureOfExpertsClassifier"):
        X = X[["a", "b"]].to_numpy()
        X = X if name == "GaussianMixtureClassifier" else np.nan_to_num(X)
    elif name == "ProbitEmbeddingClassifier":
        X = np.nan_to_num(X[["a", "b"]].to_numpy())
        y = np.c_[y == "hi", np.random.default_rng(1).random(120) > 0.5].astype(int)
    model, (of_fit, _, _) = walk(lambda: quietly(model.fit, X, y))
    _, of_prediction = walk(lambda: model.predict_proba(X[:1]))
    found = (of_fit, *of_prediction)
    assert all(each <= limit for each, limit in zip(found, WALKS[name], strict=True)), (found, WALKS[name])
