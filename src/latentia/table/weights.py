"""Sample weights, class priors and loss matrices, validated once, on entry; folds and held-out rows
of cross-validation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from sklearn.model_selection import BaseCrossValidator, KFold, StratifiedKFold

from latentia.arrays.namespace import Array, asarray_like, namespace, to_numpy
from latentia.engine.messages import warn_at_caller
from latentia.table.frames import on_host
from latentia.table.options import RandomState, _numbers, check_number

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

#: What is scored, where errors speak of it.
LABELED = "row with a label"


def check_weight(
    sample_weight: ArrayLike | None,
    n_rows: int,
    codes: np.ndarray | None = None,
    classes: np.ndarray | None = None,
    may_be_zero: bool = False,
) -> np.ndarray | None:
    """Weights as float64, None where all are one; those of a part of a table may all be zero."""
    if sample_weight is None:
        return None
    weight = _numbers("sample_weight", sample_weight, "one number per row, or None")
    if weight.ndim == 0:
        weight = np.full(n_rows, float(weight))
    if weight.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {weight.shape}, but there are {n_rows} rows: one weight per row is expected."
        )
    if not np.isfinite(weight).all() or (weight < 0).any():
        bad = weight[~np.isfinite(weight) | (weight < 0)][0]
        raise ValueError(f"sample_weight holds {bad}; weights must be finite and not negative.")
    if not may_be_zero:
        check_total_weight(float(weight.max(initial=0.0)))
    if codes is not None and classes is not None:
        warn_of_shares(weight)
        check_class_weights(np.bincount(codes[codes >= 0], weight[codes >= 0], minlength=len(classes)), classes)
    return weight


def warn_of_shares(weight: np.ndarray) -> None:
    """Say that weights count rows, where they look like shares of one: a fit to a single row in all
    stays at its prior.
    """
    n_rows, total = int(np.count_nonzero(weight)), float(np.minimum(weight, 2).sum())
    if 0 < total < 2 and n_rows > 10:
        warn_at_caller(
            f"sample_weight sums to {total:.3g} over {n_rows} rows. A row of weight 2 counts as that row twice, so the "
            "model learns as if from so few rows in all; multiply weights that are shares by the number of rows."
        )


def check_total_weight(total: float, of: str = "row") -> None:
    """Refuse weights that are all zero."""
    if total <= 0:
        raise ValueError(f"sample_weight is zero for every {of}; at least one {of} must have a positive weight.")


def check_class_weights(in_class: np.ndarray, classes: np.ndarray) -> None:
    """Refuse classes whose rows weigh nothing."""
    if (in_class <= 0).any():
        empty = classes.tolist()[int(np.argmin(in_class))]
        raise ValueError(
            f"sample_weight is zero for every row of class {empty!r}; "
            "drop the class from y or give a row a positive weight."
        )


#: The argument `priors` of classifiers.
PriorsLike: TypeAlias = "str | Mapping[Hashable, float] | ArrayLike"

#: How far the sum of given priors may be from one.
PRIOR_ROUNDING = 1e-6


def check_priors(priors: PriorsLike, classes: np.ndarray) -> np.ndarray | None:
    """Log class priors; None when they are to be counted."""
    n_classes = len(classes)
    allowed = (
        "'empirical', 'uniform', one positive number per class in the order of classes_, or a dict from class to number"
    )
    if isinstance(priors, str):
        if priors == "empirical":
            return None
        if priors == "uniform":
            return np.full(n_classes, -math.log(n_classes))
        raise ValueError(f"priors={priors!r}; allowed are {allowed}.")
    if isinstance(priors, Mapping):
        unknown = [c for c in priors if c not in classes.tolist()]
        if unknown:
            raise ValueError(
                f"priors names the class {unknown[0]!r}, which has no row in y. The classes are {classes.tolist()}."
            )
        absent = [c for c in classes.tolist() if c not in priors]
        if absent:
            raise ValueError(f"priors has no entry for class {absent[0]!r}; allowed are {allowed}.")
        priors = [priors[c] for c in classes.tolist()]
    values = _numbers("priors", priors, allowed)
    if values.shape != (n_classes,):
        raise ValueError(f"priors has shape {values.shape}, but y has {n_classes} classes; allowed are {allowed}.")
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(f"priors={values.tolist()}; allowed are {allowed}.")
    total = float(values.sum())
    if abs(total - 1) > PRIOR_ROUNDING:
        warn_at_caller(f"priors={values.tolist()} sum to {total:.6g}, not to 1: each is divided by that.")
    return np.log(values / total)


def check_loss_matrix(loss_matrix: ArrayLike | None, n_classes: int) -> np.ndarray | None:
    """Losses (true class, predicted class); None for zero-one loss."""
    if loss_matrix is None:
        return None
    loss = _numbers("loss_matrix", loss_matrix, f"None and a {n_classes} x {n_classes} matrix of numbers")
    found = f"has shape {loss.shape}" if loss.shape != (n_classes, n_classes) else ""
    if not found and not np.isfinite(loss).all():
        found = f"holds {loss[~np.isfinite(loss)][0]}"
    if found:
        raise ValueError(
            f"loss_matrix {found}; expected is a finite {n_classes} x {n_classes} matrix, row = true class, "
            "column = predicted class."
        )
    return loss


#: Row numbers of the training part and of the test part.
Fold = tuple[np.ndarray, np.ndarray]

#: The argument `cv` of searches.
FoldsLike: TypeAlias = "int | BaseCrossValidator | Iterable[tuple[ArrayLike, ArrayLike]] | None"

ALLOWED = (
    "allowed are None (5 folds), an integer >= 2, a splitter with a method split, and pairs of training and test "
    "rows: row numbers of X, or masks"
)


def refuse_row_numbers(cv: FoldsLike) -> None:
    """Folds of a sample cannot be told by the numbers of the rows of a table in parts."""
    if not (cv is None or isinstance(cv, int | np.integer) or hasattr(cv, "split")):
        raise ValueError(
            f"cv is a {type(cv).__name__} that names rows, but X is a large table in parts, of which a sample is "
            "searched: allowed are None, an integer and a splitter with a method split."
        )


def make_folds(
    cv: FoldsLike,
    codes: np.ndarray,
    weight: np.ndarray | None,
    draw_seed: Callable[[], RandomState],
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


#: Rows that weigh less than this share of the heaviest row of their class are not held out.
NEGLIGIBLE = 1e-5


def folds_by_content(
    key: np.ndarray, codes: np.ndarray, weight: np.ndarray | None, n_folds: int, seed: int = 0
) -> np.ndarray:
    """The fold of each row by its content, of which `key` is a number; -1 for unlabeled rows and
    for classes that would be in one fold alone, and for rows that weigh next to nothing.

    Contents are shuffled by their rank, and those whose rows are mostly of one class dealt out in
    that order: classes are spread evenly, equal rows share a fold whatever their class, and the
    order of rows and of classes does not matter. Ranks dealt out as they come would leave beside
    each held-out row its neighbors of the same class, and chance would look like knowledge.
    """
    folds, labeled = np.full(codes.size, -1), np.flatnonzero(codes >= 0)
    if weight is not None and labeled.size:
        heaviest = np.zeros(codes.max() + 1)
        np.maximum.at(heaviest, codes[labeled], weight[labeled])
        labeled = labeled[weight[labeled] > NEGLIGIBLE * heaviest[codes[labeled]]]
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


def _shuffled(n_folds: int | np.integer, codes: np.ndarray, draw_seed: Callable[[], RandomState]) -> BaseCrossValidator:
    """Stratified folds, or plain ones where a class has fewer rows than there are folds."""
    check_number("cv", n_folds, ge=2, integer=True)
    if codes.size < n_folds:
        raise ValueError(
            f"cv={n_folds}, but X has n_samples={codes.size} labeled rows: allowed is at most one fold per row."
        )
    rare = np.unique(codes, return_counts=True)[1].min() < n_folds
    return (KFold if rare else StratifiedKFold)(int(n_folds), shuffle=True, random_state=draw_seed())


def _parts(pair: tuple[ArrayLike, ArrayLike], n_rows: int, what: str) -> Fold:
    """Row numbers of the two parts, from numbers or masks."""
    try:
        train, test = pair
    except (TypeError, ValueError):
        raise ValueError(f"cv holds {pair!r}; {ALLOWED}.") from None
    return _part(train, n_rows, what), _part(test, n_rows, what)


def _part(rows: ArrayLike, n_rows: int, what: str) -> np.ndarray:
    given = on_host(rows)
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
