"""A first look: classifiers side by side on a table with gaps and few labels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from latentia.estimators.gaussian_mixture import GaussianMixtureClassifier
from latentia.estimators.latent_classification.model import LatentClassificationModel
from latentia.evaluation.comparison import compare

GAPS, UNLABELED = 0.3, 0.8


def wine_with_missing(random_state: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The wine table of scikit-learn with cells and labels deleted at random: X, y, and both as
    they were.
    """
    complete, truth = load_wine(return_X_y=True)
    rng = np.random.default_rng(random_state)
    X = np.where(rng.random(complete.shape) < GAPS, np.nan, complete)
    y = np.where(rng.random(truth.shape) < UNLABELED, -1, truth)
    return X, y, complete, truth


def models(random_state: int = 0) -> dict[str, Any]:
    """The classifiers that the demo compares."""
    regression = LogisticRegression(max_iter=1000)
    options: dict[str, Any] = {"unlabeled": -1, "random_state": random_state}
    return {
        "latent classification model": LatentClassificationModel(n_latent=3, **options),
        "Gaussians with a common covariance": GaussianMixtureClassifier(covariance="tied", **options),
        "mean imputation + logistic regression": make_pipeline(SimpleImputer(), StandardScaler(), regression),
        "nearest neighbors + logistic regression": make_pipeline(StandardScaler(), KNNImputer(), regression),
    }


def main() -> None:
    """Fit, compare and report."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    X, y, complete, truth = wine_with_missing()
    print(
        f"Wine table, {X.shape[0]} rows x {X.shape[1]} columns; {np.isnan(X).mean():.0%} of the cells and "
        f"{(y < 0).mean():.0%} of the labels deleted at random.\n\nFive folds, scored on the labeled rows of each:\n"
    )
    candidates = models()
    print(compare(candidates, X, y, cv=5))

    hidden = y < 0
    print("\nFitted on all rows, scored on the rows whose label was deleted:\n")
    for name, model in candidates.items():
        latent = hasattr(model, "score_samples")
        fitted = model.fit(X, y) if latent else model.fit(X[~hidden], y[~hidden])
        print(f"  {name:40s} accuracy {fitted.score(X[hidden], truth[hidden]):.1%}")

    scale = complete.std(axis=0)
    gap = np.isnan(X)
    filled = candidates["latent classification model"].impute(X)
    error = np.sqrt(np.mean(((filled - complete) / scale)[gap] ** 2))
    plain = np.sqrt(np.mean(((np.nanmean(X, axis=0) - complete) / scale)[gap] ** 2))
    print(f"\nDeleted cells filled in with an error of {error:.2f} standard deviations ({plain:.2f} by column means).")
