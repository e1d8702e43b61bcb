"""The matrix of tests builds itself: every concrete family and objective of the package is found and crossed, and so is every public estimator.

A test that asks for the fixtures `family`, `objective` or `rows` runs on all allowed combinations; `@pytest.mark.families("smooth")` keeps the families that its law is
about (see `TRAITS`). Sizes all differ, so that swapped axes break. A test that asks for the fixture `case` runs on all public estimators, or on those that
`@pytest.mark.estimators("classifier")` keeps (see `estimator_cases`).
"""

from __future__ import annotations

import gc
import importlib
import inspect
import pkgutil
from typing import Any, NamedTuple

import estimator_cases
import numpy as np
import pytest
from sklearn.base import clone

import latentia
from latentia.engine.contracts import (
    ConditionalFamily,
    DampedFamily,
    EMFamily,
    Family,
    GenerativeFamily,
    Objective,
    SmoothFamily,
)
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Hybrid, Likelihood, RowProblem, check_compatible
from latentia.engine.tree import leaves
from latentia.families.latent_factors.family import LatentFactors
from latentia.solvers import EM, BatchedLBFGS

N_ROWS, N_FEATURES, N_CLASSES, N_RESTARTS = 23, 5, 3, 2


def concrete(base: type) -> list[type]:
    """All concrete subclasses of `base` in the package."""
    for module in pkgutil.walk_packages(latentia.__path__, "latentia."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found, queue = [], [base]
    while queue:
        for cls in queue.pop().__subclasses__():
            queue.append(cls)
            if not inspect.isabstract(cls) and cls.__module__.startswith("latentia") and cls not in found:
                found.append(cls)
    return sorted(found, key=lambda cls: cls.__qualname__)


OBJECTIVES = [example for cls in concrete(Objective) for example in cls.examples()]


class Named(NamedTuple):
    name: str
    part: Any


def families() -> list[Named]:
    out = []
    for cls in concrete(Family):
        for k, family in enumerate(cls.examples(N_FEATURES, N_CLASSES)):
            out.append(Named(f"{cls.__name__}{k}", family))
    return out


FAMILIES = families()


#: What a law may ask of a family.
TRAITS = {
    "smooth": lambda family: isinstance(family, SmoothFamily),
    "em": lambda family: isinstance(family, EMFamily),
    "generative": lambda family: isinstance(family, GenerativeFamily),
    "conditional": lambda family: isinstance(family, ConditionalFamily),
    "of classes": lambda family: isinstance(family, EMFamily) and not isinstance(family, ConditionalFamily),
    "factors": lambda family: isinstance(family, LatentFactors),
}


def allowed(family: Family, objective: Objective) -> bool:
    try:
        check_compatible(family, objective, needs_em=False, needs_gradient=False)
    except ValueError:
        return False
    return True


def pairs(families: list[Named]) -> list[Any]:
    """Families and objectives that go together, some of them in the matrix alone."""
    return [
        pytest.param(f.part, o, id=f"{f.name}-{o!r}", marks=[] if is_tried_always(f, o) else [pytest.mark.matrix])
        for f in families
        for o in OBJECTIVES
        if allowed(f.part, o)
    ]


def is_tried_always(family: Named, objective: Objective) -> bool:
    """The first example of each family meets all objectives, the others a likelihood and the objective with the most
    parts.
    """
    return family.name.endswith("0") or objective in (Likelihood(), Hybrid.examples()[-1])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"families(*traits): only families with these traits, of {', '.join(TRAITS)}")
    traits = ", ".join(estimator_cases.TRAITS)
    config.addinivalue_line("markers", f"estimators(*traits): only estimators with these traits, of {traits}")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Any:
    """Modules and thousands of tests stay to the end: the garbage collector need not look through them again and again."""
    gc.disable()
    collected = yield
    gc.freeze()
    gc.enable()
    return collected


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of PyTorch, and scikit-learn's of other array libraries, want what the matrix has; else they are skipped."""
    for item in items:
        if any(word in item.name for word in ("check_array_api", "torch", "tensor")):
            item.add_marker(pytest.mark.matrix)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    names = metafunc.fixturenames
    if "case" in names:
        metafunc.parametrize("case", with_traits(metafunc), ids=lambda case: case.name)
    traits = [TRAITS[name] for mark in metafunc.definition.iter_markers("families") for name in mark.args]
    chosen = [f for f in FAMILIES if all(has(f.part) for has in traits)]
    assert chosen, f"{metafunc.function.__name__}: no family has the traits that it asks for"
    if "family" in names and "objective" in names:
        metafunc.parametrize("family,objective", pairs(chosen))
    elif "family" in names:
        metafunc.parametrize("family", [f.part for f in chosen], ids=[f.name for f in chosen])
    elif "objective" in names:
        metafunc.parametrize("objective", OBJECTIVES, ids=repr)


def with_traits(metafunc: pytest.Metafunc) -> list[estimator_cases.Case]:
    """The estimators that a law is about."""
    asked = [name for mark in metafunc.definition.iter_markers("estimators") for name in mark.args]
    chosen = [c for c in estimator_cases.CASES if all(estimator_cases.TRAITS[name](c) for name in asked)]
    assert chosen, f"{metafunc.function.__name__}: no estimator has the traits that it asks for"
    return chosen


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(17)


class Example(NamedTuple):
    """Rows that suit a family, and parameters away from the start and from any optimum, two starts along the first axis."""

    X: np.ndarray
    y: np.ndarray
    params: Any


EXAMPLES: dict[int, tuple[Family, Example]] = {}  # with the family, so that its number is nobody else's


def example(family: Family) -> Example:
    """Made once for each family, and not to be written to: most laws ask for it."""
    if id(family) not in EXAMPLES:
        rng = np.random.default_rng(17)
        X, y = family.example_rows(rng, N_ROWS, N_FEATURES)
        found = Example(X, y, away_from_rest(family, ArraySource(X, y), rng))
        for array in leaves(found):
            array.setflags(write=False)
        EXAMPLES[id(family)] = family, found
    return EXAMPLES[id(family)][1]


def away_from_rest(family: Family, rows: ArraySource, rng: np.random.Generator) -> Any:
    start, problem = family.init(rows, rng, N_RESTARTS), RowProblem(family, Likelihood(), rows)
    if isinstance(family, DampedFamily):
        return family.damped_update(start, problem.sweep(start).stats, 0.3)
    solver: Any = EM(2, -np.inf) if isinstance(family, EMFamily) else BatchedLBFGS(max_iter=2)
    return solver.solve(problem, start).params


@pytest.fixture
def rows(family: Family) -> ArraySource:
    return ArraySource(example(family).X, example(family).y)


@pytest.fixture
def params(family: Family) -> Any:
    return example(family).params


@pytest.fixture(scope="session")
def data() -> estimator_cases.Data:
    return estimator_cases.make_data()


@pytest.fixture(scope="session")
def fits(data: estimator_cases.Data) -> estimator_cases.Fits:
    return estimator_cases.Fits(data)


@pytest.fixture
def y(case: estimator_cases.Case, data: estimator_cases.Data) -> np.ndarray:
    return case.y(data)


@pytest.fixture
def quick(case: estimator_cases.Case) -> Any:
    """An estimator of the case, to be fitted."""
    return clone(case.quick)


@pytest.fixture
def settled(case: estimator_cases.Case) -> Any:
    """The same with settings that end at one place."""
    return clone(case.settled)


@pytest.fixture
def brief(case: estimator_cases.Case) -> Any:
    """Their first steps."""
    return estimator_cases.brief(case)
