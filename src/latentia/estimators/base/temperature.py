r"""How much a row says of its class: a temperature learned from the labeled rows.

Under a model that is only nearly right, the cells of a row repeat each other and class
probabilities are too sure. So the class of a row has

.. math:: p(c \mid x) \propto p(c)\, p(x \mid c)^{1/T}, \qquad T \ge 1,

with T where labeled rows have the least log loss, under a weak prior at one. They are rows held out
where some are for the weight of unlabeled rows (see `unlabeled_weight`), else those of the
training.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from latentia.engine.source import TableSource
from latentia.estimators.base.fitted_model import FittedModel
from latentia.numerics.array_api import to_numpy, transpose
from latentia.numerics.logspace import logsumexp

#: Labeled rows that are looked at, at most, evenly spaced in the table.
MAX_ROWS = 5000

#: Log of the largest temperature.
MAX_LOG_TEMPERATURE = 4.0


def choose_temperature(model: FittedModel, source: TableSource) -> float:
    """The temperature of the model of these rows."""
    labeled = source.spread_rows(MAX_ROWS, labeled=True)
    weight = np.ones(labeled.y.size) if labeled.weight is None else labeled.weight
    family, params = model.family, model.params
    scores = model.map_rows(
        labeled.X, lambda rows: transpose(family.scores(params, rows)), family.score_floats_per_row(params)
    )
    log_prior = to_numpy(params.log_prior).astype(float)
    return best_temperature(to_numpy(scores).astype(float), log_prior, labeled.y, weight)


def best_temperature(log_joint: np.ndarray, log_prior: np.ndarray, codes: np.ndarray, weight: np.ndarray) -> float:
    """Where rows of these classes, with these log joints (N, C), have the least log loss."""

    def loss(log_temperature: float) -> float:
        losses = tempered_losses(log_joint, log_prior, codes, np.exp(log_temperature))
        return float(weight @ losses + log_temperature**2)

    best = minimize_scalar(loss, bounds=(0.0, MAX_LOG_TEMPERATURE), method="bounded", options={"xatol": 1e-6})
    return float(np.exp(best.x)) if loss(best.x) < loss(0.0) else 1.0


def tempered_losses(log_joint: np.ndarray, log_prior: np.ndarray, codes: np.ndarray, temperature: float) -> np.ndarray:
    """The log loss of each row."""
    tempered = log_prior + (log_joint - log_prior) / temperature
    return np.asarray(logsumexp(tempered, axis=1) - tempered[np.arange(codes.size), codes])
