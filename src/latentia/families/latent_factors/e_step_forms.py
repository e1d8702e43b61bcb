r"""The quadratics in u that the columns of a row add up to, and the bounds' fixed point.

In the coordinates of `e_step_rows`, a row's columns add up to :math:`k + h^\top u - \tfrac12
u^\top Ru`. Bounded columns take the bounds for the moments of their predictors, first under the
prior, or where the last sweep has ended, then under the posterior, until the curvatures settle
(Algorithm 1 of Langseth & Nielsen 2009). A bound that is off by a small step costs only the step's
square.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from latentia.engine.pytree import take_restarts, tree_map
from latentia.engine.source import MaskedRows
from latentia.families.latent_factors.column_contract import Quadratic
from latentia.families.latent_factors.column_layout import ColumnLayout
from latentia.families.latent_factors.posterior import Uncertainty
from latentia.families.latent_factors.values import FactorParams
from latentia.numerics.array_api import LOG_2PI, Array, eye_like, namespace, transpose
from latentia.numerics.linalg import spd_inverse
from latentia.numerics.packed_symmetric import pack, packed_outer, unpack, with_doubled_offdiagonal

#: Longest step beyond an iteration's image, in steps between images: with more, some rows
#: oscillate.
MAX_EXTRAPOLATION = 1.0


class RowForm(NamedTuple):
    """k + h'u - u'Ru/2 of each row; R packed. Some parts have one row where all rows share them."""

    precision: Any  # (..., N, q(q+1)/2)
    linear: Any  # (..., N, q)
    constant: Any  # (..., N)


class LatentMoments(NamedTuple):
    """Mean and packed covariance of u. Rows may share either, so that it has one row."""

    mean: Array  # (..., N, q)
    cov: Array  # (..., N, q(q+1)/2)


class WeightSpread(NamedTuple):
    """Of each predictor, the quadratic c + 2 l'u + u'Pu that its weights' spread adds to its
    square.

    Zero where the weights are known.
    """

    precision: Any  # (..., C, M, H, q(q+1)/2) P, packed
    linear: Any  # (..., C, M, H, q)
    constant: Any  # (..., C, M, H)

    @classmethod
    def of(cls, params: FactorParams, uncertainty: Uncertainty | None) -> WeightSpread:
        if uncertainty is None:
            return cls(0.0, 0.0, 0.0)
        xp = namespace(params.means)
        q = params.means.shape[-1]
        V = uncertainty.weights[..., None, :, :, :]
        square, cross, one = V[..., : -q - 1], V[..., -q - 1 : -1], V[..., -1]
        mu, root = params.means[..., :, None, None, :], xp.sqrt(params.variances)[..., :, None, None, :]
        shift = xp.matmul(unpack(square, q), mu[..., None])[..., 0] + cross  # V_zz mu + V_zb
        constant = xp.sum((shift + cross) * mu, axis=-1) + one
        return cls(square * packed_outer(root), root * shift, constant)

    @property
    def is_zero(self) -> bool:
        return isinstance(self.constant, float)

    def first(self, G: int) -> WeightSpread:
        """That of the continuous predictors."""
        return self if self.is_zero else WeightSpread(*(self._cut(slice(None, G))))

    def rest(self, G: int) -> WeightSpread:
        """That of the bounded ones."""
        return self if self.is_zero else WeightSpread(*(self._cut(slice(G, None))))

    def _cut(self, index: slice) -> tuple[Array, Array, Array]:
        return self.precision[..., index, :], self.linear[..., index, :], self.constant[..., index]


def gaussian_form(
    layout: ColumnLayout, K: Array, a0: Array, theta: Array, rows: MaskedRows, spread: WeightSpread, cells: Any
) -> RowForm:
    """What the continuous columns add; `cells` is added for each known cell."""
    xp = namespace(K)
    if not layout.n_gaussian:
        return RowForm(0.0, 0.0, 0.0)
    x, observed = layout.select_columns(layout.gaussian, rows)
    scaled = K / theta[..., None]
    square = packed_outer(K) / theta[..., None] + spread.precision
    linear = xp.matmul(x, scaled)
    shift = scaled * a0[..., None] + spread.linear
    per_cell = cells - 0.5 * (LOG_2PI + xp.log(theta) + a0 * a0 / theta + spread.constant)
    constant = xp.matmul(x, (a0 / theta)[..., None])[..., 0] - 0.5 * xp.matmul(x * x, (1.0 / theta)[..., None])[..., 0]
    if observed is None:  # all rows share their precision: it has one row
        linear = linear - xp.sum(shift, axis=-2, keepdims=True)
        constant = constant + xp.sum(per_cell, axis=-1, keepdims=True)
        return RowForm(xp.sum(square, axis=-2, keepdims=True), linear, constant)
    linear = linear - xp.matmul(observed, shift)
    return RowForm(xp.matmul(observed, square), linear, constant + xp.matmul(observed, per_cell[..., None])[..., 0])


class BoundedColumns:
    """The bounded columns of some rows: their bounds for given moments of u, and what these add."""

    def __init__(self, layout: ColumnLayout, K: Array, a0: Array, rows: MaskedRows, spread: WeightSpread):
        self.models = layout.bounded_slices()
        self.cells = [layout.select_columns(model, rows) for model in layout.bounded]
        self.warm_starts: list[dict[int, Array]] = [{} for _ in layout.bounded]
        self.K, self.a0 = K, a0
        self.spread = spread
        self.K2 = packed_outer(K) + spread.precision
        self.K2_doubled = transpose(with_doubled_offdiagonal(self.K2, K.shape[-1]))

    def bound(self, moments: LatentMoments) -> Quadratic:
        """The best bounds."""
        mean, variance = self._predictors(moments)
        return self._side_by_side(
            [
                model.bound(*cells, mean[..., index], variance[..., index])
                for (model, index), cells in zip(self.models, self.cells, strict=True)
            ],
            mean,
        )

    def keep_centers(self, old: list[dict[int, Array]], settled: Array) -> None:
        """Undo what the last bounds have left for the next ones, where rows have settled (...,
        N).
        """
        for before, now in zip(old, self.warm_starts, strict=True):
            for key, center in before.items():
                now[key] = namespace(center).where(settled[..., None, :], center, now[key])

    def approximate_bound(self, moments: LatentMoments) -> Quadratic:
        """Bounds for intermediate iterations."""
        mean, variance = self._predictors(moments)
        return self._side_by_side(
            [
                model.approximate_bound(*cells, mean[..., index], variance[..., index], warm_start)
                for (model, index), cells, warm_start in zip(self.models, self.cells, self.warm_starts, strict=True)
            ],
            mean,
        )

    def add_to(self, form: RowForm, quadratic: Quadratic) -> RowForm:
        """The quadratic in the predictors as one in u, added to that of the continuous columns."""
        xp = namespace(self.K)
        curvature, linear, constant = quadratic
        shift = curvature * self.a0
        form = RowForm(
            form.precision + xp.matmul(curvature, self.K2),
            form.linear + xp.matmul(linear - shift, self.K),
            form.constant + constant + xp.sum((linear - 0.5 * shift) * self.a0, axis=-1),
        )
        if self.spread.is_zero:
            return form
        return form._replace(
            linear=form.linear - xp.matmul(curvature, self.spread.linear),
            constant=form.constant - 0.5 * xp.matmul(curvature, self.spread.constant[..., None])[..., 0],
        )

    def _predictors(self, moments: LatentMoments) -> tuple[Array, Array]:
        """Means and variances of the predictors."""
        xp = namespace(self.K)
        mean = xp.matmul(moments.mean, transpose(self.K)) + self.a0
        variance = xp.matmul(moments.cov, self.K2_doubled)
        if not self.spread.is_zero:
            squares = with_doubled_offdiagonal(packed_outer(moments.mean), moments.mean.shape[-1])
            variance = variance + xp.matmul(squares, transpose(self.spread.precision))
            variance = variance + 2 * xp.matmul(moments.mean, transpose(self.spread.linear))
            variance = variance + self.spread.constant[..., None, :]
        return mean, xp.clip(variance, min=0.0)

    def _side_by_side(self, parts: list[Quadratic], mean: Array) -> Quadratic:
        if len(parts) == 1:
            return parts[0]
        xp = namespace(mean)
        # under the prior all rows share a curvature, and linear coefficients lack the leading axes
        shape = (*mean.shape[:-2], max(part.linear.shape[-2] for part in parts))

        def joined(arrays: list[Array]) -> Array:
            return xp.concat([xp.broadcast_to(a, (*shape, a.shape[-1])) for a in arrays], axis=-1)

        constant = sum(part.constant for part in parts)
        return Quadratic(joined([p.curvature for p in parts]), joined([p.linear for p in parts]), constant)


class SettledBounds(NamedTuple):
    """Where the bounds of some rows came to rest."""

    moments: LatentMoments
    warm_starts: list[dict[int, Array]]
    curvature: Array | None  # of the last round

    def take_restarts(self, index: np.ndarray) -> SettledBounds:
        """Those of some restarts."""
        n_restarts = self.moments.mean.shape[0]

        def take(a: Array) -> Array:
            return take_restarts(a, index.tolist()) if a.shape[0] == n_restarts else a  # else shared by all

        return SettledBounds(
            tree_map(take, self.moments),
            [{key: take(center) for key, center in warm_start.items()} for warm_start in self.warm_starts],
            None if self.curvature is None else take(self.curvature),
        )


def settle_bounds(
    bounded: BoundedColumns, form: RowForm, moments: LatentMoments, previous: Array | None, tol: float, max_rounds: int
) -> SettledBounds:
    """The moments of u that its bounds lead to, each row until its curvatures settle.

    `previous` has the curvatures that the start has led to, if they are known.
    """
    xp = namespace(moments.mean)
    q = moments.mean.shape[-1]
    extrapolate = _Extrapolation() if previous is None else _plain_step
    settled: Array | None = None
    for _ in range(max_rounds):
        centers = [dict(warm_start) for warm_start in bounded.warm_starts]
        quadratic = bounded.approximate_bound(moments)
        curvature = quadratic.curvature
        _, _, cov, u = posterior_moments(bounded.add_to(form, quadratic), q)
        proposal = extrapolate(moments, LatentMoments(u, pack(cov)))
        was_settled = settled
        if previous is not None:
            change = xp.abs(curvature - previous)
            unchanged = xp.all(change <= tol * curvature, axis=-1, keepdims=True)
            settled = unchanged if settled is None else settled | unchanged
        if was_settled is not None:  # a settled row stays, whatever others need: rows do not depend on each other
            proposal = LatentMoments(
                *(xp.where(was_settled, old, new) for old, new in zip(moments, proposal, strict=True))
            )
            curvature = xp.where(was_settled, previous, curvature)
            bounded.keep_centers(centers, was_settled[..., 0])
        moments, previous = proposal, curvature
        if settled is not None and bool(xp.all(settled)):
            break
    return SettledBounds(moments, bounded.warm_starts, previous)


def _plain_step(point: LatentMoments, image: LatentMoments) -> LatentMoments:
    """The next point of an iteration that is not to overshoot."""
    return image


class _Extrapolation:
    """Where a fixed-point iteration tends to, by its last two steps, each row by itself.

    Anderson's method of depth one, judged by the means.
    """

    def __init__(self) -> None:
        self.image: LatentMoments | None = None
        self.step: Array = None

    def __call__(self, point: LatentMoments, image: LatentMoments) -> LatentMoments:
        """The next point to try, after `point` went to `image`."""
        xp = namespace(point.mean)
        last_image, last_step = self.image, self.step
        self.image, self.step = image, image.mean - point.mean
        if last_image is None:
            return image
        change = self.step - last_step
        square = xp.sum(change * change, axis=-1, keepdims=True)
        along = xp.sum(self.step * change, axis=-1, keepdims=True)
        factor = along / xp.where(square > 0, square, xp.ones_like(square))
        factor = xp.clip(factor, min=-MAX_EXTRAPOLATION, max=0.0)
        return tree_map(lambda new, old: new - factor * (new - old), image, last_image)


def posterior_moments(form: RowForm, q: int) -> tuple[Array, Array, Array, Array]:
    """Precision of u and its log determinant, covariance and mean of u."""
    xp = namespace(form.linear)
    A = unpack(form.precision + pack(eye_like(q, form.linear)), q)
    cov, log_det = spd_inverse(A, many=True)
    return A, log_det, cov, xp.matmul(cov, form.linear[..., None])[..., 0]
