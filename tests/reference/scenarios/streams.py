"""partial_fit: batches one after the other."""

from __future__ import annotations

from typing import Any

from latentia import GaussianMixtureClassifier, LatentClassificationModel

from ..describe import describe
from ..registry import Group
from ..tables import mixed, numbers

SCENARIOS = Group()


def scenario(name: str, table: Any, model: Any, forgetting: float = 0.7, rtol: float = 1e-6) -> None:
    def run() -> dict[str, Any]:
        made, fitted = table(), model()
        classes = sorted({label for label in made.truth.tolist()})
        for first, last in ((0, 26), (26, 33), (33, len(made.y))):
            told = classes if first == 0 else None
            fitted.partial_fit(
                made.X[first:last],
                made.y[first:last],
                told,
                sample_weight=made.weight[first:last],
                forgetting=forgetting,
            )
        return describe(fitted, made.new) | {"record": fitted.training_record_}

    SCENARIOS.add(name, run, rtol)


FEW: Any = {"max_iter": 3, "n_init": 1, "random_state": 3, "unlabeled_weight": 0.5}
scenario("mixture", numbers, lambda: GaussianMixtureClassifier([2, 1, 1], covariance="full", unlabeled=-1, **FEW))
scenario(
    "mixture_points",
    numbers,
    lambda: GaussianMixtureClassifier(2, covariance="diag", inference="ml", unlabeled=-1, **FEW),
    0.9,
)
scenario(
    "mixture_tied",
    numbers,
    lambda: GaussianMixtureClassifier(2, covariance="tied", unlabeled=-1, priors="uniform", **FEW),
    1.0,
)
scenario(
    "mixture_spherical",
    numbers,
    lambda: GaussianMixtureClassifier(2, covariance="spherical", inference="ml", unlabeled=-1, **FEW),
)
scenario("factors", numbers, lambda: LatentClassificationModel(2, 2, unlabeled=-1, **FEW), 0.6)
scenario(
    "factors_points",
    numbers,
    lambda: LatentClassificationModel(1, 2, unlabeled=-1, inference="ml", noise="untied", **FEW),
)
scenario("factors_mixed", mixed, lambda: LatentClassificationModel(1, 2, kinds={"visits": "count"}, **FEW))
scenario("factors_mixed_points", mixed, lambda: LatentClassificationModel(1, 1, inference="ml", **FEW), 0.8)


@SCENARIOS
def after_a_fit() -> dict[str, Any]:
    table = numbers()
    model = GaussianMixtureClassifier(1, covariance="diag", unlabeled=-1, **FEW).fit(table.X, table.y)
    model.partial_fit(table.X[:30], table.y[:30]).partial_fit(table.X[30:], table.y[30:])
    return describe(model, table.new) | {"summary": model.summary()}
