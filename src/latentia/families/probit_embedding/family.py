r"""Bayesian multilabel learning with a coupled embedding.

M. Gönen, "Bayesian supervised multilabel learning with coupled embedding and classification". A
projection Q (D x R) and a probit classifier for each of L labels in the projected space, learned
together by variational Bayes:

.. math::

   z_i | x_i \sim N(Q^T x_i, \sigma_z^2 I), \quad t_{io} \sim N(w_o^T z_i + b_o, 1), \quad
   y_{io} = \mathrm{sign}\, t_{io}

with normal priors on the entries of Q, w, b whose precisions have gamma hyper-priors (see
`gamma_prior`), and :math:`q = q(\Phi) q(Q) q(\lambda, \Psi) \prod_o q(b_o, w_o) \prod_i q(z_i)
\prod_{io} q(t_{io})`. The parameters are those of the posteriors of Q, (b, w) and the precisions.
A row's q(z) and q(t) are brought to their fixed point by `label_posterior`; its score is then a
bound of log p(y | x), and what it adds to the update of the posteriors is, over the labels it has,

.. math::

   X^T X, \quad \bar Z^T X, \quad \sum_i E[(1, z)(1, z)^T], \quad \sum_i \bar t_{io} (1, \bar z_i).

Where the paper slips (or its author's code): :math:`E[ZZ^T]` holds the covariance of z; the bound
uses :math:`E[\log\phi]`, and the entropy of the truncated normal has its squared shift, which
together leave :math:`\log\Phi(y\eta)` after q(t) was refreshed; predictions divide by the standard
deviation of t, which holds the uncertainty of z.

An unknown label's t is integrated out exactly, so the entry adds nothing, and a row without any
label says nothing: with a factor of its own, q(z) would claim that Q had predicted it. Under
low-density separation (`margin` > 0) unknown labels are instead taken to lie outside a margin
about zero; that bound has several fixed points a row, of which the one nearest to the projection
is taken.

The estimator trains by the problems in `problem`, which know the rows and so have cheaper forms of
the same; `infer` and `statistics` are the reference for any source of rows.

The probit embedding on given rows: what is constant in them is found once, the rest in a sweep.

X'X does not depend on the parameters, so the cheapest form of the projection's posterior is chosen
before the first sweep and given to the family, and a sweep only sums what the labels say.

A sweep over rows in memory begins each row's fixed point at its *warm start*: where the row was
heading in the last sweeps. So such a problem has a state, and a sweep is a function of its
argument only up to the tolerance of the fixed points. As each row has a single fixed point this
saves time and changes nothing else. Low-density separation is the exception: there a row has
several fixed points, and stays on the side of the margin where it is.

Parameters, statistics and posteriors of the probit embedding, and small products of them.

What rows add to the update of the posteriors: sums over the rows with a label known.

Where variational Bayes starts: directions of label space that the features can predict.

Which entries of the projection share a precision.

Every entry has its own (sparse entries), those of a feature share theirs (feature selection), or
those of a dimension of the embedding do (automatic relevance determination).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar, NamedTuple

import numpy as np
from array_api_compat import device
from sklearn import get_config

from latentia.arrays.linalg import eigh, flat_matmul, spd_inverse
from latentia.arrays.namespace import Array, asarray_like, eye_like, is_sparse, namespace, to_numpy, transpose
from latentia.arrays.parallel import one_blas_thread
from latentia.engine.contracts import ConditionalFamily, QuasiNewtonFamily, Sweep
from latentia.engine.rows import (
    ArraySource,
    Chunk,
    MaskedRows,
    Memo,
    RowRange,
    Source,
    TableSource,
    Totals,
    split_ranges,
)
from latentia.engine.sweep import rows_per_chunk
from latentia.engine.tree import tree_add
from latentia.families.blocks.weights import GammaPrior
from latentia.families.probit_embedding.labels import LabelSigns, infer_latents, label_signs, label_weight_moments
from latentia.families.probit_embedding.projection import (
    GramForm,
    KernelForm,
    ProjectionForm,
    ProjectionSolver,
    SpectralForm,
    UnknownRows,
    gram_matrix,
    label_products,
    project,
    scale_rows,
    weighted_sums,
)


class PrecisionSharing:
    """Groups of entries of the projection (..., R, D) that share a precision."""

    #: Whether the precision is the same for all features.
    isotropic: ClassVar[bool] = False

    def sum_groups(self, entries: Array) -> Array:
        """Sums over the groups, with axes of length one where they run."""
        return entries

    def group_size(self, n_latent: int, n_features: int) -> int:
        """Entries in a group."""
        return 1


@dataclass(frozen=True)
class PerEntry(PrecisionSharing):
    """A precision for every entry."""


@dataclass(frozen=True)
class PerFeature(PrecisionSharing):
    """A precision for every feature."""

    def sum_groups(self, entries: Array) -> Array:
        return namespace(entries).sum(entries, axis=-2, keepdims=True)

    def group_size(self, n_latent: int, n_features: int) -> int:
        return n_latent


@dataclass(frozen=True)
class PerDimension(PrecisionSharing):
    """A precision for every dimension of the embedding."""

    isotropic: ClassVar[bool] = True

    def sum_groups(self, entries: Array) -> Array:
        return namespace(entries).sum(entries, axis=-1, keepdims=True)

    def group_size(self, n_latent: int, n_features: int) -> int:
        return n_features


#: By the names users give: those of the entries, columns and rows of the matrix Q (D, R).
PRECISION_SHARING: dict[str, PrecisionSharing] = {
    "entries": PerEntry(),
    "columns": PerDimension(),
    "rows": PerFeature(),
}


#: Updates of the precisions of the dimensions in one step.
N_PRECISION_UPDATES = 30

#: Variance of the label weights where variational Bayes starts.
INITIAL_WEIGHT_VARIANCE = 0.01


@dataclass(frozen=True)
class ProbitEmbedding(ConditionalFamily, QuasiNewtonFamily):
    """A projection and one probit classifier per label in the projected space.

    Parameters
    ----------
    n_labels, n_latent : int
    sharing : PrecisionSharing
        Which entries of the projection share a precision.
    prior : GammaPrior
        Of all precisions.
    latent_noise : float
        Standard deviation of z given x.
    margin : float
        Half the width of the region about t = 0 that unknown labels keep clear of (low-density
        separation). With zero they are integrated out.
    form : ProjectionForm
        How the covariances of the projection are kept. A problem sets the form that is cheapest for
        its rows.
    """

    n_labels: int
    n_latent: int = 2
    sharing: PrecisionSharing = PerEntry()
    prior: GammaPrior = GammaPrior()
    latent_noise: float = 1.0
    margin: float = 0.0
    form: ProjectionForm = UnknownRows()

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        return self.n_labels

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[ProbitEmbedding]:
        """Small instances for tests, with one label more than there are classes."""
        prior = GammaPrior(1.5, 0.8)
        by_sharing = [cls(n_classes + 1, 2, sharing, prior, 0.9) for sharing in PRECISION_SHARING.values()]
        return [*by_sharing, cls(n_classes + 1, n_features + 1)]

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows with labels of which some are unknown, and one row without any."""
        X = rng.standard_normal((n_rows, n_features))
        scores = X @ rng.standard_normal((n_features, self.n_labels)) + rng.standard_normal((n_rows, self.n_labels))
        y = np.where(rng.random(scores.shape) < 0.2, -1, (scores > 0).astype(np.int64))
        y[n_rows // 2] = -1
        return X, y

    @property
    def noise(self) -> float:
        """Variance of z given x."""
        return self.latent_noise**2

    @property
    def low_density_separation(self) -> bool:
        """Whether unknown labels keep clear of the decision boundaries."""
        return self.margin > 0

    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> Embedding:
        """The first restart from a low-rank fit of the labels, others from random directions."""
        return self.initial_params(label_sums(source, self.low_density_separation), rng, n_restarts)

    def initial_params(self, sums: LabelSums, rng: np.random.Generator, n_restarts: int) -> Embedding:
        """As `init`, from the totals of the labels."""
        solver = self.form.given_gram(sums.gram, self.noise)
        xp = namespace(sums.cross)
        unit_precision = xp.ones_like(sums.cross[:1, :1] if self.sharing.isotropic else sums.cross[:1, :])
        cross, weights = label_directions(
            lambda targets: solver.posterior(unit_precision, targets).mean, sums, self.n_latent, rng, n_restarts
        )
        ones = xp.ones_like(self.sharing.sum_groups(cross))
        rate = ones * (self.prior.shape + self._group_size(cross) / 2)  # a mean precision of one
        weights_cov = xp.zeros_like(weights)[..., None] + INITIAL_WEIGHT_VARIANCE * eye_like(weights.shape[-1], cross)
        log_det = xp.sum(xp.log(xp.linalg.diagonal(weights_cov)), axis=-1)
        return Embedding(
            *self._projection(solver, rate, cross), rate, weights, weights_cov, log_det, xp.ones_like(weights)
        )

    def infer(
        self, params: Embedding, rows: MaskedRows, y: Array | None = None, memo: Memo | None = None
    ) -> EmbeddedRows:
        x = rows.values
        xp = namespace(x)
        labels = label_signs(y, x.dtype, self.low_density_separation)
        posterior = self.infer_latents(params, x, labels)
        variance = xp.sum(self.row_variance(params, x), axis=-2)
        score = posterior.log_joint[..., 0, :] - variance * labels.row_counts / (2 * self.noise)
        return posterior._replace(log_joint=score[..., None, :])

    def infer_latents(
        self, params: Embedding, x: Array, labels: LabelSigns, warm_start: Array | None = None
    ) -> EmbeddedRows:
        """As `infer`, but scores without the term of the projection's variance."""
        prior_mean = project(params.projection, x)
        moments = label_weight_moments(params.weights, params.weights_cov)
        latents = infer_latents(moments, prior_mean, labels, self.noise, self.margin, warm_start)
        covariance, log_det = spd_inverse(latents.precision)
        score = (latents.value - (log_det + self.n_latent * math.log(self.noise)) / 2) * labels.row_counts
        return EmbeddedRows(score[..., None, :], latents.mean, covariance, latents.target, labels)

    def row_variance(self, params: Embedding, x: Array) -> Array:
        """Variances x' Sigma x (..., R, N) of the projected rows."""
        variance = self.form.row_variance(params.covariance, self.precision(params), x)
        xp = namespace(variance)
        return variance + xp.zeros((self.n_latent, 1), dtype=variance.dtype, device=device(variance))

    def precision(self, params: Embedding) -> Array:
        """Expected precisions of the projection's entries, (..., R or 1, D or 1)."""
        return self.prior.precision(params.rate, self._group_size(params.projection))

    def _group_size(self, projection: Array) -> int:
        """Entries of a matrix (..., R, D) that share a precision."""
        return self.sharing.group_size(*projection.shape[-2:])

    def statistics(self, params: Embedding, rows: MaskedRows, posterior: EmbeddedRows, weight: Array) -> EmbeddingStats:
        x = rows.values
        weight = weight[..., 0, :] * posterior.labels.row_counts
        gram = namespace(x).matmul(transpose(weight[..., None] * x), x)
        return label_statistics(x, posterior, weight)._replace(gram=gram)

    def update(self, params: Embedding, stats: EmbeddingStats) -> Embedding:
        solver = self.form.given_gram(stats.gram, self.noise)
        rate = self._iterate_precisions(solver, self.prior.rate + params.second_moments / 2, stats.cross)
        projection = self._projection(solver, rate, stats.cross)
        weights_rate = self.prior.rate + second_moment(params.weights, params.weights_cov) / 2
        xp = namespace(rate)
        eye = eye_like(weights_rate.shape[-1], rate)
        precision = eye * self.prior.precision(weights_rate, 1)[..., None] + stats.moments
        weights_cov, log_det = spd_inverse(precision)
        weights = xp.matmul(weights_cov, stats.target[..., None])[..., 0]
        return Embedding(*projection, rate, weights, weights_cov, -log_det, weights_rate)

    def _iterate_precisions(self, solver: ProjectionSolver, rate: Array, cross: Array) -> Array:
        """Rates after turns of updating the precisions and the projection, where that costs little.

        One update for each sweep would creep if D is much larger than N.
        """
        if not self.sharing.isotropic:
            return rate
        spectrum = solver.spectrum()
        squares = flat_matmul(cross, spectrum.basis) ** 2
        for _ in range(N_PRECISION_UPDATES):
            precision = self.prior.precision(rate, self._group_size(cross))
            rate = self.prior.rate + spectrum.second_moments(precision, squares) / 2
        return rate

    def _projection(self, solver: ProjectionSolver, rate: Array, cross: Array) -> tuple[Array, Array, Array, Array]:
        """Means, covariances, their log determinants, and second moments by group."""
        posterior = solver.posterior(self.prior.precision(rate, self._group_size(cross)), cross)
        second_moments = self.sharing.sum_groups(posterior.mean * posterior.mean + posterior.variance)
        return posterior.mean, posterior.covariance, posterior.log_det, second_moments

    def log_prior(self, params: Embedding) -> Array:
        xp = namespace(params.projection)
        n_latent, n_features = params.projection.shape[-2:]
        group_size = self._group_size(params.projection)
        of_projection = xp.sum(self.prior.log_prior(params.rate, group_size, params.second_moments), axis=(-2, -1))
        columns_per_covariance = n_latent // params.log_det.shape[-1]
        entropy = columns_per_covariance * xp.sum(params.log_det, axis=-1) / 2 + n_latent * n_features / 2
        square = second_moment(params.weights, params.weights_cov)
        of_weights = xp.sum(self.prior.log_prior(params.weights_rate, 1, square), axis=(-2, -1))
        log_dets = xp.sum(params.weights_log_det, axis=-1) / 2
        n_weights = params.weights.shape[-2] * params.weights.shape[-1]
        return of_projection + entropy + of_weights + log_dets + n_weights / 2

    def to_means(self, params: Embedding) -> tuple[Array, Array]:
        """The means of the projection and of the label weights."""
        return params.projection, params.weights

    def from_means(self, means: tuple[Array, Array], params: Embedding) -> Embedding:
        """Posteriors with these means; the rest is that of `params`."""
        projection, weights = means
        sum_groups = self.sharing.sum_groups
        second_moments = (
            params.second_moments
            + sum_groups(projection * projection)
            - sum_groups(params.projection * params.projection)
        )
        second_moments = namespace(second_moments).clip(second_moments, min=0.0)
        return params._replace(projection=projection, weights=weights, second_moments=second_moments)

    def mean_gradient(self, params: Embedding, stats: EmbeddingStats) -> tuple[Array, Array]:
        """Gradient of the bound in the means, the rest of the posteriors being fixed."""
        xp = namespace(params.projection)
        solver = self.form.given_gram(stats.gram, self.noise)
        of_projection = (stats.cross - solver.times_gram(params.projection)) / self.noise
        of_weights = stats.target - xp.matmul(stats.moments, params.weights[..., None])[..., 0]
        return (
            of_projection - self.precision(params) * params.projection,
            of_weights - self.prior.precision(params.weights_rate, 1) * params.weights,
        )

    def precondition(self, params: Embedding, gradient: tuple[Array, Array]) -> tuple[Array, Array]:
        """The covariances times a gradient: the plain update."""
        of_projection, of_weights = gradient
        of_weights = namespace(of_weights).matmul(params.weights_cov, of_weights[..., None])[..., 0]
        return self.form.times_covariance(params.covariance, self.precision(params), of_projection), of_weights

    def floats_per_row(self, params: Embedding) -> int:
        n_covariances = math.prod(params.log_det.shape)
        return params.projection.shape[-1] * (1 + n_covariances) + self.label_floats_per_row(params)

    def label_floats_per_row(self, params: Embedding) -> int:
        """Floats of workspace per row in `infer_latents`."""
        n_restarts = math.prod(params.projection.shape[:-2])
        return int(n_restarts * (4 * (1 + self.n_latent) ** 2 + 10 * self.n_labels))


#: Tables with fewer entries gain nothing from several threads in a product.
MIN_THREADED_ENTRIES = 2**22


class EmbeddingProblem(ABC):
    """A family with the form of the projection that is cheapest for the rows."""

    #: Whether the products of a sweep are too small for several threads.
    small: bool = False
    total_weight: float

    def __init__(self, family: ProbitEmbedding, form: ProjectionSolver):
        self.family = replace(family, form=form)
        self.form = form

    def take_restarts(self, index: np.ndarray) -> EmbeddingProblem:
        """All restarts see the same rows."""
        return self

    @abstractmethod
    def label_sums(self) -> LabelSums:
        """The totals from which variational Bayes starts."""

    @abstractmethod
    def sweep(self, params: Embedding) -> Sweep:
        """Value and statistics; the Gram matrix, which the form has already, is left out."""

    def initial_params(self, rng: np.random.Generator, n_restarts: int) -> Embedding:
        """As the family's `init`."""
        return self.family.initial_params(self.label_sums(), rng, n_restarts)

    def _add_row_independent_terms(self, params: Embedding, sums: Sweep) -> Sweep:
        """Add to sums over rows what depends on them only through the form."""
        family = self.family
        variance = self.form.total_variance(params.covariance)  # of each covariance
        columns_per_covariance = family.n_latent // variance.shape[-1]
        total_variance = namespace(variance).sum(variance, axis=-1) * columns_per_covariance
        return Sweep(sums.value + family.log_prior(params) - total_variance / (2 * family.noise), sums.stats)


class InMemoryProblem(EmbeddingProblem):
    """Rows (dense or sparse) in memory, with warm starts."""

    def __init__(
        self,
        family: ProbitEmbedding,
        rows: Array,
        y: Array,
        weight: Array | None = None,
        form: ProjectionSolver | None = None,
        max_chunk_rows: int | None = None,
    ):
        xp = namespace(y)
        self._labels = label_signs(y, rows.dtype, family.low_density_separation)
        counts = self._labels.row_counts
        self._row_weight = counts if weight is None else counts * weight
        self._rows, self._y, self._weight = rows, y, weight
        self._max_chunk_rows = max_chunk_rows
        self._last_means: list[Array] = []  # of the rows, in the last two sweeps
        self.total_weight = float(y.shape[0] if weight is None else xp.sum(weight))
        self.small = rows.shape[0] * rows.shape[1] < MIN_THREADED_ENTRIES
        super().__init__(family, choose_form(family, rows, self._row_weight) if form is None else form)

    def label_sums(self) -> LabelSums:
        return sum_labels(self._rows, self._y, self._weight, self.family.low_density_separation)

    def sweep(self, params: Embedding) -> Sweep:
        with one_blas_thread(self.small):
            return self._sweep(params)

    def _sweep(self, params: Embedding) -> Sweep:
        shape = (*params.projection.shape[:-2], self._rows.shape[0], self.family.n_latent)
        warm_start = self._warm_start(shape)
        means: list[Array] = []

        def visit(chunk: slice) -> Sweep:
            start = None if warm_start is None else warm_start[..., chunk, :]
            rows, weight = self._rows[chunk, ...], self._row_weight[chunk]
            posterior = self.family.infer_latents(params, rows, self._labels.of_rows(chunk), start)
            means.append(posterior.mean)
            return _sum_rows(rows, posterior, weight)

        sums = reduce(tree_add, map(visit, self._chunks(params)))
        mean = means[0] if len(means) == 1 else namespace(means[0]).concat(means, axis=-2)
        self._last_means = [*self._last_means, mean][-2:]
        return self._add_row_independent_terms(params, sums)

    def _warm_start(self, shape: tuple[int, ...]) -> Array | None:
        """Where rows will be, if they go on as in the last sweeps with as many restarts."""
        means = [mean for mean in self._last_means if mean.shape == shape]
        if len(means) < 2 or self.family.low_density_separation:
            return means[-1] if means else None
        return 2 * means[1] - means[0]

    def _chunks(self, params: Embedding) -> list[slice]:
        max_rows = self._max_chunk_rows or rows_per_chunk(self.family.label_floats_per_row(params), params.projection)
        return [rows.as_slice for rows in split_ranges([RowRange(0, self._rows.shape[0], None)], max_rows)]


class StreamedProblem(EmbeddingProblem):
    """Rows that are read chunk by chunk in every sweep, and their Gram matrix."""

    def __init__(self, family: ProbitEmbedding, source: Source):
        self._source = source
        sums = label_sums(source, family.low_density_separation)
        self._sums = sums._replace(gram=sums.gram[:0, :0])
        self.total_weight = source.total_weight
        super().__init__(family, gram_form(family, sums.gram))

    def label_sums(self) -> LabelSums:
        return self._sums

    def sweep(self, params: Embedding) -> Sweep:
        family = self.family

        def visit(chunk: Chunk) -> Totals:
            x = chunk.rows.values
            labels = label_signs(chunk.y, x.dtype, family.low_density_separation)
            posterior = family.infer_latents(params, x, labels)
            return {"sums": _sum_rows(x, posterior, chunk.weighted(labels.row_counts))}

        size = params.projection.shape[-1] + family.label_floats_per_row(params)
        sums = self._source.sum_over_chunks(visit, rows_per_chunk(size, params.projection))["sums"]
        return self._add_row_independent_terms(params, sums)


def _sum_rows(x: Array, posterior: EmbeddedRows, weight: Array) -> Sweep:
    """Values and statistics of some rows, weighted."""
    value = namespace(weight).sum(posterior.log_joint[..., 0, :] * weight, axis=-1)
    return Sweep(value, label_statistics(x, posterior, weight))


def problem_maker(source: TableSource) -> Callable[[ProbitEmbedding], EmbeddingProblem]:
    """How problems on these rows are made, for families of several sizes.

    Rows whose preprocessed copy fits scikit-learn's `working_memory` are kept in memory; so are
    tables with more features than rows, whose forms need all rows at once. Rows in parts stay
    where they are, unless they are as few.
    """
    if not isinstance(source, ArraySource):
        if source.n_features <= source.n_rows:
            return lambda family: StreamedProblem(family, source)
        source = source.subset(np.arange(source.n_rows))
    assert isinstance(source, ArraySource)
    n_entries = source.X.nnz if is_sparse(source.X) else source.n_rows * source.n_features
    if 8 * n_entries > get_config()["working_memory"] * 2**20 and source.n_features <= source.n_rows:
        return lambda family: StreamedProblem(family, source)
    rows, y, weight, *_ = source.all_rows()
    return lambda family: InMemoryProblem(family, rows.values, y, weight)


def choose_form(family: ProbitEmbedding, rows: Array, weight: Array) -> ProjectionSolver:
    """The cheapest form for these rows."""
    if rows.shape[1] <= rows.shape[0]:
        return gram_form(family, gram_matrix(rows, weight))
    scaled = scale_rows(rows, namespace(weight).sqrt(weight))
    if family.sharing.isotropic:
        return SpectralForm.from_rows(scaled, family.noise)
    return KernelForm(scaled, family.noise)


def gram_form(family: ProbitEmbedding, gram: Array) -> ProjectionSolver:
    """The cheapest form from X'X."""
    if family.sharing.isotropic:
        return SpectralForm.from_gram(gram, family.noise)
    return GramForm(gram, family.noise)


class Embedding(NamedTuple):
    """Posteriors of the projection, of the label weights, and of their precisions."""

    projection: Array  # (..., R, D) means of the columns of Q
    covariance: Array  # (..., S, ...) of the columns of Q, as the projection form has it; S = 1 if they share it
    log_det: Array  # (..., S) of that
    second_moments: Array  # (..., R or 1, D or 1) sums of E[q^2] over the groups that share a precision
    rate: Array  # (..., R or 1, D or 1) rates of the gamma posteriors of these precisions
    weights: Array  # (..., L, 1 + R) means of (b, w)
    weights_cov: Array  # (..., L, 1 + R, 1 + R)
    weights_log_det: Array  # (..., L) of these covariances
    weights_rate: Array  # (..., L, 1 + R) rates of the gamma posteriors of their precisions


class EmbeddingStats(NamedTuple):
    """What rows add to the posteriors."""

    gram: Array  # (..., D, D) sum of x x'; (..., 0, 0) where the projection form has it already
    cross: Array  # (..., R, D) sum of E[z] x'
    moments: Array  # (..., L, 1 + R, 1 + R) sum of E[(1, z)(1, z)'] over the rows with the label known
    target: Array  # (..., L, 1 + R) sum of E[t] (1, E[z]) over the same


class EmbeddedRows(NamedTuple):
    """Per-row posterior: the latent position z and the truncated scores t."""

    log_joint: Array  # (..., 1, N) bound of log p(y | x)
    mean: Array  # (..., N, R) of z
    covariance: Array  # (..., N or 1, R, R) of z
    target: Array  # (..., N, L) mean of t
    labels: LabelSigns


def second_moment(mean: Array, covariance: Array) -> Array:
    """E[e^2] of the entries of normal vectors."""
    return mean * mean + namespace(mean).linalg.diagonal(covariance)


def label_statistics(x: Array, posterior: EmbeddedRows, weight: Array) -> EmbeddingStats:
    """All statistics but the Gram matrix, for weights (..., N) of the rows."""
    mean = posterior.mean
    xp = namespace(mean)
    with_one = xp.concat([xp.ones_like(mean[..., :1]), mean], axis=-1)
    counts = transpose(posterior.labels.entry_counts * weight[..., None])  # (..., L, N)
    # one line of counts for several rows: all labels count the same ones
    alike = posterior.labels.entry_counts.shape[0] < mean.shape[-2]
    moments = _second_moments(with_one, posterior.covariance, weight, counts[..., :1, :] if alike else counts, alike)
    size = with_one.shape[-1]
    moments = xp.broadcast_to(moments, (*mean.shape[:-2], counts.shape[-2], size, size))
    target = xp.matmul(counts * transpose(posterior.target), with_one)
    cross = weighted_sums(weight[..., None] * mean, x)
    no_gram = xp.zeros((*mean.shape[:-2], 0, 0), dtype=mean.dtype, device=device(mean))
    return EmbeddingStats(no_gram, cross, moments, target)


def _second_moments(with_one: Array, covariance: Array, weight: Array, counts: Array, alike: bool) -> Array:
    """Sums (..., L or 1, 1 + R, 1 + R) of E[(1, z)(1, z)'] by the counts (..., L or 1, N)."""
    xp = namespace(with_one)
    lead, size = with_one.shape[:-2], with_one.shape[-1]
    if alike:
        of_means = xp.matmul(transpose(weight[..., None] * with_one), with_one)[..., None, :, :]
    else:
        outer = xp.reshape(with_one[..., :, None] * with_one[..., None, :], (*with_one.shape[:-1], size * size))
        of_means = xp.reshape(xp.matmul(counts, outer), (*lead, -1, size, size))
    flat = xp.reshape(covariance, (*lead, -1, (size - 1) ** 2))
    if flat.shape[-2] == 1:  # all rows have the same
        covariances = xp.sum(counts, axis=-1, keepdims=True) * flat
    else:
        covariances = xp.matmul(counts, flat)
    covariances = xp.reshape(covariances, (*of_means.shape[:-2], size - 1, size - 1))
    side = xp.concat([xp.zeros_like(covariances[..., :1]), covariances], axis=-1)  # the one has no variance
    return of_means + xp.concat([xp.zeros_like(side[..., :1, :]), side], axis=-2)


class LabelSums(NamedTuple):
    """Totals over rows; labels are +1, -1, and 0 where unknown."""

    gram: Array  # (D, D) sum of x x', or (0, 0) if not asked for
    cross: Array  # (L, D) sum of sign x'
    features: Array  # (L, D) sum of x' over the rows with the label known
    sign: Array  # (L,)
    n_known: Array  # (L,) weighted number of such rows


def sum_labels(
    x: Array, y: Array, weight: Array | None, low_density_separation: bool, with_gram: bool = False
) -> LabelSums:
    """The totals of some rows."""
    xp = namespace(y)
    dtype = x.dtype
    labels = label_signs(y, dtype, low_density_separation)
    weight = labels.row_counts if weight is None else labels.row_counts * weight
    known = xp.abs(labels.sign) * weight[:, None]
    sign = labels.sign * weight[:, None]
    gram = (transpose(x) * weight) @ x if with_gram else asarray_like(np.zeros((0, 0)), y, dtype=dtype)
    return LabelSums(
        gram, label_products(sign, x), label_products(known, x), xp.sum(sign, axis=0), xp.sum(known, axis=0)
    )


def label_sums(source: Source, low_density_separation: bool) -> LabelSums:
    """The totals of all rows, the Gram matrix included."""

    def visit(chunk: Chunk) -> Totals:
        return {"sums": sum_labels(chunk.rows.values, chunk.y, chunk.weight, low_density_separation, with_gram=True)}

    return source.sum_over_chunks(visit, rows_per_chunk(4 * source.n_features, source.rows_like))["sums"]


def label_directions(
    ridge: Callable[[Array], Array], sums: LabelSums, n_latent: int, rng: np.random.Generator, n_restarts: int
) -> tuple[Array, Array]:
    """Z'X (restarts, R, D) of guessed embeddings, and label weights (restarts, L, 1 + R) for them.

    The guess is Z = S V, for the labels' centered signs S and directions V: those along which a
    ridge regression of S on X, `ridge`, has the largest fitted variance, for the first restart;
    random ones for the others and for dimensions beyond the number of labels.
    """
    xp = namespace(sums.cross)
    n_known = xp.where(sums.n_known > 0, sums.n_known, xp.ones_like(sums.n_known))
    rate = sums.sign / n_known
    centered = sums.cross - rate[:, None] * sums.features  # (L, D)
    n_labels = centered.shape[0]
    coefficients = ridge(centered)
    fitted = to_numpy(coefficients @ transpose(centered))
    _, vectors = eigh(fitted)
    restarts = []
    for restart in range(n_restarts):
        directions = rng.standard_normal((n_labels, n_latent))
        if restart == 0:
            best = vectors[:, ::-1][:, :n_latent]
            directions[:, : best.shape[1]] = best
        restarts.append(directions / np.linalg.norm(directions, axis=0))
    weights = asarray_like(np.stack(restarts), centered)  # (restarts, L, R)
    intercept = xp.zeros_like(weights[..., :1]) + rate[:, None]
    return xp.matmul(transpose(weights), centered), xp.concat([intercept, weights], axis=-1)
