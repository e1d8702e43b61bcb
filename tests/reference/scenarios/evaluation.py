"""compare, its tables and texts, and the scores of label matrices."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from sklearn.linear_model import RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from latentia import GaussianMixtureClassifier, compare, known_f1_score, known_hamming_loss
from latentia.evaluation.compare import corrected_t_test

from ..describe import refusal
from ..registry import Group
from ..tables import complete, numbers

SCENARIOS = Group()
MODELS: Any = {
    "Bayes": GaussianNB(),
    "tree": DecisionTreeClassifier(max_depth=1, random_state=0),
    "ridge": RidgeClassifier(5.0),
}


def fields(found: Any) -> dict[str, Any]:
    kept = {name: value for name, value in vars(found).items() if name != "fit_seconds"}
    kept["fitted_on_labeled_only"] = sorted(found.fitted_on_labeled_only)
    return kept | {
        "text": str(found),
        "html": found._repr_html_(),
        "frame": found.to_frame().drop(columns="fit_seconds"),
    }


@SCENARIOS
def one_table() -> dict[str, Any]:
    table = complete(sizes=(30, 22, 14))
    found = compare(MODELS, table.X, table.y, 4, sample_weight=table.weight, scoring="f1_macro", random_state=2)
    return fields(found) | {
        "summary": found.summary(),
        "summary_frame": found.summary_frame(),
        "marks": [found.mark(0, e) for e in range(3)],
    }


@SCENARIOS.with_(is_slow=True)
def two_tables() -> dict[str, Any]:
    first, second = complete(sizes=(30, 22, 14)), numbers(gaps=0.0, unlabeled=0.2)
    datasets = {"all [labels]": (first.X, first.y), "few": (second.X, second.y, second.weight)}
    found = compare(
        list(MODELS.items())[:2]
        + [("mixture", GaussianMixtureClassifier(max_iter=5, unlabeled=-1, unlabeled_weight=0.3))],
        datasets,
        cv=3,
    )
    return fields(found) | {"rich": _rich(found), "summary": found.summary()}


@SCENARIOS
def given_folds() -> dict[str, Any]:
    table = complete()
    rows = np.arange(43)
    found = compare(
        [GaussianNB(), DecisionTreeClassifier(max_depth=2, random_state=0)],
        table.X,
        table.y,
        [(rows % 3 > 0, rows % 3 == 0), (rows[:25], rows[20:])],
    )
    single = compare({"a": GaussianNB(), "b": RidgeClassifier()}, table.X, table.y, [(rows[:30], rows[30:])])
    return {"two": fields(found), "single": fields(single)}


@SCENARIOS
def t_tests() -> dict[str, Any]:
    return {
        "usual": corrected_t_test([0.1, 0.02, -0.03, 0.07, 0.05], 0.25),
        "zero": corrected_t_test([0.1, -0.1, 0.0], 0.5),
        "same": corrected_t_test([0.25, 0.25], 0.5),
        "negative": corrected_t_test([-0.1, -0.3, -0.2], 0.5),
        "short": refusal(corrected_t_test, [0.1], 0.5),
        "ratio": refusal(corrected_t_test, [0.1, 0.2], 0.0),
    }


@SCENARIOS
def label_scores() -> dict[str, Any]:
    truth = np.array([[1, -1, 0, 0], [0, 1, 1, 0], [1, 1, -1, 0], [0, 0, 1, 0], [1, 0, 0, -1]])
    found = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [1, 0, 1, 1]])
    weight = [0.5, 2.0, 1.0, 1.5, 0.7]
    return {
        "hamming": known_hamming_loss(truth, found),
        "hamming_weighted": known_hamming_loss(truth, found, sample_weight=weight),
        "macro": known_f1_score(truth, found),
        "macro_divided": known_f1_score(truth, found, zero_division=1.0, sample_weight=weight),
        "micro": known_f1_score(truth, found, average="micro"),
        "micro_weighted": known_f1_score(truth, found, average="micro", sample_weight=weight),
        "unseen_label": known_f1_score([[1, -1], [0, -1]], [[1, 1], [1, 0]]),
        "shape": refusal(known_f1_score, truth, found[:, :2]),
        "unknown": refusal(known_hamming_loss, truth, truth),
        "nothing": refusal(known_hamming_loss, -np.ones((2, 2), dtype=int), np.ones((2, 2), dtype=int)),
        "average": refusal(known_f1_score, truth, found, average="weighted"),
    }


@SCENARIOS
def refusals() -> dict[str, Any]:
    table = complete()
    X, y = table.X, table.y
    return {
        "no_estimator": refusal(compare, {}, X, y),
        "no_classifier": refusal(compare, {"a": 3}, X, y),
        "same_names": refusal(compare, [("a", GaussianNB()), ("a", GaussianNB())], X, y),
        "no_y": refusal(compare, MODELS, X),
        "cv": refusal(compare, MODELS, X, y, 1),
        "scorer": refusal(compare, MODELS, X, y, 3, scoring="nonsense"),
        "lengths": refusal(compare, MODELS, X, y[:-1]),
        "weights": refusal(compare, MODELS, X, y, sample_weight=-table.weight),
        "groups": refusal(compare, MODELS, {"a": (X, y)}, groups=np.ones(43)),
        "empty": refusal(compare, MODELS, {}),
    }


def _rich(found: Any) -> str:
    from rich.console import Console

    console = Console(width=120, record=True, file=io.StringIO())
    console.print(found)
    return console.export_text()


@SCENARIOS
def ways_to_compare() -> dict[str, Any]:
    """Inputs of all forms."""
    import pandas as pd
    from sklearn.dummy import DummyClassifier, DummyRegressor
    from sklearn.model_selection import GroupKFold
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    table = complete()
    X, y, names = table.X, table.y, np.array(["a", "b", "c"])[table.y]
    groups = np.arange(43) % 4
    pipeline = make_pipeline(StandardScaler(), GaussianNB())
    few = np.array([label if k % 5 else None for k, label in enumerate(names.tolist())], dtype=object)
    found: dict[str, Any] = {
        "one": compare(GaussianNB(), X, y, 3),
        "list": compare([GaussianNB(), GaussianNB()], X.tolist(), y.tolist(), 3),
        "frame": compare({"p": pipeline}, pd.DataFrame(X), pd.DataFrame({"y": names}), 3, sample_weight=table.weight),
        "column": compare({"a": GaussianNB()}, X, y[:, None], 3),
        "words_with_gaps": compare(
            {"a": GaussianNB()}, X, [[label] if k % 4 else [None] for k, label in enumerate(names.tolist())], 3
        ),
        "groups": compare({"a": GaussianNB()}, X, y, GroupKFold(4), groups=groups),
        "iterator": compare({"a": GaussianNB()}, X, y, iter([(np.arange(30), np.arange(30, 43))])),
        "few_labels": compare({"a": GaussianNB(), "d": DummyClassifier()}, X, few, 3),
        "own_scorer": compare(
            {"a": GaussianNB()}, X, y, 3, scoring={"first": lambda model, X, y: model.predict(X)[0] + len(y)}
        ),
        "scorers": compare({"a": GaussianNB()}, X, y, 3, scoring=["f1_macro", "balanced_accuracy"], random_state=5),
    }
    found = {name: fields(result) for name, result in found.items()}
    for result in found.values():
        result.pop("html")
    refused: dict[str, Any] = {
        "regressor": lambda: compare({"a": DummyRegressor()}, X, y),
        "pair": lambda: compare([("a", GaussianNB(), 3)], X, y),
        "no_weights": lambda: compare({"a": KNeighborsClassifier()}, X, y, sample_weight=table.weight),
        "one_class": lambda: compare({"a": GaussianNB()}, X, np.zeros(43)),
        "ragged": lambda: compare({"a": GaussianNB()}, [[1, 2], [3]], [0, 1]),
        "number": lambda: compare({"a": GaussianNB()}, 3, [0, 1]),
        "groups": lambda: compare({"a": GaussianNB()}, X, y, groups=groups[:5]),
        "inside": lambda: compare({"a": GaussianNB()}, X * np.nan, y, 2),
        "tuple": lambda: compare({"a": GaussianNB()}, {"one": (X,)}),
    }
    for name, call in refused.items():
        try:
            call()
            found[f"refused {name}"] = "no error"
        except Exception as error:
            notes = " ".join(getattr(error, "__notes__", []))
            text = str(error) if name != "inside" else ""
            found[f"refused {name}"] = f"{type(error).__name__}: {text} {notes}"
    return found
