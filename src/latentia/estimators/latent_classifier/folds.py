"""Who is held out when: folds of the labeled rows, and the rows that take part in the search."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_numpy_array

from latentia.arrays.parallel import parallel
from latentia.engine.messages import warn_at_caller
from latentia.engine.rows import RowRange, map_rows, split_ranges
from latentia.engine.sweep import rows_per_chunk
from latentia.estimators.base.generative_input import GenerativeInput
from latentia.table.options import check_number
from latentia.table.weights import ALLOWED, content_keys, folds_by_content, make_folds, sum_of_cubes

#: Rows that weigh less than this share of the heaviest row of their class are not held out.
NEGLIGIBLE = 1e-5


class SearchFold(NamedTuple):
    """Row numbers of one fold; the fold's rows are scored by models of the other rows."""

    train: np.ndarray
    test: np.ndarray


def check_cv(name: str, cv: Any) -> None:
    """What `cv` may be."""
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        check_number(name, cv, ge=2, integer=True)
    elif isinstance(cv, str | bytes) or not (cv is None or hasattr(cv, "split") or isinstance(cv, Iterable)):
        raise ValueError(f"{name}={cv!r}; {ALLOWED}.")


def search_folds(
    cv: Any, data: GenerativeInput, max_rows: int, n_repeats: int, rng: np.random.Generator
) -> list[SearchFold]:
    """The folds of a search; none where no class has rows to spare.

    A number of folds makes them by the rows' content: see `assign_folds`. At most so many labeled
    rows, and as many unlabeled ones, take part.
    """
    chosen = choose_rows(data, max_rows, rng)
    if not (cv is None or isinstance(cv, int | np.integer)):
        given = make_folds(cv, data.codes, data.weight, lambda: int(rng.integers(2**31)))
        return [SearchFold(train[chosen[train]], test[chosen[test]]) for train, test in given if chosen[test].any()]
    n_folds = 5 if cv is None else int(cv)
    rows = np.flatnonzero(chosen)
    some, folds = data.subset(rows), []
    for repeat in range(n_repeats):
        numbers = assign_folds(some, n_folds, power=repeat + 1)
        folds += [SearchFold(rows[numbers != fold], rows[numbers == fold]) for fold in range(n_folds)]
    return [fold for fold in folds if fold.test.size]


def warn_of_never_held_out(classes: np.ndarray, expected: tuple[float, float]) -> None:
    """Tell of classes that what is expected of new rows says nothing about, if it says anything."""
    if not classes.size or np.isnan(expected[0]):
        return
    names = ", ".join(map(repr, classes.tolist()[:10])) + (", ..." if classes.size > 10 else "")
    what = (
        "could not be held out, which takes two different labeled rows of a class: the expected accuracy and log loss "
        "say nothing about them."
    )
    warn_at_caller(f"rows of {names} {what}", in_search=f"rows of rare classes {what}")


def assign_folds(data: GenerativeInput, n_folds: int, power: int = 1) -> np.ndarray:
    """The fold of each row; -1 for rows that are never held out.

    By a row's weighted sum of powers: classes are spread evenly, equal rows share a fold (a row of
    weight two is that row twice, and none is predicted by its own copy), and neither units nor the
    order of rows, columns and classes matter. Unlabeled rows, rows of next to no weight and the
    only row of a class are never held out.
    """
    codes = data.codes.copy()
    if data.weight is not None:
        heaviest = np.zeros(data.n_classes)
        np.maximum.at(heaviest, codes[codes >= 0], data.weight[codes >= 0])
        codes[(codes >= 0) & (data.weight <= NEGLIGIBLE * heaviest[codes])] = -1
    return folds_by_content(_keys(data, power), codes, data.weight, n_folds, seed=power)


def _keys(data: GenerativeInput, power: int) -> np.ndarray:
    """Numbers that tell the contents of rows apart, from cells in standard units."""
    max_rows = rows_per_chunk(3 * data.X.shape[1], data.preprocessor.shift)
    weight = np.ones(data.codes.size) if data.weight is None else data.weight
    ranges = split_ranges([RowRange(0, data.codes.size, None)], max_rows)

    def of_part(rows: RowRange) -> np.ndarray:
        return sum_of_cubes(data.preprocessor(data.X[rows.as_slice, ...]).values, weight[rows.as_slice])

    cubes = sum(parallel(of_part, ranges, is_numpy_array(data.X))) / weight.sum()
    return np.concatenate(
        map_rows(data.X, data.preprocessor, lambda rows: content_keys(rows.values, cubes, power), max_rows)
    )


def choose_rows(data: GenerativeInput, max_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Which rows take part in a search: all that count, or so many labeled and unlabeled ones.

    A class keeps its share, and at least a few rows.
    """
    counts = np.ones(data.codes.size, bool) if data.weight is None else data.weight > 0
    chosen = counts.copy()
    for labels in ([-1], range(data.n_classes)):
        total = int((counts & np.isin(data.codes, list(labels))).sum())
        if total <= max_rows:
            continue
        for label in labels:
            rows = np.flatnonzero(counts & (data.codes == label))
            keep = min(rows.size, max(10, round(rows.size * max_rows / total)))
            chosen[rows] = False
            chosen[rng.choice(rows, keep, replace=False)] = True
    return chosen
