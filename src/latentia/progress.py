"""Who hears of a fit's steps: the user's callable, scikit-learn's callbacks, and a progress bar when verbose; and a word when it ends too soon."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from numbers import Integral
from typing import Any

import numpy as np
from array_api_compat import device, is_numpy_array
from sklearn.exceptions import ConvergenceWarning

from latentia._arrays import like, namespace
from latentia._warn import warn_user
from latentia.solvers import OnStep, Step

__all__ = [
    "CallbackSupportMixin",
    "Watch",
    "attributes_after",
    "check_callback",
    "fit_method",
    "forget",
    "reporting",
    "warn_unless_converged",
    "with_callbacks",
]

try:  # scikit-learn 1.9 and later
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # pragma: no cover - depends on the installed version

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks yet."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Stands in where scikit-learn has no callbacks yet."""
        return method


def fit_method(fit: Callable[..., Any]) -> Callable[..., Any]:
    """A fit that fails leaves the attributes of the one before as they were; one that succeeds has its arrays in the namespace of X."""

    @wraps(fit)
    def guarded(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(estimator))
        try:
            fit(estimator, *args, **kwargs)
        except BaseException:
            _set_all(estimator, before)
            raise
        _bring_beside_rows(estimator)
        return estimator

    return guarded


def _bring_beside_rows(estimator: Any) -> None:
    """Numbers that were made on the host go where the parameters are; classes and names may be text, and stay."""
    where = getattr(estimator.preparation_, "shift", None)
    if where is None or is_numpy_array(where):
        return
    xp = namespace(where)
    held = xp.__array_namespace_info__().dtypes(device=device(where))
    for name, value in list(vars(estimator).items()):
        if name.endswith("_") and name != "classes_" and isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            dtype = held.get(str(value.dtype), xp.float32)  # some devices know no double precision
            setattr(estimator, name, like(value.copy(), where, dtype=dtype))  # torch wants to write


def forget(estimator: Any) -> None:
    """Drop what a fit before has learned: with other options it may learn attributes that the next does not."""
    _set_all(estimator, {name: value for name, value in vars(estimator).items() if not _is_learned(name)})


def attributes_after(estimator: Any, publish: Callable[[], None], **given: Any) -> dict[str, Any]:
    """The attributes that `publish` would leave on an estimator with the `given` ones; the estimator stays as it is."""
    before = dict(vars(estimator))
    vars(estimator).update(given)
    publish()
    after = {k: v for k, v in vars(estimator).items() if _is_learned(k)}
    _set_all(estimator, before)
    return after


def _is_learned(name: str) -> bool:
    return name.endswith("_") and not name.startswith("__")


def _set_all(estimator: Any, attributes: dict[str, Any]) -> None:
    estimator.__dict__.clear()
    estimator.__dict__.update(attributes)


class Watch:
    """Tells everybody of each step, until one of them wants to stop."""

    def __init__(self, listeners: list[OnStep]):
        self.listeners = listeners
        self.stopped = False

    def __call__(self, step: Step) -> bool:
        """Whether somebody has wanted to stop; after that nobody hears of further steps."""
        if not self.stopped:
            self.stopped = any([listener(step) for listener in self.listeners])  # all hear of the last one
        return self.stopped


def check_callback(callback: Any) -> None:
    """None, or something to be called."""
    if callback is not None and not callable(callback):
        raise ValueError(f"callback={callback!r}; allowed are None and a function of a step.")


@contextmanager
def reporting(estimator: Any, X: Any, y: Any, fitted: Callable[[Any], dict[str, Any]]) -> Iterator[Watch]:
    """What solvers tell of their steps, on its way to everybody who listens.

    `fitted` gives, for parameters, the attributes of an estimator that would stop there.
    """
    verbose = _check_verbose(estimator.verbose)
    check_callback(estimator.callback)
    listeners: list[OnStep] = []
    if estimator.callback is not None:
        listeners.append(lambda step: bool(estimator.callback(step)))
    context = None
    if hasattr(estimator, "_init_callback_context"):
        context = estimator._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
        if getattr(estimator, "_skl_callbacks", None):
            listeners.append(_sklearn_listener(estimator, context, X, y, fitted))
    with _bar(verbose) as show:
        if show is not None:
            listeners.append(show)
        yield Watch(listeners)
    if context is not None:
        context.call_on_fit_task_end(estimator=estimator, X=X, y=y)


def warn_unless_converged(estimator: Any) -> None:
    """Say that a fit ended before it converged, unless somebody wanted it to."""
    if estimator.converged_ or estimator.stopping_reason_.startswith("stopped"):
        return
    warn_user(
        f"{type(estimator).__name__} stopped before it converged ({estimator.stopping_reason_}). Raise max_iter or tol.",
        ConvergenceWarning,
    )


def _sklearn_listener(estimator: Any, context: Any, X: Any, y: Any, fitted: Callable[[Any], dict[str, Any]]) -> OnStep:
    def tell(step: Step) -> bool:
        sub = context.subcontext(task_name=f"{step.solver} step")
        sub.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
        stop = sub.call_on_fit_task_end(
            estimator=estimator, X=X, y=y, reconstruction_attributes=lambda: fitted(step.params())
        )
        return bool(stop)

    return tell


def _check_verbose(verbose: Any) -> int:
    if not isinstance(verbose, Integral | np.bool_):
        raise ValueError(f"verbose={verbose!r}; allowed are True, False and integers: progress is shown if positive.")
    return int(verbose)


@contextmanager
def _bar(verbose: int) -> Iterator[OnStep | None]:
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
