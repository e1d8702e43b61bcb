"""Tables that are not in memory: files, and collections of Dask.

`LazyTable` is all that estimators know of them. To fit, its parts are read where they are; to
predict, `map_rows` makes the same kind of lazy result of a function that sees one part at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from latentia.engine.parts import Parts


class RawPart(NamedTuple):
    """Rows of a table as they came."""

    X: Any  # a data frame or an array
    y: Any
    weight: Any


class LazyTable(ABC):
    """A table in parts."""

    name: str  # what errors call it
    #: An empty table with the columns and dtypes of all parts.
    meta: Any
    #: How many rows there are; None where that is not known before they are read.
    n_rows: int | None

    @abstractmethod
    def training_parts(self, y: Any, sample_weight: Any) -> Parts:
        """The parts (`RawPart`) with their labels and weights."""

    @abstractmethod
    def map_rows(self, fn: Callable[..., Any], y: Any = None) -> Any:
        """`fn` of each part, and of its labels if given, as a lazy table or array."""

    @abstractmethod
    def reduce_rows(self, fn: Callable[..., Any], y: Any, sample_weight: Any) -> list[Any]:
        """`fn` of each part, its labels and its weights, at once and here."""


def lazy_table(X: Any) -> LazyTable | None:
    """A table that is not in memory; None for others."""
    if isinstance(X, LazyTable):
        return X
    if is_dask(X):
        from latentia.scale.dask import dask_table

        return dask_table(X)
    return None


def is_dask(X: Any) -> bool:
    """Whether X is a collection of Dask, which is not imported to find out."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr") and hasattr(X, "__dask_graph__")


def is_lazy(X: Any) -> bool:
    """Whether X is a table, a column or an array that is not in memory."""
    return isinstance(X, LazyTable) or is_dask(X)


def refuse_lazy(what: str, values: Any, why: str) -> None:
    """Say what is wrong with a lazy table or column where only values in memory serve."""
    if is_lazy(values):
        kind = values.name if isinstance(values, LazyTable) else f"a Dask {type(values).__name__}"
        raise TypeError(f"{what} is {kind}, but {why}.")
