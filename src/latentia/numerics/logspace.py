"""Sums and softmaxes of logarithms: one implementation each."""

from __future__ import annotations

import math

import numpy as np

from latentia.numerics.array_api import Array, namespace


def logsumexp(a: Array, axis: int) -> Array:
    """Log of the summed exponentials along an axis; -inf where every entry is -inf."""
    xp = namespace(a)
    top = xp.max(a, axis=axis, keepdims=True)
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    total = xp.sum(exp_flush_underflow(a - top), axis=axis, keepdims=True)
    return xp.squeeze(top + safe_log(total), axis=axis)


def log_softmax(a: Array, axis: int) -> Array:
    """`a` less its log-sum-exp along an axis; the exponentials add up to one however far from zero
    `a` lies.
    """
    xp = namespace(a)
    top = xp.max(a, axis=axis, keepdims=True)
    a = a - xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    return a - safe_log(xp.sum(exp_flush_underflow(a), axis=axis, keepdims=True))


def softmax(a: Array, axis: int) -> Array:
    """Exponentials along an axis, divided by their sum; they add up to one however far from zero
    `a` lies.
    """
    xp = namespace(a)
    top = xp.max(a, axis=axis, keepdims=True)
    unnormalized = exp_flush_underflow(a - xp.where(xp.isfinite(top), top, xp.zeros_like(top)))
    return unnormalized / xp.sum(unnormalized, axis=axis, keepdims=True)


def exp_flush_underflow(log_prob: Array) -> Array:
    """Exponentials of numbers up to zero; those below about 1e-292 (in float32 1e-31) are exactly
    zero.

    Processors take up to fifty times as long over an exponential that underflows, and far from all
    components but one they all do.
    """
    return _exp_flush_underflow(log_prob, in_place=False)


def _exp_flush_underflow(log_prob: Array, in_place: bool) -> Array:
    xp = namespace(log_prob)
    minimum = MIN_LOG_FLOAT32 if log_prob.dtype == xp.float32 else MIN_LOG
    on_numpy = isinstance(log_prob, np.ndarray)
    into = {"out": log_prob} if in_place and on_numpy else {}
    if on_numpy and log_prob.size and log_prob.min() >= minimum:
        return xp.exp(log_prob, **into)
    prob = xp.exp(xp.clip(log_prob, min=minimum, **into), **into)
    prob -= math.exp(minimum)
    return prob


#: Logarithms so far above that of the smallest normal number that differences of exponentials are
#: normal too.
MIN_LOG = float(np.log(np.finfo(np.float64).smallest_normal / np.finfo(np.float64).eps))

MIN_LOG_FLOAT32 = float(np.log(np.finfo(np.float32).smallest_normal / np.finfo(np.float32).eps))


def safe_log(a: Array) -> Array:
    """Logarithm that is silent at zero."""
    xp = namespace(a)
    positive = a > 0
    return xp.where(positive, xp.log(xp.where(positive, a, xp.ones_like(a))), xp.full_like(a, -math.inf))


def logsumexp_and_unnormalized(a: Array, axis: int) -> tuple[Array, Array, Array]:
    """The log-sum-exp along an axis, exponentials up to a factor, and their sum; overwrites `a`."""
    xp = namespace(a)
    top = xp.max(a, axis=axis, keepdims=True)
    a -= top
    unnormalized = _exp_flush_underflow(a, in_place=True)
    total = xp.sum(unnormalized, axis=axis)
    return xp.squeeze(top, axis=axis) + xp.log(total), unnormalized, total


def logsumexp_and_softmax(a: Array, axis: int) -> tuple[Array, Array]:
    """The log-sum-exp along an axis, and the normalized exponentials; overwrites `a`."""
    log_sum, probs, total = logsumexp_and_unnormalized(a, axis)
    probs /= namespace(a).expand_dims(total, axis=axis)
    return log_sum, probs
