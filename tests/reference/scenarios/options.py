"""Which values each option of each estimator takes, and what it says to others."""

from __future__ import annotations

from typing import Any

import numpy as np

import latentia
from latentia import LatentClassificationModel

from ..describe import refusal
from ..registry import Group
from ..tables import complete, label_matrix, mixed

SCENARIOS = Group()

PROBES: list[Any] = [
    -1,
    0,
    1,
    2,
    -0.5,
    0.3,
    1.0,
    1.5,
    np.nan,
    np.inf,
    True,
    None,
    "auto",
    "x",
    "",
    [1, 2],
    [0],
    {},
    2.0,
]
ESTIMATORS = [
    "GaussianMixtureClassifier",
    "LatentClassificationModel",
    "LatentClassificationModelCV",
    "LatentClassifier",
    "MixtureOfExpertsClassifier",
    "MixtureOfExpertsRegressor",
    "MultimodalSoftmaxClassifier",
    "ProbitEmbeddingClassifier",
]


def tried(name: str) -> dict[str, Any]:
    """For every option: the probes that pass, and the texts that refuse the others."""
    cls, found = getattr(latentia, name), {}
    known = set(LatentClassificationModel().get_params()) if name == "LatentClassificationModelCV" else set()
    for option, default in sorted(cls().get_params(deep=False).items()):
        if option in known - {"n_latent", "n_components", "objective", "ridge"}:
            continue  # it asks the model
        passed, told = [], []
        for probe in PROBES:
            said = refusal(cls(**{option: probe})._check_options)
            if said == "no error":
                passed.append(repr(probe))
            else:
                told.append(said.replace(f"{option}={probe!r}", "it"))
        found[option] = f"{default!r}; takes {' '.join(passed)}; else: {' / '.join(dict.fromkeys(told))}"
    return found


for name in ESTIMATORS:
    SCENARIOS.add(name, lambda name=name: tried(name))


@SCENARIOS
def choices() -> dict[str, Any]:
    """Texts that lists of allowed words make."""
    found = {}
    for name in ESTIMATORS:
        cls = getattr(latentia, name)
        for option, default in cls().get_params(deep=False).items():
            if isinstance(default, str):
                found[f"{name}.{option}"] = refusal(cls(**{option: "nonsense"})._check_options)
    found["set_params"] = refusal(latentia.GaussianMixtureClassifier().set_params, n_component=2)
    found["combination"] = refusal(
        latentia.MixtureOfExpertsClassifier(inference="ml", criterion="evidence")._check_options
    )
    found["averaging"] = refusal(
        latentia.MultimodalSoftmaxClassifier(inference="ml", averaging="posterior")._check_options
    )
    return found


@SCENARIOS
def refused_fits() -> dict[str, Any]:
    """What fits say to input that they cannot take."""
    table = complete()
    X, y, w = table.X, table.y, table.weight
    inf = X.copy()
    inf[3, 1] = np.inf
    gap = X.copy()
    gap[3, 1] = np.nan
    found: dict[str, Any] = {}
    for name in ESTIMATORS:
        cls, few = getattr(latentia, name), {"max_iter": 1, "random_state": 0}
        one = cls(**few)
        found[name] = {
            "infinite": refusal(one.fit, inf, y),
            "gap": refusal(one.fit, gap, y) if not one.__sklearn_tags__().input_tags.allow_nan else "taken",
            "lengths": refusal(one.fit, X, y[:-1]),
            "no_y": refusal(one.fit, X),
            "one_axis": refusal(one.fit, X[:, 0], y),
            "unlabeled": refusal(one.fit, X, np.full(43, -1)) if "unlabeled" in one.get_params() else "",
            "negative_weight": refusal(one.fit, X, y, -w),
            "zero_weight": refusal(one.fit, X, y, 0 * w),
            "short_weight": refusal(one.fit, X, y, w[:5]),
            "nan_weight": refusal(one.fit, X, y, w * np.nan),
            "unfitted": refusal(one.predict, X),
            "text": refusal(one.fit, np.array([["a", "b"], ["c", "d"]]), [0, 1])
            if not one.__sklearn_tags__().input_tags.string
            else "taken",
        }
        if "loss_matrix" in one.get_params():
            found[name]["losses"] = refusal(cls(loss_matrix=[[0, 1], [1, 0]], **few).fit, X, y)
            found[name]["nan_losses"] = refusal(cls(loss_matrix=np.full((3, 3), np.nan), **few).fit, X, y)
        if "priors" in one.get_params():
            for k, priors in enumerate(([0.5, 0.5], [0.5, 0.6, -0.1], {0: 0.5, 1: 0.5}, {0: 1, 1: 1, 7: 1}, [0, 0, 0])):
                found[name][f"priors {k}"] = refusal(cls(priors=priors, **few).fit, X, y)
        if "cv" in one.get_params():
            for k, cv in enumerate((1, "x", [], [([0], [99])], [(np.arange(20), [])])):
                found[name][f"cv {k}"] = refusal(cls(cv=cv, **few).fit, X, y)
    return found


@SCENARIOS
def refused_predictions() -> dict[str, Any]:
    table, words = complete(), mixed()
    model = LatentClassificationModel(1, max_iter=1, random_state=0).fit(table.X, table.y)
    framed = LatentClassificationModel(1, max_iter=1, random_state=0).fit(words.X, words.y)
    other = words.new.rename(columns={"size": "length"})
    bad = words.new.copy()
    bad["size"] = "much"
    return {
        "columns": refusal(model.predict, table.X[:, :2]),
        "names": refusal(framed.predict, other),
        "order": refusal(framed.predict, words.new[words.new.columns[::-1]]),
        "text": refusal(framed.predict, bad),
        "array": refusal(framed.predict, words.new.to_numpy()),
        "method": refusal(model.impute, table.X, method="most"),
        "condition": refusal(model.impute, table.X, condition="best"),
        "label": refusal(model.impute, table.X, ["a"] * 43),
        "samples": refusal(model.sample, 0),
        "sample_class": refusal(model.sample, 2, y=9),
        "sample_classes": refusal(model.sample, 2, y=[0, 1, 2]),
        "sample_unlabeled": refusal(model.sample, 2, y=[0, -1]),
        "component": refusal(model.sample, 2, component=1),
        "score_length": refusal(model.score, table.X, table.y[:3]),
        "score_unknown": refusal(model.score, table.X, table.y + 5),
        "score_none": refusal(model.score, table.X, np.full(43, -1)),
        "bic": refusal(model.bic, table.X, table.y[:3]),
        "stream": refusal(model.partial_fit, table.X, table.y, forgetting=0.5),
        "stream_above": refusal(model.partial_fit, table.X, table.y, forgetting=1.1),
        "stream_classes": refusal(LatentClassificationModel(1).partial_fit, table.X, table.y),
        "stream_wrong": refusal(LatentClassificationModel(1).partial_fit, table.X, table.y, [0, 1]),
        "stream_objective": refusal(
            LatentClassificationModel(1, objective="margin").partial_fit, table.X, table.y, [0, 1, 2]
        ),
    }


@SCENARIOS
def refused_labels() -> dict[str, Any]:
    X, Y, _, _ = label_matrix()
    fit = latentia.ProbitEmbeddingClassifier(1, max_iter=1).fit
    unknown = Y.copy()
    unknown[:, 1] = -1
    ones = Y.copy()
    ones[:, 2] = 1
    return {
        "two": refusal(fit, X, Y + 1),
        "unknown": refusal(fit, X, unknown),
        "ones": refusal(fit, X, ones),
        "ragged": refusal(fit, X, [[0, 1]] * 39 + [[1]]),
        "lists": refusal(latentia.GaussianMixtureClassifier().fit, X, Y),
        "axes": refusal(fit, X, Y[:, :, None]),
        "one_class": refusal(fit, X, np.zeros(40, dtype=int)),
    }


@SCENARIOS
def arguments_of_methods() -> dict[str, Any]:
    """Which arguments methods take, and what they say to others."""
    table = complete()
    few: Any = {"max_iter": 1, "random_state": 0}
    models = {
        "mixture": latentia.GaussianMixtureClassifier([1, 2, 1], covariance="diag", n_init=1, **few),
        "factors": LatentClassificationModel(1, 2, n_init=1, **few),
        "stack": latentia.LatentClassifier(effort="fast", cv=2, **few),
    }
    found: dict[str, Any] = {}
    for name, model in models.items():
        model.fit(table.X, table.y)
        calls: dict[str, Any] = {"n_samples": model.sample, "y": lambda probe, m=model: m.sample(2, y=probe)}
        calls["method"] = lambda probe, m=model: m.impute(table.new, method=probe)
        calls["condition"] = lambda probe, m=model: m.impute(table.new, condition=probe)
        if name != "stack":
            calls["component"] = lambda probe, m=model: m.sample(2, component=probe)
            calls["forgetting"] = lambda probe, m=model: m.partial_fit(table.X, table.y, forgetting=probe)
        if name == "factors":
            calls["refine"] = lambda probe, m=model: m.score_samples(table.new, refine=probe)
        for what, call in calls.items():
            passed, told = [], []
            for probe in (
                -1,
                0,
                1,
                2,
                0.5,
                0.6,
                1.0,
                1.5,
                True,
                None,
                "x",
                "mean",
                "class",
                "importance",
                [0, 1],
                float("nan"),
            ):
                said = refusal(call, probe)
                (passed if said == "no error" else told).append(repr(probe) if said == "no error" else said)
            found[f"{name} {what}"] = f"takes {' '.join(passed)}; else {' / '.join(dict.fromkeys(told))}"
    return found
