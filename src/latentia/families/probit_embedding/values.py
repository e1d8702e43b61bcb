"""Parameters, statistics and posteriors of the probit embedding, and small products of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from latentia.families.probit_embedding.label_posterior import Labels
from latentia.numerics.array_api import Array, namespace, transpose


class Embedding(NamedTuple):
    """Posteriors of the projection, of the label weights, and of their precisions."""

    projection: Array  # (..., R, D) means of the columns of Q
    covariance: Array  # (..., S, D, D) of the columns of Q; S = 1 if they share it. Other designs have their own form
    log_det: Array  # (..., S) of that
    size: Array  # (..., R or 1, D or 1) sums of E[q^2] over the groups that share a precision
    rate: Array  # (..., R or 1, D or 1) rates of the gamma posteriors of these precisions
    weights: Array  # (..., L, 1 + R) means of (b, w)
    weights_cov: Array  # (..., L, 1 + R, 1 + R)
    weights_log_det: Array  # (..., L) of these covariances
    weights_rate: Array  # (..., L, 1 + R) rates of the gamma posteriors of their precisions


class EmbeddingStats(NamedTuple):
    """What rows add to the posteriors."""

    gram: Array  # (..., D, D) sum of x x'; (..., 0, 0) where a design has it already
    cross: Array  # (..., R, D) sum of E[z] x'
    moments: Array  # (..., L, 1 + R, 1 + R) sum of E[(1, z)(1, z)'] over the rows with the label known
    target: Array  # (..., L, 1 + R) sum of E[t] (1, E[z]) over the same


class EmbeddedRows(NamedTuple):
    """What is known of some rows."""

    log_joint: Array  # (..., 1, N) bound of log p(y | x)
    mean: Array  # (..., N, R) of z
    covariance: Array  # (..., N or 1, R, R) of z
    target: Array  # (..., N, L) mean of t
    labels: Labels


def project(projection: Array, x: Any, last: bool = False) -> Array:
    """Rows x (N, D) times (..., R, D): (..., N, R), or (..., R, N) if `last`, as one product."""
    xp = namespace(projection)
    flat = xp.reshape(projection, (-1, projection.shape[-1]))
    scores = transpose(x @ transpose(flat)) if hasattr(x, "tocsr") else xp.matmul(flat, transpose(x))
    scores = xp.reshape(scores, (*projection.shape[:-1], x.shape[0]))
    return scores if last else transpose(scores)


def second_moment(mean: Array, covariance: Array) -> Array:
    """E[e^2] of the entries of normal vectors."""
    return mean * mean + namespace(mean).linalg.diagonal(covariance)


def add_corner(moments: Array, corner: Array) -> Array:
    """Add to all but the first row and column."""
    xp = namespace(moments)
    side = xp.concat([xp.zeros_like(corner[..., :1]), corner], axis=-1)
    return moments + xp.concat([xp.zeros_like(side[..., :1, :]), side], axis=-2)
