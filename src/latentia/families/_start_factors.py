r"""Rough starts of latent classification models.

The loadings start as random combinations of the rows, :math:`L = X^\top G / \sqrt{Nq}` with normal G, so that :math:`LL^\top` has the covariance of the columns as its
expectation: a start follows the data in every direction, and permuting the columns permutes the start. Components start at random rows, class means and
variances of the latents at those of their regression on the rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from latentia._arrays import Array, like, namespace, to_numpy
from latentia.core import Source

#: Rows of each class from which starts are drawn.
HEAD_ROWS = 1000
#: Share of the columns' variance that the loadings start with.
SIGNAL = 0.5
#: Share of the loadings' variance in which the components differ.
OWN = 0.5
#: How far components start towards a random row.
REACH = 0.7


def rough_params(family: Any, source: Source, rng: np.random.Generator, n_starts: int) -> tuple[Array, ...]:
    """The fields of the parameters, in order, beside the source's arrays."""
    head = source.head(HEAD_ROWS, rng)
    offsets, rows = _heads(family.layout, head.cells)
    C, M, q, G = family.n_classes, family.n_components, family.n_latent, family.layout.n_gaussian
    N, H = rows.shape
    y = to_numpy(head.y)
    common = rng.standard_normal((n_starts, 1, q, N)) @ rows
    own = rng.standard_normal((n_starts, M, q, N)) @ rows if M > 1 else 0.0
    mixed = np.sqrt(1 - OWN) * common + np.sqrt(OWN) * own if M > 1 else common
    loadings = np.swapaxes(mixed, -1, -2) * np.sqrt(SIGNAL / (N * max(q, 1)))
    centres = np.broadcast_to(offsets, (n_starts, M, H))
    if M > 1:
        centres = centres + REACH * rows[rng.integers(N, size=(n_starts, M))]
    means, variances = _class_moments(loadings.mean(axis=1), rows, y, C)
    spread = np.var(rows[:, :G], axis=0)
    noise = np.maximum((1 - SIGNAL) * spread, family.var_floor)
    log_prior = family.fixed_log_prior
    log_prior = np.full(C, -np.log(C)) if log_prior is None else log_prior
    fields = (
        np.tile(log_prior, (n_starts, 1)),
        np.full((n_starts, C, M), -np.log(M)),
        means,
        variances,
        loadings,
        centres,
        np.tile(noise, (n_starts, 1 if family.tied else M, 1)),
        np.ones((n_starts, H, q)),
    )
    beside = head.cells.values
    return tuple(like(np.ascontiguousarray(field), beside) for field in fields)


def _heads(layout: Any, cells: Any) -> tuple[np.ndarray, np.ndarray]:
    """Offsets (H,) and centred rows (N, H) of all heads, on the host."""
    offsets, rows = [], []
    for kind in layout.kinds:
        values, observed = layout.cells_of(kind, cells)
        observed = namespace(values).ones_like(values) if observed is None else observed
        offset, centred = kind.initial_heads(values, observed)
        offsets.append(to_numpy(offset).astype(float))
        rows.append(to_numpy(centred).astype(float))
    return np.concatenate(offsets), np.concatenate(rows, axis=1)


def _class_moments(L: np.ndarray, rows: np.ndarray, y: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances (S, C, q) of the latents' regression on the rows, as if all heads had unit noise."""
    S, _, q = L.shape
    cov = np.linalg.inv(np.eye(q) + np.swapaxes(L, -1, -2) @ L) if q else np.zeros((S, 0, 0))
    means, variances = np.zeros((S, n_classes, q)), np.ones((S, n_classes, q))
    for c in range(n_classes):
        mine = rows[y == c]
        if len(mine):
            z = mine @ (L @ cov)  # (S, n_c, q)
            means[:, c] = z.mean(axis=1)
            variances[:, c] = z.var(axis=1) + np.diagonal(cov, axis1=-2, axis2=-1)
    return means, variances
