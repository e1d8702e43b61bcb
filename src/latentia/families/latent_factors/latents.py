r"""The posteriors: of a latent classification model's parameters, and of the latents of rows.

**Parameters.** With the precision :math:`\lambda = 1/\theta` of a continuous column and the weights
:math:`w = (\text{loadings}, \text{offset})` of a predictor, the priors are

.. math::

    \lambda_i \sim G(s_0, r_0), \qquad w_i \mid \lambda_i \sim N(0, (\lambda_i D)^{-1}), \qquad
    D = \operatorname{diag}(\alpha_1, \dots, \alpha_q, \alpha_b),

and :math:`w \sim N(0, D^{-1})` for the predictors of bounded columns, whose :math:`\alpha` are
their own. :math:`1 / \alpha_j` is the relevance of factor j (automatic relevance determination):
where no column needs the factor, :math:`\alpha_j` grows and the loadings vanish. For the latents of
class c, with :math:`\tau = 1/\Gamma_{cj}`,

.. math:: \tau_{cj} \sim G(g/2, g/2), \qquad \mu_{cj} \mid \tau \sim N(0, (\kappa_j \tau)^{-1}),

so that g rows of a common unit variance and :math:`\kappa_j` rows at the common mean pull each
class towards what all share. Shares of components have the prior :math:`\mathrm{Dir}(1)`.
:math:`\alpha` and :math:`\kappa` are set where they raise the bound most, under the densities
:math:`(\alpha_j e^{-\alpha_j})^{u/2}` and :math:`(\kappa_j e^{-\kappa_j})^{k/2}`: as if each factor
had u loadings and k class means of unit size beside its own. Where rows are few or hardly known, a
factor then keeps loadings with which it can still tell classes apart, instead of none.

**Latents.** A row's predictors are :math:`a = Wz + b`, and its columns add up to the quadratic
:math:`k + h^\top z - \tfrac12 z^\top Rz` (`RowForm`), which does not depend on the class where the
bounds do not. In the coordinates :math:`z = \mu + \Gamma^{1/2}u`, :math:`u \sim N(0, I)` of a class
it reads :math:`k_u + h_u^\top u - \tfrac12 u^\top R_u u` with :math:`R_u =
\Gamma^{1/2}R\,\Gamma^{1/2}`, :math:`h_u = \Gamma^{1/2}(h - R\mu)`, :math:`k_u = k + h^\top\mu -
\tfrac12\mu^\top R\mu`. So u has the precision :math:`A = I + R_u`, which is well conditioned even
where a variance is nearly zero, and the integral over u is :math:`k_u + \tfrac12 h_u^\top
A^{-1}h_u - \tfrac12\ln|A|` (`posterior_of`). The precisions of all rows are one product of
curvatures with the packed :math:`ww^\top` of the predictors; the variances of all predictors are
one product of the packed posterior covariances with the same matrix.

Where the weights are uncertain, a predictor's expected square has the further term :math:`\tilde
z^\top V \tilde z`, a quadratic in z like the others: what `WeightSpread` holds is added to the
products of a column before the rows see them.
"""

from __future__ import annotations

from typing import NamedTuple

from latentia.arrays.linalg import invert_many, pack, packed_outer, unpack, with_doubled_offdiagonal
from latentia.arrays.namespace import LOG_2PI, Array, digamma, eye_like, log_gamma, namespace, transpose
from latentia.engine.rows import MaskedRows
from latentia.families.latent_factors.columns import Quadratic
from latentia.families.latent_factors.kinds import ColumnLayout
from latentia.families.latent_factors.parameters import FactorParams


class FactorPrior(NamedTuple):
    """What is fixed of the priors; see the module's docstring."""

    noise_shape: float = 1.0  # s_0
    noise_rate: float = 0.1  # r_0, for columns in standard units
    offset_precision: float = 0.01  # alpha_b of continuous columns, and of bounded ones:
    bounded_offset_precision: float = 0.1
    class_rows: float = 1000.0  # g: rows of the common variance that each class is given
    unit_loadings: float = 0.2  # u: loadings of unit size that each factor is given
    unit_means: float = 6.0  # k: class means of unit size that each factor is given


class FactorBelief(NamedTuple):
    """The parameters of a Bayesian family: those of the posteriors, and the priors' strengths."""

    log_prior: Array  # (..., C) of the classes, a point
    mixing: Array  # (..., C, M) Dirichlet shapes of the shares of components
    class_mean: Array  # (..., C, q)
    class_count: Array  # (..., C, q) rows that the mean rests on, the prior's included
    class_shape: Array  # (..., C, q) of the precision of a latent
    class_rate: Array  # (..., C, q)
    weights: Array  # (..., M, H, q + 1) means of (loadings, offset)
    weight_cov: Array  # (..., M, H, T) their covariances, packed; times 1 / theta if continuous
    weight_log_det: Array  # (..., M, H) log determinants of these
    noise_shape: Array  # (..., M or 1, G) of the precision of a continuous column
    noise_rate: Array  # (..., M or 1, G)
    precision: Array  # (..., q) alpha of the continuous columns
    bounded_precision: Array  # (..., q) alpha of the bounded ones
    strength: Array  # (..., q) kappa
    expected: ExpectedParams | tuple[()] = ()  # what follows from the above, for the time of a sweep


class Uncertainty(NamedTuple):
    """What the E-step needs of the posterior beside its means."""

    class_constant: Array  # (..., C) added to the score of a class
    cell_constant: Array  # (..., M or 1, G) added for each known cell of a continuous column
    weights: Array  # (..., M, H, T) covariances of (loadings, offset), packed


class ExpectedParams(NamedTuple):
    """A belief as the E-step sees it."""

    point: FactorParams  # means; variances and noise are inverses of mean precisions
    uncertainty: Uncertainty


def expected_params(belief: FactorBelief) -> ExpectedParams:
    """Expectations over the posterior."""
    xp = namespace(belief.weights)
    log_mix = digamma(belief.mixing) - digamma(xp.sum(belief.mixing, axis=-1, keepdims=True))
    q = belief.class_mean.shape[-1]
    point = FactorParams(
        log_prior=belief.log_prior,
        log_mix=log_mix,
        means=belief.class_mean,
        variances=belief.class_rate / belief.class_shape,
        loadings=belief.weights[..., :q],
        offsets=belief.weights[..., q],
        noise=belief.noise_rate / belief.noise_shape,
        edges=xp.ones_like(belief.weights[..., 0, :, :q]),
    )
    # E[ln tau] in place of ln E[tau], and the spread of the mean
    gap = digamma(belief.class_shape) - xp.log(belief.class_shape) - 1.0 / belief.class_count
    cells = 0.5 * (digamma(belief.noise_shape) - xp.log(belief.noise_shape))
    return ExpectedParams(point, Uncertainty(0.5 * xp.sum(gap, axis=-1), cells, belief.weight_cov))


def divergence(belief: FactorBelief, prior: FactorPrior) -> Array:
    """Of the posteriors from their priors, less the log density of alpha and kappa; (...,)."""
    xp = namespace(belief.weights)
    G, half = belief.noise_shape.shape[-1], 0.5 * prior.class_rows
    kl = xp.sum(_mixing_divergence(belief.mixing), axis=-1)
    kappa = belief.strength[..., None, :]
    squares = kappa * mean_squares(belief)
    spread = 0.5 * (squares - 1.0 - xp.log(kappa / belief.class_count))
    classes = spread + gamma_divergence(belief.class_shape, belief.class_rate, half, half)
    kl = kl + xp.sum(classes, axis=(-2, -1))
    kl = kl - _log_density(belief.strength, prior.unit_means)
    if G:
        precision = diagonal_precision(belief.precision, prior.offset_precision)
        kl = kl + _weights_divergence(belief, slice(None, G), precision, known_columns(belief, prior))
        noise = gamma_divergence(belief.noise_shape, belief.noise_rate, prior.noise_shape, prior.noise_rate)
        kl = kl + xp.sum(noise, axis=(-2, -1))
        kl = kl - _log_density(belief.precision, prior.unit_loadings)
    if belief.weights.shape[-2] > G:
        precision = diagonal_precision(belief.bounded_precision, prior.bounded_offset_precision)
        kl = kl + _weights_divergence(belief, slice(G, None), precision, 1.0)
        kl = kl - _log_density(belief.bounded_precision, prior.unit_loadings)
    return kl


def mean_squares(belief: FactorBelief) -> Array:
    """E[tau mu^2], (..., C, q)."""
    return belief.class_shape / belief.class_rate * belief.class_mean**2 + 1.0 / belief.class_count


def weight_squares(belief: FactorBelief, index: slice) -> Array:
    """Expected squares of the weights of some predictors, in units of the noise; (..., M, H, q +
    1).
    """
    xp = namespace(belief.weights)
    q, G = belief.class_mean.shape[-1], belief.noise_shape.shape[-1]
    cov = belief.weight_cov[..., index, :]
    diagonal = [sum(range(q, q - j, -1)) for j in range(q)]  # where z_j z_j is among the packed products
    variance = xp.stack([cov[..., k] for k in diagonal] + [cov[..., -1]], axis=-1)
    squares = belief.weights[..., index, :] ** 2
    if index.stop == G:
        squares = squares * (belief.noise_shape / belief.noise_rate)[..., None]
    return squares + variance


def diagonal_precision(precision: Array, offset: float) -> Array:
    """The diagonal of D, (..., 1, 1, q + 1)."""
    xp = namespace(precision)
    one = xp.ones_like(xp.sum(precision, axis=-1, keepdims=True))
    return xp.concat([precision, offset * one], axis=-1)[..., None, None, :]


def gamma_divergence(shape: Array, rate: Array, shape0: float, rate0: float) -> Array:
    """Of G(shape, rate) from G(shape0, rate0)."""
    xp = namespace(shape)
    base = shape0 + xp.zeros_like(shape)
    value = (shape - base) * digamma(shape) - log_gamma(shape) + log_gamma(base)
    return value + base * (xp.log(rate) - xp.log(rate0 + xp.zeros_like(rate))) + shape * (rate0 - rate) / rate


def _weights_divergence(belief: FactorBelief, index: slice, precision: Array, known: Array | float) -> Array:
    """Of the weights of some predictors from N(0, 1 / D), given the noise; `known` ones count."""
    xp = namespace(belief.weights)
    terms = xp.sum(precision * weight_squares(belief, index) - 1.0 - xp.log(precision), axis=-1)
    return 0.5 * xp.sum((terms - belief.weight_log_det[..., index]) * known, axis=(-2, -1))


def known_columns(belief: FactorBelief, prior: FactorPrior) -> Array:
    """One for continuous columns with values, zero for those whose posterior is their prior."""
    xp = namespace(belief.weights)
    known = xp.astype(belief.noise_shape > prior.noise_shape, belief.weights.dtype)
    return xp.broadcast_to(known, (*belief.weights.shape[:-2], known.shape[-1]))


def _mixing_divergence(shape: Array) -> Array:
    """Of the shares of each class from Dir(1)."""
    xp = namespace(shape)
    total = xp.sum(shape, axis=-1)
    expected = digamma(shape) - digamma(total)[..., None]
    flat = log_gamma(xp.zeros_like(total) + shape.shape[-1])
    return log_gamma(total) - flat + xp.sum((shape - 1.0) * expected - log_gamma(shape), axis=-1)


def _log_density(precision: Array, n_units: float) -> Array:
    """Log of (a exp(-a))^(n/2) at the precisions a, summed over the factors."""
    xp = namespace(precision)
    return 0.5 * n_units * xp.sum(xp.log(precision) - precision, axis=-1)


class RowForm(NamedTuple):
    """k + h'z - z'Rz/2 of each row; R packed. Some parts have one row where all rows share them."""

    precision: Array  # (..., C or 1, M, N, q(q+1)/2)
    linear: Array  # (..., C or 1, M, N, q)
    constant: Array  # (..., C or 1, M, N)


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
    """Prior times quadratic, in the coordinates z = mu + Gamma^(1/2) u."""
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
        nothing = xp.sum(params.noise)
        return RowForm(nothing, nothing, nothing)
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

    def bound(self, moments: LatentMoments, near: list[dict[int, Array]] | None, roughly: bool = False) -> Quadratic:
        """The best bounds; near those of earlier rounds, if given, nearly the best. `roughly`, for
        rounds in between, they lack their constants.
        """
        mean, variance = self._predictors(moments)
        parts = []
        for k, ((model, index), cells) in enumerate(zip(self.models, self.cells, strict=True)):
            here = *cells, mean[..., index], variance[..., index]
            if near is not None and roughly:
                parts.append(model.approximate_bound(*here, near[k]))
            elif not moments.mean.shape[-1]:
                parts.append(model.bound_without_latents(*here))
            else:
                parts.append(model.bound(*here) if near is None else model.bound_near(*here, near[k]))
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

        constant = sum((part.constant for part in parts[1:]), start=parts[0].constant)
        return Quadratic(joined([p.curvature for p in parts]), joined([p.linear for p in parts]), constant)
