"""LatentClassificationModel: every kind of column and every option away from its default."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentia import LatentClassificationModel

from ..describe import answers, at_length, describe, fills
from ..registry import Group
from ..tables import binary, complete, mixed, numbers

SCENARIOS = Group()

#: Those that are for the matrix.
SLOW = {
    "defaults",
    "mixed_ml",
    "mixed_vb",
    "learned_structure_by_likelihood",
    "without_factors_ml",
    "defaults_mixed",
    "frequent_categories",
    "frequent_share",
    "importance",
    "automatic_weight_of_unlabeled",
}
LOSSES = [[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [1.5, 3.0, 0.0]]
COUNTED = {"visits": "count"}


def fit(table: Any, *args: Any, **options: Any) -> LatentClassificationModel:
    options = {"max_iter": 3, "tol": 1e-5, "n_init": 2, "unlabeled_weight": 0.6, "random_state": 3, **options}
    if table.y.dtype.kind == "i":
        options.setdefault("unlabeled", -1)
    return LatentClassificationModel(*args, **options).fit(table.X, table.y, sample_weight=table.weight)


def scenario(name: str, table: Any, *args: Any, filled: bool = False, rtol: float = 1e-6, **options: Any) -> None:
    def run() -> dict[str, Any]:
        made = table()
        model = fit(made, *args, **options)
        found = describe(model, made.new)
        if filled:
            unknown = -1 if made.y.dtype.kind == "i" else None
            labels = made.new_y.copy()
            labels[1::3] = unknown
            found |= at_length(model, made.new, made.new_y) | fills(model, made.new, labels)
        return found

    SCENARIOS.add(name, run, rtol, is_slow=name in SLOW)


for noise in ("tied", "untied"):
    for inference in ("vb", "ml"):
        scenario(
            f"numbers_{noise}_{inference}", numbers, 2, 2, noise=noise, inference=inference, filled=noise == "untied"
        )
        scenario(f"complete_{noise}_{inference}", complete, 2, 3, noise=noise, inference=inference, marginals="normal")
for inference in ("vb", "ml"):
    scenario(f"mixed_{inference}", mixed, 2, 2, inference=inference, kinds=COUNTED, filled=True)
    scenario(f"binary_{inference}", binary, 2, 2, inference=inference, kinds="binary", filled=inference == "vb")
    scenario(f"without_factors_{inference}", mixed, 0, 3, inference=inference, kinds=COUNTED, filled=inference == "ml")
    scenario(f"without_factors_numbers_{inference}", numbers, 0, 2, inference=inference)
    scenario(f"single_component_{inference}", complete, 3, 1, inference=inference)

scenario("defaults", numbers, max_iter=20, tol=1e-3, n_init="auto", unlabeled_weight="auto")
scenario("defaults_mixed", mixed, max_iter=8, tol=1e-3, n_init="auto")
scenario("many_factors", complete, 6, 1, max_iter=4)
scenario("categorical_numbers", lambda: _rounded(), 1, 1, kinds=["categorical", "ordinal", "continuous", "count"])
scenario("learned_structure", complete, 2, 1, structure="learn", max_iter=6, n_init=2, inference="ml", rtol=1e-5)
scenario(
    "learned_structure_by_likelihood",
    mixed,
    2,
    2,
    structure="learn",
    max_iter=4,
    n_init=1,
    selection="likelihood",
    rtol=1e-5,
)
scenario("conditional", numbers, 2, 2, objective="conditional", inference="ml", noise="untied")
scenario("conditional_mixed", mixed, 1, 2, objective="conditional", kinds=COUNTED)
scenario("conditional_from_posterior", complete, 2, 2, objective="conditional")
scenario("margin", complete, 2, 1, objective="margin", margin=1.6, ramp=1.2)
scenario("hybrid", numbers, 1, 2, objective="hybrid", trade_off=1.8, margin=0.7)
scenario("hybrid_binary", binary, 2, 1, objective="hybrid", trade_off=0.4, ramp=2.0, kinds="binary")
scenario(
    "early_stopping",
    complete,
    2,
    2,
    objective="conditional",
    early_stopping=True,
    validation_fraction=0.3,
    n_iter_no_change=2,
    max_iter=6,
)
scenario("without_factors_conditional", mixed, 0, 3, objective="conditional", max_iter=4)
scenario("ridge", binary, 2, 1, kinds="binary", ridge=2.5, inference="ml")
scenario("ridge_mixed", mixed, 1, 1, ridge=4.0)
scenario("by_likelihood", complete, 2, 2, selection="likelihood", n_init=4, inference="ml")
scenario("uniform_priors", mixed, 1, 1, priors="uniform", temperature=2.2)
scenario("given_priors", numbers, 1, 2, priors=[0.2, 0.5, 0.3], loss_matrix=LOSSES, temperature="auto", filled=True)
scenario("priors_by_class", mixed, 1, 1, priors={"ape": 0.1, "bee": 0.6, "cat": 0.3})
scenario("floor", complete, 3, 1, var_floor=0.5, inference="ml")
scenario("few_categories", mixed, 1, 1, max_categories=3)
scenario("frequent_categories", mixed, 1, 1, min_frequency=5)
scenario("frequent_share", mixed, 1, 1, min_frequency=0.2)
scenario("importance", mixed, 2, 2, refine="importance", n_importance_samples=20, kinds=COUNTED)
scenario(
    "importance_binary", binary, 2, 2, refine="importance", n_importance_samples=15, kinds="binary", inference="ml"
)
scenario("rough_bound", binary, 2, 2, bound_tol=0.2, bound_max_iter=3, kinds="binary", inference="ml")
scenario(
    "automatic_weight_of_unlabeled",
    lambda: numbers(sizes=(26, 20, 12), unlabeled=0.25, seed=11),
    1,
    1,
    unlabeled_weight="auto",
)
scenario("full_weight_of_unlabeled", numbers, 1, 1, unlabeled_weight=1.0)
scenario("to_convergence", complete, 1, 1, max_iter=200, tol=3e-2)


def _rounded() -> Any:
    table = complete()

    def rounded(X: np.ndarray) -> np.ndarray:
        Z = np.abs((X - table.X.mean(0)) / table.X.std(0))
        return np.column_stack([np.minimum(np.round(Z[:, :2] * 1.6), 3), X[:, 2], np.minimum(np.round(X[:, 3]), 40)])

    return table._replace(X=rounded(table.X), new=rounded(table.new))


@SCENARIOS
def transform_of_rows() -> dict[str, Any]:
    """Where rows lie, and how surely."""
    table = numbers()
    model = fit(table, 2, 2)
    found = {
        "proba": model.predict_proba(table.new),
        "z": model.transform(table.new),
        "m": model.responsibilities(table.new),
    }
    return found | {"sample": model.sample(5, component=1), "names": " ".join(model.get_feature_names_out())}


@SCENARIOS
def unknown_categories() -> dict[str, Any]:
    table = mixed()
    model = fit(table, 1, 1)
    new = table.new.copy()
    new.loc[2, "color"] = "violet"
    found = answers(model, new)
    model.set_params(handle_unknown="error")
    try:
        model.predict(new)
    except ValueError as error:
        found["refused"] = str(error)
    return found


@SCENARIOS
def callbacks() -> dict[str, Any]:
    table, heard = mixed(), []

    def callback(step: Any) -> bool:
        heard.append((step.solver, step.iteration, step.value, step.n_running))
        return len(heard) == 3

    model = fit(table, 1, 2, inference="ml", callback=callback)
    return {"heard": heard, "reason": model.stopping_reason_, "curve": model.objective_curve_, "n_iter": model.n_iter_}


@SCENARIOS
def summaries() -> dict[str, Any]:
    return {"mixed": fit(mixed(), 2, 2).summary(), "numbers": fit(numbers(), 2, 1, inference="ml").summary()}
