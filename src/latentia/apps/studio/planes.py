"""The plane of a map: where a model places rows, and where its classes are."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import pandas

from latentia.apps.report.tables import numbers_of
from latentia.apps.tables.models import FittedClassifier
from latentia.arrays.namespace import to_numpy
from latentia.plot.factors import LatentMapDisplay
from latentia.plot.general import FactorModel, factor_model
from latentia.table.frames import Table, distinct_values, is_pandas

#: Values of a text column that get an axis of their own.
MAX_LEVELS = 12


class Plane(ABC):
    """Two axes."""

    axis_names: tuple[str, str]
    caption: str

    @abstractmethod
    def place(self, frame: Table) -> np.ndarray:
        """Where rows lie, (n, 2)."""

    @abstractmethod
    def ellipses(self, points: np.ndarray, groups: np.ndarray, n_classes: int) -> list[dict[str, float] | None]:
        """One standard deviation of each class: center, semi-axes and angle in degrees; None where
        it is unknown.
        """


class FactorPlane(Plane):
    """The two latent factors that tell the classes apart best."""

    caption = "A row lies where its known cells place it. Ellipses: one and two standard deviations of a class."

    def __init__(self, model: FittedClassifier, factors: FactorModel, frame: Table):
        found = LatentMapDisplay.from_estimator(model, frame[:2], plot=False)
        self._model = factors
        self._factors, self.axis_names = list(found.factors), found.axis_names
        self._means, self._stds = found.means, found.stds

    def place(self, frame: Table) -> np.ndarray:
        return to_numpy(self._model.transform(frame)).astype(float)[:, self._factors]

    def ellipses(self, points: np.ndarray, groups: np.ndarray, n_classes: int) -> list[dict[str, float] | None]:
        return [
            {"x": float(m[0]), "y": float(m[1]), "a": float(s[0]), "b": float(s[1]), "angle": 0.0}
            for m, s in zip(self._means, self._stds, strict=True)
        ]


class PrincipalPlane(Plane):
    """The two main directions of completed rows, for models without two factors."""

    caption = "Main directions of the completed rows. Ellipses: one and two standard deviations of the rows of a class."
    axis_names = ("direction 1", "direction 2")

    def __init__(self, model: FittedClassifier, frame: Table, groups: np.ndarray):
        self._model = model
        self._levels = {
            place: distinct_values(frame, place)[0][:MAX_LEVELS]
            for place in range(frame.shape[1])
            if np.isnan(numbers_of(frame, place)).all()
        }
        numbers = self._numbers(frame)
        self._center, scale = numbers.mean(axis=0), numbers.std(axis=0)
        self._scale = np.where(scale > 0, scale, 1.0)
        scaled = (numbers - self._center) / self._scale
        counts = np.bincount(groups)
        means = np.stack([np.bincount(groups, column) for column in scaled.T], axis=1) / np.maximum(counts, 1)[:, None]
        # classes first: what lies between them shows more than what varies most
        directions = np.linalg.svd(np.sqrt(counts)[:, None] * means, full_matrices=False)[2][:2]
        if len(directions) < 2 or counts[counts > 0].size == 2:
            rest = scaled - (scaled @ directions[:1].T) @ directions[:1]
            directions = np.concatenate([directions[:1], np.linalg.svd(rest, full_matrices=False)[2][:1]])
        self._axes = np.zeros((2, scaled.shape[1]))
        self._axes[: len(directions)] = directions

    def _numbers(self, frame: Table) -> np.ndarray:
        filled = self._model.impute(frame)
        filled = filled if is_pandas(filled) else pandas.DataFrame(np.asarray(filled))
        columns = []
        for place in range(frame.shape[1]):
            if place in self._levels:
                cells = filled.iloc[:, place].astype(object).to_numpy()
                columns += [(cells == level).astype(float) for level in self._levels[place]]
            else:
                columns.append(np.nan_to_num(numbers_of(filled, place)))
        return np.stack(columns, axis=1) if columns else np.zeros((len(frame), 1))

    def place(self, frame: Table) -> np.ndarray:
        return np.asarray((self._numbers(frame) - self._center) / self._scale @ self._axes.T)

    def ellipses(self, points: np.ndarray, groups: np.ndarray, n_classes: int) -> list[dict[str, float] | None]:
        found: list[dict[str, float] | None] = []
        for group in range(n_classes):
            mine = points[groups == group]
            if len(mine) < 3:
                found.append(None)
                continue
            values, vectors = np.linalg.eigh(np.cov(mine.T))
            a, b = np.sqrt(np.maximum(values[::-1], 0.0))
            angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
            x, y = mine.mean(axis=0)
            found.append({"x": float(x), "y": float(y), "a": float(a), "b": float(b), "angle": float(angle)})
        return found


def plane_of(model: FittedClassifier, frame: Table, groups: np.ndarray) -> Plane:
    """The plane of the model's factors, if it has two."""
    factors = factor_model(model)
    if factors is not None and factors.latent_means_.shape[1] >= 2:
        return FactorPlane(model, factors, frame)
    return PrincipalPlane(model, frame, groups)
