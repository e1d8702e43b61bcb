r"""Posteriors of the parameters of a softmax tree: under the quadratic bound, and without it.

**Variational Bayes** (Ahmed & Campbell 2011, sections III and IV; `BoundPosterior`). With the
weights' priors and posteriors of `leaves`, every softmax is replaced by its quadratic bound
:math:`\Phi` (`blocks/bounds`), so that with :math:`\langle\cdot\rangle` for expectations a row
contributes at least

.. math:: \ln \sum_{l} \exp\Bigl\{\sum_{(g, i) \text{ to } l} \bigl(\mu_{gi}^T x_n -
    \langle\Phi^g_n\rangle\bigr) + \langle \ln p(y_n | x_n, l)\rangle\Bigr\}.

Where leaves belong to classes the sum is over those of the class :math:`d_n`: of a single gate it
reads :math:`\ln \sum_{i \in \sigma(d_n)} e^{\mu_i^T x_n} - \langle\Phi_n\rangle`. The posteriors t
of paths are refreshed by `infer` (eq. 3, 24, 48, 53), the statistics of a gate are weighted by the
probability of reaching it, then weights and precisions are updated in turn (eq. 25-29, 49-55).
Slips of the paper that are mended: eq. 31 has (S+1)/2 for S/2; the left sides of eq. 49 and 51 are
precisions; a = a0 + (M+1)/2 in eq. 54 and 55; eq. 32 and 58 need :math:`E[\ln\alpha]`, and 58 reads
:math:`\langle t_{gn}\rangle` and :math:`\mu_{gc}`; q(D) of eq. 41 is not needed; the permutation
penalty runs over the K classes. A gate with one branch has no parameters that matter and no
divergence.

The bound is not tight even at known weights: there it is a product of logistic models, :math:`\ln
P(i) \ge a_i - \gamma - \sum_j \ln(1 + e^{a_j - \gamma})`. So with many rows the means tend to
weights whose *logistic* probabilities, not whose softmax, are right: for two subclasses the
contrasts come out twice too large; and the bound's value is biased against models with more parts.

**The exact likelihood** (`ExactPosterior`) has neither bias. It keeps the priors. With scores
:math:`a_{in} = w_i^T x_n` of independent :math:`u_i \sim N(m_i, \Lambda_i^{-1})`,

.. math:: \ln p(Y) \ge \sum_n E[\ell_n(a_n)] - KL(q(w) q(\alpha) \,\|\, p(w | \alpha) p(\alpha)).

- :math:`E[\ell_n]` is an average over a fixed set of points z (Sobol, antithetic, of unit
  covariance), :math:`a_{in} = m_i^T x_n + s_{in} z_i`. Its derivatives in the mean and the variance
  of a score are the averages of the derivative :math:`g_i` in the score and of :math:`g_i z_i / 2
  s_{in}`, so that derivatives in the scores are all that is needed of the likelihood.
- Adding one vector c to all weights of a gate changes no probability. So :math:`w_i = u_i + c` with
  :math:`c \sim N(0, T)` has the same :math:`E[\ell]` for any T. With :math:`R = \sum_i \Lambda_i`,
  :math:`A = \sum_i \langle\alpha_i\rangle`, the best is :math:`T = I / A - R^{-1}`, and the bound
  gains :math:`\tfrac12 (\ln |R / A| - D + A\, \mathrm{tr}\, R^{-1})`. Independent weights would pay
  this for every gate. T is a covariance: along eigenvectors of R whose eigenvalue is below A, which
  extrapolated steps may have, it is zero, and so is the gain.
- With the expected curvatures :math:`H_i = -\sum_n E[g_i z_i] / s_{in}\, x_n x_n^T` the bound is
  stationary where :math:`\Lambda_i = \langle\alpha_i\rangle I + H_i + \Lambda_i R^{-1} (R - A I)
  R^{-1} \Lambda_i` and :math:`\sum_n E[g_i] x_n = \langle\alpha_i\rangle m_i`; for two scores that
  is :math:`\Lambda = \alpha I + 2 H`. A damped step goes a fraction of the way from the present
  precisions to those that the right side gives, with a Newton step of the means
  (`solvers/ascent` takes and accelerates them).
- Linear leaves need no bound and keep their posterior.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Self, cast

import numpy as np

from latentia.arrays.linalg import normal_qmc_points, packed_outer, params_at_rows, symmetric, unpack, weighted_row_sums
from latentia.arrays.namespace import Array, asarray_like, eye_like, namespace, transpose
from latentia.engine.contracts import AcceleratedFamily, ConditionalFamily, DampedFamily
from latentia.engine.rows import MaskedRows, Memo, Source
from latentia.engine.tree import Tree
from latentia.families.blocks.bounds import GammaPrior, SoftmaxBound, softmax_bound
from latentia.families.softmax_tree.leaves import (
    AcceleratedCoordinates,
    GateRows,
    GaussianWeights,
    LeafRows,
    LinearLeaves,
    NaturalStats,
    P,
    Q,
    S,
    augment,
    from_accelerated,
    inverse,
    posterior_around,
    score_variance,
    to_accelerated,
    update_weights,
    weighted_mean,
    weights_log_prior,
)
from latentia.families.softmax_tree.tree import (
    Point,
    Posterior,
    SoftmaxTree,
    TreeLikelihood,
    gate_rows,
    mixture_of_experts,
    multimodal_softmax,
)


class BoundRows(NamedTuple):
    """Rows under a posterior, and the quadratic bounds there."""

    log_joint: Array  # (..., 1, N) bound of log p(y | x)
    shares: tuple[Array, ...]  # (..., B, b, N) posterior of the branch
    bounds: tuple[SoftmaxBound, ...]  # of each level of gates
    leaves: LeafRows
    x: Array  # (N, D) with the one
    outer: Array  # (N, P) products of features


class BoundStats(NamedTuple, Generic[S]):
    """What rows say about all weights."""

    gates: tuple[NaturalStats, ...]
    leaves: S


class TreeCoordinates(NamedTuple):
    """What plain steps move slowly."""

    gates: tuple[AcceleratedCoordinates, ...]
    leaves: tuple[Array, ...]


@dataclass(frozen=True)
class BoundPosterior(
    ConditionalFamily[Posterior, BoundStats[S], BoundRows],
    AcceleratedFamily[Posterior, BoundStats[S], BoundRows],
    Generic[P, Q, S],
):
    """The posterior of a tree under the quadratic bound.

    Parameters
    ----------
    tree : SoftmaxTree
        The model.
    beta : float
        Inverse temperature of annealing; 1 is variational Bayes.
    """

    tree: SoftmaxTree[P, Q, S]
    beta: float = 1.0

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        return self.tree.leaves.n_classes

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[Self]:
        """Small instances for tests: subclasses, experts, annealed ones, deeper trees."""
        several, narrow = tuple(1 + k % 3 for k in range(n_classes)), GammaPrior(2.0, 0.5)
        softmax, linear = multimodal_softmax(several), LinearLeaves(2)
        of_classes = [
            *(BoundPosterior(softmax), BoundPosterior(multimodal_softmax((1,) * n_classes, narrow))),
            BoundPosterior(softmax, beta=0.4),
            *(BoundPosterior(mixture_of_experts((k,), n_classes)) for k in (2, 1)),
            BoundPosterior(mixture_of_experts((2, 3), n_classes, narrow)),
        ]
        of_numbers = [BoundPosterior(SoftmaxTree((3,), linear), beta=0.5), BoundPosterior(SoftmaxTree((2, 2), linear))]
        return cast("list[Self]", [*of_classes, *of_numbers])

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        return self.tree.example_rows(rng, n_rows, n_features)

    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> Posterior:
        """Around initial points (the estimators start from those of maximum likelihood)."""
        return self.posterior_around(TreeLikelihood(self.tree).init(source, rng, n_restarts), 0.3)

    def posterior_around(self, point: Point, variance: float) -> Posterior:
        """Parameters about a point."""
        gates = tuple(posterior_around(gate, variance, self.tree.prior) for gate in point.gates)
        return Posterior(gates, self.tree.leaves.posterior_around(cast("P", point.leaves), variance))

    def infer(self, params: Posterior, rows: MaskedRows, y: Array | None = None, memo: Memo | None = None) -> BoundRows:
        assert y is not None  # a conditional family scores labels
        x = augment(rows.values)
        outer = packed_outer(x)
        bounds, gates = [], []
        for gate in params.gates:
            mean = params_at_rows(gate.mean, x)
            bounds.append(softmax_bound(mean, score_variance(gate.covariance, outer)))
            gates.append(GateRows(mean, bounds[-1].value))
        leaves = self.tree.leaves.expected_log_likelihood(cast("Q", params.leaves), x, outer, y)
        if self.beta != 1.0:
            gates = [GateRows(self.beta * scores, self.beta * log_total) for scores, log_total in gates]
        value, shares = self.tree.explain(gates, leaves._replace(value=self.beta * leaves.value), y)
        return BoundRows(value[..., None, :] / self.beta, shares, tuple(bounds), leaves, x, outer)

    def statistics(self, params: Posterior, rows: MaskedRows, posterior: BoundRows, weight: Array) -> BoundStats[S]:
        nodes = self.tree.descend(posterior.shares, weight)
        gates = []
        for node, share, bound in zip(nodes, posterior.shares, posterior.bounds, strict=True):
            precision = weighted_row_sums(node * bound.curvature, posterior.outer)
            gates.append(NaturalStats(precision, weighted_row_sums(node * (share + bound.slope), posterior.x)))
        last = nodes[-1], posterior.shares[-1]
        leaves = self.tree.leaves.statistics(posterior.leaves, *last, posterior.x, posterior.outer)
        return BoundStats(tuple(gates), leaves)

    def update(self, params: Posterior, stats: BoundStats[S]) -> Posterior:
        gates = tuple(
            update_weights(gate, rows, self.tree.prior, self.beta, shift_invariant=True)
            if n_branches(gate) > 1
            else gate
            for gate, rows in zip(params.gates, stats.gates, strict=True)
        )
        return Posterior(gates, self.tree.leaves.update(cast("Q", params.leaves), stats.leaves, self.beta))

    def log_prior(self, params: Posterior) -> Array | float:
        total = self.tree.leaves.log_prior(cast("Q", params.leaves), self.beta)
        for gate in params.gates:
            if n_branches(gate) > 1:
                by_vector = weights_log_prior(gate, self.tree.prior, self.beta)
                total = total + namespace(by_vector).sum(by_vector, axis=(-2, -1))
        return total

    def floats_per_row(self, params: Posterior) -> int:
        *restarts, _, _, size = params.gates[0].mean.shape
        return size * (size + 1) // 2 + 12 * math.prod(restarts) * self.tree.n_vectors

    def to_accelerated(self, params: Posterior) -> TreeCoordinates:
        """The means and the log rates."""
        gates = tuple(to_accelerated(gate) for gate in params.gates)
        return TreeCoordinates(gates, self.tree.leaves.to_accelerated(cast("Q", params.leaves)))

    def from_accelerated(self, coordinates: Tree, params: Posterior) -> Posterior:
        assert isinstance(coordinates, TreeCoordinates)
        gates = tuple(from_accelerated(c, gate) for c, gate in zip(coordinates.gates, params.gates, strict=True))
        return Posterior(gates, self.tree.leaves.from_accelerated(coordinates.leaves, cast("Q", params.leaves)))


def n_branches(gate: GaussianWeights) -> int:
    """Of each gate of a level; one branch leaves nothing to learn."""
    return int(gate.mean.shape[-2])


#: Points of the averages over scores.
N_POINTS = 64


class GatePosterior(NamedTuple):
    """Posterior of the weights of B gates with b branches each, and its precisions."""

    weights: GaussianWeights  # (..., B, b, D)
    precision: Array  # (..., B, b, D, D)


class ExactParams(NamedTuple):
    """Posteriors of the gates under the exact likelihood; those of the leaves stay."""

    gates: tuple[GatePosterior, ...]
    leaves: Tree


class GateCoordinates(NamedTuple):
    """What steps change of the posterior of gates."""

    mean: Array  # (..., B, b, D)
    log_rate: Array  # (..., B, b)
    precision: Array  # (..., B, b, D, D)


class ScoreDerivatives(NamedTuple):
    """Of the expected log likelihood of rows, for the gates of a level."""

    gradient: Array  # (..., B, b, N) in the means of the scores
    curvature: Array  # (..., B, b, N) minus twice that in their variances


class GradientSums(NamedTuple):
    """Sums over rows of expected gradients and curvatures, for the gates of a level."""

    gradient: Array  # (..., B, b, D)
    curvature: Array  # (..., B, b, D(D+1)/2)


class ExactRows(NamedTuple):
    """Expected log likelihood of rows, and its derivatives."""

    log_joint: Array  # (..., 1, N)
    gates: tuple[ScoreDerivatives, ...]
    x: Array  # (N, D) with the one
    outer: Array  # (N, P) products of features


@dataclass(frozen=True)
class ExactPosterior(
    ConditionalFamily[ExactParams, tuple[GradientSums, ...], ExactRows],
    DampedFamily[ExactParams, tuple[GradientSums, ...], ExactRows],
    Generic[P, Q, S],
):
    """The posterior of a tree under its exact likelihood."""

    tree: SoftmaxTree[P, Q, S]
    n_points: int = N_POINTS  # of the averages over scores, at least

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        return self.tree.leaves.n_classes

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[Self]:
        """Small instances for tests: subclasses, a deeper tree, linear leaves."""
        several = tuple(1 + k % 3 for k in range(n_classes))
        deeper = mixture_of_experts((2, 3), n_classes, GammaPrior(2.0, 0.5))
        linear = ExactPosterior(SoftmaxTree((3,), LinearLeaves(2)))
        return cast("list[Self]", [ExactPosterior(multimodal_softmax(several)), ExactPosterior(deeper), linear])

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        return self.tree.example_rows(rng, n_rows, n_features)

    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> ExactParams:
        """Around the initial posterior of the bound (estimators start where it has converged)."""
        return self.from_posterior(BoundPosterior(self.tree).init(source, rng, n_restarts))

    def from_posterior(self, posterior: Posterior) -> ExactParams:
        """Parameters that start at any posterior."""
        gates = tuple(GatePosterior(weights, inverse(weights.covariance)[0]) for weights in posterior.gates)
        return ExactParams(gates, posterior.leaves)

    def to_posterior(self, params: ExactParams) -> Posterior:
        return Posterior(tuple(gate.weights for gate in params.gates), params.leaves)

    def infer(
        self, params: ExactParams, rows: MaskedRows, y: Array | None = None, memo: Memo | None = None
    ) -> ExactRows:
        assert y is not None  # a conditional family scores labels
        x = augment(rows.values)
        xp, outer = namespace(x), packed_outer(x)
        points = standard_points([gate.weights.mean for gate in params.gates], self.n_points)
        stds, gates, probs = [], [], []
        for (weights, _), z in zip(params.gates, points, strict=True):
            stds.append(xp.sqrt(xp.clip(score_variance(weights.covariance, outer), min=1e-12)))
            gate, prob = gate_rows(params_at_rows(weights.mean, x) + stds[-1] * z)
            gates.append(gate)
            probs.append(prob)
        leaves = self.tree.leaves.expected_log_likelihood(cast("Q", params.leaves), x, outer, y)
        value, shares = self.tree.explain(gates, leaves, y)
        derivatives, nodes = [], self.tree.descend(shares, xp.ones_like(x[None, :, 0]))
        for level, (share, prob, std, z) in enumerate(zip(shares, probs, stds, points, strict=True)):
            prob -= share
            if level:  # every row comes by the root
                prob *= nodes[level]
            derivatives.append(ScoreDerivatives(-xp.mean(prob, axis=0), xp.mean(prob * z, axis=0) / std))
        return ExactRows(xp.mean(value, axis=0)[..., None, :], tuple(derivatives), x, outer)

    def statistics(
        self, params: ExactParams, rows: MaskedRows, posterior: ExactRows, weight: Array
    ) -> tuple[GradientSums, ...]:
        weight = weight[..., None, :]
        return tuple(
            GradientSums(
                weighted_row_sums(weight * gate.gradient, posterior.x),
                weighted_row_sums(weight * gate.curvature, posterior.outer),
            )
            for gate in posterior.gates
        )

    def log_prior(self, params: ExactParams) -> Array | float:
        total = self.tree.leaves.log_prior(cast("Q", params.leaves), 1.0)
        for gate in params.gates:
            total = total + gate_log_prior(gate, self.tree.prior)
        return total

    def floats_per_row(self, params: ExactParams) -> int:
        means = [gate.weights.mean for gate in params.gates]
        n_drawn = standard_points(means, self.n_points)[0].shape[0] * sum(math.prod(mean.shape[:-1]) for mean in means)
        size = means[0].shape[-1]
        return size * (size + 1) // 2 + 6 * n_drawn

    def damped_update(self, params: ExactParams, stats: tuple[GradientSums, ...], step: float) -> ExactParams | None:
        pairs = zip(params.gates, stats, strict=True)
        return _with_gates(params, [_damped_step(gate, sums, self.tree.prior, step) for gate, sums in pairs])

    def to_accelerated(self, params: ExactParams) -> tuple[GateCoordinates, ...]:
        """Means, log rates and precisions."""
        return tuple(
            GateCoordinates(weights.mean, namespace(precision).log(weights.rate), precision)
            for weights, precision in params.gates
        )

    def from_accelerated(self, coordinates: Tree, params: ExactParams) -> ExactParams | None:
        gates = cast("tuple[GateCoordinates, ...]", coordinates)
        exp = namespace(gates[0].mean).exp
        return _with_gates(params, [_at_precision(c.mean, symmetric(c.precision), exp(c.log_rate)) for c in gates])

    def acceleration_metric(self, params: ExactParams) -> tuple[GateCoordinates, ...]:
        """Inverse standard deviations of the means, and of the log rates; precisions go along."""
        metric = []
        for weights, precision in params.gates:
            xp, size = namespace(precision), precision.shape[-1]
            root = xp.sqrt(xp.linalg.diagonal(precision))
            metric.append(GateCoordinates(root, xp.full_like(weights.rate, size**0.5), xp.zeros_like(precision)))
        return tuple(metric)


def standard_points(means: Sequence[Array], n_points: int) -> list[Array]:
    """Standard normal points (P, 1.., B, b, 1) for scores of gates with means (..., B, b, D)."""
    sizes = [math.prod(mean.shape[-3:-1]) for mean in means]
    parts = np.split(normal_qmc_points(n_points, sum(sizes)), np.cumsum(sizes)[:-1], axis=1)
    return [
        asarray_like(part.reshape(-1, *[1] * (mean.ndim - 3), *mean.shape[-3:-1], 1), mean)
        for part, mean in zip(parts, means, strict=True)
    ]


def gate_log_prior(gate: GatePosterior, prior: GammaPrior) -> Array | float:
    """Minus the divergence (...,) from the prior, with the best common shift."""
    weights = gate.weights
    if n_branches(weights) == 1:
        return 0.0
    xp, size = namespace(weights.mean), weights.mean.shape[-1]
    total = xp.sum(prior.precision(weights.rate, size), axis=-1)
    ratio = _shift_ratios(gate.precision, total)
    gain = xp.sum(xp.log(ratio) - 1 + 1 / ratio, axis=-1)
    return xp.sum(weights_log_prior(weights, prior), axis=(-2, -1)) + xp.sum(gain, axis=-1) / 2


def _with_gates(params: ExactParams, gates: Iterable[GatePosterior | None]) -> ExactParams | None:
    """None if one of the gates is."""
    valid = tuple(gate for gate in gates if gate is not None)
    return ExactParams(valid, params.leaves) if len(valid) == len(params.gates) else None


def _shift_ratios(precision: Array, total_alpha: Array) -> Array:
    """Eigenvalues (..., B, D) of R / A, and one for those below, where nothing is shifted."""
    xp = namespace(precision)
    eigenvalues = xp.linalg.eigvalsh(xp.sum(precision, axis=-3))
    return xp.clip(eigenvalues / total_alpha[..., None], min=1.0)


def _damped_step(gate: GatePosterior, sums: GradientSums, prior: GammaPrior, step: float) -> GatePosterior | None:
    """A damped step of means and precisions, then the prior's precisions that fit."""
    weights, precision = gate
    if n_branches(weights) == 1:
        return gate
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


def _at_precision(mean: Array, precision: Array, rate: Array) -> GatePosterior | None:
    """None where a precision is not positive; the bound later rejects near-singular ones."""
    xp = namespace(precision)
    if not bool(xp.all(xp.linalg.diagonal(precision) > 0)):
        return None
    covariance, log_det = inverse(precision)
    return GatePosterior(GaussianWeights(mean, covariance, log_det, rate), precision)
