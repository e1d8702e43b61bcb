"""Classifiers whose classes are unions of softmax subclasses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from latentia.engine.contracts import MaskedRows, Params
from latentia.estimators.latent_softmax.base import search_table
from latentia.estimators.latent_softmax.classifier import DiscriminativeClassifier
from latentia.estimators.latent_softmax.model_specs import SubclassSpec, undo_standardization
from latentia.estimators.latent_softmax.subclass_search import (
    Configuration,
    SearchEntry,
    Trial,
    best_configuration,
    children_of,
    compressive_search,
    exhaustive_search,
    refine,
)
from latentia.estimators.latent_softmax.training import Fitted, Rows
from latentia.families.building_blocks.expected_softmax import log_expected_softmax
from latentia.families.building_blocks.gaussian_weights import augment, scores_of
from latentia.families.softmax.likelihood import SoftmaxWeights
from latentia.inputs.options import check_choice, check_number
from latentia.numerics.array_api import Array, asarray_like, namespace, transpose
from latentia.numerics.logspace import logsumexp
from latentia.numerics.packed_symmetric import packed_outer


class MultimodalSoftmaxClassifier(DiscriminativeClassifier):
    """A softmax over subclasses, several of which make up a class; boundaries between classes are piecewise linear.

    ``P(c | x) = sum over subclasses i of c of exp(w_i' x) / sum over all subclasses j of exp(w_j' x)``, x having a one appended. The weights have
    zero-mean Gaussian priors whose precisions have gamma hyper-priors; the bias shares the weights' prior. Learned by variational Bayes through a
    quadratic bound of the softmax, or by maximum likelihood; `criterion` chooses the numbers of subclasses. [1]_

    Parameters
    ----------
    n_subclasses : "auto", int or sequence of int, default="auto"
        Subclasses of every class, of each class in the order of `classes_`, or chosen by `search`.
    max_subclasses : int, default=5
        The most subclasses of a class that a search tries.
    threshold : float or sequence of float, default=0.05
        Compressive search drops a subclass that holds a smaller part of its class; several thresholds are tried at once.
    inference : {"vb", "ml"}, default="vb"
        Variational Bayes, or maximum likelihood (with a `ridge`, MAP) by L-BFGS.
    criterion : {"validation", "evidence", "bound", "bic"}, default="validation"
        What "auto" chooses by. "validation": the log score of a quarter of the rows, held out; the winner is then fitted on all. It predicts best over many tables (see the
        documentation). "evidence": `corrected_log_evidence_`; "bound": `log_evidence_`, as in the paper; both use all rows and are not random. "bic": BIC of the point estimate. Under maximum likelihood
        BIC replaces both evidences.
    search : {"compressive", "exhaustive"}, default="compressive"
        Compressive search fits equal numbers of subclasses, then drops subclasses with a small share and fits again; exhaustive search fits every
        configuration up to `max_subclasses`.
    max_rounds : int, default=2
        Rounds of compressive search.
    max_models : int, default=10
        The most models to fit with `search="compressive"`, in all: those that it does not use are spent on neighbors of the best configuration. 0 for no limit and no neighbors.
    averaging : {"corrected", "posterior", "plugin"}, default="corrected"
        Class probabilities under variational Bayes. The bound's posterior means are too confident (with two subclasses the contrasts tend to twice their
        right size as rows are added). "corrected": averaged over the normal posterior under the exact likelihood; "posterior": averaged over the
        posterior of the quadratic bound; "plugin": corrected means without averaging.
    shape, rate : float, default=1.0
        Of the gamma hyper-priors of the precisions.
    ridge : float, default=0.0
        Precision of a Gaussian prior on the weights of the standardized columns, for `inference="ml"`.
    annealing : bool, default=False
        Whether variational Bayes starts at lower inverse temperatures.
    standardize : bool, default=True
        Whether columns are standardized first, as the prior, which treats all weights alike, expects. Learned weights are given in the units of the columns as they came.
    loss_matrix : array-like of shape (n_classes, n_classes), default=None
        Entry (i, j) is the loss of predicting class j when the class is i; `predict` minimizes the expected loss.
    n_init : int, default=10
        Number of starts: small random weights and k-means centroids in turn, improved by penalized likelihood, then all in one batch. The best bound wins.
    max_iter : int, default=600
        Maximum number of steps of variational Bayes, or of L-BFGS.
    tol : float, default=1e-5
        Variational Bayes ends when six steps together gain less per row; L-BFGS at a finer threshold.
    random_state : int, RandomState instance or None, default=None
        Seeds the starts.
    callback : callable, default=None
        Called with each step (`solver`, `iteration`, `value`, `n_running`, `params`); a true answer ends the fit there.
    verbose : int, default=0
        Shows progress if positive.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Classes in sorted order.
    n_subclasses_ : ndarray of shape (n_classes,)
        Subclasses of each class.
    subclass_labels_ : ndarray of shape (n_total_subclasses,)
        The class of each subclass.
    weights_ : array of shape (n_total_subclasses, n_features)
        Point estimate of the weights: corrected, or of maximum likelihood.
    intercepts_ : array of shape (n_total_subclasses,)
        Point estimate of the biases.
    posterior_means_, posterior_covariances_ : arrays of shape (n_total_subclasses, n_features + 1[, n_features + 1])
        The variational posterior of weights and bias (`inference="vb"`).
    precisions_ : array of shape (n_total_subclasses,)
        Expected precisions of the weights' priors (`inference="vb"`).
    log_evidence_ : float
        Variational bound less the log number of permutations of subclasses (`inference="vb"`).
    corrected_log_evidence_ : float
        The bound of the posterior under the exact likelihood plus the log number of permutations: an estimate of the log evidence (`inference="vb"`).
    search_results_ : dict of columns
        A table of the structures tried: `n_subclasses`, `score` (what was maximized), `parents` and `children` (those that were fitted, of compressive search), `round`, `log_evidence`, `corrected_log_evidence`, `bic`, `log_likelihood`,
        `restart_gap` (best less median of the starts' values), `n_restarts`, `n_iter`, `seconds`. `pandas.DataFrame` takes it.
    restart_objectives_ : ndarray of shape (n_restarts,)
        Where the starts of the chosen structure ended, best first.
    objective_curve_ : ndarray of shape (n_iter_ + 1,)
        The bound (or likelihood) after each step.
    n_iter_, converged_, stopping_reason_ : int, bool, str
        How the training of the chosen structure ended.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has string column names.

    References
    ----------
    .. [1] N. Ahmed and M. Campbell, "Variational Bayesian learning of probabilistic discriminative models with latent softmax variables", IEEE Transactions on
       Signal Processing 59(7), 2011.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from latentia import MultimodalSoftmaxClassifier
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> model = MultimodalSoftmaxClassifier(n_subclasses=2, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    def __init__(
        self,
        n_subclasses: str | int | Sequence[int] = "auto",
        *,
        max_subclasses: int = 5,
        threshold: float | Sequence[float] = 0.05,
        inference: str = "vb",
        criterion: str = "validation",
        search: str = "compressive",
        max_rounds: int = 2,
        max_models: int = 10,
        averaging: str = "corrected",
        shape: float = 1.0,
        rate: float = 1.0,
        ridge: float = 0.0,
        annealing: bool = False,
        standardize: bool = True,
        loss_matrix: Any = None,
        n_init: int = 10,
        max_iter: int = 600,
        tol: float = 1e-5,
        random_state: Any = None,
        callback: Callable[..., Any] | None = None,
        verbose: int = 0,
    ):
        self.n_subclasses = n_subclasses
        self.max_subclasses = max_subclasses
        self.threshold = threshold
        self.inference = inference
        self.criterion = criterion
        self.search = search
        self.max_rounds = max_rounds
        self.max_models = max_models
        self.averaging = averaging
        self.shape = shape
        self.rate = rate
        self.ridge = ridge
        self.annealing = annealing
        self.standardize = standardize
        self.loss_matrix = loss_matrix
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _check_options(self) -> None:
        super()._check_options()
        check_number("max_subclasses", self.max_subclasses, ge=1, integer=True)
        check_number("max_rounds", self.max_rounds, ge=1, integer=True)
        check_number("max_models", self.max_models, ge=0, integer=True)
        check_choice("search", self.search, ("compressive", "exhaustive"))
        if np.size(self.threshold) == 0:
            raise ValueError(f"threshold={self.threshold!r}; allowed are one number from 0 to 1, or several.")
        for value in np.atleast_1d(np.asarray(self.threshold, dtype=object)).tolist():
            check_number("threshold", value, ge=0, lt=1)
        if isinstance(self.n_subclasses, str):
            check_choice("n_subclasses", self.n_subclasses, ["auto"], ", an int, or one int per class")
        else:
            for number in np.atleast_1d(np.asarray(self.n_subclasses, dtype=object)).tolist():
                check_number("n_subclasses", number, ge=1, integer=True)

    def _configuration(self) -> Configuration:
        """The user's numbers, one per class."""
        n_classes = len(self.classes_)
        numbers = np.asarray(self.n_subclasses)
        if numbers.ndim > 0 and numbers.shape != (n_classes,):
            raise ValueError(
                f"n_subclasses={self.n_subclasses!r} has {numbers.size} entries, but y has {n_classes} classes; "
                "allowed are 'auto', an int, or one int per class."
            )
        return tuple(np.broadcast_to(numbers, (n_classes,)).astype(int).tolist())

    @property
    def _is_search(self) -> bool:
        return isinstance(self.n_subclasses, str)

    def _search(self, rows: Rows, fit_one: Any, watch: Any) -> Fitted:
        def fit(config: Configuration, parents: Sequence[tuple[Trial, np.ndarray]]) -> Trial:
            structure = SubclassSpec(config, self._prior)
            extra = tuple(_relevant(trial.model, keep) for trial, keep in parents)
            fitted = fit_one(structure, extra)
            family = structure.variational() if self.inference == "vb" else structure.likelihood()
            return Trial(fitted.score, structure.class_shares(family, fitted.params, rows.raw), fitted)

        if not self._is_search:
            config = self._configuration()
            seen = {config: SearchEntry(fit(config, ()), 1, [])}
        else:
            in_class = np.bincount(rows.raw.y, minlength=len(self.classes_))
            limits = tuple(np.clip(in_class, 1, self.max_subclasses).tolist())
            if self.search == "exhaustive":
                seen = exhaustive_search(fit, limits, lambda: watch.stopped)
            else:
                thresholds = np.atleast_1d(np.asarray(self.threshold, dtype=float)).tolist()
                seen = compressive_search(
                    fit, limits, thresholds, self.max_rounds, self.max_models, lambda: watch.stopped
                )
                refine(fit, seen, limits, self.max_models, lambda: watch.stopped)
        self.search_results_ = search_table(
            [entry.trial.model for entry in seen.values()],
            n_subclasses=list(seen),
            round=[entry.round for entry in seen.values()],
            parents=[entry.parents for entry in seen.values()],
            children=list(children_of(seen).values()),
        )
        return seen[best_configuration(seen)].trial.model

    def _set_fitted_attributes(self, structure: Any, params: Params, exact: Params, weights: Params) -> None:
        self.structure_, self.params_, self.exact_, self.point_ = structure, params, exact, weights
        self.n_subclasses_ = np.array(structure.n_subclasses)
        self.subclass_labels_ = self.classes_[structure.owner]
        raw = undo_standardization(weights.weights, self.preprocessor_)
        self.weights_, self.intercepts_ = raw[:, :-1], raw[:, -1]
        if self.inference == "vb":
            self.posterior_means_ = undo_standardization(params.mean, self.preprocessor_)
            one_side = transpose(undo_standardization(params.covariance, self.preprocessor_))
            self.posterior_covariances_ = undo_standardization(one_side, self.preprocessor_)
            self.precisions_ = structure.prior.precision(params.rate, params.mean.shape[-1])

    def _subclass_log_proba(self, rows: MaskedRows, average: bool = True) -> Array:
        """Log probabilities (S, N) of the subclasses."""
        x = augment(rows.values)
        averages = average and self._averages
        posterior, outer = (self._posterior, packed_outer(x)) if averages else (None, None)
        return log_expected_softmax(*scores_of(self.point_.weights, posterior, x, outer))

    def _log_proba(self, rows: MaskedRows, average: bool = True) -> Array:
        log_proba = self._subclass_log_proba(rows, average)
        ends = np.cumsum(self.structure_.n_subclasses)
        starts = ends - self.structure_.n_subclasses
        parts = [logsumexp(log_proba[a:b, :], axis=-2) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
        return namespace(log_proba).stack(parts, axis=-1)

    def subclass_proba(self, X: Any) -> Array:
        """Probabilities of the subclasses, in the order of `subclass_labels_`; those of a class add up to its probability.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        proba : array of shape (n_samples, n_total_subclasses)
        """
        log_proba = self._by_rows(X, lambda cells: transpose(self._subclass_log_proba(cells)))
        return namespace(log_proba).exp(log_proba)

    def _numbers_per_row(self) -> int:
        n_subclasses, size = sum(self.structure_.n_subclasses), self.n_features_in_ + 1
        return size * (size + 1) // 2 + 4 * n_subclasses**2


def _relevant(fitted: Fitted, keep: np.ndarray) -> SoftmaxWeights:
    """A parent's weights of the subclasses that were kept."""
    weights = fitted.weights.weights
    xp = namespace(weights)
    return SoftmaxWeights(xp.take(weights, asarray_like(np.flatnonzero(keep), weights, dtype=xp.int64), axis=0))
