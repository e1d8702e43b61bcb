"""Latent classification models for tables of continuous, binary and categorical columns with gaps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from latentia.engine.array_source import ArraySource
from latentia.engine.pytree import select_restart
from latentia.estimators.base.callbacks import StepNotifier
from latentia.estimators.base.generative import GenerativeClassifier
from latentia.estimators.latent_classification.factor_methods import LatentFactorMixin
from latentia.estimators.latent_classification.restart_selection import _training_accuracy
from latentia.families.latent_factors.canonical_form import to_canonical_form
from latentia.families.latent_factors.column_layout import ColumnLayout
from latentia.families.latent_factors.column_models import COLUMN_MODELS
from latentia.families.latent_factors.family import LatentFactors
from latentia.inputs.column_encoder import Table, is_textual
from latentia.inputs.dataframes import frame_type
from latentia.inputs.options import check_choice, check_number
from latentia.inputs.standardization import Standardizer
from latentia.numerics.array_api import Array, asarray_like, namespace, to_numpy
from latentia.solvers import Solution, StepCallback, StructuralEM


class LatentClassificationModel(LatentFactorMixin, GenerativeClassifier):
    """Naive Bayes on latent factors, joined to a mixture of factor analyzers.

    A class has a normal distribution over `n_latent` independent factors z; a component m, whose share depends on the class, maps them to the columns:
    a continuous column is normal about ``loadings z + offset``, a binary one logistic, a categorical one a softmax of it. Missing cells add nothing to a row, at
    training and at prediction. Continuous tables are treated exactly; binary and categorical columns by a lower bound, so all log densities are then lower bounds.

    Parameters
    ----------
    n_latent : int, default=2
        Number of latent factors; zero gives naive Bayes with a mixture, and more than there are columns is allowed.
    n_components : int, default=1
        Number of mixture components, which the classes share.
    noise : {"tied", "untied"}, default="tied"
        Whether the components share the noise variances of the continuous columns.
    structure : {"full", "learn"}, default="full"
        Whether every factor feeds every column, or the edges are learned by structural EM.
    kinds : "auto", {"continuous", "binary", "categorical"}, sequence or dict, default="auto"
        The kind of all columns, of each, or of those named. "auto": columns of bool and those with just two different values, both integers, are
        binary; text and data-frame categories are categorical; the rest is continuous.
    selection : {"accuracy", "likelihood"}, default="accuracy"
        Which start wins: the one with the best training accuracy, ties broken by the likelihood (as the papers do), or the best likelihood.
    objective : {"likelihood", "conditional", "margin", "hybrid"}, default="likelihood"
        What is maximized: log p(x, y) by EM; log p(y | x), the margin, or likelihood + `trade_off` * margin by L-BFGS from the best EM solution.
    trade_off : float, default=1.0
        Weight of the margin term of the hybrid objective.
    margin : float, default=1.0
        Desired log ratio between a row's class and its best competitor.
    ramp : float or None, default=None
        Largest loss of a row in the margin term; None for a hinge without limit.
    priors : {"empirical", "uniform"}, array-like of shape (n_classes,) or dict, default="empirical"
        Class priors.
    var_floor : float, default=1e-3
        Least noise variance of a continuous column, relative to the column's variance.
    n_init : int, default=10
        Number of starts of EM; they run as one batch.
    max_iter : int, default=500
        Maximum number of iterations of EM, and of L-BFGS.
    tol : float, default=1e-3
        EM stops when the log likelihood per row gains less; L-BFGS at a hundredth of it.
    early_stopping : bool, default=False
        Whether L-BFGS holds out rows and keeps the parameters with the fewest errors on them. Has no effect on likelihood training.
    validation_fraction : float, default=0.1
        Share of the labeled rows held out for early stopping.
    n_iter_no_change : int, default=10
        Early stopping waits this many iterations for an improvement.
    loss_matrix : array-like of shape (n_classes, n_classes), default=None
        Entry (i, j) is the loss of predicting class j when the class is i; `predict` minimizes the expected loss.
    ridge : float, default=0.3
        Precision of a normal prior on the loadings and offsets of binary and categorical columns; keeps them finite where a column separates the rows.
    handle_unknown : {"missing", "error"}, default="missing"
        What becomes of a category at prediction that `fit` did not see: a missing cell with a warning, or an error.
    refine : {"importance"} or None, default=None
        None: class probabilities from the bound. "importance": from importance sampling with the bound's posterior as proposal, which is unbiased for p(x, c).
    n_importance_samples : int, default=200
        Draws of importance sampling, per row, class and component.
    bound_tol : float, default=1e-3
        The bound of a row has settled when no curvature moves by more than this share of itself.
    bound_max_iter : int, default=100
        Maximum number of rounds of settling the bound of a row.
    random_state : int, RandomState instance or None, default=None
        Seeds the starts, the hold-out, `sample` and the draws of `refine`.
    callback : callable, default=None
        Called with each step of a solver (`solver`, `iteration`, `value`, `n_running`, `params`); a true answer stops the fit there.
    verbose : int, default=0
        Shows progress if positive.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Classes in sorted order.
    kinds_ : tuple of str
        Kind of each column.
    categories_ : list
        Sorted values of each binary or categorical column, None for continuous ones.
    priors_ : array of shape (n_classes,)
        Class priors.
    mixing_weights_ : array of shape (n_classes, n_components)
        Share of each component in each class.
    latent_means_, latent_variances_ : arrays of shape (n_classes, n_latent)
        Of the factors, given the class. Under the class priors each factor has mean zero and variance one; factors are in the order of the share of the columns'
        log odds or standardized values that they move, and the largest loading of each is positive. None of this changes the model.
    loadings_ : array of shape (n_components, n_loadings, n_latent)
        In the units of the columns for continuous ones, in log odds for the others. One row per column, or per category of a categorical column.
    intercepts_ : array of shape (n_components, n_loadings)
        The same for the offsets.
    loading_features_ : ndarray of shape (n_loadings,)
        The column that each row of the loadings belongs to.
    noise_ : array of shape (n_components or 1, n_features)
        Noise variances, in squared units of the columns; NaN for binary and categorical ones.
    edges_ : ndarray of shape (n_features, n_latent)
        Which factors feed which columns.
    n_iter_ : int
        Iterations of the solver that finished the training.
    converged_ : bool
        Whether it stopped by its own rule.
    stopping_reason_ : str
        Why it stopped.
    objective_curve_ : ndarray
        The objective after each sweep, of the start that won.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X had any.

    References
    ----------
    Langseth & Nielsen (2005), Latent classification models, Machine Learning 59. Langseth & Nielsen (2009), Latent classification models for binary
    data, Pattern Recognition 42.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentia import LatentClassificationModel
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LatentClassificationModel(n_latent=3, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    >>> model.transform(X).shape
    (150, 3)
    """

    def __init__(
        self,
        n_latent: int = 2,
        n_components: int = 1,
        *,
        noise: str = "tied",
        structure: str = "full",
        kinds: Any = "auto",
        selection: str = "accuracy",
        objective: str = "likelihood",
        trade_off: float = 1.0,
        margin: float = 1.0,
        ramp: float | None = None,
        priors: Any = "empirical",
        var_floor: float = 1e-3,
        n_init: int = 10,
        max_iter: int = 500,
        tol: float = 1e-3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        loss_matrix: Any = None,
        ridge: float = 0.3,
        handle_unknown: str = "missing",
        refine: str | None = None,
        n_importance_samples: int = 200,
        bound_tol: float = 1e-3,
        bound_max_iter: int = 100,
        random_state: Any = None,
        callback: Callable[..., Any] | None = None,
        verbose: int = 0,
    ):
        self.n_latent = n_latent
        self.n_components = n_components
        self.noise = noise
        self.structure = structure
        self.kinds = kinds
        self.selection = selection
        self.objective = objective
        self.trade_off = trade_off
        self.margin = margin
        self.ramp = ramp
        self.priors = priors
        self.var_floor = var_floor
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.loss_matrix = loss_matrix
        self.ridge = ridge
        self.handle_unknown = handle_unknown
        self.refine = refine
        self.n_importance_samples = n_importance_samples
        self.bound_tol = bound_tol
        self.bound_max_iter = bound_max_iter
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _check_options(self) -> None:
        super()._check_options()
        self._check_searched()
        check_choice("noise", self.noise, ["tied", "untied"])
        check_choice("structure", self.structure, ["full", "learn"])
        check_choice("selection", self.selection, ["accuracy", "likelihood"])
        check_choice("handle_unknown", self.handle_unknown, ["missing", "error"])
        if self.refine is not None:
            check_choice("refine", self.refine, ["importance"])
        check_number("n_importance_samples", self.n_importance_samples, least=1, integer=True)
        check_number("bound_tol", self.bound_tol, least=0)
        check_number("bound_max_iter", self.bound_max_iter, least=1, integer=True)

    def _check_searched(self) -> None:
        """Refuse bad values of the arguments that a search may choose."""
        check_number("n_latent", self.n_latent, least=0, integer=True)
        check_number("n_components", self.n_components, least=1, integer=True)
        check_number("ridge", self.ridge, least=0)

    # ---------------------------------------------------------------- rows
    def _check_rows(self, X: Any, reset: bool) -> Array:
        X = np.asarray(X) if isinstance(X, list | tuple) else X
        if frame_type(X) != "array" or (is_textual(X) and X.ndim == 2):
            validate_data(self, X, reset=reset, skip_check_array=True)
            if X.shape[0] == 0 or X.shape[1] == 0:
                raise ValueError(
                    f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s) while a minimum of 1 is required."
                )
        else:
            X = super()._check_rows(X, reset)
        if reset:
            self.table_ = Table.of(X, self.kinds, COLUMN_MODELS)
        elif not hasattr(self, "table_"):
            self._fitted()
        coded = self.table_.encode(X, self.handle_unknown)
        if coded is not X and not np.isfinite(coded[~np.isnan(coded)] if isinstance(coded, np.ndarray) else 0.0).all():
            raise ValueError("Input X contains infinity or a value too large for dtype('float64').")
        return coded

    def _make_preprocessor(
        self, X: Array, weight: np.ndarray | None, mass: Array, mean: Array, deviation: Array
    ) -> Standardizer:
        preprocess = Standardizer.of(mass, mean, deviation)
        xp = namespace(mean)
        total = float(X.shape[0] if weight is None else weight.sum())
        # with weights a gap may weigh next to nothing: only a look at the cells can tell
        self._complete = bool(xp.all(mass == total)) if weight is None else not _has_gaps(X)
        moved = [COLUMN_MODELS[kind].is_standardized for kind in self.table_.kinds]
        moved = asarray_like(moved, mean, dtype=xp.bool)
        shift = xp.where(moved, preprocess.shift, xp.zeros_like(mean))
        return preprocess._replace(shift=shift, scale=xp.where(moved, preprocess.scale, xp.ones_like(mean)))

    def _layout(self) -> ColumnLayout:
        return ColumnLayout.from_kinds(self.table_.modeled_kinds, self.table_.n_categories)

    def _make_family(
        self, source: ArraySource, log_prior: np.ndarray | None, watch: StepNotifier, rng: np.random.Generator
    ) -> LatentFactors:
        return LatentFactors(
            self._layout(),
            len(self.classes_),
            self._effective_param("n_latent"),
            self._effective_param("n_components"),
            tied=self.noise == "tied",
            var_floor=self.var_floor,
            complete=self._complete,
            all_edges=self.structure == "full" or self._effective_param("n_latent") == 0,
            log_prior=log_prior,
            ridge=self._effective_param("ridge"),
            bound_tol=self.bound_tol,
            bound_max_iter=self.bound_max_iter,
        )

    def _n_restarts(self) -> int:
        return super()._n_restarts() if self.family_.n_latent > 0 or self.family_.n_components > 1 else 1

    # ---------------------------------------------------------------- choice of the start, and what is learned
    def _run_em_restarts(self, source: ArraySource, rng: np.random.Generator, on_step: StepCallback) -> Solution:
        winner = super()._run_em_restarts(source, rng, on_step)
        if not self.family_.all_edges:
            self.family_ = self.family_.with_edges(select_restart(winner.params, 0).edges)
        return winner

    def _em(self) -> Any:
        solver = super()._em()
        return solver if self.family_.all_edges else StructuralEM(solver)

    def _choose_restart(self, solution: Solution, source: ArraySource, rng: np.random.Generator) -> int:
        if self.selection == "likelihood" or len(solution.value) == 1:
            return int(np.argmax(solution.value))
        right = _training_accuracy(self.family_, solution.params, source, rng)
        best = right >= right.max() - 1e-9 * max(1.0, right.max())
        return int(np.flatnonzero(best)[np.argmax(solution.value[best])])

    def _set_fitted_attributes(self) -> None:
        layout, preprocess = self.family_.layout, self.preprocessor_
        params = self.params_ = to_canonical_form(self.params_)
        xp = namespace(params.means)
        self.kinds_, self.categories_ = self.table_.kinds, list(self.table_.categories)
        self.priors_, self.mixing_weights_ = xp.exp(params.log_prior), xp.exp(params.log_mix)
        self.latent_means_, self.latent_variances_ = params.means, params.variances
        columns = np.asarray(layout.predictor_columns(), dtype=np.int64)
        order = np.argsort(columns, kind="stable")
        self.loading_features_ = columns[order]
        scale = xp.take(preprocess.scale, asarray_like(columns, params.means, dtype=xp.int64))
        shift = xp.take(preprocess.shift, asarray_like(columns, params.means, dtype=xp.int64))
        heads = asarray_like(order, params.means, dtype=xp.int64)
        self.loadings_ = xp.take(params.loadings * scale[:, None], heads, axis=-2)
        self.intercepts_ = xp.take(params.offsets * scale + shift, heads, axis=-1)
        noise = np.full((params.noise.shape[0], layout.n_columns), np.nan)
        own = list(layout.gaussian.columns)
        noise[:, own] = to_numpy(params.noise) * to_numpy(preprocess.scale)[own] ** 2
        self.noise_ = asarray_like(noise, params.means)
        edges = np.zeros((layout.n_columns, self.family_.n_latent), dtype=bool)
        edges[columns] = to_numpy(params.edges) > 0
        self.edges_ = edges

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def _has_gaps(X: Array) -> bool:
    """Whether any cell is missing."""
    xp = namespace(X)
    if not xp.isdtype(X.dtype, "real floating"):
        return False
    step = 100_000
    return any(bool(xp.any(xp.isnan(X[k : k + step, ...]))) for k in range(0, X.shape[0], step))
