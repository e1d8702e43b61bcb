"""What every generative classifier can be asked once its parameters are known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from latentia.engine.array_source import map_rows
from latentia.engine.contracts import MaskedRows
from latentia.engine.problem import rows_per_chunk
from latentia.estimators.base.classifier import AccuracyMixin
from latentia.inputs.labels import decode_labels, encode_known_labels
from latentia.inputs.options import check_number, random_generator
from latentia.inputs.rows import require_fitted_namespace
from latentia.inputs.weights import check_loss_matrix
from latentia.numerics.array_api import Array, asarray_like, compute_dtype, namespace, to_numpy, transpose
from latentia.numerics.logspace import log_softmax, logsumexp, softmax


class GenerativePredictMixin(AccuracyMixin, BaseEstimator, ABC):
    """Class probabilities, densities, imputation and sampling from `params_`, `family_` and `preprocessor_`."""

    @abstractmethod
    def _check_rows(self, X: Any, reset: bool) -> Array:
        """Rows as a numeric array, NaN where a cell is missing."""

    @require_fitted_namespace
    def predict_joint_log_proba(self, X: Any) -> Array:
        """Log p(x, c), in the order of `classes_`; missing cells are integrated out.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; NaN marks a missing cell.

        Returns
        -------
        log_joint : array of shape (n_samples, n_classes)
        """
        preprocess = self._fitted().preprocessor_
        family, params = self.family_, self.params_

        def joint(rows: MaskedRows) -> Array:
            return transpose(family.infer(params, rows).log_joint - preprocess.log_det_jacobian(rows))

        return self._by_rows(X, joint)

    @require_fitted_namespace
    def predict_log_proba(self, X: Any) -> Array:
        """Log p(c | x), in the order of `classes_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; NaN marks a missing cell. A row without any known cell gets the class priors.

        Returns
        -------
        log_proba : array of shape (n_samples, n_classes)
        """
        return log_softmax(self.predict_joint_log_proba(X), axis=-1)

    @require_fitted_namespace
    def predict_proba(self, X: Any) -> Array:
        """Probabilities p(c | x), in the order of `classes_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; NaN marks a missing cell. A row without any known cell gets the class priors.

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
            Rows; NaN marks a missing cell.

        Returns
        -------
        y : array of shape (n_samples,)
        """
        proba = self.predict_proba(X)
        xp = namespace(proba)
        loss = check_loss_matrix(self.loss_matrix, len(self.classes_))
        if loss is not None:
            proba = -xp.matmul(proba, asarray_like(loss, proba))
        return decode_labels(self.classes_, xp.argmax(proba, axis=1))

    def score_samples(self, X: Any) -> Array:
        """Log p(x), the density of the known cells of each row: low for outliers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; NaN marks a missing cell.

        Returns
        -------
        log_density : array of shape (n_samples,)
        """
        return logsumexp(self.predict_joint_log_proba(X), axis=-1)

    @require_fitted_namespace
    def impute(self, X: Any) -> Array:
        """Rows with each missing cell replaced by its expectation given the known cells of its row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; NaN marks a missing cell.

        Returns
        -------
        X_complete : array of shape (n_samples, n_features)
            Known cells are unchanged.
        """
        preprocess = self._fitted().preprocessor_
        family, params = self.family_, self.params_
        X = self._check_rows(X, reset=False)
        xp = namespace(preprocess.shift)

        def fill(rows: MaskedRows) -> Array:
            class_probs = softmax(family.scores(params, rows), axis=-2)
            return preprocess.restore(family.impute(params, rows, class_probs))

        max_rows = rows_per_chunk(family.impute_floats_per_row(params), preprocess.shift)
        filled = xp.concat(map_rows(X, preprocess, fill, max_rows), axis=0)
        return keep_observed(X, filled)

    def sample(self, n_samples: int = 1, y: Any = None) -> tuple[Array, np.ndarray]:
        """Draw rows from the model.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        y : class or array-like of shape (n_samples,), default=None
            The class of all rows, or of each; drawn from the class priors by default.

        Returns
        -------
        X : array of shape (n_samples, n_features)
        y : ndarray of shape (n_samples,)
        """
        preprocess = self._fitted().preprocessor_
        rng = random_generator(self.random_state)
        codes = self._draw_codes(n_samples, y, rng)
        values = asarray_like(self.family_.sample(self.params_, codes, rng), preprocess.shift)
        return preprocess.restore(values), self.classes_[codes]

    def _draw_codes(self, n_samples: int, y: Any, rng: np.random.Generator) -> np.ndarray:
        """Codes of the classes to sample from."""
        check_number("n_samples", n_samples, least=1, integer=True)
        if y is None:
            prior = np.exp(to_numpy(self.params_.log_prior).astype(float))
            return rng.choice(len(prior), n_samples, p=prior / prior.sum())
        each = np.full(n_samples, y) if np.ndim(y) == 0 else np.asarray(y)
        if each.shape != (n_samples,):
            raise ValueError(f"y has shape {each.shape}; allowed are one class, or n_samples={n_samples} classes.")
        codes = encode_known_labels(each, self.classes_, n_samples)
        if (codes < 0).any():
            raise ValueError(f"y={y!r} asks for unlabeled rows; allowed are the classes {self.classes_.tolist()}.")
        return codes

    def bic(self, X: Any, y: Any) -> float:
        """Bayesian information criterion on labeled (and, by their density, unlabeled) rows; lower is better.

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
        """Akaike information criterion on labeled (and, by their density, unlabeled) rows; lower is better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        aic : float
        """
        log_likelihood, _ = self._log_likelihood(X, y)
        return -2 * log_likelihood + 2 * self._n_free()

    def _n_free(self) -> int:
        """Number of free parameters; columns without any value have none."""
        ignored = self._fitted().preprocessor_.ignored
        return int(self.family_.n_free(self.n_features_in_ - (0 if ignored is None else int(to_numpy(ignored).sum()))))

    def _log_likelihood(self, X: Any, y: Any) -> tuple[float, int]:
        joint = to_numpy(self.predict_joint_log_proba(X)).astype(float)
        codes = encode_known_labels(y, self.classes_, joint.shape[0])
        own = np.take_along_axis(joint, np.maximum(codes, 0)[:, None], axis=1)[:, 0]
        return float(np.where(codes >= 0, own, np.logaddexp.reduce(joint, axis=1)).sum()), joint.shape[0]

    def _fitted(self) -> Any:
        check_is_fitted(self, "params_")
        return self

    def _by_rows(self, X: Any, fn: Callable[[MaskedRows], Array], checked: bool = False) -> Array:
        """`fn` of the prepared rows in blocks, its results one after the other."""
        preprocess = self._fitted().preprocessor_
        X = X if checked else self._check_rows(X, reset=False)
        rows = rows_per_chunk(self.family_.floats_per_row(self.params_), preprocess.shift)
        parts = map_rows(X, preprocess, fn, rows)
        return namespace(parts[0]).concat(parts, axis=0)


def keep_observed(X: Array, filled: Array) -> Array:
    """`filled` where X has a gap; a model in float32 rounds what it fills in, and nothing else."""
    xp = namespace(filled)
    single = compute_dtype(X) == namespace(X).float32
    raw = asarray_like(X, filled, dtype=filled.dtype if single else xp.float64)
    return xp.where(xp.isnan(raw), xp.astype(filled, raw.dtype), raw)
