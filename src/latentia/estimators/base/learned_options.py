"""Options that generative classifiers may leave to the rows: the weight of unlabeled rows, and the
temperature of class probabilities.
"""

from __future__ import annotations

from typing import Generic

import numpy as np

from latentia.arrays.namespace import Array, asarray_like, namespace, to_numpy, transpose
from latentia.engine.contracts import G, P, PosteriorFamily
from latentia.engine.rows import MaskedRows, TableSource
from latentia.estimators.base.fitted_model import FittedModel
from latentia.estimators.base.fitting import Attributes
from latentia.estimators.base.tempering import LabeledRows, Tempering, best_tempering, count_known
from latentia.estimators.base.unlabeled_weight import MAX_ITER, HeldOutChoice, choose_by_held_out_labels

#: Labeled rows that are looked at, at most, evenly spaced among those with weight.
MAX_ROWS = 5000


def tempering_attributes(model: FittedModel) -> Attributes:
    """What is published of its tempering."""
    (temperature, offsets), prior = model.tempering, model.params.log_prior
    zero = namespace(prior).zeros_like(prior)
    return {"temperature_": temperature, "class_offsets_": zero if offsets is None else asarray_like(offsets, prior)}


def tempering_of_rows(model: FittedModel, source: TableSource, with_offsets: bool = True) -> Tempering:
    """The best one of the labeled rows."""
    labeled = source.spread_rows(MAX_ROWS, labeled=True)
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
