"""Bayesian multilabel classification in a learned low-dimensional embedding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from latentia.estimators.base.callbacks import (
    CallbackSupportMixin,
    warn_unless_converged,
    with_callbacks,
)
from latentia.estimators.base.legacy import notify_callbacks, transactional_fit
from latentia.estimators.probit_embedding.training import EmbeddingTraining
from latentia.families.probit_embedding.precision_priors import PRECISION_SHARING
from latentia.inputs.label_matrix import LabelMatrix, encode_label_matrix
from latentia.inputs.options import check_bool, check_choice, check_number, random_generator
from latentia.inputs.standardization import make_preprocessor
from latentia.inputs.weights import check_weight


class ProbitEmbeddingClassifier(CallbackSupportMixin, EmbeddingTraining):
    """A linear embedding and one probit classifier per label in it, learned together by variational Bayes.

    A row x lies at ``z ~ N(Q'x, latent_noise^2 I)`` and has label o if ``w_o'z + b_o + N(0, 1) > 0``. The precisions of all entries of Q, w and b
    have gamma hyper-priors, and predictions average over the posterior. Entries of the label matrix may be unknown.

    Parameters
    ----------
    n_latent : int or "auto", default=2
        Dimensions of the embedding, or the number with the largest evidence.
    prior : {"entries", "columns", "rows"}, default="entries"
        Which entries of the projection share a precision: none (sparse entries), those of a dimension (superfluous dimensions vanish: see
        `n_effective_latent_`), or those of a feature (feature selection: see `feature_relevance_`).
    shape, scale : float, default=1.0
        Of the gamma hyper-priors of the precisions.
    latent_noise : float, default=1.0
        Standard deviation of z given x.
    averaging : {"full", "weights"}, default="full"
        What predictions average over: the embedding and the classifiers, or the classifiers at the mean embedding, as the paper does.
    semi_supervised : bool, default=False
        Whether unknown labels are taken to keep clear of the decision lines by `margin`, so that these pass where rows are rare. This helps if classes are
        clusters, and does harm if they are not: compare on held-out rows. By default unknown labels are integrated out.
    margin : float, default=1.0
        Half the width of the empty region in units of the score's noise. Used only if `semi_supervised`.
    standardize : bool, default=True
        Whether columns are standardized first (for sparse X, scaled to unit root mean square), as the priors expect.
    n_init : int, default=1
        Number of starts, run as one batch; the largest bound wins. The first starts from the directions of label space that ridge regression
        predicts best, the others from random ones.
    max_iter : int, default=2000
        Maximum number of iterations: an update of everything, then nine quasi-Newton steps of the means, and so on.
    tol : float, default=1e-4
        Stop when ten iterations together (one update and nine steps) raise the bound by less per row and label.
    random_state : int, RandomState instance or None, default=None
        Seeds the random starts.
    callback : callable, default=None
        Called with each step (`solver`, `iteration`, `value`, `n_running`, `params`); a true answer stops the fit there.
    verbose : int, default=0
        Shows progress if positive.

    Attributes
    ----------
    classes_ : ndarray
        Classes in sorted order; for multilabel y, the numbers of its columns.
    multilabel_ : bool
        Whether y was a matrix of labels.
    label_names_ : ndarray of shape (n_labels,)
        Columns of y, if it was a data frame.
    n_latent_ : int
        Dimensions of the embedding.
    n_effective_latent_ : int
        Dimensions that carry at least one per cent of the variance of the labels' scores on the training rows.
    projection_ : array of shape (n_features, n_latent_)
        Mean of the projection, for prepared rows ``(X - feature_shift_) / feature_scale_``.
    weights_ : array of shape (n_labels, n_latent_)
        Means of the label weights.
    intercepts_ : array of shape (n_labels,)
        Means of the label intercepts.
    weights_covariance_ : array of shape (n_labels, 1 + n_latent_, 1 + n_latent_)
        Posterior covariances of each label's intercept and weights, in this order.
    precisions_ : array of shape (n_features or 1, n_latent_ or 1)
        Expected precisions of the projection's entries; of length one along the axis whose entries share theirs.
    feature_shift_, feature_scale_ : array of shape (n_features,)
        What was taken off the columns, and what they were divided by.
    feature_relevance_ : array of shape (n_features,)
        Share of each feature in the variance of the labels' scores, ``sum_os (w_os q_fs)^2`` made to sum to one. With prior="rows" irrelevant features
        are near zero in all dimensions at once.
    log_evidence_ : float
        The lower bound of log p(y | X), with which sizes and priors may be compared.
    search_results_ : dict of ndarray
        If n_latent="auto": `n_latent`, `log_evidence` and `n_iter` of the sizes tried.
    objective_curve_ : ndarray of shape (n_iter_ + 1,)
        The bound after each sweep.
    n_iter_ : int
        Iterations.
    converged_ : bool
        Whether the fit converged.
    stopping_reason_ : str
        Why it stopped.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X has string column names.

    References
    ----------
    M. Gönen, Bayesian supervised multilabel learning with coupled embedding and classification, SIAM Data Mining 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from latentia import ProbitEmbeddingClassifier
    >>> X, Y = make_multilabel_classification(n_samples=200, n_classes=4, random_state=0)
    >>> Y[::3, 1] = -1  # unknown entries
    >>> model = ProbitEmbeddingClassifier(n_latent=2).fit(X, Y)
    >>> model.predict_proba(X[:2]).shape, model.transform(X[:2]).shape
    ((2, 4), (2, 2))
    """

    def __init__(
        self,
        n_latent: int | str = 2,
        *,
        prior: str = "entries",
        shape: float = 1.0,
        scale: float = 1.0,
        latent_noise: float = 1.0,
        averaging: str = "full",
        semi_supervised: bool = False,
        margin: float = 1.0,
        standardize: bool = True,
        n_init: int = 1,
        max_iter: int = 2000,
        tol: float = 1e-4,
        random_state: Any = None,
        callback: Callable[..., Any] | None = None,
        verbose: int = 0,
    ):
        self.n_latent = n_latent
        self.prior = prior
        self.shape = shape
        self.scale = scale
        self.latent_noise = latent_noise
        self.averaging = averaging
        self.semi_supervised = semi_supervised
        self.margin = margin
        self.standardize = standardize
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    @with_callbacks
    @transactional_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ProbitEmbeddingClassifier:
        """Learn from rows and labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, without missing cells.
        y : array-like of shape (n_samples, n_labels) or (n_samples,)
            Either a matrix of 0 and 1, in which -1 or NaN marks an unknown entry, or the class of each row, where -1 (integers), None or NaN (others)
            mark unlabeled rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; a row of weight 2 counts as that row twice.

        Returns
        -------
        self : estimator
        """
        self._check_options()
        X = self._check_rows(X, reset=True)
        labels = encode_label_matrix(y, X.shape[0])
        weight = check_weight(sample_weight, X.shape[0])
        _check_known(labels, weight)
        self.classes_, self.multilabel_ = labels.classes, labels.multilabel
        if labels.names is not None:
            self.label_names_ = labels.names
        elif hasattr(self, "label_names_"):  # of an earlier fit
            del self.label_names_
        self.preprocessor_ = make_preprocessor(X, weight, self.standardize)
        rng = random_generator(self.random_state)
        with notify_callbacks(self, X, y, self._attributes_at) as on_step:
            self._train(X, labels.codes, weight, rng, on_step)
        warn_unless_converged(self)
        return self

    def _check_options(self) -> None:
        if isinstance(self.n_latent, str):
            check_choice("n_latent", self.n_latent, ["auto"], " and integers")
        else:
            check_number("n_latent", self.n_latent, ge=1, integer=True)
        check_choice("prior", self.prior, PRECISION_SHARING)
        check_bool("semi_supervised", self.semi_supervised)
        check_bool("standardize", self.standardize)
        check_choice("averaging", self.averaging, ["full", "weights"])
        for name in ("shape", "scale", "latent_noise", "margin"):
            check_number(name, getattr(self, name), gt=0)
        check_number("n_init", self.n_init, ge=1, integer=True)
        check_number("max_iter", self.max_iter, ge=1, integer=True)
        check_number("tol", self.tol, ge=0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        tags.array_api_support = True
        return tags


def _check_known(labels: LabelMatrix, weight: np.ndarray | None) -> None:
    """Every label needs a known entry of positive weight."""
    if weight is None:
        return
    mass = weight @ (labels.codes >= 0)
    if (mass <= 0).any():
        column = int(np.argmin(mass))
        raise ValueError(f"sample_weight is zero for every row with a known entry in column {column} of y.")
