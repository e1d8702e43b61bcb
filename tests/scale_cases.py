"""Every estimator, and a table of uneven partitions, for tests of files and Dask."""

import numpy as np

import latentia

#: Uneven, with an empty partition and one of a single row.
CHUNKS = (50, 0, 70, 1, 119)

QUICK = {"n_init": 2, "max_iter": 5, "random_state": 0}
#: L-BFGS doubles what differs in the last digits in every step or so, until it converges.
SHORT = {"n_init": 2, "max_iter": 5, "ridge": 0.1, "random_state": 0}
CLASSES = {
    "mixture": latentia.GaussianMixtureClassifier(2, n_init=2, tol=1e-2, random_state=0),
    "mixture, early": latentia.GaussianMixtureClassifier(
        2, objective="conditional", early_stopping=True, validation_fraction=0.3, **QUICK
    ),
    "factors": latentia.LatentClassificationModel(n_components=1, tol=1e-2, random_state=0),
    "factors, early": latentia.LatentClassificationModel(
        1, objective="hybrid", early_stopping=True, validation_fraction=0.3, **QUICK
    ),
    "softmax": latentia.MultimodalSoftmaxClassifier(2, **QUICK),
    "softmax, search": latentia.MultimodalSoftmaxClassifier(max_subclasses=2, max_models=2, **QUICK),
    "softmax, points": latentia.MultimodalSoftmaxClassifier(2, inference="ml", standardize=False, **SHORT),
    "experts": latentia.MixtureOfExpertsClassifier(2, **QUICK),
    "experts, search": latentia.MixtureOfExpertsClassifier(max_experts=2, inference="ml", **QUICK),
    "embedding": latentia.ProbitEmbeddingClassifier(2, max_iter=7, random_state=0),
    "embedding, columns": latentia.ProbitEmbeddingClassifier("evidence", prior="columns", max_iter=7, random_state=0),
    "sizes": latentia.LatentClassificationModelCV([1, 2], [1], cv=2, n_init=1, tol=1e-2, random_state=0),
    "stack": latentia.LatentClassifier(effort="fast", cv=2, tol=1e-2, random_state=0),
}
OUTPUTS = {
    "linear experts": latentia.MixtureOfExpertsRegressor(2, **QUICK),
    "linear experts, search": latentia.MixtureOfExpertsRegressor(max_experts=2, inference="ml", **SHORT),
}


def table(outputs=False, gaps=False):
    """The first partition has no label, the third a single class."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 240)
    X = rng.normal(size=(240, 3)) + 2 * y[:, None] * [1, 0, -1]
    if outputs:
        y = np.column_stack([np.abs(X[:, 0]), X @ [1.0, 2.0, 3.0]]) + 0.1 * rng.normal(size=(240, 2))
        y[:50] = np.nan
        return X, y
    y[:50] = -1
    y[50:120] = np.where(y[50:120] == 1, 1, -1)
    if gaps:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, y
