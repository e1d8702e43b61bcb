"""Latent classification models for tables of mixed columns with missing cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from latentia.engine.contracts import Objective
from latentia.estimators.base.fitted_model import FittedModel
from latentia.estimators.base.fitting import Attributes
from latentia.estimators.latent_classification.factor_methods import LatentFactorMixin
from latentia.estimators.latent_classification.learned_attributes import model_attributes
from latentia.estimators.latent_classification.mixed_tables import MixedTableMixin
from latentia.estimators.latent_classification.training import FactorTrainingMixin
from latentia.families.latent_factors.family import LatentFactors
from latentia.table.options import Check, choice, integer, optional


class LatentClassificationModel(MixedTableMixin, FactorTrainingMixin, LatentFactorMixin):
    """Naive Bayes on latent factors, joined to a mixture of factor analyzers.

    A class has a normal distribution over `n_latent` independent factors z; a component m, whose
    share depends on the class, maps them to the columns: a continuous column is normal about
    ``loadings z + offset``, a binary one logistic, a categorical one a softmax of it; ordered
    levels are climbed by logistic steps, counts are negative binomial with its exponential for a
    mean. Missing cells add nothing to a row, at training and at prediction. Continuous tables are
    treated exactly, other columns by a lower bound, so all log densities are then lower bounds.

    Parameters
    ----------
    n_latent : int or "auto", default="auto"
        Number of latent factors; zero gives naive Bayes with a mixture, and more than there are
        columns is allowed. "auto": with posteriors a generous number, of which needless factors
        lose their loadings; two for points.
    n_components : int or "auto", default="auto"
        Number of mixture components, which the classes share. "auto": one. If `n_latent` is "auto"
        too, posteriors are trained and all columns are continuous, predictions are the average of
        models with one to six components; attributes, factors and components are those of the
        model with one.
    noise : {"auto", "tied", "untied"}, default="auto"
        Whether the components share the noise variances of the continuous columns. "auto": those
        of points do, those of posteriors do not.
    structure : {"full", "learn"}, default="full"
        Whether every factor feeds every column, or the edges are learned by structural EM: of the
        solutions that are nearly equal the sparsest are looked for, and graphs are compared by
        penalized likelihood. Takes several times as long.
    kinds : "auto", name of a kind, sequence or dict, default="auto"
        The kind of all columns, of each, or of those that a dict names or numbers: "continuous",
        "binary", "categorical", "ordinal" (ordered levels) or "count" (whole numbers from 0 on).
        "auto" goes by dtypes, which are the same in every fold: in data frames text and categories
        are categorical, ordered categories ordinal, columns of bool and of just two integers
        binary, the rest continuous; an array is binary if all its cells are 0 or 1, else
        continuous.
    selection : {"accuracy", "likelihood"}, default="accuracy"
        Which start wins: the one with the best training accuracy, ties broken by the likelihood (as
        the papers do), or the best likelihood. With a learned structure, the likelihood is
        penalized for every free loading.
    inference : {"vb", "ml"}, default="vb"
        "vb": the posterior of all parameters by variational Bayes, averaged over in predictions;
        classes are pulled towards what they share, as strongly as the table suggests. "ml": the
        point of maximum likelihood, as in the papers. Other objectives than the likelihood, and a
        learned structure, train points.
    marginals : {"power", "normal"}, default="power"
        "power": each continuous column is made as normal as a power transform can make it.
        Densities, samples and imputations are those of the raw column.
    unlabeled_weight : float or "auto", default="auto"
        Weight of the unlabeled rows; "auto" takes what predicts held-out labels best, and 0.1
        where fewer than 30 rows have labels. Where predictions average over models, these have
        other weights, too.
    temperature : float or "auto", default="auto"
        Class probabilities are proportional to ``p(c) p(x | c)^(1 / temperature)``. "auto": what
        labels held out for the weight of unlabeled rows ask for, else the labeled rows, at least
        one, with an offset for each class so that none is said too often; one for points.
    objective : {"likelihood", "conditional", "margin", "hybrid"}, default="likelihood"
        What is maximized: log p(x, y) by EM; log p(y | x), the margin, or likelihood + `trade_off`
        * margin by L-BFGS, from the mean of the posterior or, with "ml", the best EM solution.
    trade_off, margin : float, default=1.0
        Weight of the margin term of the hybrid objective, and the desired log ratio between a row's
        class and its best competitor.
    ramp : float or None, default=None
        Largest loss of a row in the margin term; None for a hinge without limit.
    priors : {"empirical", "uniform"}, array-like of shape (n_classes,) or dict, default="empirical"
        Class priors.
    var_floor : float, default=1e-3
        Least noise variance of a continuous column, relative to the column's variance.
    n_init : int or "auto", default="auto"
        Number of starts of EM; they run as one batch. "auto": ten for points, one for posteriors,
        five if they have components.
    max_iter : int, default=500
        Maximum number of iterations of EM, and of L-BFGS.
    tol : float, default=1e-3
        EM stops when the log likelihood per row gains less; L-BFGS at a hundredth of it.
    early_stopping : bool, default=False
        Whether L-BFGS holds out rows and keeps the parameters with the fewest errors on them. Has
        no effect on likelihood training.
    validation_fraction, n_iter_no_change : float, default=0.1, and int, default=10
        Share of the labeled rows held out for early stopping, which waits for so many iterations.
    loss_matrix : array-like of shape (n_classes, n_classes), default=None
        Entry (i, j) is the loss of predicting class j when the class is i; `predict` minimizes the
        expected loss.
    ridge : float, default=0.3
        Precision of a normal prior on the loadings and offsets of binary and categorical columns;
        keeps them finite where a column separates the rows.
    max_categories, min_frequency : int or None, and int, float or None, default=None
        Rare values of a categorical column become one category, as in `OneHotEncoder`: those beyond
        the most frequent ``max_categories - 1``, those of fewer than `min_frequency` known cells or
        a smaller share of them, rows counting by their weight. `impute` and `sample` return the
        most frequent of them for all.
    handle_unknown : {"missing", "error"}, default="missing"
        How to treat categories that `fit` did not see: missing, with a warning, or an error.
    refine : {"importance"} or None, default=None
        None: class probabilities from the bound. "importance": from importance sampling with draws
        of the bound's posterior and of the prior, which is unbiased for p(x, c).
    n_importance_samples : int, default=200
        Draws of importance sampling, per row, class and component.
    bound_tol : float, default=1e-3
        The bound of a row has converged when no curvature changes by more than this, relatively.
    bound_max_iter : int, default=100
        Maximum number of iterations of the bound of a row.
    unlabeled : "auto", int or None, default="auto"
        Which integer marks an unlabeled row; None: no integer does. "auto": -1, with a warning of
        how many rows that are; labels that are just -1 and 1 are two classes. None and NaN always
        mark one.
    random_state : int, RandomState instance or None, default=None
        Seeds the starts, the hold-out, `sample` and the draws of `refine`.
    callback : callable, default=None
        Called with each step of a solver (`solver`, `iteration`, `value`, `n_running`, `params`);
        return True to stop.
    verbose : int, default=0
        Shows progress if positive.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Classes in sorted order.
    kinds_ : tuple of str
        Kind of each column.
    categories_, infrequent_categories_ : list
        Values of each binary or categorical column, one for each category, and those that share
        one because they are rare; None where there are none.
    n_latent_, n_components_ : int
        Sizes, given or not, of the model whose parameters follow.
    priors_ : array of shape (n_classes,)
        Class priors.
    mixing_weights_ : array of shape (n_classes, n_components)
        Share of each component in each class.
    latent_means_, latent_variances_ : arrays of shape (n_classes, n_latent)
        Of the factors, given the class. Under the class priors each factor has mean zero and
        variance one; factors are sorted by how much they move the columns, and the largest loading
        of each is positive. None of this changes the model.
    loadings_ : array of shape (n_components, n_loadings, n_latent)
        In the units of the columns for continuous ones, in log odds (or logarithms of means) for
        the others. One row per column, per category or per step between levels.
    intercepts_ : array of shape (n_components, n_loadings)
        The same for the intercepts.
    loading_features_ : ndarray of shape (n_loadings,)
        The column that each row of the loadings belongs to.
    noise_variances_ : array of shape (n_components or 1, n_features)
        Noise variances, in squared units of the columns; NaN for binary and categorical ones.
    edges_ : ndarray of shape (n_features, n_latent)
        Which factors feed which columns.
    averaged_components_ : list of int
        Components of each model that predictions average over; first, and often alone, the one
        whose parameters are above.
    unlabeled_weight_, temperature_ : float
        Given or chosen.
    class_offsets_ : array of shape (n_classes,)
        What each known cell adds to the tempered log likelihoods of the classes.
    log_evidence_ : float
        Lower bound of the log evidence of a posterior, in the units of X.
    n_iter_, converged_, stopping_reason_ : int, bool, str
        Of the solver that finished the training: iterations, whether and why it stopped by itself.
    objective_curve_ : ndarray
        The objective after each sweep, of the start that won.
    n_features_in_, feature_names_in_ : int, ndarray of shape (`n_features_in_`,)
        Number of columns, and their names if X had any.

    References
    ----------
    Langseth & Nielsen (2005), Latent classification models, Machine Learning 59. Langseth & Nielsen
    (2009), Latent classification models for binary data, Pattern Recognition 42.

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

    _CHECKS: ClassVar[dict[str, Check]] = {
        "refine": optional(choice("importance")),
        "n_importance_samples": integer(ge=1),
    }

    def __init__(
        self,
        n_latent: int | str = "auto",
        n_components: int | str = "auto",
        *,
        noise: str = "auto",
        structure: str = "full",
        kinds: Any = "auto",
        selection: str = "accuracy",
        inference: str = "vb",
        marginals: str = "power",
        unlabeled_weight: float | str = "auto",
        temperature: float | str = "auto",
        objective: str | Objective = "likelihood",
        trade_off: float = 1.0,
        margin: float = 1.0,
        ramp: float | None = None,
        priors: Any = "empirical",
        var_floor: float = 1e-3,
        n_init: int | str = "auto",
        max_iter: int = 500,
        tol: float = 1e-3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        loss_matrix: Any = None,
        ridge: float = 0.3,
        max_categories: int | None = None,
        min_frequency: int | float | None = None,
        handle_unknown: str = "missing",
        refine: str | None = None,
        n_importance_samples: int = 200,
        bound_tol: float = 1e-3,
        bound_max_iter: int = 100,
        unlabeled: str | int | None = "auto",
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
        self.inference = inference
        self.marginals = marginals
        self.unlabeled_weight = unlabeled_weight
        self.temperature = temperature
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
        self.max_categories = max_categories
        self.min_frequency = min_frequency
        self.handle_unknown = handle_unknown
        self.refine = refine
        self.n_importance_samples = n_importance_samples
        self.bound_tol = bound_tol
        self.bound_max_iter = bound_max_iter
        self.unlabeled = unlabeled
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _model_attributes(self, model: FittedModel[LatentFactors]) -> Attributes:
        return model_attributes(model)
