"""Mixtures of experts for regression: softmax gates over linear models with noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin

from latentia.arrays.namespace import Array, asarray_like, compute_dtype, namespace, take_rows, transpose
from latentia.engine.messages import warn_at_caller
from latentia.engine.parts import ChunkedSource
from latentia.engine.rows import MaskedRows
from latentia.estimators.base.fitting import Attributes
from latentia.estimators.base.table_reading import read_parts
from latentia.estimators.latent_softmax.base import SoftmaxInput
from latentia.estimators.latent_softmax.distinct_rows import merge_equal_rows
from latentia.estimators.latent_softmax.experts_base import ExpertEstimator
from latentia.estimators.latent_softmax.fitted import FittedModel
from latentia.estimators.latent_softmax.model_specs import WeightEstimate
from latentia.estimators.latent_softmax.parted_score import PartedScoreMixin
from latentia.families.softmax_tree.experts import LinearGaussianExpert
from latentia.scale.tables import OutputReader, is_small, output_moments
from latentia.table.labels import OutputUnits, output_units, read_outputs
from latentia.table.lazy import LazyTable, lazy_table
from latentia.table.rows import method_of_rows
from latentia.table.standardization import source_moments
from latentia.table.weights import check_weight, warn_of_shares


class MixtureOfExpertsRegressor(PartedScoreMixin, MultiOutputMixin, ExpertEstimator):
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
        callback: Callable[..., Any] | None = None,
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

    def _expert(self, n_targets: int) -> LinearGaussianExpert:
        return LinearGaussianExpert(n_targets, self._prior)

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
        read = read_parts(self, table, y, sample_weight, OutputReader(), only_known=True)
        source = read.rows
        assert isinstance(source, ChunkedSource)
        if source.n_rows < read.n_rows:
            warn_at_caller(NO_OUTPUTS.format(read.n_rows - source.n_rows, read.n_rows))
        moments = source_moments(source)
        like = moments.mean[None, :]
        largest = float(namespace(like).finfo(like.dtype).max)
        units = read.targets.units(*output_moments(source), source.is_weighted, largest)
        rows, preprocessor = self._modeled_rows(source.map_targets(units.standardize), moments)
        attributes = read.attributes | _unit_attributes(units)
        return SoftmaxInput(like, rows, preprocessor, read.targets.n_outputs, attributes, read.n_rows, None, units)

    def _model_attributes(self, data: SoftmaxInput, model: FittedModel) -> Attributes:
        attributes = super()._model_attributes(data, model)
        experts = model.point_estimate.experts
        shift, scale = _units_like(data.outputs, experts.weights)
        return attributes | {
            "expert_weights_": attributes["expert_weights_"] * scale[:, None],
            "expert_intercepts_": attributes["expert_intercepts_"] * scale + shift,
            "noise_stds_": namespace(scale).sqrt(experts.noise_variance) * scale,
        }

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
        mean = moments[:, :, 0] * scale + shift
        std = xp.sqrt(xp.clip(moments[:, :, 1], min=0.0)) * scale
        if self._model.outputs.is_vector:
            mean, std = mean[:, 0], std[:, 0]
        return (mean, std) if return_std else mean

    def _moments(self, estimate: WeightEstimate, rows: MaskedRows) -> Array:
        """Mean and variance (N, O, 2) of the standardized outputs."""
        spec = self._model.fitted.spec
        x, outer = estimate.inputs(rows)
        mean, variance = spec.expert.predictive_moments(*spec.expert_estimate(estimate), x, outer)
        xp = namespace(mean)
        expert_probs = xp.exp(spec.gate_log_proba(estimate, x, outer))[:, None, :]
        center = xp.sum(expert_probs * mean, axis=0)
        total = xp.sum(expert_probs * (variance + (mean - center) ** 2), axis=0)
        return xp.stack([transpose(center), transpose(total)], axis=-1)


NO_OUTPUTS = "{} of {} rows have no output and are dropped."


def _unit_attributes(units: OutputUnits) -> Attributes:
    return {"n_outputs_": len(units.shift), "output_shift_": units.shift, "output_scale_": units.scale}


def _units_like(units: OutputUnits, like: Array) -> tuple[Array, Array]:
    """Shift and scale of the outputs as arrays like another."""
    return asarray_like(units.shift, like), asarray_like(units.scale, like)
