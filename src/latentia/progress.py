"""Who hears of a fit's steps: the user's callable, scikit-learn's callbacks, and a progress bar when verbose; and a word when it ends too soon."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from latentia._warn import warn_user
from latentia.solvers import OnStep, Step

__all__ = [
    "CallbackSupportMixin",
    "attributes_after",
    "loses_nothing",
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


def loses_nothing(fit: Callable[..., Any]) -> Callable[..., Any]:
    """A fit that fails leaves the attributes of the one before as they were."""

    @wraps(fit)
    def guarded(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(estimator))
        try:
            return fit(estimator, *args, **kwargs)
        except BaseException:
            _set_all(estimator, before)
            raise

    return guarded


def attributes_after(estimator: Any, publish: Callable[[], None]) -> dict[str, Any]:
    """The attributes that `publish` would leave on an estimator, which stays as it is."""
    before = dict(vars(estimator))
    publish()
    after = {k: v for k, v in vars(estimator).items() if k.endswith("_") and not k.startswith("__")}
    _set_all(estimator, before)
    return after


def _set_all(estimator: Any, attributes: dict[str, Any]) -> None:
    estimator.__dict__.clear()
    estimator.__dict__.update(attributes)


@contextmanager
def reporting(estimator: Any, X: Any, y: Any, fitted: Callable[[Any], dict[str, Any]]) -> Iterator[OnStep]:
    """A function that tells everybody of a step, and whether one of them wants to stop.

    `fitted` gives, for parameters, the attributes of an estimator that would stop there.
    """
    listeners: list[OnStep] = []
    if estimator.callback is not None:
        if not callable(estimator.callback):
            raise ValueError(f"callback={estimator.callback!r}; allowed are None and a function of a step.")
        listeners.append(lambda step: bool(estimator.callback(step)))
    context = None
    if hasattr(estimator, "_init_callback_context"):
        context = estimator._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
        if getattr(estimator, "_skl_callbacks", None):
            listeners.append(_sklearn_listener(estimator, context, X, y, fitted))
    with _bar(estimator.verbose) as show:
        if show is not None:
            listeners.append(show)
        # Every listener hears of the step, also after one wanted to stop.
        yield lambda step: any([listener(step) for listener in listeners])
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


@contextmanager
def _bar(verbose: int) -> Iterator[OnStep | None]:
    """A live line on the terminal with rich; a line every tenth step without it."""
    if not verbose:
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
