"""Stands in for estimators that are still to move onto the template; goes with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from sklearn.base import ClassifierMixin

from latentia.estimators.base.callbacks import StepNotifier, check_callback, check_verbose
from latentia.estimators.base.callbacks import notify_callbacks as _notify
from latentia.estimators.base.classifier import ProbabilisticClassifier
from latentia.estimators.base.fitting import is_learned, on_device_of


def transactional_fit(fit: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(fit)
    def guarded(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(estimator))
        try:
            fit(estimator, *args, **kwargs)
        except BaseException:
            _replace_attributes(estimator, before)
            raise
        learned = {name: value for name, value in vars(estimator).items() if is_learned(name)}
        for name, value in on_device_of(learned, estimator.preprocessor_.shift).items():
            setattr(estimator, name, value)
        return estimator

    return guarded


def drop_fitted_attributes(estimator: Any) -> None:
    _replace_attributes(estimator, {name: value for name, value in vars(estimator).items() if not is_learned(name)})


def attributes_if_stopped(estimator: Any, publish: Callable[[], None], **given: Any) -> dict[str, Any]:
    before = dict(vars(estimator))
    vars(estimator).update(given)
    publish()
    after = {k: v for k, v in vars(estimator).items() if is_learned(k)}
    _replace_attributes(estimator, before)
    return after


def _replace_attributes(estimator: Any, attributes: dict[str, Any]) -> None:
    estimator.__dict__.clear()
    estimator.__dict__.update(attributes)


@contextmanager
def notify_callbacks(estimator: Any, X: Any, y: Any, fitted: Any) -> Iterator[StepNotifier]:
    check_verbose("verbose", estimator.verbose)
    check_callback("callback", estimator.callback)
    with _notify(estimator, X, y) as notifier:
        notifier.attributes_at = fitted
        yield notifier


class AccuracyMixin(ClassifierMixin):
    params_: Any
    score = ProbabilisticClassifier.score

    def _require_fitted(self) -> None:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "params_")

    @property
    def _model(self) -> Any:
        from types import SimpleNamespace

        return SimpleNamespace(params=self.params_)
