"""What the sections of a report ask of a model and a table; each is found once, on demand."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import _num_samples, check_is_fitted

from latentia.apps.report.tables import numbers_of, rows_of
from latentia.arrays.namespace import is_sparse, to_numpy
from latentia.estimators.base.classifier import decide
from latentia.plot.general import FactorModel, class_names, factor_model, feature_names, preprocessor_of
from latentia.table.frames import Table, TableLike, distinct_values, is_arrow, on_host
from latentia.table.labels import LabelsLike, encode_known_labels, read_label_matrix
from latentia.table.rows import plain_table

#: Of more rows, so many are predicted, and so many drawn.
MAX_PREDICTED, MAX_POINTS = 20_000, 2_000


@dataclass(frozen=True)
class Facts:
    """A fitted model, a table, and what the one says of the other."""

    model: BaseEstimator
    X: Table
    codes: np.ndarray  # (N,) of classes or (N, L) of labels, -1 where unknown; empty for regression
    outputs: np.ndarray | None = None  # (N, outputs) of regression, NaN where unknown

    @classmethod
    def of(cls, model: BaseEstimator, X: TableLike, y: LabelsLike | None) -> Facts:
        """Read what a user passes; `y` may be None."""
        if not hasattr(model, "fit"):
            raise TypeError(f"model is a {type(model).__name__}; allowed is a fitted estimator, then its table and y.")
        check_is_fitted(model)
        given = cast(Table, plain_table(np.asarray(X) if isinstance(X, Sequence) else X))
        table = given.to_pandas() if is_arrow(given) else given
        n_rows = _num_samples(table)
        if table.shape[1] != model.n_features_in_:
            raise ValueError(f"X has {table.shape[1]} columns, but the model was fitted to {model.n_features_in_}.")
        if not is_classifier(model):
            return cls(model, table, np.zeros((n_rows, 0), dtype=int), _read_outputs(y, n_rows))
        if getattr(model, "multilabel_", False):
            shape = (n_rows, len(model.classes_))
            codes = np.full(shape, -1) if y is None else read_label_matrix(y)
            if codes.shape != shape:
                raise ValueError(f"y has shape {codes.shape}; expected is {shape}.")
            return cls(model, table, codes)
        if y is None:
            return cls(model, table, np.full(n_rows, -1))
        mark = getattr(model, "unlabeled", "auto")
        return cls(model, table, encode_known_labels(y, np.asarray(model.classes_), n_rows, mark))

    @property
    def n_rows(self) -> int:
        return int(self.codes.shape[0])

    @property
    def n_columns(self) -> int:
        return int(self.X.shape[1])

    @property
    def has_classes(self) -> bool:
        """Whether a row has one class, and there are several."""
        return self.codes.ndim == 1 and len(self.model.classes_) > 1

    @property
    def is_multilabel(self) -> bool:
        return bool(getattr(self.model, "multilabel_", False))

    @cached_property
    def columns(self) -> list[str]:
        return feature_names(self.model)

    @cached_property
    def classes(self) -> list[str]:
        return class_names(self.model) if is_classifier(self.model) else []

    @cached_property
    def kinds(self) -> list[str]:
        return list(getattr(self.model, "kinds_", ["continuous"] * self.n_columns))

    @property
    def takes_gaps(self) -> bool:
        return bool(self.model.__sklearn_tags__().input_tags.allow_nan)

    @cached_property
    def factors(self) -> FactorModel | None:
        """The model with latent factors, or None."""
        return factor_model(self.model) if is_classifier(self.model) else None

    @cached_property
    def rows(self) -> np.ndarray:
        """Numbers of the rows that are predicted."""
        return _sample(self.n_rows, MAX_PREDICTED)

    @cached_property
    def drawn(self) -> np.ndarray:
        """Places among the predicted rows of those that are drawn."""
        return _sample(self.rows.size, MAX_POINTS)

    @cached_property
    def predicted_table(self) -> Table:
        return self.X if self.rows.size == self.n_rows else rows_of(self.X, self.rows)

    @cached_property
    def known(self) -> np.ndarray:
        """Codes of the predicted rows."""
        return self.codes[self.rows]

    @cached_property
    def proba(self) -> np.ndarray:
        """What the model says of the predicted rows."""
        return self.proba_of(self.predicted_table)

    def proba_of(self, X: Table) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return to_numpy(self.model.predict_proba(X)).astype(float)

    @cached_property
    def is_training_table(self) -> bool:
        """Whether these look like the rows of `fit`: as many, of the same classes, gaps, means."""
        record = getattr(self.model, "training_record_", {})
        if record.get("n_rows") != self.n_rows or not _same_labels(self.codes, record.get("label_counts")):
            return False
        return self._same_means()

    def _same_means(self) -> bool:
        """Whether the columns of numbers have the means that the model was standardized by."""
        preprocessor = preprocessor_of(self.model)
        if preprocessor is None or is_sparse(self.X):
            return True
        standardizer = getattr(preprocessor, "standardizer", preprocessor)  # which a power transform follows
        shift, scale = (to_numpy(getattr(standardizer, name)).astype(float) for name in ("shift", "scale"))
        for place, kind in enumerate(self.kinds):
            cells = numbers_of(self.X, place) if kind == "continuous" else np.array([np.nan])
            found = cells[~np.isnan(cells)]
            if found.size and shift[place] != 0 and abs(found.mean() - shift[place]) > 1e-4 * abs(scale[place]):
                return False
        return True

    @cached_property
    def is_held_out(self) -> bool:
        """Whether the model has predictions of these rows that were made without them."""
        proba = getattr(self.model, "held_out_proba_", None)
        return proba is not None and self.is_training_table and not bool(np.isnan(to_numpy(proba)).all())

    @cached_property
    def judged(self) -> np.ndarray:
        """The probabilities by which the model is judged: held out, if there are any; NaN for rows
        without any.
        """
        return to_numpy(self.model.held_out_proba_).astype(float)[self.rows] if self.is_held_out else self.proba

    @property
    def judged_on(self) -> str:
        """Which rows the model is judged on, as a sentence."""
        if self.is_held_out:
            return "Cross-validated: each row is predicted by models that were fitted without it."
        if self.is_training_table:
            return "On the rows that the model was fitted to: new rows will fare worse."
        return "On the rows of this report: if the model was fitted to any of them, new rows will fare worse."

    @cached_property
    def is_judged(self) -> np.ndarray:
        """Which of the predicted rows have a class and a probability to be judged by."""
        return (self.known >= 0) & ~np.isnan(self.judged).any(axis=1)

    def decide(self, proba: np.ndarray) -> np.ndarray:
        """The class of the least expected loss."""
        return np.asarray(decide(proba, getattr(self.model, "loss_matrix", None)))

    @cached_property
    def groups(self) -> np.ndarray:
        """The class of each predicted row, the most probable one where it is unknown."""
        return np.where(self.known >= 0, self.known, self.proba.argmax(axis=1))

    @cached_property
    def separation(self) -> np.ndarray:
        """How much of each column's variance, or of its categories, lies between the classes."""
        found = np.zeros(self.n_columns)
        for place, kind in enumerate(self.kinds):
            if kind in ("continuous", "count"):
                cells = numbers_of(self.predicted_table, place)
                keep = ~np.isnan(cells)
                found[place] = _variance_share(cells[keep], self.groups[keep])
            else:
                _, numbers = distinct_values(self.predicted_table, place)
                found[place] = _dependence(numbers[numbers >= 0], self.groups[numbers >= 0])
        return found


def _read_outputs(y: LabelsLike | None, n_rows: int) -> np.ndarray | None:
    """Numbers to be predicted, one column each."""
    if y is None:
        return None
    numbers = on_host(y, dtype=float).reshape(len(y), -1)
    if len(numbers) != n_rows:
        raise ValueError(f"y has {len(numbers)} entries and X has {n_rows} rows: they must be equal.")
    return numbers


def _sample(n: int, most: int) -> np.ndarray:
    """Numbers below n, all or a random part of them."""
    return np.arange(n) if n <= most else np.sort(np.random.default_rng(0).choice(n, most, replace=False))


def _same_labels(codes: np.ndarray, counts: list[int] | None) -> bool:
    if counts is None:
        return codes.size == 0
    if codes.ndim == 2:
        return (codes == 1).sum(axis=0).tolist() == counts
    return bool(np.bincount(codes[codes >= 0]).tolist() == counts)


def _variance_share(values: np.ndarray, groups: np.ndarray) -> float:
    if values.size < 2 or not values.std() > 0:
        return 0.0
    counts = np.bincount(groups)
    means = np.bincount(groups, values) / np.maximum(counts, 1)
    return float(counts @ (means - values.mean()) ** 2 / (values.size * values.var()))


def _dependence(values: np.ndarray, groups: np.ndarray) -> float:
    """The square of Cramér's V."""
    if values.size == 0:
        return 0.0
    table = np.zeros((values.max() + 1, groups.max() + 1))
    np.add.at(table, (values, groups), 1)
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    if min(table.shape) < 2:
        return 0.0
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    return float(((table - expected) ** 2 / expected).sum() / (table.sum() * (min(table.shape) - 1)))
