"""Latent-variable probabilistic classifiers in scikit-learn's conventions."""

from latentia.compare import Comparison, compare
from latentia.completion_display import CompletionDisplay
from latentia.embedding_display import EmbeddingDisplay
from latentia.experts import MixtureOfExpertsClassifier, MixtureOfExpertsRegressor
from latentia.gaussian_mixture import GaussianMixtureClassifier
from latentia.latent_classification import LatentClassificationModel
from latentia.latent_classification_cv import LatentClassificationModelCV
from latentia.multilabel_metrics import known_f1_score, known_hamming_loss
from latentia.multimodal_softmax import MultimodalSoftmaxClassifier
from latentia.probit_embedding import ProbitEmbeddingClassifier

__version__ = "0.1.0"

__all__ = [
    "Comparison",
    "CompletionDisplay",
    "EmbeddingDisplay",
    "GaussianMixtureClassifier",
    "LatentClassificationModel",
    "LatentClassificationModelCV",
    "MixtureOfExpertsClassifier",
    "MixtureOfExpertsRegressor",
    "MultimodalSoftmaxClassifier",
    "ProbitEmbeddingClassifier",
    "compare",
    "known_f1_score",
    "known_hamming_loss",
]
