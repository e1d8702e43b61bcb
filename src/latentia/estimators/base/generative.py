"""Generative classifiers: models of p(x, c), with missing cells, unlabeled rows and any objective.

`fit` reads the table, lets the model say what is trained and how (a `Plan`), chooses the weight of
unlabeled rows, raises the likelihood from several starts, then the objective if it is another, and
tempers what it has learned. Predictions ask the joint density of rows and classes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags

from latentia.arrays.namespace import (
    Array,
    logsumexp,
    namespace,
    take_rows,
    to_numpy,
    transpose,
)
from latentia.engine.contracts import Objective, PosteriorFamily, SmoothFamily
from latentia.engine.messages import warn_at_caller
from latentia.engine.rows import ArraySource, MaskedRows, TableSource
from latentia.engine.sweep import OBJECTIVES, Likelihood, RowProblem, check_compatible
from latentia.engine.tree import select_restart
from latentia.estimators.base.classifier import ProbabilisticClassifier, total_log_likelihood
from latentia.estimators.base.estimator import Attributes, StepNotifier, solution_attributes
from latentia.estimators.base.fitted_model import (
    FillOptions,
    FittedModel,
    Tempering,
    keep_observed,
    tempering_attributes,
)
from latentia.estimators.base.reading import GenerativeInput, TrainingTable
from latentia.estimators.base.training import (
    GenerativeFit,
    Plan,
    Stream,
    choose_by_held_out_labels,
    choose_tempering,
    log_jacobian_sum,
    model_at,
    raise_columns,
    raise_likelihood,
    validation_loss,
)
from latentia.scale.tables import method_of_rows, refuse_lazy
from latentia.solvers import LBFGS, Outcome
from latentia.table.frames import TableLike, frame_type
from latentia.table.labels import LabelsLike, encode_known_labels
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
from latentia.table.rows import plain_table, validate_rows
from latentia.table.weights import check_weight


def check_objective(name: str, value: object) -> None:
    """The name of an objective, or an objective."""
    if isinstance(value, Objective) or (isinstance(value, str) and value in OBJECTIVES):
        return
    names = ", ".join(repr(a) for a in OBJECTIVES)
    raise ValueError(f"{name}={value!r}; allowed are {names} and instances of Objective.")


def check_n_init(name: str, value: object) -> None:
    """A number of starts, or "auto"."""
    if isinstance(value, str):
        check_choice(name, value, ["auto"], " and integers >= 1")
    else:
        check_number(name, value, ge=1, integer=True, besides=", or 'auto'")


def check_temperature(name: str, value: object) -> None:
    """A temperature, or "auto"."""
    if isinstance(value, str):
        check_choice(name, value, ["auto"], " and numbers > 0")
    else:
        check_number(name, value, gt=0, besides=", or 'auto'")


def check_unlabeled_weight(name: str, value: object) -> None:
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


class GenerativeClassifier(ProbabilisticClassifier):
    """A model of p(x, c). Subclasses say what is trained (`_plan`), and what users see of it."""

    _leaves_rows_in_place = True
    _model: FittedModel[Any]
    _stream_: Stream
    n_features_in_: int
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
    def _plan(
        self,
        table: TrainingTable,
        rows: TableSource,
        rng: np.random.Generator,
        notifier: StepNotifier,
        is_stream: bool = False,
    ) -> Plan:
        """What is trained on these rows, and how; more of a stream may follow."""

    @abstractmethod
    def _model_attributes(self, model: FittedModel) -> Attributes:
        """The learned parameters in the units of X."""

    def _train(self, data: TrainingTable, rng: np.random.Generator, notifier: StepNotifier) -> GenerativeFit:
        objective, held_out = self._objective(), None
        rows: TableSource = data.make_source()
        rises_under_em = objective.rises_under_em
        if self.early_stopping and not rises_under_em:
            rows, held_out = rows.hold_out(self.validation_fraction, rng)
        plan = self._plan(data, rows if rises_under_em else rows.labeled_only(), rng, notifier)
        self._watch(plan, data, notifier)
        tempers = self.temperature == "auto" and rises_under_em
        choice = choose_by_held_out_labels(plan, rows, self.unlabeled_weight, tempers, rng)
        rows = rows.with_unlabeled_weight(choice.unlabeled_weight)
        labeled = rows if rises_under_em else rows.labeled_only()  # as the thesis does (3.3.2)
        solution = raise_likelihood(plan, labeled, rng, notifier)
        if notifier.stopped and not rises_under_em:
            solution = solution._replace(outcomes=[Outcome.STOPPED])
            objective, rows = Likelihood(), labeled
        elif not rises_under_em:
            family = plan.family
            check_compatible(family, objective, needs_em=False, needs_gradient=True)
            assert isinstance(family, SmoothFamily)
            if plan.is_posterior:
                solution, plan = solution._replace(params=plan.trained.predictive(solution.params)), plan.points
                self._watch(plan, data, notifier)
            validate = None if held_out is None else validation_loss(family, held_out)
            solver = LBFGS(self.max_iter, self.tol, validate=validate, patience=self.n_iter_no_change)
            problem = RowProblem(family, objective, rows)
            solution = solver.solve(problem, solution.params, notifier)
        model = model_at(plan.family, plan.trained, data, select_restart(solution.params, 0))
        tempering = choice.tempering or choose_tempering(model, rows, self.temperature, plan.is_posterior)
        model = replace(model, tempering=tempering)
        log_jacobian = log_jacobian_sum(rows, data.preprocessor) if objective.is_density else 0.0
        return GenerativeFit(model, solution, log_jacobian, plan.is_posterior, choice.unlabeled_weight)

    def _train_columns(
        self, data: GenerativeInput, columns: np.ndarray, rng: np.random.Generator
    ) -> list[GenerativeFit]:
        """What each of the columns (N, S) of weights makes of the likelihood.

        Options that look for something (`unlabeled_weight="auto"`) must have been set to numbers.
        """
        plan = self._plan(data, data.make_source(), rng, StepNotifier())
        return raise_columns(plan, data, columns, float(self.unlabeled_weight), rng)

    def _watch(self, plan: Plan, table: TrainingTable, notifier: StepNotifier) -> StepNotifier:
        """The notifier, which from now on sees models of this plan."""

        def attributes_at(params: Any) -> Attributes:
            return table.attributes | self._attributes_of(model_at(plan.family, plan.trained, table, params))

        notifier.attributes_at = attributes_at
        return notifier

    def _objective(self) -> Objective:
        if isinstance(self.objective, Objective):
            return self.objective
        return OBJECTIVES[self.objective](self.trade_off, self.margin, self.ramp)

    def _n_starts(self) -> int:
        """The number that the options ask for."""
        return DEFAULT_N_INIT if isinstance(self.n_init, str) else int(self.n_init)

    def _attributes_of(self, model: FittedModel) -> Attributes:
        return {"_model": model, **self._model_attributes(model)}

    def _fitted_attributes(self, data: TrainingTable, fitted: GenerativeFit) -> Attributes:
        attributes = solution_attributes(fitted.solution, log_jacobian=fitted.log_jacobian)
        attributes["unlabeled_weight_"] = fitted.unlabeled_weight
        attributes |= tempering_attributes(fitted.model)
        if fitted.is_posterior:
            attributes["log_evidence_"] = float(attributes["objective_curve_"][-1])
        return attributes | self._attributes_of(fitted.model)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _check_rows(self, X: TableLike) -> Array:
        """Rows to predict, as numbers."""
        self._require_fitted()
        return validate_rows(self, X, reset=False)

    def _scorer(self) -> Callable[[MaskedRows], Array]:
        """What gives log joints (C, N) of preprocessed rows."""
        return self._model.scores

    def _joint_log_proba(self, X: Array, score: Callable[[MaskedRows], Array]) -> Array:
        """Log p(x, c) of rows of numbers, in the units of X."""
        model = self._model

        def joint(rows: MaskedRows) -> Array:
            return transpose(score(rows) - model.preprocessor.log_det_jacobian(rows))

        return model.map_rows(X, joint, model.floats_per_row())

    @method_of_rows
    def predict_joint_log_proba(self, X: TableLike) -> Array:
        """Log p(x, c), in the order of `classes_`; missing cells are integrated out.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; NaN marks a missing cell.

        Returns
        -------
        log_joint : array of shape (n_samples, n_classes)
        """
        rows = self._check_rows(X)
        return self._joint_log_proba(rows, self._scorer())

    def _log_proba(self, X: TableLike) -> Array:
        rows = self._check_rows(X)  # which also finds out whether there is a model
        return self._model.log_proba(rows, self._scorer())

    @method_of_rows
    def score_samples(self, X: TableLike) -> Array:
        """Log p(x), the density of the known cells of each row: low for outliers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; NaN marks a missing cell.

        Returns
        -------
        log_density : array of shape (n_samples,)
        """
        return logsumexp(self.predict_joint_log_proba(X), axis=-1)

    @method_of_rows
    def impute(
        self, X: TableLike, y: LabelsLike | None = None, *, method: str = "mean", condition: str | None = None
    ) -> Any:
        """Rows with each missing cell replaced by what the known cells of its row say of it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.
        y : array-like of shape (n_samples,), default=None
            Classes of the rows, where they are known: their cells are completed given the class.
            Rows marked as unlabeled, as in `fit`, are completed as without y.
        method : {"mean", "median", "mode"}, default="mean"
            "mean": expected values. "median": the same, but of a column that `marginals` has
            transformed the original of the expected transformed cell, the median if there is one
            class and component, and about it else. "mode": the most probable value of binary
            columns, the nearest of integer ones, medians of others. Columns of categories, and a
            data frame's columns of bool, always get their most probable value. No cell of a
            transformed column is expected beyond the values that `fit` has seen.
        condition : {"class"} or None, default=None
            Of rows without a known class. "class": given the most probable class of the row; None:
            averaged over the classes.

        Returns
        -------
        X_complete : array of shape (n_samples, n_features), or a data frame for models of frames
            Known cells are unchanged; values of a column of categories that were not seen in `fit`
            count as missing. A data frame has the columns and dtypes of the one fitted (a column of
            integers becomes one of floats, nullable ones of nullable floats, where an expectation
            lies between them), and in pandas the index of `X`. Of a column without any known cell
            in `fit`, which has warned of it, nothing is known: numbers are 0, as by scikit-learn's
            ``SimpleImputer(keep_empty_features=True)``, and categories stay missing.
        """
        check_choice("method", method, ["mean", "median", "mode"])
        optional(choice("class"))("condition", condition)
        rows_in = self._check_rows(X)
        options = FillOptions(method == "mode", method == "mean", condition == "class")
        if y is None:
            filled = self._fill(rows_in, -1, options)
        else:
            codes = encode_known_labels(y, self.classes_, rows_in.shape[0], self.unlabeled)
            order = np.argsort(codes, kind="stable")  # rows of one class after the other
            by_class = [(code, order[codes[order] == code]) for code in np.unique(codes).tolist()]
            parts = [self._fill(take_rows(rows_in, index), code, options) for code, index in by_class]
            filled = take_rows(namespace(parts[0]).concat(parts, axis=0), np.argsort(order))
        encoder, table = self._model.encoder, plain_table(X if hasattr(X, "shape") else np.asarray(X))
        index = getattr(table, "index", None) if frame_type(table) == "pandas" else None
        filled = encoder.round_whole(filled) if options.mode else filled
        return encoder.decode(keep_observed(rows_in, filled), index, source=table)

    def _fill(self, X: Array, code: int, options: FillOptions) -> Array:
        """Rows of one class, -1 for any, as the model expects them."""
        model = self._model

        def fill(rows: MaskedRows) -> Array:
            if rows.observed is None:
                return model.preprocessor.inverse_transform(rows.values)
            return model.impute(rows, code, options)

        return model.map_rows(X, fill, model.impute_floats_per_row())

    def sample(
        self, n_samples: int = 1, y: ArrayLike | None = None, component: int | None = None
    ) -> tuple[Any, np.ndarray]:
        """Draw rows from the model.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        y : class or array-like of shape (n_samples,), default=None
            The class of all rows, or of each; drawn from the class priors by default.
        component : int, default=None
            The component of all rows; drawn from the class's own mixing weights by default.

        Returns
        -------
        X : array of shape (n_samples, n_features), or a data frame like the one fitted
            Rounded to whole numbers where the dtype of a column is one of integers.
        y : ndarray of shape (n_samples,)
        """
        self._require_fitted()
        rng = random_generator(self.random_state)
        codes = self._sample_codes(n_samples, y, rng)
        if component is not None:  # every class that is drawn must have it
            sizes = np.broadcast_to(self._model.family.n_components, (len(self.classes_),))
            check_number("component", component, ge=0, lt=int(sizes[codes].min()), integer=True)
        return self._model.sample(codes, rng, component), self.classes_[codes]

    def _sample_codes(self, n_samples: int, y: ArrayLike | None, rng: np.random.Generator) -> np.ndarray:
        """Codes of the classes to sample from."""
        check_number("n_samples", n_samples, ge=1, integer=True)
        if y is None:
            prior = np.exp(to_numpy(self._model.params.log_prior).astype(float))
            return rng.choice(len(prior), n_samples, p=prior / prior.sum())
        labels = np.full(n_samples, y) if np.ndim(y) == 0 else np.asarray(y)
        if labels.shape != (n_samples,):
            raise ValueError(f"y has shape {labels.shape}; allowed are one class, or n_samples={n_samples} classes.")
        codes = encode_known_labels(labels, self.classes_, n_samples, self.unlabeled)
        if (codes < 0).any():
            raise ValueError(f"y={y!r} asks for unlabeled rows; allowed are the classes {self.classes_.tolist()}.")
        return codes

    def bic(self, X: TableLike, y: LabelsLike | None = None) -> float:
        """Bayesian information criterion; lower is better. Unlabeled rows
        count by their density.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Classes; scanned tables have them inside.

        Returns
        -------
        bic : float
        """
        log_likelihood, n_rows = total_log_likelihood(self, X, y)
        return -2 * log_likelihood + self._n_free_params() * float(np.log(n_rows))

    def aic(self, X: TableLike, y: LabelsLike | None = None) -> float:
        """Akaike information criterion; lower is better. Rows count as in `bic`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Classes; scanned tables have them inside.

        Returns
        -------
        aic : float
        """
        log_likelihood, _ = total_log_likelihood(self, X, y)
        return -2 * log_likelihood + 2 * self._n_free_params()

    def _n_free_params(self) -> int:
        """Number of free parameters; columns without any value have none."""
        self._require_fitted()
        return self._model.n_free(self.n_features_in_ - self._model.preprocessor.n_empty_columns)

    def _log_likelihood(self, X: TableLike, y: LabelsLike | None) -> tuple[float, int]:
        joint = to_numpy(self.predict_joint_log_proba(X)).astype(float)
        codes = encode_known_labels(y, self.classes_, joint.shape[0], self.unlabeled)
        own = np.take_along_axis(joint, np.maximum(codes, 0)[:, None], axis=1)[:, 0]
        return float(np.where(codes >= 0, own, np.logaddexp.reduce(joint, axis=1)).sum()), joint.shape[0]

    def partial_fit(
        self,
        X: TableLike,
        y: LabelsLike | None,
        classes: Sequence[Hashable] | np.ndarray | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        forgetting: float = 0.7,
    ) -> Self:
        """Learn from another batch of rows, and forget the rows.

        The first batch is fitted as `fit` would: units, power transforms, categories, the starts
        and what is chosen by the data stay as it suggests. So it should be a fair sample, of some
        hundred rows, with every class in it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.
        y : array-like of shape (n_samples,)
            Classes, and marks of unlabeled rows, as in `fit`.
        classes : array-like of shape (n_classes,), default=None
            All classes of the stream; needed in the first call. After `fit`, a new stream begins,
            by default with the classes of that fit.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.
        forgetting : float, default=0.7
            How fast earlier batches fade, more than 0.5 and at most 1: batch t has the share
            ``t ** -forgetting``. With 1 all batches count alike, also those that were read with
            poor parameters; less forgets more.

        Returns
        -------
        self : estimator
        """
        check_number("forgetting", forgetting, gt=0.5)
        if forgetting > 1:
            raise ValueError(f"forgetting={forgetting}; allowed are numbers > 0.5 and <= 1.")
        for what, values in (("X", X), ("y", y), ("sample_weight", sample_weight)):
            refuse_lazy(what, values, "partial_fit takes a batch in memory: pass one part after the other, or call fit")
        stream = getattr(self, "_stream_", None)
        if stream is None:
            stream, source = self._start_stream(X, y, classes, sample_weight)
        else:
            self._check_classes(classes)
            source = self._read_batch(stream, X, y, sample_weight)
            stream = stream.learn(source, forgetting)
        data = stream.data
        model = model_at(stream.family, stream.trained, data, select_restart(stream.params, 0))
        tempering = Tempering(getattr(self, "temperature_", 1.0))  # of the batches before, if this has no labels
        if (source.y >= 0).any() or not isinstance(self.temperature, str):
            is_posterior = isinstance(stream.trained, PosteriorFamily)  # offsets, of few classes maybe, are left out
            tempering = choose_tempering(model, source, self.temperature, is_posterior, with_offsets=False)
        model = replace(model, tempering=tempering)
        attributes = data.attributes | stream.attributes | self._attributes_of(model)
        self._set_learned(attributes | tempering_attributes(model))
        return self

    def _start_stream(
        self,
        X: TableLike,
        y: LabelsLike | None,
        classes: Sequence[Hashable] | np.ndarray | None,
        sample_weight: ArrayLike | None,
    ) -> tuple[Stream, ArraySource]:
        self._check_options()
        if not self._objective().rises_under_em:
            raise ValueError(f"objective={self.objective!r}: partial_fit trains by objective='likelihood' alone.")
        classes = getattr(self, "classes_", None) if classes is None else classes
        if classes is None:
            raise ValueError("classes=None: the first call of partial_fit needs the classes of the whole stream.")
        data = self._read_input(X, y, sample_weight)
        assert isinstance(data, GenerativeInput)
        found, given = data.attributes["classes_"].tolist(), sorted(set(np.asarray(classes).tolist()))
        if found != given:
            raise ValueError(
                f"classes={given}, but the first batch has rows of {found}: it must have rows of every class, and of "
                "no other."
            )
        rng, source, notifier = random_generator(self.random_state), data.make_source(), StepNotifier()
        if self.callback is not None:
            notifier.listeners.append(lambda step: bool(self.callback(step)))
        plan = self._plan(data, source, rng, notifier, is_stream=True)
        self._watch(plan, data, notifier)
        choice = choose_by_held_out_labels(plan, source, self.unlabeled_weight, False, rng)
        source, unlabeled_weight = source.with_unlabeled_weight(choice.unlabeled_weight), choice.unlabeled_weight
        params = raise_likelihood(plan, source, rng, notifier).params
        return Stream.begin(plan.family, plan.trained, params, data, source, unlabeled_weight), source

    def _read_batch(
        self, stream: Stream, X: TableLike, y: LabelsLike | None, sample_weight: ArrayLike | None
    ) -> ArraySource:
        rows = self._check_rows(X)
        codes = encode_known_labels(y, self.classes_, rows.shape[0], self.unlabeled)
        weight = check_weight(sample_weight, rows.shape[0])
        source = ArraySource(rows, codes, weight, stream.data.preprocessor.prepare)
        return source.with_unlabeled_weight(stream.unlabeled_weight)

    def _check_classes(self, classes: Sequence[Hashable] | np.ndarray | None) -> None:
        if classes is not None and sorted(set(np.asarray(classes).tolist())) != self.classes_.tolist():
            raise ValueError(f"classes={list(classes)}, but the stream began with {self.classes_.tolist()}.")
