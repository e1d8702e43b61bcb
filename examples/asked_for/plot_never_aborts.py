"""
Fits that never abort
=====================

Real tables have constant columns, columns without a value, doubled columns and rows, classes of one row, and fewer rows than columns. A fit should not end with a singular matrix
because of them. Here each defect is put into the wine table in turn, then all at once, and four models with their default settings are fitted: two of this library, and two of
scikit-learn.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.mixture import GaussianMixture

from latentia import GaussianMixtureClassifier, LatentClassificationModel

X, y = load_wine(return_X_y=True)


def constant_column(X, y):
    return np.column_stack([X, np.full(len(X), 7.0)]), y


def empty_column(X, y):
    return np.column_stack([X, np.full(len(X), np.nan)]), y


def doubled_column(X, y):
    return np.column_stack([X, X[:, 0]]), y


def one_row_class(X, y):
    return np.vstack([X, X[:1]]), np.append(y, 3)


def few_rows(X, y):
    return X[::20], y[::20]


def huge_numbers(X, y):
    return X * 1e12 + 1e15, y


DEFECTS = [constant_column, empty_column, doubled_column, one_row_class, few_rows, huge_numbers]


def all_at_once(X, y):
    for defect in (few_rows, constant_column, empty_column, doubled_column, one_row_class):
        X, y = defect(X, y)
    return X, y


# %%
# Scikit-learn's mixture describes rows without classes, so it gets two components for all rows.
models = {
    "GaussianMixtureClassifier": GaussianMixtureClassifier(2, random_state=0),
    "LatentClassificationModel": LatentClassificationModel(2, random_state=0),
    "GaussianMixture (scikit-learn)": GaussianMixture(2, random_state=0),
    "QDA (scikit-learn)": QuadraticDiscriminantAnalysis(),
}
outcomes = np.zeros((len(models), len(DEFECTS) + 1))
for column, defect in enumerate([*DEFECTS, all_at_once]):
    table, labels = defect(X, y)
    for line, (name, model) in enumerate(models.items()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ours say which column they leave out
            try:
                fitted = model.fit(table, labels)
                outcomes[line, column] = np.isfinite(fitted.predict_proba(table)).all()
            except (ValueError, np.linalg.LinAlgError) as error:
                print(f"{defect.__name__:16}{name}: {str(error).splitlines()[0][:90]}")

# %%
# Blue: a fit with finite probabilities. Scikit-learn's mixture adds ``reg_covar`` to every variance, an absolute number that has to suit the units of the columns; the variance floor of this
# library is relative to each column.
figure, axis = plt.subplots(figsize=(7.2, 2.6), layout="constrained")
axis.imshow(outcomes, cmap="Blues", vmin=-0.3, vmax=1.3, aspect="auto")
axis.set_yticks(range(len(models)), models)
axis.set_xticks(range(len(DEFECTS) + 1), [d.__name__.replace("_", "\n") for d in [*DEFECTS, all_at_once]])
for (line, column), done in np.ndenumerate(outcomes):
    axis.text(column, line, "fits" if done else "fails", ha="center", va="center", color="white" if done else "black")
plt.show()
