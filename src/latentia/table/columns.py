"""Which kind each column of a table is: as the user says, or by its dtype.

The dtype of a column is the same in every fold, the values that it happens to show are not. So an
array of numbers is continuous, unless all its cells are 0 or 1: then it is binary. In a data frame
floats are continuous; columns of bool, and of integers of which there are just two, are binary.

The values of a coded column: which code each has, and which value stands for a code.

Values that are rare may share a code, as in scikit-learn's `OneHotEncoder`; the most frequent of
them stands for all.

The order of the levels of an ordinal column, which text alone does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from latentia.arrays.namespace import to_numpy
from latentia.table.cells import NUMBER, PLAIN_AMOUNTS, Doubt, DoubtfulColumn, amount_in, slip_in
from latentia.table.frames import ColumnType, PlainValues, frame_type, is_missing

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


def check_min_frequency(name: str, value: Any) -> None:
    """An integer from 1 on, a share of the cells, or None."""
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1:
        return
    if value is not None and not (isinstance(value, float) and 0 < value < 1):
        raise ValueError(
            f"{name}={value!r}; allowed are an integer >= 1 (cells of a value), a number > 0 and < 1 (their share), "
            "and None."
        )


class Merging(NamedTuple):
    """When values of a column of categories count as rare, and share a code."""

    max_categories: int | None = None  # codes of a column, that of the rare values included
    min_frequency: int | float | None = None  # known cells with a value, or their share

    @property
    def is_asked_for(self) -> bool:
        return self.max_categories is not None or self.min_frequency is not None

    def rare(self, counts: np.ndarray) -> np.ndarray:
        """Which values are rare, given how many known cells have each."""
        rare = np.zeros(counts.size, dtype=bool)
        if self.min_frequency is not None:
            share = isinstance(self.min_frequency, float)
            rare = counts < self.min_frequency * (counts.sum() if share else 1)
        n_codes = counts.size - rare.sum() + bool(rare.any())
        if self.max_categories is not None and self.max_categories < n_codes:
            rare[np.argsort(-counts, kind="stable")[self.max_categories - 1 :]] = True
        return rare


#: Every value has a code of its own.
NO_MERGING = Merging()


class Levels(NamedTuple):
    """Values of a column, their codes 0, 1, ..., and the value that stands for each code."""

    values: PlainValues
    codes: np.ndarray  # (values,)
    shown: np.ndarray  # (codes,) numbers of values

    @classmethod
    def of(cls, values: PlainValues) -> Levels:
        """A code for each value."""
        numbers = np.arange(len(values))
        return cls(values, numbers, numbers)

    def merge(self, counts: np.ndarray, merging: Merging) -> Levels:
        """Rare values share the last code."""
        rare = merging.rare(counts)
        if rare.sum() < 2:
            return self
        kept = np.flatnonzero(~rare)
        codes = np.full(rare.size, kept.size)
        codes[kept] = np.arange(kept.size)
        most_frequent = np.flatnonzero(rare)[np.argmax(counts[rare])]
        return Levels(self.values, codes, np.append(kept, most_frequent))

    @property
    def n_codes(self) -> int:
        return len(self.shown)

    @property
    def is_plain(self) -> bool:
        """Whether the values are the numbers 0, 1, ..., and these their codes."""
        return self.values.is_numeric and np.array_equal(self.categories(), self.codes)

    def categories(self) -> np.ndarray:
        """The value that stands for each code."""
        return self.values.to_array()[self.shown]

    def merged(self) -> np.ndarray | None:
        """The values that share a code; None if none do."""
        shared = np.bincount(self.codes, minlength=self.n_codes)[self.codes] > 1
        return self.values.to_array()[shared] if shared.any() else None

    def find(self, values: Sequence[Any]) -> np.ndarray:
        """The codes of some values, NaN for those that are not known."""
        code_of = dict(zip(self.values.tolist(), self.codes.tolist(), strict=True))
        return np.array([code_of.get(v, np.nan) for v in values], dtype=np.float64)

    def take(self, codes: np.ndarray, between: bool) -> np.ndarray:
        """Values at codes; with `between`, also between the values of a numeric binary column."""
        values = self.categories()
        if not values.size:  # a column without a known value: there is nothing to take
            return np.full(codes.shape, np.nan)
        if between and self.values.is_numeric and values.size == 2:
            # the values' own precision, not that of the continuous columns beside them
            return values[0] + codes.astype(np.float64) * (float(values[1]) - float(values[0]))
        return values[np.clip(np.rint(codes), 0, values.size - 1).astype(int)]


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
