r"""E-step of complete continuous rows: all rows of a class and component share the covariance of z.

In the coordinates of `e_step_rows`, the quadratic :math:`k + h^\top u - \tfrac12 u^\top Ru` of a
row has the same R for all rows, and an h that is linear in x. With :math:`A = I + R`,
:math:`W^\top W = A^{-1}` and the *whitened* latents :math:`v = Wh = Gx + g`, the log joint is

.. math:: c + l^\top x - \tfrac12 \sum_i x_i^2 / \theta_i + \tfrac12 |v|^2 ,

and z given x has the mean :math:`\mu + Tv` and the covariance :math:`TT^\top`. So a sweep is a
product with G and its transpose, and sums over v. It is also linear in :math:`\Phi(x) = (x_i x_j,
x, 1)`, and every expected statistic is a function of the weighted sums of :math:`\Phi`: where the
weights of rows never change, these are all that is needed (`class_moments`).
"""

from __future__ import annotations

from typing import NamedTuple

from latentia.arrays.linalg import (
    pack,
    params_at_rows,
    spd_inverse_root,
    unpack,
    weighted_row_sums,
    with_doubled_offdiagonal,
)
from latentia.arrays.namespace import LOG_2PI, Array, eye_like, namespace, transpose
from latentia.engine.rows import MaskedRows
from latentia.families.latent_factors.column_layout import ColumnLayout
from latentia.families.latent_factors.e_step_forms import WeightSpread
from latentia.families.latent_factors.posterior import Uncertainty
from latentia.families.latent_factors.values import FactorParams, FactorStats


class RowInvariantPosterior(NamedTuple):
    """Of each class and component: what makes score and posterior of a row from its cells."""

    gain: Array  # (..., C, M, q, n) G
    offset: Array  # (..., C, M, q) g
    back: Array  # (..., C, M, q, q) T
    means: Array  # (..., C, 1, q) mu
    square: Array  # (..., 1, M or 1, n) coefficients of x^2
    linear: Array  # (..., C, M, n) coefficients of x
    constant: Array  # (..., C, M)

    @property
    def natural(self) -> Array:
        """Coefficients (..., C, M, F) of the log joint in the features of a row."""
        xp = namespace(self.gain)
        n = self.gain.shape[-1]
        G_t = transpose(self.gain)
        matrix = 0.5 * xp.matmul(G_t, self.gain) + self.square[..., None] * eye_like(n, self.gain)
        linear = self.linear + xp.matmul(G_t, self.offset[..., None])[..., 0]
        constant = self.constant + 0.5 * xp.sum(self.offset * self.offset, axis=-1)
        return xp.concat([with_doubled_offdiagonal(pack(matrix), n), linear, constant[..., None]], axis=-1)


def row_invariant_posterior(params: FactorParams, uncertainty: Uncertainty | None = None) -> RowInvariantPosterior:
    """Log density and posterior of z of each class and component, as functions of x."""
    xp = namespace(params.loadings)
    mu, root = params.means[..., :, None, :], xp.sqrt(params.variances)[..., :, None, None, :]
    loadings, theta = params.loadings[..., None, :, :, :], params.noise[..., None, :, :]
    K = loadings * root  # (..., C, M, n, q)
    a0 = xp.matmul(loadings, mu[..., None])[..., 0] + params.offsets[..., None, :, :]
    scaled = K / theta[..., None]
    q = K.shape[-1]
    A = eye_like(q, K) + xp.matmul(transpose(K), scaled)
    shift = xp.sum(scaled * a0[..., None], axis=-2)
    per_cell = -0.5 * (LOG_2PI + xp.log(theta) + a0 * a0 / theta)
    constant = params.log_prior[..., :, None] + params.log_mix
    if uncertainty is not None:
        spread = WeightSpread.of(uncertainty, slice(None), q)
        P, cross = unpack(xp.sum(spread.square, axis=-2), q), xp.sum(spread.cross, axis=-2)
        lean = xp.matmul(P, mu[..., None])[..., 0] + cross
        A = A + root * transpose(root) * P
        shift = shift + root[..., 0, :] * lean
        per_cell = per_cell + uncertainty.cell_constant[..., None, :, :] - 0.5 * spread.one
        constant = constant + uncertainty.class_constant[..., :, None] - 0.5 * xp.sum((lean + cross) * mu, axis=-1)
    W, log_det = spd_inverse_root(A)
    return RowInvariantPosterior(
        gain=xp.matmul(W, transpose(scaled)),
        offset=-xp.matmul(W, shift[..., None])[..., 0],
        back=transpose(W * root),
        means=mu,
        square=-0.5 / theta,
        linear=a0 / theta,
        constant=constant + xp.sum(per_cell, axis=-1) - 0.5 * log_det,
    )


class CompleteRowPosterior(NamedTuple):
    """The latents of complete continuous rows."""

    whitened: Array  # (..., C, M, q, N) v
    squares: Array  # (N, n) of the cells
    invariant: RowInvariantPosterior

    def latent_means(self, params: FactorParams, rows: MaskedRows) -> Array:
        step = namespace(self.whitened).matmul(self.invariant.back, self.whitened)
        return self.invariant.means[..., None, :] + transpose(step)

    def statistics(
        self, params: FactorParams, layout: ColumnLayout, rows: MaskedRows, weight: Array, shared_gram: bool
    ) -> FactorStats:
        xp = namespace(weight)
        weighted = weight[..., None, :] * self.whitened
        sums = LatentSums(
            count=xp.sum(weight, axis=-1),
            x=weighted_row_sums(weight, rows.values),
            x_square=weighted_row_sums(xp.sum(weight, axis=-3), self.squares),
            v=xp.sum(weighted, axis=-1),
            vv=xp.matmul(weighted, transpose(self.whitened)),
            vx=weighted_row_sums(weighted, rows.values),
        )
        return sums.statistics(self.invariant, shared_gram)


def infer_complete_rows(invariant: RowInvariantPosterior, values: Array) -> tuple[Array, CompleteRowPosterior]:
    """Log joint of class, component and row (..., C, M, N), and the posterior of the latents."""
    xp = namespace(values)
    squares = values * values
    v = params_at_rows(invariant.gain, values)
    v += invariant.offset[..., None]
    scores = params_at_rows(invariant.linear, values)
    scores += params_at_rows(invariant.square, squares)
    scores += invariant.constant[..., None]
    scores += 0.5 * xp.sum(v * v, axis=-2)
    return scores, CompleteRowPosterior(v, squares, invariant)


class LatentSums(NamedTuple):
    """Weighted sums over rows, of each class and component."""

    count: Array  # (..., C, M)
    x: Array  # (..., C, M, n)
    x_square: Array  # (..., M, n), over the classes
    v: Array  # (..., C, M, q)
    vv: Array  # (..., C, M, q, q)
    vx: Array  # (..., C, M, q, n)

    @classmethod
    def from_features(cls, invariant: RowInvariantPosterior, sums: Array) -> LatentSums:
        """From weighted sums of the features, (..., C, M, F)."""
        xp = namespace(sums)
        G, g, n = invariant.gain, invariant.offset, invariant.gain.shape[-1]
        second, x, count = unpack(sums[..., : -n - 1], n), sums[..., -n - 1 : -1], sums[..., -1]
        v = xp.matmul(G, x[..., None])[..., 0] + count[..., None] * g
        vx = xp.matmul(G, second) + g[..., None] * x[..., None, :]
        vv = xp.matmul(vx, transpose(G)) + v[..., None] * g[..., None, :]
        return cls(count, x, xp.sum(xp.linalg.diagonal(second), axis=-3), v, vv, vx)

    def statistics(self, invariant: RowInvariantPosterior, shared_gram: bool) -> FactorStats:
        """With `shared_gram`, one Gram matrix for all columns."""
        xp = namespace(self.v)
        T, mu, count = invariant.back, invariant.means, self.count[..., None]
        q, n = T.shape[-1], self.x.shape[-1]
        # sums of z - mu and (z - mu)(z - mu)', of z z' and x z'
        e1 = xp.matmul(T, self.v[..., None])[..., 0]
        e2 = xp.matmul(T, xp.matmul(self.vv + count[..., None] * eye_like(q, T), transpose(T)))
        lean = e1[..., :, None] * mu[..., None, :]
        zz = e2 + lean + transpose(lean) + count[..., None] * mu[..., :, None] * mu[..., None, :]
        xz = self.x[..., :, None] * mu[..., None, :] + transpose(xp.matmul(T, self.vx))
        # added up over the classes, which share the loadings
        gram = xp.sum(xp.concat([pack(zz), e1 + count * mu, count], axis=-1), axis=-3)[..., None, :]
        if not shared_gram:
            gram = xp.broadcast_to(gram, (*gram.shape[:-2], n, gram.shape[-1]))
        cross = xp.sum(xp.concat([xz, self.x[..., None]], axis=-1), axis=-4)
        return FactorStats(
            count=self.count,
            centered_sum=xp.sum(e1, axis=-2),
            centered_square=xp.sum(xp.linalg.diagonal(e2), axis=-2),
            gram=gram,
            cross=cross,
            sum_x2=self.x_square,
            bound_gram=xp.zeros_like(gram[..., :0, :]),
            bound_cross=xp.zeros_like(cross[..., :0, :]),
        )
