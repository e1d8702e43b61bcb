r"""Mixtures of experts by maximum likelihood or MAP, flat or hierarchical.

.. math:: J = \sum_n \ln \sum_g \exp\{\ln P(g | x_n) + \ln p(y_n | x_n, g)\} - \tfrac{\rho}{2} |w|^2

With the posterior :math:`t_{gn}` of the expert, the gradient in a gate's scores is (mass through the branch) - (mass at the node) x (its probability), in an expert's class scores
:math:`t_{gn} (1[c = y_n] - P(c | x_n, g))`, and in a linear expert's output :math:`t_{gn} (y_n - w^T x_n) / \sigma_g^2`. The variance of a linear expert is a floor plus an exponential:
an expert may settle on rows that it fits without any residual, and there the likelihood has no maximum. A ridge does the same for the noise as for the weights: it is the rate of a gamma prior
of shape 1 of the precision, :math:`-\rho / \sigma_g^2`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from latentia.engine.contracts import ConditionalFamily, MaskedRows, SmoothFamily, Source
from latentia.families.building_blocks.example_data import make_example_rows
from latentia.families.building_blocks.gamma_prior import ridge_of
from latentia.families.building_blocks.gaussian_weights import augment
from latentia.families.experts.gating_tree import gate_shares, path_scores
from latentia.numerics.array_api import LOG_2PI, Array, asarray_like, namespace, one_hot, transpose
from latentia.numerics.logspace import exp_flush_underflow, logsumexp
from latentia.numerics.matmul import params_at_rows, weighted_row_sums

#: Least variance of a linear expert's noise, in units of the outputs' variance.
NOISE_FLOOR = 1e-8


def noise_variance(log_noise: Array) -> Array:
    """Of linear experts, in units of the outputs' variance."""
    return NOISE_FLOOR + _above_floor(log_noise)


def _above_floor(log_noise: Array) -> Array:
    xp = namespace(log_noise)
    return xp.exp(xp.clip(log_noise, max=50.0))  # a line search may ask for anything


def log_noise_of(variance: Array) -> Array:
    """Inverse of `noise_variance`; what is at the floor or below comes out just above it."""
    xp = namespace(variance)
    return xp.log(xp.clip(variance - NOISE_FLOOR, min=1e-3 * NOISE_FLOOR))


class ExpertsWeights(NamedTuple):
    """Weights of gates and experts; the last entry of each vector is the bias."""

    gates: tuple[Array, ...]  # (..., B, b, D)
    experts: Array  # (..., L, K, D)
    log_noise: Array  # (..., L, K) log of the variance above the floor; unused by softmax experts


class LeafScores(NamedTuple):
    """Rows under the experts."""

    value: Array  # (..., L, N) log p(y | x, g)
    slope: Array  # (..., L, K, N) derivative of it in the expert's scores
    noise_slope: Array  # (..., L, K, N) and in its log noise


class ExpertsLikelihoodPosterior(NamedTuple):
    """What is known of some rows."""

    log_joint: Array  # (..., 1, N) log p(y | x)
    share: Array  # (..., L, N)
    gates: tuple[Array, ...]  # (..., B, b, N) probabilities of the branches
    slope: Array  # (..., L, K, N) derivative of an expert's log likelihood in its scores
    noise_slope: Array  # (..., L, K, N) and in its log noise
    x: Array


@dataclass(frozen=True)
class ExpertsLikelihood(ConditionalFamily, SmoothFamily):
    """Point estimates of a mixture of experts.

    Parameters
    ----------
    branches : tuple of int
        Branches of the gates of each level.
    n_scores : int
        Classes of softmax experts, or outputs of linear ones.
    linear : bool
        Whether the experts are linear-Gaussian.
    ridge : float or ExpertsWeights
        Precision of a Gaussian prior: one for all, or one for each weight vector. Of linear experts' noise it is the rate of a gamma prior.
    """

    branches: tuple[int, ...]
    n_scores: int
    linear: bool = False
    ridge: Any = 0.0

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        return 1 if self.linear else self.n_scores

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[ExpertsLikelihood]:
        """Small instances for tests: flat, a tree, linear."""
        return [cls((2,), n_classes, ridge=0.3), cls((2, 3), n_classes, ridge=0.3), cls((2,), 2, True, 0.3)]

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Complete rows, every one with a label or outputs."""
        n_outputs = self.n_scores if self.linear else 0
        return make_example_rows(rng, n_rows, n_features, self.n_classes, n_outputs)

    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> ExpertsWeights:
        """Random weights, larger in every other start."""
        x = source.sample_rows(1, rng).rows.values
        size, n_leaves = x.shape[1] + 1, math.prod(self.branches)
        scale = np.where(np.arange(n_restarts) % 2, 1.0, 0.1)

        def noise(*shape: int) -> Array:
            return asarray_like(rng.normal(size=(n_restarts, *shape)) * scale.reshape(-1, *[1] * len(shape)), x)

        nodes = [math.prod(self.branches[:level]) for level in range(len(self.branches))]
        gates = tuple(noise(n, b, size) for n, b in zip(nodes, self.branches, strict=True))
        experts = noise(n_leaves, self.n_scores, size)
        return ExpertsWeights(gates, experts, namespace(x).zeros_like(experts[..., 0]) - 1.0)

    def infer(self, params: ExpertsWeights, rows: MaskedRows, y: Array | None = None) -> ExpertsLikelihoodPosterior:
        x = augment(rows.values)
        gates = tuple(params_at_rows(gate, x) for gate in params.gates)
        leaves = (
            self._linear(params, x, y) if self.linear else self.softmax_leaves(params_at_rows(params.experts, x), y)
        )
        return self.at_scores(gates, leaves, x)

    def at_scores(self, gates: tuple[Array, ...], leaves: LeafScores, x: Array) -> ExpertsLikelihoodPosterior:
        """What is known of rows whose gates have scores (..., B, b, N)."""
        xp = namespace(x)
        log_gates = [scores - logsumexp(scores, axis=-2)[..., None, :] for scores in gates]
        joint = path_scores(log_gates) + leaves.value
        value = logsumexp(joint, axis=-2)
        share = exp_flush_underflow(joint - value[..., None, :])
        proba = tuple(xp.exp(gate) for gate in log_gates)
        return ExpertsLikelihoodPosterior(value[..., None, :], share, proba, leaves.slope, leaves.noise_slope, x)

    def softmax_leaves(self, scores: Array, y: Array) -> LeafScores:
        """Softmax experts with scores (..., L, K, N)."""
        xp = namespace(scores)
        log_proba = scores - logsumexp(scores, axis=-2)[..., None, :]
        own = one_hot(y, self.n_scores, scores.dtype)
        slope = own - xp.exp(log_proba)
        return LeafScores(xp.sum(own * log_proba, axis=-2), slope, xp.zeros_like(slope))

    def _linear(self, params: ExpertsWeights, x: Array, y: Array) -> LeafScores:
        xp = namespace(x)
        residual = transpose(y) - params_at_rows(params.experts, x)
        free, variance = _above_floor(params.log_noise)[..., None], noise_variance(params.log_noise)[..., None]
        scaled = residual * residual / variance
        score = -xp.sum(scaled + xp.log(variance) + LOG_2PI, axis=-2) / 2
        return LeafScores(score, residual / variance, (scaled - 1) / 2 * free / variance)

    def gate_slopes(self, posterior: ExpertsLikelihoodPosterior, share: Array) -> tuple[Array, ...]:
        """Derivatives of the log likelihood in the gates' scores; `share` is the experts' posterior, weighted or not."""
        masses = gate_shares(share, self.branches)
        return tuple(m.branch - m.node * proba for m, proba in zip(masses, posterior.gates, strict=True))

    def statistics(
        self, params: ExpertsWeights, rows: MaskedRows, posterior: ExpertsLikelihoodPosterior, weight: Array
    ) -> ExpertsWeights:
        x = posterior.x
        xp = namespace(x)
        share = weight * posterior.share
        gates = tuple(weighted_row_sums(slope, x) for slope in self.gate_slopes(posterior, share))
        experts = weighted_row_sums(share[..., None, :] * posterior.slope, x)
        noise = xp.sum(share[..., None, :] * posterior.noise_slope, axis=-1)
        return ExpertsWeights(gates, experts, noise)

    def log_prior(self, params: ExpertsWeights) -> Array:
        xp = namespace(params.experts)
        ridge = self._ridges(params)
        total = xp.sum(ridge.experts * params.experts**2, axis=(-3, -2, -1))
        for weights, r in zip(params.gates, ridge.gates, strict=True):
            total = total + xp.sum(r * weights**2, axis=(-3, -2, -1))
        if self.linear:
            total = total + 2 * xp.sum(ridge.log_noise / noise_variance(params.log_noise), axis=(-2, -1))
        return -total / 2

    def floats_per_row(self, params: ExpertsWeights) -> int:
        vectors = sum(math.prod(w.shape[:-1]) for w in (*params.gates, params.experts))
        return 6 * vectors + 2 * params.experts.shape[-1]

    def to_free(self, params: ExpertsWeights) -> ExpertsWeights:
        return params

    def from_free(self, free: ExpertsWeights, params: ExpertsWeights) -> ExpertsWeights:
        return ExpertsWeights(*free)

    def gradient(self, params: ExpertsWeights, stats: ExpertsWeights) -> ExpertsWeights:
        ridge = self._ridges(params)
        gates = tuple(g - r * w for w, g, r in zip(params.gates, stats.gates, ridge.gates, strict=True))
        experts = stats.experts - ridge.experts * params.experts
        if not self.linear:
            return ExpertsWeights(gates, experts, stats.log_noise)
        free, variance = _above_floor(params.log_noise), noise_variance(params.log_noise)
        return ExpertsWeights(gates, experts, stats.log_noise + ridge.log_noise * free / variance / variance)

    def _ridges(self, params: ExpertsWeights) -> ExpertsWeights:
        """A precision beside each weight, and the rate of the prior of each noise."""
        if isinstance(self.ridge, ExpertsWeights):
            gates = tuple(ridge_of(r, w) for r, w in zip(self.ridge.gates, params.gates, strict=True))
            return ExpertsWeights(gates, ridge_of(self.ridge.experts, params.experts), self.ridge.log_noise)
        gates = tuple(ridge_of(self.ridge, w) for w in params.gates)
        rate = namespace(params.log_noise).full_like(params.log_noise, self.ridge)
        return ExpertsWeights(gates, ridge_of(self.ridge, params.experts), rate)
