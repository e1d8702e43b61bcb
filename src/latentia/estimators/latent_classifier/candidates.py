"""Which models are tried, and how each is fitted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from latentia.arrays.namespace import to_numpy
from latentia.estimators.base.callbacks import StepNotifier
from latentia.estimators.base.generative_input import GenerativeInput, PartedInput
from latentia.estimators.base.weight_columns import train_columns
from latentia.estimators.gaussian_mixture import GaussianMixtureClassifier
from latentia.estimators.latent_classification.model import LatentClassificationModel
from latentia.estimators.latent_classifier.completed_rows import CompletedRows
from latentia.estimators.latent_classifier.features import (
    KernelMap,
    NumberColumns,
    class_relevance,
    share_of_gaps,
    with_gap_columns,
)
from latentia.estimators.latent_classifier.members import (
    CompletedMember,
    GenerativeMember,
    Member,
    as_numbers,
    as_numbers_in_parts,
)
from latentia.estimators.latent_classifier.training_rows import TrainingRows
from latentia.estimators.latent_softmax.multimodal import MultimodalSoftmaxClassifier
from latentia.table.rows import rows_for_estimator

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
        rows = rows.with_unlabeled(estimator.unlabeled_weight)
        data, columns = rows.data, None
        if self.kind is GaussianMixtureClassifier and set(data.encoder.kinds) != {"continuous"}:
            columns = NumberColumns.from_encoder(data.encoder, data.preprocessor.empty_columns)
            data = as_numbers(data, columns)
        fits = train_columns(estimator, data, rows.weights, np.random.default_rng(seed))
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
            completed = kernel(completed)
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
