"""Where fits end by their tolerance, of which each solver takes its own share."""

from __future__ import annotations

import warnings
from typing import Any

from latentia import (
    GaussianMixtureClassifier,
    LatentClassificationModel,
    MixtureOfExpertsClassifier,
    MixtureOfExpertsRegressor,
    MultimodalSoftmaxClassifier,
    ProbitEmbeddingClassifier,
)

from ..registry import Group
from ..tables import complete, label_matrix, numbers, outputs

SCENARIOS = Group()
ONE: Any = {"n_init": 1, "random_state": 0}
SLOW = ("experts", "linear_experts", "softmax", "softmax_points")


def by_tolerance(make: Any, table: Any, coarse: float, fine: float) -> Any:
    """How many steps two tolerances take, and where they end."""

    def run() -> dict[str, Any]:
        X, y = table()
        found: dict[str, Any] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for tol in (coarse, fine):
                model = make().set_params(tol=tol, max_iter=60).fit(X, y)
                found[f"{tol:g}"] = [model.n_iter_, model.objective_curve_[-1], model.stopping_reason_]
        return found

    return run


def classes() -> Any:
    table = complete()
    return table.X, table.y


def some_classes() -> Any:
    table = numbers()
    return table.X, table.y


def labels() -> Any:
    X, Y, *_ = label_matrix()
    return X, Y


def numbers_to_predict() -> Any:
    X, y, *_ = outputs()
    return X, y


for name, (make, table, coarse, fine) in {
    "mixture": (lambda: GaussianMixtureClassifier(2, covariance="diag", **ONE), classes, 0.3, 0.01),
    "mixture_points": (
        lambda: GaussianMixtureClassifier(2, covariance="full", inference="ml", **ONE),
        classes,
        0.1,
        0.001,
    ),
    "mixture_hybrid": (
        lambda: GaussianMixtureClassifier(1, covariance="diag", objective="hybrid", **ONE),
        classes,
        3.0,
        0.1,
    ),
    "factors": (
        lambda: LatentClassificationModel(1, 2, unlabeled=-1, unlabeled_weight=1.0, **ONE),
        some_classes,
        0.1,
        0.01,
    ),
    "factor_points": (lambda: LatentClassificationModel(1, 2, inference="ml", **ONE), classes, 0.1, 0.01),
    "softmax": (lambda: MultimodalSoftmaxClassifier(2, **ONE), classes, 0.5, 0.1),
    "softmax_points": (lambda: MultimodalSoftmaxClassifier(2, inference="ml", ridge=1.0, **ONE), classes, 3.0, 0.1),
    "experts": (lambda: MixtureOfExpertsClassifier(2, **ONE), classes, 0.5, 0.1),
    "linear_experts": (lambda: MixtureOfExpertsRegressor(2, **ONE), numbers_to_predict, 1.0, 0.1),
    "embedding": (lambda: ProbitEmbeddingClassifier(2, random_state=0), labels, 0.1, 0.001),
}.items():
    SCENARIOS.add(name, by_tolerance(make, table, coarse, fine), rtol=1e-5, is_slow=name in SLOW)
