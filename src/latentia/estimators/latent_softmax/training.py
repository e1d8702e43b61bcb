"""Training of one structure: starts by penalized likelihood, variational Bayes from all of them, and the final correction.

1. L-BFGS on the standardized rows from random weights of two sizes and from k-means centroids, with a light ridge (the paper starts from maximum likelihood, too). It costs little and its
   value foretells the bound's, so three times as many starts are tried as go on.
2. Variational Bayes from those weights, all in one batch; after a while only the best starts go on. With `annealing`, first at lower inverse temperatures (section VI.B).
3. The quadratic bound is not tight: its means are too confident, and its value is unfair to structures with more parts. From the winner's posterior the normal posterior under the
   exact likelihood is found (`exact_posterior`), which predicts, and whose evidence bound compares structures.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from latentia.engine.array_source import ArraySource
from latentia.engine.contracts import Params
from latentia.engine.objectives import Likelihood
from latentia.engine.problem import RowProblem
from latentia.engine.pytree import select_restart, stack_restarts, take_restarts
from latentia.estimators.latent_softmax.exact_posterior import STEPS, refine_posterior
from latentia.estimators.latent_softmax.model_specs import ModelSpec
from latentia.inputs.standardization import Standardizer
from latentia.numerics.array_api import to_numpy
from latentia.solvers import LBFGS, AcceleratedEM, BatchedLBFGS, Outcome, Solution, StepCallback, ignore_step

START_RIDGE = 0.01  # of the likelihood that starts are made with, on standardized rows


START_VARIANCE = 0.1  # of the weights' posterior at the start


SCREEN = 3  # starts tried by likelihood for each that goes on


RACE = ((40, 4), (80, 2))  # after so many steps of variational Bayes, only so many of the best starts go on


CONVEX_TOL = 1e-13  # of L-BFGS where the likelihood has one maximum


ANNEALING = (0.2, 0.5)  # inverse temperatures before 1


ANNEALING_STEPS = 20


class Rows(NamedTuple):
    """The same rows as they are modeled and standardized, often one and the same."""

    raw: ArraySource
    standard: ArraySource
    preprocess: Standardizer  # from the former to the latter

    def subset(self, index: np.ndarray) -> Rows:
        """Some of the rows."""
        raw = self.raw.subset(index)
        return Rows(raw, raw if self.standard is self.raw else self.standard.subset(index), self.preprocess)


class Options(NamedTuple):
    """How to train."""

    inference: str
    n_init: int
    max_iter: int
    tol: float
    ridge: float
    annealing: bool


class Fitted(NamedTuple):
    """A trained structure."""

    structure: Any  # a `ModelSpec`
    params: Params  # the variational posterior; the weights again for maximum likelihood
    exact: Params  # the posterior under the exact likelihood; the weights again for maximum likelihood
    weights: Params  # point estimate: its means, or of maximum likelihood
    curve: np.ndarray
    n_iter: int
    outcome: Outcome
    start_values: np.ndarray  # where each start ended
    log_evidence: float  # bound less the log number of permutations; NaN for maximum likelihood
    corrected_log_evidence: float  # exact bound plus the log number of permutations; NaN for maximum likelihood
    log_likelihood: float  # at the point estimate
    bic: float
    seconds: float
    score: float = float("nan")  # what the choice among structures maximizes


def fit_structure(
    structure: ModelSpec,
    rows: Rows,
    options: Options,
    rng: np.random.Generator,
    on_step: StepCallback = ignore_step,
    extra_starts: tuple[Params, ...] = (),
) -> Fitted:
    """Train a structure; `extra_starts` are point estimates to start from beside the usual ones."""
    began = time.perf_counter()
    starts = _likelihood_starts(structure, rows, options, rng, extra_starts)
    if options.inference == "ml":
        solution = _by_likelihood(structure, rows, options, starts, on_step)
    else:
        solution = _by_variational_bayes(structure, rows, options, starts, on_step)
    winner = int(np.argmax(solution.value))
    params = select_restart(solution.params, winner)
    evidence, tight, exact, weights = float("nan"), float("nan"), params, params
    outcome = solution.outcomes[winner]
    if options.inference == "vb":
        evidence = float(solution.value[winner]) - structure.log_permutations
        exact, bound, settled = refine_posterior(structure, rows.raw, params, max(STEPS, options.max_iter))
        if outcome.converged and not settled:
            outcome = Outcome.MAX_ITER
        # each permutation of the parts is a posterior of its own, as good as this one and far from it: together they hold so many times its mass
        tight, weights = bound + structure.log_permutations, structure.means(exact)
    log_likelihood = float(to_numpy(RowProblem(structure.likelihood(), Likelihood(), rows.raw).sweep(weights).value))
    n_free = structure.n_free(rows.raw.n_features + 1)
    return Fitted(
        structure,
        params,
        exact,
        weights,
        solution.curves[winner],
        int(solution.n_iter[winner]),
        outcome,
        -np.sort(-solution.value),
        evidence,
        tight,
        log_likelihood,
        -2 * log_likelihood + n_free * float(np.log(rows.raw.total_weight)),
        time.perf_counter() - began,
    )


def _likelihood_starts(
    structure: ModelSpec, rows: Rows, options: Options, rng: np.random.Generator, extra: tuple[Params, ...]
) -> Params:
    """Point estimates in raw units, one per start."""
    family = structure.likelihood(START_RIDGE)
    problem = RowProblem(family, Likelihood(), rows.standard)
    n_restarts = 1 if structure.is_convex else SCREEN * options.n_init
    rough = family.init(rows.standard, rng, n_restarts)
    solution = BatchedLBFGS(max_iter=200, tol=1e-4).solve(problem, rough)
    order = np.argsort(-solution.value, kind="stable")[: options.n_init]
    found = [select_restart(solution.params, int(k)) for k in order]
    raw = [structure.undo_standardization(weights, rows.preprocess) for weights in found]
    if structure.is_convex and options.inference == "vb":
        raw = structure.equivalent_starts(raw[0])
    return stack_restarts([*raw, *extra])


def _by_likelihood(
    structure: ModelSpec, rows: Rows, options: Options, starts: Params, on_step: StepCallback
) -> Solution:
    """Likelihood (with the user's ridge) on the standardized rows, where columns of any units are alike."""
    family = structure.likelihood(options.ridge)
    problem = RowProblem(family, Likelihood(), rows.standard)
    # per row and step a quasi-Newton ascent gains far less than EM that is equally far from its end; the single optimum of a convex problem is found to the last digits
    solver = LBFGS(max_iter=options.max_iter, tol=min(options.tol * 1e-2, CONVEX_TOL if structure.is_convex else 1.0))
    n_restarts = _count(starts)
    back = Standardizer(-rows.preprocess.shift / rows.preprocess.scale, 1 / rows.preprocess.scale, None)
    standard = structure.undo_standardization(starts, back)
    ends = [solver.solve(problem, take_restarts(standard, [k]), on_step) for k in range(n_restarts)]
    return Solution(
        stack_restarts(
            [structure.undo_standardization(select_restart(end.params, 0), rows.preprocess) for end in ends]
        ),
        np.concatenate([end.value for end in ends]),
        [end.curves[0] for end in ends],
        np.concatenate([end.n_iter for end in ends]),
        [end.outcomes[0] for end in ends],
    )


def _by_variational_bayes(
    structure: ModelSpec, rows: Rows, options: Options, starts: Params, on_step: StepCallback
) -> Solution:
    params = structure.start(starts, START_VARIANCE)
    if options.annealing:
        for beta in ANNEALING:
            problem = RowProblem(structure.variational(beta), Likelihood(), rows.raw)
            params = AcceleratedEM(ANNEALING_STEPS, options.tol).solve(problem, params).params
    problem = RowProblem(structure.variational(), Likelihood(), rows.raw)
    running = np.arange(_count(starts))
    left, solution = options.max_iter, None
    for steps, keeps in RACE:
        if len(running) <= keeps or left <= steps:
            continue
        part = AcceleratedEM(steps, options.tol).solve(problem, params, on_step)
        solution = part if solution is None else _joined(solution, part, running)
        left -= steps
        running = np.argsort(-solution.value)[:keeps]
        params = take_restarts(solution.params, running.tolist())
    final = AcceleratedEM(left, options.tol).solve(problem, params, on_step)
    return final if solution is None else _joined(solution, final, running)


def _joined(race: Solution, final: Solution, best: np.ndarray) -> Solution:
    """The finalists' ends in the places where they stood in the race."""
    params = [select_restart(race.params, k) for k in range(len(race.value))]
    curves, outcomes = list(race.curves), list(race.outcomes)
    value, n_iter = race.value.copy(), race.n_iter.copy()
    for place, start in enumerate(best):
        params[start] = select_restart(final.params, place)
        curves[start] = np.concatenate([race.curves[start], final.curves[place][1:]])
        value[start] = final.value[place]
        n_iter[start] += final.n_iter[place]
        outcomes[start] = final.outcomes[place]
    return Solution(stack_restarts(params), value, curves, n_iter, outcomes)


def _count(tree: Any) -> int:
    while isinstance(tree, tuple):
        tree = tree[0]
    return int(tree.shape[0])
