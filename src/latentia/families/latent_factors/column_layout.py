"""The columns of a table by kind, and where their predictors are."""

from __future__ import annotations

from collections.abc import Sequence

from latentia.arrays.namespace import Array, asarray_like, namespace
from latentia.engine.rows import MaskedRows
from latentia.families.latent_factors.column_contract import BoundedColumnModel, ColumnModel
from latentia.families.latent_factors.column_models import COLUMN_MODELS, Gaussian


class ColumnLayout:
    """The column models of a table; the predictors of the continuous columns come first."""

    def __init__(self, models: Sequence[ColumnModel], n_columns: int | None = None):
        self.gaussian = next((model for model in models if isinstance(model, Gaussian)), Gaussian([]))
        self.bounded = tuple(m for m in models if isinstance(m, BoundedColumnModel) and m.columns)
        self.models: tuple[ColumnModel, ...] = (*([self.gaussian] if self.gaussian.columns else []), *self.bounded)
        self.n_gaussian = self.gaussian.n_predictors
        self.n_bounded = sum(model.n_predictors for model in self.bounded)
        self.n_predictors = self.n_gaussian + self.n_bounded
        self.n_columns = n_columns if n_columns is not None else sum(len(model.columns) for model in self.models)
        self.all_gaussian = not self.n_bounded and self.gaussian.columns == tuple(range(self.n_columns))

    @classmethod
    def from_kinds(cls, kinds: Sequence[str], sizes: Sequence[float]) -> ColumnLayout:
        """Columns of these kinds, by name, and these sizes: numbers of categories of coded ones."""
        models = []
        for name, model in COLUMN_MODELS.items():
            columns = [column for column, kind in enumerate(kinds) if kind == name]
            if columns:
                models.extend(model.split_columns(columns, [sizes[column] for column in columns]))
        return cls(models, len(kinds))

    @classmethod
    def continuous_columns(cls, n_columns: int) -> ColumnLayout:
        """All columns continuous."""
        return cls([Gaussian(range(n_columns))])

    @property
    def n_redundant_predictors(self) -> int:
        """How many predictors could be held at zero without a loss."""
        return sum(model.n_redundant_predictors for model in self.models)

    def predictor_columns(self) -> list[int]:
        """The column that each predictor belongs to."""
        return [column for model in self.models for column in model.predictor_columns()]

    def bounded_slices(self) -> list[tuple[BoundedColumnModel, slice]]:
        """The bounded models with their predictors, counted from the first bounded one."""
        first, slices = 0, []
        for model in self.bounded:
            slices.append((model, slice(first, first + model.n_predictors)))
            first += model.n_predictors
        return slices

    def select_columns(self, model: ColumnModel, rows: MaskedRows) -> tuple[Array, Array | None]:
        """The values of a model's columns, and which are observed."""
        if model.columns == tuple(range(self.n_columns)):
            return rows.values, rows.observed
        xp = namespace(rows.values)
        index = asarray_like(list(model.columns), rows.values, dtype=xp.int64)
        observed = None if rows.observed is None else xp.take(rows.observed, index, axis=1)
        return xp.take(rows.values, index, axis=1), observed

    def merge_columns(self, parts: Sequence[Array], like: Array) -> Array:
        """Cells (..., columns) of each model as rows (..., D); a column of no model is zero."""
        xp = namespace(like)
        columns: list[Array] = [xp.zeros_like(like[..., 0])] * self.n_columns
        for model, cells in zip(self.models, parts, strict=True):
            for number, column in enumerate(model.columns):
                columns[column] = cells[..., number]
        return xp.stack(columns, axis=-1)
