"""Times as readers like them: in a unit that suits, and one unit for a column of them."""

from __future__ import annotations

from collections.abc import Sequence


def format_seconds(seconds: float) -> str:
    """A time in a unit that suits it."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def format_column(seconds: Sequence[float]) -> list[str]:
    """Times to be compared: all in milliseconds, or all in seconds if one takes a second."""
    unit, scale, decimals = ("ms", 1000.0, 0) if max(seconds) < 1 else ("s", 1.0, 2)
    least = 10.0**-decimals
    shown = [f"{scale * t:.{decimals}f}" if scale * t >= least / 2 else f"<{least:g}" for t in seconds]
    return [f"{text} {unit}" for text in shown]
