r"""Terms of variational bounds that several families share.

**Log-sum-exp.** The quadratic bound that makes softmax models Gaussian in their weights.

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

**Averages** of softmax probabilities over independent Gaussian scores :math:`a_i \sim N(m_i, v_i)`.

Two scores: the logistic function is a mixture of eight normal distribution functions within 3e-9
(Monahan & Stefanski 1992), so that its average is one, too: :math:`E[\mathrm{sigm}(a)] = \sum_k p_k
\Phi(s_k m / \sqrt{1 + s_k^2 v})`. Beyond the reach of the mixture the tail is that of the mean,
below which it cannot fall.

More scores have no such form. Closed approximations that join averaged pairs, as :math:`\ln P(i) =
-\ln \sum_j e^{-\mathrm{logit}\,E[\mathrm{sigm}(a_i - a_j)]} + \mathrm{const}`, are off by up to 0.2
where variances are large: the differences of one score to all others go up and down together. So
the softmax is averaged over a fixed set of points.

**Truncated normals**, known only by their side: mass, shift of the mean, and curvature.

For :math:`t \sim N(\eta, 1)` restricted to a set A with mass :math:`Z(\eta) = P(t \in A)`,

.. math::

   \frac{d \log Z}{d\eta} = E[t | A] - \eta, \qquad
   -\frac{d^2 \log Z}{d\eta^2} = 1 - \mathrm{Var}(t | A) \le 1.

A known label y in {-1, +1} is the set :math:`y t > \nu`; with a margin :math:`\nu > 0` an unknown
label is the set :math:`|t| > \nu`: no row lies between the classes (Lawrence & Jordan 2005).
Everything comes from the scaled complementary error function, so that the ratio of density to tail
stays right where both underflow.

**Gamma priors** of precisions. A precision :math:`\alpha` of normal entries e has the prior
:math:`G(a_0, b_0)`, by shape and rate, and the posterior :math:`q(\alpha) = G(a, b)`. Its terms of
the bound are

.. math:: E[\ln p(e | \alpha)] + E[\ln p(\alpha)] - E[\ln q(\alpha)]

with :math:`E[\alpha] = a / b` and :math:`E[\ln\alpha] = \psi(a) - \ln b`. With annealing at the
inverse temperature :math:`\beta` the entropy counts :math:`1 / \beta` times, and :math:`a = \beta
(a_0 - 1 + n / 2) + 1` for n entries.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy import special as scalars

from latentia.arrays.linalg import normal_qmc_points
from latentia.arrays.namespace import Array, asarray_like, digamma, erfcx, log_gamma, log_softmax, logsumexp, namespace

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
        # midway between the largest score and the log-sum-exp of the others: exact for two scores
        total = logsumexp(mean, axis=-2)
        rest = -xp.expm1(top - total)
        rest = xp.where(rest > 1e-13, rest, xp.full_like(rest, 1e-13))
        return _Bracket(low, (top + total + xp.log(rest)) / 2, high)
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


#: Points of an average over three or more scores, and how many scores are drawn at once: few rows
#: take all points in one step, many rows four.
N_QMC_POINTS = 256
QMC_SCORES = 2**16

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
    points = xp.reshape(points, (-1, *[1] * (mean.ndim - 2), size, 1))
    at_once = max(4, QMC_SCORES // max(1, math.prod(mean.shape)))
    total = xp.full_like(mean, -math.inf)
    for start in range(0, points.shape[0], at_once):
        log_probs = log_softmax(mean + std * points[start : min(start + at_once, points.shape[0]), ...], axis=-2)
        total = xp.logaddexp(total, logsumexp(log_probs, axis=0))
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


class TruncatedMoments(NamedTuple):
    """Log mass of the allowed side, and its derivatives in the mean."""

    log_mass: Array
    slope: Array  # E[t] - eta
    curvature: Array  # 1 - Var[t]


def positive_half_line(u: Array) -> TruncatedMoments:
    """The side t > 0 of N(u, 1): log Phi(u), the ratio phi(u) / Phi(u) and its curvature."""
    xp = namespace(u)
    below = u < 0
    square = u * u / 2
    scaled = erfcx(xp.abs(u) * math.sqrt(0.5)) / 2  # Phi(-|u|) = exp(-u^2 / 2) scaled
    density = xp.exp(-square)
    # below zero everything is divided by exp(-u^2 / 2), which may underflow
    mass = xp.where(below, scaled, 1 - density * scaled)
    log_mass = xp.log(mass) - xp.where(below, square, xp.zeros_like(square))
    ratio = xp.where(below, xp.ones_like(density), density) / mass * (1 / math.sqrt(2 * math.pi))
    # far below zero r (r + u) is a difference of large numbers; its limit is 1
    bent = ratio * (ratio + u)
    return TruncatedMoments(log_mass, ratio, xp.minimum(xp.maximum(bent, xp.zeros_like(bent)), xp.ones_like(bent)))


def truncate(eta: Array, sign: Array, margin: float) -> TruncatedMoments:
    """Known (+1, -1) and unknown (0) labels of scores `eta`.

    Unknown ones lie on either side of the margin; without a margin they count nothing.
    """
    xp = namespace(eta)
    side = positive_half_line(sign * eta - margin)
    if margin == 0:
        known = sign * sign
        return TruncatedMoments(side.log_mass * known, side.slope * sign, side.curvature * known)
    own = TruncatedMoments(side.log_mass, side.slope * sign, side.curvature)
    return TruncatedMoments(
        *(xp.where(sign != 0, a, b) for a, b in zip(own, _outside_margin(eta, margin), strict=True))
    )


def _outside_margin(eta: Array, margin: float) -> TruncatedMoments:
    """The set |t| > margin."""
    xp = namespace(eta)
    up, down = positive_half_line(eta - margin), positive_half_line(-eta - margin)
    top = xp.maximum(up.log_mass, down.log_mass)
    total = xp.log(xp.exp(up.log_mass - top) + xp.exp(down.log_mass - top)) + top
    p, q = xp.exp(up.log_mass - total), xp.exp(down.log_mass - total)
    slope = p * up.slope - q * down.slope
    # E[t^2] of the two sides together; the curvature is negative where the two sides pull apart
    second = p * (up.slope**2 - up.curvature) + q * (down.slope**2 - down.curvature)
    return TruncatedMoments(total, slope, slope * slope - second)


class GammaPrior(NamedTuple):
    """A gamma density by shape and rate."""

    shape: float = 1.0
    rate: float = 1.0

    def posterior_shape(self, count: int, beta: float = 1.0) -> float:
        """Shape of the posterior of the precision of `count` entries."""
        return beta * (self.shape - 1 + count / 2) + 1

    def precision(self, rate: Array, count: int, beta: float = 1.0) -> Array:
        """Posterior mean of the precisions of groups of `count` entries."""
        return self.posterior_shape(count, beta) / rate

    def log_prior(self, rate: Array, count: int, square: Array, beta: float = 1.0) -> Array:
        """Bound terms of each group of `count` entries, without log 2 pi.

        `rate` is that of the posterior, `square` the sum of E[e^2] over the group.
        """
        return self.bound_terms(self.posterior_shape(count, beta), rate, beta, count, square)

    def bound_terms(
        self, shape: Array | float, rate: Array, beta: float = 1.0, count: int = 0, square: Array | float = 0.0
    ) -> Array:
        """The same for any shape, a number or an array; without entries, of the precision alone."""
        xp = namespace(rate)
        digamma, log_gamma = _digamma_and_log_gamma(shape)
        # the mean of the log, where the appendix of Gönen's paper has the log of the mean
        mean, log_mean = shape / rate, digamma - xp.log(rate)
        constant = self.shape * math.log(self.rate) - math.lgamma(self.shape)
        expected = constant + (self.shape - 1 + count / 2) * log_mean - mean * (self.rate + square / 2)
        entropy = shape - xp.log(rate) + (log_gamma + (1 - shape) * digamma)
        return expected + entropy / beta


def _digamma_and_log_gamma(shape: Array | float) -> tuple[Array | float, Array | float]:
    if isinstance(shape, float):  # in double precision, whatever the arrays are in
        return float(scalars.digamma(shape)), math.lgamma(shape)
    return digamma(shape), log_gamma(shape)
