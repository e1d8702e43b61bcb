"""What a comparison found, and how it is shown: plain text, rich tables, data frames."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any, NamedTuple

import numpy as np

from latentia.engine.messages import format_column

#: Levels at which an estimator counts as significantly worse than the best, with the marks of the
#: tables.
LEVELS = ((0.01, "*"), (0.10, "-"))

#: What a data set is called that was given without a name.
UNNAMED = "data"


class SummaryRow(NamedTuple):
    """One estimator over all data sets."""

    estimator: str
    mean_accuracy: float
    mean_log_loss: float
    n_wins: int  # data sets on which no other estimator is more accurate
    n_top3: int
    n_worse_p10: int  # data sets on which it is worse than the best, p < 10 %
    n_worse_p01: int  # p < 1 %


@dataclass(frozen=True, repr=False)
class Comparison:
    """What `compare` found: D data sets, E estimators, J folds.

    Print it, or turn it into data frames.

    Attributes
    ----------
    datasets, estimators : tuples of str
    accuracy, accuracy_se : arrays (D, E), shares of one
    log_loss, log_loss_se : arrays (D, E), NaN without `predict_proba` or `classes_`
    p_value : array (D, E), corrected resampled t-test against the most accurate estimator
    p_adjusted : array (D, E), the same by Holm's method: the chance that any of a data set's
        estimators looks as much worse as this one, if all are equal
    best : array (D,) of int, position of the most accurate estimator (ties: the smaller log loss)
    rank : array (D, E) of int, 1 is most accurate, ties share the better place
    fit_seconds : array (D, E), mean time of one fit
    fold_accuracy, fold_log_loss : tuples of D arrays (E, J)
    fitted_on_labeled_only : frozenset of names that were trained without unlabeled rows
    scores : dict of arrays (D, E), means over the folds of what `scoring` asked for

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from latentia import compare
    >>> models = {"NB": GaussianNB(), "LDA": LinearDiscriminantAnalysis()}
    >>> result = compare(models, *load_iris(return_X_y=True), cv=5)
    >>> result.estimators[result.best[0]], result.accuracy.round(2).tolist()
    ('LDA', [[0.96, 0.98]])
    """

    datasets: tuple[str, ...]
    estimators: tuple[str, ...]
    accuracy: np.ndarray
    accuracy_se: np.ndarray
    log_loss: np.ndarray
    log_loss_se: np.ndarray
    p_value: np.ndarray
    best: np.ndarray
    rank: np.ndarray
    fit_seconds: np.ndarray
    fold_accuracy: tuple[np.ndarray, ...]
    fold_log_loss: tuple[np.ndarray, ...]
    fitted_on_labeled_only: frozenset[str]
    scores: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def p_adjusted(self) -> np.ndarray:
        """Of the others the least p-value counts as often as there are others, the next once less,
        and none less than those before (Holm 1979).
        """
        n_estimators = len(self.estimators)
        times = np.maximum(n_estimators - 1 - np.arange(n_estimators), 1)
        order = np.argsort(self.p_value, axis=1, kind="stable")  # the best, whose own is one, among the last
        sorted_p = np.take_along_axis(self.p_value, order, axis=1)
        adjusted = np.empty_like(sorted_p)
        np.put_along_axis(adjusted, order, np.minimum(np.maximum.accumulate(times * sorted_p, axis=1), 1.0), axis=1)
        return adjusted

    def summary(self) -> list[SummaryRow]:
        """Means, wins, places and defeats of each estimator over the data sets."""
        return [
            SummaryRow(
                name,
                float(self.accuracy[:, e].mean()),
                float(self.log_loss[:, e].mean()),
                int(np.sum(self.rank[:, e] == 1)),
                int(np.sum(self.rank[:, e] <= 3)),
                int(np.sum(self.p_value[:, e] < 0.10)),
                int(np.sum(self.p_value[:, e] < 0.01)),
            )
            for e, name in enumerate(self.estimators)
        ]

    def to_frame(self) -> Any:
        """One row per data set and estimator, as a pandas data frame."""
        pandas = _pandas()
        n_datasets, n_estimators = self.accuracy.shape
        names = ("accuracy", "accuracy_se", "log_loss", "log_loss_se", "p_value", "p_adjusted", "rank", "fit_seconds")
        return pandas.DataFrame(
            {
                "dataset": np.repeat(np.array(self.datasets, dtype=object), n_estimators),
                "estimator": np.tile(np.array(self.estimators, dtype=object), n_datasets),
                **{name: getattr(self, name).ravel() for name in names},
                **{name: score.ravel() for name, score in self.scores.items()},
                "best": (np.arange(n_estimators)[None, :] == self.best[:, None]).ravel(),
            }
        )

    def summary_frame(self) -> Any:
        """`summary` as a pandas data frame, one row per estimator."""
        return _pandas().DataFrame(self.summary()).set_index("estimator")

    def mark(self, dataset: int, estimator: int) -> str:
        """'+' for the best, '-' and '*' for significantly worse at 10 % and 1 %, else a blank."""
        if self.best[dataset] == estimator:
            return "+"
        return next((mark for level, mark in LEVELS if self.p_value[dataset, estimator] < level), " ")

    def __str__(self) -> str:
        tables = [_align(header, rows) for header, rows in self._tables()]
        return "\n\n".join([*tables, self._legend()])

    __repr__ = __str__  # so that a terminal shows the whole table

    def _repr_html_(self) -> str:
        """The tables for notebooks; the best estimator is bold."""
        tables = []
        for header, rows in self._tables():
            head = "".join(f"<th>{escape(title)}</th>" for title in header)
            body = "".join(f"<tr>{''.join(_html_cell(cell) for cell in row)}</tr>" for row in rows)
            tables.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
        return "".join(tables) + f"<p>{escape(self._legend()).replace(chr(10), '<br>')}</p>"

    def __rich__(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text  # names may hold brackets, which a plain string would lose as markup

        tables = []
        for header, rows in self._tables():
            table = Table(box=None, pad_edge=False, header_style="bold")
            longest = max(len(word) for row in rows for word in row[0].split() or [""])
            table.add_column(Text(header[0]), min_width=min(longest, 40), overflow="fold")
            for title in header[1:]:
                table.add_column(Text(title.replace("against ", "against\n")), justify="right", overflow="fold")
            for row in rows:
                table.add_row(*(Text(cell, "bold" if cell.startswith("+") else "") for cell in row))
            tables.append(table)
        return Group(*tables, Text(self._legend()))

    def _legend(self) -> str:
        legend = "+ best; significantly worse than the best: - at 10 %, * at 1 % (corrected resampled t-test)"
        if self.fitted_on_labeled_only:
            legend += f"\ntrained on labeled rows alone: {', '.join(sorted(self.fitted_on_labeled_only))}"
        return legend

    def _tables(self) -> list[tuple[list[str], list[list[str]]]]:
        """Headers and cells: one data set in full, several as a grid with a summary."""
        if len(self.datasets) == 1:
            return [self._one_dataset()]
        grid = [
            [name] + [f"{self.mark(d, e)} {self._percent(d, e)}" for e in range(len(self.estimators))]
            for d, name in enumerate(self.datasets)
        ]
        means = [[_number(score[:, e].mean()) for score in self.scores.values()] for e in range(len(self.estimators))]
        summary = [
            [s.estimator, f"{100 * s.mean_accuracy:.1f}", _number(s.mean_log_loss), *scores, *map(str, s[3:])]
            for s, scores in zip(self.summary(), means, strict=True)
        ]
        asked = [f"mean {name}" for name in self.scores]
        titles = ["estimator", "mean accuracy", "mean log loss", *asked, "wins", "top 3", "worse p<10%", "worse p<1%"]
        return [(["accuracy, %", *self.estimators], grid), (titles, summary)]

    def _one_dataset(self) -> tuple[list[str], list[list[str]]]:
        times = format_column(self.fit_seconds[0].tolist())
        rows = [
            [
                name,
                f"{self.mark(0, e)} {self._percent(0, e)}",
                _number(self.log_loss[0, e], self.log_loss_se[0, e]),
                *(_number(score[0, e]) for score in self.scores.values()),
                _number(self.p_value[0, e]),
                _number(self.p_adjusted[0, e]),
                times[e],
            ]
            for e, name in enumerate(self.estimators)
        ]
        title = "estimator" if self.datasets[0] == UNNAMED else self.datasets[0]
        return [title, "accuracy, %", "log loss", *self.scores, "p against best", "adjusted", "fit time"], rows

    def _percent(self, d: int, e: int) -> str:
        return f"{100 * self.accuracy[d, e]:.1f} ± {100 * self.accuracy_se[d, e]:.1f}"


def _align(header: list[str], rows: list[list[str]]) -> str:
    """A plain-text table: first column to the left, the others to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in [header, *rows]
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _html_cell(cell: str) -> str:
    text = escape(cell.strip())
    return f"<td><b>{text}</b></td>" if text.startswith("+") else f"<td>{text}</td>"


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("data frames need pandas: pip install pandas") from error
    return pandas


def _number(value: float, error: float | None = None) -> str:
    if np.isnan(value):
        return "none"
    return f"{value:.3f}" if error is None else f"{value:.3f} ± {error:.3f}"
