"""Objectives: the value of a row and its derivative in each class score.

After W. Roth, master's thesis, Graz University of Technology, chapter 3. With scores
``s_c = log p(x, c)``, label y, competitors ``c != y``:

- likelihood:   ``s_y``; for an unlabeled row ``log sum_c exp s_c``, whose derivative is the class
  posterior (eq. 3.33-3.34)
- conditional:  ``s_y - log sum_c exp s_c``; an unlabeled row counts nothing
- margin:       ``-h(gamma - s_y + smax_{c != y} s_c)`` with the soft maximum
  ``smax t = log(sum exp(eta t)) / eta`` (eq. 3.19) and the soft hinge
  ``h(t) = 0, (t + eps)^2 / (4 eps), t`` below, within, above ``[-eps, eps]`` (eq. 3.17); its slope
  runs from 0 to 1 over that interval. With a ramp nu the loss stops growing: ``h(t) - h(t - nu)``.
  An unlabeled row counts nothing.
- hybrid:       likelihood + lambda * margin (eq. 3.35; 3.16 and 3.21 forget the logarithms that
  3.11 has)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from latentia.arrays.namespace import Array, log_softmax, logsumexp, namespace, one_hot, softmax
from latentia.engine.contracts import Objective

SOFT_HINGE = 0.1  # epsilon of eq. 3.17

SOFT_MAXIMUM = 10.0  # eta of eq. 3.19


@dataclass(frozen=True)
class Likelihood(Objective):
    """log p(x, y); log p(x) for unlabeled rows."""

    rises_under_em: ClassVar[bool] = True
    own_class_only: ClassVar[bool] = True
    is_density: ClassVar[bool] = True

    def __call__(self, log_joint: Array, y: Array) -> tuple[Array, Array]:
        xp = namespace(log_joint)
        own, known = _labels(log_joint, y)
        class_posterior = softmax(log_joint, axis=-2)
        value = xp.where(known, _own_score(log_joint, own), logsumexp(log_joint, axis=-2))
        return value, xp.where(known, own, class_posterior)


@dataclass(frozen=True)
class Conditional(Objective):
    """log p(y | x)."""

    def __call__(self, log_joint: Array, y: Array) -> tuple[Array, Array]:
        xp = namespace(log_joint)
        own, known = _labels(log_joint, y)
        class_posterior = softmax(log_joint, axis=-2)
        value = _own_score(log_softmax(log_joint, axis=-2), own)
        return (
            xp.where(known, value, xp.zeros_like(value)),
            xp.where(known, own - class_posterior, xp.zeros_like(class_posterior)),
        )


@dataclass(frozen=True)
class Margin(Objective):
    """Minus the soft hinge of the desired margin less the log ratio to the best competitor."""

    margin: float = 1.0
    ramp: float | None = None

    def __call__(self, log_joint: Array, y: Array) -> tuple[Array, Array]:
        xp = namespace(log_joint)
        own, known = _labels(log_joint, y)
        if log_joint.shape[-2] == 1:  # a single class has no competitor
            return xp.zeros_like(log_joint[..., 0, :]), xp.zeros_like(log_joint)
        scores = log_softmax(log_joint, axis=-2)  # differences are all that counts, and keep their digits
        rivals = xp.where(own > 0, xp.full_like(scores, -float("inf")), scores) * SOFT_MAXIMUM
        shortfall = self.margin - _own_score(scores, own) + logsumexp(rivals, axis=-2) / SOFT_MAXIMUM
        loss, slope = soft_hinge(shortfall)
        if self.ramp is not None:
            capped, capped_slope = soft_hinge(shortfall - self.ramp)
            loss, slope = loss - capped, slope - capped_slope
        competitors = softmax(rivals, axis=-2)
        none = xp.zeros_like(slope)
        loss, slope = xp.where(known, loss, none), xp.where(known, slope, none)
        return -loss, slope[..., None, :] * (own - competitors)

    @classmethod
    def examples(cls) -> list[Margin]:
        return [cls(margin=0.7), cls(margin=0.7, ramp=1.5)]


@dataclass(frozen=True)
class Hybrid(Objective):
    """Likelihood plus `trade_off` times the margin; unlabeled rows count in the likelihood."""

    is_density: ClassVar[bool] = True
    trade_off: float = 1.0
    margin: float = 1.0
    ramp: float | None = None

    def __call__(self, log_joint: Array, y: Array) -> tuple[Array, Array]:
        value, weight = Likelihood()(log_joint, y)
        margin_value, margin_weight = Margin(self.margin, self.ramp)(log_joint, y)
        return value + self.trade_off * margin_value, weight + self.trade_off * margin_weight

    @classmethod
    def examples(cls) -> list[Hybrid]:
        return [cls(trade_off=1.7, margin=0.7), cls(trade_off=1.7, margin=0.7, ramp=1.5)]


def soft_hinge(t: Array, width: float = SOFT_HINGE) -> tuple[Array, Array]:
    """The hinge with a parabola of half-width `width` at its kink; its slope (eq. 3.17, 3.18)."""
    xp = namespace(t)
    slope = xp.clip((t + width) / (2 * width), min=0.0, max=1.0)
    return xp.where(t > width, t, slope * slope * width), slope


def _labels(log_joint: Array, y: Array) -> tuple[Array, Array]:
    """Indicators (C, N) of the labels, and which rows have one."""
    return one_hot(y, log_joint.shape[-2], log_joint.dtype), y >= 0


def _own_score(log_joint: Array, own: Array) -> Array:
    xp = namespace(log_joint)
    return xp.sum(xp.where(own > 0, log_joint, xp.zeros_like(log_joint)), axis=-2)


#: Objectives by the names users give; each takes what it needs of trade-off, margin and ramp.
OBJECTIVES: dict[str, Callable[[float, float, float | None], Objective]] = {
    "likelihood": lambda trade_off, margin, ramp: Likelihood(),
    "conditional": lambda trade_off, margin, ramp: Conditional(),
    "margin": lambda trade_off, margin, ramp: Margin(margin, ramp),
    "hybrid": Hybrid,
}
