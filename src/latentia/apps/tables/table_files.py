"""Tables from files of all formats, or from standard input."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pandas
from sklearn.base import BaseEstimator

from latentia.apps.tables.failures import bad_table
from latentia.apps.tables.text_tables import MISSING, Cells, read_text
from latentia.table.cells import is_numeric

if TYPE_CHECKING:
    import pyarrow
    from pandas.api.extensions import ExtensionDtype

#: First bytes of a format.
GZIP, PARQUET, ARROW, ARROW_STREAM = b"\x1f\x8b", b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"

#: The name of the first file in an archive that is a model file, and where archives have it.
FIRST_ARRAY, NAME_AT = b"arrays/0.npy", 30

#: First bytes of files that are no tables here, and what to do with them.
OTHERS = {
    b"PK\x03\x04": "an Excel file or another archive: save the table as CSV first",
    b"\xd0\xcf\x11\xe0": "an Excel file of an old form: save the table as CSV first",
    b"SQLite": "a database: export the table as CSV first",
    b"\x89HDF": "an HDF5 file: save the table as CSV or Parquet first",
    GZIP: "compressed by gzip twice: decompress it once",
    b"\x28\xb5\x2f\xfd": "compressed by Zstandard: decompress it, or use gzip",
    b"BZh": "compressed by bzip2: decompress it, or use gzip",
    b"\xfd7zXZ": "compressed by xz: decompress it, or use gzip",
    b"[{": "JSON: save the table as CSV first, for example by pandas",
    b'{"': "JSON: save the table as CSV first, for example by pandas",
    b"<!DOC": "a web page, no table",
    b"<html": "a web page, no table",
}

#: Types of Arrow to dtypes that have a missing value.
NULLABLE = {"bool": "boolean"} | {
    f"{sign}int{bits}": f"{sign.upper()}Int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


@dataclass(frozen=True)
class Reading:
    """How text is read."""

    encoding: str = "utf-8"
    delimiter: str | None = None
    missing: frozenset[str] = frozenset()  # texts that mark gaps, besides MISSING

    def for_model(self, model: BaseEstimator) -> Reading:
        """Also with the marks of gaps of the table that a model was fitted to."""
        return replace(self, missing=self.missing.union(getattr(model, "missing_marks_", ())))


@dataclass(frozen=True)
class Table:
    """A table and where it is from. Columns of text formats are all text, None where missing."""

    source: str
    frame: pandas.DataFrame
    is_text: bool
    decimal_comma: bool = False

    @property
    def title(self) -> str:
        """The name of the file without its folders, for pages that others may see."""
        return self.source.replace("\\", "/").split("/")[-1]

    @property
    def names(self) -> list[str]:
        return list(self.frame.columns)

    def for_model(self, model: BaseEstimator) -> Table:
        """With gaps where the table has marks of them that a model knows, as if it was read so."""
        marks = frozenset(getattr(model, "missing_marks_", ()))
        if not self.is_text:
            return replace(self, frame=_without_marks(self.frame.copy(), marks))
        cells = Cells(marks)
        columns = {name: [None if cell is None else cells[cell] for cell in self.frame[name]] for name in self.names}
        return replace(self, frame=_text_frame(columns))


def read_table(path: str, reading: Reading) -> Table:
    """Read CSV, TSV, Parquet, Arrow or Feather, compressed by gzip or not; "-" is standard
    input. Formats are known by their first bytes.
    """
    source = "standard input" if path == "-" else path
    try:
        with io.BytesIO(sys.stdin.buffer.read()) if path == "-" else open(path, "rb") as file:
            return _read(file, source, reading)
    except OSError as error:
        raise bad_table(source, f"cannot be read: {error.strerror or error}") from None


def _read(file: IO[bytes], source: str, reading: Reading) -> Table:
    is_packed = file.read(len(GZIP)) == GZIP
    file.seek(0)
    if not is_packed:
        return read_unpacked(file, source, reading)
    try:
        with gzip.GzipFile(fileobj=file) as inner:
            return read_unpacked(io.BufferedReader(inner), source, reading)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise bad_table(source, f"the compressed file is damaged ({error})") from None


def read_unpacked(file: IO[bytes], source: str, reading: Reading) -> Table:
    """The same from an open file that is not compressed; `source` is what failures call it."""
    start = file.read(NAME_AT + len(FIRST_ARRAY))
    file.seek(0)
    if start.startswith((PARQUET, ARROW, ARROW_STREAM)):
        return _binary(file, source, reading)
    other = "a model file, no table" if start[NAME_AT:] == FIRST_ARRAY else None
    other = other or next((what for first, what in OTHERS.items() if start.startswith(first)), None)
    if other:
        raise bad_table(source, other)
    return _text(file, source, reading)


def numbered(frame: pandas.DataFrame) -> pandas.DataFrame:
    """The same rows, counted from 1 on as readers of tables do: for pages that name rows."""
    return frame.set_axis(pandas.RangeIndex(1, len(frame) + 1))


def _text(file: IO[bytes], source: str, reading: Reading) -> Table:
    delimiter = "\t" if Path(source).suffix.lower() == ".tsv" else None
    found = read_text(file, source, reading.encoding, reading.delimiter or delimiter, MISSING | reading.missing)
    return Table(source, _text_frame(found.columns), is_text=True, decimal_comma=found.delimiter == ";")


def _text_frame(columns: Mapping[str, Sequence[str | None]]) -> pandas.DataFrame:
    return pandas.DataFrame({name: pandas.Series(cells, dtype=object) for name, cells in columns.items()})


def _nullable(kind: pyarrow.DataType) -> ExtensionDtype | None:
    """Integers and bools stay what they are where cells are missing."""
    name = NULLABLE.get(str(kind))
    return None if name is None else pandas.api.types.pandas_dtype(name)


def _without_marks(frame: pandas.DataFrame, marks: frozenset[str]) -> pandas.DataFrame:
    """Gaps where users say that there are some: cells of these texts, or of these numbers."""
    numbers = [float(mark) for mark in marks if is_numeric(mark)]
    for name in frame:
        kind = frame[name].dtype
        is_text = isinstance(kind, pandas.StringDtype | pandas.CategoricalDtype) or kind.kind == "O"
        try:
            is_mark = frame[name].isin([*marks, *numbers] if is_text else numbers)
        except TypeError:  # lists
            continue
        if is_mark.any():
            cells = frame[name].mask(is_mark)
            frame[name] = cells.cat.remove_unused_categories() if isinstance(kind, pandas.CategoricalDtype) else cells
    return frame


def _binary(file: IO[bytes], source: str, reading: Reading) -> Table:
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise bad_table(source, "Parquet and Arrow files need pyarrow: pip install 'latentia[cli]'") from None
    content = file.read()
    data = pyarrow.BufferReader(content)  # in memory: threads of pyarrow may outlive a file that is closed
    try:
        if content.startswith(PARQUET):
            found = pyarrow.parquet.read_table(data, use_threads=False, pre_buffer=False)
        else:
            open_ = pyarrow.ipc.open_file if content.startswith(ARROW) else pyarrow.ipc.open_stream
            found = open_(data, options=pyarrow.ipc.IpcReadOptions(use_threads=False)).read_all()
        found.validate(full=True)  # offsets of text that lead elsewhere
        names = list(found.column_names)
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise bad_table(source, f"two columns have the name {twice[0]!r}")
        frame = found.to_pandas(use_threads=False, ignore_metadata=True, types_mapper=_nullable)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise bad_table(source, f"the file is damaged ({' '.join(str(error).split())[:150]})") from None
    frame.columns = [str(name) for name in frame.columns]
    if not len(frame):
        raise bad_table(source, "a header and no rows")
    frame = _without_marks(frame.reset_index(drop=True), reading.missing | {""})
    return Table(source, frame, is_text=False)
