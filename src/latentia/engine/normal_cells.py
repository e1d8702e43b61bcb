"""Missing cells that are normal, and what is expected of functions of them.

A family models transformed columns. The expectation of a cell in its own units is not the original
of the expected transformed cell: it needs the variance too, class by class and component by
component, before anything is averaged.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol

from latentia.arrays.namespace import Array
from latentia.engine.contracts import GenerativeFamily, Params
from latentia.engine.source import MaskedRows


class Expectation(Protocol):
    """What is expected of normal cells (..., N, n) with these moments, in the numbered columns.

    Variances need only broadcast.
    """

    def __call__(self, mean: Array, variance: Array, columns: Sequence[int]) -> Array: ...


class NormalCellsFamily(GenerativeFamily):
    """A family whose continuous cells are normal given class, component and the known cells.

    Of other families, originals are taken of the expected cells.
    """

    @abstractmethod
    def impute_expected(self, params: Params, rows: MaskedRows, class_probs: Array, expect: Expectation) -> Array:
        """`impute`, of what is expected of continuous cells in place of their means.

        Cells of other kinds are taken as certain. Known cells need not be kept.
        """
