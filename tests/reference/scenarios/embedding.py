"""ProbitEmbeddingClassifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from latentia import ProbitEmbeddingClassifier

from ..describe import at_length, describe
from ..registry import Group
from ..tables import complete, label_matrix

SCENARIOS = Group()


def of_labels(
    name: str,
    *args: Any,
    wide: bool = False,
    as_sparse: bool = False,
    weighted: bool = True,
    rtol: float = 1e-6,
    **options: Any,
) -> None:
    def run() -> dict[str, Any]:
        X, Y, new, new_Y = label_matrix()
        if wide:  # more columns than rows
            spread = np.random.RandomState(2).normal(size=(5, 50))
            X, new = X @ spread, new @ spread
        if as_sparse:
            X, new = (sparse.csr_array(np.where(np.abs(part) < 1.5, 0.0, part)) for part in (X, new))
        weight = np.random.RandomState(4).uniform(0.3, 2.5, X.shape[0]) if weighted else None
        model = ProbitEmbeddingClassifier(*args, **{"max_iter": 12, "random_state": 3, **options}).fit(
            X, Y, sample_weight=weight
        )
        mean, covariance = model.transform(new, return_cov=True)
        found = describe(model, new) | {"position": mean, "covariance": covariance, "predict": model.predict(new)}
        return found if as_sparse else found | at_length(model, new, new_Y)

    SCENARIOS.add(name, run, rtol)


def of_classes(name: str, *args: Any, sizes: tuple[int, ...] = (20, 14, 9), **options: Any) -> None:
    def run() -> dict[str, Any]:
        table = complete(sizes=sizes)
        y = table.y.copy()
        y[::6] = -1
        options_ = {"max_iter": 12, "random_state": 3, "unlabeled": -1, **options}
        model = ProbitEmbeddingClassifier(*args, **options_).fit(table.X, y, sample_weight=table.weight)
        return describe(model, table.new) | at_length(model, table.new, table.new_y)

    SCENARIOS.add(name, run)


for prior in ("entries", "columns", "rows"):
    of_labels(f"labels_{prior}", 2, prior=prior)
    of_labels(f"wide_{prior}", 2, prior=prior, wide=True)
    of_classes(f"classes_{prior}", 2, prior=prior, shape=1.8, scale=0.6)
of_labels("defaults", weighted=False)
of_labels("by_evidence", "evidence", max_iter=10, rtol=1e-5)
of_labels("starts", 2, n_init=3, max_iter=11)
of_labels("semi_supervised", 2, semi_supervised=True, margin=0.6)
of_labels("mean_embedding", 2, averaging="weights", latent_noise=0.5)
of_labels("raw", 1, standardize=False, prior="columns", max_iter=10)
of_labels("sparse", 2, as_sparse=True)
of_labels("sparse_raw", 2, as_sparse=True, standardize=False, prior="rows", max_iter=10)
of_labels("loose", 1, tol=0.05, max_iter=500)
of_classes("two_classes", 1, sizes=(17, 9))
of_classes("two_classes_semi_supervised", 1, sizes=(17, 9), semi_supervised=True, margin=1.4)
of_classes("classes_by_evidence", "evidence", max_iter=10)
of_classes("classes_semi_supervised", 2, semi_supervised=True)


@SCENARIOS
def frames_of_labels() -> dict[str, Any]:
    import pandas as pd

    X, Y, new, _ = label_matrix()
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = ProbitEmbeddingClassifier(2, max_iter=5).fit(frame, pd.DataFrame(Y, columns=["new", "old", "odd"]))
    return describe(model, pd.DataFrame(new, columns=list("abcde"))) | {"summary": model.summary()}


@SCENARIOS
def callbacks() -> dict[str, Any]:
    X, Y, new, _ = label_matrix()
    heard: list[Any] = []

    def callback(step: Any) -> bool:
        heard.append((step.solver, step.iteration, step.value, step.n_running))
        return len(heard) == 4

    model = ProbitEmbeddingClassifier(2, n_init=2, random_state=0, callback=callback).fit(X, Y)
    return {
        "heard": heard,
        "reason": model.stopping_reason_,
        "curve": model.objective_curve_,
        "proba": model.predict_proba(new),
    }
