"""The order of the levels of an ordinal column, which text alone does not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from latentia.inputs.column_doubts import NUMBER, Doubt, DoubtfulColumn
from latentia.inputs.dataframes import ColumnType


def order_of(name: Any, kind: ColumnType | None, values: Sequence[Any], counts: np.ndarray) -> list[int]:
    """The places of values, from low to high: as they are, and numbers that are text by size.

    Other text of three or more values is refused, unless its dtype has an order: the alphabet is
    none.
    """
    shown = [value for value, count in zip(values, counts.tolist(), strict=True) if count]
    as_is = list(range(len(values)))
    if len(shown) < 3 or not any(isinstance(v, str) for v in shown) or (kind is not None and _has_order(kind)):
        return as_is
    is_category = kind is not None and kind.is_category
    if not is_category and all(isinstance(v, str) and NUMBER.fullmatch(v.strip()) for v in values):
        return sorted(as_is, key=lambda k: float(values[k]))
    listed = ", ".join(repr(v) for v in shown[:4]) + (", ..." if len(shown) > 4 else "")
    cure = (
        "Name the order by an ordered categorical, such as pandas.Categorical(column, ['low', 'middle', 'high'], "
        "ordered=True), or pass integers: 0 for the lowest level, 1, ..."
    )
    raise DoubtfulColumn(Doubt(name, f"is to be ordinal, but its values are text without an order ({listed})", cure))


def _has_order(kind: ColumnType) -> bool:
    """Whether a dtype says so, or lists its categories otherwise than by the alphabet."""
    known = None if kind.categories is None else kind.categories.tolist()
    return kind.ordered or (known is not None and known != sorted(known, key=str))
