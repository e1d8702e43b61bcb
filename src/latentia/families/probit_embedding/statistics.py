"""What rows add to the update of the posteriors: sums over the rows with a label known."""

from __future__ import annotations

from array_api_compat import device

from latentia.arrays.namespace import Array, namespace, transpose
from latentia.families.probit_embedding.row_products import weighted_sums
from latentia.families.probit_embedding.values import EmbeddedRows, EmbeddingStats


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
