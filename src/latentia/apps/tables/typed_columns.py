"""Columns of text become numbers or stay text: as they look when a model is fitted, and as the
model knows them afterwards.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas

from latentia.apps.tables.failures import bad_table
from latentia.apps.tables.table_files import Table
from latentia.inputs.column_doubts import DATE_TEXT, NUMBER, amount_in, is_numeric, slip_in

DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)
INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)

#: Classes that are numbers, as other programs write them in columns with and without gaps.
WHOLE = re.compile(r"(0|-?[1-9]\d{0,17})(?:\.0*)?", re.ASCII)

#: Text of more different values than this is a name or an id where most rows have their own.
MANY_VALUES = 50

#: A target of more different values than this may hold ids or amounts, not classes.
MANY_CLASSES = 20

#: Numbers with leading zeros of more different values than this may be none but padded numbers.
MANY_CODES = 10

TRUTH = {"true": True, "false": False, "1": True, "0": False}


@dataclass
class Features:
    """The columns that a model learns from, and what became of the others."""

    frame: pandas.DataFrame
    left_out: dict[str, str] = field(default_factory=dict)  # column to reason
    notes: list[str] = field(default_factory=list)
    doubted: set[str] = field(default_factory=set)  # columns that are text for a word among numbers
    kinds: dict[str, str] = field(default_factory=dict)  # that users give

    def kind(self, name: str) -> str:
        """The kind of a column, given or as it looks."""
        return self.kinds.get(name) or kind_of(self.frame[name])


def find_features(table: Table, names: Sequence[str], kinds: Mapping[str, str] | None = None) -> Features:
    """The columns with the types that they look like, or that `kinds` asks for; names, ids and
    dates are left out.
    """
    features = Features(pandas.DataFrame(index=table.frame.index), kinds=dict(kinds or {}))
    kept: dict[str, Any] = {}
    for name in names:
        if name in features.kinds:
            kept[name] = _as_kind(table, name, features.kinds[name])
            continue
        notes: list[str] = []
        column = typed_column(table, name, notes) if table.is_text else table.frame[name]
        doubt = word_among_numbers(table, name) if table.is_text else None
        reason = "row numbers" if _are_row_numbers(name, column) else useless_because(column)
        if reason is None:
            kept[name] = column
            features.notes += notes + _counting_note(name, column)
            features.doubted |= {name} if doubt else set()
        else:
            features.left_out[name] = doubt or reason
    if not kept:
        raise bad_table(table.source, "no column is left to learn from" + _because(features.left_out))
    features.frame = pandas.DataFrame(kept)
    return features


def _as_kind(table: Table, name: str, kind: str) -> Any:
    """A column as a user wants it: numbers with or without leading zeros, or text."""
    cells = table.frame[name]
    if kind == "categorical":
        return pandas.Series([None if gap else str(cell) for cell, gap in zip(cells, cells.isna(), strict=True)])
    if kind in ("continuous", "count") and table.is_text:
        return _only_numbers(table, name, "--kind says")
    return typed_column(table, name, []) if table.is_text else cells


def _are_row_numbers(name: str, column: Any) -> bool:
    """Whether a first column without a name counts the rows, as pandas writes its index."""
    if name not in ("column_1", "Unnamed: 0", "__index_level_0__"):
        return False
    numbers = column.to_numpy()
    return numbers.dtype.kind in "iu" and numbers[0] in (0, 1) and bool((np.diff(numbers) == 1).all())


def _counting_note(name: str, column: Any) -> list[str]:
    """A word on a column of numbers that go up by one from row to row, as ids do."""
    numbers = column.to_numpy()
    if numbers.dtype.kind not in "iu" or numbers.size < 10 or not (np.diff(numbers) == 1).all():
        return []
    return [f"column {name!r} counts the rows, from {numbers[0]} on; --ignore {shlex.quote(name)} leaves it out"]


def _because(left_out: dict[str, str]) -> str:
    return ": " + "; ".join(f"{name}: {why}" for name, why in list(left_out.items())[:3]) if left_out else ""


def typed_column(table: Table, name: str, notes: list[str]) -> Any:
    """A column of text with the type that it looks like; what is odd is noted."""
    cells = table.frame[name]
    known = cells.dropna().tolist()
    if not known:
        return pandas.Series(np.full(len(cells), np.nan))
    texts = _with_points(known, table.decimal_comma)
    if all(is_numeric(text) for text in texts):
        return _numbers(cells, texts)
    doubt = word_among_numbers(table, name)
    if doubt:
        notes.append(f"column {name!r} is text, since it holds {doubt}")
    return pandas.Series(cells.tolist())


def word_among_numbers(table: Table, name: str) -> str | None:
    """Which cells make text of a column of numbers, and how to read it as numbers."""
    texts = _with_points(table.frame[name].dropna().tolist(), table.decimal_comma)
    slip, odd = slip_in(texts), sorted({text for text in texts if not is_numeric(text)})
    if odd and all(NUMBER.fullmatch(text) for text in odd) and (slip or len(set(texts)) > MANY_CODES):
        cure = f"--kind {shlex.quote(name)}=continuous makes numbers of them"
        return f"{slip.text if slip else repr(odd[0])}, and leading zeros make codes of its numbers; {cure}"
    if slip is None:
        return None
    shown = " ".join(f"--missing {shlex.quote(text[:40])}" for text in odd[:3])
    return f"{slip.text}; {shown}{' ...' if len(odd) > 3 else ''} makes gaps of such cells and numbers of the others"


def _with_points(known: list[str], decimal_comma: bool) -> list[str]:
    if decimal_comma and any(DECIMAL_COMMA.fullmatch(text) for text in known):
        return [text.replace(",", ".") if DECIMAL_COMMA.fullmatch(text) else text for text in known]
    return known


def _numbers(cells: Any, texts: list[str]) -> Any:
    """Integers, nullable where cells are missing, or floats."""
    places = np.flatnonzero(cells.notna().to_numpy())
    if all(INTEGER.fullmatch(text) for text in texts):
        values = np.zeros(len(cells), dtype=np.int64)
        values[places] = [int(text) for text in texts]
        return (
            pandas.Series(values)
            if len(places) == len(cells)
            else pandas.Series(values, dtype="Int64").where(cells.notna())
        )
    numbers = np.full(len(cells), np.nan)
    numbers[places] = [float(text) for text in texts]
    return pandas.Series(numbers)


def useless_because(column: Any) -> str | None:
    """Why nothing is learned from a column."""
    if not column.notna().any():
        return "empty in every row"
    dtype = str(column.dtype)
    if dtype.startswith(("datetime", "timedelta", "period", "date", "time")):
        return "dates; as numbers, such as days, they could be used"
    if pandas.api.types.is_numeric_dtype(column.dtype) or pandas.api.types.is_bool_dtype(column.dtype):
        return None
    try:
        n_values, n_known = column.nunique(), int(column.notna().sum())
    except TypeError:
        return "lists"
    if n_values > MANY_VALUES and 2 * n_values > n_known:
        if all(isinstance(v, str) and DATE_TEXT.fullmatch(v) for v in column.dropna()):
            return f"dates, {n_values} different ones in {n_known} cells; as numbers, such as days, they could be used"
        example = amount_in([str(v) for v in column.dropna().unique()])
        if example:
            how = f"amounts such as {example!r}, {n_values} different ones in {n_known} cells"
            return f"{how}; as plain numbers, without signs and separators of thousands, they could be used"
        return f"names or ids: {n_values} different values in {n_known} cells"
    return None


def kind_of(column: Any) -> str:
    """What a column looks like, before a model reads it."""
    from pandas.api.types import is_bool_dtype, is_integer_dtype, is_numeric_dtype

    if is_bool_dtype(column.dtype) or (is_integer_dtype(column.dtype) and column.nunique() == 2):
        return "binary"
    return "continuous" if is_numeric_dtype(column.dtype) else "categorical"


def read_labels(table: Table, target: str) -> np.ndarray:
    """The classes, None where a row has none; whole numbers are integers, else text stays text."""
    if target not in table.frame:
        near = difflib.get_close_matches(target, table.names, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise bad_table(table.source, f"no column {target!r}; {hint}its columns are {_listed(table.names)}")
    cells = table.frame[target]
    labels = np.array(
        [None if missing else value for value, missing in zip(cells, cells.isna(), strict=True)], dtype=object
    )
    known = [label for label in labels if label is not None]
    if all(_whole(label) is not None for label in known):
        labels = np.array([None if label is None else _whole(label) for label in labels], dtype=object)
    try:
        n_classes = len(set(labels.tolist()) - {None})
    except TypeError:
        raise bad_table(table.source, f"the target {target!r} holds lists; a class is one value") from None
    if n_classes < 2:
        what = f"one class, {known[0]!r}" if known else "no label in any row"
        raise bad_table(table.source, f"the target {target!r} has {what}; two classes are needed")
    if n_classes > MANY_CLASSES and 2 * n_classes > len(known):
        raise bad_table(
            table.source,
            f"the target {target!r} has {n_classes} different values in {len(known)} labels; classes have several rows",
        )
    return labels


def amounts_note(labels: np.ndarray, target: str) -> list[str]:
    """A word where the classes may be amounts, such as ages."""
    classes = {label for label in labels if label is not None}
    if len(classes) <= MANY_CLASSES or not all(NUMBER.fullmatch(str(label)) for label in classes):
        return []
    return [
        f"the target {target!r} holds {len(classes)} different numbers; each is learned as a class, not as an amount"
    ]


def _whole(label: Any) -> int | None:
    """The whole number that a class is, if any: 1, "1", 1.0 and "1.0" are the same one."""
    if isinstance(label, str):
        found = WHOLE.fullmatch(label)
        return int(found[1]) if found else None
    is_whole = isinstance(label, float) and label.is_integer() or isinstance(label, int) and not isinstance(label, bool)
    return int(label) if is_whole else None


def class_text(label: Any) -> str:
    """A class as text, the same for all ways to write a number."""
    whole = _whole(label)
    return str(label) if whole is None else str(whole)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name[:40]) for name in names[:12])
    return shown if len(names) <= 12 else f"{shown} and {len(names) - 12} more"


def features_as_fitted(table: Table, model: Any) -> pandas.DataFrame:
    """The columns that a model was fitted on, in its order and types."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = [name for name in table.names if name != getattr(model, "target_name_", None)]
        if len(names) != model.n_features_in_:
            raise bad_table(table.source, f"{len(names)} columns; the model was fitted on {model.n_features_in_}")
    lacking = [str(name) for name in names if name not in table.frame]
    if lacking:
        what = f"the columns {_listed(lacking)}" if len(lacking) > 1 else f"the column {lacking[0]!r}"
        raise bad_table(
            table.source, f"the model needs {what}, which it does not have; empty cells will do where nothing is known"
        )
    types = getattr(getattr(model._model, "encoder", None), "types", ()) or [None] * len(names)
    return pandas.DataFrame({str(name): _as_type(table, name, kind) for name, kind in zip(names, types, strict=True)})


def _as_type(table: Table, name: str, kind: Any) -> Any:
    column = table.frame[name]
    if kind is None or kind.is_integer or kind.is_float:
        return _only_numbers(table, name, "the model expects") if table.is_text else column
    known = column.notna()
    if kind.is_bool:
        if not table.is_text:
            return column
        wrong = next((text for text in column[known] if text.lower() not in TRUTH), None)
        if wrong is not None:
            raise _unexpected(table, name, wrong, "neither true nor false as the model expects")
        return pandas.Series(
            [TRUTH[v.lower()] if k else None for v, k in zip(column, known, strict=True)], dtype="boolean"
        )
    if table.is_text or kind.is_category:
        return pandas.Series(column.tolist())
    return pandas.Series([str(v) if k else None for v, k in zip(column, known, strict=True)])


def _only_numbers(table: Table, name: str, why: str) -> Any:
    """A column of text as numbers; other cells are refused."""
    cells = table.frame[name]
    texts = _with_points(cells.dropna().tolist(), table.decimal_comma)
    wrong = next((text for text in texts if not NUMBER.fullmatch(text)), None)
    if wrong is not None:
        raise _unexpected(table, name, wrong, f"no number as {why}")
    return _numbers(cells, texts) if texts else pandas.Series(np.full(len(cells), np.nan))


def _unexpected(table: Table, name: str, text: str, what: str) -> Exception:
    """A cell that cannot be read."""
    cure = f"--missing {shlex.quote(text[:40])} makes a gap of it"
    return bad_table(table.source, f"column {name!r} holds {text[:40]!r}, which is {what}; {cure}")
