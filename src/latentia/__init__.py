"""Latent-variable probabilistic classifiers in scikit-learn's conventions."""

from latentia.compare import Comparison, compare
from latentia.experts import MixtureOfExpertsClassifier, MixtureOfExpertsRegressor
from latentia.gaussian_mixture import GaussianMixtureClassifier
from latentia.latent_classification import LatentClassificationModel
from latentia.latent_classification_cv import LatentClassificationModelCV
from latentia.multimodal_softmax import MultimodalSoftmaxClassifier

__version__ = "0.1.0"

__all__ = [
    "Comparison",
    "GaussianMixtureClassifier",
    "LatentClassificationModel",
    "LatentClassificationModelCV",
    "MixtureOfExpertsClassifier",
    "MixtureOfExpertsRegressor",
    "MultimodalSoftmaxClassifier",
    "compare",
]
