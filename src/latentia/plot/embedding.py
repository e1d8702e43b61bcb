"""The display of an embedding: classes in one panel, or several labels in a panel each. A panel is
a plane with regions of labels or classes, or a line of histograms.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from latentia.arrays.namespace import to_numpy
from latentia.plot.general import choose_axes
from latentia.table.frames import TableLike
from latentia.table.labels import LabelsLike, class_columns, encode_known_labels, read_label_matrix
from latentia.table.options import check_number

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.typing import ColorType


class EmbeddingDisplay:
    """One or two dimensions of an embedding: classes by their colors, labels in a panel each.

    Use `from_estimator` to make one from a fitted `ProbitEmbeddingClassifier`. Two dimensions are a
    plane, one is a line with histograms. A tint shows where a label is predicted, or which class
    has the largest score; the black line is where a label is undecided.

    Parameters
    ----------
    embedding : ndarray of shape (n_samples, 1 or 2)
        Where the rows lie.
    labels : ndarray of shape (n_samples, n_labels)
        1 (present), 0 (absent), -1 (unknown).
    weights : ndarray of shape (n_labels, 1 or 2)
        Normals of the decision lines ``weights @ z + intercepts = 0``.
    intercepts : ndarray of shape (n_labels,)
    label_names : sequence of str, default=None
        Names of the labels or classes; their numbers by default.
    axis_names : tuple of str, default=("dimension 1", "dimension 2")
        Names of the dimensions.
    exclusive : bool, default=False
        Whether the labels are classes, of which a row has one: then one panel shows all of them.
        Two classes have one label, and two names.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : ndarray of matplotlib Axes, one for each label; one for all classes
    lines_ : list of matplotlib Line2D or None
        Decision lines of labels; None for a label whose weights vanish. Empty for classes.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from latentia import EmbeddingDisplay, ProbitEmbeddingClassifier
    >>> X, Y = make_multilabel_classification(n_samples=100, n_classes=3, random_state=0)
    >>> model = ProbitEmbeddingClassifier(n_latent=2).fit(X, Y)
    >>> display = EmbeddingDisplay.from_estimator(model, X, Y)  # doctest: +SKIP
    """

    def __init__(
        self,
        embedding: np.ndarray,
        labels: np.ndarray,
        weights: np.ndarray,
        intercepts: np.ndarray,
        *,
        label_names: Sequence[Hashable] | None = None,
        axis_names: tuple[str, ...] = ("dimension 1", "dimension 2"),
        exclusive: bool = False,
    ):
        self.embedding = embedding
        self.labels = labels
        self.weights = weights
        self.intercepts = intercepts
        self.label_names = label_names
        self.axis_names = axis_names
        self.exclusive = exclusive

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: TableLike,
        y: LabelsLike,
        *,
        dims: tuple[int, ...] | None = None,
        label_names: Sequence[Hashable] | None = None,
        **options: Any,
    ) -> EmbeddingDisplay:
        """Draw the rows X with labels y where a fitted estimator places them.

        Parameters
        ----------
        estimator : ProbitEmbeddingClassifier
            A fitted one.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_labels) or (n_samples,)
        dims : tuple of one or two int, default=None
            Which dimensions are drawn; by default the first two, or the only one. Decisions are
            shown at the mean of the others.
        label_names : sequence of str, default=None
            Names; by default the columns of a data frame y seen in `fit`, else the classes.
        **options
            For `plot`.

        Returns
        -------
        display : EmbeddingDisplay
        """
        check_is_fitted(estimator)
        if not hasattr(estimator, "projection_"):
            raise TypeError(f"estimator is a {type(estimator).__name__}; allowed is a ProbitEmbeddingClassifier.")
        n_latent = estimator.n_latent_
        axes = list(range(min(2, n_latent))) if dims is None else choose_axes("dims", dims, (1, 2), n_latent)
        z = to_numpy(estimator.transform(X))
        weights, intercepts = to_numpy(estimator.weights_), to_numpy(estimator.intercepts_)
        rest = [d for d in range(n_latent) if d not in axes]
        display = cls(
            z[:, axes],
            _codes(estimator, y, z.shape[0]),
            weights[:, axes],
            intercepts + weights[:, rest] @ z[:, rest].mean(axis=0),
            label_names=getattr(estimator, "label_names_", estimator.classes_) if label_names is None else label_names,
            axis_names=tuple(f"dimension {d + 1}" for d in axes),
            exclusive=not estimator.multilabel_ and len(estimator.classes_) > 1,
        )
        return display.plot(**options)

    def plot(
        self, *, n_columns: int = 3, size: float = 8.0, panel: float | None = None, figure: Figure | None = None
    ) -> EmbeddingDisplay:
        """Draw.

        Parameters
        ----------
        n_columns : int, default=3
            Panels side by side.
        size : float, default=8.0
            Area of a mark in square points.
        panel : float, default=None
            Side of a panel in inches; 2.8 by default, 4.5 if there is one.
        figure : matplotlib Figure, default=None
            Where to draw; a new one by default.

        Returns
        -------
        self : EmbeddingDisplay
        """
        import matplotlib.pyplot as plt

        check_number("n_columns", n_columns, ge=1, integer=True)
        names = self._names()
        n_panels = 1 if self.exclusive else self.labels.shape[1]
        n_columns = min(n_columns, n_panels)
        n_rows = math.ceil(n_panels / n_columns)
        panel = (4.5 if n_panels == 1 else 2.8) if panel is None else panel
        is_own = figure is None
        if figure is None:
            figure = plt.figure(figsize=(panel * n_columns, panel * n_rows + 0.4), layout="constrained")
        grid = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
        for unused in grid.ravel()[n_panels:]:
            unused.remove()
        for above in grid[-2, n_panels - n_columns * (n_rows - 1) :] if n_rows > 1 else []:
            above.tick_params(labelbottom=True)  # its lower neighbor is gone
        self.figure_: Figure = figure
        self.axes_ = grid.ravel()[:n_panels]
        if self.exclusive:
            self.lines_: list[Line2D | None] = []
            self._draw_classes(self.axes_[0], names, size)
        else:
            self.lines_ = [self._draw_label(ax, label, size) for label, ax in enumerate(self.axes_)]
            for name, ax in zip(names, self.axes_, strict=True):
                ax.set_title(name, fontsize="medium")
        figure.supxlabel(self.axis_names[0], fontsize="medium")
        figure.supylabel(self.axis_names[1] if self.embedding.shape[1] > 1 else "rows", fontsize="medium")
        self._draw_legend(is_own)
        return self

    def _names(self) -> list[str]:
        """Of the labels, or of the classes."""
        n_labels = self.labels.shape[1]
        n_names = max(2, n_labels) if self.exclusive else n_labels
        if self.label_names is not None and not isinstance(self.label_names, Iterable):
            raise ValueError(f"label_names={self.label_names!r}; allowed are a name for each, or None.")
        names = list(range(n_names) if self.label_names is None else self.label_names)
        if len(names) != n_names:
            what = "classes" if self.exclusive else "labels"
            raise ValueError(f"label_names has {len(names)} entries, {names}, but there are {n_names} {what}.")
        return [str(name) for name in names]

    def _limits(self) -> tuple[Limits, Limits | None]:
        """Of the two axes; of the second None where there is but one dimension."""
        found = [limits(column) for column in self.embedding.T]
        return found[0], found[1] if len(found) == 2 else None

    def _draw_label(self, ax: Axes, label: int, size: float) -> Line2D | None:
        """The rows by whether they have a label, and its decision line."""
        words = ["unknown", "absent", "present"]
        draw_groups(ax, self.embedding, self.labels[:, label] + 1, words, [UNKNOWN, ABSENT, PRESENT], size)
        ax.tick_params(labelsize="small")
        across, up = self._limits()
        ax.set(xlim=across, ylim=up)
        return draw_decision(ax, self.weights[label], float(self.intercepts[label]), across, up)

    def _draw_classes(self, ax: Axes, names: list[str], size: float) -> None:
        """The rows by their class, those without one in gray."""
        own = self.labels[:, 0] if self.labels.shape[1] == 1 else np.argmax(self.labels, axis=1)
        own = np.where((self.labels < 0).any(axis=1), -1, own)
        colors = class_colors(len(names))
        draw_groups(ax, self.embedding, own + 1, [NO_LABEL, *names], [UNKNOWN, *colors], size)
        ax.tick_params(labelsize="small")
        draw_regions(ax, self.weights, self.intercepts, colors, *self._limits())

    def _draw_legend(self, grows: bool) -> None:
        """What the colors mean, of those that occur; a figure of our own grows by many lines."""
        handles, words = self.axes_[0].get_legend_handles_labels()
        words_of = {NO_LABEL: -1} if self.exclusive else {"unknown": -1, "absent": 0, "present": 1}
        unused = {word for word, code in words_of.items() if not (self.labels == code).any()}
        kept = [(h, w) for h, w in zip(handles, words, strict=True) if w not in unused]
        n_lines = fit_legend(self.figure_, [h for h, _ in kept], [w for _, w in kept])
        if grows and n_lines > 2:
            self.figure_.set_figheight(self.figure_.get_figheight() + LEGEND_LINE * (n_lines - 2))


def _codes(estimator: BaseEstimator, y: LabelsLike, n_rows: int) -> np.ndarray:
    """Labels (n_rows, n_labels) of 1, 0 and -1."""
    if estimator.multilabel_:
        codes = read_label_matrix(y)
        expected = (n_rows, len(estimator.classes_))
        if codes.shape != expected:
            raise ValueError(f"y has shape {codes.shape}; expected is {expected}.")
        return codes
    own = encode_known_labels(y, estimator.classes_, n_rows, estimator.unlabeled)
    return class_columns(own, len(estimator.classes_))


#: Colors that stay apart for color-blind readers; unknown labels are gray.
PRESENT, ABSENT, UNKNOWN = "#d55e00", "#56b4e9", "#b0b0b0"

CLASS_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#f0e442")

#: What rows without a class are called in pictures.
NO_LABEL = "no label"

#: Columns of a legend, at most, letters of a name in it, and the height of a line in inches.
LEGEND_COLUMNS, LEGEND_LETTERS, LEGEND_LINE = 5, 40, 0.19

#: Points of a grid along each axis, and bins of a histogram.
GRID, BINS = 200, 40

Limits = tuple[float, float]


def class_colors(n_classes: int) -> list[ColorType]:
    """A color for each class; beyond eight those of a larger palette."""
    if n_classes <= len(CLASS_COLORS):
        return list(CLASS_COLORS[:n_classes])
    import matplotlib.pyplot as plt

    palette = plt.get_cmap("tab10" if n_classes <= 10 else "tab20")
    return [palette(k % palette.N) for k in range(n_classes)]


def fit_legend(figure: Figure, handles: Sequence[Artist], names: list[str]) -> int:
    """A legend above the panels, in as many columns as the figure is wide enough for; the number of
    its lines.
    """
    names = [name if len(name) <= LEGEND_LETTERS else f"{name[: LEGEND_LETTERS - 1]}…" for name in names]
    look = {"fontsize": "small", "frameon": False, "markerscale": 2}
    for n_columns in range(max(1, min(LEGEND_COLUMNS, len(names))), 0, -1):
        legend = figure.legend(handles, names, loc="outside upper center", ncols=n_columns, **look)
        if n_columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            break
        legend.remove()
    return -(-len(names) // n_columns)


def draw_groups(
    ax: Axes, points: np.ndarray, groups: np.ndarray, names: list[str], colors: Sequence[ColorType], size: float
) -> None:
    """Points in the color of their group: in a plane as marks, on a line as stacked histograms."""
    parts = [points[groups == k] for k in range(len(names))]
    if points.shape[1] == 1:
        edges = np.linspace(*limits(points[:, 0]), BINS + 1).tolist()
        ax.hist([part[:, 0] for part in parts], edges, stacked=True, color=colors, label=names, linewidth=0)
        return
    for part, name, color in zip(parts, names, colors, strict=True):
        ax.scatter(part[:, 0], part[:, 1], s=size, color=color, alpha=0.7, linewidths=0, label=name)


def draw_decision(ax: Axes, weight: np.ndarray, intercept: float, across: Limits, up: Limits | None) -> Line2D | None:
    """Where a label is undecided, and a tint on the side where it is present; None if nowhere."""
    if not np.abs(weight).max() > 0:
        return None
    if up is None:
        edge = -intercept / weight[0]
        side = (edge, across[1]) if weight[0] > 0 else (across[0], edge)
        ax.axvspan(*np.clip(side, *across), color=PRESENT, alpha=0.1, linewidth=0, zorder=0)
        return ax.axvline(edge, color="black", linewidth=1.2)
    grid = np.stack(np.meshgrid(np.linspace(*across, GRID), np.linspace(*up, GRID)), axis=-1)
    ax.contourf(
        *np.moveaxis(grid, -1, 0), grid @ weight + intercept, levels=[0, np.inf], colors=[PRESENT], alpha=0.1, zorder=0
    )
    return ax.plot(*_line_in_box(weight, intercept, across, up).T, color="black", linewidth=1.2)[0]


def draw_regions(
    ax: Axes,
    weights: np.ndarray,
    intercepts: np.ndarray,
    colors: Sequence[ColorType],
    across: Limits,
    up: Limits | None,
) -> None:
    """A tint of the class whose score is largest."""
    from matplotlib.colors import to_rgb

    horizontal = np.linspace(*across, GRID)
    vertical = np.zeros(2) if up is None else np.linspace(*up, GRID)
    grid = np.stack(np.meshgrid(horizontal, vertical), axis=-1)[..., : weights.shape[1]]
    scores = grid @ weights.T + intercepts
    if weights.shape[0] == 1:  # of two classes the second has a score
        scores = np.concatenate([-scores, scores], axis=-1)
    best = np.argmax(scores, axis=-1)
    y = ax.get_ylim() if up is None else up
    image = np.array([to_rgb(color) for color in colors])[best]
    ax.imshow(image, extent=(*across, *y), origin="lower", aspect="auto", alpha=0.15, zorder=0, interpolation="nearest")
    ax.set(xlim=across, ylim=y)


def limits(values: np.ndarray) -> Limits:
    """Ends with a little room about all values."""
    low, high = float(values.min()), float(values.max())
    room = 0.05 * (high - low if high > low else 1.0)
    return low - room, high + room


def _line_in_box(normal: np.ndarray, offset: float, across: Limits, up: Limits) -> np.ndarray:
    """Two points of the line normal . z + offset = 0 on the edges of a box (or beyond, if it misses
    it).
    """
    flat = abs(normal[1]) * (across[1] - across[0]) >= abs(normal[0]) * (up[1] - up[0])
    if flat:
        return np.array([(a, -(offset + normal[0] * a) / normal[1]) for a in across])
    return np.array([(-(offset + normal[1] * b) / normal[0], b) for b in up])
