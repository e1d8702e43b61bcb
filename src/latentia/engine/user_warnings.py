"""Warnings that point at the user's own line."""

from __future__ import annotations

import contextlib
import sys
import warnings
from pathlib import Path

import sklearn

#: Folders whose frames a warning does not point at.
OURS = str(Path(__file__).parents[1]), str(Path(str(sklearn.__file__)).parent)


def warn_at_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of something at the nearest call from outside of Latentia and scikit-learn."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(OURS) or frame.f_code.co_filename == contextlib.__file__
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
