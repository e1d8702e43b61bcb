"""The model that a search has chosen, and what the search answers by it."""

from __future__ import annotations

from typing import Any, NamedTuple

from sklearn.base import ClassifierMixin

from latentia.estimators.base.delegation import LearnedAttributesMixin, delegated, delegated_on_rows
from latentia.estimators.base.fitting import Attributes
from latentia.estimators.latent_classification.model import LatentClassificationModel
from latentia.estimators.latent_classification.size_search import Setting
from latentia.solvers import Outcome


class SearchedModel(NamedTuple):
    """The model that a search has chosen, and what it has learned."""

    model: LatentClassificationModel
    learned: Attributes
    outcome: Outcome
    setting: Setting
    score: float
    table: Any


class ChosenModelMixin(LearnedAttributesMixin, ClassifierMixin):
    """Predictions of `best_estimator_`."""

    predict = delegated_on_rows(LatentClassificationModel.predict)
    predict_proba = delegated_on_rows(LatentClassificationModel.predict_proba)
    predict_log_proba = delegated_on_rows(LatentClassificationModel.predict_log_proba)
    predict_joint_log_proba = delegated_on_rows(LatentClassificationModel.predict_joint_log_proba)
    score = delegated(LatentClassificationModel.score)
    score_samples = delegated_on_rows(LatentClassificationModel.score_samples)
    responsibilities = delegated_on_rows(LatentClassificationModel.responsibilities)
    impute = delegated_on_rows(LatentClassificationModel.impute)
    sample = delegated(LatentClassificationModel.sample)
    bic = delegated(LatentClassificationModel.bic)
    aic = delegated(LatentClassificationModel.aic)
