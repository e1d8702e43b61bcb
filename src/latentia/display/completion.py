"""An image disclosed line by line: what the model makes of it, and how it would complete it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from latentia.numerics.array_api import asarray_like, to_numpy


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
    ):
        self.disclosed = disclosed
        self.probabilities = probabilities
        self.expected = expected
        self.probable = probable
        self.classes = classes

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        image: Any,
        *,
        shape: tuple[int, int],
        lines: Sequence[int] | None = None,
        plot: bool = True,
        figure: Any = None,
    ) -> CompletionDisplay:
        """Disclose an image to a fitted model, and draw what it says.

        Parameters
        ----------
        estimator : LatentClassificationModel
            A fitted model whose columns are the pixels, line by line.
        image : array-like of shape (n_features,)
            The pixels.
        shape : tuple of int
            Height and width; their product is the number of columns.
        lines : sequence of int, default=None
            Numbers of lines that are disclosed; about five, ending with all, by default.
        plot : bool, default=True
            Whether to draw at once.
        figure : matplotlib Figure, default=None
            Where to draw; a new figure by default.

        Returns
        -------
        display : CompletionDisplay
        """
        check_is_fitted(estimator)
        height, width = shape
        pixels = np.asarray(to_numpy(image), dtype=float).ravel()
        if height * width != pixels.size or pixels.size != estimator.n_features_in_:
            raise ValueError(
                f"shape={shape!r} has {height * width} pixels, image {pixels.size}, and the model "
                f"{estimator.n_features_in_} columns: all must be equal."
            )
        lines = (
            list(lines) if lines is not None else np.unique(np.linspace(0, height, 6).round().astype(int))[1:].tolist()
        )
        if not lines or min(lines) < 0 or max(lines) > height:
            raise ValueError(f"lines={lines!r}; allowed are numbers from 0 to the height {height}.")
        rows = np.stack([np.where(np.arange(pixels.size) < known * width, pixels, np.nan) for known in lines])
        like = asarray_like(rows, estimator.priors_)
        picture = (len(lines), height, width)
        expected = np.asarray(to_numpy(estimator.impute(like)), dtype=float).reshape(picture)
        probable = to_numpy(estimator.impute(like, method="mode", condition="class"))
        display = cls(
            rows.reshape(picture),
            np.asarray(to_numpy(estimator.predict_proba(like))),
            expected,
            np.asarray(probable, dtype=float).reshape(picture),
            np.asarray(estimator.classes_),
        )
        return display.plot(figure) if plot else display

    def plot(self, figure: Any = None) -> CompletionDisplay:
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
            bars = axes[1, step]
            bars.bar(np.arange(len(self.classes)), self.probabilities[step], color="tab:blue")
            bars.set(ylim=(0, 1), yticks=[], xticks=np.arange(len(self.classes)))
            bars.set_xticklabels([str(c) for c in self.classes], fontsize=7)
        for row, title in enumerate(["disclosed", "p(class)", "expected", "most probable"]):
            axes[row, 0].set_ylabel(title)
        self.figure_, self.axes_ = figure, axes
        return self
