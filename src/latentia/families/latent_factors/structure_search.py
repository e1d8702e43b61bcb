r"""Which latents feed which columns: greedy search by a closed-form Bayesian regression score,
inside EM.

Structural EM (Friedman 1998; Langseth & Nielsen 2005, section 4.1): EM completes the rows, and
given its expected statistics each column is a linear regression on its parents among the latents,
whose marginal likelihood is known in closed form. With the Gram matrix G and cross products c of
the parents (and a constant), prior precision :math:`\tau` on the weights in units of the noise, and
noise of inverse gamma (a, b),

.. math::

    \ln p = \tfrac12 |pa| \ln \tau - \tfrac12 \ln|G + \tau I|
    - (a + N/2) \ln\bigl(b + \tfrac12 (x^2 - c^\top (G + \tau I)^{-1} c)\bigr) + \text{const}.

The paper takes the Gaussian metric of Geiger & Heckerman, which is this with another prior. For a
bounded column the quadratic bound is a regression with known noise: :math:`\tfrac12 |pa| \ln\tau -
\tfrac12\ln|G + \tau I| + \tfrac12 c^\top(G + \tau I)^{-1}c`. All components share the structure, so
their scores add; with tied noise they also share the inverse gamma.

An edge is added or removed as long as that raises the score of its column, the best first. The
sweep operator keeps, for every column, the inverse over its present parents, and so yields the
change of score for all edges at once.
"""

from __future__ import annotations

import math

from latentia.arrays.namespace import Array, asarray_like, eye_like, namespace
from latentia.families.latent_factors.column_layout import ColumnLayout
from latentia.families.latent_factors.m_step import augmented_matrix
from latentia.families.latent_factors.values import FactorStats

#: Precision of the weights' prior in units of the noise, and shape and scale of the noise's own
#: prior (columns have unit variance).
TAU, SHAPE, SCALE = 1.0, 1.0, 0.1


def best_edges(layout: ColumnLayout, tied: bool, edges: Array, stats: FactorStats) -> Array:
    """Edges (..., H, q) that the score prefers, from the present ones."""
    xp = namespace(edges)
    q = edges.shape[-1]
    groups = _column_groups(layout)
    parts = []
    if layout.n_gaussian:
        parts.append(_regressions(stats.gram, stats.cross, stats.sum_x2, q))
    if layout.n_bounded:
        none = xp.zeros_like(stats.bound_cross[..., 0])
        parts.append(_regressions(stats.bound_gram, stats.bound_cross, none, q))
    state = xp.concat(parts, axis=-3)  # (..., M, H, q + 2, q + 2)
    counts = _counts(layout, stats, state)
    state = _sweep_in(state, edges)
    for _ in range(2 * q * q):
        gain = _gains(state, edges, counts, layout.n_gaussian, tied)  # (..., H, q)
        gain = _shared_by_columns(gain, groups)
        best = xp.max(gain, axis=-1, keepdims=True)
        chosen = (gain == best) & (best > 1e-9)
        # of equal gains only the first is taken
        first = xp.cumulative_sum(xp.astype(chosen, xp.int64), axis=-1) == 1
        flip = xp.astype(chosen & first, edges.dtype)
        if not bool(xp.any(flip > 0)):
            break
        state = _sweep(state, flip)
        edges = xp.abs(edges - flip)
    return edges


def _regressions(gram: Array, cross: Array, sum_x2: Array, q: int) -> Array:
    """Per head the matrix [[G + tau I, c], [c', x^2]] with the constant already swept in: (..., M,
    H, q + 2, q + 2).
    """
    xp = namespace(cross)
    G = augmented_matrix(gram, q)
    on_weights = asarray_like([1.0] * q + [0.0], cross)
    G = G + TAU * on_weights * eye_like(q + 1, cross)
    G = xp.broadcast_to(G, (*cross.shape[:-1], q + 1, q + 1))
    top = xp.concat([G, cross[..., None]], axis=-1)
    bottom = xp.concat([cross, sum_x2[..., None]], axis=-1)[..., None, :]
    state = xp.concat([top, bottom], axis=-2)
    empty = (state[..., q, q] <= 0)[..., None, None]
    state = xp.where(empty, eye_like(q + 2, cross) * xp.ones_like(state), state)
    pivot = asarray_like([0.0] * q + [1.0, 0.0], cross)
    return _pivot(state, xp.broadcast_to(pivot, state.shape[:-1]))


def _pivot(A: Array, at: Array) -> Array:
    """Sweep each matrix at the one place where `at` (..., n) is one; unchanged where it is zero.

    Sweeping twice restores.
    """
    xp = namespace(A)
    any_at = xp.sum(at, axis=-1)[..., None, None]
    row = xp.sum(
        at[..., :, None] * A, axis=-2
    )  # (..., n), also the column: the matrix is symmetric up to the signs below
    column = xp.sum(A * at[..., None, :], axis=-1)
    d = xp.sum(row * at, axis=-1)[..., None]
    d = xp.where(any_at[..., 0] > 0, d, xp.ones_like(d))
    swept = A - column[..., :, None] * row[..., None, :] / d[..., None]
    on_row, on_column = at[..., :, None], at[..., None, :]
    swept = swept * (1 - on_row) * (1 - on_column)
    swept = (
        swept
        + on_row * (1 - on_column) * (row / d)[..., None, :]
        + on_column * (1 - on_row) * (column / d)[..., :, None]
    )
    swept = swept - on_row * on_column / d[..., None]
    # with this sign convention a second sweep gives the matrix back up to the signs of row and
    # column, which the gains do not see
    return xp.where(any_at > 0, swept, A)


def _padded(flip: Array) -> Array:
    xp = namespace(flip)
    none = xp.zeros_like(flip[..., :1])
    return xp.concat([flip, none, none], axis=-1)[..., None, :, :]  # (..., 1, H, q + 2)


def _sweep(state: Array, flip: Array) -> Array:
    xp = namespace(state)
    return _pivot(state, xp.broadcast_to(_padded(flip), state.shape[:-1]))


def _sweep_in(state: Array, edges: Array) -> Array:
    for j in range(edges.shape[-1]):
        only = asarray_like([1.0 if k == j else 0.0 for k in range(edges.shape[-1])], edges)
        state = _sweep(state, edges * only)
    return state


def _counts(layout: ColumnLayout, stats: FactorStats, state: Array) -> Array:
    """Weights of the cells of each head, (..., M, H)."""
    xp = namespace(state)
    shape = state.shape[:-2]
    if not layout.n_gaussian:
        return xp.zeros_like(state[..., 0, 0])
    cells = xp.broadcast_to(stats.gram[..., -1], (*shape[:-1], layout.n_gaussian))
    return xp.concat([cells, xp.zeros_like(state[..., layout.n_gaussian :, 0, 0])], axis=-1)


def _gains(state: Array, edges: Array, counts: Array, n_gaussian: int, tied: bool) -> Array:
    """Change of the score of each head if an edge is added or removed, (..., H, q)."""
    xp = namespace(state)
    q = edges.shape[-1]
    d = xp.abs(xp.linalg.diagonal(state)[..., :q])  # pivot of a latent outside; minus the inverse's entry of one inside
    d = xp.clip(d, min=1e-300 if state.dtype == xp.float64 else 1e-37)
    inside = edges[..., None, :, :] > 0
    c = state[..., :q, q + 1]
    # entering lowers the residual by c^2 / d, leaving raises it by beta^2 / (entry of the inverse)
    drop = xp.where(inside, -(c * c) / d, c * c / d)
    sign = xp.where(inside, -xp.ones_like(d), xp.ones_like(d))
    evidence = 0.5 * sign * math.log(TAU) - 0.5 * xp.log(d)
    rss = xp.clip(state[..., q + 1, q + 1], min=0.0)[..., None]
    total = xp.sum(evidence, axis=-3)
    gaussian = total[..., :n_gaussian, :] + _noise_gain(
        rss[..., :n_gaussian, :], drop[..., :n_gaussian, :], counts[..., :n_gaussian], tied
    )
    bounded = total[..., n_gaussian:, :] + 0.5 * xp.sum(drop[..., n_gaussian:, :], axis=-3)
    return xp.concat([gaussian, bounded], axis=-2)


def _noise_gain(rss: Array, drop: Array, counts: Array, tied: bool) -> Array:
    """Change of -(a + N/2) ln(b + RSS/2), summed over the components."""
    xp = namespace(rss)
    if tied:
        rss, drop = xp.sum(rss, axis=-3, keepdims=True), xp.sum(drop, axis=-3, keepdims=True)
        counts = xp.sum(counts, axis=-2, keepdims=True)
    before = SCALE + 0.5 * rss
    after = xp.clip(before - 0.5 * drop, min=1e-3 * SCALE)
    return xp.sum(-(SHAPE + 0.5 * counts)[..., None] * (xp.log(after) - xp.log(before)), axis=-3)


def _column_groups(layout: ColumnLayout) -> list[list[int]]:
    """The heads of each column that has several."""
    groups: dict[int, list[int]] = {}
    for head, column in enumerate(layout.predictor_columns()):
        groups.setdefault(column, []).append(head)
    return list(groups.values())


def _shared_by_columns(gain: Array, groups: list[list[int]]) -> Array:
    """Heads of one column share their edges, so their gains add."""
    if all(len(g) == 1 for g in groups):
        return gain
    xp = namespace(gain)
    out: list[Array] = [None] * gain.shape[-2]
    for heads in groups:
        total = sum(gain[..., h, :] for h in heads)
        for h in heads:
            out[h] = total
    return xp.stack(out, axis=-2)
