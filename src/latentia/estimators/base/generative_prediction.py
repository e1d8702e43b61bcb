"""Prediction methods of generative classifiers: class probabilities, densities, imputation,
sampling.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from latentia.arrays.namespace import (
    Array,
    asarray_like,
    compute_dtype,
    log_softmax,
    logsumexp,
    namespace,
    take_rows,
    to_numpy,
    transpose,
)
from latentia.engine.rows import MaskedRows
from latentia.estimators.base.classifier import InformationCriteriaMixin, ProbabilisticClassifier
from latentia.estimators.base.fitted_model import FillOptions, FittedModel
from latentia.table.frames import frame_type
from latentia.table.labels import encode_known_labels
from latentia.table.options import check_choice, check_number, choice, optional, random_generator
from latentia.table.rows import method_of_rows, plain_table, validate_rows


class GenerativePredictMixin(InformationCriteriaMixin, ProbabilisticClassifier):
    """Predictions from the joint density of rows and classes."""

    _model: FittedModel[Any]
    n_features_in_: int

    def _check_rows(self, X: Any) -> Array:
        """Rows to predict, as numbers."""
        self._require_fitted()
        return validate_rows(self, X, reset=False)

    def _joint_log_proba(self, X: Any) -> Array:
        model = self._model

        def joint(rows: MaskedRows) -> Array:
            return transpose(model.scores(rows) - model.preprocessor.log_det_jacobian(rows))

        return model.map_rows(X, joint, model.score_floats_per_row())

    @method_of_rows
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
        return self._joint_log_proba(self._check_rows(X))

    def _log_proba(self, X: Any) -> Array:
        return log_softmax(self._joint_log_proba(self._check_rows(X)), axis=-1)

    @method_of_rows
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

    @method_of_rows
    def impute(self, X: Any, y: Any = None, *, method: str = "mean", condition: str | None = None) -> Any:
        """Rows with each missing cell replaced by what the known cells of its row say of it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.
        y : array-like of shape (n_samples,), default=None
            Classes of the rows, where they are known: their cells are completed given the class.
            Rows marked as unlabeled, as in `fit`, are completed as without y.
        method : {"mean", "median", "mode"}, default="mean"
            "mean": expected values. "median": the same, but of a column that `marginals` has
            transformed the original of the expected transformed cell, the median if there is one
            class and component, and about it else. "mode": the most probable value of binary
            columns, the nearest of integer ones, medians of others. Columns of categories, and a
            data frame's columns of bool, always get their most probable value. No cell of a
            transformed column is expected beyond the values that `fit` has seen.
        condition : {"class"} or None, default=None
            Of rows without a known class. "class": given the most probable class of the row; None:
            averaged over the classes.

        Returns
        -------
        X_complete : array of shape (n_samples, n_features), or a data frame for models of frames
            Known cells are unchanged; values of a column of categories that were not seen in `fit`
            count as missing. A data frame has the columns and dtypes of the one fitted (a column of
            integers becomes one of floats, nullable ones of nullable floats, where an expectation
            lies between them), and in pandas the index of `X`. Of a column without any known cell
            in `fit`, which has warned of it, nothing is known: numbers are 0, as by scikit-learn's
            ``SimpleImputer(keep_empty_features=True)``, and categories stay missing.
        """
        check_choice("method", method, ["mean", "median", "mode"])
        optional(choice("class"))("condition", condition)
        rows_in = self._check_rows(X)
        options = FillOptions(method == "mode", method == "mean", condition == "class")
        if y is None:
            filled = self._fill(rows_in, -1, options)
        else:
            codes = encode_known_labels(y, self.classes_, rows_in.shape[0], self.unlabeled)
            order = np.argsort(codes, kind="stable")  # rows of one class after the other
            by_class = [(code, order[codes[order] == code]) for code in np.unique(codes).tolist()]
            parts = [self._fill(take_rows(rows_in, index), code, options) for code, index in by_class]
            filled = take_rows(namespace(parts[0]).concat(parts, axis=0), np.argsort(order))
        encoder, table = self._model.encoder, plain_table(X if hasattr(X, "shape") else np.asarray(X))
        index = table.index if frame_type(table) == "pandas" else None
        filled = encoder.round_whole(filled) if options.mode else filled
        return encoder.decode(keep_observed(rows_in, filled), index, source=table)

    def _fill(self, X: Array, code: int, options: FillOptions) -> Array:
        """Rows of one class, -1 for any, as the model expects them."""
        model = self._model

        def fill(rows: MaskedRows) -> Array:
            if rows.observed is None:
                return model.preprocessor.inverse_transform(rows.values)
            return model.impute(rows, code, options)

        return model.map_rows(X, fill, model.impute_floats_per_row())

    def sample(self, n_samples: int = 1, y: Any = None, component: int | None = None) -> tuple[Any, np.ndarray]:
        """Draw rows from the model.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        y : class or array-like of shape (n_samples,), default=None
            The class of all rows, or of each; drawn from the class priors by default.
        component : int, default=None
            The component of all rows; drawn from the class's own mixing weights by default.

        Returns
        -------
        X : array of shape (n_samples, n_features), or a data frame like the one fitted
            Rounded to whole numbers where the dtype of a column is one of integers.
        y : ndarray of shape (n_samples,)
        """
        self._require_fitted()
        rng = random_generator(self.random_state)
        codes = self._sample_codes(n_samples, y, rng)
        if component is not None:  # every class that is drawn must have it
            sizes = np.broadcast_to(self._model.family.n_components, (len(self.classes_),))
            check_number("component", component, ge=0, lt=int(sizes[codes].min()), integer=True)
        return self._model.sample(codes, rng, component), self.classes_[codes]

    def _sample_codes(self, n_samples: int, y: Any, rng: np.random.Generator) -> np.ndarray:
        """Codes of the classes to sample from."""
        check_number("n_samples", n_samples, ge=1, integer=True)
        if y is None:
            prior = np.exp(to_numpy(self._model.params.log_prior).astype(float))
            return rng.choice(len(prior), n_samples, p=prior / prior.sum())
        labels = np.full(n_samples, y) if np.ndim(y) == 0 else np.asarray(y)
        if labels.shape != (n_samples,):
            raise ValueError(f"y has shape {labels.shape}; allowed are one class, or n_samples={n_samples} classes.")
        codes = encode_known_labels(labels, self.classes_, n_samples, self.unlabeled)
        if (codes < 0).any():
            raise ValueError(f"y={y!r} asks for unlabeled rows; allowed are the classes {self.classes_.tolist()}.")
        return codes

    def _n_free_params(self) -> int:
        """Number of free parameters; columns without any value have none."""
        self._require_fitted()
        return self._model.n_free(self.n_features_in_ - self._model.preprocessor.n_empty_columns)

    def _log_likelihood(self, X: Any, y: Any) -> tuple[float, int]:
        joint = to_numpy(self.predict_joint_log_proba(X)).astype(float)
        codes = encode_known_labels(y, self.classes_, joint.shape[0], self.unlabeled)
        own = np.take_along_axis(joint, np.maximum(codes, 0)[:, None], axis=1)[:, 0]
        return float(np.where(codes >= 0, own, np.logaddexp.reduce(joint, axis=1)).sum()), joint.shape[0]


def keep_observed(X: Array, filled: Array) -> Array:
    """`filled` where X has a gap; a model in float32 rounds what it fills in, and nothing else."""
    xp = namespace(filled)
    single = compute_dtype(X) == namespace(X).float32
    raw = asarray_like(X, filled, dtype=filled.dtype if single else xp.float64)
    return xp.where(xp.isnan(raw), xp.astype(filled, raw.dtype), raw)
