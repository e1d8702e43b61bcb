"""Tables and models as they arrive: bytes of a stranger, read in memory or from a folder that is
gone afterwards.
"""

from __future__ import annotations

import gzip
import io
import re
import tempfile
import zlib
from pathlib import Path

from latentia.apps.studio.limits import MAX_COLUMNS, MAX_ROWS, MAX_TABLE_BYTES
from latentia.apps.studio.problems import Problem, explained
from latentia.apps.tables.models import FittedClassifier, load_classifier
from latentia.apps.tables.table_files import (
    ARROW,
    ARROW_STREAM,
    GZIP,
    PARQUET,
    Reading,
    Table,
    read_table,
    read_unpacked,
)

#: What Studio asks of a model.
NEEDED = ("predict_proba", "score_samples", "impute", "sample")

#: Prefix of all temporary folders.
FOLDER = "latentia-studio-"

BROKEN = "Correct the file, save it as CSV in UTF-8, and open it again."


def plain_name(name: str, default: str) -> str:
    """The last part of a file name, without anything that a path or a header could trip over."""
    last = re.split(r"[/\\]", name)[-1]
    return re.sub(r"[^\w .()+-]", "_", last, flags=re.ASCII).strip(" .")[:80] or default


def table_from_bytes(content: bytes, name: str) -> Table:
    """A CSV file that was dropped on the page, also compressed by gzip."""
    source = plain_name(name, "table.csv")
    if content.startswith(GZIP):
        content = _unpacked(content, source)
    if content.startswith((PARQUET, ARROW, ARROW_STREAM)):
        raise Problem(f"{source} is a Parquet or Arrow file. Open it by the command: latentia studio {source}.")
    with explained(BROKEN):
        return check_size(read_unpacked(io.BytesIO(content), source, Reading()))


def table_from_path(path: str) -> Table:
    """A file that the user named on the command line."""
    return check_size(read_table(path, Reading()))


def check_size(table: Table) -> Table:
    """Refuse tables that are too large for a page."""
    n_rows, n_columns = table.frame.shape
    if n_columns > MAX_COLUMNS:
        raise Problem(
            f"{table.source} has {n_columns:,} columns, and Studio shows at most {MAX_COLUMNS}. Keep the columns that "
            "matter, or learn from all of them by the command: latentia fit."
        )
    if n_rows > MAX_ROWS:
        raise Problem(
            f"{table.source} has {n_rows:,} rows, and Studio shows at most {MAX_ROWS:,}. Open a part of them, or learn "
            "from all of them by the command: latentia fit."
        )
    if n_columns < 2:
        raise Problem(
            f"{table.source} has one column. A table needs a column of classes and at least one to learn from; if the "
            "cells are separated by an unusual character, use commas."
        )
    return table


def _unpacked(content: bytes, source: str) -> bytes:
    """A file may have several members, one after the other."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            found = file.read(MAX_TABLE_BYTES + 1)
    except EOFError:
        raise Problem(f"{source} is a gzip file that was cut off. {BROKEN}") from None
    except (zlib.error, gzip.BadGzipFile):
        raise Problem(f"{source} is a damaged gzip file. {BROKEN}") from None
    if len(found) > MAX_TABLE_BYTES:
        raise Problem(
            f"{source} holds more than {MAX_TABLE_BYTES >> 20} MB once it is unpacked. Open a part of it.", 413
        )
    return found


def model_from_bytes(content: bytes, name: str) -> FittedClassifier:
    """A model file that was dropped on the page. It holds arrays and JSON, never code."""
    source = plain_name(name, "model.latentia")
    with tempfile.TemporaryDirectory(prefix=FOLDER) as folder:
        path = Path(folder) / "model.latentia"
        path.write_bytes(content)
        try:
            with explained("Open a file that the method save or the command latentia fit has written."):
                return check_model(load_classifier(str(path), *NEEDED))
        except Problem as problem:
            raise Problem(str(problem).replace(str(path), source)) from None


def model_from_path(path: str) -> FittedClassifier:
    """A model file that the user named on the command line."""
    return check_model(load_classifier(path, *NEEDED))


def check_model(model: FittedClassifier) -> FittedClassifier:
    """Refuse models that have no one class a row, or too many columns."""
    if getattr(model, "multilabel_", False):
        raise Problem("This model predicts several labels a row, and Studio shows one. Open a model of one column.")
    if model.n_features_in_ > MAX_COLUMNS:
        raise Problem(
            f"This model has {model.n_features_in_:,} columns, and Studio shows at most {MAX_COLUMNS}. Ask it by the "
            "command: latentia predict."
        )
    return model
