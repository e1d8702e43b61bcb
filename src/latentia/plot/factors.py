"""Displays of latent factors: rows in the plane of two, with an ellipse for each class; the columns
that they explain, as a table of colors; the graph of class, factors and columns; and an image
disclosed line by line, with how a generative model would complete it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from latentia.arrays.namespace import asarray_like, to_numpy
from latentia.estimators.base.summary import loading_correlations, strongest_by_column
from latentia.plot.embedding import NO_LABEL, UNKNOWN, class_colors
from latentia.plot.general import (
    MIN_CORRELATION,
    FactorModel,
    choose_axes,
    class_names,
    factor_strengths,
    feature_names,
    left_out_note,
    loading_names,
    require_classes,
    require_factor_model,
)
from latentia.table.frames import Table, TableLike, on_host
from latentia.table.labels import LabelsLike, encode_known_labels
from latentia.table.options import check_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

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
        names: Sequence[str],
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
        estimator: BaseEstimator,
        X: TableLike,
        y: LabelsLike | None = None,
        *,
        factors: tuple[int, int] | None = None,
        max_points: int = 2000,
        plot: bool = True,
        ax: Axes | None = None,
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

    def plot(self, *, ax: Axes | None = None, size: float = 12.0) -> LatentMapDisplay:
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
            ax.scatter(mine[:, 0], mine[:, 1], s=size, color=color, alpha=0.75, linewidths=0, label=name)
            for scale in ELLIPSES:
                width, height = 2 * scale * self.stds[code]
                ellipse = Ellipse(self.means[code], width, height, fill=False, edgecolor=color, linewidth=1.5 / scale)
                self.ellipses_.append(ax.add_patch(ellipse))
        if (self.codes < 0).any():
            unlabeled = self.positions[self.codes < 0]
            ax.scatter(
                unlabeled[:, 0], unlabeled[:, 1], s=size, color=UNKNOWN, linewidths=0, label=NO_LABEL, zorder=0.9
            )
        ax.set(
            xlabel=f"{self.axis_names[0]}, standard deviations",
            ylabel=f"{self.axis_names[1]}, standard deviations",
            title="Rows and classes in the latent space",
        )
        ax.legend(fontsize="small", frameon=False, markerscale=1.6, loc="center left", bbox_to_anchor=(1, 0.5))
        return self


def _choose_factors(factors: Sequence[int] | None, model: FactorModel, means: np.ndarray) -> list[int]:
    n_latent = means.shape[1]
    if n_latent < 2:
        raise ValueError(f"the model has {n_latent} latent factor; a map needs two of them.")
    if factors is not None:
        return choose_axes("factors", factors, (2,), n_latent)
    priors = to_numpy(model.priors_).astype(float)
    between = priors @ (means - priors @ means) ** 2
    is_idle = factor_strengths(model) < MIN_CORRELATION  # no column tells where rows lie
    return [int(k) for k in np.lexsort((-between, is_idle))[:2]]


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
        cls,
        estimator: BaseEstimator,
        *,
        max_rows: int = 30,
        max_factors: int = 8,
        plot: bool = True,
        ax: Axes | None = None,
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

    def plot(self, *, ax: Axes | None = None, colormap: str = "RdBu_r") -> LoadingsDisplay:
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
            text = ax.annotate(self.note, (0.5, 0), (0, -38), "axes fraction", "offset points", ha="center", va="top")
            text.set(fontsize="small", color="0.35")
        self.figure_.colorbar(self.image_, ax=ax, label="correlation", shrink=0.8, ticks=[-1, -0.5, 0, 0.5, 1])
        return self


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
        estimator: BaseEstimator,
        *,
        min_correlation: float = 0.15,
        max_columns: int = 24,
        plot: bool = True,
        ax: Axes | None = None,
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

    def plot(self, *, ax: Axes | None = None) -> StructureDisplay:
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


def _box(ax: Axes, x: float, y: float, text: str) -> None:
    style = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": "0.3"}
    ax.text(x, y, text, ha="center", va="center", fontsize="small", bbox=style, zorder=3)


class CompletionDisplay:
    """Class probabilities and completions of an image as more of its lines become known.

    Four rows of pictures, as in figure 9 of Langseth & Nielsen (2009): what is disclosed, the class
    probabilities, the expected completion, and the most probable value of each hidden pixel given
    the most probable class.

    Parameters
    ----------
    disclosed : ndarray of shape (n_steps, height, width)
        The image with NaN where it is hidden.
    probabilities : ndarray of shape (n_steps, n_classes)
        Class probabilities given what is disclosed.
    expected : ndarray of shape (n_steps, height, width)
        Expected completions, over all classes.
    probable : ndarray of shape (n_steps, height, width)
        Most probable values of the hidden pixels given the most probable class.
    classes : ndarray of shape (n_classes,)
        Names of the classes.
    true_class : class, default=None
        Whose bar is drawn in orange.
    lines : sequence of int, default=None
        How many lines are disclosed in each step, for the titles.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : ndarray of matplotlib Axes, shape (4, n_steps)

    Examples
    --------
    >>> import numpy as np
    >>> from latentia import CompletionDisplay, LatentClassificationModel
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> X = (rng.random((60, 12)) < np.where(y[:, None] == np.arange(12) % 2, 0.9, 0.1)).astype(int)
    >>> model = LatentClassificationModel(1, kinds="binary", random_state=0, tol=0.01).fit(X, y)
    >>> display = CompletionDisplay.from_estimator(
    ...     model, X[0], shape=(3, 4), lines=[1, 3], plot=False
    ... )
    >>> display.expected.shape
    (2, 3, 4)
    """

    def __init__(
        self,
        disclosed: np.ndarray,
        probabilities: np.ndarray,
        expected: np.ndarray,
        probable: np.ndarray,
        classes: np.ndarray,
        *,
        true_class: Hashable = None,
        lines: Sequence[int] | None = None,
    ):
        self.disclosed = disclosed
        self.probabilities = probabilities
        self.expected = expected
        self.probable = probable
        self.classes = classes
        self.true_class = true_class
        self.lines = lines

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        image: ArrayLike,
        *,
        shape: tuple[int, int],
        lines: Sequence[int] | None = None,
        true_class: Hashable = None,
        plot: bool = True,
        figure: Figure | None = None,
    ) -> CompletionDisplay:
        """Disclose an image to a fitted model, and draw what it says.

        Parameters
        ----------
        estimator : GaussianMixtureClassifier or LatentClassificationModel
            A fitted model whose columns are the pixels, line by line.
        image : array-like of shape (n_features,)
            The pixels.
        shape : tuple of int
            Height and width; their product is the number of columns.
        lines : sequence of int, default=None
            Numbers of lines that are disclosed; by default from none to all in about five equal
            steps.
        true_class : class, default=None
            The class of the image, to be drawn in orange.
        plot : bool, default=True
            Whether to draw at once.
        figure : matplotlib Figure, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        display : CompletionDisplay
        """
        if not (hasattr(estimator, "impute") and hasattr(estimator, "predict_proba")):
            raise TypeError(
                f"estimator is a {type(estimator).__name__}, which does not complete rows; allowed are fitted "
                "generative classifiers, GaussianMixtureClassifier and LatentClassificationModel."
            )
        check_is_fitted(estimator)
        require_classes(estimator)
        height, width = shape
        pixels = on_host(image, dtype=float).ravel()
        if height * width != pixels.size or pixels.size != estimator.n_features_in_:
            raise ValueError(
                f"shape={shape!r} has {height * width} pixels, image {pixels.size}, and the model "
                f"{estimator.n_features_in_} columns: all must be equal."
            )
        if true_class is not None and true_class not in estimator.classes_.tolist():
            raise ValueError(f"true_class={true_class!r}; allowed are the classes {estimator.classes_.tolist()}.")
        steps = _check_lines(lines, height)
        rows = np.stack([np.where(np.arange(pixels.size) < known * width, pixels, np.nan) for known in steps])
        table = _like_fitted(estimator, rows)
        picture = (len(steps), height, width)
        expected = np.asarray(to_numpy(estimator.impute(table)), dtype=float).reshape(picture)
        probable = to_numpy(estimator.impute(table, method="mode", condition="class"))
        display = cls(
            rows.reshape(picture),
            np.asarray(to_numpy(estimator.predict_proba(table))),
            expected,
            np.asarray(probable, dtype=float).reshape(picture),
            np.asarray(estimator.classes_),
            true_class=true_class,
            lines=steps,
        )
        return display.plot(figure) if plot else display

    def plot(self, figure: Figure | None = None) -> CompletionDisplay:
        """Draw the four rows of pictures.

        Parameters
        ----------
        figure : matplotlib Figure, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        display : CompletionDisplay
        """
        import matplotlib.pyplot as plt

        n_steps = len(self.disclosed)
        figure = figure if figure is not None else plt.figure(figsize=(1.8 * n_steps + 1, 7), layout="constrained")
        axes = figure.subplots(4, n_steps, squeeze=False)
        low, high = np.nanmin(self.expected), np.nanmax(self.expected)
        colors = plt.get_cmap("gray").with_extremes(bad=(0.12, 0.47, 0.71, 0.35))
        for step in range(n_steps):
            for row, pictures in zip((0, 2, 3), (self.disclosed, self.expected, self.probable), strict=True):
                axes[row, step].imshow(pictures[step], cmap=colors, vmin=low, vmax=high)
                axes[row, step].set(xticks=[], yticks=[])
            self._draw_probabilities(axes[1, step], step)
            if self.lines is not None:
                n = self.lines[step]
                axes[0, step].set_title("1 line" if n == 1 else f"{n} lines", fontsize="medium")
        for row, title in enumerate(["disclosed", "p(class)", "expected", "most probable"]):
            axes[row, 0].set_ylabel(title)
        self.figure_, self.axes_ = figure, axes
        return self

    def _draw_probabilities(self, axis: Axes, step: int) -> None:
        """A bar for each class on an axis from 0 to 1, that of the true class in orange."""
        places = np.arange(len(self.classes))
        colors = ["tab:orange" if c == self.true_class else "tab:blue" for c in self.classes.tolist()]
        axis.bar(places, self.probabilities[step], color=colors)
        axis.set(ylim=(0, 1), yticks=[0, 0.5, 1], xticks=places)
        axis.set_xticklabels([str(c) for c in self.classes], fontsize=7)
        axis.tick_params(axis="y", labelsize=7, labelleft=step == 0)
        axis.grid(axis="y", alpha=0.3)


def _check_lines(lines: Sequence[int] | None, height: int) -> list[int]:
    """Numbers of lines from 0 to the height; by default in about five equal steps, and all."""
    if lines is None:
        return sorted({*range(0, height, max(1, round(height / 4))), height})
    steps = list(lines) if np.ndim(lines) == 1 else []
    whole = all(isinstance(n, Integral) and 0 <= int(n) <= height for n in steps)
    if not steps or not whole:
        raise ValueError(f"lines={lines!r}; allowed is a sequence of integers from 0 to the height {height}.")
    return [int(n) for n in steps]


def _like_fitted(estimator: BaseEstimator, rows: np.ndarray) -> Table:
    """Rows as the estimator saw them: under the same names, or in the same array library."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return asarray_like(rows, estimator.priors_)
    from pandas import DataFrame  # names come from data frames

    return DataFrame(rows, columns=names)
