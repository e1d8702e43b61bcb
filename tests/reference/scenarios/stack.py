"""LatentClassifier: members, weights, expectations, reasons, label matrices."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from latentia import LatentClassifier
from latentia.estimators.latent_classifier import stacking
from latentia.estimators.latent_classifier.candidates import Options, make_candidates

from ..describe import at_length, describe, fills, learned, refusal
from ..registry import Group
from ..tables import label_matrix, mixed, numbers

SCENARIOS = Group()
LOSSES = [[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [1.5, 3.0, 0.0]]


@cache
def of_numbers() -> LatentClassifier:
    """Fitted once for all scenarios."""
    return fit(numbers())


@cache
def of_mixed() -> LatentClassifier:
    return fit(mixed())


def fit(table: Any, **options: Any) -> LatentClassifier:
    options = {"effort": "fast", "cv": 2, "max_iter": 3, "random_state": 3, **options}
    if table.y.dtype.kind == "i":
        options.setdefault("unlabeled", -1)
    return LatentClassifier(**options).fit(table.X, table.y, sample_weight=table.weight)


def scenario(
    name: str, table: Any, rtol: float = 1e-6, filled: bool = False, is_slow: bool = False, **options: Any
) -> None:
    def run() -> dict[str, Any]:
        made = table()
        model = {"numbers": of_numbers, "mixed": of_mixed}[name]() if filled else fit(made, **options)
        found = learned(model) | {"proba": model.predict_proba(made.new), "predict": model.predict(made.new)}
        if filled:
            found |= (
                describe(model, made.new) | at_length(model, made.new, made.new_y) | fills(model, made.new, made.new_y)
            )
            found |= {"explain": model.explain(made.new[:4]), "summary": model.summary()}
            found |= {"density": type(model.density_estimator_).__name__, "factors": learned(model.factor_estimator_)}
        return found

    SCENARIOS.add(name, run, rtol, is_slow)


scenario("numbers", numbers, filled=True)
scenario("mixed", mixed, filled=True, is_slow=True)
scenario("splitter", numbers, cv=StratifiedKFold(3, shuffle=True, random_state=1), priors="uniform", loss_matrix=LOSSES)
scenario(
    "given_folds",
    lambda: numbers(unlabeled=0.0),
    cv=[(np.arange(30), np.arange(30, 43)), (np.arange(13, 43), np.arange(13))],
)
scenario(
    "given_priors", mixed, priors=[0.2, 0.5, 0.3], max_categories=2, kinds={"visits": "count"}, tol=0.1, max_iter=5
)
scenario(
    "balanced", lambda: numbers(sizes=(13, 9, 7)), effort="balanced", n_init=1, max_iter=2, rtol=1e-5, is_slow=True
)


@SCENARIOS
def candidates() -> dict[str, Any]:
    """What is tried."""
    found: dict[str, Any] = {}
    tables = {"numbers": numbers(), "labeled": numbers(unlabeled=0.0), "mixed": mixed()}
    for name, table in tables.items():
        model = LatentClassifier(unlabeled=-1 if name != "mixed" else None)
        data = model._read_input(table.X, table.y, None)
        for effort in ("fast", "balanced", "best"):
            options = Options(3, 70, 0.01)
            found[f"{name} {effort}"] = " / ".join(
                f"{c.name} {getattr(c, 'settings', '')}{getattr(c, 'ridge', '')} {getattr(c, 'max_landmarks', '')}"
                for c in make_candidates(effort, data, options)
            )
    return found


@SCENARIOS
def labels() -> dict[str, Any]:
    X, Y, new, new_Y = label_matrix()
    X, new = X.copy(), new.copy()
    X[::5, 1] = np.nan
    new[1, 2] = np.nan
    model = LatentClassifier(effort="fast", cv=2, max_iter=4, random_state=0).fit(X, Y)
    found = learned(model) | {
        "proba": model.predict_proba(new),
        "predict": model.predict(new),
        "explain": model.explain(new[:3]),
    }
    found |= {"score": model.score(new, new_Y), "summary": model.summary(), "bic": refusal(model.bic, new, new_Y)}
    return found | {"impute": model.impute(new), "density": model.score_samples(new)}


@SCENARIOS
def callbacks() -> dict[str, Any]:
    table, heard = numbers(), []

    def callback(step: Any) -> bool:
        if hasattr(step, "solver"):
            heard.append((step.solver, step.iteration, step.value, step.n_running))
        else:
            heard.append((step.candidate, step.log_loss, step.accuracy, step.leader, step.best_log_loss))
        return len(heard) == 3

    model = fit(table, callback=callback)
    return {"heard": heard, "board": learned(model)["leaderboard_"], "reason": model.stopping_reason_}


@SCENARIOS
def pieces_of_the_stack() -> dict[str, Any]:
    rng = np.random.RandomState(0)
    log_proba = np.log(rng.dirichlet([1.0, 2.0, 0.7], size=(4, 25)))
    rows = np.r_[np.arange(20), np.arange(5)]
    held_out = stacking.HeldOut(
        rng.randint(0, 3, 25), rng.uniform(0.2, 2.0, 25), np.arange(25) % 3, rows, np.log([0.5, 0.2, 0.3]), log_proba
    )
    stack = stacking.fit_stack(held_out, 20, 1e-2)
    by_others = stacking.predict_held_out(held_out, 20, 1e-2)
    return {
        "stack": stack,
        "equal": stacking.equal_stack(3),
        "pool": stacking.pool(held_out, stack),
        "by_others": by_others,
        "expected": stacking.expected_scores(by_others, held_out),
        "by_row": stacking.proba_by_row(by_others, rows, 22),
        "kept": stacking.without_small(np.array([0.01, 0.6, 0.019, 0.371])),
        "none": stacking.expected_scores(by_others[:0], held_out.subset(np.zeros(25, dtype=bool))),
    }
