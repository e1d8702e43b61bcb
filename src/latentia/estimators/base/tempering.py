r"""How much a row says of its class: a temperature and class offsets, learned from labeled rows.

Under a model that is only nearly right, the cells of a row repeat each other and class
probabilities are too sure. So the class of a row has

.. math:: p(c \mid x) \propto p(c)\, e^{k b_c} p(x \mid c)^{1/T}, \qquad T \ge 1,

in which k is the number of known cells of the row. Offsets b make up for classes that the
model says too often: the power of a density does not integrate to one, and densities that are only
nearly right do not divide the rows as the classes do. T and b are where labeled rows have the
least log loss, if p(c) are their class shares (the labels may be given evenly while classes are
not, and other priors may be asked for), under weak priors at one and at zero. They are rows held
out where some are for the weight of unlabeled rows (see `unlabeled_weight`), else those of the
training.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize, root

from latentia.arrays.namespace import Array, asarray_like, log_softmax, namespace
from latentia.engine.rows import MaskedRows

#: The largest temperature.
MAX_TEMPERATURE = 50.0

#: Precision of the normal prior of class offsets at zero, in rows.
OFFSET_PRECISION = 20.0


class Tempering(NamedTuple):
    """What becomes of the log likelihoods of classes: they are divided, and moved."""

    temperature: float = 1.0
    offsets: np.ndarray | None = None  # (C,) of each known cell; None: zero

    @property
    def changes_nothing(self) -> bool:
        return self.temperature == 1.0 and self.offsets is None

    def __call__(self, log_likelihood: Array, known: Array) -> Array:
        """Of log likelihoods (..., C, N) of rows with so many known cells, (N,)."""
        tempered = log_likelihood / self.temperature
        return tempered if self.offsets is None else tempered + asarray_like(self.offsets, tempered)[:, None] * known


class LabeledRows(NamedTuple):
    """What a tempering is chosen by."""

    log_likelihood: np.ndarray  # (C, N)
    known: np.ndarray  # (N,) numbers of cells
    codes: np.ndarray  # (N,)
    weight: np.ndarray  # (N,)

    @property
    def log_class_shares(self) -> np.ndarray:
        """Logs (C, 1) of the shares of labels, of which each class is given one more."""
        counts = 1.0 + np.bincount(self.codes, self.weight, minlength=len(self.log_likelihood))
        return np.asarray(np.log(counts / counts.sum()))[:, None]

    def log_losses(self, tempering: Tempering) -> np.ndarray:
        """The log loss of each row."""
        tempered = tempering(self.log_likelihood, self.known)
        log_proba = log_softmax(self.log_class_shares + tempered, axis=0)
        return np.asarray(-log_proba[self.codes, np.arange(self.codes.size)])


def count_known(rows: MaskedRows) -> Array:
    """The number (N,) of each row's known cells."""
    xp = namespace(rows.values)
    cells = xp.ones_like(rows.values) if rows.observed is None else xp.astype(rows.observed, rows.values.dtype)
    return xp.sum(cells, axis=-1)


def best_tempering(rows: LabeledRows, with_offsets: bool = True) -> Tempering:
    """With which the rows have the least log loss."""
    log_likelihood, known, codes, weight = rows
    most = max(1.0, float(np.max(known[weight > 0], initial=0.0)))
    known = known / most  # so that offsets of rows without gaps have the prior, whatever their columns
    n_classes, log_share = len(log_likelihood), rows.log_class_shares
    log_likelihood = log_likelihood - log_likelihood.max(axis=0)
    size = max(1.0, float(-log_likelihood.mean()))  # slopes by size / T are as large as those by the offsets
    is_own = np.arange(n_classes)[:, None] == codes

    def log_proba_at(free: np.ndarray) -> np.ndarray:
        tempered = free[0] / size * log_likelihood + free[1:, None] * known
        return np.asarray(log_softmax(log_share + tempered, axis=0))

    def loss(free: np.ndarray) -> tuple[float, np.ndarray]:
        """What is made small, and its slopes: by 1/T, in which it is convex, and by the offsets."""
        power, offsets, log_proba = free[0] / size, free[1:], log_proba_at(free)
        too_much = weight * (np.exp(log_proba) - is_own)
        value = -(weight @ log_proba[codes, np.arange(codes.size)])
        value += np.log(power) ** 2 + 0.5 * OFFSET_PRECISION * offsets @ offsets
        by_power = (too_much * log_likelihood).sum() + 2 * np.log(power) / power
        return float(value), np.array([by_power / size, *(too_much @ known + OFFSET_PRECISION * offsets)])

    def curvature(free: np.ndarray) -> np.ndarray:
        """The slopes of the slopes."""
        power, proba, by_power = free[0] / size, np.exp(log_proba_at(free)), log_likelihood / size
        spread = proba * (by_power - (proba * by_power).sum(axis=0))  # of the probabilities, by the power
        mixed = spread @ (weight * known)
        of_offsets = np.diag(proba @ (weight * known**2) + OFFSET_PRECISION) - (proba * (weight * known**2)) @ proba.T
        of_power = weight @ (spread * by_power).sum(axis=0) + 2 * (1 - np.log(power)) / free[0] ** 2
        return np.block([[np.array([[of_power]]), mixed[None, :]], [mixed[:, None], of_offsets]])

    begin = np.array([min(size, 3.0), *np.zeros(n_classes)])
    bounds = [(size / MAX_TEMPERATURE, size), *[(None, None) if with_offsets else (0.0, 0.0)] * n_classes]
    exact = {"ftol": 0.0, "gtol": 1e-9, "maxiter": 500}
    best = minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=bounds, options=exact).x
    best = _where_slopes_are_zero(lambda free: loss(free)[1], curvature, best, bounds)
    return Tempering(float(size / best[0]), best[1:] / most if with_offsets else None)


def _where_slopes_are_zero(
    slope: Callable[[np.ndarray], np.ndarray],
    curvature: Callable[[np.ndarray], np.ndarray],
    near: np.ndarray,
    bounds: list[Any],
) -> np.ndarray:
    """The optimum to rounding, from one to half the digits, which is all that values can tell."""
    free = np.array([low is None or low < x < high for x, (low, high) in zip(near, bounds, strict=True)])

    def at(some: np.ndarray) -> np.ndarray:
        moved = near.copy()
        moved[free] = some
        return moved

    if not free.any():
        return near
    inner = np.ix_(free, free)
    found = root(lambda some: slope(at(some))[free], near[free], jac=lambda some: curvature(at(some))[inner], tol=1e-13)
    better = np.abs(slope(at(found.x))[free]).sum() <= np.abs(slope(near)[free]).sum()
    return at(found.x) if better else near
