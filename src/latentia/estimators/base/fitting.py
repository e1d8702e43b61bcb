"""One way through `fit`, shared by all estimators.

    check options -> read input -> train -> learned attributes

Each step is a function of values and changes nothing; only the last line of `fit` sets the learned
attributes, all at once. So a fit that fails leaves the estimator as it was, a refit leaves nothing
of an earlier fit, and a callback's view of an unfinished fit is a value like any other.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from copy import copy
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from array_api_compat import device, is_numpy_array
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _num_samples, check_is_fitted

from latentia.arrays.namespace import Array, asarray_like, is_sparse, namespace
from latentia.arrays.parallel import one_blas_thread
from latentia.estimators.base.callbacks import (
    CallbackSupportMixin,
    StepNotifier,
    check_callback,
    check_verbose,
    notify_callbacks,
    warn_unless_converged,
    with_callbacks,
)
from latentia.estimators.base.summary import as_html, as_text, summary_sections
from latentia.estimators.base.training_record import LabelCounts, training_record
from latentia.persistence.model_files import save_model
from latentia.scale.tables import bring_small
from latentia.solvers import Outcome, Solution
from latentia.table.lazy import lazy_table, refuse_lazy
from latentia.table.options import Check, check_options, name_hint, random_generator
from latentia.table.rows import check_order
from latentia.table.standardization import ColumnError
from latentia.table.warnings import doubt_labels

Attributes = dict[str, Any]


class TrainingInput(Protocol):
    """What `fit` was given, validated."""

    @property
    def X(self) -> Array: ...
    @property
    def attributes(self) -> Attributes: ...  # what is learned from the input alone
    @property
    def label_counts(self) -> LabelCounts | None: ...  # None for numbers
    @property
    def missing_shares(self) -> np.ndarray | None: ...  # (D,) of the cells; None where none may be missing


class TrainingResult(Protocol):
    """A fitted model, as a value."""

    @property
    def outcome(self) -> Outcome: ...  # how its solver ended


class LatentEstimator(CallbackSupportMixin, BaseEstimator, ABC):
    """An estimator of this library.

    Subclasses say how input is read, what is trained, what is learned.
    """

    #: Whether the rows of tables in parts stay where they are even if the table is small.
    _leaves_rows_in_place: ClassVar[bool] = False
    #: Whether all large work goes by chunks of rows, one for each core. A second thread of linear
    #: algebra then only takes a core from another chunk, or waits for products that are too small.
    _works_by_chunks: ClassVar[bool] = True
    #: How constructor arguments are checked; tables of base classes are checked first.
    _CHECKS: ClassVar[dict[str, Check]] = {"callback": check_callback, "verbose": check_verbose}

    def _check_options(self) -> None:
        """Validate constructor arguments."""
        check_options(self)

    @abstractmethod
    def _read_input(self, X: Any, y: Any, sample_weight: Any) -> TrainingInput:
        """Validate and encode rows, labels and weights. Changes nothing on `self`."""

    @abstractmethod
    def _train(self, data: Any, rng: np.random.Generator, notifier: StepNotifier) -> TrainingResult:
        """The fitted model, a value; tells the notifier of each step."""

    @abstractmethod
    def _fitted_attributes(self, data: Any, fitted: Any) -> Attributes:
        """The learned attributes of a fitted model."""

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from rows and labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. Generative models take NaN for missing cells. Also a Dask array or data frame, or
            what `latentia.scan` returns, which has labels and weights inside.
        y : array-like of shape (n_samples,)
            Classes, or outputs for regression. None and NaN mark unlabeled rows, and so does the
            integer that the argument `unlabeled` of classifiers names.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; a row of weight 2 counts as that row twice.

        Returns
        -------
        self : estimator
        """
        started = time.perf_counter()
        self._check_options()
        X, y, sample_weight = self._bring_small(X, y, sample_weight)
        check_order(X, y)
        try:
            data = self._read_input(X, y, sample_weight)
        except ColumnError as error:
            raise error.of_table(X) from None
        if "classes_" in data.attributes and not data.attributes.get("multilabel_"):
            doubt_labels(X, y, data.attributes["classes_"], getattr(self, "unlabeled", None))
        rng = random_generator(self.random_state)
        with notify_callbacks(self, X, y) as notifier, one_blas_thread(self._works_by_chunks):
            fitted = self._train(data, rng, notifier)
        attributes = data.attributes | self._fitted_attributes(data, fitted)
        seconds = time.perf_counter() - started
        attributes["training_record_"] = training_record(self._n_rows(X, data), data, seconds)
        warn_unless_converged(self, fitted.outcome)
        self._set_learned(on_device_of(attributes, data.X))
        return self

    def _bring_small(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """What `fit` was given, in memory if it comes in parts and is small."""
        table = lazy_table(X)
        if table is None:
            in_memory = "X is in memory: bring it there, too (.compute() of Dask), or pass all from one table"
            refuse_lazy("y", y, in_memory)
            refuse_lazy("sample_weight", sample_weight, in_memory)
            return X, y, sample_weight
        stays = self._leaves_rows_in_place or table.device is not None
        small = None if stays else bring_small(table, y, sample_weight)
        return small or (X, y, sample_weight)

    def _n_rows(self, X: Any, data: Any) -> int:
        """How many rows the table has."""
        return int(_num_samples(X))

    def summary(self) -> str:
        """What the estimator was given and has learned, in words and numbers.

        Returns
        -------
        text : str
            Columns with their kinds and missing cells, classes and their counts, what was learned,
            and how the training went.
        """
        self._require_fitted()
        return as_text(self, summary_sections(self))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimator to a file of plain arrays and JSON, which `latentia.load` reads.

        The file takes the place of what `path` held, when all of it is written. Arrays of other
        libraries are stored as NumPy's. A callback is left out, with a warning.

        Parameters
        ----------
        path : str or path-like
            The file, by custom with the ending ``.latentia``.
        """
        check_is_fitted(self, msg="This %(name)s instance is not fitted yet: there is nothing to save. Call fit first.")
        save_model(self, path)

    def set_params(self, **params: Any) -> Self:
        """Set constructor arguments.

        Parameters
        ----------
        **params : dict
            Arguments by name.

        Returns
        -------
        self : estimator
        """
        try:
            super().set_params(**params)
        except ValueError as error:
            raise ValueError(f"{error}{name_hint(params, self.get_params(deep=False))}") from None
        return self

    def _html_repr(self) -> str:
        """scikit-learn's diagram, and below it the summary of a fitted estimator."""
        diagram = str(super()._html_repr())
        fitted = "training_record_" in vars(self)
        return diagram + as_html(summary_sections(self)) if fitted else diagram

    def _set_learned(self, attributes: Attributes) -> None:
        """Replace all learned attributes."""
        for name in [name for name in vars(self) if is_learned(name)]:
            delattr(self, name)
        for name, value in attributes.items():
            setattr(self, name, value)

    def _blank_copy(self) -> Self:
        """A copy without learned attributes, on which scikit-learn's validation may leave its
        marks.
        """
        other = copy(self)
        other._set_learned({})
        return other

    def _require_fitted(self) -> None:
        check_is_fitted(self, "_model")


def is_learned(name: str) -> bool:
    """Whether an attribute of that name is set by `fit`."""
    return name == "_model" or (name.endswith("_") and not name.startswith("__"))


def input_attributes(validated: Any) -> Attributes:
    """What scikit-learn's validation has found out about X."""
    names = ("n_features_in_", "feature_names_in_")
    return {name: getattr(validated, name) for name in names if hasattr(validated, name)}


def on_device_of(attributes: Attributes, X: Array) -> Attributes:
    """Numbers that were made in NumPy go where the rows are; classes and names may be text, and
    stay.
    """
    if is_sparse(X) or is_numpy_array(X):
        return attributes
    xp = namespace(X)
    dtypes = xp.__array_namespace_info__().dtypes(device=device(X))

    def move(name: str, value: Any) -> Any:
        if name == "classes_" or not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
            return value
        dtype = dtypes.get(str(value.dtype), xp.float32)  # some devices know no double precision
        return asarray_like(value.copy(), X, dtype=dtype)  # torch wants to write

    return {name: move(name, value) for name, value in attributes.items()}


def solution_attributes(solution: Solution, restart: int = 0, log_jacobian: float = 0.0) -> Attributes:
    """How one restart of a solver went; densities lose `log_jacobian` to the units of X."""
    return {
        "objective_curve_": solution.curves[restart] - log_jacobian,
        "n_iter_": int(solution.n_iter[restart]),
        "converged_": solution.outcomes[restart].converged,
        "stopping_reason_": solution.outcomes[restart].value,
    }
