"""Where variational Bayes starts: directions of label space that the features can predict."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from latentia.arrays.linalg import eigh
from latentia.arrays.namespace import Array, asarray_like, namespace, to_numpy, transpose
from latentia.engine.rows import Chunk, Source, Totals
from latentia.engine.sweep import rows_per_chunk
from latentia.families.probit_embedding.label_posterior import label_signs
from latentia.families.probit_embedding.row_products import label_products


class LabelSums(NamedTuple):
    """Totals over rows; labels are +1, -1, and 0 where unknown."""

    gram: Array  # (D, D) sum of x x', or (0, 0) if not asked for
    cross: Array  # (L, D) sum of sign x'
    features: Array  # (L, D) sum of x' over the rows with the label known
    sign: Array  # (L,)
    n_known: Array  # (L,) weighted number of such rows


def sum_labels(
    x: Array, y: Array, weight: Array | None, low_density_separation: bool, with_gram: bool = False
) -> LabelSums:
    """The totals of some rows."""
    xp = namespace(y)
    dtype = x.dtype
    labels = label_signs(y, dtype, low_density_separation)
    weight = labels.row_counts if weight is None else labels.row_counts * weight
    known = xp.abs(labels.sign) * weight[:, None]
    sign = labels.sign * weight[:, None]
    gram = (transpose(x) * weight) @ x if with_gram else asarray_like(np.zeros((0, 0)), y, dtype=dtype)
    return LabelSums(
        gram, label_products(sign, x), label_products(known, x), xp.sum(sign, axis=0), xp.sum(known, axis=0)
    )


def label_sums(source: Source, low_density_separation: bool) -> LabelSums:
    """The totals of all rows, the Gram matrix included."""

    def visit(chunk: Chunk) -> Totals:
        return {"sums": sum_labels(chunk.rows.values, chunk.y, chunk.weight, low_density_separation, with_gram=True)}

    return source.sum_over_chunks(visit, rows_per_chunk(4 * source.n_features, source.rows_like))["sums"]


def label_directions(
    ridge: Callable[[Array], Array], sums: LabelSums, n_latent: int, rng: np.random.Generator, n_restarts: int
) -> tuple[Array, Array]:
    """Z'X (restarts, R, D) of guessed embeddings, and label weights (restarts, L, 1 + R) for them.

    The guess is Z = S V, for the labels' centered signs S and directions V: those along which a
    ridge regression of S on X, `ridge`, has the largest fitted variance, for the first restart;
    random ones for the others and for dimensions beyond the number of labels.
    """
    xp = namespace(sums.cross)
    n_known = xp.where(sums.n_known > 0, sums.n_known, xp.ones_like(sums.n_known))
    rate = sums.sign / n_known
    centered = sums.cross - rate[:, None] * sums.features  # (L, D)
    n_labels = centered.shape[0]
    coefficients = ridge(centered)
    fitted = to_numpy(coefficients @ transpose(centered))
    _, vectors = eigh(fitted)
    restarts = []
    for restart in range(n_restarts):
        directions = rng.standard_normal((n_labels, n_latent))
        if restart == 0:
            best = vectors[:, ::-1][:, :n_latent]
            directions[:, : best.shape[1]] = best
        restarts.append(directions / np.linalg.norm(directions, axis=0))
    weights = asarray_like(np.stack(restarts), centered)  # (restarts, L, R)
    intercept = xp.zeros_like(weights[..., :1]) + rate[:, None]
    return xp.matmul(transpose(weights), centered), xp.concat([intercept, weights], axis=-1)
