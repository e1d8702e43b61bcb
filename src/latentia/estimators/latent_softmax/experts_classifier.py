"""Mixtures of experts for classification: softmax gates over softmax experts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from latentia.arrays.namespace import Array, logsumexp, transpose
from latentia.engine.rows import MaskedRows
from latentia.estimators.latent_softmax.classifier import DiscriminativeClassifier
from latentia.estimators.latent_softmax.experts_base import ExpertEstimator
from latentia.estimators.latent_softmax.model_specs import WeightEstimate
from latentia.families.softmax_tree.experts import SoftmaxExpert


class MixtureOfExpertsClassifier(DiscriminativeClassifier, ExpertEstimator):
    """Softmax classifiers, each in charge of a part of the feature space that a gate assigns it.

    ``P(c | x) = sum_g P(g | x) P(c | x, g)``; gates and experts are softmax models of x with a
    one appended. All weights have zero-mean Gaussian priors whose precisions have gamma
    hyper-priors; the biases share them. Learned by variational Bayes through a quadratic bound
    of every softmax, or by maximum likelihood; `criterion` chooses the number of experts. [1]_

    Parameters
    ----------
    n_experts : "auto", int or sequence of int, default="auto"
        Branches of every gate, or of the gates of each level; with depth 1 that is the number
        of experts, with depth 2 an int g means g groups of g experts. "auto" tries 1 to
        `max_experts` experts.
    depth : {1, 2}, default=1
        Levels of gates: a mixture of experts, or a mixture of mixtures (hierarchical).
    max_experts : int, default=5
        Maximum number of experts that "auto" tries.
    patience : int, default=2
        A search by size ends after so many sizes in a row that are no better than a smaller
        one, or after one that is worse on held-out rows than chance explains. 0: it tries all
        sizes.
    inference : {"vb", "ml"}, default="vb"
        Variational Bayes, or maximum likelihood (with a `ridge`, MAP) by L-BFGS.
    criterion : {"validation", "evidence", "bound", "bic"}, default="validation"
        What "auto" chooses by. "validation": the log score of a quarter of the rows, held out,
        after a short training; the winner is then trained on all. A sample of 10,000 rows or more
        chooses for larger tables. It predicts best over many tables. Of models that score within
        0.001 the smallest wins, with any criterion. "evidence": `corrected_log_evidence_`; "bound":
        `log_evidence_`, as in the paper; both use all rows, are not random, and need
        `inference="vb"`. "bic": BIC of the point estimate.
    averaging : {"corrected", "posterior", "plugin"}, default="corrected"
        Predictions under variational Bayes. The quadratic bound's own means are too confident.
        "corrected": averaged over the normal posterior under the exact likelihood; "posterior":
        averaged over the posterior of the quadratic bound; "plugin": corrected means without
        averaging.
    shape, rate : float, default=1.0
        Of the gamma hyper-priors of the precisions of all weights.
    ridge : float, default=0.0
        Precision of a Gaussian prior on the weights of the standardized columns, for
        `inference="ml"`.
    annealing : bool, default=False
        Whether variational Bayes starts at lower inverse temperatures.
    standardize : bool, default=True
        Whether columns are standardized first, as the prior, which treats all weights alike,
        expects. Learned weights are given in the units of the columns as they came.
    loss_matrix : array-like of shape (n_classes, n_classes), default=None
        Entry (i, j) is the loss of predicting class j when the class is i; `predict` minimizes
        the expected loss.
    unlabeled : "auto", int or None, default="auto"
        Which integer marks an unlabeled row; None: no integer does. "auto": -1, with a warning of
        how many rows that are; labels that are just -1 and 1 are two classes. None and NaN always
        mark one.
    n_init : int, default=10
        Number of restarts: random weights improved by penalized likelihood, then all in one
        batch. The best bound wins (on a sample of large tables, and is trained on all rows).
    max_iter : int, default=600
        Maximum number of steps of each solver: of variational Bayes and of the ascent to the
        posterior under the exact likelihood, or of L-BFGS.
    tol : float, default=1e-5
        Variational Bayes ends when six steps together gain less per row; L-BFGS ends at a finer
        threshold, and the posterior under the exact likelihood at one of its own.
    random_state : int, RandomState instance or None, default=None
        Seeds the restarts.
    callback : callable, default=None
        Called with each step (`solver`, `iteration`, `value`, `n_running`, `params`); return
        True to stop. Solvers are "EM" (variational Bayes), "exact posterior" and "L-BFGS".
    verbose : int, default=0
        Shows progress if positive.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Classes in sorted order.
    n_experts_ : int
        Number of experts.
    gate_weights_, gate_intercepts_ : tuples of arrays
        For each level of gates, weights of shape (n_gates, n_branches, n_features) and
        intercepts.
    expert_weights_, expert_intercepts_ : arrays of shape (n_experts, n_classes[, n_features])
        Weights and intercepts of the experts.
    log_evidence_ : float
        Variational bound less the log number of permutations of experts (`inference="vb"`).
    corrected_log_evidence_ : float
        The bound of the posterior under the exact likelihood plus the log number of
        permutations: an estimate of the log evidence (`inference="vb"`).
    search_results_ : dict of columns
        A table of the trees tried: `n_experts`, `branches`, `score` (what was maximized),
        `log_evidence`, `corrected_log_evidence`, `bic`, `log_likelihood`, `restart_gap` (best
        less median of the restarts' values), `n_restarts`, `n_iter`, `seconds`.
        `pandas.DataFrame` takes it.
    restart_objectives_ : ndarray of shape (n_restarts,)
        Where the restarts of the chosen tree ended, best first.
    objective_curve_ : ndarray of shape (`n_iter_` + 1,)
        The bound (or likelihood) after each step.
    n_iter_, converged_, stopping_reason_ : int, bool, str
        How the training of the chosen tree ended; steps are those of the bound (or likelihood).
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, when X has string column names.

    References
    ----------
    .. [1] N. Ahmed and M. Campbell, "Variational Bayesian learning of probabilistic discriminative
       models with latent softmax variables", IEEE Transactions on Signal Processing 59(7), 2011.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from latentia import MixtureOfExpertsClassifier
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> model = MixtureOfExpertsClassifier(n_experts=3, random_state=0).fit(X, y)
    >>> model.expert_proba(X).shape
    (200, 3)
    """

    def __init__(
        self,
        n_experts: str | int | Sequence[int] = "auto",
        *,
        depth: int = 1,
        max_experts: int = 5,
        patience: int = 2,
        inference: str = "vb",
        criterion: str = "validation",
        averaging: str = "corrected",
        shape: float = 1.0,
        rate: float = 1.0,
        ridge: float = 0.0,
        annealing: bool = False,
        standardize: bool = True,
        loss_matrix: Any = None,
        unlabeled: str | int | None = "auto",
        n_init: int = 10,
        max_iter: int = 600,
        tol: float = 1e-5,
        random_state: Any = None,
        callback: Callable[..., Any] | None = None,
        verbose: int = 0,
    ):
        self.n_experts = n_experts
        self.depth = depth
        self.max_experts = max_experts
        self.patience = patience
        self.inference = inference
        self.criterion = criterion
        self.averaging = averaging
        self.shape = shape
        self.rate = rate
        self.ridge = ridge
        self.annealing = annealing
        self.standardize = standardize
        self.loss_matrix = loss_matrix
        self.unlabeled = unlabeled
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _expert(self, n_targets: int) -> SoftmaxExpert:
        return SoftmaxExpert(n_targets, self._prior)

    def _class_log_proba(self, estimate: WeightEstimate, rows: MaskedRows) -> Array:
        spec = self._model.fitted.spec
        x, outer = estimate.inputs(rows)
        experts = spec.expert.log_proba(*spec.expert_estimate(estimate), x, outer)
        return transpose(logsumexp(spec.gate_log_proba(estimate, x, outer)[:, None, :] + experts, axis=-3))
