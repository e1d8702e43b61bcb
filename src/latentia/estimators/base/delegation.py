"""Estimators that search for another estimator, hold it as `best_estimator_`, and answer through
it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from sklearn.utils.validation import check_is_fitted

from latentia.estimators.base.fitting import is_learned
from latentia.inputs.rows import require_fitted_namespace


def delegated(method: Callable[..., Any]) -> Callable[..., Any]:
    """The same method of `best_estimator_`, with its documentation."""

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        check_is_fitted(self, "best_estimator_")
        return getattr(self.best_estimator_, method.__name__)(*args, **kwargs)

    return call


def delegated_on_rows(method: Callable[..., Any]) -> Callable[..., Any]:
    """The same for methods of rows, which must come as those that were fitted did."""
    return require_fitted_namespace(delegated(method))


class LearnedAttributesMixin:
    """What `best_estimator_` has learned are attributes of its holder, too."""

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
