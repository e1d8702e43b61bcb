"""Gaussian-mixture classifiers, trained by likelihood, conditional likelihood, margin or a hybrid
of them.

How many components a class gets, and which covariances: by BIC for points, by evidence for
posteriors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from latentia.arrays.namespace import Array, asarray_like, namespace, softmax, to_numpy, transpose
from latentia.engine.contracts import Objective
from latentia.engine.rows import Chunk, MaskedRows, TableSource, Totals
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import select_class
from latentia.estimators.base.estimator import Attributes, StepNotifier
from latentia.estimators.base.fitted_model import FittedModel
from latentia.estimators.base.generative import GenerativeClassifier, warn_of_idle_components
from latentia.estimators.base.reading import NumberTable, TrainingTable, read_training_table
from latentia.estimators.base.training import Plan
from latentia.families.gaussian_mixture.covariance import Covariance
from latentia.families.gaussian_mixture.family import COVARIANCES, GaussianMixtures, GaussianParams
from latentia.families.gaussian_mixture.posterior import BayesianGaussianMixtures, GaussianPrior, conjugate_prior
from latentia.scale.tables import method_of_rows
from latentia.solvers import EM, AcceleratedEM
from latentia.solvers.em import WINDOW
from latentia.table.frames import TableLike
from latentia.table.labels import LabelsLike
from latentia.table.options import Callback, Check, RandomState, check_choice, check_number, choice, registered
from latentia.table.weights import PriorsLike


def check_n_components(name: str, value: object) -> None:
    """A number of components for all classes or for each, or "bic"."""
    if isinstance(value, str):
        check_choice(name, value, ["bic"], ", an int, or one int per class")
    else:
        for size in np.atleast_1d(np.asarray(value, dtype=object)).tolist():
            check_number(name, size, ge=1, integer=True, besides=", one for each class, or 'bic'")


class GaussianMixtureClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, GenerativeClassifier):
    """A mixture of Gaussians for each class, with missing cells and unlabeled rows.

    Each class c has the density ``sum_k weight_ck N(x; mean_ck, covariance_ck)``; rows are
    classified by Bayes' rule. Missing cells (NaN) are integrated out exactly, in training and in
    prediction.

    Parameters
    ----------
    n_components : int, sequence of int or "bic", default=1
        Components of every class, of each class in the order of `classes_`, or the number with the
        least Bayesian information criterion, chosen for each class.
    covariance : {"auto", "diag", "full", "tied", "spherical"}, default="auto"
        Shape of the covariances: a variance per feature, a matrix per component, one matrix that
        all components of all classes share, or one variance per component. "auto": of the first
        three the one with the largest evidence; "diag" for points, and for over 100 features.
    inference : {"vb", "ml"}, default="vb"
        "vb": the posterior of all parameters by variational Bayes, averaged over in predictions;
        components are pulled towards a common mean and covariance. "ml": the point of maximum
        likelihood. Other objectives than the likelihood train points.
    marginals : {"power", "normal"}, default="power"
        "power": each column is made as normal as a power transform can make it. Densities, samples
        and imputations are those of the raw column. Spherical covariances, which compare the units
        of columns, leave them.
    unlabeled_weight : float or "auto", default="auto"
        Weight of the unlabeled rows; "auto" takes what predicts held-out labels best, and zero
        where fewer than 30 rows have labels.
    temperature : float or "auto", default="auto"
        Class probabilities are proportional to ``p(c) p(x | c)^(1 / temperature)``. "auto": what
        30 labeled rows or more ask for that were held out, else those that were fitted, at least
        one, with an offset for each class so that none is said too often; one for points.
    objective : {"likelihood", "conditional", "margin", "hybrid"} or Objective, default="likelihood"
        What is maximized: log p(x, y) by EM; log p(y | x), the margin, likelihood + `trade_off` *
        margin, or an objective of your own by `solver` from the best EM solution.
    solver : {"lbfgs"}, default="lbfgs"
        How other objectives than the likelihood are raised: by L-BFGS.
    trade_off : float, default=1.0
        Weight of the margin term of the hybrid objective (lambda in the thesis).
    margin : float, default=1.0
        Desired log ratio between a row's class and its best competitor (gamma).
    ramp : float or None, default=None
        Largest loss of a row in the margin term (nu); None for a hinge without limit.
    priors : {"empirical", "uniform"}, array-like of shape (n_classes,) or dict, default="empirical"
        Class priors; positive numbers that need not add up to one.
    var_floor : float, default=1e-3
        Least variance, relative to that of the data: of each feature, or of each principal axis of
        the standardized features for matrices. Numbers below the rounding unit of the arithmetic,
        2e-16 or 1e-7 for float32, stand for that unit.
    n_init : int or "auto", default="auto"
        Number of starts of EM; they run as one batch, and the best likelihood wins. "auto": ten,
        one where every class has one component.
    max_iter : int, default=500
        Maximum number of iterations of EM, and of L-BFGS; of passes, if `solver` has more.
    tol : float, default=1e-3
        EM stops when the log likelihood per row gains less; L-BFGS at a hundredth of it.
    early_stopping : bool, default=False
        Whether `solver` holds out rows and keeps the parameters with the fewest errors on them. Has
        no effect on likelihood training.
    validation_fraction : float, default=0.1
        Share of the labeled rows held out for early stopping; at most 64 MiB of them.
    n_iter_no_change : int, default=10
        Early stopping waits this many iterations for an improvement.
    loss_matrix : array-like of shape (n_classes, n_classes), default=None
        Entry (i, j) is the loss of predicting class j when the class is i; `predict` minimizes the
        expected loss.
    unlabeled : "auto", int or None, default="auto"
        Which integer marks an unlabeled row; None: no integer does. "auto": -1, with a warning of
        how many rows that are; labels that are just -1 and 1 are two classes. None and NaN always
        mark one.
    random_state : int, RandomState instance or None, default=None
        Seeds the starts, the hold-out and `sample`.
    callback : callable, default=None
        Called with each step of a solver (`solver`, `iteration`, `value`, `n_running`, `params`);
        return True to stop.
    verbose : int, default=0
        Shows progress if positive.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Classes in sorted order.
    n_components_ : ndarray of shape (n_classes,)
        Components of each class.
    covariance_ : str
        Shape of the covariances.
    priors_ : array of shape (n_classes,)
        Class priors.
    weights_ : array of shape (n_classes, max_components)
        Mixing weights; classes with fewer components are padded with zeros.
    dof_ : array of shape (n_classes, max_components)
        Degrees of freedom of the components: Student-t under posteriors, infinite for points.
    means_ : array of shape (n_classes, max_components, n_features)
        Means, in the units of X.
    covariances_ : array
        Covariances in the units of X: variances of shape (n_classes, max_components, n_features)
        for "diag", (n_classes, max_components) for "spherical"; matrices of shape (n_classes,
        max_components, n_features, n_features) for "full", (n_features, n_features) for "tied".
        Under posteriors these are the scale matrices of the Student-t distributions, of which
        ``dof / (dof - 2)`` times as much is the covariance.
    unlabeled_weight_, temperature_ : float
        The weight of unlabeled rows and the temperature that were given or chosen.
    class_offsets_ : array of shape (n_classes,)
        What each known cell adds to the tempered log likelihoods of the classes.
    log_evidence_ : float
        The bound of the log evidence, under posteriors; compares models of the same rows.
    objective_curve_ : ndarray of shape (`n_iter_` + 1,)
        The objective, summed over rows, after each sweep of the solver that ended the fit.
    n_iter_, converged_, stopping_reason_ : int, bool, str
        Iterations of that solver, whether it converged, and why it stopped.
    n_features_in_, feature_names_in_ : int, ndarray of shape (`n_features_in_`,)
        Number of features, and their names when X has string column names.

    References
    ----------
    W. Roth, Hybrid generative-discriminative training of Gaussian mixture models, master's thesis,
    Graz University of Technology.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from latentia import GaussianMixtureClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> X[::7, 2] = np.nan  # gaps need no imputation
    >>> y[::5] = -1  # rows without a label help too
    >>> model = GaussianMixtureClassifier(n_components=2, unlabeled=-1, random_state=0).fit(X, y)
    >>> model.predict_proba([[5.1, 3.5, np.nan, np.nan]]).round(2)
    array([[1., 0., 0.]])
    """

    _CHECKS: ClassVar[dict[str, Check]] = {
        "n_components": check_n_components,
        "covariance": registered(COVARIANCES, "auto"),
        "solver": choice("lbfgs"),
    }

    def __init__(
        self,
        n_components: int | Sequence[int] | str = 1,
        *,
        covariance: str = "auto",
        inference: str = "vb",
        marginals: str = "power",
        unlabeled_weight: float | str = "auto",
        temperature: float | str = "auto",
        objective: str | Objective = "likelihood",
        solver: str = "lbfgs",
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
        unlabeled: str | int | None = "auto",
        random_state: RandomState = None,
        callback: Callback | None = None,
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.covariance = covariance
        self.inference = inference
        self.marginals = marginals
        self.unlabeled_weight = unlabeled_weight
        self.temperature = temperature
        self.objective = objective
        self.solver = solver
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
        self.unlabeled = unlabeled
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _read_input(self, X: TableLike, y: LabelsLike | None, sample_weight: ArrayLike | None) -> TrainingTable:
        common_scale = self.covariance != "auto" and COVARIANCES[self.covariance].common_scale
        form, power = NumberTable(takes_gaps=True), self.marginals == "power"
        return read_training_table(self, form, X, y, sample_weight, power, common_scale)

    def _plan(
        self,
        table: TrainingTable,
        rows: TableSource,
        rng: np.random.Generator,
        notifier: StepNotifier,
        is_stream: bool = False,
    ) -> Plan:
        family, posterior = self._family(table, rows, rng, notifier), None
        has_prior = conjugate_prior(family.covariance_type, GaussianPrior()) is not None
        if has_prior and self.inference == "vb" and self._objective().rises_under_em:
            posterior = BayesianGaussianMixtures(family, empty_columns=table.empty_columns)
        return Plan(
            family,
            posterior or family,
            EM(self.max_iter, self.tol) if posterior is None else AcceleratedEM(self.max_iter, WINDOW * self.tol),
            n_starts=self._n_starts() if (family.n_components > 1).any() else 1,
        )

    def _family(
        self, table: TrainingTable, rows: TableSource, rng: np.random.Generator, notifier: StepNotifier
    ) -> GaussianMixtures:
        """Covariances and numbers of components, looked for where they are left to the rows."""

        def watch(family: GaussianMixtures, trained: Any) -> StepNotifier:
            return self._watch(Plan(family, trained, EM(1, self.tol), 1), table, notifier)

        shift = table.preprocessor.shift
        floor = max(self.var_floor, float(namespace(shift).finfo(shift.dtype).eps))
        name = self.covariance
        if name == "auto" and (self.inference == "ml" or not self._objective().rises_under_em):
            name = "diag"
        elif name == "auto":
            rows = rows.labeled_only()
            name = most_evident_covariance(rows, table.n_classes, floor, table.empty_columns, rng, watch)
        covariance = COVARIANCES[name](floor)
        if isinstance(self.n_components, str):
            n_features = table.n_features - table.preprocessor.n_empty_columns
            solver = EM(self.max_iter, self.tol)
            search = ComponentSearch(covariance, table.n_classes, n_features, self._n_starts(), solver)
            return GaussianMixtures(search.run(rows.labeled_only(), rng, watch), covariance, table.log_prior)
        sizes = np.asarray(self.n_components, dtype=int)
        sizes = np.full(table.n_classes, sizes) if sizes.ndim == 0 else sizes
        if sizes.shape != (table.n_classes,):
            raise ValueError(
                f"n_components={self.n_components!r} has {sizes.size} entries, but y has {table.n_classes} classes; "
                "allowed are an int, one int per class, or 'bic'."
            )
        totals = table.label_totals
        n_unlabeled = totals[-1].n_rows if -1 in totals else 0
        n_rows = np.array([totals[c].n_rows + n_unlabeled for c in range(table.n_classes)])
        warn_of_idle_components(sizes, n_rows, [f"class {label!r}" for label in table.attributes["classes_"].tolist()])
        return GaussianMixtures(sizes, covariance, table.log_prior)

    def _model_attributes(self, model: FittedModel[GaussianMixtures]) -> Attributes:
        params, preprocessor = cast(GaussianParams, model.params), model.preprocessor
        xp = namespace(params.means)
        return {
            "n_components_": model.family.n_components,
            "covariance_": next(n for n, kind in COVARIANCES.items() if type(model.family.covariance_type) is kind),
            "priors_": xp.exp(params.log_prior),
            "weights_": xp.exp(params.log_weights),
            "dof_": xp.full_like(params.log_weights, np.inf) if isinstance(params.dof, tuple) else params.dof,
            "means_": preprocessor.inverse_transform(params.means),
            "covariances_": model.family.covariance_type.in_units(params.covariance, preprocessor.scale),
        }

    @property
    def _n_features_out(self) -> int:
        return int(self._model.family.n_components.sum())

    @method_of_rows
    def responsibilities(self, X: TableLike) -> Array:
        """Probabilities p(c, k | x) of the components of all classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.

        Returns
        -------
        responsibilities : array of shape (n_samples, `n_components_`.sum())
            The components of the first class, then those of the second, and so on: those of a class
            add up to its probability.
        """
        rows_in = self._check_rows(X)
        model = self._model
        family, params = model.family, model.params
        flat = family.present.ravel().nonzero()[0]

        def components(rows: MaskedRows) -> Array:
            posterior = family.infer(params, rows)
            xp = namespace(posterior.log_joint)
            scale = softmax(model.temper(posterior.log_joint, rows), axis=-2) / posterior.normalizer
            each = posterior.unnormalized * scale[:, None, :]  # (C, K, N), some of them padding
            each = xp.reshape(each, (-1, each.shape[-1]))
            return transpose(xp.take(each, asarray_like(flat, each, dtype=xp.int64), axis=0))

        return model.map_rows(rows_in, components, family.floats_per_row(params))

    @method_of_rows
    def transform(self, X: TableLike) -> Array:
        """The same as `responsibilities`: what the model knows of the latent variables of rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.

        Returns
        -------
        responsibilities : array of shape (n_samples, `n_components_`.sum())
        """
        return self.responsibilities(X)


#: A notifier that sees models of a family; the second is what is trained, its posterior or itself.
Watch = Callable[[Any, Any], StepNotifier]

#: The most components that n_components="bic" tries for a class.
MAX_COMPONENTS = 10

#: Covariances whose evidences are compared, and the iterations they get.
CANDIDATES = ("full", "tied", "diag")
EVIDENCE_ITERATIONS = 6

#: What a covariance matrix of its own for each class must gain over one for all, in nats per cell:
#: the evidence is of p(x), and where it hardly decides, one matrix tells classes better.
OWN_MATRIX_LEAD = 0.005

#: Tables with more columns get a variance per column.
MAX_MATRIX_COLUMNS = 100


def most_evident_covariance(
    source: TableSource,
    n_classes: int,
    floor: float,
    empty_columns: np.ndarray | None,
    rng: np.random.Generator,
    watch: Watch,
) -> str:
    """The covariances of one Gaussian a class with the largest evidence of the labeled rows."""
    if source.n_features > MAX_MATRIX_COLUMNS:
        return "diag"
    evidence = {}
    for name in CANDIDATES:
        model = GaussianMixtures(np.ones(n_classes, dtype=int), COVARIANCES[name](floor))
        family = BayesianGaussianMixtures(model, empty_columns=empty_columns)
        params, notifier = family.init(source, rng, 1), watch(model, family)
        solution = EM(EVIDENCE_ITERATIONS, 1e-3).solve(RowProblem(family, Likelihood(), source), params, notifier)
        evidence[name] = solution.value[0]
        if name == "full":
            evidence[name] -= OWN_MATRIX_LEAD * source.total_weight * source.n_features
        if notifier.stopped:
            break
    return max(evidence, key=lambda name: evidence[name])


class ComponentSearch(NamedTuple):
    """The number of components of each class with the least BIC."""

    covariance: Covariance
    n_classes: int
    n_features: int
    n_init: int
    solver: EM

    def run(self, source: TableSource, rng: np.random.Generator, watch: Watch) -> np.ndarray:
        """A class stops growing after two numbers without gain, all of them when a callback stops
        the fit.
        """
        in_class = _class_sizes(source, self.n_classes)
        best, sizes = np.full(self.n_classes, np.inf), np.ones(self.n_classes, dtype=int)
        for k in range(1, MAX_COMPONENTS + 1):
            growing = (k - sizes <= 2) & (in_class >= 2 * k)
            if k > 1 and not growing.any():
                break
            family = GaussianMixtures(np.where(growing, k, sizes), self.covariance)
            notifier = watch(family, family)
            params = family.init(source, rng, self.n_init if k > 1 else 1)
            problem = RowProblem(family, Likelihood(), source)
            fitted = self.solver.solve(problem, params, notifier).params
            scores = _class_log_likelihoods(problem, fitted, self.n_classes)  # (restarts, classes)
            n_free = k - 1 + k * self.n_features + self.covariance.n_free(self.n_features, k)
            bic = -2 * scores.max(axis=0) + n_free * np.log(in_class)
            better = growing & (bic < best) | (k == 1)
            best, sizes = np.where(better, bic, best), np.where(better, k, sizes)
            if notifier.stopped:
                break
        return sizes


def _class_sizes(source: TableSource, n_classes: int) -> np.ndarray:
    """Weight of the rows of each class, but at least their number: weights that sum to one make no
    fewer rows, and no negative logarithm.
    """
    totals = source.label_totals
    return np.array([max(totals[c].weight, totals[c].n_weighted) for c in range(n_classes)])


def _class_log_likelihoods(problem: RowProblem[GaussianMixtures], params: GaussianParams, n_classes: int) -> np.ndarray:
    """Log p(x | y) summed over the labeled rows of each class, for each restart: (R, C)."""
    family = problem.family

    def visit(chunk: Chunk) -> Totals:
        if chunk.label is None or chunk.label < 0:
            return {}
        mine = select_class(params, family.params_class_axes, chunk.label)
        score = family.infer(mine, chunk.rows).log_joint[..., 0, :] - mine.log_prior
        xp = namespace(score)
        return {chunk.label: xp.sum(chunk.weighted(score), axis=-1)}

    totals = problem.source.sum_over_chunks(visit, problem.rows_per_chunk(params), by_label=True)
    return np.stack([to_numpy(totals[c]) for c in range(n_classes)], axis=1)
