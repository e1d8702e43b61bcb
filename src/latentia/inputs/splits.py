"""Cross-validation folds and held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold

from latentia.arrays.namespace import Array, asarray_like, namespace, to_numpy
from latentia.inputs.options import check_number

#: Row numbers of the training part and of the test part.
Fold = tuple[np.ndarray, np.ndarray]

ALLOWED = (
    "allowed are None (5 folds), an integer >= 2, a splitter with a method split, and pairs of training and test "
    "rows: row numbers of X, or masks"
)


def refuse_row_numbers(cv: Any) -> None:
    """Folds of a sample cannot be told by the numbers of the rows of a table in parts."""
    if not (cv is None or isinstance(cv, int | np.integer) or hasattr(cv, "split")):
        raise ValueError(
            f"cv is a {type(cv).__name__} that names rows, but X is a large table in parts, of which a sample is "
            "searched: allowed are None, an integer and a splitter with a method split."
        )


def make_folds(
    cv: Any,
    codes: np.ndarray,
    weight: np.ndarray | None,
    draw_seed: Callable[[], Any],
    groups: np.ndarray | None = None,
) -> list[Fold]:
    """Row numbers of each fold's parts, from any form of `cv`; the seed is drawn only if it is a
    number of folds.

    A splitter sees the labeled rows of positive weight alone; given pairs name rows of the whole
    table.
    """
    counted = np.ones(codes.shape, bool) if weight is None else weight > 0
    labeled = counted & (codes >= 0)
    scored, unlabeled = np.flatnonzero(labeled), np.flatnonzero(counted & ~labeled)
    cv = 5 if cv is None else cv
    if isinstance(cv, int | np.integer):
        cv = _shuffled(cv, codes[scored], draw_seed)
    if isinstance(cv, str | bytes) or not (hasattr(cv, "split") or isinstance(cv, Iterable)):
        raise ValueError(f"cv={cv!r}; {ALLOWED}.")
    if hasattr(cv, "split"):
        seen = None if groups is None else groups[scored]
        pairs = cv.split(np.zeros((scored.size, 1)), codes[scored], seen)
        what = "the labeled rows of positive weight, which a splitter sees"
        folds = [(scored[a], scored[b]) for a, b in (_parts(pair, scored.size, what) for pair in pairs)]
    else:
        folds = [_parts(pair, codes.size, "the rows of X") for pair in cv]
    if not folds:
        raise ValueError(f"cv={cv!r} has no folds; {ALLOWED}.")
    folds = [(train[labeled[train]], test[labeled[test]]) for train, test in folds]
    for place, parts in enumerate(folds):
        for name, part in zip(("training", "test"), parts, strict=True):
            if part.size == 0:
                raise ValueError(
                    f"cv: the {name} part of fold {place} has no labeled row of positive weight; "
                    "allowed are parts with at least one."
                )
    return [(np.sort(np.concatenate([train, unlabeled])), test) for train, test in folds]


def sum_of_cubes(values: Array, weight: np.ndarray) -> np.ndarray:
    """Of each column (D,), rows counting by their weight; those without may hold numbers of any
    size.
    """
    counted = weight > 0
    return np.asarray(weight[counted] @ to_numpy(values)[counted].astype(float) ** 3)


def content_keys(values: Array, cubes: Array, power: int = 1) -> np.ndarray:
    """A number (N,) for the content of each row (N, D), whatever the order of the columns.

    Cells are added up, each column times a factor of its own by which rows of codes differ that
    hold the same codes in other columns: a function of the mean of its cubes (D,).
    """
    xp = namespace(values)
    factors = xp.exp(xp.tanh(asarray_like(cubes, values, dtype=values.dtype)))
    return np.round(to_numpy(xp.sum(values**power * factors, axis=-1)).astype(float), 5)


def folds_by_content(
    key: np.ndarray, codes: np.ndarray, weight: np.ndarray | None, n_folds: int, seed: int = 0
) -> np.ndarray:
    """The fold of each row by its content, of which `key` is a number; -1 for unlabeled rows and
    for classes that would be in one fold alone.

    Contents are shuffled by their rank, and those whose rows are mostly of one class dealt out in
    that order: classes are spread evenly, equal rows share a fold whatever their class, and the
    order of rows and of classes does not matter. Ranks dealt out as they come would leave beside
    each held-out row its neighbors of the same class, and chance would look like knowledge.
    """
    folds, labeled = np.full(codes.size, -1), np.flatnonzero(codes >= 0)
    if not labeled.size:
        return folds
    contents, rank = np.unique(key[labeled], return_inverse=True)
    weighed = np.ones(labeled.size) if weight is None else weight[labeled]
    _, mine = np.unique(codes[labeled], return_inverse=True)
    counts = np.zeros((contents.size, mine.max() + 1))
    np.add.at(counts, (rank, mine), weighed)
    by_content = np.lexsort((contents @ counts, counts.sum(axis=0)))  # whatever the classes are called
    main_class = by_content[counts[:, by_content].argmax(axis=1)]
    shuffled = np.random.default_rng(seed).permutation(contents.size)
    fold_of_content = np.empty(contents.size, dtype=int)
    for label in range(counts.shape[1]):
        dealt = np.flatnonzero(main_class == label)
        fold_of_content[dealt[np.argsort(shuffled[dealt])]] = np.arange(dealt.size) % n_folds
    folds[labeled] = fold_of_content[rank]
    for label in range(counts.shape[1]):
        rows = labeled[mine == label]
        if (folds[rows] == folds[rows[0]]).all():
            folds[rows] = -1
    return folds


def _shuffled(n_folds: Any, codes: np.ndarray, draw_seed: Callable[[], Any]) -> Any:
    """Stratified folds, or plain ones where a class has fewer rows than there are folds."""
    check_number("cv", n_folds, ge=2, integer=True)
    if codes.size < n_folds:
        raise ValueError(
            f"cv={n_folds}, but X has n_samples={codes.size} labeled rows: allowed is at most one fold per row."
        )
    rare = np.unique(codes, return_counts=True)[1].min() < n_folds
    return (KFold if rare else StratifiedKFold)(int(n_folds), shuffle=True, random_state=draw_seed())


def _parts(pair: Any, n_rows: int, what: str) -> Fold:
    """Row numbers of the two parts, from numbers or masks."""
    try:
        train, test = pair
    except (TypeError, ValueError):
        raise ValueError(f"cv holds {pair!r}; {ALLOWED}.") from None
    return _part(train, n_rows, what), _part(test, n_rows, what)


def _part(rows: Any, n_rows: int, what: str) -> np.ndarray:
    given = np.asarray(to_numpy(rows))
    if given.ndim == 1 and given.dtype == bool and given.size == n_rows:
        return np.flatnonzero(given)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise ValueError(
            f"cv holds a part of shape {given.shape} and dtype {given.dtype}; allowed are row numbers from 0 to "
            f"{n_rows - 1}, or a mask of {what}."
        )
    numbers = given.astype(np.int64)
    outside = numbers[(numbers < 0) | (numbers >= n_rows)]
    if outside.size:
        raise ValueError(f"cv holds the row {outside[0]}; allowed are 0 to {n_rows - 1}, numbers of {what}.")
    return numbers
