r"""Importance sampling of log p(x, c): draws of z from the bound's posterior and from its prior.

.. math::

    p(x, c) = \sum_m p(c)\,p(m \mid c)\;
    E_{z \sim r}\!\left[\frac{p(x \mid z, m)\, p(z \mid c)}{r(z)}\right], \qquad
    r(z) = \alpha\, q(z) + (1 - \alpha)\, p(z \mid c),

is unbiased for p(x, c), and its logarithm shows how far the bound lies below. The bound's posterior
q is too narrow where columns are bounded: alone it would leave the tails of the true one to a few
draws of huge weight, or to none. Every second draw is one of the prior, so no ratio is larger than
:math:`p(x \mid z, m) / (1 - \alpha)`. All rows share the standard normal draws, so results do not
depend on chunks. With a single draw :math:`\alpha = 1`. Over q, the ratio is the bound's own
normalizer times the true density over its quadratic: only the columns that are bounded need to be
evaluated at the draws.
"""

from __future__ import annotations

import math

import numpy as np

from latentia.arrays.linalg import spd_inverse
from latentia.arrays.namespace import Array, asarray_like, eye_like, logsumexp, namespace, transpose
from latentia.engine.rows import MaskedRows
from latentia.families.latent_factors.family import LatentFactors
from latentia.families.latent_factors.parameters import FactorParams


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
    cov = posteriors.cov + _jitter(posteriors.cov) if q else posteriors.cov
    root = xp.linalg.cholesky(cov) if q else cov
    n_prior = len(draws) // 2 if q else 0
    excess = _PriorOverPosterior(params, posteriors.mean, cov) if n_prior else None
    ratios = []
    for number, draw in enumerate(draws):
        e = xp.broadcast_to(asarray_like(draw, posteriors.mean), posteriors.mean.shape)
        if excess is not None and number % 2:
            z = excess.mean + excess.deviation * e
        else:
            z = posteriors.mean + xp.matmul(root, e[..., None])[..., 0]
        predictors = xp.matmul(z, transpose(W)) + b
        ratio = xp.zeros_like(posteriors.scores) - constant
        for (model, index), (values, observed) in zip(layout.bounded_slices(), cells, strict=True):
            ratio = ratio + model.log_density(values, observed, predictors[..., index])
        ratio = ratio - xp.sum((linear - 0.5 * curvature * predictors) * predictors, axis=-1)
        ratios.append(ratio if excess is None else ratio - excess.log_mixture(z, n_prior / len(draws)))
    gap = logsumexp(xp.stack(ratios, axis=0), axis=0) - math.log(len(draws))
    return logsumexp(posteriors.scores + gap, axis=-2)


class _PriorOverPosterior:
    """The prior density of z over that of the bound's posterior, of each row (C, M, N)."""

    def __init__(self, params: FactorParams, posterior_mean: Array, posterior_cov: Array):
        xp = namespace(posterior_mean)
        self.mean, variance = params.means[:, None, None, :], params.variances[:, None, None, :]
        self.deviation = xp.sqrt(variance)
        self.posterior_mean = posterior_mean
        self.precision, log_det = spd_inverse(posterior_cov)
        self.constant = 0.5 * (log_det - xp.sum(xp.log(variance), axis=-1))

    def log_mixture(self, z: Array, share: float) -> Array:
        """Log of r over q where the prior has this share of the draws, (C, M, N)."""
        xp = namespace(z)
        far = (z - self.mean) / self.deviation
        apart = z - self.posterior_mean
        by_posterior = xp.sum(xp.matmul(self.precision, apart[..., None])[..., 0] * apart, axis=-1)
        log_ratio = self.constant + 0.5 * (by_posterior - xp.sum(far * far, axis=-1))
        return xp.logaddexp(xp.full_like(log_ratio, math.log(1 - share)), log_ratio + math.log(share))


def _jitter(cov: Array) -> Array:
    """Keeps factorizations of nearly singular covariances alive; far below the draws' error."""
    xp = namespace(cov)
    q = cov.shape[-1]
    size = xp.sum(xp.linalg.diagonal(cov), axis=-1)[..., None, None] / q
    return 1e-12 * size * eye_like(q, cov)
