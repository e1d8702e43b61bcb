"""The arena's results as Markdown: means, ratios, ranks, wins and tests by setting and method.

All figures of a setting are over the tables that every method shown there has finished, so that they can be compared.
A method with fewer than half of the trials, or whose name ends in "@labeled", is left out unless it is asked for.
A trial that failed or ran out of time counts as the class proportions ("prior"; for imputers the column means).
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from arena_trials import IMPUTE_SETTINGS, SETTINGS
from methods import LABELED_ONLY
from scipy import stats
from usual_choices import CLASSIFIERS, IMPUTERS

from latentia.evaluation.compare import corrected_t_test

NUMBERS = ("log_loss", "accuracy", "calibration", "rmse", "bad_rows", "seconds", "cpu_seconds")


def read(files: Iterable[Path]) -> list[dict]:
    """The rows of result files; of equal keys the last counts."""
    rows = {}
    for path in files:
        with Path(path).open(newline="") as file:
            for row in csv.DictReader(file):
                row["repeat"] = int(row["repeat"])
                row.update({name: float(row[name]) if row[name] else None for name in NUMBERS})
                rows[row["table"], row["setting"], row["repeat"], row["method"]] = row
    return list(rows.values())


class Scores:
    """The results of one setting: a value for each method, table and repeat."""

    def __init__(self, rows: list[dict], methods: list[str] | None = None):
        self.cells = {(row["method"], row["table"], row["repeat"]): row for row in rows}
        trials = defaultdict(set)
        for method, *trial in self.cells:
            trials[method].add(tuple(trial))
        most = max(map(len, trials.values()))
        usual = [m for m in order(trials) if 2 * len(trials[m]) >= most and not m.endswith(LABELED_ONLY)]
        self.methods = [m for m in methods if m in trials] if methods else usual
        self.left_out = [m for m in trials if m not in self.methods and not methods]
        self.trials = sorted(set.intersection(*(trials[m] for m in self.methods))) if self.methods else []
        self.tables = sorted({table for table, _ in self.trials})

    def value(self, method: str, table: str, repeat: int, measure: str) -> float:
        """NaN where a method failed and there is nothing to put in its place."""
        for name in (method, "prior", "mean"):
            row = self.cells.get((name, table, repeat))
            if row and row[measure] is not None:
                return row[measure]
        return np.nan

    def array(self, measure: str) -> np.ndarray:
        """(methods, tables): means over the repeats."""
        return np.array([[np.mean(self.repeats(m, t, measure)) for t in self.tables] for m in self.methods])

    def repeats(self, method: str, table: str, measure: str) -> np.ndarray:
        return np.array([self.value(method, t, r, measure) for t, r in self.trials if t == table])

    def failures(self, method: str) -> int:
        return sum(self.cells[method, t, r]["status"] != "ok" for t, r in self.trials)


def order(methods: Iterable[str]) -> list[str]:
    """Ours first, then the usual choices as they are listed."""
    usual = [*CLASSIFIERS, *IMPUTERS]
    return sorted(methods, key=lambda m: usual.index(m) if m in usual else -1)


def write_report(options: argparse.Namespace) -> None:
    rows = [row for row in read(options.files) if not options.tables or row["table"] in options.tables]
    text = report(rows, options.methods, options.reference, options.by_table)
    path = options.to or options.files[0].with_suffix(".md")
    path.write_text(text)
    print(text)


def report(rows: list[dict], methods: list[str] | None = None, reference: str = "logistic", by_table=False) -> str:
    settings = defaultdict(list)
    for row in rows:
        settings[row["setting"]].append(row)
    scores = {s: Scores(settings[s], methods) for s in (*SETTINGS, *IMPUTE_SETTINGS) if s in settings}
    classify = {s: found for s, found in scores.items() if s in SETTINGS and found.tables}
    imputing = {s: found for s, found in scores.items() if s in IMPUTE_SETTINGS and found.tables}
    parts = []
    if classify:
        parts += [
            "# Arena\n",
            "Halves for training and test. `gapsNN`: NN % of all cells deleted in both; `fewK`: K labels a class, the "
            "other training rows unlabeled; `both`: 50 % and 10 labels. Log loss in nats, p clipped at 2.2e-16; "
            "calibration error of the top label in ten equal bins; seconds of one fit and its predictions on one core.\n",
            sizes(classify),
            section("Mean log loss", classify, lambda s: s.array("log_loss").mean(axis=1), "{:.3f}"),
            section(f"Mean of log loss / {reference}'s", classify, lambda s: ratios(s, reference), "{:.2f}"),
            section("Mean accuracy, %", classify, lambda s: 100 * s.array("accuracy").mean(axis=1), "{:.1f}"),
            section(
                "Mean calibration error, %", classify, lambda s: 100 * s.array("calibration").mean(axis=1), "{:.1f}"
            ),
            section("Mean rank by log loss", classify, lambda s: ranks(s).mean(axis=1), "{:.1f}"),
            section("Tables won by log loss", classify, lambda s: (ranks(s) == 1).sum(axis=1), "{:.0f}"),
            section(
                f"Log loss against {reference}: tables better : worse (of these at 10 % by the corrected t-test over "
                "repeats); p of Wilcoxon's test over tables",
                classify,
                lambda s: [against(s, method, reference) for method in s.methods],
                "{}",
            ),
            section("Mean seconds (CPU)", classify, lambda s: s.array("cpu_seconds").mean(axis=1), "{:.2f}"),
            section("Failed trials", classify, lambda s: [s.failures(m) for m in s.methods], "{}", unless_all=0),
        ]
    if imputing:
        parts += [
            "# Imputation\n",
            "Root mean squared error of deleted cells of the test half in standard deviations of their columns; the "
            "training half has as many gaps.\n",
            sizes(imputing),
            section("Mean error", imputing, lambda s: s.array("rmse").mean(axis=1), "{:.3f}"),
            section("Mean rank", imputing, lambda s: ranks(s, "rmse").mean(axis=1), "{:.1f}"),
            section("Mean seconds (CPU)", imputing, lambda s: s.array("cpu_seconds").mean(axis=1), "{:.2f}"),
            section("Failed trials", imputing, lambda s: [s.failures(m) for m in s.methods], "{}", unless_all=0),
        ]
    if by_table:
        for measure, found in (("log_loss", classify), ("rmse", imputing)):
            parts += [per_table(setting, s, measure) for setting, s in found.items()]
    return "\n".join(part for part in parts if part)


def ratios(scores: Scores, reference: str) -> np.ndarray:
    if reference not in scores.methods:
        return np.full(len(scores.methods), np.nan)
    values = scores.array("log_loss")
    return (values / values[scores.methods.index(reference)]).mean(axis=1)


def ranks(scores: Scores, measure: str = "log_loss") -> np.ndarray:
    """(methods, tables), 1 is best; ties share the better place."""
    return stats.rankdata(scores.array(measure), axis=0, method="min", nan_policy="omit")


def against(scores: Scores, method: str, reference: str) -> str:
    """How often a method is better and worse than another, and whether that may be chance."""
    if reference not in scores.methods or method == reference:
        return "–"
    means, counts = [], {"better": [0, 0], "worse": [0, 0]}
    for name in scores.tables:
        d = scores.repeats(method, name, "log_loss") - scores.repeats(reference, name, "log_loss")
        means.append(d.mean())
        count = counts["better" if d.mean() < 0 else "worse"]
        count[0] += d.mean() != 0
        count[1] += d.size > 1 and corrected_t_test(d, test_over_train=1.0)[1] < 0.10
    p = stats.wilcoxon(means).pvalue if np.any(means) else 1.0
    (better, surely), (worse, surely_worse) = counts.values()
    return f"{better} : {worse} ({surely} : {surely_worse}), p {p:.2g}"


def section(title: str, settings: dict[str, Scores], measure: Callable, form: str, unless_all=None) -> str:
    """A table of one measure, methods down and settings across, the best of each setting in bold."""
    values = {s: dict(zip(found.methods, measure(found), strict=True)) for s, found in settings.items()}
    if unless_all is not None and all(v == unless_all for column in values.values() for v in column.values()):
        return ""
    methods = list(dict.fromkeys(m for column in values.values() for m in column))
    best = {s: best_of(title, column) for s, column in values.items()}

    def cell(setting: str, method: str) -> str:
        value = values[setting].get(method)
        if value is None or value != value:
            return ""
        text = form.format(value)
        return f"**{text}**" if value == best[setting] else text

    lines = [f"| {m} | " + " | ".join(cell(s, m) for s in values) + " |" for m in methods]
    return "\n".join([f"## {title}\n", *header(values), *lines, ""])


def best_of(title: str, column: dict) -> object:
    numbers = [v for v in column.values() if not isinstance(v, str) and v == v]
    if not numbers or title.startswith(("Failed", "Mean seconds")):
        return None
    return max(numbers) if "accuracy" in title or "won" in title else min(numbers)


def header(columns: Iterable[str]) -> list[str]:
    columns = list(columns)
    return ["|  | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]


def sizes(settings: dict[str, Scores]) -> str:
    """How many tables and trials each setting is about, and the methods left out."""
    lines = ["| tables | " + " | ".join(str(len(s.tables)) for s in settings.values()) + " |"]
    lines += ["| trials | " + " | ".join(str(len(s.trials)) for s in settings.values()) + " |"]
    if any(s.left_out for s in settings.values()):
        lines += ["| left out | " + " | ".join(", ".join(s.left_out) for s in settings.values()) + " |"]
    return "\n".join([*header(settings), *lines, ""])


def per_table(setting: str, scores: Scores, measure: str) -> str:
    values = scores.array(measure)
    lines = []
    for j, name in enumerate(scores.tables):
        cells = [f"**{v:.3f}**" if v == np.nanmin(values[:, j]) else f"{v:.3f}" for v in values[:, j]]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join([f"## {setting}: {measure.replace('_', ' ')} by table\n", *header(scores.methods), *lines, ""])
