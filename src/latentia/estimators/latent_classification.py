"""Latent classification models for tables of mixed columns with missing cells.

The choice among starts by training accuracy, as the papers make it, is at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags

from latentia.arrays.namespace import Array, asarray_like, logsumexp, namespace, softmax, to_numpy, transpose
from latentia.engine.contracts import Objective
from latentia.engine.rows import ArraySource, Chunk, MaskedRows, TableSource, Totals, rows_per_chunk
from latentia.estimators.base.estimator import Attributes, StepNotifier
from latentia.estimators.base.fitted_model import FittedModel
from latentia.estimators.base.generative import GenerativeClassifier, warn_of_idle_components
from latentia.estimators.base.reading import MixedTable, TrainingTable, read_training_table
from latentia.estimators.base.training import MAX_ITER, Plan, most_probable_start
from latentia.families.latent_factors.family import LatentFactors
from latentia.families.latent_factors.importance import importance_scores
from latentia.families.latent_factors.kinds import COLUMN_MODELS, ColumnLayout
from latentia.families.latent_factors.parameters import FactorParams
from latentia.families.latent_factors.posterior import BayesianLatentFactors
from latentia.scale.tables import method_of_rows
from latentia.solvers import EM, AcceleratedEM, Solution, StructuralEM
from latentia.solvers.em import WINDOW
from latentia.solvers.structural import best_structure
from latentia.table.columns import Kinds, check_min_frequency
from latentia.table.encoder import Merging
from latentia.table.frames import TableLike
from latentia.table.labels import LabelsLike
from latentia.table.options import (
    Callback,
    Check,
    RandomState,
    check_choice,
    check_number,
    choice,
    integer,
    number,
    optional,
    random_generator,
)
from latentia.table.rows import is_complete, validate_table
from latentia.table.weights import PriorsLike

#: Factors where their number is left to us: of a posterior, and of a point.
MAX_AUTO_LATENT = 8
POINT_N_LATENT = 2

#: Starts of a posterior with several components.
POSTERIOR_N_INIT = 5

#: Weight of unlabeled rows where the labels are too few to choose it by.
FEW_LABELS_WEIGHT = 0.03

#: Iterations of EM where models of columns with bounds are only compared.
ROUGH_STEPS = 12


def size_or_auto(least: int) -> Check:
    """A check: a number of factors or components, or "auto"."""

    def check(name: str, value: object) -> None:
        if isinstance(value, str):
            check_choice(name, value, ["auto"], f" and integers >= {least}")
        else:
            check_number(name, value, ge=least, integer=True, besides=", or 'auto'")

    return check


class LatentClassificationModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, GenerativeClassifier):
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
        Number of mixture components, which the classes share. "auto": one.
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
        Weight of the unlabeled rows; "auto" takes what predicts held-out labels best, and 0.03
        where fewer than 30 rows have labels.
    temperature : float or "auto", default="auto"
        Class probabilities are proportional to ``p(c) p(x | c)^(1 / temperature)``. "auto": what
        30 labeled rows or more ask for that were held out, else those that were fitted, at least
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
        "n_latent": size_or_auto(0),
        "n_components": size_or_auto(1),
        "noise": choice("auto", "tied", "untied"),
        "structure": choice("full", "learn"),
        "selection": choice("accuracy", "likelihood"),
        "ridge": number(ge=0),
        "bound_tol": number(ge=0),
        "bound_max_iter": integer(ge=1),
        "max_categories": optional(integer(ge=1)),
        "min_frequency": check_min_frequency,
        "handle_unknown": choice("missing", "error"),
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
        kinds: Kinds = "auto",
        selection: str = "accuracy",
        inference: str = "vb",
        marginals: str = "power",
        unlabeled_weight: float | str = "auto",
        temperature: float | str = "auto",
        objective: str | Objective = "likelihood",
        trade_off: float = 1.0,
        margin: float = 1.0,
        ramp: float | None = None,
        priors: PriorsLike = "empirical",
        var_floor: float = 1e-3,
        n_init: int | str = "auto",
        max_iter: int = 500,
        tol: float = 1e-3,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        loss_matrix: ArrayLike | None = None,
        ridge: float = 0.3,
        max_categories: int | None = None,
        min_frequency: int | float | None = None,
        handle_unknown: str = "missing",
        refine: str | None = None,
        n_importance_samples: int = 200,
        bound_tol: float = 1e-3,
        bound_max_iter: int = 100,
        unlabeled: str | int | None = "auto",
        random_state: RandomState = None,
        callback: Callback | None = None,
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

    def _read_input(self, X: TableLike, y: LabelsLike | None, sample_weight: ArrayLike | None) -> TrainingTable:
        merging = Merging(self.max_categories, self.min_frequency)
        form = MixedTable(self.kinds, merging, self.handle_unknown, COLUMN_MODELS)
        return read_training_table(self, form, X, y, sample_weight, self.marginals == "power")

    def _check_rows(self, X: TableLike) -> Array:
        self._require_fitted()
        return self._model.encoder.encode(validate_table(self, X, reset=False), self.handle_unknown)

    def _plan(
        self,
        table: TrainingTable,
        rows: TableSource,
        rng: np.random.Generator,
        notifier: StepNotifier,
        is_stream: bool = False,
    ) -> Plan:
        trains_points = self.inference == "ml" or self.structure == "learn" or not self._objective().rises_under_em
        family = self._family(table, trains_points, is_stream)
        rough_steps = ROUGH_STEPS if family.layout.n_bounded else MAX_ITER
        if self.inference == "vb" and family.all_edges:  # other objectives than the likelihood start from its mean
            n_starts = 1 if family.n_components == 1 else POSTERIOR_N_INIT
            n_starts = n_starts if isinstance(self.n_init, str) else int(self.n_init)
            accelerated = AcceleratedEM(self.max_iter, WINDOW * self.tol)
            trained = BayesianLatentFactors(family)
            return Plan(family, trained, accelerated, n_starts, most_probable_start, rough_steps, FEW_LABELS_WEIGHT)
        em = EM(self.max_iter, self.tol)
        n_starts = self._n_starts() if family.n_latent > 0 or family.n_components > 1 else 1

        def choose_start(solution: Solution, source: TableSource, rng: np.random.Generator) -> int:
            return best_restart(family, solution, source, rng, by_accuracy=self.selection == "accuracy")

        solver = em if family.all_edges else StructuralEM(em)
        return Plan(family, family, solver, n_starts, choose_start, rough_steps, FEW_LABELS_WEIGHT)

    def _family(self, table: TrainingTable, trains_points: bool, is_stream: bool) -> LatentFactors:
        """The sizes and the form of the model that the options ask for."""
        n_latent, n_components = self.n_latent, self.n_components
        if isinstance(n_latent, str):
            n_known = table.n_features - table.preprocessor.n_empty_columns
            n_latent = POINT_N_LATENT if trains_points else min(MAX_AUTO_LATENT, n_known)
        n_components = 1 if isinstance(n_components, str) else n_components
        warn_of_idle_components([n_components], [table.rows.n_rows], ["X"])
        return LatentFactors(
            ColumnLayout.from_kinds(table.encoder.modeled_kinds, table.encoder.sizes),
            table.n_classes,
            n_latent,
            n_components,
            tied=self.noise == "tied" or (self.noise == "auto" and (trains_points or n_components == 1)),
            var_floor=self.var_floor,
            complete=not is_stream and is_complete(table.rows, table.moments.weight_sum),  # later batches may have gaps
            all_edges=self.structure == "full" or n_latent == 0,
            log_prior=table.log_prior,
            ridge=self.ridge,
            bound_tol=self.bound_tol,
            bound_max_iter=self.bound_max_iter,
        )

    def _model_attributes(self, model: FittedModel[LatentFactors]) -> Attributes:
        return model_attributes(model)

    @property
    def categories_(self) -> list[np.ndarray | None]:
        """Values of each binary, categorical or ordinal column, one for each code; None for others.

        Kept by the encoder, in a form that any serializer takes.
        """
        return self._model.encoder.categories

    @property
    def infrequent_categories_(self) -> list[np.ndarray | None]:
        """Values of each column that share a code because they are rare; None where none do."""
        return [None if levels is None else levels.merged() for levels in self._model.encoder.levels]

    @property
    def _n_features_out(self) -> int:
        return int(self._model.family.n_latent)

    @method_of_rows
    def transform(self, X: TableLike) -> Array:
        """Posterior means of the latent factors, given the known cells of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.

        Returns
        -------
        Z : array of shape (n_samples, n_latent)
        """
        rows_in = self._check_rows(X)
        family, params = self._model.family, self._model.params

        def means(rows: MaskedRows) -> Array:
            scores, z = family.latent_means(params, rows)
            xp = namespace(scores)
            flat = xp.reshape(scores, (-1, scores.shape[-1]))  # classes and components together
            responsibilities = xp.reshape(softmax(flat, axis=0), scores.shape)
            return xp.sum(responsibilities[..., None] * z, axis=(0, 1))

        return self._model.map_rows(rows_in, means, family.floats_per_row(params))

    @method_of_rows
    def responsibilities(self, X: TableLike) -> Array:
        """Probabilities p(m | x) of the components.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.

        Returns
        -------
        responsibilities : array of shape (n_samples, n_components)
        """
        rows_in = self._check_rows(X)
        family, params = self._model.family, self._model.params

        def components(rows: MaskedRows) -> Array:
            posterior = family.infer(params, rows)
            class_probs = softmax(posterior.log_joint, axis=-2)
            return transpose(namespace(class_probs).sum(class_probs[:, None, :] * posterior.component, axis=0))

        return self._model.map_rows(rows_in, components, family.floats_per_row(params))

    def _scorer(self) -> Callable[[MaskedRows], Array]:
        return self._model.scores if self.refine is None else self._refined_scores()

    def _refined_scores(self) -> Callable[[MaskedRows], Array]:
        """Log joints by importance sampling, tempered; all rows see the same draws."""
        model, family, params = self._model, self._model.family, cast(FactorParams, self._model.params)
        draws = random_generator(self.random_state).standard_normal((self.n_importance_samples, family.n_latent))
        return lambda rows: model.temper(importance_scores(family, params, rows, draws), rows)

    @method_of_rows
    def score_samples(self, X: TableLike, refine: str | None = None) -> Any:
        """Log p(x), the density of the known cells of each row: low for outliers.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.
        refine : {"importance"} or None, default=None
            "importance" returns the bound and its importance-sampling estimate; their difference is
            the bound's gap.

        Returns
        -------
        log_density : array of shape (n_samples,), or two of them
        """
        rows_in = self._check_rows(X)
        if refine is None:
            return logsumexp(self._joint_log_proba(rows_in, self._scorer()), axis=-1)
        optional(choice("importance"))("refine", refine)
        bound, refined = self._model.scores, self._refined_scores()
        return tuple(logsumexp(self._joint_log_proba(rows_in, score), axis=-1) for score in (bound, refined))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        return tags


def model_attributes(model: FittedModel[LatentFactors]) -> Attributes:
    """The parameters in the units of X; columns in their order, continuous or not."""
    layout, params, preprocessor = model.family.layout, cast(FactorParams, model.params), model.preprocessor
    xp = namespace(params.means)
    columns = np.asarray(layout.predictor_columns(), dtype=np.int64)
    order = np.argsort(columns, kind="stable")
    scale, shift = (
        xp.take(a, asarray_like(columns, params.means, dtype=xp.int64))
        for a in (preprocessor.scale, preprocessor.shift)
    )
    by_column = asarray_like(order, params.means, dtype=xp.int64)
    gaussian = list(layout.gaussian.columns)
    noise = np.full((params.noise.shape[0], layout.n_columns), np.nan)
    noise[:, gaussian] = to_numpy(params.noise) * to_numpy(preprocessor.scale)[gaussian] ** 2
    edges = np.zeros((layout.n_columns, model.family.n_latent), dtype=bool)
    edges[columns] = to_numpy(params.edges) > 0
    return {
        "n_latent_": model.family.n_latent,
        "n_components_": model.family.n_components,
        "priors_": xp.exp(params.log_prior),
        "mixing_weights_": xp.exp(params.log_mix),
        "latent_means_": params.means,
        "latent_variances_": params.variances,
        "loading_features_": columns[order],
        "loadings_": xp.take(params.loadings * scale[:, None], by_column, axis=-2),
        "intercepts_": xp.take(params.offsets * scale + shift, by_column, axis=-1),
        "noise_variances_": asarray_like(noise, params.means),
        "edges_": edges,
    }


#: Training accuracy is taken on at most this many random rows.
ACCURACY_ROWS = 200_000


def best_restart(
    family: LatentFactors,
    solution: Solution,
    source: TableSource,
    rng: np.random.Generator,
    by_accuracy: bool,
) -> int:
    """The restart with the best penalized likelihood, `by_accuracy`: of the most accurate."""
    value, size = solution.value, family.structure_size(solution.params)
    candidates = np.arange(len(value))
    if by_accuracy and len(value) > 1:
        candidates = most_accurate_restarts(family, solution, source, rng)
    return int(candidates[best_structure(value[candidates], size[candidates], source.total_weight)])


def most_accurate_restarts(
    family: LatentFactors, solution: Solution, source: TableSource, rng: np.random.Generator
) -> np.ndarray:
    """The restarts with the best training accuracy."""
    correct = correct_weight(family, solution.params, source, rng)
    return np.flatnonzero(correct >= correct.max() - 1e-9 * max(1.0, correct.max()))


def correct_weight(
    family: LatentFactors,
    params: FactorParams,
    source: TableSource,
    rng: np.random.Generator,
    max_rows: int = ACCURACY_ROWS,
) -> np.ndarray:
    """Weight of the labeled rows that each restart classifies correctly, from a sample where there
    are very many.
    """
    if source.n_rows > max_rows:
        source = stratified_sample(source, max_rows // family.n_classes, rng)

    def visit(chunk: Chunk) -> Totals:
        log_joint = family.infer(params, chunk.rows).log_joint
        xp = namespace(log_joint)
        correct = xp.astype(xp.argmax(log_joint, axis=-2) == chunk.y[None, :], log_joint.dtype)
        return {"correct": xp.sum(chunk.weighted(correct), axis=-1)}

    chunk_rows = rows_per_chunk(family.floats_per_row(params), params.means)
    return to_numpy(source.sum_over_chunks(visit, chunk_rows)["correct"]).astype(float)


def stratified_sample(source: TableSource, max_per_label: int, rng: np.random.Generator) -> ArraySource:
    """At most so many rows of each label, which together weigh what all of them do."""
    sample = source.draw_rows(max_per_label, rng)
    weight = np.ones(sample.n_rows) if sample.weight is None else sample.weight.copy()
    mean = weight.reshape(sample.n_rows, -1).mean(axis=1)  # each restart may have weights of its own
    for label, total in source.label_totals.items():
        if (drawn := mean[sample.y == label].sum()) > 0:
            weight[sample.y == label] *= total.weight / drawn
    return sample.with_weight(weight)
