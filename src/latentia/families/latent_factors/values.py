"""The plain values that a latent classification model computes with; letters as in `factors`."""

from __future__ import annotations

from typing import Any, NamedTuple

from latentia.families.latent_factors.row_posteriors import RowPosterior
from latentia.numerics.array_api import Array


class FactorParams(NamedTuple):
    """Parameters of a latent classification model."""

    log_prior: Array  # (..., C)
    log_mix: Array  # (..., C, M)
    means: Array  # (..., C, q)
    variances: Array  # (..., C, q)
    loadings: Array  # (..., M, H, q)
    offsets: Array  # (..., M, H)
    noise: Array  # (..., M, G); (..., 1, G) when tied
    edges: Array  # (..., H, q) ones where a loading is free, zeros where it is held at zero


class FactorFree(NamedTuple):
    """Unconstrained coordinates: logits, and logs of what variances have above their floors. Class priors are counted, not searched."""

    logits: Array  # (..., C, M)
    means: Array  # (..., C, q)
    variances: Array  # (..., C, q)
    loadings: Array  # (..., M, H, q)
    offsets: Array  # (..., M, H)
    noise: Array  # (..., M or 1, G)


class FactorStats(NamedTuple):
    """Weighted expected sums."""

    count: Array  # (..., C, M)
    pulled: Array  # (..., C, q) of z - mu
    square: Array  # (..., C, q) of (z - mu)^2
    gram: Array  # (..., M, 1 or G, T) of (z z', z, 1), over the known cells of a continuous column
    cross: Array  # (..., M, G, q + 1) of x (z, 1)
    sum_x2: Array  # (..., M, G) of x^2
    bound_gram: Array  # (..., M, H - G, T) the same with the bounds' curvatures
    bound_cross: Array  # (..., M, H - G, q + 1) of slope (z, 1)


class FactorPosterior(NamedTuple):
    """Scores of rows and what is known of their latents."""

    log_joint: Array  # (..., C, N)
    component: Array  # (..., C, M, N) p(m | x, c)
    rows: RowPosterior | None  # None for complete continuous rows, whose moments follow from x
    features: Array | None  # of complete continuous rows
    known: Any  # `Shared` of such rows, else None
