r"""Rows with gaps or bounded columns: each row has its own Gaussian posterior of z.

The columns of a row add up to the quadratic :math:`k + h^\top z - \tfrac12 z^\top R z`. With the class prior :math:`z = \mu + \Gamma^{1/2}u`,
:math:`u \sim N(0, I)`, the posterior of u has precision :math:`A = I + \Gamma^{1/2}R\Gamma^{1/2}`, which is well conditioned even where a variance is nearly zero.
The precisions of all rows are one product of curvatures with the packed :math:`w w^\top`; the variances of all heads are one product of the packed
posterior covariances with the same matrix.

The bounds are placed by the moments of the heads, first under the prior, then under the posterior, until the curvatures settle (Algorithm 1 of Langseth & Nielsen
2009). A bound that is off by a small step costs only the step's square.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from latentia._arrays import LOG_2PI, Array, namespace, transpose
from latentia.core import Cells
from latentia.families._packing import doubled, eye, inverse, log_det, pack, pairs, unpack
from latentia.families.kinds import Quadratic


class RowPosterior(NamedTuple):
    """The latents of each row given class and component."""

    scores: Array  # (..., C, M, N) log joint of class, component and row
    mean: Array  # (..., C, M, N, q)
    cov: Array  # (..., C, M, N, q, q)
    quadratic: Quadratic | None  # of the bounded heads, (..., C, M, N, H)


class _Form(NamedTuple):
    """k + h'z - z'Rz/2 of each row; R packed."""

    precision: Array | float  # (..., N, q(q+1)/2)
    linear: Array | float  # (..., N, q)
    constant: Array | float  # (..., N)


def infer_rows(layout: Any, params: Any, cells: Cells, tol: float, max_rounds: int) -> RowPosterior:
    """Posterior of z for every row, class and component, with the bounds at their fixed point."""
    xp = namespace(params.loadings)
    n_rows = cells.values.shape[0]
    mu, gamma = params.means[..., :, None, None, :], params.variances[..., :, None, None, :]
    fixed = _gaussian_form(layout, params, cells)
    if not layout.n_bounded:
        return _result(fixed, _posterior(fixed, mu, gamma), None, params, n_rows)
    W = params.loadings[..., None, :, layout.n_gaussian :, :]  # (..., 1, M, H, q)
    b = params.offsets[..., None, :, None, layout.n_gaussian :]  # (..., 1, M, 1, H)
    W2 = pairs(W)
    W2_doubled = transpose(doubled(W2, W.shape[-1]))
    mean, cov = mu, gamma[..., None] * eye(W.shape[-1], W)
    known = [layout.cells_of(kind, cells) for kind in layout.bounded]
    curvature = None
    for _ in range(max_rounds):
        heads = xp.matmul(mean, transpose(W)) + b
        spread = xp.clip(xp.matmul(pack(cov), W2_doubled), min=0.0)
        quadratic = _bound(layout, known, heads, spread)
        form = _add(fixed, quadratic, W, W2, b)
        step = _posterior(form, mu, gamma)
        mean, cov = step.mean, step.cov
        previous, curvature = curvature, quadratic.curvature
        if previous is not None and bool(xp.all(xp.abs(curvature - previous) <= tol * curvature)):
            break
    return _result(form, step, quadratic, params, n_rows)


def _gaussian_form(layout: Any, params: Any, cells: Cells) -> _Form:
    """What the continuous columns add, the same for all classes: (..., 1, M, N, .)."""
    xp = namespace(params.loadings)
    if not layout.n_gaussian:
        return _Form(0.0, 0.0, 0.0)
    x, seen = layout.cells_of(layout.gaussian, cells)
    seen = xp.ones_like(x) if seen is None else seen
    L = params.loadings[..., None, :, : layout.n_gaussian, :]
    eta = params.offsets[..., None, :, : layout.n_gaussian]
    theta = params.noise[..., None, :, :]
    LT = L / theta[..., None]
    precision = xp.matmul(seen, pairs(L) / theta[..., None])
    linear = xp.matmul(x, LT) - xp.matmul(seen, LT * eta[..., None])
    per_cell = -0.5 * (LOG_2PI + xp.log(theta) + eta * eta / theta)
    columns = xp.stack([xp.broadcast_to(per_cell, eta.shape), eta / theta], axis=-1)
    constant = xp.matmul(seen, columns[..., :1]) + xp.matmul(x, columns[..., 1:])
    constant = constant - 0.5 * xp.matmul(x * x, (1.0 / theta)[..., None])
    return _Form(precision, linear, constant[..., 0])


def _bound(layout: Any, known: list, heads: Array, spread: Array) -> Quadratic:
    """The quadratics of all bounded columns side by side."""
    xp = namespace(heads)
    parts, first = [], 0
    for kind, (values, observed) in zip(layout.bounded, known, strict=True):
        own = slice(first, first + kind.n_heads)
        parts.append(kind.bound(values, observed, heads[..., own], spread[..., own]))
        first += kind.n_heads
    if len(parts) == 1:  # small pieces: under the prior all rows share a curvature, and slopes lack the leading axes
        return parts[0]
    n_rows = max(part.slope.shape[-2] for part in parts)
    shape = (*heads.shape[:-2], n_rows)
    return Quadratic(
        xp.concat([xp.broadcast_to(p.curvature, (*shape, p.curvature.shape[-1])) for p in parts], axis=-1),
        xp.concat([xp.broadcast_to(p.slope, (*shape, p.slope.shape[-1])) for p in parts], axis=-1),
        sum(xp.broadcast_to(p.constant, shape) for p in parts),
    )


def _add(fixed: _Form, quadratic: Quadratic, W: Array, W2: Array, b: Array) -> _Form:
    """The quadratic in the heads as one in z, added to the continuous columns' own."""
    xp = namespace(W)
    curvature, slope, constant = quadratic
    lean = slope - curvature * b
    return _Form(
        fixed.precision + xp.matmul(curvature, W2),
        fixed.linear + xp.matmul(lean, W),
        fixed.constant + constant + xp.sum((slope - 0.5 * curvature * b) * b, axis=-1),
    )


class _Step(NamedTuple):
    """The posterior of z, and what its normaliser needs."""

    mean: Array  # (..., N, q)
    cov: Array  # (..., N, q, q)
    shift: Array  # (..., N, q) mean of u
    force: Array  # (..., N, q) linear term in u
    pull: Array  # (..., N, q) R mu
    precision: Array  # (..., N, q, q) of u; one row where all rows share it


def _posterior(form: _Form, mu: Array, gamma: Array) -> _Step:
    xp = namespace(mu)
    q = mu.shape[-1]
    root = xp.sqrt(gamma)
    R = unpack(form.precision, q)
    pull = xp.matmul(R, mu[..., None])[..., 0]
    h = root * (form.linear - pull)
    A = root[..., None] * R * root[..., None, :] + eye(q, mu)
    Ai = inverse(A)
    u = xp.matmul(Ai, h[..., None])[..., 0]
    return _Step(mu + root * u, root[..., None] * Ai * root[..., None, :], u, h, pull, A)


def _log_integral(form: _Form, mu: Array, step: _Step) -> Array:
    """Log of the integral over z of prior times exp(quadratic), (..., N)."""
    xp = namespace(mu)
    at_mean = form.constant + xp.sum((form.linear - 0.5 * step.pull) * mu, axis=-1)
    return at_mean + 0.5 * xp.sum(step.force * step.shift, axis=-1) - 0.5 * log_det(step.precision)


def _result(form: _Form, step: _Step, quadratic: Quadratic | None, params: Any, n_rows: int) -> RowPosterior:
    xp = namespace(params.means)
    scores = _log_integral(form, params.means[..., :, None, None, :], step)
    scores = scores + params.log_prior[..., :, None, None] + params.log_mix[..., None]
    shape = (*scores.shape[:-1], n_rows)
    q = params.means.shape[-1]
    mean, cov = xp.broadcast_to(step.mean, (*shape, q)), xp.broadcast_to(step.cov, (*shape, q, q))
    return RowPosterior(xp.broadcast_to(scores, shape), mean, cov, quadratic)
