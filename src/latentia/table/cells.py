"""Cells of text: numbers, amounts and dates among them, and columns that are not what they would
be read as: ids, dates, and numbers with a word in between.

A fault is a reason against a column with its cure. A table is refused once, by all its faults.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from datetime import date
from numbers import Real
from typing import NamedTuple

import numpy as np

from latentia.engine.messages import warn_at_caller
from latentia.table.labels import EMPTY_TEXTS

#: Text and categories with more values than this are expensive, and deserve a word.
MANY_CATEGORIES = 30

#: Share of numbers from which text among them is a surprise, and cells of text that are a slip.
MOSTLY, SLIPS = 0.8, 0.02

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?", re.ASCII | re.IGNORECASE)

#: A number does not start so; numbers of articles and postal codes do.
LEADING_ZERO = re.compile(r"0\d+", re.ASCII)

MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
DATE_TEXT = re.compile(
    r"\d{4}([-/])\d\d?\1\d\d?([T ]\d\d?:\d\d.*)?|(1[89]|20)\d\d-(0[1-9]|1[0-2])|"
    r"\d\d?([./-])\d\d?\5\d{4}( \d\d?:\d\d.*)?|\d\d?/\d\d?/\d\d( \d\d?:\d\d.*)?|"
    rf"(\d\d?[. -]+)?{MONTH}[ -](\d\d?, ?)?\d{{4}}",
    re.ASCII | re.IGNORECASE,
)

SIGN = r"[€$£¥₹₽₩₺₪₫₴₦₱%]|EUR|USD|GBP|CHF|JPY|CNY|INR|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|RON|TRY|BRL|MXN|SGD|HKD|KRW"
SPACE, MINUS = r"[\s\u00a0\u202f]?", r"[+\u2212-]?"


def _amounts(thousands: str, decimal: str) -> re.Pattern[str]:
    """Amounts with these marks; thousands may have spaces or apostrophes instead."""
    groups = rf"[1-9]\d{{0,2}}(?:(?P<mark>[{thousands} '\u2019\u00a0\u202f])\d{{3}})(?:(?P=mark)\d{{3}})*"
    lakhs = rf"[1-9]\d?(?:[{thousands}]\d\d)+[{thousands}]\d{{3}}"
    digits = rf"(?P<digits>(?:{lakhs}|{groups}|(?!0\d)\d+)(?:[{decimal}]\d+)?)"
    signed = rf"{MINUS}(?P<before>{SIGN})?{SPACE}{MINUS}{digits}{SPACE}(?P<after>{SIGN})?"
    return re.compile(rf"(?P<open>\()?{signed}(?(open)\))", re.ASCII)


#: Numbers as people write them, with signs of currencies and shares and marks of thousands, by the
#: mark of their decimals.
AMOUNTS = {".": _amounts(",", "."), ",": _amounts(".", ",")}


PLAIN_AMOUNTS = (
    "Without signs and separators of thousands, and with a decimal point, pandas.to_numeric makes numbers of them; "
    "pandas.read_csv has the options decimal and thousands."
)


class Fault(NamedTuple):
    """What is wrong with a column, and what to do about it."""

    name: Hashable
    what: str  # follows the column's name
    cure: str  # {kinds} stands for the argument that makes categories of the column
    is_about_types: bool = False


class UnusableColumn(Exception):
    """A column that is refused; whoever reads the table joins all of them."""

    def __init__(self, fault: Fault):
        super().__init__(fault.what)
        self.fault = fault


def refusal(faults: Sequence[Fault]) -> Exception:
    """One error for all columns that are refused."""
    groups: dict[str, list[Fault]] = {}
    for fault in faults:
        groups.setdefault(fault.cure, []).append(fault)
    parts = [
        "; ".join(f"column {d.name!r} of X {d.what}" for d in group) + f". {cure.replace('{kinds}', _kinds(group))}"
        for cure, group in groups.items()
    ]
    text = parts[0] if len(faults) == 1 else "\n- ".join([f"{len(faults)} columns cannot be used as they are:", *parts])
    return TypeError(text) if all(d.is_about_types for d in faults) else ValueError(text)


def _kinds(faults: Sequence[Fault]) -> str:
    given = ", ".join(f"{d.name!r}: 'categorical'" for d in faults[:5])
    return f"kinds={{{given}{', ...' if len(faults) > 5 else ''}}}"


def dates_in(name: Hashable, what: str) -> Fault:
    """A column of dates."""
    cure = "To use dates, convert them to numbers first, for example to days since a start date."
    return Fault(name, f"holds dates ({what})", cure, True)


def refuse_dates(name: Hashable, values: Sequence[Hashable]) -> None:
    """Refuse dates among objects."""
    strange = next((v for v in values if isinstance(v, date)), None)
    if strange is not None:
        raise UnusableColumn(dates_in(name, type(strange).__name__))


def warn_of_row_numbers(name: Hashable, values: Sequence[Hashable], counts: np.ndarray) -> None:
    """Warn of a column without a name that counts the rows."""
    if not (isinstance(name, str) and name.startswith("Unnamed: ") and counts.sum() == len(values) > 1):
        return
    numbers = [v for v in values if isinstance(v, int)]
    if len(numbers) == len(values) and numbers[0] in (0, 1) and numbers[-1] - numbers[0] == len(values) - 1:
        warn_at_caller(
            f"column {name!r} of X holds row numbers, as pandas writes them to files: drop it, or read the file with "
            "index_col=0."
        )


def check_text(name: Hashable, values: Sequence[Hashable], counts: np.ndarray, is_merged: bool) -> bool:
    """Refuse text that is a slip in a column of numbers; warn where the column has few values, or
    rare ones are merged. Whether there is such text.
    """
    slip = text_among_numbers(values, counts)
    if slip is None:
        return False
    convert = f"pandas.to_numeric(X[{name!r}], errors='coerce') makes such cells missing and numbers of the others"
    if slip.is_code:
        convert = f"pandas.to_numeric(X[{name!r}]) makes numbers of all cells, if they are no codes"
    if len(values) > MANY_CATEGORIES and not is_merged:
        cure = f"Correct such cells, or convert the column: {convert}. {{kinds}} makes categories of all values."
        raise UnusableColumn(Fault(name, f"holds {slip.text}", cure))
    if slip.n_cells <= max(1, SLIPS * slip.n_numbers):
        kinds = _kinds([Fault(name, "", "")])
        warn_at_caller(
            f"column {name!r} of X holds {slip.text}, so all its values are categories. {convert}; {kinds} ends this "
            "warning."
        )
    return True


class Slip(NamedTuple):
    """Text in a column of numbers."""

    text: str
    n_cells: int
    n_numbers: int
    is_code: bool  # whether nothing but leading zeros makes text of it


def slip_in(cells: Sequence[Hashable], with_amounts: bool = False) -> Slip | None:
    """Which text stands among the known cells of a column of numbers, or of amounts."""
    counts = Counter(cells)
    return text_among_numbers(list(counts), np.array(list(counts.values()), dtype=np.int64), with_amounts)


def text_among_numbers(values: Sequence[Hashable], counts: np.ndarray, with_amounts: bool = False) -> Slip | None:
    """The same of different values, and how many cells have each; None unless most cells are
    numbers and some are not.
    """
    is_number = np.array([is_numeric(value) or (with_amounts and is_amount(value)) for value in values], dtype=bool)
    n_numbers, n_cells = int(counts[is_number].sum()), int(counts[~is_number].sum())
    if n_cells == 0 or n_numbers <= MOSTLY * (n_numbers + n_cells):
        return None
    others = np.flatnonzero(~is_number & (counts > 0))
    n_first = int(counts[others[0]])
    is_code = all(LEADING_ZERO.fullmatch(str(values[k]).strip()) for k in others.tolist())
    what = "with a leading zero" if is_code else "of text"
    more = f" and {n_cells - n_first} more cell{'s' * (n_cells - n_first > 1)} {what}" if others.size > 1 else ""
    times = f" ({n_first} times)" if n_first > 1 else ""
    called = "amounts" if with_amounts else "numbers"
    return Slip(f"{_short(values[others[0]])}{times}{more} among {n_numbers} {called}", n_cells, n_numbers, is_code)


def is_numeric(value: object) -> bool:
    """Whether a cell is a number, or text that can only be one: 007 is a code."""
    if isinstance(value, str):
        return NUMBER.fullmatch(value.strip()) is not None and not LEADING_ZERO.fullmatch(value.strip())
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def is_amount(value: object) -> bool:
    """Whether a cell is text that is an amount, by one decimal mark or the other."""
    return isinstance(value, str) and any(form.fullmatch(value.strip()) for form in AMOUNTS.values())


def amount_in(values: Sequence[Hashable]) -> str | None:
    """An example, if most values are amounts that no reader takes for numbers: 1.200,50 €."""
    found = [v for v in values if isinstance(v, str) and is_amount(v)]
    return None if len(found) <= MOSTLY * len(values) else next((v for v in found if not is_numeric(v)), None)


def are_dates(values: Sequence[Hashable]) -> bool:
    """Whether all values are dates as text."""
    return all(isinstance(v, str) and DATE_TEXT.fullmatch(v.strip()) for v in values)


def warn_of_gap_texts(name: Hashable, values: Sequence[Hashable], counts: np.ndarray) -> None:
    """Warn of text that stands for missing cells, which would be a category."""
    found = [k for k, v in enumerate(values) if isinstance(v, str) and v.strip() in EMPTY_TEXTS]
    if not found:
        return
    texts = [values[k] for k in found]
    shown, n_cells = ", ".join(map(repr, texts)), int(counts[found].sum())
    what = "which counts as a category like any other; None or NaN marks missing cells"
    kinds = _kinds([Fault(name, "", "")])
    cure = f"X[{name!r}].replace({texts!r}, numpy.nan) makes gaps of them, {kinds} ends this warning"
    warn_at_caller(
        f"column {name!r} of X holds the text {shown} in {n_cells} cell{'s' * (n_cells > 1)}, {what}. {cure}.",
        in_search=f"column {name!r} of X holds the text {shown}, {what}. {cure}.",
    )


def warn_of_text_values(name: Hashable, values: Sequence[Hashable], n_known: int) -> None:
    """Warn of dates and amounts that are text, whose values would be categories."""
    what, convert = _written_as_text(name, values, n_known) if len(values) > 2 else ("", "")
    if what and not all(is_numeric(v) for v in values):
        warn_at_caller(
            f"column {name!r} of X {what}, and each is a category. {convert}{_kinds([Fault(name, '', '')])} ends this "
            "warning.",
            in_search=f"column {name!r} of X holds dates or amounts as text, and each is a category. {convert}",
        )


def _written_as_text(name: Hashable, values: Sequence[Hashable], n_known: int) -> tuple[str, str]:
    """What a column of dates, numbers or amounts holds, and how it becomes numbers, if any."""
    found, how_many = amount_in(values), f"{len(values)} different ones in {n_known} cells"
    if are_dates(values):
        convert = "(pandas.to_datetime(column) - pandas.Timestamp('2000-01-01')).dt.days makes numbers of dates. "
        return f"holds dates as text, such as {_short(values[0])}: {how_many}", convert
    if all(isinstance(v, str) and is_numeric(v) for v in values):
        convert = "pandas.to_numeric makes numbers of them. "
        return f"holds numbers as text, such as {_short(values[0])}: {how_many}", convert
    if found is None:
        return "", ""
    convert = f"{PLAIN_AMOUNTS} "
    if found.endswith("%") and "," not in found:
        convert = f"pandas.to_numeric(X[{name!r}].str.rstrip(' %')) makes numbers of them. "
    return f"holds amounts as text, such as {found!r}: {how_many}", convert


def check_many_values(name: Hashable, values: Sequence[Hashable], n_known: int) -> None:
    """Fault text and categories of many values: an id says nothing, and many values cost much."""
    if len(values) <= MANY_CATEGORIES:
        return
    what, convert = _written_as_text(name, values, n_known)
    what = what or f"has {len(values)} different values of text or categories in {n_known} known cells"
    if 2 * len(values) > n_known:
        what = what if convert else f"{what}, as names and ids have"
        cure = (
            f"{convert}Drop such columns, merge their rare values by max_categories or min_frequency, or pass {{kinds}}"
        )
        raise UnusableColumn(Fault(name, what, f"{cure} to use them as they are, at a high cost."))
    kinds = _kinds([Fault(name, "", "")])
    warn_at_caller(
        f"column {name!r} of X {what}; time grows with the values. {convert}max_categories or min_frequency merge rare "
        f"ones, {kinds} keeps them all and ends this warning."
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
