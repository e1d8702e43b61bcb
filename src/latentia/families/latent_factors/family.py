r"""Latent classification models: naive Bayes on latent factors joined to a mixture of factor
analyzers.

.. math::

    p(y)\; p(m \mid y)\; N(z; \mu_y, \operatorname{diag} \Gamma_y) \prod_i p(x_i \mid W_{m} z + b_m)

Continuous columns (Langseth & Nielsen 2005, "Latent classification models", Machine Learning 59):
:math:`x_i \sim N(l_{mi}^\top z + \eta_{mi}, \theta_i)`, the noise tied over components or one for
each. Binary columns (Langseth & Nielsen 2009, "Latent classification models for binary data",
Pattern Recognition 42) and other kinds: see `kinds`. Rows and classes share the
loadings; the class acts through the prior of z and through p(m | y).

Where we differ from the papers: the linear model keeps its offset (without it a class mean must lie
in the span of L); the posterior mean of z is :math:`\mu_y + \beta(x - \eta_m - L_m\mu_y)`;
:math:`\theta_{mi}` untied is divided by the weight of component m, not by N; :math:`\Gamma_y` is
the diagonal of its update about the new mean; p(m | y) is the class average of the posteriors of m.
Noise has a floor, in units of the (standardized) columns, and so have the latent variances.

Shapes: C classes, M components, q latents, H linear predictors (one per column, one per category
for categorical columns; continuous ones first), G continuous columns. The packed second moment of
the augmented latents is ``T = q(q+1)/2 + q + 1`` long: (z z', z, 1).

**The start.** With the principal axes V and standard deviations S of the centered predictors, the
loadings start as :math:`L = VSR / \sqrt q` with normal R, so that :math:`LL^\top` has the
predictors' covariance as its expectation: they follow the data in every direction. Components start
towards random rows, class means and variances of the latents at those of their regression on the
rows. All random numbers belong to principal axes or to quantiles of the rows along the first of
them, so permuting the columns permutes the parameters, and a row of weight two is that row twice.
"""

from __future__ import annotations

import math
from copy import copy
from functools import partial

import numpy as np

from latentia.arrays.linalg import eigh, pack, packed_outer, spd_inverse, with_doubled_offdiagonal
from latentia.arrays.namespace import (
    Array,
    asarray_like,
    logsumexp_and_softmax,
    namespace,
    softmax,
    to_numpy,
    transpose,
)
from latentia.engine.contracts import (
    Expectation,
    NormalCellsFamily,
    Objective,
    SmoothFamily,
    StructuredFamily,
)
from latentia.engine.rows import Chunk, MaskedRows, Memo, Source
from latentia.engine.tree import Axes, Tree
from latentia.families.latent_factors.e_step import BoundRules, RowPosterior, infer_by_label, infer_latents, infer_rows
from latentia.families.latent_factors.e_step_gaussian import (
    ClassSums,
    SummedRows,
    infer_summed_rows,
    row_invariant_posterior,
)
from latentia.families.latent_factors.kinds import COLUMN_MODELS, ColumnLayout
from latentia.families.latent_factors.latents import Uncertainty
from latentia.families.latent_factors.parameters import (
    FactorFree,
    FactorParams,
    FactorPosterior,
    FactorSizes,
    FactorStats,
    from_free,
    gradient,
    log_frequencies,
    log_prior_density,
    noise_variance,
    to_canonical_form,
    to_free,
    update_latent_prior,
    update_weights,
)
from latentia.families.latent_factors.structure import best_edges, to_sparse_axes, without_weak_edges

#: More columns than this, and than eight to a latent, have too many products to sum for few rows.
WIDE_TABLE_COLUMNS = 32

#: Up to so many columns products are summed nevertheless where that replaces passes over the rows.
MAX_MOMENT_COLUMNS = 256


#: Where models are only compared: how far bounds settle, and how many factors there are at most.
ROUGH_BOUNDS = BoundRules(tol=1e-3, max_rounds=4)
ROUGH_N_LATENT = 4


class LatentFactors(
    NormalCellsFamily[FactorParams, FactorStats, FactorPosterior],
    SmoothFamily[FactorParams, FactorStats, FactorPosterior],
    StructuredFamily[FactorParams, FactorStats, FactorPosterior],
):
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

    params_class_axes: Axes = (-1, -2, -2, -2, None, None, None, None)
    stats_class_axes: Axes = (-2, -2, -2, None, None, None, None, None)

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
        return initial_params(
            self.layout,
            sizes,
            source,
            rng,
            n_restarts,
            tied=self.tied,
            var_floor=self.var_floor,
            log_prior=self.fixed_log_prior,
        )

    @property
    def inference_iterates(self) -> bool:
        return self.layout.n_bounded > 0

    @property
    def takes_all_labels(self) -> bool:
        return not self.layout.all_gaussian

    def infer(
        self,
        params: FactorParams,
        rows: MaskedRows,
        y: Array | None = None,
        memo: Memo | None = None,
        uncertainty: Uncertainty | None = None,
        rules: BoundRules | None = None,
    ) -> FactorPosterior:
        """Scores of rows, and the posteriors of components and latents; of labeled rows, where
        labels y are given, perhaps under their own class alone. The parameters may be uncertain,
        and other rules than the family's hold for the bounds.
        """
        if isinstance(rows, SummedRows):
            return infer_summed_rows(row_invariant_posterior(params, uncertainty), rows.values)
        rules = rules or self.bound_rules
        if y is not None and self.takes_all_labels and params.means.shape[-1]:
            return infer_by_label(self.layout, params, rows, y, rules, uncertainty, memo)
        scores, latents = infer_latents(self.layout, params, rows, rules, uncertainty, memo)
        if scores.shape[-2] == 1:
            return FactorPosterior(scores[..., 0, :], namespace(scores).ones_like(scores), latents)
        log_joint, component = logsumexp_and_softmax(scores, axis=-2)
        return FactorPosterior(log_joint, component, latents)

    def infer_rows(self, params: FactorParams, rows: MaskedRows) -> RowPosterior:
        """Each row's own posterior of the latents, whatever the rows."""
        return infer_rows(self.layout, params, rows, self.bound_rules)

    def latent_means(self, params: FactorParams, rows: MaskedRows) -> tuple[Array, Array]:
        """Log joint of class, component and row (..., C, M, N), and the mean of z given them."""
        scores, latents = infer_latents(self.layout, params, rows, self.bound_rules)
        return scores, latents.latent_means(params, rows)

    def statistics(
        self, params: FactorParams, rows: MaskedRows, posterior: FactorPosterior, weight: Array
    ) -> FactorStats:
        w = weight[..., None, :] * posterior.component
        return posterior.latents.statistics(params, self.layout, rows, w, shared_gram=self.complete)

    def condensed(self, objective: Objective, source: Source) -> Source:
        """Sums over the rows of each class, where they are all that sweeps need, and cheaper."""
        wide = source.n_features > max(WIDE_TABLE_COLUMNS, 8 * self.n_latent)
        pays = not wide or source.n_features <= min(MAX_MOMENT_COLUMNS, source.n_rows)
        labels_rule = self.n_components == 1 and objective.rises_under_em and not source.any_unlabeled
        return ClassSums(source, self.n_classes) if self.complete and labels_rule and pays else source

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

    def log_prior(self, params: FactorParams) -> Array | float:
        return log_prior_density(params, self.ridge, self.n_pseudo_rows) if self.n_pseudo_rows else 0.0

    def to_free(self, params: FactorParams) -> FactorFree:
        return to_free(params, self.var_floor)

    def from_free(self, free: Tree, params: FactorParams) -> FactorParams:
        assert isinstance(free, FactorFree)
        return from_free(free, params, self._edges(params), self.var_floor)

    def gradient(self, params: FactorParams, stats: FactorStats) -> FactorFree:
        return gradient(
            params,
            stats,
            self._edges(params),
            tied=self.tied,
            floor=self.var_floor,
            ridge=self.ridge,
            n_pseudo_rows=self.n_pseudo_rows,
        )

    def sample(
        self, params: FactorParams, codes: np.ndarray, rng: np.random.Generator, component: int | None = None
    ) -> np.ndarray:
        means, variances = to_numpy(params.means).astype(float), to_numpy(params.variances).astype(float)
        loadings, offsets = to_numpy(params.loadings).astype(float), to_numpy(params.offsets).astype(float)
        variance = to_numpy(params.noise).astype(float)
        probs = to_numpy(softmax(to_numpy(params.log_mix).astype(float), axis=-1))
        n, n_components = codes.size, probs.shape[-1]
        m = np.minimum((rng.random((n, 1)) > np.cumsum(probs, axis=-1)[codes]).sum(axis=1), n_components - 1)
        m = m if component is None else np.full(n, component)
        z = rng.standard_normal((n, means.shape[-1]))
        z = means[codes] + np.sqrt(variances[codes]) * z
        predictors = np.empty((n, self.layout.n_predictors))
        for k in range(n_components):
            predictors[m == k] = z[m == k] @ loadings[k].T + offsets[k]
        noise = variance[np.zeros(n, int) if variance.shape[0] == 1 else m]
        X = np.zeros((n, self.layout.n_columns))
        G = self.layout.n_gaussian
        X[:, list(self.layout.gaussian.columns)] = self.layout.gaussian.sample(predictors[:, :G], noise, rng)
        for model, index in self.layout.bounded_slices():
            X[:, list(model.columns)] = model.sample(predictors[:, G:][:, index], noise[:, :0], rng)
        return X

    def impute(self, params: FactorParams, rows: MaskedRows, class_probs: Array, mode: bool = False) -> Array:
        return fill_gaps(self.layout, params, rows, self.infer_rows(params, rows), class_probs, mode)

    def impute_expected(self, params: FactorParams, rows: MaskedRows, class_probs: Array, expect: Expectation) -> Array:
        return impute_rows(self.layout, params, self.infer_rows(params, rows), class_probs, False, expect)

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
        return np.asarray(self.n_components * to_numpy(params.edges).sum(axis=(-2, -1), dtype=float))

    def _edges(self, params: FactorParams) -> Array | None:
        """Which loadings are free; None for all."""
        return None if self.all_edges else params.edges

    def canonical(self, params: FactorParams) -> tuple[LatentFactors, FactorParams]:
        """The family, which knows how many loadings a learned structure leaves free, and the
        parameters in canonical coordinates.
        """
        other = self
        if not self.all_edges:
            other = copy(self)
            other.n_edges = int(to_numpy(params.edges).sum())
        return other, to_canonical_form(params)

    def rough(self, is_small: bool = False) -> LatentFactors:
        """The same, whose bounds settle less; if asked and where it has some, of few factors."""
        other = copy(self)
        other.bound_rules = ROUGH_BOUNDS
        if is_small and self.layout.n_bounded:
            other.n_latent = min(ROUGH_N_LATENT, self.n_latent)
        return other

    def floats_per_row(self, params: FactorParams) -> int:
        return self.floats_by_shape(params.log_mix.shape, params.means.ndim > 2)

    def floats_by_shape(self, shape: tuple[int, ...], trains: bool) -> int:
        """The same by the shape (..., C, M) of the mixing weights, and whether these have restarts:
        training has, and its rows are known to be complete.
        """
        n, q = self.layout.n_gaussian, self.n_latent
        leading = math.prod(shape)
        if self.complete and trains:
            return 2 * n + leading * (3 * q + 4)
        if not q:
            return 5 * (leading + self.layout.n_predictors)
        n_bounds = leading // shape[-2] if trains else leading  # in training classes share the bounds of a row
        n_latent_floats = leading * (3 * q * q + 2 * q + 8)
        return n_latent_floats + 4 * n_bounds * self.layout.n_bounded + 3 * self.layout.n_predictors

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

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[LatentFactors]:
        """Small instances: continuous, with more latents than columns, binary, all kinds."""
        continuous = ColumnLayout.continuous_columns(n_features)
        binary = ColumnLayout.from_kinds(["binary"] * n_features, [2] * n_features)
        kinds = [*COLUMN_MODELS] * n_features
        turns = [kinds[first : first + n_features] for first in range(0, len(COLUMN_MODELS), n_features)]
        mixed = [ColumnLayout.from_kinds(turn, [3] * n_features) for turn in turns]
        settled = partial(cls, bound_tol=1e-12, bound_max_iter=1000, ridge=1.0)
        return [
            cls(continuous, n_classes, 2, 2),
            cls(continuous, n_classes, n_features + 2, 1, tied=False),
            settled(binary, n_classes, 1, 2),
            *(settled(layout, n_classes, 1, 1, tied=False) for layout in mixed),
        ]

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        X, y = super().example_rows(rng, n_rows, n_features)
        for model in self.layout.models:
            X[:, list(model.columns)] = model.example_cells(X[:, list(model.columns)])
        return X, y


#: Rows of each class from which restarts are drawn.
SAMPLE_ROWS = 1000

#: Share of the columns' variance that the loadings start with.
SIGNAL_VARIANCE_SHARE = 0.5

#: Share of the loadings' variance in which the components differ.
COMPONENT_VARIANCE_SHARE = 0.5

#: How far components start towards a random row.
CENTER_STEP = 0.5

#: A sum of cubes of this size says nothing.
ROUNDING = 1e-9


def initial_params(
    layout: ColumnLayout,
    sizes: FactorSizes,
    source: Source,
    rng: np.random.Generator,
    n_restarts: int,
    *,
    tied: bool,
    var_floor: float,
    log_prior: np.ndarray | None,
) -> FactorParams:
    """Parameters of each restart, beside the source's arrays."""
    sample = source.sample_rows(SAMPLE_ROWS, rng)
    y = to_numpy(sample.y)
    weight = sample.mean_weight()
    offsets, rows = initial_predictors(layout, sample, weight)
    weight /= weight.sum()
    C, M, q = sizes
    H = rows.shape[1]
    axes, deviations = principal_axes(rows, weight)
    scaled_axes = axes * deviations  # (H, k)
    loadings = scaled_axes @ rng.standard_normal((n_restarts, 1, H, q))[..., : axes.shape[1], :]
    if M > 1:
        per_component = scaled_axes @ rng.standard_normal((n_restarts, M, H, q))[..., : axes.shape[1], :]
        share = COMPONENT_VARIANCE_SHARE
        loadings = np.sqrt(1 - share) * loadings + np.sqrt(share) * per_component
    loadings = loadings * np.sqrt(SIGNAL_VARIANCE_SHARE / max(q, 1))
    centers = np.broadcast_to(offsets, (n_restarts, M, H))
    if M > 1:
        random_rows = rows[_rows_at_quantiles(rows @ axes[:, 0], weight, rng.random((n_restarts, M)))]
        centers = centers + CENTER_STEP * random_rows
    means, variances = class_moments(loadings.mean(axis=1), rows, weight, y, C)
    noise = (1 - SIGNAL_VARIANCE_SHARE) * (weight @ rows[:, : layout.n_gaussian] ** 2)
    log_prior = np.full(C, -np.log(C)) if log_prior is None else log_prior
    params = FactorParams(
        log_prior=np.tile(log_prior, (n_restarts, 1)),
        log_mix=np.full((n_restarts, C, M), -np.log(M)),
        means=means,
        variances=variances,
        loadings=loadings,
        offsets=centers,
        noise=np.tile(np.maximum(noise, var_floor), (n_restarts, 1 if tied else M, 1)),
        edges=np.ones((n_restarts, H, q)),
    )
    return FactorParams(*(asarray_like(np.ascontiguousarray(a), sample.rows.values) for a in params))


def initial_predictors(layout: ColumnLayout, sample: Chunk, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Offsets (H,) and centered values (N, H) of all predictors, in NumPy."""
    offsets, rows = [], []
    for model in layout.models:
        values, observed = layout.select_columns(model, sample.rows)
        observed = namespace(values).ones_like(values) if observed is None else observed
        offset, centered = model.initial_predictors(values, observed, asarray_like(weight[:, None], values))
        offsets.append(to_numpy(offset).astype(float))
        rows.append(to_numpy(centered).astype(float))
    return np.concatenate(offsets), np.concatenate(rows, axis=1)


def principal_axes(rows: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Axes (H, k) and standard deviations (k,), largest first.

    The sign of an axis makes the sum of its cubes positive.
    """
    if rows.shape[1] <= rows.shape[0]:
        squares, axes = map(to_numpy, eigh((rows * weight[:, None]).T @ rows))
        axes, deviations = axes[:, ::-1], np.sqrt(np.maximum(squares[::-1], 0.0))
    else:
        _, deviations, transposed = np.linalg.svd(rows * np.sqrt(weight)[:, None], full_matrices=False)
        axes = transposed.T
    deviations = np.where(deviations > 1e-6 * deviations.max(initial=0.0), deviations, 0.0)  # the rest is rounding
    return orient_axes(axes.T).T, deviations


def orient_axes(axes: np.ndarray) -> np.ndarray:
    """Axes (..., k, H) with the sum of their cubes positive, or where it is zero their first entry.

    Two standardized columns have the axis (1, -1), whose sign would else be one of rounding.
    """
    cubes = (axes**3).sum(axis=-1, keepdims=True)
    sign = np.where(np.abs(cubes) > ROUNDING, cubes, axes[..., :1])
    return np.asarray(axes * np.where(sign < 0, -1.0, 1.0))


def _rows_at_quantiles(scores: np.ndarray, weight: np.ndarray, quantiles: np.ndarray) -> np.ndarray:
    """The rows at these weighted quantiles of their scores."""
    order = np.argsort(scores, kind="stable")
    cumulative = np.cumsum(weight[order])
    rows: np.ndarray = order[np.minimum(np.searchsorted(cumulative, quantiles * cumulative[-1]), len(order) - 1)]
    return rows


def class_moments(
    L: np.ndarray, rows: np.ndarray, weight: np.ndarray, y: np.ndarray, n_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances (S, C, q) of the latents' regression on the rows, as if all had unit
    noise; `weight` is (N,), or (N, S).
    """
    S, _, q = L.shape
    weight = np.broadcast_to(weight[:, None] if weight.ndim == 1 else weight, (len(rows), S)).T
    cov = to_numpy(spd_inverse(np.eye(q) + np.swapaxes(L, -1, -2) @ L)[0])
    means, variances = np.zeros((S, n_classes, q)), np.ones((S, n_classes, q))
    for c in range(n_classes):
        w = weight[:, None, y == c]
        total = w.sum(axis=-1, keepdims=True)
        if total.any():
            w = w / np.where(total > 0, total, 1.0)
            z = rows[y == c] @ (L @ cov)  # (S, n_c, q)
            means[:, c] = (w @ z)[:, 0]
            square = (w @ (z - means[:, c, None, :]) ** 2)[:, 0]
            variances[:, c] = square + np.diagonal(cov, axis1=-2, axis2=-1)
    return means, variances


def fill_gaps(
    layout: ColumnLayout,
    params: FactorParams,
    rows: MaskedRows,
    posterior: RowPosterior,
    class_probs: Array,
    mode: bool = False,
) -> Array:
    """Rows (N, D) whose missing cells are those of `impute_rows`."""
    values = impute_rows(layout, params, posterior, class_probs, mode)
    return values if rows.observed is None else namespace(values).where(rows.observed > 0, rows.values, values)


def impute_rows(
    layout: ColumnLayout,
    params: FactorParams,
    posterior: RowPosterior,
    class_probs: Array,
    mode: bool,
    expect: Expectation | None = None,
) -> Array:
    """Expected cells (N, D), averaged over the classes by (C, N), or the most probable ones of few
    values; with `expect`, what it expects of continuous ones.
    """
    xp = namespace(params.means)
    G = layout.n_gaussian
    weight = class_probs[:, None, :] * softmax(posterior.scores, axis=-2)  # (C, M, N)
    W = params.loadings[None, :, :, :]
    predictors = xp.matmul(posterior.mean, transpose(W)) + params.offsets[None, :, None, :]  # (C, M, N, H)
    cells = []
    if G and expect is not None:
        cells.append(_expected_of_continuous(layout, params, posterior.cov, predictors[..., :G], weight, expect))
    elif G:  # a continuous cell is expected at its predictor
        cells.append(layout.gaussian.impute(xp.sum(weight[..., None] * predictors[..., :G], axis=(0, 1)), mode))
    if layout.n_bounded:
        variance = _predictor_variances(posterior.cov, W[..., G:, :])
        for model, index in layout.bounded_slices():
            part = model.expected(predictors[..., G:][..., index], variance[..., index])
            filled = model.impute(xp.sum(weight[..., None] * part, axis=(0, 1)), mode)
            cells.append(filled if expect is None else expect(filled, xp.zeros_like(filled), model.columns))
    return layout.merge_columns(cells, like=transpose(class_probs))


def _expected_of_continuous(
    layout: ColumnLayout, params: FactorParams, cov: Array, predictors: Array, weight: Array, expect: Expectation
) -> Array:
    """What is expected of continuous cells (N, G) at these predictors, whose noise has its say."""
    xp = namespace(predictors)
    filled = xp.zeros_like(predictors[0, 0, :, :])
    for m in range(weight.shape[1]):  # one component at a time: C x N x G of memory
        variance = _predictor_variances(cov[:, m, ...], params.loadings[m, : layout.n_gaussian, :])
        variance = variance + params.noise[0 if params.noise.shape[0] == 1 else m, :]
        cells = expect(predictors[:, m, :, :], variance, layout.gaussian.columns)
        filled = filled + xp.sum(weight[:, m, :, None] * cells, axis=0)
    return filled


def _predictor_variances(cov: Array, loadings: Array) -> Array:
    """Variances (..., N, H) of predictors under latents of covariances (..., N, q, q)."""
    xp = namespace(cov)
    products = transpose(with_doubled_offdiagonal(packed_outer(loadings), loadings.shape[-1]))
    return xp.clip(xp.matmul(pack(cov), products), min=0.0)
