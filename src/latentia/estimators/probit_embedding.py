"""Bayesian multilabel classification in a learned low-dimensional embedding.

The estimator first, then the functions of its steps: what `fit` reads, how it is trained, and what
a fitted embedding says of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from latentia.arrays.namespace import Array, eye_like, is_sparse, log_softmax, namespace, to_numpy
from latentia.arrays.parallel import one_blas_thread
from latentia.engine.messages import warn_at_caller
from latentia.engine.rows import (
    ArraySource,
    Chunk,
    MaskedRows,
    Preprocessor,
    TableSource,
    Totals,
    map_rows,
    rows_per_chunk,
)
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import select_restart
from latentia.estimators.base.classifier import ClassOrLabelsClassifier
from latentia.estimators.base.estimator import (
    Attributes,
    LabelCounts,
    StepNotifier,
    input_attributes,
    solution_attributes,
)
from latentia.estimators.base.reading import NumberTable, read_parts
from latentia.families.blocks.bounds import GammaPrior
from latentia.families.probit_embedding.family import PRECISION_SHARING, Embedding, ProbitEmbedding
from latentia.scale.tables import LabelColumns, LabelMatrixReader, LazyTable, lazy_table, method_of_rows
from latentia.solvers import Outcome, QuasiNewtonVB, Solution
from latentia.table.frames import TableLike
from latentia.table.labels import LabelsLike, encode_label_matrix
from latentia.table.options import Callback, Check, check_bool, check_choice, check_number, choice, integer, number
from latentia.table.rows import reject_missing, validate_rows
from latentia.table.standardization import Standardizer, make_preprocessor, source_moments
from latentia.table.weights import check_weight, warn_of_shares

#: The most dimensions that are used unless more are asked for.
MAX_LATENT = 10

#: Sizes without a gain in evidence after which a search stops.
PATIENCE = 2

#: Tables with fewer entries gain nothing from several threads in a product.
MIN_THREADED_ENTRIES = 2**22

#: A dimension is effective if it carries this share of the variance of the labels' scores.
MIN_EFFECTIVE_SHARE = 0.01


def check_n_latent(name: str, value: object) -> None:
    """A number of dimensions, "auto" or "evidence"."""
    if isinstance(value, str):
        check_choice(name, value, ["auto", "evidence"], " and integers >= 1")
    else:
        check_number(name, value, ge=1, integer=True, besides=", 'auto' or 'evidence'")


class ProbitEmbeddingClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassOrLabelsClassifier):
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
        random_state: int | np.random.RandomState | None = None,
        callback: Callback | None = None,
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

    def _read_input(self, X: TableLike, y: LabelsLike, sample_weight: ArrayLike | None) -> EmbeddingInput:
        table = lazy_table(X)
        read = read_in_memory if table is None else read_in_parts
        return read(self._blank_copy(), X, y, sample_weight)

    def _train(self, data: EmbeddingInput, rng: np.random.Generator, notifier: StepNotifier) -> EmbeddingFit:
        prior = GammaPrior(float(self.shape), 1 / float(self.scale))
        margin = float(self.margin) if self.semi_supervised else 0.0
        sharing, noise = PRECISION_SHARING[self.prior], float(self.latent_noise)
        solver = QuasiNewtonVB(self.max_iter, self.tol * data.n_labels)

        def train(n_latent: int) -> EmbeddingFit:
            family = ProbitEmbedding(data.n_labels, n_latent, sharing, prior, noise, margin)
            return fit_embedding(family, data, solver, self.n_init, rng, notifier)

        if self.n_latent == "evidence":
            return best_size(train, data.max_latent, lambda: notifier.stopped)
        return train(data.max_latent if isinstance(self.n_latent, str) else self.n_latent)

    def _fitted_attributes(self, data: EmbeddingInput, fitted: EmbeddingFit) -> Attributes:
        results = fitted.search_results
        return {
            **solution_attributes(fitted.solution),
            **learned_attributes(fitted.model),
            "log_evidence_": fitted.log_evidence,
            "search_results_": None if results is None else results._asdict(),
        }

    def _check_rows(self, X: TableLike) -> Array:
        self._require_fitted()
        return DenseOrSparse().validate(self, X, reset=False)

    def _log_proba(self, X: TableLike) -> Array:
        rows = self._check_rows(X)
        return self._model.log_proba(rows, average_embedding=self.averaging == "full")

    @method_of_rows
    def transform(self, X: TableLike, return_cov: bool = False) -> Array | tuple[Array, Array]:
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
        rows, model = self._check_rows(X), self._model
        mean = model.of_rows(model.family.latent_means, rows)
        if not return_cov:
            return mean
        variance = model.of_rows(model.family.latent_variances, rows)
        return mean, variance[:, :, None] * eye_like(variance.shape[1], variance)

    @property
    def _n_features_out(self) -> int:
        return int(self.n_latent_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        return tags


class DenseOrSparse(NumberTable):
    """Tables of numbers without gaps, dense or sparse."""

    def validate(self, estimator: Any, X: TableLike, reset: bool) -> Array:
        rows = validate_rows(estimator, X, reset, accept_sparse="csr")
        reject_missing(estimator, rows)
        return sparse.csr_array(rows) if is_sparse(rows) else rows


class EmbeddingInput(NamedTuple):
    """What `fit` was given, validated and encoded."""

    X: Array  # what learned arrays are like: the rows, unless they come in parts
    source: TableSource  # in standard units, with a column of codes for each label
    preprocessor: Preprocessor
    n_classes: int | None  # None for a label matrix
    label_counts: LabelCounts
    attributes: Attributes
    n_labels: int

    missing_shares: None = None  # no cell may be missing

    @property
    def n_rows(self) -> int:
        return self.source.n_rows

    @property
    def max_latent(self) -> int:
        """As many dimensions as the labels can tell apart: one less than there are classes, since
        the scores of the last follow from those of the others.
        """
        n_scores = self.n_labels if self.n_classes is None else max(1, self.n_classes - 1)
        return min(n_scores, self.source.n_features, MAX_LATENT)


def read_in_memory(
    blank: ProbitEmbeddingClassifier, X: TableLike, y: LabelsLike, sample_weight: ArrayLike | None
) -> EmbeddingInput:
    """Rows, labels and weights; `blank` is a copy of the estimator to validate on."""
    rows = DenseOrSparse().validate(blank, X, reset=True)
    codes, classes, multilabel, names = encode_label_matrix(y, rows.shape[0], blank.unlabeled)
    weight = check_weight(sample_weight, rows.shape[0])
    if weight is not None:
        warn_of_shares(weight)
    n_classes = None if multilabel else len(classes)
    counts = EntryCounts.of(codes, weight).checked(blank, rows.shape[0], n_classes)
    preprocessor = make_preprocessor(rows, weight, blank.standardize)
    source = ArraySource(rows, codes, weight, preprocessor.prepare)
    attributes = input_attributes(blank) | label_attributes(classes, multilabel, names)
    return EmbeddingInput(rows, source, preprocessor, n_classes, counts, attributes, codes.shape[1])


def read_in_parts(
    blank: ProbitEmbeddingClassifier, X: TableLike, y: LabelsLike, sample_weight: ArrayLike | None
) -> EmbeddingInput:
    """The same for a large table in parts, which stay where they are."""
    table = cast(LazyTable, lazy_table(X))
    read = read_parts(blank, DenseOrSparse(), table, y, sample_weight, LabelMatrixReader(blank.unlabeled))
    rows, targets = read.rows, read.targets
    multilabel = isinstance(targets, LabelColumns)
    n_classes = None if multilabel else len(targets.classes)

    def visit(chunk: Chunk) -> Totals:
        return {"entries": EntryCounts.of(to_numpy(chunk.y), chunk.mean_weight())}

    entries = rows.sum_over_chunks(visit, rows_per_chunk(4 * rows.n_features, rows.rows_like))["entries"]
    counts = entries.checked(blank, rows.n_rows, n_classes)
    moments = source_moments(rows)
    preprocessor = Standardizer.from_moments(*moments)
    if not blank.standardize:
        xp = namespace(moments.mean)
        preprocessor = Standardizer(xp.zeros_like(moments.mean), xp.ones_like(moments.mean), None)
    source = rows.with_preprocess(preprocessor.prepare)
    attributes = read.attributes | label_attributes(targets.classes, multilabel, targets.names if multilabel else None)
    like = moments.mean[None, :]
    return EmbeddingInput(like, source, preprocessor, n_classes, counts, attributes, entries.n_known.size)


class EntryCounts(NamedTuple):
    """Of each label, (L,) each: rows in which it is known and present; what the former weigh."""

    n_known: np.ndarray
    n_present: np.ndarray
    weight: np.ndarray
    n_labeled: np.ndarray  # () rows with any known label

    @classmethod
    def of(cls, codes: np.ndarray, weight: np.ndarray | None) -> EntryCounts:
        """Of some rows, by codes (N, L)."""
        known = codes >= 0
        weighed = known.sum(axis=0) if weight is None else weight @ known
        return cls(known.sum(axis=0), (codes == 1).sum(axis=0), weighed, known.any(axis=1).sum())

    def checked(self, blank: ProbitEmbeddingClassifier, n_rows: int, n_classes: int | None) -> LabelCounts:
        """What is recorded of the labels, each of which needs a known entry of positive weight.

        Warns of rows that nothing is learned from; in label matrices unknown entries are usual.
        """
        if (self.weight <= 0).any():
            column = int(np.argmin(self.weight))
            raise ValueError(f"sample_weight is zero for every row with a known entry in column {column} of y.")
        present, n_labeled = self.n_present.tolist(), int(self.n_labeled)
        if n_classes is None:
            return LabelCounts(present, n_labeled, self.n_known.tolist())
        if n_labeled < n_rows and not blank.semi_supervised:
            what = (
                "have no label: ProbitEmbeddingClassifier models p(y | x), so they count in nothing but how columns "
                "are scaled. semi_supervised=True keeps decision lines clear of them; GaussianMixtureClassifier and "
                "LatentClassificationModel learn from them."
            )
            warn_at_caller(f"{n_rows - n_labeled} of {n_rows} rows {what}", in_search=f"rows {what}")
        return LabelCounts([n_labeled - present[0], *present] if n_classes == 2 else present, n_labeled)


def label_attributes(classes: np.ndarray, multilabel: bool, names: np.ndarray | None) -> Attributes:
    """What is learned of the labels before training."""
    found: Attributes = {"classes_": classes, "multilabel_": multilabel}
    return found if names is None else {**found, "label_names_": names}


class SearchResults(NamedTuple):
    """What a search over sizes has tried, an entry for each size."""

    n_latent: np.ndarray
    log_evidence: np.ndarray
    n_iter: np.ndarray


class EmbeddingFit(NamedTuple):
    """A trained model and how its solver went; of a search, the best one and what was tried."""

    model: FittedEmbedding
    solution: Solution  # of the restart that won
    search_results: SearchResults | None = None

    @property
    def outcome(self) -> Outcome:
        return self.solution.outcomes[0]

    @property
    def log_evidence(self) -> float:
        return float(self.solution.value[0])

    @property
    def summary(self) -> tuple[int, float, int]:
        """The entry of a search."""
        return self.model.family.n_latent, self.log_evidence, int(self.solution.n_iter[0])


def fit_embedding(
    family: ProbitEmbedding,
    data: EmbeddingInput,
    solver: QuasiNewtonVB,
    n_restarts: int,
    rng: np.random.Generator,
    notifier: StepNotifier,
) -> EmbeddingFit:
    """Variational Bayes from all restarts; the largest bound wins."""
    source = data.source
    problem = RowProblem(family, Likelihood(), source)

    def model_at(params: Embedding) -> FittedEmbedding:
        return FittedEmbedding(problem.family, params, data.preprocessor, data.n_classes)

    notifier.attributes_at = lambda params: data.attributes | learned_attributes(model_at(params))
    start = problem.family.init(source, rng, n_restarts)
    with one_blas_thread(source.n_rows * source.n_features < MIN_THREADED_ENTRIES):
        solution = solver.solve(problem, start, notifier)
    solution = solution.select_restart(int(np.argmax(solution.value)))
    return EmbeddingFit(model_at(select_restart(solution.params, 0)), solution)


def best_size(train: Callable[[int], EmbeddingFit], max_latent: int, stopped: Callable[[], bool]) -> EmbeddingFit:
    """The fit with the largest evidence, of sizes from one on.

    They grow until they have not gained for a while, or a callback has stopped the fit.
    """
    best = train(1)
    tried = [best.summary]
    for n_latent in range(2, max_latent + 1):
        if stopped() or len(tried) - best.model.family.n_latent >= PATIENCE:
            break
        fit = train(n_latent)
        tried.append(fit.summary)
        best = fit if fit.log_evidence > best.log_evidence else best
    return best._replace(search_results=SearchResults(*(np.array(column) for column in zip(*tried, strict=True))))


class FittedEmbedding(NamedTuple):
    """All that predictions need."""

    family: ProbitEmbedding
    params: Embedding
    preprocessor: Preprocessor
    n_classes: int | None  # None for label matrices

    def of_rows(self, fn: Callable[[Embedding, MaskedRows], Array], X: Array, axis: int = 0) -> Array:
        """What the family says of raw rows, chunk by chunk; they run along an axis."""
        max_rows = rows_per_chunk(self.family.prediction_floats_per_row(self.params), self.params.projection)
        answers = map_rows(X, self.preprocessor.prepare, partial(fn, self.params), max_rows)
        return namespace(answers[0]).concat(answers, axis=axis)

    def log_proba(self, X: Array, average_embedding: bool) -> Array:
        """Log probabilities (N, L) that labels are present, or (N, C) of the classes."""
        sides = self.of_rows(partial(self.family.log_sides, average_embedding=average_embedding), X, axis=1)
        xp = namespace(sides)
        present, absent = sides[0, ...], sides[1, ...]
        if self.n_classes is None:
            return present
        if self.n_classes == 1:
            return xp.zeros_like(present)
        if self.n_classes == 2:
            return xp.concat([absent, present], axis=1)
        return log_softmax(present, axis=1)


def learned_attributes(model: FittedEmbedding) -> Attributes:
    """What users may look at, as the estimator documents it."""
    params = model.params
    xp = namespace(params.projection)
    projection, weights = xp.matrix_transpose(params.projection), params.weights[:, 1:]
    weight_squares = xp.sum(weights**2, axis=0)  # (R,)
    relevance = projection**2 @ weight_squares
    smallest = float(xp.finfo(relevance.dtype).smallest_normal)
    variance = to_numpy(xp.sum(params.projection**2, axis=1) * weight_squares)  # of the scores, by dimension
    return {
        "_model": model,
        "n_latent_": model.family.n_latent,
        "n_effective_latent_": int((variance > MIN_EFFECTIVE_SHARE * variance.sum()).sum()),
        "projection_": projection,
        "weights_": weights,
        "intercepts_": params.weights[:, 0],
        "weights_covariance_": params.weights_cov,
        "precisions_": xp.matrix_transpose(model.family.precision(params)),
        "feature_shift_": model.preprocessor.shift,
        "feature_scale_": model.preprocessor.scale,
        "feature_relevance_": relevance / xp.clip(xp.sum(relevance), min=smallest),
    }
