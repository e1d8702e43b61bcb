"""The drawing board: digits on a grid of eight by eight, recognized and completed from what is
known of them.

The model has a Gaussian with a full covariance for each class: what is hidden is integrated out,
and what is drawn tells of it.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence

import numpy as np
from sklearn.datasets import load_digits

from latentia.apps import JsonObject
from latentia.estimators.gaussian_mixture import GaussianMixtureClassifier

#: Pixels along a side, and the value of full ink.
SIDE, INK = 8, 16.0

#: Examples of each digit that the page offers; they are kept out of the training.
N_EXAMPLES = 4

#: Classes under which a drawing is completed.
N_COMPLETED = 3


class Board:
    """A model of digits, trained when it is first asked for."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._model: GaussianMixtureClassifier | None = None
        self.examples: list[list[list[float]]] = []

    def prepare(self) -> GaussianMixtureClassifier:
        with self._lock:
            if self._model is None:
                self._model = self._train()
            return self._model

    def _train(self) -> GaussianMixtureClassifier:
        pixels, digit = load_digits(return_X_y=True)
        chosen = [np.flatnonzero(digit == d)[:N_EXAMPLES] for d in range(10)]
        self.examples = [pixels[rows].tolist() for rows in chosen]
        kept = np.setdiff1d(np.arange(digit.size), np.concatenate(chosen))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = GaussianMixtureClassifier(covariance="full", marginals="normal", random_state=0)
            return model.fit(pixels[kept], digit[kept])

    def describe(self) -> JsonObject:
        """What the page needs at first."""
        model = self.prepare()
        return {"side": SIDE, "ink": INK, "classes": [str(c) for c in model.classes_], "examples": self.examples}

    def answer(self, pixels: Sequence[float | None]) -> JsonObject:
        """Probabilities, the expected picture, and the picture under each likely class."""
        model = self.prepare()
        row = np.array([[np.nan if p is None else p for p in pixels]], dtype=float)
        with self._lock, warnings.catch_warnings():  # one after the other is faster than all at once
            warnings.simplefilter("ignore")
            if np.isnan(row).all():
                proba = np.exp(np.log(model.priors_))
            else:
                proba = model.predict_proba(row)[0]
            best = np.argsort(-proba, kind="stable")[:N_COMPLETED]
            expected = model.impute(row)[0]
            given = model.impute(np.repeat(row, best.size, axis=0), model.classes_[best])
        return {
            "proba": np.round(proba, 4).tolist(),
            "expected": _pixels(expected),
            "given": [{"digit": int(k), "pixels": _pixels(picture)} for k, picture in zip(best, given, strict=True)],
        }


def _pixels(values: np.ndarray) -> list[float]:
    return np.round(np.clip(values, 0, INK), 2).tolist()
