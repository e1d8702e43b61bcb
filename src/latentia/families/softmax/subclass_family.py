"""What both inferences of the multimodal softmax share: classes that are unions of subclasses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latentia.arrays.namespace import Array, asarray_like, exp_flush_underflow, logsumexp, namespace, one_hot
from latentia.engine.contracts import ConditionalFamily
from latentia.families.building_blocks.example_data import make_example_rows


@dataclass(frozen=True)
class SubclassFamily(ConditionalFamily):
    """A softmax over subclasses, each of which belongs to one class.

    Parameters
    ----------
    n_subclasses : tuple of int
        Subclasses of each class.
    """

    n_subclasses: tuple[int, ...]

    @property
    def n_classes(self) -> int:  # type: ignore[override]
        return len(self.n_subclasses)

    @property
    def class_of_subclass(self) -> np.ndarray:
        """The class (S,) of each subclass."""
        return np.repeat(np.arange(self.n_classes), self.n_subclasses)

    def example_rows(self, rng: np.random.Generator, n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
        """Complete rows, every one with a label."""
        return make_example_rows(rng, n_rows, n_features, self.n_classes)

    def given_label(self, scores: Array, y: Array) -> tuple[Array, Array]:
        """Log-sum-exp (..., N) over the label's subclasses, and their posterior (..., S, N)."""
        xp = namespace(scores)
        own = one_hot(y, self.n_classes, scores.dtype)
        if max(self.n_subclasses) == 1:  # the label says which subclass
            return xp.sum(own * scores, axis=-2), own + xp.zeros_like(scores)
        class_of_subclass = asarray_like(self.class_of_subclass, scores, dtype=xp.int64)
        own = xp.take(own, class_of_subclass, axis=0) > 0
        allowed = xp.where(own, scores, xp.full_like(scores, -float("inf")))
        log_sum = logsumexp(allowed, axis=-2)
        return log_sum, exp_flush_underflow(allowed - log_sum[..., None, :])
