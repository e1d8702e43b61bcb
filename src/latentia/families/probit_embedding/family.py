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
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from array_api_compat import device

from latentia.arrays.linalg import flat_matmul, spd_inverse
from latentia.arrays.namespace import Array, eye_like, namespace, transpose
from latentia.engine.contracts import ConditionalFamily, QuasiNewtonFamily
from latentia.engine.rows import MaskedRows, Source
from latentia.families.building_blocks.gamma_prior import GammaPrior
from latentia.families.probit_embedding.initialization import LabelSums, label_directions, label_sums
from latentia.families.probit_embedding.label_posterior import (
    LabelSigns,
    infer_latents,
    label_signs,
    label_weight_moments,
)
from latentia.families.probit_embedding.precision_priors import PRECISION_SHARING, PerEntry, PrecisionSharing
from latentia.families.probit_embedding.projection import ProjectionForm, ProjectionSolver, UnknownRows
from latentia.families.probit_embedding.row_products import project
from latentia.families.probit_embedding.statistics import label_statistics
from latentia.families.probit_embedding.values import EmbeddedRows, Embedding, EmbeddingStats, second_moment

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

    def infer(self, params: Embedding, rows: MaskedRows, y: Array | None = None) -> EmbeddedRows:
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
