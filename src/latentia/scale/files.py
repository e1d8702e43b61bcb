"""Tables in files: `scan` finds them, estimators read them part by part, in bounded memory.

A Parquet file is read batch by batch inside its row groups, an Arrow file by its record batches: a
large row group is no harm.
"""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from latentia.engine.parts import LocalParts, TemporaryFolder
from latentia.engine.rows import CACHE_MIB, ArraySource
from latentia.scale.tables import Answer, Column, LazyTable, RawPart, Weights
from latentia.table.frames import frame_type, is_frame, on_host

if TYPE_CHECKING:
    import pandas
    import pyarrow.dataset
    import pyarrow.fs
    import pyarrow.parquet
    from pandas.api.extensions import ExtensionDtype

R = TypeVar("R")

#: Where rows are scanned from.
Source: TypeAlias = "str | Path | Sequence[str | Path] | pyarrow.dataset.Dataset"

#: Working copies of the rows that are read together, in MiB.
PART_MIB = 16

#: Rows that are read together at most.
MAX_PART_ROWS = 2**17

PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc")

#: The column with the labels, or several.
Target = str | tuple[str, ...] | None


class ScannedTable(LazyTable):
    """A table in files, which `scan` returns.

    Iterating over it yields its rows as pandas data frames, without target and weights.
    """

    n_rows: int

    def __init__(
        self,
        files: list[DataFile],
        schema: pyarrow.Schema,
        target: Target,
        weight: str | None,
        folder: TemporaryFolder | None = None,
    ):
        self.folder = folder  # where converted files lie, as long as the table lives
        self.files, self.schema, self.target, self.weight = files, schema, target, weight
        self.columns = [name for name in schema.names if name not in (*_names(target), weight)]
        self.meta = _to_frame(schema.empty_table().select(self.columns))
        self.name = f"a table scanned from {files[0].name}" + (f" and {len(files) - 1} more" if files[1:] else "")
        fitting = PART_MIB * 2**20 // (8 * max(1, len(self.columns)))
        self.rows_per_part = max(1, min(MAX_PART_ROWS, fitting))
        self.n_rows = sum(file.n_rows for file in files)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, without target and weights."""
        return self.n_rows, len(self.columns)

    def __len__(self) -> int:
        return self.n_rows

    def __iter__(self) -> Iterator[pandas.DataFrame]:
        return (part.X for part in self._parts(None, None))

    def __repr__(self) -> str:
        target = "" if self.target is None else f", target={self.target!r}"
        return f"<{self.name}: {self.n_rows} rows, {len(self.columns)} columns{target}>"

    def gather(self, fn: Callable[[RawPart], R], y: Column = None, sample_weight: Weights = None) -> list[R]:
        self._refuse_columns(y, sample_weight)
        return [fn(part) for part in self._parts(self.target, self.weight)]

    def make(
        self,
        fn: Callable[[list[RawPart]], ArraySource],
        groups: Sequence[Sequence[int]],
        y: Column,
        sample_weight: Weights,
    ) -> LocalParts:
        self._refuse_columns(y, sample_weight)
        numbered = enumerate(self._parts(self.target, self.weight))

        def part(number: int) -> RawPart:
            return next(part for k, part in numbered if k == number)

        fits = 8 * self.n_rows * len(self.columns) <= CACHE_MIB * 2**20
        return LocalParts.keep((fn([part(k) for k in group]) for group in groups), fits)

    def map_rows(self, fn: Callable[..., Answer], y: Column = None) -> LazyAnswers:
        if y is not None:
            raise TypeError("y has no part in the answers to a scanned table; leave it out.")
        return LazyAnswers(self, fn)

    def _refuse_columns(self, y: Column, sample_weight: Weights) -> None:
        for what, values, name in (("y", y, "target"), ("sample_weight", sample_weight, "weight")):
            if values is not None:
                raise TypeError(
                    f"{what} is a {type(values).__name__}, but X is {self.name}: its {what} is one of its columns. "
                    f"Name it in latentia.scan(..., {name}=...) and leave {what} out."
                )

    def _parts(self, target: Target, weight: str | None) -> Iterator[RawPart]:
        columns = [name for name in self.schema.names if name in (*self.columns, *_names(target), weight)]
        for file in self.files:
            for table in file.batches(columns, self.rows_per_part):
                frame = _to_frame(table)
                weights = None if weight is None else frame.pop(weight)
                if target is None or isinstance(target, str):
                    y = None if target is None else frame.pop(target)
                else:
                    y = frame[list(target)]
                    frame = frame.drop(columns=list(target))
                yield RawPart(frame, y, weights)


class LazyAnswers:
    """What an estimator says of each row of a scanned table.

    Iterate for one part after the other, each an array or a data frame; `compute` joins them, and
    `to_parquet` writes them to a file as they come.
    """

    def __init__(self, table: ScannedTable, answer: Callable[..., Answer]):
        self._table, self._answer = table, answer

    def __iter__(self) -> Iterator[Answer]:
        return (self._answer(rows) for rows in self._table)

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        return f"<answers to {len(self)} rows, part by part: iterate, or call compute() or to_parquet(path)>"

    def compute(self) -> Answer:
        """All answers in memory."""
        return _join(list(self))

    def to_parquet(self, path: str | Path) -> None:
        """Write the answers to a Parquet file, one part after the other; several arrays, such as
        means and standard deviations, are columns side by side.
        """
        import pyarrow as pa
        from pyarrow import parquet

        writer = None
        try:
            for part in self:
                rows = pa.Table.from_pandas(_as_frame(part), preserve_index=False)
                writer = writer or parquet.ParquetWriter(path, rows.schema)
                writer.write_table(rows.cast(writer.schema))
        finally:
            if writer is not None:
                writer.close()


def _as_frame(part: Answer) -> pandas.DataFrame:
    """Answers to some rows as a data frame with names of columns."""
    import pandas

    if is_frame(part):
        return part.set_axis([str(name) for name in part.columns], axis=1)
    arrays = [on_host(each) for each in (part if isinstance(part, tuple) else (part,))]
    table = np.concatenate([np.reshape(each, (len(each), -1)) for each in arrays], axis=1)
    return pandas.DataFrame(table).rename(columns=str)


def _join(parts: Sequence[Answer]) -> Answer:
    """Answers to the parts of a table: arrays, frames, or tuples of them."""
    kind = frame_type(parts[0])
    if isinstance(parts[0], tuple):
        return tuple(_join(each) for each in zip(*parts, strict=True))
    if kind == "array":
        return np.concatenate([on_host(part) for part in parts])
    if kind == "pyarrow":
        return import_module(kind).concat_tables(list(parts))
    return import_module(kind).concat(list(parts), **({"ignore_index": True} if kind == "pandas" else {}))


def _names(target: Target) -> tuple[str, ...]:
    """The columns with labels, as many as there are."""
    return () if target is None else (target,) if isinstance(target, str) else target


def _to_frame(table: pyarrow.Table) -> pandas.DataFrame:
    """A data frame whose dtypes do not depend on where cells are missing."""
    return table.cast(_plain_schema(table.schema)).to_pandas(types_mapper=_nullable)


def scan(
    source: Source,
    *,
    target: str | Sequence[str] | None = None,
    weight: str | None = None,
    columns: Sequence[str] | None = None,
) -> ScannedTable:
    """A table in files, to be read part by part where an estimator takes X.

    ``model.fit(scan("rows/*.parquet", target="label"))`` trains on more rows than memory holds;
    ``model.predict_proba(scan("new.parquet"))`` answers part by part. Needs pyarrow and pandas
    (``pip install latentia[files]``).

    Parameters
    ----------
    source : str, path, sequence of them, or pyarrow.dataset.Dataset
        A Parquet or Arrow (Feather) file, a pattern such as ``"rows/*.parquet"``, or a folder,
        whose subfolders ``name=value`` make a column. CSV files are first converted to a
        temporary Parquet file.
    target : str or sequence of str, default=None
        The column with the labels; missing labels mark unlabeled rows. Several columns are those
        of a label matrix, or of several outputs.
    weight : str, default=None
        The column with the sample weights.
    columns : sequence of str, default=None
        The columns to read besides; all by default.

    Returns
    -------
    table : ScannedTable

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from latentia import GaussianMixtureClassifier, scan
    >>> path = os.path.join(tempfile.mkdtemp(), "iris.parquet")
    >>> load_iris(as_frame=True).frame.to_parquet(path)
    >>> table = scan(path, target="target")
    >>> model = GaussianMixtureClassifier(random_state=0).fit(table)
    >>> model.predict_proba(table).compute().shape
    (150, 3)
    """
    try:
        import pandas  # noqa: F401
        from pyarrow import dataset
    except ImportError as error:
        raise ImportError("latentia.scan needs pyarrow and pandas: pip install latentia[files]") from error
    converted = None
    target = target if target is None or isinstance(target, str) else tuple(target)
    if not isinstance(source, dataset.Dataset):
        source, converted = _open_dataset(source)
    if not getattr(source, "files", None):
        raise ValueError("source holds no file; allowed are Parquet, Arrow and CSV files.")
    schema = _read_schema(source, target, weight, columns)
    return ScannedTable(_files(source, schema, converted), schema, target, weight, converted)


class ConvertedFiles(TemporaryFolder):
    """Where converted files lie, and the names of those that they were made of."""

    def __init__(self, paths: Sequence[str]):
        super().__init__()
        self.origins = {_convert(path, self.name, number): path for number, path in enumerate(paths)}


def _open_dataset(source: str | Path | Sequence[str | Path]) -> tuple[pyarrow.dataset.Dataset, ConvertedFiles | None]:
    """The data set, and where it lies if it was converted."""
    import pyarrow as pa
    from pyarrow import dataset

    paths = [os.fspath(path) for path in ([source] if isinstance(source, str | Path) else source)]
    found: list[str] = []
    for path in paths:
        matches = sorted(glob.glob(path)) if glob.has_magic(path) else [path]
        if not matches or not all(os.path.exists(match) for match in matches):
            raise FileNotFoundError(f"source={path!r}: there is no such file.")
        found += matches
    if len(found) == 1 and os.path.isdir(found[0]):
        inside = [name for _, _, names in os.walk(found[0]) for name in names if not name.startswith((".", "_"))]
        return dataset.dataset(found[0], format=_format(inside, found[0]), partitioning="hive"), None
    if all(path.lower().endswith(".csv") for path in found):
        converted = ConvertedFiles(found)
        return dataset.dataset(list(converted.origins)), converted
    try:
        return dataset.dataset(found, format=_format(found, paths[0])), None
    except pa.ArrowInvalid as error:
        raise ValueError(f"source={source!r} cannot be read: {error}") from error


def _format(names: Sequence[str], source: str) -> str:
    endings = {os.path.splitext(name)[1].lower() for name in names}
    if endings and endings <= set(PARQUET):
        return "parquet"
    if endings and endings <= set(ARROW):
        return "ipc"
    raise ValueError(
        f"source={source!r} has files that end in {sorted(endings)}; allowed are files of one kind: "
        f"{', '.join(PARQUET)}, {', '.join(ARROW)}, or .csv (not in folders)."
    )


def _convert(path: str, folder: str, number: int) -> str:
    """A CSV file as Parquet, in bounded memory."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    into = os.path.join(folder, f"{number}.parquet")
    try:
        blanks = csv.ConvertOptions(strings_can_be_null=True)
        with csv.open_csv(path, convert_options=blanks) as rows, parquet.ParquetWriter(into, rows.schema) as writer:
            for batch in rows:
                writer.write_batch(batch)
        twice = [name for name, times in Counter(rows.schema.names).items() if times > 1]
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        form = "CSV in UTF-8, with commas between cells and one dtype in each column"
        raise ValueError(f"the file {path} cannot be read as {form}: {error}") from error
    if twice:
        raise ValueError(f"the file {path} has several columns of the name {twice[0]!r}: give each a name of its own.")
    return into


def _read_schema(
    source: pyarrow.dataset.Dataset, target: Target, weight: str | None, columns: Sequence[str] | None
) -> pyarrow.Schema:
    """The columns that are read, in the order of the files."""
    import pyarrow as pa

    schema = source.schema
    targets = _names(target)
    named = [
        *(("target", name) for name in targets),
        ("weight", weight),
        *(("columns", name) for name in columns or ()),
    ]
    for what, name in named:
        if name is not None and name not in schema.names:
            raise ValueError(f"{what}={name!r} is no column of the files; they have {schema.names}.")
    wanted = schema.names if columns is None else [*columns, *targets, weight]
    return pa.schema([field for field in schema if field.name in wanted])


def _files(source: pyarrow.dataset.Dataset, schema: pyarrow.Schema, converted: ConvertedFiles | None) -> list[DataFile]:
    """The files of a data set, which must have the same columns."""
    from pyarrow import dataset

    files = []
    for fragment in source.get_fragments():
        values = dataset.get_partition_keys(fragment.partition_expression)
        is_parquet = isinstance(fragment, dataset.ParquetFileFragment)
        name = converted.origins.get(fragment.path, fragment.path) if converted else fragment.path
        file = DataFile(fragment.path, source.filesystem, is_parquet, values, name)
        found = file.schema
        for column in schema:
            if column.name in values:
                continue
            if column.name not in found.names:
                raise ValueError(f"the file {file.name} has no column {column.name!r}; its columns are {found.names}.")
            here = found.field(column.name).type
            if _plain_type(here) != _plain_type(column.type):
                raise ValueError(
                    f"column {column.name!r} is {here} in the file {file.name} and {column.type} in the first file: "
                    "allowed is one type."
                )
        files.append(file)
    return files


def _plain_type(kind: pyarrow.DataType) -> pyarrow.DataType:
    """The type of the values of a dictionary, whose codes differ from file to file."""
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _plain_schema(schema: pyarrow.Schema) -> pyarrow.Schema:
    import pyarrow as pa

    return pa.schema([pa.field(field.name, _plain_type(field.type)) for field in schema])


def _nullable(kind: pyarrow.DataType) -> ExtensionDtype | None:
    """Dtypes of pandas that hold missing cells, for integers and bool."""
    import pandas
    import pyarrow as pa

    if pa.types.is_boolean(kind):
        return pandas.BooleanDtype()
    if pa.types.is_integer(kind):
        return pandas.array([], dtype=str(kind).replace("int", "Int").replace("uInt", "UInt")).dtype
    return None


@dataclass
class DataFile:
    """A file of a data set, and the columns that its place in the folders gives to its rows."""

    path: str
    filesystem: pyarrow.fs.FileSystem
    is_parquet: bool
    folder_values: dict[str, object] = field(default_factory=dict)
    name: str = ""  # what users know it by; a converted file lies elsewhere

    def __post_init__(self) -> None:
        self.name = self.name or self.path

    def open(self) -> pyarrow.parquet.ParquetFile | pyarrow.RecordBatchFileReader:
        """The file as pyarrow reads it."""
        import pyarrow as pa
        from pyarrow import ipc, parquet

        try:
            stream = self.filesystem.open_input_file(self.path)
            return parquet.ParquetFile(stream) if self.is_parquet else ipc.open_file(stream)
        except (OSError, pa.ArrowInvalid) as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> OSError:
        """What went wrong, with the name of the file."""
        gone = isinstance(error, FileNotFoundError)
        what = "has vanished since it was scanned" if gone else f"cannot be read: {error}"
        return (FileNotFoundError if gone else OSError)(f"the file {self.name} {what}.")

    @property
    def schema(self) -> pyarrow.Schema:
        opened = self.open()
        return opened.schema_arrow if self.is_parquet else opened.schema

    @property
    def n_rows(self) -> int:
        opened = self.open()
        if self.is_parquet:
            return int(opened.metadata.num_rows)
        return sum(opened.get_batch(k).num_rows for k in range(opened.num_record_batches))

    def batches(self, columns: Sequence[str], max_rows: int) -> Iterator[pyarrow.Table]:
        """Tables of at most `max_rows` rows of one group, one after the other."""
        import pyarrow as pa

        inside = [name for name in columns if name not in self.folder_values]
        opened = self.open()
        try:
            if self.is_parquet:
                for group in range(opened.metadata.num_row_groups):
                    for batch in opened.iter_batches(max_rows, row_groups=[group], columns=inside):
                        yield self._with_folder_values(pa.table(batch), columns)
            else:
                for group in range(opened.num_record_batches):
                    whole = pa.table(opened.get_batch(group)).select(inside)
                    for start in range(0, whole.num_rows, max_rows):
                        yield self._with_folder_values(whole.slice(start, max_rows), columns)
        except (OSError, pa.ArrowInvalid) as error:
            raise self._failure(error) from error

    def _with_folder_values(self, table: pyarrow.Table, columns: Sequence[str]) -> pyarrow.Table:
        import pyarrow as pa

        for name, value in self.folder_values.items():
            if name in columns:
                table = table.append_column(name, pa.array([value] * table.num_rows))
        return table.select(list(columns))
