"""The two-loop recursion of L-BFGS for many restarts at once, along the axis of the restarts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

#: vectors -> vectors times a rough inverse Hessian
InverseHessian = Callable[[np.ndarray], np.ndarray]

#: Steps whose curvature is below this share of the product of lengths count nothing.
MIN_CURVATURE = 1e-10


class LBFGSHistory:
    """The last steps of each restart and the gradients' differences, (n_restarts, n_free) each."""

    def __init__(self, memory: int):
        self.memory = memory
        self.steps: list[np.ndarray] = []
        self.gradient_diffs: list[np.ndarray] = []
        self.inverse_curvatures: list[np.ndarray] = []  # (n_restarts,) each, zero if not positive

    def add(self, step: np.ndarray, gradient_diff: np.ndarray) -> None:
        """Remember a step; the oldest is forgotten."""
        self.steps = [*self.steps, step][-self.memory :]
        self.gradient_diffs = [*self.gradient_diffs, gradient_diff][-self.memory :]
        rho = _inverse_curvature(step, gradient_diff)
        self.inverse_curvatures = [*self.inverse_curvatures, rho][-self.memory :]

    def forget(self, index: np.ndarray) -> None:
        """What these restarts have learned misleads them."""
        for values in (*self.steps, *self.gradient_diffs, *self.inverse_curvatures):
            values[index] = 0.0

    def keep(self, index: np.ndarray) -> None:
        """Only these restarts."""
        self.steps = [vectors[index] for vectors in self.steps]
        self.gradient_diffs = [vectors[index] for vectors in self.gradient_diffs]
        self.inverse_curvatures = [rho[index] for rho in self.inverse_curvatures]

    def times_inverse_hessian(self, gradient: np.ndarray, initial: InverseHessian) -> np.ndarray:
        """Gradients times the inverse Hessian that the past steps show, about an initial one.

        Pairs without positive curvature count nothing.
        """
        q = gradient.copy()
        rho = self.inverse_curvatures
        alpha = [np.zeros(len(q))] * len(rho)
        for k in reversed(range(len(rho))):
            alpha[k] = rho[k] * (self.steps[k] * q).sum(axis=1)
            q -= alpha[k][:, None] * self.gradient_diffs[k]
        q = initial(q)
        for k in range(len(rho)):
            beta = rho[k] * (self.gradient_diffs[k] * q).sum(axis=1)
            q += (alpha[k] - beta)[:, None] * self.steps[k]
        return q

    def initial_inverse_hessian(self, q: np.ndarray) -> np.ndarray:
        """The usual rough one: a number for each restart, by its newest usable step."""
        scale, without = np.ones(len(q)), np.ones(len(q), dtype=bool)
        for gradient_diff, inverse in zip(self.gradient_diffs[::-1], self.inverse_curvatures[::-1], strict=True):
            square = (gradient_diff**2).sum(axis=1)
            usable = (inverse > 0) & (square > 0) & without
            scale = np.where(usable, 1 / np.where(usable, inverse * square, 1.0), scale)
            without &= ~usable
            if not without.any():
                break
        return q * scale[:, None]


def _inverse_curvature(step: np.ndarray, gradient_diff: np.ndarray) -> np.ndarray:
    curvature = (step * gradient_diff).sum(axis=1)
    usable = curvature > MIN_CURVATURE * np.linalg.norm(step, axis=1) * np.linalg.norm(gradient_diff, axis=1)
    return np.where(usable, 1 / np.where(usable, curvature, 1.0), 0.0)
