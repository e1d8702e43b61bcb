"""The graph of a latent classification model: the class, its factors, and the columns they feed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from latentia.arrays.namespace import to_numpy
from latentia.display.fitted_parts import feature_names, left_out_note, require_factor_model
from latentia.families.latent_factors.answers import loading_correlations, strongest_by_column
from latentia.table.options import check_number

POSITIVE, NEGATIVE = "#0072b2", "#d55e00"


class StructureDisplay:
    """The graph of a latent classification model: the class above, then factors, then columns.

    Use `from_estimator` to make one. An edge is as strong as the correlation of the factor with the
    column, blue if positive, orange if negative. With ``structure="learn"`` only learned edges are
    there; else weak ones are left out.

    Parameters
    ----------
    correlations : ndarray of shape (n_features, n_factors)
    edges : ndarray of bool of shape (n_features, n_factors)
        Which of them are drawn.
    feature_names, factor_names : sequences of str
    note : str, default=""
        What is drawn in a corner: `from_estimator` says there how many columns it has left out.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
    edges_ : list of matplotlib Line2D
        From factors to columns.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentia import LatentClassificationModel, StructureDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LatentClassificationModel(n_latent=2, random_state=0).fit(X, y)
    >>> StructureDisplay.from_estimator(model, plot=False).edges.shape[0]
    4
    """

    def __init__(
        self,
        correlations: np.ndarray,
        edges: np.ndarray,
        feature_names: Sequence[str],
        factor_names: Sequence[str],
        note: str = "",
    ):
        self.correlations = correlations
        self.edges = edges
        self.feature_names = feature_names
        self.factor_names = factor_names
        self.note = note

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        min_correlation: float = 0.15,
        max_columns: int = 24,
        plot: bool = True,
        ax: Any = None,
    ) -> StructureDisplay:
        """Draw the graph of a fitted model with latent factors.

        Parameters
        ----------
        estimator : LatentClassificationModel, LatentClassificationModelCV or LatentClassifier
            A fitted one.
        min_correlation : float, default=0.15
            Weaker edges are left out, unless the structure was learned; factors without edges, too.
        max_columns : int, default=24
            Of more columns, those with the strongest edges are shown, and a note says so.
        plot : bool, default=True
            Whether to draw at once.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        display : StructureDisplay
        """
        check_number("min_correlation", min_correlation, ge=0)
        check_number("max_columns", max_columns, ge=1, integer=True)
        model = require_factor_model(estimator)
        columns = model.loading_features_
        found = loading_correlations(model.loadings_, columns, model.noise_variances_)
        found = strongest_by_column(found, columns, model.n_features_in_)
        edges = np.asarray(to_numpy(model.edges_))
        if edges.all():
            edges = np.abs(found) >= min_correlation
        kept = np.sort(np.argsort(-(np.abs(found) * edges).max(axis=1), kind="stable")[:max_columns])
        factors = np.flatnonzero(edges[kept].any(axis=0))
        names = feature_names(model)
        display = cls(
            found[np.ix_(kept, factors)],
            edges[np.ix_(kept, factors)],
            [names[k] for k in kept],
            [f"factor {k + 1}" for k in factors],
            left_out_note(len(kept), len(names), "columns"),
        )
        return display.plot(ax=ax) if plot else display

    def plot(self, *, ax: Any = None) -> StructureDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        self : StructureDisplay
        """
        import matplotlib.pyplot as plt

        n_columns, n_factors = self.edges.shape
        if ax is None:
            _, ax = plt.subplots(figsize=(max(4.6, 0.42 * n_columns), 4.2), layout="constrained")
        self.ax_, self.figure_, self.edges_ = ax, ax.figure, []
        at_columns, order = (np.arange(n_columns) + 0.5) / n_columns, self._column_order()
        at_factors = (np.arange(n_factors) + 0.5) / max(n_factors, 1)
        place_of = dict(zip(order, at_columns.tolist(), strict=True))
        for factor, x in enumerate(at_factors):
            ax.plot([0.5, x], [2, 1], color="0.6", linewidth=1, zorder=1)
            for column in np.flatnonzero(self.edges[:, factor]).tolist():
                value = self.correlations[column, factor]
                color = POSITIVE if value >= 0 else NEGATIVE
                width, alpha = 0.6 + 3.4 * abs(value), 0.35 + 0.6 * min(abs(value), 1.0)
                self.edges_ += ax.plot([x, place_of[column]], [1, 0], color=color, lw=width, alpha=alpha, zorder=1)
        _box(ax, 0.5, 2, "class")
        for x, name in zip(at_factors, self.factor_names, strict=True):
            _box(ax, x, 1, name.replace(" ", "\n") if n_factors > 5 else name)
        for column, x in place_of.items():
            ax.text(x, -0.06, self.feature_names[column], rotation=90, ha="center", va="top", fontsize="small")
        ax.scatter(at_columns, np.zeros(n_columns), s=22, color="0.2", zorder=2)
        ax.set(xlim=(0, 1), ylim=(-0.1, 2.25), title="Class, factors and columns")
        ax.set_axis_off()
        if self.note:
            ax.text(0, 2.2, self.note, ha="left", va="top", fontsize="small", color="0.35")
        return self

    def _column_order(self) -> list[int]:
        """Columns beside others of the same factor."""
        size = np.abs(self.correlations) * self.edges
        if not size.size:
            return list(range(self.edges.shape[0]))
        center = (size @ np.arange(size.shape[1])) / np.maximum(size.sum(axis=1), 1e-12)
        center[size.sum(axis=1) == 0] = np.inf
        return [int(k) for k in np.argsort(center, kind="stable")]


def _box(ax: Any, x: float, y: float, text: str) -> None:
    style = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": "0.3"}
    ax.text(x, y, text, ha="center", va="center", fontsize="small", bbox=style, zorder=3)
