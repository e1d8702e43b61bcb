"""Starts of models that are trained as one batch on columns of row weights.

A fold of cross-validation is a column with zeros for the rows held out. Its start must not know
them either: where most rows have no label, training hardly leaves a start behind.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from latentia.arrays.namespace import namespace
from latentia.engine.contracts import EMFamily, GenerativeFamily, Params
from latentia.engine.rows import ArraySource
from latentia.engine.tree import tree_map


def column_starts(
    family: EMFamily, source: ArraySource, groups: Iterable[np.ndarray], rng: np.random.Generator
) -> Params:
    """Parameters to start from, those of a group of columns by the rows that have weight in it.

    Points start from labeled rows alone. All groups see the same random numbers.
    """
    seed, parts = int(rng.integers(2**31)), []
    for columns in groups:
        rows = source.take_restarts(columns)
        rows = rows.labeled_only() if isinstance(family, GenerativeFamily) else rows
        parts.append(family.init(rows, np.random.default_rng(seed), columns.size))
    return tree_map(lambda *each: namespace(*each).concat(each, axis=0), *parts)
