"""What commands write: whole files, in the format of their ending, and nothing in place of a file
unless that is asked for.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas

from latentia.apps.tables.failures import ExitCode, Failure
from latentia.persistence.files import written_whole
from latentia.persistence.format import Json

STANDARD = "-"


def check_target(path: str | None, force: bool, inputs: Sequence[str]) -> None:
    """Refuse a file that exists or is read, or a folder that does not exist, before any work is
    done.
    """
    if path is None or path == STANDARD:
        return
    target = Path(path)
    if any(_is_same(path, other) for other in inputs):
        raise Failure(ExitCode.USAGE, f"{path} is what the command reads; name another file for the output")
    if target.is_dir():
        raise Failure(ExitCode.NOT_WRITTEN, f"{path} is a folder")
    if target.exists() and not force:
        raise Failure(ExitCode.NOT_WRITTEN, f"{path} exists; --force overwrites it")
    if not target.parent.is_dir():
        raise Failure(ExitCode.NOT_WRITTEN, f"the folder {target.parent} does not exist")
    if not os.access(target.parent, os.W_OK):
        raise Failure(ExitCode.NOT_WRITTEN, f"the folder {target.parent} is not writable")


def _is_same(path: str, other: str) -> bool:
    """Whether two names are those of one file, by links or not."""
    return os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other)


def check_targets(paths: Sequence[str | None], force: bool, inputs: Sequence[str]) -> None:
    """The same of several files, which must be different ones, and not standard output."""
    if STANDARD in paths:
        raise Failure(ExitCode.USAGE, "- is no output of this command, which shows what it finds there: name a file")
    names = [os.path.realpath(path) for path in paths if path is not None]
    if len(set(names)) < len(names):
        raise Failure(ExitCode.USAGE, "two outputs have the same name")
    for path in paths:
        check_target(path, force, inputs)


def check_format(path: str | None) -> None:
    """Refuse an ending that is no table's."""
    if path is not None and path != STANDARD and _ending(path) not in _WRITERS:
        raise Failure(ExitCode.USAGE, f"{path}: the endings of tables are {', '.join(_WRITERS)}")


def write_table(frame: pandas.DataFrame, path: str | None) -> None:
    """Write to a file, or as CSV to standard output."""
    if path is None or path == STANDARD:
        frame.to_csv(sys.stdout, index=False, lineterminator="\n")
        return
    content = _WRITERS[_ending(path)](frame)
    with written_whole(path) as file:
        file.write(content)


def write_page(page: str, path: str) -> None:
    """Write HTML to a file, or to standard output."""
    if path == STANDARD:
        sys.stdout.buffer.write(page.encode())
        return
    with written_whole(path) as file:
        file.write(page.encode())


def _ending(path: str) -> str:
    name = Path(path).name.lower()
    return next((ending for ending in _WRITERS if name.endswith(ending)), "")


def _delimited(delimiter: str) -> Callable[[pandas.DataFrame], bytes]:
    return lambda frame: frame.to_csv(index=False, sep=delimiter, lineterminator="\n").encode()


def _compressed(frame: pandas.DataFrame) -> bytes:
    return gzip.compress(_delimited(",")(frame), mtime=0)


def _parquet(frame: pandas.DataFrame) -> bytes:
    out = io.BytesIO()
    frame.to_parquet(out, index=False)
    return out.getvalue()


def _feather(frame: pandas.DataFrame) -> bytes:
    out = io.BytesIO()
    frame.to_feather(out)
    return out.getvalue()


_WRITERS: dict[str, Callable[[pandas.DataFrame], bytes]] = {
    ".csv": _delimited(","),
    ".tsv": _delimited("\t"),
    ".csv.gz": _compressed,
    ".parquet": _parquet,
    ".feather": _feather,
    ".arrow": _feather,
}


def print_json(value: object) -> None:
    """One object on standard output; what JSON has no word for is null."""
    print(json.dumps(plain(value), allow_nan=False, ensure_ascii=False))


def plain(value: object) -> Json:
    """A value in JSON's types."""
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, pandas.DataFrame):
        return [plain(row) for row in value.to_dict(orient="records")]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if value is None or value is pandas.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value if isinstance(value, bool | int | float | str) else str(value)
