r"""Rows with gaps or bounded columns: each row has its own Gaussian posterior of the latents.

In the coordinates :math:`z = \mu + \Gamma^{1/2}u`, :math:`u \sim N(0, I)` of its class, a row's heads are :math:`a_0 + Ku` with :math:`K = W\Gamma^{1/2}`,
:math:`a_0 = W\mu + b`, and its columns add up to the quadratic :math:`k + h^\top u - \tfrac12 u^\top Ru`. So u has the precision :math:`A = I + R`, which is well conditioned even where
a variance is nearly zero, and the integral over u is :math:`k + \tfrac12 h^\top A^{-1}h - \tfrac12\ln|A|`. The precisions of all rows are one product of curvatures with
the packed :math:`KK^\top` of the heads; the variances of all heads are one product of the packed posterior covariances with the same matrix.

The bounds are placed by the moments of the heads, first under the prior, then under the posterior, until the curvatures settle (Algorithm 1 of Langseth & Nielsen
2009). A bound that is off by a small step costs only the step's square.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from latentia.engine.contracts import MaskedRows
from latentia.engine.pytree import tree_map
from latentia.families.latent_factors.column_models import ColumnLayout, Quadratic
from latentia.numerics.array_api import LOG_2PI, Array, eye_like, namespace, transpose
from latentia.numerics.linalg import spd_inverse
from latentia.numerics.packed_symmetric import pack, packed_outer, unpack, with_doubled_offdiagonal

FARTHEST = 1.0  # step beyond a round's image, in steps between images: more makes few rounds fewer and some rows swing


class RowPosterior(NamedTuple):
    """The latents of each row given class and component."""

    scores: Array  # (..., C, M, N) log joint of class, component and row
    mean: Array  # (..., C, M, N, q)
    cov: Array  # (..., C, M, N, q, q)
    quadratic: Quadratic | None  # of the bounded heads, (..., C, M, N, H)


class _Form(NamedTuple):
    """k + h'u - u'Ru/2 of each row; R packed. Some parts have one row where all rows share them."""

    precision: Any  # (..., N, q(q+1)/2)
    linear: Any  # (..., N, q)
    constant: Any  # (..., N)


def infer_rows(layout: ColumnLayout, params: Any, rows: MaskedRows, tol: float, max_rounds: int) -> RowPosterior:
    """Posterior of z for every row, class and component, with the bounds at their fixed point."""
    xp = namespace(params.loadings)
    G, q, n_rows = layout.n_gaussian, params.means.shape[-1], rows.values.shape[0]
    root = xp.sqrt(params.variances)[..., :, None, None, :]
    loadings = params.loadings[..., None, :, :, :]
    K = loadings * root  # (..., C, M, H, q)
    a0 = xp.matmul(loadings, params.means[..., :, None, :, None])[..., 0] + params.offsets[..., None, :, :]
    form = fixed = _gaussian_form(layout, K[..., :G, :], a0[..., :G], params.noise[..., None, :, :], rows)
    quadratic = None
    if layout.n_bounded:
        K, a0 = K[..., G:, :], a0[..., None, G:]
        K2 = packed_outer(K)
        K2_doubled = transpose(with_doubled_offdiagonal(K2, q))
        known = [layout.cells_of(kind, rows) for kind in layout.bounded]
        place = _Place(xp.zeros_like(root), pack(eye_like(q, root))[None, :])
        memories: list[dict[int, Array]] = [{} for _ in layout.bounded]
        extrapolate = _Extrapolation()
        previous: Array | None = None
        settled: Array | None = None
        for _ in range(max_rounds - 1):
            quadratic = _bound(layout, known, *_moments(place, K, K2_doubled, a0), memories)
            _, _, cov, u = _posterior(_add(fixed, quadratic, K, K2, a0), q)
            going = extrapolate(place, _Place(u, pack(cov)))
            if settled is not None:  # a settled row stays, whatever others need: rows do not depend on each other
                going = _Place(*(xp.where(settled, old, new) for old, new in zip(place, going, strict=True)))
            if previous is not None:
                change = xp.abs(quadratic.curvature - previous)
                still = xp.all(change <= tol * quadratic.curvature, axis=-1, keepdims=True)
                settled = still if settled is None else settled | still
            place, previous = going, quadratic.curvature
            if settled is not None and bool(xp.all(settled)):
                break
        quadratic = _bound(layout, known, *_moments(place, K, K2_doubled, a0), None)
        form = _add(fixed, quadratic, K, K2, a0)
    A, log_det, cov, u = _posterior(form, q)
    # h'u - u'Au/2 is largest at the mean, so an error of u enters squared; h'u/2, its value there, has it in full
    pulled = xp.sum((form.linear - 0.5 * xp.matmul(A, u[..., None])[..., 0]) * u, axis=-1)
    scores = form.constant + pulled - 0.5 * log_det
    scores = scores + params.log_prior[..., :, None, None] + params.log_mix[..., None]
    shape = (*scores.shape[:-1], n_rows)
    mean = xp.broadcast_to(params.means[..., :, None, None, :] + root * u, (*shape, q))
    cov = xp.broadcast_to(root[..., None] * cov * root[..., None, :], (*shape, q, q))
    return RowPosterior(xp.broadcast_to(scores, shape), mean, cov, quadratic)


def _gaussian_form(layout: ColumnLayout, K: Array, a0: Array, theta: Array, rows: MaskedRows) -> _Form:
    """What the continuous columns add."""
    xp = namespace(K)
    if not layout.n_gaussian:
        return _Form(0.0, 0.0, 0.0)
    x, seen = layout.cells_of(layout.gaussian, rows)
    scaled = K / theta[..., None]
    square = packed_outer(K) / theta[..., None]
    linear = xp.matmul(x, scaled)
    per_cell = -0.5 * (LOG_2PI + xp.log(theta) + a0 * a0 / theta)
    constant = xp.matmul(x, (a0 / theta)[..., None])[..., 0] - 0.5 * xp.matmul(x * x, (1.0 / theta)[..., None])[..., 0]
    if seen is None:  # all rows share their precision: it has one row
        linear = linear - xp.sum(scaled * a0[..., None], axis=-2, keepdims=True)
        return _Form(
            xp.sum(square, axis=-2, keepdims=True), linear, constant + xp.sum(per_cell, axis=-1, keepdims=True)
        )
    linear = linear - xp.matmul(seen, scaled * a0[..., None])
    return _Form(xp.matmul(seen, square), linear, constant + xp.matmul(seen, per_cell[..., None])[..., 0])


class _Place(NamedTuple):
    """Mean and packed covariance of u. Rows may share either, so that it has one row."""

    mean: Array  # (..., N, q)
    cov: Array  # (..., N, q(q+1)/2)


def _moments(place: _Place, K: Array, K2_doubled: Array, a0: Array) -> tuple[Array, Array]:
    """Means and variances of the heads."""
    xp = namespace(K)
    return xp.matmul(place.mean, transpose(K)) + a0, xp.clip(xp.matmul(place.cov, K2_doubled), min=0.0)


class _Extrapolation:
    """Where a fixed-point iteration heads for, by its last two steps, each row by itself (Anderson's method of depth one, judged by the means)."""

    def __init__(self) -> None:
        self.image: _Place | None = None
        self.step: Array = None

    def __call__(self, place: _Place, image: _Place) -> _Place:
        """The next place to try, after `place` went to `image`."""
        xp = namespace(place.mean)
        last_image, last_step = self.image, self.step
        self.image, self.step = image, image.mean - place.mean
        if last_image is None:
            return image
        change = self.step - last_step
        square = xp.sum(change * change, axis=-1, keepdims=True)
        along = xp.sum(self.step * change, axis=-1, keepdims=True)
        share = xp.clip(along / xp.where(square > 0, square, xp.ones_like(square)), min=-FARTHEST, max=0.0)
        return tree_map(lambda new, old: new - share * (new - old), image, last_image)


def _bound(
    layout: ColumnLayout, known: list, heads: Array, spread: Array, memories: list[dict[int, Array]] | None
) -> Quadratic:
    """The quadratics of all bounded columns side by side; with memories, rough ones."""
    xp = namespace(heads)
    parts, first = [], 0
    for k, (kind, (values, observed)) in enumerate(zip(layout.bounded, known, strict=True)):
        own = slice(first, first + kind.n_heads)
        moments = heads[..., own], spread[..., own]
        parts.append(
            kind.bound(values, observed, *moments)
            if memories is None
            else kind.approximate_bound(values, observed, *moments, memories[k])
        )
        first += kind.n_heads
    if len(parts) == 1:  # small pieces: under the prior all rows share a curvature, and slopes lack the leading axes
        return parts[0]
    n_rows = max(part.slope.shape[-2] for part in parts)
    shape = (*heads.shape[:-2], n_rows)
    return Quadratic(
        xp.concat([xp.broadcast_to(p.curvature, (*shape, p.curvature.shape[-1])) for p in parts], axis=-1),
        xp.concat([xp.broadcast_to(p.slope, (*shape, p.slope.shape[-1])) for p in parts], axis=-1),
        sum(p.constant for p in parts),
    )


def _add(fixed: _Form, quadratic: Quadratic, K: Array, K2: Array, a0: Array) -> _Form:
    """The quadratic in the heads as one in u, added to the continuous columns' own."""
    xp = namespace(K)
    curvature, slope, constant = quadratic
    pull = curvature * a0
    return _Form(
        fixed.precision + xp.matmul(curvature, K2),
        fixed.linear + xp.matmul(slope - pull, K),
        fixed.constant + constant + xp.sum((slope - 0.5 * pull) * a0, axis=-1),
    )


def _posterior(form: _Form, q: int) -> tuple[Array, Array, Array, Array]:
    """Precision, its log determinant, covariance and mean of u."""
    xp = namespace(form.linear)
    A = unpack(form.precision + pack(eye_like(q, form.linear)), q)
    cov, log_det = spd_inverse(A)
    return A, log_det, cov, xp.matmul(cov, form.linear[..., None])[..., 0]
