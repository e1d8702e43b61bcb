"""The plain values that a latent classification model computes with; letters as in `family`."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from latentia.arrays.namespace import Array, namespace
from latentia.engine.rows import MaskedRows
from latentia.families.latent_factors.column_layout import ColumnLayout


class FactorParams(NamedTuple):
    """Parameters of a latent classification model."""

    log_prior: Array  # (..., C)
    log_mix: Array  # (..., C, M)
    means: Array  # (..., C, q)
    variances: Array  # (..., C, q)
    loadings: Array  # (..., M, H, q)
    offsets: Array  # (..., M, H)
    noise: Array  # (..., M, G) variances; (..., 1, G) when tied
    edges: Array  # (..., H, q) ones where a loading is free, zeros where it is held at zero


class FactorSizes(NamedTuple):
    """Numbers of classes, components and latents."""

    n_classes: int  # C
    n_components: int  # M
    n_latent: int  # q


class FactorFree(NamedTuple):
    """Unconstrained coordinates: logits, and logs of what variances have above their floors.

    Class priors are counted, not searched.
    """

    logits: Array  # (..., C, M)
    means: Array  # (..., C, q)
    variances: Array  # (..., C, q)
    loadings: Array  # (..., M, H, q)
    offsets: Array  # (..., M, H)
    noise: Array  # (..., M or 1, G)


class FactorStats(NamedTuple):
    """Weighted expected sums."""

    count: Array  # (..., C, M)
    centered_sum: Array  # (..., C, q) of z - mu
    centered_square: Array  # (..., C, q) of (z - mu)^2
    gram: Array  # (..., M, 1 or G, T) of (z z', z, 1), over the observed cells of a continuous column
    cross: Array  # (..., M, G, q + 1) of x (z, 1)
    sum_x2: Array  # (..., M, G) of x^2
    bound_gram: Array  # (..., M, H - G, T) of (z z', z, 1), weighted by the bounds' curvatures
    bound_cross: Array  # (..., M, H - G, q + 1) of (z, 1), weighted by the bounds' linear coefficients

    def about(self, old: Array, new: Array) -> FactorStats:
        """The same sums about other means of the latents (..., C, q)."""
        move = new - old
        count = namespace(move).sum(self.count, axis=-1)[..., None]
        square = self.centered_square - 2 * move * self.centered_sum + count * move * move
        return self._replace(centered_sum=self.centered_sum - count * move, centered_square=square)


class TrainingLatents(Protocol):
    """The latents of some rows as far as training needs them."""

    def statistics(
        self, params: FactorParams, layout: ColumnLayout, rows: MaskedRows, weight: Array, shared_gram: bool
    ) -> FactorStats:
        """Sums weighted by (..., C, M, N); with `shared_gram`, one Gram matrix for all continuous
        columns.
        """


class LatentPosterior(TrainingLatents, Protocol):
    """The posterior of the latents of some rows, given class and component."""

    def latent_means(self, params: FactorParams, rows: MaskedRows) -> Array:
        """Means of z, (..., C, M, N, q)."""


class FactorPosterior(NamedTuple):
    """Scores of rows, and the posteriors of components and latents."""

    log_joint: Array  # (..., C, N)
    component: Array  # (..., C, M, N) p(m | x, c)
    latents: TrainingLatents
