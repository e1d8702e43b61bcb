"""The table as it came, and what the model puts into its gaps."""

from __future__ import annotations

import warnings

import numpy as np

from latentia.apps.report.elements import Bar, Cell, Section, facts_list, number, paragraph, percent, plain, table
from latentia.apps.report.facts import Facts
from latentia.apps.report.tables import numbers_of, read_column, row_counting, row_names, rows_of
from latentia.arrays.namespace import to_numpy
from latentia.plot.general import columns_without_values
from latentia.table.frames import distinct_values, is_missing

#: Columns that are listed, classes that are, and values of a column.
MAX_COLUMNS, MAX_CLASSES, MAX_VALUES = 100, 50, 4

#: Examples of filled cells, and rows with gaps that are completed.
MAX_EXAMPLES, MAX_COMPLETED = 10, 1000


def glance(facts: Facts) -> Section | None:
    """The most important numbers."""
    pairs = [
        ("rows", f"{facts.n_rows:,}"),
        ("columns", f"{facts.n_columns:,}"),
        ("missing cells", percent(float(np.mean(_gaps(facts))))),
    ]
    if facts.is_multilabel:
        pairs.append(("labels", str(len(facts.classes))))
    elif facts.classes:
        pairs.append(("classes", str(len(facts.classes))))
        pairs.append(("unlabeled rows", f"{int((facts.codes < 0).sum()):,}"))
    pairs += _expectations(facts)
    return Section("At a glance", facts_list(pairs))


def _expectations(facts: Facts) -> list[tuple[str, str]]:
    model = facts.model
    if facts.is_held_out and not np.isnan(model.expected_accuracy_):
        return [
            ("expected accuracy", percent(model.expected_accuracy_)),
            ("expected log loss", number(model.expected_log_loss_, 3)),
        ]
    which = " (fitted rows)" if facts.is_training_table else ""
    if facts.outputs is not None:
        return [(f"{name}{which}", text) for name, text in _errors(facts, facts.outputs)]
    if not facts.has_classes or not facts.is_judged.any():
        return []
    proba, codes = facts.judged[facts.is_judged], facts.known[facts.is_judged]
    own = np.clip(proba[np.arange(codes.size), codes], 1e-300, 1.0)
    return [
        (f"accuracy{which}", percent(float((facts.decide(proba) == codes).mean()))),
        (f"log loss{which}", number(float(0.0 - np.log(own).mean()), 3)),
    ]


def _errors(facts: Facts, outputs: np.ndarray) -> list[tuple[str, str]]:
    """How far predicted numbers are from those that are known, over all outputs."""
    known = outputs[facts.rows]
    off = to_numpy(facts.model.predict(facts.predicted_table)).astype(float).reshape(known.shape) - known
    variance = np.nanvar(known, axis=0)
    explained = 1 - np.nanmean(off**2, axis=0) / np.where(variance > 0, variance, np.nan)
    return [
        ("variance explained", percent(float(np.mean(explained)))),
        ("root mean squared error", number(float(np.sqrt(np.nanmean(off**2))))),
    ]


def the_table(facts: Facts) -> Section | None:
    """Columns with their kinds, gaps and values; classes with their rows."""
    gaps = _gaps(facts)
    rows: list[list[Cell]] = [
        [name, facts.kinds[place], Bar(percent(gaps[place]), gaps[place]), _values(facts, place)]
        for place, name in enumerate(facts.columns[:MAX_COLUMNS])
    ]
    body = table("Columns", ["column", "kind", "missing", "values"], rows, words=(1, 3))
    if facts.n_columns > MAX_COLUMNS:
        body += paragraph(f"{facts.n_columns - MAX_COLUMNS:,} more columns are not listed.")
    if facts.classes and facts.codes.size:
        body = _class_table(facts) + body
    return Section("The table", body)


def _class_table(facts: Facts) -> str:
    if facts.is_multilabel:
        known, present = (facts.codes >= 0).sum(axis=0), (facts.codes == 1).sum(axis=0)
        rows: list[list[Cell]] = [
            [name, f"{n:,}", f"{k:,}", Bar(percent(n / max(k, 1)), n / max(k, 1))]
            for name, n, k in list(zip(facts.classes, present, known, strict=True))[:MAX_CLASSES]
        ]
        return table("Labels", ["label", "rows that have it", "rows where it is known", "share"], rows)
    counts = np.bincount(facts.codes[facts.codes >= 0], minlength=len(facts.classes))
    order = np.argsort(-counts, kind="stable") if len(facts.classes) > MAX_CLASSES else range(len(facts.classes))
    total = max(int(counts.sum()), 1)
    rows = [
        [facts.classes[c], f"{counts[c]:,}", Bar(percent(counts[c] / total), counts[c] / total)]
        for c in list(order)[:MAX_CLASSES]
    ]
    unlabeled = int((facts.codes < 0).sum())
    if unlabeled:
        rows.append(["(no label)", f"{unlabeled:,}", ""])
    return table("Classes", ["class", "rows", "share of the labeled rows"], rows)


def _gaps(facts: Facts) -> np.ndarray:
    """Share of missing cells in each column, found once."""
    if "gaps" not in vars(facts):
        shares = [float(is_missing(read_column(facts.X, place)).mean()) for place in range(facts.n_columns)]
        vars(facts)["gaps"] = np.array(shares)
    return np.asarray(vars(facts)["gaps"])


def _values(facts: Facts, place: int) -> str:
    """The range and mean of numbers, or the most frequent values."""
    if facts.kinds[place] in ("continuous", "count"):
        cells = numbers_of(facts.X, place)
        cells = cells[~np.isnan(cells)]
        if not cells.size:
            return "no value"
        mean = float(cells.mean())
        mean = mean if abs(mean) > 1e-12 * float(np.abs(cells).max()) else 0.0  # of a column that was centered
        return f"{number(cells.min())} to {number(cells.max())}, mean {number(mean)}"
    values, numbers = distinct_values(facts.X, place)
    counts = np.bincount(numbers[numbers >= 0], minlength=len(values))
    order = [k for k in np.argsort(-counts, kind="stable") if counts[k] > 0]
    shown = ", ".join(f"{plain(values[k])} ({counts[k]:,})" for k in order[:MAX_VALUES])
    rest = len(order) - MAX_VALUES
    return f"{shown}, {rest} more" if rest > 0 else shown or "no value"


def imputed(facts: Facts) -> Section | None:
    """How many cells were missing, and what the model would put there."""
    if not hasattr(facts.model, "impute"):
        return None
    gaps = np.where(columns_without_values(facts.model), 0.0, _gaps(facts))
    if not gaps.any():
        return None
    with_gaps = [place for place in np.argsort(-gaps, kind="stable").tolist() if gaps[place] > 0]
    holes = {place: is_missing(read_column(facts.X, place)) for place in with_gaps}
    rows = np.flatnonzero(np.any(list(holes.values()), axis=0))[:MAX_COMPLETED]
    part = rows_of(facts.X, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        complete = facts.model.impute(part)
    filled = {place: read_column(complete, place)[holes[place][rows]] for place in with_gaps}
    summary = [
        [facts.columns[place], f"{int(holes[place].sum()):,}", percent(gaps[place]), *_filled(facts, place, cells)]
        for place, cells in list(filled.items())[:MAX_COLUMNS]
    ]
    body = table(
        "Missing cells by column",
        ["column", "missing", "share", "known cells", "filled in"],
        summary,
        words=(3, 4),
    )
    names = row_names(facts.X)
    examples = [
        [names[row], facts.columns[place], plain(read_column(complete, place)[k])]
        for k, row in enumerate(rows.tolist())
        for place in with_gaps
        if holes[place][row]
    ]
    step = max(1, len(examples) // MAX_EXAMPLES)
    body += table(
        "Examples of filled cells", ["row", "column", "filled in"], examples[::step][:MAX_EXAMPLES], words=(1, 2)
    )
    note = (
        "Each missing cell gets what the known cells of its row say of it: an expected number or the most probable "
        f"category. It stays missing in predictions. {row_counting(facts.X)}"
    )
    return Section("What was imputed", paragraph(note) + body)


def _filled(facts: Facts, place: int, cells: np.ndarray) -> tuple[str, str]:
    """Typical known cells of a column, and typical filled ones."""
    if not cells.size:
        return "", "not among the rows looked at"
    known = numbers_of(facts.X, place)
    has_numbers = bool((known == known).any())
    is_share = facts.kinds[place] == "binary" and has_numbers and not np.isin(cells, known).all()  # between the two
    if is_share or facts.kinds[place] in ("continuous", "count"):
        return f"mean {number(float(np.nanmean(known)))}" if has_numbers else "none", _mean(cells)
    values, numbers = distinct_values(facts.X, place)
    if not values:
        return "none", _mode(cells)
    return f"mostly {plain(values[int(np.bincount(numbers[numbers >= 0]).argmax())])}", _mode(cells)


def _mean(cells: np.ndarray) -> str:
    return f"mean {number(float(np.mean(cells.astype(float))))}"


def _mode(cells: np.ndarray) -> str:
    found = [plain(cell) for cell in cells.tolist()]
    return f"mostly {max(sorted(set(found)), key=found.count)}"
