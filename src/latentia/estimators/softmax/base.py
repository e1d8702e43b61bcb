"""What the estimators of softmax trees share: the rows they read, how they train, what predicts.

`SoftmaxEstimator` models p(y | x) alone; `SoftmaxClassifier` reads labels, and predicts classes.
A model says how its candidates are searched (`_train`), and what is learned of the chosen one
(`_model_attributes`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from latentia.arrays.namespace import Array, compute_dtype, namespace, take_rows, to_numpy, transpose
from latentia.engine.messages import warn_at_caller
from latentia.engine.rows import ArraySource, MaskedRows, TableSource, map_rows, rows_per_chunk
from latentia.engine.tree import Tree
from latentia.estimators.base.classifier import ProbabilisticClassifier, total_log_likelihood
from latentia.estimators.base.estimator import Attributes, LabelCounts, LatentEstimator, StepNotifier, input_attributes
from latentia.estimators.base.reading import NumberTable, read_parts
from latentia.estimators.softmax.training import (
    AVERAGES,
    COARSE,
    CRITERIA,
    FULL,
    Candidate,
    FittedModel,
    ModeledRows,
    Options,
    Trainer,
    hold_out,
    merge_equal_rows,
)
from latentia.families.blocks.bounds import GammaPrior
from latentia.families.softmax_tree.tree import Point, Posterior, SoftmaxTree, prediction_inputs
from latentia.scale.tables import ClassReader, LazyTable, is_small, lazy_table
from latentia.solvers import Outcome
from latentia.table.labels import NO_UNITS, OutputUnits, encode_known_labels, read_labels
from latentia.table.options import Check, check_bool, check_choice, choice, integer, number
from latentia.table.rows import reject_missing, validate_rows
from latentia.table.standardization import ColumnMoments, Standardizer, column_moments, source_moments
from latentia.table.weights import check_loss_matrix, check_weight


class SoftmaxInput(NamedTuple):
    """What `fit` was given, validated and encoded."""

    X: Array
    rows: ModeledRows
    preprocessor: Standardizer  # from X to the rows as they are modeled
    n_targets: int  # classes, or outputs
    attributes: Attributes
    n_rows: int  # with those that were dropped
    label_counts: LabelCounts | None = None  # of the classes; None for numbers to predict
    outputs: OutputUnits = NO_UNITS
    missing_shares: None = None  # no cell may be missing


class SoftmaxFit(NamedTuple):
    """The chosen model, and the table of all that were tried."""

    candidate: Candidate
    search_results: dict[str, object]

    @property
    def outcome(self) -> Outcome:
        return self.candidate.outcome


class PredictionModel(NamedTuple):
    """All that predictions need."""

    fitted: FittedModel
    preprocessor: Standardizer
    outputs: OutputUnits

    @property
    def params(self) -> Tree:
        """The point estimate."""
        return self.fitted.point_estimate


class SoftmaxEstimator(LatentEstimator):
    """Trains models and keeps the best."""

    _CHECKS: ClassVar[dict[str, Check]] = {
        "inference": choice("vb", "ml"),
        "criterion": choice(*CRITERIA),
        "averaging": choice(*AVERAGES),
        "annealing": check_bool,
        "standardize": check_bool,
        "shape": number(gt=0),
        "rate": number(gt=0),
        "ridge": number(ge=0),
        "patience": integer(ge=0),
        "n_init": integer(ge=1),
        "max_iter": integer(ge=1),
        "tol": number(ge=0),
    }
    _model: PredictionModel

    def _check_options(self) -> None:
        super()._check_options()
        self._refuse_ignored_options()

    def _refuse_ignored_options(self) -> None:
        """Maximum likelihood has neither an evidence nor a posterior to average over."""
        if self.inference != "ml":
            return
        for name, allowed in (("criterion", ("validation", "bic")), ("averaging", ("corrected", "plugin"))):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} has no meaning with inference='ml', which finds a point; allowed "
                    f"are {allowed[0]!r} and {allowed[1]!r}, or inference='vb'."
                )

    @abstractmethod
    def _model_attributes(self, data: SoftmaxInput, model: FittedModel) -> Attributes:
        """The learned parameters in the units of X."""

    @property
    def _prior(self) -> GammaPrior:
        return GammaPrior(float(self.shape), float(self.rate))

    @property
    def _averaging(self) -> str:
        if self.averaging not in AVERAGES:  # it may be set after the fit, too
            check_choice("averaging", self.averaging, AVERAGES)
        self._refuse_ignored_options()
        return str(self.averaging)

    def _read_rows(self, X: Any) -> tuple[Array, Attributes]:
        """Rows as numbers without missing cells, and what is learned from them."""
        blank = self._blank_copy()
        rows = validate_rows(blank, X, reset=True)
        reject_missing(blank, rows)
        return rows, input_attributes(blank)

    def _array_rows(
        self, X: Array, y: np.ndarray, weight: np.ndarray | None, are_distinct: bool
    ) -> tuple[ModeledRows, Standardizer]:
        """Rows of an array, as `_modeled_rows` makes them."""
        return self._modeled_rows(ArraySource(X, y, weight), column_moments(X, weight, compute_dtype(X)), are_distinct)

    def _modeled_rows(
        self, rows: TableSource, moments: ColumnMoments, are_distinct: bool = False
    ) -> tuple[ModeledRows, Standardizer]:
        """The rows as modeled, and standardized for initial points; how they come from X."""
        xp = namespace(moments.mean)
        standardizer = Standardizer.from_moments(*moments)
        identity = Standardizer(xp.zeros_like(moments.mean), xp.ones_like(moments.mean), None)
        standardized = rows.with_preprocess(standardizer.prepare)
        if self.standardize:
            return ModeledRows(standardized, standardized, identity, are_distinct), standardizer
        modeled = rows.with_preprocess(identity.prepare)
        return ModeledRows(modeled, standardized, standardizer, are_distinct), identity

    def _trainer(
        self, data: SoftmaxInput, is_search: bool, rng: np.random.Generator, notifier: StepNotifier
    ) -> Trainer:
        """What trains candidates: on all rows, or on those that a comparison does not hold out."""
        notifier.attributes_at = lambda model: data.attributes | self._attributes_of(data, model)
        criterion = CRITERIA[self.criterion]
        rows, held_out = hold_out(data.rows, rng) if is_search and criterion.holds_out else (data.rows, None)
        options = Options(
            self.inference == "vb", self.n_init, self.max_iter, self.tol, float(self.ridge), self.annealing
        )
        options = options._replace(effort=FULL if held_out is None else COARSE)
        return Trainer(rows, held_out, criterion, self._averaging, options, rng, notifier, data.outputs.log_unit)

    def _fitted_attributes(self, data: SoftmaxInput, fitted: SoftmaxFit) -> Attributes:
        candidate = fitted.candidate
        return {
            "search_results_": fitted.search_results,
            "objective_curve_": candidate.curve,
            "n_iter_": candidate.n_iter,
            "converged_": candidate.outcome.converged,
            "stopping_reason_": candidate.outcome.value,
            "restart_objectives_": candidate.restart_objectives,
            **(candidate.evidences if self.inference == "vb" else {}),
            **self._attributes_of(data, candidate.model),
        }

    def _attributes_of(self, data: SoftmaxInput, model: FittedModel) -> Attributes:
        published = PredictionModel(model, data.preprocessor, data.outputs)
        return {"_model": published, **self._model_attributes(data, model)}

    def _map_rows(
        self,
        X: Any,
        fn: Callable[[SoftmaxTree, Point | Posterior, MaskedRows], Array],
        averaging: str | None = None,
    ) -> Array:
        """`fn` (..., N) of the tree, of what predicts, and of rows, chunk by chunk."""
        X = self._check_rows(X)
        fitted, preprocessor, _ = self._model
        estimate = fitted.estimate(averaging or self._averaging)
        size = rows_per_chunk(fitted.tree.floats_per_row(X.shape[1] + 1), preprocessor.shift)
        parts = map_rows(X, preprocessor.prepare, partial(fn, fitted.tree, estimate), size)
        return namespace(parts[0]).concat(parts, axis=-1)

    def _path_proba(self, X: Any, n_levels: int | None = None) -> Array:
        """Probabilities (N, n) of the paths through all levels of gates, or through some."""

        def log_proba(tree: SoftmaxTree, estimate: Point | Posterior, rows: MaskedRows) -> Array:
            return tree.log_paths(estimate, *prediction_inputs(estimate, rows), n_levels)

        by_row = transpose(self._map_rows(X, log_proba))
        return namespace(by_row).exp(by_row)


class SoftmaxClassifier(ProbabilisticClassifier, SoftmaxEstimator):
    """Reads labels, and predicts from log probabilities of the classes."""

    n_features_in_: int

    def _read_input(self, X: Any, y: Any, sample_weight: Any) -> SoftmaxInput:
        table = lazy_table(X)
        if table is not None:
            return self._read_in_parts(table, y, sample_weight)
        X, attributes = self._read_rows(X)
        n_rows, distinct = X.shape[0], is_small(*X.shape)
        labels = read_labels(y, X.shape[0], self.unlabeled)
        weight = check_weight(sample_weight, X.shape[0], labels.codes, labels.classes)
        check_loss_matrix(self.loss_matrix, len(labels.classes))
        codes, labeled = labels.codes, labels.codes >= 0
        self._warn_of_dropped(int((~labeled).sum()), n_rows)
        if not labeled.all():
            X = take_rows(X, np.flatnonzero(labeled))
            codes, weight = codes[labeled], None if weight is None else weight[labeled]
        if distinct:
            X, codes, weight = merge_equal_rows(X, codes, weight)
        rows, preprocessor = self._array_rows(X, codes, weight, distinct)
        attributes = {**attributes, "classes_": labels.classes}
        counts = LabelCounts.of_codes(labels.codes)
        return SoftmaxInput(X, rows, preprocessor, len(labels.classes), attributes, n_rows, counts)

    def _read_in_parts(self, table: LazyTable, y: Any, sample_weight: Any) -> SoftmaxInput:
        """The same for a large table in parts."""
        read = read_parts(self, NumberTable(), table, y, sample_weight, ClassReader(self.unlabeled), only_known=True)
        classes = read.targets.classes
        check_loss_matrix(self.loss_matrix, len(classes))
        self._warn_of_dropped(read.n_rows - read.rows.n_rows, read.n_rows)
        moments = source_moments(read.rows)
        rows, preprocessor = self._modeled_rows(read.rows, moments)
        attributes, counts = {**read.attributes, "classes_": classes}, LabelCounts.of_totals(read.rows.label_totals)
        like = moments.mean[None, :]
        return SoftmaxInput(like, rows, preprocessor, len(classes), attributes, read.n_rows, counts)

    def _warn_of_dropped(self, n_dropped: int, n_rows: int) -> None:
        if n_dropped:
            warn_at_caller(
                f"{n_dropped} of {n_rows} rows have no label and are dropped: {type(self).__name__} models p(y | x), "
                "so they carry no information. GaussianMixtureClassifier and LatentClassificationModel learn from "
                "them."
            )

    def _log_proba(self, X: Any) -> Array:
        log_proba = transpose(self._map_rows(X, SoftmaxTree.log_class_proba))
        return namespace(log_proba).clip(log_proba, max=0.0)  # metrics refuse what is above one by a rounding

    def bic(self, X: Any, y: Any = None) -> float:
        """Bayesian information criterion; lower is better. The model is judged
        at its point estimate, on the rows that have a label.

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

    def aic(self, X: Any, y: Any = None) -> float:
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

    def _log_likelihood(self, X: Any, y: Any) -> tuple[float, int]:
        """At the point estimate, of the labeled rows."""
        log_proba = to_numpy(self._map_rows(X, SoftmaxTree.log_class_proba, "plugin")).astype(float)
        codes = encode_known_labels(y, self.classes_, log_proba.shape[1], self.unlabeled)
        labeled = np.flatnonzero(codes >= 0)
        return float(log_proba[codes[labeled], labeled].sum()), labeled.size

    def _n_free_params(self) -> int:
        return self._model.fitted.tree.n_free(self.n_features_in_ + 1)
