"""Estimators of tables of numbers that have no gaps: how they read rows, also part by part."""

from __future__ import annotations

from typing import Any

from latentia.arrays.namespace import Array
from latentia.estimators.base.fitting import Attributes, LatentEstimator
from latentia.table.encoder import ColumnEncoder
from latentia.table.rows import reject_missing, validate_rows


class NumberTableMixin(LatentEstimator):
    """Reads numbers."""

    def _validate_table(self, X: Any, reset: bool) -> Array:
        """Rows as numbers without missing cells; scikit-learn leaves its marks on `self`."""
        X = validate_rows(self, X, reset)
        reject_missing(self, X)
        return X

    def _make_encoder(self, table: Any) -> tuple[ColumnEncoder, Attributes]:
        """How the parts of a table are read."""
        return ColumnEncoder.continuous(table), {}

    def _encode_table(self, X: Any, encoder: ColumnEncoder) -> Array:
        """Rows of a part as numbers."""
        return self._validate_table(X, reset=False)

    def _check_rows(self, X: Any) -> Array:
        """Rows to predict, as numbers."""
        self._require_fitted()
        return self._validate_table(X, reset=False)

    def _n_rows(self, X: Any, data: Any) -> int:
        return int(data.n_rows)
