"""The estimator to start with: class probabilities for any table."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from latentia.arrays.namespace import compute_dtype
from latentia.estimators.base.callbacks import StepNotifier
from latentia.estimators.base.fitting import Attributes
from latentia.estimators.base.generative_input import PartedInput, TrainingTable
from latentia.estimators.latent_classification.model import LatentClassificationModel
from latentia.estimators.latent_classifier.answers import StackPredictMixin
from latentia.estimators.latent_classifier.candidates import Options, make_candidates
from latentia.estimators.latent_classifier.folds import check_cv, search_folds, warn_of_never_held_out
from latentia.estimators.latent_classifier.multilabel import (
    FittedEmbedding,
    MultilabelInput,
    fit_multilabel,
    is_label_matrix,
    read_multilabel,
)
from latentia.estimators.latent_classifier.refit import FittedStack, Refit
from latentia.estimators.latent_classifier.search import Trial, run_search
from latentia.estimators.latent_classifier.stacking import (
    equal_stack,
    fit_temperatures,
    fit_tempered,
    predict_held_out,
)
from latentia.solvers import Outcome, ignore_step
from latentia.table.columns import check_min_frequency
from latentia.table.lazy import is_lazy
from latentia.table.options import Check, choice, integer, number, optional
from latentia.table.weights import refuse_row_numbers

#: Labeled rows that a search looks at, at most, and unlabeled ones.
MAX_SEARCH_ROWS = {"fast": 1000, "balanced": 2000, "best": 10_000}

#: Labeled rows, or what they weigh, below which folds are drawn again, and how often in all.
FEW_ROWS = 100
N_REPEATS = {"fast": 1, "balanced": 2, "best": 4}


class LatentClassifier(StackPredictMixin):
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
        cv: Any = 5,
        n_jobs: int | None = None,
        kinds: Any = "auto",
        priors: Any = "empirical",
        loss_matrix: Any = None,
        max_categories: int | None = None,
        min_frequency: int | float | None = None,
        handle_unknown: str = "missing",
        unlabeled: str | int | None = "auto",
        n_init: int = 1,
        max_iter: int = 500,
        tol: float = 1e-3,
        random_state: Any = None,
        callback: Callable[..., Any] | None = None,
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

    def _reader(self) -> LatentClassificationModel:
        """The estimator that reads tables as this one does."""
        names = ("kinds", "priors", "loss_matrix", "max_categories", "min_frequency", "handle_unknown", "unlabeled")
        return LatentClassificationModel(**{name: getattr(self, name) for name in names})

    def _read_input(self, X: Any, y: Any, sample_weight: Any) -> TrainingTable | MultilabelInput:
        matrix = is_label_matrix(y) or isinstance(getattr(X, "target", None), tuple)
        if is_lazy(X):
            refuse_row_numbers(self.cv)
        if is_lazy(X) and matrix:
            raise TypeError(
                "y is a matrix of labels and X a large table in parts, which LatentClassifier does not take together: "
                "ProbitEmbeddingClassifier does, if no cell is missing; or fit on a sample of the rows."
            )
        if matrix:
            return read_multilabel(self._reader(), X, y, sample_weight)
        data = self._reader()._read_input(X, y, sample_weight)
        return replace(data, attributes={**data.attributes, "multilabel_": False})

    def _n_rows(self, X: Any, data: Any) -> int:
        rows = data.rows.rows if isinstance(data, MultilabelInput) else data.rows
        return int(rows.n_rows)

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

    def _publish_density(self, estimator: Any) -> None:
        """The member that stands for p(x) answers as this estimator would."""
        names = ("unlabeled", "random_state", "handle_unknown")
        known = estimator.get_params(deep=False)
        estimator.set_params(**{name: getattr(self, name) for name in names if name in known})


def _label_names(attributes: Attributes) -> np.ndarray:
    """The classes; the names of the labels of a label matrix."""
    return np.asarray(attributes.get("label_names_", attributes["classes_"]))
