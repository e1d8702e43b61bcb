"""Where variational Bayes starts: directions of label space that the features can predict."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from latentia.engine.contracts import Chunk, Source, Totals
from latentia.engine.problem import rows_per_chunk
from latentia.families.probit_embedding.label_posterior import label_signs
from latentia.numerics.array_api import Array, asarray_like, namespace, to_numpy, transpose
from latentia.numerics.linalg import symmetric


class LabelSums(NamedTuple):
    """Totals over rows; labels are +1, -1, and 0 where unknown."""

    gram: Array  # (D, D), or (0, 0) if not asked for
    cross: Array  # (L, D) sum of sign x'
    features: Array  # (L, D) sum of x' over the rows with the label known
    sign: Array  # (L,)
    known: Array  # (L,)


def sum_labels(x: Any, y: Array, weight: Array | None, with_gram: bool, separate: bool) -> LabelSums:
    """The totals of some rows."""
    xp = namespace(y)
    dtype = x.dtype
    labels = label_signs(y, dtype, separate)
    mass = labels.used if weight is None else labels.used * weight
    known = xp.abs(labels.sign) * mass[:, None]
    sign = labels.sign * mass[:, None]
    gram = (transpose(x) * mass) @ x if with_gram else asarray_like(np.zeros((0, 0)), y, dtype=dtype)
    return LabelSums(gram, _times(sign, x), _times(known, x), xp.sum(sign, axis=0), xp.sum(known, axis=0))


def label_sums(source: Source, with_gram: bool, separate: bool) -> LabelSums:
    """The totals of all rows."""

    def visit(chunk: Chunk) -> Totals:
        return {"sums": sum_labels(chunk.rows.values, chunk.y, chunk.weight, with_gram, separate)}

    return source.sum_over_chunks(visit, rows_per_chunk(4 * source.n_features))["sums"]


def label_directions(
    ridge: Any, sums: LabelSums, n_latent: int, rng: np.random.Generator, n_restarts: int
) -> tuple[Array, Array]:
    """Cross products Z'X (starts, R, D) of guessed embeddings, and the label weights (starts, L, 1 + R) that go with them.

    The guess is Z = S V, for the labels' centered signs S and directions V: those along which a ridge regression of S on X, `ridge`, has
    the largest fitted variance, for the first start; random ones for the others and for dimensions beyond the number of labels.
    """
    xp = namespace(sums.cross)
    known = xp.where(sums.known > 0, sums.known, xp.ones_like(sums.known))
    rate = sums.sign / known
    centered = sums.cross - rate[:, None] * sums.features  # (L, D)
    n_labels = centered.shape[0]
    coefficients = ridge(centered)
    fitted = symmetric(to_numpy(coefficients @ transpose(centered)))
    _, vectors = np.linalg.eigh(fitted)
    starts = []
    for start in range(n_restarts):
        random = rng.standard_normal((n_labels, n_latent))
        if start == 0:
            best = vectors[:, ::-1][:, :n_latent]
            random[:, : best.shape[1]] = best
        starts.append(random / np.linalg.norm(random, axis=0))
    directions = asarray_like(np.stack(starts), centered)  # (starts, L, R)
    intercept = xp.zeros_like(directions[..., :1]) + rate[:, None]
    return xp.matmul(transpose(directions), centered), xp.concat([intercept, directions], axis=-1)


def _times(a: Array, x: Any) -> Array:
    """a' x for rows that may be sparse."""
    return transpose(x.T @ a) if hasattr(x, "tocsr") else transpose(a) @ x
