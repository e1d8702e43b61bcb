"""Random rows of each label, the same ones wherever the rows live.

Every row has a random key that depends on a seed and on its number in the table alone: the waiting
time of an event whose rate is the row's weight. The rows with the least keys are a sample without
replacement, drawn by weight (Efraimidis & Spirakis 2006). So each part of a table draws for itself,
and the least keys of all parts together are those of the whole table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

#: Rows of each label at most: one number for all, or one for each; labels that it lacks have none.
Limits = int | Mapping[int, int]


class Draw(NamedTuple):
    """Rows drawn from one label: their keys, and their numbers in the table."""

    keys: np.ndarray
    rows: np.ndarray

    def least(self, n_rows: int) -> Draw:
        """At most so many rows, those with the least keys, in the order of the table."""
        if self.rows.size <= n_rows:
            return self
        chosen = np.sort(np.argpartition(self.keys, n_rows)[:n_rows])
        return Draw(self.keys[chosen], self.rows[chosen])


def draw_rows(
    labels: np.ndarray, weight: np.ndarray | None, n_rows: Limits, seed: int, first_row: int = 0
) -> dict[int, Draw]:
    """At most `n_rows` rows of each label; the first row is number `first_row` of the table.

    Rows without weight are never drawn.
    """
    bits = np.random.PCG64(seed)
    bits.advance(first_row)  # one number for each row of the table
    waiting = -np.log1p(-np.random.Generator(bits).random(labels.size))
    draws = {}
    for label in (np.flatnonzero(np.bincount(labels + 1)) - 1).tolist():  # codes begin at -1
        mine = labels == label
        rows = np.flatnonzero(mine if weight is None else mine & (weight > 0))
        keys = waiting[rows] if weight is None else waiting[rows] / weight[rows]
        draws[int(label)] = Draw(keys, first_row + rows).least(_limit(n_rows, label))
    return draws


def join_draws(parts: list[dict[int, Draw]], n_rows: Limits) -> dict[int, Draw]:
    """The rows drawn from the whole table, from those drawn from its parts, in order."""
    labels = sorted({label for part in parts for label in part})
    joined = {}
    for label in labels:
        draws = [part[label] for part in parts if label in part]
        keys, rows = (np.concatenate(arrays) for arrays in zip(*draws, strict=True))
        joined[label] = Draw(keys, rows).least(_limit(n_rows, label))
    return joined


def _limit(n_rows: Limits, label: int) -> int:
    return n_rows if isinstance(n_rows, int) else n_rows.get(label, 0)


def divide_by_draw(weight: np.ndarray, groups: Sequence[tuple[int, bool]]) -> np.ndarray:
    """Weights (N,) or (N, S) of rows in groups, one after the other, of which some were drawn.

    A row that was drawn by its weight has had its say: all of a group stand for as much, and
    together for what they weigh. Where each restart has its own weights, the mean has drawn.
    """
    weight, end = weight.astype(float), 0
    for size, was_drawn in groups:
        begin, end = end, end + size
        if was_drawn:
            mine = weight[begin:end].reshape(size, -1)
            drawn_by = mine.mean(axis=1, keepdims=True)
            weight[begin:end] = (mine * (drawn_by.mean() / drawn_by)).reshape(weight[begin:end].shape)
    return weight


def evenly_spaced(n_rows: int, n_wanted: int) -> np.ndarray:
    """At most `n_wanted` numbers of rows, spread over all of them."""
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, n_wanted)).astype(int))


def random_batches(numbers: np.ndarray, n_rows: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Numbers of rows in random order, cut into batches of about `n_rows`."""
    return np.array_split(rng.permutation(numbers), max(1, round(numbers.size / n_rows)))
