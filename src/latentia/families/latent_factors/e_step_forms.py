r"""The quadratics :math:`k + h^\top z - \tfrac12 z^\top Rz` that the columns of a row add up to,
and the posterior of z that they make of its prior (see `e_step_rows`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from latentia.arrays.linalg import pack, packed_outer, unpack, with_doubled_offdiagonal
from latentia.arrays.namespace import LOG_2PI, Array, eye_like, namespace, transpose
from latentia.arrays.small_systems import invert_many
from latentia.engine.rows import MaskedRows
from latentia.families.latent_factors.column_contract import Quadratic
from latentia.families.latent_factors.column_layout import ColumnLayout
from latentia.families.latent_factors.posterior import Uncertainty
from latentia.families.latent_factors.values import FactorParams


class RowForm(NamedTuple):
    """k + h'z - z'Rz/2 of each row; R packed. Some parts have one row where all rows share them."""

    precision: Any  # (..., C or 1, M, N, q(q+1)/2)
    linear: Any  # (..., C or 1, M, N, q)
    constant: Any  # (..., C or 1, M, N)


class LatentMoments(NamedTuple):
    """Mean and packed covariance of z. Rows may share either, so that it has one row."""

    mean: Array  # (..., C, M, N, q)
    cov: Array  # (..., C, M, N, q(q+1)/2)

    def averaged(self, class_probs: Array) -> LatentMoments:
        """Those of the mixture of the classes by probabilities (..., C, M, N)."""
        xp = namespace(self.mean)
        w = class_probs[..., None]
        mean = xp.sum(w * self.mean, axis=-4, keepdims=True)
        square = xp.sum(w * (self.cov + packed_outer(self.mean)), axis=-4, keepdims=True)
        return LatentMoments(mean, square - packed_outer(mean))


class LatentPrior(NamedTuple):
    """The prior of z, of each class for all rows, or of each row by its own class."""

    mean: Array  # (..., C, 1, 1 or N, q), where C is 1 if rows have their own classes
    root: Array  # (..., C, 1, 1 or N, q) standard deviations
    log_weight: Array  # (..., C, M, 1 or N) log p(c) p(m | c), and what the spread of the prior costs

    @classmethod
    def of(cls, params: FactorParams, uncertainty: Uncertainty | None, labels: Array | None) -> LatentPrior:
        """Of all classes, or of the `labels` (N,) of rows."""
        xp = namespace(params.means)
        mean, variance = params.means, params.variances
        log_weight = params.log_prior[..., None] + params.log_mix
        if uncertainty is not None:
            log_weight = log_weight + uncertainty.class_constant[..., None]
        if labels is None:
            return cls(mean[..., None, None, :], xp.sqrt(variance)[..., None, None, :], log_weight[..., None])
        mean, variance, log_weight = (xp.take(a, labels, axis=-2) for a in (mean, variance, log_weight))
        root = xp.sqrt(variance)
        return cls(mean[..., None, None, :, :], root[..., None, None, :, :], transpose(log_weight)[..., None, :, :])

    def move(self, moments: LatentMoments, old: LatentPrior) -> LatentMoments:
        """Moments under another prior, as they would be under this one if u had the same."""
        scale = self.root / old.root
        return LatentMoments(self.mean + scale * (moments.mean - old.mean), moments.cov * packed_outer(scale))

    @property
    def moments(self) -> LatentMoments:
        q = self.mean.shape[-1]
        return LatentMoments(self.mean, pack((self.root * self.root)[..., None] * eye_like(q, self.root)))


class ScoredLatents(NamedTuple):
    """The posterior of z, and the scores of the rows."""

    scores: Array  # (..., C, M, N) log joint of class, component and row
    mean: Array  # (..., C, M, N, q)
    cov: Array  # (..., C, M, N, q, q)

    @property
    def moments(self) -> LatentMoments:
        return LatentMoments(self.mean, pack(self.cov))


def posterior_of(form: RowForm, prior: LatentPrior) -> ScoredLatents:
    """Prior times quadratic, in the coordinates z = mu + Gamma^(1/2) u (see `e_step_rows`)."""
    xp = namespace(prior.mean)
    q = prior.mean.shape[-1]
    mu, root = prior.mean, prior.root
    scale = root[..., None] * root[..., None, :]
    R = unpack(form.precision, q)
    lean = xp.matmul(R, mu[..., None])[..., 0]
    A = eye_like(q, mu) + scale * R
    h = root * (form.linear - lean)
    cov, log_det = invert_many(A)
    u = xp.matmul(cov, h[..., None])[..., 0]
    # h'u - u'Au/2 is largest at the mean, so an error of u enters squared; h'u/2, its value there,
    # has it in full
    maximum = xp.sum((h - 0.5 * xp.matmul(A, u[..., None])[..., 0]) * u, axis=-1)
    at_mu = form.constant + xp.sum((form.linear - 0.5 * lean) * mu, axis=-1)
    scores = at_mu + maximum - 0.5 * log_det + prior.log_weight
    return ScoredLatents(scores, mu + root * u, scale * cov)


class WeightSpread(NamedTuple):
    """Of some predictors, the expected z~'V z~ = z'Pz + 2 l'z + c that their weights' spread adds
    to their squares.
    """

    square: Array  # (..., 1, M, H, q(q+1)/2) P, packed
    cross: Array  # (..., 1, M, H, q) l
    one: Array  # (..., 1, M, H) c

    @classmethod
    def of(cls, uncertainty: Uncertainty, index: slice, q: int) -> WeightSpread:
        V = uncertainty.weights[..., None, :, index, :]
        return cls(V[..., : -q - 1], V[..., -q - 1 : -1], V[..., -1])


def gaussian_form(
    layout: ColumnLayout, params: FactorParams, uncertainty: Uncertainty | None, rows: MaskedRows
) -> RowForm:
    """What the continuous columns add."""
    xp = namespace(params.loadings)
    G = layout.n_gaussian
    W, b = params.loadings[..., None, :, :G, :], params.offsets[..., None, :, :G]
    if not G:
        return RowForm(0.0, 0.0, 0.0)
    theta = params.noise[..., None, :, :]
    x, observed = layout.select_columns(layout.gaussian, rows)
    scaled = W / theta[..., None]
    square, shift = packed_outer(W) / theta[..., None], scaled * b[..., None]
    per_cell = -0.5 * (LOG_2PI + xp.log(theta) + b * b / theta)
    if uncertainty is not None:
        spread = WeightSpread.of(uncertainty, slice(None, G), W.shape[-1])
        square, shift = square + spread.square, shift + spread.cross
        per_cell = per_cell + uncertainty.cell_constant[..., None, :, :] - 0.5 * spread.one
    linear = xp.matmul(x, scaled)
    constant = xp.matmul(x, (b / theta)[..., None])[..., 0] - 0.5 * xp.matmul(x * x, (1.0 / theta)[..., None])[..., 0]
    if observed is None:  # all rows share their precision: it has one row
        linear = linear - xp.sum(shift, axis=-2, keepdims=True)
        constant = constant + xp.sum(per_cell, axis=-1, keepdims=True)
        return RowForm(xp.sum(square, axis=-2, keepdims=True), linear, constant)
    linear = linear - xp.matmul(observed, shift)
    return RowForm(xp.matmul(observed, square), linear, constant + xp.matmul(observed, per_cell[..., None])[..., 0])


class BoundedColumns:
    """The bounded columns of some rows: their bounds for given moments of z, and what these add."""

    def __init__(
        self, layout: ColumnLayout, params: FactorParams, uncertainty: Uncertainty | None, rows: MaskedRows
    ) -> None:
        G, q = layout.n_gaussian, params.means.shape[-1]
        self.models = layout.bounded_slices()
        self.cells = [layout.select_columns(model, rows) for model in layout.bounded]
        self.W, self.b = params.loadings[..., None, :, G:, :], params.offsets[..., None, :, None, G:]
        self.spread = None if uncertainty is None else WeightSpread.of(uncertainty, slice(G, None), q)
        self.square = packed_outer(self.W)
        if self.spread is not None:
            self.square = self.square + self.spread.square
        self.square_doubled = transpose(with_doubled_offdiagonal(self.square, q))

    def bound(self, moments: LatentMoments, warm_starts: list[dict[int, Array]] | None = None) -> Quadratic:
        """The best bounds; with warm starts, nearly the best, near those of earlier rounds."""
        mean, variance = self._predictors(moments)
        parts = []
        for k, ((model, index), cells) in enumerate(zip(self.models, self.cells, strict=True)):
            here = mean[..., index], variance[..., index]
            if not moments.mean.shape[-1]:
                parts.append(model.bound_without_latents(*cells, *here))
            elif warm_starts is None:
                parts.append(model.bound(*cells, *here))
            else:
                parts.append(model.bound_near(*cells, *here, warm_starts[k]))
        return self._side_by_side(parts, mean)

    def approximate_bound(self, moments: LatentMoments, warm_starts: list[dict[int, Array]]) -> Quadratic:
        """Bounds for intermediate rounds."""
        mean, variance = self._predictors(moments)
        parts = [
            model.approximate_bound(*cells, mean[..., index], variance[..., index], near)
            for (model, index), cells, near in zip(self.models, self.cells, warm_starts, strict=True)
        ]
        return self._side_by_side(parts, mean)

    def add_to(self, form: RowForm, quadratic: Quadratic) -> RowForm:
        """The quadratic in the predictors as one in z, added to that of the continuous columns."""
        xp = namespace(self.W)
        curvature, linear, constant = quadratic
        shift = curvature * self.b
        form = RowForm(
            form.precision + xp.matmul(curvature, self.square),
            form.linear + xp.matmul(linear - shift, self.W),
            form.constant + constant + xp.sum((linear - 0.5 * shift) * self.b, axis=-1),
        )
        if self.spread is None:
            return form
        return form._replace(
            linear=form.linear - xp.matmul(curvature, self.spread.cross),
            constant=form.constant - 0.5 * xp.matmul(curvature, self.spread.one[..., None])[..., 0],
        )

    def _predictors(self, moments: LatentMoments) -> tuple[Array, Array]:
        """Means and variances of the predictors."""
        xp = namespace(self.W)
        mean = xp.matmul(moments.mean, transpose(self.W)) + self.b
        variance = xp.matmul(moments.cov, self.square_doubled)
        if self.spread is not None:
            squares = with_doubled_offdiagonal(packed_outer(moments.mean), moments.mean.shape[-1])
            variance = variance + xp.matmul(squares, transpose(self.spread.square))
            variance = variance + 2 * xp.matmul(moments.mean, transpose(self.spread.cross))
            variance = variance + self.spread.one[..., None, :]
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
