r"""Training on a stream: one batch of rows after the other, each seen once.

Stepwise EM (Cappe & Moulines 2009): the statistics that the M-step needs are averages over rows, so
those of a batch are mixed into those of the batches before,

.. math:: s_t = (1 - \rho_t) s_{t-1} + \rho_t \bar s(\text{batch}; \theta_{t-1}), \qquad
          \theta_t = \text{M-step}(N_t s_t),

with :math:`\rho_t = t^{-\kappa}`, t the number of batches of this size that the stream has had. For
posteriors the M-step adds the prior's statistics, so this is stochastic variational Bayes by
natural gradients (Hoffman et al. 2013), with the rows seen so far for a table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from latentia.arrays.namespace import to_numpy
from latentia.engine.contracts import GenerativeFamily, PosteriorFamily
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import Tree, tree_map
from latentia.estimators.base.estimator import Attributes
from latentia.estimators.base.reading import GenerativeInput
from latentia.estimators.base.training import log_jacobian_sum

#: The points of an estimator, and their posterior.
G = TypeVar("G", bound=GenerativeFamily)
P = TypeVar("P", bound=PosteriorFamily)


@dataclass(frozen=True)
class Stream(Generic[G, P]):
    """What is kept of all batches: no row of them."""

    data: GenerativeInput  # how rows are read; its own rows are gone
    family: G
    trained: G | P  # the posterior, or the points themselves
    params: Tree  # of the latter, one restart
    stats: Tree  # averages, per unit of weight
    weight: float  # of all rows so far
    unlabeled_weight: float
    label_counts: np.ndarray  # (C,) rows of each class so far
    n_rows: int
    curve: tuple[float, ...]  # the objective of each batch per unit of weight, before it was learned from

    @classmethod
    def begin(
        cls,
        family: G,
        trained: G | P,
        params: Tree,
        data: GenerativeInput,
        source: ArraySource,
        unlabeled_weight: float,
    ) -> Stream[G, P]:
        """The stream after its first batch, to which the parameters were fitted."""
        sweep, size = RowProblem(trained, Likelihood(), source).sweep(params), source.total_weight
        data = replace(data, X=data.X[:0, ...], codes=data.codes[:0], weight=None)
        stats = tree_map(lambda s: s / size, sweep.stats)
        value = float(to_numpy(sweep.value - trained.log_prior(params)).ravel()[0])
        mean = (value - log_jacobian_sum(source, data.preprocessor)) / size
        counts = count_labels(source, data.n_classes)
        return cls(data, family, trained, params, stats, size, unlabeled_weight, counts, source.n_rows, (mean,))

    def learn(self, source: ArraySource, forgetting: float) -> Stream[G, P]:
        """The stream after another batch."""
        sweep = RowProblem(self.trained, Likelihood(), source).sweep(self.params)
        size = source.total_weight
        counted = replace(
            self,
            label_counts=self.label_counts + count_labels(source, self.data.n_classes),
            n_rows=self.n_rows + source.n_rows,
        )
        if size <= 0:
            return counted
        weight = self.weight + size
        step = float((weight / size) ** -forgetting)
        stats = tree_map(lambda old, new: (1.0 - step) * old + (step / size) * new, self.stats, sweep.stats)
        params = self.trained.update(self.params, tree_map(lambda s: weight * s, stats))
        value = sweep.value - self.trained.log_prior(self.params)
        log_jacobian = log_jacobian_sum(source, self.data.preprocessor)
        mean = (float(to_numpy(value).ravel()[0]) - log_jacobian) / size
        return replace(
            counted,
            params=params,
            stats=self.trained.move_statistics(stats, self.params, params),
            weight=weight,
            curve=(*self.curve, mean),
        )

    @property
    def attributes(self) -> Attributes:
        """What the stream was and how it went."""
        n_unlabeled = self.n_rows - int(self.label_counts.sum())
        record = {"n_rows": self.n_rows, "label_counts": self.label_counts.tolist(), "n_unlabeled": n_unlabeled}
        return {
            "unlabeled_weight_": self.unlabeled_weight,
            "objective_curve_": np.array(self.curve),
            "n_iter_": len(self.curve),
            "converged_": False,
            "stopping_reason_": "the stream may go on",
            "training_record_": record,
            "_stream_": self,
        }


def count_labels(source: ArraySource, n_classes: int) -> np.ndarray:
    """Rows of each class, (C,)."""
    return np.bincount(source.y[source.y >= 0], minlength=n_classes)
