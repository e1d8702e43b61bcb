"""How much unlabeled rows count: the weight that predicts held-out labels best, zero included.

Under a model that is only nearly right, many unlabeled rows at full weight drown a few labels. So
labels are held out in folds, and every weight is tried on all of them in one batch: a fold is a
column of weights with zeros. The middle weight is kept unless another is better by more than two
standard errors of the difference. Where few rows have labels, each estimator has its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from latentia.engine.array_source import ArraySource
from latentia.engine.objectives import Likelihood
from latentia.engine.problem import RowProblem, rows_per_chunk
from latentia.engine.pytree import leaves, take_restarts
from latentia.engine.source import Chunk, TableSource
from latentia.numerics.array_api import namespace, to_numpy
from latentia.numerics.logspace import log_softmax
from latentia.solvers import EM

#: Weights tried; the second is the default.
WEIGHTS = (0.0, 0.1, 1.0)
DEFAULT = 1

N_FOLDS = 3

#: Rows of each label that the choice looks at, at most.
MAX_ROWS = 500

#: EM in the folds need not settle.
MAX_ITER = 10

#: Fewer labeled rows choose nothing.
MIN_LABELED = 30

#: Standard errors by which another weight must be better than the default.
N_ERRORS = 2.0

#: One confident mistake must not decide.
MAX_LOSS = 5.0


def choose_unlabeled_weight(family: Any, rows: TableSource, rng: np.random.Generator, of_few_labels: float) -> float:
    """One of `WEIGHTS`, by the log loss of labels held out, or the one given where they are few."""
    source = rows.draw_rows(MAX_ROWS, rng, by_weight=False)
    folds = assign_folds(source)
    if folds.max() < 1 or (folds >= 0).sum() < MIN_LABELED:  # there are no rows to spare
        return of_few_labels
    n_folds = int(folds.max()) + 1
    settings = [(fold, factor) for fold in range(n_folds) for factor in WEIGHTS]
    weight = np.ones(source.n_rows) if source.weight is None else source.weight
    columns = [np.where(folds == fold, 0.0, weight) * np.where(source.y < 0, factor, 1.0) for fold, factor in settings]
    batch = ArraySource(source.X, source.y, np.stack(columns, axis=1), source.preprocess)
    params = family.init(batch, rng, len(settings))
    params = EM(MAX_ITER, 1e-3).solve(RowProblem(family, Likelihood(), batch), params).params
    losses, counts = [], []
    for fold in range(n_folds):
        held_out = np.flatnonzero(folds == fold)
        mine = take_restarts(params, list(range(fold * len(WEIGHTS), (fold + 1) * len(WEIGHTS))))
        losses.append(_log_losses(family, mine, source.subset(held_out)))
        counts.append(weight[held_out])
    return WEIGHTS[_best(np.concatenate(losses, axis=1), np.concatenate(counts))]


def _best(losses: np.ndarray, weight: np.ndarray) -> int:
    """The number of the best row of `losses`, or of the default where the lead may be chance."""
    share = weight / weight.sum()
    best = int(np.argmin(losses @ share))
    lead = losses[DEFAULT] - losses[best]
    error = np.sqrt((share**2 * (lead - lead @ share) ** 2).sum())
    return best if lead @ share > N_ERRORS * error else DEFAULT


def assign_folds(source: ArraySource) -> np.ndarray:
    """The fold of each row; -1 for unlabeled rows and for classes with too few rows.

    By the ranks of the rows' sums in their class: equal rows share a fold, so a row of weight two
    is that row twice, and neither units nor the order of rows and columns matter.
    """
    rows = source.all_rows().rows.values
    sums = np.round(to_numpy(namespace(rows).sum(rows, axis=-1)).astype(float), 6)
    folds = np.full(source.n_rows, -1)
    for label in np.unique(source.y[source.y >= 0]):
        in_class = np.flatnonzero(source.y == label)
        _, rank = np.unique(sums[in_class], return_inverse=True)
        if rank.max() > 0:
            folds[in_class] = rank % N_FOLDS
    return folds


def _log_losses(family: Any, params: Any, source: ArraySource) -> np.ndarray:
    """Of each restart and row, in the order of the rows."""
    chunk: Chunk = source.all_rows()
    size = rows_per_chunk(family.floats_per_row(params), next(leaves(params)))
    parts = []
    for first in range(0, source.n_rows, size):
        here = slice(first, first + size)
        observed = None if chunk.rows.observed is None else chunk.rows.observed[here, ...]
        rows = chunk.rows._replace(values=chunk.rows.values[here, ...], observed=observed)
        parts.append(to_numpy(log_softmax(family.infer(params, rows).log_joint, axis=-2)))
    log_proba = np.concatenate(parts, axis=-1)
    own = np.take_along_axis(log_proba, source.y[None, None, :], axis=1)[:, 0]
    return np.minimum(-own, MAX_LOSS)
