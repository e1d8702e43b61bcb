"""Bayesian multilabel classification in a learned low-dimensional embedding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from latentia.arrays.namespace import Array, eye_like
from latentia.estimators.base.callbacks import StepNotifier
from latentia.estimators.base.fitting import Attributes, solution_attributes
from latentia.estimators.base.label_matrices import ClassOrLabelsClassifier
from latentia.estimators.base.number_tables import NumberTableMixin
from latentia.estimators.probit_embedding import reading
from latentia.estimators.probit_embedding.prediction import FittedEmbedding, learned_attributes
from latentia.estimators.probit_embedding.training import EmbeddingFit, Trainer, check_n_latent
from latentia.families.blocks.weights import GammaPrior
from latentia.families.probit_embedding.family import PRECISION_SHARING, ProbitEmbedding
from latentia.solvers import QuasiNewtonVB
from latentia.table.options import Check, check_bool, choice, integer, number
from latentia.table.rows import method_of_rows


class ProbitEmbeddingClassifier(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassOrLabelsClassifier, NumberTableMixin
):
    """A linear embedding and a probit classifier per label in it, learned by variational Bayes.

    A row x lies at ``z ~ N(Q'x, latent_noise^2 I)`` and has label o if ``w_o'z + b_o + N(0, 1) >
    0``. The precisions of all entries of Q, w and b have gamma hyper-priors, and predictions
    average over the posterior. Entries of the label matrix may be unknown.

    For a label matrix, `predict_proba` has a column per label: the probability that it is present.
    For classes it has a column per class; with more than two of them these are the probabilities of
    one probit per class, made to sum to one.

    Parameters
    ----------
    n_latent : int, "auto" or "evidence", default="auto"
        Dimensions of the embedding. "auto": as many as labels, or one less than classes, at most
        ten. "evidence": the number with the largest evidence, of up to as many; it tends to be
        small and to predict less well (see the documentation).
    prior : {"entries", "columns", "rows"}, default="entries"
        Which entries of the projection share a precision: none (sparse entries), those of a
        dimension (superfluous dimensions vanish: see `n_effective_latent_`), or those of a feature
        (feature selection: see `feature_relevance_`).
    shape, scale : float, default=1.0
        Of the gamma hyper-priors of the precisions, whose mean is ``shape * scale``. The softmax
        and expert estimators have `rate` in place of `scale`: it is ``1 / scale``.
    latent_noise : float, default=1.0
        Standard deviation of z given x.
    averaging : {"full", "weights"}, default="full"
        What predictions average over: the embedding and the classifiers, or the classifiers at the
        mean embedding, as the paper does.
    semi_supervised : bool, default=False
        Whether unknown labels are taken to keep clear of the decision lines by `margin`, so that
        these pass where rows are rare. This helps if classes are clusters, and does harm if they
        are not: compare on held-out rows. By default unknown labels are integrated out; rows with
        none but these count in nothing but how columns are scaled, and a warning tells of them.
    margin : float, default=1.0
        Half the width of the empty region in units of the score's noise. Used only if
        `semi_supervised`.
    standardize : bool, default=True
        Whether columns are standardized first (for sparse X, scaled to unit root mean square), as
        the priors expect.
    unlabeled : "auto", int or None, default="auto"
        Which integer marks an unlabeled row; None: no integer does. "auto": -1, with a warning of
        how many rows that are; labels that are just -1 and 1 are two classes. None and NaN always
        mark one, and so does -1 an unknown entry of a label matrix.
    n_init : int, default=1
        Number of restarts, run as one batch; the largest bound wins. The first starts from the
        directions of label space that ridge regression predicts best, the others from random ones.
    max_iter : int, default=2000
        Maximum number of iterations: an update of everything, then nine quasi-Newton steps of the
        means, and so on.
    tol : float, default=1e-4
        Stop when ten iterations together (one update and nine steps) raise the bound by less per
        row and label.
    random_state : int, RandomState instance or None, default=None
        Seeds the random restarts.
    callback : callable, default=None
        Called with each step (`solver`, `iteration`, `value`, `n_running`, `params`); True stops.
    verbose : int, default=0
        Shows progress if positive.

    Attributes
    ----------
    classes_, multilabel_ : ndarray, bool
        Classes in sorted order, or the numbers of the columns where y was a matrix of labels.
    label_names_ : ndarray of shape (n_labels,)
        Columns of y, if it was a data frame.
    n_latent_ : int
        Dimensions of the embedding.
    n_effective_latent_ : int
        Dimensions that carry at least one per cent of the variance of the labels' scores on the
        training rows.
    projection_ : array of shape (n_features, `n_latent_`)
        Mean of the projection, for prepared rows ``(X - feature_shift_) / feature_scale_``.
    weights_ : array of shape (n_labels, `n_latent_`)
        Means of the label weights.
    intercepts_ : array of shape (n_labels,)
        Means of the label intercepts.
    weights_covariance_ : array of shape (n_labels, 1 + `n_latent_`, 1 + `n_latent_`)
        Posterior covariances of each label's intercept and weights, in this order.
    precisions_ : array of shape (n_features or 1, `n_latent_` or 1)
        Expected precisions of the projection's entries; of length one along the axis whose entries
        share theirs.
    feature_shift_, feature_scale_ : array of shape (n_features,)
        What was taken off the columns, and what they were divided by.
    feature_relevance_ : array of shape (n_features,)
        Share of each feature in the variance of the labels' scores, ``sum_os (w_os q_fs)^2`` made
        to sum to one. With prior="rows" irrelevant features are near zero in all dimensions.
    log_evidence_ : float
        The lower bound of log p(y | X), with which sizes and priors may be compared.
    search_results_ : dict of ndarray, or None
        If n_latent="evidence": `n_latent`, `log_evidence` and `n_iter` of the sizes tried.
    objective_curve_ : ndarray of shape (`n_iter_` + 1,)
        The bound after each sweep.
    n_iter_, converged_, stopping_reason_ : int, bool, str
        Iterations, whether the fit converged, why it stopped.
    n_features_in_, feature_names_in_ : int, ndarray of shape (`n_features_in_`,)
        Number of features, and their names if X has any.

    References
    ----------
    M. Gönen, Bayesian supervised multilabel learning with coupled embedding and classification,
    SIAM Data Mining 2012.

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

    _works_by_chunks = False
    _model: FittedEmbedding
    _CHECKS: ClassVar[dict[str, Check]] = {
        "n_latent": check_n_latent,
        "prior": choice(*PRECISION_SHARING),
        "shape": number(gt=0),
        "scale": number(gt=0),
        "latent_noise": number(gt=0),
        "averaging": choice("full", "weights"),
        "semi_supervised": check_bool,
        "margin": number(gt=0),
        "standardize": check_bool,
        "n_init": integer(ge=1),
        "max_iter": integer(ge=1),
        "tol": number(ge=0),
    }

    def __init__(
        self,
        n_latent: int | str = "auto",
        *,
        prior: str = "entries",
        shape: float = 1.0,
        scale: float = 1.0,
        latent_noise: float = 1.0,
        averaging: str = "full",
        semi_supervised: bool = False,
        margin: float = 1.0,
        standardize: bool = True,
        unlabeled: str | int | None = "auto",
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
        self.unlabeled = unlabeled
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _validate_table(self, X: Any, reset: bool) -> Array:
        return reading.read_rows(self, X, reset)

    def _read_input(self, X: Any, y: Any, sample_weight: Any) -> reading.TrainingTable:
        return reading.read_input(self._blank_copy(), X, y, sample_weight)

    def _train(self, data: reading.TrainingTable, rng: np.random.Generator, notifier: StepNotifier) -> EmbeddingFit:
        options: dict[str, Any] = {
            "sharing": PRECISION_SHARING[self.prior],
            "prior": GammaPrior(float(self.shape), 1 / float(self.scale)),
            "latent_noise": float(self.latent_noise),
            "margin": float(self.margin) if self.semi_supervised else 0.0,
        }
        solver = QuasiNewtonVB(self.max_iter, self.tol * data.n_labels)
        trainer = Trainer(data, ProbitEmbedding(data.n_labels, **options), solver, self.n_init, rng, notifier)
        return trainer.fit(self.n_latent)

    def _fitted_attributes(self, data: Any, fitted: EmbeddingFit) -> Attributes:
        results = fitted.search_results
        return {
            **solution_attributes(fitted.solution),
            **learned_attributes(fitted.model),
            "log_evidence_": fitted.log_evidence,
            "search_results_": None if results is None else results._asdict(),
        }

    @method_of_rows
    def transform(self, X: Any, return_cov: bool = False) -> Any:
        """Positions of rows in the embedding, before their labels are known.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        return_cov : bool, default=False
            Whether the covariances are returned too.

        Returns
        -------
        embedding : array of shape (n_samples, `n_latent_`)
            Posterior means.
        covariance : array of shape (n_samples, `n_latent_`, `n_latent_`)
            If `return_cov`. They hold the noise of the embedding and the uncertainty of the
            projection, and are diagonal.
        """
        X = self._check_rows(X)
        mean = self._model.latent_means(X)
        if not return_cov:
            return mean
        variance = self._model.latent_variances(X)
        return mean, variance[:, :, None] * eye_like(variance.shape[1], variance)

    def _log_proba(self, X: Any) -> Array:
        X = self._check_rows(X)
        return self._model.log_proba(X, average_embedding=self.averaging == "full")

    @property
    def _n_features_out(self) -> int:
        return int(self.n_latent_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        tags.array_api_support = True
        return tags
