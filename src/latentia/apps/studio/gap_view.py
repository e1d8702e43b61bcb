"""How surprising a row is; what fills its gaps, and how surely: the distribution of each cell.

The density of the row with a value in the cell, over all values it could have, is proportional to
what the model expects there. This asks nothing of a model but its density.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable

import numpy as np
import pandas

from latentia.apps import JsonObject
from latentia.apps.studio.columns import Column
from latentia.apps.studio.limits import MAX_GAPS
from latentia.apps.studio.map_view import MapView
from latentia.apps.studio.row_view import Changes, row_values, rows_like
from latentia.apps.studio.table_view import cell_text
from latentia.table.frames import is_missing

#: Ends of the range of a number: eight in ten cells lie in it.
QUANTILES = (0.1, 0.9)

#: Levels that are listed.
MAX_LISTED = 4


def describe_gaps(view: MapView, row: int, changes: Changes) -> JsonObject:
    """How surprising the row is, and for each gap by the name of its column: what is expected
    there, and either a range and a curve, or levels and their probabilities.
    """
    values = row_values(view, row, changes)
    gaps = [place for place, value in enumerate(values) if value is None][:MAX_GAPS]
    grids = {place: view.columns[place].grid() for place in gaps}
    others = [(place, value) for place in gaps for value in grids[place]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = rows_like(view.columns, values, others)
        density = view.log_density(rows)
        filled = _filled(view, rows.iloc[:1]) if gaps else []
    known = np.array([value is not None for value in values])
    surprise = view.surprise.share_below(view.surprise.of(float(density[0]), known))
    found, start = {}, 1
    for place in gaps:
        part = density[start : start + len(grids[place])]
        start += len(grids[place])
        column = view.columns[place]
        found[column.name] = {"value": filled[place], **_range(column, grids[place], part)}
    return {"row": row, "surprise": float(surprise), "gaps": found}


def _filled(view: MapView, one: pandas.DataFrame) -> list[str | None]:
    """The row without gaps, as text."""
    found = view.model.impute(view.as_fitted(one))
    cells = found.iloc[0].tolist() if hasattr(found, "iloc") else np.asarray(found)[0].tolist()
    gaps = is_missing(np.array(cells, dtype=object))
    return [None if gap else _short(cell) for cell, gap in zip(cells, gaps, strict=True)]


def _short(cell: object) -> str | None:
    return f"{cell:.4g}" if isinstance(cell, float) else cell_text(cell)


def _range(column: Column, grid: list[Hashable], log_density: np.ndarray) -> JsonObject:
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    if column.levels:
        order = np.argsort(-weight, kind="stable")[:MAX_LISTED]
        return {"levels": [[cell_text(grid[k]), round(float(weight[k]), 4)] for k in order]}
    total = np.cumsum(weight) - weight / 2
    low, high = np.interp(QUANTILES, total, np.array(grid, dtype=float))
    if column.is_whole:
        low, high = np.floor(low), np.ceil(high)
    curve = np.round(weight / weight.max(), 3).tolist()
    return {"low": f"{low:.4g}", "high": f"{high:.4g}", "curve": curve}
