"""Values of a coded column that the fit did not see: counted, and told with the cure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from latentia.engine.messages import warn_at_caller
from latentia.inputs.column_levels import Levels

#: Known values that a message lists.
LISTED = 10


def report_unseen(name: Any, levels: Levels, values: Sequence[Any], counts: np.ndarray, handle_unknown: str) -> None:
    """Refuse unseen values, or warn that their cells count as missing.

    `values` are those of a column, and `counts` say how many cells have each.
    """
    unseen = np.flatnonzero(np.isnan(levels.find(values)) & (counts > 0))
    if not unseen.size:
        return
    first, known = values[unseen[0]], levels.values.tolist()
    more = f" and {unseen.size - 1} other value{'s' * (unseen.size > 2)}" if unseen.size > 1 else ""
    n_cells, n_all = int(counts[unseen].sum()), int(counts.sum())
    text = (
        f"column {name!r} holds {first!r}{more}, which fit did not see, in {n_cells} of its {n_all} known cells; known "
        f"are {known[:LISTED]}{' and more' if len(known) > LISTED else ''}"
    )
    hint = _hint(first, known, n_cells == n_all)
    if handle_unknown == "error":
        raise ValueError(f"{text}. Pass handle_unknown='missing' to treat such cells as missing.{hint}")
    cure = f"kinds={{{name!r}: 'continuous'}} reads the column as numbers, " if levels.values.is_numeric else ""
    warn_at_caller(f"{text}: such cells are treated as missing. {cure}handle_unknown='error' refuses such rows.{hint}")


def _hint(value: Any, known: Sequence[Any], is_all: bool) -> str:
    """What may be behind it: another spelling, or a column that is coded in another way."""
    alike = next((k for k in known if _plainly(k) == _plainly(value)), None)
    if alike is not None:
        return f" {value!r} looks like {alike!r}: write both alike."
    return " The column tells the model nothing here: is it coded as it was in fit?" if is_all else ""


def _plainly(value: Any) -> str:
    """Without case, spaces and the type of a number."""
    return str(value).strip().casefold().removesuffix(".0")
