"""Which models are tried, and how each is fitted.

A model of a part of the rows, as it votes: log p(c | x) of coded rows.

Who is held out when: folds of the labeled rows, and the rows that take part in the search.

Rows as candidates that know no gaps see them: completed by models of the first candidate, each
part once.

Rows to train on, with a column of weights for each model: a fold has zeros where rows are held
out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from array_api_compat import is_numpy_array

from latentia.arrays.namespace import Array, asarray_like, compute_dtype, in_main_memory, namespace, take_rows, to_numpy
from latentia.arrays.parallel import parallel
from latentia.engine.messages import warn_at_caller
from latentia.engine.rows import RowRange, map_rows, rows_per_chunk, split_ranges
from latentia.estimators.base.estimator import StepNotifier, is_learned
from latentia.estimators.base.fitted_model import FittedModel
from latentia.estimators.base.reading import GenerativeInput, PartedInput, TrainingTable
from latentia.estimators.gaussian_mixture import GaussianMixtureClassifier
from latentia.estimators.latent_classification import LatentClassificationModel
from latentia.estimators.latent_classifier.features import (
    Completion,
    KernelMap,
    NumberColumns,
    class_relevance,
    rows_without_cells,
    share_of_gaps,
    with_gap_columns,
)
from latentia.estimators.softmax.multimodal import MultimodalSoftmaxClassifier
from latentia.table.columns import number_columns
from latentia.table.options import check_number
from latentia.table.rows import rows_for_estimator
from latentia.table.standardization import MAX_ROWS as TRANSFORM_ROWS
from latentia.table.standardization import Standardizer, column_moments, learn_power_transform, source_moments
from latentia.table.weights import ALLOWED, FoldsLike, content_keys, folds_by_content, make_folds, sum_of_cubes

#: Tables of more number columns get no covariance matrices, and no softmax of all columns.
MAX_MATRIX_COLUMNS = 100
MAX_SOFTMAX_COLUMNS = 5000

#: Pairs of matrices a class take long for many columns, the more so with gaps.
MAX_PAIR_COLUMNS = 60

#: Factors of the model that completes rows, at most.
MAX_FACTORS = 8

#: Members need no fine convergence: the weights see to their errors. Nor do factors of more binary
#: and categorical columns than this, whose steps take long.
MAX_MIXTURE_STEPS = 60
MANY_BOUNDED, MAX_WIDE_STEPS = 200, 20

#: What is fast settles for more than `tol`, times so much.
FAST_TOL = 3.0

#: What unlabeled rows weigh where they are used.
UNLABELED_WEIGHT = 0.1

#: Precisions of the priors of softmax weights, and how many rows others are compared with.
LINEAR_RIDGE = 3.0
WEAK_RIDGE = 0.3
KERNEL_RIDGE = 10.0
CLOSENESS = 2.0  # of similarities that see what is near alone
MAX_LANDMARKS = {"balanced": 200, "best": 500}

#: Which cells are missing is looked at where at least this share of them is.
MIN_GAPS = 0.01

#: The softmax is convex, and cheap to finish.
SOFTMAX_OPTIONS: dict[str, Any] = {
    "inference": "ml",
    "criterion": "validation",
    "n_init": 1,
    "max_iter": 1000,
    "tol": 1e-7,
}


@dataclass(frozen=True)
class Options:
    """Arguments of the estimator that candidates share."""

    n_init: int
    max_iter: int
    tol: float


class Candidate(ABC):
    """A model to be tried."""

    name: str

    @abstractmethod
    def fit(self, rows: TrainingRows, bases: Sequence[CompletedRows] | None, seed: int) -> list[Member]:
        """A model for each column of weights; `bases` are the rows as the first candidate's models
        complete them.
        """


@dataclass(frozen=True)
class GenerativeCandidate(Candidate):
    """A generative classifier of ours, with settings."""

    name: str
    kind: type[Any]
    settings: dict[str, Any] = field(default_factory=dict)

    def fit(self, rows: TrainingRows, bases: Sequence[CompletedRows] | None, seed: int) -> list[Member]:
        estimator = self.kind(**self.settings, temperature=1.0, random_state=seed)
        rows = rows if estimator.unlabeled_weight > 0 else rows.labeled_only
        data, columns = rows.data, None
        if self.kind is GaussianMixtureClassifier and set(data.encoder.kinds) != {"continuous"}:
            data, columns = rows.as_numbers
        fits = estimator._train_columns(data, rows.weights, np.random.default_rng(seed))
        if columns is None:
            estimator._set_learned(data.attributes | estimator._fitted_attributes(data, fits[-1]))
        last = len(fits) - 1
        return [
            GenerativeMember(fit.model, columns, estimator if columns is None and k == last else None)
            for k, fit in enumerate(fits)
        ]

    def fit_in_parts(self, data: PartedInput, seed: int) -> GenerativeMember:
        """A model of all rows of a table in parts."""
        estimator, columns = self.kind(**self.settings, temperature=1.0, random_state=seed), None
        if self.kind is GaussianMixtureClassifier and set(data.encoder.kinds) != {"continuous"}:
            columns = NumberColumns.from_encoder(data.encoder, data.preprocessor.empty_columns)
            data = as_numbers_in_parts(data, columns)
        fit = estimator._train(data, np.random.default_rng(seed), StepNotifier())
        if columns is None:
            estimator._set_learned(data.attributes | estimator._fitted_attributes(data, fit))
        return GenerativeMember(fit.model, columns, estimator if columns is None else None)


@dataclass(frozen=True)
class SoftmaxCandidate(Candidate):
    """Logistic regression on completed rows, or on their similarities to landmarks."""

    name: str
    ridge: float
    max_landmarks: int = 0  # 0: on the rows themselves
    by_relevance: bool = False  # whether columns count in similarities by what they tell of the classes
    looks_at_gaps: bool = False  # whether it matters which cells are missing
    closeness: float = 1.0  # how many times distances count in similarities

    def fit(self, rows: TrainingRows, bases: Sequence[CompletedRows] | None, seed: int) -> list[Member]:
        assert bases is not None
        return [self._fit(rows, number, base, seed) for number, base in enumerate(bases)]

    def _fit(self, rows: TrainingRows, number: int, base: CompletedRows, seed: int) -> CompletedMember:
        labeled, weight = rows.labeled(number)
        codes, completed, kernel = rows.data.codes[labeled], base.labeled(), None
        if self.looks_at_gaps:
            completed = with_gap_columns(completed, base.labeled_cells())
        if self.max_landmarks:
            numbers = to_numpy(completed).astype(float)
            relevance = class_relevance(numbers, codes, weight) if self.by_relevance else None
            rng = np.random.default_rng(seed)
            kernel = KernelMap.learn(numbers, self.max_landmarks, rng, relevance, weight, self.closeness)
            completed = kernel.similarities(completed)
        model = MultimodalSoftmaxClassifier(
            1, ridge=self.ridge, standardize=kernel is None, unlabeled=None, random_state=seed, **SOFTMAX_OPTIONS
        )
        model.fit(rows_for_estimator(completed), codes, weight)
        return CompletedMember(base.completion, self.looks_at_gaps, kernel, model)


@dataclass(frozen=True)
class CandidateMaker:
    """Makes the candidates for a table."""

    data: GenerativeInput
    options: Options

    @property
    def n_factors(self) -> int:
        return max(0, min(MAX_FACTORS, self.data.X.shape[1] - self.data.preprocessor.n_empty_columns))

    def factors(self, name: str, n_latent: int, unlabeled: float, **settings: Any) -> Candidate:
        """A latent classification model."""
        is_wide = sum(kind != "continuous" for kind in self.data.encoder.modeled_kinds) > MANY_BOUNDED
        max_iter = min(self.options.max_iter, MAX_WIDE_STEPS) if is_wide else self.options.max_iter
        own: dict[str, Any] = {"n_init": self.options.n_init, "tol": self.options.tol}
        own |= {"max_iter": max_iter, "noise": "tied"}
        own |= {"n_latent": n_latent, "unlabeled_weight": unlabeled}
        return GenerativeCandidate(name, LatentClassificationModel, own | settings)

    def gaussians(self, name: str, covariance: str, unlabeled: float, n_components: int = 1) -> Candidate:
        """One or more Gaussians a class."""
        max_iter = min(self.options.max_iter, MAX_MIXTURE_STEPS)
        own: dict[str, Any] = {"n_init": self.options.n_init, "tol": self.options.tol, "max_iter": max_iter}
        own |= {"covariance": covariance, "unlabeled_weight": unlabeled, "n_components": n_components}
        return GenerativeCandidate(name, GaussianMixtureClassifier, own)


def make_candidates(effort: str, data: GenerativeInput, options: Options) -> list[Candidate]:
    """What is tried on this table, in this order; the first also completes rows.

    Of tables with unlabeled rows some learn from them at a tenth of their weight, the others do
    without: where the classes are no clusters, unlabeled rows mislead.
    """
    if effort == "fast":
        options = replace(options, tol=FAST_TOL * options.tol)
    make = CandidateMaker(data, options)
    n_numbers = NumberColumns.from_encoder(data.encoder, data.preprocessor.empty_columns).n_columns
    matrices = n_numbers <= MAX_MATRIX_COLUMNS
    features = 0 < n_numbers <= MAX_SOFTMAX_COLUMNS
    has_unlabeled = bool((data.counted_codes < 0).any())
    found = [make.factors("factors", make.n_factors, UNLABELED_WEIGHT)]
    if features:
        found.append(SoftmaxCandidate("softmax", LINEAR_RIDGE))
    if matrices:
        found.append(make.gaussians("Gaussians, one covariance", "tied", 0.0))
        found.append(make.gaussians("Gaussians, own covariances", "full", 0.0))
    found.append(make.gaussians("Gaussians, no correlations", "diag", 0.0))
    if effort == "fast":
        return found
    has_gaps = share_of_gaps(data.X, data.weight) >= MIN_GAPS
    found.append(make.gaussians("four Gaussians a class, no correlations", "diag", 0.0, 4))
    if features:
        found.append(SoftmaxCandidate("softmax, weak prior", WEAK_RIDGE))
        similar = SoftmaxCandidate("softmax of similarities", KERNEL_RIDGE, MAX_LANDMARKS[effort])
        found.append(similar)
        found.append(replace(similar, name="softmax of similarities by relevance", by_relevance=True))
        found.append(replace(similar, name="softmax of close similarities", closeness=CLOSENESS))
        if has_gaps:
            name = "softmax of similarities and gaps"
            found.append(replace(similar, name=name, by_relevance=True, looks_at_gaps=True))
    if effort == "best" or set(data.encoder.kinds) == {"continuous"}:  # with categories they take their time
        if n_numbers <= (MAX_MATRIX_COLUMNS if effort == "best" else MAX_PAIR_COLUMNS // (1 + has_gaps)):
            found.append(make.gaussians("two Gaussians a class", "full", UNLABELED_WEIGHT, 2))
        few = min(3, make.n_factors)
        found.append(make.factors("factors, four components", few, UNLABELED_WEIGHT, n_components=4, noise="untied"))
    if has_unlabeled:
        found.append(make.factors("factors, labeled rows", make.n_factors, 0.0))
        if matrices:
            found.append(make.gaussians("Gaussians, one covariance, all rows", "tied", UNLABELED_WEIGHT))
    if effort == "best":
        found.append(make.factors("two factors", min(2, make.n_factors), UNLABELED_WEIGHT))
        found.append(make.gaussians("two Gaussians a class, no correlations", "diag", 0.0, 2))
        if matrices:
            found.append(make.gaussians("four Gaussians a class, one covariance", "tied", 0.0, 4))
            found.append(make.gaussians("Gaussians, own covariances, all rows", "full", UNLABELED_WEIGHT))
    return found


class Member(ABC):
    """A fitted candidate."""

    @abstractmethod
    def log_proba(self, X: Array) -> Array:
        """Log p(c | x) of coded rows, (N, C); of rows without a cell the class priors."""

    def published_under(self, log_prior: np.ndarray) -> Self:
        """The same vote, whose estimator, if users see it, answers under other class priors."""
        return self


@dataclass(frozen=True)
class GenerativeMember(Member):
    """A model of p(x, c), which integrates missing cells out."""

    model: FittedModel[Any]
    columns: NumberColumns | None  # between the coded rows and the model; None: nothing
    estimator: Any  # holds the model as users know it; None unless it is one of the coded rows

    def log_proba(self, X: Array) -> Array:
        return self.model.log_proba(X if self.columns is None else self.columns.expand(X))

    def published_under(self, log_prior: np.ndarray) -> Self:
        if self.estimator is None:
            return self
        family, params = copy(self.model.family), self.model.params
        family.fixed_log_prior = log_prior
        params = params._replace(log_prior=asarray_like(log_prior, params.log_prior))
        estimator = copy(self.estimator)
        family, params = family.canonical(params)
        model = replace(self.model, family=family, params=params)
        learned = {name: value for name, value in vars(estimator).items() if is_learned(name)}
        estimator._set_learned(learned | estimator._attributes_of(model))
        return replace(self, estimator=estimator)


@dataclass(frozen=True)
class CompletedMember(Member):
    """A model of p(c | x) on rows that a generative model has completed."""

    completion: Completion
    looks_at_gaps: bool  # whether columns that tell which cells were missing follow
    kernel: KernelMap | None  # of all these columns; None: nothing
    estimator: Any

    def log_proba(self, X: Array) -> Array:
        return self.log_proba_of(self.completion.complete(X), X)

    def log_proba_of(self, rows: Array, X: Array) -> Array:
        """The same of rows X that are complete already."""
        rows = with_gap_columns(rows, X) if self.looks_at_gaps else rows
        rows = rows if self.kernel is None else self.kernel.similarities(rows)
        found = asarray_like(self.estimator._log_proba(rows_for_estimator(rows)), rows)
        xp = namespace(found)
        prior = asarray_like(self.completion.model.params.log_prior, found)
        if found.shape[1] < prior.shape[0]:  # not all classes were among the rows trained on
            places = {int(c): k for k, c in enumerate(self.estimator.classes_)}
            never = xp.full_like(found[:, 0], -np.inf)
            found = xp.stack([found[:, places[c]] if c in places else never for c in range(prior.shape[0])], axis=1)
        return xp.where(rows_without_cells(X)[:, None], prior[None, :], found)


def as_numbers(data: GenerativeInput, columns: NumberColumns) -> GenerativeInput:
    """The input whose categories are columns of zeros and ones."""
    X = columns.expand(data.X)
    moments = column_moments(X, data.weight, compute_dtype(X))
    standardizer = Standardizer.from_moments(*moments)
    is_number = _came_as_numbers(data, columns)
    return replace(
        data,
        X=X,
        moments=moments,
        preprocessor=learn_power_transform(X, data.weight, standardizer, is_number),
        encoder=number_columns(X),
    )


def as_numbers_in_parts(data: PartedInput, columns: NumberColumns) -> PartedInput:
    """The same for a table in parts."""
    rows = data.rows.map_columns(columns.expand, columns.n_columns)
    moments, some = source_moments(rows), rows.spread_rows(TRANSFORM_ROWS)
    standardizer = Standardizer.from_moments(*moments)
    preprocessor = learn_power_transform(some.X, some.weight, standardizer, _came_as_numbers(data, columns))
    encoder = number_columns(some.X)
    return replace(data, parts=rows, moments=moments, preprocessor=preprocessor, encoder=encoder)


def _came_as_numbers(data: TrainingTable, columns: NumberColumns) -> list[bool]:
    """Which of the columns of numbers are no categories."""
    kinds = zip(data.encoder.kinds, columns.n_codes, strict=True)
    return [kind == "continuous" for kind, n in kinds for _ in range(n)]


class SearchFold(NamedTuple):
    """Row numbers of one fold; the fold's rows are scored by models of the other rows."""

    train: np.ndarray
    test: np.ndarray


def check_cv(name: str, cv: FoldsLike) -> None:
    """What `cv` may be."""
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        check_number(name, cv, ge=2, integer=True)
    elif isinstance(cv, str | bytes) or not (cv is None or hasattr(cv, "split") or isinstance(cv, Iterable)):
        raise ValueError(f"{name}={cv!r}; {ALLOWED}.")


def search_folds(
    cv: FoldsLike, data: GenerativeInput, max_rows: int, n_repeats: int, rng: np.random.Generator
) -> list[SearchFold]:
    """The folds of a search; none where no class has rows to spare.

    A number of folds makes them by the rows' content: see `assign_folds`. At most so many labeled
    rows, and as many unlabeled ones, take part.
    """
    chosen = choose_rows(data, max_rows, rng)
    if not (cv is None or isinstance(cv, int | np.integer)):
        given = make_folds(cv, data.codes, data.weight, lambda: int(rng.integers(2**31)))
        return [SearchFold(train[chosen[train]], test[chosen[test]]) for train, test in given if chosen[test].any()]
    n_folds = 5 if cv is None else int(cv)
    rows = np.flatnonzero(chosen)
    some, folds = data.subset(rows), []
    for repeat in range(n_repeats):
        numbers = assign_folds(some, n_folds, power=repeat + 1)
        folds += [SearchFold(rows[numbers != fold], rows[numbers == fold]) for fold in range(n_folds)]
    return [fold for fold in folds if fold.test.size]


def warn_of_never_held_out(classes: np.ndarray, expected: tuple[float, float]) -> None:
    """Tell of classes that what is expected of new rows says nothing about, if it says anything."""
    if not classes.size or np.isnan(expected[0]):
        return
    names = ", ".join(map(repr, classes.tolist()[:10])) + (", ..." if classes.size > 10 else "")
    what = (
        "could not be held out, which takes two different labeled rows of a class: the expected accuracy and log loss "
        "say nothing about them."
    )
    warn_at_caller(f"rows of {names} {what}", in_search=f"rows of rare classes {what}")


def assign_folds(data: GenerativeInput, n_folds: int, power: int = 1) -> np.ndarray:
    """The fold of each row; -1 for rows that are never held out.

    By a row's weighted sum of powers: classes are spread evenly, equal rows share a fold (a row of
    weight two is that row twice, and none is predicted by its own copy), and neither units nor the
    order of rows, columns and classes matter. Unlabeled rows, rows of next to no weight and the
    only row of a class are never held out.
    """
    return folds_by_content(_keys(data, power), data.codes, data.weight, n_folds, seed=power)


def _keys(data: GenerativeInput, power: int) -> np.ndarray:
    """Numbers that tell the contents of rows apart, from cells in standard units."""
    max_rows = rows_per_chunk(3 * data.X.shape[1], data.preprocessor.shift)
    weight = np.ones(data.codes.size) if data.weight is None else data.weight
    ranges = split_ranges([RowRange(0, data.codes.size, None)], max_rows)

    def of_part(rows: RowRange) -> np.ndarray:
        return sum_of_cubes(data.preprocessor.prepare(data.X[rows.as_slice, ...]).values, weight[rows.as_slice])

    cubes = sum(parallel(of_part, ranges, is_numpy_array(data.X))) / weight.sum()
    keys = map_rows(data.X, data.preprocessor.prepare, lambda rows: content_keys(rows.values, cubes, power), max_rows)
    return np.concatenate(list(map(to_numpy, keys)))


def choose_rows(data: GenerativeInput, max_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Which rows take part in a search: all that count, or so many labeled and unlabeled ones.

    A class keeps its share, and at least a few rows.
    """
    counts = np.ones(data.codes.size, bool) if data.weight is None else data.weight > 0
    chosen = counts.copy()
    for labels in ([-1], range(data.n_classes)):
        total = int((counts & np.isin(data.codes, list(labels))).sum())
        if total <= max_rows:
            continue
        for label in labels:
            rows = np.flatnonzero(counts & (data.codes == label))
            keep = min(rows.size, max(10, round(rows.size * max_rows / total)))
            chosen[rows] = False
            chosen[rng.choice(rows, keep, replace=False)] = True
    return chosen


#: Cells of a completed part that are kept for other candidates, at most.
MAX_KEPT = 2**22


@dataclass(frozen=True)
class CompletedRows:
    """The labeled rows that a model was fitted to and those that were held out from it, without
    gaps.
    """

    completion: Completion
    X: Array
    labeled_rows: np.ndarray  # numbers among X
    test_rows: Array | None
    _kept: dict[str, Array] = field(default_factory=dict)

    def labeled(self) -> Array:
        """The labeled rows."""
        return self._kept["labeled"] if "labeled" in self._kept else self._complete("labeled", self.labeled_cells())

    def labeled_cells(self) -> Array:
        """The same with their gaps."""
        return take_rows(self.X, self.labeled_rows)

    def log_proba(self, member: Member) -> Array:
        """What a member says of the rows that were held out."""
        assert self.test_rows is not None
        if not isinstance(member, CompletedMember):
            return member.log_proba(self.test_rows)
        completed = self._kept["test"] if "test" in self._kept else self._complete("test", self.test_rows)
        return member.log_proba_of(completed, self.test_rows)

    def _complete(self, part: str, X: Array) -> Array:
        completed = self.completion.complete(X)
        if completed.shape[0] * completed.shape[1] <= MAX_KEPT:
            self._kept[part] = completed
        return completed


def completed_rows(members: Sequence[Member], rows: TrainingRows, tests: Sequence[Array] = ()) -> list[CompletedRows]:
    """Of each of the first candidate's models, with the rows held out from it, if any."""
    found = []
    for number, member in enumerate(members):
        assert isinstance(member, GenerativeMember)
        test = tests[number] if number < len(tests) else None
        found.append(CompletedRows(Completion.by(member.model), rows.data.X, rows.labeled(number)[0], test))
    return found


@dataclass(frozen=True)
class TrainingRows:
    """Rows, and the weights (N, S) by which S models see them; the last sees them all."""

    data: GenerativeInput
    weights: np.ndarray

    @classmethod
    def whole(cls, data: GenerativeInput) -> TrainingRows:
        """For one model of all rows."""
        weight = np.ones(data.codes.size) if data.weight is None else data.weight
        return cls(data, np.asarray(weight, dtype=float)[:, None])

    def with_folds(self, folds: Sequence[SearchFold]) -> TrainingRows:
        """A model for each fold's training part, before the one of all rows."""
        weight, columns = self.weights[:, -1], []
        for fold in folds:
            column = np.zeros_like(weight)
            column[fold.train] = weight[fold.train]
            columns.append(column)
        return replace(self, weights=np.stack([*columns, weight], axis=1))

    def subset(self, index: np.ndarray) -> TrainingRows:
        """The rows of these numbers."""
        if index.size == self.data.codes.size:
            return self
        weights = self.weights[index]
        return TrainingRows(replace(self.data.subset(index), weight=weights[:, -1]), weights)

    def in_main_memory(self) -> TrainingRows:
        """The same rows for NumPy, which is faster than a device where they are few."""
        data = self.data
        moments, preprocessor = in_main_memory(data.moments), in_main_memory(data.preprocessor)
        return replace(self, data=replace(data, X=to_numpy(data.X), moments=moments, preprocessor=preprocessor))

    @cached_property
    def labeled_only(self) -> TrainingRows:
        """Without the unlabeled rows."""
        return self.subset(np.flatnonzero(self.data.codes >= 0))

    @cached_property
    def as_numbers(self) -> tuple[GenerativeInput, NumberColumns]:
        """The input whose categories are columns of zeros and ones; models that share it see new
        rows in the same units.
        """
        columns = NumberColumns.from_encoder(self.data.encoder, self.data.preprocessor.empty_columns)
        return as_numbers(self.data, columns), columns

    def labeled(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and weights of the labeled rows that a model sees."""
        index = np.flatnonzero((self.data.codes >= 0) & (self.weights[:, number] > 0))
        return index, self.weights[index, number]

    def classes(self, number: int) -> np.ndarray:
        """Codes of the classes that a model sees."""
        return np.unique(self.data.codes[self.labeled(number)[0]])
