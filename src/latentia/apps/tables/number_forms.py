"""Text as numbers: plain ones, and amounts such as $1,034, 1.200,50 € or 20 %.

A column of amounts is read where there is one way to read all its cells. "1.200 €" may be 1200 or
1.2; other cells of the column decide, and where they do not, nothing is assumed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas

from latentia.apps.tables.failures import bad_table
from latentia.apps.tables.table_files import Table
from latentia.table.cells import AMOUNTS, NUMBER, is_amount, is_numeric

DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)
INTEGER = re.compile(r"[+-]?\d{1,19}", re.ASCII)  # as 64 bits hold them, unless the largest ones

#: Signs of currencies whose thousands have commas.
POINTED = ("$", "£", "¥", "₹", "₩", "₱", "₪", "USD", "GBP", "JPY", "CNY", "INR", "AUD", "NZD", "SGD", "HKD", "KRW")

#: What becomes of amounts that are not read.
PLAINLY = "as plain numbers, with a decimal point and without signs and marks of thousands"


class NumberForm(NamedTuple):
    """How the amounts of a column are written; part of models that were fitted to them."""

    sign: str  # of a currency or of shares; "" where there is none
    decimal: str  # the mark of decimals; "" where no cell has one

    def plain(self, text: str) -> str | None:
        """An amount as a plain number; None if it is written in another form."""
        found = AMOUNTS[self.decimal or "."].fullmatch(text.strip())
        if found is None or _sign(found) not in ("", self.sign) or (not self.decimal and _has_mark(text)):
            return None
        digits = "".join(c for c in found["digits"] if c in "0123456789" or c == self.decimal).replace(",", ".")
        return f"-{digits}" if any(c in text for c in "(-\u2212") else digits


def _has_mark(text: str) -> bool:
    return any(mark in text for mark in AMOUNTS)


def _sign(found: re.Match[str]) -> str:
    return (found["before"] or "") + (found["after"] or "")


def find_form(values: Sequence[str], decimal_comma: bool) -> NumberForm | None:
    """The one way to read all these texts as amounts; None if there is none or more than one, or if
    all are plain numbers.
    """
    decimals = [mark for mark, amounts in AMOUNTS.items() if all(amounts.fullmatch(v.strip()) for v in values)]
    if not decimals or all(is_numeric(v) for v in values):
        return None
    found = [AMOUNTS[decimals[0]].fullmatch(v.strip()) for v in values]
    signs = {_sign(amount) for amount in found if amount}
    if len(signs - {""}) > 1 or {"%", ""} <= signs:  # of one unit, and shares throughout
        return None
    sign = max(signs)
    mark = decimals[0] if len(decimals) == 1 else _likely_decimal(values, sign, decimal_comma)
    return None if mark is None else NumberForm(sign, mark)


def _likely_decimal(values: Sequence[str], sign: str, decimal_comma: bool) -> str | None:
    """The mark of decimals where each mark has three digits behind it; None if it remains open, ""
    if there are no marks.
    """
    marks = {c for v in values for c in v if c in AMOUNTS}
    if len(marks) != 1:
        return None if marks else ""
    mark = marks.pop()
    if mark == "," and decimal_comma or mark == "." and sign == "%":
        return mark
    bare = [n for v in values if mark not in v and (n := int("".join(c for c in v if c in "0123456789")))]
    if bare and sign != "%":  # three decimals would be written everywhere
        return ",.".replace(mark, "") if max(bare) < 1000 else None
    return "." if mark == "," and sign in POINTED else None


def with_points(known: list[str], decimal_comma: bool) -> list[str]:
    """Decimal commas as points, in tables that have them."""
    if decimal_comma and any(DECIMAL_COMMA.fullmatch(text) for text in known):
        return [text.replace(",", ".") if DECIMAL_COMMA.fullmatch(text) else text for text in known]
    return known


def numbers_of(cells: pandas.Series, texts: list[str]) -> pandas.Series:
    """Integers, nullable where cells are missing, or floats, from the texts of known cells."""
    places = np.flatnonzero(cells.notna().to_numpy())
    if texts and all(INTEGER.fullmatch(text) and abs(int(text)) < 2**63 for text in texts):
        values = np.zeros(len(cells), dtype=np.int64)
        values[places] = [int(text) for text in texts]
        return (
            pandas.Series(values)
            if len(places) == len(cells)
            else pandas.Series(values, dtype="Int64").where(cells.notna().to_numpy())
        )
    numbers = np.full(len(cells), np.nan)
    numbers[places] = [float(text) for text in texts]
    return pandas.Series(numbers)


def only_numbers(table: Table, name: str, form: NumberForm | None, why: str) -> pandas.Series:
    """A column of text as numbers, of this form or plain; other cells are refused."""
    cells = table.frame[name]
    known = cells.dropna().tolist()
    if form is not None and not form.decimal:  # cells with marks are new to the model
        found = find_form(sorted(set(known)), table.decimal_comma)
        form = found if found is not None and found.sign in ("", form.sign) else form
    if form is not None and all(form.plain(text) for text in known):
        return numbers_of(cells, [form.plain(text) or "" for text in known])
    texts = with_points(known, table.decimal_comma)
    wrong = [text for text in texts if not NUMBER.fullmatch(text)]
    if wrong:
        other = (text for text in known if form is not None and form.plain(text) is None)
        raise unexpected(table, name, next(other, wrong[0]), f"no number as {why}")
    return numbers_of(cells, texts)


def unexpected(table: Table, name: str, text: str, what: str) -> Exception:
    """A cell that cannot be read."""
    cure = f"{PLAINLY}, such cells can be read" if is_amount(text) else f"{missing_option(text)} makes a gap of it"
    return bad_table(table.source, f"column {name!r} holds {text[:40]!r}, which is {what}; {cure}")


def missing_option(text: str) -> str:
    """The option that makes gaps of this text."""
    return f"--missing {shlex.quote(text[:40])}"
