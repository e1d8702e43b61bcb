"""
Regions of multimodal softmax and mixtures of experts
=====================================================

Two banana-shaped classes. A softmax with several subclasses per class, and a mixture of softmax experts, cut the plane along piecewise linear boundaries; the variational bound chooses how
many pieces there are. The crosses mark where the subclasses or experts are most probable.

With ``LATENTIA_DATA`` set, the published banana benchmark is used (first split: 400 training rows); without it, a look-alike is drawn.
"""

import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.inspection import DecisionBoundaryDisplay

from latentia import MixtureOfExpertsClassifier, MultimodalSoftmaxClassifier


def look_alike(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two arcs that hold each other, with noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_rows)
    angle = rng.uniform(-0.2, 1.2, n_rows) * np.pi
    X = np.where(y == 1, 1, -1)[:, None] * np.column_stack([np.cos(angle) - 0.4, np.sin(angle) - 0.3])
    return X + 0.35 * rng.normal(size=X.shape), y


folder = os.environ.get("LATENTIA_DATA")
if folder:
    with np.load(Path(folder) / "ida_banana.npz") as data:
        X, y = data["X"][data["train_idx"][0]], data["y"][data["train_idx"][0]].astype(int)
        X_test, y_test = data["X"][data["test_idx"][0]], data["y"][data["test_idx"][0]].astype(int)
else:
    (X, y), (X_test, y_test) = look_alike(400), look_alike(4000, seed=1)

softmax = MultimodalSoftmaxClassifier(n_subclasses=3, n_init=5, random_state=0)
likelihood = MultimodalSoftmaxClassifier(n_subclasses=1, inference="ml", random_state=0)
experts = MixtureOfExpertsClassifier(n_experts=4, n_init=5, random_state=0)

figure, axes = plt.subplots(1, 3, figsize=(12, 4), sharex=True, sharey=True, constrained_layout=True)
for axis, model, name in zip(
    axes, (likelihood, softmax, experts), ("logistic regression", "3 + 3 subclasses", "4 experts"), strict=True
):
    model.fit(X, y)
    DecisionBoundaryDisplay.from_estimator(
        model, X, ax=axis, response_method="predict_proba", plot_method="pcolormesh", class_of_interest=model.classes_[1],
        cmap="RdBu_r", vmin=0, vmax=1, alpha=0.7, grid_resolution=150,
    )  # fmt: skip
    DecisionBoundaryDisplay.from_estimator(
        model, X, ax=axis, response_method="predict", plot_method="contour", levels=[model.classes_.mean()], colors="k"
    )
    axis.scatter(*X.T, c=y, cmap="RdBu_r", s=8, edgecolors="k", linewidths=0.3)
    if model is not likelihood:
        proba = model.subclass_proba(X) if model is softmax else model.expert_proba(X)
        centres = (proba**4).T @ X / (proba**4).sum(axis=0)[:, None]
        axis.plot(*centres.T, "X", color="gold", markeredgecolor="k", markersize=10)
    error = 100 * (1 - model.score(X_test, y_test))
    axis.set_title(f"{name}: {error:.1f} % test error")

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=100)
else:
    plt.show()
