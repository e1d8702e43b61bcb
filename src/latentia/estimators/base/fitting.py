"""A fit that loses nothing when it fails."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from array_api_compat import device, is_numpy_array

from latentia.numerics.array_api import asarray_like, namespace


def transactional_fit(fit: Callable[..., Any]) -> Callable[..., Any]:
    """A fit that fails leaves the attributes of the one before as they were; one that succeeds has its arrays in the namespace of X."""

    @wraps(fit)
    def guarded(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(estimator))
        try:
            fit(estimator, *args, **kwargs)
        except BaseException:
            _replace_attributes(estimator, before)
            raise
        _move_to_input_device(estimator)
        return estimator

    return guarded


def _move_to_input_device(estimator: Any) -> None:
    """Numbers that were made on the host go where the parameters are; classes and names may be text, and stay."""
    where = getattr(estimator.preprocessor_, "shift", None)
    if where is None or is_numpy_array(where):
        return
    xp = namespace(where)
    held = xp.__array_namespace_info__().dtypes(device=device(where))
    for name, value in list(vars(estimator).items()):
        if name.endswith("_") and name != "classes_" and isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            dtype = held.get(str(value.dtype), xp.float32)  # some devices know no double precision
            setattr(estimator, name, asarray_like(value.copy(), where, dtype=dtype))  # torch wants to write


def drop_fitted_attributes(estimator: Any) -> None:
    """Drop what a fit before has learned: with other options it may learn attributes that the next does not."""
    _replace_attributes(estimator, {name: value for name, value in vars(estimator).items() if not _is_learned(name)})


def attributes_if_stopped(estimator: Any, publish: Callable[[], None], **given: Any) -> dict[str, Any]:
    """The attributes that `publish` would leave on an estimator with the `given` ones; the estimator stays as it is."""
    before = dict(vars(estimator))
    vars(estimator).update(given)
    publish()
    after = {k: v for k, v in vars(estimator).items() if _is_learned(k)}
    _replace_attributes(estimator, before)
    return after


def _is_learned(name: str) -> bool:
    return name.endswith("_") and not name.startswith("__")


def _replace_attributes(estimator: Any, attributes: dict[str, Any]) -> None:
    estimator.__dict__.clear()
    estimator.__dict__.update(attributes)
