"""Reports of what does not fit on a page: more rows, columns, classes and settings than are shown; losses and marks of a user."""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np

from latentia import (
    GaussianMixtureClassifier,
    LatentClassificationModelCV,
    MixtureOfExpertsRegressor,
    ProbitEmbeddingClassifier,
)
from latentia.apps.report.facts import Facts
from latentia.apps.report.page import SECTIONS

from ..registry import Group
from ..tables import complete, label_matrix, numbers, outputs

SCENARIOS = Group()
FEW: Any = {"max_iter": 2, "n_init": 1, "random_state": 0}
LOSSES = [[0.0, 9.0, 1.0], [0.2, 0.0, 3.0], [5.0, 0.1, 0.0]]

#: How little is shown here.
LIMITS: dict[str, dict[str, int]] = {
    "facts": {"MAX_PREDICTED": 25, "MAX_POINTS": 11},
    "data_sections": {"MAX_COLUMNS": 3, "MAX_CLASSES": 2, "MAX_VALUES": 2, "MAX_EXAMPLES": 3, "MAX_COMPLETED": 6},
    "score_sections": {"MAX_MATRIX": 2, "MAX_CONFUSIONS": 3, "MAX_SETTINGS": 2},
    "row_sections": {"MAX_LISTED": 3, "MAX_CELLS": 2, "MAX_COLUMNS": 3},
    "reason_sections": {"MAX_ROWS": 7, "MAX_COLUMNS": 3, "MAX_LISTED": 2, "MAX_CLASSES": 2},
    "factor_sections": {"MAX_NAMED": 2, "GRID": 4},
}


def sections(model: Any, X: Any, y: Any) -> dict[str, Any]:
    """The bodies of all sections but that of the versions."""
    facts = Facts.of(model, X, y)
    found = {make.__name__: make(facts) for make in SECTIONS if make.__name__ != "reproduce"}
    return {name: section.body for name, section in found.items() if section is not None}


def small_page() -> ExitStack:
    stack = ExitStack()
    for module, limits in LIMITS.items():
        for name, value in limits.items():
            stack.enter_context(patch(f"latentia.apps.report.{module}.{name}", value))
    return stack


@SCENARIOS
def little_is_shown() -> dict[str, Any]:
    """Of a frame with names for its rows, by a model that weighs errors, with a mark of its own."""
    import pandas as pd

    table = numbers()
    X = pd.DataFrame(table.X, columns=["size", "a<b", "depth", "skewed"], index=[f"row {k}" for k in range(43)])
    y = np.where(table.y < 0, 7, table.y)
    model = GaussianMixtureClassifier(
        1, covariance="diag", unlabeled=7, unlabeled_weight=0.3, loss_matrix=LOSSES, **FEW
    )
    with small_page(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
        other = Facts.of(model, X, np.where(y == 0, 1, y))  # as many rows, but other labels
        moved = Facts.of(model, X.assign(depth=X["depth"] + 0.001), y)
        return sections(model, X, y) | {
            "training": [Facts.of(model, X, y).is_training_table, other.is_training_table, moved.is_training_table],
            "separation": Facts.of(model, X, y).separation,
        }


@SCENARIOS
def long_searches() -> dict[str, Any]:
    table = complete()
    search = LatentClassificationModelCV([0, 1], [1, 2], cv=2, search="exhaustive", **FEW)
    with small_page(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(table.X, table.y)
        facts = Facts.of(search, table.X, table.y)
        found = {make.__name__: make(facts) for make in SECTIONS if make.__name__ in ("search", "glance", "loadings")}
    return {name: section.body for name, section in found.items() if section is not None}


@SCENARIOS
def outputs_of_some_rows() -> dict[str, Any]:
    X, y, *_ = outputs()
    Y = np.stack([y, 3 * y[::-1] + 1], axis=1) if y.ndim == 1 else y
    Y[3] = np.nan
    with small_page(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MixtureOfExpertsRegressor(1, inference="ml", **FEW).fit(X, Y)
        return sections(model, X, Y)


@SCENARIOS
def labels_that_are_unknown() -> dict[str, Any]:
    X, Y, *_ = label_matrix()
    Y = Y.copy()
    Y[::3, 0] = -1
    with small_page(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ProbitEmbeddingClassifier(1, max_iter=2, random_state=0).fit(X, Y)
        return sections(model, X, Y)
