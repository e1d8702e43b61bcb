"""
Few labels
==========

Labels are dear, rows are cheap. A generative model learns from rows without a label, too: they show where the classes can be. Mark them by None, NaN, or an integer of your choice.

Three tables, with two, five and twenty labels a class; all other training rows are unlabeled. Beside the library's ``LatentClassifier``: logistic regression, which sees the labeled rows only, and
self-training around it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

from latentia import LatentClassifier

N_LABELS = [2, 5, 20]


def first_labels(y, n, rng):
    """n labels of each class; -1 elsewhere."""
    few = np.full(len(y), -1)
    for c in np.unique(y):
        few[rng.permutation(np.flatnonzero(y == c))[:n]] = c
    return few


# %%
# The same rows are labeled for all.
regression = make_pipeline(StandardScaler(), LogisticRegression())
models = {
    "LatentClassifier": LatentClassifier(effort="fast", unlabeled=-1, random_state=0),
    "logistic regression": regression,
    "self-training": SelfTrainingClassifier(regression, threshold=0.9),
}
tables = {"wine": load_wine, "breast cancer": load_breast_cancer, "iris": load_iris}
losses = {(table, name): [] for table in tables for name in models}
for table, load in tables.items():
    X, y = load(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
    for n in N_LABELS:
        few = first_labels(y_train, n, np.random.default_rng(0))
        for name, model in models.items():
            seen = few >= 0 if model is regression else np.ones(len(few), dtype=bool)
            proba = model.fit(X_train[seen], few[seen]).predict_proba(X_test)
            losses[table, name].append(log_loss(y_test, proba))
for (table, name), values in losses.items():
    print(f"{table:14}{name:20}", *(f"{value:.3f}" for value in values))

# %%
# Unlabeled rows help where classes are groups of rows (wine, iris), and less where they are not.
figure, axes = plt.subplots(1, 3, figsize=(8.4, 3.6), layout="constrained", sharey=True)
for axis, table in zip(axes, tables, strict=True):
    for name, mark in zip(models, "os^", strict=True):
        axis.plot(range(len(N_LABELS)), losses[table, name], marker=mark, label=name)
    axis.set(title=table, xlabel="labels a class", ylim=(0, None))
    axis.set_xticks(range(len(N_LABELS)), N_LABELS)
axes[0].set_ylabel("log loss on new rows")
axes[-1].legend(frameon=False)
plt.show()
