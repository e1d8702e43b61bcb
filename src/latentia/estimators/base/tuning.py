"""Options that generative classifiers may leave to the rows: the weight of unlabeled rows, and the
temperature of class probabilities.

What labels held out say: how much unlabeled rows count, and how much a row says of its class.

Under a model that is only nearly right, many unlabeled rows at full weight drown a few labels. So
labels are held out in folds, and every weight is tried on all of them in one batch: a fold is a
column of weights with zeros. The classes of the rows held out have a temperature and offsets (see
`tempering`) for each weight, which are those of the final model, too: rows that trained it would
show less doubt than there is. Zero is kept unless another weight is better by more than half a
standard error of the difference. Where few rows have labels, nothing is held out, and each
estimator has a weight of its own.

Starts of models that are trained as one batch on columns of row weights.

A fold of cross-validation is a column with zeros for the rows held out. Its start must not know
them either: where most rows have no label, training hardly leaves a start behind.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, NamedTuple

import numpy as np

from latentia.arrays.namespace import Array, asarray_like, namespace, to_numpy, transpose
from latentia.engine.contracts import EMFamily, G, GenerativeFamily, P, Params, PosteriorFamily
from latentia.engine.rows import ArraySource, Chunk, MaskedRows, TableSource
from latentia.engine.sweep import Likelihood, RowProblem, rows_per_chunk
from latentia.engine.tree import leaves, take_restarts, tree_map
from latentia.estimators.base.estimator import Attributes
from latentia.estimators.base.generative_prediction import (
    FittedModel,
    LabeledRows,
    Tempering,
    best_tempering,
    count_known,
)
from latentia.solvers import EM
from latentia.table.weights import content_keys, folds_by_content, sum_of_cubes

#: Labeled rows that are looked at, at most, evenly spaced among those with weight.
MAX_TEMPERED_ROWS = 5000


def tempering_attributes(model: FittedModel) -> Attributes:
    """What is published of its tempering."""
    (temperature, offsets), prior = model.tempering, model.params.log_prior
    zero = namespace(prior).zeros_like(prior)
    return {"temperature_": temperature, "class_offsets_": zero if offsets is None else asarray_like(offsets, prior)}


def tempering_of_rows(model: FittedModel, source: TableSource, with_offsets: bool = True) -> Tempering:
    """The best one of the labeled rows."""
    labeled = source.spread_rows(MAX_TEMPERED_ROWS, labeled=True)
    weight = np.ones(labeled.y.size) if labeled.weight is None else labeled.weight
    family, params = model.family, model.params

    def of_rows(rows: MaskedRows) -> Array:
        """Log likelihoods of the classes, and beside them the numbers of known cells."""
        log_likelihood = transpose(family.scores(params, rows)) - params.log_prior
        return namespace(log_likelihood).concat([log_likelihood, count_known(rows)[:, None]], axis=1)

    found = to_numpy(model.map_rows(labeled.X, of_rows, family.score_floats_per_row(params))).astype(float).T
    return best_tempering(LabeledRows(found[:-1], found[-1], labeled.y, weight), with_offsets)


class LearnedOptionsMixin(Generic[G, P]):
    """What `temperature="auto"` and `unlabeled_weight="auto"` mean."""

    temperature: float | str
    unlabeled_weight: float | str
    #: What unlabeled rows weigh where the labels are too few to choose it by.
    _weight_of_few_labels = 0.1

    def _choose_tempering(
        self, model: FittedModel, source: TableSource, is_posterior: bool, with_offsets: bool = True
    ) -> Tempering:
        """That of the option, or of labeled rows that trained the model."""
        if not isinstance(self.temperature, str):
            return Tempering(float(self.temperature))
        if not is_posterior:
            return Tempering()
        return tempering_of_rows(model, source, with_offsets)

    def _choose_by_held_out_labels(self, family: G | P, source: TableSource, rng: np.random.Generator) -> HeldOutChoice:
        """What unlabeled rows weigh, and a tempering where labels were held out to choose it."""
        if not isinstance(self.unlabeled_weight, str):
            return HeldOutChoice(float(self.unlabeled_weight), None)
        if -1 not in source.label_totals or not source.label_totals[-1].n_weighted:
            return HeldOutChoice(1.0, None)
        tempered = isinstance(family, PosteriorFamily)  # points have the temperature one
        choice = choose_by_held_out_labels(*self._rough(family), source, rng, self._weight_of_few_labels, tempered)
        return choice if self.temperature == "auto" else choice._replace(tempering=None)

    def _rough(self, family: G | P) -> tuple[G | P, int]:
        """A family that is good enough to compare settings by, and iterations of EM."""
        return family, MAX_ITER


#: Weights tried, the default first.
WEIGHTS = (0.0, 0.1, 1.0)

N_FOLDS = 3

#: Rows of each label that the choice looks at, at most.
MAX_HELD_OUT_ROWS = 500

#: EM in the folds need not settle.
MAX_ITER = 20

#: Labeled rows that together weigh less choose nothing.
MIN_LABELED = 30

#: Standard errors by which each weight must be better than a smaller one. Full weight can cost more
#: than it gains: a fit follows the unlabeled rows farther than the few steps of the folds do.
N_ERRORS = (0.0, 0.5, 1.5)

#: Leads of fewer nats a row are none: of few labels held out, all may be predicted by chance.
MIN_LEAD = 0.01

#: One confident mistake must not decide.
MAX_LOSS = 5.0


class HeldOutChoice(NamedTuple):
    """What labels held out ask for."""

    unlabeled_weight: float
    tempering: Tempering | None  # None: no labels were held out


def choose_by_held_out_labels(
    family: EMFamily, max_iter: int, rows: TableSource, rng: np.random.Generator, of_few_labels: float, tempered: bool
) -> HeldOutChoice:
    """One of `WEIGHTS` by the log loss of labels held out, or the one given where they are few."""
    source = rows.draw_rows(MAX_HELD_OUT_ROWS, rng, by_weight=False)
    folds = assign_folds(source)
    weight = np.ones(source.n_rows) if source.weight is None else source.weight
    if folds.max() < 1 or weight[folds >= 0].sum() < MIN_LABELED:  # there are no rows to spare
        return HeldOutChoice(of_few_labels, None)
    log_likelihoods = _held_out_log_likelihoods(family, max_iter, source, folds, rng)
    held_out = np.concatenate([np.flatnonzero(folds == fold) for fold in range(folds.max() + 1)])
    codes, weight = source.y[held_out], weight[held_out]
    known = to_numpy(count_known(source.subset(held_out).all_rows().rows)).astype(float)
    seen = [LabeledRows(each, known, codes, weight) for each in log_likelihoods]
    temperings = [best_tempering(rows) if tempered else Tempering() for rows in seen]
    losses = [rows.log_losses(tempering) for rows, tempering in zip(seen, temperings, strict=True)]
    best = _best(np.minimum(losses, MAX_LOSS), weight)
    return HeldOutChoice(WEIGHTS[best], temperings[best])


def _held_out_log_likelihoods(
    family: EMFamily, max_iter: int, source: ArraySource, folds: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Of each weight: log likelihoods (C, n_rows) of the rows of all folds, one after the other, by
    models that did not see them.
    """
    n_folds = int(folds.max()) + 1
    settings = [(fold, factor) for fold in range(n_folds) for factor in WEIGHTS]
    weight = np.ones(source.n_rows) if source.weight is None else source.weight
    columns = [np.where(folds == fold, 0.0, weight) * np.where(source.y < 0, factor, 1.0) for fold, factor in settings]
    batch = ArraySource(source.X, source.y, np.stack(columns, axis=1), source.preprocess)
    params = column_starts(family, batch, np.split(np.arange(len(settings)), n_folds), rng)
    params = EM(max_iter, 1e-3).solve(RowProblem(family, Likelihood(), batch), params).params
    parts = []
    for fold in range(n_folds):
        mine = take_restarts(params, list(range(fold * len(WEIGHTS), (fold + 1) * len(WEIGHTS))))
        joint = _log_joints(family, mine, source.subset(np.flatnonzero(folds == fold)))
        parts.append(joint - to_numpy(mine.log_prior).astype(float)[..., None])
    return np.concatenate(parts, axis=-1)


def _best(losses: np.ndarray, weight: np.ndarray) -> int:
    """The number of the best row of `losses`, or of one before it where the lead may be chance."""
    share, best = weight / weight.sum(), 0
    for number, n_errors in enumerate(N_ERRORS):
        lead = losses[best] - losses[number]
        error = np.sqrt(share @ (lead - lead @ share) ** 2 / weight.sum())  # a row of weight two is that row twice
        best = number if lead @ share > max(n_errors * error, MIN_LEAD) else best
    return best


def assign_folds(source: ArraySource) -> np.ndarray:
    """The fold of each row; -1 for unlabeled rows and for classes with too few rows.

    By the rows' content: equal rows share a fold, so a row of weight two is that row twice, and
    neither units nor the order of rows and columns matter.
    """
    rows = source.all_rows().rows.values
    weight = np.ones(source.n_rows) if source.weight is None else source.weight
    keys = content_keys(rows, sum_of_cubes(rows, weight) / weight.sum())
    return folds_by_content(keys, source.y, weight, N_FOLDS)


def _log_joints(family: EMFamily, params: Any, source: ArraySource) -> np.ndarray:
    """Of each restart, class and row, in the order of the rows."""
    chunk: Chunk = source.all_rows()
    size = rows_per_chunk(family.floats_per_row(params), next(leaves(params)))
    parts = []
    for first in range(0, source.n_rows, size):
        here = slice(first, first + size)
        observed = None if chunk.rows.observed is None else chunk.rows.observed[here, ...]
        rows = chunk.rows._replace(values=chunk.rows.values[here, ...], observed=observed)
        parts.append(to_numpy(family.infer(params, rows).log_joint).astype(float))
    return np.concatenate(parts, axis=-1)


def column_starts(
    family: EMFamily, source: ArraySource, groups: Iterable[np.ndarray], rng: np.random.Generator
) -> Params:
    """Parameters to start from, those of a group of columns by the rows that have weight in it.

    Points start from labeled rows alone. All groups see the same random numbers.
    """
    seed, parts = int(rng.integers(2**31)), []
    for columns in groups:
        rows = source.take_restarts(columns)
        rows = rows.labeled_only() if isinstance(family, GenerativeFamily) else rows
        parts.append(family.init(rows, np.random.default_rng(seed), columns.size))
    return tree_map(lambda *each: namespace(*each).concat(each, axis=0), *parts)
