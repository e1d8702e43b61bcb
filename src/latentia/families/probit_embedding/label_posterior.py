r"""What a row's labels say about its place in the embedding: the fixed point of q(z) and q(t).

With posterior means :math:`\bar b_o, \bar w_o` and covariances :math:`C_o` of :math:`(b_o, w_o)`, prior mean :math:`\mu = \bar Q^T x`, and the
sum over known labels, refreshing :math:`q(t_o)` first turns the row's bound into a function of the mean m of q(z) alone:

.. math:: F(m) = -\frac{|m - \mu|^2}{2\sigma^2} + \sum_o \Big[\log\Phi(y_o \eta_o) - \tfrac12 (1, m) C_o (1, m)^T\Big]
   - \tfrac12\log|\sigma^2 A| - \frac{\mathrm{spread}}{2\sigma^2}, \qquad \eta_o = \bar w_o^T m + \bar b_o

with :math:`A = I/\sigma^2 + \sum_o E[w_o w_o^T]`, q(z) = N(m, A^{-1}). The paper's alternating updates of q(t) and q(z) are the ascent
:math:`m \leftarrow m + A^{-1} \nabla F`, as :math:`-\nabla^2 F \le A`. F is strictly concave, so Newton's steps reach the same and only fixed point, in a few rounds;
a row that would get worse takes a shorter step. Arrays have rows before latent dimensions here: m is (..., N, R).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from latentia.families.building_blocks.truncated_normal import truncate
from latentia.numerics.array_api import Array, eye_like, namespace, transpose

#: A row rests after a Newton step that promised a smaller gain than this power of the rounding error. That step needs no second look: what is left out is of
#: third order in the value, and of second order in the means of t. A warm start is part of a longer ascent, which goes on from there.
COLD, WARM = 0.75, 0.5


MAX_ROUNDS = 60


class Labels(NamedTuple):
    """Labels of some rows, ready for use."""

    sign: Array  # (N, L): +1, -1, or 0 where unknown
    counted: Array  # (N, L) or (1, L): ones where an entry takes part in the bound
    used: Array  # (N,): ones for rows with an entry that takes part


class LabelWeightMoments(NamedTuple):
    """Moments of the label weights in the shapes the rows need."""

    intercept: Array  # (..., 1, L)
    weights: Array  # (..., R, L)
    outer: Array  # (..., L, R * R): w w' of the means
    cov_square: Array  # (..., L, R * R): covariance of w
    cov_cross: Array  # (..., L, R): covariance of b and w
    cov_bias: Array  # (..., L, 1): variance of b


class Places(NamedTuple):
    """Where rows lie in the embedding."""

    mean: Array  # (..., N, R)
    precision: Array  # (..., N or 1, R, R): A
    value: Array  # (..., N): F without the log determinant and the spread
    target: Array  # (..., N, L): mean of t


def label_signs(y: Array, dtype: Any, separate: bool) -> Labels:
    """Codes (N, L) of 0, 1, and -1 for unknown."""
    xp = namespace(y)
    known = xp.astype(y >= 0, dtype)
    sign = known * (2 * xp.astype(y > 0, dtype) - 1)
    if separate or bool(xp.all(y >= 0)):
        everything = xp.ones_like(known)
        return Labels(sign, everything[:1, :], everything[:, 0])
    return Labels(sign, known, xp.max(known, axis=1))


def classifiers(mean: Array, covariance: Array) -> LabelWeightMoments:
    """From means (..., L, 1 + R) and covariances of (b, w)."""
    xp = namespace(mean)
    w = mean[..., 1:]
    n_latent = w.shape[-1]
    square = (*w.shape[:-1], n_latent * n_latent)
    return LabelWeightMoments(
        mean[..., None, :, 0],
        transpose(w),
        xp.reshape(w[..., :, None] * w[..., None, :], square),
        xp.reshape(covariance[..., 1:, 1:], square),
        covariance[..., 0, 1:],
        covariance[..., 0, :1],
    )


def infer_latents(
    c: LabelWeightMoments,
    prior_mean: Array,
    labels: Labels,
    noise: float,
    margin: float,
    separate: bool,
    start: Array | None,
) -> Places:
    """The fixed point of the rows, from their prior means or a warm start."""
    xp = namespace(prior_mean)
    n_latent = prior_mean.shape[-1]
    eye = eye_like(n_latent, prior_mean) / noise
    shape = (*c.cov_square.shape[:-2], -1, n_latent, n_latent)
    extra = xp.reshape(xp.matmul(labels.counted, c.cov_square), shape)
    base = eye + extra
    precision = base + xp.reshape(xp.matmul(labels.counted, c.outer), shape)
    shift = xp.matmul(labels.counted, c.cov_cross)  # (..., N or 1, R)
    bias = xp.matmul(labels.counted, c.cov_bias)[..., 0]

    shared = extra.shape[-3] == 1
    if shared:
        extra = extra[..., 0, :, :]

    def look(m: Array) -> tuple[Array, Array, Array, Array]:
        """F, its slope, the curvatures of the labels, and the means of t."""
        eta = xp.matmul(m, c.weights) + c.intercept
        truth = truncate(eta, labels.sign, margin, separate)
        pulled = xp.matmul(m, extra) if shared else xp.matmul(extra, m[..., None])[..., 0]
        away = m - prior_mean
        lost = bias + xp.vecdot(m, pulled + 2 * shift) + xp.vecdot(away, away) / noise
        value = xp.sum(truth.log_mass, axis=-1) - lost / 2
        slope = xp.matmul(truth.slope, back) - (pulled + shift + away / noise)
        return value, slope, truth.curvature, eta + truth.slope

    back = transpose(c.weights)
    mean = prior_mean if start is None else start
    value, slope, bent, target = look(mean)
    unit = float(xp.finfo(prior_mean.dtype).eps)
    enough = unit ** (COLD if start is None else WARM)
    active = xp.ones_like(value) > 0
    for _ in range(MAX_ROUNDS):
        if separate:  # where the two sides pull apart F is convex, and Newton would go downhill
            bent = xp.clip(bent, min=0.0)
        curvature = base + xp.reshape(xp.matmul(bent, c.outer), (*mean.shape, n_latent))
        step = xp.linalg.solve(curvature, slope[..., None])[..., 0]
        # a row rests after its own last step, whatever the others do: results do not depend on the rows beside it
        step = xp.where(active[..., None], step, xp.zeros_like(step))
        promise = xp.vecdot(step, slope)
        active = promise > enough
        if not separate and not bool(xp.any(active)):
            mean, value = mean + step, value + promise / 2
            target = target + (1 - bent) * xp.matmul(step, c.weights)
            break
        ahead = look(mean + step)
        for _ in range(MAX_ROUNDS):
            worse = ahead[0] < value - 64 * unit * (1 + xp.abs(value))
            if not bool(xp.any(worse)):
                break
            step = xp.where(worse[..., None], step / 4, step)
            ahead = look(mean + step)
        mean = mean + step
        value, slope, bent, target = ahead
        if not bool(xp.any(active)):
            break
    return Places(mean, precision, value, target)
