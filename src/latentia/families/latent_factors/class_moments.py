r"""EM that does not see the rows: one component, complete continuous rows, all labeled, likelihood.

Then the weights are the labels, and the sums of :math:`\Phi` (see `e_step_complete`) in each class,
its count, mean and scatter matrix, are all that value and statistics need. They are taken once.
"""

from __future__ import annotations

from typing import Any, Generic

import numpy as np

from latentia.arrays.linalg import quadratic_features
from latentia.arrays.namespace import namespace, transpose
from latentia.engine.contracts import F, Sweep
from latentia.engine.rows import Chunk, Source, Totals
from latentia.engine.sweep import rows_per_chunk
from latentia.engine.tree import take_restarts
from latentia.families.latent_factors.e_step_complete import LatentSums


class ClassMoments(Generic[F]):
    """A problem whose sweeps need only the sums of Phi in each class.

    The family has `row_invariant`, the posterior of rows as a function of their cells.
    """

    def __init__(self, family: F, source: Source):
        self.family: Any = family
        self.total_weight = source.total_weight
        n_sums = source.n_features * (source.n_features + 3) // 2 + 1
        totals = source.sum_over_chunks(_class_sums, rows_per_chunk(3 * n_sums, source.rows_like), by_label=True)
        xp = namespace(*totals.values())
        empty = xp.zeros_like(next(iter(totals.values())))
        # (C, 1, F), or (S, C, 1, F) where each restart has weights of its own
        self.sums = xp.stack([totals.get(c, empty) for c in range(family.n_classes)], axis=-2)[..., None, :]

    def take_restarts(self, index: np.ndarray) -> ClassMoments[F]:
        """The problem of these restarts; all see the same rows unless their weights differ."""
        if self.sums.ndim == 3:
            return self
        other = ClassMoments.__new__(ClassMoments)
        other.__dict__.update(vars(self), sums=take_restarts(self.sums, index.tolist()))
        return other

    def sweep(self, params: Any) -> Sweep:
        """Value and statistics, at a cost that does not depend on the number of rows."""
        xp = namespace(self.sums)
        invariant = self.family.row_invariant(params)
        natural = invariant.natural
        value = xp.sum(natural * self.sums, axis=(-3, -2, -1)) + self.family.log_prior(params)
        sums = LatentSums.from_features(invariant, xp.broadcast_to(self.sums, natural.shape))
        return Sweep(value, sums.statistics(invariant, shared_gram=True))


def _class_sums(chunk: Chunk) -> Totals:
    xp = namespace(chunk.rows.values)
    phi = quadratic_features(chunk.rows.values)
    weight = xp.ones_like(phi[:, 0]) if chunk.weight is None else chunk.weight
    if weight.ndim == 1:
        return {chunk.label: xp.matmul(weight[None, :], phi)[0, :]}
    return {chunk.label: xp.matmul(transpose(weight), phi)}
