"""Rows in the plane of two latent factors, with an ellipse for each class."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from latentia.arrays.namespace import to_numpy
from latentia.display.embedding_panels import NO_LABEL, UNKNOWN, class_colors
from latentia.display.fitted_parts import (
    MIN_CORRELATION,
    choose_axes,
    class_names,
    factor_strengths,
    require_classes,
    require_factor_model,
)
from latentia.table.labels import encode_known_labels
from latentia.table.options import check_number

#: Semi-axes of the ellipses, in standard deviations of their class.
ELLIPSES = (1.0, 2.0)


class LatentMapDisplay:
    """Rows in the plane of two latent factors, and what the model says of each class there.

    Use `from_estimator` to make one. A row lies at the posterior mean of its factors. The ellipses
    of a class are its normal distribution: their semi-axes are one and two standard deviations.
    Each factor has mean zero and variance one over all classes, so both axes are in standard
    deviations.

    Parameters
    ----------
    positions : ndarray of shape (n_samples, 2)
        Where the rows lie.
    codes : ndarray of shape (n_samples,)
        Number of each row's class, -1 where it is unknown.
    means, stds : ndarrays of shape (n_classes, 2)
        Of the factors, given the class.
    names : sequence of str
        Names of the classes.
    factors : tuple of two int, default=(0, 1)
        Which factors the axes are, counted from zero.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
    ellipses_ : list of matplotlib Ellipse

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentia import LatentClassificationModel, LatentMapDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LatentClassificationModel(n_latent=3, random_state=0).fit(X, y)
    >>> display = LatentMapDisplay.from_estimator(model, X, y, plot=False)
    >>> display.positions.shape, display.means.shape
    ((150, 2), (3, 2))
    """

    def __init__(
        self,
        positions: np.ndarray,
        codes: np.ndarray,
        means: np.ndarray,
        stds: np.ndarray,
        names: Any,
        *,
        factors: tuple[int, int] = (0, 1),
    ):
        self.positions = positions
        self.codes = codes
        self.means = means
        self.stds = stds
        self.names = names
        self.factors = factors

    @property
    def axis_names(self) -> tuple[str, str]:
        """What the axes are called."""
        return f"factor {self.factors[0] + 1}", f"factor {self.factors[1] + 1}"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        factors: tuple[int, int] | None = None,
        max_points: int = 2000,
        plot: bool = True,
        ax: Any = None,
    ) -> LatentMapDisplay:
        """Draw rows where a fitted model with latent factors places them.

        Parameters
        ----------
        estimator : LatentClassificationModel, LatentClassificationModelCV or LatentClassifier
            A fitted one; of a LatentClassifier, its best member with factors is shown.
        X : array-like of shape (n_samples, n_features)
            Rows; missing cells are allowed.
        y : array-like of shape (n_samples,), default=None
            Classes; unlabeled rows, as in `fit`, are gray.
        factors : tuple of two int, default=None
            Which factors, counted from zero; by default the two that tell the classes apart best,
            of those that explain the columns.
        max_points : int, default=2000
            Of more rows, so many are drawn, chosen at random.
        plot : bool, default=True
            Whether to draw at once.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        display : LatentMapDisplay
        """
        check_number("max_points", max_points, ge=1, integer=True)
        model = require_factor_model(estimator)
        require_classes(estimator)
        means, variances = (to_numpy(a).astype(float) for a in (model.latent_means_, model.latent_variances_))
        chosen = _choose_factors(factors, model, means)
        n_rows = _num_samples(X)
        codes = np.full(n_rows, -1)
        if y is not None:
            codes = encode_known_labels(y, estimator.classes_, n_rows, estimator.unlabeled)
        if n_rows > max_points:
            rows = np.sort(np.random.default_rng(0).choice(n_rows, max_points, replace=False))
            X, codes = _safe_indexing(X, rows), codes[rows]
        display = cls(
            to_numpy(model.transform(X)).astype(float)[:, chosen],
            codes,
            means[:, chosen],
            np.sqrt(variances[:, chosen]),
            class_names(estimator),
            factors=(chosen[0], chosen[1]),
        )
        return display.plot(ax=ax) if plot else display

    def plot(self, *, ax: Any = None, size: float = 12.0) -> LatentMapDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        size : float, default=12.0
            Area of a mark in square points.

        Returns
        -------
        self : LatentMapDisplay
        """
        import matplotlib.pyplot as plt
        from matplotlib.patches import Ellipse

        if ax is None:
            _, ax = plt.subplots(figsize=(5.2, 4.4), layout="constrained")
        colors = class_colors(len(self.names))
        self.ax_, self.figure_, self.ellipses_ = ax, ax.figure, []
        for code, (name, color) in enumerate(zip(self.names, colors, strict=True)):
            mine = self.positions[self.codes == code]
            ax.scatter(*mine.T, s=size, color=color, alpha=0.75, linewidths=0, label=name)
            for scale in ELLIPSES:
                width, height = 2 * scale * self.stds[code]
                ellipse = Ellipse(self.means[code], width, height, fill=False, edgecolor=color, linewidth=1.5 / scale)
                self.ellipses_.append(ax.add_patch(ellipse))
        if (self.codes < 0).any():
            unlabeled = self.positions[self.codes < 0]
            ax.scatter(*unlabeled.T, s=size, color=UNKNOWN, linewidths=0, label=NO_LABEL, zorder=0.9)
        ax.set(
            xlabel=f"{self.axis_names[0]}, standard deviations",
            ylabel=f"{self.axis_names[1]}, standard deviations",
            title="Rows and classes in the latent space",
        )
        ax.legend(fontsize="small", frameon=False, markerscale=1.6, loc="center left", bbox_to_anchor=(1, 0.5))
        return self


def _choose_factors(factors: Any, model: Any, means: np.ndarray) -> list[int]:
    n_latent = means.shape[1]
    if n_latent < 2:
        raise ValueError(f"the model has {n_latent} latent factor; a map needs two of them.")
    if factors is not None:
        return choose_axes("factors", factors, (2,), n_latent)
    priors = to_numpy(model.priors_).astype(float)
    between = priors @ (means - priors @ means) ** 2
    is_idle = factor_strengths(model) < MIN_CORRELATION  # no column tells where rows lie
    return [int(k) for k in np.lexsort((-between, is_idle))[:2]]
