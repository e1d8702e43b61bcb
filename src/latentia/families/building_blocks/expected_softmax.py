r"""Softmax probabilities averaged over independent Gaussian scores :math:`a_i \sim N(m_i, v_i)`.

Two scores: the logistic function is a mixture of eight normal distribution functions within 3e-9
(Monahan & Stefanski 1992), so that its average is one, too: :math:`E[\mathrm{sigm}(a)] = \sum_k p_k
\Phi(s_k m / \sqrt{1 + s_k^2 v})`. Beyond the reach of the mixture the tail is that of the mean,
below which it cannot fall.

More scores have no such form. Closed approximations that join averaged pairs, as :math:`\ln P(i) =
-\ln \sum_j e^{-\mathrm{logit}\,E[\mathrm{sigm}(a_i - a_j)]} + \mathrm{const}`, are off by up to 0.2
where variances are large: the differences of one score to all others go up and down together. So
the softmax is averaged over a fixed set of points.
"""

from __future__ import annotations

import math

from latentia.arrays.namespace import Array, asarray_like, erfcx, log_softmax, namespace
from latentia.arrays.small_systems import normal_qmc_points

#: Points of an average over three or more scores.
N_QMC_POINTS = 256

#: Weights and scales of the normal distribution functions whose mixture is the logistic function.
MIXTURE_WEIGHTS = (
    0.003246343272134,
    0.051517477033972,
    0.195077912673858,
    0.315569823632818,
    0.274149576158423,
    0.131076880695470,
    0.027912418727972,
    0.001449567805354,
)

MIXTURE_SCALES = (
    1.365340806296348,
    1.059523971016916,
    0.830791313765644,
    0.650732166639391,
    0.508135425366489,
    0.396313345166341,
    0.308904252267995,
    0.238212616409306,
)


def log_expected_softmax(mean: Array, variance: Array | None) -> Array:
    """Log of the averaged probabilities of scores (..., S, N); plain softmax without a variance."""
    xp, size = namespace(mean), mean.shape[-2]
    if variance is None or size == 1:
        return log_softmax(mean, axis=-2)
    if size == 2:
        odds = logit_expected_sigmoid(mean[..., 0, :] - mean[..., 1, :], variance[..., 0, :] + variance[..., 1, :])
        even = xp.zeros_like(odds)
        return log_softmax(xp.stack([odds, even], axis=-2), axis=-2)
    std, points = xp.sqrt(variance), asarray_like(normal_qmc_points(N_QMC_POINTS, size), mean)
    total = xp.full_like(mean, -math.inf)
    for k in range(points.shape[0]):  # one at a time: as much memory as the scores
        total = xp.logaddexp(total, log_softmax(mean + std * points[k, :, None], axis=-2))
    return log_softmax(total, axis=-2)  # which divides by the points, and by what rounding has added


def logit_expected_sigmoid(mean: Array, variance: Array) -> Array:
    """Log odds of the average of the logistic function over normal arguments."""
    xp = namespace(mean)
    size = xp.abs(mean)
    tail = xp.zeros_like(mean)
    for weight, scale in zip(MIXTURE_WEIGHTS, MIXTURE_SCALES, strict=True):
        t = scale * size / xp.sqrt(1 + scale**2 * variance)
        tail = tail + weight / 2 * xp.exp(-t * t / 2) * erfcx(t / math.sqrt(2))
    # of the mean alone: e^-m / (1 + e^-m); a score against itself has even odds
    minimum = xp.exp(-size)
    minimum = minimum / (1 + minimum)
    tail = xp.where((variance > 0) & (tail > minimum), tail, minimum)
    tail = xp.where(size > 0, tail, xp.full_like(tail, 0.5))
    smallest = xp.finfo(mean.dtype).smallest_normal
    odds = xp.where(tail > smallest, xp.log1p(-tail) - xp.log(xp.clip(tail, min=smallest)), size)
    return xp.where(mean < 0, -odds, odds)
