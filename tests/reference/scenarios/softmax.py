"""MultimodalSoftmaxClassifier and the mixtures of experts."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentia import MixtureOfExpertsClassifier, MixtureOfExpertsRegressor, MultimodalSoftmaxClassifier

from ..describe import at_length, describe
from ..registry import Group
from ..tables import complete, outputs

SCENARIOS = Group()
LOSSES = [[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [1.5, 3.0, 0.0]]
AT_LENGTH = {
    "subclasses",
    "subclasses_ml",
    "subclasses_losses",
    "experts",
    "experts_ml",
    "regression_of_two",
    "regression_ml",
    "experts_deep",
}
MMS, MEC, MER = MultimodalSoftmaxClassifier, MixtureOfExpertsClassifier, MixtureOfExpertsRegressor


def classifier(name: str, kind: Any, *args: Any, rtol: float = 1e-6, weighted: bool = True, **options: Any) -> None:
    def run() -> dict[str, Any]:
        table = complete()
        y = table.y.copy()
        y[::9] = -1
        chosen = {"max_iter": 5, "n_init": 2, "random_state": 3, "unlabeled": -1, **options}
        model = kind(*args, **chosen).fit(table.X, y, sample_weight=table.weight if weighted else None)
        return describe(model, table.new) | (at_length(model, table.new, table.new_y) if name in AT_LENGTH else {})

    SCENARIOS.add(name, run, rtol, is_slow="search" in name)


def regressor(
    name: str, *args: Any, rtol: float = 1e-6, n_outputs: int = 1, weighted: bool = True, **options: Any
) -> None:
    def run() -> dict[str, Any]:
        X, y, weight, new, new_y = outputs(n_outputs=n_outputs)
        chosen = {"max_iter": 5, "n_init": 2, "random_state": 3, **options}
        model = MER(*args, **chosen).fit(X, y, sample_weight=weight if weighted else None)
        mean, std = model.predict(new, return_std=True)
        return (
            describe(model, new)
            | (at_length(model, new, new_y) if name in AT_LENGTH else {})
            | {"std": std, "mean": mean}
        )

    SCENARIOS.add(name, run, rtol, is_slow="search" in name)


classifier("subclasses", MMS, [2, 1, 3])
classifier("subclasses_unweighted", MMS, [1, 2, 1], weighted=False)
classifier("subclasses_ml", MMS, [2, 1, 3], inference="ml", ridge=0.2)
classifier("subclasses_ml_raw", MMS, 2, inference="ml", ridge=0.1, standardize=False, averaging="plugin")
classifier("subclasses_raw", MMS, 1, standardize=False, max_iter=4)
classifier("subclasses_prior", MMS, 2, shape=2.5, rate=0.4)
classifier("subclasses_annealed", MMS, 2, annealing=True, max_iter=4)
classifier("subclasses_losses", MMS, [1, 2, 1], loss_matrix=LOSSES)
classifier("subclasses_one", MMS, 1, max_iter=30)
for averaging in ("posterior", "corrected", "plugin"):
    classifier(f"subclasses_{averaging}", MMS, [2, 1, 1], averaging=averaging)
    classifier(f"experts_{averaging}", MEC, 2, averaging=averaging)
few: Any = {"max_subclasses": 3, "n_init": 1, "max_iter": 4, "rtol": 1e-5}
classifier("search_compressive", MMS, "auto", threshold=[0.05, 0.2], max_models=5, **few)
classifier("search_compressive_by_evidence", MMS, "auto", criterion="evidence", threshold=0.15, **few)
classifier("search_compressive_by_bic", MMS, "auto", criterion="bic", inference="ml", max_rounds=1, **few)
classifier("search_exhaustive", MMS, "auto", search="exhaustive", criterion="evidence", **few | {"max_subclasses": 2})
classifier("search_by_bound", MMS, "auto", criterion="bound", patience=1, **few)
classifier("experts", MEC, 3)
classifier("experts_ml", MEC, 2, inference="ml", ridge=0.15)
classifier("experts_deep", MEC, [2, 2], depth=2, max_iter=4)
classifier("experts_deep_ml", MEC, 2, depth=2, inference="ml", max_iter=4)
classifier("experts_annealed", MEC, 2, annealing=True, shape=1.7, rate=0.6)
classifier("experts_raw", MEC, 2, standardize=False, loss_matrix=LOSSES, max_iter=4)
classifier("experts_search", MEC, "auto", max_experts=3, n_init=1, max_iter=4, patience=1, rtol=1e-5)
classifier(
    "experts_search_by_evidence", MEC, "auto", max_experts=2, n_init=1, max_iter=4, criterion="evidence", rtol=1e-5
)
classifier(
    "experts_search_by_bic",
    MEC,
    "auto",
    max_experts=2,
    n_init=1,
    max_iter=4,
    criterion="bic",
    inference="ml",
    rtol=1e-5,
)
regressor("regression", 2)
regressor("regression_of_two", 3, n_outputs=2)
regressor("regression_ml", 2, inference="ml", ridge=0.2)
regressor("regression_ml_of_two", 2, n_outputs=2, inference="ml")
regressor("regression_deep", 2, depth=2, max_iter=4)
regressor("regression_deep_ml", [2, 1], depth=2, inference="ml", max_iter=4)
regressor("regression_prior", 2, shape=2.0, rate=0.3, annealing=True, weighted=False)
regressor("regression_raw", 2, standardize=False, averaging="plugin")
regressor("regression_search", "auto", max_experts=3, n_init=1, max_iter=4, rtol=1e-5)
regressor(
    "regression_search_by_evidence",
    "auto",
    max_experts=2,
    n_init=1,
    max_iter=4,
    criterion="evidence",
    patience=1,
    rtol=1e-5,
)
regressor(
    "regression_search_by_bic", "auto", max_experts=2, n_init=1, max_iter=4, criterion="bic", inference="ml", rtol=1e-5
)


@SCENARIOS
def equal_rows() -> dict[str, Any]:
    """Rows that come several times."""
    table = complete()
    X, y = np.round(table.X / [1.0, 30.0, 0.02, 5.0]), table.y
    model = MMS([1, 2, 1], n_init=1, max_iter=3, random_state=0).fit(X, y, sample_weight=table.weight)
    return describe(model, np.round(table.new))


@SCENARIOS
def callbacks() -> dict[str, Any]:
    table, heard = complete(), []

    def callback(step: Any) -> bool:
        heard.append((step.solver, step.iteration, step.value, step.n_running))
        return len(heard) == 5

    model = MEC(2, n_init=2, max_iter=9, random_state=1, callback=callback).fit(table.X, table.y)
    return {"heard": heard, "reason": model.stopping_reason_, "curve": model.objective_curve_}


@SCENARIOS
def summaries() -> dict[str, Any]:
    table = complete()
    options: Any = {"n_init": 1, "max_iter": 3, "random_state": 0}
    X, y, *_ = outputs()
    return {
        "subclasses": MMS([1, 2, 1], **options).fit(table.X, table.y).summary(),
        "experts": MER(2, **options).fit(X, y).summary(),
    }
