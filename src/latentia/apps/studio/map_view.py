"""A model and its rows: where they lie, what the model says of each, and which labels it doubts."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pandas

from latentia.apps import JsonObject
from latentia.apps.report.facts import Facts
from latentia.apps.studio.columns import Column
from latentia.apps.studio.planes import plane_of
from latentia.apps.studio.surprise import Surprise
from latentia.apps.tables.models import FittedClassifier
from latentia.arrays.namespace import to_numpy
from latentia.table.frames import Table


class MapView:
    """All rows of a table under a model, found once."""

    def __init__(self, model: FittedClassifier, frame: pandas.DataFrame, labels: np.ndarray | None, origin: str):
        self.model, self.frame, self.labels, self.origin = model, frame, labels, origin
        self.facts = Facts.of(model, self.as_fitted(frame), labels)
        self.known = frame.notna().to_numpy()
        self.proba = self.facts.proba
        self.plane = plane_of(model, self.as_fitted(frame), self.facts.groups)
        self.points = self.plane.place(self.as_fitted(frame))
        self.surprise = Surprise(self.log_density(frame), self.known)
        self.disputed = self._disputed()
        self.separation = self.facts.separation

    def as_fitted(self, frame: pandas.DataFrame) -> Table:
        """Rows as the model takes them: those of an array have no names."""
        return frame if hasattr(self.model, "feature_names_in_") else frame.to_numpy(dtype=float)

    def log_density(self, frame: pandas.DataFrame) -> np.ndarray:
        return to_numpy(self.model.score_samples(self.as_fitted(frame))).astype(float)

    @property
    def target(self) -> str:
        return str(getattr(self.model, "target_name_", "class"))

    def _disputed(self) -> np.ndarray:
        """Labeled rows to whose class the model gives less than one half, the least first."""
        facts = self.facts
        rows = np.flatnonzero(facts.is_judged)
        own = facts.judged[rows, facts.known[rows]]
        best = facts.judged[rows].argmax(axis=1)
        wrong = (own < 0.5) & (best != facts.known[rows])
        return rows[wrong][np.argsort(own[wrong], kind="stable")]

    def describe(self) -> JsonObject:
        """What the page draws."""
        facts, n_classes = self.facts, len(self.facts.classes)
        surprise = self.surprise.share_below(self.surprise.of_rows)
        return {
            "origin": self.origin,
            "target": self.target,
            "classes": facts.classes,
            "columns": [column.describe() for column in self.columns],
            "axes": list(self.plane.axis_names),
            "caption": self.plane.caption,
            "ellipses": self.plane.ellipses(self.points, facts.groups, n_classes),
            "x": np.round(self.points[:, 0], 4).tolist(),
            "y": np.round(self.points[:, 1], 4).tolist(),
            "codes": facts.known.tolist(),
            "proba": np.round(self.proba, 4).tolist(),
            "surprise": np.round(surprise, 4).tolist(),
            "gaps": (~self.known).sum(axis=1).tolist(),
            "doubted": self.disputed.tolist(),
            "judged_on": facts.judged_on,
            "scores": self.scores,
        }

    @cached_property
    def columns(self) -> list[Column]:
        """What is known of the columns: the page and edited cells need it."""
        return [
            Column.of(self.facts.columns[place], self.facts.kinds[place], self.frame.iloc[:, place])
            for place in range(self.facts.n_columns)
        ]

    @property
    def scores(self) -> dict[str, float | None]:
        """What to expect of new rows."""
        found = {
            "accuracy": getattr(self.model, "expected_accuracy_", None),
            "log_loss": getattr(self.model, "expected_log_loss_", None),
        }
        return {name: None if value is None or np.isnan(value) else float(value) for name, value in found.items()}
