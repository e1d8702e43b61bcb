"""Several starts as one batch: coordinates as rows on the host, and the record of how each start went."""

from __future__ import annotations

import numpy as np

from latentia._arrays import Array, like, namespace, to_numpy
from latentia.core import Params
from latentia.solvers.record import Solution
from latentia.tree import Tree, leaves, one_start, stack_starts, tree_map


class BatchRecord:
    """Curves and ends of all starts, of which those in `index` still run."""

    def __init__(self, n_starts: int):
        self.index = np.arange(n_starts)
        self.curves: list[list[float]] = [[] for _ in range(n_starts)]
        self.params: list[Params] = [None] * n_starts
        self.reason = [""] * n_starts

    def add(self, values: np.ndarray) -> None:
        for start, value in zip(self.index.tolist(), values.tolist(), strict=True):
            self.curves[start].append(value)

    def finish(self, which: np.ndarray, params: Params, why: str) -> None:
        for k in which.tolist():
            self.params[self.index[k]] = one_start(params, k)
            self.reason[self.index[k]] = why
        self.index = np.delete(self.index, which)

    def solution(self) -> Solution:
        return Solution(
            params=stack_starts(self.params),
            value=np.array([curve[-1] for curve in self.curves]),
            curves=[np.array(curve) for curve in self.curves],
            n_iter=np.array([len(curve) - 1 for curve in self.curves]),
            converged=np.array([text.startswith("converged") for text in self.reason]),
            reason=self.reason,
        )


def host(value: Array) -> np.ndarray:
    return np.array(to_numpy(value), dtype=float, ndmin=1)


def start_rows(tree: Tree) -> np.ndarray:
    """Each start's coordinates as one row."""
    parts = [to_numpy(a).astype(np.float64) for a in leaves(tree)]
    return np.concatenate([a.reshape(a.shape[0], -1) for a in parts], axis=1)


def from_start_rows(rows: np.ndarray, template: Tree) -> Tree:
    position = 0

    def cut(a: Array) -> Array:
        nonlocal position
        size = int(np.prod(a.shape[1:]))
        part = rows[:, position : position + size].reshape(a.shape)
        position += size
        return like(part, a)

    return tree_map(cut, template)


def replace_starts(tree: Tree, index: np.ndarray, other: Tree) -> Tree:
    """`tree` with some starts taken from `other`, which holds those alone."""

    def put(a: Array, b: Array) -> Array:
        xp = namespace(a)
        source = np.arange(a.shape[0])
        source[index] = a.shape[0] + np.arange(len(index))
        return xp.take(xp.concat([a, b], axis=0), like(source, a, dtype=xp.int64), axis=0)

    return tree_map(put, tree, other)
