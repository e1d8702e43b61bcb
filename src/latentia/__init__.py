"""Latent-variable probabilistic classifiers in scikit-learn's conventions.

Start with `LatentClassifier`: ``LatentClassifier().fit(table, labels)`` takes data frames and
arrays with gaps, text and unlabeled rows, and has `predict_proba`, `explain`, `impute`,
`score_samples` and `sample`. Single models are `GaussianMixtureClassifier`,
`LatentClassificationModel` (with `LatentClassificationModelCV`), `ProbitEmbeddingClassifier` (also
for label matrices), `MultimodalSoftmaxClassifier`, `MixtureOfExpertsClassifier` and
`MixtureOfExpertsRegressor`.

`compare` ranks classifiers, `write_report` writes a page on a model, the classes named `...Display`
draw, `load` reads what `save` wrote, `scan` is for large tables.
"""

from latentia.apps.report import write_report
from latentia.estimators.gaussian_mixture import GaussianMixtureClassifier
from latentia.estimators.latent_classification import LatentClassificationModel
from latentia.estimators.latent_classification_cv import LatentClassificationModelCV
from latentia.estimators.latent_classifier import LatentClassifier
from latentia.estimators.probit_embedding import ProbitEmbeddingClassifier
from latentia.estimators.softmax.experts import MixtureOfExpertsClassifier, MixtureOfExpertsRegressor
from latentia.estimators.softmax.multimodal import MultimodalSoftmaxClassifier
from latentia.evaluation.compare import Comparison, compare
from latentia.evaluation.multilabel import known_f1_score, known_hamming_loss
from latentia.persistence.model_files import load
from latentia.plot.embedding import EmbeddingDisplay
from latentia.plot.factors import CompletionDisplay, LatentMapDisplay, LoadingsDisplay, StructureDisplay
from latentia.plot.general import CalibrationDisplay, ObjectiveCurveDisplay, SearchResultsDisplay
from latentia.scale.files import scan

__version__ = "0.2.0"

__all__ = [
    "CalibrationDisplay",
    "Comparison",
    "CompletionDisplay",
    "EmbeddingDisplay",
    "GaussianMixtureClassifier",
    "LatentClassificationModel",
    "LatentClassificationModelCV",
    "LatentClassifier",
    "LatentMapDisplay",
    "LoadingsDisplay",
    "MixtureOfExpertsClassifier",
    "MixtureOfExpertsRegressor",
    "MultimodalSoftmaxClassifier",
    "ObjectiveCurveDisplay",
    "ProbitEmbeddingClassifier",
    "SearchResultsDisplay",
    "StructureDisplay",
    "compare",
    "known_f1_score",
    "known_hamming_loss",
    "load",
    "scan",
    "write_report",
]
