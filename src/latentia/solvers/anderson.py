"""Anderson acceleration: where the combination of past steps with the shortest residual leads."""

from __future__ import annotations

import numpy as np


class AndersonHistory:
    """The last points of each restart, and the residuals that lead from them to their images.

    All arrays are (restarts, coordinates). Restarts share the lists, but each may forget its past
    alone.
    """

    def __init__(self, memory: int, n_restarts: int):
        self.memory = memory
        self.points: list[np.ndarray] = []
        self.residuals: list[np.ndarray] = []
        self.n_points = np.zeros(n_restarts, dtype=int)  # how many of the last points each restart remembers

    def add(self, point: np.ndarray, residual: np.ndarray) -> None:
        """The newest point of all restarts."""
        self.points = [*self.points, point][-self.memory - 1 :]
        self.residuals = [*self.residuals, residual][-self.memory - 1 :]
        self.n_points = np.minimum(self.n_points + 1, self.memory + 1)

    def trial_points(self, step: float = 1.0, metric: np.ndarray | None = None) -> np.ndarray:
        """Where the remembered steps lead; the plain step if one point alone is remembered."""
        return anderson_update(self.points, self.residuals, self.n_points - 1, step, metric)

    def forget(self, restarts: np.ndarray) -> None:
        """Some restarts begin anew with the next point."""
        self.n_points[restarts] = 0

    def forget_all_but_newest(self) -> None:
        """All restarts go on from their newest point."""
        self.points, self.residuals = self.points[-1:], self.residuals[-1:]
        self.n_points = np.minimum(self.n_points, 1)

    def keep(self, restarts: np.ndarray) -> None:
        """Drop all restarts but some."""
        self.n_points = self.n_points[restarts]
        self.points = [point[restarts] for point in self.points]
        self.residuals = [residual[restarts] for residual in self.residuals]


def anderson_update(
    points: list[np.ndarray],
    residuals: list[np.ndarray],
    n_differences: np.ndarray,
    step: float = 1.0,
    metric: np.ndarray | None = None,
) -> np.ndarray:
    """The next trial point of each restart, (restarts, coordinates).

    `residuals` lead from the `points` to their images; of both lists the newest comes last. Of the
    differences between successive points each restart uses the last `n_differences`. Residuals are
    measured in units of `metric`, and followed for a fraction `step`.
    """
    here, residual = points[-1], residuals[-1]
    if len(points) == 1:
        return here + step * residual
    d_point = np.diff(np.stack(points, axis=-1))
    d_residual = np.diff(np.stack(residuals, axis=-1))
    used = np.arange(d_point.shape[-1], 0, -1)[None, :] <= n_differences[:, None]
    d_point, d_residual = d_point * used[:, None, :], d_residual * used[:, None, :]
    columns, target = (d_residual, residual) if metric is None else (d_residual * metric[..., None], residual * metric)
    transposed = np.swapaxes(columns, 1, 2)
    gram = transposed @ columns
    ridge = 1e-10 * np.trace(gram, axis1=1, axis2=2)[:, None, None] + 1e-300
    weights = np.linalg.solve(gram + ridge * np.eye(gram.shape[-1]), transposed @ target[..., None])
    return here + step * residual - ((d_point + step * d_residual) @ weights)[..., 0]
