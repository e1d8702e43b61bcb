"""Classifiers whose classes are unions of softmax subclasses, and the search for their numbers.

Compressive search (Ahmed & Campbell 2011, Table II) fits the configurations with equally many
subclasses in every class, 1 to r. In each it counts the subclasses whose part of their class
exceeds a threshold (eq. 33); those counts are a new configuration, fitted in the next round from
its parents' relevant subclasses. With one threshold it tries at most r models a round, however many
classes there are.

The paper notes that this searches the best neighborhood without exploring it. What is left of a
budget of models is therefore spent on the neighbors of the best configuration so far, one subclass
more or less in one class, moving on whenever one is better.

Where one subclass is as good as several, all this is wasted. So with `patience` the equal numbers
end after so many in a row that were no better, and the neighbors after twice as many: as many as
two classes have. On held-out rows, one that is worse than chance explains ends them at once.

A strategy is an iterator of proposals; each has to be fitted and recorded before the next is asked
for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any, ClassVar, NamedTuple

import numpy as np

from latentia.arrays.namespace import Array, asarray_like, namespace, to_numpy, transpose
from latentia.engine.rows import Chunk, Source, Totals, rows_per_chunk
from latentia.estimators.base.estimator import Attributes, StepNotifier
from latentia.estimators.softmax.base import SoftmaxClassifier, SoftmaxFit, SoftmaxInput
from latentia.estimators.softmax.training import (
    Candidate,
    FittedModel,
    Patience,
    Trainer,
    best_model,
    is_better,
    search_table,
    undo_standardization,
)
from latentia.families.blocks.bounds import GammaPrior
from latentia.families.softmax_tree.posterior import BoundPosterior
from latentia.families.softmax_tree.tree import Point, TreeLikelihood, multimodal_softmax
from latentia.scale.tables import method_of_rows
from latentia.table.options import Callback, Check, check_choice, check_number, choice, integer


def check_subclasses(name: str, n_subclasses: Any) -> None:
    """An int, several, or 'auto'."""
    if isinstance(n_subclasses, str):
        check_choice(name, n_subclasses, ["auto"], ", an int, or one int per class")
        return
    for number in np.atleast_1d(np.asarray(n_subclasses, dtype=object)).tolist():
        check_number(name, number, ge=1, integer=True, besides=", one for each class, or 'auto'")


def per_class(n_subclasses: Any, n_classes: int) -> tuple[int, ...]:
    """The user's numbers, one per class."""
    numbers = np.asarray(n_subclasses)
    if numbers.ndim > 0 and numbers.shape != (n_classes,):
        raise ValueError(
            f"n_subclasses={n_subclasses!r} has {numbers.size} entries, but y has {n_classes} classes; "
            "allowed are 'auto', an int, or one int per class."
        )
    return tuple(np.broadcast_to(numbers, (n_classes,)).astype(int).tolist())


def check_threshold(name: str, threshold: Any) -> None:
    """One number from 0 to 1, or several."""
    if np.size(threshold) == 0:
        raise ValueError(f"{name}={threshold!r}; allowed are one number from 0 to 1, or several.")
    for value in np.atleast_1d(np.asarray(threshold, dtype=object)).tolist():
        check_number(name, value, ge=0, lt=1)


class MultimodalSoftmaxClassifier(SoftmaxClassifier):
    """A softmax over subclasses, several of which make up a class.

    Boundaries between classes are piecewise linear.

    ``P(c | x) = sum over subclasses i of c of exp(w_i' x) / sum over all subclasses j of
    exp(w_j' x)``, x having a one appended. The weights have zero-mean Gaussian priors whose
    precisions have gamma hyper-priors; the bias shares the weights' prior. Learned by
    variational Bayes through a quadratic bound of the softmax, or by maximum likelihood;
    `criterion` chooses the numbers of subclasses. [1]_

    Parameters
    ----------
    n_subclasses : "auto", int or sequence of int, default="auto"
        Subclasses of every class, of each class in the order of `classes_`, or chosen by
        `search`.
    max_subclasses : int, default=5
        Maximum number of subclasses of a class that a search tries.
    threshold : float or sequence of float, default=0.05
        Compressive search drops a subclass that holds a smaller part of its class; several
        thresholds are tried at once.
    inference : {"vb", "ml"}, default="vb"
        Variational Bayes, or maximum likelihood (with a `ridge`, MAP) by L-BFGS.
    criterion : {"validation", "evidence", "bound", "bic"}, default="validation"
        What "auto" chooses by. "validation": the log score of a quarter of the rows, held out,
        after a short training; the winner is then trained on all. A sample of 10,000 rows or more
        chooses for larger tables. It predicts best over many tables. Of models that score within
        0.001 the smallest wins, with any criterion. "evidence": `corrected_log_evidence_`; "bound":
        `log_evidence_`, as in the paper; both use all rows, are not random, and need
        `inference="vb"`. "bic": BIC of the point estimate.
    search : {"compressive", "exhaustive"}, default="compressive"
        Compressive search fits equal numbers of subclasses, then drops subclasses that hold
        little of their class and fits again; exhaustive search fits every configuration up to
        `max_subclasses`.
    max_rounds : int, default=2
        Rounds of compressive search.
    max_models : int, default=10
        Maximum number of models to fit with `search="compressive"`: what it does not use is
        spent on neighbors of the best configuration. 0 for no limit and no neighbors.
    patience : int, default=2
        A search by size ends after so many sizes in a row that are no better than a smaller
        one, or after one that is worse on held-out rows than chance explains; and it tries no
        more than two subclasses of a class that has fewer than three rows per column. 0: it
        tries all sizes.
    averaging : {"corrected", "posterior", "plugin"}, default="corrected"
        Class probabilities under variational Bayes. The bound's posterior means are too
        confident (with two subclasses the contrasts tend to twice their right size as rows are
        added). "corrected": averaged over the normal posterior under the exact likelihood;
        "posterior": averaged over the posterior of the quadratic bound; "plugin": corrected
        means without averaging.
    shape, rate : float, default=1.0
        Of the gamma hyper-priors of the precisions.
    ridge : float, default=0.0
        Precision of a Gaussian prior on the weights of the standardized columns, for
        `inference="ml"`.
    annealing : bool, default=False
        Whether variational Bayes starts at lower inverse temperatures.
    standardize : bool, default=True
        Whether columns are standardized first, as the prior, which treats all weights alike,
        expects. Learned weights are given in the units of the columns as they came.
    loss_matrix : array-like of shape (n_classes, n_classes), default=None
        Entry (i, j) is the loss of predicting class j when the class is i; `predict` minimizes
        the expected loss.
    unlabeled : "auto", int or None, default="auto"
        Which integer marks an unlabeled row; None: no integer does. "auto": -1, with a warning of
        how many rows that are; labels that are just -1 and 1 are two classes. None and NaN always
        mark one.
    n_init : int, default=10
        Number of restarts: small random weights and k-means centroids in turn, improved by
        penalized likelihood, then all in one batch. The best bound wins (on a sample if large).
    max_iter : int, default=600
        Maximum number of steps of each solver: of variational Bayes and of the ascent to the
        posterior under the exact likelihood, or of L-BFGS.
    tol : float, default=1e-5
        Variational Bayes ends when six steps together gain less per row; L-BFGS ends at a finer
        threshold, and the posterior under the exact likelihood at one of its own.
    random_state : int, RandomState instance or None, default=None
        Seeds the restarts.
    callback : callable, default=None
        Called with each step (`solver`, `iteration`, `value`, `n_running`, `params`); return
        True to stop. Solvers are "EM" (variational Bayes), "exact posterior" and "L-BFGS".
    verbose : int, default=0
        Shows progress if positive.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Classes in sorted order.
    n_subclasses_ : ndarray of shape (n_classes,)
        Subclasses of each class.
    subclass_labels_ : ndarray of shape (n_total_subclasses,)
        The class of each subclass.
    weights_ : array of shape (n_total_subclasses, n_features)
        Point estimate of the weights: corrected, or of maximum likelihood.
    intercepts_ : array of shape (n_total_subclasses,)
        Point estimate of the intercepts.
    posterior_means_ : array of shape (n_total_subclasses, n_features + 1)
    posterior_covariances_ : array of shape (n_total_subclasses, n_features + 1, n_features + 1)
        The variational posterior of weights and bias (`inference="vb"`).
    precisions_ : array of shape (n_total_subclasses,)
        Expected precisions of the weights' priors (`inference="vb"`).
    log_evidence_ : float
        Variational bound less the log number of permutations of subclasses (`inference="vb"`).
    corrected_log_evidence_ : float
        The bound of the posterior under the exact likelihood plus the log number of
        permutations: an estimate of the log evidence (`inference="vb"`).
    search_results_ : dict of columns
        A table of the configurations tried: `n_subclasses`, `score` (what was maximized),
        `parents` and `children` (those that were fitted, of compressive search), `round`,
        `log_evidence`, `corrected_log_evidence`, `bic`, `log_likelihood`, `restart_gap` (best
        less median of the restarts' values), `n_restarts`, `n_iter`, `seconds`.
        `pandas.DataFrame` takes it.
    restart_objectives_ : ndarray of shape (n_restarts,)
        Where the restarts of the chosen configuration ended, best first.
    objective_curve_ : ndarray of shape (`n_iter_` + 1,)
        The bound (or likelihood) after each step.
    n_iter_, converged_, stopping_reason_ : int, bool, str
        How the training of the chosen configuration ended; steps are those of the bound (or
        likelihood).
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, when X has string column names.

    References
    ----------
    .. [1] N. Ahmed and M. Campbell, "Variational Bayesian learning of probabilistic discriminative
       models with latent softmax variables", IEEE Transactions on Signal Processing 59(7), 2011.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from latentia import MultimodalSoftmaxClassifier
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> model = MultimodalSoftmaxClassifier(n_subclasses=2, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    _CHECKS: ClassVar[dict[str, Check]] = {
        "max_subclasses": integer(ge=1),
        "max_rounds": integer(ge=1),
        "max_models": integer(ge=0),
        "search": choice("compressive", "exhaustive"),
        "threshold": check_threshold,
        "n_subclasses": check_subclasses,
    }

    def __init__(
        self,
        n_subclasses: str | int | Sequence[int] = "auto",
        *,
        max_subclasses: int = 5,
        threshold: float | Sequence[float] = 0.05,
        inference: str = "vb",
        criterion: str = "validation",
        search: str = "compressive",
        max_rounds: int = 2,
        max_models: int = 10,
        patience: int = 2,
        averaging: str = "corrected",
        shape: float = 1.0,
        rate: float = 1.0,
        ridge: float = 0.0,
        annealing: bool = False,
        standardize: bool = True,
        loss_matrix: Any = None,
        unlabeled: str | int | None = "auto",
        n_init: int = 10,
        max_iter: int = 600,
        tol: float = 1e-5,
        random_state: Any = None,
        callback: Callback | None = None,
        verbose: int = 0,
    ):
        self.n_subclasses = n_subclasses
        self.max_subclasses = max_subclasses
        self.threshold = threshold
        self.inference = inference
        self.criterion = criterion
        self.search = search
        self.max_rounds = max_rounds
        self.max_models = max_models
        self.patience = patience
        self.averaging = averaging
        self.shape = shape
        self.rate = rate
        self.ridge = ridge
        self.annealing = annealing
        self.standardize = standardize
        self.loss_matrix = loss_matrix
        self.unlabeled = unlabeled
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _train(self, data: SoftmaxInput, rng: np.random.Generator, notifier: StepNotifier) -> SoftmaxFit:
        trainer = self._trainer(data, isinstance(self.n_subclasses, str), rng, notifier)
        totals = trainer.rows.modeled.label_totals
        n_rows = np.array([totals[c].n_weighted if c in totals else 0 for c in range(data.n_targets)])
        if self.patience and self.search != "exhaustive":
            # a subclass with fewer rows than weights could separate anything; two are always tried
            n_rows = np.minimum(n_rows, np.maximum(2, n_rows // trainer.rows.modeled.n_features))
        search = SubclassSearch(tuple(np.clip(n_rows, 1, self.max_subclasses).tolist()), self.patience)
        best, table = train_proposals(trainer, search, self._proposals(search, data.n_targets), self._prior)
        return SoftmaxFit(trainer.finish(data.rows, best), table)

    def _proposals(self, search: SubclassSearch, n_classes: int) -> Iterator[Proposal]:
        """The configurations that the options ask for."""
        if not isinstance(self.n_subclasses, str):
            yield Proposal(per_class(self.n_subclasses, n_classes))
        elif self.search == "exhaustive":
            yield from search.exhaustive()
        else:
            thresholds = np.atleast_1d(np.asarray(self.threshold, dtype=float)).tolist()
            yield from search.compressive(thresholds, self.max_rounds, self.max_models)
            yield from search.neighbors(self.max_models)

    def _model_attributes(self, data: SoftmaxInput, model: FittedModel) -> Attributes:
        tree, posterior, preprocessor = model.tree, model.bound_posterior, data.preprocessor
        n_subclasses = np.bincount(tree.leaves.classes)
        weights = undo_standardization(model.point_estimate.gates[0][0, ...], preprocessor)
        attributes = {
            "n_subclasses_": n_subclasses,
            "subclass_labels_": np.repeat(data.attributes["classes_"], n_subclasses),
            "weights_": weights[:, :-1],
            "intercepts_": weights[:, -1],
        }
        if posterior is None:
            return attributes
        mean, covariance, _, rate = (part[0, ...] for part in posterior.gates[0])
        one_side = transpose(undo_standardization(covariance, preprocessor))
        return attributes | {
            "posterior_means_": undo_standardization(mean, preprocessor),
            "posterior_covariances_": undo_standardization(one_side, preprocessor),
            "precisions_": tree.prior.precision(rate, mean.shape[-1]),
        }

    @method_of_rows
    def subclass_proba(self, X: Any) -> Array:
        """Probabilities of the subclasses, in the order of `subclass_labels_`.

        Those of a class add up to its probability.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        proba : array of shape (n_samples, n_total_subclasses)
        """
        return self._path_proba(X)


Configuration = tuple[int, ...]


class FittedConfiguration(NamedTuple):
    """A fitted configuration, as the search sees it."""

    score: float  # higher is better
    proportions: np.ndarray  # (S,) part of its class that each subclass holds
    model: Any


class Parent(NamedTuple):
    """What a configuration was made from."""

    fitted: FittedConfiguration
    kept: np.ndarray  # (S,) which of its subclasses were kept


class Proposal(NamedTuple):
    """A configuration to be fitted next."""

    configuration: Configuration
    round: int = 1
    parents: Sequence[Configuration] = ()
    sources: Sequence[Parent] = ()  # parents to start from


class SearchEntry(NamedTuple):
    """A fitted configuration and how the search came to it."""

    fitted: FittedConfiguration
    round: int
    parents: list[Configuration]


class SubclassSearch:
    """Configurations fitted so far, and strategies that propose others within the limits."""

    def __init__(self, limits: Configuration, patience: int = 0):
        self.limits, self.patience = limits, patience
        self.entries: dict[Configuration, SearchEntry] = {}

    def record(self, proposal: Proposal, fitted: FittedConfiguration) -> None:
        """A proposal has been fitted."""
        self.entries[proposal.configuration] = SearchEntry(fitted, proposal.round, list(proposal.parents))

    @property
    def best(self) -> Configuration:
        """The configuration with the highest score; of those that tie, the smallest."""
        scores = [entry.fitted.score for entry in self.entries.values()]
        return list(self.entries)[best_model(scores, [sum(configuration) for configuration in self.entries])]

    def children(self) -> dict[Configuration, list[Configuration]]:
        """The fitted configurations that came from each."""
        return {
            parent: [child for child, entry in self.entries.items() if parent in entry.parents]
            for parent in self.entries
        }

    def exhaustive(self) -> Iterator[Proposal]:
        """Every configuration up to the limits."""
        for configuration in product(*(range(1, limit + 1) for limit in self.limits)):
            yield Proposal(configuration)

    def compressive(self, thresholds: Sequence[float], max_rounds: int, max_models: int = 0) -> Iterator[Proposal]:
        """Uniform configurations, then what they are pruned to; `max_models` in all unless 0."""
        queue: dict[Configuration, list[Configuration]] = {}
        for size in range(1, max(self.limits) + 1):
            queue[tuple(min(size, limit) for limit in self.limits)] = []
        for number in range(1, max_rounds + 1):
            patience = Patience(self.patience if number == 1 else 0)
            for configuration, parents in queue.items():
                sources = [Parent(self.entries[p].fitted, self._pruned(p, thresholds)[configuration]) for p in parents]
                yield Proposal(configuration, number, parents, sources)
                if len(self.entries) == max_models:
                    return
                if patience.ends_with(self.entries[configuration].fitted.score):
                    break
            if number < max_rounds:
                queue = self._next_round([c for c in queue if c in self.entries], thresholds)

    def neighbors(self, max_models: int) -> Iterator[Proposal]:
        """Climb from the best until no neighbor is better or `max_models` were fitted."""
        best = self.best
        number = max(entry.round for entry in self.entries.values()) + 1
        grow_first = True
        patience = Patience(2 * self.patience, self.entries[best].fitted.score)
        while len(self.entries) < max_models:
            untried = self._untried_neighbors(best, grow_first)
            if not untried:
                return
            configuration = untried[0]
            grows = sum(configuration) > sum(best)
            fitted = self.entries[best].fitted
            sources = [] if grows else [Parent(fitted, _without_smallest(best, configuration, fitted))]
            yield Proposal(configuration, number, [best], sources)
            if patience.ends_with(self.entries[configuration].fitted.score):
                return
            if is_better(self.entries[configuration].fitted.score, fitted.score):
                # one class has gained: perhaps another has too many, and the other way round
                best, grow_first = configuration, not grows

    def _pruned(self, configuration: Configuration, thresholds: Sequence[float]) -> dict[Configuration, np.ndarray]:
        return pruned_configurations(configuration, self.entries[configuration].fitted, thresholds)

    def _next_round(
        self, configurations: Iterable[Configuration], thresholds: Sequence[float]
    ) -> dict[Configuration, list[Configuration]]:
        """What is pruned to what; parents of a configuration fitted before join its entry."""
        children: dict[Configuration, list[Configuration]] = {}
        for configuration in configurations:
            for child in self._pruned(configuration, thresholds):
                fitted = child in self.entries
                (self.entries[child].parents if fitted else children.setdefault(child, [])).append(configuration)
        return children

    def _untried_neighbors(self, center: Configuration, grow_first: bool) -> list[Configuration]:
        moves = [(label, step) for step in ((1, -1) if grow_first else (-1, 1)) for label in range(len(center))]
        nearby = [tuple(n + step * (k == label) for k, n in enumerate(center)) for label, step in moves]
        return [c for c in nearby if c not in self.entries and self._is_allowed(c)]

    def _is_allowed(self, configuration: Configuration) -> bool:
        return all(1 <= n <= limit for n, limit in zip(configuration, self.limits, strict=True))


def pruned_configurations(
    configuration: Configuration, fitted: FittedConfiguration, thresholds: Sequence[float]
) -> dict[Configuration, np.ndarray]:
    """Smaller configurations, and what each keeps: what exceeds a threshold, and the largest."""
    labels = class_of_subclass(configuration)
    largest = np.zeros(len(labels), dtype=bool)
    for label in range(len(configuration)):
        members = np.flatnonzero(labels == label)
        largest[members[np.argmax(fitted.proportions[members])]] = True
    pruned: dict[Configuration, np.ndarray] = {}
    for threshold in thresholds:
        kept = (fitted.proportions >= threshold) | largest
        child = tuple(np.bincount(labels[kept], minlength=len(configuration)).tolist())
        if child != configuration:
            pruned.setdefault(child, kept)
    return pruned


def _without_smallest(parent: Configuration, child: Configuration, fitted: FittedConfiguration) -> np.ndarray:
    """Which of the parent's subclasses a child with one less keeps."""
    labels = class_of_subclass(parent)
    label = next(k for k, (a, b) in enumerate(zip(parent, child, strict=True)) if a > b)
    members = np.flatnonzero(labels == label)
    kept = np.ones(len(labels), dtype=bool)
    kept[members[np.argmin(fitted.proportions[members])]] = False
    return kept


def class_of_subclass(configuration: Configuration) -> np.ndarray:
    """The class (S,) of each subclass."""
    return np.repeat(np.arange(len(configuration)), configuration)


def train_proposals(
    trainer: Trainer, search: SubclassSearch, proposals: Iterable[Proposal], prior: GammaPrior
) -> tuple[Candidate, dict[str, object]]:
    """Train what a search proposes, until a callback stops it; the best, and the table of all."""
    for proposal in proposals:
        tree = multimodal_softmax(proposal.configuration, prior)
        candidate = trainer.train(tree, [_kept_weights(parent) for parent in proposal.sources])
        proportions = subclass_proportions(candidate.model, trainer.rows.modeled)
        search.record(proposal, FittedConfiguration(candidate.score, proportions, candidate))
        if trainer.stopped:
            break
    entries = search.entries.values()
    columns: dict[str, Sequence[object]] = {
        "n_subclasses": list(search.entries),
        "round": [entry.round for entry in entries],
        "parents": [entry.parents for entry in entries],
        "children": list(search.children().values()),
    }
    table = search_table([entry.fitted.model for entry in entries], **columns)
    return search.entries[search.best].fitted.model, table


def _kept_weights(parent: Parent) -> Point:
    """A parent's weights of the subclasses that were kept."""
    gate = parent.fitted.model.model.point_estimate.gates[0]
    xp = namespace(gate)
    return Point((xp.take(gate, asarray_like(np.flatnonzero(parent.kept), gate, dtype=xp.int64), axis=1),), ())


def subclass_proportions(model: FittedModel, rows: Source) -> np.ndarray:
    """Part (S,) of its class that each subclass holds (eq. 33), by what was trained."""
    tree, posterior = model.tree, model.bound_posterior

    def visit(chunk: Chunk) -> Totals:
        if posterior is None:
            shares = TreeLikelihood(tree).infer(model.point_estimate, chunk.rows, chunk.y).shares
        else:
            shares = BoundPosterior(tree).infer(posterior, chunk.rows, chunk.y).shares
        values = chunk.rows.values
        at_leaves = tree.at_leaves(shares, chunk.weighted(namespace(values).ones_like(values[None, :, 0])))
        return {"sum": namespace(at_leaves).sum(at_leaves, axis=-1)}

    like = model.point_estimate.gates[0]
    size = rows_per_chunk(tree.floats_per_row(like.shape[-1]), like)
    subclass_weight = to_numpy(rows.sum_over_chunks(visit, size)["sum"]).astype(float)
    labels = np.array(tree.leaves.classes)
    class_weight = np.bincount(labels, subclass_weight)
    return subclass_weight / np.maximum(class_weight, 1e-300)[labels]
