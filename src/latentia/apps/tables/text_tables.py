"""Delimited text as columns of text, strictly: what is ragged, cut off or of another encoding is
refused with the line where it is.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator
from typing import IO, NamedTuple

from latentia.apps.tables.failures import bad_table
from latentia.table.cells import is_numeric
from latentia.table.labels import EMPTY_TEXTS

DELIMITERS = (",", ";", "\t", "|")

#: Lines by which the delimiter is found.
N_RECORDS = 20

#: Cells of this text are missing.
MISSING = frozenset(EMPTY_TEXTS)

#: Characters of one cell; what is longer comes from a quote that is never closed.
MAX_CELL = 1 << 17

#: Characters of one line.
MAX_LINE = 1 << 22


class TextColumns(NamedTuple):
    """A table as text; None is a missing cell."""

    columns: dict[str, list[str | None]]
    delimiter: str


class Cells(dict[str, str | None]):
    """Each text once, None where it marks a missing cell: the mark -999 is also written -999.0."""

    def __init__(self, missing: frozenset[str]):
        super().__init__(dict.fromkeys(missing))
        self._numbers = {float(mark) for mark in missing if is_numeric(mark)}

    def __missing__(self, text: str) -> str | None:
        is_mark = bool(self._numbers) and is_numeric(text) and float(text) in self._numbers
        self[text] = cell = None if is_mark else text
        return cell


def read_text(
    stream: IO[bytes], source: str, encoding: str, delimiter: str | None, missing: frozenset[str]
) -> TextColumns:
    """Read a table with a header; the delimiter is found unless it is given."""
    try:
        name = "utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding
        with io.TextIOWrapper(stream, name, newline="") as text:
            names, rows, chosen = _read_rows(text, source, delimiter)
    except UnicodeError as error:
        hint = "--encoding names another, for example cp1252 for files that Windows has written"
        raise bad_table(source, f"no text of the encoding {encoding} ({error}); {hint}") from None
    except LookupError:
        raise bad_table(source, f"--encoding {encoding}: there is no encoding of this name") from None
    cells = Cells(missing)
    columns = [[cells[text.strip()] for text in column] for column in zip(*rows, strict=True)]
    return TextColumns(dict(zip(names, columns, strict=True)), chosen)


def _read_rows(text: IO[str], source: str, delimiter: str | None) -> tuple[list[str], list[list[str]], str]:
    """Names, cells and the delimiter between them."""
    lines = _lines(text, source)
    sample = list(itertools.islice(lines, N_RECORDS))
    chosen = delimiter or find_delimiter(sample)
    records = _records(itertools.chain(sample, lines), source, chosen)
    header = next(records, (0, None))[1]
    if header is None:
        raise bad_table(source, "the file is empty")
    names = _names(header, source)
    rows = [_cells(cells, line, names, source) for line, cells in records]
    if not rows:
        raise bad_table(source, "a header and no rows")
    return names, rows, chosen


def find_delimiter(sample: list[str]) -> str:
    """The one by which most records have as many cells as the header; "," for a single column."""
    found = {}
    for delimiter in DELIMITERS:
        try:
            records = list(csv.reader(sample, delimiter=delimiter))
        except csv.Error:
            continue
        widths = [len(record) for record in records if record]
        if widths and widths[0] > 1:
            found[delimiter] = (sum(width == widths[0] for width in widths) / len(widths), widths[0])
    return max(found, key=lambda delimiter: found[delimiter]) if found else ","


def _lines(text: IO[str], source: str) -> Iterator[str]:
    for number in itertools.count(1):
        line = text.readline(MAX_LINE)
        if len(line) == MAX_LINE:
            raise bad_table(source, f"line {number} has more than {MAX_LINE} characters")
        if not line:
            return
        yield line


def _records(lines: Iterator[str], source: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Records with the line where they start; blank lines are left out."""
    csv.field_size_limit(MAX_CELL)
    try:
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
    except (TypeError, ValueError):
        raise bad_table(source, f"--delimiter {delimiter!r}: allowed is a single character") from None
    width = 0
    while True:
        start = reader.line_num + 1
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise bad_table(source, _quoting_error(str(error), start)) from None
        if record or width == 1:
            width = width or len(record)
            yield start, record or [""]


def _quoting_error(message: str, line: int) -> str:
    if "unexpected end" in message or "field limit" in message:
        return f"a quote that line {line} opens is never closed, or a cell has more than {MAX_CELL} characters"
    if "expected after" in message:
        return f"line {line} has text after a closing quote"
    return f"line {line}: {message}"


def _names(header: list[str], source: str) -> list[str]:
    names = [name.strip() or f"column_{k + 1}" for k, name in enumerate(header)]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise bad_table(source, f"two columns have the name {twice[0]!r}")
    if any("\0" in name for name in names):
        raise bad_table(source, "no text: line 1 holds a zero byte")
    return names


def _cells(cells: list[str], line: int, names: list[str], source: str) -> list[str]:
    if len(cells) != len(names):
        raise bad_table(
            source, f"line {line} has {len(cells)} cell{'s' * (len(cells) != 1)}, and the header has {len(names)}"
        )
    if any("\0" in cell for cell in cells):
        raise bad_table(source, f"no text: line {line} holds a zero byte")
    return cells
