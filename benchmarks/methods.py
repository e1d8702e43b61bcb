"""The methods of the arena by name: ours, and the usual choices."""

from __future__ import annotations

from typing import Any

import usual_choices
from sklearn.pipeline import make_pipeline
from usual_choices import CLASSIFIERS, IMPUTERS, SEMI_SUPERVISED, Dummies

import latentia

#: Name -> an expression over the names of `latentia` and of `usual_choices`.
OURS = {
    "latent": "LatentClassificationModel(random_state=0)",
    "mixture": "GaussianMixtureClassifier(random_state=0)",
}
if hasattr(latentia, "LatentClassifier"):
    OURS["stack"] = "LatentClassifier(random_state=0)"

#: Estimators that take data frames with category columns as they are; for others of ours these become 0/1 columns.
TAKE_FRAMES = ("LatentClassificationModel", "LatentClassificationModelCV", "LatentClassifier")

LABELED_ONLY = "@labeled"  # a method of ours under such a name is not shown the unlabeled rows


def evaluate(expression: str) -> Any:
    """An estimator of ours from an expression."""
    names = {**vars(usual_choices), **{name: getattr(latentia, name) for name in latentia.__all__}}
    estimator = eval(expression, {"latentia": latentia, **names})
    if type(estimator).__name__ in TAKE_FRAMES or hasattr(estimator, "steps"):
        return estimator
    return make_pipeline(Dummies(keep_gaps=True), estimator)


def find(method: str, expression: str, usual: dict) -> tuple[Any, bool]:
    """A fresh estimator, and whether it is one of ours."""
    if not expression:
        if method in usual:
            return usual[method](), False
        name = method.removesuffix(LABELED_ONLY)
        if name not in OURS:
            raise ValueError(f"method must be one of {sorted([*OURS, *usual])} or have an expression, got {method!r}")
        expression = OURS[name]
    return evaluate(expression), True


def make_classifier(method: str, expression: str = "") -> tuple[Any, bool]:
    """A fresh classifier, and whether it is shown the unlabeled rows."""
    model, ours = find(method, expression, CLASSIFIERS)
    return model, (ours or method in SEMI_SUPERVISED) and not method.endswith(LABELED_ONLY)


def make_imputer(method: str, expression: str = "") -> Any:
    """A fresh imputer of numbers; ours have `impute`, which a pipeline would hide."""
    model, _ = find(method, expression, IMPUTERS)
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    return last if hasattr(last, "impute") else model
