r"""A canonical form of the latents, which leaves the model as it is.

Any :math:`z' = (z - t) / s` with :math:`L' = L\,\mathrm{diag}(s)`, :math:`\eta' = \eta + Lt`
describes the same rows. We choose: under the class priors each latent has mean zero and variance
one; the latents are sorted by the squared loadings they then have (components weighted by their
probability, continuous columns in standard deviations); and the loading that is largest by size,
weighted likewise, is positive.
"""

from __future__ import annotations

import numpy as np

from latentia.arrays.namespace import asarray_like, namespace, to_numpy
from latentia.families.latent_factors.values import FactorParams


def to_canonical_form(params: FactorParams) -> FactorParams:
    """The parameters (without leading axes) in the chosen coordinates of z."""
    if params.means.shape[-1] == 0:
        return params
    xp = namespace(params.means)
    prior = np.exp(to_numpy(params.log_prior).astype(float))
    prior /= prior.sum()
    means, variances, loadings = (to_numpy(a).astype(float) for a in (params.means, params.variances, params.loadings))
    t = prior @ means
    s = np.sqrt(np.maximum(prior @ (variances + (means - t) ** 2), np.finfo(float).tiny))
    component_probs = prior @ np.exp(to_numpy(params.log_mix).astype(float))
    flat = (loadings * s * np.sqrt(component_probs)[:, None, None]).reshape(-1, s.size)
    sign = np.where(flat[np.abs(flat).argmax(axis=0), np.arange(s.size)] < 0, -1.0, 1.0)
    order = np.argsort(-(flat**2).sum(axis=0), kind="stable")
    index = asarray_like(order, params.means, dtype=xp.int64)
    shift, scale = asarray_like(t, params.means), asarray_like(s * sign, params.means)
    return params._replace(
        means=xp.take((params.means - shift) / scale, index, axis=-1),
        variances=xp.take(params.variances / scale**2, index, axis=-1),
        loadings=xp.take(params.loadings * scale, index, axis=-1),
        offsets=params.offsets + xp.matmul(params.loadings, shift[:, None])[..., 0],
        edges=xp.take(params.edges, index, axis=-1),
    )
