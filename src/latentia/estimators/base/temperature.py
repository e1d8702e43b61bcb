r"""How much a row says of its class: a temperature learned from the labeled rows.

Under a model that is only nearly right, the cells of a row repeat each other and class
probabilities are too sure. So the class of a row has

.. math:: p(c \mid x) \propto p(c)\, p(x \mid c)^{1/T}, \qquad T \ge 1,

with T where the labeled rows have the least log loss, under a weak prior at one. The rows are those
of the training: where they are few, they show less doubt than there is, and T stays near one.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from latentia.engine.source import TableSource
from latentia.estimators.base.generative_prediction import FittedModel
from latentia.numerics.array_api import to_numpy, transpose
from latentia.numerics.logspace import logsumexp

#: Labeled rows that are looked at, at most, evenly spaced in the table.
MAX_ROWS = 5000

#: Log of the largest temperature.
MAX_LOG_TEMPERATURE = 4.0


def choose_temperature(model: FittedModel, source: TableSource) -> float:
    """The temperature of the model of these rows."""
    labeled = source.spread_rows(MAX_ROWS, labeled=True)
    codes = labeled.y
    weight = np.ones(codes.size) if labeled.weight is None else labeled.weight
    family, params = model.family, model.params
    scores = model.map_rows(
        labeled.X, lambda rows: transpose(family.scores(params, rows)), family.score_floats_per_row(params)
    )
    log_joint = to_numpy(scores).astype(float)
    prior = to_numpy(params.log_prior).astype(float)

    def loss(log_temperature: float) -> float:
        tempered = prior + (log_joint - prior) * np.exp(-log_temperature)
        own = tempered[np.arange(codes.size), codes] - logsumexp(tempered, axis=1)
        return float(-(weight @ own) + log_temperature**2)

    best = minimize_scalar(loss, bounds=(0.0, MAX_LOG_TEMPERATURE), method="bounded", options={"xatol": 1e-6})
    return float(np.exp(best.x)) if loss(best.x) < loss(0.0) else 1.0
