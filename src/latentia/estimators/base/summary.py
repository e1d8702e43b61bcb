"""A fitted estimator in a page: what it was given, what it has learned, how its training went.

The sections are made from learned attributes alone, and shown as plain text or as HTML below
scikit-learn's diagram.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from html import escape
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from latentia.arrays.namespace import to_numpy
from latentia.engine.messages import format_seconds
from latentia.table.frames import on_host

#: Columns and classes that are listed; the rest is counted.
MAX_LISTED = 12

#: Columns that are named for a factor, or as the most relevant.
MAX_STRONGEST = 3


class Section(NamedTuple):
    """A title and its lines: what, and how much."""

    title: str
    lines: list[tuple[str, str]]


def summary_sections(estimator: BaseEstimator) -> list[Section]:
    """All that there is to say of a fitted estimator."""
    record = getattr(estimator, "training_record_", {})
    sections = [
        Section("Data", [*_rows(record), *_columns(estimator, record)]),
        Section("Labels", list(_labels(estimator, record))),
        Section("Learned", list(_learned(estimator))),
        Section("Training", list(_training(estimator, record))),
    ]
    return [section for section in sections if section.lines]


def as_text(estimator: BaseEstimator, sections: list[Section]) -> str:
    """Plain text, a line each."""
    width = max(len(what) for section in sections for what, _ in section.lines)
    parts = [type(estimator).__name__]
    for section in sections:
        parts += ["", section.title]
        parts += [f"  {what.ljust(width)}  {value}" for what, value in section.lines]
    return "\n".join(parts)


def as_html(sections: list[Section]) -> str:
    """A table for notebooks, folded to its title."""
    rows = []
    for section in sections:
        rows.append(f'<tr><th colspan="2" style="text-align: left">{escape(section.title)}</th></tr>')
        for what, value in section.lines:
            rows.append(
                f'<tr><td style="text-align: left">{escape(what)}</td>'
                f'<td style="text-align: left">{escape(value)}</td></tr>'
            )
    style = "font-family: monospace; font-size: 90%; white-space: pre"
    table = f"<table>{''.join(rows)}</table>"
    return f'<details style="{style}" open><summary>What was learned</summary>{table}</details>'


def _rows(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if "n_rows" in record:
        yield "rows", f"{record['n_rows']:,}"


def _columns(estimator: BaseEstimator, record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The kinds of columns together, and each with its gaps unless there are very many."""
    n_columns = estimator.n_features_in_
    kinds = list(getattr(estimator, "kinds_", ["continuous"] * n_columns))
    counts = ", ".join(f"{n} {kind}" for kind, n in Counter(kinds).most_common())
    yield "columns", counts if len(kinds) == n_columns else f"{n_columns:,}"
    missing = record.get("missing")
    if missing is None:
        return
    yield "missing cells", f"{np.mean(missing):.1%}"
    if not hasattr(estimator, "kinds_") and not any(missing):
        return
    categories = getattr(estimator, "categories_", [None] * n_columns)
    names = _feature_names(estimator)
    for place in range(min(n_columns, MAX_LISTED)):
        levels = "" if categories[place] is None else f", {len(categories[place])} values"
        yield f"  {names[place]}", f"{kinds[place]}{levels}, {missing[place]:.1%} missing"
    if n_columns > MAX_LISTED:
        yield "  ...", f"{n_columns - MAX_LISTED:,} more columns"


def _labels(estimator: BaseEstimator, record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    counts = record.get("label_counts")
    if counts is None:
        return
    names = list(getattr(estimator, "label_names_", estimator.classes_))
    known = [sum(counts)] * len(names)
    if getattr(estimator, "multilabel_", False):  # a share among the rows in which the label is known
        known = record.get("known_counts", [record["n_rows"]] * len(names))
    for name, count, total in list(zip(names, counts, known, strict=False))[:MAX_LISTED]:
        of = f" of {total:,} known" if "known_counts" in record and total < record["n_rows"] else ""
        yield str(name), f"{_counted(count)} ({count / max(1, total):.1%}{of})"
    if len(names) > MAX_LISTED:
        yield "...", f"{len(names) - MAX_LISTED} more"
    if record["n_unlabeled"]:
        yield "without a label", _counted(record["n_unlabeled"])


def _counted(count: float) -> str:
    return f"{count:,} row{'s' * (count != 1)}"


def _plain(value: object) -> str:
    values = on_host(value).ravel().tolist()
    shown = [f"{v:.4g}" if isinstance(v, float) else str(v) for v in values]
    return ", ".join(shown[:MAX_LISTED]) + (", ..." if len(shown) > MAX_LISTED else "")


#: Learned attributes that say what the model is like, in the order in which they are shown.
SHOWN: dict[str, tuple[str, Callable[[Any], str]]] = {
    "n_components_": ("components", _plain),
    "covariance_": ("covariance", str),
    "n_latent_": ("latent dimensions", _plain),
    "n_effective_latent_": ("of these effective", _plain),
    "n_subclasses_": ("subclasses", _plain),
    "n_experts_": ("experts", _plain),
    "noise_stds_": ("noise of the experts", _plain),
    "objective_": ("objective", _plain),
    "ridge_": ("ridge", _plain),
    "expected_accuracy_": ("expected accuracy", lambda value: f"{value:.1%}"),
    "expected_log_loss_": ("expected log loss", _plain),
    "never_held_out_": ("expected without", lambda classes: f"{_plain(classes)} (never held out)"),
    "best_score_": ("cross-validated score", _plain),
    "log_evidence_": ("log evidence", lambda value: f"{value:.1f}"),
    "corrected_log_evidence_": ("log evidence, corrected", lambda value: f"{value:.1f}"),
}


def _learned(estimator: BaseEstimator) -> Iterator[tuple[str, str]]:
    seen = set()
    for name, (what, show) in SHOWN.items():
        if hasattr(estimator, name) and what not in seen and np.size(getattr(estimator, name)):
            seen.add(what)
            yield what, show(getattr(estimator, name))
    if hasattr(estimator, "leaderboard_"):
        yield from _leaders(estimator.leaderboard_)
    if hasattr(estimator, "loadings_"):
        yield from _factors(estimator)
    if hasattr(estimator, "feature_relevance_"):
        relevance = to_numpy(estimator.feature_relevance_)
        yield "most relevant columns", _strongest(relevance, _feature_names(estimator))


def _leaders(leaderboard: Any) -> Iterator[tuple[str, str]]:
    """The candidates that count."""
    for name, weight, loss in zip(*(leaderboard[key] for key in ("candidate", "weight", "log_loss")), strict=True):
        if weight > 0:
            yield f"  {name}", f"weight {weight:.0%}, held-out log loss {loss:.4g}"


def _factors(estimator: BaseEstimator) -> Iterator[tuple[str, str]]:
    """The columns of which each factor explains the largest share of the variance."""
    columns = estimator.loading_features_
    correlations = loading_correlations(estimator.loadings_, columns, estimator.noise_variances_)
    by_column = strongest_by_column(correlations, columns, estimator.n_features_in_) ** 2
    for factor in range(min(by_column.shape[1], MAX_LISTED)):
        told = _strongest(by_column[:, factor], _feature_names(estimator))
        if told:
            yield f"factor {factor + 1} explains", told


def _strongest(share: np.ndarray, names: list[str]) -> str:
    """The columns with the largest shares, of at least one in a hundred."""
    order = [place for place in np.argsort(-share, kind="stable")[:MAX_STRONGEST] if share[place] >= 0.01]
    return ", ".join(f"{names[place]} ({share[place]:.0%})" for place in order)


def _training(estimator: BaseEstimator, record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if hasattr(estimator, "n_iter_"):
        yield "iterations", f"{estimator.n_iter_:,}"
        yield "ended", estimator.stopping_reason_
        yield "objective", f"{float(estimator.objective_curve_[-1]):.4f}"
    if "seconds" in record:
        yield "time", format_seconds(record["seconds"])


def _feature_names(estimator: BaseEstimator) -> list[str]:
    return [str(name) for name in getattr(estimator, "feature_names_in_", range(estimator.n_features_in_))]


#: Variance of the logistic noise of a binary or categorical column.
LOGISTIC_VARIANCE = np.pi**2 / 3


def loading_correlations(loadings: Any, columns: Any, noise_variances: Any) -> np.ndarray:
    """Correlations (n_loadings, n_latent) of the columns with the factors, over all components;
    from the learned attributes of a latent classification model.

    Their squares are the shares of a column's variance that the factors explain; coded columns have
    logistic noise.
    """
    loadings = to_numpy(loadings).astype(float)  # (M, H, q)
    squares = (loadings**2).mean(axis=0)
    noise = to_numpy(noise_variances).astype(float).mean(axis=0)[to_numpy(columns)]
    noise = np.where(np.isnan(noise), LOGISTIC_VARIANCE, noise)
    total = squares.sum(axis=1) + noise
    return np.sign(loadings.mean(axis=0)) * np.sqrt(squares / np.where(total > 0, total, 1.0)[:, None])


def strongest_by_column(correlations: np.ndarray, columns: Any, n_columns: int) -> np.ndarray:
    """Correlations (n_features, n_latent); of a column of categories those of its most telling
    value.
    """
    found = np.zeros((n_columns, correlations.shape[1]))
    for row, column in zip(correlations, to_numpy(columns), strict=True):
        found[column] = np.where(np.abs(row) > np.abs(found[column]), row, found[column])
    return found
