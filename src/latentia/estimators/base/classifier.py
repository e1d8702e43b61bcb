"""What every probabilistic classifier does with log p(c | x): probabilities, decisions, accuracy,
criteria.

Classifiers of one label a row, or of label matrices whose entries may be unknown.

Estimators that search for another estimator, hold it as `best_estimator_`, and answer through
it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from latentia.arrays.namespace import Array, asarray_like, namespace, to_numpy
from latentia.estimators.base.estimator import LatentEstimator, is_learned
from latentia.scale.tables import RawPart, answers_of_parts, is_lazy, method_of_rows
from latentia.table.frames import TableLike
from latentia.table.labels import (
    NO_LABEL,
    LabelsLike,
    Mark,
    check_comparable,
    check_unlabeled,
    decode_labels,
    labels_to_score,
    read_label_matrix,
    split_unlabeled,
)
from latentia.table.options import Check
from latentia.table.weights import LABELED, PriorsLike, check_loss_matrix, check_total_weight, check_weight


def decide(proba: Array, loss_matrix: ArrayLike | None) -> Array:
    """The number of the class with the least expected loss, of probabilities (N, C)."""
    xp, loss = namespace(proba), check_loss_matrix(loss_matrix, proba.shape[1])
    return xp.argmax(proba if loss is None else -xp.matmul(proba, asarray_like(loss, proba)), axis=1)


class ProbabilisticClassifier(ClassifierMixin, LatentEstimator):
    """Predictions from log class probabilities. Subclasses give `_log_proba`."""

    classes_: np.ndarray
    loss_matrix: ArrayLike | None = None  # a constructor argument where an estimator has it
    unlabeled: Mark
    _CHECKS: ClassVar[dict[str, Check]] = {"unlabeled": check_unlabeled}

    @abstractmethod
    def _log_proba(self, X: TableLike) -> Array:
        """Log p(c | x) of raw rows, (n_samples, n_classes); its exponentials add up to one."""

    @method_of_rows
    def predict_log_proba(self, X: TableLike) -> Array:
        """Log p(c | x), in the order of `classes_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. Generative models take NaN for missing cells: a row without any known cell gets
            the class priors.

        Returns
        -------
        log_proba : array of shape (n_samples, n_classes)
        """
        return self._log_proba(X)

    @method_of_rows
    def predict_proba(self, X: TableLike) -> Array:
        """Probabilities p(c | x), in the order of `classes_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as `predict_log_proba` takes them.

        Returns
        -------
        proba : array of shape (n_samples, n_classes)
        """
        log_proba = self._log_proba(X)
        return namespace(log_proba).exp(log_proba)

    @method_of_rows
    def predict(self, X: TableLike) -> Array:
        """The class with the least expected loss: the most probable one without a `loss_matrix`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as `predict_log_proba` takes them.

        Returns
        -------
        y : array of shape (n_samples,)
        """
        log_proba = self._log_proba(X)
        return decode_labels(self.classes_, decide(namespace(log_proba).exp(log_proba), self.loss_matrix))

    def score(self, X: TableLike, y: LabelsLike | None = None, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy on the rows whose class is known.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Classes; rows marked as unlabeled, as in `fit`, do not count, and a warning says how
            many there are unless `unlabeled` is an integer. Scanned tables have them inside.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        accuracy : float
        """
        if is_lazy(X):
            right, total, n_labeled = np.sum(answers_of_parts(_right_labels, self, X, y, sample_weight), axis=0)
            if not n_labeled:
                raise ValueError(NO_LABEL)
            check_total_weight(total, LABELED)
            return float(right / total)
        predicted = self.predict(X)
        labels, unlabeled, _ = labels_to_score(y, predicted.shape[0], self.unlabeled, self.classes_)
        weight, labeled = check_weight(sample_weight, predicted.shape[0]), ~unlabeled
        if weight is not None:
            weight = weight[labeled]
            check_total_weight(float(weight.max()), LABELED)
        if labeled.all():
            is_one = sample_weight is None or np.ndim(sample_weight) == 0  # for all rows, which says nothing
            return float(accuracy_score(y, predicted, sample_weight=None if is_one else sample_weight))
        return float(accuracy_score(labels, to_numpy(predicted)[labeled], sample_weight=weight))


def _right_labels(estimator: ProbabilisticClassifier, part: RawPart) -> tuple[float, float, int]:
    """The weight of rows that are predicted correctly, of all with a label, and their number."""
    n_rows = part.X.shape[0]
    labels, unlabeled, _ = split_unlabeled(part.y, n_rows, estimator.unlabeled, estimator.classes_)
    check_comparable(labels, estimator.classes_)
    weight = check_weight(part.weight, n_rows, may_be_zero=True)
    weight = (np.ones(n_rows) if weight is None else weight)[~unlabeled]
    is_right = labels == to_numpy(estimator.predict(part.X))[~unlabeled]
    return float(weight @ is_right), float(weight.sum()), labels.size


def total_log_likelihood(estimator: BaseEstimator, X: TableLike, y: LabelsLike | None) -> tuple[float, int]:
    """Log likelihood of all rows of a table, and the number of rows that count."""
    values, n_rows = zip(*answers_of_parts(_log_likelihood_of, estimator, X, y), strict=True)
    return sum(values), sum(n_rows)


def _log_likelihood_of(estimator: BaseEstimator, part: RawPart) -> tuple[float, int]:
    found: tuple[float, int] = estimator._log_likelihood(part.X, part.y)
    return found


class ClassOrLabelsClassifier(ProbabilisticClassifier):
    """Decisions and accuracy; which of the two it is, `fit` has seen."""

    multilabel_: bool

    @method_of_rows
    def predict(self, X: TableLike) -> Array:
        """The class with the least expected loss; for label matrices, the labels that are more
        probable than not.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as `predict_log_proba` takes them.

        Returns
        -------
        y : array of shape (n_samples,) or (n_samples, n_labels)
        """
        self._require_fitted()
        if not self.multilabel_:
            return super().predict(X)
        refuse_class_options(loss_matrix=self.loss_matrix)
        proba = self.predict_proba(X)
        xp = namespace(proba)
        return xp.astype(proba > 0.5, xp.int64)

    def score(self, X: TableLike, y: LabelsLike | None = None, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy on the rows whose class is known; for label matrices, the share of rows all of
        whose known labels are right.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Rows without any known label do not count.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        accuracy : float
        """
        self._require_fitted()
        if not self.multilabel_:
            return super().score(X, y, sample_weight)
        X = X if hasattr(X, "shape") or is_lazy(X) else np.asarray(X)
        right, total, n_known = np.sum(answers_of_parts(_right_rows, self, X, y, sample_weight), axis=0).tolist()
        if not n_known:
            raise ValueError("y has no known label: all its entries are -1 or NaN.")
        check_total_weight(total, LABELED)
        return right / total


def refuse_class_options(loss_matrix: ArrayLike | None = None, priors: PriorsLike = "empirical") -> None:
    """Losses and priors are those of classes, of which a row has one; a label matrix has none."""
    given = {"loss_matrix": loss_matrix is not None, "priors": not (isinstance(priors, str) and priors == "empirical")}
    for name, is_given in given.items():
        if is_given:
            default = "None" if name == "loss_matrix" else "'empirical'"
            raise ValueError(
                f"{name} is for classes, and y is a label matrix: {name}={default} is allowed. To weigh mistakes or "
                "shares of labels otherwise, compare predict_proba with a threshold of your own for each label."
            )


def _right_rows(estimator: ClassOrLabelsClassifier, part: RawPart) -> tuple[float, float, int]:
    """The weight of rows all of whose known labels are predicted, of all that have any, and how
    many these are.
    """
    predicted = to_numpy(estimator.predict(part.X))
    codes = read_label_matrix(part.y)
    if codes.shape != predicted.shape:
        raise ValueError(f"y has shape {codes.shape}; expected is {predicted.shape}.")
    given = check_weight(part.weight, codes.shape[0], may_be_zero=True)
    known = (codes >= 0).any(axis=1)
    weight = known * (1.0 if given is None else given)
    right = ((codes == predicted) | (codes < 0)).all(axis=1)
    return float(weight @ right), float(weight.sum()), int(known.sum())


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
