r"""Latent classification models: naive Bayes on latent factors joined to a mixture of factor
analyzers.

.. math::

    p(y)\; p(m \mid y)\; N(z; \mu_y, \operatorname{diag} \Gamma_y) \prod_i p(x_i \mid W_{m} z + b_m)

Continuous columns (Langseth & Nielsen 2005, "Latent classification models", Machine Learning 59):
:math:`x_i \sim N(l_{mi}^\top z + \eta_{mi}, \theta_i)`, the noise tied over components or one for
each. Binary columns (Langseth & Nielsen 2009, "Latent classification models for binary data",
Pattern Recognition 42) and categorical ones: see `column_models`. Rows and classes share the
loadings; the class acts through the prior of z and through p(m | y).

Where we differ from the papers: the linear model keeps its offset (without it a class mean must lie
in the span of L); the posterior mean of z is :math:`\mu_y + \beta(x - \eta_m - L_m\mu_y)`;
:math:`\theta_{mi}` untied is divided by the weight of component m, not by N; :math:`\Gamma_y` is
the diagonal of its update about the new mean; p(m | y) is the class average of the posteriors of m.
Noise has a floor, in units of the (standardized) columns, and so have the latent variances.

Shapes: C classes, M components, q latents, H linear predictors (one per column, one per category
for categorical columns; continuous ones first), G continuous columns. The packed second moment of
the augmented latents is ``T = q(q+1)/2 + q + 1`` long: (z z', z, 1).
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from latentia.arrays.namespace import Array, namespace, to_numpy
from latentia.engine.contracts import (
    Expectation,
    NormalCellsFamily,
    Objective,
    Problem,
    SmoothFamily,
    StructuredFamily,
    WarmStartedFamily,
)
from latentia.engine.rows import MaskedRows, Source
from latentia.families.latent_factors import e_step_complete, free_coordinates
from latentia.families.latent_factors.bound_iteration import BoundRules
from latentia.families.latent_factors.class_moments import ClassMoments
from latentia.families.latent_factors.column_layout import ColumnLayout
from latentia.families.latent_factors.column_models import COLUMN_MODELS
from latentia.families.latent_factors.e_step import infer_latents, infer_posterior
from latentia.families.latent_factors.e_step_rows import RowPosterior, infer_rows
from latentia.families.latent_factors.initialization import initial_params
from latentia.families.latent_factors.m_step import (
    log_frequencies,
    log_prior_density,
    noise_variance,
    update_latent_prior,
    update_weights,
)
from latentia.families.latent_factors.rotation import to_sparse_axes, without_weak_edges
from latentia.families.latent_factors.sampling import fill_gaps, impute_rows, sample_rows
from latentia.families.latent_factors.structure_search import best_edges
from latentia.families.latent_factors.values import (
    FactorFree,
    FactorParams,
    FactorPosterior,
    FactorSizes,
    FactorStats,
)

#: More columns than this, and than eight to a latent, have too many products to sum for few rows.
WIDE_TABLE_COLUMNS = 32

#: Up to so many columns products are summed nevertheless where that replaces passes over the rows.
MAX_MOMENT_COLUMNS = 256


class LatentFactors(NormalCellsFamily, SmoothFamily, StructuredFamily, WarmStartedFamily):
    """p(y) p(m|y) N(z; mu_y, Gamma_y) prod_i p(x_i | z, m).

    `layout` holds the column models, `tied` says whether the components share the noise,
    `var_floor` is its floor. `complete` promises that every training row is complete and
    continuous: then all columns of a component share one Gram matrix. `all_edges` says that every
    latent feeds every column; otherwise `params.edges` does. `log_prior` fixes the class priors;
    None counts them. `ridge` is the precision of a normal prior on the loadings and offsets of
    bounded columns; with it, the latent variances of each class count one more row, of unit
    variance. The bounds of a row settle when no curvature moves by more than `bound_tol` of itself,
    or after `bound_max_iter` rounds.
    """

    params_class_axes = FactorParams(-1, -2, -2, -2, None, None, None, None)
    stats_class_axes = FactorStats(-2, -2, -2, None, None, None, None, None)

    def __init__(
        self,
        layout: ColumnLayout,
        n_classes: int,
        n_latent: int,
        n_components: int = 1,
        *,
        tied: bool = True,
        var_floor: float = 1e-3,
        complete: bool = False,
        all_edges: bool = True,
        log_prior: np.ndarray | None = None,
        ridge: float = 0.0,
        bound_tol: float = 1e-5,
        bound_max_iter: int = 100,
        n_edges: int | None = None,
    ):
        self.layout = layout
        self.n_classes, self.n_latent, self.n_components = n_classes, n_latent, n_components
        self.tied, self.var_floor = tied, var_floor
        self.complete = complete and layout.all_gaussian
        self.all_edges = all_edges
        self.fixed_log_prior = log_prior
        self.ridge = ridge
        self.n_pseudo_rows = 1.0 if ridge and layout.n_bounded else 0.0
        self.bound_rules = BoundRules(bound_tol, bound_max_iter)
        self.n_edges = n_edges  # loadings of one component that a learned structure leaves free

    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> FactorParams:
        sizes = FactorSizes(self.n_classes, self.n_components, self.n_latent)
        options: dict[str, Any] = {"tied": self.tied, "var_floor": self.var_floor, "log_prior": self.fixed_log_prior}
        return initial_params(self.layout, sizes, source, rng, n_restarts, **options)

    @property
    def takes_all_labels(self) -> bool:
        return not self.layout.all_gaussian

    def infer(
        self, params: FactorParams, rows: MaskedRows, y: Array | None = None, memo: dict[str, Any] | None = None
    ) -> FactorPosterior:
        return infer_posterior(self.layout, params, rows, y, self.bound_rules, memo=memo)

    def row_invariant(self, params: FactorParams) -> e_step_complete.RowInvariantPosterior:
        """The posterior of complete continuous rows, as a function of their cells."""
        return e_step_complete.row_invariant_posterior(params)

    def infer_rows(self, params: FactorParams, rows: MaskedRows) -> RowPosterior:
        """Each row's own posterior of the latents, whatever the rows."""
        return infer_rows(self.layout, params, rows, self.bound_rules)

    def statistics(
        self, params: FactorParams, rows: MaskedRows, posterior: FactorPosterior, weight: Array
    ) -> FactorStats:
        w = weight[..., None, :] * posterior.component
        return posterior.latents.statistics(params, self.layout, rows, w, shared_gram=self.complete)

    def update(self, params: FactorParams, stats: FactorStats) -> FactorParams:
        weights = update_weights(params, stats, self._edges(params), self.ridge)
        noise = params.noise
        if self.layout.n_gaussian:
            continuous = weights[..., : self.layout.n_gaussian, :]
            noise = noise_variance(noise, stats, continuous, self.tied, self.var_floor)
        log_prior = params.log_prior
        if self.fixed_log_prior is None:
            log_prior = log_frequencies(namespace(stats.count).sum(stats.count, axis=-1), log_prior)
        log_mix = log_frequencies(stats.count, params.log_mix)
        means, variances = update_latent_prior(params, stats, self.n_pseudo_rows)
        loadings, offsets = weights[..., :-1], weights[..., -1]
        return FactorParams(log_prior, log_mix, means, variances, loadings, offsets, noise, params.edges)

    def move_statistics(self, stats: FactorStats, params: FactorParams, new: FactorParams) -> FactorStats:
        return stats.about(params.means, new.means)

    def _edges(self, params: FactorParams) -> Array | None:
        """Which loadings are free; None for all."""
        return None if self.all_edges else params.edges

    def update_structure(self, params: FactorParams, stats: FactorStats) -> tuple[FactorParams, np.ndarray]:
        """Parameters with the edges that the expected statistics prefer, and which restarts have
        changed.
        """
        xp = namespace(params.edges)
        edges = best_edges(self.layout, self.tied, params.edges, stats)
        changed = to_numpy(xp.any(edges != params.edges, axis=(-2, -1)))
        return params._replace(edges=edges, loadings=params.loadings * edges[..., None, :, :]), changed

    def sparse_axes(self, params: FactorParams) -> FactorParams:
        """The latents rotated so that the loadings are as sparse as can be, with all edges."""
        return to_sparse_axes(params)

    def sparse_structures(self, params: FactorParams) -> list[FactorParams]:
        """Rotated likewise, without the edges of weak loadings; one for each notion of weak."""
        return without_weak_edges(params, self.layout.predictor_columns())

    def structure_size(self, params: FactorParams) -> np.ndarray:
        """How many loadings the structure of each start leaves free."""
        return self.n_components * to_numpy(params.edges).sum(axis=(-2, -1), dtype=float)

    def log_prior(self, params: FactorParams) -> Array | float:
        return log_prior_density(params, self.ridge, self.n_pseudo_rows) if self.n_pseudo_rows else 0.0

    def to_free(self, params: FactorParams) -> FactorFree:
        return free_coordinates.to_free(params, self.var_floor)

    def from_free(self, free: FactorFree, params: FactorParams) -> FactorParams:
        return free_coordinates.from_free(free, params, self._edges(params), self.var_floor)

    def gradient(self, params: FactorParams, stats: FactorStats) -> FactorFree:
        prior: dict[str, float] = {"ridge": self.ridge, "n_pseudo_rows": self.n_pseudo_rows}
        edges = self._edges(params)
        return free_coordinates.gradient(params, stats, edges, tied=self.tied, floor=self.var_floor, **prior)

    def floats_per_row(self, params: FactorParams) -> int:
        n, q = self.layout.n_gaussian, self.n_latent
        leading = int(np.prod(params.log_mix.shape, dtype=int))
        if self._trains_on_complete_rows(params):
            return 2 * n + leading * (3 * q + 4)
        if not q:
            return 5 * (leading + self.layout.n_predictors)
        # in training, which has restarts, classes share the bounds of a row
        n_bounds = leading // params.log_prior.shape[-1] if params.means.ndim > 2 else leading
        n_latent_floats = leading * (3 * q * q + 2 * q + 8)
        return n_latent_floats + 4 * n_bounds * self.layout.n_bounded + 3 * self.layout.n_predictors

    def _trains_on_complete_rows(self, params: FactorParams) -> bool:
        """Parameters with restarts belong to training, whose rows are known to be complete."""
        return self.complete and params.means.ndim > 2

    def specialized_problem(self, objective: Objective, source: Source) -> Problem | None:
        """Sweeps that do not see the rows (see `class_moments`)."""
        return ClassMoments(self, source) if self.needs_moments_only(objective, source) else None

    def needs_moments_only(self, objective: Objective, source: Source) -> bool:
        """Whether sums over the rows of each class are all that sweeps need, and cheaper."""
        wide = source.n_features > max(WIDE_TABLE_COLUMNS, 8 * self.n_latent)
        pays = not wide or source.n_features <= min(MAX_MOMENT_COLUMNS, source.n_rows)
        labels_rule = self.n_components == 1 and objective.rises_under_em and not source.any_unlabeled
        return self.complete and labels_rule and pays

    def n_free(self, n_features: int) -> int:
        """Number of free parameters less the scale and location of each latent, which the loadings
        set.
        """
        C, M, q = self.n_classes, self.n_components, self.n_latent
        H, G = self.layout.n_predictors, self.layout.n_gaussian
        empty = self.layout.n_columns - n_features  # continuous columns without any value
        H, G = H - empty, G - empty
        loadings = H * q if self.n_edges is None else self.n_edges
        redundant = self.layout.n_redundant_predictors * (1 + q)
        mixing = C * (M - 1) + (C - 1 if self.fixed_log_prior is None else 0)
        n_free = 2 * q * (C - 1) + M * (loadings + H - redundant) + G * (1 if self.tied else M)
        if H == G:  # however many latents there are, x has a Gaussian for each class and component, no more
            n_free = min(n_free, C * M * G * (G + 3) // 2)
        return mixing + n_free

    def with_bounds(self, rules: BoundRules, max_latent: int | None = None) -> LatentFactors:
        """The same family, whose bounds settle by other rules; where it has some, with at most so
        many factors.
        """
        other = copy(self)
        other.bound_rules = rules
        if max_latent is not None and self.layout.n_bounded:
            other.n_latent = min(max_latent, self.n_latent)
        return other

    def with_edges(self, edges: Array) -> LatentFactors:
        """The same family, told how many loadings a learned structure leaves free."""
        other = copy(self)
        other.n_edges = int(to_numpy(edges).sum())
        return other

    def latent_means(self, params: FactorParams, rows: MaskedRows) -> tuple[Array, Array]:
        """Log joint of class, component and row (..., C, M, N), and the mean of z given them."""
        scores, latents = infer_latents(self.layout, params, rows, self.bound_rules)
        return scores, latents.latent_means(params, rows)

    def impute(self, params: FactorParams, rows: MaskedRows, class_probs: Array, mode: bool = False) -> Array:
        return fill_gaps(self.layout, params, rows, self.infer_rows(params, rows), class_probs, mode)

    def impute_expected(self, params: FactorParams, rows: MaskedRows, class_probs: Array, expect: Expectation) -> Array:
        return impute_rows(self.layout, params, self.infer_rows(params, rows), class_probs, False, expect)

    def sample(
        self, params: FactorParams, codes: np.ndarray, rng: np.random.Generator, component: int | None = None
    ) -> np.ndarray:
        return sample_rows(self.layout, params, codes, rng, component)

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[LatentFactors]:
        """Small instances: continuous, with more latents than columns, binary, all kinds."""
        continuous = ColumnLayout.continuous_columns(n_features)
        binary = ColumnLayout.from_kinds(["binary"] * n_features, [2] * n_features)
        kinds = [*COLUMN_MODELS] * n_features
        turns = [kinds[first : first + n_features] for first in range(0, len(COLUMN_MODELS), n_features)]
        mixed = [ColumnLayout.from_kinds(turn, [3] * n_features) for turn in turns]
        settled: dict[str, Any] = {"bound_tol": 1e-12, "bound_max_iter": 1000, "ridge": 1.0}
        return [
            cls(continuous, n_classes, 2, 2),
            cls(continuous, n_classes, n_features + 2, 1, tied=False),
            cls(binary, n_classes, 1, 2, **settled),
            *(cls(layout, n_classes, 1, 1, tied=False, **settled) for layout in mixed),
        ]

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        X, y = super().example_rows(rng, n_rows, n_features)
        for model in self.layout.models:
            X[:, list(model.columns)] = model.example_cells(X[:, list(model.columns)])
        return X, y
