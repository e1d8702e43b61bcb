"""LatentClassificationModelCV."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from latentia import LatentClassificationModelCV
from latentia.table.weights import make_folds

from ..describe import at_length, describe, learned
from ..registry import Group
from ..tables import binary, complete, mixed, numbers

SCENARIOS = Group()

#: Those that are for the matrix.
SLOW = {"mixed", "defaults_binary", "greedy"}


def scenario(name: str, table: Any, *args: Any, rtol: float = 1e-6, filled: bool = False, **options: Any) -> None:
    def run() -> dict[str, Any]:
        made = table()
        chosen = {"cv": 2, "max_iter": 2, "n_init": 1, "unlabeled_weight": 0.5, "random_state": 3, **options}
        if made.y.dtype.kind == "i":
            chosen.setdefault("unlabeled", -1)
        model = LatentClassificationModelCV(*args, **chosen).fit(made.X, made.y, sample_weight=made.weight)
        if filled:
            return (
                learned(model)
                | describe(model, made.new)
                | at_length(model, made.new, made.new_y)
                | {"sample": model.sample(3)}
            )
        return learned(model, at_length=False) | {"proba": model.predict_proba(made.new)}

    SCENARIOS.add(name, run, rtol, is_slow=name in SLOW)


scenario("greedy", numbers, [1, 2, 3], [1, 2], patience=1, filled=True)
scenario("exhaustive", complete, [0, 2], [1, 2], search="exhaustive", scoring="log_loss", cv=3)
scenario("objectives", complete, [1], [1], objective=["likelihood", "conditional"], refit_n_init=2)
scenario("ridges", binary, [1, 2], [1], ridge=[0.3, 3.0], kinds="binary", cv=KFold(2))
scenario("mixed", mixed, [0, 1], None, max_iter=1)
scenario("defaults", complete, None, None, patience=1, max_iter=1)
scenario("defaults_binary", binary, None, None, kinds="binary", patience=1, max_iter=1)
scenario("posteriors", complete, [1, 2], [1], inference="vb", noise="untied", selection="likelihood")
scenario("automatic_weight", lambda: numbers(sizes=(22, 16, 10), seed=11), [1], [1], unlabeled_weight="auto")


@SCENARIOS
def callbacks() -> dict[str, Any]:
    table, heard = complete(), []

    def callback(step: Any) -> bool:
        told = (
            ("solver", "iteration", "value")
            if hasattr(step, "solver")
            else ("n_latent", "n_components", "mean_accuracy", "mean_log_loss")
        )
        heard.append([getattr(step, name) for name in told])
        return len(heard) == 2

    model = LatentClassificationModelCV([1, 2, 3], [1], cv=2, max_iter=3, random_state=0, callback=callback).fit(
        table.X, table.y
    )
    return {
        "heard": heard,
        "chosen": (model.n_latent_, model.n_components_),
        "reason": model.stopping_reason_,
        "summary": model.summary(),
    }


@SCENARIOS
def folds() -> dict[str, Any]:
    codes = np.array([0, 1, 2, 0, 1, -1, 0, 1, 2, 0, -1, 0, 1, 0, 2, 0])
    weight = np.where(np.arange(16) == 3, 0.0, 1.0 + np.arange(16) / 7)
    pairs = [([0, 1, 2, 3, 4], [6, 7, 8]), (np.arange(16) > 6, np.arange(16) < 3)]
    return {
        "stratified": [list(fold) for fold in make_folds(3, codes, weight, lambda: 5)],
        "plain": [list(fold) for fold in make_folds(4, codes, None, lambda: 5)],
        "default": [list(fold) for fold in make_folds(None, np.tile([0, 1], 12), None, lambda: 5)],
        "given": [list(fold) for fold in make_folds(pairs, codes, weight, lambda: 5)],
        "splitter": [list(fold) for fold in make_folds(KFold(2), codes, weight, lambda: 5)],
    }
