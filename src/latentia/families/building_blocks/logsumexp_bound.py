r"""The quadratic bound on log-sum-exp that makes softmax models Gaussian in their weights.

Bouchard's bound (eq. 18-20 of Ahmed & Campbell 2011, "Variational Bayesian learning of
probabilistic discriminative models with latent softmax variables"): for scores :math:`a_1..a_S`,
any :math:`\gamma` and :math:`\xi_i \ge 0`

.. math::

    \ln \sum_i e^{a_i} \le \gamma + \sum_i \tfrac12 (a_i - \gamma - \xi_i)
    + \lambda(\xi_i)\,[(a_i - \gamma)^2 - \xi_i^2] + \ln(1 + e^{\xi_i}),
    \qquad \lambda(\xi) = \tanh(\xi/2) / (4\xi).

Under scores with means m and variances v its expectation is least at :math:`\xi_i^2 = (m_i -
\gamma)^2 + v_i`, where it reads

.. math:: F(\gamma) = \gamma + \sum_i \tfrac12 (m_i - \gamma) + \ln 2\cosh(\xi_i / 2).

F is convex in :math:`\gamma`. The paper alternates eq. 30 and 31 (the latter with the slip (S+1)/2
for S/2) fifteen times; we solve :math:`F'(\gamma) = 1 - S/2 + \sum_i 2\lambda(\xi_i)(\gamma - m_i)
= 0` by Newton's method inside a bracket, which reaches the same point to rounding, so that no state
per row is kept between sweeps. The bound is not tight even at v = 0: there it is the product
:math:`\gamma + \sum_i \ln(1 + e^{a_i - \gamma})`.

Boehning's bound (1992, "Multinomial logistic regression algorithm") is tight there. No second
derivative of log-sum-exp exceeds one half, so around the means

.. math:: \ln \sum_i e^{a_i} \le \ln \sum_i e^{m_i} + \sum_i p_i (a_i - m_i)
    + \tfrac14 \sum_i (a_i - m_i)^2, \qquad p = \mathrm{softmax}(m),

whose expectation is :math:`\ln \sum_i e^{m_i} + \tfrac14 \sum_i v_i`: the better one where scores
are nearly known. Where they depend on latents, it makes training prefer scores that do not.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from latentia.arrays.namespace import Array, logsumexp, namespace

FIRST_STEPS = 4  # of all rows

LAST_STEPS = 40  # of those that have not arrived by then


class SoftmaxBound(NamedTuple):
    """The expected bound at its optimum, and its quadratic's coefficients in each score."""

    value: Array  # (..., N) the expected bound
    curvature: Array  # (..., S, N) 2 lambda: coefficient of -a^2 / 2
    slope: Array  # (..., S, N) 2 lambda gamma - 1/2: coefficient of a
    center: Array  # (..., N) gamma


def softmax_bound(mean: Array, variance: Array) -> SoftmaxBound:
    """Bound the expected log-sum-exp of scores (..., S, N) over the second axis from the end.

    A single score needs no bound: its log-sum-exp is the score itself, so the quadratic vanishes.
    """
    xp = namespace(mean)
    if mean.shape[-2] == 1:
        none = xp.zeros_like(mean)
        return SoftmaxBound(mean[..., 0, :], none, none - 1.0, none[..., 0, :])
    return _bound_at(_center(mean, variance), mean, variance)


def tighter_bound(mean: Array, variance: Array) -> SoftmaxBound:
    """The same, or Boehning's bound where it is tighter."""
    xp = namespace(mean)
    bound = softmax_bound(mean, variance)
    if mean.shape[-2] == 1:
        return bound
    total = logsumexp(mean, axis=-2)
    value = total + xp.sum(variance, axis=-2) / 4
    better = value < bound.value
    each = better[..., None, :]
    return SoftmaxBound(
        xp.where(better, value, bound.value),
        xp.where(each, xp.full_like(mean, 0.5), bound.curvature),
        xp.where(each, mean / 2 - xp.exp(mean - total[..., None, :]), bound.slope),
        bound.center,
    )


def softmax_bound_near(mean: Array, variance: Array, near: Array | None) -> SoftmaxBound:
    """A bound that is nearly the best.

    One step from the center `near` of scores that were nearly these; a few steps without one.
    """
    if mean.shape[-2] == 1:
        return softmax_bound(mean, variance)
    return _bound_at(_center_near(mean, variance, near), mean, variance)


def approximate_bound(mean: Array, variance: Array, near: Array | None) -> tuple[Array, Array, Array]:
    """Curvature, slope and center of the same bound, without its value."""
    if mean.shape[-2] == 1:
        return softmax_bound(mean, variance)[1:]
    center = _center_near(mean, variance, near)
    _, curvature, slope = _quadratic_at(center, mean, variance)
    return curvature, slope, center


def _center_near(mean: Array, variance: Array, near: Array | None) -> Array:
    bracket = _bracket(mean, variance, near)
    return _newton(mean, variance, bracket, FIRST_STEPS if near is None else 1)[0].center


def _bound_at(center: Array, mean: Array, variance: Array) -> SoftmaxBound:
    """The bound with the best xi under a center."""
    xp = namespace(mean)
    xi, curvature, slope = _quadratic_at(center, mean, variance)
    value = center + xp.sum((mean - center[..., None, :]) / 2 + log_two_cosh(xi), axis=-2)
    return SoftmaxBound(value, curvature, slope, center)


def _quadratic_at(center: Array, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
    """The best xi of each score under a center, and the coefficients of the quadratic there."""
    xp = namespace(mean)
    offset = mean - center[..., None, :]
    xi = xp.sqrt(offset * offset + variance)
    curvature = logistic_curvature(xi, xp.tanh(xi / 2))
    return xi, curvature, curvature * center[..., None, :] - 0.5


def logistic_curvature(xi: Array, tanh: Array) -> Array:
    """2 lambda(xi), which is 1/4 at zero; `tanh` is that of xi / 2."""
    xp = namespace(xi)
    small = xi < 1e-4
    return xp.where(small, xp.full_like(xi, 0.25), tanh / (2 * xp.where(small, xp.ones_like(xi), xi)))


def log_two_cosh(xi: Array) -> Array:
    """ln 2 cosh(xi / 2) of xi >= 0, without overflow."""
    xp = namespace(xi)
    return xi / 2 + xp.log1p(xp.exp(-xi))


class _Bracket(NamedTuple):
    """Where the minimizer of F lies, (..., N)."""

    low: Array
    center: Array
    high: Array


def _bracket(mean: Array, variance: Array, near: Array | None = None) -> _Bracket:
    """A guess of the minimizer of F, `near` if it can be, between points that it cannot pass."""
    xp = namespace(mean)
    n_scores = mean.shape[-2]
    top = xp.max(mean, axis=-2)
    # beyond this every slope 2 lambda (gamma - m) exceeds 1/2 - 1/S
    high = top + math.log(2 * n_scores) + xp.sqrt(n_scores * xp.max(variance, axis=-2))
    low = xp.min(mean, axis=-2)
    if near is None:
        return _Bracket(low, _pilot_estimate(mean, top), high)
    return _Bracket(low, xp.where(near < low, low, xp.where(near > high, high, near)), high)


def _center(mean: Array, variance: Array) -> Array:
    """The minimizer of F, (..., N). A few steps bring most rows there; only the others go on."""
    xp = namespace(mean)
    n_scores = mean.shape[-2]
    bracket = _bracket(mean, variance)
    bracket, far = _newton(mean, variance, bracket, FIRST_STEPS)
    if not bool(xp.any(far)):
        return bracket.center
    rest = xp.reshape(far, (-1,))
    index = xp.nonzero(rest)[0]

    def columns(a: Array) -> Array:
        return xp.take(xp.reshape(xp.moveaxis(a, -2, 0), (n_scores, -1)), index, axis=1)

    some = _Bracket(*(xp.take(xp.reshape(a, (-1,)), index, axis=0) for a in bracket))
    center = xp.reshape(bracket.center, (-1,))
    center[rest] = _newton(columns(mean), columns(variance), some, LAST_STEPS)[0].center
    return xp.reshape(center, bracket.center.shape)


def _newton(mean: Array, variance: Array, bracket: _Bracket, n_steps: int) -> tuple[_Bracket, Array]:
    """Newton's steps, by halves where they leave the bracket; and which rows have not arrived."""
    xp = namespace(mean)
    low, center, high = bracket
    half = 1 - mean.shape[-2] / 2
    precision = 100 * xp.finfo(mean.dtype).eps
    for _ in range(n_steps):
        offset = center[..., None, :] - mean
        square = offset * offset
        xi2 = xp.clip(square + variance, min=1e-30)
        xi = xp.sqrt(xi2)
        tanh = xp.tanh(xi / 2)
        curvature = logistic_curvature(xi, tanh)
        slope = xp.sum(curvature * offset, axis=-2) + half
        # F'' mixes the two curvatures by how much of xi^2 is the offset's
        bend = xp.sum(curvature + square / xi2 * ((1 - tanh * tanh) / 4 - curvature), axis=-2)
        low = xp.where(slope < 0, center, low)
        high = xp.where(slope > 0, center, high)
        target = center - slope / xp.clip(bend, min=1e-30)
        target = xp.where((target >= low) & (target <= high), target, (low + high) / 2)
        # F can fall by about this much more
        far = xp.abs(slope) * xp.abs(target - center) > precision * (1 + xp.abs(center))
        center = target
        if not bool(xp.any(far)):
            break
    return _Bracket(low, center, high), far


def _pilot_estimate(mean: Array, top: Array) -> Array:
    """Midway between the largest score and the log-sum-exp of the others: exact for two scores."""
    xp = namespace(mean)
    total = logsumexp(mean, axis=-2)
    rest = -xp.expm1(top - total)
    rest = xp.where(rest > 1e-13, rest, xp.full_like(rest, 1e-13))
    return (top + total + xp.log(rest)) / 2
