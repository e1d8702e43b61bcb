"""Stacks of models that are trained for a few steps, which repeat on other machines to the last digits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from latentia import LatentClassifier
from latentia.estimators.latent_classifier import candidates


@contextmanager
def few_steps(by_default: bool = False) -> Iterator[None]:
    """The softmax of a stack takes few steps; all that was not asked for does, if `by_default`."""
    defaults = LatentClassifier.__init__.__kwdefaults__
    changed = {"max_iter": 2, "cv": 2} if by_default else {}
    with patch.dict(candidates.SOFTMAX_OPTIONS, {"max_iter": 4}), patch.dict(defaults, changed):
        yield
