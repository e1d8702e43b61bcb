"""Training of one candidate model after another on the same rows.

1. L-BFGS on the standardized rows from random weights of two sizes and from k-means centroids, with
   a light ridge (the paper starts from maximum likelihood, too). It costs little and its value
   foretells the bound's, so three times as many restarts are tried as go on. The one maximum of a
   convex likelihood is found from any point, so there step 2 follows at once.
2. Variational Bayes or maximum likelihood from those points (`inference`). Of a large table, where
   there are several optima, a sample sees all restarts, and all rows the one that is best there.
3. Its score: on held-out rows, or by what the criterion says.

The two ways to learn a model: variational Bayes and maximum likelihood.

Each says how points become a fitted model, what is published of it, and what models are compared
by.

Variational Bayes runs from all points in one batch; after a while only the best go on. With
`annealing`, first at lower inverse temperatures (section VI.B of Ahmed & Campbell 2011). The
quadratic bound is not tight: its means are too confident, and its value is unfair to models with
more parts. So from the winner's posterior the normal posterior under the exact likelihood is found
(`exact_posterior`), which predicts, and whose evidence bound compares models.

How much is spent on one model: all that it needs, or as much as a comparison needs.

Models that are compared on held-out rows need not be trained to the end: their log scores are
random in the second digit, and the winner is trained again on all rows. So they get three restarts,
few steps of the bound, and an ascent to the exact posterior over fewer points that ends sooner.

Nor need all rows of a large table choose between models or restarts: a sample does, and the best is
trained on all rows.

Rows as softmax models see them, samples of them, and those that have weight.

Equal rows as one row of their joint weight, and rows to be held out.

Restarts and held-out rows are drawn at random. Drawn among rows as they came, a row of weight two
and that row twice would be drawn differently, and a row might be held out while its twin is trained
on. So equal rows are merged first and put in an order of their own: a fit is then the same, to the
last digit, however its rows were written down, and equal rows are computed once.

Only the rows of small tables are compared (`inputs.small_tables`): a copy of others might not fit
into memory, and draws of many rows differ little.

What every search over sizes follows: which model wins, and when to try no more.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from latentia.arrays.namespace import Array, take_rows, to_numpy
from latentia.engine.contracts import ConditionalFamily, Params
from latentia.engine.rows import ArraySource, TableSource
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import add_restart_axis, leaves, select_restart, stack_restarts, take_restarts
from latentia.estimators.base.estimator import StepNotifier
from latentia.estimators.softmax.exact_posterior import N_POINTS, ExactPosterior
from latentia.estimators.softmax.models import Averaging, Candidate, Criterion, FittedModel, ModelSpec, minus_half_bic
from latentia.solvers import LBFGS, AcceleratedEM, BatchedLBFGS, DampedAscent, Outcome, Solution, Step, StepCallback
from latentia.table.standardization import Standardizer

#: Precision of the weights in the likelihood that initial points maximize, on standardized rows.
INITIAL_RIDGE = 0.01

#: Restarts tried by likelihood for each that goes on.
SCREENING_FACTOR = 3

#: Fraction of the rows on which `criterion="validation"` compares models.
HELD_OUT = 0.25


@dataclass(frozen=True)
class Trainer:
    """Trains and scores candidates.

    `log_unit` is the log of the volume of a unit of the outputs, by which log densities of modeled
    outputs exceed those of the outputs as they came; zero for classes.
    """

    rows: ModeledRows
    held_out: ArraySource | None
    inference: Inference
    criterion: Criterion
    averaging: Averaging
    options: Options
    rng: np.random.Generator
    notifier: StepNotifier
    log_unit: float = 0.0

    @property
    def stopped(self) -> bool:
        """Whether a callback has asked to stop."""
        return self.notifier.stopped

    def train(self, spec: ModelSpec, extra_points: tuple[Params, ...] = ()) -> Candidate:
        """Train a model, also from `extra_points`, and score it."""
        candidate = self._train(spec, extra_points)
        return candidate._replace(score=self._score(candidate))

    def train_on(self, rows: ModeledRows, candidate: Candidate) -> Candidate:
        """Train a candidate's model to the end, on other rows and also from its point estimate."""
        full = replace(self, rows=rows, options=self.options._replace(effort=FULL))
        return full._train(candidate.model.spec, (candidate.model.point_estimate,))

    def _train(self, spec: ModelSpec, extra_points: tuple[Params, ...]) -> Candidate:
        began = time.perf_counter()
        rows = self.rows.modeled
        log_jacobian = rows.total_weight * self.log_unit

        def tell(step: Step) -> bool:
            return self.notifier(step._replace(value=step.value - log_jacobian))

        some = self.rows if spec.is_convex else self.rows.sample(self.rng)
        points = stack_restarts([*self._initial_points(spec, some), *extra_points])
        trained = self.inference.train(spec, some, points, self.options, tell)
        if some is not self.rows:
            trained = self.inference.go_on(spec, self.rows, trained, self.options, tell)
        point = trained.model.point_estimate
        log_likelihood = float(to_numpy(RowProblem(spec.likelihood(), Likelihood(), rows).sweep(point).value))
        penalty = spec.n_free(rows.n_features + 1) * float(np.log(rows.total_weight))
        solution, winner = trained.solution, trained.winner
        return Candidate(
            model=trained.model,
            curve=solution.curves[winner],
            n_iter=int(solution.n_iter[winner]),
            outcome=trained.outcome,
            restart_objectives=-np.sort(-solution.value),
            log_evidence=trained.log_evidence,
            corrected_log_evidence=trained.corrected_log_evidence,
            log_likelihood=log_likelihood,
            bic=-2 * log_likelihood + penalty,
            seconds=time.perf_counter() - began,
        ).in_units(log_jacobian)

    def _initial_points(self, spec: ModelSpec, rows: ModeledRows) -> list[Params]:
        """Points of maximum likelihood for the modeled rows, one per restart."""
        family = spec.likelihood(INITIAL_RIDGE)
        n_kept, effort = self.options.n_restarts, self.options.effort
        n_restarts = 1 if spec.is_convex else SCREENING_FACTOR * n_kept
        random_points = family.init(rows.standardized, self.rng, n_restarts)
        if self.inference.needs_screening(spec):
            problem = RowProblem(family, Likelihood(), rows.standardized)
            solver = BatchedLBFGS(min(effort.screening_steps, self.options.max_iter), effort.screening_tol)
            solution = solver.solve(problem, random_points)
            best = np.argsort(-solution.value, kind="stable")[:n_kept]
            points = [select_restart(solution.params, int(k)) for k in best]
        else:
            points = [select_restart(random_points, 0)]
        modeled = [spec.undo_standardization(point, rows.preprocess) for point in points]
        return self.inference.initial_points(spec, modeled, effort)

    def _score(self, candidate: Candidate) -> float:
        """What the choice of the model maximizes."""
        if self.held_out is None:
            return self.inference.score(candidate, self.criterion)
        weight = self.held_out.weight
        weight = np.ones(self.held_out.n_rows) if weight is None else weight
        return HeldOutScore(candidate.model.log_predictive(self.averaging, self.held_out) - self.log_unit, weight)


def hold_out(rows: ModeledRows, rng: np.random.Generator) -> tuple[ModeledRows, ArraySource | None]:
    """Rows to train on, and a quarter of each class to compare on; None if that is nothing."""
    rows = rows.sample(rng)
    source = rows.modeled
    if not rows.are_distinct:
        rest, apart = source.hold_out(HELD_OUT, rng)
        return (rows, None) if apart is None else (rows.replace(rest), apart)
    assert isinstance(source, ArraySource)
    labels = source.y if source.y.ndim == 1 and source.y.dtype.kind in "iu" else np.zeros(source.n_rows, dtype=int)
    held_out = held_out_weight(source.X, labels, source.weight, HELD_OUT, rng)
    if not held_out.any():
        return rows, None
    kept = (1.0 if source.weight is None else source.weight) - held_out
    return rows.replace(with_weight(source, kept)), with_weight(source, held_out)


#: Rows of a sample, or so many for each column where that is more.
SAMPLE_ROWS = 10_000
SAMPLE_ROWS_PER_COLUMN = 100


class Effort(NamedTuple):
    """Limits of the training of one model."""

    max_init: int | None  # restarts at most; None for as many as the user wants
    screening_steps: int  # of L-BFGS, which finds the initial points
    screening_tol: float
    #: After so many steps of variational Bayes only so many restarts go on: few laggards win.
    successive_halving: tuple[tuple[int, int], ...]
    convex_halving: tuple[tuple[int, int], ...]  # of restarts that are equal in likelihood
    max_bound_steps: int | None  # where the exact posterior replaces all that the bound has found
    tol_factor: float  # of the tolerances of variational Bayes and of the exact posterior
    n_points: tuple[int, ...]  # of the averages over scores, of one ascent to the exact posterior after the other
    tries_equivalents: bool  # whether points that are equal in likelihood are told apart by the bound


FULL = Effort(
    max_init=None,
    screening_steps=200,
    screening_tol=1e-4,
    successive_halving=((40, 4), (80, 2)),
    convex_halving=((10, 2),),
    max_bound_steps=None,
    tol_factor=1.0,
    n_points=(16, N_POINTS),
    tries_equivalents=True,
)

COARSE = Effort(
    max_init=3,
    screening_steps=60,
    screening_tol=1e-3,
    successive_halving=((10, 1),),
    convex_halving=(),
    max_bound_steps=15,
    tol_factor=20.0,
    n_points=(16,),
    tries_equivalents=False,
)


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


class ModeledRows(NamedTuple):
    """The same rows as they are modeled and standardized, often one and the same."""

    modeled: TableSource
    standardized: TableSource
    preprocess: Standardizer  # from the former to the latter
    are_distinct: bool = True  # whether equal rows were merged, as those of small tables are

    def sample(self, rng: np.random.Generator) -> ModeledRows:
        """Random rows of a large table, of each class its share; all rows of others."""
        n_rows = max(SAMPLE_ROWS, SAMPLE_ROWS_PER_COLUMN * self.modeled.n_features)
        if self.modeled.n_rows <= n_rows:
            return self
        return self.replace(self.modeled.subset(self.modeled.sample_numbers(n_rows, rng)))

    def replace(self, modeled: TableSource) -> ModeledRows:
        """Other rows, modeled and standardized alike."""
        same = self.standardized is self.modeled
        return self._replace(
            modeled=modeled, standardized=modeled if same else modeled.with_preprocess(self.preprocess.prepare)
        )


def with_weight(rows: ArraySource, weight: np.ndarray) -> ArraySource:
    """The rows of a positive weight, with it."""
    counted = np.flatnonzero(weight > 0)
    some = weight[counted]
    return ArraySource(
        take_rows(rows.X, counted), rows.y[counted], None if (some == 1).all() else some, rows.preprocess
    )


#: Equal inputs with more than this part of all weight are not held out as a whole.
MAX_HELD_OUT = 0.05


def merge_equal_rows(X: Array, y: np.ndarray, weight: np.ndarray | None) -> tuple[Array, np.ndarray, np.ndarray | None]:
    """Distinct pairs of rows (N, D) and labels (N,) or outputs (N, O), and their weights.

    Pairs without weight are dropped; the weights are None if all are one.
    """
    weight = np.ones(X.shape[0]) if weight is None else np.asarray(weight, dtype=float)
    counted = np.flatnonzero(weight > 0)
    first, place = _distinct(np.column_stack([y[counted], to_numpy(X)[counted]]))
    joint = np.bincount(place, weight[counted])
    chosen = counted[first]
    return take_rows(X, chosen), y[chosen], None if (joint == 1).all() else joint


def held_out_weight(
    X: Array, labels: np.ndarray, weight: np.ndarray | None, share: float, rng: np.random.Generator
) -> np.ndarray:
    """The part of each row's weight that is held out, (N,): about a share of each class.

    Equal inputs are held out together, whatever their labels, or not at all; but a few inputs that
    make up a table, such as those of one binary column, give a share of their weight each.
    """
    total = np.ones(X.shape[0]) if weight is None else weight
    first, group = _distinct(to_numpy(X))
    size = np.bincount(group, total)
    heavy = size > MAX_HELD_OUT * total.sum()
    held_out = np.where(heavy, share, 0.0)
    label_of_group = labels[first]
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero((label_of_group == label) & ~heavy))
        held_out[members[np.cumsum(size[members]) <= share * size[members].sum()]] = 1.0
    return held_out[group] * total


def _distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the first of equal rows, and which of those each row equals."""
    rows = np.ascontiguousarray(rows, dtype=float) + 0.0  # minus zero is zero
    as_bytes = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize)))[:, 0]
    _, first, place = np.unique(as_bytes, return_index=True, return_inverse=True)
    return first, place


#: Scores this near to each other are equal: nats of evidence, or of a row's mean log score.
TIE = 1e-3


class HeldOutScore(float):
    """The mean log score of held-out rows, which remembers theirs."""

    rows: np.ndarray
    weight: np.ndarray

    def __new__(cls, rows: np.ndarray, weight: np.ndarray) -> HeldOutScore:
        score = super().__new__(cls, np.average(rows, weights=weight))
        score.rows, score.weight = rows, weight
        return score

    def is_worse(self, than: HeldOutScore) -> bool:
        """Whether the other score is higher by more than the standard error of the difference."""
        gains = than.rows - self.rows
        variance = np.average((gains - (than - self)) ** 2, weights=self.weight)
        return bool(than - self > max(TIE, np.sqrt(variance / self.weight.sum())))


def is_better(score: float, other: float) -> bool:
    """Whether a score exceeds another by more than a tie; NaN exceeds nothing."""
    return bool(score > other + TIE) or bool(np.isnan(other) and not np.isnan(score))


def best_model(scores: Sequence[float], sizes: Sequence[int]) -> int:
    """The smallest model whose score ties with the highest; of equal sizes the first.

    So the choice depends neither on rounding nor on where a solver happened to stop.
    """
    usable = np.where(np.isnan(scores), -np.inf, np.asarray(scores, dtype=float))
    ties = np.flatnonzero(usable >= usable.max() - TIE) if np.isfinite(usable.max()) else np.arange(len(usable))
    return int(ties[np.argmin(np.asarray(sizes)[ties])])


class Patience:
    """Ends a sequence of models after `limit` in a row that were no better; 0 for never.

    One that is worse than chance explains ends it at once.
    """

    def __init__(self, limit: int, best: float = -np.inf):
        self.limit, self.best, self.n_failures = limit, best, 0

    def ends_with(self, score: float) -> bool:
        """Note the score of the next model; whether it was the last to be tried."""
        if is_better(score, self.best):
            self.best, self.n_failures = score, 0
            return False
        hopeless = isinstance(score, HeldOutScore) and isinstance(self.best, HeldOutScore) and score.is_worse(self.best)
        self.n_failures = self.limit if hopeless else self.n_failures + 1
        return self.n_failures == self.limit > 0
