"""What a fitted latent classification model shows of its parameters."""

from __future__ import annotations

import numpy as np

from latentia.arrays.namespace import asarray_like, namespace, to_numpy
from latentia.estimators.base.fitted_model import FittedModel
from latentia.estimators.base.fitting import Attributes
from latentia.families.latent_factors.family import LatentFactors


def model_attributes(model: FittedModel[LatentFactors]) -> Attributes:
    """The parameters in the units of X; columns in their order, continuous or not."""
    layout, params, preprocessor = model.family.layout, model.params, model.preprocessor
    xp = namespace(params.means)
    columns = np.asarray(layout.predictor_columns(), dtype=np.int64)
    order = np.argsort(columns, kind="stable")
    scale, shift = (
        xp.take(a, asarray_like(columns, params.means, dtype=xp.int64))
        for a in (preprocessor.scale, preprocessor.shift)
    )
    by_column = asarray_like(order, params.means, dtype=xp.int64)
    gaussian = list(layout.gaussian.columns)
    noise = np.full((params.noise.shape[0], layout.n_columns), np.nan)
    noise[:, gaussian] = to_numpy(params.noise) * to_numpy(preprocessor.scale)[gaussian] ** 2
    edges = np.zeros((layout.n_columns, model.family.n_latent), dtype=bool)
    edges[columns] = to_numpy(params.edges) > 0
    return {
        "n_latent_": model.family.n_latent,
        "n_components_": model.family.n_components,
        "priors_": xp.exp(params.log_prior),
        "mixing_weights_": xp.exp(params.log_mix),
        "latent_means_": params.means,
        "latent_variances_": params.variances,
        "loading_features_": columns[order],
        "loadings_": xp.take(params.loadings * scale[:, None], by_column, axis=-2),
        "intercepts_": xp.take(params.offsets * scale + shift, by_column, axis=-1),
        "noise_variances_": asarray_like(noise, params.means),
        "edges_": edges,
        "averaged_components_": [int(one.family.n_components) for one in model.members],
    }
