"""Displays of any estimator: calibration, the objective after each sweep, what a search has tried;
and what all displays ask of a fitted estimator: names, and the model that has the latent factors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from scipy.stats import norm
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from latentia.arrays.namespace import Array, to_numpy
from latentia.engine.rows import Preprocessor
from latentia.estimators.base.summary import loading_correlations
from latentia.table.frames import TableLike
from latentia.table.labels import (
    LabelsLike,
    Mark,
    check_unlabeled,
    encode_known_labels,
    read_label_matrix,
    split_unlabeled,
)
from latentia.table.options import check_number

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

#: What a search has tried: a column of values for each setting and score.
Trials: TypeAlias = "Mapping[str, Sequence[object]] | pandas.DataFrame"


class FactorModel(Protocol):
    """A fitted model with latent factors."""

    classes_: np.ndarray
    n_features_in_: int
    priors_: Array
    latent_means_: Array
    latent_variances_: Array
    loadings_: Array
    loading_features_: np.ndarray
    noise_variances_: Array
    edges_: np.ndarray

    def transform(self, X: TableLike) -> Array: ...


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
        cls,
        estimator: BaseEstimator,
        X: TableLike,
        y: LabelsLike,
        *,
        n_bins: int = 10,
        plot: bool = True,
        ax: Axes | None = None,
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
        y: LabelsLike,
        proba: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        unlabeled: Mark = "auto",
        n_bins: int = 10,
        plot: bool = True,
        ax: Axes | None = None,
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

    def plot(self, *, ax: Axes | None = None, name: str | None = None, color: str = "#0072b2") -> CalibrationDisplay:
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


def _codes(y: LabelsLike, shape: tuple[int, ...], classes: ArrayLike | None, unlabeled: Mark) -> np.ndarray:
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
    def from_estimator(
        cls, estimator: BaseEstimator, *, plot: bool = True, ax: Axes | None = None
    ) -> ObjectiveCurveDisplay:
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

    def plot(self, *, ax: Axes | None = None, color: str = "#0072b2") -> ObjectiveCurveDisplay:
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
        cls, estimator: BaseEstimator, *, max_rows: int = 20, plot: bool = True, ax: Axes | None = None
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

    def plot(
        self, *, ax: Axes | None = None, color: str = "#0072b2", best_color: str = "#d55e00"
    ) -> SearchResultsDisplay:
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


def _score_that_chose(estimator: BaseEstimator, table: Trials) -> tuple[str, str | None, str, bool]:
    """The score by which the best setting is the one that was taken."""
    if "mean_accuracy" in table and getattr(estimator, "best_score_", -1.0) > 0:  # a log loss is negated there
        return ACCURACY
    return next(score for score in SCORES if score[0] in table)


def setting_names(table: Trials) -> list[str]:
    """A name for each line of a table of trials: the settings that differ between them."""
    known = [name for name in SETTINGS if name in table]
    columns = {name: [_plain(value) for value in table[name]] for name in known}
    varied = [name for name in known if len(set(columns[name])) > 1] or known[:1]
    if varied == ["candidate"]:
        return columns["candidate"]
    rows = zip(*(columns[name] for name in varied), strict=True)
    words = [name.removeprefix("n_") for name in varied]
    return [", ".join(f"{word} {value}" for word, value in zip(words, row, strict=True)) for row in rows]


def _plain(value: object) -> str:
    if isinstance(value, tuple | list | np.ndarray):
        return "(" + ", ".join(_plain(v) for v in value) + ")"
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)


#: Factors without a stronger correlation than this explain no column.
MIN_CORRELATION = 0.1


def factor_model(estimator: BaseEstimator) -> FactorModel | None:
    """The fitted model with latent factors: the estimator itself, or the best such member of a
    stack; None if there is none.
    """
    check_is_fitted(estimator)
    model = getattr(estimator, "factor_estimator_", estimator)
    return model if hasattr(model, "loadings_") and model.latent_means_.shape[1] > 0 else None


def factor_strengths(model: FactorModel) -> np.ndarray:
    """The strongest correlation of each latent factor with a column, without its sign."""
    correlations = loading_correlations(model.loadings_, model.loading_features_, model.noise_variances_)
    return np.abs(correlations).max(axis=0)


def preprocessor_of(estimator: BaseEstimator) -> Preprocessor | None:
    """How rows are standardized for the estimator, the best of a search, or the member of a stack
    that fills gaps; None if they are not.
    """
    model = getattr(estimator, "density_estimator_", getattr(estimator, "best_estimator_", estimator))
    return getattr(getattr(model, "_model", None), "preprocessor", None)


def columns_without_values(estimator: BaseEstimator) -> np.ndarray:
    """Which columns had no known cell in `fit`, so that nothing is known of their gaps, (D,)."""
    empty = getattr(preprocessor_of(estimator), "empty_columns", None)
    return np.zeros(estimator.n_features_in_, bool) if empty is None else to_numpy(empty)


def require_factor_model(estimator: BaseEstimator) -> FactorModel:
    """The same; an error that names what is allowed if there is none."""
    model = factor_model(estimator)
    if model is None:
        raise TypeError(
            f"estimator is a {type(estimator).__name__} without latent factors; allowed are a "
            "LatentClassificationModel with n_latent > 0, and a LatentClassifier with such a member."
        )
    return model


def require_classes(estimator: BaseEstimator) -> None:
    """Refuse an estimator of label matrices, in which a row has no class of its own."""
    if getattr(estimator, "multilabel_", False):
        raise ValueError(
            f"estimator is a {type(estimator).__name__} fitted to a label matrix; allowed are those fitted to classes, "
            "one for each row."
        )


def feature_names(estimator: BaseEstimator) -> list[str]:
    """Names of the columns; numbered from zero, as errors do, where they have none."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    return [f"column {place}" for place in range(estimator.n_features_in_)]


def choose_axes(name: str, chosen: Sequence[int], n_axes: tuple[int, ...], n_latent: int) -> list[int]:
    """Different latent dimensions, as many as one of `n_axes`; an error that names what is
    allowed.
    """
    axes = list(chosen) if np.ndim(chosen) == 1 else []
    valid = all(isinstance(k, Integral) and 0 <= int(k) < n_latent for k in axes)
    if not valid or len(axes) not in n_axes or len(set(axes)) < len(axes):
        count = " or ".join({1: "one", 2: "two"}[n] for n in n_axes)
        raise ValueError(f"{name}={chosen!r}; allowed are {count} different numbers from 0 to {n_latent - 1}.")
    return [int(k) for k in axes]


def class_names(estimator: BaseEstimator) -> list[str]:
    """Names of the classes, or of the labels of a matrix."""
    if getattr(estimator, "multilabel_", False):
        given = getattr(estimator, "label_names_", None)
        return [f"label {k}" for k in estimator.classes_] if given is None else [str(name) for name in given]
    return [str(name) for name in estimator.classes_.tolist()]


def loading_names(estimator: BaseEstimator) -> list[str]:
    """A name for each row of the loadings: the column, with its value where it has several rows."""
    names = feature_names(estimator)
    columns = np.asarray(to_numpy(estimator.loading_features_)).tolist()
    categories = getattr(estimator, "categories_", [None] * len(names))
    found, seen = [], dict.fromkeys(columns, 0)
    for column in columns:
        n_rows, place = columns.count(column), seen[column]
        seen[column] += 1
        values = categories[column]
        if n_rows == 1:
            found.append(names[column])
        elif values is not None and len(values) == n_rows:
            found.append(f"{names[column]} = {values[place]}")
        else:
            found.append(f"{names[column]}, step {place + 1}")
    return found


def left_out_note(n_shown: int, n_all: int, what: str) -> str:
    """What a picture says that does not show all columns."""
    return f"{n_shown} of {n_all} {what}:\nthe largest loadings" if n_shown < n_all else ""
