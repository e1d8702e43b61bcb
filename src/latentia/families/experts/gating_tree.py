r"""A tree of gates: paths from the root to the experts, and posteriors of the branches.

Level l has B_l nodes (B_0 = 1) with b_l branches each, and B_{l+1} = B_l b_l; the branches of the
last level are the experts. An expert's score is the sum of the log gates along its path and of its
own log likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from latentia.arrays.namespace import Array, asarray_like, exp_flush_underflow, log_softmax, logsumexp, namespace


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
