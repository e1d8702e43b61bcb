"""Every public estimator, found by itself, with the settings that laws are tried with and the traits that they ask for.

An estimator has one or more cases. `quick` settings show all of its parts in little time. `settled` ones end at the same place however they
went there: a single optimum found to its last digits, or a few steps from a start that follows the rows.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning

import latentia
from latentia import (
    GaussianMixtureClassifier,
    LatentClassificationModel,
    LatentClassificationModelCV,
    LatentClassifier,
    MixtureOfExpertsClassifier,
    MixtureOfExpertsRegressor,
    MultimodalSoftmaxClassifier,
    ProbitEmbeddingClassifier,
)
from latentia.arrays.namespace import to_numpy
from latentia.scale.tables import is_lazy


class MixedLCM(LatentClassificationModel):
    """A latent classification model that takes two-valued columns of any table for binary ones."""

    def _read_input(self, X: Any, y: Any, sample_weight: Any) -> Any:
        if self.kinds != "auto" or is_lazy(X):
            return super()._read_input(X, y, sample_weight)
        kinds = [
            "binary" if len({v for v in column.tolist() if v == v}) == 2 else "continuous"
            for column in np.asarray(to_numpy(X)).T
        ]
        return clone(self).set_params(kinds=kinds)._read_input(X, y, sample_weight)


class Data(NamedTuple):
    """A small table with something to learn for every kind of estimator; all its sizes differ."""

    X: np.ndarray  # (45, 4): three numbers in units of their own, and a column of two integers
    classes: np.ndarray  # (45,) of 0, 1, 2
    numbers: np.ndarray  # (45,)
    labels: np.ndarray  # (45, 2) of 0 and 1


def make_data() -> Data:
    rng = np.random.default_rng(5)
    y = np.repeat(np.arange(3), (21, 15, 9))
    centers = np.array([[0.0, 1.0, 0.5], [1.6, -0.5, 0.0], [0.2, -1.0, 1.8]])
    Z = centers[y] + rng.normal(size=(y.size, 3)) @ np.array([[1.0, 0.3, 0.0], [0.0, 0.8, 0.4], [0.0, 0.0, 0.7]])
    two = 2.0 + 3.0 * (rng.random(y.size) < np.array([0.2, 0.5, 0.8])[y])
    X = np.column_stack([Z * [1.0, 30.0, 0.01] + [3.0, -50.0, 0.2], two])
    labels = (Z[:, :2] + rng.normal(size=(y.size, 2)) > 0.3).astype(int)
    numbers = np.abs(Z[:, 0]) + 0.5 * Z[:, 1] + 0.2 * rng.normal(size=y.size)
    order = rng.permutation(y.size)
    return Data(X[order], y[order], numbers[order], labels[order])


class Case(NamedTuple):
    """An estimator as laws see it."""

    name: str
    quick: Any
    settled: Any
    target: str = "classes"  # the field of `Data` that it learns
    learns_unlabeled: bool = False  # whether rows without a label change the fit

    def y(self, data: Data) -> np.ndarray:
        return getattr(data, self.target)


FEW = {"n_init": 2, "max_iter": 6, "tol": 1e-3, "random_state": 0}
STEPS = {"n_init": 1, "max_iter": 12, "tol": 0.0, "random_state": 0}
END = {"n_init": 1, "max_iter": 5000, "tol": 1e-10, "random_state": 0}

#: Generative classifiers as the papers have them: the point of maximum likelihood, of columns and rows as they are.
POINTS: dict[str, Any] = {"inference": "ml", "marginals": "normal", "unlabeled_weight": 1.0}

GMM, LCM, LCMCV = GaussianMixtureClassifier, LatentClassificationModel, LatentClassificationModelCV
MEC, MER, MMS = MixtureOfExpertsClassifier, MixtureOfExpertsRegressor, MultimodalSoftmaxClassifier
PEC = ProbitEmbeddingClassifier

#: A public estimator that has no case here fails a test.
CASES = [
    Case("GaussianMixture", GMM(2, **FEW), GMM(1, **END), learns_unlabeled=True),
    Case(
        "GaussianMixture-points",
        GMM(2, **POINTS, **FEW),
        GMM(1, covariance="full", **POINTS, **END),
        learns_unlabeled=True,
    ),
    Case(
        "GaussianMixture-full-hybrid",
        GMM(2, covariance="full", objective="hybrid", **FEW),
        GMM(1, objective="hybrid", **POINTS, **STEPS),
        learns_unlabeled=True,
    ),
    Case("LatentClassification", MixedLCM(1, 2, **FEW), MixedLCM(1, 1, **STEPS), learns_unlabeled=True),
    Case(
        "LatentClassification-continuous",
        LCM(2, 2, kinds="continuous", noise="untied", **FEW),
        LCM(kinds="continuous", **STEPS | {"max_iter": 5}),
        learns_unlabeled=True,
    ),
    Case(
        "LatentClassification-points",
        MixedLCM(1, 2, **POINTS, **FEW),
        MixedLCM(1, 1, **POINTS, **STEPS),
        learns_unlabeled=True,
    ),
    Case(
        "LatentClassification-points-continuous",
        LCM(2, 2, kinds="continuous", noise="untied", **POINTS, **FEW),
        LCM(2, 1, kinds="continuous", noise="untied", **POINTS, **STEPS),
        learns_unlabeled=True,
    ),
    Case(
        "LatentClassificationCV",
        LCMCV([1], [2], kinds="continuous", cv=2, **FEW),
        LCMCV([1], [1], kinds="continuous", cv=2, **POINTS, **STEPS),
        learns_unlabeled=True,
    ),
    Case(
        "LatentClassifier",
        LatentClassifier(effort="fast", cv=2, **FEW | {"max_iter": 5}),
        LatentClassifier(effort="fast", cv=2, kinds="continuous", **STEPS | {"max_iter": 4}),
        learns_unlabeled=True,
    ),
    Case("ExpertsClassifier", MEC(2, **FEW), MEC(1, **END)),
    Case("ExpertsClassifier-ml", MEC(2, inference="ml", **FEW), MEC(1, inference="ml", ridge=0.1, **END)),
    Case("ExpertsRegressor", MER(2, **FEW), MER(1, **END), "numbers"),
    Case("ExpertsRegressor-ml", MER(2, inference="ml", **FEW), MER(1, inference="ml", **END), "numbers"),
    Case("MultimodalSoftmax", MMS(2, **FEW), MMS(1, **END)),
    Case("MultimodalSoftmax-ml", MMS(2, inference="ml", **FEW), MMS(1, inference="ml", ridge=0.1, **END)),
    Case("ProbitEmbedding", PEC(2, **FEW), PEC(1, **STEPS)),
    Case("ProbitEmbedding-multilabel", PEC(2, **FEW), PEC(2, prior="columns", **STEPS), "labels"),
    Case(
        "ProbitEmbedding-semi",
        PEC(2, semi_supervised=True, **FEW),
        PEC(1, prior="rows", semi_supervised=True, **STEPS),
        learns_unlabeled=True,
    ),
]


def public_estimators() -> set[type]:
    """What the package offers to users."""
    public = [getattr(latentia, name) for name in latentia.__all__]
    return {c for c in public if inspect.isclass(c) and issubclass(c, BaseEstimator)}


def _has(option: str) -> Callable[[Case], bool]:
    return lambda case: option in case.quick.get_params()


#: What a law may ask of an estimator.
TRAITS: dict[str, Callable[[Case], bool]] = {
    "classifier": lambda case: is_classifier(case.quick) and case.target == "classes",
    "regressor": lambda case: is_regressor(case.quick),
    "multilabel": lambda case: case.target == "labels",
    "generative": lambda case: hasattr(case.quick, "sample") and "objective" in case.quick.get_params(),  # of one model
    "points": lambda case: case.quick.get_params().get("inference") == "ml",
    "posteriors": lambda case: case.quick.get_params().get("inference") == "vb",
    "conditional": lambda case: not hasattr(case.quick, "sample"),
    "takes gaps": lambda case: case.quick.__sklearn_tags__().input_tags.allow_nan,
    "refuses gaps": lambda case: not case.quick.__sklearn_tags__().input_tags.allow_nan,
    "learns unlabeled": lambda case: case.learns_unlabeled,
    "no use of unlabeled": lambda case: not case.learns_unlabeled and case.target != "labels",
    "has loss matrix": _has("loss_matrix"),
    "has priors": _has("priors"),
    "has criterion": _has("criterion"),
    "searches sizes": _has("refit_n_init"),
    "has bic": lambda case: hasattr(case.quick, "bic"),
    "embeds": _has("latent_noise"),
    "streams": lambda case: hasattr(case.quick, "partial_fit"),
}


def answer(model: Any, X: Any) -> np.ndarray:
    """All that a fitted model says of rows."""
    return (
        model.predict_proba(X) if hasattr(model, "predict_proba") else np.stack(model.predict(X, return_std=True), -1)
    )


def quietly(fit: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A fit whose few steps are no reason to warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit(*args, **kwargs)


def brief(case: Case) -> Any:
    """For laws of what is done alike from the first step on: two ways to the same sums part by rounding alone."""
    return clone(case.settled).set_params(max_iter=3)


class Fits:
    """Fitted cases, each fitted once and left as it is."""

    def __init__(self, data: Data):
        self.data = data
        self.found: dict[tuple[str, str], Any] = {}

    def __call__(self, case: Case, which: str) -> Any:
        return self._once((case.name, which), getattr(case, which), case.y(self.data))

    def of_two_classes(self, case: Case) -> Any:
        """A few steps with the first class against the others."""
        few = clone(case.settled).set_params(max_iter=2)
        return self._once((case.name, "two classes"), few, np.minimum(case.y(self.data), 1))

    def brief(self, case: Case) -> Any:
        """The first steps of the settled settings."""
        return self._once((case.name, "brief"), brief(case), case.y(self.data))

    def _once(self, key: tuple[str, str], model: Any, y: np.ndarray) -> Any:
        if key not in self.found:
            self.found[key] = quietly(clone(model).fit, self.data.X, y)
        return self.found[key]
