"""One generative model for each column of row weights, all of them trained as one batch.

A fold of cross-validation is a column with zeros for the rows held out: all folds, and the model of
all rows, are restarts of one run over the same rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from latentia.engine.array_source import ArraySource
from latentia.engine.objectives import Likelihood
from latentia.engine.problem import RowProblem
from latentia.engine.pytree import select_restart
from latentia.estimators.base.callbacks import StepNotifier
from latentia.estimators.base.generative import GenerativeClassifier, GenerativeFit
from latentia.estimators.base.generative_input import GenerativeInput


def train_columns(
    estimator: GenerativeClassifier, data: GenerativeInput, columns: np.ndarray, rng: np.random.Generator
) -> list[GenerativeFit]:
    """What each of the columns (N, S) of weights makes of the likelihood.

    `n_init` restarts of each; options that look for something (`unlabeled_weight="auto"`,
    `temperature="auto"`) must have been set to numbers.
    """
    notifier = StepNotifier()
    factor = float(estimator.unlabeled_weight)
    whole = data.make_source()
    family = estimator._make_family(data, whole, rng, notifier)
    trained = estimator._trained_family(family, data, Likelihood())
    n_init = estimator._n_restarts(trained)
    weight = np.repeat(columns, n_init, axis=1) * np.where(data.codes < 0, factor, 1.0)[:, None]
    source = ArraySource(data.X, data.codes, weight, whole.preprocess)
    params = trained.init(source, rng, columns.shape[1] * n_init)
    solution = estimator._em_solver(trained).solve(RowProblem(trained, Likelihood(), source), params)
    best = np.asarray(solution.value).reshape(-1, n_init).argmax(axis=1) + n_init * np.arange(columns.shape[1])
    fits: list[Any] = []
    for restart in best.tolist():
        own = solution.select_restart(restart)
        model = estimator._model_at(family, trained, data, select_restart(own.params, 0))
        fits.append(GenerativeFit(model, own, 0.0, trained is not family, factor))
    return fits
