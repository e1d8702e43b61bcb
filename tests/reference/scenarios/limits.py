"""Constants and defaults as they are, and small tables under the rules of large ones: limits of rows, columns and memory set low."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy import sparse
from sklearn import config_context

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
from latentia.arrays import linalg
from latentia.arrays import linalg as entrywise_spd

from ..describe import answers, learned
from ..digest import tree
from ..registry import Group
from ..tables import binary, complete, label_matrix, mixed, numbers, outputs

SCENARIOS = Group()
FEW: Any = {"max_iter": 2, "n_init": 2, "random_state": 0}

#: Limits of the package, and what they are set to.
LOW: list[tuple[str, dict[str, Any]]] = [
    ("engine.rows", {"CACHE_MIB": 0, "MEMO_MIB": 0, "MAX_TASKS": 3}),
    ("engine.rows", {"MIN_SAMPLED": 2}),
    ("arrays.linalg", {"LAPACK_MIN_SIZE": 9, "MAX_BLOCK_SIZE": 16}),
    ("arrays.linalg", {"WORK_FLOATS": 64}),
    ("families.gaussian_mixture.gaps", {"MIN_PATTERN_ROWS": 3}),
    ("families.gaussian_mixture.family", {"SAMPLE_ROWS": 12}),
    ("families.gaussian_mixture.posterior", {"SAMPLE_ROWS": 12}),
    ("families.latent_factors.family", {"WIDE_TABLE_COLUMNS": 2, "MAX_MOMENT_COLUMNS": 2}),
    ("families.latent_factors.family", {"SAMPLE_ROWS": 12}),
    ("families.probit_embedding.projection", {"PAIR_BYTES": 0}),
    ("table.standardization", {"MAX_ROWS": 17}),
    ("table.standardization", {"N_PILOT_ROWS": 9}),
    ("table.columns", {"SCAN_ROWS": 7}),
    ("table.rows", {"ENOUGH": 5, "FIRST": 6}),
    ("estimators.base.reading", {"MAX_ROWS": 17}),
    ("estimators.base.training", {"MAX_HELD_OUT_ROWS": 24, "MIN_LABELED": 9}),
    ("estimators.base.training", {"MAX_TEMPERED_ROWS": 13}),
    ("estimators.latent_classification", {"ACCURACY_ROWS": 15}),
    ("estimators.latent_classifier.classifier", {"EXPLAINED_ROWS": 8}),
    (
        "estimators.latent_classifier.classifier",
        {
            "MAX_SEARCH_ROWS": {"fast": 20},
            "FEW_ROWS": 40,
            "N_REPEATS": {"fast": 2},
        },
    ),
    ("estimators.latent_classifier.candidates", {"MAX_FACTORS": 2}),
    ("estimators.base.summary", {"MAX_LISTED": 2, "MAX_STRONGEST": 1}),
    ("arrays.linalg", {"TILE_ROWS": 4, "SUM_TILE_ROWS": 4}),
]


@contextmanager
def low_limits(remembers: bool = False) -> Iterator[None]:
    """Set low; rows that iterate may remember where they were."""
    with ExitStack() as stack:
        for name, values in LOW:
            if remembers and name == "engine.rows":
                continue
            module = importlib.import_module(f"latentia.{name}")
            for constant, value in values.items():
                assert hasattr(module, constant), f"{name}.{constant} is gone"
                stack.enter_context(patch.object(module, constant, value))
        stack.enter_context(config_context(working_memory=0.015))
        yield


def scenario(name: str, make: Any, is_slow: bool = True, remembers: bool = False) -> None:
    def run() -> dict[str, Any]:
        with low_limits(remembers):
            return make()

    SCENARIOS.add(name, run, 1e-6, is_slow)


def fitted(model: Any, table: Any, y: Any = None) -> dict[str, Any]:
    y = table.y if y is None else y
    if y.dtype.kind == "i":
        model.set_params(unlabeled=-1)
    model.fit(table.X, y, sample_weight=table.weight)
    return (
        learned(model)
        | answers(model, table.new)
        | {"score": model.score(table.new, table.new_y), "summary": model.summary()}
    )


for covariance in ("full", "tied", "diag"):
    scenario(
        f"mixture_{covariance}",
        lambda c=covariance: fitted(GaussianMixtureClassifier(2, covariance=c, **FEW), numbers()),
    )
    scenario(
        f"mixture_{covariance}_points",
        lambda c=covariance: fitted(
            GaussianMixtureClassifier([2, 1, 3], covariance=c, inference="ml", **FEW), numbers()
        ),
    )
scenario(
    "mixture_complete",
    lambda: fitted(GaussianMixtureClassifier(2, covariance="full", inference="ml", **FEW), complete()),
)
scenario(
    "mixture_conditional",
    lambda: fitted(
        GaussianMixtureClassifier(2, covariance="full", objective="conditional", early_stopping=True, **FEW), numbers()
    ),
)
scenario("mixture_components", lambda: fitted(GaussianMixtureClassifier("bic", **FEW), numbers()))
scenario("factors", lambda: fitted(LatentClassificationModel(2, 2, **FEW), numbers()))
scenario("factors_points", lambda: fitted(LatentClassificationModel(2, 2, inference="ml", **FEW), numbers()))
scenario("factors_complete", lambda: fitted(LatentClassificationModel(2, 2, **FEW), complete()))
scenario(
    "factors_complete_points",
    lambda: fitted(LatentClassificationModel(2, 2, inference="ml", noise="untied", **FEW), complete()),
)
scenario("factors_binary", lambda: fitted(LatentClassificationModel(2, 2, kinds="binary", **FEW), binary()))
scenario(
    "factors_mixed",
    lambda: fitted(LatentClassificationModel(2, 1, kinds={"visits": "count"}, unlabeled_weight=0.2, **FEW), mixed()),
)
scenario(
    "factors_mixed_points",
    lambda: fitted(LatentClassificationModel(1, 2, inference="ml", unlabeled_weight=0.2, **FEW), mixed()),
)
scenario(
    "factors_conditional", lambda: fitted(LatentClassificationModel(1, 2, objective="conditional", **FEW), numbers())
)
scenario(
    "factors_importance",
    lambda: fitted(
        LatentClassificationModel(1, 1, kinds="binary", refine="importance", n_importance_samples=9, **FEW), binary()
    ),
)
for kinds, remembered in (("binary", True), ("categorical", True)):
    scenario(
        f"factors_{kinds}_remembered",
        lambda kinds=kinds: fitted(
            LatentClassificationModel(2, 2, kinds=kinds, unlabeled_weight=0.5, inference="ml", **FEW | {"max_iter": 5}),
            binary(),
        ),
        remembers=remembered,
    )
scenario("search", lambda: fitted(LatentClassificationModelCV([1, 2], [1], cv=2, **FEW), numbers()))
scenario(
    "stack", lambda: fitted(LatentClassifier(effort="fast", cv=2, max_iter=2, random_state=0), numbers()), is_slow=True
)
scenario("subclasses", lambda: fitted(MultimodalSoftmaxClassifier([1, 2, 1], **FEW), complete()))
scenario(
    "subclasses_points",
    lambda: fitted(MultimodalSoftmaxClassifier([1, 2, 1], inference="ml", ridge=0.1, **FEW), complete()),
)
scenario("experts", lambda: fitted(MixtureOfExpertsClassifier(2, **FEW), complete()))
scenario("embedding", lambda: fitted(ProbitEmbeddingClassifier(2, max_iter=5), complete()))


def _regression() -> dict[str, Any]:
    X, y, weight, new, new_y = outputs(n_outputs=2)
    model = MixtureOfExpertsRegressor(2, **FEW).fit(X, y, weight)
    return learned(model) | answers(model, new) | {"score": model.score(new, new_y)}


def _sparse() -> dict[str, Any]:
    X, Y, new, _ = label_matrix()
    wide = np.random.RandomState(1).normal(size=(5, 60))
    model = ProbitEmbeddingClassifier(2, max_iter=4).fit(sparse.csr_array(X @ wide), Y)
    return learned(model) | answers(model, sparse.csr_array(new @ wide))


def _explained() -> dict[str, Any]:
    table = numbers()
    model = LatentClassifier(effort="fast", cv=2, max_iter=1, random_state=0).fit(table.X, table.truth)
    return {
        "explain": model.explain(table.new[:5]),
        "impute": model.impute(table.new),
        "proba": model.predict_proba(table.new),
    }


def _inverses() -> dict[str, Any]:
    rng = np.random.RandomState(0)
    found = {}
    for n in (1, 2, 3, 5, 8, 13, 33, 70):
        a = rng.normal(size=(6, n, n + 3))
        matrix = a @ np.swapaxes(a, -1, -2)
        found[f"{n}"] = tree((linalg.spd_inverse(matrix), entrywise_spd.invert_many(matrix)))
    return found


scenario("regression", _regression)
scenario("sparse", _sparse)
scenario("explained", _explained)
scenario("inverses", _inverses, is_slow=False)
