"""The plane of an embedding, drawn once per label with the label's decision line."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from latentia.inputs.label_matrix import read_label_matrix
from latentia.inputs.labels import encode_known_labels
from latentia.inputs.options import check_number
from latentia.numerics.array_api import to_numpy

#: Colors that stay apart for color-blind readers; unknown labels are gray.
COLORS = {1: "#d55e00", 0: "#56b4e9", -1: "#b0b0b0"}

WORDS = {1: "present", 0: "absent", -1: "unknown"}


class EmbeddingDisplay:
    """Two dimensions of an embedding in small multiples, one for each label.

    Use `from_estimator` to make one from a fitted `ProbitEmbeddingClassifier`.

    Parameters
    ----------
    embedding : ndarray of shape (n_samples, 2)
        Where the rows lie.
    labels : ndarray of shape (n_samples, n_labels)
        1 (present), 0 (absent), -1 (unknown).
    weights : ndarray of shape (n_labels, 2)
        Normals of the decision lines ``weights @ z + intercepts = 0``.
    intercepts : ndarray of shape (n_labels,)
    label_names : sequence of str, default=None
        Titles; the numbers of the labels by default.
    axis_names : tuple of str, default=("z1", "z2")
        Names of the two dimensions.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : ndarray of matplotlib Axes, one for each label
    lines_ : list of matplotlib Line2D or None
        Decision lines; None for a label whose weights vanish.

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
        label_names: Any = None,
        axis_names: tuple[str, str] = ("z1", "z2"),
    ):
        self.embedding = embedding
        self.labels = labels
        self.weights = weights
        self.intercepts = intercepts
        self.label_names = label_names
        self.axis_names = axis_names

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, dims: tuple[int, int] = (0, 1), label_names: Any = None, **options: Any
    ) -> EmbeddingDisplay:
        """Draw the rows X with labels y where a fitted estimator places them.

        Parameters
        ----------
        estimator : ProbitEmbeddingClassifier
            Fitted, with at least two dimensions.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples, n_labels) or (n_samples,)
        dims : tuple of two int, default=(0, 1)
            Which dimensions are drawn. The decision lines are taken at the mean of the others.
        label_names : sequence of str, default=None
            Titles; by default the columns of a data frame y seen in `fit`, else the classes.
        **options
            For `plot`.

        Returns
        -------
        display : EmbeddingDisplay
        """
        check_is_fitted(estimator, "projection_")
        n_latent = estimator.n_latent_
        if n_latent < 2:
            raise ValueError(f"estimator has n_latent_={n_latent}; a plane needs at least 2 dimensions.")
        if len(dims) != 2 or dims[0] == dims[1] or not all(0 <= d < n_latent for d in dims):
            raise ValueError(f"dims={dims!r}; allowed are two different numbers from 0 to {n_latent - 1}.")
        z = to_numpy(estimator.transform(X))
        weights, intercepts = to_numpy(estimator.weights_), to_numpy(estimator.intercepts_)
        rest = [d for d in range(n_latent) if d not in dims]
        display = cls(
            z[:, list(dims)],
            _codes(estimator, y, z.shape[0]),
            weights[:, list(dims)],
            intercepts + weights[:, rest] @ z[:, rest].mean(axis=0),
            label_names=_names(estimator) if label_names is None else label_names,
            axis_names=(f"z{dims[0] + 1}", f"z{dims[1] + 1}"),
        )
        return display.plot(**options)

    def plot(
        self, *, n_columns: int = 3, size: float = 8.0, panel: float = 2.8, figure: Any = None
    ) -> EmbeddingDisplay:
        """Draw.

        Parameters
        ----------
        n_columns : int, default=3
            Panels side by side.
        size : float, default=8.0
            Area of a mark in square points.
        panel : float, default=2.8
            Side of a panel in inches.
        figure : matplotlib Figure, default=None
            Where to draw; a new one by default.

        Returns
        -------
        self : EmbeddingDisplay
        """
        import matplotlib.pyplot as plt

        check_number("n_columns", n_columns, ge=1, integer=True)
        n_labels = self.labels.shape[1]
        n_columns = min(n_columns, n_labels)
        n_rows = math.ceil(n_labels / n_columns)
        if figure is None:
            figure = plt.figure(figsize=(panel * n_columns, panel * n_rows + 0.4), layout="constrained")
        grid = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
        for unused in grid.ravel()[n_labels:]:
            unused.remove()
        self.figure_, self.axes_ = figure, grid.ravel()[:n_labels]
        names = range(n_labels) if self.label_names is None else self.label_names
        self.lines_ = [self._panel(ax, label, size) for label, ax in enumerate(self.axes_)]
        for name, ax in zip(names, self.axes_, strict=True):
            ax.set_title(str(name), fontsize="medium")
        figure.supxlabel(self.axis_names[0], fontsize="medium")
        figure.supylabel(self.axis_names[1], fontsize="medium")
        self._legend()
        return self

    def _panel(self, ax: Any, label: int, size: float) -> Any:
        """The rows by their label, and its decision line."""
        for code in (-1, 0, 1):
            mine = self.embedding[self.labels[:, label] == code]
            ax.scatter(*mine.T, s=size, c=COLORS[code], alpha=0.7, linewidths=0, label=WORDS[code])
        ax.tick_params(labelsize="small")
        across, up = _box(self.embedding)
        ax.set(xlim=across, ylim=up)
        ends = _line_in_box(self.weights[label], float(self.intercepts[label]), across, up)
        if ends is None:
            return None
        return ax.plot(*ends.T, color="black", linewidth=1.2)[0]

    def _legend(self) -> None:
        handles, words = self.axes_[0].get_legend_handles_labels()
        codes = [code for code in (-1, 0, 1) if (self.labels == code).any()]
        shown = [words.index(WORDS[code]) for code in codes]
        self.figure_.legend(
            [handles[k] for k in shown],
            [words[k] for k in shown],
            loc="outside upper right",
            ncols=3,
            fontsize="small",
            frameon=False,
        )


def _box(points: np.ndarray) -> tuple[tuple[float, float], tuple[float, float]]:
    """Limits with a little room about all points."""
    low, high = points.min(axis=0), points.max(axis=0)
    room = 0.05 * np.where(high > low, high - low, 1.0)
    low, high = low - room, high + room
    return (float(low[0]), float(high[0])), (float(low[1]), float(high[1]))


def _line_in_box(
    normal: np.ndarray, offset: float, across: tuple[float, float], up: tuple[float, float]
) -> np.ndarray | None:
    """Two points of the line normal . z + offset = 0 on the edges of a box (or beyond, if it misses
    it), or None.
    """
    if not np.abs(normal).max() > 0:
        return None
    flat = abs(normal[1]) * (across[1] - across[0]) >= abs(normal[0]) * (up[1] - up[0])
    if flat:
        return np.array([(a, -(offset + normal[0] * a) / normal[1]) for a in across])
    return np.array([(-(offset + normal[1] * b) / normal[0], b) for b in up])


def _codes(estimator: Any, y: Any, n_rows: int) -> np.ndarray:
    """Labels (n_rows, n_labels) of 1, 0 and -1."""
    if estimator.multilabel_:
        codes = read_label_matrix(y)
        expected = (n_rows, len(estimator.classes_))
        if codes.shape != expected:
            raise ValueError(f"y has shape {codes.shape}; expected is {expected}.")
        return codes
    own = encode_known_labels(y, estimator.classes_, n_rows)
    n_classes = len(estimator.classes_)
    if n_classes <= 2:
        return own[:, None]
    return np.where(own[:, None] < 0, -1, (own[:, None] == np.arange(n_classes)).astype(int))


def _names(estimator: Any) -> Any:
    if hasattr(estimator, "label_names_"):
        return estimator.label_names_
    return estimator.classes_[1:] if len(estimator.classes_) == 2 and not estimator.multilabel_ else estimator.classes_
