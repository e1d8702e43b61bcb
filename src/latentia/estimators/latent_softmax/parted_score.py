"""The score of regressors; of a table in parts, rows and predictions stay where they are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from latentia.table.labels import read_outputs
from latentia.table.lazy import LazyTable, RawPart, lazy_table
from latentia.table.rows import AnswerPart
from latentia.table.weights import check_weight


class Spread(NamedTuple):
    """Of the outputs of some rows."""

    weight: float
    mean: np.ndarray  # (O,)
    squares: np.ndarray  # (O,) about the mean
    residuals: np.ndarray  # (O,) squares about the predictions

    def join(self, other: Spread) -> Spread:
        """Of both together (Chan, Golub & LeVeque 1979)."""
        if not self.weight or not other.weight:
            return self if self.weight else other
        weight, apart = self.weight + other.weight, other.mean - self.mean
        mean = self.mean + apart * (other.weight / weight)
        squares = self.squares + other.squares + apart**2 * (self.weight * other.weight / weight)
        return Spread(weight, mean, squares, self.residuals + other.residuals)


#: Of rows that count nothing.
NO_SPREAD = Spread(0.0, np.zeros(1), np.zeros(1), np.zeros(1))


@dataclass(frozen=True)
class SpreadOfPart:
    """The spread of the rows of a part."""

    predict: AnswerPart

    def __call__(self, part: RawPart) -> Spread:
        n_rows = part.X.shape[0]
        if not n_rows:
            return NO_SPREAD
        outputs, _ = read_outputs(part.y, n_rows, may_be_unknown=True)
        if np.isnan(outputs).any():
            raise ValueError("y has NaN among the outputs that predictions are compared with; drop these rows.")
        weight = check_weight(part.weight, n_rows, may_be_zero=True)
        weight = np.ones(n_rows) if weight is None else weight
        total = float(weight.sum())
        if not total:
            return NO_SPREAD
        mean = weight @ outputs / total
        found = np.reshape(self.predict(part.X), outputs.shape)
        return Spread(total, mean, weight @ (outputs - mean) ** 2, weight @ (outputs - found) ** 2)


def r_squared(table: LazyTable, predict: AnswerPart, y: Any, sample_weight: Any) -> float:
    """As scikit-learn has it: of a constant output one if it is met, else zero."""
    spread = reduce(Spread.join, table.reduce_rows(SpreadOfPart(predict), y, sample_weight))
    varies = spread.squares > 0
    share = 1 - spread.residuals / np.where(varies, spread.squares, 1.0)
    return float(np.where(varies, share, np.where(spread.residuals > 0, 0.0, 1.0)).mean())


class PartedScoreMixin(RegressorMixin):
    """A regressor that also scores tables in parts."""

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The share of the variance of y that is predicted (R squared), averaged over the outputs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Outputs. Scanned tables have them inside.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
        """
        table = lazy_table(X)
        if table is None:
            if np.ndim(sample_weight) == 0:  # one weight for all rows tells nothing
                check_weight(sample_weight, 1)
                sample_weight = None
            return float(super().score(X, y, sample_weight))
        check_is_fitted(self)
        return r_squared(table, AnswerPart(self, "predict"), y, sample_weight)
