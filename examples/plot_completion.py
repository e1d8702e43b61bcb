"""
Completing an image while it is being disclosed
===============================================

A latent classification model is generative: from the first lines of a digit it tells the class *and* draws the rest. Here it learns scikit-learn's
8 x 8 digits, binarised, and is shown a digit it has not seen, two lines at a time. Below, samples of two classes, one row for each component of the mixture.
"""

# %%
# Ten digits, one pixel per column. The hidden pixels are simply missing cells.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from latentia import CompletionDisplay, LatentClassificationModel

X, y = load_digits(return_X_y=True)
X = (X > 7).astype(int)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
model = LatentClassificationModel(
    15, 2, kinds="binary", n_init=2, max_iter=40, tol=0.02, inner_max_iter=10, inner_tol=1e-3, random_state=0
).fit(X_train, y_train)
print(f"test accuracy {model.score(X_test, y_test):.3f}")

# %%
# Disclosed lines, class probabilities, the expected image, and the most probable pixels given the most probable class.
seven = X_test[np.flatnonzero(y_test == 7)[0]]
display = CompletionDisplay.from_estimator(model, seven, shape=(8, 8), lines=[0, 2, 4, 6, 8])
display.figure_.savefig("completion.png", dpi=120)

# %%
# Samples of two classes, from each component.
figure, axes = plt.subplots(4, 8, figsize=(8, 4), layout="constrained")
for row, (digit, component) in enumerate([(3, 0), (3, 1), (8, 0), (8, 1)]):
    images, _ = model.sample(8, y=digit, component=component)
    for ax, image in zip(axes[row], images, strict=True):
        ax.imshow(np.reshape(image, (8, 8)), cmap="gray")
        ax.set(xticks=[], yticks=[])
    axes[row, 0].set_ylabel(f"{digit}, m={component}")
figure.savefig("samples.png", dpi=120)
