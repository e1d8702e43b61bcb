"""Rows for the probit embedding: standardized if dense; scaled but not moved if sparse, so that they stay sparse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from latentia.engine.problem import rows_per_chunk
from latentia.estimators.base.legacy import AccuracyMixin
from latentia.families.building_blocks.truncated_normal import positive_half_line
from latentia.families.probit_embedding.row_products import project
from latentia.inputs.label_matrix import read_label_matrix
from latentia.inputs.labels import decode_labels
from latentia.inputs.rows import reject_missing, require_fitted_namespace, validate_rows
from latentia.inputs.standardization import Preparation, Standardizer
from latentia.inputs.weights import check_weight
from latentia.numerics.array_api import Array, eye_like, namespace, to_numpy
from latentia.numerics.logspace import logsumexp


def by_blocks(X: Any, preprocess: Preparation, fn: Callable[[Any], Any], rows: int) -> list[Any]:
    """`fn` of the prepared values of blocks of rows, in their order."""
    if sparse.issparse(X) and isinstance(preprocess, Standardizer):
        return by_blocks(X.tocsr(), lambda part: preprocess(part.toarray()), fn, rows)
    edges = range(0, X.shape[0], rows)
    return [fn(preprocess(X[start : min(start + rows, X.shape[0]), ...]).values) for start in edges]


class EmbeddingPredictions(ClassNamePrefixFeaturesOutMixin, TransformerMixin, AccuracyMixin, BaseEstimator):
    """Probabilities and embeddings from `params_`, `family_` and `preprocessor_`."""

    @require_fitted_namespace
    def transform(self, X: Any, return_cov: bool = False) -> Any:
        """Place rows in the embedding, before their labels are known.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        return_cov : bool, default=False
            Whether the covariances are wanted too.

        Returns
        -------
        embedding : array of shape (n_samples, n_latent_)
            Posterior means.
        covariance : array of shape (n_samples, n_latent_, n_latent_)
            If `return_cov`. They hold the noise of the embedding and the uncertainty of the projection, and are diagonal.
        """
        means = self._by_rows(X, lambda x: project(self.params_.projection, x))
        xp = namespace(means[0])
        mean = xp.concat(means, axis=0)
        if not return_cov:
            return mean
        variance = xp.concat(self._by_rows(X, self._variance), axis=0)
        eye = eye_like(variance.shape[1], variance)
        return mean, variance[:, :, None] * eye

    @require_fitted_namespace
    def predict_log_proba(self, X: Any) -> Array:
        """Log probabilities, as `predict_proba` has them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        log_proba : array of shape (n_samples, n_labels) or (n_samples, n_classes)
        """
        parts = self._by_rows(X, self._log_sides)
        xp = namespace(parts[0][0])
        present, absent = (xp.concat([part[side] for part in parts], axis=0) for side in range(2))
        if self.multilabel_:
            return present
        n_classes = len(self.classes_)
        if n_classes == 1:
            return xp.zeros_like(present)
        if n_classes == 2:
            return xp.concat([absent, present], axis=1)
        return present - logsumexp(present, axis=1)[:, None]

    @require_fitted_namespace
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the labels, or of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        proba : array of shape (n_samples, n_labels) or (n_samples, n_classes)
            For multilabel y, the probability that each label is there; else the probabilities of `classes_`. With more than two classes
            these are the probabilities of one probit per class, made to sum to one.
        """
        log_proba = self.predict_log_proba(X)
        return namespace(log_proba).exp(log_proba)

    @require_fitted_namespace
    def predict(self, X: Any) -> Array:
        """Labels that are more likely there than not, or the most probable class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        y : array of shape (n_samples, n_labels) or (n_samples,)
        """
        proba = self.predict_proba(X)
        xp = namespace(proba)
        if self.multilabel_:
            return xp.astype(proba > 0.5, xp.int64)
        return decode_labels(self.classes_, xp.argmax(proba, axis=1))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy: the share of rows whose class is right or, for multilabel y, all of whose known labels are.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_labels) or (n_samples,)
            Rows without any known label count nothing.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        accuracy : float
        """
        check_is_fitted(self, "params_")
        if not self.multilabel_:
            return float(super().score(X, y, sample_weight))
        codes, found = read_label_matrix(y), to_numpy(self.predict(X))
        if codes.shape != found.shape:
            raise ValueError(f"y has shape {codes.shape}; expected is {found.shape}.")
        counted = (codes >= 0).any(axis=1)
        right = ((codes == found) | (codes < 0)).all(axis=1)
        if not counted.any():
            raise ValueError("y has no known label: all its entries are -1 or NaN.")
        weight = check_weight(sample_weight, codes.shape[0])
        weight = None if weight is None else weight[counted]
        return float(np.average(right[counted], weights=weight))

    @property
    def _n_features_out(self) -> int:
        return int(self.n_latent_)

    def _log_sides(self, x: Any) -> tuple[Array, Array]:
        """Log probabilities (n, L) that each label is there, and that it is not."""
        mean, deviation = self._label_scores(x)
        margin = self.family_.margin
        present, absent = (positive_half_line((side * mean - margin) / deviation).log_mass for side in (1, -1))
        if margin == 0:
            return present, absent
        xp = namespace(present)
        both = logsumexp(xp.stack([present, absent], axis=0), axis=0)
        return present - both, absent - both

    def _label_scores(self, x: Any) -> tuple[Array, Array]:
        """Mean and standard deviation (n, L) of the labels' scores."""
        params = self.params_
        z = project(params.projection, x)
        xp = namespace(z)
        mean = z @ params.weights[:, 1:].T + params.weights[:, 0]
        with_one = xp.concat([xp.ones_like(z[:, :1]), z], axis=1)
        size = with_one.shape[1]
        outer = xp.reshape(with_one[:, :, None] * with_one[:, None, :], (-1, size * size))
        variance = 1 + outer @ xp.reshape(params.weights_cov, (-1, size * size)).T
        if self.averaging == "full":
            square = params.weights**2 + xp.linalg.diagonal(params.weights_cov)
            variance = variance + self._variance(x) @ square[:, 1:].T
        return mean, xp.sqrt(variance)

    def _variance(self, x: Any) -> Array:
        """Variances (n, R) of the embedding of rows."""
        return self.family_.noise + self.family_.row_variance(self.params_, x).T

    def _by_rows(self, X: Any, fn: Any) -> list[Any]:
        check_is_fitted(self, "params_")
        X = self._check_rows(X, reset=False)
        return by_blocks(X, self.preprocessor_, fn, rows_per_chunk(self.family_.floats_per_row(self.params_)))

    def _check_rows(self, X: Any, reset: bool) -> Any:
        X = validate_rows(self, X, reset, accept_sparse="csr")
        reject_missing(self, X)
        return sparse.csr_array(X) if sparse.issparse(X) else X
