"""GaussianMixtureClassifier: every option away from its default, points and posteriors."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentia import GaussianMixtureClassifier
from latentia.engine.sweep import Hybrid

from ..describe import answers, at_length, describe, fills
from ..registry import Group
from ..tables import complete, numbers

SCENARIOS = Group()

#: Those that are for the matrix.
SLOW = {"automatic_components_full", "defaults", "automatic_weight_points", "automatic_components", "many_starts"}
LOSSES = [[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [1.5, 3.0, 0.0]]


def fit(table: Any, *args: Any, weighted: bool = True, **options: Any) -> GaussianMixtureClassifier:
    options = {
        "max_iter": 3,
        "tol": 1e-5,
        "n_init": 2,
        "unlabeled": -1,
        "unlabeled_weight": 0.6,
        "random_state": 3,
        **options,
    }
    weight = table.weight if weighted else None
    return GaussianMixtureClassifier(*args, **options).fit(table.X, table.y, sample_weight=weight)


def scenario(name: str, table: Any, *args: Any, filled: bool = False, rtol: float = 1e-6, **options: Any) -> None:
    def run() -> dict[str, Any]:
        model, made = fit(table(), *args, **options), table()
        found = describe(model, made.new)
        if filled:
            found |= at_length(model, made.new, made.new_y) | fills(
                model, made.new, np.where(made.new_y == 1, -1, made.new_y)
            )
        return found

    SCENARIOS.add(name, run, rtol, is_slow=name in SLOW)


for covariance in ("diag", "full", "tied", "spherical"):
    scenario(f"posterior_{covariance}", numbers, [2, 1, 3], covariance=covariance, filled=True)
    scenario(f"point_{covariance}", numbers, [2, 1, 3], covariance=covariance, inference="ml", filled=True)
    scenario(f"posterior_{covariance}_complete", complete, [1, 3, 2], covariance=covariance)
    scenario(
        f"point_{covariance}_complete", complete, [1, 3, 2], covariance=covariance, inference="ml", marginals="normal"
    )
    scenario(f"conditional_{covariance}", numbers, 2, covariance=covariance, objective="conditional", inference="ml")
    scenario(
        f"hybrid_{covariance}",
        complete,
        [2, 1, 2],
        covariance=covariance,
        objective="hybrid",
        trade_off=0.7,
        margin=1.3,
    )

scenario("defaults", numbers, max_iter=50, tol=1e-3, n_init="auto", unlabeled_weight="auto")
scenario("defaults_complete", complete, max_iter=50, tol=1e-3, n_init="auto")
scenario("one_component", numbers, 1, covariance="diag", marginals="normal", weighted=False)
scenario("automatic_covariance", complete, 1, covariance="auto", max_iter=8)
scenario("automatic_components", complete, "bic", covariance="diag", inference="ml", max_iter=8)
scenario("automatic_components_full", numbers, "bic", covariance="full", max_iter=6)
scenario("margin", numbers, 2, objective="margin", margin=2.0, ramp=1.5, covariance="diag")
scenario("margin_without_ramp", complete, 1, objective="margin", margin=0.5, covariance="full")
scenario(
    "hybrid_with_gaps",
    numbers,
    2,
    objective="hybrid",
    trade_off=2.5,
    ramp=0.8,
    margin=0.6,
    covariance="diag",
    unlabeled_weight=0.4,
)
scenario("own_objective", numbers, 2, objective=Hybrid(0.3, 0.9, 2.0), covariance="diag")
scenario(
    "early_stopping",
    numbers,
    2,
    objective="conditional",
    early_stopping=True,
    validation_fraction=0.35,
    n_iter_no_change=2,
    max_iter=8,
)
scenario("uniform_priors", numbers, 1, priors="uniform", covariance="diag")
scenario("given_priors", numbers, 1, priors=[0.2, 0.5, 0.3], covariance="full", loss_matrix=LOSSES)
scenario("priors_by_class", numbers, 1, priors={0: 0.6, 1: 0.1, 2: 0.3}, covariance="tied", inference="ml")
scenario("floor", complete, 3, var_floor=0.4, covariance="diag", inference="ml", max_iter=6)
scenario("floor_full", complete, 2, var_floor=0.4, covariance="full", inference="ml", max_iter=6)
scenario("floor_tied", complete, 2, var_floor=0.4, covariance="tied", inference="ml", max_iter=6)
scenario("floor_spherical", complete, 3, var_floor=0.4, covariance="spherical", inference="ml", max_iter=6)
scenario("weight_of_unlabeled", numbers, 2, unlabeled_weight=0.35, temperature=1.7, covariance="diag")
scenario(
    "automatic_weight_of_unlabeled",
    lambda: numbers(sizes=(26, 20, 12), unlabeled=0.25, seed=11),
    1,
    covariance="diag",
    unlabeled_weight="auto",
)
scenario(
    "automatic_weight_points",
    lambda: numbers(sizes=(26, 20, 12), unlabeled=0.25, seed=11),
    2,
    covariance="full",
    inference="ml",
    unlabeled_weight="auto",
)
scenario("no_iteration_left", numbers, 2, max_iter=1, covariance="diag")
scenario("to_convergence", complete, 1, max_iter=200, tol=1e-2, covariance="full")
scenario("many_starts", complete, 3, n_init=5, covariance="diag", inference="ml", max_iter=3)
scenario("two_classes", lambda: complete(sizes=(17, 9)), 2, covariance="full", temperature="auto")


@SCENARIOS
def curves_and_stops() -> dict[str, Any]:
    """What a callback hears, and what is left when it stops."""
    table, heard = numbers(), []

    def callback(step: Any) -> bool:
        heard.append((step.solver, step.iteration, step.value, step.n_running))
        return len(heard) >= 6

    model = fit(table, 2, covariance="diag", objective="conditional", callback=callback, inference="ml")
    return {
        "heard": heard,
        **answers(model, table.new),
        "reason": model.stopping_reason_,
        "curve": model.objective_curve_,
    }


@SCENARIOS
def params_in_callbacks() -> dict[str, Any]:
    table, heard = numbers(), []
    model = fit(
        table,
        [2, 1, 1],
        covariance="full",
        callback=lambda step: heard.append(step.params()) if step.iteration == 2 else None,
    )
    return {"params": heard[0], "n": len(heard), "curve": model.objective_curve_}


@SCENARIOS
def sampled_components() -> dict[str, Any]:
    table = numbers()
    model = fit(table, 2, covariance="full")
    return {str(k): model.sample(6, component=k) for k in range(2)}


@SCENARIOS
def single_precision() -> dict[str, Any]:
    table = complete()
    model = GaussianMixtureClassifier(2, covariance="full", max_iter=3, n_init=1, random_state=0)
    model.fit(table.X.astype(np.float32), table.y, sample_weight=table.weight)
    return {
        "dtype": str(model.means_.dtype),
        "proba": np.round(model.predict_proba(table.new.astype(np.float32)).astype(float), 3),
    }
