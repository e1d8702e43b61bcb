"""Sampling from latent classification models, and the expectation of missing cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentia.engine.contracts import MaskedRows
from latentia.families.latent_factors.column_models import Bernoulli, Categorical, ColumnLayout
from latentia.families.latent_factors.row_posteriors import infer_rows
from latentia.families.latent_factors.values import FactorParams
from latentia.numerics.array_api import Array, asarray_like, namespace, to_numpy, transpose
from latentia.numerics.logspace import exp_flush_underflow
from latentia.numerics.packed_symmetric import pack, packed_outer, with_doubled_offdiagonal


def draw(
    layout: ColumnLayout, params: FactorParams, codes: np.ndarray, rng: np.random.Generator, component: int | None
) -> np.ndarray:
    """Rows of the classes `codes`, from their own components or from a given one, on the host."""
    log_mix, means, variances, loadings, offsets, noise = (to_numpy(a).astype(float) for a in params[1:7])
    n = codes.size
    share = np.exp(log_mix - log_mix.max(axis=-1, keepdims=True))
    reach = np.cumsum(share / share.sum(axis=-1, keepdims=True), axis=-1)[codes]
    m = np.minimum((rng.random((n, 1)) > reach).sum(axis=1), share.shape[1] - 1)
    m = m if component is None else np.full(n, component)
    z = means[codes] + np.sqrt(variances[codes]) * rng.standard_normal((n, means.shape[-1]))
    X, place = np.zeros((n, layout.n_columns)), np.arange(n)
    heads = np.empty((n, layout.n_heads))
    for k in range(share.shape[1]):
        heads[m == k] = z[m == k] @ loadings[k].T + offsets[k]
    G = layout.n_gaussian
    theta = noise[np.zeros(n, int) if noise.shape[0] == 1 else m]
    X[:, list(layout.gaussian.columns)] = heads[:, :G] + np.sqrt(theta) * rng.standard_normal((n, G))
    first = G
    for kind in layout.bounded:
        probability = np.asarray(kind.expected(heads[:, first : first + kind.n_heads]))
        if isinstance(kind, Bernoulli):
            X[:, list(kind.columns)] = rng.random(probability.shape) < probability
        elif isinstance(kind, Categorical):
            for column, begin, size in kind.parts():
                reach = np.cumsum(probability[:, begin : begin + size], axis=1)
                code = (rng.random((n, 1)) > reach / reach[:, -1:]).sum(axis=1)
                X[place, kind.columns[column]] = np.minimum(code, size - 1)
        first += kind.n_heads
    return X


def expected_predictors(family: Any, params: FactorParams, rows: MaskedRows) -> tuple[Array, Array]:
    """Given class and row: the posterior of the components (C, M, N), and the expectations of the heads' values (C, M, N, H).

    A continuous head's value is its mean. That of a bounded head is a probability; its logistic or softmax is averaged over the Gaussian posterior of the head by
    the scaling of MacKay (1992), kappa(v) = (1 + pi v / 8)^(-1/2), exact at v = 0.
    """
    xp = namespace(params.means)
    layout = family.layout
    posteriors = infer_rows(layout, params, rows, family.bound_tol, family.bound_max_iter)
    top = xp.max(posteriors.scores, axis=-2, keepdims=True)
    component = exp_flush_underflow(posteriors.scores - top)
    component = component / xp.sum(component, axis=-2, keepdims=True)
    W = params.loadings[..., None, :, :, :]
    heads = xp.matmul(posteriors.mean, transpose(W)) + params.offsets[..., None, :, None, :]
    if not layout.n_bounded:
        return component, heads
    G = layout.n_gaussian
    W2 = transpose(with_doubled_offdiagonal(packed_outer(W[..., G:, :]), W.shape[-1]))
    spread = xp.clip(xp.matmul(pack(posteriors.cov), W2), min=0.0)
    bounded = heads[..., G:] / xp.sqrt(1 + (np.pi / 8) * spread)
    parts, first = [heads[..., :G]], 0
    for kind in layout.bounded:
        parts.append(kind.expected(bounded[..., first : first + kind.n_heads]))
        first += kind.n_heads
    return component, xp.concat(parts, axis=-1)


def decode_columns(layout: ColumnLayout, heads: Array, mode: bool) -> Array:
    """Expectations of the heads (..., H) as values of the columns (..., D).

    A categorical column has no expectation: it gets its most probable code, as does a binary one when `mode`.
    """
    xp = namespace(heads)
    columns: list[Array] = [None] * layout.n_columns
    first = 0
    for kind in layout.kinds:
        part = heads[..., first : first + kind.n_heads]
        if isinstance(kind, Categorical):
            for place, begin, size in kind.parts():
                columns[kind.columns[place]] = xp.astype(
                    xp.argmax(part[..., begin : begin + size], axis=-1), heads.dtype
                )
        else:
            for place, column in enumerate(kind.columns):
                value = part[..., place]
                columns[column] = xp.astype(value > 0.5, heads.dtype) if mode and isinstance(kind, Bernoulli) else value
        first += kind.n_heads
    empty = xp.zeros_like(heads[..., 0]) if heads.shape[-1] else asarray_like(0.0, heads)
    return xp.stack([empty if c is None else c for c in columns], axis=-1)
