"""Options that generative classifiers may leave to the rows: the weight of unlabeled rows, and the
temperature of class probabilities.
"""

from __future__ import annotations

from typing import Generic

import numpy as np

from latentia.engine.posterior_family import F, P, PosteriorFamily
from latentia.engine.source import TableSource
from latentia.estimators.base.fitted_model import FittedModel
from latentia.estimators.base.temperature import choose_temperature
from latentia.estimators.base.unlabeled_weight import MAX_ITER, HeldOutChoice, choose_by_held_out_labels


class LearnedOptionsMixin(Generic[F, P]):
    """What `temperature="auto"` and `unlabeled_weight="auto"` mean."""

    temperature: float | str
    unlabeled_weight: float | str
    #: What unlabeled rows weigh where the labels are too few to choose it by.
    _weight_of_few_labels = 0.1

    def _choose_temperature(
        self, model: FittedModel, source: TableSource, is_posterior: bool, of_held_out_labels: float | None = None
    ) -> float:
        if not isinstance(self.temperature, str):
            return float(self.temperature)
        if not is_posterior:
            return 1.0
        return choose_temperature(model, source) if of_held_out_labels is None else of_held_out_labels

    def _choose_by_held_out_labels(self, family: F | P, source: TableSource, rng: np.random.Generator) -> HeldOutChoice:
        """What unlabeled rows weigh, and a temperature where labels were held out to choose it."""
        if not isinstance(self.unlabeled_weight, str):
            return HeldOutChoice(float(self.unlabeled_weight), None)
        if -1 not in source.label_totals or not source.label_totals[-1].n_weighted:
            return HeldOutChoice(1.0, None)
        tempered = isinstance(family, PosteriorFamily)  # points have the temperature one
        return choose_by_held_out_labels(*self._rough(family), source, rng, self._weight_of_few_labels, tempered)

    def _rough(self, family: F | P) -> tuple[F | P, int]:
        """A family that is good enough to compare settings by, and iterations of EM."""
        return family, MAX_ITER
