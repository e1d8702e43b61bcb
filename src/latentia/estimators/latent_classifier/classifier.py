"""The estimator to start with: class probabilities for any table.

What a LatentClassifier answers: classes, densities, completed rows, reasons.

What cells add to the log odds of each class, in the form of the rows that were asked about.
"""

from __future__ import annotations

import sys
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from latentia.arrays.namespace import Array, asarray_like, compute_dtype, namespace, take_rows, to_numpy
from latentia.estimators.base.classifier import ClassOrLabelsClassifier, as_frame_if_possible
from latentia.estimators.base.estimator import Attributes, StepNotifier
from latentia.estimators.base.reading import MixedTable, PartedInput, TrainingTable, read_training_table
from latentia.estimators.latent_classifier.candidates import (
    Options,
    check_cv,
    make_candidates,
    search_folds,
    warn_of_never_held_out,
)
from latentia.estimators.latent_classifier.multilabel import (
    FittedEmbedding,
    MultilabelInput,
    fit_multilabel,
    read_multilabel,
)
from latentia.estimators.latent_classifier.search import FittedStack, Refit, Trial, run_search
from latentia.estimators.latent_classifier.stacking import (
    equal_stack,
    fit_temperatures,
    fit_tempered,
    predict_held_out,
)
from latentia.families.latent_factors.kinds import COLUMN_MODELS
from latentia.scale.tables import is_lazy, method_of_rows
from latentia.solvers import Outcome, ignore_step
from latentia.table.columns import Kinds, check_min_frequency
from latentia.table.encoder import Merging
from latentia.table.frames import TableLike, column_names, frame_type, is_pandas
from latentia.table.labels import LabelsLike, is_label_matrix
from latentia.table.options import (
    Callback,
    Check,
    RandomState,
    check_number,
    choice,
    integer,
    number,
    optional,
    random_generator,
)
from latentia.table.rows import plain_table, validate_table
from latentia.table.weights import FoldsLike, PriorsLike, refuse_row_numbers

#: Rows with a hidden cell that `explain` predicts together.
EXPLAINED_ROWS = 2048


#: Labeled rows that a search looks at, at most, and unlabeled ones.
MAX_SEARCH_ROWS = {"fast": 1000, "balanced": 2000, "best": 10_000}

#: Labeled rows, or what they weigh, below which folds are drawn again, and how often in all.
FEW_ROWS = 100
N_REPEATS = {"fast": 1, "balanced": 2, "best": 4}


class LatentClassifier(ClassOrLabelsClassifier):
    """Class probabilities for any table: several models, weighted by how well they predict labels
    that they have not seen.

    Takes arrays and data frames with gaps, text and categories, and rows without a label. Latent
    factor models, Gaussians and a softmax on completed rows are cross-validated on the same folds,
    tempered, weighted by their held-out log loss with a prior towards equal weights, and fitted
    again to all rows; their probabilities are averaged. A label matrix (several labels a row) goes
    to a `ProbitEmbeddingClassifier` on completed rows. Of a large table in parts (files, Dask), a
    sample of 64 MiB is cross-validated, and the softmax is fitted to it; the other members see all.

    Parameters
    ----------
    effort : {"balanced", "fast", "best"}, default="balanced"
        How many models are tried, on how many rows and folds.
    cv : int, cross-validation generator, iterable or None, default=5
        Folds. An integer spreads each class evenly over so many folds; equal rows share a fold. A
        splitter sees the labeled rows of positive weight; an iterable holds pairs of training and
        test rows. Unlabeled rows are in every training part.
    n_jobs : int or None, default=None
        Processes that fit folds in parallel, as in joblib.
    kinds : "auto", name of a kind, sequence or dict, default="auto"
        The kind of all columns, of each, or of those that a dict names or numbers; as in
        `LatentClassificationModel`.
    priors : {"empirical", "uniform"}, array-like of shape (n_classes,) or dict, default="empirical"
        Class priors where the model is used. Models are trained and compared under the classes'
        shares of the labeled rows. Not for label matrices.
    loss_matrix : array-like of shape (n_classes, n_classes), default=None
        Entry (i, j) is the loss of predicting class j when the class is i; `predict` minimizes the
        expected loss. Not for label matrices.
    max_categories, min_frequency : int or None, and int, float or None, default=None
        Rare values of a categorical column become one category, as in `OneHotEncoder`.
    handle_unknown : {"missing", "error"}, default="missing"
        How to treat categories that `fit` did not see: missing, with a warning, or an error.
    unlabeled : "auto", int or None, default="auto"
        Which integer marks an unlabeled row; None: no integer does. "auto": -1, with a warning of
        how many rows that are; labels that are just -1 and 1 are two classes. None and NaN always
        mark one.
    n_init : int, default=1
        Number of starts of models with several components.
    max_iter : int, default=500
        Maximum number of iterations of each model, and of the weights.
    tol : float, default=1e-3
        Models stop when the log likelihood per row gains less; the weights at a thousandth of it.
    random_state : int, RandomState instance or None, default=None
        Seeds the starts, which rows of large tables are searched, and `sample`.
    callback : callable, default=None
        Called with each candidate tried (`candidate`, `log_loss`, `accuracy`, `seconds`, `leader`,
        `best_log_loss`), then with each step of the weights (which has `solver` instead). Return
        True to stop: the answer then comes from what has been tried.
    verbose : int, default=0
        Shows progress if positive.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Classes in sorted order; for a label matrix, the numbers of its columns.
    leaderboard_ : pandas.DataFrame, or dict of lists without pandas
        One row per candidate, the best first: `candidate`, `log_loss`, `accuracy` (held out, as
        they came), `temperature`, `weight`, `seconds`.
    density_estimator_, factor_estimator_ : estimators
        The best generative member, which gives p(x); the best of those with latent factors, or
        None.
    weights_ : array of shape (n_candidates,)
        Weights of the candidates, in the order of `leaderboard_`; they add up to one.
    expected_log_loss_, expected_accuracy_ : float
        What to expect of new rows like the labeled ones: each fold is predicted by the stack of
        the other folds. Classes that were never held out do not count; NaN if none was.
    never_held_out_ : ndarray
        Classes, or labels of a label matrix, of which no row could be held out: those with a single
        labeled row, or equal ones only. `fit` warns of them, if any other row was held out.
    held_out_proba_ : array of shape (n_samples, n_classes)
        Probabilities of the rows of `fit` by members and weights of the other folds, under the
        classes' shares of the labeled rows; NaN for rows that were never held out. Of a large table
        in parts, of the rows of the sample.
    priors_ : array of shape (n_classes,)
        What is said of a row without any cell.
    kinds_ : tuple of str
        Kind of each column.
    objective_curve_ : ndarray
        Penalized log score of the held-out rows after each step of the weights.
    n_iter_, converged_, stopping_reason_ : int, bool, str
        Of the weights: steps, whether and why they stopped by themselves.
    multilabel_, label_names_ : bool, and ndarray of shape (n_labels,)
        Whether y was a matrix of labels; their names, if it was a data frame.
    n_features_in_, feature_names_in_ : int, ndarray of shape (`n_features_in_`,)
        Number of columns, and their names if X had any.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentia import LatentClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> X[::4, 2] = float("nan")
    >>> model = LatentClassifier(effort="fast", random_state=0).fit(X, y)
    >>> model.predict(X[:2]), bool(model.expected_accuracy_ > 0.9)
    (array([0, 0]), True)
    """

    _CHECKS: ClassVar[dict[str, Check]] = {
        "effort": choice("balanced", "fast", "best"),
        "cv": check_cv,
        "n_jobs": optional(integer()),
        "max_categories": optional(integer(ge=1)),
        "min_frequency": check_min_frequency,
        "handle_unknown": choice("missing", "error"),
        "n_init": integer(ge=1),
        "max_iter": integer(ge=1),
        "tol": number(ge=0),
    }

    def __init__(
        self,
        *,
        effort: str = "balanced",
        cv: FoldsLike = 5,
        n_jobs: int | None = None,
        kinds: Kinds = "auto",
        priors: PriorsLike = "empirical",
        loss_matrix: ArrayLike | None = None,
        max_categories: int | None = None,
        min_frequency: int | float | None = None,
        handle_unknown: str = "missing",
        unlabeled: str | int | None = "auto",
        n_init: int = 1,
        max_iter: int = 500,
        tol: float = 1e-3,
        random_state: RandomState = None,
        callback: Callback | None = None,
        verbose: int = 0,
    ):
        self.effort = effort
        self.cv = cv
        self.n_jobs = n_jobs
        self.kinds = kinds
        self.priors = priors
        self.loss_matrix = loss_matrix
        self.max_categories = max_categories
        self.min_frequency = min_frequency
        self.handle_unknown = handle_unknown
        self.unlabeled = unlabeled
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _read_input(
        self, X: TableLike, y: LabelsLike | None, sample_weight: ArrayLike | None
    ) -> TrainingTable | MultilabelInput:
        matrix = is_label_matrix(y) or isinstance(getattr(X, "target", None), tuple)
        if is_lazy(X):
            refuse_row_numbers(self.cv)
        if is_lazy(X) and matrix:
            raise TypeError(
                "y is a matrix of labels and X a large table in parts, which LatentClassifier does not take together: "
                "ProbitEmbeddingClassifier does, if no cell is missing; or fit on a sample of the rows."
            )
        merging = Merging(self.max_categories, self.min_frequency)
        form = MixedTable(self.kinds, merging, self.handle_unknown, COLUMN_MODELS)
        if matrix:
            return read_multilabel(self, form, X, y, sample_weight)
        data = read_training_table(self, form, X, y, sample_weight)
        return replace(data, attributes={**data.attributes, "multilabel_": False})

    def _train(self, data: Any, rng: np.random.Generator, notifier: StepNotifier) -> FittedStack | FittedEmbedding:
        options = Options(self.n_init, self.max_iter, self.tol)
        fitted: FittedStack | FittedEmbedding
        if isinstance(data, MultilabelInput):
            fitted = fit_multilabel(data, options, self.cv, rng, notifier)
        else:
            fitted = self._train_stack(data, options, rng, notifier)
        warn_of_never_held_out(_label_names(data.attributes)[fitted.never_held_out], fitted.expected)
        return fitted

    def _train_stack(
        self, data: Any, options: Options, rng: np.random.Generator, notifier: StepNotifier
    ) -> FittedStack:
        seed, whole = int(rng.integers(2**31)), None
        log_prior, data = data.log_prior, replace(data, log_prior=None)  # models see the shares of the labeled rows
        if isinstance(data, PartedInput):
            some = data.sample(rng)
            whole, data = data if some.codes.size < data.rows.n_rows else None, some
        n_repeats = N_REPEATS[self.effort] if data.labeled_weight < FEW_ROWS else 1
        folds = search_folds(self.cv, data, MAX_SEARCH_ROWS[self.effort], n_repeats, rng)
        search = run_search(make_candidates(self.effort, data, options), data, folds, seed, self.n_jobs, self._report)
        refit, stack = Refit(search, data, seed, whole, log_prior), equal_stack(len(search.candidates))
        if folds:
            temperatures = fit_temperatures(search.held_out)
            stack = stack._replace(temperatures=temperatures)
            notifier.attributes_at = lambda weights: (
                data.attributes | self._fitted_attributes(data, refit.fitted(stack._replace(weights=weights)))
            )
            listen = ignore_step if search.stopped else notifier
            stack = fit_tempered(search.held_out, temperatures, self.max_iter, self.tol, listen)
        if search.stopped:
            stack = stack._replace(outcome=Outcome.STOPPED)
        return refit.fitted(stack, predict_held_out(search.held_out, self.max_iter, self.tol))

    def _report(self, trial: Trial) -> bool:
        if self.verbose > 0:
            print(trial.summary(), file=sys.stderr)
        return bool(self.callback(trial)) if self.callback is not None else False

    def _fitted_attributes(self, data: Any, fitted: FittedStack | FittedEmbedding) -> Attributes:
        stack, dtype = fitted.stack, np.float32 if "32" in str(compute_dtype(data.X)) else np.float64
        weights = fitted.model.leaderboard["weight"]
        attributes = {
            "_model": fitted.model,
            "weights_": np.array(weights, dtype=dtype),
            "expected_log_loss_": fitted.expected[0],
            "expected_accuracy_": fitted.expected[1],
            "held_out_proba_": fitted.held_out_proba.astype(dtype),
            "never_held_out_": _label_names(data.attributes)[fitted.never_held_out],
            "objective_curve_": stack.curve,
            "n_iter_": len(stack.curve) - 1,
            "converged_": stack.outcome.converged,
            "stopping_reason_": stack.outcome.value,
        }
        if isinstance(fitted, FittedStack):
            self._publish_density(fitted.model.density.estimator)
            attributes["priors_"] = np.exp(fitted.model.log_prior_of_rows).astype(dtype)
        return attributes

    def _publish_density(self, estimator: BaseEstimator) -> None:
        """The member that stands for p(x) answers as this estimator would."""
        names = ("unlabeled", "random_state", "handle_unknown")
        known = estimator.get_params(deep=False)
        estimator.set_params(**{name: getattr(self, name) for name in names if name in known})

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

    def _check_rows(self, X: TableLike) -> Array:
        """Rows to predict, coded."""
        self._require_fitted()
        return self._model.encoder.encode(validate_table(self, X, reset=False), self.handle_unknown)

    def _log_proba(self, X: TableLike) -> Array:
        rows = self._check_rows(X)  # which also finds out whether there is a model
        return self._model.log_proba(rows)

    @method_of_rows
    def explain(self, X: TableLike) -> Any:
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
    def score_samples(self, X: TableLike) -> Array:
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
    def predict_joint_log_proba(self, X: TableLike) -> Array:
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
    def impute(
        self, X: TableLike, y: LabelsLike | None = None, *, method: str = "mean", condition: str | None = None
    ) -> Any:
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

    def sample(self, n_samples: int = 1, y: LabelsLike | None = None) -> tuple[Any, np.ndarray]:
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

    def bic(self, X: TableLike, y: LabelsLike | None) -> float:
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

    def aic(self, X: TableLike, y: LabelsLike | None) -> float:
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

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = tags.input_tags.string = True
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        return tags


def _label_names(attributes: Attributes) -> np.ndarray:
    """The classes; the names of the labels of a label matrix."""
    return np.asarray(attributes.get("label_names_", attributes["classes_"]))


def as_reasons(added: Array, X: TableLike, classes: np.ndarray) -> Any:
    """Contributions (rows, columns, classes) as an array or, for a data frame X, as a frame with a
    part for each class: `reasons[label]` has the columns of X.
    """
    kind = frame_type(X)
    if kind in ("array", "pyarrow"):
        return added
    numbers, names, labels = to_numpy(added), column_names(X), classes.tolist()
    if kind == "polars":
        import polars

        parts = [polars.DataFrame(numbers[:, :, k], schema=names) for k in range(len(labels))]
        return polars.DataFrame([part.to_struct(str(label)) for part, label in zip(parts, labels, strict=True)])
    import pandas

    columns = pandas.MultiIndex.from_product([labels, names], names=["class", "column"])
    cells = np.moveaxis(numbers, 2, 1).reshape(len(numbers), -1)
    return pandas.DataFrame(cells, index=X.index if is_pandas(X) else None, columns=columns)


def reasons_array(reasons: Any) -> np.ndarray:
    """Contributions (rows, columns, classes) of any form as an array."""
    kind = frame_type(reasons)
    if kind == "array":
        return to_numpy(reasons)
    if kind == "polars":
        return np.stack([part.struct.unnest().to_numpy() for part in reasons.get_columns()], axis=2)
    n_classes = reasons.columns.levshape[0]
    return np.moveaxis(reasons.to_numpy().reshape(len(reasons), n_classes, -1), 1, 2)
