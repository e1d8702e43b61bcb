r"""EM that does not see the rows: one component, complete continuous rows, all labeled, likelihood.

Then the weights are the labels, and the sums of :math:`\Phi` (see `e_step_complete`) in each class,
its count, mean and scatter matrix, are all that value and statistics need. They are taken once.
"""

from __future__ import annotations

from typing import Generic

import numpy as np

from latentia.engine.contracts import F, Sweep
from latentia.engine.problem import rows_per_chunk
from latentia.engine.source import Chunk, Source, Totals
from latentia.families.latent_factors.e_step_complete import class_component_moments, feature_statistics
from latentia.families.latent_factors.values import FactorParams
from latentia.numerics.array_api import namespace
from latentia.numerics.packed_symmetric import quadratic_features


class ClassMoments(Generic[F]):
    """A problem whose sweeps need only the sums of Phi in each class."""

    def __init__(self, family: F, source: Source):
        self.family = family
        self.total_weight = source.total_weight
        n_sums = source.n_features * (source.n_features + 3) // 2 + 1
        totals = source.sum_over_chunks(_class_sums, rows_per_chunk(3 * n_sums), by_label=True)
        xp = namespace(*totals.values())
        empty = xp.zeros_like(next(iter(totals.values())))
        self.sums = xp.stack([totals.get(c, empty) for c in range(family.n_classes)], axis=0)[:, None, :]

    def take_restarts(self, index: np.ndarray) -> ClassMoments[F]:
        """All restarts see the same rows."""
        return self

    def sweep(self, params: FactorParams) -> Sweep:
        """Value and statistics, at a cost that does not depend on the number of rows."""
        xp = namespace(self.sums)
        invariant = class_component_moments(params)
        value = xp.sum(invariant.natural * self.sums, axis=(-3, -2, -1)) + self.family.log_prior(params)
        sums = xp.broadcast_to(self.sums, invariant.natural.shape)
        return Sweep(value, feature_statistics(params, invariant, sums, shared_gram=True))


def _class_sums(chunk: Chunk) -> Totals:
    xp = namespace(chunk.rows.values)
    phi = quadratic_features(chunk.rows.values)
    weight = xp.ones_like(phi[:, 0]) if chunk.weight is None else chunk.weight
    return {chunk.label: xp.matmul(weight[None, :], phi)[0, :]}
