"""Training of candidate models of p(y | x), one after another on the same rows.

A model is a `SoftmaxTree`. Its training has up to three stages (`train`):

1. Points of likelihood. L-BFGS on the standardized rows from random weights of two sizes (and for
   subclasses from k-means centroids), with a light ridge; the paper starts from maximum likelihood,
   too. It costs little and its value foretells the bound's, so three times as many restarts are
   tried as go on. The one maximum of a convex likelihood is found from any point. Maximum
   likelihood ends with this stage, climbed to its end with the user's ridge.
2. The posterior under the quadratic bound, from all points in one batch; after a while only the
   best go on. With `annealing`, first at lower inverse temperatures (section VI.B of Ahmed &
   Campbell 2011). The means under the bound are too confident, and its value is unfair to models
   with more parts.
3. The posterior under the exact likelihood, from the best under the bound. It predicts, and its
   evidence bound compares models.

Not all rows of a large table need to choose between models or restarts: a sample sees all restarts,
and the best of them goes on with all rows. Models that are compared on held-out rows need not be
trained to the end: their log scores are random in the second digit, and the winner is trained again
on all rows. So they get three restarts, few steps of the bound, and an ascent to the exact
posterior over fewer points that ends sooner (`COARSE`).

Restarts and held-out rows are drawn at random. Drawn among rows as they came, a row of weight two
and that row twice would be drawn differently, and a row might be held out while its twin is trained
on. So equal rows of small tables are merged first and put in an order of their own: a fit is then
the same, to the last digit, however its rows were written down, and equal rows are computed once.
A copy of a large table might not fit into memory, and draws of many rows differ little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np
from array_api_compat import is_numpy_array

from latentia.arrays.namespace import Array, namespace, take_rows, to_numpy
from latentia.arrays.parallel import parallel
from latentia.engine.rows import ArraySource, RowRange, TableSource, rows_per_chunk, split_ranges
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import Tree, add_restart_axis, leaves, select_restart, stack_restarts, take_restarts
from latentia.estimators.base.estimator import StepNotifier
from latentia.families.softmax_tree.posterior import N_POINTS, BoundPosterior, ExactParams, ExactPosterior
from latentia.families.softmax_tree.tree import Point, Posterior, SoftmaxTree, TreeLikelihood
from latentia.solvers import LBFGS, AcceleratedEM, BatchedLBFGS, DampedAscent, Outcome, Solution, Step, StepCallback
from latentia.table.standardization import Standardizer

# Fitted models

#: Averages by the names users give: over the exact posterior, over that of the bound, over none.
AVERAGES = ("corrected", "posterior", "plugin")


@dataclass(frozen=True)
class FittedModel:
    """A model and its parameters; by maximum likelihood there is a point estimate alone."""

    tree: SoftmaxTree
    point_estimate: Point
    bound_posterior: Posterior | None = None  # under the quadratic bound
    exact_posterior: Posterior | None = None  # under the exact likelihood

    def estimate(self, averaging: str) -> Point | Posterior:
        """What predicts: a point, or a posterior to be averaged over where there is one."""
        posteriors = {"corrected": self.exact_posterior, "posterior": self.bound_posterior, "plugin": None}
        return posteriors[averaging] or self.point_estimate

    def log_scores(self, averaging: str, rows: ArraySource) -> np.ndarray:
        """Log predictive probabilities or densities (N,) of rows."""
        estimate = self.estimate(averaging)
        size = rows_per_chunk(self.tree.floats_per_row(rows.n_features + 1), rows.X)

        def of_rows(part: RowRange) -> np.ndarray:
            chunk = rows.subset(np.arange(part.start, part.stop)).all_rows()
            return to_numpy(self.tree.log_predictive(estimate, chunk.rows, chunk.y))

        parts = split_ranges([RowRange(0, rows.n_rows, None)], size)
        return np.concatenate(parallel(of_rows, parts, is_numpy_array(rows.X)))


class Candidate(NamedTuple):
    """A fitted model and how its training went."""

    model: FittedModel
    curve: np.ndarray
    n_iter: int
    outcome: Outcome
    restart_objectives: np.ndarray  # where each restart ended, best first
    log_evidence: float  # bound less the log number of permutations; NaN for maximum likelihood
    corrected_log_evidence: float  # exact bound plus the log number of permutations; NaN for maximum likelihood
    log_likelihood: float  # at the point estimate
    bic: float
    seconds: float
    score: float = float("nan")  # what the choice among models maximizes

    @property
    def evidences(self) -> dict[str, float]:
        """What variational Bayes alone has to publish."""
        return {"log_evidence_": self.log_evidence, "corrected_log_evidence_": self.corrected_log_evidence}

    def in_units(self, log_jacobian: float) -> Candidate:
        """The same in units of the outputs in which log densities are less by `log_jacobian`."""
        return self._replace(
            curve=self.curve - log_jacobian,
            restart_objectives=self.restart_objectives - log_jacobian,
            log_evidence=self.log_evidence - log_jacobian,
            corrected_log_evidence=self.corrected_log_evidence - log_jacobian,
            log_likelihood=self.log_likelihood - log_jacobian,
            bic=self.bic + 2 * log_jacobian,
        )


class Criterion(NamedTuple):
    """What models are chosen by: held-out rows, or a number of the rows they were trained on."""

    score: Callable[[Candidate], float]
    holds_out: bool = False


def corrected_log_evidence(candidate: Candidate) -> float:
    return candidate.corrected_log_evidence


def log_evidence(candidate: Candidate) -> float:
    return candidate.log_evidence


def minus_half_bic(candidate: Candidate) -> float:
    return -candidate.bic / 2


#: Criteria by the names users give; "validation" without rows to spare goes by the evidence.
CRITERIA = {
    "validation": Criterion(corrected_log_evidence, holds_out=True),
    "evidence": Criterion(corrected_log_evidence),
    "bound": Criterion(log_evidence),
    "bic": Criterion(minus_half_bic),
}


# The three stages

#: Precision of the weights in the likelihood that initial points maximize, on standardized rows.
INITIAL_RIDGE = 0.01

#: Restarts tried by likelihood for each that goes on.
SCREENING_FACTOR = 3

INITIAL_VARIANCE = 0.1  # of the weights' posterior at first

CONVEX_TOL = 1e-13  # of L-BFGS where the likelihood has one maximum

ANNEALING = (0.2, 0.5)  # inverse temperatures before 1

ANNEALING_STEPS = 20


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


class Options(NamedTuple):
    """How to train."""

    is_bayesian: bool  # whether posteriors follow the points of likelihood
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


def train(
    tree: SoftmaxTree,
    rows: ModeledRows,
    start: Point | FittedModel,
    options: Options,
    on_step: StepCallback,
) -> Trained:
    """Points of likelihood -> bound -> exact posterior.

    From points, one per restart along the first axis, or each stage from what it has found of a
    sample of the rows. Callbacks get a `FittedModel` as the parameters of a step.
    """
    if not options.is_bayesian:
        points = start if isinstance(start, Point) else add_restart_axis(start.point_estimate)
        return climb_likelihood(tree, rows, points, options, on_step)
    if isinstance(start, Point):
        posteriors, seen = anneal(tree, rows.modeled, start, options), None
    else:
        assert start.bound_posterior is not None  # a sample goes through the same stages
        posteriors, seen = add_restart_axis(start.bound_posterior), start.exact_posterior
    solution, winner = climb_bound(tree, rows.modeled, posteriors, options, on_step)
    return climb_exact(tree, rows.modeled, solution, winner, seen, options, on_step)


def initial_points(tree: SoftmaxTree, rows: ModeledRows, options: Options, rng: np.random.Generator) -> list[Point]:
    """Points of maximum likelihood for the modeled rows, one per restart.

    Of a convex model, all that are equal in likelihood: the bound tells them apart.
    """
    family, effort = TreeLikelihood(tree, INITIAL_RIDGE), options.effort
    n_restarts = 1 if tree.is_convex else SCREENING_FACTOR * options.n_restarts
    points = family.init(rows.standardized, rng, n_restarts)
    kept = np.arange(1)
    if options.is_bayesian or not tree.is_convex:
        solver = BatchedLBFGS(min(effort.screening_steps, options.max_iter), effort.screening_tol)
        solution = solver.solve(RowProblem(family, Likelihood(), rows.standardized), points)
        points, kept = solution.params, np.argsort(-solution.value, kind="stable")[: options.n_restarts]
    found = [rows.to_modeled(tree, select_restart(points, int(k))) for k in kept]
    tells_apart = options.is_bayesian and tree.is_convex and effort.tries_equivalents
    return tree.equivalent_points(found[0]) if tells_apart else found


def climb_likelihood(
    tree: SoftmaxTree, rows: ModeledRows, points: Point, options: Options, on_step: StepCallback
) -> Trained:
    """The maximum of the likelihood, or with a ridge of the posterior, by L-BFGS from every point.

    On the standardized rows, where columns of any units are alike.
    """
    problem = RowProblem(TreeLikelihood(tree, options.ridge), Likelihood(), rows.standardized)
    # A quasi-Newton step gains far less than an EM step that is equally far from its end; and
    # the single optimum of a convex problem is found to the last digits.
    solver = LBFGS(options.max_iter, min(options.tol * 1e-2, CONVEX_TOL if tree.is_convex else 1.0))
    notify = _notifying(on_step, lambda point: FittedModel(tree, rows.to_modeled(tree, point)))
    standardized = rows.to_standardized(tree, points)
    ends = [solver.solve(problem, take_restarts(standardized, [k]), notify) for k in range(_n_restarts(points))]
    solution = Solution(
        stack_restarts([rows.to_modeled(tree, select_restart(end.params, 0)) for end in ends]),
        np.concatenate([end.value for end in ends]),
        [end.curves[0] for end in ends],
        np.concatenate([end.n_iter for end in ends]),
        [end.outcomes[0] for end in ends],
    )
    winner = int(np.argmax(solution.value))
    model = FittedModel(tree, select_restart(solution.params, winner))
    return Trained(model, solution, winner, solution.outcomes[winner])


def anneal(tree: SoftmaxTree, rows: TableSource, points: Point, options: Options) -> Posterior:
    """Posteriors about points, after a few steps at lower inverse temperatures if asked for."""
    posteriors = BoundPosterior(tree).posterior_around(points, INITIAL_VARIANCE)
    for beta in ANNEALING if options.annealing else ():
        problem = RowProblem(BoundPosterior(tree, beta), Likelihood(), rows)
        posteriors = AcceleratedEM(ANNEALING_STEPS, options.tol).solve(problem, posteriors).params
    return posteriors


def climb_bound(
    tree: SoftmaxTree, rows: TableSource, params: Posterior, options: Options, on_step: StepCallback
) -> tuple[Solution, int]:
    """Variational Bayes from all posteriors, by successive halving; the best that ran to its end.

    Of restarts at the same optimum, rounding may lift one that was dropped above the one that ran
    on.
    """
    problem = RowProblem(BoundPosterior(tree), Likelihood(), rows)
    notify = _notifying(on_step, lambda found: FittedModel(tree, tree.point_of(found), found, found))
    running = np.arange(_n_restarts(params))
    effort, solution = options.effort, None
    steps_left, tol = options.max_iter, options.tol * effort.tol_factor
    if effort.max_bound_steps is not None and not tree.leaves.n_scores:  # the exact posterior replaces all
        steps_left = min(steps_left, effort.max_bound_steps)
    for n_steps, n_kept in effort.convex_halving if tree.is_convex else effort.successive_halving:
        if len(running) <= n_kept or steps_left <= n_steps:
            continue
        part = AcceleratedEM(n_steps, tol).solve(problem, params, notify)
        solution = part if solution is None else _continued(solution, part, running)
        steps_left -= n_steps
        running = np.argsort(-solution.value)[:n_kept]
        params = take_restarts(solution.params, running.tolist())
    final = AcceleratedEM(steps_left, tol).solve(problem, params, notify)
    winner = int(running[np.argmax(final.value)])
    return (final if solution is None else _continued(solution, final, running)), winner


def climb_exact(
    tree: SoftmaxTree,
    rows: TableSource,
    solution: Solution,
    winner: int,
    seen: Posterior | None,
    options: Options,
    on_step: StepCallback,
) -> Trained:
    """The posterior under the exact likelihood, from the best under the bound or a sample's."""
    bound_posterior = select_restart(solution.params, winner)
    families = [ExactPosterior(tree, n_points) for n_points in options.effort.n_points]

    def model_at(params: ExactParams) -> FittedModel:
        posterior = families[0].to_posterior(params)
        return FittedModel(tree, tree.point_of(posterior), bound_posterior, posterior)

    start = bound_posterior
    if seen is not None:  # what the bound alone learns is that of all rows
        start = bound_posterior._replace(gates=seen.gates)
    params = families[0].from_posterior(add_restart_axis(start))
    tol = tree.leaves.exact_tol * options.effort.tol_factor
    solver = DampedAscent(options.max_iter, tol, name="exact posterior")
    for family in families:  # most of the way over few points, which costs little
        exact = solver.solve(RowProblem(family, Likelihood(), rows), params, _notifying(on_step, model_at))
        params = exact.params
    outcome = solution.outcomes[winner]
    # each permutation of the parts is a posterior of its own, as good as this one and far from it:
    # together they hold so many times its probability
    return Trained(
        model_at(select_restart(params, 0)),
        solution,
        winner,
        exact.outcomes[0] if outcome.converged and not exact.outcomes[0].converged else outcome,
        float(solution.value[winner]) - tree.log_permutations,
        float(exact.value[0]) + tree.log_permutations,
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


def _notifying(on_step: StepCallback, model_at: Callable[..., FittedModel]) -> StepCallback:
    """A callback for a solver, which tells another of its steps with models as parameters."""

    def notify(step: Step) -> bool:
        return on_step(step._replace(params=lambda: cast(Tree, model_at(step.params()))))

    return notify


def _n_restarts(params: Point | Posterior) -> int:
    return int(next(leaves(params)).shape[0])


# One candidate after another


@dataclass(frozen=True)
class Trainer:
    """Trains and scores candidates.

    `log_unit` is the log of the volume of a unit of the outputs, by which log densities of modeled
    outputs exceed those of the outputs as they came; zero for classes.
    """

    rows: ModeledRows
    held_out: ArraySource | None
    criterion: Criterion
    averaging: str
    options: Options
    rng: np.random.Generator
    notifier: StepNotifier
    log_unit: float = 0.0

    @property
    def stopped(self) -> bool:
        """Whether a callback has asked to stop."""
        return self.notifier.stopped

    def train(self, tree: SoftmaxTree, extra_points: Sequence[Point] = ()) -> Candidate:
        """Train a model, also from `extra_points`, and score it."""
        candidate = self._train(tree, extra_points)
        return candidate._replace(score=self._score(candidate))

    def finish(self, rows: ModeledRows, candidate: Candidate) -> Candidate:
        """Train the chosen model to the end, on all rows and also from its point estimate.

        It is as it is where no rows were held out.
        """
        if self.held_out is None:
            return candidate
        full = replace(self, rows=rows, options=self.options._replace(effort=FULL))
        return full._train(candidate.model.tree, [candidate.model.point_estimate])

    def _train(self, tree: SoftmaxTree, extra_points: Sequence[Point]) -> Candidate:
        began = time.perf_counter()
        rows = self.rows.modeled
        log_jacobian = rows.total_weight * self.log_unit

        def notify(step: Step) -> bool:
            return self.notifier(step._replace(value=step.value - log_jacobian))

        some = self.rows if tree.is_convex else self.rows.sample(self.rng)
        points = stack_restarts([*initial_points(tree, some, self.options, self.rng), *extra_points])
        trained = train(tree, some, points, self.options, notify)
        if some is not self.rows:
            trained = train(tree, self.rows, trained.model, self.options, notify)
        point = trained.model.point_estimate
        log_likelihood = float(to_numpy(RowProblem(TreeLikelihood(tree), Likelihood(), rows).sweep(point).value))
        penalty = tree.n_free(rows.n_features + 1) * float(np.log(rows.total_weight))
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

    def _score(self, candidate: Candidate) -> float:
        """What the choice of the model maximizes; BIC where a point has no evidence."""
        if self.held_out is None:
            return self.criterion.score(candidate) if self.options.is_bayesian else minus_half_bic(candidate)
        weight = self.held_out.weight
        weight = np.ones(self.held_out.n_rows) if weight is None else weight
        return HeldOutScore(candidate.model.log_scores(self.averaging, self.held_out) - self.log_unit, weight)


# Rows

#: Rows of a sample, or so many for each column where that is more.
SAMPLE_ROWS = 10_000
SAMPLE_ROWS_PER_COLUMN = 100

#: Fraction of the rows on which `criterion="validation"` compares models.
HELD_OUT = 0.25


class ModeledRows(NamedTuple):
    """The same rows as they are modeled and standardized, often one and the same."""

    modeled: TableSource
    standardized: TableSource
    preprocess: Standardizer  # from the former to the latter
    are_distinct: bool = True  # whether equal rows were merged, as those of small tables are

    def to_modeled(self, tree: SoftmaxTree, point: Point) -> Point:
        """A point of standardized rows as one of the rows as they are modeled."""
        return point_before(tree, point, self.preprocess)

    def to_standardized(self, tree: SoftmaxTree, point: Point) -> Point:
        shift, scale = self.preprocess.shift, self.preprocess.scale
        return point_before(tree, point, Standardizer(-shift / scale, 1 / scale, None))

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


def point_before(tree: SoftmaxTree, point: Point, preprocess: Standardizer) -> Point:
    """A point of standardized rows as one of the rows before."""
    return tree.map_weights(point, lambda weights: undo_standardization(weights, preprocess))


def undo_standardization(weights: Array, preprocess: Standardizer) -> Array:
    """Weights of standardized rows as weights of the rows before."""
    xp = namespace(weights)
    slopes = weights[..., :-1] / preprocess.scale
    bias = weights[..., -1:] - xp.sum(slopes * preprocess.shift, axis=-1, keepdims=True)
    return xp.concat([slopes, bias], axis=-1)


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


# Searches over sizes

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


def search_table(candidates: list[Candidate], **columns: Sequence[object]) -> dict[str, object]:
    """Columns of `search_results_`, which pandas turns into a table."""
    restart_objectives = [candidate.restart_objectives for candidate in candidates]
    return {
        **columns,
        "log_evidence": np.array([candidate.log_evidence for candidate in candidates]),
        "score": np.array([candidate.score for candidate in candidates]),
        "corrected_log_evidence": np.array([candidate.corrected_log_evidence for candidate in candidates]),
        "bic": np.array([candidate.bic for candidate in candidates]),
        "log_likelihood": np.array([candidate.log_likelihood for candidate in candidates]),
        "restart_gap": np.array([float(values[0] - np.median(values)) for values in restart_objectives]),
        "n_restarts": np.array([len(values) for values in restart_objectives]),
        "n_iter": np.array([candidate.n_iter for candidate in candidates]),
        "seconds": np.array([candidate.seconds for candidate in candidates]),
    }
