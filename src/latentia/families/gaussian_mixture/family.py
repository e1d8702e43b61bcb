"""A mixture of Gaussians for each class, and the types of covariance that users name.

    p(x, c) = pi_c  sum_k alpha_ck  N(x; mu_ck, Sigma_ck)

after W. Roth's master's thesis on hybrid generative-discriminative training (eq. 2.26, 3.22-3.27,
3.30-3.35), for any type of Sigma and with components that may differ in number between classes.
Missing cells are integrated out. Class priors pi are counted, also under unlabeled rows, or fixed;
gradient training leaves them alone, as the thesis does.

In the code: C classes, K components of the largest class, D features. Classes with fewer components
are padded with components of weight zero. A new type of covariance is a subclass of `Covariance`
(or of a type that it resembles) and a line in `COVARIANCES`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from latentia.arrays.namespace import (
    Array,
    asarray_like,
    log_gamma,
    log_softmax,
    logsumexp_and_unnormalized,
    namespace,
    safe_log,
    to_numpy,
)
from latentia.engine.contracts import Expectation, NormalCellsFamily, SmoothFamily
from latentia.engine.rows import MaskedRows, Memo, Source
from latentia.engine.tree import Axes, Tree
from latentia.families.blocks.starts import cluster_restarts
from latentia.families.gaussian_mixture.covariance import (
    MIN_WEIGHT,
    Covariance,
    Diagonal,
    Full,
    Moments,
    SeenRows,
    has_weight,
)

#: Rows of each class from which restarts are drawn.
SAMPLE_ROWS = 2000


class GaussianParams(NamedTuple):
    """Parameters, in the coordinates of the prepared rows."""

    log_prior: Array  # (..., C)
    log_weights: Array  # (..., C, K), -inf for padding
    means: Array  # (..., C, K, D)
    covariance: Array  # as the covariance type has it
    natural: Tree = ()  # what follows from the above, for the time of a sweep (see `precompute`)
    dof: Array | tuple[()] = ()  # (..., C, K) degrees of freedom, if components are Student-t with these scales


class GaussianFree(NamedTuple):
    """Unconstrained coordinates (3.2.2)."""

    logits: Array  # (..., C, K)
    means: Array  # (..., C, K, D)
    covariance: Array  # as the covariance type has it


class GaussianPosterior(NamedTuple):
    """Scores, and the responsibilities of the components."""

    log_joint: Array  # (..., C, N)
    unnormalized: Array  # (..., C, K, N) responsibilities up to a factor
    normalizer: Array  # (..., C, N) their sum
    seen: SeenRows  # for the moments
    square: Array | tuple[()] = ()  # (..., C, K, N) squared distances of the known cells from Student-t components


def student_log_density(peak: Array, square: Array, dof: Array, rows: MaskedRows) -> Array:
    """Student-t log densities (..., C, K, N) of the known cells of rows.

    From their squared distances, and the `peak` of the normal density of the same location and
    scale. A marginal of a t is one of the same dof.
    """
    xp, n_known, v = namespace(square), _n_known(rows, square), dof[..., None]
    constant = log_gamma(0.5 * (v + n_known)) - log_gamma(0.5 * v) - 0.5 * n_known * xp.log(0.5 * v)
    return constant + peak - 0.5 * (v + n_known) * xp.log1p(square / v)


def student_variance(square: Array, dof: Array, rows: MaskedRows) -> Array:
    """Variance (..., C, K, N) of a Student-t's missing cells given the known ones, in units of
    what it would be under normals of the same scale; as of three degrees of freedom at least.
    """
    v = dof[..., None]
    return (v + square) / namespace(square).clip(v + _n_known(rows, square) - 2.0, min=1.0)


def _n_known(rows: MaskedRows, like: Array) -> Array:
    """Number of known cells of each row, (..., 1, 1, N)."""
    xp = namespace(like)
    n_known = xp.full_like(like[..., :1, :1, :], rows.values.shape[1])
    return n_known if rows.observed is None else xp.zeros_like(n_known) + xp.sum(rows.observed, axis=-1)


class GaussianMixtures(
    NormalCellsFamily[GaussianParams, Moments, GaussianPosterior],
    SmoothFamily[GaussianParams, Moments, GaussianPosterior],
):
    """A Gaussian mixture per class."""

    def __init__(
        self,
        n_components: np.ndarray,
        covariance_type: Covariance,
        log_prior: np.ndarray | None = None,
    ):
        self.n_components = np.asarray(n_components)
        self.n_classes = len(self.n_components)
        self.covariance_type = covariance_type
        self.fixed_log_prior = log_prior  # None: counted
        self.present = np.arange(self.n_components.max())[None, :] < self.n_components[:, None]
        self.params_class_axes = (-1, -2, -3, covariance_type.covariance_class_axis, (), ())
        self.stats_class_axes = (-2, -3, -3, covariance_type.second_class_axis)

    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> GaussianParams:
        sample = source.sample_rows(SAMPLE_ROWS, rng)
        values, y = to_numpy(sample.rows.values).astype(float), to_numpy(sample.y)
        weight = sample.mean_weight()
        K, D = self.present.shape[1], values.shape[1]
        means = np.zeros((n_restarts, self.n_classes, K, D))
        variances = np.ones((n_restarts, self.n_classes, K, D))
        weights = np.zeros((n_restarts, self.n_classes, K))
        for c, k in enumerate(self.n_components):
            clusters = cluster_restarts(values[y == c], k, n_restarts, rng, weight[y == c])
            means[:, c, :k], variances[:, c, :k], weights[:, c, :k] = clusters
        variances = np.maximum(variances, self.covariance_type.floor)
        like = sample.rows.values
        log_prior = self.fixed_log_prior
        if log_prior is None:
            log_prior = np.log(np.full(self.n_classes, 1.0 / self.n_classes))
        return GaussianParams(
            log_prior=asarray_like(np.tile(log_prior, (n_restarts, 1)), like),
            log_weights=safe_log(asarray_like(weights, like)),
            means=asarray_like(means, like),
            covariance=self.covariance_type.initial(asarray_like(variances, like)),
        )

    @property
    def precomputed_class_axes(self) -> Axes:
        kind = self.covariance_type
        return (-1, -2, -3, kind.covariance_class_axis, kind.natural_class_axes, ())

    def precompute(self, params: GaussianParams) -> GaussianParams:
        return params._replace(natural=self.covariance_type.natural(params.means, params.covariance))

    def infer(
        self, params: GaussianParams, rows: MaskedRows, y: Array | None = None, memo: Memo | None = None
    ) -> GaussianPosterior:
        _, log_weights, means, covariance, natural, dof = params if params.natural else self.precompute(params)
        if isinstance(dof, tuple):
            density, seen = self.covariance_type.log_density(means, covariance, natural, log_weights, rows, memo)
            score, unnormalized, normalizer = logsumexp_and_unnormalized(density, axis=-2)  # eq. 3.27
            return GaussianPosterior(score + params.log_prior[..., None], unnormalized, normalizer, seen)
        xp = namespace(means)
        none = xp.zeros_like(log_weights)
        density, seen = self.covariance_type.log_density(means, covariance, natural, none, rows, memo)
        peak = seen.log_peak()
        square = xp.clip(2 * (peak - density), min=0.0)
        density = student_log_density(peak, square, dof, rows) + log_weights[..., None]
        score, unnormalized, normalizer = logsumexp_and_unnormalized(density, axis=-2)
        return GaussianPosterior(score + params.log_prior[..., None], unnormalized, normalizer, seen, square)

    def statistics(
        self, params: GaussianParams, rows: MaskedRows, posterior: GaussianPosterior, weight: Array
    ) -> Moments:
        return posterior.seen.moments(posterior.unnormalized * (weight / posterior.normalizer)[..., None, :])

    def update(self, params: GaussianParams, stats: Moments) -> GaussianParams:
        xp = namespace(params.means)
        n = stats.n_observed
        alive = has_weight(n, stats.count)
        means = xp.where(alive, stats.first / xp.where(alive, n, xp.ones_like(n)), params.means)
        in_class = xp.sum(stats.count, axis=-1)
        has_rows = has_weight(in_class, stats.count)
        weights = stats.count / xp.where(has_rows, in_class, xp.ones_like(in_class))[..., None]
        log_prior = params.log_prior
        if self.fixed_log_prior is None:
            log_prior = safe_log(in_class / xp.sum(in_class, axis=-1, keepdims=True))
        return GaussianParams(
            log_prior,
            xp.where(has_rows[..., None], safe_log(weights), params.log_weights),
            means,
            self.covariance_type.update(params.covariance, stats, means),
        )

    def to_free(self, params: GaussianParams) -> GaussianFree:
        xp = namespace(params.means)
        logits = xp.clip(params.log_weights, min=math.log(MIN_WEIGHT))
        return GaussianFree(logits, params.means, self.covariance_type.to_free(params.covariance))

    def from_free(self, free: Tree, params: GaussianParams) -> GaussianParams:
        assert isinstance(free, GaussianFree)
        xp = namespace(free.means)
        present = asarray_like(self.present, free.means, dtype=xp.bool)
        logits = xp.where(present, free.logits, xp.full_like(free.logits, -math.inf))
        log_weights = log_softmax(logits, axis=-1)  # eq. 3.22
        covariance = self.covariance_type.from_free(free.covariance)
        return GaussianParams(params.log_prior, log_weights, free.means, covariance)

    def gradient(self, params: GaussianParams, stats: Moments) -> GaussianFree:
        xp = namespace(params.means)
        in_class = xp.sum(stats.count, axis=-1, keepdims=True)
        logits = stats.count - xp.exp(params.log_weights) * in_class
        means, covariance = self.covariance_type.gradient(params.means, params.covariance, stats)
        return GaussianFree(logits, means, covariance)

    def floats_per_row(self, params: GaussianParams) -> int:
        n_gaussians = math.prod(params.log_weights.shape)
        return self.covariance_type.floats_per_row(params.means.shape[-1]) + 3 * n_gaussians

    def n_free(self, n_features: int) -> int:
        n_gaussians = int(self.n_components.sum())
        priors = self.n_classes - 1 if self.fixed_log_prior is None else 0
        mixing = n_gaussians - self.n_classes
        return priors + mixing + n_gaussians * n_features + self.covariance_type.n_free(n_features, n_gaussians)

    def impute(self, params: GaussianParams, rows: MaskedRows, class_probs: Array, mode: bool = False) -> Array:
        return rows.values if rows.observed is None else self._average(params, rows, class_probs)

    def impute_expected(
        self, params: GaussianParams, rows: MaskedRows, class_probs: Array, expect: Expectation
    ) -> Array:
        return self._average(params, rows, class_probs, expect)

    def _average(
        self, params: GaussianParams, rows: MaskedRows, class_probs: Array, expect: Expectation | None = None
    ) -> Array:
        """Conditional means, or what is expected of the cells, over classes and components."""
        xp = namespace(params.means)
        posterior = self.infer(params, rows)
        component = class_probs[:, None, :] * posterior.unnormalized / posterior.normalizer[:, None, :]  # (C, K, N)
        filled = xp.zeros_like(rows.values)
        for k in range(component.shape[-2]):  # one component at a time: C x N x D of memory, not C x K x N x D
            cells = self.covariance_type.conditional_mean(params.means, params.covariance, rows, k)
            if expect is not None:
                variance = self.covariance_type.conditional_variance(params.means, params.covariance, rows, k)
                if not isinstance(params.dof, tuple) and not isinstance(posterior.square, tuple):
                    variance = variance * student_variance(posterior.square, params.dof, rows)[:, k, :, None]
                cells = expect(cells, variance, range(cells.shape[-1]))
            filled = filled + xp.sum(component[:, k, :, None] * cells, axis=0)
        return filled

    def impute_floats_per_row(self, params: GaussianParams) -> int:
        # the conditional means of each class, and what they are made of: about five tables of
        # classes and columns
        return self.floats_per_row(params) + 5 * self.n_classes * params.means.shape[-1]

    def sample(
        self, params: GaussianParams, codes: np.ndarray, rng: np.random.Generator, component: int | None = None
    ) -> np.ndarray:
        weights = np.exp(to_numpy(params.log_weights))
        means, covariance = (to_numpy(a).astype(float) for a in (params.means, params.covariance))
        dof = None if isinstance(params.dof, tuple) else to_numpy(params.dof).astype(float)
        X = np.empty((codes.size, means.shape[-1]))
        for c in range(self.n_classes):
            rows = np.flatnonzero(codes == c)
            drawn = rng.choice(weights.shape[1], rows.size, p=weights[c] / weights[c].sum())
            for k in range(weights.shape[1]):
                chosen = rows[drawn == k if component is None else np.full(rows.size, k == component)]
                noise = rng.standard_normal((chosen.size, means.shape[-1]))
                if dof is not None:
                    noise *= np.sqrt(dof[c, k] / rng.chisquare(dof[c, k], (chosen.size, 1)))
                X[chosen] = means[c, k] + self.covariance_type.transform_noise(covariance, c, k, noise)
        return X

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[GaussianMixtures]:
        """Small instances that the tests of all families run on."""
        sizes = 1 + np.arange(n_classes) % 2
        return [cls(sizes, covariance_type(1e-3)) for covariance_type in COVARIANCES.values()]


class Spherical(Diagonal):
    """One variance per component, (..., C, K)."""

    covariance_class_axis = -2
    common_scale = True

    def variances(self, covariance: Array, means: Array) -> Array:
        return namespace(covariance).broadcast_to(covariance[..., None], means.shape)

    def pool(self, a: Array) -> Array:
        return namespace(a).sum(a, axis=-1)

    def initial(self, variances: Array) -> Array:
        return namespace(variances).mean(variances, axis=-1)

    def in_units(self, covariance: Array, scale: Array) -> Array:
        return covariance * scale[0] ** 2

    def n_free(self, n_features: int, n_gaussians: int) -> int:
        return n_gaussians


class Tied(Full):
    """One covariance matrix that all components of all classes share, (..., D, D)."""

    covariance_class_axis = None
    second_class_axis = None
    natural_class_axes = (None, None, -3)

    def per_component(self, covariance: Array) -> Array:
        return covariance[..., None, None, :, :]

    def pool(self, a: Array) -> Array:
        return namespace(a).sum(a, axis=(-4, -3))

    def initial(self, variances: Array) -> Array:
        xp = namespace(variances)
        return super().initial(xp.mean(variances, axis=(-3, -2)))

    def transform_noise(self, covariance: np.ndarray, c: int, k: int, noise: np.ndarray) -> np.ndarray:
        return super().transform_noise(covariance[None, None], 0, 0, noise)

    def n_free(self, n_features: int, n_gaussians: int) -> int:
        return n_features * (n_features + 1) // 2


COVARIANCES: dict[str, type[Covariance]] = {"diag": Diagonal, "full": Full, "tied": Tied, "spherical": Spherical}
