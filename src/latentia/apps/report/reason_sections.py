"""What matters for each class: what columns add to its log odds."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from latentia.apps.report.elements import Bar, Cell, Section, number, paragraph, percent, plain, side_by_side, table
from latentia.apps.report.facts import Facts
from latentia.apps.report.tables import numbers_of, read_column, rows_of, stacked, without_columns
from latentia.arrays.namespace import is_sparse
from latentia.estimators.latent_classifier.classifier import reasons_array
from latentia.table.frames import distinct_values, is_missing

#: Rows that are explained, columns that are looked at, those that are listed for a class, classes.
MAX_ROWS, MAX_COLUMNS, MAX_LISTED, MAX_CLASSES = 60, 24, 6, 12


def what_matters(facts: Facts) -> Section | None:
    """The columns that speak most for each class, in its own rows."""
    if not facts.has_classes or is_sparse(facts.X):
        return None
    rows = _rows_by_class(facts)
    columns = np.sort(np.argsort(-facts.separation, kind="stable")[:MAX_COLUMNS])
    added = _contributions(facts, rows, columns)
    groups = facts.groups[rows]
    means = np.stack([added[groups == c, :, c].mean(axis=0) for c in np.unique(groups)])
    largest = max(float(means.max()), 1e-12)
    tables = []
    for mean, group in list(zip(means, np.unique(groups).tolist(), strict=True))[:MAX_CLASSES]:
        order = [k for k in np.argsort(-mean, kind="stable")[:MAX_LISTED] if mean[k] > 0.01 * largest]
        lines: list[list[Cell]] = [
            [facts.columns[columns[k]], _bar(mean[k], largest), *_typical(facts, int(columns[k]), group)] for k in order
        ]
        if lines:
            header = ["column", "adds", "in this class", "in the others"]
            caption = f"Log odds of the class {plain(facts.classes[group])}"
            tables.append(table(caption, header, lines, (2, 3), name=f"matters-{group}"))
    if not tables:
        return None
    hidden = "missing" if facts.takes_gaps else "at the column's mean"
    note = (
        "For rows of each class: by how much a cell raises the log odds of that class, on average, against the same "
        f"row with that cell {hidden}. Columns that repeat each other add little each."
    )
    return Section("What matters for each class", paragraph(note) + side_by_side(*tables))


def _bar(value: float, largest: float) -> Bar:
    return Bar(f"{value:+.2f}", value / largest)


def _rows_by_class(facts: Facts) -> np.ndarray:
    """Places of some predicted rows, about as many of each class."""
    rng = np.random.default_rng(0)
    present = np.unique(facts.groups)
    each = max(2, MAX_ROWS // present.size)
    chosen = [np.flatnonzero(facts.groups == group) for group in present]
    return np.sort(np.concatenate([rng.choice(rows, min(each, rows.size), replace=False) for rows in chosen]))


def _contributions(facts: Facts, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """What cells add to the log odds, (rows, columns, classes)."""
    table = rows_of(facts.predicted_table, rows)
    if hasattr(facts.model, "explain") and columns.size == facts.n_columns:
        return reasons_array(facts.model.explain(table)).astype(float)
    whole = log_odds(facts.proba[rows])
    values = [np.nan if facts.takes_gaps else float(numbers_of(facts.X, k).mean()) for k in columns.tolist()]
    hidden = [without_columns(table, {k: value}) for k, value in zip(columns.tolist(), values, strict=True)]
    without = log_odds(facts.proba_of(stacked(hidden))).reshape(columns.size, rows.size, -1)
    missing = np.stack([is_missing(read_column(table, k)) for k in columns.tolist()], axis=1)
    return np.where(missing[..., None], 0.0, whole[:, None, :] - without.transpose(1, 0, 2))


def log_odds(proba: np.ndarray) -> np.ndarray:
    """Of each class against all others."""
    log_proba = np.log(np.maximum(proba, 1e-30))
    others = [logsumexp(np.delete(log_proba, c, axis=1), axis=1) for c in range(proba.shape[1])]
    return log_proba - np.stack(others, axis=1)


def _typical(facts: Facts, place: int, group: int) -> tuple[str, str]:
    """A column in rows of a class, and in the others: means, or the share of its favorite value."""
    mine = facts.groups == group
    if facts.kinds[place] in ("continuous", "count"):
        cells = numbers_of(facts.predicted_table, place)
        return _mean(cells[mine]), _mean(cells[~mine])
    values, numbers = distinct_values(facts.predicted_table, place)
    shares = [np.bincount(part[part >= 0], minlength=len(values)) for part in (numbers[mine], numbers[~mine])]
    here, there = (counts / max(int(counts.sum()), 1) for counts in shares)
    if not len(values):
        return "none", "none"
    best = int(np.argmax(here - there))
    return f"{plain(values[best])}: {percent(here[best], 0)}", f"{percent(there[best], 0)}"


def _mean(cells: np.ndarray) -> str:
    cells = cells[~np.isnan(cells)]
    return f"mean {number(float(cells.mean()), 3)}" if cells.size else "none"
