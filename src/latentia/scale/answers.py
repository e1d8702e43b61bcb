"""Answers of an estimator to the rows of a table, wherever they are.

A table in memory is answered at once. One that is not is answered part by part: lazily if the
answers are as many as the rows, else where the parts are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from functools import partial, wraps
from inspect import signature
from typing import Any, TypeVar, cast

from array_api_compat import device, is_numpy_array
from sklearn import get_config
from sklearn.base import BaseEstimator

from latentia.arrays.namespace import is_sparse, namespace
from latentia.engine.tree import leaves
from latentia.scale.tables import RawPart, lazy_table, unless_empty
from latentia.table.frames import TableLike, is_array
from latentia.table.labels import LabelsLike

R = TypeVar("R")
E = TypeVar("E")
RowMethod = TypeVar("RowMethod", bound=Callable[..., Any])


def method_of_rows(method: RowMethod) -> RowMethod:
    """A method that answers for each row of a table.

    A table that is not in memory is answered part by part, lazily. Under array API dispatch, rows
    must be of the library and on the device of those fitted.
    """

    arguments = signature(method)

    @wraps(method)
    def checked(estimator: BaseEstimator, X: TableLike, *args: object, **kwargs: object) -> object:
        table = lazy_table(X)
        if table is not None:
            estimator._require_fitted()
            given = arguments.bind(estimator, X, *args, **kwargs).arguments
            options = {name: given[name] for name in list(given)[2:]}
            labels = options.pop("y", None)  # which come in parts, too
            return table.map_rows(AnswerPart(estimator, method.__name__, options), labels)
        _check_same_namespace(estimator, X, method.__name__)
        return method(estimator, X, *args, **kwargs)

    return cast(RowMethod, checked)


class AnswerPart:
    """A method of a fitted estimator, with its options, as a function of some rows."""

    def __init__(self, estimator: BaseEstimator, method: str, options: Mapping[str, object]):
        self.estimator, self.method, self.options = _silent(estimator), method, dict(options)

    def __call__(self, X: TableLike, y: LabelsLike | None = None) -> Any:
        labels = () if y is None else (y,)
        return getattr(self.estimator, self.method)(X, *labels, **self.options)


def answers_of_parts(
    fn: Callable[[E, RawPart], R], estimator: E, X: Any, y: Any = None, sample_weight: Any = None
) -> list[R]:
    """What `fn` of an estimator and of rows with their labels and weights says of each part of a
    table that has rows; a table in memory is one part.
    """
    table = lazy_table(X)
    if table is None:
        return [fn(estimator, RawPart(X, y, sample_weight))]
    found = table.gather(partial(unless_empty, fn=partial(fn, _silent(estimator))), y, sample_weight)
    return [each for each in found if each is not None]


def _silent(estimator: E) -> E:
    """A copy without its callback, which need not travel, and is not called."""
    other: Any = copy(estimator)
    if getattr(other, "callback", None) is not None:
        other.callback = None
    return other


def _check_same_namespace(estimator: BaseEstimator, X: TableLike, method: str) -> None:
    if not get_config()["array_api_dispatch"]:
        return
    estimator._require_fitted()
    ours = next(leaves(estimator._model.params))
    if is_array(X) and not is_sparse(X):
        if namespace(X) is namespace(ours) and (is_numpy_array(X) or device(X) == device(ours)):
            return
        what = f"an array of {namespace(X).__name__} on {device(X)}"
    elif is_numpy_array(ours):
        return
    else:
        what = f"a {type(X).__name__}"
    raise ValueError(
        f"Inputs passed to {type(estimator).__name__}.{method}() must use the same namespace and the same device "
        "as those passed to fit(): "
        f"X is {what}, but the model was fitted in {namespace(ours).__name__} on {device(ours)}."
    )
