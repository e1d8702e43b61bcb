"""Pieces of a page: sections, tables and figures. All text is escaped here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

#: Longer text in a cell is cut.
MAX_TEXT = 60

#: Longer text gets more room on small screens.
LONG_TEXT = 16


class Section(NamedTuple):
    """A part of the page with a heading."""

    title: str
    body: str
    half: bool = False  # whether it may stand beside another one

    @property
    def anchor(self) -> str:
        return slug(self.title)


class Shade(NamedTuple):
    """A cell with a background: from none at 0 to strong at 1, of another color if negative."""

    text: str
    amount: float


class Bar(NamedTuple):
    """A cell with a bar behind its text, from none at 0 to the whole width at 1."""

    text: str
    amount: float


Cell = str | Shade | Bar


def slug(title: str) -> str:
    """A title as an identifier."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def number(value: float, digits: int = 4) -> str:
    """A number to read."""
    if value is None or not np.isfinite(value):
        return "none" if value is None or np.isnan(value) else str(value)
    size = abs(value)
    if 10.0**digits <= size < 1e15:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def percent(share: float, digits: int = 1) -> str:
    return "none" if np.isnan(share) else f"{share:.{digits}%}"


def plain(value: object) -> str:
    """A cell of the user's table to read."""
    if isinstance(value, float | np.floating):
        return number(float(value), 5)
    text = str(value)
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def paragraph(text: str) -> str:
    return f"<p>{escape(text.strip())}</p>"


def code(text: str) -> str:
    """A block of code that scrolls by itself."""
    return f'<pre tabindex="0" role="region" aria-label="Code"><code>{escape(text)}</code></pre>'


def figure(drawing: str, caption: str) -> str:
    return f"<figure>{drawing}<figcaption>{escape(caption)}</figcaption></figure>"


def side_by_side(*parts: str) -> str:
    """Parts next to each other where the page is wide."""
    return f'<div class="beside">{"".join(parts)}</div>'


def facts_list(pairs: Sequence[tuple[str, str]]) -> str:
    """Names and values, for the top of the page."""
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs)
    return f'<dl class="facts">{items}</dl>'


def table(
    caption: str,
    header: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    words: Sequence[int] = (),
    name: str | None = None,
) -> str:
    """A table in a box that scrolls by itself. The first column heads its rows; columns hold
    numbers, but for those in `words`. `name` identifies it in the page; else its caption does.
    """
    kinds = ["words" if place in (0, *words) else "numbers" for place in range(len(header))]
    head = "".join(
        f'<th scope="col" class="{kind}">{escape(plain(title))}</th>' for title, kind in zip(header, kinds, strict=True)
    )
    body = "".join(f"<tr>{_row(row, kinds)}</tr>" for row in rows)
    name = slug(caption) if name is None else name
    return (
        f'<div class="scroll" role="region" aria-labelledby="{name}" tabindex="0"><table>'
        f'<caption id="{name}">{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row(row: Sequence[Cell], kinds: Sequence[str]) -> str:
    first = f'<th scope="row" class="words">{escape(plain(row[0]))}</th>'
    return first + "".join(_cell(cell, kind) for cell, kind in zip(row[1:], kinds[1:], strict=True))


def _cell(cell: Cell, kind: str) -> str:
    if isinstance(cell, Shade):
        sign = "less" if cell.amount < 0 else "more"
        return f'<td class="{kind} {sign}" style="--v:{abs(cell.amount):.2f}">{escape(cell.text)}</td>'
    if isinstance(cell, Bar):
        return f'<td class="{kind} bar" style="--v:{min(max(cell.amount, 0), 1):.2f}">{escape(cell.text)}</td>'
    size = " long" if kind == "words" and len(cell) > LONG_TEXT else ""
    return f'<td class="{kind}{size}">{escape(cell)}</td>'
