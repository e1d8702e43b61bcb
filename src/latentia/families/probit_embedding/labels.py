r"""What a row's labels say about its latent position z: the fixed point of q(z) and q(t).

With posterior means :math:`\bar b_o, \bar w_o` and covariances :math:`C_o` of :math:`(b_o, w_o)`,
prior mean :math:`\mu = \bar Q^T x`, and the sum over known labels, refreshing :math:`q(t_o)` first
turns the row's bound into a function of the mean m of q(z) alone:

.. math::

   F(m) = -\frac{|m - \mu|^2}{2\sigma^2}
   + \sum_o \Big[\log\Phi(y_o \eta_o) - \tfrac12 (1, m) C_o (1, m)^T\Big]
   - \tfrac12\log|\sigma^2 A| - \frac{x^T (\sum_s \Sigma_s) x}{2\sigma^2},
   \qquad \eta_o = \bar w_o^T m + \bar b_o

with :math:`A = I/\sigma^2 + \sum_o E[w_o w_o^T]`, q(z) = N(m, A^{-1}). The paper's alternating
updates of q(t) and q(z) are the ascent :math:`m \leftarrow m + A^{-1} \nabla F`, as
:math:`-\nabla^2 F \le A`. F is strictly concave, so Newton's steps reach the same and only fixed
point, in a few rounds; a row that would get worse takes a shorter step.

With a margin (low-density separation) an unknown label is the set :math:`|t| > \nu`, and F may be
convex between its two sides; the curvature of a label is then taken as zero where it is negative.

Arrays have rows before latent dimensions here: m is (..., N, R).
"""

from __future__ import annotations

from typing import NamedTuple

from latentia.arrays.namespace import Array, DType, eye_like, namespace, transpose
from latentia.families.blocks.bounds import truncate

#: A row rests after a Newton step whose predicted gain was below this power of the rounding error,
#: from the prior mean or from a warm start. That step needs no second look: what is left out is of
#: third order in the value, and of second order in the means of t. A warm start is part of a
#: longer ascent, which goes on from there.
COLD_TOLERANCE, WARM_TOLERANCE = 0.75, 0.5

#: Newton steps of a row at most, and cuts of one step.
MAX_STEPS = MAX_CUTS = 60

#: A value that falls by more than this many rounding units has decreased.
MAX_DECREASE_UNITS = 64


class LabelSigns(NamedTuple):
    """Labels of rows, ready for use."""

    sign: Array  # (N, L): +1, -1, or 0 where unknown
    entry_counts: Array  # (N, L) or (1, L): ones where an entry takes part in the bound
    row_counts: Array  # (N,): ones for rows with an entry that takes part


class LabelWeightMoments(NamedTuple):
    """Moments of the label weights in the shapes the rows need."""

    intercept: Array  # (..., 1, L)
    weights: Array  # (..., R, L)
    outer: Array  # (..., L, R * R): w w' of the means
    weights_cov: Array  # (..., L, R * R): covariance of w
    cross_cov: Array  # (..., L, R): covariance of b and w
    intercept_var: Array  # (..., L, 1): variance of b


class LatentPosterior(NamedTuple):
    """Normal posteriors of the latent positions of rows."""

    mean: Array  # (..., N, R)
    precision: Array  # (..., N or 1, R, R): A
    value: Array  # (..., N): F without the log determinant and the variance of the projection
    target: Array  # (..., N, L): mean of t


def label_signs(y: Array, dtype: DType, low_density_separation: bool) -> LabelSigns:
    """From codes (N, L) of 0, 1, and -1 for unknown: these count under low-density separation."""
    xp = namespace(y)
    known = y >= 0
    sign = xp.astype(y > 0, dtype) - xp.astype(y == 0, dtype)
    if low_density_separation or bool(xp.all(known)):
        return LabelSigns(sign, xp.ones_like(sign[:1, :]), xp.ones_like(sign[:, 0]))
    counts = xp.astype(known, dtype)
    return LabelSigns(sign, counts, xp.max(counts, axis=1))


def label_weight_moments(mean: Array, covariance: Array) -> LabelWeightMoments:
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
    moments: LabelWeightMoments,
    prior_mean: Array,
    labels: LabelSigns,
    noise: float,
    margin: float = 0.0,
    warm_start: Array | None = None,
) -> LatentPosterior:
    """The fixed point of the rows, by Newton steps from their prior means or a warm start."""
    bound = _RowBound(moments, prior_mean, labels, noise, margin)
    xp = namespace(prior_mean)
    eps = float(xp.finfo(prior_mean.dtype).eps)
    tolerance = eps ** (COLD_TOLERANCE if warm_start is None else WARM_TOLERANCE)
    point = bound.at(prior_mean if warm_start is None else warm_start)
    active = xp.ones_like(point.value) > 0
    for _ in range(MAX_STEPS):
        step = bound.newton_step(point)
        # a row rests after its own last step: results do not depend on the rows beside it
        step = xp.where(active[..., None], step, xp.zeros_like(step))
        predicted_gain = xp.vecdot(step, point.gradient)
        active = predicted_gain > tolerance
        if bound.concave and not bool(xp.any(active)):
            point = bound.extrapolated(point, step, predicted_gain)
            break
        point = _line_search(bound, point, step, MAX_DECREASE_UNITS * eps)
        if not bool(xp.any(active)):
            break
    return LatentPosterior(point.mean, bound.precision, point.value, point.target)


class _Point(NamedTuple):
    """F and its derivatives at a mean of q(z)."""

    mean: Array  # (..., N, R)
    value: Array  # (..., N)
    gradient: Array  # (..., N, R)
    curvature: Array  # (..., N, L): of each label's term in eta, not below zero
    target: Array  # (..., N, L): mean of t


class _RowBound:
    """F of each row, without the terms that do not depend on m."""

    def __init__(self, moments: LabelWeightMoments, prior_mean: Array, labels: LabelSigns, noise: float, margin: float):
        xp = namespace(prior_mean)
        self.moments, self.prior_mean, self.labels = moments, prior_mean, labels
        self.noise, self.margin = noise, margin
        self.concave = margin == 0
        n_latent = prior_mean.shape[-1]
        shape = (*moments.weights_cov.shape[:-2], -1, n_latent, n_latent)
        counts = labels.entry_counts
        weights_cov = xp.reshape(xp.matmul(counts, moments.weights_cov), shape)  # sums over the labels
        self.prior_precision = eye_like(n_latent, prior_mean) / noise + weights_cov
        self.precision = self.prior_precision + xp.reshape(xp.matmul(counts, moments.outer), shape)
        self.cross_cov = xp.matmul(counts, moments.cross_cov)  # (..., N or 1, R)
        self.intercept_var = xp.matmul(counts, moments.intercept_var)[..., 0]
        self.rows_share_cov = weights_cov.shape[-3] == 1
        self.weights_cov = weights_cov[..., 0, :, :] if self.rows_share_cov else weights_cov

    def at(self, mean: Array) -> _Point:
        xp = namespace(mean)
        eta = xp.matmul(mean, self.moments.weights) + self.moments.intercept
        side = truncate(eta, self.labels.sign, self.margin)
        if self.rows_share_cov:
            cov_mean = xp.matmul(mean, self.weights_cov)
        else:
            cov_mean = xp.matmul(self.weights_cov, mean[..., None])[..., 0]
        residual = mean - self.prior_mean
        penalty = self.intercept_var + xp.vecdot(mean, cov_mean + 2 * self.cross_cov)
        penalty = penalty + xp.vecdot(residual, residual) / self.noise
        value = xp.sum(side.log_mass, axis=-1) - penalty / 2
        gradient = xp.matmul(side.slope, transpose(self.moments.weights))
        gradient = gradient - (cov_mean + self.cross_cov + residual / self.noise)
        # where the two sides of a margin pull apart F is convex, and Newton would go downhill
        curvature = side.curvature if self.concave else xp.clip(side.curvature, min=0.0)
        return _Point(mean, value, gradient, curvature, eta + side.slope)

    def newton_step(self, point: _Point) -> Array:
        xp = namespace(point.mean)
        n_latent = point.mean.shape[-1]
        of_labels = xp.reshape(xp.matmul(point.curvature, self.moments.outer), (*point.mean.shape, n_latent))
        return xp.linalg.solve(self.prior_precision + of_labels, point.gradient[..., None])[..., 0]

    def extrapolated(self, point: _Point, step: Array, predicted_gain: Array) -> _Point:
        """A small step ahead, by the derivatives here."""
        moved = namespace(step).matmul(step, self.moments.weights)
        return point._replace(
            mean=point.mean + step,
            value=point.value + predicted_gain / 2,
            target=point.target + (1 - point.curvature) * moved,
        )


def _line_search(bound: _RowBound, point: _Point, step: Array, max_decrease: float) -> _Point:
    """The point ahead; rows whose value would decrease take a shorter step."""
    xp = namespace(step)
    ahead = bound.at(point.mean + step)
    for _ in range(MAX_CUTS):
        decreased = ahead.value < point.value - max_decrease * (1 + xp.abs(point.value))
        if not bool(xp.any(decreased)):
            break
        step = xp.where(decreased[..., None], step / 4, step)
        ahead = bound.at(point.mean + step)
    return ahead
