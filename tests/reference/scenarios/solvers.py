"""Solvers on small problems: where each of them ends and why, and rows from every kind of source."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from latentia.engine.rows import (
    ArraySource,
    MaskMissing,
    RowRange,
    evenly_spaced,
    join_ranges,
    label_ranges,
    pack_tasks,
    rows_per_chunk,
    split_ranges,
)
from latentia.engine.sweep import Conditional, Hybrid, Likelihood, RowProblem, check_compatible
from latentia.families.gaussian_mixture.family import COVARIANCES, GaussianMixtures
from latentia.families.gaussian_mixture.posterior import BayesianGaussianMixtures
from latentia.families.latent_factors.family import LatentFactors
from latentia.families.probit_embedding.family import ProbitEmbedding
from latentia.families.softmax_tree.posterior import BoundPosterior, ExactPosterior
from latentia.families.softmax_tree.tree import Point, TreeLikelihood, centroid_restarts, multimodal_softmax
from latentia.solvers import (
    EM,
    LBFGS,
    AcceleratedEM,
    BatchedLBFGS,
    DampedAscent,
    Outcome,
    QuasiNewtonVB,
    StructuralEM,
)
from latentia.solvers.lbfgs import outcome_of

from ..describe import refusal
from ..digest import tree
from ..registry import Group
from ..tables import complete, numbers

SCENARIOS = Group()


def standard(X: np.ndarray) -> np.ndarray:
    return (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)


def rows(gaps: bool = True, **options: Any) -> ArraySource:
    table = numbers() if gaps else complete()
    return ArraySource(standard(table.X), table.y, table.weight, **options)


def mixtures(covariance: str = "full") -> GaussianMixtures:
    return GaussianMixtures(np.array([2, 1, 2]), COVARIANCES[covariance](1e-3), None)


def ended(solver: Any, problem: Any, start: Any, stop_at: int | None = None) -> dict[str, Any]:
    heard: list[Any] = []

    def on_step(step: Any) -> bool:
        heard.append((step.iteration, step.value, step.n_running))
        return stop_at is not None and len(heard) == stop_at

    solution = solver.solve(problem, start, on_step)
    return {
        "value": solution.value,
        "n_iter": solution.n_iter,
        "outcomes": " | ".join(outcome.value for outcome in solution.outcomes),
        "converged": solution.converged,
        "curves": np.concatenate(solution.curves),
        "params": tree(solution.params),
        "heard": np.array(heard) if heard else None,
    }


@SCENARIOS
def em() -> dict[str, Any]:
    source, family = rows(), mixtures()
    problem = RowProblem(family, Likelihood(), source)
    start = family.init(source, np.random.default_rng(0), 3)
    return {
        "steps": ended(EM(4, 0.0), problem, start),
        "tol": ended(EM(40, 0.03), problem, start),
        "stopped": ended(EM(9, 0.0), problem, start, stop_at=2),
    }


@SCENARIOS
def accelerated() -> dict[str, Any]:
    source = rows()
    family = BayesianGaussianMixtures(mixtures("diag"))
    problem = RowProblem(family, Likelihood(), source)
    start = family.init(source, np.random.default_rng(0), 2)
    return {
        "steps": ended(AcceleratedEM(8, 0.0), problem, start),
        "tol": ended(AcceleratedEM(60, 0.2), problem, start),
        "memory": ended(AcceleratedEM(7, 0.0, memory=2), problem, start),
        "stopped": ended(AcceleratedEM(9, 0.0), problem, start, stop_at=3),
    }


@SCENARIOS
def lbfgs() -> dict[str, Any]:
    source, family = rows(), mixtures("diag")
    start = (
        EM(3, 0.0)
        .solve(RowProblem(family, Likelihood(), source), family.init(source, np.random.default_rng(0), 1))
        .params
    )
    problem = RowProblem(family, Hybrid(1.5, 0.8, 3.0), source)
    losses = iter([5.0, 4.0, 3.0, 3.5, 3.6, 3.7, 3.8])
    found = {
        "steps": ended(LBFGS(6, 0.0), problem, start),
        "tol": ended(LBFGS(50, 0.5), problem, start),
        "memory": ended(LBFGS(6, 0.0, memory=2), problem, start),
        "stopped": ended(LBFGS(6, 0.0), problem, start, stop_at=2),
        "validated": ended(LBFGS(9, 0.0, validate=lambda params: next(losses), patience=2), problem, start),
        "conditional": ended(LBFGS(5, 0.0), RowProblem(family, Conditional(), source.labeled_only()), start),
    }
    for status, slope, unit in ((0, 1.0, 2e-16), (1, 1.0, 2e-16), (2, 1e-9, 2e-16), (2, 1e-4, 2e-16), (2, 1e-4, 1e-7)):
        result = OptimizeResult(success=status == 0, status=status, jac=np.array([0.0, -slope]), fun=0.3, x=np.zeros(2))
        found[f"{status} {slope} {unit}"] = outcome_of(result, unit).value
    return found | {outcome.name: f"{outcome.value}: {outcome.converged}" for outcome in Outcome}


@SCENARIOS
def batched_lbfgs() -> dict[str, Any]:
    table = complete()
    source = ArraySource(standard(table.X), table.y, table.weight)
    family = TreeLikelihood(multimodal_softmax((2, 1, 2)), 0.05)
    problem = RowProblem(family, Likelihood(), source)
    start = family.init(source, np.random.default_rng(0), 4)
    return {
        "steps": ended(BatchedLBFGS(5, 0.0), problem, start),
        "tol": ended(BatchedLBFGS(60, 0.02), problem, start),
        "memory": ended(BatchedLBFGS(5, 0.0, memory=2), problem, start),
        "stopped": ended(BatchedLBFGS(9, 0.0), problem, start, stop_at=2),
    }


def around_centroids(family: Any, source: ArraySource, n_restarts: int) -> Any:
    """A wide posterior about centroids of subclasses."""
    n_subclasses = np.bincount(family.tree.leaves.classes)
    weights = centroid_restarts(n_subclasses, source, np.random.default_rng(0), n_restarts)
    return family.posterior_around(Point((weights[:, None],), ()), 1.0)


@SCENARIOS
def variational() -> dict[str, Any]:
    table = complete()
    source = ArraySource(standard(table.X), table.y, table.weight)
    family = BoundPosterior(multimodal_softmax((2, 1, 1)))
    problem, start = RowProblem(family, Likelihood(), source), around_centroids(family, source, 2)
    labels = (np.column_stack([table.y == 0, table.X[:, 0] > 4]) * 1).astype(float)
    embedding = ProbitEmbedding(2)
    source = ArraySource(standard(table.X), labels, table.weight)
    probit = RowProblem(embedding, Likelihood(), source)
    beginning = embedding.init(source, np.random.default_rng(0), 2)
    found = {"softmax": ended(AcceleratedEM(6, 0.0), problem, start)}
    found["embedding"] = ended(QuasiNewtonVB(13, 0.0), probit, beginning)
    found["embedding_tol"] = ended(QuasiNewtonVB(80, 0.5), probit, beginning)
    found["embedding_stopped"] = ended(QuasiNewtonVB(40, 0.0, memory=3), probit, beginning, stop_at=4)
    return found


@SCENARIOS
def damped() -> dict[str, Any]:
    family = ExactPosterior.examples(5, 3)[0]
    X, y = family.example_rows(np.random.default_rng(3), 23, 5)
    source = ArraySource(X, y, np.random.RandomState(1).uniform(0.3, 2.5, 23))
    problem = RowProblem(family, Likelihood(), source)
    start = family.from_posterior(around_centroids(BoundPosterior(family.tree), source, 1))
    return {
        "steps": ended(DampedAscent(5, 0.0), problem, start),
        "tol": ended(DampedAscent(50, 1e-2), problem, start),
        "stopped": ended(DampedAscent(9, 0.0, memory=2), problem, start, stop_at=2),
    }


@SCENARIOS.with_(rtol=1e-5)
def structural() -> dict[str, Any]:
    table = complete()
    source = ArraySource(standard(table.X), table.y, table.weight)
    family = next(f for f in LatentFactors.examples(4, 3) if f.n_classes == 3)
    problem = RowProblem(family, Likelihood(), source)
    start = family.init(source, np.random.default_rng(0), 2)
    solver = StructuralEM(EM(5, 1e-3), max_rounds=2)
    found = {
        "steps": ended(solver, problem, start),
        "stopped": ended(StructuralEM(EM(5, 1e-3), 2), problem, start, stop_at=2),
    }
    for part in found.values():
        part.pop("params")  # factors may change sign and place
    return found


@SCENARIOS
def sources() -> dict[str, Any]:
    """The same sweep however rows are read, and the ranges that they are read in."""
    table, family = numbers(), mixtures("tied")
    X = standard(table.X)
    plain = ArraySource(X, table.y, table.weight)
    params = family.init(plain, np.random.default_rng(0), 2)
    kinds = {
        "cached": plain,
        "uncached": ArraySource(X, table.y, table.weight, cache_mib=0),
        "gathered": ArraySource(X, table.y, table.weight, gather_chunk_rows=10),
        "labeled": ArraySource(X, table.y, table.weight, cache_mib=0).labeled_only(),
        "columns": ArraySource(X, table.y, np.column_stack([table.weight, table.weight[::-1]])),
        "columns_uncached": ArraySource(X, table.y, np.column_stack([table.weight, table.weight[::-1]]), cache_mib=0),
    }
    found: dict[str, Any] = {}
    for name, source in kinds.items():
        for objective in (Likelihood(), Conditional()):
            sweep = RowProblem(family, objective, source, max_chunk_rows=9).sweep(params)
            found[f"{name} {objective!r}"] = {"value": sweep.value, "stats": tree(sweep.stats)}
    found["second"] = (
        RowProblem(family, Likelihood(), kinds["columns"].take_restarts(np.array([1]))).sweep(params).value
    )
    ranges = label_ranges(np.array([-1, -1, 0, 0, 0, 0, 2, 2, 2]))
    found["ranges"] = [tuple(map(str, r)) for r in ranges]
    found["split"] = str(split_ranges(ranges, 3, True)) + str(split_ranges([RowRange(0, 10, None)], 4))
    found["joined"] = str(list(join_ranges(ranges, 5)))
    found["packed"] = str([len(p) for p in pack_tasks([[r] for r in ranges] * 5, 4)])
    found["spaced"] = [evenly_spaced(10, 4), evenly_spaced(3, 5)]
    found["per_chunk"] = [rows_per_chunk(10), rows_per_chunk(10**7), rows_per_chunk(0)]
    found["masked"] = tree(MaskMissing(np.dtype(float))(X[:3]))
    return found


@SCENARIOS
def refused_pairs() -> dict[str, Any]:
    smooth, em_only, conditional = (
        mixtures(),
        BayesianGaussianMixtures(mixtures()),
        TreeLikelihood(multimodal_softmax((1, 1, 1))),
    )
    return {
        "em": refusal(check_compatible, smooth, Conditional(), needs_em=True, needs_gradient=False),
        "gradient": refusal(check_compatible, em_only, Hybrid(), needs_em=False, needs_gradient=True),
        "no_update": refusal(check_compatible, conditional, Likelihood(), needs_em=True, needs_gradient=False),
        "labels": refusal(check_compatible, conditional, Conditional(), needs_em=False, needs_gradient=False),
        "fine": refusal(check_compatible, smooth, Hybrid(), needs_em=False, needs_gradient=True),
    }


@SCENARIOS
def weights_of_restarts() -> dict[str, Any]:
    """Each restart sees weights of its own; those that converge drop out."""
    table = numbers()
    X = standard(table.X)
    rng = np.random.RandomState(0)
    columns = rng.uniform(0.0, 2.0, (43, 3)) * (rng.uniform(size=(43, 3)) < 0.8)
    source = ArraySource(X, table.y, columns)
    points, posterior = mixtures("full"), BayesianGaussianMixtures(mixtures("diag"))
    found: dict[str, Any] = {}
    for name, family, solver in (("points", points, EM(25, 0.05)), ("posterior", posterior, AcceleratedEM(25, 0.3))):
        start = family.init(source, np.random.default_rng(0), 3)
        found[name] = ended(solver, RowProblem(family, Likelihood(), source), start)
        few = source.take_restarts(np.array([2, 0]))
        found[f"{name} of two"] = {
            "total": few.total_weight,
            "value": RowProblem(family, Likelihood(), few).sweep(tree_take(start, [2, 0])).value,
        }
    for k, factors in enumerate(LatentFactors.examples(4, 3)[:3]):
        rows_of, labels = factors.example_rows(np.random.default_rng(1), 30, 4)
        own = ArraySource(rows_of, labels, rng.uniform(0.0, 2.0, (30, 2)))
        start = factors.init(own, np.random.default_rng(0), 2)
        problem = RowProblem(factors, Likelihood(), factors.condensed(Likelihood(), own))
        found[f"factors {k}"] = ended(EM(12, 0.1), problem, start)
    return found


def tree_take(params: Any, index: list[int]) -> Any:
    from latentia.engine.tree import take_restarts

    return take_restarts(params, index)


@SCENARIOS
def trees_of_arrays() -> dict[str, Any]:
    from latentia.engine import tree as pytree

    rng = np.random.RandomState(0)
    value = (rng.normal(size=(3, 2, 4)), (rng.normal(size=(3, 2)), rng.normal(size=(3, 5))))
    axes = (-2, (-1, None))
    parts = {k: pytree.select_class(value, axes, k) for k in range(2)}
    matrix = pytree.flatten_restarts(value)
    return {
        "taken": tree(pytree.take_restarts(value, [2, 0])),
        "selected": tree(pytree.select_restart(value, 1)),
        "class": tree(parts[1]),
        "joined": tree(pytree.concat_classes(parts, axes, 2)),
        "lacking": tree(pytree.concat_classes({1: parts[1]}, axes, 2)),
        "added": tree(pytree.tree_add(value, value)),
        "stacked": tree(pytree.stack_restarts([value, value])),
        "flat": pytree.flatten(value),
        "rows": matrix,
        "back": tree(pytree.unflatten_restarts(matrix[:, ::-1], value)),
        "whole": tree(pytree.unflatten(pytree.flatten(value)[::-1], value)),
        "replaced": tree(pytree.replace_restarts(value, np.array([2, 0]), pytree.take_restarts(value, [0, 1]))),
        "axis": tree(pytree.add_restart_axis(value)),
    }
