"""Prediction methods that only latent classification models have: factors, components, refined
densities.
"""

from __future__ import annotations

from typing import Any

from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from latentia.arrays.namespace import Array, logsumexp, namespace, softmax, transpose
from latentia.engine.rows import MaskedRows
from latentia.estimators.base.fitted_model import FittedModel
from latentia.estimators.base.generative_prediction import GenerativePredictMixin
from latentia.families.latent_factors.answers import importance_scores
from latentia.families.latent_factors.family import LatentFactors
from latentia.families.latent_factors.parameters import FactorParams
from latentia.table.options import choice, optional, random_generator
from latentia.table.rows import method_of_rows


class LatentFactorMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin, GenerativePredictMixin):
    """Posterior means of the factors, probabilities of the components, refined densities."""

    _model: FittedModel[LatentFactors]
    refine: str | None
    n_importance_samples: int

    @property
    def _n_features_out(self) -> int:
        return int(self._model.family.n_latent)

    @method_of_rows
    def transform(self, X: Any) -> Array:
        """Posterior means of the latent factors, given the known cells of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.

        Returns
        -------
        Z : array of shape (n_samples, n_latent)
        """
        rows_in = self._check_rows(X)
        family, params = self._model.family, self._model.params

        def means(rows: MaskedRows) -> Array:
            scores, z = family.latent_means(params, rows)
            xp = namespace(scores)
            flat = xp.reshape(scores, (-1, scores.shape[-1]))  # classes and components together
            responsibilities = xp.reshape(softmax(flat, axis=0), scores.shape)
            return xp.sum(responsibilities[..., None] * z, axis=(0, 1))

        return self._model.map_rows(rows_in, means, family.floats_per_row(params))

    @method_of_rows
    def responsibilities(self, X: Any) -> Array:
        """Probabilities p(m | x) of the components.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.

        Returns
        -------
        responsibilities : array of shape (n_samples, n_components)
        """
        rows_in = self._check_rows(X)
        family, params = self._model.family, self._model.params

        def components(rows: MaskedRows) -> Array:
            posterior = family.infer(params, rows)
            class_probs = softmax(posterior.log_joint, axis=-2)
            return transpose(namespace(class_probs).sum(class_probs[:, None, :] * posterior.component, axis=0))

        return self._model.map_rows(rows_in, components, family.floats_per_row(params))

    def _joint_log_proba(self, X: Any) -> Array:
        return super()._joint_log_proba(X) if self.refine is None else self._refined_joint_log_proba(X)

    def _refined_joint_log_proba(self, X: Any) -> Array:
        """Log p(x, c) by importance sampling, tempered, averaged over the members."""
        model, rng = self._model, random_generator(self.random_state)
        most = max(one.family.n_latent for one in model.members)
        normals = rng.standard_normal((self.n_importance_samples, most))

        def score(family: LatentFactors, params: FactorParams, rows: MaskedRows) -> Array:
            return importance_scores(family, params, rows, normals[:, : family.n_latent])

        def joint(rows: MaskedRows) -> Array:
            return transpose(model.scores(rows, score) - model.preprocessor.log_det_jacobian(rows))

        return model.map_rows(X, joint, sum(one.family.floats_per_row(one.params) for one in model.members))

    @method_of_rows
    def score_samples(self, X: Any, refine: str | None = None) -> Any:
        """Log p(x), the density of the known cells of each row: low for outliers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.
        refine : {"importance"} or None, default=None
            "importance" returns the bound and its importance-sampling estimate; their difference is
            the bound's gap.

        Returns
        -------
        log_density : array of shape (n_samples,), or two of them
        """
        rows_in = self._check_rows(X)
        if refine is None:
            return logsumexp(self._joint_log_proba(rows_in), axis=-1)
        optional(choice("importance"))("refine", refine)
        bound, refined = super()._joint_log_proba(rows_in), self._refined_joint_log_proba(rows_in)
        return logsumexp(bound, axis=-1), logsumexp(refined, axis=-1)
