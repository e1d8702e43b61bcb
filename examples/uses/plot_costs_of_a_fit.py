"""
What a fit costs
================

Seconds of one fit to 142 rows of the breast cancer table (30 columns) with default settings, beside logistic regression, a forest and boosting, and the log loss on its other 427
rows. Times are those of the machine that built this page; compare them with each other.
"""

import time

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from latentia import (
    GaussianMixtureClassifier,
    LatentClassificationModel,
    LatentClassifier,
    MixtureOfExpertsClassifier,
    MultimodalSoftmaxClassifier,
    ProbitEmbeddingClassifier,
)

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=142, stratify=y, random_state=0)
models = {
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
    "boosting": HistGradientBoostingClassifier(random_state=0),
    "forest, 300 trees": RandomForestClassifier(300, random_state=0),
    "GaussianMixtureClassifier": GaussianMixtureClassifier(random_state=0),
    "LatentClassificationModel": LatentClassificationModel(random_state=0),
    "ProbitEmbeddingClassifier": ProbitEmbeddingClassifier(random_state=0),
    "MultimodalSoftmaxClassifier": MultimodalSoftmaxClassifier(random_state=0),
    "MixtureOfExpertsClassifier": MixtureOfExpertsClassifier(random_state=0),
    "LatentClassifier, fast": LatentClassifier(effort="fast", random_state=0),
    "LatentClassifier": LatentClassifier(random_state=0),
}

# %%
# Processor time, which does not depend on what else the machine does.
seconds, losses = [], []
for name, model in models.items():
    start = time.process_time()
    model.fit(X_train, y_train)
    seconds.append(time.process_time() - start)
    losses.append(log_loss(y_test, model.predict_proba(X_test)))
    print(f"{name:30}{seconds[-1]:7.2f} s   log loss {losses[-1]:.3f}")

# %%
figure, axis = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
for name, second, loss in zip(models, seconds, losses, strict=True):
    ours = name.startswith(tuple("GLMP"))
    axis.semilogx(second, loss, "o" if ours else "s", color="C0" if ours else "C1")
    axis.annotate(name, (second, loss), xytext=(5, 4), textcoords="offset points", fontsize="small")
axis.set(xlabel="seconds of processor time of a fit", ylabel="log loss on new rows")
axis.set_xlim(right=max(seconds) * 12)
plt.show()
