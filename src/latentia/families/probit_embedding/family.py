r"""Bayesian multilabel learning with a coupled embedding.

M. Gönen, "Bayesian supervised multilabel learning with coupled embedding and classification". A
projection Q (D x R) and a probit classifier for each of L labels in the projected space, learned
together by variational Bayes:

.. math::

   z_i | x_i \sim N(Q^T x_i, \sigma_z^2 I), \quad t_{io} \sim N(w_o^T z_i + b_o, 1), \quad
   y_{io} = \mathrm{sign}\, t_{io}

with normal priors on the entries of Q, w, b whose precisions have gamma hyper-priors (see
`GammaPrior`), and :math:`q = q(\Phi) q(Q) q(\lambda, \Psi) \prod_o q(b_o, w_o) \prod_i q(z_i)
\prod_{io} q(t_{io})`. The parameters are those of the posteriors of Q, (b, w) and the precisions.
A row's q(z) and q(t) are brought to their fixed point by `infer_latents`; its score is then a bound
of log p(y | x), and what it adds to the update of the posteriors is, over the labels it has,

.. math::

   X^T X, \quad \bar Z^T X, \quad \sum_i E[(1, z)(1, z)^T], \quad \sum_i \bar t_{io} (1, \bar z_i).

The first does not depend on the parameters, nor does what it adds to the bound on the posteriors of
the rows: so it is found once, before the first sweep, by the form of the projection's posterior
that is cheapest for these rows (`given_rows`), and a sweep sums the rest. A row's fixed point
begins at its *warm start*: where the row was heading in the last sweeps. As each row has a single
fixed point this saves time and changes nothing else. Low-density separation is the exception: there
a row has several fixed points, and stays on the side of the margin where it is.

Where the paper slips (or its author's code): :math:`E[ZZ^T]` holds the covariance of z; the bound
uses :math:`E[\log\phi]`, and the entropy of the truncated normal has its squared shift, which
together leave :math:`\log\Phi(y\eta)` after q(t) was refreshed; predictions divide by the standard
deviation of t, which holds the uncertainty of z.

An unknown label's t is integrated out exactly, so the entry adds nothing, and a row without any
label says nothing: with a factor of its own, q(z) would claim that Q had predicted it. Under
low-density separation (`margin` > 0) unknown labels are instead taken to lie outside a margin
about zero; that bound has several fixed points a row, of which the one nearest to the projection
is taken.

Of a new row, with :math:`m = \bar Q^T x` and the variances
:math:`v_s = \sigma_z^2 + x^T \Sigma_s x` of the latent position, the score t of a label has the
mean and variance

.. math:: \bar w^T m + \bar b, \qquad 1 + (1, m)\, C\, (1, m)^T + \sum_s v_s E[w_s^2]

and the label is present with the probability :math:`\Phi(E[t] / \sqrt{\mathrm{Var}[t]})`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np

from latentia.arrays.linalg import eigh, flat_matmul, spd_inverse
from latentia.arrays.namespace import (
    Array,
    asarray_like,
    eye_like,
    log_softmax,
    namespace,
    take_rows,
    to_numpy,
    transpose,
)
from latentia.engine.contracts import ConditionalFamily, QuasiNewtonFamily
from latentia.engine.rows import ArraySource, Chunk, MaskedRows, Memo, Source, TableSource, Totals, rows_per_chunk
from latentia.engine.tree import Tree
from latentia.families.blocks.bounds import GammaPrior, positive_half_line
from latentia.families.probit_embedding.labels import (
    LabelSigns,
    LabelWeightMoments,
    infer_latents,
    label_signs,
    label_weight_moments,
)
from latentia.families.probit_embedding.projection import (
    GramForm,
    KernelForm,
    ProjectionForm,
    SpectralForm,
    gram_matrix,
    project,
    scale_rows,
    weighted_sums,
)

#: Updates of the precisions of the dimensions in one step.
N_PRECISION_UPDATES = 30

#: Variance of the label weights where variational Bayes starts.
INITIAL_WEIGHT_VARIANCE = 0.01


@dataclass(frozen=True)
class PrecisionSharing:
    """Which entries of the projection (..., R, D) share a precision: those along an axis."""

    axis: int | None = None

    @property
    def isotropic(self) -> bool:
        """Whether the precision is the same for all features."""
        return self.axis == -1

    def sum_groups(self, entries: Array) -> Array:
        """Sums over the groups, with an axis of length one where they run."""
        return entries if self.axis is None else namespace(entries).sum(entries, axis=self.axis, keepdims=True)

    def group_size(self, entries: Array) -> int:
        """Entries in a group."""
        return 1 if self.axis is None else int(entries.shape[self.axis])


#: By the names users give: those of the entries, columns and rows of the matrix Q (D, R). Every
#: entry has its own (sparse entries), those of a dimension of the embedding share theirs (automatic
#: relevance determination), or those of a feature do (feature selection).
PRECISION_SHARING = {"entries": PrecisionSharing(), "columns": PrecisionSharing(-1), "rows": PrecisionSharing(-2)}


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
    weight_moments: LabelWeightMoments | tuple[()] = ()  # what `precompute` finds of the weights for a sweep


class EmbeddingStats(NamedTuple):
    """What rows add to the posteriors, but X'X."""

    cross: Array  # (..., R, D) sum of E[z] x'
    moments: Array  # (..., L, 1 + R, 1 + R) sum of E[(1, z)(1, z)'] over the rows with the label known
    target: Array  # (..., L, 1 + R) sum of E[t] (1, E[z]) over the same


class EmbeddedRows(NamedTuple):
    """Per-row posterior: the latent position z and the truncated scores t."""

    log_joint: Array  # (..., 1, N) bound of log p(y | x), without the variance of the projection
    mean: Array  # (..., N, R) of z
    covariance: Array  # (..., N or 1, R, R) of z
    target: Array  # (..., N, L) mean of t
    labels: LabelSigns


class Means(NamedTuple):
    """The means of the posteriors."""

    projection: Array  # (..., R, D)
    weights: Array  # (..., L, 1 + R)


@dataclass(frozen=True)
class ProbitEmbedding(
    ConditionalFamily[Embedding, EmbeddingStats, EmbeddedRows],
    QuasiNewtonFamily[Embedding, EmbeddingStats, EmbeddedRows],
):
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
    form : ProjectionForm, optional
        How the posterior of the projection is found from the rows that `given_rows` was given.
    """

    n_labels: int
    n_latent: int = 2
    sharing: PrecisionSharing = PRECISION_SHARING["entries"]
    prior: GammaPrior = GammaPrior()
    latent_noise: float = 1.0
    margin: float = 0.0
    form: ProjectionForm | None = None

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        return self.n_labels

    @property
    def noise(self) -> float:
        """Variance of z given x."""
        return self.latent_noise**2

    @property
    def low_density_separation(self) -> bool:
        """Whether unknown labels keep clear of the decision boundaries."""
        return self.margin > 0

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

    # What the rows say, whatever the parameters are

    @property
    def inference_iterates(self) -> bool:
        return True

    def given_rows(self, source: Source) -> ProbitEmbedding:
        """The family with the form of the projection that is cheapest for these rows."""
        if source.n_features > source.n_rows:
            form = self._form_of_few_rows(source)
        else:
            gram, isotropic = self._gram(source), self.sharing.isotropic
            form = SpectralForm.from_gram(gram, self.noise) if isotropic else GramForm(gram, self.noise)
        return replace(self, form=form)

    def _gram(self, source: Source) -> Array:
        """X'X over the rows with a label."""

        def visit(chunk: Chunk) -> Totals[str, Array]:
            return {"gram": gram_matrix(chunk.rows.values, self._row_weight(chunk))}

        return source.sum_over_chunks(visit, rows_per_chunk(2 * source.n_features, source.rows_like))["gram"]

    def _form_of_few_rows(self, source: Source) -> ProjectionForm:
        """From all rows at once, wherever they are: they are fewer than the features."""
        assert isinstance(source, TableSource)
        in_memory = source if isinstance(source, ArraySource) else source.subset(np.arange(source.n_rows))
        rows = in_memory.all_rows()
        scaled = scale_rows(rows.rows.values, self._row_weight(rows) ** 0.5)
        kind = SpectralForm if self.sharing.isotropic else KernelForm
        return kind.from_rows(scaled, self.noise)

    def _row_weight(self, chunk: Chunk) -> Array:
        """Sample weights (N,), zero where a row has no label that counts."""
        return chunk.weighted(self._signs(chunk.y, chunk.rows.values).row_counts)

    def _signs(self, y: Array, x: Array) -> LabelSigns:
        return label_signs(y, x.dtype, self.low_density_separation)

    @property
    def _known_form(self) -> ProjectionForm:
        assert self.form is not None, "the family has not been given rows"
        return self.form

    # Where variational Bayes starts

    def init(self, source: Source, rng: np.random.Generator, n_restarts: int) -> Embedding:
        """The first restart from a low-rank fit of the labels, others from random directions."""
        if self.form is None:
            return self.given_rows(source).init(source, rng, n_restarts)
        sums, form = self._label_sums(source), self.form
        xp = namespace(sums.cross)
        unit_precision = xp.ones_like(sums.cross[:1, :1] if self.sharing.isotropic else sums.cross[:1, :])
        cross, weights = label_directions(
            lambda targets: form.posterior(unit_precision, targets).mean, sums, self.n_latent, rng, n_restarts
        )
        ones = xp.ones_like(self.sharing.sum_groups(cross))
        rate = ones * (self.prior.shape + self.sharing.group_size(cross) / 2)  # a mean precision of one
        weights_cov = xp.zeros_like(weights)[..., None] + INITIAL_WEIGHT_VARIANCE * eye_like(weights.shape[-1], cross)
        log_det = xp.sum(xp.log(xp.linalg.diagonal(weights_cov)), axis=-1)
        return self._embedding(rate, cross, weights, weights_cov, log_det, xp.ones_like(weights))

    def _label_sums(self, source: Source) -> LabelSums:
        """The totals of the labels of all rows."""

        def visit(chunk: Chunk) -> Totals[str, LabelSums]:
            x, weight = chunk.rows.values, self._row_weight(chunk)[:, None]
            signs = self._signs(chunk.y, x).sign
            xp = namespace(signs)
            sign, known = signs * weight, xp.abs(signs) * weight
            sums = transpose(x.T @ sign), transpose(x.T @ known), xp.sum(sign, axis=0), xp.sum(known, axis=0)
            return {"sums": LabelSums(*sums)}

        return source.sum_over_chunks(visit, rows_per_chunk(4 * source.n_features, source.rows_like))["sums"]

    # Rows

    def precompute(self, params: Embedding) -> Embedding:
        return params._replace(weight_moments=label_weight_moments(params.weights, params.weights_cov))

    def infer(
        self, params: Embedding, rows: MaskedRows, y: Array | None = None, memo: Memo | None = None
    ) -> EmbeddedRows:
        assert y is not None
        labels, prior_mean = self._signs(y, rows.values), project(params.projection, rows.values)
        past = cast("PastMeans | None", memo.get("means")) if memo else None
        past = past if past is not None and past.newest.shape == prior_mean.shape else None
        warm_start = None if past is None else past.newest if self.low_density_separation else past.ahead
        moments = params.weight_moments or label_weight_moments(params.weights, params.weights_cov)
        latents = infer_latents(moments, prior_mean, labels, self.noise, self.margin, warm_start)
        if memo is not None:
            memo["means"] = PastMeans(latents.mean, None if past is None else past.newest)
        covariance, log_det = spd_inverse(latents.precision)
        score = (latents.value - (log_det + self.n_latent * math.log(self.noise)) / 2) * labels.row_counts
        return EmbeddedRows(score[..., None, :], latents.mean, covariance, latents.target, labels)

    def statistics(self, params: Embedding, rows: MaskedRows, posterior: EmbeddedRows, weight: Array) -> EmbeddingStats:
        mean, entry_counts = posterior.mean, posterior.labels.entry_counts
        xp = namespace(mean)
        weight = weight[..., 0, :] * posterior.labels.row_counts
        with_one = xp.concat([xp.ones_like(mean[..., :1]), mean], axis=-1)
        counts = transpose(entry_counts * weight[..., None])  # (..., L, N)
        # one line of counts for several rows: all labels count the same ones
        alike = entry_counts.shape[0] < mean.shape[-2]
        moments = _second_moments(
            with_one, posterior.covariance, weight, counts[..., :1, :] if alike else counts, alike
        )
        moments = xp.broadcast_to(moments, (*mean.shape[:-2], counts.shape[-2], *moments.shape[-2:]))
        target = xp.matmul(counts * transpose(posterior.target), with_one)
        return EmbeddingStats(weighted_sums(weight[..., None] * mean, rows.values), moments, target)

    # Posteriors

    def precision(self, params: Embedding) -> Array:
        """Expected precisions of the projection's entries, (..., R or 1, D or 1)."""
        return self.prior.precision(params.rate, self.sharing.group_size(params.projection))

    def update(self, params: Embedding, stats: EmbeddingStats) -> Embedding:
        rate = self._iterate_precisions(self.prior.rate + params.second_moments / 2, stats.cross)
        weights_rate = self.prior.rate + second_moment(params.weights, params.weights_cov) / 2
        eye = eye_like(weights_rate.shape[-1], rate)
        precision = eye * self.prior.precision(weights_rate, 1)[..., None] + stats.moments
        weights_cov, log_det = spd_inverse(precision)
        weights = namespace(rate).matmul(weights_cov, stats.target[..., None])[..., 0]
        return self._embedding(rate, stats.cross, weights, weights_cov, -log_det, weights_rate)

    def _iterate_precisions(self, rate: Array, cross: Array) -> Array:
        """Rates after turns of updating the precisions and the projection, where that costs little.

        One update for each sweep would creep if D is much larger than N.
        """
        form = self._known_form
        if not isinstance(form, SpectralForm):
            return rate
        squares = flat_matmul(cross, form.basis) ** 2
        for _ in range(N_PRECISION_UPDATES):
            precision = self.prior.precision(rate, self.sharing.group_size(cross))
            rate = self.prior.rate + form.second_moments(precision, squares) / 2
        return rate

    def _embedding(
        self, rate: Array, cross: Array, weights: Array, weights_cov: Array, weights_log_det: Array, weights_rate: Array
    ) -> Embedding:
        """The posterior of the projection under precisions of these rates, and the others."""
        precision = self.prior.precision(rate, self.sharing.group_size(cross))
        mean, covariance, variance, log_det = self._known_form.posterior(precision, cross)
        second_moments = self.sharing.sum_groups(mean * mean + variance)
        projection = mean, covariance, log_det, second_moments, rate
        return Embedding(*projection, weights, weights_cov, weights_log_det, weights_rate)

    def log_prior(self, params: Embedding) -> Array:
        """Minus the divergence of the posteriors from their priors, and what the variance of the
        projection takes off the bound of all rows.
        """
        xp = namespace(params.projection)
        n_latent, n_features = params.projection.shape[-2:]
        columns_per_covariance = n_latent // params.log_det.shape[-1]
        group_size = self.sharing.group_size(params.projection)
        of_projection = xp.sum(self.prior.log_prior(params.rate, group_size, params.second_moments), axis=(-2, -1))
        entropy = columns_per_covariance * xp.sum(params.log_det, axis=-1) / 2 + n_latent * n_features / 2
        square = second_moment(params.weights, params.weights_cov)
        of_weights = xp.sum(self.prior.log_prior(params.weights_rate, 1, square), axis=(-2, -1))
        log_dets = xp.sum(params.weights_log_det, axis=-1) / 2
        n_weights = params.weights.shape[-2] * params.weights.shape[-1]
        variance = columns_per_covariance * xp.sum(self._known_form.total_variance(params.covariance), axis=-1)
        divergence = of_projection + entropy + of_weights + log_dets + n_weights / 2
        return divergence - variance / (2 * self.noise)

    # Steps of the means

    def to_free(self, params: Embedding) -> Means:
        """The means of the projection and of the label weights."""
        return Means(params.projection, params.weights)

    def from_free(self, free: Tree, params: Embedding) -> Embedding:
        """Posteriors with these means; the rest is that of `params`."""
        assert isinstance(free, Means)
        sum_groups, before = self.sharing.sum_groups, params.projection
        change = sum_groups(free.projection * free.projection) - sum_groups(before * before)
        second_moments = namespace(before).clip(params.second_moments + change, min=0.0)
        return params._replace(projection=free.projection, weights=free.weights, second_moments=second_moments)

    def gradient(self, params: Embedding, stats: EmbeddingStats) -> Means:
        """Gradient of the bound in the means, the rest of the posteriors being fixed."""
        xp = namespace(params.projection)
        of_projection = (stats.cross - self._known_form.times_gram(params.projection)) / self.noise
        of_weights = stats.target - xp.matmul(stats.moments, params.weights[..., None])[..., 0]
        return Means(
            of_projection - self.precision(params) * params.projection,
            of_weights - self.prior.precision(params.weights_rate, 1) * params.weights,
        )

    def precondition(self, params: Embedding, gradient: Tree) -> Means:
        """The covariances times a gradient: the plain update."""
        assert isinstance(gradient, Means)
        of_weights = namespace(gradient.weights).matmul(params.weights_cov, gradient.weights[..., None])[..., 0]
        precision = self.precision(params)
        of_projection = self._known_form.times_covariance(params.covariance, precision, gradient.projection)
        return Means(of_projection, of_weights)

    def floats_per_row(self, params: Embedding) -> int:
        n_restarts = math.prod(params.projection.shape[:-2])
        of_labels = n_restarts * (4 * (1 + self.n_latent) ** 2 + 10 * self.n_labels)
        return int(params.projection.shape[-1] + of_labels)

    # What one restart says of new rows

    def latent_means(self, params: Embedding, rows: MaskedRows) -> Array:
        """Means (N, R) of the latent positions."""
        return project(params.projection, rows.values)

    def latent_variances(self, params: Embedding, rows: MaskedRows) -> Array:
        """Variances (N, R) of the latent positions."""
        variance = self._known_form.row_variance(params.covariance, self.precision(params), rows.values)
        return self.noise + transpose(variance + namespace(variance).zeros_like(params.projection[..., :1]))

    def log_sides(self, params: Embedding, rows: MaskedRows, average_embedding: bool) -> Array:
        """Log probabilities (2, N, L) that labels are present, and that they are absent.

        They average over the posterior of the label weights and, if asked, of the embedding.
        """
        z = project(params.projection, rows.values)
        xp = namespace(z)
        mean = z @ params.weights[:, 1:].T + params.weights[:, 0]
        with_one = xp.concat([xp.ones_like(z[:, :1]), z], axis=1)
        size = with_one.shape[1]
        outer = xp.reshape(with_one[:, :, None] * with_one[:, None, :], (-1, size * size))
        variance = 1 + outer @ xp.reshape(params.weights_cov, (-1, size * size)).T
        if average_embedding:
            square = second_moment(params.weights, params.weights_cov)
            variance = variance + self.latent_variances(params, rows) @ square[:, 1:].T
        both = xp.stack([mean, -mean], axis=0)
        sides = positive_half_line((both - self.margin) / xp.sqrt(variance)).log_mass
        return log_softmax(sides, axis=0) if self.low_density_separation else sides  # given that t is outside

    def prediction_floats_per_row(self, params: Embedding) -> int:
        """Floats of workspace per row in these."""
        return self.floats_per_row(params) + params.projection.shape[-1] * params.log_det.shape[-1]


class PastMeans(NamedTuple):
    """Means of q(z) of some rows, in the last two sweeps."""

    newest: Array  # (..., N, R)
    before: Array | None

    @property
    def ahead(self) -> Array:
        """Where the rows will be, if they go on as they did."""
        return self.newest if self.before is None else 2 * self.newest - self.before

    def take_restarts(self, index: np.ndarray) -> PastMeans:
        """Those of some restarts."""
        return PastMeans(take_rows(self.newest, index), None if self.before is None else take_rows(self.before, index))


def second_moment(mean: Array, covariance: Array) -> Array:
    """E[e^2] of the entries of normal vectors."""
    return mean * mean + namespace(mean).linalg.diagonal(covariance)


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

    cross: Array  # (L, D) sum of sign x'
    features: Array  # (L, D) sum of x' over the rows with the label known
    sign: Array  # (L,)
    n_known: Array  # (L,) weighted number of such rows


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
    fitted = to_numpy(ridge(centered) @ transpose(centered))
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
