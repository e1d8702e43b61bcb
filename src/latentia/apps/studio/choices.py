"""What the user chose on the page: the target, the kinds of columns, how much is tried."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas

from latentia.apps.studio.limits import MIN_LABELED
from latentia.apps.studio.problems import Problem, explained
from latentia.apps.studio.table_view import TableView
from latentia.apps.tables.class_labels import read_labels
from latentia.apps.tables.number_forms import NumberForm
from latentia.apps.tables.typed_columns import kind_of
from latentia.estimators.latent_classifier import LatentClassifier

EFFORTS = ("fast", "balanced", "best")

#: Different values of a text column; rarer ones are one value.
MAX_CATEGORIES = 50

LEFT_OUT = "left out"


@dataclass(frozen=True)
class Choices:
    """A learnable table, and how it is learned."""

    target: str
    frame: pandas.DataFrame  # the columns to learn from
    labels: np.ndarray  # None where a row has none
    kinds: dict[str, str]  # of columns that are not what they look like
    effort: str
    forms: dict[str, NumberForm] = field(default_factory=dict)  # of columns of amounts

    def classifier(self) -> LatentClassifier:
        return LatentClassifier(
            effort=self.effort,
            kinds=self.kinds or "auto",
            max_categories=MAX_CATEGORIES,
            unlabeled=None,
            random_state=0,
        )


def choose(view: TableView, target: str, kinds: dict[str, str], effort: str) -> Choices:
    """Check what was chosen; what cannot work is refused in a sentence that says what to do."""
    if effort not in EFFORTS:
        raise Problem(f"The effort {effort!r} is none of {', '.join(EFFORTS)}.", 400)
    labels = _labels(view, target)
    frame, given = _features(view, target, kinds)
    forms = {name: form for name in frame if (form := view.looks[name].form) is not None}
    return Choices(target, frame, labels, given, effort, forms)


def _labels(view: TableView, target: str) -> np.ndarray:
    table = view.table
    if target not in table.frame:
        raise Problem(f"There is no column {target!r}. Choose the column of classes.")
    n_known = int(table.frame[target].notna().sum())
    if n_known == 0:
        raise Problem(
            f"The column {target!r} has no label in any row. Write the class of some rows into it, at least "
            f"{MIN_LABELED} rows of two classes, or choose another column."
        )
    with explained("Choose another column of classes, or add rows of a second class."):
        labels = read_labels(table, target)
    if n_known < MIN_LABELED:
        raise Problem(
            f"{table.source} has {n_known} rows with a class, which is too few to learn from. Add rows: at least "
            f"{MIN_LABELED} with a class, better 30."
        )
    return labels


def _features(view: TableView, target: str, kinds: dict[str, str]) -> tuple[pandas.DataFrame, dict[str, str]]:
    """The columns to learn from, and the kinds that differ from their looks."""
    frame: dict[str, pandas.Series] = {}
    given: dict[str, str] = {}
    reasons: list[str] = []
    for name, column in view.columns.items():
        if name == target:
            continue
        reason = view.useless_because(name)
        kind = kinds.get(name, LEFT_OUT if reason else kind_of(column))
        if kind == LEFT_OUT:
            reasons.append(f"{name}: {reason or 'left out by you'}")
            continue
        if kind not in view.allowed_kinds(name):
            raise Problem(f"The column {name!r} cannot be {kind}. Choose {' or '.join(view.allowed_kinds(name))}.")
        frame[name] = column
        if kind != kind_of(column) or reason or view.looks[name].why_text:  # of which the page says why
            given[name] = kind
    if not frame:
        raise Problem(
            f"No column is left to learn from ({'; '.join(reasons[:3])}). Free text and ids say nothing by themselves: "
            "add columns of numbers or categories, such as a length, a topic or a date as a number."
        )
    return pandas.DataFrame(frame), given
