"""A model of a part of the rows, as it votes: log p(c | x) of coded rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from latentia.arrays.namespace import Array, asarray_like, compute_dtype, namespace
from latentia.estimators.base.fitted_model import FittedModel
from latentia.estimators.base.fitting import is_learned
from latentia.estimators.base.generative_input import GenerativeInput, PartedInput, TrainingTable
from latentia.estimators.latent_classifier.features import (
    Completion,
    KernelMap,
    NumberColumns,
    rows_without_cells,
    with_gap_columns,
)
from latentia.table.encoder import ColumnEncoder
from latentia.table.power_transform import MAX_ROWS as TRANSFORM_ROWS
from latentia.table.power_transform import learn_power_transform
from latentia.table.rows import rows_for_estimator
from latentia.table.standardization import Standardizer, column_moments, source_moments


class Member(ABC):
    """A fitted candidate."""

    @abstractmethod
    def log_proba(self, X: Array) -> Array:
        """Log p(c | x) of coded rows, (N, C); of rows without a cell the class priors."""

    def published_under(self, log_prior: np.ndarray) -> Self:
        """The same vote, whose estimator, if users see it, answers under other class priors."""
        return self


@dataclass(frozen=True)
class GenerativeMember(Member):
    """A model of p(x, c), which integrates missing cells out."""

    model: FittedModel[Any]
    columns: NumberColumns | None  # between the coded rows and the model; None: nothing
    estimator: Any  # holds the model as users know it; None unless it is one of the coded rows

    def log_proba(self, X: Array) -> Array:
        return self.model.log_proba(X if self.columns is None else self.columns(X))

    def published_under(self, log_prior: np.ndarray) -> Self:
        if self.estimator is None:
            return self
        family, params = copy(self.model.family), self.model.params
        family.fixed_log_prior = log_prior
        params = params._replace(log_prior=asarray_like(log_prior, params.log_prior))
        estimator = copy(self.estimator)
        model = estimator._finish(replace(self.model, family=family, params=params))
        learned = {name: value for name, value in vars(estimator).items() if is_learned(name)}
        estimator._set_learned(learned | estimator._attributes_of(model))
        return replace(self, estimator=estimator)


@dataclass(frozen=True)
class CompletedMember(Member):
    """A model of p(c | x) on rows that a generative model has completed."""

    completion: Completion
    looks_at_gaps: bool  # whether columns that tell which cells were missing follow
    kernel: KernelMap | None  # of all these columns; None: nothing
    estimator: Any

    def log_proba(self, X: Array) -> Array:
        return self.log_proba_of(self.completion(X), X)

    def log_proba_of(self, rows: Array, X: Array) -> Array:
        """The same of rows X that are complete already."""
        rows = with_gap_columns(rows, X) if self.looks_at_gaps else rows
        rows = rows if self.kernel is None else self.kernel(rows)
        found = asarray_like(self.estimator.predict_log_proba(rows_for_estimator(rows)), rows)
        xp = namespace(found)
        prior = asarray_like(self.completion.model.params.log_prior, found)
        if found.shape[1] < prior.shape[0]:  # not all classes were among the rows trained on
            places = {int(c): k for k, c in enumerate(self.estimator.classes_)}
            never = xp.full_like(found[:, 0], -np.inf)
            found = xp.stack([found[:, places[c]] if c in places else never for c in range(prior.shape[0])], axis=1)
        return xp.where(rows_without_cells(X)[:, None], prior[None, :], found)


def as_numbers(data: GenerativeInput, columns: NumberColumns) -> GenerativeInput:
    """The input whose categories are columns of zeros and ones."""
    X = columns(data.X)
    moments = column_moments(X, data.weight, compute_dtype(X))
    standardizer = Standardizer.from_moments(*moments)
    is_number = _came_as_numbers(data, columns)
    return replace(
        data,
        X=X,
        moments=moments,
        preprocessor=learn_power_transform(X, data.weight, standardizer, is_number),
        encoder=ColumnEncoder.continuous(X),
    )


def as_numbers_in_parts(data: PartedInput, columns: NumberColumns) -> PartedInput:
    """The same for a table in parts."""
    rows = data.rows.map_columns(columns.__call__, columns.n_columns)
    moments, some = source_moments(rows), rows.spread_rows(TRANSFORM_ROWS)
    standardizer = Standardizer.from_moments(*moments)
    preprocessor = learn_power_transform(some.X, some.weight, standardizer, _came_as_numbers(data, columns))
    encoder = ColumnEncoder.continuous(some.X)
    return replace(data, parts=rows, moments=moments, preprocessor=preprocessor, encoder=encoder)


def _came_as_numbers(data: TrainingTable, columns: NumberColumns) -> list[bool]:
    """Which of the columns of numbers are no categories."""
    kinds = zip(data.encoder.kinds, columns.n_codes, strict=True)
    return [kind == "continuous" for kind, n in kinds for _ in range(n)]
