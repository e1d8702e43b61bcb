"""Prediction methods of models whose classes have components of their own."""

from __future__ import annotations

from typing import Any

from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from latentia.arrays.namespace import Array, asarray_like, namespace, softmax, transpose
from latentia.engine.rows import MaskedRows
from latentia.estimators.base.generative_prediction import GenerativePredictMixin
from latentia.table.rows import method_of_rows


class ClassComponentMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin, GenerativePredictMixin):
    """Probabilities of the components, which are the latent variables of a mixture."""

    @property
    def _n_features_out(self) -> int:
        return int(self._model.family.n_components.sum())

    @method_of_rows
    def responsibilities(self, X: Any) -> Array:
        """Probabilities p(c, k | x) of the components of all classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.

        Returns
        -------
        responsibilities : array of shape (n_samples, `n_components_`.sum())
            The components of the first class, then those of the second, and so on: those of a class
            add up to its probability.
        """
        rows_in = self._check_rows(X)
        model = self._model
        family, params = model.family, model.params
        flat = family.present.ravel().nonzero()[0]

        def components(rows: MaskedRows) -> Array:
            posterior = family.infer(params, rows)
            xp = namespace(posterior.log_joint)
            scale = softmax(model.temper(posterior.log_joint, rows), axis=-2) / posterior.normalizer
            each = posterior.unnormalized * scale[:, None, :]  # (C, K, N), some of them padding
            each = xp.reshape(each, (-1, each.shape[-1]))
            return transpose(xp.take(each, asarray_like(flat, each, dtype=xp.int64), axis=0))

        return model.map_rows(rows_in, components, family.floats_per_row(params))

    @method_of_rows
    def transform(self, X: Any) -> Array:
        """The same as `responsibilities`: what the model knows of the latent variables of rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.

        Returns
        -------
        responsibilities : array of shape (n_samples, `n_components_`.sum())
        """
        return self.responsibilities(X)
