"""Warnings that point at the user's own line.

Times as readers like them: in a unit that suits, and one unit for a column of them.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import sklearn

#: Folders whose frames a warning does not point at.
OURS = str(Path(__file__).parents[1]), str(Path(str(sklearn.__file__)).parent)


#: Where scikit-learn fits and scores one model after the other.
SEARCHES = str(Path(str(sklearn.__file__)).parent / "model_selection")


def warn_at_caller(message: str, category: type[Warning] = UserWarning, in_search: str | None = None) -> None:
    """Warn of something at the nearest call from outside of Latentia and scikit-learn.

    `in_search` is what to say instead where scikit-learn goes through folds: a text that is the
    same for all of them is shown once.
    """
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(OURS) or frame.f_code.co_filename == contextlib.__file__
    ):
        if in_search is not None and frame.f_code.co_filename.startswith(SEARCHES):
            message = in_search
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


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
