"""Sampling from latent classification models, and the expectation of missing cells, column model by
column model.
"""

from __future__ import annotations

import numpy as np

from latentia.families.latent_factors.column_layout import ColumnLayout
from latentia.families.latent_factors.e_step_rows import RowPosterior
from latentia.families.latent_factors.values import FactorParams
from latentia.numerics.array_api import Array, namespace, to_numpy, transpose
from latentia.numerics.logspace import softmax
from latentia.numerics.packed_symmetric import pack, packed_outer, with_doubled_offdiagonal


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


def impute_rows(
    layout: ColumnLayout, params: FactorParams, posterior: RowPosterior, class_probs: Array, mode: bool
) -> Array:
    """Expected cells (N, D), averaged over the classes by (C, N), or the most probable ones of few
    values.
    """
    xp = namespace(params.means)
    G = layout.n_gaussian
    weight = class_probs[:, None, :] * softmax(posterior.scores, axis=-2)  # (C, M, N)
    W = params.loadings[None, :, :, :]
    predictors = xp.matmul(posterior.mean, transpose(W)) + params.offsets[None, :, None, :]  # (C, M, N, H)
    expected = [predictors[..., :G]] if G else []  # a continuous cell is expected at its predictor
    if layout.n_bounded:
        W2 = transpose(with_doubled_offdiagonal(packed_outer(W[..., G:, :]), W.shape[-1]))
        variance = xp.clip(xp.matmul(pack(posterior.cov), W2), min=0.0)
        for model, index in layout.bounded_slices():
            expected.append(model.expected(predictors[..., G:][..., index], variance[..., index]))
    cells = [
        model.impute(xp.sum(weight[..., None] * part, axis=(0, 1)), mode)
        for model, part in zip(layout.models, expected, strict=True)
    ]
    return layout.merge_columns(cells, like=transpose(class_probs))
