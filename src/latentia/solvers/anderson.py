"""Anderson acceleration: where the combination of past steps with the shortest residual leads."""

from __future__ import annotations

import numpy as np


def mixed(
    points: list[np.ndarray],
    residuals: list[np.ndarray],
    age: np.ndarray,
    step: float = 1.0,
    metric: np.ndarray | None = None,
) -> np.ndarray:
    """The next trial point of each start, (starts, coordinates).

    `residuals` lead from the `points` to their images, of both lists the newest comes last; of the steps between them each start uses the last `age`. Residuals are measured in
    units of `metric`, and followed for a share `step`.
    """
    here, residual = points[-1], residuals[-1]
    if len(points) == 1:
        return here + step * residual
    d_point = np.diff(np.stack(points, axis=-1))
    d_residual = np.diff(np.stack(residuals, axis=-1))
    past = np.arange(d_point.shape[-1], 0, -1)[None, :] <= age[:, None]
    d_point, d_residual = d_point * past[:, None, :], d_residual * past[:, None, :]
    tall, goal = (d_residual, residual) if metric is None else (d_residual * metric[..., None], residual * metric)
    transposed = np.swapaxes(tall, 1, 2)
    gram = transposed @ tall
    scale = 1e-10 * np.trace(gram, axis1=1, axis2=2)[:, None, None] + 1e-300
    weights = np.linalg.solve(gram + scale * np.eye(gram.shape[-1]), transposed @ goal[..., None])
    return here + step * residual - ((d_point + step * d_residual) @ weights)[..., 0]
