r"""Which latents feed which columns: the sparsest of the equivalent solutions, and the edges that
its statistics prefer.

**What leaves the model as it is.** With an invertible A and a shift t, :math:`z = Az' + t` turns
:math:`x = Lz + \eta` into :math:`L' = LA`, :math:`\eta' = \eta + Lt`, and the classes into
:math:`\mu'_y = A^{-1}(\mu_y - t)`, :math:`\Gamma'_y = A^{-1}\Gamma_y A^{-\top}`. Rows have the same
density, but this is a model of ours only if every :math:`\Gamma'_y` is diagonal. Let :math:`S^2 =
\sum_y p(y)\Gamma_y` be the pooled variances, and write :math:`A = SRT^{-1}` with a diagonal T,
which sets the new scales. The pooled covariance is diagonal if and only if R is orthogonal (but for
scales, which T takes), and

.. math:: \Gamma'_y = T\, R^\top S^{-2}\Gamma_y R\; T .

- If the :math:`\Gamma_y` are proportional to each other, as with one class, every rotation R will
  do.
- Otherwise R may mix only latents whose variances are in the same ratio :math:`\Gamma_{yj}/S_j^2`
  in every class. Then the data choose the axes, but often faintly: EM, which stops early, ends
  wherever it started.

EM's solution is thus one of many that are equal or nearly so, and a graph hides behind the
rotation: removing one edge of a rotated solution costs much, where another rotation would not have
it at all. `rotate` takes the diagonal of :math:`\Gamma'_y`, with :math:`T^2 =
\operatorname{diag}(R^\top S^2R)`, so that :math:`R = I` changes nothing. In the first case the
likelihood stays, in the second the result is a new point, from which EM goes on.

**Which rotation.** Let :math:`b_{hj}` be the correlations, within the classes, of heads and
latents: rows of :math:`LS`, divided by the head's standard deviation, and weighed by the root of
the component's share. We minimize their sum of sizes (Jennrich 2004, "Rotation to simple loadings
using component loss functions: the orthogonal case", Psychometrika 69),

.. math:: Q(R) = \sum_{hj} |(BR)_{hj}| .

A row keeps its length under rotation and :math:`\sum_j |b_j| \ge \|b\|`, with equality if and only
if at most one entry is not zero; so solutions in which each column has one parent are minima of Q.
Where some columns have several, Q mostly finds them too, and varimax and its kin do not. All
components share the rotation. Two latents at a time are turned: with the polar coordinates
:math:`(b_{hj}, b_{hk}) = \rho_h(\cos\varphi_h, \sin\varphi_h)`,

.. math::

    g(\vartheta) = \sum_h \rho_h
    \bigl(|\cos(\varphi_h - \vartheta)| + |\sin(\varphi_h - \vartheta)|\bigr)

has the period :math:`\pi/2`, and wherever no term is at a kink :math:`g'' = -g < 0`. So its minimum
lies at a kink, :math:`\vartheta = \varphi_h` modulo :math:`\pi/2`: where one loading is exactly
zero. With the angles :math:`\psi_h = \varphi_h \bmod \pi/2` in order, and sums over the angles up
to :math:`\vartheta` and beyond,

.. math::

    g(\vartheta) = \sum_h \rho_h\cos(\psi_h - \vartheta)
    + \sum_{\psi_h > \vartheta} \rho_h\sin(\psi_h - \vartheta)
          - \sum_{\psi_h \le \vartheta} \rho_h\sin(\psi_h - \vartheta)

is known at all kinks from two cumulative sums, so that each turn is an exact minimization. It needs
no gradient.

**Which edges.** In structural EM (Friedman 1998; Langseth & Nielsen 2005, section 4.1) EM completes
the rows, and given its expected statistics each column is a linear regression on its parents among
the latents, whose marginal likelihood is known in closed form. With the Gram matrix G and cross
products c of the parents (and a constant), prior precision :math:`\tau` on the weights in units of
the noise, and noise of inverse gamma (a, b),

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

import numpy as np

from latentia.arrays.namespace import Array, asarray_like, eye_like, namespace, to_numpy
from latentia.families.latent_factors.kinds import ColumnLayout
from latentia.families.latent_factors.parameters import LATENT_FLOOR, FactorParams, FactorStats, augmented_matrix

#: Correlations with a latent below which a start of the graph has no edge.
THRESHOLDS = (0.1, 0.2, 0.4)

#: Variance of the standard logistic: the noise of a binary head.
LOGISTIC_VARIANCE = math.pi**2 / 3

#: Axes from which the rotation starts: the given ones and some random ones, always the same.
N_AXES = 8

#: Rounds over all pairs of latents, and the relative gain of a round below which a rotation
#: settled.
MAX_ROUNDS, SETTLED = 50, 1e-9


def to_sparse_axes(params: FactorParams) -> FactorParams:
    """The parameters of each start (S, ...) about the axes of sparsest loadings, with all edges."""
    return rotate(params, _sparse_rotation(_correlations(params)))


def without_weak_edges(params: FactorParams, columns: list[int]) -> list[FactorParams]:
    """The same, for each threshold without the edges whose correlations are below it.

    `columns` tells the column of each head; heads of one column share their edges.
    """
    within = _correlations(params)
    rotation = _sparse_rotation(within)
    rotated = rotate(params, rotation)
    strength = np.sqrt(((within @ rotation[:, None]) ** 2).sum(axis=1))  # (S, H, q)
    owner = np.asarray(columns)
    for column in np.unique(owner):
        strength[:, owner == column] = strength[:, owner == column].max(axis=1, keepdims=True)
    return [_with_edges(rotated, strength > least) for least in THRESHOLDS]


def rotate(params: FactorParams, rotation: np.ndarray) -> FactorParams:
    """The parameters of each start about axes turned by orthogonal (S, q, q), with all edges.

    The density stays if the classes' variances are proportional to each other; else what is not
    diagonal in the rotated variances is left out.
    """
    like = params.means
    scale = np.sqrt(_pooled_variances(params))  # (S, q)
    square = rotation**2
    new_scale = np.sqrt((scale[:, None, :] ** 2 @ square)[:, 0, :])
    forth = scale[:, :, None] * rotation / new_scale[:, None, :]  # A
    back = rotation / scale[:, :, None] * new_scale[:, None, :]  # transposed inverse of A
    means, variances, loadings = (to_numpy(a).astype(float) for a in (params.means, params.variances, params.loadings))
    turned = (variances / scale[:, None, :] ** 2) @ square * new_scale[:, None, :] ** 2
    return params._replace(
        means=asarray_like(means @ back, like),
        variances=asarray_like(np.maximum(turned, LATENT_FLOOR), like),
        loadings=asarray_like(loadings @ forth[:, None], like),
        edges=namespace(like).ones_like(params.edges),
    )


def sparsest_rotation(rows: np.ndarray) -> np.ndarray:
    """Orthogonal (S, q, q) that make the sum of sizes of the turned rows (S, H, q) small.

    Each start by itself.
    """
    n_starts, _, q = rows.shape
    axes = np.linalg.qr(np.random.default_rng(0).standard_normal((N_AXES, q, q)))[0]
    axes[0] = np.eye(q)
    rotation = np.tile(axes[: N_AXES if q > 1 else 1], (n_starts, 1, 1, 1))
    turned, rotation = _by_planes(rows[:, None] @ rotation, rotation)
    sizes = np.abs(turned).sum(axis=(-2, -1))
    # many end on the same axes in another order: the first of them, whatever the rounding
    best = (sizes <= (1 + SETTLED) * sizes.min(axis=1, keepdims=True)).argmax(axis=1)
    return np.asarray(rotation[np.arange(n_starts), best])


def _by_planes(rows: np.ndarray, rotation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Turn two latents at a time until no start's sum of sizes falls.

    A start that has settled stays, whatever others do.
    """
    q = rows.shape[-1]
    value = np.abs(rows).sum(axis=(-2, -1))
    settled = np.zeros(value.shape, dtype=bool)
    for _ in range(MAX_ROUNDS):
        for j in range(q):
            for k in range(j + 1, q):
                angle = np.where(settled, 0.0, best_angle(rows[..., j], rows[..., k]))[..., None]
                cos, sin = np.cos(angle), np.sin(angle)
                for a in (rows, rotation):
                    a[..., j], a[..., k] = a[..., j] * cos + a[..., k] * sin, a[..., k] * cos - a[..., j] * sin
        before, value = value, np.abs(rows).sum(axis=(-2, -1))
        settled |= before - value <= SETTLED * before
        if settled.all():
            break
    return rows, rotation


def best_angle(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The angle (...,) of least sum over heads (..., H) of |a cos + b sin| + |b cos - a sin|."""
    angle, length = np.mod(np.arctan2(b, a), math.pi / 2), np.hypot(a, b)
    order = np.argsort(angle, axis=-1)
    angle, length = np.take_along_axis(angle, order, axis=-1), np.take_along_axis(length, order, axis=-1)
    cos, sin = np.cos(angle), np.sin(angle)
    sum_cos, sum_sin = np.cumsum(length * cos, axis=-1), np.cumsum(length * sin, axis=-1)
    all_cos, all_sin = sum_cos[..., -1:], sum_sin[..., -1:]
    value = all_cos * cos + all_sin * sin + cos * (all_sin - 2 * sum_sin) - sin * (all_cos - 2 * sum_cos)
    return np.asarray(np.take_along_axis(angle, value.argmin(axis=-1)[..., None], axis=-1)[..., 0])


def _sparse_rotation(within: np.ndarray) -> np.ndarray:
    """For correlations (S, M, H, q): components share the axes."""
    return sparsest_rotation(np.reshape(within, (within.shape[0], -1, within.shape[-1])))


def _correlations(params: FactorParams) -> np.ndarray:
    """Of heads and latents within the classes, times the root of the component's share: (S, M, H,
    q).
    """
    loadings, noise = to_numpy(params.loadings).astype(float), to_numpy(params.noise).astype(float)
    scaled = loadings * np.sqrt(_pooled_variances(params))[:, None, None, :]
    variance = (scaled**2).sum(axis=-1)
    n_gaussian = noise.shape[-1]
    variance[..., :n_gaussian] += noise
    variance[..., n_gaussian:] += LOGISTIC_VARIANCE
    share = np.einsum("sc,scm->sm", _class_proportions(params), np.exp(to_numpy(params.log_mix).astype(float)))
    return np.asarray(scaled * np.sqrt(share[:, :, None] / variance)[..., None])


def _pooled_variances(params: FactorParams) -> np.ndarray:
    return np.asarray(np.einsum("sc,scq->sq", _class_proportions(params), to_numpy(params.variances).astype(float)))


def _class_proportions(params: FactorParams) -> np.ndarray:
    share = np.exp(to_numpy(params.log_prior).astype(float))
    return np.asarray(share / share.sum(axis=-1, keepdims=True))


def _with_edges(params: FactorParams, edges: np.ndarray) -> FactorParams:
    free = asarray_like(edges.astype(float), params.edges)
    return params._replace(edges=free, loadings=params.loadings * free[..., None, :, :])


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
    out: dict[int, Array] = {}
    for heads in groups:
        total = sum((gain[..., h, :] for h in heads[1:]), start=gain[..., heads[0], :])
        out.update(dict.fromkeys(heads, total))
    return xp.stack([out[h] for h in range(gain.shape[-2])], axis=-2)
