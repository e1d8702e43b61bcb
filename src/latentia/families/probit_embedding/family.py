r"""Bayesian multilabel learning with a coupled embedding (Gönen, "Bayesian supervised multilabel learning with coupled embedding and classification").

A projection Q (D x R) and a probit classifier for each of L labels in the projected space, learned together by variational Bayes:

.. math:: z_i | x_i \sim N(Q^T x_i, \sigma_z^2 I), \quad t_{io} \sim N(w_o^T z_i + b_o, 1), \quad y_{io} = \mathrm{sign}\, t_{io}

with normal priors on the entries of Q, w, b whose precisions have gamma hyper-priors (see `_gamma`), and
:math:`q = q(\Phi) q(Q) q(\lambda, \Psi) \prod_o q(b_o, w_o) \prod_i q(z_i) \prod_{io} q(t_{io})`. The parameters are those of the posteriors of
Q, (b, w) and the precisions. A row's q(z) and q(t) are brought to their fixed point by `_probit_rows`; its score is then a bound of log p(y | x), and
what it adds to the update of the posteriors is, over the labels it has,

.. math:: X^T X, \quad \bar Z^T X, \quad \sum_i E[(1, z)(1, z)^T], \quad \sum_i \bar t_{io} (1, \bar z_i).

Where the paper slips (or its author's code): :math:`E[ZZ^T]` holds the covariance of z; the bound uses :math:`E[\log\phi]`, and the entropy of the
truncated normal has its squared shift, which together leave :math:`\log\Phi(y\eta)` after q(t) was refreshed; predictions divide by the standard deviation
of t, which holds the uncertainty of z.

An unknown label's t is integrated out exactly, so the entry adds nothing, and a row without any label says nothing: with a factor of its own, q(z)
would claim that Q had predicted it. With `separate` (low-density separation) unknown labels are instead taken to lie outside a margin about zero; that bound has several
fixed points a row, of which the one nearest to the projection is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import device

from latentia.engine.contracts import ConditionalFamily, MaskedRows, Objective, Problem, QuasiNewtonFamily, Source
from latentia.families.building_blocks.gamma_prior import GammaPrior
from latentia.families.probit_embedding.initialization import LabelSums, label_directions, label_sums
from latentia.families.probit_embedding.label_posterior import Labels, classifiers, infer_latents, label_signs
from latentia.families.probit_embedding.precision_priors import GROUPINGS, PerEntry, PrecisionSharing
from latentia.families.probit_embedding.problem import in_memory_problem
from latentia.families.probit_embedding.projection import (
    GramForm,
    ProjectionPosterior,
    ProjectionSolver,
    SpectralForm,
    dense_spread,
)
from latentia.families.probit_embedding.values import (
    EmbeddedRows,
    Embedding,
    EmbeddingStats,
    add_corner,
    project,
    second_moment,
)
from latentia.numerics.array_api import Array, eye_like, namespace, transpose
from latentia.numerics.linalg import fold, spd_inverse

#: Updates of the columns' precisions in one step.
TURNS = 30


@dataclass(frozen=True)
class ProbitEmbedding(ConditionalFamily, QuasiNewtonFamily):
    """A projection and one probit classifier per label in the projected space.

    Parameters
    ----------
    n_labels, n_latent : int
    grouping : Grouping
        Which entries of the projection share a precision.
    prior : GammaPrior
        Of all precisions.
    latent_noise : float
        Standard deviation of z given x.
    margin : float
        Half the width of the empty region about t = 0; used with `separate`.
    separate : bool
        Whether unknown labels are taken to lie outside the margin.
    design : Design or None
        What the rows say about the projection, when it is known before the sweeps.
    """

    n_labels: int
    n_latent: int = 2
    grouping: PrecisionSharing = PerEntry()
    prior: GammaPrior = GammaPrior()
    latent_noise: float = 1.0
    margin: float = 0.0
    separate: bool = False
    design: ProjectionSolver | None = None

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        return self.n_labels

    @classmethod
    def examples(cls, n_features: int, n_classes: int) -> list[ProbitEmbedding]:
        """Small instances for tests, with one label more than there are classes."""
        some = [cls(n_classes + 1, 2, grouping, GammaPrior(1.5, 0.8), 0.9) for grouping in GROUPINGS.values()]
        return [*some, cls(n_classes + 1, n_features + 1)]

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

    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> Embedding:
        """The first start from a low-rank fit of the labels, the others from random directions in label space."""
        return self.start(label_sums(source, self.design is None, self.separate), rng, n_restarts)

    def start(self, sums: LabelSums, rng: np.random.Generator, n_restarts: int) -> Embedding:
        """As `init`, from the totals of the labels."""
        design = self.design if self.design is not None else GramForm(sums.gram, self.noise)
        xp = namespace(sums.cross)
        flat = xp.ones_like(sums.cross[:1, :1] if self.grouping.isotropic else sums.cross[:1, :])
        cross, weights = label_directions(
            lambda targets: design.posterior(flat, targets).mean, sums, self.n_latent, rng, n_restarts
        )
        ones = xp.ones_like(self.grouping.pool(cross))
        n_entries = self.grouping.count(self.n_latent, cross.shape[-1])
        rate = ones * (self.prior.shape + n_entries / 2)  # a mean precision of one
        found = self._projection(design, rate, cross)
        eye = eye_like(weights.shape[-1], cross)
        weights_cov = xp.zeros_like(weights)[..., None] + 0.01 * eye
        log_det = xp.sum(xp.log(xp.linalg.diagonal(weights_cov)), axis=-1)
        return Embedding(*found, rate, weights, weights_cov, log_det, xp.ones_like(weights))

    def infer(
        self, params: Embedding, rows: MaskedRows, y: Array | None = None, start: Array | None = None
    ) -> EmbeddedRows:
        x = rows.values
        xp = namespace(x)
        labels = label_signs(y, x.dtype, self.separate)
        posterior = self.place(params, x, labels, start)
        spread = self.row_spread(params, x)
        score = posterior.log_joint[..., 0, :] - xp.sum(spread, axis=-2) * labels.used / (2 * self.noise)
        return posterior._replace(log_joint=score[..., None, :])

    def place(self, params: Embedding, x: Any, labels: Labels, start: Array | None = None) -> EmbeddedRows:
        """Everything about rows but the part of the score that is the spread of the projection."""
        prior_mean = project(params.projection, x)
        weights = classifiers(params.weights, params.weights_cov)
        found = infer_latents(weights, prior_mean, labels, self.noise, self.margin, self.separate, start)
        covariance, log_det = spd_inverse(found.precision)
        score = (found.value - (log_det + self.n_latent * math.log(self.noise)) / 2) * labels.used
        return EmbeddedRows(score[..., None, :], found.mean, covariance, found.target, labels)

    def row_spread(self, params: Embedding, x: Any) -> Array:
        """Variances x' Sigma x (..., R, N) of the projected rows."""
        if self.design is None:
            spread = dense_spread(params.covariance, x)
        else:
            spread = self.design.row_spread(params.covariance, self.precision(params), x)
        xp = namespace(spread)
        return spread + xp.zeros((self.n_latent, 1), dtype=spread.dtype, device=device(spread))

    def total_spread(self, params: Embedding) -> Array:
        """The sum of `row_spread` over the columns and the rows of the design, (...,)."""
        assert self.design is not None
        spread = self.design.total_spread(params.covariance)
        return namespace(spread).sum(spread, axis=-1) * (self.n_latent // spread.shape[-1])

    def with_design(self, design: ProjectionSolver) -> ProbitEmbedding:
        """The same family for rows whose products are known."""
        return replace(self, design=design)

    def precision(self, params: Embedding) -> Array:
        """Expected precisions of the projection's entries, (..., R or 1, D or 1)."""
        count = self.grouping.count(self.n_latent, params.projection.shape[-1])
        return self.prior.precision(params.rate, count)

    def statistics(self, params: Embedding, rows: MaskedRows, posterior: EmbeddedRows, weight: Array) -> EmbeddingStats:
        x = rows.values
        xp = namespace(x)
        used = (weight[..., 0, :] * posterior.labels.used)[..., :, None]  # (..., N, 1)
        stats = self.label_statistics(x, posterior, used)
        if self.design is not None:
            return stats
        gram = xp.matmul(transpose(used * x), x)
        return stats._replace(gram=gram)

    def label_statistics(self, x: Any, posterior: EmbeddedRows, used: Array) -> EmbeddingStats:
        """All statistics but the gram matrix, for weights (..., N, 1)."""
        mean = posterior.mean
        xp = namespace(mean)
        with_one = xp.concat([xp.ones_like(mean[..., :1]), mean], axis=-1)
        lead, size = mean.shape[:-2], with_one.shape[-1]
        counted = transpose(posterior.labels.counted * used)  # (..., L, N)
        same = (
            posterior.labels.counted.shape[0] < mean.shape[-2]
        )  # one line for all rows: all labels count the same ones
        each = counted[..., :1, :] if same else counted
        if same:
            moments = xp.matmul(transpose(used * with_one), with_one)[..., None, :, :]
        else:
            outer = xp.reshape(with_one[..., :, None] * with_one[..., None, :], (*mean.shape[:-1], size * size))
            moments = xp.reshape(xp.matmul(each, outer), (*lead, -1, size, size))
        inner = xp.reshape(posterior.covariance, (*lead, -1, mean.shape[-1] ** 2))
        if inner.shape[-2] == 1:
            spread = xp.sum(each, axis=-1, keepdims=True) * inner
        else:
            spread = xp.matmul(each, inner)
        spread = xp.reshape(spread, (*moments.shape[:-2], size - 1, size - 1))
        moments = xp.broadcast_to(add_corner(moments, spread), (*lead, counted.shape[-2], size, size))
        target = xp.matmul(counted * transpose(posterior.target), with_one)
        cross = project(transpose(used * mean), x.T if hasattr(x, "tocsr") else transpose(x), last=True)
        nothing = xp.zeros((*lead, 0, 0), dtype=mean.dtype, device=device(mean))
        return EmbeddingStats(nothing, cross, moments, target)

    def update(self, params: Embedding, stats: EmbeddingStats) -> Embedding:
        design = self.design if self.design is not None else GramForm(stats.gram, self.noise)
        rate = self._settle(design, self.prior.rate + params.size / 2, stats.cross)
        found = self._projection(design, rate, stats.cross)
        weights_rate = self.prior.rate + second_moment(params.weights, params.weights_cov) / 2
        xp = namespace(rate)
        eye = eye_like(weights_rate.shape[-1], rate)
        precision = eye * self.prior.precision(weights_rate, 1)[..., None] + stats.moments
        weights_cov, log_det = spd_inverse(precision)
        weights = xp.matmul(weights_cov, stats.target[..., None])[..., 0]
        return Embedding(*found, rate, weights, weights_cov, -log_det, weights_rate)

    def _settle(self, design: ProjectionSolver, rate: Array, cross: Array) -> Array:
        """Precisions of columns and the projection in turns, where that costs little: alone they creep if D is much larger than N."""
        if not self.grouping.isotropic:
            return rate
        spectrum = design.spectrum() if isinstance(design, GramForm) else design
        assert isinstance(spectrum, SpectralForm)
        squares = fold(cross, spectrum.basis) ** 2
        for _ in range(TURNS):
            precision = self.prior.precision(rate, cross.shape[-1])
            rate = self.prior.rate + spectrum.second_moments(precision, squares) / 2
        return rate

    def _projection(self, design: ProjectionSolver, rate: Array, cross: Array) -> tuple[Array, Array, Array, Array]:
        """Means, covariances, their log determinants, and second moments by group."""
        count = self.grouping.count(self.n_latent, cross.shape[-1])
        found: ProjectionPosterior = design.posterior(self.prior.precision(rate, count), cross)
        size = self.grouping.pool(found.mean * found.mean + found.variance)
        return found.mean, found.covariance, found.log_det, size

    def log_prior(self, params: Embedding) -> Array:
        xp = namespace(params.projection)
        n_latent, n_features = params.projection.shape[-2:]
        count = self.grouping.count(n_latent, n_features)
        of_projection = xp.sum(self.prior.log_prior(params.rate, count, params.size), axis=(-2, -1))
        copies = n_latent // params.log_det.shape[-1]
        entropy = copies * xp.sum(params.log_det, axis=-1) / 2 + n_latent * n_features / 2
        square = second_moment(params.weights, params.weights_cov)
        of_weights = xp.sum(self.prior.log_prior(params.weights_rate, 1, square), axis=(-2, -1))
        log_dets = xp.sum(params.weights_log_det, axis=-1) / 2
        n_weights = params.weights.shape[-2] * params.weights.shape[-1]
        return of_projection + entropy + of_weights + log_dets + n_weights / 2

    def to_means(self, params: Embedding) -> tuple[Array, Array]:
        """The means of the projection and of the label weights, which quasi-Newton steps move."""
        return params.projection, params.weights

    def from_means(self, means: tuple[Array, Array], params: Embedding) -> Embedding:
        """Posteriors with these means; the rest is that of `params`."""
        projection, weights = means
        pool = self.grouping.pool
        size = params.size + pool(projection * projection) - pool(params.projection * params.projection)
        size = namespace(size).clip(size, min=0.0)
        return params._replace(projection=projection, weights=weights, size=size)

    def mean_gradient(self, params: Embedding, stats: EmbeddingStats) -> tuple[Array, Array]:
        """Slope of the bound in the means, the rest of the posteriors being fixed; needs a design."""
        assert self.design is not None
        xp = namespace(params.projection)
        pull = (stats.cross - self.design.with_gram(params.projection)) / self.noise
        of_weights = stats.target - xp.matmul(stats.moments, params.weights[..., None])[..., 0]
        return (
            pull - self.precision(params) * params.projection,
            of_weights - self.prior.precision(params.weights_rate, 1) * params.weights,
        )

    def precondition(self, params: Embedding, gradient: tuple[Array, Array]) -> tuple[Array, Array]:
        """The covariances times a slope: the way of the plain update."""
        assert self.design is not None
        of_projection, of_weights = gradient
        of_weights = namespace(of_weights).matmul(params.weights_cov, of_weights[..., None])[..., 0]
        return self.design.with_covariance(params.covariance, self.precision(params), of_projection), of_weights

    def floats_per_row(self, params: Embedding) -> int:
        n_sets = math.prod(params.log_det.shape)
        return params.projection.shape[-1] * (1 + n_sets) + self.label_floats_per_row(params)

    def label_floats_per_row(self, params: Embedding) -> int:
        """Numbers that one row takes without the spread of the projection."""
        n_restarts = math.prod(params.projection.shape[:-2])
        return int(n_restarts * (4 * (1 + self.n_latent) ** 2 + 10 * self.n_labels))

    def specialized_problem(self, objective: Objective, source: Source) -> Problem | None:
        """The products of the features are found once; rows that fit in memory start where they were."""
        return in_memory_problem(self, source)
