r"""A tree of gates: paths from the root to the experts, and posteriors of the branches.

Level l has B_l nodes (B_0 = 1) with b_l branches each, and B_{l+1} = B_l b_l; the branches of the
last level are the experts. An expert's score is the sum of the log gates along its path and of its
own log likelihood.

Mixtures of experts by variational Bayes (Ahmed & Campbell 2011, section IV).

.. math::

    p(y | x) = \sum_g P(g | x, u)\, p(y | x, g), \qquad
    P(g | x, u) = e^{u_g^T x} / \sum_h e^{u_h^T x}

Gates are softmax models; with depth 2 every branch of the first gate leads to a gate of its own
(section VI.B). What the experts are is said by an `Expert`. Every softmax is replaced by its
quadratic bound (`logsumexp_bound`), so with :math:`\langle\cdot\rangle` for expectations

.. math:: \ln p(y_n | x_n) \ge
    \ln \sum_g \exp\{\mu_g^T x_n - \langle\Phi^0_n\rangle + \langle \ln p(y_n | x_n, g)\rangle\},

the posterior of the expert :math:`t_{gn}` being the normalized summand (eq. 48, 53). Statistics of
an expert are weighted by :math:`t_{gn}`, those of a deeper gate by the probability of reaching it.
Slips mended: the left sides of eq. 49 and 51 are precisions; a = a0 + (M+1)/2 in eq. 54 and 55; eq.
58 reads :math:`\langle t_{gn}\rangle` and :math:`\mu_{gc}`, and needs :math:`E[\ln\alpha]`; q(D) of
eq. 41 is not needed. A gate with one branch has no parameters that matter and no divergence.

Mixtures of experts by maximum likelihood or MAP, flat or hierarchical.

.. math:: J = \sum_n \ln \sum_g \exp\{\ln P(g | x_n) + \ln p(y_n | x_n, g)\} - \tfrac{\rho}{2} |w|^2

With the posterior :math:`t_{gn}` of the expert, the gradient in a gate's scores is (posterior
probability of the branch) - (that of the node) x (probability of the branch given x), and in an
expert's parameters :math:`t_{gn}` times the gradient of its own log likelihood, which an `Expert`
gives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from latentia.arrays.linalg import packed_outer, params_at_rows, weighted_row_sums
from latentia.arrays.namespace import Array, asarray_like, exp_flush_underflow, log_softmax, logsumexp, namespace
from latentia.engine.contracts import AcceleratedFamily, ConditionalFamily, SmoothFamily
from latentia.engine.rows import MaskedRows, Memo, Source
from latentia.engine.tree import tree_add
from latentia.families.blocks.bounds import SoftmaxBound, softmax_bound
from latentia.families.blocks.weights import (
    AcceleratedCoordinates,
    GammaPrior,
    GaussianWeights,
    NaturalStats,
    augment,
    from_accelerated,
    posterior_around,
    score_variance,
    to_accelerated,
    update_weights,
    weights_log_prior,
)
from latentia.families.softmax_tree.experts import Expert, LinearGaussianExpert, SoftmaxExpert


class GateResponsibilities(NamedTuple):
    """Posterior probability that a row passes the gates of one level."""

    node: Array  # (..., B, 1, N)
    branch: Array  # (..., B, b, N)


class MixturePosterior(NamedTuple):
    """Which expert a row comes from."""

    log_likelihood: Array  # (..., N) log p(y | x)
    responsibilities: Array  # (..., L, N) posterior of the expert
    gate_probs: tuple[Array, ...]  # (..., B, b, N) probabilities of the branches given x alone


def n_nodes(branches: tuple[int, ...]) -> list[int]:
    """Gates of each level."""
    return [math.prod(branches[:level]) for level in range(len(branches))]


def random_weights(
    branches: tuple[int, ...], n_scores: int, x: Array, rng: np.random.Generator, scale: np.ndarray
) -> tuple[tuple[Array, ...], Array]:
    """Normal weights (R, B, b, D) of the gates and (R, L, K, D) of experts, of R scales."""
    size = x.shape[1] + 1

    def noise(*shape: int) -> Array:
        return asarray_like(rng.normal(size=(len(scale), *shape)) * scale.reshape(-1, *[1] * len(shape)), x)

    gates = tuple(noise(n, b, size) for n, b in zip(n_nodes(branches), branches, strict=True))
    return gates, noise(math.prod(branches), n_scores, size)


def path_scores(log_gates: Sequence[Array]) -> Array:
    """Scores (..., L, N) of the experts from log gates (..., B_l, b_l, N), the root first."""
    root = log_gates[0]
    path = namespace(root).reshape(root, (*root.shape[:-3], root.shape[-3] * root.shape[-2], root.shape[-1]))
    for gate in log_gates[1:]:
        scores = gate + path[..., :, None, :]
        path = namespace(gate).reshape(
            scores, (*scores.shape[:-3], scores.shape[-3] * scores.shape[-2], scores.shape[-1])
        )
    return path


def mix_experts(gate_scores: Sequence[Array], expert_log_likelihood: Array) -> MixturePosterior:
    """The mixture of experts (..., L, N) under gates with scores (..., B, b, N)."""
    log_gates = [log_softmax(scores, axis=-2) for scores in gate_scores]
    joint = path_scores(log_gates) + expert_log_likelihood
    value = logsumexp(joint, axis=-2)
    responsibilities = exp_flush_underflow(joint - value[..., None, :])
    return MixturePosterior(value, responsibilities, tuple(namespace(gate).exp(gate) for gate in log_gates))


def gate_responsibilities(responsibilities: Array, branches: tuple[int, ...]) -> list[GateResponsibilities]:
    """How much of the experts' posterior (..., L, N) runs through each node and branch."""
    xp = namespace(responsibilities)
    by_level = []
    for n, width in zip(n_nodes(branches), branches, strict=True):
        below = responsibilities.shape[-2] // (n * width)
        split = xp.reshape(
            responsibilities, (*responsibilities.shape[:-2], n, width, below, responsibilities.shape[-1])
        )
        branch = xp.sum(split, axis=-2)
        by_level.append(GateResponsibilities(xp.sum(branch, axis=-2, keepdims=True), branch))
    return by_level


def gate_gradients(
    responsibilities: Array, gate_probs: Sequence[Array], branches: tuple[int, ...]
) -> tuple[Array, ...]:
    """Derivatives (..., B, b, N) in the gates' scores; responsibilities may be weighted."""
    levels = gate_responsibilities(responsibilities, branches)
    return tuple(level.branch - level.node * probs for level, probs in zip(levels, gate_probs, strict=True))


class ExpertsPosterior(NamedTuple):
    """Posteriors of all weights."""

    gates: tuple[GaussianWeights, ...]  # of one level each: (..., B, b, D)
    experts: Any  # as the kind of expert has it


class ExpertsStats(NamedTuple):
    """What rows say about all weights."""

    gates: tuple[NaturalStats, ...]
    experts: Any


class ExpertsCoordinates(NamedTuple):
    """What plain steps move slowly."""

    gates: tuple[AcceleratedCoordinates, ...]
    experts: Any


class RowPosterior(NamedTuple):
    """Per-row posterior of the expert, and the bounds at the row."""

    log_joint: Array  # (..., 1, N) bound of log p(y | x)
    responsibilities: Array  # (..., L, N) posterior of the expert
    gates: tuple[SoftmaxBound, ...]
    experts: Any  # scores of the rows under the experts
    x: Array  # (N, D) with the one
    outer: Array  # (N, P) products of features


@dataclass(frozen=True)
class Experts(ConditionalFamily, AcceleratedFamily):
    """Posterior of a mixture of experts.

    Parameters
    ----------
    branches : tuple of int
        Branches of the gates of each level; their product is the number of experts.
    expert : Expert
        What an expert is.
    prior : GammaPrior
        Of the precisions of the gates' weights.
    beta : float
        Inverse temperature of annealing; 1 is variational Bayes.
    """

    branches: tuple[int, ...]
    expert: Expert
    prior: GammaPrior = field(default_factory=GammaPrior)
    beta: float = 1.0

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        return self.expert.n_classes

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[Experts]:
        """Small instances for tests: flat, one expert, annealed, trees."""
        softmax, linear = SoftmaxExpert(n_classes), LinearGaussianExpert(2)
        flat = [cls((2,), softmax), cls((1,), softmax), cls((3,), linear, beta=0.5)]
        return [*flat, cls((2, 3), softmax, GammaPrior(2.0, 0.5)), cls((2, 2), linear)]

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Complete rows, every one with a label or outputs."""
        return self.expert.example_rows(rng, n_rows, n_features)

    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> ExpertsPosterior:
        """Small random weights (the estimators start from maximum likelihood)."""
        x = source.sample_rows(1, rng).rows.values
        scale = np.full(n_restarts, 0.3)
        return self.posterior_around(*random_weights(self.branches, self.expert.n_scores, x, rng, scale), 0.3)

    def posterior_around(self, gates: tuple[Array, ...], experts: Array, variance: float) -> ExpertsPosterior:
        """Parameters about given gate weights (..., B, b, D) and expert weights (..., L, K, D)."""
        gate_posteriors = tuple(posterior_around(gate, variance, self.prior) for gate in gates)
        return ExpertsPosterior(gate_posteriors, self.expert.posterior_around(experts, variance))

    def infer(
        self, params: ExpertsPosterior, rows: MaskedRows, y: Array | None = None, memo: Memo | None = None
    ) -> RowPosterior:
        x = augment(rows.values)
        outer = packed_outer(x)
        bounds, log_gates = [], []
        for gate in params.gates:
            mean = params_at_rows(gate.mean, x)
            bound = softmax_bound(mean, score_variance(gate.covariance, outer))
            bounds.append(bound)
            log_gates.append(mean - bound.value[..., None, :])
        experts = self.expert.infer(params.experts, x, outer, y)
        scores = self.beta * (path_scores(log_gates) + experts.score)
        value = logsumexp(scores, axis=-2)
        responsibilities = exp_flush_underflow(scores - value[..., None, :])
        return RowPosterior(value[..., None, :] / self.beta, responsibilities, tuple(bounds), experts, x, outer)

    def statistics(
        self, params: ExpertsPosterior, rows: MaskedRows, posterior: RowPosterior, weight: Array
    ) -> ExpertsStats:
        responsibilities = weight * posterior.responsibilities
        gates = []
        for bound, level in zip(posterior.gates, gate_responsibilities(responsibilities, self.branches), strict=True):
            precision = weighted_row_sums(level.node * bound.curvature, posterior.outer)
            linear = weighted_row_sums(level.branch + level.node * bound.slope, posterior.x)
            gates.append(NaturalStats(precision, linear))
        experts = self.expert.statistics(posterior.experts, responsibilities, posterior.x, posterior.outer)
        return ExpertsStats(tuple(gates), experts)

    def update(self, params: ExpertsPosterior, stats: ExpertsStats) -> ExpertsPosterior:
        gates = tuple(
            update_weights(gate, rows, self.prior, self.beta, shift_invariant=True) if gate.mean.shape[-2] > 1 else gate
            for gate, rows in zip(params.gates, stats.gates, strict=True)
        )
        return ExpertsPosterior(gates, self.expert.update(params.experts, stats.experts, self.beta))

    def log_prior(self, params: ExpertsPosterior) -> Array:
        xp = namespace(params.gates[0].mean)
        total = self.expert.log_prior(params.experts, self.beta)
        for gate in params.gates:
            if gate.mean.shape[-2] > 1:
                total = total + xp.sum(weights_log_prior(gate, self.prior, self.beta), axis=(-2, -1))
        return total

    def floats_per_row(self, params: ExpertsPosterior) -> int:
        root = params.gates[0].mean
        n_restarts, size = math.prod(root.shape[:-3]), root.shape[-1]
        n_vectors = sum(math.prod(gate.mean.shape[:-1]) for gate in params.gates)
        n_vectors += n_restarts * math.prod(self.branches) * self.expert.n_scores
        return size * (size + 1) // 2 + 12 * n_vectors

    def to_accelerated(self, params: ExpertsPosterior) -> ExpertsCoordinates:
        """What plain steps move slowly: the means and the log rates."""
        gates = tuple(to_accelerated(gate) for gate in params.gates)
        return ExpertsCoordinates(gates, self.expert.to_accelerated(params.experts))

    def from_accelerated(self, coordinates: ExpertsCoordinates, params: ExpertsPosterior) -> ExpertsPosterior:
        gates = tuple(from_accelerated(c, gate) for c, gate in zip(coordinates.gates, params.gates, strict=True))
        return ExpertsPosterior(gates, self.expert.from_accelerated(coordinates.experts, params.experts))


class ExpertsPoint(NamedTuple):
    """Weights of the gates, the last entry of each being the bias, and points of the experts."""

    gates: tuple[Array, ...]  # (..., B, b, D)
    experts: Any  # an `ExpertPoint`


class LikelihoodPosterior(NamedTuple):
    """Per-row posterior of the expert."""

    log_joint: Array  # (..., 1, N) log p(y | x)
    responsibilities: Array  # (..., L, N)
    gate_probs: tuple[Array, ...]  # (..., B, b, N) probabilities of the branches
    experts: Any  # scores of the rows under the experts
    x: Array  # (N, D) with the one


@dataclass(frozen=True)
class ExpertsLikelihood(ConditionalFamily, SmoothFamily):
    """Point estimates of a mixture of experts.

    Parameters
    ----------
    branches : tuple of int
        Branches of the gates of each level.
    expert : Expert
        What an expert is.
    ridge : float
        Precision of a Gaussian prior on all weights; the expert says what it means for other
        parameters.
    """

    branches: tuple[int, ...]
    expert: Expert
    ridge: float = 0.0

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        return self.expert.n_classes

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[ExpertsLikelihood]:
        """Small instances for tests: flat, a tree, linear."""
        softmax, linear = SoftmaxExpert(n_classes), LinearGaussianExpert(2)
        return [cls((2,), softmax, 0.3), cls((2, 3), softmax, 0.3), cls((2,), linear, 0.3)]

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Complete rows, every one with a label or outputs."""
        return self.expert.example_rows(rng, n_rows, n_features)

    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> ExpertsPoint:
        """Random weights, larger in every other restart."""
        x = source.sample_rows(1, rng).rows.values
        scale = np.where(np.arange(n_restarts) % 2, 1.0, 0.1)
        gates, weights = random_weights(self.branches, self.expert.n_scores, x, rng, scale)
        return ExpertsPoint(gates, self.expert.initial_point(weights))

    def infer(
        self, params: ExpertsPoint, rows: MaskedRows, y: Array | None = None, memo: Memo | None = None
    ) -> LikelihoodPosterior:
        x = augment(rows.values)
        experts = self.expert.log_likelihood(params.experts, x, y)
        mixture = mix_experts([params_at_rows(gate, x) for gate in params.gates], experts.value)
        log_joint = mixture.log_likelihood[..., None, :]
        return LikelihoodPosterior(log_joint, mixture.responsibilities, mixture.gate_probs, experts, x)

    def statistics(
        self, params: ExpertsPoint, rows: MaskedRows, posterior: LikelihoodPosterior, weight: Array
    ) -> ExpertsPoint:
        """Gradient of the log likelihood."""
        responsibilities = weight * posterior.responsibilities
        gradients = gate_gradients(responsibilities, posterior.gate_probs, self.branches)
        gates = tuple(weighted_row_sums(gradient, posterior.x) for gradient in gradients)
        return ExpertsPoint(gates, self.expert.gradient_sums(posterior.experts, responsibilities, posterior.x))

    def log_prior(self, params: ExpertsPoint) -> Array:
        total = self.expert.point_log_prior(params.experts, self.ridge)
        for gate in params.gates:
            total = total - namespace(gate).sum(self.ridge * gate**2, axis=(-3, -2, -1)) / 2
        return total

    def floats_per_row(self, params: ExpertsPoint) -> int:
        n_vectors = sum(math.prod(w.shape[:-1]) for w in (*params.gates, params.experts.weights))
        return 6 * n_vectors + 2 * params.experts.weights.shape[-1]

    def to_free(self, params: ExpertsPoint) -> ExpertsPoint:
        return params

    def from_free(self, free: ExpertsPoint, params: ExpertsPoint) -> ExpertsPoint:
        return free

    def gradient(self, params: ExpertsPoint, stats: ExpertsPoint) -> ExpertsPoint:
        gates = tuple(sums - self.ridge * gate for sums, gate in zip(stats.gates, params.gates, strict=True))
        return ExpertsPoint(
            gates, tree_add(stats.experts, self.expert.point_prior_gradient(params.experts, self.ridge))
        )
