"""Tables with text, categories and numbers: what kind each column is, and its cells as numbers.

A binary or categorical column becomes the codes 0, 1, ... of its sorted values, a continuous one
stays as it is; NaN marks a missing cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from latentia._user_warnings import warn_at_caller
from latentia.inputs.dataframes import as_frame, column_dtype, column_names, frame_dtypes, frame_type, raw_column
from latentia.inputs.labels import is_missing
from latentia.numerics.array_api import asarray_like, namespace, to_numpy


class ColumnKind(Protocol):
    """How the cells of a kind of column are read."""

    is_coded: ClassVar[bool]  # whether they become the codes 0, 1, ... of the sorted values of their column
    n_categories: ClassVar[int | None]  # how many values a coded column has; None for as many as it shows


#: Dtypes of pandas, polars and pyarrow columns whose values float32 holds, in lowercase.
NARROW_FLOATS = {"float16", "float32", "halffloat[pyarrow]", "float[pyarrow]"}


class ColumnEncoder(NamedTuple):
    """The kinds of a table's columns and the values of those that are coded."""

    kinds: tuple[str, ...]
    categories: tuple[Any, ...]  # sorted values of a coded column, None for a continuous one
    names: tuple[Any, ...]  # as errors and warnings call the columns
    frame: str  # "pandas", "polars" or "array": what `decode` returns
    dtypes: tuple[Any, ...]  # of a data frame's columns

    @classmethod
    def from_table(cls, X: Any, kinds: Any, known_kinds: Mapping[str, type[ColumnKind]]) -> ColumnEncoder:
        """Read the kinds off a table, or take given ones, by the names of `known_kinds`."""
        names = column_names(X)
        given = _given_kinds(kinds, names, tuple(known_kinds))
        found, categories = [], []
        for place, name in enumerate(names):
            kind, values = _kind_of(X, place, name, given[place], known_kinds)
            found.append(kind)
            categories.append(values)
        return cls(tuple(found), tuple(categories), tuple(names), frame_type(X), frame_dtypes(X))

    @classmethod
    def continuous(cls, n_columns: int) -> ColumnEncoder:
        """For arrays of numbers, which stay as they are."""
        return cls(("continuous",) * n_columns, (None,) * n_columns, tuple(range(n_columns)), "array", ())

    @property
    def modeled_kinds(self) -> list[str]:
        """Kinds as they are fitted: two categories are logistic in the difference of their
        linear predictors,
        and the tighter bound serves.
        """
        return [
            "binary" if kind == "categorical" and values.size == 2 else kind
            for kind, values in zip(self.kinds, self.categories, strict=True)
        ]

    @property
    def n_categories(self) -> list[int]:
        """Number of values of each coded column, at least one; zero for others."""
        return [0 if values is None else max(1, values.size) for values in self.categories]

    @property
    def is_numeric(self) -> bool:
        """Whether all values are numbers, so that rows can be given back as a numeric array."""
        return all(c is None or c.dtype.kind in "biuf" for c in self.categories)

    def encode(self, X: Any, handle_unknown: str) -> Any:
        """Cells as numbers, in the namespace of a numeric array, else in NumPy's; float32 where all
        continuous columns are narrow floats, else float64.
        """
        if all(c is None for c in self.categories) and frame_type(X) == "array" and not is_textual(X):
            return X
        if frame_type(X) == "array" and not is_textual(X):
            return self._encode_numeric(X, handle_unknown)
        columns = []
        for place, values in enumerate(self.categories):
            cells = raw_column(X, place)
            columns.append(
                as_numbers(cells, self.names[place]) if values is None else self._codes(cells, place, handle_unknown)
            )
        return np.stack(columns, axis=1, dtype=np.float32 if self._is_narrow(X) else np.float64)

    def _is_narrow(self, X: Any) -> bool:
        """Whether there are continuous columns and none needs more than float32; a column says so
        by its dtype, since gaps widen its cells.
        """
        found = {str(column_dtype(X, k)).lower() for k, values in enumerate(self.categories) if values is None}
        return bool(found) and found <= NARROW_FLOATS

    def _encode_numeric(self, X: Any, handle_unknown: str) -> Any:
        if all(c is None or (c.dtype.kind in "biuf" and np.array_equal(c, np.arange(c.size))) for c in self.categories):
            coded = [k for k, c in enumerate(self.categories) if c is not None]
            unknown = self._strange(to_numpy(X), coded)
            if not unknown:
                xp = namespace(X)
                return X if xp.isdtype(X.dtype, "real floating") else xp.astype(X, xp.float64)
        numbers = np.array(to_numpy(X), dtype=np.float64)
        for place, values in enumerate(self.categories):
            if values is not None:
                numbers[:, place] = self._codes(numbers[:, place], place, handle_unknown)
        xp = namespace(X)
        return asarray_like(numbers, X, dtype=X.dtype if xp.isdtype(X.dtype, "real floating") else xp.float64)

    def _strange(self, X: np.ndarray, coded: list[int]) -> bool:
        sizes = np.array([self.categories[k].size for k in coded])
        part = X[:, coded]
        fine = (part >= 0) & (part < sizes) & (part == np.floor(part))
        return not bool((fine | np.isnan(part)).all()) if part.dtype.kind == "f" else not bool(fine.all())

    def _codes(self, cells: np.ndarray, place: int, handle_unknown: str) -> np.ndarray:
        values = self.categories[place]
        missing = is_missing(cells)
        codes = np.full(len(cells), np.nan)
        known = cells[~missing]
        known = known.astype(str) if values.dtype.kind == "U" else as_numbers(known, self.names[place])
        index = np.clip(np.searchsorted(values, np.asarray(known)), 0, max(values.size - 1, 0))
        match = values[index] == known if values.size else np.zeros(known.shape, bool)
        if not match.all():
            unseen = known[~match].tolist()[0]
            text = (
                f"column {self.names[place]!r} holds {unseen!r}, which fit did not see; known are "
                f"{values.tolist()[:10]}"
            )
            if handle_unknown == "error":
                raise ValueError(f"{text}. Pass handle_unknown='missing' to treat such cells as missing.")
            warn_at_caller(f"{text}: such cells are treated as missing.")
        codes[~missing] = np.where(match, index, np.nan)
        return codes

    def decode(self, rows: Any, index: Any = None) -> Any:
        """Coded rows as the user's values: a numeric array, an array of objects, or a data frame
        like the one fitted, with this index.
        """
        if self.is_numeric and self.frame == "array":
            return self._decode_numeric(rows)
        numbers = to_numpy(rows)
        columns = []
        for place, values in enumerate(self.categories):
            cells = numbers[:, place]
            columns.append(cells if values is None else _take(values, cells))
        if self.frame == "array":
            return np.stack([c.astype(object) for c in columns], axis=1)
        return as_frame(self.frame, self.names, columns, self.dtypes, index)

    def _decode_numeric(self, rows: Any) -> Any:
        moved = [k for k, c in enumerate(self.categories) if c is not None and not np.array_equal(c, np.arange(c.size))]
        if not moved:
            return rows
        numbers = np.array(to_numpy(rows))
        for place in moved:
            numbers[:, place] = _take(self.categories[place], numbers[:, place])
        return asarray_like(numbers, rows)


def _take(values: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Values at codes; between the values of a numeric binary column for codes between."""
    if values.dtype.kind in "biuf" and values.size == 2:
        # the values' own precision, not that of the continuous columns beside them
        return values[0] + codes.astype(np.float64) * (float(values[1]) - float(values[0]))
    return values[np.clip(np.rint(codes), 0, values.size - 1).astype(int)]


def is_textual(X: Any) -> bool:
    """Whether an array holds objects or text."""
    return getattr(getattr(X, "dtype", None), "kind", None) in ("O", "U", "S")


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
        raise TypeError(f"column {name!r} of X holds {what}: argument must be a string or a number; {cure}.") from error
    except ValueError as error:
        raise ValueError(
            f"column {name!r} of X holds text, but its kind is 'continuous' or numeric: {error}"
        ) from error
    return out


def _given_kinds(kinds: Any, names: Sequence[Any], known: tuple[str, ...]) -> list[str | None]:
    allowed = (
        f"'auto', one of {known} for all columns, a sequence with one of them per column, or a dict from column to kind"
    )
    if isinstance(kinds, str):
        if kinds != "auto" and kinds not in known:
            raise ValueError(f"kinds={kinds!r}; allowed are {allowed}.")
        return [None if kinds == "auto" else kinds] * len(names)
    if isinstance(kinds, Mapping):
        unknown = [k for k in kinds if k not in names]
        if unknown:
            raise ValueError(
                f"kinds names the column {unknown[0]!r}, which X does not have; its columns are {list(names)}."
            )
        kinds = [kinds.get(name, "auto") for name in names]
    if not isinstance(kinds, Sequence | np.ndarray):
        raise ValueError(f"kinds={kinds!r}; allowed are {allowed}.")
    kinds = list(kinds)
    if len(kinds) != len(names):
        raise ValueError(f"kinds has {len(kinds)} entries, but X has {len(names)} columns; allowed are {allowed}.")
    for kind in kinds:
        if kind not in ("auto", *known):
            raise ValueError(f"kinds holds {kind!r}; allowed are {allowed}.")
    return [None if kind == "auto" else kind for kind in kinds]


def _kind_of(
    X: Any, place: int, name: Any, given: str | None, known_kinds: Mapping[str, type[ColumnKind]]
) -> tuple[str, np.ndarray | None]:
    """The kind of a column and its sorted values."""
    if given is not None and not known_kinds[given].is_coded:
        return given, None
    cells = raw_column(X, place)
    known = cells[~is_missing(cells)]
    textual = known.dtype.kind in "OUS" and any(isinstance(c, str | bytes) for c in known.tolist())
    dtype = str(column_dtype(X, place))
    category = textual or dtype.lower().startswith(("category", "categorical", "enum"))
    if textual:
        if not all(isinstance(c, str | bytes) for c in known.tolist()):
            known = np.array([str(c) for c in known.tolist()], dtype=str)
        values = np.unique(known.astype(str))
    else:
        values = np.unique(as_numbers(known, name)) if known.dtype.kind not in "biu" else np.unique(known)
        values = values.astype(np.int64) if values.dtype.kind == "b" else values
        if np.isinf(values).any():
            raise ValueError(
                f"Input X contains infinity in column {name!r}; allowed are finite numbers, and NaN or None where a "
                "cell is missing."
            )
    if given is None:
        two_integers = values.size == 2 and not category and bool((values == np.floor(values)).all())
        if category:
            given = "categorical"
        elif known.dtype.kind == "b" or dtype.lower() in ("bool", "boolean") or two_integers:
            given = "binary"
        else:
            return "continuous", None
    n_categories = known_kinds[given].n_categories
    if n_categories is not None and values.size > n_categories:
        raise ValueError(
            f"column {name!r} is to be {given}, but holds {values.size} different values: {values.tolist()[:5]}..."
        )
    if n_categories is not None and values.size < n_categories and not textual:
        values = _with_unseen_values(values, n_categories)
    return given, values


def _with_unseen_values(values: np.ndarray, n_categories: int) -> np.ndarray:
    """The sorted values, and as many that a column might have shown besides: 0, 1, ..., or the next
    numbers.
    """
    usual = np.arange(n_categories, dtype=values.dtype)
    if np.isin(values, usual).all():
        return usual
    return np.concatenate([values, values[-1] + 1 + np.arange(n_categories - values.size, dtype=values.dtype)])
