"""What is open in Studio: a table, a fit, a model and its rows, and the drawing board."""

from __future__ import annotations

import threading

import numpy as np
import pandas

from latentia.apps import JsonObject
from latentia.apps.studio import take_along
from latentia.apps.studio.board import Board
from latentia.apps.studio.choices import Choices, choose
from latentia.apps.studio.examples import example_table
from latentia.apps.studio.fit_job import FitJob
from latentia.apps.studio.gap_view import describe_gaps
from latentia.apps.studio.limits import DRAWN_ROWS, MAX_MODEL_BYTES, MAX_TABLE_BYTES
from latentia.apps.studio.map_view import MapView
from latentia.apps.studio.problems import Problem
from latentia.apps.studio.row_view import Changes, describe_row
from latentia.apps.studio.table_view import TableView
from latentia.apps.studio.uploads import model_from_bytes, model_from_path, table_from_bytes, table_from_path
from latentia.apps.tables.failures import Failure
from latentia.apps.tables.models import FittedClassifier, labels_as_fitted
from latentia.apps.tables.table_files import Table
from latentia.apps.tables.typed_columns import features_as_fitted
from latentia.arrays.namespace import to_numpy
from latentia.estimators.latent_classifier import LatentClassifier


class Workspace:
    """One user's work. Every public method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._table: TableView | None = None
        self._job: FitJob | None = None
        self._view: MapView | None = None
        self._fitted: tuple[Choices, int | None] | None = None  # of the model that is shown
        self._version = 0  # of the map
        self.board = Board()

    def describe(self) -> JsonObject:
        """All but the map, for a page that is opened or loaded again."""
        with self._lock:
            return {
                "table": None if self._table is None else self._table.describe(),
                "fit": None if self._job is None else self._job.describe(),
                "map": self._version if self._view is not None else None,
                "limits": {"table": MAX_TABLE_BYTES, "model": MAX_MODEL_BYTES},
            }

    # tables and models

    def open_path(self, path: str) -> None:
        """A table or a model of the command line."""
        if path.endswith(".latentia"):
            self._show_model(model_from_path(path))
        else:
            self._show_table(table_from_path(path))

    def open_table(self, content: bytes, name: str) -> JsonObject:
        return self._show_table(table_from_bytes(content, name))

    def open_example(self, name: str) -> JsonObject:
        return self._show_table(example_table(name))

    def open_model(self, content: bytes, name: str) -> JsonObject:
        self._show_model(model_from_bytes(content, name))
        return self.describe()

    def _show_table(self, table: Table) -> JsonObject:
        """A table takes the place of the other one; a model from a file is shown its rows."""
        view = TableView(table)
        view.describe()  # whatever is wrong with it is found before anything is replaced
        with self._lock:
            self._refuse_while_fitting()
            model = self._view.model if self._view is not None and self._fitted is None else None
            self._table, self._job = view, None
            if model is not None:
                rows = _rows_for(model, table)
                if rows is not None:
                    self._show(MapView(model, *rows, table.title), None)
        return self.describe()

    def _show_model(self, model: FittedClassifier) -> None:
        with self._lock:
            self._refuse_while_fitting()
            rows = None if self._table is None else _rows_for(model, self._table.table)
            origin = "rows drawn from the model" if rows is None or self._table is None else self._table.table.title
            self._show(MapView(model, *(rows or _drawn_rows(model)), origin), None)

    def _show(self, view: MapView, fitted: tuple[Choices, int | None] | None) -> None:
        self._view, self._fitted = view, fitted
        self._version += 1

    def _refuse_while_fitting(self) -> None:
        if self._job is not None and self._job.is_running:
            raise Problem("A fit is under way. Stop it first, or wait for it.", 409)

    # the fit

    def start_fit(self, target: str, kinds: dict[str, str], effort: str) -> JsonObject:
        with self._lock:
            self._refuse_while_fitting()
            if self._table is None:
                raise Problem("There is no table. Open one first.", 409)
            choices = choose(self._table, target, kinds, effort)
            origin = self._table.table.title

            def finished(job: FitJob, model: LatentClassifier) -> None:
                view = MapView(model, choices.frame, choices.labels, origin)
                board = model.leaderboard_
                job.result = {
                    "weights": dict(zip(board["candidate"], board["weight"], strict=True)),
                    "together": view.scores if view.scores["log_loss"] is not None else None,
                }
                with self._lock:
                    self._show(view, (choices, len(job.trials) if job.was_stopped else None))

            self._job = FitJob(choices, finished)
            self._job.start()
            return self._job.describe()

    def fit_progress(self) -> JsonObject:
        job = self._job
        if job is None:
            raise Problem("No fit has been started.", 409)
        return {**job.describe(), **job.result, "map": self._version}

    def stop_fit(self) -> JsonObject:
        if self._job is not None:
            self._job.stop()
        return self.fit_progress()

    def close(self) -> None:
        """End what is under way."""
        if self._job is not None:
            self._job.stop()

    # the map

    @property
    def view(self) -> MapView:
        if self._view is None:
            raise Problem("There is no model yet. Open a table and fit it, or open a model.", 409)
        return self._view

    def describe_map(self) -> JsonObject:
        with self._lock:
            return {"version": self._version, **self.view.describe()}

    def describe_row(self, row: int, changes: Changes) -> JsonObject:
        with self._lock:
            return describe_row(self.view, row, changes)

    def describe_gaps(self, row: int, changes: Changes) -> JsonObject:
        with self._lock:
            return describe_gaps(self.view, row, changes)

    # taking along

    def file(self, what: str) -> tuple[bytes, str]:
        """A file, and its media type."""
        with self._lock:
            view, fitted = self.view, self._fitted
            if what == "code.py":
                code = take_along.file_code(view) if fitted is None else take_along.fit_code(*fitted)
                return code.encode(), "text/x-python"
            if what == "model.latentia":
                return take_along.model_file(view.model), "application/octet-stream"
            if what == "report.html":
                return take_along.report_file(view), "text/html"
            if what == "table.csv" and fitted is not None:
                return take_along.table_file(fitted[0]), "text/csv"
        raise Problem(f"There is no file {what[:40]!r} to take along.", 404)


def _rows_for(model: FittedClassifier, table: Table) -> tuple[pandas.DataFrame, np.ndarray | None] | None:
    """The rows of a table as a model takes them, and their classes where it knows them; None if the
    table is another one.
    """
    table = table.for_model(model)
    try:
        frame = features_as_fitted(table, model)
        to_numpy(model.predict_proba(frame.head(5)))
    except (Failure, ValueError, TypeError):
        return None
    target = getattr(model, "target_name_", None)
    if target not in table.frame:
        return frame, None
    return frame, labels_as_fitted(table.frame[target], model, keep_others=False)


def _drawn_rows(model: FittedClassifier) -> tuple[pandas.DataFrame, np.ndarray | None]:
    """Rows that the model makes up, and their classes."""
    X, y = model.sample(DRAWN_ROWS)
    names = [f"column {k}" for k in range(model.n_features_in_)]
    return X if hasattr(X, "iloc") else pandas.DataFrame(np.asarray(X), columns=names), np.asarray(y)
