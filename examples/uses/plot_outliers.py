"""
Outliers, and the cells that make them
======================================

``score_samples`` is the log density of a row. The least probable rows are unlike all that the model has seen, whatever their class. Digits again: which images look least like any digit,
and can the model tell images whose halves belong to different digits?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from latentia import LatentClassificationModel

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
model = LatentClassificationModel(n_latent=12, marginals="normal", random_state=0).fit(X_train, y_train)

# %%
# Chimeras: the upper half of one image above the lower half of another.
rng = np.random.default_rng(0)
chimeras = np.concatenate([X_test[rng.permutation(len(X_test)), :32], X_test[:, 32:]], axis=1)
usual, odd = model.score_samples(X_test), model.score_samples(chimeras)
auc = roc_auc_score(np.r_[np.zeros(len(usual)), np.ones(len(odd))], -np.r_[usual, odd])
print(f"a chimera has the lower density in {auc:.0%} of pairs")

# %%
# The most and the least probable images of the test half, and a histogram.
ranked = np.argsort(usual)
figure = plt.figure(figsize=(7.6, 4.6), layout="constrained")
grid = figure.add_gridspec(3, 8)
for line, (rows, label) in enumerate([(ranked[:8], "least\nprobable"), (ranked[-8:], "most\nprobable")]):
    for column, row in enumerate(rows):
        axis = figure.add_subplot(grid[line, column])
        axis.imshow(X_test[row].reshape(8, 8), cmap="gray_r")
        axis.set(xticks=[], yticks=[], title=f"{y_test[row]}")
        if column == 0:
            axis.set_ylabel(label)
axis = figure.add_subplot(grid[2, :])
low = np.quantile(odd, 0.02)
axis.hist(
    [usual, odd], bins=np.linspace(low, usual.max(), 50), label=["digits", "chimeras"], histtype="stepfilled", alpha=0.6
)
axis.set(xlabel="log density", ylabel="images")
axis.legend(frameon=False)
plt.show()

# %%
# Compare rows with the same cells known: a row with fewer known cells has a density over fewer dimensions.
