r"""Softmax trees: every node is a softmax gate that sends a row on, until it comes to a leaf.

A node is in charge of a part of the feature space and divides it among its children by a softmax of
scores linear in x (with a one appended); a leaf says what y is in its part. The models of Ahmed &
Campbell 2011 ("Variational Bayesian learning of probabilistic discriminative models with latent
softmax variables") are

- multimodal softmax: ``Node(Leaf(c) for c in classes for _ in range(n_subclasses[c]))``, one gate,
  whose branches are the subclasses (section III);
- mixtures of experts: ``Node(Node(Leaf(c) for c in classes) for _ in range(n_experts))``, a gate
  over softmax models, or over such gates (sections IV and VI.B);
- their regression: ``Node(Leaf(linear) for _ in range(n_experts))`` (section VI.B).

.. math:: p(y | x) = \sum_l p(y | x, l) \prod_{(g, i) \text{ on the path to } l} P_g(i | x), \qquad
    P_g(i | x) = e^{w_{gi}^T x} / \sum_j e^{w_{gj}^T x}

All nodes of a level have equally many branches: level l has B_l gates (B_0 = 1) of b_l branches,
and B_{l+1} = B_l b_l. Two passes do everything. Upward, the log likelihood of a gate is the
log-sum-exp over its branches of log gate plus log likelihood below, and the normalized summands are
the posterior of the branch; where leaves belong to classes, only those of the label's class count
(`SoftmaxTree.explain`). Downward, the products of these posteriors along a path are the posterior
probabilities t of passing its gates (eq. 3, 24, 48; `SoftmaxTree.descend`).

**Maximum likelihood** or MAP (`TreeLikelihood`):

.. math:: J(w) = \sum_n \ln p(y_n | x_n) - \tfrac{\rho}{2} \sum_i |w_i|^2.

The gradient in the scores of a gate is :math:`t_{gin} - t_{gn} P_g(i | x_n)`: (posterior
probability of the branch) - (that of the gate) x (probability of the branch given x); a leaf has
:math:`t_{ln}` times the gradient of its own log likelihood. One gate with one leaf a class and
:math:`\rho = 0` is multinomial logistic regression. Adding one vector to all weights of a gate
changes nothing; the contrasts are identified.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Self, cast

import numpy as np

from latentia.arrays.linalg import packed_outer, params_at_rows, weighted_row_sums
from latentia.arrays.namespace import Array, asarray_like, logsumexp_and_softmax, namespace, to_numpy
from latentia.engine.contracts import ConditionalFamily, SmoothFamily
from latentia.engine.rows import MaskedRows, Memo, Source
from latentia.engine.tree import Tree, tree_add
from latentia.families.blocks.bounds import GammaPrior, log_expected_softmax
from latentia.families.blocks.starts import cluster_restarts, make_example_rows
from latentia.families.softmax_tree.leaves import (
    ClassLeaves,
    GateRows,
    GaussianWeights,
    LeafRows,
    Leaves,
    LinearLeaves,
    P,
    Q,
    S,
    augment,
    choose_branch,
    join_branches,
    score_moments,
    split_branches,
)


class Point(NamedTuple):
    """A point estimate of all parameters."""

    gates: tuple[Array, ...]  # weights (..., B, b, D) of each level, the root first
    leaves: Tree  # P, not by its type: skops reads named tuples that are nothing else


class Posterior(NamedTuple):
    """Posteriors of all parameters."""

    gates: tuple[GaussianWeights, ...]  # (..., B, b, D) of each level, the root first
    leaves: Tree


class Explanation(NamedTuple):
    """What is known of rows where y is."""

    log_likelihood: Array  # (..., N) log p(y | x), or a bound of it
    shares: tuple[Array, ...]  # (..., B, b, N) posterior of the branch of each gate, the root first


@dataclass(frozen=True)
class SoftmaxTree(Generic[P, Q, S]):
    """Which model is meant.

    Parameters
    ----------
    branches : tuple of int
        Branches of the gates of each level, the root first.
    leaves : Leaves
        What the branches of the last level lead to.
    prior : GammaPrior
        Of the precisions of the gates' weights.
    """

    branches: tuple[int, ...]
    leaves: Leaves[P, Q, S]
    prior: GammaPrior = field(default_factory=GammaPrior)

    @property
    def n_nodes(self) -> list[int]:
        """Gates of each level."""
        return [math.prod(self.branches[:level]) for level in range(len(self.branches))]

    @property
    def n_leaves(self) -> int:
        return math.prod(self.branches)

    @property
    def is_convex(self) -> bool:
        """Whether the likelihood has one maximum: y leaves no choice of the path."""
        return math.prod(self.branches[:-1]) * max(self.leaves.alike(self.branches[-1])) == 1

    @property
    def log_permutations(self) -> float:
        """Log of the number of ways to exchange branches that change nothing."""
        alike = [*((width,) for width in self.branches[:-1]), self.leaves.alike(self.branches[-1])]
        by_gate = [sum(math.lgamma(n + 1) for n in sizes) for sizes in alike]
        return sum(n * each for n, each in zip(self.n_nodes, by_gate, strict=True))

    def n_free(self, size: int) -> int:
        """Identified parameters for rows of `size` entries, the one included."""
        n_gate_vectors = sum(n * (width - 1) for n, width in zip(self.n_nodes, self.branches, strict=True))
        return n_gate_vectors * size + self.n_leaves * self.leaves.n_free(size)

    @property
    def n_vectors(self) -> int:
        """Weight vectors of gates and leaves: scores of a row."""
        gates = sum(n * width for n, width in zip(self.n_nodes, self.branches, strict=True))
        return gates + self.n_leaves * self.leaves.n_scores

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Complete rows for tests, every one with a label or outputs."""
        return make_example_rows(rng, n_rows, n_features, self.leaves.n_classes, self.leaves.n_outputs)

    def equivalent_points(self, point: Point) -> list[Point]:
        """Of a convex model: points equal in likelihood, unequal in prior.

        Each branch in turn is at zero, where the prior prefers to have one.
        """
        *upper, last = point.gates
        shifted = [last - last[..., k : k + 1, :] for k in range(last.shape[-2])] if last.shape[-2] > 1 else []
        return [point, *(point._replace(gates=(*upper, gate)) for gate in shifted)]

    def point_of(self, posterior: Posterior) -> Point:
        """The point that a posterior stands for: its means."""
        return Point(tuple(gate.mean for gate in posterior.gates), self.leaves.point_of(cast("Q", posterior.leaves)))

    def map_weights(self, point: Point, fn: Callable[[Array], Array]) -> Point:
        """The point with a function of all weights (..., D) in their place."""
        return Point(tuple(fn(gate) for gate in point.gates), self.leaves.map_weights(cast("P", point.leaves), fn))

    # Upward and downward

    def explain(self, gates: Sequence[GateRows], rows: LeafRows, y: Array) -> Explanation:
        """Log likelihoods of y and posteriors of the branches."""
        *upper, last = gates
        value, share = self.leaves.choose(last, rows, y)
        shares = [share]
        for gate in reversed(upper):
            value, share = choose_branch(gate, value)
            shares.append(share)
        return Explanation(value[..., 0, :], tuple(reversed(shares)))

    def descend(self, shares: Sequence[Array], weight: Array) -> list[Array]:
        """How much of a weight (..., 1, N) of the rows reaches each gate, (..., B, 1, N)."""
        nodes = [weight[..., None, :]]
        for share in shares[:-1]:
            nodes.append(join_branches(nodes[-1] * share)[..., None, :])
        return nodes

    def at_leaves(self, shares: Sequence[Array], weight: Array) -> Array:
        """How much of it reaches each leaf, (..., L, N)."""
        return join_branches(self.descend(shares, weight)[-1] * shares[-1])

    # Predictions: plugged in from a point, or averaged over a posterior

    def log_gates(
        self, params: Point | Posterior, x: Array, outer: Array | None, n_levels: int | None = None
    ) -> list[Array]:
        """Log probabilities (B, b, N) of the branches of every gate, of all levels or of some."""
        return [log_expected_softmax(*score_moments(gate, x, outer)) for gate in params.gates[:n_levels]]

    def log_paths(self, params: Point | Posterior, x: Array, outer: Array | None, n_levels: int | None = None) -> Array:
        """Log probabilities (n, N) of the paths through them."""
        first, *rest = self.log_gates(params, x, outer, n_levels)
        path = join_branches(first)
        for log_gate in rest:
            path = join_branches(path[:, None, :] + log_gate)
        return path

    def log_class_proba(self, params: Point | Posterior, rows: MaskedRows) -> Array:
        """Log probabilities (C, N) of the classes: those of the paths to their leaves, joined."""
        x, outer = prediction_inputs(params, rows)
        paths = split_branches(self.log_paths(params, x, outer), self.branches[-1])
        return self.leaves.join_classes(paths)

    def log_predictive(self, params: Point | Posterior, rows: MaskedRows, y: Array) -> Array:
        """Log predictive probability or density (N,) of what was observed."""
        x, outer = prediction_inputs(params, rows)
        leaves = self.leaves.log_density(cast("P | Q", params.leaves), x, outer, y)
        gates = [GateRows(log_gate, 0.0) for log_gate in self.log_gates(params, x, outer)]
        return self.explain(gates, leaves, y).log_likelihood

    def floats_per_row(self, size: int) -> int:
        """Floats of workspace per row of predictions, or of sweeps over a posterior."""
        return size * (size + 1) // 2 + 12 * self.n_vectors


def prediction_inputs(params: Point | Posterior, rows: MaskedRows) -> tuple[Array, Array | None]:
    """Rows with a one appended, and their products where variances are needed."""
    x = augment(rows.values)
    return x, packed_outer(x) if isinstance(params, Posterior) else None


def multimodal_softmax(
    n_subclasses: Sequence[int], prior: GammaPrior | None = None
) -> SoftmaxTree[tuple[()], tuple[()], tuple[()]]:
    """One gate, with some leaves for each class."""
    classes = np.repeat(np.arange(len(n_subclasses)), n_subclasses).tolist()
    return SoftmaxTree((len(classes),), ClassLeaves(tuple(classes)), prior or GammaPrior())


def mixture_of_experts(
    branches: tuple[int, ...], n_classes: int, prior: GammaPrior | None = None
) -> SoftmaxTree[tuple[()], tuple[()], tuple[()]]:
    """Gates over softmax models of the classes."""
    return SoftmaxTree((*branches, n_classes), ClassLeaves(tuple(range(n_classes))), prior or GammaPrior())


class PointRows(NamedTuple):
    """Rows at a point."""

    log_joint: Array  # (..., 1, N) log p(y | x)
    shares: tuple[Array, ...]  # (..., B, b, N) posterior of the branch
    excess: tuple[Array, ...]  # (..., B, b, N) its probability given x alone, less that
    leaves: LeafRows
    x: Array  # (N, D) with the one


@dataclass(frozen=True)
class TreeLikelihood(
    ConditionalFamily[Point, Point, PointRows], SmoothFamily[Point, Point, PointRows], Generic[P, Q, S]
):
    """Point estimates of a tree; `ridge` is the precision of a Gaussian prior on all weights.

    Leaves say what it means for their other parameters.
    """

    tree: SoftmaxTree[P, Q, S]
    ridge: float = 0.0

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        return self.tree.leaves.n_classes

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[Self]:
        """Small instances for tests: subclasses, experts, a deeper tree, linear leaves."""
        several = tuple(1 + k % 3 for k in range(n_classes))
        of_classes = (
            (multimodal_softmax(several), 0.1),
            (multimodal_softmax((1,) * n_classes), 0.5),
            (mixture_of_experts((2,), n_classes), 0.3),
            (mixture_of_experts((2, 3), n_classes), 0.3),
        )
        linear = TreeLikelihood(SoftmaxTree((2,), LinearLeaves(2)), 0.3)
        return cast("list[Self]", [*(TreeLikelihood(tree, ridge) for tree, ridge in of_classes), linear])

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        return self.tree.example_rows(rng, n_rows, n_features)

    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> Point:
        """Random weights, small and large in turn; of a single gate over classes also centroids."""
        tree = self.tree
        if len(tree.branches) == 1 and tree.leaves.classes:
            gate = mixed_restarts(tree.leaves.alike(tree.branches[0]), source, rng, n_restarts)
            return Point((gate[:, None, ...],), tree.leaves.initial_point(gate[:, :0, :]))
        x = source.sample_rows(1, rng).rows.values
        scale = np.where(np.arange(n_restarts) % 2, 1.0, 0.1)[:, None, None, None]

        def noise(n: int, width: int) -> Array:
            return asarray_like(rng.normal(size=(n_restarts, n, width, x.shape[1] + 1)) * scale, x)

        gates = tuple(noise(n, width) for n, width in zip(tree.n_nodes, tree.branches, strict=True))
        return Point(gates, tree.leaves.initial_point(noise(tree.n_leaves, tree.leaves.n_scores)))

    def infer(self, params: Point, rows: MaskedRows, y: Array | None = None, memo: Memo | None = None) -> PointRows:
        assert y is not None  # a conditional family scores labels
        x = augment(rows.values)
        gates, probs = zip(*(gate_rows(params_at_rows(gate, x)) for gate in params.gates), strict=True)
        leaves = self.tree.leaves.log_likelihood(cast("P", params.leaves), x, y)
        value, shares = self.tree.explain(gates, leaves, y)
        for prob, share in zip(probs, shares, strict=True):
            prob -= share
        return PointRows(value[..., None, :], shares, probs, leaves, x)

    def statistics(self, params: Point, rows: MaskedRows, posterior: PointRows, weight: Array) -> Point:
        """Gradient of the log likelihood."""
        nodes = self.tree.descend(posterior.shares, weight)
        gates = tuple(
            -weighted_row_sums(node * excess, posterior.x) for node, excess in zip(nodes, posterior.excess, strict=True)
        )
        leaves = self.tree.leaves.gradient(posterior.leaves, nodes[-1], posterior.shares[-1], posterior.x)
        return Point(gates, leaves)

    def log_prior(self, params: Point) -> Array | float:
        total, _ = self.tree.leaves.point_log_prior(cast("P", params.leaves), self.ridge)
        for gate in params.gates:
            total = total - namespace(gate).sum(self.ridge * gate**2, axis=(-3, -2, -1)) / 2
        return total

    def floats_per_row(self, params: Point) -> int:
        root = params.gates[0]
        return 6 * math.prod(root.shape[:-3]) * self.tree.n_vectors + 2 * root.shape[-1]

    def to_free(self, params: Point) -> Point:
        return params

    def from_free(self, free: Tree, params: Point) -> Point:
        return cast("Point", free)

    def gradient(self, params: Point, stats: Point) -> Point:
        _, of_leaves = self.tree.leaves.point_log_prior(cast("P", params.leaves), self.ridge)
        return tree_add(stats, Point(tuple(-self.ridge * gate for gate in params.gates), of_leaves))


def gate_rows(scores: Array) -> tuple[GateRows, Array]:
    """Rows with scores (..., B, b, N) at gates, and probabilities of the branches."""
    log_total, probs = logsumexp_and_softmax(scores + 0.0, axis=-2)  # of a copy, which it overwrites
    return GateRows(scores, log_total), probs


#: Rows of each class that initial weights are made from.
N_INIT_ROWS = 2000


def mixed_restarts(n_subclasses: tuple[int, ...], source: Source, rng: np.random.Generator, n_restarts: int) -> Array:
    """Random weights, small and large, and k-means centroids in turn: none is best on all data."""
    centroids = centroid_restarts(n_subclasses, source, rng, n_restarts)
    turn = np.arange(n_restarts) % 3
    noise = rng.normal(size=centroids.shape) * np.where(turn == 1, 1.0, 0.1)[:, None, None]
    use_centroids = asarray_like(turn == 2, centroids)[:, None, None]
    return asarray_like(noise, centroids) * (1 - use_centroids) + centroids * use_centroids


def centroid_restarts(
    n_subclasses: tuple[int, ...], source: Source, rng: np.random.Generator, n_restarts: int
) -> Array:
    """Weights (n_restarts, S, D) of a softmax by distance to subclass centroids.

    Scores -|x - c_i|^2 / (2 s^2) are linear up to a common term. The centroids are those of k-means
    within each class, s^2 the mean variance of the clusters' features.
    """
    chunk = source.sample_rows(N_INIT_ROWS, rng)
    x, y = to_numpy(chunk.rows.values).astype(float), to_numpy(chunk.y)
    weight = None if chunk.weight is None else to_numpy(chunk.weight).astype(float)
    center = np.average(x, axis=0, weights=weight)
    total_variance = max(float(np.average((x - center) ** 2, axis=0, weights=weight).mean()), 1e-12)
    clusters = []
    for label, n in enumerate(n_subclasses):
        own = y == label
        clusters.append(cluster_restarts(x[own], n, n_restarts, rng, None if weight is None else weight[own]))
    variance = np.concatenate([variances for _, variances, _ in clusters], axis=1).mean(axis=(1, 2))
    variance = np.maximum(variance, 1e-3 * total_variance)[:, None]
    offset = np.concatenate([means for means, _, _ in clusters], axis=1) - center
    slopes = offset / variance[..., None]
    bias = -(offset**2).sum(axis=2) / (2 * variance) - slopes @ center
    weights = np.concatenate([slopes, bias[..., None]], axis=2)
    return asarray_like(weights - weights.mean(axis=1, keepdims=True), chunk.rows.values)
