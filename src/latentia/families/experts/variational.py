r"""Mixtures of experts by variational Bayes (Ahmed & Campbell 2011, section IV), flat or hierarchical.

.. math:: p(y | x) = \sum_g P(g | x, u)\, p(y | x, g), \qquad P(g | x, u) = e^{u_g^T x} / \sum_h e^{u_h^T x}

Gates are softmax models; with depth 2 every branch of the first gate leads to a gate of its own (section VI.B). Experts are softmax models over the classes or linear-Gaussian
models (`expert_models`). Every softmax is replaced by its quadratic bound (`logsumexp_bound`), so with :math:`\langle\cdot\rangle` for expectations

.. math:: \ln p(y_n | x_n) \ge \ln \sum_g \exp\{\mu_g^T x_n - \langle\Phi^0_n\rangle + \langle \ln p(y_n | x_n, g)\rangle\},

the posterior of the expert :math:`t_{gn}` being the normalized summand (eq. 48, 53). Statistics of an expert are weighted by :math:`t_{gn}`, those of a deeper gate by the mass that
reaches it. Slips mended: the left sides of eq. 49 and 51 are precisions; a = a0 + (M+1)/2 in eq. 54 and 55; eq. 58 reads :math:`\langle t_{gn}\rangle` and :math:`\mu_{gc}`, and needs
:math:`E[\ln\alpha]`; q(D) of eq. 41 is not needed. A gate with one branch has no parameters that matter and no divergence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from latentia.engine.contracts import AcceleratedFamily, ConditionalFamily, MaskedRows, Source
from latentia.families.building_blocks.example_data import make_example_rows
from latentia.families.building_blocks.gamma_prior import GammaPrior
from latentia.families.building_blocks.gaussian_weights import (
    Pull,
    augment,
    from_accelerated,
    score_variance,
    start_weights,
    to_accelerated,
    update_weights,
    weights_log_prior,
)
from latentia.families.building_blocks.logsumexp_bound import SoftmaxBound, softmax_bound
from latentia.families.experts.expert_models import LinearGaussianExpert, SoftmaxExpert
from latentia.families.experts.gating_tree import gate_shares, path_scores
from latentia.numerics.array_api import Array, namespace
from latentia.numerics.logspace import exp_flush_underflow, logsumexp
from latentia.numerics.matmul import params_at_rows, weighted_row_sums
from latentia.numerics.packed_symmetric import packed_outer


class ExpertsParams(NamedTuple):
    """Posteriors of all weights."""

    gates: tuple[Any, ...]  # weights of one level each: (..., B, b, D)
    leaves: Any  # of the experts


class ExpertsStats(NamedTuple):
    """What rows say about all weights."""

    gates: tuple[Pull, ...]
    leaves: Any


class ExpertsPosterior(NamedTuple):
    """What is known of some rows."""

    log_joint: Array  # (..., 1, N) bound of log p(y | x)
    share: Array  # (..., L, N) posterior of the expert
    gates: tuple[SoftmaxBound, ...]
    leaves: Any
    x: Array  # (N, D) with the one
    outer: Array  # (N, P) products of features


@dataclass(frozen=True)
class Experts(ConditionalFamily, AcceleratedFamily):
    """Posterior of a mixture of experts.

    Parameters
    ----------
    branches : tuple of int
        Branches of the gates of each level; their product is the number of experts.
    leaf : SoftmaxExpert or LinearGaussianExpert
        What an expert is.
    prior : GammaPrior
        Of the precisions of the gates' weights.
    beta : float
        Inverse temperature of annealing; 1 is variational Bayes.
    """

    branches: tuple[int, ...]
    leaf: SoftmaxExpert | LinearGaussianExpert
    prior: GammaPrior = field(default_factory=GammaPrior)
    beta: float = 1.0

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        return self.leaf.n_classes

    @property
    def n_experts(self) -> int:
        """Number of leaves."""
        return math.prod(self.branches)

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[Experts]:
        """Small instances for tests: flat, a tree, one expert, annealed, linear."""
        softmax, linear = SoftmaxExpert(n_classes), LinearGaussianExpert(2)
        flat = [cls((2,), softmax), cls((1,), softmax), cls((3,), linear, beta=0.5)]
        return [*flat, cls((2, 3), softmax, GammaPrior(2.0, 0.5)), cls((2, 2), linear)]

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Complete rows, every one with a label or outputs."""
        n_outputs = self.leaf.n_scores if isinstance(self.leaf, LinearGaussianExpert) else 0
        return make_example_rows(rng, n_rows, n_features, self.n_classes, n_outputs)

    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> ExpertsParams:
        """Small random weights (the estimators start from maximum likelihood)."""
        x = source.sample_rows(1, rng).rows.values
        xp = namespace(x)
        size = x.shape[1] + 1

        def noise(*shape: int) -> Array:
            return xp.asarray(0.3 * rng.normal(size=(n_restarts, *shape)), dtype=x.dtype)

        nodes = [math.prod(self.branches[:level]) for level in range(len(self.branches))]
        gates = tuple(noise(n, b, size) for n, b in zip(nodes, self.branches, strict=True))
        return self.start(gates, noise(self.n_experts, self.leaf.n_scores, size), 0.3)

    def start(self, gates: tuple[Array, ...], experts: Array, variance: float) -> ExpertsParams:
        """Parameters about given gate weights (..., B, b, D) and expert weights (..., L, K, D)."""
        posts = tuple(start_weights(gate, variance, self.prior) for gate in gates)
        return ExpertsParams(posts, self.leaf.start(experts, variance))

    def infer(self, params: ExpertsParams, rows: MaskedRows, y: Array | None = None) -> ExpertsPosterior:
        x = augment(rows.values)
        outer = packed_outer(x)
        bounds, log_gates = [], []
        for gate in params.gates:
            mean = params_at_rows(gate.mean, x)
            bound = softmax_bound(mean, score_variance(gate.covariance, outer))
            bounds.append(bound)
            log_gates.append(mean - bound.value[..., None, :])
        leaves = self.leaf.infer(params.leaves, x, outer, y)
        scores = self.beta * (path_scores(log_gates) + leaves.score)
        value = logsumexp(scores, axis=-2)
        share = exp_flush_underflow(scores - value[..., None, :])
        return ExpertsPosterior(value[..., None, :] / self.beta, share, tuple(bounds), leaves, x, outer)

    def statistics(
        self, params: ExpertsParams, rows: MaskedRows, posterior: ExpertsPosterior, weight: Array
    ) -> ExpertsStats:
        share = weight * posterior.share
        gates = []
        for bound, mass in zip(posterior.gates, gate_shares(share, self.branches), strict=True):
            precision = weighted_row_sums(mass.node * bound.curvature, posterior.outer)
            gates.append(Pull(precision, weighted_row_sums(mass.branch + mass.node * bound.slope, posterior.x)))
        leaves = self.leaf.statistics(posterior.leaves, share, posterior.x, posterior.outer)
        return ExpertsStats(tuple(gates), leaves)

    def update(self, params: ExpertsParams, stats: ExpertsStats) -> ExpertsParams:
        gates = tuple(
            update_weights(gate, pull, self.prior, self.beta, shared=True) if gate.mean.shape[-2] > 1 else gate
            for gate, pull in zip(params.gates, stats.gates, strict=True)
        )
        return ExpertsParams(gates, self.leaf.update(params.leaves, stats.leaves, self.beta))

    def log_prior(self, params: ExpertsParams) -> Array:
        xp = namespace(params.gates[0].mean)
        total = self.leaf.log_prior(params.leaves, self.beta)
        for gate in params.gates:
            if gate.mean.shape[-2] > 1:
                total = total + xp.sum(weights_log_prior(gate, self.prior, self.beta), axis=(-2, -1))
        return total

    def floats_per_row(self, params: ExpertsParams) -> int:
        size = params.gates[0].mean.shape[-1]
        vectors = sum(int(np.prod(gate.mean.shape[:-1])) for gate in params.gates)
        return size * (size + 1) // 2 + 12 * (vectors + self.leaf.floats_per_row(params.leaves))

    def to_accelerated(self, params: ExpertsParams) -> ExpertsParams:
        """What plain steps move slowly: the means and the log rates."""
        return ExpertsParams(
            tuple(to_accelerated(gate) for gate in params.gates), self.leaf.to_accelerated(params.leaves)
        )

    def from_accelerated(self, coordinates: ExpertsParams, params: ExpertsParams) -> ExpertsParams:
        gates = tuple(from_accelerated(f, gate) for f, gate in zip(coordinates.gates, params.gates, strict=True))
        return ExpertsParams(gates, self.leaf.from_accelerated(coordinates.leaves, params.leaves))
