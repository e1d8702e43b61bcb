r"""Importance sampling of log p(x, c) with the bound's posterior of z as proposal.

.. math::

    p(x, c) = \sum_m p(c)\,p(m \mid c)\;
    E_{z \sim q}\!\left[\frac{p(x \mid z, m)\, p(z \mid c)}{q(z)}\right]

is unbiased for p(x, c), and its logarithm shows how far the bound lies below. All rows share the
standard normal draws, so results do not depend on chunks. The ratio is the bound's own normalizer
times the true density over its quadratic: only the columns that are bounded need to be evaluated at
the draws.
"""

from __future__ import annotations

import math

import numpy as np

from latentia.engine.source import MaskedRows
from latentia.families.latent_factors.family import LatentFactors
from latentia.families.latent_factors.values import FactorParams
from latentia.numerics.array_api import Array, asarray_like, eye_like, namespace, transpose
from latentia.numerics.logspace import logsumexp


def importance_scores(family: LatentFactors, params: FactorParams, rows: MaskedRows, draws: np.ndarray) -> Array:
    """Estimates of log p(x, c), (C, N), from standard normal draws (n_importance_samples, q)."""
    layout = family.layout
    if not layout.n_bounded:
        return family.infer(params, rows).log_joint
    xp = namespace(params.means)
    posteriors = family.infer_rows(params, rows)
    G, q = layout.n_gaussian, family.n_latent
    W, b = params.loadings[None, :, G:, :], params.offsets[None, :, None, G:]
    cells = [layout.select_columns(model, rows) for model in layout.bounded]
    curvature, linear, constant = posteriors.quadratic
    root = xp.linalg.cholesky(posteriors.cov + _jitter(posteriors.cov)) if q else posteriors.cov
    ratios = []
    for draw in draws:
        e = xp.broadcast_to(asarray_like(draw, posteriors.mean), posteriors.mean.shape)
        z = posteriors.mean + xp.matmul(root, e[..., None])[..., 0]
        predictors = xp.matmul(z, transpose(W)) + b
        ratio = -constant
        for (model, index), (values, observed) in zip(layout.bounded_slices(), cells, strict=True):
            ratio = ratio + model.log_density(values, observed, predictors[..., index])
        ratios.append(ratio - xp.sum((linear - 0.5 * curvature * predictors) * predictors, axis=-1))
    gap = logsumexp(xp.stack(ratios, axis=0), axis=0) - math.log(len(draws))
    return logsumexp(posteriors.scores + gap, axis=-2)


def _jitter(cov: Array) -> Array:
    """Keeps factorizations of nearly singular covariances alive; far below the draws' error."""
    xp = namespace(cov)
    q = cov.shape[-1]
    size = xp.sum(xp.linalg.diagonal(cov), axis=-1)[..., None, None] / q
    return 1e-12 * size * eye_like(q, cov)
