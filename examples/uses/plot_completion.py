"""
Completing an image while it is being disclosed
===============================================

A latent classification model is generative: from the first lines of a digit it gives class probabilities *and* draws the rest. Here it learns scikit-learn's
8 x 8 digits, each pixel black or white, and is shown a digit that it has not seen, two lines at a time. Hidden pixels are simply missing cells.

From top to bottom: what is disclosed (blue is hidden), the class probabilities (the true class in orange), the expected image, and the most probable pixels given the most probable class.

Run ``python examples/uses/plot_completion.py [picture.png]``; without an argument the picture opens in a window.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from latentia import CompletionDisplay, LatentClassificationModel

# %%
# Ten classes, one binary column per pixel.
X, y = load_digits(return_X_y=True)
X = (X > 7).astype(int)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
model = LatentClassificationModel(
    15, 2, kinds="binary", n_init=1, max_iter=40, tol=0.02, bound_max_iter=10, bound_tol=1e-3, random_state=0
).fit(X_train, y_train)
print(f"test accuracy {model.score(X_test, y_test):.1%}")

# %%
# An image that is disclosed in five steps.
TRUE_CLASS = 7
image = X_test[np.flatnonzero(y_test == TRUE_CLASS)[0]]
LINES = [0, 2, 4, 6, 8]
figure = plt.figure(figsize=(7.5, 5.8), layout="constrained")
CompletionDisplay.from_estimator(model, image, shape=(8, 8), lines=LINES, true_class=TRUE_CLASS, figure=figure)

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=100)
else:
    plt.show()
