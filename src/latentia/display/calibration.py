"""How often what is said to be probable turns out true."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.utils.validation import check_is_fitted

from latentia.arrays.namespace import to_numpy
from latentia.table.labels import Mark, check_unlabeled, encode_known_labels, read_label_matrix, split_unlabeled
from latentia.table.options import check_number

#: Two-sided probability of the bars.
CONFIDENCE = 0.95


class CalibrationDisplay:
    """Observed shares beside predicted probabilities, for all classes together.

    Use `from_estimator` or `from_predictions` to make one. Every row has a probability for each
    class; those in a bin are compared with how often they came true. Bars are 95 % intervals of
    Wilson: where a bar meets the diagonal, the rows do not contradict the probabilities.

    Parameters
    ----------
    predicted, observed : ndarrays of shape (n_bins,)
        Mean probability, and share that came true, of each bin that is not empty.
    lower, upper : ndarrays of shape (n_bins,)
        Ends of the intervals of the shares.
    counts : ndarray of shape (n_bins,)
        Number of probabilities in each bin.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
    line_ : matplotlib ErrorbarContainer

    Examples
    --------
    >>> import numpy as np
    >>> from latentia import CalibrationDisplay
    >>> proba = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.2, 0.8]])
    >>> y = ["no", "no", "yes", "yes"]
    >>> display = CalibrationDisplay.from_predictions(y, proba, n_bins=2, plot=False)
    >>> display.observed
    array([0., 1.])
    """

    def __init__(
        self, predicted: np.ndarray, observed: np.ndarray, lower: np.ndarray, upper: np.ndarray, counts: np.ndarray
    ):
        self.predicted = predicted
        self.observed = observed
        self.lower = lower
        self.upper = upper
        self.counts = counts

    @property
    def error(self) -> float:
        """Expected calibration error: mean distance of the shares from the probabilities."""
        return float(np.average(np.abs(self.predicted - self.observed), weights=self.counts))

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, n_bins: int = 10, plot: bool = True, ax: Any = None
    ) -> CalibrationDisplay:
        """Compare the probabilities of a fitted classifier with the classes of rows.

        Parameters
        ----------
        estimator : classifier
            A fitted one, with `predict_proba`.
        X : array-like of shape (n_samples, n_features)
            Rows, best of all such that the estimator has not seen.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Classes, or a matrix of labels; unlabeled rows and unknown entries do not count.
        n_bins : int, default=10
            Number of bins of equal width.
        plot : bool, default=True
            Whether to draw at once.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        display : CalibrationDisplay
        """
        check_is_fitted(estimator)
        proba = to_numpy(estimator.predict_proba(X)).astype(float)
        if getattr(estimator, "multilabel_", False):
            return cls.from_predictions(read_label_matrix(y), proba, n_bins=n_bins, plot=plot, ax=ax)
        mark = getattr(estimator, "unlabeled", "auto")
        codes = encode_known_labels(y, np.asarray(estimator.classes_), proba.shape[0], mark)
        return cls.from_predictions(codes, proba, classes=range(proba.shape[1]), n_bins=n_bins, plot=plot, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y: Any,
        proba: Any,
        *,
        classes: Any = None,
        unlabeled: Mark = "auto",
        n_bins: int = 10,
        plot: bool = True,
        ax: Any = None,
    ) -> CalibrationDisplay:
        """Compare probabilities with what came true.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Class of each row, or 1 and 0 for labels that are present and absent, -1 where that is
            unknown. Unlabeled rows and unknown entries do not count.
        proba : array-like of shape (n_samples, n_classes) or (n_samples, n_labels)
            Probabilities; rows with NaN do not count.
        classes : array-like of shape (n_classes,), default=None
            Classes in the order of the columns of `proba`, such as `classes_` of an estimator. By
            default those in `y`, sorted; needed where `y` lacks one.
        unlabeled : "auto", int or None, default="auto"
            Which integer marks an unlabeled row; None: no integer does. "auto": -1, unless it is
            among `classes`, or the labels are just -1 and 1. None and NaN always mark one.
        n_bins : int, default=10
            Number of bins of equal width.
        plot : bool, default=True
            Whether to draw at once.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        display : CalibrationDisplay
        """
        check_number("n_bins", n_bins, ge=1, integer=True)
        check_unlabeled("unlabeled", unlabeled)
        proba = np.asarray(proba, dtype=float)
        shape = tuple(y.shape) if hasattr(y, "shape") else np.asarray(y, dtype=object).shape
        is_matrix = len(shape) == 2 and (shape[1] > 1 or shape == proba.shape)
        if proba.ndim != 2:
            raise ValueError(f"proba has shape {proba.shape}; allowed are all columns that predict_proba gives.")
        if shape[:1] != proba.shape[:1] or is_matrix and shape != proba.shape:
            raise ValueError(f"y has shape {shape} and proba {proba.shape}: they must agree.")
        codes = read_label_matrix(y) if is_matrix else _codes(y, proba.shape, classes, unlabeled)[:, None]
        true = codes == (1 if is_matrix else np.arange(proba.shape[1]))
        known = (codes >= 0) & ~np.isnan(proba)
        if not known.any():
            raise ValueError("no row has both a known class and a probability: there is nothing to compare.")
        display = cls(*_bins(proba[known], true[known], n_bins))
        return display.plot(ax=ax) if plot else display

    def plot(self, *, ax: Any = None, name: str | None = None, color: str = "#0072b2") -> CalibrationDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        name : str, default=None
            For the legend, which is drawn if there is a name.
        color : color of matplotlib, default="#0072b2"

        Returns
        -------
        self : CalibrationDisplay
        """
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots(figsize=(4.4, 4.2), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        ax.plot([0, 1], [0, 1], color="gray", linestyle="--", linewidth=1)
        errors = np.maximum([self.observed - self.lower, self.upper - self.observed], 0)
        self.line_ = ax.errorbar(
            self.predicted, self.observed, errors, fmt="o-", color=color, markersize=4, capsize=2, label=name
        )
        ax.set(xlabel="predicted probability", ylabel="share that came true", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        ax.set_title(f"Calibration, expected error {self.error:.3f}")
        if name is not None:
            ax.legend(frameon=False, fontsize="small", loc="upper left")
        return self


def _codes(y: Any, shape: tuple[int, ...], classes: Any, unlabeled: Mark) -> np.ndarray:
    """The column of the probabilities that each row's class has; -1 for unlabeled rows."""
    known = None if classes is None else np.asarray(classes)
    if known is not None and (known.shape != shape[1:] or len(set(known.tolist())) < known.size):
        raise ValueError(f"classes={known.tolist()}; allowed are {shape[1]} different ones, for the columns of proba.")
    labels, is_unlabeled, n_assumed = split_unlabeled(y, shape[0], unlabeled, known)
    found, codes_of_labels = np.unique(labels, return_inverse=True)
    if known is None:
        known = found
        if known.size not in (0, shape[1]):
            cure = " -1 counts as no label: pass unlabeled=None if it is a class." if n_assumed else ""
            raise ValueError(
                f"y has {known.size} classes ({', '.join(map(repr, known.tolist()[:10]))}"
                f"{', ...' if known.size > 10 else ''}) and proba has {shape[1]} columns: pass their classes, such as "
                f"classes=model.classes_.{cure}"
            )
    columns = {label: column for column, label in enumerate(known.tolist())}
    unknown = [label for label in found.tolist() if label not in columns]
    if unknown:
        raise ValueError(f"y holds the class {unknown[0]!r}, which is not among classes={known.tolist()}.")
    codes = np.full(shape[0], -1, dtype=np.int64)
    codes[~is_unlabeled] = np.array([columns[label] for label in found.tolist()], dtype=np.int64)[codes_of_labels]
    return codes


def _bins(proba: np.ndarray, true: np.ndarray, n_bins: int) -> tuple[np.ndarray, ...]:
    """Means, shares, interval ends and counts of the bins that are not empty."""
    place = np.minimum((proba * n_bins).astype(int), n_bins - 1)
    counts = np.bincount(place, minlength=n_bins)
    filled = counts > 0
    n = counts[filled]
    predicted = np.bincount(place, proba, n_bins)[filled] / n
    observed = np.bincount(place, true, n_bins)[filled] / n
    z = norm.ppf(0.5 + CONFIDENCE / 2)
    center = (observed + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * np.sqrt(observed * (1 - observed) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return predicted, observed, np.clip(center - half, 0.0, observed), np.clip(center + half, observed, 1.0), n
