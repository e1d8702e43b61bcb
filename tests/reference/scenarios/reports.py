"""The HTML report section by section, the summaries and notebooks' HTML, what is said on the way."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from latentia import (
    GaussianMixtureClassifier,
    LatentClassificationModel,
    LatentClassificationModelCV,
    MixtureOfExpertsClassifier,
    MixtureOfExpertsRegressor,
    ProbitEmbeddingClassifier,
)
from latentia.apps.report.facts import Facts
from latentia.apps.report.page import SECTIONS, report_html
from latentia.engine.messages import format_column, format_seconds
from latentia.estimators.base.summary import as_html, summary_sections

from ..registry import Group
from ..tables import complete, label_matrix, mixed, numbers, outputs
from .stack import of_mixed

SCENARIOS = Group()
FEW: Any = {"max_iter": 3, "n_init": 1, "random_state": 0}


def sections(model: Any, X: Any, y: Any) -> dict[str, Any]:
    facts, found = Facts.of(model, X, y), {}
    for make in SECTIONS:
        section = make(facts)
        if section is None:
            found[make.__name__] = None
        elif make.__name__ == "reproduce":  # which names the installed versions
            found[make.__name__] = f"{section.title} {section.anchor} {section.half}"
        else:
            found[make.__name__] = {
                "title": f"{section.title} #{section.anchor} half={section.half}",
                "body": section.body,
            }
    page = report_html(model, X, y, title="<A> & title")
    found["head"] = re.sub(r"<style>.*?</style>|<main.*</main>", "", page, flags=re.DOTALL)
    return found


@SCENARIOS.with_(is_slow=True)
def of_a_stack() -> dict[str, Any]:
    table = mixed()
    return sections(of_mixed(), table.X, table.y)


@SCENARIOS
def of_a_mixture() -> dict[str, Any]:
    table = numbers()
    model = GaussianMixtureClassifier(2, covariance="full", unlabeled=-1, unlabeled_weight=0.3, **FEW).fit(
        table.X, table.y
    )
    return sections(model, table.X, table.y)


@SCENARIOS.with_(is_slow=True)
def of_other_rows() -> dict[str, Any]:
    table = mixed()
    model = LatentClassificationModel(2, 1, unlabeled_weight=0.3, **FEW).fit(table.X, table.y)
    return sections(model, table.new, table.new_y) | {"without_labels": sections(model, table.new, None)["head"]}


@SCENARIOS.with_(is_slow=True)
def of_searches_and_labels() -> dict[str, Any]:
    table = complete()
    X, Y, _, _ = label_matrix()
    search = LatentClassificationModelCV([1, 2], [1], cv=2, **FEW).fit(table.X, table.y)
    experts = MixtureOfExpertsClassifier(max_experts=2, **FEW).fit(table.X, table.y)
    labels = ProbitEmbeddingClassifier(2, max_iter=4).fit(X, Y)
    A, b, _, new, new_b = outputs()
    numbers_of = MixtureOfExpertsRegressor(2, **FEW).fit(A, b)
    return {
        "search": sections(search, table.X, table.y),
        "experts": sections(experts, table.X, table.y),
        "labels": sections(labels, X, Y),
        "regression": sections(numbers_of, new, new_b),
    }


@SCENARIOS
def notebooks() -> dict[str, Any]:
    table = mixed()
    model = LatentClassificationModel(2, 2, unlabeled_weight=0.3, **FEW).fit(table.X, table.y)
    wide = np.random.RandomState(0).normal(size=(30, 15))
    many = GaussianMixtureClassifier(covariance="diag", **FEW).fit(wide, np.arange(30) % 14)
    return {
        "html": as_html(summary_sections(model)),
        "folded": "What was learned" in model._repr_html_(),
        "many": many.summary(),
    }


@SCENARIOS
def times() -> dict[str, Any]:
    seconds = [0.0004, 0.02, 0.9996, 1.0, 59.96, 119.9, 120.0, 3000.0, 7199.0, 7200.0, 90000.0]
    return {
        "each": " | ".join(format_seconds(t).replace(" ", "_") for t in seconds),
        "fast": " | ".join(t.replace(" ", "_") for t in format_column([0.0001, 0.2, 0.0006])),
        "slow": " | ".join(t.replace(" ", "_") for t in format_column([0.001, 2.5, 11.0])),
    }


@SCENARIOS
def progress() -> dict[str, Any]:
    """What `verbose` shows, without rich."""
    import contextlib
    import io
    import sys
    from unittest.mock import patch

    table, out = complete(), io.StringIO()
    with patch.dict(sys.modules, {"rich.progress": None}), contextlib.redirect_stderr(out):
        GaussianMixtureClassifier(2, covariance="diag", verbose=2, **FEW).fit(table.X, table.y)
        LatentClassificationModel(1, verbose=1, **FEW).fit(table.X, table.y)
    return {"shown": out.getvalue()}
