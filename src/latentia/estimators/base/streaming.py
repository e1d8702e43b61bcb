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
from typing import Any, Generic, Self

import numpy as np

from latentia.engine.contracts import G, P, Params, PosteriorFamily, Stats
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import select_restart, tree_map
from latentia.estimators.base.estimator import Attributes, StepNotifier
from latentia.estimators.base.generative import GenerativeClassifier, GenerativeInput, log_jacobian_sum
from latentia.estimators.base.generative_prediction import Tempering
from latentia.estimators.base.tuning import tempering_attributes
from latentia.table.labels import encode_known_labels
from latentia.table.lazy import refuse_lazy
from latentia.table.options import check_number, random_generator
from latentia.table.weights import check_weight


@dataclass(frozen=True)
class Stream(Generic[G, P]):
    """What is kept of all batches: no row of them."""

    data: GenerativeInput  # how rows are read; its own rows are gone
    family: G
    trained: G | P  # the posterior, or the points themselves
    params: Params  # of the latter, one restart
    stats: Stats  # averages, per unit of weight
    weight: float  # of all rows so far
    unlabeled_weight: float
    label_counts: np.ndarray  # (C,) rows of each class so far
    n_rows: int
    curve: tuple[float, ...]  # the objective of each batch per unit of weight, before it was learned from

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
        mean = (float(np.ravel(value)[0]) - log_jacobian) / size
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


class StreamMixin(GenerativeClassifier[G, P]):
    """`partial_fit`."""

    _stream_: Stream

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, *, forgetting: float = 0.7
    ) -> Self:
        """Learn from another batch of rows, and forget the rows.

        The first batch is fitted as `fit` would: units, power transforms, categories, the starts
        and what is chosen by the data stay as it suggests. So it should be a fair sample, of some
        hundred rows, with every class in it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.
        y : array-like of shape (n_samples,)
            Classes, and marks of unlabeled rows, as in `fit`.
        classes : array-like of shape (n_classes,), default=None
            All classes of the stream; needed in the first call. After `fit`, a new stream begins,
            by default with the classes of that fit.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.
        forgetting : float, default=0.7
            How fast earlier batches fade, more than 0.5 and at most 1: batch t has the share
            ``t ** -forgetting``. With 1 all batches count alike, also those that were read with
            poor parameters; less forgets more.

        Returns
        -------
        self : estimator
        """
        check_number("forgetting", forgetting, gt=0.5)
        if forgetting > 1:
            raise ValueError(f"forgetting={forgetting}; allowed are numbers > 0.5 and <= 1.")
        for what, values in (("X", X), ("y", y), ("sample_weight", sample_weight)):
            refuse_lazy(what, values, "partial_fit takes a batch in memory: pass one part after the other, or call fit")
        stream = getattr(self, "_stream_", None)
        if stream is None:
            stream, source = self._start_stream(X, y, classes, sample_weight)
        else:
            self._check_classes(classes)
            source = self._read_batch(stream, X, y, sample_weight)
            stream = stream.learn(source, forgetting)
        data = stream.data
        model = self._model_at(stream.family, stream.trained, data, select_restart(stream.params, 0))
        tempering = Tempering(getattr(self, "temperature_", 1.0))  # of the batches before, if this has no labels
        if (source.y >= 0).any() or not isinstance(self.temperature, str):
            is_posterior = isinstance(stream.trained, PosteriorFamily)
            tempering = self._choose_tempering(model, source, is_posterior, with_offsets=False)  # of few classes, maybe
        model = replace(model, tempering=tempering)
        attributes = data.attributes | stream.attributes | self._attributes_of(model)
        self._set_learned(attributes | tempering_attributes(model))
        return self

    def _start_stream(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> tuple[Stream[G, P], ArraySource]:
        self._check_options()
        objective = self._objective()
        if not objective.rises_under_em:
            raise ValueError(f"objective={self.objective!r}: partial_fit trains by objective='likelihood' alone.")
        classes = getattr(self, "classes_", None) if classes is None else classes
        if classes is None:
            raise ValueError("classes=None: the first call of partial_fit needs the classes of the whole stream.")
        data = self._read_in_memory(X, y, sample_weight)
        found, told = data.attributes["classes_"].tolist(), sorted(set(np.asarray(classes).tolist()))
        if found != told:
            raise ValueError(
                f"classes={told}, but the first batch has rows of {found}: it must have rows of every class, and of "
                "no other."
            )
        rng, source = random_generator(self.random_state), data.make_source()
        notifier = StepNotifier()
        if self.callback is not None:
            notifier.listeners.append(lambda step: bool(self.callback(step)))
        family = self._open_family(self._make_family(data, source, rng, notifier))
        trained = self._trained_family(family, data, objective)
        self._tell_of(family, trained, data, notifier)
        unlabeled_weight = self._choose_by_held_out_labels(trained, source, rng).unlabeled_weight
        source = source.with_unlabeled_weight(unlabeled_weight)
        params = self._run_em_restarts(trained, source, rng, notifier).params
        sweep, size = RowProblem(trained, Likelihood(), source).sweep(params), source.total_weight
        data = replace(data, X=data.X[:0, ...], codes=data.codes[:0], weight=None)
        stats = tree_map(lambda s: s / size, sweep.stats)
        value = float(np.ravel(sweep.value - trained.log_prior(params))[0])
        mean = (value - log_jacobian_sum(source, data.preprocessor)) / size
        counts = count_labels(source, data.n_classes)
        return (
            Stream(data, family, trained, params, stats, size, unlabeled_weight, counts, source.n_rows, (mean,)),
            source,
        )

    def _open_family(self, family: G) -> G:
        """The family for rows of which not all are known beforehand."""
        return family

    def _read_batch(self, stream: Stream[G, P], X: Any, y: Any, sample_weight: Any) -> ArraySource:
        rows = self._encode_table(X, stream.data.encoder)
        codes = encode_known_labels(y, self.classes_, rows.shape[0], self.unlabeled)
        weight = check_weight(sample_weight, rows.shape[0])
        source = ArraySource(rows, codes, weight, stream.data.preprocessor.prepare)
        return source.with_unlabeled_weight(stream.unlabeled_weight)

    def _check_classes(self, classes: Any) -> None:
        if classes is not None and sorted(set(np.asarray(classes).tolist())) != self.classes_.tolist():
            raise ValueError(f"classes={list(classes)}, but the stream began with {self.classes_.tolist()}.")
