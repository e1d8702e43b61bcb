"""
Curved classes from linear pieces
=================================

Two classes shaped like bananas, each with its end inside the other's bend. Logistic regression has one straight boundary. A softmax with several subclasses per class, and a
mixture of softmax experts, join linear pieces into a bent one. How many pieces they use is chosen on rows held out from training, which is their default.

The background shows the probability of a class, from blue to orange; the black line is where both classes are equally probable. A cross marks the mean of the training rows,
weighted by the probability of one subclass or expert.

Run ``python examples/uses/plot_banana.py [picture.png]``; without an argument the picture opens in a window.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from sklearn.linear_model import LogisticRegression

from latentia import MixtureOfExpertsClassifier, MultimodalSoftmaxClassifier

# %%
# Two arcs, turned by half a turn against each other.
COLORS = ("#0072b2", "#d55e00")


def bananas(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_rows)
    angle = rng.uniform(-0.1, 1.1, n_rows) * np.pi
    X = np.column_stack([np.cos(angle) - 0.5, np.sin(angle) - 0.15]) + 0.2 * rng.normal(size=(n_rows, 2))
    return np.where(y == 1, 1, -1)[:, None] * X, y


X, y = bananas(400, seed=0)
X_test, y_test = bananas(10_000, seed=1)

# %%
# Three models; the last two choose their own size, up to three subclasses per class or three experts.
straight = LogisticRegression().fit(X, y)
softmax = MultimodalSoftmaxClassifier(max_subclasses=3, n_init=5, random_state=0).fit(X, y)
experts = MixtureOfExpertsClassifier(max_experts=3, n_init=5, random_state=0).fit(X, y)
panels = [
    ("logistic regression", straight, None),
    (f"{' + '.join(map(str, softmax.n_subclasses_))} subclasses", softmax, softmax.subclass_proba(X)),
    (f"{experts.n_experts_} experts", experts, experts.expert_proba(X)),
]

# %%
# Probabilities on a grid, the training rows, and the pieces.
across, up = np.linspace(-2.2, 2.2, 221), np.linspace(-1.7, 1.7, 171)
grid = np.stack(np.meshgrid(across, up), axis=-1)
pale = LinearSegmentedColormap.from_list("pale", ["#a6cfe8", "#ffffff", "#f6c5a0"])
figure, axes = plt.subplots(1, 3, figsize=(11, 3.9), sharex=True, sharey=True, layout="constrained")
for axis, (name, model, membership) in zip(axes, panels, strict=True):
    proba = model.predict_proba(grid.reshape(-1, 2))[:, 1].reshape(grid.shape[:2])
    axis.contourf(across, up, proba, levels=np.linspace(0, 1, 21), cmap=pale)
    axis.contour(across, up, proba, levels=[0.5], colors="black", linewidths=1.2)
    for code, color in enumerate(COLORS):
        axis.scatter(*X[y == code].T, s=12, color=color, edgecolors="white", linewidths=0.3, label=f"class {code}")
    if membership is not None:
        centers = membership.T @ X / membership.sum(axis=0)[:, None]
        axis.plot(*centers.T, "X", color="gold", markeredgecolor="black", markersize=10, label="subclass or expert")
    axis.set(title=f"{name}: {1 - model.score(X_test, y_test):.1%} test error", xlabel="$x_1$", aspect="equal")
axes[0].set_ylabel("$x_2$")
figure.legend(*axes[-1].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=100)
else:
    plt.show()
