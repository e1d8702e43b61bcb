"""Models from files, classes as models know them, and what the library says against a table."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pandas
from sklearn.base import BaseEstimator

from latentia.apps.tables.class_labels import class_text
from latentia.apps.tables.failures import ExitCode, Failure, bad_table
from latentia.arrays.namespace import Array
from latentia.persistence.files import load
from latentia.table.frames import Table, TableLike

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class FittedClassifier(Protocol):
    """What applications ask of a model."""

    classes_: np.ndarray
    n_features_in_: int

    def predict_proba(self, X: TableLike) -> Array: ...
    def score_samples(self, X: TableLike) -> Array: ...
    def impute(self, X: TableLike, *, method: str = "mean") -> Table: ...
    def sample(self, n_samples: int, y: Hashable = None) -> tuple[Table, np.ndarray]: ...
    def explain(self, X: TableLike) -> Table: ...
    def set_params(self, **params: object) -> BaseEstimator: ...
    def save(self, path: str | Path) -> None: ...


def load_classifier(path: str, *needed: str) -> FittedClassifier:
    """A fitted classifier with these methods."""
    try:
        model = load(path)
    except OSError as error:
        raise Failure(ExitCode.BAD_MODEL, f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise Failure(ExitCode.BAD_MODEL, str(error)) from None
    name = type(model).__name__
    if not hasattr(model, "classes_") or not hasattr(model, "_model"):
        raise Failure(ExitCode.BAD_MODEL, f"{path} holds a {name} that is no fitted classifier")
    lacking = next((method for method in needed if not hasattr(model, method)), None)
    if lacking:
        raise Failure(ExitCode.BAD_MODEL, f"{path} holds a {name}, which has no {lacking}")
    return model


def labels_as_fitted(cells: ArrayLike, model: FittedClassifier, keep_others: bool) -> np.ndarray:
    """The classes of a column as a model knows them, however numbers are written; None for gaps,
    and for classes that it does not know unless they are kept.
    """
    known = {class_text(label): label for label in model.classes_.tolist()}
    column = pandas.Series(cells, dtype=object)
    labels = [
        None if gap else known.get(class_text(cell), cell if keep_others else None)
        for cell, gap in zip(column, column.isna(), strict=True)
    ]
    return np.array(labels, dtype=object)


@contextmanager
def blaming(source: str) -> Iterator[None]:
    """What the library refuses is the table's fault."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise bad_table(source, str(error)) from None
