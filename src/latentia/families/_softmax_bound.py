r"""The quadratic bound on log-sum-exp that makes softmax models Gaussian in their weights.

Bouchard's bound (eq. 18-20 of Ahmed & Campbell 2011, "Variational Bayesian learning of probabilistic discriminative models with latent softmax
variables"): for scores :math:`a_1..a_S`, any :math:`\gamma` and :math:`\xi_i \ge 0`

.. math:: \ln \sum_i e^{a_i} \le \gamma + \sum_i \tfrac12 (a_i - \gamma - \xi_i) + \lambda(\xi_i)\,[(a_i - \gamma)^2 - \xi_i^2] + \ln(1 + e^{\xi_i}),
    \qquad \lambda(\xi) = \tanh(\xi/2) / (4\xi).

Under scores with means m and variances v its expectation is least at :math:`\xi_i^2 = (m_i - \gamma)^2 + v_i`, where it reads

.. math:: F(\gamma) = \gamma + \sum_i \tfrac12 (m_i - \gamma) + \ln 2\cosh(\xi_i / 2).

F is convex in :math:`\gamma`. The paper alternates eq. 30 and 31 (the latter with the slip (S+1)/2 for S/2) fifteen times; we solve
:math:`F'(\gamma) = 1 - S/2 + \sum_i 2\lambda(\xi_i)(\gamma - m_i) = 0` by Newton's method inside a bracket, which reaches the same point to rounding, so that no
state per row is kept between sweeps. The bound is not tight even at v = 0: there it is the product :math:`\gamma + \sum_i \ln(1 + e^{a_i - \gamma})`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from latentia._arrays import Array, logsumexp, namespace

NEWTON_STEPS = 30


class SoftmaxBound(NamedTuple):
    """The expected bound at its optimum, and its quadratic's coefficients in each score."""

    value: Array  # (..., N) the expected bound
    curvature: Array  # (..., S, N) 2 lambda: coefficient of -a^2 / 2
    slope: Array  # (..., S, N) 2 lambda gamma - 1/2: coefficient of a


def softmax_bound(mean: Array, variance: Array) -> SoftmaxBound:
    """Bound the expected log-sum-exp of scores (..., S, N) over the second axis from the end.

    A single score needs no bound: its log-sum-exp is the score itself, so the quadratic vanishes.
    """
    xp = namespace(mean)
    n_scores = mean.shape[-2]
    if n_scores == 1:
        none = xp.zeros_like(mean)
        return SoftmaxBound(mean[..., 0, :], none, none - 1.0)
    centre = _centre(mean, variance)
    offset = mean - centre[..., None, :]
    xi = xp.sqrt(offset * offset + variance)
    curvature = _curvature(xi, xp.tanh(xi / 2))
    # ln 2cosh(xi/2), without overflow
    log_cosh = xi / 2 + xp.log1p(xp.exp(-xi))
    value = centre + xp.sum(offset / 2 + log_cosh, axis=-2)
    return SoftmaxBound(value, curvature, curvature * centre[..., None, :] - 0.5)


def _curvature(xi: Array, tanh: Array) -> Array:
    """2 lambda(xi), which is 1/4 at zero."""
    xp = namespace(xi)
    small = xi < 1e-4
    return xp.where(small, xp.full_like(xi, 0.25), tanh / (2 * xp.where(small, xp.ones_like(xi), xi)))


def _centre(mean: Array, variance: Array) -> Array:
    """The minimiser of F, (..., N)."""
    xp = namespace(mean)
    n_scores = mean.shape[-2]
    top = xp.max(mean, axis=-2)
    low = xp.min(mean, axis=-2)
    # beyond this every slope 2 lambda (gamma - m) exceeds 1/2 - 1/S
    high = top + math.log(2 * n_scores) + xp.sqrt(n_scores * xp.max(variance, axis=-2))
    centre = _first_guess(mean, top)
    tolerance = math.sqrt(xp.finfo(mean.dtype).eps)
    for _ in range(NEWTON_STEPS):
        offset = centre[..., None, :] - mean
        square = offset * offset
        xi2 = square + variance
        xi2 = xp.where(xi2 > 1e-30, xi2, xp.full_like(xi2, 1e-30))
        xi = xp.sqrt(xi2)
        tanh = xp.tanh(xi / 2)
        curvature = _curvature(xi, tanh)
        slope = xp.sum(curvature * offset, axis=-2) + (1 - n_scores / 2)
        share = square / xi2  # F'' mixes the two curvatures by how much of xi^2 is the offset's
        bend = xp.sum(curvature + share * ((1 - tanh * tanh) / 4 - curvature), axis=-2)
        low = xp.where(slope < 0, centre, low)
        high = xp.where(slope > 0, centre, high)
        bend = xp.where(bend > 1e-30, bend, xp.full_like(bend, 1e-30))
        target = centre - slope / bend
        inside = (target >= low) & (target <= high)
        target = xp.where(inside, target, (low + high) / 2)
        # F is quadratic here: an error e in gamma costs bend e^2 / 2
        done = bool(xp.all(xp.abs(slope) * xp.abs(target - centre) <= tolerance * tolerance * (1 + xp.abs(centre))))
        centre = target
        if done:
            break
    return centre


def _first_guess(mean: Array, top: Array) -> Array:
    """Midway between the largest score and the log-sum-exp of the others: exact for two scores."""
    xp = namespace(mean)
    total = logsumexp(mean, axis=-2)
    rest = -xp.expm1(top - total)
    rest = xp.where(rest > 1e-13, rest, xp.full_like(rest, 1e-13))
    return (top + total + xp.log(rest)) / 2
