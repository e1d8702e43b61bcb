r"""Variational Bayes for latent classification models.

The posterior of parameters and latents is approximated by a product, :math:`q(z, m, y) \, q(W,
\theta) \, q(\mu, \Gamma) \, q(\pi)`, each factor conjugate given the others (Ghahramani & Beal
1999, "Variational inference for Bayesian mixtures of factor analysers"). The loop is EM's: the
E-step takes expectations over the parameters where EM has points, the M-step adds the priors'
statistics to the rows'. Where we differ: classes share the loadings and differ in the prior of z,
whose means and variances are pulled towards what the classes have in common; relevances and pulls
are set where the bound is largest rather than given a posterior.

One fit with generous sizes replaces the search over them: factors that no column needs lose their
loadings. The limits are laws: with infinitely many pooled rows all classes share one covariance,
and with many rows of data the posterior is the maximum-likelihood point.

**The M-step**: a prior is statistics added to statistics. With the Gram matrix :math:`S_i = \sum
E[\tilde z \tilde z^\top]` over the known cells of a column and :math:`c_i = \sum x E[\tilde z]`,
where :math:`\tilde z = (z, 1)`,

.. math::

    \Lambda_i = S_i + D, \quad m_i = \Lambda_i^{-1} c_i, \quad
    s_i = s_0 + n_i / 2, \quad r_i = r_0 + \tfrac12 (\textstyle\sum x^2 - m_i^\top c_i),

and :math:`w_i \mid \lambda_i \sim N(m_i, (\lambda_i \Lambda_i)^{-1})`, :math:`\lambda_i \sim G(s_i,
r_i)`. Bounded columns have the same without noise, their statistics weighted by the bounds'
curvatures. Each update is the best given the others, so the bound never falls.

**The start**: factors along the principal axes of all rows. With the axes V and standard deviations
S of the centered predictors the loadings start as :math:`VS(I + \epsilon)`, cut after q columns,
with small normal :math:`\epsilon` that restarts do not share; class means start where the
regression of the latents on the rows puts them. Random numbers belong to principal axes, so
permuting the columns permutes the parameters.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from latentia.arrays.linalg import pack, spd_inverse
from latentia.arrays.namespace import Array, asarray_like, eye_like, log_softmax, namespace, to_numpy
from latentia.engine.contracts import Objective, PosteriorFamily
from latentia.engine.rows import MaskedRows, Memo, Source
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import Axes, Tree
from latentia.families.latent_factors.family import (
    SAMPLE_ROWS,
    LatentFactors,
    class_moments,
    initial_predictors,
    orient_axes,
    principal_axes,
)
from latentia.families.latent_factors.latents import (
    ExpectedParams,
    FactorBelief,
    FactorPrior,
    diagonal_precision,
    divergence,
    expected_params,
    known_columns,
    mean_squares,
    weight_squares,
)
from latentia.families.latent_factors.parameters import (
    FactorParams,
    FactorPosterior,
    FactorStats,
    augmented_matrix,
    log_frequencies,
)

#: Counts of a belief that is as good as certain, to take first statistics by.
CERTAIN_COUNT = 1e6


class BeliefCoordinates(NamedTuple):
    """What plain steps move slowly: means, and logs of what is positive."""

    class_mean: Array
    log_class_rate: Array
    weights: Array
    log_noise_rate: Array
    log_precision: Array
    log_bounded_precision: Array
    log_strength: Array


class BayesianLatentFactors(PosteriorFamily[FactorBelief, FactorStats, FactorPosterior]):
    """The posterior of a latent classification model, whose points are those of `model`.

    With `lazy_bounds` the bounds of rows take one round in each sweep and settle as the parameters
    do; otherwise they settle in each sweep.
    """

    params_class_axes: Axes = (-1, -2, -2, -2, -2, -2, *[None] * 8, ())
    stats_class_axes: Axes = LatentFactors.stats_class_axes

    def __init__(self, model: LatentFactors, prior: FactorPrior | None = None, lazy_bounds: bool = True):
        self.model, self.prior = model, prior or FactorPrior()
        self.lazy_bounds = lazy_bounds
        self.n_classes = model.n_classes

    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> FactorBelief:
        """One M-step from principal axes; restarts differ by small random loadings."""
        belief = self._certain(principal_start(self.model, source, rng, n_restarts))
        return self.update(belief, RowProblem(self, Likelihood(), source).sweep(belief).stats)

    def _certain(self, point: FactorParams) -> FactorBelief:
        """A belief with hardly any spread."""
        xp = namespace(point.means)
        q = point.means.shape[-1]
        n_packed = q * (q + 1) // 2 + q + 1
        many = CERTAIN_COUNT * xp.ones_like(point.means)
        shape = CERTAIN_COUNT * xp.ones_like(point.noise)
        per_factor = xp.ones_like(point.means[..., 0, :])
        return FactorBelief(
            log_prior=point.log_prior,
            mixing=CERTAIN_COUNT * xp.exp(point.log_mix),
            class_mean=point.means,
            class_count=many,
            class_shape=many,
            class_rate=many * point.variances,
            weights=xp.concat([point.loadings, point.offsets[..., None]], axis=-1),
            weight_cov=xp.zeros_like(xp.broadcast_to(point.offsets[..., None], (*point.offsets.shape, n_packed))),
            weight_log_det=xp.zeros_like(point.offsets),
            noise_shape=shape,
            noise_rate=shape * point.noise,
            precision=per_factor,
            bounded_precision=per_factor,
            strength=per_factor,
        )

    @property
    def precomputed_class_axes(self) -> Axes:
        """Sweeps cut the expectations alone, not the belief that they stand for."""
        return (*[None] * 14, (self.model.params_class_axes, (-1, None, None)))

    def precompute(self, params: FactorBelief) -> FactorBelief:
        return params._replace(expected=expected_params(params))

    def rough(self, is_small: bool = False) -> BayesianLatentFactors:
        return BayesianLatentFactors(self.model.rough(is_small), self.prior, self.lazy_bounds)

    @property
    def inference_iterates(self) -> bool:
        return self.model.inference_iterates

    @property
    def takes_all_labels(self) -> bool:
        return self.model.takes_all_labels

    def infer(
        self, params: FactorBelief, rows: MaskedRows, y: Array | None = None, memo: Memo | None = None
    ) -> FactorPosterior:
        point, uncertainty = self._expected(params)
        rules = self.model.bound_rules._replace(one_round=self.lazy_bounds and y is not None)
        return self.model.infer(point, rows, y, memo, uncertainty, rules)

    def _expected(self, params: FactorBelief) -> ExpectedParams:
        return params.expected if isinstance(params.expected, ExpectedParams) else expected_params(params)

    def condensed(self, objective: Objective, source: Source) -> Source:
        return self.model.condensed(objective, source)

    def statistics(
        self, params: FactorBelief, rows: MaskedRows, posterior: FactorPosterior, weight: Array
    ) -> FactorStats:
        point, _ = self._expected(params)
        return self.model.statistics(point, rows, posterior, weight)

    def update(self, params: FactorBelief, stats: FactorStats) -> FactorBelief:
        return update_belief(params, stats, self.prior, self.model.fixed_log_prior is None)

    def move_statistics(self, stats: FactorStats, params: FactorBelief, new: FactorBelief) -> FactorStats:
        return stats.about(params.class_mean, new.class_mean)

    def log_prior(self, params: FactorBelief) -> Array:
        return -divergence(params, self.prior)

    def to_accelerated(self, params: FactorBelief) -> BeliefCoordinates:
        log = namespace(params.weights).log
        return BeliefCoordinates(
            params.class_mean,
            log(params.class_rate),
            params.weights,
            log(params.noise_rate),
            log(params.precision),
            log(params.bounded_precision),
            log(params.strength),
        )

    def from_accelerated(self, coordinates: Tree, params: FactorBelief) -> FactorBelief:
        assert isinstance(coordinates, BeliefCoordinates)
        exp = namespace(params.weights).exp
        return params._replace(
            class_mean=coordinates.class_mean,
            class_rate=exp(coordinates.log_class_rate),
            weights=coordinates.weights,
            noise_rate=exp(coordinates.log_noise_rate),
            precision=exp(coordinates.log_precision),
            bounded_precision=exp(coordinates.log_bounded_precision),
            strength=exp(coordinates.log_strength),
        )

    def floats_per_row(self, params: FactorBelief) -> int:
        return self.model.floats_by_shape(params.mixing.shape, params.class_mean.ndim > 2)

    def predictive(self, params: FactorBelief) -> FactorParams:
        """The point whose density stands for the average over the posterior.

        The spread of class means and variances is added to the variances of the latents. The
        weights, which all rows share, are taken at their means.
        """
        point, _ = expected_params(params)
        xp = namespace(point.means)
        shape = xp.clip(params.class_shape, min=1.5)
        variances = params.class_rate / (shape - 1.0) * (1.0 + 1.0 / params.class_count)
        return point._replace(variances=variances, log_mix=log_softmax(point.log_mix, axis=-1))

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[Self]:
        """Those of the points, with bounds as tight as theirs."""
        return [
            cls(model, lazy_bounds=False) for model in LatentFactors.examples(n_features, n_classes) if model.all_edges
        ]

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        return self.model.example_rows(rng, n_rows, n_features)


def update_belief(belief: FactorBelief, stats: FactorStats, prior: FactorPrior, counts_priors: bool) -> FactorBelief:
    """The posterior that these statistics lead to, then the strengths of the priors."""
    xp = namespace(stats.count)
    belief = _with_class_posterior(belief._replace(mixing=1.0 + stats.count), stats, prior)
    if counts_priors:
        belief = belief._replace(log_prior=log_frequencies(xp.sum(stats.count, axis=-1), belief.log_prior))
    G, H, groups = belief.noise_shape.shape[-1], belief.weights.shape[-2], []
    if G:
        D = diagonal_precision(belief.precision, prior.offset_precision)
        groups.append(_regress(stats.gram, stats.cross, D))
        belief = _with_noise_posterior(belief, stats, groups[0].mean, prior)
    if H > G:
        D = diagonal_precision(belief.bounded_precision, prior.bounded_offset_precision)
        groups.append(_regress(stats.bound_gram, stats.bound_cross, D))
    belief = belief._replace(
        weights=xp.concat([group.mean for group in groups], axis=-2),
        weight_cov=xp.concat([group.cov for group in groups], axis=-2),
        weight_log_det=xp.concat([group.log_det for group in groups], axis=-1),
    )
    return _with_best_strengths(belief, prior)


class _Weights(NamedTuple):
    """Posterior of the weights of some predictors, given the noise of their column."""

    mean: Array  # (..., M, H, q + 1)
    cov: Array  # (..., M, H, T) packed
    log_det: Array  # (..., M, H)


def _regress(gram: Array, cross: Array, D: Array) -> _Weights:
    """Posterior of weights with the prior precisions D."""
    xp = namespace(cross)
    q = cross.shape[-1] - 1
    cov, log_det = spd_inverse(augmented_matrix(gram, q) + D[..., None] * eye_like(q + 1, cross))
    if cov.shape[-3] == 1:  # complete rows: all columns of a component share it
        mean = xp.matmul(cross, cov[..., 0, :, :])
    else:
        mean = xp.matmul(cov, cross[..., None])[..., 0]
    packed = xp.concat([pack(cov[..., :q, :q]), cov[..., :q, q], cov[..., q:, q]], axis=-1)
    packed = xp.broadcast_to(packed, (*mean.shape[:-1], packed.shape[-1]))
    return _Weights(mean, packed, xp.broadcast_to(-log_det, mean.shape[:-1]))


def _with_noise_posterior(belief: FactorBelief, stats: FactorStats, mean: Array, prior: FactorPrior) -> FactorBelief:
    """The precision of each continuous column."""
    xp = namespace(mean)
    residual = xp.clip(stats.sum_x2 - xp.sum(mean * stats.cross, axis=-1), min=0.0)
    count = xp.broadcast_to(stats.gram[..., -1], residual.shape)
    if belief.noise_shape.shape[-2] == 1:  # tied
        residual, count = xp.sum(residual, axis=-2, keepdims=True), xp.sum(count, axis=-2, keepdims=True)
    return belief._replace(noise_shape=prior.noise_shape + 0.5 * count, noise_rate=prior.noise_rate + 0.5 * residual)


def _with_class_posterior(belief: FactorBelief, stats: FactorStats, prior: FactorPrior) -> FactorBelief:
    """Means and precisions of the latents of each class, pulled towards what the classes share."""
    xp = namespace(stats.count)
    old, half = belief.class_mean, 0.5 * prior.class_rows
    rows = xp.sum(stats.count, axis=-1)[..., None]
    first = stats.centered_sum + rows * old
    second = stats.centered_square + 2 * old * stats.centered_sum + rows * old * old
    count = rows + belief.strength[..., None, :]
    mean = first / count
    return belief._replace(
        class_mean=mean,
        class_count=count,
        class_shape=half + 0.5 * rows + xp.zeros_like(mean),
        class_rate=half + 0.5 * xp.clip(second - count * mean * mean, min=0.0),
    )


def _with_best_strengths(belief: FactorBelief, prior: FactorPrior) -> FactorBelief:
    """The precisions of loadings and the pull of class means that raise the bound most."""
    xp = namespace(belief.weights)
    G, C = belief.noise_shape.shape[-1], belief.class_mean.shape[-2]
    squares = xp.sum(mean_squares(belief), axis=-2)
    strength = (C + prior.unit_means) / (squares + prior.unit_means)
    precision = belief.precision
    if G:
        known = known_columns(belief, prior)[..., None]
        precision = _best_precision(belief, slice(None, G), prior.unit_loadings, known)
    bounded = belief.bounded_precision
    if belief.weights.shape[-2] > G:
        known = xp.ones_like(belief.weights[..., G:, :1])
        bounded = _best_precision(belief, slice(G, None), prior.unit_loadings, known)
    return belief._replace(strength=strength, precision=precision, bounded_precision=bounded)


def _best_precision(belief: FactorBelief, index: slice, unit_loadings: float, known: Array) -> Array:
    """Alpha of some predictors, of which the `known` (..., M, H, 1) count."""
    xp = namespace(belief.weights)
    total = xp.sum(weight_squares(belief, index)[..., :-1] * known, axis=(-3, -2))
    n_weights = xp.sum(known, axis=(-3, -2))
    return (n_weights + unit_loadings) / (total + unit_loadings)


#: Standard deviation of the random part of the loadings, in principal standard deviations.
RANDOM_PART = 0.05

#: Share of the variance along a principal axis that the loadings start with.
AXIS_SHARE = 0.64

#: Share of the columns' variance that the noise starts with.
NOISE_SHARE = 0.5

#: How far components start towards a random row.
CENTER_STEP = 0.5


def principal_start(model: LatentFactors, source: Source, rng: np.random.Generator, n_restarts: int) -> FactorParams:
    """Parameters of each restart, beside the source's arrays."""
    sample = source.sample_rows(SAMPLE_ROWS, rng)
    y = to_numpy(sample.y)
    weight = sample.mean_weight()
    weights = weight if sample.weight is None else to_numpy(sample.weight).astype(float)  # (N,) or (N, S)
    offsets, rows = initial_predictors(model.layout, sample, weight)
    C, M, q, H = model.n_classes, model.n_components, model.n_latent, rows.shape[1]
    axes, deviations = principal_axes(rows, weight / weight.sum())
    n_axes = axes.shape[1]
    shares = rng.random((n_restarts, M)) if M > 1 else None  # of the weight of rows before those that centers go to
    mixing = np.zeros((n_restarts, M, n_axes, q))
    mixing[..., np.arange(min(n_axes, q)), np.arange(min(n_axes, q))] = np.sqrt(AXIS_SHARE)
    # axis by axis: what a column without values adds comes last
    mixing += RANDOM_PART * np.moveaxis(rng.standard_normal((H, n_restarts, M, q)), 0, 2)[..., :n_axes, :]
    loadings = (axes * deviations) @ mixing
    between = _class_axes(rows, weights, y, C)[..., : q // 2]  # (S or 1, H, k)
    k = between.shape[-1]
    if k:
        loadings = np.concatenate(
            [np.broadcast_to(between[:, None], (n_restarts, M, H, k)), loadings[..., : q - k]], axis=-1
        )
    centers = np.broadcast_to(offsets, (n_restarts, M, H))
    if shares is not None:
        order = np.argsort(rows @ axes[:, 0], kind="stable")
        cumulative = np.cumsum(weight[order])
        chosen = order[np.searchsorted(cumulative, shares * cumulative[-1] * (1 - 1e-9))]
        centers = centers + CENTER_STEP * rows[chosen]
    means, _ = class_moments(loadings.mean(axis=1), rows, weights, y, C)
    log_prior = np.full(C, -np.log(C)) if model.fixed_log_prior is None else model.fixed_log_prior
    params = FactorParams(
        log_prior=np.tile(log_prior, (n_restarts, 1)),
        log_mix=np.full((n_restarts, C, M), -np.log(M)),
        means=means,
        variances=np.ones_like(means),
        loadings=loadings,
        offsets=centers,
        noise=np.full((n_restarts, 1 if model.tied else M, model.layout.n_gaussian), NOISE_SHARE),
        edges=np.ones((n_restarts, H, q)),
    )
    return FactorParams(*(asarray_like(np.ascontiguousarray(a), sample.rows.values) for a in params))


def _class_axes(rows: np.ndarray, weights: np.ndarray, y: np.ndarray, n_classes: int) -> np.ndarray:
    """Loadings (S, H, C - 1) along the axes in which the class means differ, largest first."""
    columns = weights.reshape(len(y), -1).T  # (S, N)
    counts, sums = [], []
    for c in range(n_classes):
        w = columns[:, y == c]
        counts.append(w.sum(axis=1))
        sums.append(w @ rows[y == c])
    count, total = np.stack(counts, axis=1), np.stack(sums, axis=1)  # (S, C), (S, C, H)
    share = count / np.maximum(count.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    means = total / np.maximum(count, np.finfo(float).tiny)[..., None]
    means = (means - (share[..., None] * means).sum(axis=1, keepdims=True)) * np.sqrt(share)[..., None]
    _, size, axes = np.linalg.svd(means, full_matrices=False)
    axes = orient_axes(axes)
    return np.asarray(np.swapaxes(axes * size[..., None], -1, -2)[..., : n_classes - 1])
