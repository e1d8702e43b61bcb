r"""An identifiable presentation of the latents, which leaves the model as it is.

Any :math:`z' = (z - t) / s` with :math:`L' = L\,\mathrm{diag}(s)`, :math:`\eta' = \eta + Lt` describes the same rows. We choose: under the class priors each latent has mean zero
and variance one; the latents are sorted by the squared loadings they then have (components weighed by their share, continuous columns in standard
deviations); and the loading that is largest by size, weighed likewise, is positive.
"""

from __future__ import annotations

import numpy as np

from latentia.families.latent_factors.values import FactorParams
from latentia.numerics.array_api import asarray_like, namespace, to_numpy


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
    share = prior @ np.exp(to_numpy(params.log_mix).astype(float))
    weighed = loadings * s * np.sqrt(share)[:, None, None]
    flat = weighed.reshape(-1, s.size)
    sign = np.where(flat[np.abs(flat).argmax(axis=0), np.arange(s.size)] < 0, -1.0, 1.0)
    order = np.argsort(-(flat**2).sum(axis=0), kind="stable")
    index = asarray_like(order, params.means, dtype=xp.int64)
    place, scale = asarray_like(t, params.means), asarray_like(s * sign, params.means)
    moved = params.offsets + xp.matmul(params.loadings, place[:, None])[..., 0]
    return params._replace(
        means=xp.take((params.means - place) / scale, index, axis=-1),
        variances=xp.take(params.variances / scale**2, index, axis=-1),
        loadings=xp.take(params.loadings * scale, index, axis=-1),
        offsets=moved,
        edges=xp.take(params.edges, index, axis=-1),
    )
