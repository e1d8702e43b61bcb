"""One way through `fit`, shared by all estimators.

    check options -> read input -> train -> learned attributes

Each step is a function of values and changes nothing; only the last line of `fit` sets the learned
attributes, all at once. So a fit that fails leaves the estimator as it was, a refit leaves nothing
of an earlier fit, and a callback's view of an unfinished fit is a value like any other.

Callbacks, progress on the terminal, convergence warnings.

One line on the terminal, shown by itself once a fit takes long.

It is updated in place and removed when the fit ends. Nothing is written unless the error stream is
a terminal: not in notebooks, pipes, log files or tests.

What `fit` was given, in a few numbers: kept for `summary`.

A record is a dict of plain values, so that it is saved by any means and needs no trust.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from array_api_compat import device, is_numpy_array
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from latentia.arrays.namespace import Array, asarray_like, is_sparse, namespace
from latentia.arrays.parallel import one_blas_thread
from latentia.engine.messages import format_seconds, warn_at_caller
from latentia.engine.rows import LabelTotals
from latentia.estimators.base.summary import as_html, as_text, summary_sections
from latentia.persistence.files import save_model
from latentia.scale.tables import bring_small, is_lazy, lazy_table, refuse_lazy
from latentia.solvers import Outcome, Solution, Step, StepCallback
from latentia.table.frames import TableLike
from latentia.table.labels import LabelsLike
from latentia.table.options import Check, check_options, name_hint, random_generator
from latentia.table.rows import check_order, reject_missing, validate_rows, warn_of_labels
from latentia.table.standardization import ColumnError

__all__ = ["CallbackSupportMixin", "StepNotifier", "notify_callbacks", "warn_unless_converged", "with_callbacks"]


try:  # scikit-learn 1.9 and later
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # pragma: no cover - depends on the installed version

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks yet."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Stands in where scikit-learn has no callbacks yet."""
        return method


class StepNotifier:
    """Notifies all listeners of each step; stops when any returns True.

    `attributes_at` gives the learned attributes of an estimator that would stop at some parameters;
    training sets it as soon as it knows the family.
    """

    def __init__(self) -> None:
        self.listeners: list[StepCallback] = []
        self.attributes_at: Callable[[Any], dict[str, Any]] = lambda params: {}
        self.stopped = False

    def __call__(self, step: Step) -> bool:
        """Whether a listener has stopped the fit; after that nobody hears of further steps."""
        if not self.stopped:
            self.stopped = any([listener(step) for listener in self.listeners])  # all hear of the last one
        return self.stopped


def check_callback(name: str, callback: object) -> None:
    """None, or a callable."""
    if callback is not None and not callable(callback):
        raise ValueError(f"{name}={callback!r}; allowed are None and a function of a step.")


def check_verbose(name: str, verbose: Any) -> None:
    """A bool or an integer."""
    if not isinstance(verbose, Integral | np.bool_):
        raise ValueError(f"{name}={verbose!r}; allowed are True, False and integers: progress is shown if positive.")


@contextmanager
def notify_callbacks(estimator: BaseEstimator, X: TableLike, y: LabelsLike | None) -> Iterator[StepNotifier]:
    """Steps of solvers go to the user's callback, scikit-learn's callbacks and the progress bar."""
    notifier = StepNotifier()
    if estimator.callback is not None:
        notifier.listeners.append(lambda step: bool(estimator.callback(step)))
    context = None
    if hasattr(estimator, "_init_callback_context"):
        context = estimator._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
        if getattr(estimator, "_skl_callbacks", None):
            notifier.listeners.append(_sklearn_listener(estimator, context, X, y, notifier))
    verbose = int(estimator.verbose)
    with progress_line(type(estimator).__name__, muted=verbose > 0) as line, _bar(verbose) as show:
        notifier.listeners.append(line if show is None else show)
        yield notifier
    if context is not None:
        context.call_on_fit_task_end(estimator=estimator, X=X, y=y)


def warn_unless_converged(estimator: BaseEstimator, outcome: Outcome) -> None:
    """Say that a fit ended before it converged, unless a callback stopped it."""
    if outcome.converged or outcome is Outcome.STOPPED:
        return
    why, cure = outcome.value, "Rescale the columns, or raise tol."
    if outcome is Outcome.MAX_ITER:
        why, cure = f"max_iter={estimator.max_iter} reached", "Raise max_iter or tol."
    warn_at_caller(f"{type(estimator).__name__} stopped before it converged ({why}). {cure}", ConvergenceWarning)


def _sklearn_listener(
    estimator: BaseEstimator, context: Any, X: TableLike, y: LabelsLike | None, notifier: StepNotifier
) -> StepCallback:
    def notify(step: Step) -> bool:
        sub = context.subcontext(task_name=f"{step.solver} step")
        sub.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
        stop = sub.call_on_fit_task_end(
            estimator=estimator, X=X, y=y, reconstruction_attributes=lambda: notifier.attributes_at(step.params())
        )
        return bool(stop)

    return notify


@contextmanager
def _bar(verbose: int) -> Iterator[StepCallback | None]:
    """A live line on the terminal with rich; a line every tenth step without it."""
    if verbose <= 0:
        yield None
        return
    try:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    except ImportError:

        def show_plain(step: Step) -> bool:
            if step.iteration % 10 == 1 or verbose > 1:
                print(_text(step), file=sys.stderr)
            return False

        yield show_plain
        return
    with Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as progress:
        tasks: dict[str, Any] = {}

        def show(step: Step) -> bool:
            if step.solver not in tasks:
                tasks[step.solver] = progress.add_task("", total=None)
            progress.update(tasks[step.solver], description=_text(step))
            return False

        yield show


def _text(step: Step) -> str:
    return f"{step.solver} step {step.iteration}: objective {step.value:.4f}, {step.n_running} running"


Attributes = dict[str, Any]


class TrainingInput(Protocol):
    """What `fit` was given, validated."""

    @property
    def X(self) -> Array: ...
    @property
    def n_rows(self) -> int: ...  # of the table, with those that were dropped
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
    def _read_input(self, X: TableLike, y: LabelsLike | None, sample_weight: ArrayLike | None) -> TrainingInput:
        """Validate and encode rows, labels and weights. Changes nothing on `self`."""

    @abstractmethod
    def _train(self, data: Any, rng: np.random.Generator, notifier: StepNotifier) -> TrainingResult:
        """The fitted model, a value; tells the notifier of each step."""

    @abstractmethod
    def _fitted_attributes(self, data: Any, fitted: Any) -> Attributes:
        """The learned attributes of a fitted model."""

    @with_callbacks
    def fit(self, X: TableLike, y: LabelsLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
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
            warn_of_labels(None if is_lazy(X) else X, y, data.attributes["classes_"], getattr(self, "unlabeled", None))
        rng = random_generator(self.random_state)
        with notify_callbacks(self, X, y) as notifier, one_blas_thread(self._works_by_chunks):
            fitted = self._train(data, rng, notifier)
        attributes = data.attributes | self._fitted_attributes(data, fitted)
        seconds = time.perf_counter() - started
        attributes["training_record_"] = training_record(data.n_rows, data, seconds)
        warn_unless_converged(self, fitted.outcome)
        self._set_learned(on_device_of(attributes, data.X))
        return self

    def _bring_small(self, X: TableLike, y: LabelsLike | None, sample_weight: ArrayLike | None) -> tuple[Any, Any, Any]:
        """What `fit` was given, in memory if it comes in parts and is small."""
        table = lazy_table(X)
        if table is None:
            in_memory = "X is in memory: bring it there, too (.compute() of Dask), or pass all from one table"
            refuse_lazy("y", y, in_memory)
            refuse_lazy("sample_weight", sample_weight, in_memory)
            return X, y, sample_weight
        small = None if self._leaves_rows_in_place else bring_small(table, y, sample_weight)
        return small or (X, y, sample_weight)

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

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags

    def _require_fitted(self) -> None:
        if not hasattr(self, "_model"):  # the check makes all tags before it looks
            check_is_fitted(self, "_model")

    def _check_rows(self, X: TableLike) -> Array:
        """Rows to predict, as numbers; those of most models have no gaps."""
        self._require_fitted()
        rows = validate_rows(self, X, reset=False)
        reject_missing(self, rows)
        return rows


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

    def move(name: str, value: object) -> Any:
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


#: Seconds after which a fit is slow, and between two updates of its line.
PATIENCE, INTERVAL = 30.0, 0.5


#: What seconds are counted by.
clock = time.monotonic


class ProgressLine:
    """The line of one fit; as a listener it never stops the fit."""

    def __init__(self, name: str, muted: bool = False):
        self.name, self.muted = name, muted
        self.started = clock()
        self.next_update = self.started + PATIENCE
        self.width = 0  # of what stands on the terminal

    def __call__(self, step: Step) -> bool:
        """Show a step, if the fit is slow and the last update is old enough."""
        now = clock()
        if not self.muted and now >= self.next_update:
            self.next_update = now + INTERVAL
            self._write(
                f"{self.name}: {format_seconds(now - self.started)}, {step.solver} step {step.iteration}, "
                f"objective {step.value:.4f}"
            )
        return False

    def clear(self) -> None:
        """Leave the terminal as it was."""
        if self.width:
            self._put("\r" + " " * self.width + "\r")
            self.width = 0

    def _write(self, text: str) -> None:
        text = text[: shutil.get_terminal_size().columns - 1]
        if self._put("\r" + text.ljust(self.width)):
            self.width = len(text)

    def _put(self, text: str) -> bool:
        """Write to the error stream of the moment, if it is a terminal."""
        stream = sys.stderr
        if stream is None or not stream.isatty():
            return False
        stream.write(text)
        stream.flush()
        return True


#: The line of the outermost fit: a search and the fits inside it share one.
_outermost: ContextVar[ProgressLine | None] = ContextVar("outermost", default=None)


@contextmanager
def progress_line(name: str, muted: bool) -> Iterator[ProgressLine]:
    """The line of this fit, or of the one that it is a part of."""
    line = _outermost.get()
    if line is not None:
        yield line
        return
    in_worker = multiprocessing.current_process().name != "MainProcess"
    line = ProgressLine(name, muted=muted or in_worker)
    token = _outermost.set(line)
    try:
        yield line
    finally:
        _outermost.reset(token)
        line.clear()


class LabelCounts(NamedTuple):
    """Rows of each class, or with each label, and rows that have any."""

    counts: list[int]
    n_labeled: int
    n_known: list[int] | None = None  # rows in which each label of a matrix is known

    @classmethod
    def of_codes(cls, codes: np.ndarray) -> LabelCounts:
        """Codes (N,) are class numbers, codes (N, L) say which labels are present; -1 is
        unknown.
        """
        known = codes >= 0
        if codes.ndim == 1:
            return cls(np.bincount(codes[known]).tolist(), int(known.sum()))
        return cls((codes == 1).sum(axis=0).tolist(), int(known.any(axis=1).sum()), known.sum(axis=0).tolist())

    @classmethod
    def of_totals(cls, totals: dict[int, LabelTotals]) -> LabelCounts:
        """From the totals of class codes."""
        counts = [totals[code].n_rows for code in sorted(totals) if code >= 0]
        return cls(counts, sum(counts))


class DescribedInput(Protocol):
    """The part of a training input that is recorded."""

    @property
    def label_counts(self) -> LabelCounts | None: ...
    @property
    def missing_shares(self) -> np.ndarray | None: ...


def training_record(n_rows: int, data: DescribedInput, seconds: float) -> dict[str, Any]:
    """Rows, labels, gaps and time."""
    record: dict[str, Any] = {"n_rows": int(n_rows), "seconds": float(seconds)}
    labels, missing = data.label_counts, data.missing_shares
    if labels is not None:
        record["label_counts"] = labels.counts
        record["n_unlabeled"] = int(n_rows - labels.n_labeled)
        if labels.n_known is not None:
            record["known_counts"] = labels.n_known
    if missing is not None:
        record["missing"] = [float(share) for share in missing]
    return record
