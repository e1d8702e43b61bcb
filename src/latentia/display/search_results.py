"""What a search has tried, and how well each did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from latentia.arrays.namespace import to_numpy
from latentia.table.options import check_number

#: Scores, of which the first that a table has is shown, unless accuracy has chosen: column, errors,
#: name, whether more is better.
ACCURACY = ("mean_accuracy", "std_accuracy", "cross-validated accuracy", True)
SCORES = (
    ("mean_log_loss", "std_log_loss", "cross-validated log loss", False),
    ("log_loss", None, "held-out log loss", False),
    ("score", None, "score of the criterion", True),
    ("log_evidence", None, "log evidence", True),
)

#: Columns that say what was tried.
SETTINGS = ("candidate", "n_latent", "n_components", "objective", "ridge", "n_subclasses", "n_experts", "branches")


class SearchResultsDisplay:
    """The settings or candidates that a search has tried, the best on top.

    Use `from_estimator` to make one.

    Parameters
    ----------
    names : sequence of str
        What was tried.
    scores : ndarray of shape (n_tried,)
    errors : ndarray of shape (n_tried,), default=None
        Standard deviations over the folds.
    score_name : str, default="score"
    more_is_better : bool, default=True

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentia import LatentClassifier, SearchResultsDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LatentClassifier(effort="fast", random_state=0).fit(X, y)
    >>> display = SearchResultsDisplay.from_estimator(model, plot=False)
    >>> len(display.names) == len(model.weights_)
    True
    """

    def __init__(
        self,
        names: Sequence[str],
        scores: np.ndarray,
        errors: np.ndarray | None = None,
        *,
        score_name: str = "score",
        more_is_better: bool = True,
    ):
        self.names = names
        self.scores = scores
        self.errors = errors
        self.score_name = score_name
        self.more_is_better = more_is_better

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, max_rows: int = 20, plot: bool = True, ax: Any = None
    ) -> SearchResultsDisplay:
        """Draw what a fitted estimator has tried.

        Parameters
        ----------
        estimator : LatentClassifier, or an estimator with `search_results_`
            A fitted one.
        max_rows : int, default=20
            Of more settings, the best are shown.
        plot : bool, default=True
            Whether to draw at once.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        display : SearchResultsDisplay
        """
        check_number("max_rows", max_rows, ge=1, integer=True)
        check_is_fitted(estimator)
        table = getattr(estimator, "leaderboard_", getattr(estimator, "search_results_", None))
        if table is None:
            raise TypeError(
                f"estimator is a {type(estimator).__name__} that has not searched; allowed are a LatentClassifier and "
                "estimators with search_results_."
            )
        column, error, name, more = _score_that_chose(estimator, table)
        scores = to_numpy(np.asarray(table[column])).astype(float)
        ties = np.asarray(table["mean_log_loss"], dtype=float) if "mean_log_loss" in table else np.zeros(scores.size)
        order = np.lexsort((ties, -scores if more else scores))[:max_rows]
        names = setting_names(table)
        errors = None if error is None else np.asarray(table[error], dtype=float)[order]
        display = cls([names[k] for k in order], scores[order], errors, score_name=name, more_is_better=more)
        return display.plot(ax=ax) if plot else display

    def plot(self, *, ax: Any = None, color: str = "#0072b2", best_color: str = "#d55e00") -> SearchResultsDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        color, best_color : colors of matplotlib, default="#0072b2" and "#d55e00"
            Of the dots, and of the best one.

        Returns
        -------
        self : SearchResultsDisplay
        """
        import matplotlib.pyplot as plt

        n = len(self.names)
        if ax is None:
            _, ax = plt.subplots(figsize=(5.6, 1.3 + 0.27 * n), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        places = np.arange(n)
        colors = [best_color] + [color] * (n - 1)
        if self.errors is not None:
            ax.hlines(places, self.scores - self.errors, self.scores + self.errors, color=colors, linewidth=1.2)
        ax.scatter(self.scores, places, color=colors, s=28, zorder=3)
        ax.set_yticks(places, self.names, fontsize="small")
        ax.set_ylim(n - 0.5, -0.5)
        ax.grid(axis="x", color="0.9")
        ax.set_axisbelow(True)
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
        which = "more" if self.more_is_better else "less"
        ax.set(xlabel=f"{self.score_name} ({which} is better)", title="What was tried")
        return self


def _score_that_chose(estimator: Any, table: Any) -> tuple[str, str | None, str, bool]:
    """The score by which the best setting is the one that was taken."""
    if "mean_accuracy" in table and getattr(estimator, "best_score_", -1.0) > 0:  # a log loss is negated there
        return ACCURACY
    return next(score for score in SCORES if score[0] in table)


def setting_names(table: Any) -> list[str]:
    """A name for each line of a table of trials: the settings that differ between them."""
    known = [name for name in SETTINGS if name in table]
    columns = {name: [_plain(value) for value in table[name]] for name in known}
    varied = [name for name in known if len(set(columns[name])) > 1] or known[:1]
    if varied == ["candidate"]:
        return columns["candidate"]
    rows = zip(*(columns[name] for name in varied), strict=True)
    words = [name.removeprefix("n_") for name in varied]
    return [", ".join(f"{word} {value}" for word, value in zip(words, row, strict=True)) for row in rows]


def _plain(value: Any) -> str:
    if isinstance(value, tuple | list | np.ndarray):
        return "(" + ", ".join(_plain(v) for v in value) + ")"
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)
