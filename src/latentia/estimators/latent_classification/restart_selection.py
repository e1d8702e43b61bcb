"""Training accuracy, by which the papers choose among restarts."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentia.engine.array_source import ArraySource
from latentia.engine.contracts import Chunk, Totals
from latentia.engine.problem import rows_per_chunk
from latentia.families.latent_factors.family import LatentFactors
from latentia.numerics.array_api import namespace, to_numpy

#: Training accuracy is taken on at most this many random rows.
ACCURACY_ROWS = 200_000


def _training_accuracy(family: LatentFactors, params: Any, source: ArraySource, rng: np.random.Generator) -> np.ndarray:
    """Weight of the labeled rows that each start classifies rightly; estimated from random rows where there are very many."""
    if source.n_rows > ACCURACY_ROWS:
        source = _some_rows(source, ACCURACY_ROWS // family.n_classes, rng)

    def visit(chunk: Chunk) -> Totals:
        log_joint = family.scores(params, chunk.rows)
        xp = namespace(log_joint)
        right = xp.astype(xp.argmax(log_joint, axis=-2) == chunk.y[None, :], log_joint.dtype)
        return {"right": xp.sum(right if chunk.weight is None else right * chunk.weight, axis=-1)}

    return to_numpy(
        source.sum_over_chunks(visit, rows_per_chunk(family.score_floats_per_row(params), params.means))["right"]
    ).astype(float)


def _some_rows(source: ArraySource, most: int, rng: np.random.Generator) -> ArraySource:
    """At most so many rows of each label, which weigh together what all of them do."""
    head = source.sample_rows(most, rng)
    values, observed = head.rows
    codes, weight = to_numpy(head.y), np.ones(source.n_rows) if source.weight is None else source.weight
    drawn = np.ones(len(codes)) if head.weight is None else to_numpy(head.weight).astype(float)
    for label in np.unique(codes):
        mine = codes == label
        if mine.sum() == most:  # drawn by weight, so that each stands for as much
            drawn[mine] = weight[source.y == label].sum() / most
    X = values if observed is None else namespace(values).where(observed > 0, values, np.nan)
    return ArraySource(X, codes, drawn)
