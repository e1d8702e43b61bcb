"""Estimators that search for another estimator, hold it as `best_estimator_`, and answer through
it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from sklearn.utils.validation import check_is_fitted

from latentia.estimators.base.fitting import is_learned
from latentia.table.rows import method_of_rows


def delegated(method: Callable[..., Any]) -> Callable[..., Any]:
    """The same method of `best_estimator_`, with its documentation."""

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        check_is_fitted(self, "best_estimator_")
        return getattr(self.best_estimator_, method.__name__)(*args, **kwargs)

    return call


def delegated_on_rows(method: Callable[..., Any]) -> Callable[..., Any]:
    """The same for methods of rows, which must come as those that were fitted did."""
    return method_of_rows(delegated(method))


def as_frame_if_possible(table: dict[str, list[Any]]) -> Any:
    """Columns as a data frame, or as they are without pandas."""
    try:
        from pandas import DataFrame
    except ImportError:
        return table
    return DataFrame(table)


class LearnedAttributesMixin:
    """What `best_estimator_` has learned are attributes of its holder, too.

    The table of trials is shown as a data frame and saved as plain lists, which any serializer
    takes.
    """

    def __getattr__(self, name: str) -> Any:
        best = self.__dict__.get("best_estimator_")
        if best is None or not is_learned(name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(best, name)

    def __dir__(self) -> list[str]:
        best = self.__dict__.get("best_estimator_")
        return sorted(
            {*super().__dir__(), *(name for name in vars(best) if is_learned(name))} if best else super().__dir__()
        )

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())  # type: ignore[call-overload]
        if "search_results_" in state:
            table = state["search_results_"]
            state["search_results_"] = {str(name): list(table[name]) for name in table}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        table = state.get("search_results_")
        shown = {} if table is None else {"search_results_": as_frame_if_possible(table)}
        super().__setstate__(state | shown)  # type: ignore[misc]
