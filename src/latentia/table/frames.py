"""Data frames of pandas and polars and tables of pyarrow, without importing any unless one is met:
columns out of them, and a frame of the same dtypes back.

The values of a column are kept in plain arrays and tuples, so that fitted models can be saved by
any means: a category of pandas may be text, a number, an interval, a date or a tuple, and is taken
apart into what serializers know (`PlainValues`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeGuard

import numpy as np

from latentia.arrays.namespace import Array, to_numpy

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from pandas.api.extensions import ExtensionDtype

#: A data frame of any library.
DataFrame: TypeAlias = "pandas.DataFrame | polars.DataFrame | pyarrow.Table"

#: A table in memory that has been looked at: its rows and columns are known.
Table: TypeAlias = "DataFrame | Array"

#: What users pass as a table in memory.
TableLike: TypeAlias = "Table | Sequence[Sequence[object]]"

#: The dtype of a data frame's column, as its library has it.
Dtype: TypeAlias = "ExtensionDtype | polars.DataType | pyarrow.DataType"


def is_array(values: object) -> TypeGuard[Array]:
    """Whether values are an array of any library, on any device."""
    return hasattr(values, "__dlpack__")


def on_host(values: object, dtype: type | None = None) -> np.ndarray:
    """An array that lives anywhere, or what else NumPy reads, in NumPy."""
    return np.asarray(to_numpy(values) if is_array(values) else values, dtype=dtype)


def is_missing(values: np.ndarray) -> np.ndarray:
    """Which values are None, NaN or pandas' NA."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind != "O":
        return np.zeros(values.shape, bool)
    missing = [v is None or type(v).__name__ in ("NAType", "NaTType") or v != v for v in values.ravel().tolist()]
    return np.array(missing, dtype=bool).reshape(values.shape)


class ColumnType(NamedTuple):
    """The dtype of a data frame's column, in plain values."""

    name: str  # as its library writes it
    categories: PlainValues | None = None
    ordered: bool = False

    @property
    def is_integer(self) -> bool:
        return self.name.lower().startswith(("int", "uint")) and not self.name.lower().startswith("interval")

    @property
    def float_name(self) -> str:
        """The floats of pandas that go with its integers, nullable or not."""
        if self.name.endswith("[pyarrow]"):
            return "double[pyarrow]"
        return "Float64" if self.name.startswith(("I", "U")) else "float64"

    @property
    def is_float(self) -> bool:
        return self.name.lower().startswith(("float", "double", "halffloat"))

    @property
    def is_number(self) -> bool:
        return self.is_integer or self.is_float

    @property
    def is_bool(self) -> bool:
        return self.name.lower() in ("bool", "boolean", "bool[pyarrow]")

    @property
    def is_category(self) -> bool:
        return self.name.lower().startswith(("category", "categorical", "enum", "dictionary"))

    @property
    def is_date(self) -> bool:
        """Whether a column holds points or spans of time."""
        times = ("datetime", "timestamp", "date", "period", "time", "duration", "interval[datetime")
        return self.name.lower().startswith(times)


@cache
def _library(kind: type) -> str:
    modules = {base.__module__.split(".")[0] for base in kind.__mro__}  # of subclasses, too
    return next((m for m in ("pandas", "polars", "pyarrow") if m in modules), "array")


def frame_type(X: object) -> str:
    """ "pandas", "polars", "pyarrow" or "array"."""
    kind: type = type(X)
    return _library(kind) if hasattr(X, "columns") else "array"


def is_frame(X: object) -> TypeGuard[DataFrame]:
    return frame_type(X) != "array"


def is_pandas(X: object) -> TypeGuard[pandas.DataFrame]:
    return frame_type(X) == "pandas"


def is_polars(X: object) -> TypeGuard[polars.DataFrame]:
    return frame_type(X) == "polars"


def is_arrow(X: object) -> TypeGuard[pyarrow.Table]:
    return frame_type(X) == "pyarrow"


def is_textual(X: object) -> bool:
    """Whether an array holds objects or text."""
    return getattr(getattr(X, "dtype", None), "kind", None) in ("O", "U", "S")


def column_names(X: Table) -> list[Hashable]:
    if not is_frame(X):
        return list(range(X.shape[1]))
    return list(X.column_names) if is_arrow(X) else list(X.columns)


def raw_column(X: Table, place: int) -> np.ndarray:
    """One column on the host."""
    if is_pandas(X):
        column = X.iloc[:, place]
        is_plain = column.dtype.kind in "biuf" and (isinstance(column.dtype, np.dtype) or not column.isna().any())
        return column.to_numpy() if is_plain else column.astype(object).to_numpy()
    if is_polars(X):
        column = X.to_series(place)
        is_plain = column.dtype.is_numeric() and not column.null_count()
        return column.to_numpy() if is_plain else as_objects(column.to_list())
    if is_arrow(X):
        column = X.column(place)
        is_plain = ColumnType(str(column.type)).is_number and not column.null_count
        return np.asarray(column) if is_plain else as_objects(column.to_pylist())
    return to_numpy(X[:, place])


def distinct_values(X: Table, place: int) -> tuple[list[Hashable], np.ndarray]:
    """The different values of a column, and the number of each cell's value, -1 where missing.

    Those of a pandas category are in its order and may be absent; others are sorted, where they can
    be.
    """
    if is_pandas(X) and str(X.dtypes.iloc[place]) == "category":
        column = X.iloc[:, place].cat
        return column.categories.tolist(), column.codes.to_numpy().astype(np.int64)
    if is_arrow(X) and getattr(X.schema.field(place).type, "ordered", False):
        column = X.column(place).unify_dictionaries().combine_chunks()
        return column.dictionary.to_pylist(), np.asarray(column.indices.fill_null(-1)).astype(np.int64)
    cells = raw_column(X, place)
    known = ~is_missing(cells)
    numbers = np.full(cells.shape, -1, dtype=np.int64)
    if cells.dtype.kind == "S":
        cells = cells.astype(str)
    if cells.dtype.kind != "O":
        values, numbers[known] = np.unique(cells[known], return_inverse=True)
        return values.tolist(), numbers
    found = sorted(set(cells[known].tolist()), key=sorting_key)
    number_of = {value: number for number, value in enumerate(found)}
    numbers[known] = [number_of[value] for value in cells[known].tolist()]
    return found, numbers


def sorting_key(value: object) -> tuple[str, float | str | bytes]:
    """Numbers before others, each type in its own order, or by its text."""
    if isinstance(value, int | float | np.number | np.bool_):
        return "", float(value)
    return type(value).__name__, value if isinstance(value, str | bytes) else str(value)


def column_dtypes(X: DataFrame) -> list[Dtype]:
    return list(X.schema.types if is_arrow(X) else X.dtypes)


def _column_type(X: DataFrame, place: int, dtype: Dtype) -> ColumnType:
    """The dtype of one column in plain values; bool for objects that are all True, False or
    missing.
    """
    name = str(dtype)
    if name == "category":
        return ColumnType(name, PlainValues.from_index(dtype.categories), bool(dtype.ordered))
    if name.startswith("dictionary<"):
        levels = PlainValues.from_values(distinct_values(X, place)[0]) if dtype.ordered else None
        return ColumnType("dictionary", levels, bool(dtype.ordered))
    if name.startswith("Enum"):
        return ColumnType("Enum", PlainValues.from_values(dtype.categories.to_list()))
    if name.lower() == "object":
        cells = raw_column(X, place)
        known = cells[~is_missing(cells)].tolist()
        name = "bool" if known and all(isinstance(c, bool | np.bool_) for c in known) else name
    return ColumnType(name)


def column_types(X: Table) -> tuple[ColumnType, ...]:
    """The dtypes of a data frame's columns, none for an array."""
    if not is_frame(X):
        return ()
    return tuple(_column_type(X, k, dtype) for k, dtype in enumerate(column_dtypes(X)))


def as_frame(
    frame: str,
    names: Sequence[Hashable],
    columns: Sequence[np.ndarray],
    types: Sequence[ColumnType],
    index: pandas.Index | None = None,
) -> DataFrame:
    """A data frame of these columns in their own dtypes; a column keeps its numbers where its dtype
    cannot hold them.

    True and False have no values between them: a bool column gets the nearer one.
    """
    if frame == "polars":
        import polars

        return polars.DataFrame([_as_polars(*column) for column in zip(names, columns, types, strict=True)])
    if frame == "pyarrow":
        import pyarrow

        arrays = [_as_arrow(cells, kind) for cells, kind in zip(columns, types, strict=True)]
        return pyarrow.table(dict(zip(names, arrays, strict=True)))
    import pandas

    series = [_as_pandas(cells, kind) for cells, kind in zip(columns, types, strict=True)]
    table = pandas.concat(series, axis=1) if series else pandas.DataFrame()
    table.columns = pandas.Index(names)
    return table if index is None else table.set_index(index)


def _as_pandas(cells: np.ndarray, kind: ColumnType) -> pandas.Series:
    import pandas

    if kind.categories is not None:
        values = as_objects(cells.tolist()) if cells.dtype.kind == "O" else cells
        return pandas.Series(pandas.Categorical(values, kind.categories.to_index(), ordered=kind.ordered))
    series = pandas.Series(cells)
    if kind.is_bool:
        series = series > 0.5
    refuse_zone_files(kind.name)  # which comes from anyone, if the model comes from a file
    try:
        own, known = series.astype(kind.name), series.notna()
        is_float = pandas.api.types.is_float_dtype(own.dtype)
        if is_float or (own[known].astype(object) == series[known].astype(object)).all():
            return own
    except (TypeError, ValueError):  # a share in a column of nullable integers
        pass
    return series.astype(kind.float_name) if kind.is_integer else series


def _as_polars(name: Hashable, cells: np.ndarray, kind: ColumnType) -> polars.Series:
    import polars

    series = polars.Series(name, cells.tolist() if cells.dtype.kind in "OU" else cells)
    dtype = getattr(polars, kind.name, None)
    if kind.is_bool:
        return series > 0.5
    if dtype is None or dtype == polars.Null:  # a column without any value has no dtype of its own
        return series
    if kind.categories is not None:
        return series.cast(polars.Enum(kind.categories.tolist()))
    whole = series.dtype.is_integer() or (series.dtype.is_float() and bool((series == series.round()).all()))
    return series if kind.is_integer and not whole else series.cast(dtype)


def _as_arrow(cells: np.ndarray, kind: ColumnType) -> pyarrow.Array:
    import pyarrow

    if kind.is_bool:
        return pyarrow.array(cells.astype(float) > 0.5)
    values = pyarrow.array(cells.tolist() if cells.dtype.kind in "OU" else cells)
    if kind.categories is not None:
        levels = kind.categories.tolist()
        codes = pyarrow.array([levels.index(value) for value in values.to_pylist()], pyarrow.int32())
        return pyarrow.DictionaryArray.from_arrays(codes, levels, ordered=kind.ordered)
    if kind.is_category:
        return values.dictionary_encode()
    try:
        return values.cast(pyarrow.type_for_alias(kind.name))
    except (ValueError, NotImplementedError):  # a share in a column of integers, or a type without cells of its own
        return values


class PlainValues(NamedTuple):
    """Different values, in order."""

    form: str  # "array", "objects", or the pandas index that they are made from
    parts: tuple[Any, ...]

    @classmethod
    def from_values(cls, values: Sequence[Hashable]) -> PlainValues:
        """Values of one type as an array, others as they are."""
        if values and all(isinstance(v, str) for v in values):
            return cls("array", (np.array(values, dtype=str),))
        if all(isinstance(v, bool | np.bool_) for v in values) or all(is_number(v) for v in values):
            return cls("array", (np.array(values),))
        return cls("objects", tuple(values))

    @classmethod
    def from_index(cls, index: pandas.Index) -> PlainValues:
        """The categories of a pandas dtype."""
        form = type(index).__name__
        if form == "IntervalIndex":
            return cls(form, (cls.from_index(index.left), cls.from_index(index.right), str(index.closed)))
        if form == "DatetimeIndex":
            return cls(form, (index.asi8, str(index.unit), None if index.tz is None else str(index.tz)))
        if form == "TimedeltaIndex":
            return cls(form, (index.asi8, str(index.unit)))
        if form == "PeriodIndex":
            return cls(form, (index.asi8, str(index.freqstr)))
        return cls.from_values(index.tolist())

    def take(self, numbers: Sequence[int]) -> PlainValues:
        """Some of them, in this order."""
        if self.form == "objects":
            return PlainValues("objects", tuple(self.parts[k] for k in numbers))
        chosen = np.asarray(numbers, dtype=np.int64)
        n_parts = 2 if self.form == "IntervalIndex" else 1
        taken = (p.take(numbers) if isinstance(p, PlainValues) else p[chosen] for p in self.parts[:n_parts])
        return PlainValues(self.form, (*taken, *self.parts[n_parts:]))

    def __len__(self) -> int:
        return len(self.parts) if self.form == "objects" else len(self.parts[0])

    @property
    def is_numeric(self) -> bool:
        """Whether they are numbers in an array."""
        return self.form == "array" and self.parts[0].dtype.kind in "biuf"

    def tolist(self) -> list[Hashable]:
        """The values as they came."""
        if self.form == "objects":
            return list(self.parts)
        return self.parts[0].tolist() if self.form == "array" else self.to_index().tolist()

    def to_array(self) -> np.ndarray:
        """The values as an array of numbers, text or objects."""
        return self.parts[0] if self.form == "array" else as_objects(self.tolist())

    def to_index(self) -> pandas.Index:
        """The categories of a pandas dtype."""
        import pandas

        if self.form == "IntervalIndex":
            left, right, closed = self.parts
            return pandas.IntervalIndex.from_arrays(left.to_index(), right.to_index(), closed=closed)
        if self.form == "DatetimeIndex":
            stamps, unit, zone = self.parts
            index = pandas.DatetimeIndex(stamps.view(f"M8[{unit}]"))
            refuse_zone_files(str(zone))
            return index if zone is None else index.tz_localize("UTC").tz_convert(zone)
        if self.form == "TimedeltaIndex":
            return pandas.TimedeltaIndex(self.parts[0].view(f"m8[{self.parts[1]}]"))
        if self.form == "PeriodIndex":
            return pandas.PeriodIndex.from_ordinals(self.parts[0], freq=self.parts[1])
        return pandas.Index(self.to_array(), tupleize_cols=False)


def refuse_zone_files(name: str) -> None:
    """Refuse a time zone, or a dtype with one, for which pandas would open a file of that path."""
    if "dateutil/" in name:
        raise ValueError(f"{name[:80]!r} is the time zone of a file; allowed are names such as 'Europe/Paris'.")


def is_number(value: object) -> bool:
    """Whether a value is a real number, and no bool."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def as_objects(values: Sequence[Hashable]) -> np.ndarray:
    """An array of these objects, tuples and arrays among them, one by one."""
    objects = np.empty(len(values), dtype=object)
    for number, value in enumerate(values):
        objects[number] = value
    return objects
