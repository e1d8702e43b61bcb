"""How latent classification models read tables of numbers, text and categories."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from latentia.arrays.namespace import Array
from latentia.estimators.base.fitting import Attributes, input_attributes
from latentia.estimators.base.generative import GenerativeClassifier
from latentia.estimators.base.generative_input import TrainingTable
from latentia.estimators.base.table_reading import sized_by_weight
from latentia.families.latent_factors.family import LatentFactors
from latentia.families.latent_factors.kinds import COLUMN_MODELS
from latentia.families.latent_factors.posterior import BayesianLatentFactors
from latentia.table.columns import Merging, check_min_frequency
from latentia.table.encoder import ColumnEncoder, MemoryDigest
from latentia.table.options import Check, choice, integer, optional
from latentia.table.rows import validate_table
from latentia.table.standardization import ColumnMoments, Standardizer
from latentia.table.weights import check_weight


class MixedTableMixin(GenerativeClassifier[LatentFactors, BayesianLatentFactors]):
    """Reads columns by their kinds, and shows what it read."""

    kinds: Any
    max_categories: int | None
    min_frequency: int | float | None
    handle_unknown: str
    _CHECKS: ClassVar[dict[str, Check]] = {
        "max_categories": optional(integer(ge=1)),
        "min_frequency": check_min_frequency,
        "handle_unknown": choice("missing", "error"),
    }

    @property
    def categories_(self) -> list[np.ndarray | None]:
        """Values of each binary, categorical or ordinal column, one for each code; None for others.

        Kept by the encoder, in a form that any serializer takes.
        """
        return self._model.encoder.categories

    @property
    def infrequent_categories_(self) -> list[np.ndarray | None]:
        """Values of each column that share a code because they are rare; None where none do."""
        return [None if levels is None else levels.merged() for levels in self._model.encoder.levels]

    def _validate_table(self, X: Any, reset: bool) -> Any:
        return validate_table(self, X, reset)

    def _make_encoder(self, table: Any) -> tuple[ColumnEncoder, Attributes]:
        merging = Merging(self.max_categories, self.min_frequency)
        encoder = ColumnEncoder.from_table(table, self.kinds, COLUMN_MODELS, merging)
        return encoder, {"kinds_": encoder.kinds}

    def _read_input(self, X: Any, y: Any, sample_weight: Any) -> TrainingTable:
        data = super()._read_input(X, y, sample_weight)
        return replace(data, encoder=sized_by_weight(data.encoder, data.rows, COLUMN_MODELS))

    def _encode_table(self, X: Any, encoder: ColumnEncoder) -> Array:
        return encoder.encode(self._validate_table(X, reset=False), self.handle_unknown)

    def _read_rows(self, X: Any, sample_weight: Any = None) -> tuple[Array, ColumnEncoder, Attributes]:
        blank = self._blank_copy()
        table = blank._validate_table(X, reset=True)
        encoder, learned = self._make_encoder(MemoryDigest(table, check_weight(sample_weight, table.shape[0])))
        return encoder.encode(table, self.handle_unknown), encoder, input_attributes(blank) | learned

    def _check_rows(self, X: Any) -> Array:
        self._require_fitted()
        return self._encode_table(X, self._model.encoder)

    def _make_preprocessor(self, moments: ColumnMoments, encoder: ColumnEncoder) -> Standardizer:
        standardizer = Standardizer.from_moments(*moments)
        return standardizer.only([COLUMN_MODELS[kind].is_standardized for kind in encoder.kinds])

    def _transformed_columns(self, encoder: ColumnEncoder) -> list[bool]:
        return [COLUMN_MODELS[kind].is_standardized for kind in encoder.kinds]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        return tags
