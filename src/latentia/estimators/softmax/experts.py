"""Mixtures of experts: softmax gates over softmax models of the classes, or over linear models.

`MixtureOfExpertsClassifier` and `MixtureOfExpertsRegressor`, and what both have: which trees of
gates are tried, one after another, and what is learned of the chosen one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from latentia.arrays.namespace import Array, asarray_like, compute_dtype, namespace, take_rows, transpose
from latentia.engine.messages import warn_at_caller
from latentia.engine.parts import ChunkedSource
from latentia.engine.rows import MaskedRows
from latentia.estimators.base.estimator import Attributes, StepNotifier
from latentia.estimators.base.reading import NumberTable, read_parts
from latentia.estimators.softmax.base import SoftmaxClassifier, SoftmaxEstimator, SoftmaxFit, SoftmaxInput
from latentia.estimators.softmax.training import (
    Candidate,
    FittedModel,
    Patience,
    Trainer,
    best_model,
    merge_equal_rows,
    point_before,
    search_table,
)
from latentia.families.softmax_tree.leaves import Leaves, LinearLeaves, LinearPoint
from latentia.families.softmax_tree.tree import Point, Posterior, SoftmaxTree, mixture_of_experts, prediction_inputs
from latentia.scale.tables import (
    LazyTable,
    OutputReader,
    RawPart,
    answers_of_parts,
    is_lazy,
    is_small,
    lazy_table,
    method_of_rows,
)
from latentia.table.labels import OutputUnits, output_units, read_outputs
from latentia.table.options import Callback, Check, check_choice, check_number, integer
from latentia.table.standardization import source_moments
from latentia.table.weights import check_weight, warn_of_shares


def check_depth(name: str, depth: Any) -> None:
    """1 or 2, and no bool, float or array."""
    if not isinstance(depth, Integral) or isinstance(depth, bool) or depth not in (1, 2):
        raise ValueError(f"{name}={depth!r}; allowed are 1 (a mixture) and 2 (a mixture of mixtures).")


def check_experts(n_experts: Any, depth: int) -> None:
    """'auto', an int, or one int for each level of gates."""
    if isinstance(n_experts, str):
        check_choice("n_experts", n_experts, ["auto"], ", an int, or one int per level")
        return
    numbers = np.atleast_1d(np.asarray(n_experts, dtype=object)).tolist()
    for number in numbers:
        check_number("n_experts", number, ge=1, integer=True, besides=", one for each level, or 'auto'")
    if len(numbers) not in (1, depth):
        raise ValueError(
            f"n_experts={n_experts!r} has {len(numbers)} entries; allowed are 'auto', an int, or {depth} "
            f"ints for depth={depth}."
        )


def gates_to_try(n_experts: Any, depth: int, max_experts: int) -> list[tuple[int, ...]]:
    """Branches of the gates of each level above the experts, of every tree to be tried."""
    if not isinstance(n_experts, str):
        numbers = np.atleast_1d(np.asarray(n_experts)).astype(int).tolist()
        return [tuple(numbers * depth if len(numbers) == 1 else numbers)]
    max_width = max_experts if depth == 1 else math.isqrt(max_experts)
    return [(width,) * depth for width in range(1, max_width + 1)]


def train_trees(
    trainer: Trainer,
    gates: Sequence[tuple[int, ...]],
    tree_of: Callable[[tuple[int, ...]], SoftmaxTree],
    patience: int,
) -> tuple[Candidate, dict[str, object]]:
    """Train one tree after another, until a callback stops it; the best, and the table of all."""
    candidates: list[Candidate] = []
    waiting = Patience(patience)
    for branches in gates:
        candidates.append(trainer.train(tree_of(branches)))
        if trainer.stopped or waiting.ends_with(candidates[-1].score):
            break
    tried = gates[: len(candidates)]
    n_experts = [math.prod(branches) for branches in tried]
    best = best_model([candidate.score for candidate in candidates], n_experts)
    return candidates[best], search_table(candidates, n_experts=n_experts, branches=tried)


def expert_attributes(gates: Sequence[Array], experts: Array) -> Attributes:
    """Weights (B, b, D) of the gates of each level and (L, K, D) of the experts, in units of X."""
    return {
        "n_experts_": experts.shape[0],
        "gate_weights_": tuple(gate[..., :-1] for gate in gates),
        "gate_intercepts_": tuple(gate[..., -1] for gate in gates),
        "expert_weights_": experts[..., :-1],
        "expert_intercepts_": experts[..., -1],
    }


class MixtureOfExpertsClassifier(SoftmaxClassifier):
    """Softmax classifiers, each in charge of a part of the feature space that a gate assigns it.

    ``P(c | x) = sum_g P(g | x) P(c | x, g)``; gates and experts are softmax models of x with a
    one appended. All weights have zero-mean Gaussian priors whose precisions have gamma
    hyper-priors; the biases share them. Learned by variational Bayes through a quadratic bound
    of every softmax, or by maximum likelihood; `criterion` chooses the number of experts. [1]_

    Parameters
    ----------
    n_experts : "auto", int or sequence of int, default="auto"
        Branches of every gate, or of the gates of each level; with depth 1 that is the number
        of experts, with depth 2 an int g means g groups of g experts. "auto" tries 1 to
        `max_experts` experts.
    depth : {1, 2}, default=1
        Levels of gates: a mixture of experts, or a mixture of mixtures (hierarchical).
    max_experts : int, default=5
        Maximum number of experts that "auto" tries.
    patience : int, default=2
        A search by size ends after so many sizes in a row that are no better than a smaller
        one, or after one that is worse on held-out rows than chance explains. 0: it tries all
        sizes.
    inference : {"vb", "ml"}, default="vb"
        Variational Bayes, or maximum likelihood (with a `ridge`, MAP) by L-BFGS.
    criterion : {"validation", "evidence", "bound", "bic"}, default="validation"
        What "auto" chooses by. "validation": the log score of a quarter of the rows, held out,
        after a short training; the winner is then trained on all. A sample of 10,000 rows or more
        chooses for larger tables. It predicts best over many tables. Of models that score within
        0.001 the smallest wins, with any criterion. "evidence": `corrected_log_evidence_`; "bound":
        `log_evidence_`, as in the paper; both use all rows, are not random, and need
        `inference="vb"`. "bic": BIC of the point estimate.
    averaging : {"corrected", "posterior", "plugin"}, default="corrected"
        Predictions under variational Bayes. The quadratic bound's own means are too confident.
        "corrected": averaged over the normal posterior under the exact likelihood; "posterior":
        averaged over the posterior of the quadratic bound; "plugin": corrected means without
        averaging.
    shape, rate : float, default=1.0
        Of the gamma hyper-priors of the precisions of all weights.
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
        Number of restarts: random weights improved by penalized likelihood, then all in one
        batch. The best bound wins (on a sample of large tables, and is trained on all rows).
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
    n_experts_ : int
        Number of experts.
    gate_weights_, gate_intercepts_ : tuples of arrays
        For each level of gates, weights of shape (n_gates, n_branches, n_features) and
        intercepts.
    expert_weights_, expert_intercepts_ : arrays of shape (n_experts, n_classes[, n_features])
        Weights and intercepts of the experts.
    log_evidence_ : float
        Variational bound less the log number of permutations of experts (`inference="vb"`).
    corrected_log_evidence_ : float
        The bound of the posterior under the exact likelihood plus the log number of
        permutations: an estimate of the log evidence (`inference="vb"`).
    search_results_ : dict of columns
        A table of the trees tried: `n_experts`, `branches`, `score` (what was maximized),
        `log_evidence`, `corrected_log_evidence`, `bic`, `log_likelihood`, `restart_gap` (best
        less median of the restarts' values), `n_restarts`, `n_iter`, `seconds`.
        `pandas.DataFrame` takes it.
    restart_objectives_ : ndarray of shape (n_restarts,)
        Where the restarts of the chosen tree ended, best first.
    objective_curve_ : ndarray of shape (`n_iter_` + 1,)
        The bound (or likelihood) after each step.
    n_iter_, converged_, stopping_reason_ : int, bool, str
        How the training of the chosen tree ended; steps are those of the bound (or likelihood).
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
    >>> from latentia import MixtureOfExpertsClassifier
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> model = MixtureOfExpertsClassifier(n_experts=3, random_state=0).fit(X, y)
    >>> model.expert_proba(X).shape
    (200, 3)
    """

    _CHECKS: ClassVar[dict[str, Check]] = {"max_experts": integer(ge=1), "depth": check_depth}

    def __init__(
        self,
        n_experts: str | int | Sequence[int] = "auto",
        *,
        depth: int = 1,
        max_experts: int = 5,
        patience: int = 2,
        inference: str = "vb",
        criterion: str = "validation",
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
        self.n_experts = n_experts
        self.depth = depth
        self.max_experts = max_experts
        self.patience = patience
        self.inference = inference
        self.criterion = criterion
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

    def _check_options(self) -> None:
        super()._check_options()
        check_experts(self.n_experts, self.depth)

    def _train(self, data: SoftmaxInput, rng: np.random.Generator, notifier: StepNotifier) -> SoftmaxFit:
        trainer = self._trainer(data, isinstance(self.n_experts, str), rng, notifier)
        gates, n_classes = gates_to_try(self.n_experts, self.depth, self.max_experts), data.n_targets
        best, table = train_trees(
            trainer, gates, lambda branches: mixture_of_experts(branches, n_classes, self._prior), self.patience
        )
        return SoftmaxFit(trainer.finish(data.rows, best), table)

    def _model_attributes(self, data: SoftmaxInput, model: FittedModel) -> Attributes:
        *gates, experts = point_before(model.tree, model.point_estimate, data.preprocessor).gates
        return expert_attributes(gates, experts)

    @method_of_rows
    def expert_proba(self, X: Any) -> Array:
        """Probabilities of the experts given x: the gates' product along the path to each.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        proba : array of shape (n_samples, n_experts)
            Experts of one group lie side by side.
        """
        return self._path_proba(X, n_levels=-1)


class MixtureOfExpertsRegressor(RegressorMixin, MultiOutputMixin, SoftmaxEstimator):
    """Linear models, each in charge of a part of the feature space that a gate assigns it.

    ``p(y | x) = sum_g P(g | x) N(y; w_g' x, sigma_g^2)`` for every output, with a noise of its
    own for each expert: the standard deviation of the predictions varies with x. The gates are
    softmax models; all weights have zero-mean Gaussian priors whose precisions have gamma
    hyper-priors, the biases share them. Outputs are standardized inside. [1]_

    The likelihood has no maximum where an expert fits its rows without residual. So no noise is
    below 1e-4 of an output's standard deviation, with either inference; under variational Bayes
    the precision of the noise of the standardized outputs also has the weak gamma prior of
    shape 0.1 and rate 5e-6, which adds about 1e-5 / n to the variance of an expert with n rows.

    Parameters
    ----------
    n_experts : "auto", int or sequence of int, default="auto"
        Branches of every gate, or of the gates of each level; with depth 1 that is the number
        of experts, with depth 2 an int g means g groups of g experts. "auto" tries 1 to
        `max_experts` experts.
    depth : {1, 2}, default=1
        Levels of gates: a mixture of experts, or a mixture of mixtures (hierarchical).
    max_experts : int, default=5
        Maximum number of experts that "auto" tries.
    patience : int, default=2
        A search by size ends after so many sizes in a row that are no better than a smaller
        one, or after one that is worse on held-out rows than chance explains. 0: it tries all
        sizes.
    inference : {"vb", "ml"}, default="vb"
        Variational Bayes, or maximum likelihood (with a `ridge`, MAP) by L-BFGS.
    criterion : {"validation", "evidence", "bound", "bic"}, default="validation"
        What "auto" chooses by. "validation": the log score of a quarter of the rows, held out,
        after a short training; the winner is then trained on all. A sample of 10,000 rows or more
        chooses for larger tables. It predicts best over many tables. Of models that score within
        0.001 the smallest wins, with any criterion. "evidence": `corrected_log_evidence_`; "bound":
        `log_evidence_`, as in the paper; both use all rows, are not random, and need
        `inference="vb"`. "bic": BIC of the point estimate.
    averaging : {"corrected", "posterior", "plugin"}, default="corrected"
        Predictions under variational Bayes. The quadratic bound's own means are too confident.
        "corrected": averaged over the normal posterior under the exact likelihood; "posterior":
        averaged over the posterior of the quadratic bound; "plugin": corrected means without
        averaging.
    shape, rate : float, default=1.0
        Of the gamma hyper-priors of the precisions of all weights.
    ridge : float, default=0.0
        Precision of a Gaussian prior on the weights of the standardized columns, and rate of a
        gamma prior (of shape 1) of the precision of the noise of the standardized outputs, for
        `inference="ml"`.
    annealing : bool, default=False
        Whether variational Bayes starts at lower inverse temperatures.
    standardize : bool, default=True
        Whether columns are standardized first, as the prior, which treats all weights alike,
        expects. Learned weights are given in the units of the columns as they came.
    n_init : int, default=10
        Number of restarts: random weights improved by penalized likelihood, then all in one
        batch. The best bound wins (on a sample of large tables, and is trained on all rows).
    max_iter : int, default=600
        Maximum number of steps of each solver: of variational Bayes and of the ascent to the
        posterior under the exact likelihood, or of L-BFGS.
    tol : float, default=1e-5
        Variational Bayes ends when six steps together gain less per row; L-BFGS ends at a finer
        threshold, and the posterior under the exact likelihood at one of its own.
    random_state : int, RandomState instance or None, default=None
        Seeds the restarts.
    callback : callable, default=None
        Called with each step (`solver`, `iteration`, `value`, `n_running`, `params`), its value
        in the units of `objective_curve_`; return True to stop. Solvers are "EM" (variational
        Bayes), "exact posterior" and "L-BFGS".
    verbose : int, default=0
        Shows progress if positive.

    Attributes
    ----------
    n_outputs_ : int
        Number of outputs.
    output_shift_, output_scale_ : arrays of shape (n_outputs,)
        By which the outputs are standardized.
    noise_stds_ : array of shape (n_experts, n_outputs)
        Standard deviations of the experts' noise, in the units of y: the point estimate that
        `log_likelihood` and `bic` in the table are taken at.
    n_experts_ : int
        Number of experts.
    gate_weights_, gate_intercepts_ : tuples of arrays
        For each level of gates, weights of shape (n_gates, n_branches, n_features) and
        intercepts.
    expert_weights_, expert_intercepts_ : arrays of shape (n_experts, n_outputs[, n_features])
        Weights and intercepts of the experts, in the units of y.
    log_evidence_ : float
        Variational bound less the log number of permutations of experts (`inference="vb"`).
    corrected_log_evidence_ : float
        The bound of the posterior under the exact likelihood plus the log number of
        permutations: an estimate of the log evidence (`inference="vb"`).
    search_results_ : dict of columns
        A table of the trees tried: `n_experts`, `branches`, `score` (what was maximized),
        `log_evidence`, `corrected_log_evidence`, `bic`, `log_likelihood`, `restart_gap` (best
        less median of the restarts' values), `n_restarts`, `n_iter`, `seconds`.
        `pandas.DataFrame` takes it. All but the scores of held-out rows are sums over the rows
        that the trees were fitted on, in the units of y.
    restart_objectives_ : ndarray of shape (n_restarts,)
        Where the restarts of the chosen tree ended, best first.
    objective_curve_ : ndarray of shape (`n_iter_` + 1,)
        The bound (or likelihood) after each step.
    n_iter_, converged_, stopping_reason_ : int, bool, str
        How the training of the chosen tree ended; steps are those of the bound (or likelihood).
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
    >>> import numpy as np
    >>> from latentia import MixtureOfExpertsRegressor
    >>> X = np.linspace(-1, 1, 100)[:, None]
    >>> model = MixtureOfExpertsRegressor(n_experts=2, random_state=0).fit(X, np.abs(X[:, 0]))
    >>> mean, std = model.predict([[-0.5], [0.5]], return_std=True)
    >>> bool(np.abs(mean - 0.5).max() < 0.1)
    True
    """

    _CHECKS: ClassVar[dict[str, Check]] = {"max_experts": integer(ge=1), "depth": check_depth}

    def __init__(
        self,
        n_experts: str | int | Sequence[int] = "auto",
        *,
        depth: int = 1,
        max_experts: int = 5,
        patience: int = 2,
        inference: str = "vb",
        criterion: str = "validation",
        averaging: str = "corrected",
        shape: float = 1.0,
        rate: float = 1.0,
        ridge: float = 0.0,
        annealing: bool = False,
        standardize: bool = True,
        n_init: int = 10,
        max_iter: int = 600,
        tol: float = 1e-5,
        random_state: Any = None,
        callback: Callback | None = None,
        verbose: int = 0,
    ):
        self.n_experts = n_experts
        self.depth = depth
        self.max_experts = max_experts
        self.patience = patience
        self.inference = inference
        self.criterion = criterion
        self.averaging = averaging
        self.shape = shape
        self.rate = rate
        self.ridge = ridge
        self.annealing = annealing
        self.standardize = standardize
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _check_options(self) -> None:
        super()._check_options()
        check_experts(self.n_experts, self.depth)

    def _read_input(self, X: Any, y: Any, sample_weight: Any) -> SoftmaxInput:
        table = lazy_table(X)
        if table is not None:
            return self._read_in_parts(table, y, sample_weight)
        X, attributes = self._read_rows(X)
        n_rows, distinct = X.shape[0], is_small(*X.shape)
        weight = check_weight(sample_weight, X.shape[0])
        if weight is not None:
            warn_of_shares(weight)
        outputs, is_vector = read_outputs(y, X.shape[0])
        observed = ~np.isnan(outputs).all(axis=1)
        if not observed.all():
            warn_at_caller(NO_OUTPUTS.format(int((~observed).sum()), n_rows))
            X, outputs = take_rows(X, np.flatnonzero(observed)), outputs[observed]
            weight = None if weight is None else check_weight(weight[observed], int(observed.sum()))
        if distinct:
            X, outputs, weight = merge_equal_rows(X, outputs, weight)
        units = output_units(outputs, weight, is_vector, float(namespace(X).finfo(compute_dtype(X)).max))
        rows, preprocessor = self._array_rows(X, units.standardize(outputs), weight, distinct)
        attributes |= _unit_attributes(units)
        return SoftmaxInput(X, rows, preprocessor, outputs.shape[1], attributes, n_rows, None, units)

    def _read_in_parts(self, table: LazyTable, y: Any, sample_weight: Any) -> SoftmaxInput:
        """The same for a large table in parts."""
        read = read_parts(self, NumberTable(), table, y, sample_weight, OutputReader(), only_known=True)
        source = read.rows
        assert isinstance(source, ChunkedSource)
        if source.n_rows < read.n_rows:
            warn_at_caller(NO_OUTPUTS.format(read.n_rows - source.n_rows, read.n_rows))
        moments = source_moments(source)
        like = moments.mean[None, :]
        largest = float(namespace(like).finfo(like.dtype).max)
        units = read.targets.units(source, source.is_weighted, largest)
        rows, preprocessor = self._modeled_rows(source.map_targets(units.standardize), moments)
        attributes = read.attributes | _unit_attributes(units)
        return SoftmaxInput(like, rows, preprocessor, read.targets.n_outputs, attributes, read.n_rows, None, units)

    def _train(self, data: SoftmaxInput, rng: np.random.Generator, notifier: StepNotifier) -> SoftmaxFit:
        trainer = self._trainer(data, isinstance(self.n_experts, str), rng, notifier)
        gates = gates_to_try(self.n_experts, self.depth, self.max_experts)
        leaves = self._leaves(data.n_targets)
        best, table = train_trees(
            trainer, gates, lambda branches: SoftmaxTree(branches, leaves, self._prior), self.patience
        )
        return SoftmaxFit(trainer.finish(data.rows, best), table)

    def _leaves(self, n_outputs: int) -> Leaves:
        """What an expert is."""
        return LinearLeaves(n_outputs, self._prior)

    def _model_attributes(self, data: SoftmaxInput, model: FittedModel) -> Attributes:
        gates, leaves = point_before(model.tree, model.point_estimate, data.preprocessor)
        experts = cast(LinearPoint, leaves)
        attributes = expert_attributes(gates, experts.weights)
        shift, scale = _units_like(data.outputs, experts.weights)
        return attributes | {
            "expert_weights_": attributes["expert_weights_"] * scale[:, None],
            "expert_intercepts_": attributes["expert_intercepts_"] * scale + shift,
            "noise_stds_": namespace(scale).sqrt(experts.noise_variance) * scale,
        }

    @method_of_rows
    def expert_proba(self, X: Any) -> Array:
        """Probabilities of the experts given x: the gates' product along the path to each.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        proba : array of shape (n_samples, n_experts)
            Experts of one group lie side by side.
        """
        return self._path_proba(X)

    @method_of_rows
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Expected outputs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        return_std : bool, default=False
            Whether to return standard deviations as well: of the noise, between the experts, and of
            the weights' posterior together.

        Returns
        -------
        y_mean : array of shape (n_samples,) or (n_samples, n_outputs)
        y_std : array like `y_mean`, if asked for
        """
        moments = self._map_rows(X, self._moments)
        xp = namespace(moments)
        shift, scale = _units_like(self._model.outputs, moments)
        mean = transpose(moments[0, ...]) * scale + shift
        std = xp.sqrt(xp.clip(transpose(moments[1, ...]), min=0.0)) * scale
        if self._model.outputs.is_vector:
            mean, std = mean[:, 0], std[:, 0]
        return (mean, std) if return_std else mean

    @staticmethod
    def _moments(tree: SoftmaxTree, estimate: Point | Posterior, rows: MaskedRows) -> Array:
        """Mean and variance (2, O, N) of the standardized outputs."""
        x, outer = prediction_inputs(estimate, rows)
        mean, variance = tree.leaves.predictive_moments(estimate.leaves, x, outer)
        xp = namespace(mean)
        expert_probs = xp.exp(tree.log_paths(estimate, x, outer))[:, None, :]
        center = xp.sum(expert_probs * mean, axis=0)
        return xp.stack([center, xp.sum(expert_probs * (variance + (mean - center) ** 2), axis=0)], axis=0)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The share of the variance of y that is predicted (R squared), averaged over the outputs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Outputs. Scanned tables have them inside.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
        """
        if is_lazy(X):
            check_is_fitted(self)
            return r_squared(self, X, y, sample_weight)
        if np.ndim(sample_weight) == 0:  # one weight for all rows tells nothing
            check_weight(sample_weight, 1)
            sample_weight = None
        return float(super().score(X, y, sample_weight))


NO_OUTPUTS = "{} of {} rows have no output and are dropped."


def _unit_attributes(units: OutputUnits) -> Attributes:
    return {"n_outputs_": len(units.shift), "output_shift_": units.shift, "output_scale_": units.scale}


def _units_like(units: OutputUnits, like: Array) -> tuple[Array, Array]:
    """Shift and scale of the outputs as arrays like another."""
    return asarray_like(units.shift, like), asarray_like(units.scale, like)


class Spread(NamedTuple):
    """Of the outputs of some rows."""

    weight: float
    mean: np.ndarray  # (O,)
    squares: np.ndarray  # (O,) about the mean
    residuals: np.ndarray  # (O,) squares about the predictions

    def join(self, other: Spread) -> Spread:
        """Of both together (Chan, Golub & LeVeque 1979)."""
        if not self.weight or not other.weight:
            return self if self.weight else other
        weight, apart = self.weight + other.weight, other.mean - self.mean
        mean = self.mean + apart * (other.weight / weight)
        squares = self.squares + other.squares + apart**2 * (self.weight * other.weight / weight)
        return Spread(weight, mean, squares, self.residuals + other.residuals)


#: Of rows that count nothing.
NO_SPREAD = Spread(0.0, np.zeros(1), np.zeros(1), np.zeros(1))


def spread_of(estimator: Any, part: RawPart) -> Spread:
    """The spread of the outputs of some rows about their mean, and about the predictions."""
    n_rows = part.X.shape[0]
    outputs, _ = read_outputs(part.y, n_rows, may_be_unknown=True)
    if np.isnan(outputs).any():
        raise ValueError("y has NaN among the outputs that predictions are compared with; drop these rows.")
    weight = check_weight(part.weight, n_rows, may_be_zero=True)
    weight = np.ones(n_rows) if weight is None else weight
    total = float(weight.sum())
    if not total:
        return NO_SPREAD
    mean = weight @ outputs / total
    found = np.reshape(estimator.predict(part.X), outputs.shape)
    return Spread(total, mean, weight @ (outputs - mean) ** 2, weight @ (outputs - found) ** 2)


def r_squared(estimator: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """As scikit-learn has it: of a constant output one if it is met, else zero."""
    spread = reduce(Spread.join, answers_of_parts(spread_of, estimator, X, y, sample_weight), NO_SPREAD)
    varies = spread.squares > 0
    share = 1 - spread.residuals / np.where(varies, spread.squares, 1.0)
    return float(np.where(varies, share, np.where(spread.residuals > 0, 0.0, 1.0)).mean())
