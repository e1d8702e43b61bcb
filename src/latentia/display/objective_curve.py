"""What a training maximized, after each sweep."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from latentia.arrays.namespace import to_numpy


class ObjectiveCurveDisplay:
    """The objective after each sweep of a training; it never falls.

    Use `from_estimator` to make one.

    Parameters
    ----------
    curve : ndarray of shape (n_sweeps,)
        Values of the objective.
    name : str, default=None
        Of the model.
    reason : str, default=None
        Why the training ended.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
    line_ : matplotlib Line2D

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from latentia import GaussianMixtureClassifier, ObjectiveCurveDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GaussianMixtureClassifier(2, random_state=0).fit(X, y)
    >>> display = ObjectiveCurveDisplay.from_estimator(model, plot=False)
    >>> len(display.curve) > 1
    True
    """

    def __init__(self, curve: np.ndarray, *, name: str | None = None, reason: str | None = None):
        self.curve = curve
        self.name = name
        self.reason = reason

    @classmethod
    def from_estimator(cls, estimator: Any, *, plot: bool = True, ax: Any = None) -> ObjectiveCurveDisplay:
        """Draw the curve of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            A fitted one of this library.
        plot : bool, default=True
            Whether to draw at once.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        display : ObjectiveCurveDisplay
        """
        check_is_fitted(estimator)
        curve = getattr(estimator, "objective_curve_", None)
        if curve is None:
            raise TypeError(f"estimator is a {type(estimator).__name__} without an objective_curve_.")
        values = to_numpy(curve).astype(float)
        display = cls(values, name=type(estimator).__name__, reason=estimator.stopping_reason_)
        return display.plot(ax=ax) if plot else display

    def plot(self, *, ax: Any = None, color: str = "#0072b2") -> ObjectiveCurveDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        color : color of matplotlib, default="#0072b2"

        Returns
        -------
        self : ObjectiveCurveDisplay
        """
        import matplotlib.pyplot as plt
        from matplotlib.ticker import MaxNLocator

        if ax is None:
            _, ax = plt.subplots(figsize=(4.8, 3.4), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        (self.line_,) = ax.plot(np.arange(len(self.curve)), self.curve, color=color, label=self.name)
        ax.set(ylim=visible_range(self.curve), xlabel="sweep", ylabel="objective")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_title("Objective" if self.reason is None else f"Objective, {self.reason}", fontsize="medium")
        ax.spines[["top", "right"]].set_visible(False)
        return self


def visible_range(curve: np.ndarray) -> tuple[float, float]:
    """Where the curve is worth seeing: first values that dwarf all the others are cut off."""
    later = curve[min(len(curve) - 1, 2) :]
    low, high = float(curve.min()), float(curve.max())
    span = float(np.ptp(later))
    if span > 0 and low < later.min() - 3 * span:
        low = float(later.min()) - 0.3 * span
    room = 0.04 * (high - low) if high > low else 0.5
    return low - room, high + room
