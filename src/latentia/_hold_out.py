"""Rows set apart to be predicted."""

from __future__ import annotations

import numpy as np


def held_out_rows(
    labels: np.ndarray, weight: np.ndarray | None, share: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the rows that stay and of those set apart: a share of each class, rounded down, so that every class stays.

    Unlabelled rows (-1) stay, and so do rows without weight, which say nothing where they are predicted.
    """
    useful = labels >= 0 if weight is None else (labels >= 0) & (weight > 0)
    apart = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels[useful]):
        members = rng.permutation(np.flatnonzero(useful & (labels == label)))
        apart[members[: int(share * len(members))]] = True
    return np.flatnonzero(~apart), np.flatnonzero(apart)
