"""Labels as users pass them: classes, codes, unlabeled rows; a matrix of 0, 1 and unknown, with a
column per label or per class; continuous outputs, checked and in standard units.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d

from latentia.arrays.namespace import Array, asarray_like, is_sparse, namespace, to_numpy
from latentia.engine.messages import warn_at_caller
from latentia.table.frames import DataFrame, column_names, is_array, is_frame, is_missing, on_host

if TYPE_CHECKING:
    import pandas
    import polars

#: Labels or outputs as users pass them.
LabelsLike: TypeAlias = "Array | pandas.Series | polars.Series | DataFrame | Sequence[object]"

#: What marks an unlabeled row besides None and NaN: an integer, "auto" (-1 among integers, unless
#: -1 and 1 are all there is: then they are two classes), or None for no integer.
Mark = str | int | None

NO_LABEL = (
    "y has no label: all its entries mark unlabeled rows (-1 among integers, or what the argument unlabeled names; "
    "None and NaN). At least one row of each class must be labeled."
)


NO_Y = (
    "y=None: a classifier requires y to be passed, but the target y is None. "
    "Pass a class for each row, -1 or None for unlabeled rows."
)


LISTS_OF_LABELS = (
    "y holds lists of labels: for several labels per row, make an indicator matrix with scikit-learn's "
    "MultiLabelBinarizer and use ProbitEmbeddingClassifier."
)


def holds_lists(y: LabelsLike) -> bool:
    """Whether the entries of a list, a column or an array of objects are lists."""
    if isinstance(y, Sequence):
        return any(isinstance(v, list | tuple | set) for v in y)
    if not hasattr(y, "dtype") or len(y.shape) != 1 or not str(y.dtype).lower().startswith(("object", "list")):
        return False
    return any(isinstance(v, list | set | np.ndarray) for v in y)


def check_unlabeled(name: str, value: object) -> None:
    """ "auto", an integer or None."""
    if value is None or (isinstance(value, str) and value == "auto") or _is_integer(value):
        return
    raise ValueError(
        f"{name}={value!r}; allowed are 'auto' (-1 among integers marks an unlabeled row, unless the labels are just "
        "-1 and 1), the integer that marks an unlabeled row, and None (no integer does)."
    )


class EncodedLabels(NamedTuple):
    """Classes in sorted order, and the code of each row's class, -1 where unlabeled."""

    classes: np.ndarray
    codes: np.ndarray
    n_assumed: int  # rows that count as unlabeled by convention alone: nobody has said what -1 means


class SplitLabels(NamedTuple):
    """The labels of the labeled rows, in one dtype, and which rows are unlabeled."""

    labels: np.ndarray
    unlabeled: np.ndarray
    n_assumed: int


def read_labels(y: LabelsLike | None, n_rows: int, unlabeled: Mark) -> EncodedLabels:
    """Classes and codes of what a user passes to `fit`, who is told what was assumed."""
    encoded = encode_labels(y, n_rows, unlabeled)
    if encoded.n_assumed:
        warn_of_assumed(encoded.n_assumed, n_rows)
    warn_of_empty_texts(encoded.classes, np.bincount(encoded.codes[encoded.codes >= 0]))
    return encoded


#: Text that stands for an empty cell: what files have there, and what becomes of gaps in text.
EMPTY_TEXTS = ("", "?", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "<NA>")


def warn_of_empty_texts(classes: np.ndarray, n_rows: np.ndarray) -> None:
    """Empty labels that were made text are classes, of so many rows each, which is seldom meant."""
    for label, count in zip(classes.tolist(), n_rows.tolist(), strict=True):
        if isinstance(label, str) and label.strip() in EMPTY_TEXTS:
            warn_at_caller(
                f"y holds the text {label!r} in {count} rows, which counts as a class like any other; None or NaN "
                "marks unlabeled rows."
            )


def warn_of_assumed(n_assumed: int, n_rows: int) -> None:
    """Tell that -1 was taken for no label."""
    what = (
        "count as unlabeled. If -1 is a class, pass unlabeled=None; if it marks unlabeled rows, unlabeled=-1 says so "
        "and ends this warning."
    )
    warn_at_caller(f"{n_assumed} of {n_rows} labels are -1 and {what}", in_search=f"labels of -1 {what}")


def encode_labels(y: LabelsLike | None, n_rows: int, unlabeled: Mark = "auto") -> EncodedLabels:
    """Classes and codes of labels; unlabeled rows are those that `unlabeled`, None or NaN marks."""
    labels, is_unlabeled, n_assumed = split_unlabeled(y, n_rows, unlabeled)
    if is_unlabeled.all():
        raise ValueError(NO_LABEL)
    if labels.dtype.kind == "f" and (is_fraction := np.isfinite(labels) & (labels != np.floor(labels))).any():
        raise ValueError(
            f"Unknown label type: continuous. y holds {labels[is_fraction][0]:g}; classes are whole numbers, text, or "
            "true and false. MixtureOfExpertsRegressor predicts numbers; if these are classes, turn them into text."
        )
    check_classification_targets(labels)
    classes, label_codes = np.unique(labels, return_inverse=True)
    codes = np.full(n_rows, -1, dtype=np.int64)
    codes[~is_unlabeled] = label_codes
    return EncodedLabels(classes, codes, n_assumed)


def labels_to_score(y: LabelsLike | None, n_rows: int, unlabeled: Mark, classes: np.ndarray) -> SplitLabels:
    """Labels that predictions are compared with; the user is told of rows that do not count.

    One who has named the integer that marks unlabeled rows knows of them already.
    """
    split = split_unlabeled(y, n_rows, unlabeled, classes)
    if split.unlabeled.all():
        raise ValueError(NO_LABEL)
    check_comparable(split.labels, classes)
    n_left_out = int(split.unlabeled.sum())
    if n_left_out and not _is_integer(unlabeled):
        cure = " -1 counts as such; pass unlabeled=None if it is a class." if split.n_assumed else ""
        warn_at_caller(
            f"score leaves out {n_left_out} of {n_rows} rows, which have no label.{cure}",
            in_search=f"score leaves out rows that have no label, in every fold.{cure}",
        )
    return split


def check_comparable(labels: np.ndarray, classes: np.ndarray) -> None:
    """Refuse text beside classes that are numbers, numbers beside text, and fractions; other
    classes that `fit` has not seen are mistakes of every prediction.
    """
    is_other = np.full(labels.shape, (labels.dtype.kind in "US") != (classes.dtype.kind in "US"))
    if labels.dtype.kind == "f":
        is_other |= labels != np.floor(labels)
    if is_other.any():
        raise unseen_class(labels[is_other].tolist()[0], classes)


def unseen_class(label: Hashable, classes: np.ndarray) -> ValueError:
    """What is wrong with a class that must be known and is not."""
    return ValueError(f"y holds the class {label!r}, which was not seen in fit. The classes are {classes.tolist()}.")


def split_unlabeled(
    y: LabelsLike | None, n_rows: int, unlabeled: Mark = "auto", classes: np.ndarray | None = None, warn: bool = True
) -> SplitLabels:
    """Labels as they come, apart from the rows that have none; `classes` are those of a fit. Of a
    column with an axis of its own the user is told.
    """
    if y is None:
        raise ValueError(NO_Y)
    if isinstance(y, str | bytes):
        raise ValueError(f"y={y!r} is a string: pass the labels themselves, for example the column of that name.")
    if holds_lists(y):
        raise ValueError(LISTS_OF_LABELS)
    if np.ma.isMaskedArray(y):  # masked labels are unknown
        mask, y = np.ma.getmaskarray(y), y.data.astype(object)
        y[mask] = None
    # missing entries turn a column of integers into floats
    dtypes = [y.dtype] if hasattr(y, "dtype") else list(getattr(y, "dtypes", ()))  # those of a frame
    is_integer = len(dtypes) == 1 and str(dtypes[0]).lower().startswith(("int", "uint"))
    # NaN among strings would become the string "nan"
    has_strings = isinstance(y, list | tuple) and any(isinstance(v, str) for v in y)
    column = on_host(y, dtype=object if has_strings else None)
    if column.ndim == 0:
        raise ValueError(f"y is a {type(column.item()).__name__}; allowed is a list, an array or a column of labels.")
    if column.ndim == 2 and column.shape[1] > 1:
        raise ValueError(
            f"y has shape {column.shape}; allowed is one class for each row. Several labels per row, a matrix of 0 and "
            "1, are for ProbitEmbeddingClassifier and LatentClassifier."
        )
    column = column_or_1d(column, warn=warn)
    if column.shape[0] != n_rows:
        raise ValueError(f"y has {column.shape[0]} entries and X has {n_rows} rows: they must be equal.")
    is_unlabeled, n_assumed = _find_unlabeled(column, unlabeled, classes)
    labels = column[~is_unlabeled]
    if labels.dtype == object:
        types = {type(v) for v in labels.tolist()}
        if len(types) > 1 and any(issubclass(kind, str) for kind in types):
            names = sorted(kind.__name__ for kind in types)
            raise ValueError(f"y holds labels of the types {', '.join(names)}; allowed are labels of one type.")
        if all(issubclass(kind, str | bool | np.bool_ | Real) for kind in types):
            labels = np.array(labels.tolist())
    if labels.dtype.kind == "f" and is_integer:
        labels = labels.astype(np.int64)
    return SplitLabels(labels, is_unlabeled, n_assumed)


def _find_unlabeled(y: np.ndarray, mark: Mark, classes: np.ndarray | None) -> tuple[np.ndarray, int]:
    """Which rows are unlabeled, and how many of them by convention alone.

    By convention -1 marks them among integers. Labels that are all -1 or 1 are two classes, though:
    with a single other label there would be nothing to classify.
    """
    missing = is_missing(y)
    if mark is None or y.dtype.kind not in "iufO":
        return missing, 0
    number = -1 if mark == "auto" else mark
    if y.dtype.kind in "iu":  # a look at the whole, not at each: tables have millions of rows
        marked = y == number
        if mark == "auto" and marked.any():
            is_class = np.isin(y, (-1, 1)).all() and (y == 1).any() if classes is None else -1 in classes.tolist()
            return (missing, 0) if is_class else (marked, int(marked.sum()))
        return marked, 0
    labels = y[~missing].tolist()
    if mark == "auto":
        is_class = set(labels) == {-1, 1} if classes is None else -1 in classes.tolist()
        if is_class or y.dtype.kind == "f" or not all(_is_integer(v) for v in labels):
            return missing, 0
    marked = missing.copy()
    marked[~missing] = [isinstance(v, Real) and not isinstance(v, bool) and v == number for v in labels]
    return marked, int(marked.sum() - missing.sum()) if mark == "auto" else 0


def _is_integer(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def encode_known_labels(y: LabelsLike | None, classes: np.ndarray, n_rows: int, unlabeled: Mark = "auto") -> np.ndarray:
    """Codes of labels among known classes; -1 for unlabeled rows."""
    labels, is_unlabeled, _ = split_unlabeled(y, n_rows, unlabeled, classes)
    codes = np.full(n_rows, -1, dtype=np.int64)
    if labels.dtype.kind in "iu" and classes.dtype.kind in "iu" and np.isin(labels, classes).all():
        codes[~is_unlabeled] = np.searchsorted(classes, labels)
        return codes
    code_of = {label: code for code, label in enumerate(classes.tolist())}
    unknown = [label for label in labels.tolist() if label not in code_of]
    if unknown:
        raise unseen_class(unknown[0], classes)
    codes[~is_unlabeled] = [code_of[label] for label in labels.tolist()]
    return codes


def decode_labels(classes: np.ndarray, codes: Array) -> Array:
    """Classes of codes: in the codes' namespace if they are numbers."""
    xp = namespace(codes)
    if classes.dtype.kind in "iuf":
        return xp.take(asarray_like(classes, codes, dtype=getattr(xp, str(classes.dtype))), codes, axis=0)
    return classes[to_numpy(codes)]


ALLOWED = "0, 1, and -1, NaN or None for an unknown entry"


class LabelMatrix(NamedTuple):
    """Labels as codes, a column each."""

    codes: np.ndarray  # (N, L) of 0, 1, and -1 where unknown
    classes: np.ndarray  # of the rows; the numbers of the labels if there may be several in a row
    multilabel: bool
    names: np.ndarray | None  # of the columns of a data frame


def is_label_matrix(y: LabelsLike | None) -> bool:
    """Whether y has several columns of labels."""
    shape = getattr(y, "shape", None)
    if shape is None and isinstance(y, list | tuple) and len(y) and isinstance(y[0], list | tuple | np.ndarray):
        widths = {len(row) for row in y if isinstance(row, list | tuple | np.ndarray) and np.ndim(row) == 1}
        shape = (len(y), widths.pop()) if len(widths) == 1 else None
    return shape is not None and len(shape) == 2 and shape[1] > 1


def encode_label_matrix(y: LabelsLike | None, n_rows: int, unlabeled: Mark) -> LabelMatrix:
    """A matrix of several columns is multilabel; else a class is a column each, two classes one.

    In a matrix -1 always marks an unknown entry; `unlabeled` is about rows of one label.
    """
    if is_sparse(y):
        y = y.toarray()
    if y is not None and holds_lists(y) and not _is_rectangular(y):
        raise ValueError(LISTS_OF_LABELS)
    found = getattr(y, "shape", None)
    shape = np.asarray(y).shape if found is None else tuple(found)
    if len(shape) == 2 and shape[1] != 1:
        return _multilabel(y, n_rows)
    if len(shape) > 2:
        raise ValueError(f"y has shape {shape}; allowed are (n_samples,) and (n_samples, n_labels).")
    labels = read_labels(y, n_rows, unlabeled)
    return LabelMatrix(class_columns(labels.codes, len(labels.classes)), labels.classes, False, None)


def class_columns(codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Codes (N,) of classes as columns of 0 and 1, -1 for unlabeled rows; two classes make one."""
    if n_classes <= 2:
        columns = codes[:, None]
        return columns + (columns >= 0) if n_classes == 1 else columns  # a single class is always there
    columns = (codes[:, None] == np.arange(n_classes)).astype(np.int64)
    columns[codes < 0] = -1
    return columns


def _is_rectangular(y: Sequence[object] | Array) -> bool:
    """Whether lists are the rows of a matrix, and not the names of the labels of a row."""
    rows = [v for v in y if isinstance(v, list | tuple)]
    return len(rows) == len(y) and len({len(row) for row in rows}) == 1 and not any(isinstance(v, str) for v in rows[0])


def read_label_matrix(y: LabelsLike, name: str = "y") -> np.ndarray:
    """Codes (N, L) of 0, 1 and -1, or an error that names what is wrong."""
    values = y.toarray() if is_sparse(y) else on_host(y)
    if values.ndim != 2:
        raise ValueError(f"{name} has shape {values.shape}; a label matrix has the shape (n_samples, n_labels).")
    if values.dtype.kind == "O":
        values = np.where(is_missing(values), np.nan, values)
    try:
        values = values.astype(float)
    except (TypeError, ValueError):
        cells = values.ravel().tolist()
        unknown = next((v for v in cells if isinstance(v, str)), cells[0])
        raise ValueError(f"{name} holds {unknown!r}; allowed in a label matrix are {ALLOWED}.") from None
    bad = ~(np.isnan(values) | np.isin(values, (-1.0, 0.0, 1.0)))
    if bad.any():
        raise ValueError(f"{name} holds {values[bad][0]:g}; allowed in a label matrix are {ALLOWED}.")
    return np.where(np.isnan(values), -1, values).astype(np.int64)


def _multilabel(y: LabelsLike, n_rows: int) -> LabelMatrix:
    columns = column_names(y) if is_frame(y) else getattr(y, "columns", None)
    codes = read_label_matrix(y)
    if codes.shape[0] != n_rows:
        raise ValueError(f"y has {codes.shape[0]} rows and X has {n_rows}: they must be equal.")
    if codes.shape[1] == 0:
        raise ValueError("y has 0 columns; a label matrix needs at least one label.")
    names = None if columns is None else np.asarray([str(c) for c in columns], dtype=object)
    check_label_columns((codes >= 0).sum(axis=0), (codes == 1).sum(axis=0), names)
    return LabelMatrix(codes, np.arange(codes.shape[1]), True, names)


def check_label_columns(n_known: np.ndarray, n_positive: np.ndarray, names: np.ndarray | None) -> None:
    """Refuse labels (L,) without a known entry; tell of those that are always or never present."""
    empty = np.flatnonzero(n_known == 0)
    if empty.size:
        raise ValueError(f"y has no known entry in column {_say(empty, names)}: drop it, or label at least one row.")
    for count, name in ((n_positive, "positive"), (n_known - n_positive, "negative")):
        columns = np.flatnonzero(count == 0)
        if columns.size:
            is_signed = name == "negative" and columns.size == count.size
            hint = " If -1 stands for no, write 0: -1 marks an unknown entry." if is_signed else ""
            warn_at_caller(
                f"y has no {name} entry in column {_say(columns, names)}: such a label's probability comes from "
                f"its prior and its intercept alone.{hint}"
            )


def _say(columns: np.ndarray, names: np.ndarray | None) -> str:
    shown = ", ".join(str(c) if names is None else repr(names[c]) for c in columns[:10])
    return shown + (", ..." if columns.size > 10 else "")


_ALLOWED = "a number, or several, for each row of X"


class OutputUnits(NamedTuple):
    """How outputs become standardized ones, and back."""

    shift: np.ndarray  # (O,)
    scale: np.ndarray  # (O,)
    is_vector: bool  # whether y came as one column without an axis of its own

    def standardize(self, outputs: np.ndarray) -> np.ndarray:
        """Outputs (N, O) in standard units."""
        return (outputs - self.shift) / self.scale

    @property
    def log_unit(self) -> float:
        """By how much log densities of standardized outputs exceed those of the raw outputs."""
        return float(np.log(self.scale).sum())


#: Of classes.
NO_UNITS = OutputUnits(np.zeros(0), np.ones(0), True)


NO_OUTPUT = "y has no output: all its entries are NaN."


def read_outputs(y: LabelsLike | None, n_rows: int, may_be_unknown: bool = False) -> tuple[np.ndarray, bool]:
    """Outputs (N, O), and whether they came as one column without an axis of its own.

    Those of a part of a table may all be unknown.
    """
    if y is None:
        raise ValueError(
            "This regressor requires y to be passed, but the target y is None: give a number, or several, for each row."
        )
    y = to_numpy(y) if is_array(y) else y
    if isinstance(y, str | bytes):
        raise ValueError(f"y={y!r} is a string: pass the outputs themselves, for example the column of that name.")
    if np.isscalar(y) or getattr(y, "ndim", 1) == 0:
        raise ValueError(f"y={y!r}; allowed is {_ALLOWED}.")
    if holds_lists(y) and len({len(v) if isinstance(v, list | tuple) else id(v) for v in y}) > 1:
        raise ValueError(f"y holds lists of different lengths; allowed is {_ALLOWED}.")
    try:
        values = check_array(y, ensure_2d=False, dtype=np.float64, ensure_all_finite="allow-nan", input_name="y")
    except ValueError as error:
        if "could not convert string to float" not in str(error):
            raise
        raise ValueError(f"y holds text ({str(error).partition(': ')[2]}); allowed is {_ALLOWED}.") from error
    is_vector = values.ndim == 1
    values = values[:, None] if is_vector else values
    if values.ndim != 2 or values.shape[0] != n_rows:
        raise ValueError(
            f"y has shape {values.shape}, but X has {n_rows} rows; allowed are (n_samples,) and (n_samples, n_outputs)."
        )
    missing = np.isnan(values)
    if (missing.any(axis=1) & ~missing.all(axis=1)).any():
        raise ValueError(
            "y has rows in which some outputs are NaN and others are not; drop those rows or fit the outputs apart."
        )
    if missing.all() and not may_be_unknown:
        raise ValueError(NO_OUTPUT)
    return values, is_vector


def output_units(outputs: np.ndarray, weight: np.ndarray | None, is_vector: bool, largest: float) -> OutputUnits:
    """Mean and std of each output (1 for a constant); predictions hold numbers up to `largest`."""
    with np.errstate(over="ignore", invalid="ignore"):
        shift = np.average(outputs, axis=0, weights=weight)
        variance = np.average((outputs - shift) ** 2, axis=0, weights=weight)
    return units_of_moments(shift, variance, np.abs(outputs).max(axis=0), weight is not None, is_vector, largest)


def units_of_moments(
    shift: np.ndarray, variance: np.ndarray, extreme: np.ndarray, is_weighted: bool, is_vector: bool, largest: float
) -> OutputUnits:
    """The same from means, variances and largest absolute values (O,)."""
    limit = min(float(np.finfo(np.float64).max) ** 0.5, largest)
    fits = np.isfinite(variance) & (extreme < limit)
    if not fits.all():
        product, weights = (", times sample_weight,", " or sample_weight") if is_weighted else ("", "")
        raise ValueError(
            f"y has values in output {int(np.argmin(fits))} whose squares{product} overflow; allowed are values below "
            f"{limit:.0e}. Rescale y{weights}."
        )
    # as in `Standardizer`: what is left of a constant's variance is rounding
    varies = variance > (10 * np.finfo(np.float64).eps * shift) ** 2
    return OutputUnits(shift, np.where(varies, np.sqrt(variance), 1.0), is_vector)
