"""How well the model does: candidates, errors, calibration."""

from __future__ import annotations

import numpy as np

from latentia.apps.report.elements import (
    Bar,
    Cell,
    Section,
    Shade,
    figure,
    number,
    paragraph,
    percent,
    side_by_side,
    table,
)
from latentia.apps.report.facts import Facts
from latentia.apps.report.svg import Plot
from latentia.plot.general import CalibrationDisplay, SearchResultsDisplay

#: Classes of a confusion matrix; of more classes the most frequent confusions are listed.
MAX_MATRIX, MAX_CONFUSIONS = 20, 20

#: Settings of a search that are listed.
MAX_SETTINGS = 25

#: Columns of a search that hold lists of different lengths: how settings led to others.
RAGGED = ("parents", "children")


def leaderboard(facts: Facts) -> Section | None:
    """The candidates of a LatentClassifier."""
    found = getattr(facts.model, "leaderboard_", None)
    if found is None:
        return None
    columns = {name: list(found[name]) for name in ("candidate", "log_loss", "accuracy", "weight", "seconds")}
    rows: list[list[Cell]] = [
        [name, number(loss, 3), percent(accuracy), Bar(percent(weight, 0), weight), number(seconds, 2)]
        for name, loss, accuracy, weight, seconds in zip(*columns.values(), strict=True)
    ]
    header = ["candidate", "held-out log loss", "held-out accuracy", "weight", "seconds"]
    body = paragraph("Models that were tried, by their predictions of labels that they had not seen.")
    body += table("Candidates", header, rows)
    expected = facts.model.expected_log_loss_, facts.model.expected_accuracy_
    if not np.isnan(expected[0]):
        absent = ", ".join(map(str, getattr(facts.model, "never_held_out_", [])[:10]))
        body += paragraph(
            "Together, weighted, they can be expected to reach a log loss of "
            f"{number(expected[0], 3)} and an accuracy of {percent(expected[1])} on new rows."
            + (f" That says nothing about {absent}, of which no row could be held out." if absent else "")
        )
    return Section("Leaderboard", body, half=True)


def search(facts: Facts) -> Section | None:
    """The settings that an estimator with a search has tried."""
    found = getattr(facts.model, "search_results_", None)
    if found is None:
        return None
    names = [str(name) for name in found if name not in RAGGED and len(np.shape(found[name])) > 0]
    columns = [list(found[name])[:MAX_SETTINGS] for name in names]
    rows = [[_setting(value) for value in row] for row in zip(*columns, strict=True)]
    best = SearchResultsDisplay.from_estimator(facts.model, plot=False)
    which = "more" if best.more_is_better else "less"
    body = paragraph(f"The best by {best.score_name}, of which {which} is better: {best.names[0]}.")
    body += table("Settings tried", [name.replace("_", " ") for name in names], rows)
    n_left = len(next(iter(found[name] for name in names))) - MAX_SETTINGS
    if n_left > 0:
        body += paragraph(f"{n_left} more settings are not listed.")
    return Section("Search", body)


def _setting(value: object) -> str:
    if isinstance(value, float | np.floating):
        return number(float(value))
    if isinstance(value, tuple | list | np.ndarray):
        return ", ".join(_setting(v) for v in value)
    return str(value)


def confusion(facts: Facts) -> Section | None:
    """Which classes are taken for which; for label matrices, how often each label is right."""
    if facts.is_multilabel:
        return _label_scores(facts)
    if not facts.has_classes or not facts.is_judged.any():
        return None
    true, predicted = facts.known[facts.is_judged], facts.decide(facts.judged[facts.is_judged])
    n = len(facts.classes)
    counts = np.zeros((n, n), dtype=int)
    np.add.at(counts, (true, predicted), 1)
    right, total = int(np.trace(counts)), int(counts.sum())
    body = paragraph(f"{facts.judged_on} {right:,} of {total:,} rows are right ({percent(right / total)}).")
    body += _matrix(facts, counts) if n <= MAX_MATRIX else _confusions(facts, counts)
    return Section("Confusion", body, half=n <= 5 or n > MAX_MATRIX)


def _matrix(facts: Facts, counts: np.ndarray) -> str:
    rows: list[list[Cell]] = []
    for own, row in enumerate(counts):
        total = max(int(row.sum()), 1)
        shades: list[Cell] = [
            Shade(f"{c:,}", c / total if k == own else -np.sqrt(c / total)) if c else "0"
            for k, c in enumerate(row.tolist())
        ]
        rows.append([facts.classes[own], *shades, percent(row[own] / total) if row.sum() else "none"])
    header = ["true class", *(f"said: {name}" for name in facts.classes), "right"]
    return table("Confusion matrix: a line for each true class", header, rows)


def _confusions(facts: Facts, counts: np.ndarray) -> str:
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None, kind="stable")[:MAX_CONFUSIONS]
    pairs = [np.unravel_index(k, wrong.shape) for k in order if wrong.ravel()[k] > 0]
    rows = [[facts.classes[own], facts.classes[predicted], f"{wrong[own, predicted]:,}"] for own, predicted in pairs]
    return table("Most frequent confusions", ["true class", "said", "rows"], rows, words=(1,))


def _label_scores(facts: Facts) -> Section | None:
    proba, codes = facts.judged, facts.known
    rows: list[list[Cell]] = []
    for label, name in enumerate(facts.classes):
        use = (codes[:, label] >= 0) & ~np.isnan(proba[:, label])
        if not use.any():
            continue
        true, predicted, p = codes[use, label] == 1, proba[use, label] > 0.5, proba[use, label]
        both = int((true & predicted).sum())
        loss = 0.0 - np.log(np.clip(np.where(true, p, 1 - p), 1e-300, 1.0)).mean()
        rows.append(
            [
                name,
                percent(float((true == predicted).mean())),
                percent(both / predicted.sum()) if predicted.any() else "none",
                percent(both / true.sum()) if true.any() else "none",
                number(float(loss), 3),
            ]
        )
    if not rows:
        return None
    header = ["label", "right", "of those said, true", "of those true, said", "log loss"]
    return Section("Labels right and wrong", paragraph(facts.judged_on) + table("Scores by label", header, rows))


def calibration(facts: Facts) -> Section | None:
    """How often what is said to be probable turns out true."""
    if not (facts.has_classes or facts.is_multilabel):
        return None
    if not ((facts.known >= 0) & ~np.isnan(facts.judged if facts.is_multilabel else facts.judged[:, 0])).any():
        return None
    classes = None if facts.is_multilabel else range(facts.judged.shape[1])
    found = CalibrationDisplay.from_predictions(facts.known, facts.judged, classes=classes, plot=False)
    plot = Plot((0, 1), (0, 1))
    plot.axes("predicted probability", "share that came true")
    plot.line(np.array([[0, 0], [1, 1]]), "dashed")
    for x, low, high in zip(found.predicted, found.lower, found.upper, strict=True):
        plot.line(np.array([[x, low], [x, high]]), "c0 thin")
    plot.line(np.stack([found.predicted, found.observed], axis=1), "c0")
    plot.marks(np.stack([found.predicted, found.observed], axis=1), 0)
    what = "labels" if facts.is_multilabel else "classes"
    drawing = plot.draw(
        "Calibration curve",
        f"Observed shares beside predicted probabilities; mean distance {found.error:.3f}. The table has the numbers.",
    )
    caption = f"All {what} together. Vertical lines are 95 % intervals; the dashed line is perfect."
    rows = [
        [number(p, 2), f"{n:,}", percent(o), f"{percent(low, 0)} to {percent(high, 0)}"]
        for p, n, o, low, high in zip(*_columns(found), strict=True)
    ]
    body = paragraph(f"{facts.judged_on} Expected calibration error: {found.error:.3f}.")
    header = ["mean probability", "predictions", "came true", "95 % interval"]
    return Section(
        "Calibration", body + side_by_side(figure(drawing, caption), table("Bins of probabilities", header, rows))
    )


def _columns(found: CalibrationDisplay) -> tuple[list[float], ...]:
    arrays = found.predicted, found.counts, found.observed, found.lower, found.upper
    return tuple(a.tolist() for a in arrays)
