"""The way from a user's table to a fitted generative model, shared by all generative classifiers.

rows -> validated -> standardized source -> EM from several restarts -> the best restart
     -> L-BFGS if the objective is discriminative

Options of generative classifiers: what is allowed, and what is worth a word.

What generative classifiers take from rows besides their training.

What `fit` of a generative model was given, validated and encoded: in memory, or in parts.

One generative model for each column of row weights, all of them trained as one batch.

A fold of cross-validation is a column with zeros for the rows held out: all folds, and the model of
all rows, are restarts of one run over the same rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from latentia.arrays.namespace import Array, log_softmax, namespace, take_rows, to_numpy
from latentia.engine.contracts import G, GenerativeFamily, Objective, P, Params, PosteriorFamily
from latentia.engine.messages import warn_at_caller
from latentia.engine.parts import ChunkedSource
from latentia.engine.rows import (
    ArraySource,
    Chunk,
    LabelTotals,
    MaskedRows,
    Preprocessor,
    Source,
    TableSource,
    Totals,
    map_rows,
)
from latentia.engine.sweep import OBJECTIVES, Likelihood, RowProblem, check_compatible, rows_per_chunk
from latentia.engine.tree import leaves, select_restart
from latentia.estimators.base.estimator import (
    Attributes,
    LabelCounts,
    StepNotifier,
    input_attributes,
    solution_attributes,
)
from latentia.estimators.base.generative_prediction import FittedModel, GenerativePredictMixin
from latentia.estimators.base.reading import read_in_memory, read_parts
from latentia.estimators.base.tuning import LearnedOptionsMixin, column_starts, tempering_attributes
from latentia.scale.tables import ClassReader
from latentia.solvers import EM, LBFGS, Outcome, Solution, Solver
from latentia.table.columns import number_columns
from latentia.table.encoder import ColumnEncoder
from latentia.table.frames import frame_type
from latentia.table.lazy import lazy_table
from latentia.table.options import (
    Check,
    check_bool,
    check_choice,
    check_number,
    choice,
    integer,
    number,
    optional,
    random_generator,
)
from latentia.table.power_transform import MAX_ROWS as TRANSFORM_ROWS
from latentia.table.power_transform import PowerTransform, learn_power_transform
from latentia.table.rows import plain_table, validate_rows
from latentia.table.standardization import ColumnMoments, Standardizer, source_moments
from latentia.table.warnings import warn_of_empty_columns, warn_of_far_cells
from latentia.table.weights import check_loss_matrix, check_priors


def check_objective(name: str, value: Any) -> None:
    """The name of an objective, or an objective."""
    if isinstance(value, Objective) or (isinstance(value, str) and value in OBJECTIVES):
        return
    names = ", ".join(repr(a) for a in OBJECTIVES)
    raise ValueError(f"{name}={value!r}; allowed are {names} and instances of Objective.")


def check_n_init(name: str, value: Any) -> None:
    """A number of starts, or "auto"."""
    if isinstance(value, str):
        check_choice(name, value, ["auto"], " and integers >= 1")
    else:
        check_number(name, value, ge=1, integer=True, besides=", or 'auto'")


def check_temperature(name: str, value: Any) -> None:
    """A temperature, or "auto"."""
    if isinstance(value, str):
        check_choice(name, value, ["auto"], " and numbers > 0")
    else:
        check_number(name, value, gt=0, besides=", or 'auto'")


def check_unlabeled_weight(name: str, value: Any) -> None:
    """A weight, or "auto"."""
    if isinstance(value, str):
        check_choice(name, value, ["auto"], " and numbers >= 0")
    else:
        check_number(name, value, ge=0, besides=", or 'auto'")


def warn_of_idle_components(n_components: Any, n_rows: Any, owners: Sequence[str]) -> None:
    """Say where there are more components than rows that they could describe."""
    sizes, rows = np.broadcast_arrays(n_components, n_rows)
    idle = np.flatnonzero(sizes > rows)
    if idle.size:
        k = int(idle[0])
        warn_at_caller(
            f"n_components={sizes[k]}, but {owners[k]} has {int(rows[k])} rows: components without a row of their own "
            "describe nothing. Use fewer components."
        )


#: Starts of EM where the user leaves their number to us.
DEFAULT_N_INIT = 10


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


class GenerativeClassifier(LearnedOptionsMixin[G, P], GenerativePredictMixin):
    """Fits a family's parameters. Subclasses say which family, and what is learned."""

    _leaves_rows_in_place = True
    #: Whether L-BFGS starts from a posterior's mean, where the points that EM finds cost more.
    _starts_from_posterior = False
    _CHECKS: ClassVar[dict[str, Check]] = {
        "objective": check_objective,
        "inference": choice("vb", "ml"),
        "marginals": choice("power", "normal"),
        "unlabeled_weight": check_unlabeled_weight,
        "temperature": check_temperature,
        "trade_off": number(ge=0),
        "margin": number(gt=0),
        "ramp": optional(number(gt=0)),
        "var_floor": number(gt=0),
        "n_init": check_n_init,
        "max_iter": integer(ge=1),
        "tol": number(ge=0),
        "validation_fraction": number(gt=0, lt=1),
        "early_stopping": check_bool,
        "n_iter_no_change": integer(ge=1),
    }

    @abstractmethod
    def _make_family(
        self, data: TrainingTable, source: TableSource, rng: np.random.Generator, notifier: StepNotifier
    ) -> G:
        """The family to be fitted."""

    @abstractmethod
    def _model_attributes(self, model: FittedModel) -> Attributes:
        """The learned parameters in the units of X."""

    def _validate_table(self, X: Any, reset: bool) -> Any:
        """The table as it is encoded; scikit-learn leaves its marks on `self`."""
        return validate_rows(self, X, reset)

    def _make_encoder(self, table: Any) -> tuple[ColumnEncoder, Attributes]:
        """How the columns of a table, or of its digest, are read; what is learned from them."""
        return number_columns(table), {}

    def _encode_table(self, X: Any, encoder: ColumnEncoder) -> Array:
        """Rows like those of the fit, as numbers."""
        return self._validate_table(X, reset=False)

    def _read_rows(self, X: Any, sample_weight: Any = None) -> tuple[Array, ColumnEncoder, Attributes]:
        """Rows in memory as numbers, how they were encoded, and what is learned from them."""
        blank = self._blank_copy()
        table = plain_table(X)
        rows = blank._validate_table(table, reset=True)
        encoder, learned = self._make_encoder(rows if frame_type(table) == "array" else table)
        return rows, encoder, input_attributes(blank) | learned

    def _make_preprocessor(self, moments: ColumnMoments, encoder: ColumnEncoder) -> Standardizer:
        """How rows are standardized."""
        return Standardizer.from_moments(*moments)

    def _transformed_columns(self, encoder: ColumnEncoder) -> list[bool]:
        """Which columns may be made normal by a power transform."""
        return [True] * len(encoder.kinds)

    def _make_posterior_family(self, family: G, data: TrainingTable) -> P | None:
        """The family whose parameters are the posterior of `family`'s; None for points."""
        return None

    def _read_input(self, X: Any, y: Any, sample_weight: Any) -> TrainingTable:
        table = lazy_table(X)
        if table is None:
            rows, encoder, targets, attributes, _ = read_in_memory(self, X, y, sample_weight)
        else:
            reader = ClassReader(self.unlabeled)
            rows, encoder, targets, attributes, _ = read_parts(self, table, y, sample_weight, reader)
        classes = targets.classes
        log_prior = check_priors(self.priors, classes)
        check_loss_matrix(self.loss_matrix, len(classes))
        moments = source_moments(rows)
        preprocessor: Any = self._make_preprocessor(moments, encoder)
        if self.marginals == "power":
            some = rows.spread_rows(TRANSFORM_ROWS)
            preprocessor = learn_power_transform(some.X, some.weight, preprocessor, self._transformed_columns(encoder))
        names = attributes.get("feature_names_in_", np.arange(rows.n_features)).tolist()
        if preprocessor.empty_columns is not None:
            warn_of_empty_columns(names, to_numpy(preprocessor.empty_columns))
        seen = rows if isinstance(rows, ArraySource) else rows.spread_rows(TRANSFORM_ROWS)
        is_number = np.array([levels is None for levels in encoder.levels])
        warn_of_far_cells(seen.X, seen.weight, to_numpy(moments.std), names, is_number)
        learned: dict[str, Any] = {"n_classes": len(classes), "log_prior": log_prior, "moments": moments}
        learned |= {"preprocessor": preprocessor, "encoder": encoder}
        learned |= {"attributes": {**attributes, "classes_": classes}}
        if isinstance(rows, ArraySource):
            return GenerativeInput(**learned, X=rows.X, codes=rows.y, weight=rows.weight)
        assert isinstance(rows, ChunkedSource)
        return PartedInput(**learned, parts=rows)

    def _read_in_memory(self, X: Any, y: Any, sample_weight: Any) -> GenerativeInput:
        """The same for estimators that search, which have refused tables in parts."""
        data = self._read_input(X, y, sample_weight)
        assert isinstance(data, GenerativeInput)
        return data

    def _train(self, data: TrainingTable, rng: np.random.Generator, notifier: StepNotifier) -> GenerativeFit:
        objective = self._objective()
        source, held_out = self._hold_out(data.make_source(), objective, rng)
        family = self._make_family(data, source if objective.rises_under_em else source.labeled_only(), rng, notifier)
        trained = self._trained_family(family, data, objective)
        self._tell_of(family, trained, data, notifier)
        choice = self._choose_by_held_out_labels(trained, source, rng)
        source = source.with_unlabeled_weight(choice.unlabeled_weight)
        em_source = source if objective.rises_under_em else source.labeled_only()  # as the thesis does (3.3.2)
        solution = self._run_em_restarts(trained, em_source, rng, notifier)
        if notifier.stopped and not objective.rises_under_em:
            solution = solution._replace(outcomes=[Outcome.STOPPED])
            objective, source = Likelihood(), em_source
        elif not objective.rises_under_em:
            check_compatible(family, objective, needs_em=False, needs_gradient=True)
            if isinstance(trained, PosteriorFamily):
                solution, trained = solution._replace(params=trained.predictive(solution.params)), family
                self._tell_of(family, trained, data, notifier)
            validate = None if held_out is None else validation_loss(family, held_out)
            solver: Solver[Any] = LBFGS(self.max_iter, self.tol, validate=validate, patience=self.n_iter_no_change)
            solution = solver.solve(RowProblem(family, objective, source), solution.params, notifier)
        model = self._model_at(family, trained, data, select_restart(solution.params, 0))
        is_posterior = isinstance(trained, PosteriorFamily)
        tempering = choice.tempering or self._choose_tempering(model, source, is_posterior)
        model = replace(model, tempering=tempering)
        log_jacobian = log_jacobian_sum(source, data.preprocessor) if objective.is_density else 0.0
        return GenerativeFit(model, solution, log_jacobian, is_posterior, choice.unlabeled_weight)

    def _model_at(self, family: G, trained: G | P, data: TrainingTable, params: Params) -> FittedModel[G]:
        """The model at parameters of the family that is trained, a posterior or the points."""
        point = trained.predictive(params) if isinstance(trained, PosteriorFamily) else params
        return self._finish(FittedModel(family, point, data.preprocessor, data.encoder))

    def _tell_of(self, family: G, trained: G | P, data: TrainingTable, notifier: StepNotifier) -> StepNotifier:
        """The notifier, which from now on sees models of this family."""
        notifier.attributes_at = lambda params: (
            data.attributes | self._attributes_of(self._model_at(family, trained, data, params))
        )
        return notifier

    def _trained_family(self, family: G, data: TrainingTable, objective: Objective) -> G | P:
        """What the solver sees: the posterior, or the points themselves."""
        posterior = None
        if self.inference == "vb" and (objective.rises_under_em or self._starts_from_posterior):
            posterior = self._make_posterior_family(family, data)
        return family if posterior is None else posterior

    def _weight_of_unlabeled_rows(self, data: TrainingTable) -> float:
        """What `fit` would give unlabeled rows."""
        rng, source = random_generator(self.random_state), data.make_source()
        family = self._make_family(data, source, rng, StepNotifier())
        trained = self._trained_family(family, data, self._objective())
        return self._choose_by_held_out_labels(trained, source, rng).unlabeled_weight

    def _objective(self) -> Objective:
        if isinstance(self.objective, Objective):
            return self.objective
        return OBJECTIVES[self.objective](self.trade_off, self.margin, self.ramp)

    def _hold_out(
        self, source: TableSource, objective: Objective, rng: np.random.Generator
    ) -> tuple[TableSource, ArraySource | None]:
        """Rows to train on, and labeled rows that say when L-BFGS stops."""
        if not self.early_stopping or objective.rises_under_em:
            return source, None
        return source.hold_out(self.validation_fraction, rng)

    def _run_em_restarts(
        self, family: G | P, source: TableSource, rng: np.random.Generator, notifier: StepNotifier
    ) -> Solution:
        """EM from all restarts in one batch; the winner alone is returned."""
        is_point = isinstance(family, GenerativeFamily)
        params = family.init(source.labeled_only() if is_point else source, rng, self._n_restarts(family))
        problem = family.specialized_problem(Likelihood(), source) or RowProblem(family, Likelihood(), source)
        solution = self._em_solver(family).solve(problem, params, notifier)
        return solution.select_restart(self._select_restart(family, solution, source, rng))

    def _em_solver(self, family: G | P) -> Solver[Any]:
        """The solver of the likelihood."""
        return EM(self.max_iter, self.tol)

    def _n_restarts(self, family: G | P) -> int:
        """Number of restarts of EM."""
        return self._n_init_given()

    def _n_init_given(self) -> int:
        """The number that the options ask for."""
        return DEFAULT_N_INIT if isinstance(self.n_init, str) else int(self.n_init)

    def _select_restart(self, family: G | P, solution: Solution, source: TableSource, rng: np.random.Generator) -> int:
        """Which restart wins."""
        return int(np.argmax(solution.value))

    def _finish(self, model: FittedModel) -> FittedModel:
        """The model as it is published."""
        return model

    def _attributes_of(self, model: FittedModel) -> Attributes:
        return {"_model": model, **self._model_attributes(model)}

    def _n_rows(self, X: Any, data: TrainingTable) -> int:
        return data.rows.n_rows

    def _fitted_attributes(self, data: TrainingTable, fitted: GenerativeFit) -> Attributes:
        attributes = solution_attributes(fitted.solution, log_jacobian=fitted.log_jacobian)
        attributes["unlabeled_weight_"] = fitted.unlabeled_weight
        attributes |= tempering_attributes(fitted.model)
        if fitted.is_posterior:
            attributes["log_evidence_"] = float(attributes["objective_curve_"][-1])
        return attributes | self._attributes_of(fitted.model)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.array_api_support = True
        return tags


#: One confident mistake must not decide when to stop.
MAX_LOG_LOSS = 50.0


def log_jacobian_sum(source: Source, preprocessor: Preprocessor) -> float:
    """What the change of units takes from the log density of all rows."""

    def visit(chunk: Chunk) -> Totals:
        log_det = preprocessor.log_det_jacobian(chunk.rows)
        return {"sum": namespace(log_det).sum(chunk.weighted(log_det))}

    size = rows_per_chunk(3 * source.n_features, preprocessor.shift)
    return float(to_numpy(source.sum_over_chunks(visit, size)["sum"]))


def validation_loss(family: GenerativeFamily, held_out: ArraySource) -> Callable[[Params], float]:
    """A function: the weighted share of rows that parameters misclassify; log loss breaks ties."""
    weight = np.ones(held_out.n_rows) if held_out.weight is None else held_out.weight

    def loss(params: Params) -> float:
        def scores(rows: MaskedRows) -> Array:
            return log_softmax(family.scores(params, rows), axis=-2)

        max_rows = rows_per_chunk(family.score_floats_per_row(params), next(leaves(params)))
        parts = map_rows(held_out.X, held_out.preprocess, scores, max_rows)
        log_proba = np.concatenate([to_numpy(p) for p in parts], axis=1)
        wrong = np.argmax(log_proba, axis=0) != held_out.y
        log_loss = np.minimum(-log_proba[held_out.y, np.arange(held_out.n_rows)], MAX_LOG_LOSS)
        return float((weight * (wrong + 1e-3 * log_loss / MAX_LOG_LOSS)).sum() / weight.sum())

    return loss


#: Samples of tables have at most so many MiB.
SAMPLE_MIB = 64


@dataclass(frozen=True)
class TableInput(ABC):
    """What was learned from the rows before training."""

    n_classes: int
    log_prior: np.ndarray | None  # None: counted
    moments: ColumnMoments
    preprocessor: Standardizer | PowerTransform
    encoder: ColumnEncoder
    attributes: Attributes

    @property
    @abstractmethod
    def rows(self) -> TableSource:
        """The raw rows."""

    @property
    def n_features(self) -> int:
        return self.rows.n_features

    @property
    def label_totals(self) -> dict[int, LabelTotals]:
        return self.rows.label_totals

    @property
    def label_counts(self) -> LabelCounts:
        return LabelCounts.of_totals(self.label_totals)

    @property
    def missing_shares(self) -> np.ndarray:
        """The share of each column's cells that are missing, by weight."""
        known = to_numpy(self.moments.weight_sum).astype(float)
        return np.clip(1 - known / self.rows.total_weight, 0.0, 1.0)

    @property
    def empty_columns(self) -> np.ndarray | None:
        """Which columns have no value; None if all have some."""
        empty = self.preprocessor.empty_columns
        return None if empty is None else to_numpy(empty)

    def sample(self, rng: np.random.Generator, n_rows: int | None = None) -> GenerativeInput:
        """Random rows of the table, so many at most; by default as many as may be brought into
        memory.
        """
        n_rows = SAMPLE_MIB * 2**20 // (8 * self.n_features) if n_rows is None else n_rows
        some = self.rows.subset(self.rows.sample_numbers(n_rows, rng))
        learned = {field.name: getattr(self, field.name) for field in fields(TableInput)}
        learned["moments"] = source_moments(some)
        return GenerativeInput(**learned, X=some.X, codes=some.y, weight=some.weight)


@dataclass(frozen=True)
class GenerativeInput(TableInput):
    """A table in memory."""

    X: Array  # (N, D) numbers, NaN where a cell is missing
    codes: np.ndarray  # (N,) class codes, -1 where unlabeled
    weight: np.ndarray | None

    @property
    def counted_codes(self) -> np.ndarray:
        """The class codes of the rows that have a weight."""
        return self.codes if self.weight is None else self.codes[self.weight > 0]

    @property
    def labeled_weight(self) -> float:
        """What the labeled rows weigh together."""
        labeled = self.codes >= 0
        return float(labeled.sum() if self.weight is None else self.weight[labeled].sum())

    @property
    def rows(self) -> ArraySource:
        return ArraySource(self.X, self.codes, self.weight)

    def subset(self, index: np.ndarray) -> GenerativeInput:
        """The rows of these numbers, in increasing order."""
        if index.size == self.codes.size:
            return self
        weight = None if self.weight is None else self.weight[index]
        return replace(self, X=take_rows(self.X, index), codes=self.codes[index], weight=weight)

    def make_source(self) -> ArraySource:
        """The rows as they are modeled."""
        return self.rows.with_preprocess(self.preprocessor.prepare)


@dataclass(frozen=True)
class PartedInput(TableInput):
    """A table in parts, wherever they are."""

    parts: ChunkedSource

    @property
    def rows(self) -> ChunkedSource:
        return self.parts

    def make_source(self) -> ChunkedSource:
        """The rows as they are modeled."""
        return self.parts.with_preprocess(self.preprocessor.prepare)

    @property
    def X(self) -> Array:
        """What learned arrays are like; the rows are elsewhere."""
        return self.moments.mean[None, :]


#: What training sees.
TrainingTable = GenerativeInput | PartedInput


def train_columns(
    estimator: GenerativeClassifier, data: GenerativeInput, columns: np.ndarray, rng: np.random.Generator
) -> list[GenerativeFit]:
    """What each of the columns (N, S) of weights makes of the likelihood.

    `n_init` restarts of each; options that look for something (`unlabeled_weight="auto"`,
    `temperature="auto"`) must have been set to numbers.
    """
    notifier = StepNotifier()
    factor = float(estimator.unlabeled_weight)
    whole = data.make_source()
    family = estimator._make_family(data, whole, rng, notifier)
    trained = estimator._trained_family(family, data, Likelihood())
    n_init = estimator._n_restarts(trained)
    weight = np.repeat(columns, n_init, axis=1) * np.where(data.codes < 0, factor, 1.0)[:, None]
    source = ArraySource(data.X, data.codes, weight, whole.preprocess)
    restarts = np.split(np.arange(weight.shape[1]), columns.shape[1])  # of each column
    params = column_starts(trained, source, restarts, rng)
    problem = trained.specialized_problem(Likelihood(), source) or RowProblem(trained, Likelihood(), source)
    solution = estimator._em_solver(trained).solve(problem, params)
    fits: list[Any] = []
    for index in restarts:
        mine = solution.take_restarts(index.tolist())
        own = mine.select_restart(estimator._select_restart(trained, mine, source.take_restarts(index), rng))
        model = estimator._model_at(family, trained, data, select_restart(own.params, 0))
        fits.append(GenerativeFit(model, own, 0.0, isinstance(trained, PosteriorFamily), factor))
    return fits
