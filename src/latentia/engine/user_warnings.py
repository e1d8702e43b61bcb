"""Warnings that point at the user's own line."""

from __future__ import annotations

import contextlib
import sys
import warnings
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
