r"""How generative models are trained: the steps that their `fit` names.

What labels held out say: how much unlabeled rows count, and how much a row says of its class. Under
a model that is only nearly right, many unlabeled rows at full weight drown a few labels. So labels
are held out in folds, and every weight is tried on all of them in one batch: a fold is a column of
weights with zeros. The classes of the rows held out have a temperature and offsets (see
`fitted_model`) for each weight, which are those of the final model, too: rows that trained it would
ask for less. Zero is kept unless another weight is better by more than half a standard error of the
difference. Where few rows have labels, nothing is held out, and each model has a weight of its own.

The start of a column of weights must not know the rows held out either: where most rows have no
label, training hardly leaves a start behind.

Training on a stream: one batch of rows after the other, each seen once.

Stepwise EM (Cappe & Moulines 2009): the statistics that the M-step needs are averages over rows, so
those of a batch are mixed into those of the batches before,

.. math:: s_t = (1 - \rho_t) s_{t-1} + \rho_t \bar s(\text{batch}; \theta_{t-1}), \qquad
          \theta_t = \text{M-step}(N_t s_t),

with :math:`\rho_t = t^{-\kappa}`, t the number of batches of this size that the stream has had. For
posteriors the M-step adds the prior's statistics, so this is stochastic variational Bayes by
natural gradients (Hoffman et al. 2013), with the rows seen so far for a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar, cast

import numpy as np

from latentia.arrays.namespace import Array, log_softmax, namespace, to_numpy, transpose
from latentia.engine.contracts import EMFamily, GenerativeFamily, GenerativeParams, PosteriorFamily
from latentia.engine.rows import (
    ArraySource,
    Chunk,
    MaskedRows,
    Preprocessor,
    Source,
    TableSource,
    Totals,
    map_rows,
    rows_per_chunk,
)
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import Tree, leaves, select_restart, take_restarts, tree_map
from latentia.estimators.base.estimator import Attributes
from latentia.estimators.base.fitted_model import FittedModel, LabeledRows, Tempering, best_tempering, count_known
from latentia.estimators.base.reading import GenerativeInput, TrainingTable
from latentia.solvers import EM, Outcome, Solution, Solver, StepCallback, ignore_step
from latentia.table.weights import content_keys, folds_by_content, sum_of_cubes

#: Labeled rows that are looked at, at most, evenly spaced among those with weight.
MAX_TEMPERED_ROWS = 5000

#: EM in the folds need not settle.
MAX_ITER = 60


def most_probable_start(solution: Solution, source: TableSource, rng: np.random.Generator) -> int:
    """The start whose objective rose highest."""
    return int(np.argmax(solution.value))


class Plan(NamedTuple):
    """What is trained, and how, once the rows are known."""

    family: GenerativeFamily  # which predicts
    trained: Any  # whose parameters are raised: a posterior of the family's, or the family itself
    solver: Solver[Any]  # of the likelihood
    n_starts: int
    choose_start: Callable[[Solution, TableSource, np.random.Generator], int] = most_probable_start
    rough_steps: int = MAX_ITER  # of EM, where settings are only compared
    weight_of_few_labels: float = 0.0  # of unlabeled rows, where the labels are too few to choose it by

    @property
    def is_posterior(self) -> bool:
        return isinstance(self.trained, PosteriorFamily)

    @property
    def points(self) -> Plan:
        """The same, with the parameters themselves to be raised."""
        return self._replace(trained=self.family)


class GenerativeFit(NamedTuple):
    """A trained model and how its solver went."""

    model: FittedModel
    solution: Solution
    log_jacobian: float  # what the log density of all rows loses to the units of X
    is_posterior: bool  # whether the value of the solution is a bound of the evidence
    unlabeled_weight: float

    @property
    def outcome(self) -> Outcome:
        return self.solution.outcomes[0]


def model_at(family: GenerativeFamily, trained: EMFamily, table: TrainingTable, params: Tree) -> FittedModel:
    """The model at parameters of what is trained, the family or a posterior of its parameters."""
    point = trained.predictive(params) if isinstance(trained, PosteriorFamily) else params
    family, point = family.canonical(point)
    return FittedModel(family, point, table.preprocessor, table.encoder)


def raise_likelihood(
    plan: Plan, source: TableSource, rng: np.random.Generator, notifier: StepCallback = ignore_step
) -> Solution:
    """EM from all starts in one batch; the winner alone is returned."""
    trained = plan.trained
    params = trained.init(source if plan.is_posterior else source.labeled_only(), rng, plan.n_starts)
    problem = RowProblem(trained, Likelihood(), trained.condensed(Likelihood(), source))
    solution = plan.solver.solve(problem, params, notifier)
    return solution.select_restart(plan.choose_start(solution, source, rng))


def raise_columns(
    plan: Plan, table: GenerativeInput, columns: np.ndarray, unlabeled_weight: float, rng: np.random.Generator
) -> list[GenerativeFit]:
    """What each of the columns (N, S) of weights makes of the likelihood, all in one batch.

    A fold of cross-validation is a column with zeros for the rows held out: all folds, and the
    model of all rows, are starts of one run over the same rows.
    """
    trained = plan.trained
    weight = np.repeat(columns, plan.n_starts, axis=1) * np.where(table.codes < 0, unlabeled_weight, 1.0)[:, None]
    source = ArraySource(table.X, table.codes, weight, table.preprocessor.prepare)
    starts = np.split(np.arange(weight.shape[1]), columns.shape[1])  # of each column
    params = column_starts(trained, source, starts, rng)
    problem = RowProblem(trained, Likelihood(), trained.condensed(Likelihood(), source))
    solution = plan.solver.solve(problem, params)
    fits = []
    for index in starts:
        mine = solution.take_restarts(index.tolist())
        own = mine.select_restart(plan.choose_start(mine, source.take_restarts(index), rng))
        model = model_at(plan.family, trained, table, select_restart(own.params, 0))
        fits.append(GenerativeFit(model, own, 0.0, plan.is_posterior, unlabeled_weight))
    return fits


def choose_tempering(
    model: FittedModel, source: TableSource, temperature: float | str, is_posterior: bool, with_offsets: bool = True
) -> Tempering:
    """That of the option, or of labeled rows that trained a posterior; points have one."""
    if not isinstance(temperature, str):
        return Tempering(float(temperature))
    if not is_posterior:
        return Tempering()
    labeled = source.spread_rows(MAX_TEMPERED_ROWS, labeled=True)
    weight = np.ones(labeled.y.size) if labeled.weight is None else labeled.weight
    family, params = model.family.rough(), model.params

    def of_rows(rows: MaskedRows) -> Array:
        """Log likelihoods of the classes, and after them the numbers of known cells."""
        log_likelihood = transpose(family.infer(params, rows).log_joint) - params.log_prior
        return namespace(log_likelihood).concat([log_likelihood, count_known(rows)[:, None]], axis=1)

    found = to_numpy(model.map_rows(labeled.X, of_rows, family.floats_per_row(params))).astype(float).T
    return best_tempering(LabeledRows(found[:-1], found[-1], labeled.y, weight), with_offsets)


#: One confident mistake must not decide when to stop.
MAX_LOG_LOSS = 50.0


def log_jacobian_sum(source: Source, preprocessor: Preprocessor) -> float:
    """What the change of units takes from the log density of all rows."""

    def visit(chunk: Chunk) -> Totals:
        log_det = preprocessor.log_det_jacobian(chunk.rows)
        return {"sum": namespace(log_det).sum(chunk.weighted(log_det))}

    size = rows_per_chunk(3 * source.n_features, preprocessor.shift)
    return float(to_numpy(source.sum_over_chunks(visit, size)["sum"]))


def validation_loss(family: GenerativeFamily, held_out: ArraySource) -> Callable[[Tree], float]:
    """A function: the weighted share of rows that parameters misclassify; log loss breaks ties."""
    weight = np.ones(held_out.n_rows) if held_out.weight is None else held_out.weight

    def loss(params: Tree) -> float:
        def scores(rows: MaskedRows) -> Array:
            return log_softmax(family.infer(params, rows).log_joint, axis=-2)

        max_rows = rows_per_chunk(family.floats_per_row(params), next(leaves(params)))
        parts = map_rows(held_out.X, held_out.preprocess, scores, max_rows)
        log_proba = np.concatenate([to_numpy(p) for p in parts], axis=1)
        wrong = np.argmax(log_proba, axis=0) != held_out.y
        log_loss = np.minimum(-log_proba[held_out.y, np.arange(held_out.n_rows)], MAX_LOG_LOSS)
        return float((weight * (wrong + 1e-3 * log_loss / MAX_LOG_LOSS)).sum() / weight.sum())

    return loss


#: Weights tried, the default first.
WEIGHTS = (0.0, 0.1, 1.0)

#: Folds where weights of unlabeled rows are compared, and where only a temperature is looked for.
N_FOLDS = 3
N_TEMPERED_FOLDS = 5

#: Rows of each label that the choice looks at, at most.
MAX_HELD_OUT_ROWS = 500

#: Labeled rows that together weigh less choose nothing.
MIN_LABELED = 30

#: Standard errors by which each weight must be better than a smaller one. Full weight can cost more
#: than it gains: a fit follows the unlabeled rows farther than the few steps of the folds do.
N_ERRORS = (0.0, 0.5, 1.5)

#: Leads of fewer nats a row are none: of few labels held out, all may be predicted by chance.
MIN_LEAD = 0.01

#: One confident mistake must not decide.
MAX_LOSS = 5.0


class HeldOutChoice(NamedTuple):
    """What labels held out ask for."""

    unlabeled_weight: float
    tempering: Tempering | None  # None: no labels were held out


def choose_by_held_out_labels(
    plan: Plan, rows: TableSource, unlabeled_weight: float | str, tempers: bool, rng: np.random.Generator
) -> HeldOutChoice:
    """The weight of unlabeled rows, if it is left to us one of `WEIGHTS`, and a temperature, if so.

    Both are those of least log loss of labels held out, where these are enough.
    """
    any_unlabeled = -1 in rows.label_totals and rows.label_totals[-1].n_weighted > 0
    chooses, tempers = any_unlabeled and isinstance(unlabeled_weight, str), tempers and plan.is_posterior
    given = 1.0 if isinstance(unlabeled_weight, str) else float(unlabeled_weight)
    if not chooses and not tempers:
        return HeldOutChoice(given, None)
    rng = rng if chooses else np.random.default_rng(0)  # the starts of a fit do not hang on its temperature
    source = rows.draw_rows(MAX_HELD_OUT_ROWS, rng, by_weight=False)
    factors, n_folds = (WEIGHTS, N_FOLDS) if chooses else ((given,), N_TEMPERED_FOLDS)
    folds = assign_folds(source, n_folds)
    weight = np.ones(source.n_rows) if source.weight is None else source.weight
    if folds.max() < 1 or weight[folds >= 0].sum() < MIN_LABELED:  # there are no rows to spare
        return HeldOutChoice(plan.weight_of_few_labels if chooses else given, None)
    rough = plan.trained.rough(is_small=chooses)
    log_likelihoods = _held_out_log_likelihoods(rough, plan.rough_steps, source, folds, factors, rng)
    held_out = np.concatenate([np.flatnonzero(folds == fold) for fold in range(folds.max() + 1)])
    codes, weight = source.y[held_out], weight[held_out]
    known = to_numpy(count_known(source.subset(held_out).all_rows().rows)).astype(float)
    seen = [LabeledRows(each, known, codes, weight).with_bounded_mistakes for each in log_likelihoods]
    temperings = [best_tempering(rows) if plan.is_posterior else Tempering() for rows in seen]
    losses = [rows.log_losses(tempering) for rows, tempering in zip(seen, temperings, strict=True)]
    best = _best(np.minimum(losses, MAX_LOSS), weight)
    return HeldOutChoice(factors[best], temperings[best] if tempers else None)


def _held_out_log_likelihoods(
    family: EMFamily,
    max_iter: int,
    source: ArraySource,
    folds: np.ndarray,
    factors: Sequence[float],
    rng: np.random.Generator,
) -> np.ndarray:
    """Of each weight: log likelihoods (C, n_rows) of the rows of all folds, one after the other, by
    models that did not see them.
    """
    n_folds = int(folds.max()) + 1
    settings = [(fold, factor) for fold in range(n_folds) for factor in factors]
    weight = np.ones(source.n_rows) if source.weight is None else source.weight
    columns = [np.where(folds == fold, 0.0, weight) * np.where(source.y < 0, factor, 1.0) for fold, factor in settings]
    batch = ArraySource(source.X, source.y, np.stack(columns, axis=1), source.preprocess)
    params = column_starts(family, batch, np.split(np.arange(len(settings)), n_folds), rng)
    params = EM(max_iter, 1e-3).solve(RowProblem(family, Likelihood(), batch), params).params
    parts = []
    for fold in range(n_folds):
        mine = take_restarts(params, list(range(fold * len(factors), (fold + 1) * len(factors))))
        joint = _log_joints(family, mine, source.subset(np.flatnonzero(folds == fold)))
        log_prior = cast(GenerativeParams, mine).log_prior
        parts.append(joint - to_numpy(log_prior).astype(float)[..., None])
    return np.concatenate(parts, axis=-1)


def _best(losses: np.ndarray, weight: np.ndarray) -> int:
    """The number of the best row of `losses`, or of one before it where the lead may be chance."""
    share, best = weight / weight.sum(), 0
    for number, n_errors in enumerate(N_ERRORS[: len(losses)]):
        lead = losses[best] - losses[number]
        error = np.sqrt(share @ (lead - lead @ share) ** 2 / weight.sum())  # a row of weight two is that row twice
        best = number if lead @ share > max(n_errors * error, MIN_LEAD) else best
    return best


def assign_folds(source: ArraySource, n_folds: int) -> np.ndarray:
    """The fold of each row; -1 for unlabeled rows and for classes with too few rows.

    By the rows' content: equal rows share a fold, so a row of weight two is that row twice, and
    neither units nor the order of rows and columns matter.
    """
    rows = source.all_rows().rows.values
    weight = np.ones(source.n_rows) if source.weight is None else source.weight
    keys = content_keys(rows, sum_of_cubes(rows, weight) / weight.sum())
    return folds_by_content(keys, source.y, weight, n_folds)


def _log_joints(family: EMFamily, params: Any, source: ArraySource) -> np.ndarray:
    """Of each restart, class and row, in the order of the rows."""
    chunk: Chunk = source.all_rows()
    size = rows_per_chunk(family.floats_per_row(params), next(leaves(params)))
    parts = []
    for first in range(0, source.n_rows, size):
        here = slice(first, min(first + size, source.n_rows))
        observed = None if chunk.rows.observed is None else chunk.rows.observed[here, ...]
        rows = chunk.rows._replace(values=chunk.rows.values[here, ...], observed=observed)
        parts.append(to_numpy(family.infer(params, rows).log_joint).astype(float))
    return np.concatenate(parts, axis=-1)


def column_starts(
    family: EMFamily, source: ArraySource, groups: Iterable[np.ndarray], rng: np.random.Generator
) -> Tree:
    """Parameters to start from, those of a group of columns by the rows that have weight in it.

    Points start from labeled rows alone. All groups see the same random numbers.
    """
    seed, parts = int(rng.integers(2**31)), []
    for columns in groups:
        rows = source.take_restarts(columns)
        rows = rows.labeled_only() if isinstance(family, GenerativeFamily) else rows
        parts.append(family.init(rows, np.random.default_rng(seed), columns.size))
    return tree_map(lambda *each: namespace(*each).concat(each, axis=0), *parts)


#: The points of an estimator, and their posterior.
G = TypeVar("G", bound=GenerativeFamily)
P = TypeVar("P", bound=PosteriorFamily)


@dataclass(frozen=True)
class Stream(Generic[G, P]):
    """What is kept of all batches: no row of them."""

    data: GenerativeInput  # how rows are read; its own rows are gone
    family: G
    trained: G | P  # the posterior, or the points themselves
    params: Tree  # of the latter, one restart
    stats: Tree  # averages, per unit of weight
    weight: float  # of all rows so far
    unlabeled_weight: float
    label_counts: np.ndarray  # (C,) rows of each class so far
    n_rows: int
    curve: tuple[float, ...]  # the objective of each batch per unit of weight, before it was learned from

    @classmethod
    def begin(
        cls,
        family: G,
        trained: G | P,
        params: Tree,
        data: GenerativeInput,
        source: ArraySource,
        unlabeled_weight: float,
    ) -> Stream[G, P]:
        """The stream after its first batch, to which the parameters were fitted."""
        sweep, size = RowProblem(trained, Likelihood(), source).sweep(params), source.total_weight
        data = replace(data, X=data.X[:0, ...], codes=data.codes[:0], weight=None)
        stats = tree_map(lambda s: s / size, sweep.stats)
        value = float(to_numpy(sweep.value - trained.log_prior(params)).ravel()[0])
        mean = (value - log_jacobian_sum(source, data.preprocessor)) / size
        counts = count_labels(source, data.n_classes)
        return cls(data, family, trained, params, stats, size, unlabeled_weight, counts, source.n_rows, (mean,))

    def learn(self, source: ArraySource, forgetting: float) -> Stream[G, P]:
        """The stream after another batch."""
        sweep = RowProblem(self.trained, Likelihood(), source).sweep(self.params)
        size = source.total_weight
        counted = replace(
            self,
            label_counts=self.label_counts + count_labels(source, self.data.n_classes),
            n_rows=self.n_rows + source.n_rows,
        )
        if size <= 0:
            return counted
        weight = self.weight + size
        step = float((weight / size) ** -forgetting)
        stats = tree_map(lambda old, new: (1.0 - step) * old + (step / size) * new, self.stats, sweep.stats)
        params = self.trained.update(self.params, tree_map(lambda s: weight * s, stats))
        value = sweep.value - self.trained.log_prior(self.params)
        log_jacobian = log_jacobian_sum(source, self.data.preprocessor)
        mean = (float(to_numpy(value).ravel()[0]) - log_jacobian) / size
        return replace(
            counted,
            params=params,
            stats=self.trained.move_statistics(stats, self.params, params),
            weight=weight,
            curve=(*self.curve, mean),
        )

    @property
    def attributes(self) -> Attributes:
        """What the stream was and how it went."""
        n_unlabeled = self.n_rows - int(self.label_counts.sum())
        record = {"n_rows": self.n_rows, "label_counts": self.label_counts.tolist(), "n_unlabeled": n_unlabeled}
        return {
            "unlabeled_weight_": self.unlabeled_weight,
            "objective_curve_": np.array(self.curve),
            "n_iter_": len(self.curve),
            "converged_": False,
            "stopping_reason_": "the stream may go on",
            "training_record_": record,
            "_stream_": self,
        }


def count_labels(source: ArraySource, n_classes: int) -> np.ndarray:
    """Rows of each class, (C,)."""
    return np.bincount(source.y[source.y >= 0], minlength=n_classes)
