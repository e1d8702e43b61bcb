"""
Calibration: is 90 % right nine times out of ten?
=================================================

Class probabilities are used for more than the most probable class: to rank, to weigh costs, to know when to ask somebody. Then 90 % must mean 90 %. Naive Bayes is known for its false
certainty; how do the models of this library compare?
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from latentia import CalibrationDisplay, GaussianMixtureClassifier, LatentClassificationModel

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.6, stratify=y, random_state=1)

# %%
# Points lie on the diagonal where predictions come true as often as they say; the lines are 95 % intervals.
models = {
    "GaussianNB": GaussianNB(),
    "random forest": RandomForestClassifier(100, random_state=0),
    "GaussianMixtureClassifier": GaussianMixtureClassifier(random_state=0),
    "LatentClassificationModel": LatentClassificationModel(random_state=0),
}
figure, axes = plt.subplots(2, 2, figsize=(7.2, 6.6), layout="constrained", sharex=True, sharey=True)
for axis, (name, model) in zip(axes.flat, models.items(), strict=True):
    proba = model.fit(X_train, y_train).predict_proba(X_test)
    CalibrationDisplay.from_predictions(y_test, proba, ax=axis)
    axis.set_title(
        f"{name}\nlog loss {log_loss(y_test, proba):.3f}, accuracy {model.score(X_test, y_test):.3f}", fontsize="medium"
    )
    axis.label_outer()
plt.show()

# %%
# Two things keep the generative models honest: predictions average over the posterior of the parameters, and a temperature says how much a row may speak for its class.
for model in list(models.values())[2:]:
    print(f"{type(model).__name__}: temperature {model.temperature_:.1f}")
