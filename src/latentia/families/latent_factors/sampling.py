"""Sampling from latent classification models, and the expectation of missing cells, column model by
column model.
"""

from __future__ import annotations

import numpy as np

from latentia.arrays.linalg import pack, packed_outer, with_doubled_offdiagonal
from latentia.arrays.namespace import Array, namespace, softmax, to_numpy, transpose
from latentia.engine.contracts import Expectation
from latentia.engine.rows import MaskedRows
from latentia.families.latent_factors.column_layout import ColumnLayout
from latentia.families.latent_factors.e_step_rows import RowPosterior
from latentia.families.latent_factors.values import FactorParams


def sample_rows(
    layout: ColumnLayout, params: FactorParams, codes: np.ndarray, rng: np.random.Generator, component: int | None
) -> np.ndarray:
    """Rows of the classes `codes`, from random components or from a given one, in NumPy."""
    params = FactorParams(*(to_numpy(a).astype(float) for a in params))
    n, n_components = codes.size, params.log_mix.shape[-1]
    probs = softmax(params.log_mix, axis=-1)
    m = np.minimum((rng.random((n, 1)) > np.cumsum(probs, axis=-1)[codes]).sum(axis=1), n_components - 1)
    m = m if component is None else np.full(n, component)
    z = rng.standard_normal((n, params.means.shape[-1]))
    z = params.means[codes] + np.sqrt(params.variances[codes]) * z
    predictors = np.empty((n, layout.n_predictors))
    for k in range(n_components):
        predictors[m == k] = z[m == k] @ params.loadings[k].T + params.offsets[k]
    noise = params.noise[np.zeros(n, int) if params.noise.shape[0] == 1 else m]
    X = np.zeros((n, layout.n_columns))
    G = layout.n_gaussian
    X[:, list(layout.gaussian.columns)] = layout.gaussian.sample(predictors[:, :G], noise, rng)
    for model, index in layout.bounded_slices():
        X[:, list(model.columns)] = model.sample(predictors[:, G:][:, index], noise[:, :0], rng)
    return X


def fill_gaps(
    layout: ColumnLayout,
    params: FactorParams,
    rows: MaskedRows,
    posterior: RowPosterior,
    class_probs: Array,
    mode: bool = False,
) -> Array:
    """Rows (N, D) whose missing cells are those of `impute_rows`."""
    values = impute_rows(layout, params, posterior, class_probs, mode)
    return values if rows.observed is None else namespace(values).where(rows.observed > 0, rows.values, values)


def impute_rows(
    layout: ColumnLayout,
    params: FactorParams,
    posterior: RowPosterior,
    class_probs: Array,
    mode: bool,
    expect: Expectation | None = None,
) -> Array:
    """Expected cells (N, D), averaged over the classes by (C, N), or the most probable ones of few
    values; with `expect`, what it expects of continuous ones.
    """
    xp = namespace(params.means)
    G = layout.n_gaussian
    weight = class_probs[:, None, :] * softmax(posterior.scores, axis=-2)  # (C, M, N)
    W = params.loadings[None, :, :, :]
    predictors = xp.matmul(posterior.mean, transpose(W)) + params.offsets[None, :, None, :]  # (C, M, N, H)
    cells = []
    if G and expect is not None:
        cells.append(_expected_of_continuous(layout, params, posterior.cov, predictors[..., :G], weight, expect))
    elif G:  # a continuous cell is expected at its predictor
        cells.append(layout.gaussian.impute(xp.sum(weight[..., None] * predictors[..., :G], axis=(0, 1)), mode))
    if layout.n_bounded:
        variance = _predictor_variances(posterior.cov, W[..., G:, :])
        for model, index in layout.bounded_slices():
            part = model.expected(predictors[..., G:][..., index], variance[..., index])
            filled = model.impute(xp.sum(weight[..., None] * part, axis=(0, 1)), mode)
            cells.append(filled if expect is None else expect(filled, xp.zeros_like(filled), model.columns))
    return layout.merge_columns(cells, like=transpose(class_probs))


def _expected_of_continuous(
    layout: ColumnLayout, params: FactorParams, cov: Array, predictors: Array, weight: Array, expect: Expectation
) -> Array:
    """What is expected of continuous cells (N, G) at these predictors, whose noise has its say."""
    xp = namespace(predictors)
    filled = 0.0
    for m in range(weight.shape[1]):  # one component at a time: C x N x G of memory
        variance = _predictor_variances(cov[:, m, ...], params.loadings[m, : layout.n_gaussian, :])
        variance = variance + params.noise[0 if params.noise.shape[0] == 1 else m, :]
        cells = expect(predictors[:, m, :, :], variance, layout.gaussian.columns)
        filled = filled + xp.sum(weight[:, m, :, None] * cells, axis=0)
    return filled


def _predictor_variances(cov: Array, loadings: Array) -> Array:
    """Variances (..., N, H) of predictors under latents of covariances (..., N, q, q)."""
    xp = namespace(cov)
    products = transpose(with_doubled_offdiagonal(packed_outer(loadings), loadings.shape[-1]))
    return xp.clip(xp.matmul(pack(cov), products), min=0.0)
