"""Classifiers that model p(y | x) alone: labels, probabilities and criteria, whatever the structure."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from latentia._user_warnings import warn_at_caller
from latentia.engine.contracts import MaskedRows
from latentia.estimators.base.callbacks import with_callbacks
from latentia.estimators.base.legacy import AccuracyMixin, transactional_fit
from latentia.estimators.latent_softmax.base import LatentSoftmaxEstimator
from latentia.inputs.labels import decode_labels, encode_known_labels, encode_labels
from latentia.inputs.rows import require_fitted_namespace
from latentia.inputs.weights import check_loss_matrix, check_weight
from latentia.numerics.array_api import Array, asarray_like, namespace, one_hot, take_rows, to_numpy, transpose


class DiscriminativeClassifier(AccuracyMixin, LatentSoftmaxEstimator):
    """Fits p(y | x). Subclasses give `_log_proba` of some rows and the number of free parameters."""

    @with_callbacks
    @transactional_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Learn from rows and labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, without missing cells.
        y : array-like of shape (n_samples,)
            Classes. Unlabeled rows (-1 for integers, None or NaN for others) are dropped with a warning. Integer labels that are all -1 or 1 are two classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; a row of weight 2 counts as that row twice.

        Returns
        -------
        self : estimator
        """
        self._check_options()
        X = self._check_rows(X, reset=True)
        labels = encode_labels(y, X.shape[0])
        weight = check_weight(sample_weight, X.shape[0], labels.codes, labels.classes)
        check_loss_matrix(self.loss_matrix, len(labels.classes))
        self.classes_ = labels.classes
        codes = labels.codes
        known = codes >= 0
        if not known.all():
            warn_at_caller(
                f"{int((~known).sum())} of {known.size} rows have no label and are dropped: {type(self).__name__} models p(y | x), "
                "so they carry no information. GaussianMixtureClassifier and LatentClassificationModel learn from them."
            )
            X = take_rows(X, np.flatnonzero(known))
            codes, weight = codes[known], None if weight is None else weight[known]
        self._train(X, y, self._rows(X, codes, weight))
        return self

    @abstractmethod
    def _log_proba(self, rows: MaskedRows, average: bool = True) -> Array:
        """Log probabilities (n_rows, n_classes), averaged over the posterior or of the point estimate."""

    def _log_score(self, rows: MaskedRows, y: Array) -> Array:
        log_proba = self._log_proba(rows)
        xp = namespace(log_proba)
        own = transpose(one_hot(y, len(self.classes_), log_proba.dtype)) > 0
        return xp.sum(xp.where(own, log_proba, xp.zeros_like(log_proba)), axis=-1)

    @require_fitted_namespace
    def predict_log_proba(self, X: Any) -> Array:
        """Log p(c | x), in the order of `classes_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        log_proba : array of shape (n_samples, n_classes)
        """
        return self._by_rows(X, self._log_proba)

    @require_fitted_namespace
    def predict_proba(self, X: Any) -> Array:
        """Probabilities p(c | x), in the order of `classes_`, averaged over the weights' posterior unless `averaging="plugin"`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        proba : array of shape (n_samples, n_classes)
        """
        log_proba = self.predict_log_proba(X)
        return namespace(log_proba).exp(log_proba)

    @require_fitted_namespace
    def predict(self, X: Any) -> Array:
        """The class with the least expected loss: the most probable one unless `loss_matrix` says otherwise.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        y : array of shape (n_samples,)
        """
        value = self.predict_log_proba(X)
        xp = namespace(value)
        loss = check_loss_matrix(self.loss_matrix, len(self.classes_))
        if loss is not None:
            value = -xp.matmul(xp.exp(value), asarray_like(loss, value))
        return decode_labels(self.classes_, xp.argmax(value, axis=1))

    def bic(self, X: Any, y: Any) -> float:
        """Bayesian information criterion of the point estimate; lower is better.

        With `inference="ml"` that is the maximum of the likelihood, with "vb" the corrected weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        bic : float
        """
        log_likelihood, n_rows = self._log_likelihood(X, y)
        return -2 * log_likelihood + self._n_free() * float(np.log(n_rows))

    def aic(self, X: Any, y: Any) -> float:
        """Akaike information criterion of the point estimate; lower is better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        aic : float
        """
        return -2 * self._log_likelihood(X, y)[0] + 2 * self._n_free()

    def _log_likelihood(self, X: Any, y: Any) -> tuple[float, int]:
        log_proba = to_numpy(self._by_rows(X, lambda cells: self._log_proba(cells, average=False))).astype(float)
        codes = encode_known_labels(y, self.classes_, log_proba.shape[0])
        known = np.flatnonzero(codes >= 0)
        return float(log_proba[known, codes[known]].sum()), known.size

    def _n_free(self) -> int:
        return self.structure_.n_free(self.n_features_in_ + 1)
