"""The way from a user's table to fitted parameters, shared by all generative classifiers.

rows -> checked -> standardized source -> EM from several starts -> the best start -> L-BFGS if the objective is discriminative.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from latentia._user_warnings import warn_at_caller
from latentia.engine.array_source import ArraySource, map_rows
from latentia.engine.contracts import Chunk, MaskedRows, Params, SmoothFamily, Totals
from latentia.engine.objectives import OBJECTIVES, Likelihood
from latentia.engine.problem import RowProblem, check_compatible, rows_per_chunk
from latentia.engine.pytree import leaves, select_restart
from latentia.estimators.base.callbacks import (
    CallbackSupportMixin,
    StepNotifier,
    notify_callbacks,
    warn_unless_converged,
    with_callbacks,
)
from latentia.estimators.base.fitting import attributes_if_stopped, transactional_fit
from latentia.estimators.base.generative_prediction import GenerativePredictMixin
from latentia.inputs.labels import encode_labels
from latentia.inputs.options import check_bool, check_choice, check_number, random_generator
from latentia.inputs.rows import validate_rows
from latentia.inputs.splits import train_validation_split
from latentia.inputs.standardization import Standardizer, column_moments
from latentia.inputs.weights import check_loss_matrix, check_priors, check_weight
from latentia.numerics.array_api import Array, compute_dtype, namespace, to_numpy
from latentia.numerics.logspace import log_softmax
from latentia.solvers import EM, LBFGS, Outcome, Solution, StepCallback


class GenerativeClassifier(CallbackSupportMixin, GenerativePredictMixin):
    """Fits a family's parameters. Subclasses say which family, how rows become numbers, and what is learned."""

    family_: Any
    preprocessor_: Any

    def _check_options(self) -> None:
        """Refuse bad constructor arguments."""
        self._check_objective()
        check_number("trade_off", self.trade_off, least=0)
        check_number("margin", self.margin, above=0)
        if self.ramp is not None:
            check_number("ramp", self.ramp, above=0)
        check_number("var_floor", self.var_floor, above=0)
        check_number("n_init", self.n_init, least=1, integer=True)
        check_number("max_iter", self.max_iter, least=1, integer=True)
        check_number("tol", self.tol, least=0)
        check_number("validation_fraction", self.validation_fraction, above=0, below=1)
        check_bool("early_stopping", self.early_stopping)
        check_number("n_iter_no_change", self.n_iter_no_change, least=1, integer=True)

    def _check_objective(self) -> None:
        check_choice("objective", self.objective, OBJECTIVES)

    def _effective_param(self, name: str) -> Any:
        """An argument, or what a search has chosen for it."""
        return getattr(self, name)

    @abstractmethod
    def _make_family(
        self, source: ArraySource, log_prior: np.ndarray | None, watch: StepNotifier, rng: np.random.Generator
    ) -> SmoothFamily:
        """The family to be fitted."""

    @abstractmethod
    def _set_fitted_attributes(self) -> None:
        """Set the learned attributes from `params_`."""

    def _choose_restart(self, solution: Solution, source: ArraySource, rng: np.random.Generator) -> int:
        """Which start wins."""
        return int(np.argmax(solution.value))

    def _check_rows(self, X: Any, reset: bool) -> Array:
        """Rows as a numeric array, NaN where a cell is missing."""
        return validate_rows(self, X, reset)

    def _make_preprocessor(
        self, X: Array, weight: np.ndarray | None, mass: Array, mean: Array, deviation: Array
    ) -> Standardizer:
        """How rows are standardized."""
        return Standardizer.of(mass, mean, deviation)

    @with_callbacks
    @transactional_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Learn from rows and labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; NaN marks a missing cell.
        y : array-like of shape (n_samples,)
            Classes; -1 (integers), None or NaN (others) mark unlabeled rows. Integer labels that are all -1 or 1 are two classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; a row of weight 2 counts as that row twice.

        Returns
        -------
        self : estimator
        """
        self._check_options()
        X = self._check_rows(X, reset=True)
        labels = encode_labels(y, X.shape[0])
        weight = check_weight(sample_weight, X.shape[0], labels.codes, labels.classes)
        log_prior = check_priors(self.priors, labels.classes)
        check_loss_matrix(self.loss_matrix, len(labels.classes))
        moments = column_moments(X, weight, compute_dtype(X))
        self.classes_ = labels.classes
        self.preprocessor_ = self._make_preprocessor(X, weight, *moments)
        if self.preprocessor_.ignored is not None:
            names = getattr(self, "feature_names_in_", np.arange(X.shape[1]))
            empty = names[to_numpy(self.preprocessor_.ignored)].tolist()
            warn_at_caller(f"X has no value in the columns {empty}: they are ignored.")
        rng = random_generator(self.random_state)
        with notify_callbacks(self, X, y, self._attributes_at) as watch:
            self._train(ArraySource(X, labels.codes, weight, self.preprocessor_), log_prior, rng, watch)
        return self

    def _train(
        self, source: ArraySource, log_prior: np.ndarray | None, rng: np.random.Generator, watch: StepNotifier
    ) -> None:
        objective = OBJECTIVES[self._effective_param("objective")](self.trade_off, self.margin, self.ramp)
        held_out = None
        if self.early_stopping and not objective.rises_under_em:
            _, apart = train_validation_split(source.y, source.weight, self.validation_fraction, rng)
            if apart.size:  # else there are too few rows to spare any
                source, held_out = source.drop_rows(apart), source.subset(apart)
        starts = source if objective.rises_under_em else source.labeled_only()  # as the thesis does (3.3.2)
        self.family_ = self._make_family(starts, log_prior, watch, rng)
        check_compatible(self.family_, Likelihood(), needs_em=True, needs_gradient=False)
        solution = self._run_em_restarts(starts, rng, watch)
        if watch.stopped and not objective.rises_under_em:
            solution = solution._replace(outcomes=[Outcome.STOPPED])
            objective, source = Likelihood(), starts
        elif not objective.rises_under_em:
            check_compatible(self.family_, objective, needs_em=False, needs_gradient=True)
            validate = None if held_out is None else _validation_loss(self.family_, held_out)
            solver = LBFGS(self.max_iter, self.tol, validate=validate, patience=self.n_iter_no_change)
            solution = solver.solve(RowProblem(self.family_, objective, source), solution.params, watch)
        self.params_ = select_restart(solution.params, 0)
        curve = solution.curves[0] - (_log_jacobian(source) if objective.is_density else 0.0)
        self.objective_curve_ = curve
        self.n_iter_ = int(solution.n_iter[0])
        self.converged_ = bool(solution.converged[0])
        self.stopping_reason_ = solution.outcomes[0].value
        warn_unless_converged(self)
        self._set_fitted_attributes()

    def _run_em_restarts(self, source: ArraySource, rng: np.random.Generator, on_step: StepCallback) -> Solution:
        """EM from several starts in one batch; the winner alone is returned."""
        family = self.family_
        params = family.init(source.labeled_only(), rng, self._n_restarts())
        problem = family.specialized_problem(Likelihood(), source) or RowProblem(family, Likelihood(), source)
        solution = self._em().solve(problem, params, on_step)
        return solution.select_restart(self._choose_restart(solution, source, rng))

    def _em(self) -> Any:
        """The solver of the likelihood."""
        return EM(self.max_iter, self.tol)

    def _n_restarts(self) -> int:
        """Number of starts of EM."""
        return int(self.n_init)

    def _attributes_at(self, params: Params) -> dict[str, Any]:
        """Attributes of an estimator that stopped at `params`."""
        return attributes_if_stopped(self, self._set_fitted_attributes, params_=params)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.array_api_support = True
        return tags


def _log_jacobian(source: ArraySource) -> float:
    """What the change of units adds to the log density of all rows."""
    preprocess: Any = source.preprocess

    def visit(chunk: Chunk) -> Totals:
        units = preprocess.log_det_jacobian(chunk.rows)
        return {"units": namespace(units).sum(units if chunk.weight is None else units * chunk.weight)}

    return float(to_numpy(source.sum_over_chunks(visit, rows_per_chunk(3 * source.n_features))["units"]))


def _validation_loss(family: SmoothFamily, rows: ArraySource) -> Any:
    """The weighted share of rows that parameters classify wrongly; log loss breaks ties."""
    weight = np.ones(rows.n_rows) if rows.weight is None else rows.weight

    def validate(params: Params) -> float:
        def scores(rows: MaskedRows) -> Array:
            return log_softmax(family.infer(params, rows).log_joint, axis=-2)

        parts = map_rows(
            rows.X, rows.preprocess, scores, rows_per_chunk(family.floats_per_row(params), next(leaves(params)))
        )
        log_proba = np.concatenate([to_numpy(p) for p in parts], axis=1)
        wrong = np.argmax(log_proba, axis=0) != rows.y
        log_loss = -np.maximum(log_proba[rows.y, np.arange(rows.n_rows)], -50.0)
        return float((weight * (wrong + 1e-3 * log_loss / 50.0)).sum() / weight.sum())

    return validate
