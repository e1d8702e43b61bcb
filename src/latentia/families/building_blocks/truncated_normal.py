r"""Normal variables known only by their side: mass, shift of the mean, and curvature.

For :math:`t \sim N(\eta, 1)` restricted to a set A with mass :math:`Z(\eta) = P(t \in A)`,

.. math::

   \frac{d \log Z}{d\eta} = E[t | A] - \eta, \qquad
   -\frac{d^2 \log Z}{d\eta^2} = 1 - \mathrm{Var}(t | A) \le 1.

A known label y in {-1, +1} is the set :math:`y t > \nu`; with a margin :math:`\nu > 0` an unknown
label is the set :math:`|t| > \nu`: no row lies between the classes (Lawrence & Jordan 2005).
Everything comes from the scaled complementary error function, so that the ratio of density to tail
stays right where both underflow.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from latentia.arrays.namespace import Array, erfcx, namespace


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
