r"""What a fitted probit embedding says of rows: where they lie, and how probable their labels are.

With :math:`m = \bar Q^T x` and the variances :math:`v_s = \sigma_z^2 + x^T \Sigma_s x` of the
latent position, the score t of a label has the mean and variance

.. math:: \bar w^T m + \bar b, \qquad 1 + (1, m)\, C\, (1, m)^T + \sum_s v_s E[w_s^2]

and the label is present with the probability :math:`\Phi(E[t] / \sqrt{\mathrm{Var}[t]})`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from latentia.arrays.namespace import Array, log_softmax, namespace, to_numpy
from latentia.engine.rows import Preprocessor, map_rows
from latentia.engine.sweep import rows_per_chunk
from latentia.families.blocks.bounds import positive_half_line
from latentia.families.probit_embedding.family import Embedding, ProbitEmbedding, second_moment
from latentia.families.probit_embedding.projection import project

#: A dimension is effective if it carries this share of the variance of the labels' scores.
MIN_EFFECTIVE_SHARE = 0.01


class FittedEmbedding(NamedTuple):
    """All that predictions need."""

    family: ProbitEmbedding
    params: Embedding
    preprocessor: Preprocessor
    n_classes: int | None  # None for label matrices

    def latent_means(self, X: Array) -> Array:
        """Means (N, R) of the latent positions of raw rows."""
        return _concat(self._map_rows(X, self._mean))

    def latent_variances(self, X: Array) -> Array:
        """Variances (N, R) of the latent positions of raw rows."""
        return _concat(self._map_rows(X, self._variance))

    def log_proba(self, X: Array, average_embedding: bool) -> Array:
        """Log probabilities (N, L) that labels are present, or (N, C) of the classes.

        They average over the posterior of the label weights and, if asked, of the embedding.
        """
        return _concat(self._map_rows(X, lambda x: self._log_proba(x, average_embedding)))

    def _log_proba(self, x: Array, average_embedding: bool) -> Array:
        present, absent = self._log_sides(x, average_embedding)
        xp = namespace(present)
        if self.n_classes is None:
            return present
        if self.n_classes == 1:
            return xp.zeros_like(present)
        if self.n_classes == 2:
            return xp.concat([absent, present], axis=1)
        return log_softmax(present, axis=1)

    def _map_rows(self, X: Array, fn: Callable[[Array], Any]) -> list[Any]:
        """`fn` of the preprocessed values, chunk by chunk."""
        max_rows = rows_per_chunk(self.family.floats_per_row(self.params), self.params.projection)
        return map_rows(X, self.preprocessor, lambda rows: fn(rows.values), max_rows)

    def _mean(self, x: Array) -> Array:
        return project(self.params.projection, x)

    def _variance(self, x: Array) -> Array:
        return self.family.noise + self.family.row_variance(self.params, x).T

    def _log_sides(self, x: Array, average_embedding: bool) -> tuple[Array, Array]:
        """Log probabilities (n, L) that labels are present, and that they are absent."""
        mean, std = self._scores(x, average_embedding)
        margin = self.family.margin
        present, absent = (positive_half_line((sign * mean - margin) / std).log_mass for sign in (1, -1))
        if not self.family.low_density_separation:
            return present, absent
        sides = log_softmax(namespace(mean).stack([present, absent], axis=0), axis=0)  # given that t is outside
        return sides[0, ...], sides[1, ...]

    def _scores(self, x: Array, average_embedding: bool) -> tuple[Array, Array]:
        """Means and standard deviations (n, L) of the scores t."""
        params = self.params
        z = self._mean(x)
        xp = namespace(z)
        mean = z @ params.weights[:, 1:].T + params.weights[:, 0]
        with_one = xp.concat([xp.ones_like(z[:, :1]), z], axis=1)
        size = with_one.shape[1]
        outer = xp.reshape(with_one[:, :, None] * with_one[:, None, :], (-1, size * size))
        variance = 1 + outer @ xp.reshape(params.weights_cov, (-1, size * size)).T
        if average_embedding:
            square = second_moment(params.weights, params.weights_cov)
            variance = variance + self._variance(x) @ square[:, 1:].T
        return mean, xp.sqrt(variance)


def _concat(parts: list[Array]) -> Array:
    return namespace(parts[0]).concat(parts, axis=0)


def learned_attributes(model: FittedEmbedding) -> dict[str, Any]:
    """What users may look at, as the estimator documents it."""
    params = model.params
    xp = namespace(params.projection)
    projection, weights = xp.matrix_transpose(params.projection), params.weights[:, 1:]
    weight_squares = xp.sum(weights**2, axis=0)  # (R,)
    relevance = projection**2 @ weight_squares
    smallest = float(xp.finfo(relevance.dtype).smallest_normal)
    variance = to_numpy(xp.sum(params.projection**2, axis=1) * weight_squares)  # of the scores, by dimension
    return {
        "_model": model,
        "n_latent_": model.family.n_latent,
        "n_effective_latent_": int((variance > MIN_EFFECTIVE_SHARE * variance.sum()).sum()),
        "projection_": projection,
        "weights_": weights,
        "intercepts_": params.weights[:, 0],
        "weights_covariance_": params.weights_cov,
        "precisions_": xp.matrix_transpose(model.family.precision(params)),
        "feature_shift_": model.preprocessor.shift,
        "feature_scale_": model.preprocessor.scale,
        "feature_relevance_": relevance / xp.clip(xp.sum(relevance), min=smallest),
    }
