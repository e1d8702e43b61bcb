r"""Normal posteriors of softmax weights under the exact likelihood, and their evidence bound.

The quadratic bound of `logsumexp_bound` makes every step of variational Bayes closed, but it lies
far below the log-sum-exp where scores are close to each other, the more so the more softmax models
there are: its posteriors are too confident, and its value is biased against models with more parts.
This family keeps the priors and takes the likelihood itself. With scores :math:`a_{in} = w_i^T x_n`
of independent :math:`u_i \sim N(m_i, \Lambda_i^{-1})`,

.. math:: \ln p(Y) \ge \sum_n E[\ell_n(a_n)] - KL(q(w) q(\alpha) \,\|\, p(w | \alpha) p(\alpha)).

- :math:`E[\ell_n]` is an average over a fixed set of points z (Sobol, antithetic, of unit
  covariance), :math:`a_{in} = m_i^T x_n + s_{in} z_i`. Its derivatives in the mean and the variance
  of a score are the averages of the derivative :math:`g_i` in the score and of :math:`g_i z_i / 2
  s_{in}`, so that derivatives in the scores are all that is needed of the likelihood.
- Adding one vector c to all weights of a softmax changes no probability. So :math:`w_i = u_i + c`
  with :math:`c \sim N(0, T)` has the same :math:`E[\ell]` for any T. With :math:`R = \sum_i
  \Lambda_i`, :math:`A = \sum_i \langle\alpha_i\rangle`, the best is :math:`T = I / A - R^{-1}`, and
  the bound gains :math:`\tfrac12 (\ln |R / A| - D + A\, \mathrm{tr}\, R^{-1})`. Independent weights
  would pay this for every softmax. T is a covariance: along eigenvectors of R whose eigenvalue is
  below A, which extrapolated steps may have, it is zero, and so is the gain.
- With the expected curvatures :math:`H_i = -\sum_n E[g_i z_i] / s_{in}\, x_n x_n^T` the bound is
  stationary where :math:`\Lambda_i = \langle\alpha_i\rangle I + H_i + \Lambda_i R^{-1} (R - A I)
  R^{-1} \Lambda_i` and :math:`\sum_n E[g_i] x_n = \langle\alpha_i\rangle m_i`; for two scores that
  is :math:`\Lambda = \alpha I + 2 H`. A damped step goes a fraction of the way from the present
  precisions to those that the right side gives, with a Newton step of the means
  (`solvers/damped_ascent.py` takes and accelerates them).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from latentia.arrays.linalg import packed_outer, params_at_rows, symmetric, unpack, weighted_row_sums
from latentia.arrays.namespace import Array, asarray_like, eye_like, namespace, transpose
from latentia.arrays.small_systems import normal_qmc_points
from latentia.engine.contracts import ConditionalFamily, DampedFamily
from latentia.engine.rows import MaskedRows, Memo, Source
from latentia.estimators.softmax.models import ExpertTreeSpec, ModelSpec, SubclassSpec
from latentia.families.blocks.weights import (
    GammaPrior,
    GaussianWeights,
    augment,
    inverse,
    score_variance,
    weighted_mean,
    weights_log_prior,
)
from latentia.families.softmax_tree.experts import LinearGaussianExpert, SoftmaxExpert

#: Points of the averages over scores.
N_POINTS = 64


class SoftmaxPosterior(NamedTuple):
    """Posterior of the weights of M softmax models with b scores each."""

    weights: GaussianWeights  # (..., M, b, D)
    precision: Array  # (..., M, b, D, D)


class ExactParams(NamedTuple):
    """Posteriors under the exact likelihood, and that under the bound, whose other parts stay."""

    softmaxes: tuple[SoftmaxPosterior, ...]
    bound_posterior: Any


class Coordinates(NamedTuple):
    """What steps change of a softmax posterior."""

    mean: Array  # (..., M, b, D)
    log_rate: Array  # (..., M, b)
    precision: Array  # (..., M, b, D, D)


class ScoreDerivatives(NamedTuple):
    """Of the expected log likelihood of rows, for one softmax posterior."""

    gradient: Array  # (..., M, b, N) in the means of the scores
    curvature: Array  # (..., M, b, N) minus twice that in their variances


class GradientSums(NamedTuple):
    """Sums over rows of expected gradients and curvatures, for one softmax posterior."""

    gradient: Array  # (..., M, b, D)
    curvature: Array  # (..., M, b, D(D+1)/2)


class RowDerivatives(NamedTuple):
    """Expected log likelihood of rows, and its derivatives."""

    log_joint: Array  # (..., 1, N)
    softmaxes: tuple[ScoreDerivatives, ...]
    x: Array  # (N, D) with the one
    outer: Array  # (N, P) products of features


@dataclass(frozen=True)
class ExactPosterior(ConditionalFamily, DampedFamily):
    """The posterior of a model under its exact likelihood."""

    spec: ModelSpec
    n_points: int = N_POINTS  # of the averages over scores, at least

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        return self.spec.likelihood().n_classes

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[ExactPosterior]:
        """Small instances for tests: subclasses, a tree of softmax experts, linear experts."""
        several = tuple(1 + k % 3 for k in range(n_classes))
        tree = ExpertTreeSpec((2, 3), SoftmaxExpert(n_classes), GammaPrior(2.0, 0.5))
        return [cls(SubclassSpec(several)), cls(tree), cls(ExpertTreeSpec((3,), LinearGaussianExpert(2)))]

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Complete rows, every one with a label or outputs."""
        return self.spec.likelihood().example_rows(rng, n_rows, n_features)

    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> ExactParams:
        """Around the initial posterior of the bound (estimators start where it has converged)."""
        return self.from_bound(self.spec.variational().init(source, rng, n_restarts))

    def from_bound(self, posterior: Any) -> ExactParams:
        """Parameters that start at a posterior under the quadratic bound."""
        softmaxes = self.spec.softmax_posteriors(posterior)
        return ExactParams(tuple(SoftmaxPosterior(w, inverse(w.covariance)[0]) for w in softmaxes), posterior)

    def posterior_of(self, params: ExactParams) -> Any:
        """The posterior in the form that the bound's has."""
        weights = tuple(softmax.weights for softmax in params.softmaxes)
        return self.spec.with_softmax_posteriors(params.bound_posterior, weights)

    def infer(
        self, params: ExactParams, rows: MaskedRows, y: Array | None = None, memo: Memo | None = None
    ) -> RowDerivatives:
        x = augment(rows.values)
        xp, outer = namespace(x), packed_outer(x)
        points = standard_points([softmax.weights.mean for softmax in params.softmaxes], self.n_points)
        scores, stds = [], []
        for (weights, _), z in zip(params.softmaxes, points, strict=True):
            std = xp.sqrt(xp.clip(score_variance(weights.covariance, outer), min=1e-12))
            scores.append(params_at_rows(weights.mean, x) + std * z)
            stds.append(std)
        value, gradients = self.spec.log_likelihood_at(params.bound_posterior, tuple(scores), x, outer, y)
        derivatives = tuple(
            ScoreDerivatives(xp.mean(gradient, axis=0), -xp.mean(gradient * z, axis=0) / std)
            for gradient, std, z in zip(gradients, stds, points, strict=True)
        )
        return RowDerivatives(xp.mean(value, axis=0)[..., None, :], derivatives, x, outer)

    def statistics(
        self, params: ExactParams, rows: MaskedRows, posterior: RowDerivatives, weight: Array
    ) -> tuple[GradientSums, ...]:
        weight = weight[..., None, :]
        return tuple(
            GradientSums(
                weighted_row_sums(weight * derivatives.gradient, posterior.x),
                weighted_row_sums(weight * derivatives.curvature, posterior.outer),
            )
            for derivatives in posterior.softmaxes
        )

    def log_prior(self, params: ExactParams) -> Array | float:
        total = self.spec.fixed_log_prior(params.bound_posterior)
        for softmax in params.softmaxes:
            total = total + softmax_log_prior(softmax, self.spec.prior)
        return total

    def floats_per_row(self, params: ExactParams) -> int:
        means = [softmax.weights.mean for softmax in params.softmaxes]
        n_drawn = standard_points(means, self.n_points)[0].shape[0] * sum(math.prod(mean.shape[:-1]) for mean in means)
        size = means[0].shape[-1]
        return size * (size + 1) // 2 + 6 * n_drawn

    def damped_update(self, params: ExactParams, stats: tuple[GradientSums, ...], step: float) -> ExactParams | None:
        pairs = zip(params.softmaxes, stats, strict=True)
        return self._with(params, [_damped_step(softmax, sums, self.spec.prior, step) for softmax, sums in pairs])

    def to_accelerated(self, params: ExactParams) -> tuple[Coordinates, ...]:
        """Means, log rates and precisions."""
        return tuple(
            Coordinates(weights.mean, namespace(precision).log(weights.rate), precision)
            for weights, precision in params.softmaxes
        )

    def from_accelerated(self, coordinates: tuple[Coordinates, ...], params: ExactParams) -> ExactParams | None:
        xp = namespace(coordinates[0].mean)
        return self._with(
            params, [_at_precision(c.mean, symmetric(c.precision), xp.exp(c.log_rate)) for c in coordinates]
        )

    def acceleration_metric(self, params: ExactParams) -> tuple[Coordinates, ...]:
        """Inverse standard deviations of the means, and of the log rates; precisions go along."""
        metric = []
        for weights, precision in params.softmaxes:
            xp, size = namespace(precision), precision.shape[-1]
            root = xp.sqrt(xp.linalg.diagonal(precision))
            metric.append(Coordinates(root, xp.full_like(weights.rate, size**0.5), xp.zeros_like(precision)))
        return tuple(metric)

    def _with(self, params: ExactParams, softmaxes: Iterable[SoftmaxPosterior | None]) -> ExactParams | None:
        """None if one of the softmax posteriors is."""
        valid = tuple(softmax for softmax in softmaxes if softmax is not None)
        return params._replace(softmaxes=valid) if len(valid) == len(params.softmaxes) else None


def standard_points(means: list[Array], n_points: int) -> list[Array]:
    """Standard normal points (P, 1.., M, b, 1) for scores of models with means (..., M, b, D)."""
    sizes = [math.prod(mean.shape[-3:-1]) for mean in means]
    parts = np.split(normal_qmc_points(n_points, sum(sizes)), np.cumsum(sizes)[:-1], axis=1)
    return [
        asarray_like(part.reshape(-1, *[1] * (mean.ndim - 3), *mean.shape[-3:-1], 1), mean)
        for part, mean in zip(parts, means, strict=True)
    ]


def softmax_log_prior(softmax: SoftmaxPosterior, prior: GammaPrior) -> Array | float:
    """Minus the divergence (...,) from the prior, with the best common shift."""
    weights = softmax.weights
    if weights.mean.shape[-2] == 1:
        return 0.0
    xp, size = namespace(weights.mean), weights.mean.shape[-1]
    total = xp.sum(prior.precision(weights.rate, size), axis=-1)
    ratio = _shift_ratios(softmax.precision, total)
    gain = xp.sum(xp.log(ratio) - 1 + 1 / ratio, axis=-1)
    return xp.sum(weights_log_prior(weights, prior), axis=(-2, -1)) + xp.sum(gain, axis=-1) / 2


def _shift_ratios(precision: Array, total_alpha: Array) -> Array:
    """Eigenvalues (..., M, D) of R / A, and one for those below, where nothing is shifted."""
    xp = namespace(precision)
    eigenvalues = xp.linalg.eigvalsh(xp.sum(precision, axis=-3))
    return xp.clip(eigenvalues / total_alpha[..., None], min=1.0)


def _damped_step(
    softmax: SoftmaxPosterior, sums: GradientSums, prior: GammaPrior, step: float
) -> SoftmaxPosterior | None:
    """A damped step of means and precisions, then the prior's precisions that fit."""
    weights, precision = softmax
    if weights.mean.shape[-2] == 1:
        return softmax
    xp, size = namespace(weights.mean), weights.mean.shape[-1]
    alpha = prior.precision(weights.rate, size)
    total_alpha = xp.sum(alpha, axis=-1, keepdims=True)
    eye = eye_like(size, alpha)
    total = xp.sum(precision, axis=-3, keepdims=True)
    half = xp.matmul(precision, inverse(total)[0])
    common = xp.matmul(half, xp.matmul(total - total_alpha[..., None, None] * eye, transpose(half)))
    target = alpha[..., None, None] * eye + unpack(sums.curvature, size) + common
    moved = _at_precision(weights.mean, (1 - step) * precision + step * symmetric(target), weights.rate)
    if moved is None:
        return None
    covariance = moved.weights.covariance
    gradient = sums.gradient - alpha[..., None] * weights.mean
    mean = weights.mean + step * xp.matmul(covariance, gradient[..., None])[..., 0]
    mean = mean - weighted_mean(mean, alpha)
    ratio = _shift_ratios(moved.precision, total_alpha[..., 0])
    shift_variance = xp.sum(1 - 1 / ratio, axis=-1, keepdims=True) / total_alpha
    square = xp.sum(mean * mean, axis=-1) + xp.linalg.trace(covariance) + shift_variance
    return moved._replace(weights=moved.weights._replace(mean=mean, rate=prior.rate + square / 2))


def _at_precision(mean: Array, precision: Array, rate: Array) -> SoftmaxPosterior | None:
    """None where a precision is not positive; the bound later rejects near-singular ones."""
    xp = namespace(precision)
    if not bool(xp.all(xp.linalg.diagonal(precision) > 0)):
        return None
    covariance, log_det = inverse(precision)
    return SoftmaxPosterior(GaussianWeights(mean, covariance, log_det, rate), precision)
