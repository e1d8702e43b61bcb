r"""A tree of gates: paths from the root to the leaves, and what the leaves' shares say about each gate.

Level l has B_l nodes (B_0 = 1) with b_l branches each, and B_{l+1} = B_l b_l; the last level's branches are the leaves, the experts. A leaf's score is the sum of the log gates
along its path and of its expert's log likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from latentia.numerics.array_api import Array, namespace


class GateShare(NamedTuple):
    """Posterior mass that passes the gates of one level."""

    node: Array  # (..., B, 1, N)
    branch: Array  # (..., B, b, N)


def path_scores(log_gates: Sequence[Array]) -> Array:
    """Scores (..., L, N) of the leaves from log gates (..., B_l, b_l, N), the root first."""
    path: Array | None = None
    for gate in log_gates:
        xp = namespace(gate)
        scores = gate if path is None else gate + path[..., :, None, :]
        path = xp.reshape(scores, (*scores.shape[:-3], scores.shape[-3] * scores.shape[-2], scores.shape[-1]))
    assert path is not None
    return path


def gate_shares(share: Array, branches: tuple[int, ...]) -> list[GateShare]:
    """How much of the leaves' posterior (..., L, N) runs through each node and branch."""
    xp = namespace(share)
    gate_probs = []
    n_nodes = 1
    for width in branches:
        below = share.shape[-2] // (n_nodes * width)
        split = xp.reshape(share, (*share.shape[:-2], n_nodes, width, below, share.shape[-1]))
        branch = xp.sum(split, axis=-2)
        gate_probs.append(GateShare(xp.sum(branch, axis=-2, keepdims=True), branch))
        n_nodes *= width
    return gate_probs
