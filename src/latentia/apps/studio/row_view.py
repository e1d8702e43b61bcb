"""One row, perhaps edited: where it lies, its classes, and what each cell adds to them."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import pandas

from latentia.apps import JsonObject
from latentia.apps.report.reason_sections import log_odds
from latentia.apps.studio.columns import Column
from latentia.apps.studio.limits import MAX_EXPLAINED
from latentia.apps.studio.map_view import MapView
from latentia.apps.studio.problems import Problem
from latentia.apps.studio.table_view import cell_text
from latentia.arrays.namespace import to_numpy

Changes = Mapping[str, str | None]


def row_values(view: MapView, row: int, changes: Changes) -> list[Hashable]:
    """The cells of a row with some changes; None where one is missing."""
    if not 0 <= row < len(view.frame):
        raise Problem(f"There is no row {row + 1}; the rows are 1 to {len(view.frame)}.")
    cells = view.frame.iloc[row].tolist()
    values = [None if gap else cell for cell, gap in zip(cells, ~view.known[row], strict=True)]
    places = {column.name: place for place, column in enumerate(view.columns)}
    for name, text in changes.items():
        if name not in places:
            raise Problem(f"There is no column {name!r}.", 400)
        values[places[name]] = view.columns[places[name]].value(text)
    return values


def rows_like(
    columns: Sequence[Column], values: list[Hashable], others: Sequence[tuple[int, Hashable]]
) -> pandas.DataFrame:
    """The row, then a row for each of the others: a place, and the cell that it has there."""
    cells = [[value] * (1 + len(others)) for value in values]
    for number, (place, value) in enumerate(others, start=1):
        cells[place][number] = value
    return pandas.DataFrame(
        {column.name: column.array(part) for column, part in zip(columns, cells, strict=True)}, copy=False
    )


def describe_row(view: MapView, row: int, changes: Changes) -> JsonObject:
    """What moves at once when a cell is edited."""
    values = row_values(view, row, changes)
    known = np.array([value is not None for value in values])
    explained = [int(k) for k in np.argsort(-view.separation, kind="stable") if known[k]][:MAX_EXPLAINED]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = rows_like(view.columns, values, [(place, None) for place in explained])
        proba = to_numpy(view.model.predict_proba(view.as_fitted(frame))).astype(float)
        point = view.plane.place(view.as_fitted(frame.iloc[:1]))[0]
    odds = log_odds(proba)
    added = np.zeros((len(values), proba.shape[1]))
    added[explained] = odds[0] - odds[1:]
    label = int(view.facts.known[row])
    return {
        "row": row,
        "cells": [cell_text(value) for value in values],
        "x": float(point[0]),
        "y": float(point[1]),
        "proba": proba[0].tolist(),
        "added": np.round(added, 4).tolist(),
        "label": label,
        "judged": _judged(view, row),
    }


def _judged(view: MapView, row: int) -> list[float] | None:
    """What models said of this row that were fitted without it."""
    found = view.facts.judged[row]
    return None if not view.facts.is_held_out or np.isnan(found).any() else found.tolist()
