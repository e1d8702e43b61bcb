"""Small tables on which nothing cancels: uneven classes and weights, columns in units of their own, gaps, rows without a label."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Table(NamedTuple):
    X: Any
    y: np.ndarray  # as fit gets it, with unlabeled rows
    weight: np.ndarray
    new: Any  # other rows
    truth: np.ndarray  # all classes
    new_y: np.ndarray


def _rng(seed: int) -> np.random.RandomState:
    return np.random.RandomState(seed)


def _numbers(rng: np.random.RandomState, sizes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    y = np.repeat(np.arange(len(sizes)), sizes)
    centers = np.array([[0.0, 1.0, 0.4, 0.0], [1.7, -0.4, 0.0, 0.6], [0.3, -1.1, 1.6, -0.8]])[: len(sizes)]
    mix = np.array([[1.0, 0.4, 0.1, 0.0], [0.0, 0.8, 0.3, 0.2], [0.0, 0.0, 0.7, -0.3], [0.2, 0.0, 0.0, 0.9]])
    Z = centers[y] + rng.normal(size=(y.size, 4)) @ mix * np.array([1.0, 0.7, 1.4])[y][:, None]
    Z[:, 3] = np.exp(0.6 * Z[:, 3])  # skewed
    order = rng.permutation(y.size)
    return (Z * [1.0, 30.0, 0.02, 5.0] + [3.0, -50.0, 0.2, 0.0])[order], y[order]


def numbers(gaps: float = 0.12, unlabeled: float = 0.2, seed: int = 3, sizes: tuple[int, ...] = (20, 14, 9)) -> Table:
    """Four columns of numbers, the last one skewed; three classes."""
    rng = _rng(seed)
    X, truth = _numbers(rng, sizes)
    new, new_y = _numbers(rng, (5, 4, 3)[: len(sizes)])
    weight = rng.uniform(0.3, 2.5, len(X))
    y = np.where(rng.uniform(size=len(X)) < unlabeled, -1, truth)
    X[rng.uniform(size=X.shape) < gaps] = np.nan
    if gaps:
        new[rng.uniform(size=new.shape) < 0.25] = np.nan
        new[-1] = np.nan
    return Table(X, y, weight, new, truth, new_y)


def complete(seed: int = 4, sizes: tuple[int, ...] = (20, 14, 9)) -> Table:
    """The same without gaps; every row has a label."""
    return numbers(0.0, 0.0, seed, sizes)


def binary(seed: int = 5) -> Table:
    """Six columns of 0 and 1 with gaps."""
    rng = _rng(seed)

    def make(sizes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        y = rng.permutation(np.repeat(np.arange(3), sizes))
        z = rng.normal(size=(y.size, 2)) + np.array([[0, 0], [1.5, -1], [-1, 1.5]])[y]
        odds = z @ np.array([[1.5, -1.0, 0.5, 0.0, 1.0, -2.0], [0.0, 1.0, 1.0, -1.5, 0.7, 0.3]]) + [
            0,
            0.5,
            -0.5,
            1,
            0,
            0,
        ]
        X = (rng.uniform(size=odds.shape) < 1 / (1 + np.exp(-odds))).astype(float)
        X[rng.uniform(size=X.shape) < 0.1] = np.nan
        return X, y

    X, truth = make((19, 13, 8))
    new, new_y = make((4, 3, 3))
    y = np.where(rng.uniform(size=len(X)) < 0.15, -1, truth)
    return Table(X, y, rng.uniform(0.3, 2.5, len(X)), new, truth, new_y)


def mixed(seed: int = 6, n: int = 44) -> Table:
    """A data frame of all kinds of columns with gaps; classes are words."""
    import pandas as pd

    rng = _rng(seed)

    def make(n: int) -> tuple[Any, np.ndarray]:
        y = np.digitize(rng.uniform(size=n), [0.5, 0.8])
        z = rng.normal(size=n) + np.array([0.0, 1.6, -1.2])[y]
        words = np.array(["red", "blue", "green", "rare", "odd"])
        color = words[np.clip(np.round(1.2 + 0.9 * z + 0.6 * rng.normal(size=n)), 0, 4).astype(int)]
        grade = np.clip(np.round(1 + 0.8 * z + 0.5 * rng.normal(size=n)), 0, 3).astype(int)
        frame = pd.DataFrame(
            {
                "size": 20.0 + 7.0 * z + 2.0 * rng.normal(size=n),
                "price": np.exp(0.5 * z + 0.4 * rng.normal(size=n)),
                "old": pd.array(z + rng.normal(size=n) > 0, dtype="boolean"),
                "two": np.where(rng.uniform(size=n) < 0.3 + 0.2 * y, 5, 2),
                "color": color.astype(object),
                "grade": pd.Categorical.from_codes(grade, ["low", "fair", "good", "best"], ordered=True),
                "visits": rng.poisson(np.exp(0.4 + 0.4 * z)),
            }
        )
        for name in ("size", "color", "price"):
            frame.loc[rng.uniform(size=n) < 0.12, name] = None if name == "color" else np.nan
        frame.loc[rng.uniform(size=n) < 0.1, "old"] = pd.NA
        return frame, np.array(["ape", "bee", "cat"], dtype=object)[y]

    X, truth = make(n)
    new, new_y = make(11)
    y = truth.copy()
    y[rng.uniform(size=n) < 0.18] = None
    return Table(X, y, rng.uniform(0.3, 2.5, n), new, truth, new_y)


def label_matrix(seed: int = 7) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows (40, 5), labels (40, 3) with unknown entries, other rows and theirs."""
    rng = _rng(seed)
    X = rng.normal(size=(52, 5)) * [1.0, 20.0, 0.1, 3.0, 1.0] + [0.0, 7.0, 1.0, -4.0, 2.0]
    Z = (X - X.mean(0)) / X.std(0)
    scores = Z @ np.array([[1.5, 0.0, -1.0], [0.5, 1.0, 0.3], [0.0, -1.2, 0.8], [0.0, 0.4, 0.0], [-0.3, 0.0, 0.2]])
    Y = (scores + [0.2, -0.5, 0.9] + 0.5 * rng.normal(size=scores.shape) > 0).astype(int)
    known = Y[:40].copy()
    known[rng.uniform(size=known.shape) < 0.15] = -1
    return X[:40], known, X[40:], Y[40:]


def outputs(seed: int = 8, n_outputs: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows, numbers to predict, weights; other rows and their numbers."""
    rng = _rng(seed)
    X = rng.normal(size=(48, 3)) * [1.0, 15.0, 0.1] + [2.0, 0.0, -1.0]
    Z = (X - X.mean(0)) / X.std(0)
    first = np.where(Z[:, 0] > 0, 2.0 + 1.5 * Z[:, 1], -1.0 - 2.0 * Z[:, 2]) + 0.2 * rng.normal(size=48)
    second = 100.0 + 10.0 * np.abs(Z[:, 1]) + 4.0 * rng.normal(size=48)
    out = first * 3.0 + 10.0 if n_outputs == 1 else np.column_stack([first, second])
    return X[:36], out[:36], rng.uniform(0.3, 2.5, 36), X[36:], out[36:]
