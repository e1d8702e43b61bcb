"""Rows to look at: the most surprising ones, and those whose label the model doubts."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.base import BaseEstimator

from latentia.apps.report.elements import Bar, Cell, Section, number, paragraph, percent, plain, table
from latentia.apps.report.facts import Facts
from latentia.apps.report.tables import read_column, row_counting, row_names, rows_of, stacked, without_columns
from latentia.arrays.namespace import is_sparse, to_numpy
from latentia.table.frames import Table, is_missing

#: Rows that are listed, cells that are named for a row, columns that are looked at.
MAX_LISTED, MAX_CELLS, MAX_COLUMNS = 10, 3, 100


def surprising_rows(facts: Facts) -> Section | None:
    """Rows of the least density, and the cells that make them so."""
    if not hasattr(facts.model, "score_samples") or is_sparse(facts.X):
        return None
    density = _density(facts.model, facts.predicted_table)
    order = np.argsort(density, kind="stable")[: min(MAX_LISTED, density.size)]
    part = rows_of(facts.predicted_table, order)
    odd = _oddness(facts, part, density[order])
    names = row_names(facts.X)
    rows: list[list[Cell]] = []
    for k, place in enumerate(order.tolist()):
        label = facts.known[place] if facts.has_classes else -1
        rows.append(
            [
                names[facts.rows[place]],
                facts.classes[label] if label >= 0 else "",
                number(density[place]),
                _cells(facts, part, k, odd[k]),
            ]
        )
    middle = number(float(np.median(density)))
    note = (
        f"Rows with the least density of their known cells; half of all rows have a log density above {middle}. The "
        f"cells are those that the rest of the row makes least likely. {row_counting(facts.X)}"
    )
    header = ["row", "class", "log density", "most surprising cells"]
    body = paragraph(note) + table("Surprising rows", header, rows, words=(1, 3))
    return Section("The most surprising rows", body, half=True)


def _density(model: BaseEstimator, X: Table) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return to_numpy(model.score_samples(X)).astype(float)


def _oddness(facts: Facts, part: Table, density: np.ndarray) -> np.ndarray:
    """How much log density each known cell costs its row, (rows, columns)."""
    columns = range(min(facts.n_columns, MAX_COLUMNS))
    hidden = stacked([without_columns(part, {place: np.nan}) for place in columns])
    without = _density(facts.model, hidden).reshape(len(columns), density.size).T
    missing = np.stack([is_missing(read_column(part, place)) for place in columns], axis=1)
    return np.where(missing, -np.inf, without - density[:, None])


def _cells(facts: Facts, part: Table, row: int, odd: np.ndarray) -> str:
    order = [place for place in np.argsort(-odd, kind="stable")[:MAX_CELLS] if odd[place] > 0]
    return ", ".join(f"{facts.columns[place]} = {plain(read_column(part, place)[row])}" for place in order)


def disputed_labels(facts: Facts) -> Section | None:
    """Labeled rows that the model would put into another class."""
    if not facts.has_classes or not facts.is_judged.any():
        return None
    proba, codes = facts.judged, facts.known
    use = np.flatnonzero(facts.is_judged)
    own = proba[use, codes[use]]
    disputed = use[np.argsort(own, kind="stable")]
    disputed = disputed[proba[disputed, codes[disputed]] < 0.5]
    names = row_names(facts.X)
    rows: list[list[Cell]] = []
    for place in disputed[:MAX_LISTED].tolist():
        best = int(proba[place].argmax())
        mine = float(proba[place, codes[place]])
        if best != codes[place]:
            rows.append(
                [
                    names[facts.rows[place]],
                    facts.classes[codes[place]],
                    percent(mine),
                    facts.classes[best],
                    Bar(percent(float(proba[place, best])), float(proba[place, best])),
                ]
            )
    if not rows:
        return None
    note = (
        f"{facts.judged_on} {disputed.size:,} of {use.size:,} labeled rows have a class to which the model gives less "
        f"than one half. Such a row may be unusual, or its label wrong: look at it. {row_counting(facts.X)}"
    )
    header = ["row", "its label", "probability of it", "the model says", "probability of that"]
    body = paragraph(note) + table("Doubted labels", header, rows, words=(1, 3))
    return Section("Labels the model doubts", body, half=True)
