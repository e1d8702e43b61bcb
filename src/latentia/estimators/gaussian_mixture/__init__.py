"""Gaussian-mixture classifiers.

`classifier` is the estimator, `model_choice` how numbers of components and covariances are chosen.
"""

from latentia.estimators.gaussian_mixture.classifier import GaussianMixtureClassifier

__all__ = ["GaussianMixtureClassifier"]
