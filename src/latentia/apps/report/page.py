"""The page: sections in their order, in one file that loads nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from itertools import groupby
from pathlib import Path

from sklearn.base import BaseEstimator

from latentia.apps.report.data_sections import glance, imputed, the_table
from latentia.apps.report.elements import Section
from latentia.apps.report.factor_sections import decision_regions, latent_map, loadings
from latentia.apps.report.facts import Facts
from latentia.apps.report.reason_sections import what_matters
from latentia.apps.report.row_sections import disputed_labels, surprising_rows
from latentia.apps.report.score_sections import calibration, confusion, leaderboard, search
from latentia.apps.report.style import STYLE
from latentia.apps.report.training_sections import objective_curves, reproduce
from latentia.table.frames import TableLike
from latentia.table.labels import LabelsLike

#: The page may load nothing, whatever names it shows.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"

SECTIONS: tuple[Callable[[Facts], Section | None], ...] = (
    glance,
    leaderboard,
    search,
    confusion,
    calibration,
    what_matters,
    latent_map,
    decision_regions,
    loadings,
    surprising_rows,
    disputed_labels,
    the_table,
    imputed,
    objective_curves,
    reproduce,
)


def report_html(model: BaseEstimator, X: TableLike, y: LabelsLike | None, *, title: str | None = None) -> str:
    """A report on a fitted model and a table, as one page of HTML.

    Sections that the model cannot serve are left out. Of large tables a part of the rows is
    predicted (20,000) and drawn (2,000).

    Parameters
    ----------
    model : estimator
        A fitted one of this library.
    X : array-like of shape (n_samples, n_features)
        The rows of `fit`, or others; what the model was fitted to with cross-validation
        (`LatentClassifier`) is then judged by held-out predictions.
    y : array-like of shape (n_samples,) or (n_samples, n_labels), or None
        Classes or labels, as `fit` takes them; None if they are unknown.
    title : str, default=None
        Of the page.

    Returns
    -------
    html : str

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentia import GaussianMixtureClassifier
    >>> from latentia.apps.report import report_html
    >>> X, y = load_iris(return_X_y=True)
    >>> page = report_html(GaussianMixtureClassifier(random_state=0).fit(X, y), X, y)
    >>> page.count("<h1>"), page.count("<svg viewBox") > 2
    (1, True)
    """
    facts = Facts.of(model, X, y)
    sections = [section for section in (make(facts) for make in SECTIONS) if section is not None]
    heading = escape(title if title is not None else "What the model learned")
    links = "".join(f'<li><a href="#{s.anchor}">{escape(s.title)}</a></li>' for s in sections)
    body = "".join(_section(section) for section in _in_pairs(sections))
    subject = f"A report on {type(model).__name__} and a table of {facts.n_rows:,} rows."
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{heading}</title><style>{STYLE}</style></head><body>"
        '<a class="skip" href="#content">Skip to the content</a>'
        f"<header><h1>{heading}</h1><p>{escape(subject)}</p></header>"
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>'
        f'<main id="content" tabindex="-1">{body}</main>'
        "<footer><p>Made by Latentia. This page needs no network and runs no scripts.</p></footer></body></html>\n"
    )


def _in_pairs(sections: Sequence[Section]) -> list[Section]:
    """Sections that may stand beside another one do so in pairs; one that is left has all the
    width.
    """
    placed: list[Section] = []
    for may_pair, run in groupby(sections, lambda section: section.half):
        group = list(run)
        if may_pair and len(group) % 2:
            group[-1] = group[-1]._replace(half=False)
        placed += group
    return placed


def _section(section: Section) -> str:
    name, width = section.anchor, "half" if section.half else "whole"
    heading = f'<h2 id="{name}">{escape(section.title)}</h2>'
    return f'<section class="{width}" aria-labelledby="{name}">{heading}{section.body}</section>'


def write_report(
    model: BaseEstimator, X: TableLike, y: LabelsLike | None, path: str | Path, *, title: str | None = None
) -> Path:
    """Write the page of `report_html` to a file.

    Parameters
    ----------
    model, X, y, title
        As in `report_html`.
    path : str or Path
        The file, which is replaced if it exists.

    Returns
    -------
    path : Path
        Where the report is.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentia import GaussianMixtureClassifier, write_report
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp())
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GaussianMixtureClassifier(random_state=0).fit(X, y)
    >>> write_report(model, X, y, folder / "iris.html").suffix
    '.html'
    """
    target = Path(path)
    target.write_text(report_html(model, X, y, title=title), encoding="utf-8")
    return target
