"""
Missing values in a mixture
===========================

A Gaussian mixture knows what a missing cell could have been: the conditional distribution given the cells that are there. So nothing needs to be imputed, in training or in
prediction: the cell is integrated out, and the density of a row is that of its known cells.

Here up to 70 % of the cells of the breast cancer table are deleted at random, in training and in test rows alike. A mixture is compared with the usual detour (mean imputation, then
logistic regression) and with gradient boosting, which has a branch for missing values.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from latentia import GaussianMixtureClassifier

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)

# %%
# One deletion for all: the cells missing at 10 % are missing at 20 %, too.
rng = np.random.default_rng(0)
draw_train, draw_test = rng.random(X_train.shape), rng.random(X_test.shape)
shares = [0.0, 0.1, 0.3, 0.5, 0.7]

models = {
    "Gaussian mixture": GaussianMixtureClassifier(random_state=0),
    "mean imputation, logistic regression": make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression()),
    "gradient boosting": HistGradientBoostingClassifier(max_iter=50, random_state=0),
}
losses = {name: [] for name in models}
for share in shares:
    train = np.where(draw_train < share, np.nan, X_train)
    test = np.where(draw_test < share, np.nan, X_test)
    for name, model in models.items():
        losses[name].append(log_loss(y_test, model.fit(train, y_train).predict_proba(test)))

for name, values in losses.items():
    print(f"{name:38}", *(f"{value:.3f}" for value in values))

# %%
# On complete rows logistic regression is ahead. The more cells are missing, the more it pays to know what they could have been.
figure, axis = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for (name, values), mark in zip(losses.items(), "os^", strict=True):
    axis.plot(shares, values, marker=mark, label=name)
axis.set(xlabel="share of cells deleted", ylabel="log loss on new rows")
axis.legend(frameon=False)
plt.show()

# %%
# A row need not have any cell at all: it then gets the class priors.
mixture = models["Gaussian mixture"]
print(
    "an empty row:", mixture.predict_proba(np.full((1, 30), np.nan)).round(3), "the priors:", mixture.priors_.round(3)
)
