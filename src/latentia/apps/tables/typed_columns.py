"""Columns of text become numbers or stay text: as they look when a model is fitted, and as the
model knows them afterwards.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas
from sklearn.base import BaseEstimator

from latentia.apps.tables.class_labels import WHOLE, did_you_mean, listed
from latentia.apps.tables.failures import bad_table
from latentia.apps.tables.number_forms import (
    PLAINLY,
    NumberForm,
    find_form,
    missing_option,
    numbers_of,
    only_numbers,
    unexpected,
    with_points,
)
from latentia.apps.tables.table_files import Table
from latentia.apps.tables.text_tables import MISSING
from latentia.table.cells import NUMBER, amount_in, are_dates, is_amount, is_numeric, slip_in
from latentia.table.frames import ColumnType

#: Text of more different values than this is a name or an id where most rows have their own.
MANY_VALUES = 50

#: What the levels of an ordinal column follow, from low to high.
ORDINAL = "ordinal:"

#: Dates of more different values than this are no categories, such as months.
MANY_DATES = 12

#: Numbers with leading zeros of more different values than this may be none but padded numbers.
MANY_CODES = 10

AS_DAYS = "as numbers, such as days, they could be used"

TRUTH = {"true": True, "false": False, "1": True, "0": False}


@dataclass
class Features:
    """The columns that a model learns from, and what became of the others."""

    frame: pandas.DataFrame
    left_out: dict[str, str] = field(default_factory=dict)  # column to reason
    notes: list[str] = field(default_factory=list)
    explained: set[str] = field(default_factory=set)  # columns that are text, of which a note tells why
    kinds: dict[str, str] = field(default_factory=dict)  # that users give
    forms: dict[str, NumberForm] = field(default_factory=dict)  # of columns of amounts

    def kind(self, name: str) -> str:
        """The kind of a column, given or as it looks."""
        return self.kinds.get(name) or kind_of(self.frame[name])


def find_features(table: Table, names: Sequence[str], kinds: Mapping[str, str] | None = None) -> Features:
    """The columns with the types that they look like, or that `kinds` asks for; names, ids and
    dates are left out.
    """
    asked = dict(kinds or {})
    features = Features(
        pandas.DataFrame(index=table.frame.index), kinds={name: kind.split(":")[0] for name, kind in asked.items()}
    )
    kept: dict[str, pandas.Series] = {}
    for name in names:
        kind = asked.get(name)
        looks = typed_column(table, name) if kind is None else _as_kind(table, name, kind)
        column = looks.cells
        reason = None if kind else useless_because(name, column)
        if reason is not None:
            features.left_out[name] = looks.why_text or reason
            continue
        kept[name] = column
        if looks.form is not None:
            features.forms[name] = looks.form
        if kind is None:
            features.notes += looks.notes + counting_note(name, column)
            features.explained |= {name} if looks.why_text else set()
    if not kept:
        raise bad_table(table.source, "no column is left to learn from" + _because(features.left_out))
    features.frame = pandas.DataFrame(kept)
    return features


class TypedColumn(NamedTuple):
    """A column with the type that it looks like."""

    cells: pandas.Series
    notes: list[str] = []  # what is odd or assumed
    why_text: str | None = None  # why it is text, and how it could be read as numbers
    form: NumberForm | None = None  # of amounts that were read as numbers


def _as_kind(table: Table, name: str, kind: str) -> TypedColumn:
    """A column as a user wants it: numbers with or without leading zeros, or text."""
    cells = table.frame[name]
    if kind == "categorical":
        texts = [None if gap else str(cell) for cell, gap in zip(cells, cells.isna(), strict=True)]
        return TypedColumn(pandas.Series(texts))
    if kind.startswith(ORDINAL):
        return TypedColumn(_ordered(table, name, kind.removeprefix(ORDINAL)))
    looks = typed_column(table, name)
    if kind == "ordinal" and looks.cells.nunique() > 2 and (values := _unordered(looks.cells)):
        example = shlex.quote(f"{name}={ORDINAL}{'<'.join(values[:5])}")
        raise bad_table(
            table.source,
            f"column {name!r} is to be ordinal, but is text without an order; --kind {example} names its levels from "
            "low to high",
        )
    if kind in ("continuous", "count") and table.is_text and looks.form is None:
        return TypedColumn(only_numbers(table, name, None, "--kind says"))
    return looks


def _unordered(column: pandas.Series) -> list[str]:
    """The values of a column, if they are text that the alphabet alone would order."""
    values = [] if str(column.dtype) == "category" else sorted(map(str, column.dropna().unique()))
    is_text = not pandas.api.types.is_numeric_dtype(column.dtype)
    return values if is_text and not all(NUMBER.fullmatch(text) for text in values) else []


def _ordered(table: Table, name: str, given: str) -> pandas.Series:
    """A column of text with levels in the order that a user gives."""
    levels, cells = [level.strip() for level in given.split("<")], table.frame[name]
    texts = [None if gap else str(cell) for cell, gap in zip(cells, cells.isna(), strict=True)]
    other = next((text for text in texts if text is not None and text not in levels), None)
    if len(set(levels)) < len(levels) or "" in levels or other is not None:
        what = f"the column holds {other!r}" if other is not None else "a level is empty or named twice"
        raise bad_table(table.source, f"--kind {name}={ORDINAL}{given}: {what}; allowed are all its values, each once")
    return pandas.Series(pandas.Categorical(texts, levels, ordered=True))


def _pair_of_integers(column: pandas.Series) -> pandas.Series:
    """Two whole numbers as integers: with gaps, pandas writes 0 and 1 as 0.0 and 1.0."""
    values = column.dropna().unique().tolist() if column.dtype.kind == "f" else []
    return column.astype("Int64") if len(values) == 2 and all(WHOLE.fullmatch(str(v)) for v in values) else column


def _are_row_numbers(name: str, column: pandas.Series) -> bool:
    """Whether a first column without a name counts the rows, as pandas writes its index."""
    if name not in ("column_1", "Unnamed: 0", "__index_level_0__"):
        return False
    numbers = column.to_numpy()
    return numbers.dtype.kind in "iu" and numbers[0] in (0, 1) and bool((np.diff(numbers) == 1).all())


def counting_note(name: str, column: pandas.Series) -> list[str]:
    """A word on a column of numbers that go up by one from row to row, as ids do."""
    numbers = column.to_numpy()
    if numbers.dtype.kind not in "iu" or numbers.size < 10 or not (np.diff(numbers) == 1).all():
        return []
    return [f"column {name!r} counts the rows, from {numbers[0]} on; --ignore {shlex.quote(name)} leaves it out"]


def _because(left_out: dict[str, str]) -> str:
    return ": " + "; ".join(f"{name}: {why}" for name, why in list(left_out.items())[:3]) if left_out else ""


def typed_column(table: Table, name: str) -> TypedColumn:
    """A column with the type that it looks like; text of other formats is text but for amounts."""
    looks = _as_it_looks(table, name)
    return looks._replace(cells=_pair_of_integers(looks.cells))


def _as_it_looks(table: Table, name: str) -> TypedColumn:
    cells = table.frame[name]
    known = cells.dropna().tolist()
    if not table.is_text and not (known and _is_text(cells)):
        return TypedColumn(cells)
    if not known:
        return TypedColumn(pandas.Series(np.full(len(cells), np.nan)))
    texts = with_points(known, table.decimal_comma)
    if table.is_text and all(is_numeric(text) for text in texts):
        return TypedColumn(numbers_of(cells, texts))
    values, option = sorted(set(known)), f"--kind {shlex.quote(name)}=categorical"
    form = find_form(values, table.decimal_comma)
    if form is not None:
        numbers = numbers_of(cells, [form.plain(text) or "" for text in known])
        example = max(values, key=len)
        note = f"column {name!r} is read as numbers, {example!r} as {form.plain(example)}; {option} keeps the text"
        return TypedColumn(numbers, [note], None, form)
    column = pandas.Series(cells.tolist()) if table.is_text else cells
    if are_dates(values):
        why = f"dates, {len(values)} different ones in {len(known)} cells; {AS_DAYS}"
        return TypedColumn(column, [f"column {name!r} is categorical, though it holds {why}"], why)
    word = _word_among_numbers(name, texts) if table.is_text else _ambiguous_text(name, values)
    return TypedColumn(column, [f"column {name!r} is text, since it holds {word}"] if word else [], word)


def _ambiguous_text(name: str, values: list[str]) -> str | None:
    """What text of formats with gaps and numbers of their own holds that may be meant as these."""
    marks = [text for text in values if text.strip() in MISSING]
    if marks:
        shown = " ".join(map(missing_option, marks))
        return f"{', '.join(map(repr, marks))}, which may mark gaps; {shown} makes gaps of such cells"
    if len(values) <= MANY_CODES or not all(map(is_numeric, values)):
        return None
    return f"numbers as text, such as {values[0]!r}; --kind {shlex.quote(name)}=continuous makes numbers of them"


def _is_text(cells: pandas.Series) -> bool:
    """Whether all known cells are text, and no categories."""
    return str(cells.dtype) != "category" and all(isinstance(v, str) for v in cells.dropna())


def _word_among_numbers(name: str, texts: list[str]) -> str | None:
    """Which cells make text of a column of numbers or amounts, and how to read it as numbers."""
    slip, odd = slip_in(texts), sorted({text for text in texts if not is_numeric(text)})
    if odd and all(NUMBER.fullmatch(text) for text in odd) and (slip or len(set(texts)) > MANY_CODES):
        cure = f"--kind {shlex.quote(name)}=continuous makes numbers of them"
        return f"{slip.text if slip else repr(odd[0])}, and leading zeros make codes of its numbers; {cure}"
    if slip is None:
        slip, odd = slip_in(texts, with_amounts=True), [text for text in odd if not is_amount(text)]
    if slip is None:
        return None
    if any(is_amount(text) for text in odd):
        return f"{slip.text}; {PLAINLY}, such cells can be read"
    shown = " ".join(missing_option(text) for text in odd[:3])
    return f"{slip.text}; {shown}{' ...' if len(odd) > 3 else ''} makes gaps of such cells and numbers of the others"


def useless_because(name: str, column: pandas.Series) -> str | None:
    """Why nothing is learned from a column."""
    if _are_row_numbers(name, column):
        return "row numbers"
    if not column.notna().any():
        return "empty in every row"
    dtype = str(column.dtype)
    if dtype.startswith(("datetime", "timedelta", "period", "date", "time")):
        return f"dates; {AS_DAYS}"
    if pandas.api.types.is_numeric_dtype(column.dtype) or pandas.api.types.is_bool_dtype(column.dtype):
        return None
    try:
        n_values, n_known = column.nunique(), int(column.notna().sum())
    except TypeError:
        return "lists"
    values, are_many = column.dropna().unique().tolist(), n_values > MANY_VALUES and 2 * n_values > n_known
    if n_values > MANY_DATES and are_dates(values):
        return f"dates, {n_values} different ones in {n_known} cells; {AS_DAYS}"
    example = amount_in(values) if n_values > 2 else None
    if example and (are_many or all(is_amount(v) for v in values)):
        how = f"amounts such as {example!r}, of unclear marks or different signs"
        return f"{how}, {n_values} different ones in {n_known} cells; {PLAINLY}, they could be used"
    return f"names or ids: {n_values} different values in {n_known} cells" if are_many else None


def kind_of(column: pandas.Series) -> str:
    """What a column looks like, before a model reads it."""
    from pandas.api.types import is_bool_dtype, is_integer_dtype, is_numeric_dtype

    if is_bool_dtype(column.dtype) or (is_integer_dtype(column.dtype) and column.nunique() == 2):
        return "binary"
    return "continuous" if is_numeric_dtype(column.dtype) else "categorical"


def features_as_fitted(table: Table, model: BaseEstimator) -> pandas.DataFrame:
    """The columns that a model was fitted on, in its order and types."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = [name for name in table.names if name != getattr(model, "target_name_", None)]
        if len(names) != model.n_features_in_:
            raise bad_table(table.source, f"{len(names)} columns; the model was fitted on {model.n_features_in_}")
    lacking = [str(name) for name in names if name not in table.frame]
    if lacking:
        what = f"the columns {listed(lacking)}" if len(lacking) > 1 else f"the column {lacking[0]!r}"
        others = [name for name in table.names if name not in names]
        hint = f"{did_you_mean(lacking, others)}empty cells will do where nothing is known"
        raise bad_table(table.source, f"the model needs {what}, which it does not have; {hint}")
    types = getattr(getattr(model._model, "encoder", None), "types", ()) or [None] * len(names)
    forms = {name: NumberForm(*form) for name, form in getattr(model, "number_forms_", {}).items()}
    columns = zip(names, types, strict=True)
    return pandas.DataFrame({str(name): _as_type(table, name, kind, forms.get(name)) for name, kind in columns})


def _as_type(table: Table, name: str, kind: ColumnType | None, form: NumberForm | None) -> pandas.Series:
    column = table.frame[name]
    if kind is None or kind.is_integer or kind.is_float:
        is_text = table.is_text or form is not None and _is_text(column)
        return only_numbers(table, name, form, "the model expects") if is_text else column
    known = column.notna()
    if kind.is_bool:
        if not table.is_text:
            return column
        wrong = next((text for text in column[known] if text.lower() not in TRUTH), None)
        if wrong is not None:
            raise unexpected(table, name, wrong, "neither true nor false as the model expects")
        return pandas.Series(
            [TRUTH[v.lower()] if k else None for v, k in zip(column, known, strict=True)], dtype="boolean"
        )
    if table.is_text or kind.is_category:
        return pandas.Series(column.tolist())
    return pandas.Series([str(v) if k else None for v, k in zip(column, known, strict=True)])
