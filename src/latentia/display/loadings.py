"""Which columns the latent factors tell of, as a table of colors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from latentia.display.fitted_parts import (
    MIN_CORRELATION,
    factor_strengths,
    left_out_note,
    loading_names,
    require_factor_model,
)
from latentia.families.latent_factors.answers import loading_correlations
from latentia.table.options import check_number


class LoadingsDisplay:
    """Correlations of the columns with the latent factors.

    Use `from_estimator` to make one. The square of a correlation is the share of a column's
    variance that a factor explains. Columns are ordered by the factor that tells most of them.

    Parameters
    ----------
    correlations : ndarray of shape (n_rows, n_factors)
    row_names : sequence of str
        Columns; of a column of categories, its values.
    factor_names : sequence of str
    note : str, default=""
        What is drawn below: `from_estimator` says there how many columns it has left out.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
    image_ : matplotlib AxesImage

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentia import LatentClassificationModel, LoadingsDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LatentClassificationModel(n_latent=3, random_state=0).fit(X, y)
    >>> LoadingsDisplay.from_estimator(model, plot=False).correlations.shape[0]
    4
    """

    def __init__(self, correlations: np.ndarray, row_names: Sequence[str], factor_names: Sequence[str], note: str = ""):
        self.correlations = correlations
        self.row_names = row_names
        self.factor_names = factor_names
        self.note = note

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, max_rows: int = 30, max_factors: int = 8, plot: bool = True, ax: Any = None
    ) -> LoadingsDisplay:
        """Draw the loadings of a fitted model with latent factors.

        Parameters
        ----------
        estimator : LatentClassificationModel, LatentClassificationModelCV or LatentClassifier
            A fitted one.
        max_rows, max_factors : int, default=30 and 8
            How many columns are shown, those that the factors tell most of, with a note where there
            are more; and how many factors.
        plot : bool, default=True
            Whether to draw at once.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        display : LoadingsDisplay
        """
        check_number("max_rows", max_rows, ge=1, integer=True)
        check_number("max_factors", max_factors, ge=1, integer=True)
        model = require_factor_model(estimator)
        correlations = loading_correlations(model.loadings_, model.loading_features_, model.noise_variances_)
        names = loading_names(model)
        strength = factor_strengths(model)
        factors = np.flatnonzero(strength >= min(MIN_CORRELATION, strength.max()))[:max_factors]
        correlations = correlations[:, factors]
        size = np.abs(correlations)
        kept = np.argsort(-size.max(axis=1), kind="stable")[:max_rows]
        order = sorted(kept.tolist(), key=lambda row: (int(size[row].argmax()), -float(size[row].max())))
        what = "columns" if len(names) == model.n_features_in_ else "columns and categories"
        note = left_out_note(len(order), len(names), what)
        display = cls(correlations[order], [names[row] for row in order], [f"factor {k + 1}" for k in factors], note)
        return display.plot(ax=ax) if plot else display

    def plot(self, *, ax: Any = None, colormap: str = "RdBu_r") -> LoadingsDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        colormap : str, default="RdBu_r"
            A diverging one.

        Returns
        -------
        self : LoadingsDisplay
        """
        import matplotlib.pyplot as plt

        n_rows, n_factors = self.correlations.shape
        if ax is None:
            size = (2.6 + 0.55 * n_factors, 1.2 + 0.26 * n_rows)
            _, ax = plt.subplots(figsize=size, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        self.image_ = ax.imshow(self.correlations, cmap=colormap, vmin=-1, vmax=1, aspect="auto")
        ax.set_xticks(range(n_factors), [name.replace("factor ", "") for name in self.factor_names])
        ax.set_yticks(range(n_rows), self.row_names, fontsize="small")
        for row, column in np.ndindex(n_rows, n_factors):
            value = self.correlations[row, column]
            if abs(value) >= 0.05:
                color = "white" if abs(value) > 0.6 else "black"
                ax.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize="x-small", color=color)
        ax.set(xlabel="factor", title="What the factors tell of")
        if self.note:
            place = {"xytext": (0, -38), "xycoords": "axes fraction", "textcoords": "offset points"}
            ax.annotate(self.note, (0.5, 0), ha="center", va="top", fontsize="small", color="0.35", **place)
        self.figure_.colorbar(self.image_, ax=ax, label="correlation", shrink=0.8, ticks=[-1, -0.5, 0, 0.5, 1])
        return self
