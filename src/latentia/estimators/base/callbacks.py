"""Callbacks, progress bar, convergence warnings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from latentia._user_warnings import warn_at_caller
from latentia.solvers import Step, StepCallback

__all__ = [
    "CallbackSupportMixin",
    "StepNotifier",
    "check_callback",
    "check_verbose",
    "notify_callbacks",
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


class StepNotifier:
    """Tells everybody of each step, until one of them wants to stop."""

    def __init__(self, listeners: list[StepCallback]):
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
def notify_callbacks(estimator: Any, X: Any, y: Any, fitted: Callable[[Any], dict[str, Any]]) -> Iterator[StepNotifier]:
    """What solvers tell of their steps, on its way to everybody who listens.

    `fitted` gives, for parameters, the attributes of an estimator that would stop there.
    """
    verbose = check_verbose(estimator.verbose)
    check_callback(estimator.callback)
    listeners: list[StepCallback] = []
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
        yield StepNotifier(listeners)
    if context is not None:
        context.call_on_fit_task_end(estimator=estimator, X=X, y=y)


def warn_unless_converged(estimator: Any) -> None:
    """Say that a fit ended before it converged, unless somebody wanted it to."""
    if estimator.converged_ or estimator.stopping_reason_.startswith("stopped"):
        return
    warn_at_caller(
        f"{type(estimator).__name__} stopped before it converged ({estimator.stopping_reason_}). Raise max_iter or tol.",
        ConvergenceWarning,
    )


def _sklearn_listener(
    estimator: Any, context: Any, X: Any, y: Any, fitted: Callable[[Any], dict[str, Any]]
) -> StepCallback:
    def tell(step: Step) -> bool:
        sub = context.subcontext(task_name=f"{step.solver} step")
        sub.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
        stop = sub.call_on_fit_task_end(
            estimator=estimator, X=X, y=y, reconstruction_attributes=lambda: fitted(step.params())
        )
        return bool(stop)

    return tell


def check_verbose(verbose: Any) -> int:
    """A number of messages: none up to zero."""
    if not isinstance(verbose, Integral | np.bool_):
        raise ValueError(f"verbose={verbose!r}; allowed are True, False and integers: progress is shown if positive.")
    return int(verbose)


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
