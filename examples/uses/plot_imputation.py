"""
The table without gaps
======================

``impute`` fills missing cells with what the model expects of them, given the known cells of the row and, if you have it, the label. How large is the error, in standard deviations of the
columns, beside scikit-learn's imputers?
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

from latentia import LatentClassificationModel

X, y = load_wine(return_X_y=True)
Z = (X - X.mean(axis=0)) / X.std(axis=0)
warnings.simplefilter("ignore", ConvergenceWarning)  # of the iterative imputer
draw = np.random.default_rng(0).random(Z.shape)

# %%
# The model is told the labels in training; the last line uses them to fill, too.
shares = [0.1, 0.3, 0.5]
errors = {}
for share in shares:
    hidden = draw < share
    gaps = np.where(hidden, np.nan, Z)
    model = LatentClassificationModel(random_state=0).fit(gaps, y)
    filled = {
        "column means": SimpleImputer().fit_transform(gaps),
        "nearest neighbors": KNNImputer().fit_transform(gaps),
        "iterative imputer": IterativeImputer(random_state=0).fit_transform(gaps),
        "impute(X)": model.impute(gaps),
        "impute(X, y)": model.impute(gaps, y),
    }
    for name, table in filled.items():
        errors.setdefault(name, []).append(np.sqrt(np.mean((table - Z)[hidden] ** 2)))
for name, values in errors.items():
    print(f"{name:18}", *(f"{value:.2f}" for value in values))

# %%
figure, axis = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
for (name, values), mark in zip(errors.items(), "xvs^o", strict=True):
    axis.plot(shares, values, marker=mark, label=name)
axis.set(xlabel="share of cells deleted", ylabel="error of the filled cells, in standard deviations")
axis.set_xticks(shares)
axis.legend(frameon=False)
plt.show()

# %%
# A completed table looks more certain than it is. To carry the uncertainty on, draw from the model (``sample``), or leave the gaps to a model that takes them.
