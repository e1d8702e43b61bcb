"""A fresh install answers: fit, predict, impute, save and load, and the command line. Run by ``python3 tasks.py release``."""

import subprocess
import sys
from importlib.metadata import version

import numpy as np
from sklearn.datasets import load_iris, load_wine

import latentia

print({name: version(name) for name in ("latentia", "numpy", "scipy", "scikit-learn", "array-api-compat")})
X, y = load_wine(return_X_y=True)
X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
few = np.where(np.arange(len(y)) % 3 == 0, -1, y)
for model in (
    latentia.GaussianMixtureClassifier(2, unlabeled=-1, random_state=0),
    latentia.GaussianMixtureClassifier(objective="hybrid", random_state=0, unlabeled=-1),
    latentia.LatentClassificationModel(2, unlabeled=-1, random_state=0),
    latentia.LatentClassifier(effort="fast", cv=2, unlabeled=-1, random_state=0),
):
    model.fit(X, few)
    assert model.score(X[few < 0], y[few < 0]) > 0.9, model
    assert not np.isnan(model.impute(X)).any()
    model.save("model.latentia")
    assert np.array_equal(latentia.load("model.latentia").predict_proba(X), model.predict_proba(X))
X, y = load_iris(return_X_y=True)
for model in (
    latentia.ProbitEmbeddingClassifier(),
    latentia.MultimodalSoftmaxClassifier(2, n_init=2, random_state=0),
    latentia.MixtureOfExpertsClassifier(2, n_init=2, random_state=0),
):
    assert model.fit(X, y).score(X, y) > 0.9, model
said = subprocess.run([sys.executable, "-m", "latentia", "--version"], capture_output=True, text=True, check=True)
assert latentia.__version__ in said.stdout
print("works")
