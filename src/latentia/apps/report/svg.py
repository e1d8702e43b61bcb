"""Small drawings in SVG: axes, lines, marks, ellipses. Colors come from the page's style."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from latentia.apps.report.elements import slug

#: Size of a drawing; where its frame begins and ends but for the left, which depends on the text
#: there. Drawings are as wide as a small screen, so that their text can be read there.
WIDTH, HEIGHT = 360, 290
RIGHT, TOP, BELOW = 350, 10, 40

#: Width of a letter, at most on average.
LETTER = 7

#: How many colors and marks the style has for classes.
N_COLORS = 10

#: Marks about the current point, about five units wide; classes take turns.
MARKS = (
    "m-2.4,0a2.4,2.4 0 1 0 4.8,0a2.4,2.4 0 1 0-4.8,0",
    "m-2.2,-2.2h4.4v4.4h-4.4z",
    "m0,-2.8l2.8,4.8h-5.6z",
    "m0,-3.1l3.1,3.1l-3.1,3.1l-3.1,-3.1z",
    "m0,2.8l2.8,-4.8h-5.6z",
)

Range = tuple[float, float]


class Plot:
    """A drawing with two axes."""

    def __init__(self, across: Range, up: Range, height: int = HEIGHT):
        self.across, self.up, self.height = _widen(across), _widen(up), height
        longest = max((len(text) for _, text in labeled_ticks(*self.up)), default=1)
        self.left, self.bottom = 26 + LETTER * longest, height - BELOW
        self.parts: list[str] = []

    def x(self, value: float) -> float:
        share = (value - self.across[0]) / (self.across[1] - self.across[0])
        return self.left + share * (RIGHT - self.left)

    def y(self, value: float) -> float:
        return self.bottom - (value - self.up[0]) / (self.up[1] - self.up[0]) * (self.bottom - TOP)

    def axes(self, across_name: str, up_name: str) -> None:
        """Frame, grid, ticks and names of the axes."""
        left, right, top, bottom = self.left, RIGHT, TOP, self.bottom
        for tick, text in self._across_ticks():
            x = self.x(tick)
            inside = min(x, WIDTH - LETTER * len(text) / 2)
            self.parts.append(f'<path class="grid" d="M{x:.1f},{top}V{bottom}"/>')
            self.parts.append(f'<text x="{inside:.1f}" y="{bottom + 14}" class="middle">{text}</text>')
        for tick, text in labeled_ticks(*self.up):
            y = self.y(tick)
            self.parts.append(f'<path class="grid" d="M{left},{y:.1f}H{right}"/>')
            self.parts.append(f'<text x="{left - 5}" y="{y + 4:.1f}" class="end">{text}</text>')
        self.parts.append(f'<path class="frame" d="M{left},{top}V{bottom}H{right}"/>')
        middle = (left + right) / 2
        self.parts.append(f'<text x="{middle}" y="{self.height - 8}" class="middle">{escape(across_name)}</text>')
        turned = f"rotate(-90 11 {(top + bottom) / 2})"
        self.parts.append(
            f'<text x="11" y="{(top + bottom) / 2}" class="middle" transform="{turned}">{escape(up_name)}</text>'
        )

    def _across_ticks(self) -> list[tuple[float, str]]:
        """As many ticks as have room for their text."""
        for most in (6, 4):
            found = labeled_ticks(*self.across, most)
            if sum(len(text) + 2 for _, text in found) * LETTER < RIGHT - self.left:
                return found
        return labeled_ticks(*self.across, 2)

    def line(self, points: np.ndarray, style: str) -> None:
        """A line through points (n, 2)."""
        places = "L".join(f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in points)
        self.parts.append(f'<path class="line {style}" d="M{places}"/>')

    def marks(self, points: np.ndarray, group: int) -> None:
        """Marks at points (n, 2), in the color and shape of a group; -1 has none of its own."""
        shape = MARKS[group % len(MARKS)] if group >= 0 else MARKS[0]
        places = "".join(f"M{self.x(a):.1f},{self.y(b):.1f}{shape}" for a, b in points)
        if places:
            self.parts.append(f'<path class="mark {color(group)}" d="{places}"/>')

    def ellipse(self, center: np.ndarray, radii: np.ndarray, group: int, style: str = "") -> None:
        rx = self.x(center[0] + radii[0]) - self.x(center[0])
        ry = self.y(center[1]) - self.y(center[1] + radii[1])
        place = f'cx="{self.x(center[0]):.1f}" cy="{self.y(center[1]):.1f}" rx="{rx:.1f}" ry="{ry:.1f}"'
        self.parts.append(f'<ellipse class="outline {color(group)} {style}" {place}/>')

    def box(self, across: Range, up: Range, group: int, opacity: float) -> None:
        x, y = self.x(across[0]), self.y(up[1])
        size = f'width="{self.x(across[1]) - x:.1f}" height="{self.y(up[0]) - y:.1f}"'
        self.parts.append(
            f'<rect class="area {color(group)}" x="{x:.1f}" y="{y:.1f}" {size} fill-opacity="{opacity:.2f}"/>'
        )

    def label(self, place: Sequence[float], text: str, group: int) -> None:
        """Text at a place, inside the frame."""
        shown = text if len(text) <= 18 else text[:17] + "…"
        half = 3.4 * len(shown)
        x = float(np.clip(self.x(place[0]), self.left + half, RIGHT - half))
        y = float(np.clip(self.y(place[1]), TOP + 10, self.bottom - 4))
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" class="label {color(group)}">{escape(shown)}</text>')

    def draw(self, title: str, description: str) -> str:
        """The drawing; title and description are for those who cannot see it."""
        name = slug(title)
        return (
            f'<svg viewBox="0 0 {WIDTH} {self.height}" role="img" aria-labelledby="{name}-t {name}-d">'
            f'<title id="{name}-t">{escape(title)}</title><desc id="{name}-d">{escape(description)}</desc>'
            f"{''.join(self.parts)}</svg>"
        )


def color(group: int) -> str:
    """The style's name of a group's color."""
    return f"c{group % N_COLORS}" if group >= 0 else "none"


def legend(names: Sequence[str], with_unlabeled: bool) -> str:
    """Names of the groups beside their marks."""
    entries = [(group, name) for group, name in enumerate(names)] + ([(-1, "no label")] if with_unlabeled else [])
    items = []
    for group, name in entries:
        shape = MARKS[group % len(MARKS)] if group >= 0 else MARKS[0]
        mark = f'<path class="mark {color(group)}" d="M6,6{shape}"/>'
        items.append(
            f'<li><svg viewBox="0 0 12 12" class="key" aria-hidden="true">{mark}</svg>{escape(name[:40])}</li>'
        )
    return f'<ul class="legend">{"".join(items)}</ul>'


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two others; the one number where they are the same."""
    if not high > low:
        return [float(low)]
    size = 10.0 ** np.floor(np.log10((high - low) / most))
    step = next(size * m for m in (1, 2, 5, 10, 20) if (high - low) / (size * m) <= most)
    first = np.ceil(low / step - 1e-9)
    return [float(np.round(k * step, 12)) + 0.0 for k in np.arange(first, np.floor(high / step + 1e-9) + 1)]


def labeled_ticks(low: float, high: float, most: int = 6) -> list[tuple[float, str]]:
    """Ticks with as many digits as tell them apart."""
    found = ticks(low, high, most)
    step = found[1] - found[0] if len(found) > 1 else 1.0
    largest = max(abs(tick) for tick in found) if found else 0.0
    if step < 1e-4 or largest >= 1e7:
        return [(tick, f"{tick:g}") for tick in found]
    decimals = max(0, -int(np.floor(np.log10(step) + 1e-9)))
    return [(tick, f"{tick:.{decimals}f}") for tick in found]


def _widen(ends: Range) -> Range:
    low, high = float(ends[0]), float(ends[1])
    if high - low > 1e-12 * max(abs(low), abs(high), 1e-300):
        return low, high
    room = max(abs(low), 1.0) * 0.5
    return low - room, high + room
