"""All that a fitted estimator knows and says."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from .digest import Frame, tree

#: Learned attributes that say how long something took, or hold other estimators.
LEFT_OUT = {"training_record_", "best_estimator_", "density_estimator_", "factor_estimator_", "_stream_"}
#: Those that follow from the table alone.
FROM_THE_TABLE = {
    "classes_",
    "n_features_in_",
    "feature_names_in_",
    "kinds_",
    "categories_",
    "infrequent_categories_",
    "loading_features_",
}
BRIEFLY = ["predict_proba", "predict_joint_log_proba", "subclass_proba", "expert_proba", "transform", "impute"]
AT_LENGTH = ["predict", "predict_log_proba", "score_samples", "responsibilities"]


def learned(model: Any, at_length: bool = True) -> dict[str, Any]:
    """The attributes that `fit` has set: numbers in one line, words in another, the rest by name."""
    skipped = LEFT_OUT if at_length else LEFT_OUT | FROM_THE_TABLE
    names = [
        n for n in dir(model) if n.endswith("_") and not n.startswith("_") and n not in skipped and hasattr(model, n)
    ]
    found = {name: without_times(getattr(model, name)) for name in names}
    numbers = {n: v for n, v in found.items() if isinstance(v, int | float | np.number) or _is_numeric(v)}
    words = {n: v for n, v in found.items() if isinstance(v, str | None) and n not in numbers}
    return {
        "numbers": tree(namedtuple("Learned", numbers)(**numbers), shapes=True) if numbers else None,
        "words": ", ".join(f"{name} {word}" for name, word in words.items()),
        **{n: v for n, v in found.items() if n not in numbers and n not in words},
    }


def _is_numeric(value: Any) -> bool:
    if isinstance(value, tuple):
        return len(value) > 0 and all(_is_numeric(part) for part in value)
    return isinstance(value, np.ndarray) and value.dtype.kind in "biuf"


def without_times(value: Any) -> Any:
    """Tables without their column of seconds."""
    if hasattr(value, "columns") and hasattr(value, "drop"):
        return value.drop(columns=[c for c in value.columns if "seconds" in str(c)])
    if not isinstance(value, dict):
        return value
    kept = {name: part for name, part in value.items() if "seconds" not in str(name)}
    if kept and all(isinstance(part, list | np.ndarray) and np.ndim(part) == 1 for part in kept.values()):
        return Frame([f"{name}[{len(part)}]" for name, part in kept.items()], [list(part) for part in kept.values()])
    return kept


def answers(model: Any, rows: Any) -> dict[str, Any]:
    """What the model says of rows."""
    found = {name: getattr(model, name)(rows) for name in BRIEFLY if hasattr(model, name)}
    if not hasattr(model, "predict_proba"):
        found["predict"] = model.predict(rows)
    return found


def at_length(model: Any, rows: Any, y: Any) -> dict[str, Any]:
    """What follows from that, and how good it is."""
    found = {name: getattr(model, name) for name in sorted(FROM_THE_TABLE) if hasattr(model, name)}
    found |= {name: getattr(model, name)(rows) for name in AT_LENGTH if hasattr(model, name)}
    found |= {"score": model.score(rows, y), "weighted_score": model.score(rows, y, sample_weight=weights_for(rows))}
    if hasattr(model, "bic"):
        found |= {"bic": model.bic(rows, y), "aic": model.aic(rows, y)}
    if hasattr(model, "get_feature_names_out"):
        found["names"] = " ".join(map(str, model.get_feature_names_out()))
    return found


def fills(model: Any, rows: Any, y: Any) -> dict[str, Any]:
    """All ways of completing rows, and of drawing some."""
    return {
        "median": model.impute(rows, method="median"),
        "mode": model.impute(rows, method="mode"),
        "given_best_class": model.impute(rows, condition="class"),
        "given_classes": model.impute(rows, y),
        "sample": model.sample(7),
        "sample_of_class": model.sample(5, y=model.classes_[1]),
        "sample_of_classes": model.sample(4, y=model.classes_[[1, 0, 1, 0]]),
    }


def describe(model: Any, rows: Any) -> dict[str, Any]:
    """What it knows and says."""
    return learned(model, at_length=False) | answers(model, rows)


def weights_for(rows: Any) -> np.ndarray:
    return np.random.RandomState(9).uniform(0.3, 2.5, len(rows))


def refusal(call: Any, *args: Any, **kwargs: Any) -> str:
    """The error that a call raises, as text."""
    try:
        call(*args, **kwargs)
    except Exception as error:  # all are told apart by their texts
        return " ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
    return "no error"
