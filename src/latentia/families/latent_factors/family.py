r"""Latent classification models: naive Bayes on latent factors joined to a mixture of factor analyzers.

.. math:: p(y)\; p(m \mid y)\; N(z; \mu_y, \operatorname{diag} \Gamma_y) \prod_i p(x_i \mid W_{m} z + b_m)

Continuous columns (Langseth & Nielsen 2005, "Latent classification models", Machine Learning 59): :math:`x_i \sim N(l_{mi}^\top z + \eta_{mi}, \theta_i)`, the
noise tied over components or one for each. Binary columns (Langseth & Nielsen 2009, "Latent classification models for binary data", Pattern Recognition 42) and
categorical ones: see `column_models`. Rows and classes share the loadings; the class acts through the prior of z and through p(m | y).

Where we differ from the papers: the linear model keeps its offset (without it a class mean must lie in the span of L); the posterior mean of z is
:math:`\mu_y + \beta(x - \eta_m - L_m\mu_y)`; :math:`\theta_{mi}` untied is divided by the weight of component m, not by N; :math:`\Gamma_y` is the diagonal of its
update about the new mean; p(m | y) is the class average of the posteriors of m. Noise has a floor, in units of the (standardized) columns, and so
have the latent variances.

Shapes: C classes, M components, q latents, H heads (one per column, one per category for categorical columns; continuous ones first), G continuous columns. The packed
second moment of the augmented latents is ``T = q(q+1)/2 + q + 1`` long: (z z', z, 1).
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from latentia.engine.contracts import (
    GenerativeFamily,
    MaskedRows,
    Objective,
    Problem,
    SmoothFamily,
    Source,
    StructuredFamily,
)
from latentia.engine.pytree import select_class
from latentia.families.latent_factors.column_models import Bernoulli, Categorical, ColumnLayout, Gaussian
from latentia.families.latent_factors.complete_rows import (
    ClassMoments,
    LatentMoments,
    component_scores,
    features,
    latent_moments,
    row_moments,
    shared,
)
from latentia.families.latent_factors.initialization import initial_params
from latentia.families.latent_factors.m_step import (
    LATENT_FLOOR,
    latent_prior,
    log_shares,
    noise_variance,
    regression,
    slope,
)
from latentia.families.latent_factors.rotation import to_sparse_axes, without_weak_edges
from latentia.families.latent_factors.row_posteriors import infer_rows
from latentia.families.latent_factors.sampling import decode_columns, draw, expected_predictors
from latentia.families.latent_factors.statistics import complete_sums, row_sums
from latentia.families.latent_factors.structure_search import best_edges
from latentia.families.latent_factors.values import FactorFree, FactorParams, FactorPosterior, FactorStats
from latentia.numerics.array_api import Array, namespace, to_numpy, transpose
from latentia.numerics.logspace import exp_flush_underflow, logsumexp, logsumexp_and_softmax

#: Free coordinates of a variance start at least this share of the floor above it.
ABOVE_FLOOR = 1e-6


#: Tables with more columns than this, and than eight to a latent, are projected instead of expanded to squares and products.
WIDE = 32


#: But up to so many columns squares and products are summed once where that replaces passes over the rows.
MOMENTS_UP_TO = 256


class LatentFactors(GenerativeFamily, SmoothFamily, StructuredFamily):
    """p(y) p(m|y) N(z; mu_y, Gamma_y) prod_i p(x_i | z, m).

    `layout` holds the kinds of the columns, `tied` says whether the components share the noise, `var_floor` is its floor. `complete` promises that
    every training row is complete and continuous: then all columns of a component share one Gram matrix. `all_edges` says that every latent feeds every column; otherwise
    `params.edges` does. `log_prior` fixes the class priors; None counts them. `ridge` is the precision of a normal prior on the loadings and
    offsets of bounded columns; with it, the latent variances of each class count one more row, of unit variance. The bounds of a row settle when no curvature moves by more than `bound_tol` of itself, or after `bound_max_iter` rounds.
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
        self.complete = complete and layout.continuous
        self.wide = layout.n_gaussian > max(WIDE, 8 * n_latent)
        self.all_edges = all_edges
        self.fixed_log_prior = log_prior
        self.ridge = ridge
        self.pseudo = 1.0 if ridge and layout.n_bounded else 0.0
        self.bound_tol, self.bound_max_iter = bound_tol, bound_max_iter
        self.n_edges = n_edges  # loadings of one component that a learned structure leaves free

    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> FactorParams:
        return FactorParams(*initial_params(self, source, rng, n_restarts))

    def infer(self, params: FactorParams, rows: MaskedRows, y: Array | None = None) -> FactorPosterior:
        posteriors = phi = known = None
        if self._by_features(rows):
            phi, known = features(rows.values), shared(params)
            scores = component_scores(known.natural, phi)
        else:
            posteriors = infer_rows(self.layout, params, rows, self.bound_tol, self.bound_max_iter)
            scores = posteriors.scores
        if scores.shape[-2] == 1:
            return FactorPosterior(scores[..., 0, :], namespace(scores).ones_like(scores), posteriors, phi, known)
        if known is not None:  # scores of our own making may be overwritten
            log_joint, component = logsumexp_and_softmax(scores, axis=-2)
        else:
            log_joint = logsumexp(scores, axis=-2)
            component = exp_flush_underflow(scores - log_joint[..., None, :])
        return FactorPosterior(log_joint, component, posteriors, phi, known)

    def scores(self, params: FactorParams, rows: MaskedRows) -> Array:
        """Log joint (..., C, N) alone: where rows have their own posteriors, one class at a time, so that chunks may be large."""
        if self._by_features(rows):
            return self.infer(params, rows).log_joint
        classes = range(params.log_prior.shape[-1])
        each = [self.infer(select_class(params, self.params_class_axes, c), rows).log_joint for c in classes]
        return namespace(each[0]).concat(each, axis=-2)

    def score_floats_per_row(self, params: FactorParams) -> int:
        one = params if self.complete and params.means.ndim > 2 else select_class(params, self.params_class_axes, 0)
        return self.floats_per_row(one)

    def _by_features(self, rows: MaskedRows) -> bool:
        """Whether rows are complete and continuous, and their squares and products fewer than wide tables with few latents have."""
        return self.layout.continuous and rows.observed is None and not self.wide

    def statistics(
        self, params: FactorParams, rows: MaskedRows, posterior: FactorPosterior, weight: Array
    ) -> FactorStats:
        w = weight[..., None, :] * posterior.component
        if posterior.rows is None:
            return self.statistics_from_moments(
                params, latent_moments(params, posterior.known, row_moments(w, posterior.features))
            )
        return row_sums(self.layout, params, rows, posterior.rows, w, self.complete)

    def statistics_from_moments(self, params: FactorParams, moments: LatentMoments) -> FactorStats:
        """Statistics from the moments of complete continuous rows."""
        return complete_sums(params, moments, self.complete)

    def update(self, params: FactorParams, stats: FactorStats) -> FactorParams:
        xp = namespace(stats.count)
        G = self.layout.n_gaussian
        edges = None if self.all_edges else params.edges
        old = xp.concat([params.loadings, params.offsets[..., None]], axis=-1)  # (..., M, H, q + 1)
        parts = []
        if G:
            on = None if edges is None else edges[..., :G, :]
            parts.append(regression(stats.gram, stats.cross, old[..., :G, :], on, 0.0))
        if self.layout.n_bounded:
            on = None if edges is None else edges[..., G:, :]
            parts.append(regression(stats.bound_gram, stats.bound_cross, old[..., G:, :], on, self.ridge))
        rows = xp.concat(parts, axis=-2) if parts else old
        log_prior = params.log_prior
        if self.fixed_log_prior is None:
            log_prior = log_shares(xp.sum(stats.count, axis=-1), log_prior)
        noise = params.noise
        if G:
            noise = noise_variance(noise, stats, rows[..., :G, :], self.tied, self.var_floor)
        log_mix = log_shares(stats.count, params.log_mix)
        return FactorParams(
            log_prior,
            log_mix,
            *latent_prior(params, stats, self.pseudo),
            rows[..., :-1],
            rows[..., -1],
            noise,
            params.edges,
        )

    def update_structure(self, params: FactorParams, stats: FactorStats) -> tuple[FactorParams, np.ndarray]:
        """Parameters with the edges that the expected statistics prefer, and which starts have other edges now."""
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
        if not self.pseudo:
            return 0.0
        xp = namespace(params.loadings)
        G = self.layout.n_gaussian
        squares = xp.sum(params.loadings[..., G:, :] ** 2, axis=(-3, -2, -1)) + xp.sum(
            params.offsets[..., G:] ** 2, axis=(-2, -1)
        )
        # without a prior of their variances, wide latents would undo that of the loadings
        widths = xp.sum(xp.log(params.variances) + 1.0 / params.variances, axis=(-2, -1))
        return -0.5 * self.ridge * squares - 0.5 * self.pseudo * widths

    def to_free(self, params: FactorParams) -> FactorFree:
        xp = namespace(params.means)
        above = xp.clip(params.noise - self.var_floor, min=ABOVE_FLOOR * self.var_floor)
        wide = xp.clip(params.variances - LATENT_FLOOR, min=ABOVE_FLOOR * LATENT_FLOOR)
        return FactorFree(params.log_mix, params.means, xp.log(wide), params.loadings, params.offsets, xp.log(above))

    def from_free(self, free: FactorFree, params: FactorParams) -> FactorParams:
        xp = namespace(params.means)
        return FactorParams(
            params.log_prior,
            free.logits - logsumexp(free.logits, axis=-1)[..., None],
            free.means,
            LATENT_FLOOR + xp.exp(free.variances),
            free.loadings if self.all_edges else free.loadings * params.edges[..., None, :, :],
            free.offsets,
            self.var_floor + xp.exp(free.noise),
            params.edges,
        )

    def gradient(self, params: FactorParams, stats: FactorStats) -> FactorFree:
        edges = None if self.all_edges else params.edges
        return slope(params, stats, edges, tied=self.tied, floor=self.var_floor, ridge=self.ridge, pseudo=self.pseudo)

    def floats_per_row(self, params: FactorParams) -> int:
        n, q = self.layout.n_gaussian, self.n_latent
        leading = int(np.prod(params.log_mix.shape, dtype=int))
        if (
            self.complete and not self.wide and params.means.ndim > 2
        ):  # a sweep over the training rows; other questions may be about gaps
            return n * (n + 3) // 2 + 1 + 4 * leading
        return leading * (3 * q * q + 2 * q + 4 * self.layout.n_bounded + 8) + 3 * self.layout.n_heads

    def specialized_problem(self, objective: Objective, source: Source) -> Problem | None:
        """Sweeps that do not see the rows: one component, complete continuous rows, all labeled, likelihood."""
        n = source.n_features
        pays = not self.wide or n <= min(MOMENTS_UP_TO, source.n_rows)
        usable = self.complete and self.n_components == 1 and objective.rises_under_em
        return ClassMoments(self, source) if usable and pays and not source.any_unlabeled else None

    def n_free(self, n_features: int) -> int:
        """Number of free parameters less the scale and place of each latent, which the loadings set; counted class priors included."""
        C, M, q, H, G = self.n_classes, self.n_components, self.n_latent, self.layout.n_heads, self.layout.n_gaussian
        empty = self.layout.n_columns - n_features  # continuous columns without any value
        H, G = H - empty, G - empty
        loadings = H * q if self.n_edges is None else self.n_edges
        spare_heads = sum(len(kind.columns) for kind in self.layout.bounded if isinstance(kind, Categorical))
        mixing = C * (M - 1) + (C - 1 if self.fixed_log_prior is None else 0)
        n_free = 2 * q * (C - 1) + M * (loadings + H - spare_heads * (1 + q)) + G * (1 if self.tied else M)
        if H == G:  # however many latents there are, x has a Gaussian for each class and component, no more
            n_free = min(n_free, C * M * G * (G + 3) // 2)
        return mixing + n_free

    def with_edges(self, edges: Array) -> LatentFactors:
        """The same family, told how many loadings a learned structure leaves free."""
        other = copy(self)
        other.n_edges = int(to_numpy(edges).sum())
        return other

    def latent_means(self, params: FactorParams, rows: MaskedRows) -> tuple[Array, Array]:
        """Log joint of class, component and row (..., C, M, N), and the mean of z given all three (..., C, M, N, q)."""
        if not self._by_features(rows):
            posteriors = infer_rows(self.layout, params, rows, self.bound_tol, self.bound_max_iter)
            return posteriors.scores, posteriors.mean
        xp = namespace(params.means)
        known = shared(params)
        away = rows.values - known.mean[..., None, :]
        z = params.means[..., :, None, None, :] + xp.matmul(away, transpose(known.gain))
        return component_scores(known.natural, features(rows.values)), z

    def impute(self, params: FactorParams, rows: MaskedRows, class_probs: Array, mode: bool = False) -> Array:
        xp = namespace(params.means)
        component, heads = expected_predictors(self, params, rows)
        expected = xp.sum((class_probs[:, None, :] * component)[..., None] * heads, axis=(0, 1))
        values = decode_columns(self.layout, expected, mode)
        return values if rows.observed is None else xp.where(rows.observed > 0, rows.values, values)

    def impute_floats_per_row(self, params: FactorParams) -> int:
        return self.floats_per_row(params)

    def sample(
        self, params: FactorParams, codes: np.ndarray, rng: np.random.Generator, component: int | None = None
    ) -> np.ndarray:
        return draw(self.layout, params, codes, rng, component)

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[LatentFactors]:
        """Small instances that the tests of all families run on: continuous, tied or not, binary, mixed, with more latents than columns."""
        continuous = ColumnLayout.continuous_columns(n_features)
        binary = ColumnLayout([Bernoulli(range(n_features))])
        codes = Categorical(range(4, n_features), [3] * (n_features - 4))
        mixed = ColumnLayout([Gaussian([0, 3]), Bernoulli([1, 2]), codes])
        settled: dict[str, Any] = {"bound_tol": 1e-11, "bound_max_iter": 1000, "ridge": 1.0}
        return [
            cls(continuous, n_classes, 2, 2),
            cls(continuous, n_classes, n_features + 2, 1, tied=False),
            cls(binary, n_classes, 1, 2, **settled),
            cls(mixed, n_classes, 1, 1, tied=False, **settled),
        ]

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        X, y = super().example_rows(rng, n_rows, n_features)
        for kind in self.layout.bounded:
            sizes = kind.sizes if isinstance(kind, Categorical) else (2,) * len(kind.columns)
            for column, size in zip(kind.columns, sizes, strict=True):
                codes = np.floor(np.abs(X[:, column]) * 2) % size
                X[:, column] = np.where(np.isnan(X[:, column]), np.nan, codes)
        return X, y
