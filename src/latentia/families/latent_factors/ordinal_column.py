r"""Ordered levels 0, 1, ..., K - 1: a column that climbs from one level to the next.

Level h is left for the next one with a probability that is logistic in a predictor of its own
(continuation ratios, the sequential model of Tutz 1990):

.. math::

    p(x > h \mid x \ge h, a) = \sigma(a_h) , \qquad
    \ln p(x \mid a) = \sum_{h < x} \ln \sigma(a_h) + [x < K - 1] \ln(1 - \sigma(a_x)) .

Each step is a trial that only cells at level h or above have made, so the density is a sum of
logistic terms with :math:`n_h = [x \ge h]` and :math:`y_h = [x > h]` (see `logistic_column`): the
thresholds are offsets that the M-step learns, and the bound is tighter than that of a softmax. With
two levels this is a binary column. A model with thresholds on one common predictor would have fewer
loadings, but the M-step knows no predictors that share theirs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latentia.arrays.namespace import Array, asarray_like, namespace
from latentia.families.latent_factors.column_contract import example_codes, shrink_to_mean
from latentia.families.latent_factors.logistic_column import LogisticColumnModel


class Sequential(LogisticColumnModel):
    """Columns of ordered codes 0, 1, ...; `sizes` are their numbers of levels."""

    kind = "ordinal"
    is_coded = True

    def __init__(self, columns: Sequence[int], sizes: Sequence[int]):
        super().__init__(columns)
        self.sizes = tuple(max(2, int(size)) for size in sizes)

    @classmethod
    def from_columns(cls, columns: Sequence[int], sizes: Sequence[float]) -> Sequential:
        return cls(columns, [int(size) for size in sizes])

    @property
    def n_predictors(self) -> int:
        return sum(self.sizes) - len(self.sizes)

    def predictor_columns(self) -> list[int]:
        return [self.columns[number] for number in self._numbers()]

    def trials(self, values: Array, observed: Array | None) -> tuple[Array, Array]:
        xp = namespace(values)
        level = self._per_predictor(values)
        steps = asarray_like([step for size in self.sizes for step in range(size - 1)], values)
        passed, tried = xp.astype(level > steps, values.dtype), xp.astype(level >= steps, values.dtype)
        seen = 1.0 if observed is None else self._per_predictor(observed)
        return passed * seen, tried * seen

    def expected(self, mean: Array, variance: Array) -> Array:
        """Probabilities to be above each level but the last."""
        xp = namespace(mean)
        passes = 0.5 * (1 + xp.tanh(shrink_to_mean(mean, variance) / 2))
        above: list[Array] = []
        for part in self._by_column(passes):
            for step in range(part.shape[-1]):
                above.append(part[..., step] if step == 0 else above[-1] * part[..., step])
        return xp.stack(above, axis=-1)

    def initial_predictors(self, values: Array, observed: Array, weight: Array) -> tuple[Array, Array]:
        xp = namespace(values)
        passed, tried = self.trials(values, observed)
        prob = (xp.sum(passed * weight, axis=0) + 1.0) / (xp.sum(tried * weight, axis=0) + 2.0)
        return xp.log(prob / (1 - prob)), (passed - tried * prob) / (prob * (1 - prob))

    def impute(self, expected: Array, mode: bool) -> Array:
        """The most probable levels, whatever the mode: levels have no mean."""
        xp = namespace(expected)
        levels = []
        for above in self._by_column(expected):
            reach = xp.concat([xp.ones_like(above[..., :1]), above], axis=-1)  # at least each level
            stay = reach - xp.concat([above, xp.zeros_like(above[..., :1])], axis=-1)
            levels.append(xp.argmax(stay, axis=-1))
        return xp.astype(xp.stack(levels, axis=-1), expected.dtype)

    def sample(self, predictors: np.ndarray, noise: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        above = self._by_column(self.expected(predictors, np.zeros_like(predictors)))
        draws = rng.random((len(predictors), len(self.columns)))
        return np.stack([(draws[:, [k]] < part).sum(axis=1) for k, part in enumerate(above)], axis=1).astype(float)

    def example_cells(self, normal: np.ndarray) -> np.ndarray:
        return np.stack([example_codes(normal[:, k], size) for k, size in enumerate(self.sizes)], axis=1)

    def _numbers(self) -> list[int]:
        """The number of the column that each predictor belongs to."""
        return [number for number, size in enumerate(self.sizes) for _ in range(size - 1)]

    def _by_column(self, a: Array) -> list[Array]:
        """The predictors (..., size - 1) of each column."""
        ends = np.cumsum([size - 1 for size in self.sizes]).tolist()
        return [a[..., end - size + 1 : end] for size, end in zip(self.sizes, ends, strict=True)]

    def _per_predictor(self, cells: Array) -> Array:
        """Columns (N, columns) as often as they have predictors (N, H)."""
        xp = namespace(cells)
        return xp.take(cells, asarray_like(self._numbers(), cells, dtype=xp.int64), axis=1)
