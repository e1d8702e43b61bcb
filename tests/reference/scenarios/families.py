"""Every family: what its methods return at parameters away from any optimum."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import numpy as np

import latentia
from latentia.arrays.namespace import softmax
from latentia.engine.contracts import (
    AcceleratedFamily,
    DampedFamily,
    EMFamily,
    Family,
    GenerativeFamily,
    NormalCellsFamily,
    Objective,
    PosteriorFamily,
    QuasiNewtonFamily,
    SmoothFamily,
    StructuredFamily,
)
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Hybrid, Likelihood, RowProblem
from latentia.engine.tree import select_restart, tree_map
from latentia.solvers import EM, BatchedLBFGS

from ..digest import tree
from ..registry import Group

SCENARIOS = Group()


def concrete(base: type) -> list[type]:
    for module in pkgutil.walk_packages(latentia.__path__, "latentia."):
        if not module.name.endswith("__main__") and ".apps." not in module.name:
            importlib.import_module(module.name)
    found, queue = [], [base]
    while queue:
        for cls in queue.pop().__subclasses__():
            queue.append(cls)
            if not inspect.isabstract(cls) and cls.__module__.startswith("latentia.") and cls not in found:
                found.append(cls)
    return sorted(found, key=lambda cls: cls.__qualname__)


def parts(family: Any) -> dict[str, Any]:
    rng = np.random.default_rng(17)
    X, y = family.example_rows(rng, 23, 5)
    rows = ArraySource(X, y, np.random.RandomState(1).uniform(0.3, 2.5, 23))
    problem = RowProblem(family, Likelihood(), rows)
    family = problem.family
    start = family.init(rows, rng, 2)
    found: dict[str, Any] = {"start": tree(start)}
    if isinstance(family, DampedFamily):
        params = family.damped_update(start, problem.sweep(start).stats, 0.3)
    else:
        solver: Any = EM(2, -np.inf) if isinstance(family, EMFamily) else BatchedLBFGS(max_iter=2)
        params = solver.solve(problem, start).params
    sweep = problem.sweep(params)
    found |= {"params": tree(params), "value": np.asarray(sweep.value), "stats": tree(sweep.stats)}
    found |= {"log_prior": np.asarray(family.log_prior(params) + np.zeros(2)), "floats": family.floats_per_row(params)}
    if isinstance(family, EMFamily):
        updated = family.update(params, sweep.stats)
        found |= {"update": tree(updated), "moved": tree(family.move_statistics(sweep.stats, params, updated))}
    if isinstance(family, SmoothFamily):
        free = family.to_free(params)
        found |= {"free": tree(free), "gradient": tree(family.gradient(params, sweep.stats))}
        shifted = tree_map(lambda a: 1.1 * a + 0.05, free)
        found["from_free"] = tree(family.from_free(shifted, params))
    if isinstance(family, AcceleratedFamily | DampedFamily):
        coordinates = family.to_accelerated(params)
        found["accelerated"] = tree(coordinates)
        back = family.from_accelerated(tree_map(lambda a: 1.02 * a, coordinates), params)
        found["from_accelerated"] = "None" if back is None else tree(back)
    if isinstance(family, DampedFamily):
        found["metric"] = tree(family.acceleration_metric(params))
        further = family.damped_update(params, sweep.stats, 0.7)
        found["damped"] = "None" if further is None else tree(further)
    if isinstance(family, QuasiNewtonFamily):
        found["preconditioned"] = tree(family.precondition(params, family.gradient(params, sweep.stats)))
    if isinstance(family, StructuredFamily):
        new, changed = family.update_structure(params, sweep.stats)
        found |= {"structure": tree(new), "changed": changed, "size": family.structure_size(new)}
    if isinstance(family, PosteriorFamily):
        found["predictive"] = tree(family.predictive(params))
    if isinstance(family, GenerativeFamily):
        found |= generated(family, select_restart(params, 1), rows)
    return found


def generated(family: Any, params: Any, rows: ArraySource) -> dict[str, Any]:
    """Scores, hybrid training, completed and drawn rows."""
    masked = rows.all_rows().rows
    scores = family.infer(params, masked).log_joint
    probs = softmax(scores, axis=-2)
    found: dict[str, Any] = {"scores": scores, "impute": family.impute(params, masked, probs)}
    found |= {"mode": family.impute(params, masked, probs, True), "n_free": family.n_free(5)}
    found["sample"] = family.sample(params, np.arange(9) % 3, np.random.default_rng(2))
    found["sample_of_one"] = family.sample(params, np.arange(4) % 2, np.random.default_rng(2), 0)
    found["floats"] = [family.floats_per_row(params), family.impute_floats_per_row(params)]
    if isinstance(family, NormalCellsFamily):

        def expect(mean: Any, variance: Any, columns: Any) -> Any:
            return mean + 0.5 * variance * np.arange(1, len(columns) + 1)

        found["expected"] = family.impute_expected(params, masked, probs, expect)
    if isinstance(family, SmoothFamily):
        hybrid = RowProblem(family, Hybrid(0.7, 1.2, 2.0), rows).sweep(params)
        found |= {"hybrid": np.asarray(hybrid.value), "slope": tree(family.gradient(params, hybrid.stats))}
    return found


for cls in concrete(Family):
    for k, example in enumerate(cls.examples(5, 3)):
        SCENARIOS.add(f"{cls.__name__}{k}", lambda family=example: parts(family))


@SCENARIOS
def objectives() -> dict[str, Any]:
    rng = np.random.RandomState(0)
    scores, y = 3 * rng.normal(size=(2, 3, 9)), np.array([0, 1, 2, -1, 0, 2, 1, -1, 0])
    found = {}
    for cls in concrete(Objective):
        for k, objective in enumerate(cls.examples()):
            value, weight = objective.evaluate(scores, y)
            found[f"{cls.__name__}{k}"] = {"value": value, "weight": weight}
            found[f"{cls.__name__}{k} of one class"] = tree(objective.evaluate(scores[:, :1], np.minimum(y, 0)))
            traits = (objective.rises_under_em, objective.own_class_only, objective.is_density)
            found[f"{cls.__name__}{k} is"] = f"{objective!r} {traits}"
    return found
