"""A first look: classifiers side by side on a table with gaps and few labels, then a report."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from latentia.apps.report import write_report
from latentia.estimators.latent_classification import LatentClassificationModel
from latentia.estimators.latent_classifier import LatentClassifier
from latentia.evaluation.compare import compare

GAPS, UNLABELED = 0.5, 0.2


def table_with_missing(random_state: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The breast cancer table of scikit-learn with cells and labels deleted at random: X, y, and
    both as they were.
    """
    complete, truth = load_breast_cancer(return_X_y=True)
    rng = np.random.default_rng(random_state)
    X = np.where(rng.random(complete.shape) < GAPS, np.nan, complete)
    y = np.where(rng.random(truth.shape) < UNLABELED, -1, truth)
    return X, y, complete, truth


def models(random_state: int = 0) -> dict[str, ClassifierMixin]:
    """The classifiers that the demo compares."""
    regression = LogisticRegression(max_iter=1000)
    options: dict[str, Any] = {"unlabeled": -1, "random_state": random_state}
    return {
        "LatentClassifier (fast)": LatentClassifier(effort="fast", **options),
        "latent classification model": LatentClassificationModel(**options),
        "mean imputation + logistic regression": make_pipeline(SimpleImputer(), StandardScaler(), regression),
        "nearest neighbors + logistic regression": make_pipeline(StandardScaler(), KNNImputer(), regression),
    }


def main() -> None:
    """Fit, compare and report."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    X, y, complete, truth = table_with_missing()
    print(
        f"Breast cancer table, {X.shape[0]} rows x {X.shape[1]} columns; {np.isnan(X).mean():.0%} of the cells and "
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

    best = candidates["LatentClassifier (fast)"]
    print(f"\nLatentClassifier expected {best.expected_accuracy_:.1%} from its own folds.")
    scale = complete.std(axis=0)
    gap = np.isnan(X)
    error = np.sqrt(np.mean(((best.impute(X) - complete) / scale)[gap] ** 2))
    plain = np.sqrt(np.mean(((np.nanmean(X, axis=0) - complete) / scale)[gap] ** 2))
    print(f"Deleted cells filled in with an error of {error:.2f} standard deviations ({plain:.2f} by column means).")

    path = Path(tempfile.mkdtemp(prefix="latentia-")) / "report.html"
    write_report(best, X, y, path, title="Breast cancer, half the cells missing")
    print(f"\nA report on the model: {path}\nOpen it in a browser.")
