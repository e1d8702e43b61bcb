"""What generative classifiers take from rows besides their training."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from latentia.arrays.namespace import Array, log_softmax, namespace, to_numpy
from latentia.engine.contracts import GenerativeFamily, Params
from latentia.engine.rows import ArraySource, Chunk, MaskedRows, Preprocessor, Source, Totals, map_rows
from latentia.engine.sweep import rows_per_chunk
from latentia.engine.tree import leaves

#: One confident mistake must not decide when to stop.
MAX_LOG_LOSS = 50.0


def log_jacobian_sum(source: Source, preprocessor: Preprocessor) -> float:
    """What the change of units takes from the log density of all rows."""

    def visit(chunk: Chunk) -> Totals:
        log_det = preprocessor.log_det_jacobian(chunk.rows)
        return {"sum": namespace(log_det).sum(chunk.weighted(log_det))}

    size = rows_per_chunk(3 * source.n_features, preprocessor.shift)
    return float(to_numpy(source.sum_over_chunks(visit, size)["sum"]))


def validation_loss(family: GenerativeFamily, held_out: ArraySource) -> Callable[[Params], float]:
    """A function: the weighted share of rows that parameters misclassify; log loss breaks ties."""
    weight = np.ones(held_out.n_rows) if held_out.weight is None else held_out.weight

    def loss(params: Params) -> float:
        def scores(rows: MaskedRows) -> Array:
            return log_softmax(family.scores(params, rows), axis=-2)

        max_rows = rows_per_chunk(family.score_floats_per_row(params), next(leaves(params)))
        parts = map_rows(held_out.X, held_out.preprocess, scores, max_rows)
        log_proba = np.concatenate([to_numpy(p) for p in parts], axis=1)
        wrong = np.argmax(log_proba, axis=0) != held_out.y
        log_loss = np.minimum(-log_proba[held_out.y, np.arange(held_out.n_rows)], MAX_LOG_LOSS)
        return float((weight * (wrong + 1e-3 * log_loss / MAX_LOG_LOSS)).sum() / weight.sum())

    return loss
