"""Which kind each column of a table is: as the user says, or by its dtype.

The dtype of a column is the same in every fold, the values that it happens to show are not. So an
array of numbers is continuous, unless all its cells are 0 or 1: then it is binary. In a data frame
floats are continuous; columns of bool, and of integers of which there are just two, are binary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from numbers import Real
from typing import Any, ClassVar, Protocol

import numpy as np

from latentia.arrays.namespace import to_numpy
from latentia.inputs.column_doubts import PLAIN_AMOUNTS, amount_in, slip_in
from latentia.inputs.dataframes import ColumnType, frame_type, is_missing

#: Rows that are looked at together when a table is searched for other cells than 0 and 1.
SCAN_ROWS = 2**12


class ColumnKind(Protocol):
    """How the cells of a kind of column are read."""

    is_coded: ClassVar[bool]  # whether they become the codes 0, 1, ... of the sorted values of their column
    is_count: ClassVar[bool]  # whether only whole numbers from zero on are allowed
    needs_size: ClassVar[bool]  # whether `column_size` must see the cells of its columns
    n_categories: ClassVar[int | None]  # how many values a coded column has; None for as many as it shows

    @classmethod
    def column_size(cls, cells: np.ndarray, counts: np.ndarray | None = None) -> float:
        """What the model must know of a column of numbers beforehand: from its known cells, or its
        values and how many cells have each.
        """


def given_kinds(kinds: Any, names: Sequence[Any], known: tuple[str, ...]) -> list[str | None]:
    """The kind that the user gives each column; None where it is to be found."""
    allowed = (
        f"'auto', one of {known} for all columns, a sequence with one of them per column, or a dict from column to kind"
    )
    if isinstance(kinds, str):
        if kinds != "auto" and kinds not in known:
            raise ValueError(f"kinds={kinds!r}; allowed are {allowed}.")
        return [None if kinds == "auto" else kinds] * len(names)
    if isinstance(kinds, Mapping):
        kinds = _by_column(kinds, names)
    if not isinstance(kinds, Sequence | np.ndarray):
        raise ValueError(f"kinds={kinds!r}; allowed are {allowed}.")
    kinds = list(kinds)
    if len(kinds) != len(names):
        raise ValueError(f"kinds has {len(kinds)} entries, but X has {len(names)} columns; allowed are {allowed}.")
    for kind in kinds:
        if kind not in ("auto", *known):
            raise ValueError(f"kinds holds {kind!r}; allowed are {allowed}.")
    return [None if kind == "auto" else kind for kind in kinds]


def _by_column(kinds: Mapping[Any, Any], names: Sequence[Any]) -> list[Any]:
    """A kind for each column, from a dict by names or, where no column has such a name, numbers."""
    found = ["auto"] * len(names)
    for column, kind in kinds.items():
        is_index = isinstance(column, int | np.integer) and -len(names) <= column < len(names)
        if column not in names and not is_index:
            raise ValueError(
                f"kinds names the column {column!r}, which X does not have; its columns are {list(names)}."
            )
        found[names.index(column) if column in names else int(column)] = kind
    return found


def is_textual(X: Any) -> bool:
    """Whether an array holds objects or text."""
    return getattr(getattr(X, "dtype", None), "kind", None) in ("O", "U", "S")


def holds_only_bits(X: Any) -> bool:
    """Whether all known cells of a numeric array are 0 or 1, and there are any."""
    if frame_type(X) != "array" or is_textual(X):
        return False
    seen = False
    for start in range(0, X.shape[0], SCAN_ROWS):
        part = to_numpy(X[start : min(start + SCAN_ROWS, X.shape[0]), ...])
        is_bit = (part == 0) | (part == 1)
        if not (is_bit | (part != part)).all():
            return False
        seen = seen or bool(is_bit.any())
    return seen


def found_kind(kind: ColumnType | None, values: Sequence[Any]) -> str:
    """The kind of a column of a data frame, or of an array of objects (which has no dtype)."""
    if kind is not None and kind.is_category:
        return "ordinal" if kind.ordered else "categorical"
    if any(isinstance(v, str | bytes) for v in values):
        return "categorical"
    if values and all(isinstance(v, bool | np.bool_) for v in values):
        return "binary"
    has_dtype = kind is not None and kind.name != "object"
    is_integer = kind.is_integer if has_dtype and kind else all(isinstance(v, int | np.integer) for v in values)
    two_valued = len(values) == 2 or set(values) in ({0}, {1})
    return "binary" if is_integer and two_valued else "continuous"


def as_numbers(cells: np.ndarray, name: Any) -> np.ndarray:
    """Cells as float64, NaN where missing."""
    if cells.dtype.kind in "biuf":
        return cells.astype(np.float64)
    out = np.full(cells.shape, np.nan)
    known = ~is_missing(cells)
    try:
        out[known] = [float(c) for c in cells[known].tolist()]
    except TypeError as error:
        strange = next(c for c in cells[known].tolist() if not isinstance(c, str | bytes | Real))
        cure = "convert them to numbers" if isinstance(strange, date) else "allowed are numbers, text and categories"
        what = "dates" if isinstance(strange, date) else f"a {type(strange).__name__}"
        raise TypeError(
            f"column {name!r} of X holds {what}: argument must be a string or a number; {cure} (in pandas, "
            ".astype('category') makes categories of them)."
        ) from error
    except ValueError as error:
        slip = slip_in(cells[known].tolist())
        wrong = str(error).removeprefix("could not convert string to float: ")
        cure = f"{PLAIN_AMOUNTS} Otherwise" if amount_in(cells[known].tolist()) else "Correct or remove such cells;"
        raise ValueError(
            f"column {name!r} of X holds text where numbers are expected: "
            f"{wrong if slip is None else slip.text}. {cure} pass "
            f"kinds={{{name!r}: 'categorical'}} if its values are categories."
        ) from error
    return out


def check_finite(numbers: np.ndarray, name: Any) -> None:
    """Refuse infinity by the name of its column."""
    if np.isinf(numbers).any():
        raise ValueError(
            f"Input X contains infinity in column {name!r}; allowed are finite numbers, and NaN or None where a "
            "cell is missing."
        )


def check_counts(numbers: np.ndarray, name: Any) -> None:
    """Refuse what is no count."""
    wrong = numbers[(numbers < 0) | (numbers != np.floor(numbers)) & ~np.isnan(numbers)]
    if wrong.size:
        raise ValueError(
            f"column {name!r} of X holds {wrong[0]:g}, but its kind is 'count'; allowed are whole numbers from 0 on, "
            "and NaN or None where a cell is missing."
        )
