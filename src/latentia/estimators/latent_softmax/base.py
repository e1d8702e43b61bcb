"""What the estimators of softmax models share: rows and labels, one structure or a search over several, and the record of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from latentia.engine.array_source import ArrayRows, map_rows
from latentia.engine.contracts import Block, Cells, Params, Totals
from latentia.engine.problem import chunk_rows
from latentia.estimators.base.callbacks import CallbackSupportMixin, Watch, reporting, warn_unless_converged
from latentia.estimators.base.fitting import attributes_after, forget
from latentia.estimators.latent_softmax.model_specs import Structure
from latentia.estimators.latent_softmax.training import Fitted, Options, Rows, fit_structure
from latentia.families.building_blocks.gamma_prior import GammaPrior
from latentia.inputs.options import check_choice, check_flag, check_number, random_generator
from latentia.inputs.rows import numeric_rows, refuse_gaps
from latentia.inputs.splits import held_out_rows
from latentia.inputs.standardization import Standardise, column_moments
from latentia.numerics.array_api import Array, namespace, to_numpy, working_dtype
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
        check_flag("annealing", self.annealing)
        check_flag("standardise", self.standardise)
        check_number("shape", self.shape, above=0)
        check_number("rate", self.rate, above=0)
        check_number("ridge", self.ridge, least=0)
        check_number("n_init", self.n_init, least=1, integer=True)
        check_number("max_iter", self.max_iter, least=1, integer=True)
        check_number("tol", self.tol, least=0)

    def _check_rows(self, X: Any, reset: bool) -> Array:
        """Rows as a numeric array without gaps; those of a new fit (`reset`) begin without the one before."""
        if reset:
            forget(self)
        X = numeric_rows(self, X, reset)
        refuse_gaps(self, X)
        return X

    def _rows(self, X: Array, y: np.ndarray, weight: np.ndarray | None) -> Rows:
        """The rows as they are modelled, and standardised for the starts."""
        xp = namespace(X)
        moments = column_moments(X, weight, working_dtype(X))
        standard = cast(Any, Standardise.of(*moments))
        nothing = cast(Any, Standardise(xp.zeros_like(moments[1]), xp.ones_like(moments[1]), None))
        self.preparation_ = standard if self.standardise else nothing
        modelled = ArrayRows(X, y, weight, self.preparation_)
        if self.standardise:
            return Rows(modelled, modelled, nothing)
        return Rows(modelled, ArrayRows(X, y, weight, standard), standard)

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

    def _score(self, fitted: Fitted, held_out: ArrayRows | None) -> float:
        """What the choice of the structure maximises."""
        if held_out is not None:
            self._publish(fitted.structure, fitted.params, fitted.exact, fitted.weights)
            score = mean_log_score(held_out, self._log_score, chunk_rows(self._numbers_per_row()))
            return score - self._log_units(held_out) / held_out.total_weight
        if self.inference == "ml" or self.criterion == "bic":
            return -fitted.bic / 2
        # "validation" without rows to spare goes by the evidence
        return fitted.log_evidence if self.criterion == "bound" else fitted.tight_evidence

    def _log_units(self, rows: ArrayRows) -> float:
        """By how much the log density of the rows' outputs falls from the units they are modelled in to those they came in."""
        return 0.0

    def _train(self, X: Any, y: Any, rows: Rows) -> None:
        """Search, and publish the winner."""
        rng = random_generator(self.random_state)
        current: list[Structure] = []
        validate = self.criterion == "validation" and self._is_search
        some, held_out = hold_out(rows, rng) if validate else (rows, None)
        with reporting(self, X, y, lambda params: self._attributes_at(current[-1], params)) as watch:

            def fit(structure: Structure, rows: Rows, extra: tuple[Params, ...]) -> Fitted:
                current.append(structure)
                units = self._log_units(rows.raw)

                def tell(step: Step) -> bool:
                    return watch(step._replace(value=step.value - units))

                return _in_units(fit_structure(structure, rows, self._options(), rng, tell, extra), units)

            def fit_one(structure: Structure, extra: tuple[Params, ...] = ()) -> Fitted:
                fitted = fit(structure, some, extra)
                return fitted._replace(score=self._score(fitted, held_out))

            fitted = self._search(some, fit_one, watch)
            if held_out is not None:
                fitted = fit(fitted.structure, rows, (fitted.weights,))
        self._keep(fitted)
        warn_unless_converged(self)

    @abstractmethod
    def _search(self, rows: Rows, fit_one: Any, watch: Watch) -> Fitted:
        """Fit what the options ask for, set `search_results_`, return the best."""

    @abstractmethod
    def _log_score(self, cells: Cells, y: Array) -> Array:
        """Log predictive probability or density (n_rows,) of what was observed."""

    def _keep(self, fitted: Fitted) -> None:
        self.objective_curve_ = fitted.curve
        self.n_iter_ = fitted.n_iter
        self.converged_ = fitted.converged
        self.stopping_reason_ = fitted.reason
        self.start_values_ = fitted.start_values
        if self.inference == "vb":
            self.log_evidence_, self.tight_evidence_ = fitted.log_evidence, fitted.tight_evidence
        self._publish(fitted.structure, fitted.params, fitted.exact, fitted.weights)

    @abstractmethod
    def _publish(self, structure: Any, params: Params, exact: Params, weights: Params) -> None:
        """Set the learned attributes."""

    def _attributes_at(self, structure: Structure, params: Params) -> dict[str, Any]:
        """Attributes of an estimator that stopped at `params`."""
        weights = structure.means(params) if self.inference == "vb" else params
        return attributes_after(self, lambda: self._publish(structure, params, params, weights))

    @abstractmethod
    def _numbers_per_row(self) -> int:
        """Working memory of one row of predictions."""

    def _by_rows(self, X: Any, fn: Any) -> Array:
        """`fn` of the rows with their one, in blocks, its results one after the other."""
        check_is_fitted(self, "params_")
        X = self._check_rows(X, reset=False)
        parts = map_rows(X, self.preparation_, fn, chunk_rows(self._numbers_per_row()))
        return namespace(parts[0]).concat(parts, axis=0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags


#: Share of the rows on which `criterion="validation"` compares structures.
HELD_OUT = 0.25


def hold_out(rows: Rows, rng: np.random.Generator) -> tuple[Rows, ArrayRows | None]:
    """Rows to fit on and raw rows to compare on, a quarter of each class; None if that is nothing."""
    y = rows.raw.y
    labels = y if y.ndim == 1 and y.dtype.kind in "iu" else np.zeros(len(y), dtype=int)
    rest, apart = held_out_rows(labels, rows.raw.weight, HELD_OUT, rng)
    if not apart.size:
        return rows, None
    return rows.subset(rest), rows.raw.subset(apart)


def mean_log_score(rows: ArrayRows, log_score: Callable[[Cells, Array], Array], chunk: int) -> float:
    """Weighted mean of the log scores of rows."""

    def visit(block: Block) -> Totals:
        score = log_score(block.cells, block.y)
        xp = namespace(score)
        return {"sum": xp.sum(score if block.weight is None else score * block.weight, axis=-1)}

    return float(to_numpy(rows.reduce(visit, chunk)["sum"])) / rows.total_weight


def _in_units(fitted: Fitted, units: float) -> Fitted:
    """A fit whose log densities fall by `units`."""
    return fitted._replace(
        curve=fitted.curve - units,
        start_values=fitted.start_values - units,
        log_evidence=fitted.log_evidence - units,
        tight_evidence=fitted.tight_evidence - units,
        log_likelihood=fitted.log_likelihood - units,
        bic=fitted.bic + 2 * units,
    )


def search_table(fits: list[Fitted], **columns: list[Any]) -> dict[str, Any]:
    """Columns of `search_results_`, which pandas turns into a table."""
    return {
        **columns,
        "log_evidence": np.array([fit.log_evidence for fit in fits]),
        "score": np.array([fit.score for fit in fits]),
        "tight_evidence": np.array([fit.tight_evidence for fit in fits]),
        "bic": np.array([fit.bic for fit in fits]),
        "log_likelihood": np.array([fit.log_likelihood for fit in fits]),
        "start_spread": np.array([float(fit.start_values[0] - np.median(fit.start_values)) for fit in fits]),
        "n_starts": np.array([len(fit.start_values) for fit in fits]),
        "n_iter": np.array([fit.n_iter for fit in fits]),
        "seconds": np.array([fit.seconds for fit in fits]),
    }
