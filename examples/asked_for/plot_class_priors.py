"""
Class mixtures with priors
==========================

A mixture for each class and a prior for each class: that is a classifier by Bayes' rule. The prior is a parameter, so a model that was trained on as many sick as healthy people can
be used where one in twenty is sick, without training again on other rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from latentia import CalibrationDisplay, GaussianMixtureClassifier

X, y = load_breast_cancer(return_X_y=True)  # 0 is malignant
X = X[:, :10]
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)

# %%
# Training rows as in a case-control study: as many malignant as benign ones. In use, 5 % are malignant.
rng = np.random.default_rng(0)
balanced = np.concatenate([rng.choice(np.flatnonzero(y_train == c), 100, replace=False) for c in (0, 1)])
benign = np.flatnonzero(y_test == 1)
malignant = rng.choice(np.flatnonzero(y_test == 0), round(len(benign) / 19), replace=False)
in_use = np.concatenate([benign, malignant])

# %%
# The same rows, three priors: counted in training (one half), given, and given by name of the class.
options = {"n_components": 2, "random_state": 0}
counted = GaussianMixtureClassifier(**options).fit(X_train[balanced], y_train[balanced])
given = GaussianMixtureClassifier(priors=[0.05, 0.95], **options).fit(X_train[balanced], y_train[balanced])
by_name = GaussianMixtureClassifier(priors={0: 0.05, 1: 0.95}, **options).fit(X_train[balanced], y_train[balanced])
assert np.array_equal(given.predict_proba(X_test), by_name.predict_proba(X_test))
for name, model in [("counted", counted), ("given", given)]:
    proba = model.predict_proba(X_test[in_use])
    print(
        f"{name:8} prior of malignant {model.priors_[0]:.2f}, mean probability {proba[:, 0].mean():.3f} "
        f"(truth {np.mean(y_test[in_use] == 0):.3f}), log loss {log_loss(y_test[in_use], proba):.3f}"
    )

# %%
# Probabilities of malignant tumors where the models are used.
figure, axes = plt.subplots(1, 2, figsize=(7.6, 3.8), layout="constrained", sharey=True)
for axis, (name, model) in zip(axes, [("prior counted", counted), ("prior given", given)], strict=True):
    CalibrationDisplay.from_estimator(model, X_test[in_use], y_test[in_use], ax=axis)
    axis.set_title(name)
plt.show()
