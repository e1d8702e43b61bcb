"""Parameters, statistics and posteriors of the probit embedding, and small products of them."""

from __future__ import annotations

from typing import NamedTuple

from latentia.arrays.namespace import Array, namespace
from latentia.families.probit_embedding.label_posterior import LabelSigns


class Embedding(NamedTuple):
    """Posteriors of the projection, of the label weights, and of their precisions."""

    projection: Array  # (..., R, D) means of the columns of Q
    covariance: Array  # (..., S, ...) of the columns of Q, as the projection form has it; S = 1 if they share it
    log_det: Array  # (..., S) of that
    second_moments: Array  # (..., R or 1, D or 1) sums of E[q^2] over the groups that share a precision
    rate: Array  # (..., R or 1, D or 1) rates of the gamma posteriors of these precisions
    weights: Array  # (..., L, 1 + R) means of (b, w)
    weights_cov: Array  # (..., L, 1 + R, 1 + R)
    weights_log_det: Array  # (..., L) of these covariances
    weights_rate: Array  # (..., L, 1 + R) rates of the gamma posteriors of their precisions


class EmbeddingStats(NamedTuple):
    """What rows add to the posteriors."""

    gram: Array  # (..., D, D) sum of x x'; (..., 0, 0) where the projection form has it already
    cross: Array  # (..., R, D) sum of E[z] x'
    moments: Array  # (..., L, 1 + R, 1 + R) sum of E[(1, z)(1, z)'] over the rows with the label known
    target: Array  # (..., L, 1 + R) sum of E[t] (1, E[z]) over the same


class EmbeddedRows(NamedTuple):
    """Per-row posterior: the latent position z and the truncated scores t."""

    log_joint: Array  # (..., 1, N) bound of log p(y | x)
    mean: Array  # (..., N, R) of z
    covariance: Array  # (..., N or 1, R, R) of z
    target: Array  # (..., N, L) mean of t
    labels: LabelSigns


def second_moment(mean: Array, covariance: Array) -> Array:
    """E[e^2] of the entries of normal vectors."""
    return mean * mean + namespace(mean).linalg.diagonal(covariance)
