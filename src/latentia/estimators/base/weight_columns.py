"""One generative model for each column of row weights, all of them trained as one batch.

A fold of cross-validation is a column with zeros for the rows held out: all folds, and the model of
all rows, are restarts of one run over the same rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from latentia.engine.contracts import PosteriorFamily
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import select_restart
from latentia.estimators.base.callbacks import StepNotifier
from latentia.estimators.base.column_starts import column_starts
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
    restarts = np.split(np.arange(weight.shape[1]), columns.shape[1])  # of each column
    params = column_starts(trained, source, restarts, rng)
    problem = trained.specialized_problem(Likelihood(), source) or RowProblem(trained, Likelihood(), source)
    solution = estimator._em_solver(trained).solve(problem, params)
    fits: list[Any] = []
    for index in restarts:
        mine = solution.take_restarts(index.tolist())
        own = mine.select_restart(estimator._select_restart(trained, mine, source.take_restarts(index), rng))
        model = estimator._model_at(family, trained, data, select_restart(own.params, 0))
        fits.append(GenerativeFit(model, own, 0.0, isinstance(trained, PosteriorFamily), factor))
    return fits
