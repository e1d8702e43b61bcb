"""What quasi-Newton steps of many starts remember: the two-loop recursion of L-BFGS along the starts' axis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

#: (slope-like rows, inverse curvatures of the past steps) -> rows times a rough inverse Hessian
Scaling = Callable[[np.ndarray, list[np.ndarray]], np.ndarray]


class LBFGSHistory:
    """The last moves of each start and the changes of slope that they made, (n_restarts, n_free) each."""

    def __init__(self, memory: int):
        self.memory = memory
        self.moves: list[np.ndarray] = []
        self.changes: list[np.ndarray] = []

    def add(self, move: np.ndarray, change: np.ndarray) -> None:
        """Remember a step; the oldest is forgotten."""
        self.moves = [*self.moves, move][-self.memory :]
        self.changes = [*self.changes, change][-self.memory :]

    def forget(self, index: np.ndarray) -> None:
        """What these starts have learnt misleads them."""
        for past in (*self.moves, *self.changes):
            past[index] = 0.0

    def keep(self, index: np.ndarray) -> None:
        """Only some starts."""
        self.moves = [a[index] for a in self.moves]
        self.changes = [a[index] for a in self.changes]

    def times_inverse_hessian(self, slope: np.ndarray, scale: Scaling) -> np.ndarray:
        """Slopes times the inverse Hessian that the past steps show, about a rough one; pairs without positive curvature count nothing."""
        q = slope.copy()
        rho = [self._inverse_curvature(move, change) for move, change in zip(self.moves, self.changes, strict=True)]
        weights = [np.zeros(len(q))] * len(rho)
        for k in reversed(range(len(rho))):
            weights[k] = rho[k] * (self.moves[k] * q).sum(axis=1)
            q -= weights[k][:, None] * self.changes[k]
        q = scale(q, rho)
        for k in range(len(rho)):
            back = rho[k] * (self.changes[k] * q).sum(axis=1)
            q += (weights[k] - back)[:, None] * self.moves[k]
        return q

    @staticmethod
    def _inverse_curvature(move: np.ndarray, change: np.ndarray) -> np.ndarray:
        curvature = (move * change).sum(axis=1)
        fine = curvature > 1e-10 * np.linalg.norm(move, axis=1) * np.linalg.norm(change, axis=1)
        return np.where(fine, 1 / np.where(fine, curvature, 1.0), 0.0)

    def newest_scale(self, q: np.ndarray, rho: list[np.ndarray]) -> np.ndarray:
        """The usual rough inverse Hessian: a number for each start, by its newest usable step."""
        scale = np.ones(len(q))
        for change, inverse in zip(self.changes, rho, strict=True):
            square = (change**2).sum(axis=1)
            usable = (inverse > 0) & (square > 0)
            scale = np.where(usable, 1 / np.where(usable, inverse * square, 1.0), scale)
        return q * scale[:, None]
