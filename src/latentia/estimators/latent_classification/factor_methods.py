"""What a fitted latent classification model can be asked: its factors, components, refined densities, completions and samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from latentia.engine.array_source import map_rows
from latentia.engine.contracts import MaskedRows
from latentia.engine.problem import rows_per_chunk
from latentia.estimators.base.generative_prediction import GenerativePredictMixin, keep_observed
from latentia.families.latent_factors.importance_sampling import importance_scores
from latentia.inputs.dataframes import frame_type
from latentia.inputs.options import check_choice, check_number, random_generator
from latentia.inputs.rows import require_fitted_namespace
from latentia.numerics.array_api import Array, asarray_like, namespace, one_hot, transpose
from latentia.numerics.logspace import exp_flush_underflow, log_softmax, logsumexp, softmax


class LatentFactorMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin, GenerativePredictMixin):
    """Factors, components, refined densities, completions and samples from `params_`, `family_`, `preprocessor_` and `table_`."""

    @property
    def _n_features_out(self) -> int:
        return int(self.family_.n_latent)

    @require_fitted_namespace
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
        family, params = self._fitted().family_, self.params_

        def means(rows: MaskedRows) -> Array:
            scores, z = family.latent_means(params, rows)
            xp = namespace(scores)
            flat = xp.reshape(scores, (-1, scores.shape[-1]))  # classes and components together
            share = xp.reshape(exp_flush_underflow(log_softmax(flat, axis=0)), scores.shape)
            return xp.sum(share[..., None] * z, axis=(0, 1))

        return self._by_rows(X, means)

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
        family, params = self._fitted().family_, self.params_

        def components(rows: MaskedRows) -> Array:
            posterior = family.infer(params, rows)
            xp = namespace(posterior.log_joint)
            given = exp_flush_underflow(log_softmax(posterior.log_joint, axis=-2))
            return transpose(xp.sum(given[:, None, :] * posterior.component, axis=0))

        return self._by_rows(X, components)

    @require_fitted_namespace
    def predict_joint_log_proba(self, X: Any) -> Array:
        """Log p(x, c), in the order of `classes_`: exact for continuous columns, else the bound, or its refinement if `refine` asks for it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.

        Returns
        -------
        log_joint : array of shape (n_samples, n_classes)
        """
        return self._refined(X) if self.refine is not None else self._bound(X)

    def _bound(self, X: Any) -> Array:
        preprocess = self._fitted().preprocessor_
        family, params = self.family_, self.params_
        X = self._check_rows(X, reset=False)

        def joint(rows: MaskedRows) -> Array:
            return transpose(family.scores(params, rows) - preprocess.log_det_jacobian(rows))

        parts = map_rows(X, preprocess, joint, rows_per_chunk(family.score_floats_per_row(params), params.means))
        return namespace(parts[0]).concat(parts, axis=0)

    def _refined(self, X: Any) -> Array:
        preprocess = self._fitted().preprocessor_
        family, params = self.family_, self.params_
        rng = random_generator(self.random_state)

        draws = rng.standard_normal((self.n_importance_samples, family.n_latent))

        def joint(rows: MaskedRows) -> Array:
            return transpose(importance_scores(family, params, rows, draws) - preprocess.log_det_jacobian(rows))

        return self._by_rows(X, joint)

    def score_samples(self, X: Any, refine: str | None = None) -> Any:
        """Log p(x), the density of the known cells of each row: low for outliers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.
        refine : {"importance"} or None, default=None
            "importance" returns the bound and its importance-sampling estimate; their difference is the bound's gap.

        Returns
        -------
        log_density : array of shape (n_samples,), or two of them
        """
        if refine is None:
            return logsumexp(self.predict_joint_log_proba(X), axis=-1)
        check_choice("refine", refine, ["importance"])
        return logsumexp(self._bound(X), axis=-1), logsumexp(self._refined(X), axis=-1)

    @require_fitted_namespace
    def impute(self, X: Any, method: str = "mean", condition: str | None = None) -> Any:
        """Rows with each missing cell replaced by what the known cells of its row say of it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.
        method : {"mean", "mode"}, default="mean"
            Expected values, or the most probable value of binary columns. Columns of categories, and a data frame's columns of bool, always get their most probable value.
        condition : {"class"} or None, default=None
            "class": given the most probable class of the row; None: averaged over the classes.

        Returns
        -------
        X_complete : array of shape (n_samples, n_features), or a data frame if the model was fitted on one
            Known cells are unchanged; values of a column of categories that were not seen in `fit` count as missing. A data frame has the columns and dtypes of the one fitted (a column of integers becomes one of floats where an expectation lies
            between them), and in pandas the index of `X`.
        """
        check_choice("method", method, ["mean", "mode"])
        if condition is not None:
            check_choice("condition", condition, ["class"])
        preprocess = self._fitted().preprocessor_
        family, params = self.family_, self.params_
        coded = self._check_rows(X, reset=False)

        def fill(rows: MaskedRows) -> Array:
            class_probs = softmax(family.scores(params, rows), axis=-2)
            if condition == "class":
                class_probs = one_hot(
                    namespace(class_probs).argmax(class_probs, axis=-2), len(self.classes_), class_probs.dtype
                )
            return preprocess.restore(family.impute(params, rows, class_probs, method == "mode"))

        complete = keep_observed(coded, self._by_rows(coded, fill, checked=True))
        return self.table_.decode(complete, X.index if frame_type(X) == "pandas" else None)

    def sample(self, n_samples: int = 1, y: Any = None, component: int | None = None) -> tuple[Any, np.ndarray]:
        """Draw rows from the model.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        y : class or array-like of shape (n_samples,), default=None
            The class of all rows, or of each; drawn from the class priors by default.
        component : int, default=None
            The component of all rows; drawn from the class's own shares by default.

        Returns
        -------
        X : array of shape (n_samples, n_features), or a data frame like the one fitted
        y : ndarray of shape (n_samples,)
        """
        preprocess = self._fitted().preprocessor_
        if component is not None:
            check_number("component", component, least=0, below=self.family_.n_components, integer=True)
        rng = random_generator(self.random_state)
        codes = self._draw_codes(n_samples, y, rng)
        values = asarray_like(self.family_.sample(self.params_, codes, rng, component), preprocess.shift)
        return self.table_.decode(preprocess.restore(values)), self.classes_[codes]
