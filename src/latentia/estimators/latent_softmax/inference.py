"""The two ways to learn a model: variational Bayes and maximum likelihood.

Each says how points become a fitted model, what is published of it, and what models are compared
by.

Variational Bayes runs from all points in one batch; after a while only the best go on. With
`annealing`, first at lower inverse temperatures (section VI.B of Ahmed & Campbell 2011). The
quadratic bound is not tight: its means are too confident, and its value is unfair to models with
more parts. So from the winner's posterior the normal posterior under the exact likelihood is found
(`exact_posterior`), which predicts, and whose evidence bound compares models.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from latentia.engine.contracts import ConditionalFamily, Params
from latentia.engine.rows import TableSource
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import add_restart_axis, leaves, select_restart, stack_restarts, take_restarts
from latentia.estimators.latent_softmax.effort import FULL, Effort
from latentia.estimators.latent_softmax.exact_posterior import ExactPosterior
from latentia.estimators.latent_softmax.fitted import Candidate, Criterion, FittedModel, minus_half_bic
from latentia.estimators.latent_softmax.model_specs import ModelSpec
from latentia.estimators.latent_softmax.modeled_rows import ModeledRows
from latentia.solvers import LBFGS, AcceleratedEM, DampedAscent, Outcome, Solution, Step, StepCallback
from latentia.table.standardization import Standardizer

INITIAL_VARIANCE = 0.1  # of the weights' posterior at first

CONVEX_TOL = 1e-13  # of L-BFGS where the likelihood has one maximum

ANNEALING = (0.2, 0.5)  # inverse temperatures before 1

ANNEALING_STEPS = 20


class Options(NamedTuple):
    """How to train."""

    n_init: int
    max_iter: int  # of each solver
    tol: float
    ridge: float
    annealing: bool
    effort: Effort = FULL

    @property
    def n_restarts(self) -> int:
        """Restarts that go on from maximum likelihood."""
        return min(self.n_init, self.effort.max_init or self.n_init)


class Trained(NamedTuple):
    """The best restart as a model, and how all restarts went."""

    model: FittedModel
    solution: Solution
    winner: int
    outcome: Outcome
    log_evidence: float = float("nan")
    corrected_log_evidence: float = float("nan")


class Inference(ABC):
    """How a model is learned from points, one per restart along the first axis."""

    @abstractmethod
    def needs_screening(self, spec: ModelSpec) -> bool:
        """Whether it matters from which points of maximum likelihood it goes on."""

    @abstractmethod
    def initial_points(self, spec: ModelSpec, points: list[Params], effort: Effort) -> list[Params]:
        """The points of maximum likelihood to go on from."""

    @abstractmethod
    def train(
        self, spec: ModelSpec, rows: ModeledRows, points: Params, options: Options, on_step: StepCallback
    ) -> Trained:
        """Learn from every point; callbacks get a `FittedModel` as the parameters of a step."""

    @abstractmethod
    def go_on(
        self, spec: ModelSpec, rows: ModeledRows, trained: Trained, options: Options, on_step: StepCallback
    ) -> Trained:
        """Learn from rows of which `trained` has seen a sample."""

    @abstractmethod
    def trained_family(self, model: FittedModel) -> tuple[ConditionalFamily, Params]:
        """The family that was trained, with its parameters."""

    @abstractmethod
    def score(self, candidate: Candidate, criterion: Criterion) -> float:
        """What the choice among models trained on all rows maximizes."""

    @abstractmethod
    def evidence_attributes(self, candidate: Candidate) -> dict[str, Any]:
        """Learned attributes that only this inference has."""


class MaximumLikelihood(Inference):
    """The likelihood, or with a ridge the posterior, is maximized by L-BFGS from every point."""

    def needs_screening(self, spec: ModelSpec) -> bool:
        return not spec.is_convex

    def initial_points(self, spec: ModelSpec, points: list[Params], effort: Effort) -> list[Params]:
        return points

    def train(
        self, spec: ModelSpec, rows: ModeledRows, points: Params, options: Options, on_step: StepCallback
    ) -> Trained:
        """On the standardized rows, where columns of any units are alike."""
        problem = RowProblem(spec.likelihood(options.ridge), Likelihood(), rows.standardized)
        # A quasi-Newton step gains far less than an EM step that is equally far from its end; and
        # the single optimum of a convex problem is found to the last digits.
        tol = min(options.tol * 1e-2, CONVEX_TOL if spec.is_convex else 1.0)
        solver = LBFGS(options.max_iter, tol)

        def modeled(point: Params) -> Params:
            return spec.undo_standardization(point, rows.preprocess)

        tell = _telling(on_step, lambda point: FittedModel(spec, modeled(point)))
        scale = rows.preprocess.scale
        standardized = spec.undo_standardization(points, Standardizer(-rows.preprocess.shift / scale, 1 / scale, None))
        ends = [solver.solve(problem, take_restarts(standardized, [k]), tell) for k in range(_n_restarts(points))]
        solution = Solution(
            stack_restarts([modeled(select_restart(end.params, 0)) for end in ends]),
            np.concatenate([end.value for end in ends]),
            [end.curves[0] for end in ends],
            np.concatenate([end.n_iter for end in ends]),
            [end.outcomes[0] for end in ends],
        )
        winner = int(np.argmax(solution.value))
        model = FittedModel(spec, select_restart(solution.params, winner))
        return Trained(model, solution, winner, solution.outcomes[winner])

    def go_on(
        self, spec: ModelSpec, rows: ModeledRows, trained: Trained, options: Options, on_step: StepCallback
    ) -> Trained:
        return self.train(spec, rows, add_restart_axis(trained.model.point_estimate), options, on_step)

    def trained_family(self, model: FittedModel) -> tuple[ConditionalFamily, Params]:
        return model.spec.likelihood(), model.point_estimate

    def score(self, candidate: Candidate, criterion: Criterion) -> float:
        """BIC replaces both evidences, of which a point estimate has none."""
        return minus_half_bic(candidate)

    def evidence_attributes(self, candidate: Candidate) -> dict[str, Any]:
        return {}


class VariationalBayes(Inference):
    """The posterior under the quadratic bound; of the best, that under the exact likelihood."""

    def needs_screening(self, spec: ModelSpec) -> bool:
        return True

    def initial_points(self, spec: ModelSpec, points: list[Params], effort: Effort) -> list[Params]:
        """Of a convex model, all that are equal in likelihood: the bound tells them apart."""
        return spec.equivalent_points(points[0]) if spec.is_convex and effort.tries_equivalents else points

    def train(
        self, spec: ModelSpec, rows: ModeledRows, points: Params, options: Options, on_step: StepCallback
    ) -> Trained:
        posteriors = spec.posterior_around(points, INITIAL_VARIANCE)
        if options.annealing:
            for beta in ANNEALING:
                problem = RowProblem(spec.variational(beta), Likelihood(), rows.modeled)
                posteriors = AcceleratedEM(ANNEALING_STEPS, options.tol).solve(problem, posteriors).params
        bound = _ascend_bound(spec, rows.modeled, posteriors, options, on_step)
        return _ascend_exact(spec, rows.modeled, *bound, None, options, on_step)

    def go_on(
        self, spec: ModelSpec, rows: ModeledRows, trained: Trained, options: Options, on_step: StepCallback
    ) -> Trained:
        """Each of both posteriors from its own of the sample."""
        start = add_restart_axis(trained.model.bound_posterior)
        bound = _ascend_bound(spec, rows.modeled, start, options, on_step)
        return _ascend_exact(spec, rows.modeled, *bound, trained.model.exact_posterior, options, on_step)

    def trained_family(self, model: FittedModel) -> tuple[ConditionalFamily, Params]:
        return model.spec.variational(), model.bound_posterior

    def score(self, candidate: Candidate, criterion: Criterion) -> float:
        return criterion.score(candidate)

    def evidence_attributes(self, candidate: Candidate) -> dict[str, Any]:
        return {
            "log_evidence_": candidate.log_evidence,
            "corrected_log_evidence_": candidate.corrected_log_evidence,
        }


#: Inferences by the names users give.
INFERENCES: dict[str, Inference] = {"vb": VariationalBayes(), "ml": MaximumLikelihood()}


def _ascend_bound(
    spec: ModelSpec, rows: TableSource, params: Params, options: Options, on_step: StepCallback
) -> tuple[Solution, int]:
    """Variational Bayes from all posteriors, by successive halving; and the best that ran to its
    end.

    Of restarts at the same optimum, rounding may lift one that was dropped above the one that ran
    on.
    """
    problem = RowProblem(spec.variational(), Likelihood(), rows)
    tell = _telling(on_step, lambda posterior: FittedModel(spec, spec.point_of(posterior), posterior, posterior))
    running = np.arange(_n_restarts(params))
    effort, solution = options.effort, None
    steps_left, tol = options.max_iter, options.tol * effort.tol_factor
    if spec.is_bounded and effort.max_bound_steps is not None:
        steps_left = min(steps_left, effort.max_bound_steps)
    for n_steps, n_kept in effort.convex_halving if spec.is_convex else effort.successive_halving:
        if len(running) <= n_kept or steps_left <= n_steps:
            continue
        part = AcceleratedEM(n_steps, tol).solve(problem, params, tell)
        solution = part if solution is None else _continued(solution, part, running)
        steps_left -= n_steps
        running = np.argsort(-solution.value)[:n_kept]
        params = take_restarts(solution.params, running.tolist())
    final = AcceleratedEM(steps_left, tol).solve(problem, params, tell)
    winner = int(running[np.argmax(final.value)])
    return (final if solution is None else _continued(solution, final, running)), winner


def _ascend_exact(
    spec: ModelSpec,
    rows: TableSource,
    solution: Solution,
    winner: int,
    start: Params | None,
    options: Options,
    on_step: StepCallback,
) -> Trained:
    """The posterior under the exact likelihood, from `start` or from the best under the bound."""
    bound_posterior = select_restart(solution.params, winner)
    families = [ExactPosterior(spec, n_points) for n_points in options.effort.n_points]

    def model_at(params: Params) -> FittedModel:
        posterior = families[0].posterior_of(params)
        return FittedModel(spec, spec.point_of(posterior), bound_posterior, posterior)

    solver = DampedAscent(
        options.max_iter, spec.exact_posterior_tol * options.effort.tol_factor, name="exact posterior"
    )
    if start is not None:  # what the bound alone learns is that of all rows
        start = spec.with_softmax_posteriors(bound_posterior, spec.softmax_posteriors(start))
    params = families[0].from_bound(add_restart_axis(bound_posterior if start is None else start))
    for family in families:  # most of the way over few points, which costs little
        exact = solver.solve(RowProblem(family, Likelihood(), rows), params, _telling(on_step, model_at))
        params = exact.params
    outcome = solution.outcomes[winner]
    # each permutation of the parts is a posterior of its own, as good as this one and far from it:
    # together they hold so many times its probability
    return Trained(
        model_at(select_restart(params, 0)),
        solution,
        winner,
        exact.outcomes[0] if outcome.converged and not exact.outcomes[0].converged else outcome,
        float(solution.value[winner]) - spec.log_permutations,
        float(exact.value[0]) + spec.log_permutations,
    )


def _continued(before: Solution, after: Solution, running: np.ndarray) -> Solution:
    """All restarts, those that were still `running` with what came after."""
    params = [select_restart(before.params, k) for k in range(len(before.value))]
    curves, outcomes = list(before.curves), list(before.outcomes)
    value, n_iter = before.value.copy(), before.n_iter.copy()
    for k, restart in enumerate(running):
        params[restart] = select_restart(after.params, k)
        curves[restart] = np.concatenate([before.curves[restart], after.curves[k][1:]])
        value[restart] = after.value[k]
        n_iter[restart] += after.n_iter[k]
        outcomes[restart] = after.outcomes[k]
    return Solution(stack_restarts(params), value, curves, n_iter, outcomes)


def _telling(on_step: StepCallback, model_at: Callable[[Params], FittedModel]) -> StepCallback:
    """A callback for a solver, which tells another of its steps with models as parameters."""

    def tell(step: Step) -> bool:
        return on_step(step._replace(params=lambda: model_at(step.params())))

    return tell


def _n_restarts(tree: Params) -> int:
    return int(next(leaves(tree)).shape[0])
