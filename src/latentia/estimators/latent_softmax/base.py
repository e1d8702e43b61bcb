"""What the estimators of softmax models share: rows and labels, one structure or a search over several, and the record of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from latentia.engine.array_source import ArraySource, map_rows
from latentia.engine.contracts import Chunk, MaskedRows, Params, Totals
from latentia.engine.problem import rows_per_chunk
from latentia.estimators.base.callbacks import (
    CallbackSupportMixin,
    StepNotifier,
    warn_unless_converged,
)
from latentia.estimators.base.legacy import attributes_if_stopped, drop_fitted_attributes, notify_callbacks
from latentia.estimators.latent_softmax.model_specs import ModelSpec
from latentia.estimators.latent_softmax.training import Fitted, Options, Rows, fit_structure
from latentia.families.building_blocks.gamma_prior import GammaPrior
from latentia.inputs.options import check_bool, check_choice, check_number, random_generator
from latentia.inputs.rows import reject_missing, validate_rows
from latentia.inputs.splits import train_validation_split
from latentia.inputs.standardization import Standardizer, column_moments
from latentia.numerics.array_api import Array, compute_dtype, namespace, to_numpy
from latentia.solvers import Step

INFERENCES = ("vb", "ml")


CRITERIA = ("validation", "evidence", "bound", "bic")


AVERAGES = ("corrected", "posterior", "plugin")


class LatentSoftmaxEstimator(CallbackSupportMixin, BaseEstimator, ABC):
    """Fits structures and keeps the best."""

    def _check_options(self) -> None:
        """Refuse bad constructor arguments."""
        check_choice("inference", self.inference, INFERENCES)
        check_choice("criterion", self.criterion, CRITERIA)
        check_choice("averaging", self.averaging, AVERAGES)
        check_bool("annealing", self.annealing)
        check_bool("standardize", self.standardize)
        check_number("shape", self.shape, gt=0)
        check_number("rate", self.rate, gt=0)
        check_number("ridge", self.ridge, ge=0)
        check_number("n_init", self.n_init, ge=1, integer=True)
        check_number("max_iter", self.max_iter, ge=1, integer=True)
        check_number("tol", self.tol, ge=0)

    def _check_rows(self, X: Any, reset: bool) -> Array:
        """Rows as a numeric array without gaps; those of a new fit (`reset`) begin without the one before."""
        if reset:
            drop_fitted_attributes(self)
        X = validate_rows(self, X, reset)
        reject_missing(self, X)
        return X

    def _rows(self, X: Array, y: np.ndarray, weight: np.ndarray | None) -> Rows:
        """The rows as they are modeled, and standardized for the starts."""
        xp = namespace(X)
        moments = column_moments(X, weight, compute_dtype(X))
        standard = cast(Any, Standardizer.from_moments(*moments))
        nothing = cast(Any, Standardizer(xp.zeros_like(moments[1]), xp.ones_like(moments[1]), None))
        self.preprocessor_ = standard if self.standardize else nothing
        modeled = ArraySource(X, y, weight, self.preprocessor_)
        if self.standardize:
            return Rows(modeled, modeled, nothing)
        return Rows(modeled, ArraySource(X, y, weight, standard), standard)

    @property
    def _prior(self) -> GammaPrior:
        return GammaPrior(float(self.shape), float(self.rate))

    @property
    @abstractmethod
    def _is_search(self) -> bool:
        """Whether there is more than one structure to choose from."""

    def _options(self) -> Options:
        return Options(self.inference, self.n_init, self.max_iter, self.tol, float(self.ridge), self.annealing)

    @property
    def _averages(self) -> bool:
        """Whether predictions average over a posterior."""
        return self.inference == "vb" and self.averaging != "plugin"

    @property
    def _posterior(self) -> Any:
        """The posterior that predictions average over."""
        return self.params_ if self.averaging == "posterior" else self.exact_

    def _score(self, fitted: Fitted, held_out: ArraySource | None) -> float:
        """What the choice of the structure maximizes."""
        if held_out is not None:
            self._set_fitted_attributes(fitted.structure, fitted.params, fitted.exact, fitted.weights)
            score = mean_log_score(held_out, self._log_score, rows_per_chunk(self._numbers_per_row()))
            return score - self._log_jacobian(held_out) / held_out.total_weight
        if self.inference == "ml" or self.criterion == "bic":
            return -fitted.bic / 2
        # "validation" without rows to spare goes by the evidence
        return fitted.log_evidence if self.criterion == "bound" else fitted.corrected_log_evidence

    def _log_jacobian(self, rows: ArraySource) -> float:
        """By how much the log density of the rows' outputs falls from the units they are modeled in to those they came in."""
        return 0.0

    def _train(self, X: Any, y: Any, rows: Rows) -> None:
        """Search, and publish the winner."""
        rng = random_generator(self.random_state)
        current: list[ModelSpec] = []
        validate = self.criterion == "validation" and self._is_search
        some, held_out = hold_out(rows, rng) if validate else (rows, None)
        with notify_callbacks(self, X, y, lambda params: self._attributes_at(current[-1], params)) as watch:

            def fit(structure: ModelSpec, rows: Rows, extra: tuple[Params, ...]) -> Fitted:
                current.append(structure)
                units = self._log_jacobian(rows.raw)

                def tell(step: Step) -> bool:
                    return watch(step._replace(value=step.value - units))

                return _in_units(fit_structure(structure, rows, self._options(), rng, tell, extra), units)

            def fit_one(structure: ModelSpec, extra: tuple[Params, ...] = ()) -> Fitted:
                fitted = fit(structure, some, extra)
                return fitted._replace(score=self._score(fitted, held_out))

            fitted = self._search(some, fit_one, watch)
            if held_out is not None:
                fitted = fit(fitted.structure, rows, (fitted.weights,))
        self._keep(fitted)
        warn_unless_converged(self)

    @abstractmethod
    def _search(self, rows: Rows, fit_one: Any, watch: StepNotifier) -> Fitted:
        """Fit what the options ask for, set `search_results_`, return the best."""

    @abstractmethod
    def _log_score(self, rows: MaskedRows, y: Array) -> Array:
        """Log predictive probability or density (n_rows,) of what was observed."""

    def _keep(self, fitted: Fitted) -> None:
        self.objective_curve_ = fitted.curve
        self.n_iter_ = fitted.n_iter
        self.converged_ = fitted.outcome.converged
        self.stopping_reason_ = fitted.outcome.value
        self.restart_objectives_ = fitted.start_values
        if self.inference == "vb":
            self.log_evidence_, self.corrected_log_evidence_ = fitted.log_evidence, fitted.corrected_log_evidence
        self._set_fitted_attributes(fitted.structure, fitted.params, fitted.exact, fitted.weights)

    @abstractmethod
    def _set_fitted_attributes(self, structure: Any, params: Params, exact: Params, weights: Params) -> None:
        """Set the learned attributes."""

    def _attributes_at(self, structure: ModelSpec, params: Params) -> dict[str, Any]:
        """Attributes of an estimator that stopped at `params`."""
        weights = structure.means(params) if self.inference == "vb" else params
        return attributes_if_stopped(self, lambda: self._set_fitted_attributes(structure, params, params, weights))

    @abstractmethod
    def _numbers_per_row(self) -> int:
        """Working memory of one row of predictions."""

    def _by_rows(self, X: Any, fn: Any) -> Array:
        """`fn` of the rows with their one, in blocks, its results one after the other."""
        check_is_fitted(self, "params_")
        X = self._check_rows(X, reset=False)
        parts = map_rows(X, self.preprocessor_, fn, rows_per_chunk(self._numbers_per_row()))
        return namespace(parts[0]).concat(parts, axis=0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags


#: Share of the rows on which `criterion="validation"` compares structures.
HELD_OUT = 0.25


def hold_out(rows: Rows, rng: np.random.Generator) -> tuple[Rows, ArraySource | None]:
    """Rows to fit on and raw rows to compare on, a quarter of each class; None if that is nothing."""
    y = rows.raw.y
    labels = y if y.ndim == 1 and y.dtype.kind in "iu" else np.zeros(len(y), dtype=int)
    rest, apart = train_validation_split(labels, rows.raw.weight, HELD_OUT, rng)
    if not apart.size:
        return rows, None
    return rows.subset(rest), rows.raw.subset(apart)


def mean_log_score(rows: ArraySource, log_score: Callable[[MaskedRows, Array], Array], chunk: int) -> float:
    """Weighted mean of the log scores of rows."""

    def visit(chunk: Chunk) -> Totals:
        score = log_score(chunk.rows, chunk.y)
        xp = namespace(score)
        return {"sum": xp.sum(score if chunk.weight is None else score * chunk.weight, axis=-1)}

    return float(to_numpy(rows.sum_over_chunks(visit, chunk)["sum"])) / rows.total_weight


def _in_units(fitted: Fitted, units: float) -> Fitted:
    """A fit whose log densities fall by `units`."""
    return fitted._replace(
        curve=fitted.curve - units,
        start_values=fitted.start_values - units,
        log_evidence=fitted.log_evidence - units,
        corrected_log_evidence=fitted.corrected_log_evidence - units,
        log_likelihood=fitted.log_likelihood - units,
        bic=fitted.bic + 2 * units,
    )


def search_table(fits: list[Fitted], **columns: list[Any]) -> dict[str, Any]:
    """Columns of `search_results_`, which pandas turns into a table."""
    return {
        **columns,
        "log_evidence": np.array([fit.log_evidence for fit in fits]),
        "score": np.array([fit.score for fit in fits]),
        "corrected_log_evidence": np.array([fit.corrected_log_evidence for fit in fits]),
        "bic": np.array([fit.bic for fit in fits]),
        "log_likelihood": np.array([fit.log_likelihood for fit in fits]),
        "restart_gap": np.array([float(fit.start_values[0] - np.median(fit.start_values)) for fit in fits]),
        "n_restarts": np.array([len(fit.start_values) for fit in fits]),
        "n_iter": np.array([fit.n_iter for fit in fits]),
        "seconds": np.array([fit.seconds for fit in fits]),
    }
