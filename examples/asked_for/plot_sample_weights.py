"""
Sample weights
==============

Rows of a survey stand for more or fewer people; rows of a sample that was not drawn evenly must be weighted back. Every estimator of this library takes ``sample_weight``, and a
row of weight 2 is that row twice: the same start, the same fit, the same probabilities.

The breast cancer table again. Suppose that large tumors were four times as likely to be recorded as small ones. A density fitted to that sample describes the wrong patients;
with weights it describes the right ones.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

from latentia import GaussianMixtureClassifier

data = load_breast_cancer(as_frame=True)
X, y = data.data[["mean radius", "mean texture", "mean smoothness"]], data.target

# %%
# The distorted sample: above the median radius all rows, below it every fourth. Weights undo this.
large = X["mean radius"] > X["mean radius"].median()
rng = np.random.default_rng(0)
kept = large | (rng.random(len(X)) < 0.25)
weight = np.where(large[kept], 1.0, 4.0)
plain = GaussianMixtureClassifier(2, random_state=0).fit(X[kept], y[kept])
weighted = GaussianMixtureClassifier(2, random_state=0).fit(X[kept], y[kept], sample_weight=weight)
truth = GaussianMixtureClassifier(2, random_state=0).fit(X, y)

print("share of malignant tumors:")
for name, model in [("all rows", truth), ("distorted", plain), ("weighted", weighted)]:
    print(f"  {name:10}{model.priors_[0]:.3f}")

# %%
# The densities of the radius that each model has learned, from samples.
figure, axis = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
bins = np.linspace(6, 28, 45)
for name, model, style in [("all rows", truth, "k-"), ("distorted", plain, "C1--"), ("weighted", weighted, "C0-")]:
    drawn, _ = model.sample(20_000)
    height, _ = np.histogram(drawn["mean radius"], bins, density=True)
    axis.plot(bins[:-1], height, style, drawstyle="steps-post", label=name)
axis.set(xlabel="mean radius", ylabel="density learned")
axis.legend(frameon=False)
plt.show()

# %%
# Weight 2 is that row twice, to rounding:
twice = np.r_[np.arange(300), np.arange(100)]
a = GaussianMixtureClassifier(2, random_state=0).fit(X[:300], y[:300], sample_weight=np.bincount(twice))
b = GaussianMixtureClassifier(2, random_state=0).fit(X.iloc[twice], y.iloc[twice])
print("largest difference of a probability:", f"{np.abs(a.predict_proba(X) - b.predict_proba(X)).max():.0e}")
