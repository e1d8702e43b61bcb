"""
Every display, once
===================

A picture of each display of the library, drawn from data of scikit-learn: the pictures of ``docs/pictures.md``.

Run ``python examples/every_display.py folder``; without an argument the pictures open in windows.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split

from latentia import (
    CalibrationDisplay,
    CompletionDisplay,
    EmbeddingDisplay,
    LatentClassificationModel,
    LatentClassificationModelCV,
    LatentClassifier,
    LatentMapDisplay,
    LoadingsDisplay,
    ObjectiveCurveDisplay,
    ProbitEmbeddingClassifier,
    SearchResultsDisplay,
    StructureDisplay,
)

pictures = {}

# %%
# Wine: three classes, thirteen columns; every sixth label is unknown.
wine = load_wine(as_frame=True)
X, y = wine.data, wine.target_names[wine.target].astype(object)
y[::6] = None
factors = LatentClassificationModel(n_latent=4, random_state=0).fit(X, y)
pictures["latent_map"] = LatentMapDisplay.from_estimator(factors, X, y)
pictures["loadings"] = LoadingsDisplay.from_estimator(factors)
pictures["objective_curve"] = ObjectiveCurveDisplay.from_estimator(factors)

# %%
# The same with learned edges, of a model whose factors feed only the columns that need them.
sparse = LatentClassificationModel(n_latent=3, structure="learn", random_state=0).fit(X, y)
pictures["structure"] = StructureDisplay.from_estimator(sparse)

# %%
# Calibration, on rows that the model has not seen.
cancer = load_breast_cancer(as_frame=True)
train, test, labels, unseen = train_test_split(cancer.data, cancer.target, test_size=0.5, random_state=0)
pictures["calibration"] = CalibrationDisplay.from_estimator(
    LatentClassificationModel(n_latent=3, random_state=0).fit(train, labels), test, unseen
)

# %%
# What a search has tried: sizes, or the candidates of a LatentClassifier.
iris = load_iris(as_frame=True)
search = LatentClassificationModelCV([0, 1, 2, 3], [1, 2], cv=5, search="exhaustive", random_state=0)
pictures["search_results"] = SearchResultsDisplay.from_estimator(search.fit(iris.data, iris.target))
stack = LatentClassifier(random_state=0).fit(iris.data, iris.target)
pictures["leaderboard"] = SearchResultsDisplay.from_estimator(stack)

# %%
# An embedding of digits, and a digit completed as its lines become known.
pixels, digit = load_digits(return_X_y=True)
embedding = ProbitEmbeddingClassifier(2, standardize=False).fit(pixels[:900] / 16, digit[:900])
pictures["embedding"] = EmbeddingDisplay.from_estimator(embedding, pixels[900:] / 16, digit[900:])
bits = (pixels > 7).astype(int)
completed = LatentClassificationModel(8, kinds="binary", random_state=0, tol=0.01).fit(bits[:900], digit[:900])
pictures["completion"] = CompletionDisplay.from_estimator(
    completed, bits[908], shape=(8, 8), lines=np.arange(0, 9, 2), true_class=digit[908]
)

if len(sys.argv) > 1:
    for name, display in pictures.items():
        path = Path(sys.argv[1]) / f"{name}.png"
        display.figure_.savefig(path, dpi=110)
        Image.open(path).convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE).save(
            path, optimize=True
        )  # few colors make small files
else:
    plt.show()
