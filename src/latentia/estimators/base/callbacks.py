"""Callbacks, progress on the terminal, convergence warnings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from latentia.engine.contracts import Params
from latentia.engine.messages import warn_at_caller
from latentia.estimators.base.progress_line import progress_line
from latentia.solvers import Outcome, Step, StepCallback

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
        self.attributes_at: Callable[[Params], dict[str, Any]] = lambda params: {}
        self.stopped = False

    def __call__(self, step: Step) -> bool:
        """Whether a listener has stopped the fit; after that nobody hears of further steps."""
        if not self.stopped:
            self.stopped = any([listener(step) for listener in self.listeners])  # all hear of the last one
        return self.stopped


def check_callback(name: str, callback: Any) -> None:
    """None, or a callable."""
    if callback is not None and not callable(callback):
        raise ValueError(f"{name}={callback!r}; allowed are None and a function of a step.")


def check_verbose(name: str, verbose: Any) -> None:
    """A bool or an integer."""
    if not isinstance(verbose, Integral | np.bool_):
        raise ValueError(f"{name}={verbose!r}; allowed are True, False and integers: progress is shown if positive.")


@contextmanager
def notify_callbacks(estimator: Any, X: Any, y: Any) -> Iterator[StepNotifier]:
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


def warn_unless_converged(estimator: Any, outcome: Outcome) -> None:
    """Say that a fit ended before it converged, unless a callback stopped it."""
    if outcome.converged or outcome is Outcome.STOPPED:
        return
    why, cure = outcome.value, "Rescale the columns, or raise tol."
    if outcome is Outcome.MAX_ITER:
        why, cure = f"max_iter={estimator.max_iter} reached", "Raise max_iter or tol."
    warn_at_caller(f"{type(estimator).__name__} stopped before it converged ({why}). {cure}", ConvergenceWarning)


def _sklearn_listener(estimator: Any, context: Any, X: Any, y: Any, notifier: StepNotifier) -> StepCallback:
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
