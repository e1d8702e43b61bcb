"""Which models are tried, and how each is fitted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from latentia.estimators.base.callbacks import StepNotifier
from latentia.estimators.base.generative import GenerativeInput
from latentia.estimators.gaussian_mixture import GaussianMixtureClassifier
from latentia.estimators.latent_classification.model import LatentClassificationModel
from latentia.estimators.latent_classifier.features import Completion, NumberColumns
from latentia.estimators.latent_classifier.members import CompletedMember, GenerativeMember, Member, as_numbers
from latentia.estimators.latent_softmax.multimodal import MultimodalSoftmaxClassifier
from latentia.numerics.array_api import take_rows

#: Tables of more number columns get no covariance matrices, and no softmax of all columns.
MAX_MATRIX_COLUMNS = 100
MAX_SOFTMAX_COLUMNS = 1000

#: Factors of the model that completes rows, at most.
MAX_FACTORS = 8

#: Members need no fine convergence: the weights see to their errors.
MAX_MIXTURE_STEPS = 60

#: The softmax is convex, and cheap to finish.
SOFTMAX_OPTIONS: dict[str, Any] = {"inference": "ml", "n_init": 1, "max_iter": 1000, "tol": 1e-7}


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
    def fit(self, data: GenerativeInput, base: Member | None, seed: int) -> Member:
        """The model of these rows; `base` is the first candidate's, which completes rows."""


@dataclass(frozen=True)
class GenerativeCandidate(Candidate):
    """A generative classifier of ours, with settings."""

    name: str
    kind: type[Any]
    settings: dict[str, Any] = field(default_factory=dict)

    def fit(self, data: GenerativeInput, base: Member | None, seed: int) -> GenerativeMember:
        estimator = self.kind(**self.settings, temperature=1.0, random_state=seed)
        columns = None
        if self.kind is GaussianMixtureClassifier and set(data.encoder.kinds) != {"continuous"}:
            columns = NumberColumns.from_encoder(data.encoder, data.preprocessor.empty_columns)
            data = as_numbers(data, columns)
        fitted = estimator._train(data, np.random.default_rng(seed), StepNotifier())
        if columns is None:
            estimator._set_learned(data.attributes | estimator._fitted_attributes(data, fitted))
        return GenerativeMember(fitted.model, columns, None if columns else estimator)


@dataclass(frozen=True)
class SoftmaxCandidate(Candidate):
    """Logistic regression on completed rows, with a normal prior."""

    name: str
    ridge: float

    def fit(self, data: GenerativeInput, base: Member | None, seed: int) -> CompletedMember:
        assert isinstance(base, GenerativeMember)
        completion = Completion.by(base.model)
        labeled = np.flatnonzero(data.codes >= 0)
        weight = None if data.weight is None else data.weight[labeled]
        model = MultimodalSoftmaxClassifier(
            1, ridge=self.ridge, criterion="validation", unlabeled=None, random_state=seed, **SOFTMAX_OPTIONS
        )
        return CompletedMember(
            completion, model.fit(completion(take_rows(data.X, labeled)), data.codes[labeled], weight)
        )


def make_candidates(effort: str, data: GenerativeInput, options: Options) -> list[Candidate]:
    """What is tried on this table, in this order; the first also completes rows."""
    n_columns = data.X.shape[1] - data.preprocessor.n_empty_columns
    n_numbers = NumberColumns.from_encoder(data.encoder, data.preprocessor.empty_columns).n_columns
    has_unlabeled = bool((data.codes < 0).any())
    common = {"n_init": options.n_init, "tol": options.tol}
    factor = common | {"max_iter": options.max_iter}
    mixture = common | {"max_iter": min(options.max_iter, MAX_MIXTURE_STEPS)}
    n_factors = max(0, min(MAX_FACTORS, n_columns))
    matrices = n_numbers <= MAX_MATRIX_COLUMNS

    def factors(name: str, n_latent: int, unlabeled: float, **settings: Any) -> Candidate:
        own = factor | {"n_latent": n_latent, "unlabeled_weight": unlabeled} | settings
        return GenerativeCandidate(name, LatentClassificationModel, own)

    def gaussians(name: str, covariance: str, unlabeled: float, n_components: int = 1) -> Candidate:
        own = mixture | {"covariance": covariance, "unlabeled_weight": unlabeled, "n_components": n_components}
        return GenerativeCandidate(name, GaussianMixtureClassifier, own)

    weight = 0.1
    found = [factors("factors", n_factors, weight)]
    if n_numbers <= MAX_SOFTMAX_COLUMNS:
        found.append(SoftmaxCandidate("softmax", 1.0))
    found.append(
        gaussians("Gaussians, common covariance", "tied", weight)
        if matrices
        else gaussians("Gaussians, independent columns", "diag", weight)
    )
    if effort == "fast":
        return found
    found.append(factors("few factors", min(2, n_factors), weight))
    if matrices:
        found.append(gaussians("Gaussians, own covariances", "full", weight))
        found.append(gaussians("Gaussians, independent columns", "diag", weight))
    found.append(gaussians("two Gaussians a class", "diag", weight, 2))
    if has_unlabeled:
        found.append(factors("factors, labeled rows alone", n_factors, 0.0))
    if effort == "best":
        found.append(factors("two components", min(3, n_factors), weight, n_components=2))
        if matrices:
            found.append(gaussians("two Gaussians a class, own covariances", "full", weight, 2))
    return found
