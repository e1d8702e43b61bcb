r"""Softmax probabilities averaged over Gaussian scores, without quadrature.

For independent scores :math:`a_i \sim N(m_i, v_i)`: exactly, :math:`1 / P(i) = 1 + \sum_{j \ne i} e^{a_j - a_i}` for known scores. Each pair's odds are replaced by those of its averaged logistic,
:math:`E[\mathrm{sigm}(a_i - a_j)] \approx \mathrm{sigm}(d_{ij})`, :math:`d_{ij} = (m_i - m_j) / \sqrt{1 + \pi (v_i + v_j) / 8}` (MacKay's approximation), and the result is normalised:

.. math:: \ln P(i) = -\ln \sum_j e^{-d_{ij}} + \mathrm{const}.
"""

from __future__ import annotations

import math

from latentia._arrays import Array, logsumexp, namespace


def log_softmax(scores: Array) -> Array:
    """Log probabilities of scores (..., S, N)."""
    return scores - logsumexp(scores, axis=-2)[..., None, :]


def average_log_softmax(mean: Array, variance: Array | None) -> Array:
    """Log of the averaged probabilities of scores (..., S, N); plain softmax without a variance."""
    if variance is None or mean.shape[-2] == 1:
        return log_softmax(mean)
    xp = namespace(mean)
    spread = xp.sqrt(1 + math.pi / 8 * (variance[..., :, None, :] + variance[..., None, :, :]))
    odds = (mean[..., None, :, :] - mean[..., :, None, :]) / spread  # -d_ij: j against i
    return log_softmax(-logsumexp(odds, axis=-2))
