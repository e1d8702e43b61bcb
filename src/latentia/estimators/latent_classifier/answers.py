"""What a LatentClassifier answers: classes, densities, completed rows, reasons."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from latentia.arrays.namespace import Array, asarray_like, namespace, take_rows, to_numpy
from latentia.estimators.base.delegation import as_frame_if_possible
from latentia.estimators.base.label_matrices import ClassOrLabelsClassifier
from latentia.estimators.latent_classifier.multilabel import MultilabelModel
from latentia.estimators.latent_classifier.prediction import StackModel
from latentia.estimators.latent_classifier.reasons import as_reasons
from latentia.table.options import check_number, random_generator
from latentia.table.rows import method_of_rows, plain_table, validate_table

#: Rows with a hidden cell that `explain` predicts together.
EXPLAINED_ROWS = 2048


class StackPredictMixin(ClassOrLabelsClassifier):
    """Answers of the stack; p(x) is that of its best generative member."""

    _model: StackModel | MultilabelModel
    handle_unknown: str
    priors_: Array

    @property
    def leaderboard_(self) -> Any:
        """One row per candidate, the least held-out log loss first."""
        self._require_fitted()
        return as_frame_if_possible(self._model.leaderboard)

    @property
    def density_estimator_(self) -> Any:
        """The best generative member, a fitted estimator: its density, factors and completions."""
        self._require_fitted()
        return self._model.density.estimator

    @property
    def factor_estimator_(self) -> Any:
        """The heaviest member with latent factors, a fitted estimator; None if there is none."""
        self._require_fitted()
        return self._model.factors

    def _check_rows(self, X: Any) -> Array:
        """Rows to predict, coded."""
        self._require_fitted()
        return self._model.encoder.encode(validate_table(self, X, reset=False), self.handle_unknown)

    def _log_proba(self, X: Any) -> Array:
        rows = self._check_rows(X)  # which also finds out whether there is a model
        return self._model.log_proba(rows)

    @method_of_rows
    def explain(self, X: Any) -> Any:
        """What each known cell adds to the log odds of each class against all others.

        The difference between the log odds of the row and those of the row without that cell, whose
        place the other cells take as far as they tell of it. A missing cell adds nothing. Cells
        that repeat each other add little each, so the sum need not be the log odds of the row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.

        Returns
        -------
        contributions : array of shape (n_samples, n_features, n_classes), or a data frame
            Classes are in the order of `classes_`, the labels of a label matrix in that of its
            columns. For a frame of pandas, a frame with its index and columns for each class:
            ``explain(X)["yes"]`` is what cells add to the log odds of the class "yes". For one of
            polars, the same as a struct for each class.
        """
        rows = self._check_rows(X)
        rows = asarray_like(rows, self._model.rows_like)
        xp = namespace(rows)
        whole = self._model.log_odds(rows)
        n_rows, n_columns = rows.shape
        column, row = np.nonzero(~to_numpy(xp.isnan(rows)).T)  # rows that lose the same cell are neighbors
        size = max(EXPLAINED_ROWS, n_rows)  # few rows are cheap: the columns of a batch share a call
        parts = []
        for start in range(0, row.size, size):
            own = take_rows(rows, row[start : start + size])
            hidden = asarray_like(np.arange(n_columns) == column[start : start + size, None], rows, dtype=xp.bool)
            without = self._model.log_odds(xp.where(hidden, xp.full_like(own, np.nan), own))
            parts.append(take_rows(whole, row[start : start + size]) - without)
        place = np.full((n_rows, n_columns), row.size)  # a missing cell adds nothing
        place[row, column] = np.arange(row.size)
        added = take_rows(xp.concat([*parts, xp.zeros_like(whole[:1, :])]), place.ravel())
        added = xp.reshape(added, (n_rows, n_columns, -1))
        return as_reasons(added, plain_table(X), getattr(self, "label_names_", self.classes_))

    @method_of_rows
    def score_samples(self, X: Any) -> Array:
        """Log p(x), the density of the known cells of each row under the best generative member:
        low for outliers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.

        Returns
        -------
        log_density : array of shape (n_samples,)
        """
        self._require_fitted()
        return self._model.density.estimator.score_samples(X)

    @method_of_rows
    def predict_joint_log_proba(self, X: Any) -> Array:
        """Log p(x, c): the density of the best generative member, times the stack's p(c | x).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.

        Returns
        -------
        log_joint : array of shape (n_samples, n_classes)
        """
        log_density = self.score_samples(X)
        return log_density[:, None] + self._log_proba(X)

    @method_of_rows
    def impute(self, X: Any, y: Any = None, *, method: str = "mean", condition: str | None = None) -> Any:
        """Rows with each missing cell replaced by what the best generative member expects there.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.
        y : array-like of shape (n_samples,), default=None
            Classes of the rows, where they are known.
        method : {"mean", "median", "mode"}, default="mean"
            Expected values; about medians of columns that were transformed, expected values of
            others; or the most probable value of binary columns and the nearest of integer ones.
            Columns of categories always get their most probable value.
        condition : {"class"} or None, default=None
            Of rows without a known class. "class": given the most probable class of the row; None:
            averaged over the classes.

        Returns
        -------
        X_complete : array of shape (n_samples, n_features), or a data frame for models of frames
            Zeros in columns of numbers, and gaps in those of categories, that had no known cell in
            `fit`.
        """
        self._require_fitted()
        return self._model.density.estimator.impute(X, y, method=method, condition=condition)

    def sample(self, n_samples: int = 1, y: Any = None) -> tuple[Any, np.ndarray]:
        """Draw rows from the best generative member.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        y : class or array-like of shape (n_samples,), default=None
            The class of all rows, or of each; drawn from the class priors by default.

        Returns
        -------
        X : array of shape (n_samples, n_features), or a data frame like the one fitted
        y : ndarray of shape (n_samples,)
        """
        self._require_fitted()
        if self.multilabel_:
            raise ValueError("sample draws rows with their class; a label matrix has no classes to draw from.")
        check_number("n_samples", n_samples, ge=1, integer=True)
        if y is None:
            prior = to_numpy(self.priors_).astype(float)
            y = self.classes_[random_generator(self.random_state).choice(prior.size, n_samples, p=prior / prior.sum())]
        member = copy(self._model.density.estimator).set_params(random_state=self.random_state)  # as it is now
        return member.sample(n_samples, y)

    def bic(self, X: Any, y: Any) -> float:
        """Bayesian information criterion of the best generative member; lower is better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        bic : float
        """
        self._require_classes("bic")
        return float(self._model.density.estimator.bic(X, y))

    def aic(self, X: Any, y: Any) -> float:
        """Akaike information criterion of the best generative member; lower is better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        aic : float
        """
        self._require_classes("aic")
        return float(self._model.density.estimator.aic(X, y))

    def _require_classes(self, method: str) -> None:
        """Refuse what needs the density of a row and its class, after a fit to a label matrix."""
        self._require_fitted()
        if self.multilabel_:
            raise ValueError(
                f"{method} needs the density of rows with their classes; this model was fitted to a label matrix, and "
                "has the density of rows alone (score_samples)."
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = tags.input_tags.string = True
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        tags.array_api_support = True
        return tags
