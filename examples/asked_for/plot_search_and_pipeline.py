"""
Searches and pipelines
======================

The estimators keep scikit-learn's conventions: they go into ``Pipeline``, ``GridSearchCV``, ``cross_val_score`` and ``clone`` as any classifier does, and as they take gaps and text, there
is often nothing to put before them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from latentia import (
    GaussianMixtureClassifier,
    LatentClassificationModel,
    LatentClassificationModelCV,
    SearchResultsDisplay,
)

X, y = load_wine(return_X_y=True, as_frame=True)
rng = np.random.default_rng(0)
X = X.mask(rng.random(X.shape) < 0.2)  # a fifth of the cells is missing

# %%
# A grid over components and shapes of covariances, by cross-validated log loss; gaps and all.
grid = {"n_components": [1, 2], "covariance": ["diag", "tied"]}
search = GridSearchCV(GaussianMixtureClassifier(random_state=0), grid, scoring="neg_log_loss", cv=3).fit(X, y)
print(search.best_params_, f"log loss {-search.best_score_:.3f}")

# %%
# Latent factors as features for another classifier: the first step takes the gaps, so the second has none.
factors = LatentClassificationModel(n_latent=4, random_state=0)
pipeline = make_pipeline(factors, LogisticRegression())
print(f"factors, then logistic regression: accuracy {cross_val_score(pipeline, X, y, cv=3).mean():.3f}")
print(f"the factor model alone:            accuracy {cross_val_score(factors, X, y, cv=3).mean():.3f}")

# %%
# A step's parameters are found by name, as usual.
sizes = GridSearchCV(pipeline, {"latentclassificationmodel__n_latent": [2, 4]}, cv=3).fit(X, y)
print(sizes.best_params_)

# %%
# The search that belongs to the model trains all sizes and folds in batches; its results can be drawn.
own = LatentClassificationModelCV([0, 1, 2, 4], [1], cv=3, scoring="log_loss", random_state=0).fit(X, y)
print(f"chosen: {own.n_latent_} factors, {own.n_components_} component")
SearchResultsDisplay.from_estimator(own)
plt.show()
