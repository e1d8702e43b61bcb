"""Estimators at the edges: one class, few rows, rows that come again, other array libraries, pickles, progress."""

from __future__ import annotations

import io
import pickle
import sys
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy import sparse

import latentia
from latentia import (
    GaussianMixtureClassifier,
    LatentClassificationModel,
    LatentClassificationModelCV,
    LatentClassifier,
    MixtureOfExpertsRegressor,
    MultimodalSoftmaxClassifier,
    ProbitEmbeddingClassifier,
)
from latentia.arrays import linalg
from latentia.arrays import linalg as entrywise_spd
from latentia.arrays import linalg as packed_symmetric
from latentia.arrays import namespace as logspace
from latentia.arrays import namespace as special
from latentia.arrays.namespace import to_numpy
from latentia.arrays.parallel import n_threads, one_thread, parallel
from latentia.engine.rows import ArraySource
from latentia.estimators.base import estimator as progress_line
from latentia.estimators.latent_classification import stratified_sample
from latentia.estimators.latent_classifier import classifier as stack_options
from latentia.estimators.latent_classifier.classifier import reasons_array
from latentia.solvers import Step

from ..describe import answers, describe, learned, refusal
from ..digest import tree
from ..registry import Group
from ..tables import binary, complete, label_matrix, numbers, outputs

SCENARIOS = Group()
FEW: Any = {"max_iter": 3, "n_init": 1, "random_state": 0}


@SCENARIOS
def one_class() -> dict[str, Any]:
    table = complete()
    y = np.full(43, "only")
    found = {}
    for model in (
        GaussianMixtureClassifier(2, covariance="full", **FEW),
        LatentClassificationModel(1, 1, **FEW),
        ProbitEmbeddingClassifier(1, max_iter=2),
        LatentClassifier(effort="fast", cv=2, max_iter=2, random_state=0),
    ):
        model.fit(table.X, y)
        found[type(model).__name__] = answers(model, table.new[:4])
    found["LatentClassifier"].pop("predict_joint_log_proba")  # all members are equally good, and one of them is asked
    found["LatentClassifier"].pop("impute")
    return found


@SCENARIOS.with_(is_slow=True)
def few_rows() -> dict[str, Any]:
    """Two rows a class, and a class of one row."""
    table = complete()
    rows = np.array([0, 1, 2, 3, 4, 5, 6])
    y = np.array(["a", "b", "a", "b", "c", "a", None], dtype=object)
    found = {}
    for name, model in {
        "mixture": GaussianMixtureClassifier(1, **FEW),
        "points": GaussianMixtureClassifier(1, covariance="full", inference="ml", **FEW),
        "factors": LatentClassificationModel(1, 1, **FEW),
        "stack": LatentClassifier(effort="fast", cv=2, max_iter=2, random_state=0),
        "softmax": MultimodalSoftmaxClassifier(1, **FEW),
    }.items():
        found[name] = describe(model.fit(table.X[rows], y), table.new[:3])
    return found


@SCENARIOS.with_(is_slow=True)
def stacks_without_folds() -> dict[str, Any]:
    table = numbers(sizes=(9, 7, 4))
    y = np.array([0, 1, 2] + [-1] * 17)
    model = LatentClassifier(effort="fast", cv=2, max_iter=2, random_state=0, unlabeled=-1).fit(table.X, y)
    found = learned(model) | {"proba": model.predict_proba(table.new)}
    limits = {"fast": 12, "balanced": 12, "best": 12}
    with patch.object(stack_options, "MAX_SEARCH_ROWS", limits):
        some = LatentClassifier(effort="fast", cv=2, max_iter=2, random_state=0).fit(table.X, table.truth)
    missing = LatentClassifier(effort="fast", cv=[(np.arange(9, 20), np.arange(9))], max_iter=2, random_state=0)
    order = np.argsort(table.truth, kind="stable")
    missing.fit(table.X[order], table.truth[order])
    return found | {
        "some": learned(some),
        "some_proba": some.predict_proba(table.new),
        "absent_class": learned(missing),
    }


@SCENARIOS.with_(is_slow=True)
def reasons() -> dict[str, Any]:
    import polars

    table = numbers()
    columns = {name: table.X[:, k] for k, name in enumerate("abcd")}
    model = LatentClassifier(effort="fast", cv=2, max_iter=2, random_state=0).fit(
        polars.DataFrame(columns), table.truth
    )
    told = model.explain(polars.DataFrame({name: table.new[:3, k] for k, name in enumerate("abcd")}))
    return {"columns": " ".join(told.columns), "array": reasons_array(told), "plain": reasons_array(np.ones((2, 3, 2)))}


@SCENARIOS.with_(is_slow=True)
def pickles() -> dict[str, Any]:
    table = complete()
    search = LatentClassificationModelCV([1, 2], [1], cv=2, **FEW).fit(table.X, table.y)
    stack = LatentClassifier(effort="fast", cv=2, max_iter=2, random_state=0).fit(table.X, table.y)
    found = {}
    for name, model in {"search": search, "stack": stack}.items():
        back = pickle.loads(pickle.dumps(model))
        found[name] = learned(back, at_length=False) | {"proba": back.predict_proba(table.new)}
    return found


@SCENARIOS
def progress() -> dict[str, Any]:
    """A line on a terminal, once a fit is slow."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    times = iter([0.0, 10.0, 31.0, 31.2, 95.0, 200.0, 201.0])
    out = Terminal()
    with patch.object(progress_line, "clock", lambda: next(times)), patch.object(sys, "stderr", out):
        line = progress_line.ProgressLine("Model")
        for k in range(5):
            line(Step("EM", k + 1, -3.25 * k, 1, lambda: None))
        line.clear()
    return {"shown": out.getvalue().replace("\r", "|")}


@SCENARIOS
def verbose_searches() -> dict[str, Any]:
    table, out = complete(), io.StringIO()
    with patch.object(sys, "stderr", out), patch.dict(sys.modules, {"rich.progress": None}):
        LatentClassificationModelCV([1], [1], cv=2, verbose=1, **FEW).fit(table.X, table.y)
        LatentClassifier(effort="fast", cv=2, max_iter=1, random_state=0, verbose=1).fit(table.X, table.y)
    return {"shown": out.getvalue()}


@SCENARIOS
def dropped_outputs() -> dict[str, Any]:
    X, y, weight, new, _ = outputs()
    y = np.where(np.arange(36) % 5 == 0, np.nan, y)
    model = MixtureOfExpertsRegressor(2, **FEW).fit(X, y, weight)
    return describe(model, new) | {
        "refused": refusal(model.score, X, y),
        "all": refusal(model.fit, X, np.full(36, np.nan)),
    }


@SCENARIOS
def refined_densities() -> dict[str, Any]:
    table = binary()
    model = LatentClassificationModel(2, 2, kinds="binary", unlabeled=-1, n_importance_samples=30, **FEW).fit(
        table.X, table.y
    )
    bound, refined = model.score_samples(table.new, refine="importance")
    numbers_only = LatentClassificationModel(0, 2, unlabeled=-1, refine="importance", **FEW).fit(table.X, table.y)
    return {"bound": bound, "refined": refined, "none": numbers_only.predict_proba(table.new)}


@SCENARIOS
def samples_of_rows() -> dict[str, Any]:
    table = numbers(sizes=(30, 22, 14))
    source = ArraySource(table.X, table.y, table.weight)
    drawn = stratified_sample(source, 9, np.random.default_rng(0))
    return {
        "X": drawn.X,
        "y": drawn.y,
        "weight": drawn.weight,
        "numbers": source.sample_numbers(20, np.random.default_rng(1)),
    }


@SCENARIOS
def sparse_embeddings() -> dict[str, Any]:
    """More columns than rows, in a sparse table."""
    X, Y, new, _ = label_matrix()
    rng = np.random.RandomState(3)
    spread = rng.normal(size=(5, 90)) * (rng.uniform(size=(5, 90)) < 0.3)

    def wide(part: np.ndarray) -> Any:
        dense = part @ spread
        return sparse.csr_array(np.where(np.abs(dense) > np.quantile(np.abs(dense), 0.6), dense, 0.0))

    found = {}
    for prior in ("entries", "columns", "rows"):
        model = ProbitEmbeddingClassifier(2, prior=prior, max_iter=5, random_state=0).fit(wide(X), Y)
        found[prior] = describe(model, wide(new))
    from latentia.families.probit_embedding import projection as row_products

    with patch.object(row_products, "PAIR_BYTES", 0):
        model = ProbitEmbeddingClassifier(2, max_iter=5, random_state=0).fit(wide(X), Y)
        found["many"] = describe(model, wide(new))
    return found


@SCENARIOS
def strict_arrays() -> dict[str, Any]:
    """Helpers on arrays of another library."""
    import array_api_strict as xp

    rng = np.random.RandomState(0)
    a = rng.normal(size=(2, 3, 6))
    spd = a @ np.swapaxes(a, -1, -2) + 0.1 * np.eye(3)
    x = xp.asarray(np.array([0.2, 1.0, 7.5, 90.0]))
    matrix = xp.asarray(spd)
    inverse, log_det = linalg.spd_inverse(matrix)
    root, _ = linalg.spd_inverse_root(matrix)
    return {
        "digamma": to_numpy(special.digamma(x)),
        "log_gamma": to_numpy(special.log_gamma(x)),
        "erfcx": to_numpy(special.erfcx(x)),
        "inverse": to_numpy(inverse),
        "log_det": to_numpy(log_det),
        "root": to_numpy(root),
        "definite": to_numpy(linalg.positive_definite(matrix)),
        "logsumexp": to_numpy(logspace.logsumexp(xp.asarray(a), 1)),
        "softmax": to_numpy(logspace.softmax(xp.asarray(a), 1)),
        "packed": to_numpy(packed_symmetric.pack(matrix)),
        "outer": to_numpy(packed_symmetric.packed_outer(xp.asarray(a[0]))),
    }


@SCENARIOS
def threads() -> dict[str, Any]:
    def alone() -> int:
        with one_thread():
            return n_threads()

    with patch.dict("os.environ", {"OMP_NUM_THREADS": "2"}), patch("os.sched_getaffinity", lambda pid: {0, 1, 2}):
        found: dict[str, Any] = {"two": n_threads(), "alone": alone(), "results": parallel(lambda k: k * k, range(7))}
        found["serial"] = parallel(lambda k: k + 1, range(3), threaded=False)
        found["error"] = refusal(parallel, lambda k: 1 / (k - 2), range(5))
        table = complete()
        model = GaussianMixtureClassifier(2, covariance="full", **FEW).fit(table.X, table.y)
        found["proba"] = model.predict_proba(table.new)
    with patch.dict("os.environ", {"OMP_NUM_THREADS": "x"}), patch("os.sched_getaffinity", lambda pid: {0, 1, 2}):
        found["all"] = n_threads()
    return found


@SCENARIOS
def hard_inverses() -> dict[str, Any]:
    """Matrices that are not quite positive definite, among others that are."""
    rng = np.random.RandomState(0)
    a = rng.normal(size=(12, 4, 6))
    good = a @ np.swapaxes(a, -1, -2)
    bad = good.copy()
    bad[3] = np.diag([1.0, 2.0, -1.0, 0.5])
    large = rng.normal(size=(70, 90))
    large = large @ large.T
    found: dict[str, Any] = {}
    for name, invert in {"one": linalg.spd_inverse, "many": entrywise_spd.invert_many}.items():
        inverse, log_det = invert(bad)
        found[f"bad {name}"] = {"good": inverse[:3], "rest": inverse[4:], "log_det": log_det[[0, 1, 2, 4, 5]]}
        found[f"alone {name}"] = invert(bad[3:4])[0].shape
        found[f"large {name}"] = tree(invert(np.stack([large, 2 * large])))
        found[f"thin {name}"] = tree(invert(np.ones((3, 1, 1)) * [[[2.0]], [[4.0]], [[0.5]]]))
    found["single"] = tree(linalg.spd_inverse(large))
    return found


@SCENARIOS
def streams_at_the_edge() -> dict[str, Any]:
    table = numbers()
    heard: list[Any] = []
    model = GaussianMixtureClassifier(
        1, covariance="diag", unlabeled=-1, callback=lambda s: heard.append(s.value), **FEW
    )
    model.partial_fit(table.X[:30], table.y[:30], [0, 1, 2])
    before = model.n_iter_
    model.partial_fit(table.X[30:], np.full(13, -1))
    model.set_params(unlabeled_weight=0.0)
    return {
        "heard": heard,
        "steps": [before, model.n_iter_],
        "proba": model.predict_proba(table.new),
        "classes": refusal(model.partial_fit, table.X, table.y, [0, 1]),
        "record": model.training_record_,
    }


@SCENARIOS
def names_of_classes() -> dict[str, Any]:
    """Classes of all types, in order."""
    table = complete()
    found = {}
    for name, classes in {
        "words": ["z", "a", "m"],
        "numbers": [9, -3, 4],
        "floats": [0.0, 2.0, 1.0],
        "bools": [True, False, True],
    }.items():
        y = np.array(classes)[table.y]
        model = GaussianMixtureClassifier(1, covariance="diag", **FEW).fit(table.X, y)
        found[name] = {
            "classes": model.classes_,
            "predict": model.predict(table.new),
            "priors": model.priors_,
            "dtype": str(model.predict(table.new).dtype),
        }
    return found


@SCENARIOS
def scikit_learn_tags() -> dict[str, Any]:
    found = {}
    for name in latentia.__all__:
        cls = getattr(latentia, name)
        if hasattr(cls, "__sklearn_tags__"):
            tags = cls().__sklearn_tags__()
            inputs = [
                n
                for n in ("sparse", "categorical", "string", "allow_nan", "positive_only")
                if getattr(tags.input_tags, n)
            ]
            outputs_ = [n for n in ("multi_output", "single_output", "required") if getattr(tags.target_tags, n)]
            found[name] = f"{tags.estimator_type} {inputs} {outputs_} {tags.array_api_support}"
    return found
