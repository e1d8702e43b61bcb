"""Tables that users hand in: validated, as arrays of numbers or, with text and categories, as they
are; refused where no estimator can read them.

Warnings of what can be read and is yet unlikely to be meant: columns without a known number or
with a few that are far from all others; a single class, or a target that is among the columns.

A column splits at the middle between its least and its largest number. Let the larger part have the
range r. The cells of the other part are far if the parts are more than `FAR` r apart, as 9999 among
ages is: they set the scale of a column that is not transformed, and cost a transformed one part of
its information.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from datetime import date
from importlib import import_module
from numbers import Real
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_numpy_array
from sklearn import get_config
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_feature_names, _check_n_features, validate_data

from latentia.arrays.namespace import Array, is_sparse, namespace, stored_values, take_rows, to_numpy
from latentia.engine.messages import warn_at_caller
from latentia.engine.rows import Chunk, TableSource, Totals, evenly_spaced, rows_per_chunk
from latentia.table.cells import dates_in, refusal, slip_in
from latentia.table.encoder import as_numbers, check_finite
from latentia.table.frames import (
    ColumnType,
    DataFrame,
    Table,
    TableLike,
    column_dtypes,
    column_names,
    is_frame,
    is_missing,
    is_pandas,
    is_textual,
    raw_column,
)
from latentia.table.labels import LabelsLike, Mark, split_unlabeled


def validate_rows(
    estimator: BaseEstimator, X: TableLike, reset: bool, allow_text: bool = False, **options: object
) -> Array:
    """Rows as a numeric array, NaN where a cell is missing.

    Text raises an error that names an estimator accepting it.
    """
    if hasattr(X, "detach"):  # fit is not differentiable
        X = X.detach()
    X = plain_table(X)
    X = X if allow_text else _with_nan(X)
    try:
        rows = validate_data(estimator, X, reset=reset, dtype="numeric", ensure_all_finite="allow-nan", **options)
        return rows.astype(np.float64) if is_textual(rows) and not allow_text else rows  # some text passes there
    except (TypeError, ValueError) as error:
        if "infinity" in str(error) and is_frame(X):
            for place, name in enumerate(column_names(X)):
                check_finite(as_numbers(raw_column(X, place), name), name)
        _refuse_objects(type(estimator).__name__, X, is_classifier(estimator), error)
        raise


def _with_nan(X: TableLike) -> TableLike:
    """X with NaN wherever an object is missing: scikit-learn takes NA of pandas for no number."""
    if isinstance(X, np.ndarray) and X.dtype == object:
        return np.where(is_missing(X), np.nan, X)
    if not is_pandas(X):
        return X
    table = X.copy(deep=False)
    for place, dtype in enumerate(X.dtypes):
        if dtype.kind == "O" and str(dtype) != "category":
            column = X.iloc[:, place]
            table.isetitem(place, column.astype(object).where(column.notna(), np.nan))
    return table


def _refuse_objects(who: str, X: TableLike, has_alternative: bool, error: Exception) -> None:
    """Say which columns hold what is no number, if any do, and what to do about it."""
    found = _strange_cells(X)
    texts = [(name, cell, column) for name, cell, column in found if isinstance(cell, str | bytes)]
    if texts:
        slips = [slip_in(column) for _, _, column in texts]
        shown = [
            f"column {name!r}: {repr(cell) if slip is None else slip.text}"
            for (name, cell, _), slip in zip(texts, slips, strict=True)
        ]
        if all(slips):
            cure = "correct such cells, or make them missing, for example by pandas.to_numeric(..., errors='coerce')"
            instead = ""
        else:
            cure = "encode such columns first, for example with scikit-learn's OneHotEncoder"
            instead = "; a LatentClassificationModel takes data frames and object arrays with text"
        raise ValueError(
            f"X holds text in {'; '.join(shown)}. {who} takes numbers here: {cure}{instead if has_alternative else ''}."
        ) from error
    dates = [dates_in(name, type(cell).__name__) for name, cell, _ in found if isinstance(cell, date)]
    if dates:
        raise refusal(dates) from error
    name, cell, _ = found[0] if found else (None, None, None)
    if cell is not None and not isinstance(cell, complex):
        raise TypeError(
            f"column {name!r} of X holds a {type(cell).__name__}, {cell!r}: argument must be a string or a number; "
            f"{who} takes numbers."
        ) from error


def plain_table(X: TableLike, allow_dates: bool = False) -> TableLike:
    """X without a mask, its masked cells missing; refuses tables that no estimator can read, and
    says what to do.

    Columns of dates may pass, for who refuses them together with others.
    """
    if hasattr(X, "to_native") and type(X).__module__.startswith("narwhals"):  # a frame around one of another library
        X = X.to_native()
    if type(X).__name__ == "RecordBatch":
        X = import_module("pyarrow").Table.from_batches([X])
    if type(X).__name__ == "LazyFrame":
        raise TypeError("X is a lazy frame, which has no rows yet: call .collect() first.")
    if is_frame(X):
        _check_frame(X, allow_dates)
        return X
    _refuse_no_table(X)
    if np.ma.isMaskedArray(X):
        return np.ma.filled(X.astype(np.float64 if X.dtype.kind in "biu" else X.dtype), np.nan)
    if isinstance(X, Sequence):
        lengths = sorted({len(row) for row in X if isinstance(row, list | tuple)})
        if len(lengths) > 1:
            raise ValueError(f"X has rows of {lengths[0]} and of {lengths[-1]} cells: all rows must be equally long.")
    elif getattr(getattr(X, "dtype", None), "kind", None) in ("M", "m"):
        raise refusal([dates_in(0, str(X.dtype))])
    _check_dimensions(X)
    return X


def _refuse_no_table(X: object) -> None:
    """Refuse names of files, nothing, and records."""
    if X is None:
        raise ValueError("X is None; allowed is a table: a data frame, or an array of rows and columns.")
    if isinstance(X, str | bytes | PathLike):
        raise ValueError(f"X={X!r} is no table. If it names a file, read it first, for example by pandas.read_csv.")
    if isinstance(X, Mapping) and not is_sparse(X):  # a sparse matrix may be a dict of its cells
        raise TypeError("X is a dict: pass a data frame, for example pandas.DataFrame(X).")
    if isinstance(X, list | tuple) and X and isinstance(X[0], Mapping):
        raise TypeError("X is a list of dicts: pass a data frame, for example pandas.DataFrame(X).")


def check_order(X: object, y: object) -> None:
    """Refuse labels where the rows belong, and rows where the labels do; tell of labels whose rows
    have the same names in another order.
    """
    warn_of_other_order(X, y)
    shapes = [tuple(getattr(values, "shape", ())) for values in (X, y)]
    if len(shapes[0]) == 1 and len(shapes[1]) == 2 and shapes[1][1] > 1:
        raise ValueError(
            f"Expected 2D array, got 1D array instead: X has shape {shapes[0]} and y has shape {shapes[1]}. Were they "
            "swapped? The table comes first: fit(X, y)."
        )


def warn_of_other_order(X: object, y: object) -> None:
    """Rows and labels are matched by position: an index in another order is likely a slip."""
    indices: list[Any] = [getattr(values, "index", None) for values in (X, y)]
    if any(type(index).__module__.split(".")[0] != "pandas" for index in indices) or indices[0].equals(indices[1]):
        return
    rows, labels = indices
    if len(rows) == len(labels) and rows.is_unique and rows.isin(labels).all():
        warn_at_caller(
            "X and y have the same index in another order, and are matched by position: if their rows belong together "
            "by name, pass y.loc[X.index]."
        )


def _check_dimensions(X: TableLike) -> None:
    """Refuse a single column or row without an axis of its own."""
    shape = getattr(X, "shape", None)
    if isinstance(X, list | tuple) and X and all(isinstance(v, str | Real) or v is None for v in X):
        shape = (len(X),)
    if shape is None or len(shape) != 1:
        return
    if hasattr(X, "to_frame"):
        cure = "X.to_frame() is a table of one column; a single row of a frame is frame.iloc[[0]]"
    else:
        cure = "array.reshape(-1, 1) is a table of one column, array.reshape(1, -1) one of a single row"
    raise ValueError(
        f"Expected 2D array, got 1D array instead: X has shape {tuple(shape)}, and a table has rows and columns. "
        f"Reshape your data: {cure}."
    )


def _check_frame(X: DataFrame, allow_dates: bool) -> None:
    """Refuse data frames without columns, with several of one name, or with dates."""
    names = column_names(X)
    if not names:
        raise ValueError(
            f"Found array with 0 feature(s) (shape={X.shape}) while a minimum of 1 is required: X has no column."
        )
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ValueError(f"X has several columns of the name {twice[0]!r}: give each column a name of its own.")
    dtypes = [str(dtype) for dtype in column_dtypes(X)]
    dates = [dates_in(name, dtype) for name, dtype in zip(names, dtypes, strict=True) if ColumnType(dtype).is_date]
    if dates and not allow_dates:
        raise refusal(dates)


#: A method of an estimator, the first argument of which is a table.
def rows_for_estimator(X: Array) -> Array:
    """Rows as an estimator inside another takes them: in NumPy, unless dispatch is on."""
    return X if get_config()["array_api_dispatch"] or is_sparse(X) else to_numpy(X)


def reject_missing(estimator: BaseEstimator, X: Array) -> None:
    """Discriminative models reject missing values, and say what to put before them."""
    values = stored_values(X)
    xp = namespace(values)
    if xp.isdtype(values.dtype, "real floating") and bool(xp.any(xp.isnan(values))):
        who = type(estimator).__name__
        instead = ", or use GaussianMixtureClassifier or LatentClassificationModel, which take missing cells"
        raise ValueError(
            f"X has missing cells (NaN), which {who} cannot use: put an imputer before it in a pipeline, as in "
            f"make_pipeline(SimpleImputer(), {who}()){instead if is_classifier(estimator) else ''}."
        )


def _strange_cells(X: TableLike) -> list[tuple[Hashable, object, list[Hashable]]]:
    """Columns with a cell that is no number: their names, the first such cell, all known cells."""
    try:
        cells = np.asarray(X, dtype=object)
    except (TypeError, ValueError):  # an array on a device; rows of different lengths
        return []
    if cells.ndim != 2:
        return []
    found = []
    for name, column in zip(column_names(X) if hasattr(X, "shape") else range(cells.shape[1]), cells.T, strict=False):
        known = column[~is_missing(column)].tolist()
        strange = next((cell for cell in known if not _is_float(cell)), None)
        if strange is not None:
            found.append((name, strange, known))
    return found


def _is_float(cell: Any) -> bool:
    try:
        float(cell)
    except (TypeError, ValueError):
        return False
    return True


def validate_table(estimator: BaseEstimator, X: TableLike, reset: bool) -> Table:
    """A numeric array, or a table of text and numbers as it is."""
    X = plain_table(X, allow_dates=reset)  # whoever learns the columns refuses all at once
    X = _as_array(X) if isinstance(X, Sequence) else X
    if not is_frame(X) and not (is_textual(X) and X.ndim == 2):
        return validate_rows(estimator, X, reset, allow_text=True)
    if reset or column_names(X) != list(getattr(estimator, "feature_names_in_", ())):
        _check_feature_names(estimator, X, reset=reset)
        _check_n_features(estimator, X, reset=reset)
    if X.shape[0] == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    return X


def _as_array(rows: Sequence[Sequence[object]]) -> np.ndarray:
    """Rows of cells as an array, in which numbers beside text stay numbers."""
    found = np.asarray(rows)
    return np.asarray(rows, dtype=object) if found.dtype.kind in "US" else found


def is_complete(rows: TableSource, weight_sum: Array) -> bool:
    """Whether no cell is missing. Weights may hide one in the sums: then all rows are read."""
    if not rows.is_weighted:
        return bool(namespace(weight_sum).all(weight_sum == float(rows.n_rows)))
    size = rows_per_chunk(2 * rows.n_features, rows.rows_like)
    return not rows.sum_over_chunks(_count_gaps, size)["chunks with gaps"]


def _count_gaps(chunk: Chunk) -> Totals:
    return {"chunks with gaps": int(chunk.rows.observed is not None)}


#: Ranges of the other cells by which far ones are away from them.
FAR = 50

#: Rows that tell which columns are worth a look at all cells, and columns that a warning names.
N_LOOK, MAX_NAMED = 2000, 5

CURE = "If such cells stand for missing values, make gaps of them; if they are right, clip or transform the column."


class FarCells(NamedTuple):
    """Cells of a column that are far from the others."""

    values: list[float]  # different ones
    n_far: int
    n_known: int

    def __str__(self) -> str:
        more = len(self.values) - 1
        others = f" and {more} other value{'s' * (more > 1)}" if more else ""
        return f"holds {self.values[0]:.15g}{others} in {self.n_far} of {self.n_known} known cells"


def warn_of_empty_columns(names: Sequence[Hashable], is_empty: np.ndarray) -> None:
    """Warn of columns that have no known value and count nothing."""
    empty = [name for name, lacks in zip(names, is_empty.tolist(), strict=True) if lacks]
    if empty:
        which = f"Column {empty[0]!r} has" if len(empty) == 1 else f"Columns {empty} have"
        warn_at_caller(f"{which} no known value and {'is' if len(empty) == 1 else 'are'} ignored.")


def warn_of_far_cells(
    X: Array, weight: np.ndarray | None, std: np.ndarray, names: Sequence[Hashable], is_number: np.ndarray
) -> None:
    """Warn of columns of numbers in which few cells are far from the others."""
    counted = np.arange(X.shape[0]) if weight is None else np.flatnonzero(np.asarray(weight) > 0)
    look = to_numpy(take_rows(X, counted[evenly_spaced(counted.size, N_LOOK)])).astype(float)
    found = {}
    for place in np.flatnonzero(is_number).tolist():
        cells = look[:, place]
        known = cells[~np.isnan(cells)]
        if known.size and 0 < np.subtract(*np.quantile(known, [0.75, 0.25])) < std[place]:
            found[place] = far_cells(to_numpy(X[:, place])[counted].astype(float))
    shown = {names[place]: far for place, far in found.items() if far is not None}
    if shown:
        named = list(shown)[:MAX_NAMED]
        more = f"; {len(shown) - len(named)} more columns do the like" if len(shown) > len(named) else ""
        away = f"more than {FAR} times as far from the other cells as these are from each other"
        warn_at_caller(
            f"{'; '.join(f'column {name!r} of X {shown[name]}' for name in named)}{more}, {away}. {CURE}",
            in_search=f"columns of X, such as {named[0]!r}, hold cells that are {away}. {CURE}",
        )


def far_cells(cells: np.ndarray) -> FarCells | None:
    """The cells that are far from the others of a column, if any."""
    known = cells[~np.isnan(cells)]
    if not known.size:
        return None
    is_high = known > 0.5 * known.min() + 0.5 * known.max()
    is_far = is_high if 2 * is_high.sum() < known.size else ~is_high
    near, far = known[~is_far], known[is_far]
    if not near.size or not far.size:
        return None
    span = near.max() - near.min()
    distance = max(far.min() - near.max(), near.min() - far.max())
    return FarCells(np.unique(far).tolist(), far.size, known.size) if distance > FAR * span > 0 else None


#: Labeled rows below which a column may equal the labels by chance, and those looked at first.
ENOUGH, FIRST = 20, 50


def warn_of_labels(X: TableLike | None, y: LabelsLike, classes: np.ndarray, unlabeled: Mark) -> None:
    """Warn of labels that teach nothing; X and y are as the user passed them, X is None where it is
    not in memory.
    """
    if len(classes) == 1:
        warn_at_caller(
            f"y has a single class, {classes.tolist()[0]!r}: every row will be predicted to be of it, with probability "
            "1. Two classes are needed to learn what tells them apart."
        )
    if X is None or is_sparse(X) or len(classes) < 2:
        return
    X = plain_table(X)
    if not is_frame(X):
        X = X if hasattr(X, "ndim") else np.asarray(X)
        if not is_numpy_array(X):  # an array on a device stays there
            return
    _warn_of_leaked_target(X, y, unlabeled)


def _warn_of_leaked_target(X: Table, y: LabelsLike, unlabeled: Mark) -> None:
    """A column that equals the labels, row by row."""
    labels, is_unlabeled, _ = split_unlabeled(y, X.shape[0], unlabeled, warn=False)
    rows = np.flatnonzero(~is_unlabeled)
    if rows.size < ENOUGH:
        return
    look = np.unique(np.linspace(0, rows.size - 1, FIRST).astype(int))  # tables may be sorted by their classes
    head = _safe_indexing(X, rows[look])
    places = [k for k in range(X.shape[1]) if _are_equal(head, k, labels[look])]
    if not places:
        return
    labeled = _safe_indexing(X, rows)
    for place in places:
        if _are_equal(labeled, place, labels):
            name, cure = column_names(X)[place], "Leave it out, unless it is known of new rows, too."
            warn_at_caller(
                f"column {name!r} of X equals y in all {rows.size} labeled rows: is it the target? {cure}",
                in_search=f"column {name!r} of X equals y in all labeled rows: is it the target? {cure}",
            )


def _are_equal(X: Table, place: int, labels: np.ndarray) -> bool:
    """Whether a column holds the labels, without a gap."""
    cells, wanted = raw_column(X, place), labels.tolist()
    if is_missing(cells).any():
        return False
    found = cells.tolist()
    return found[0] == wanted[0] and found == wanted
