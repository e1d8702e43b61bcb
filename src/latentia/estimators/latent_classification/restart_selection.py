"""The choice among restarts by training accuracy, as the papers make it."""

from __future__ import annotations

import numpy as np

from latentia.arrays.namespace import namespace, to_numpy
from latentia.engine.contracts import Params
from latentia.engine.rows import ArraySource, Chunk, TableSource, Totals
from latentia.engine.sweep import rows_per_chunk
from latentia.families.latent_factors.family import LatentFactors
from latentia.solvers import Solution
from latentia.solvers.structural import best_structure

#: Training accuracy is taken on at most this many random rows.
ACCURACY_ROWS = 200_000


def best_restart(
    family: LatentFactors,
    solution: Solution,
    source: TableSource,
    rng: np.random.Generator,
    by_accuracy: bool,
) -> int:
    """The restart with the best penalized likelihood, `by_accuracy`: of the most accurate."""
    value, size = solution.value, family.structure_size(solution.params)
    candidates = np.arange(len(value))
    if by_accuracy and len(value) > 1:
        candidates = most_accurate_restarts(family, solution, source, rng)
    return int(candidates[best_structure(value[candidates], size[candidates], source.total_weight)])


def most_accurate_restarts(
    family: LatentFactors, solution: Solution, source: TableSource, rng: np.random.Generator
) -> np.ndarray:
    """The restarts with the best training accuracy."""
    correct = correct_weight(family, solution.params, source, rng)
    return np.flatnonzero(correct >= correct.max() - 1e-9 * max(1.0, correct.max()))


def correct_weight(
    family: LatentFactors,
    params: Params,
    source: TableSource,
    rng: np.random.Generator,
    max_rows: int = ACCURACY_ROWS,
) -> np.ndarray:
    """Weight of the labeled rows that each restart classifies correctly, from a sample where there
    are very many.
    """
    if source.n_rows > max_rows:
        source = stratified_sample(source, max_rows // family.n_classes, rng)

    def visit(chunk: Chunk) -> Totals:
        log_joint = family.scores(params, chunk.rows)
        xp = namespace(log_joint)
        correct = xp.astype(xp.argmax(log_joint, axis=-2) == chunk.y[None, :], log_joint.dtype)
        return {"correct": xp.sum(chunk.weighted(correct), axis=-1)}

    chunk_rows = rows_per_chunk(family.score_floats_per_row(params), params.means)
    return to_numpy(source.sum_over_chunks(visit, chunk_rows)["correct"]).astype(float)


def stratified_sample(source: TableSource, max_per_label: int, rng: np.random.Generator) -> ArraySource:
    """At most so many rows of each label, which together weigh what all of them do."""
    sample = source.draw_rows(max_per_label, rng)
    weight = np.ones(sample.n_rows) if sample.weight is None else sample.weight.copy()
    mean = weight.reshape(sample.n_rows, -1).mean(axis=1)  # each restart may have weights of its own
    for label, total in source.label_totals.items():
        if (drawn := mean[sample.y == label].sum()) > 0:
            weight[sample.y == label] *= total.weight / drawn
    return sample.with_weight(weight)
