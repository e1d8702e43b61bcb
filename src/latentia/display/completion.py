"""An image disclosed line by line: what the model makes of it, and how it would complete it."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from latentia.arrays.namespace import asarray_like, to_numpy
from latentia.display.fitted_parts import require_classes


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
        true_class: Any = None,
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
        estimator: Any,
        image: Any,
        *,
        shape: tuple[int, int],
        lines: Sequence[int] | None = None,
        true_class: Any = None,
        plot: bool = True,
        figure: Any = None,
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
        pixels = np.asarray(to_numpy(image), dtype=float).ravel()
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
            self._draw_probabilities(axes[1, step], step)
            if self.lines is not None:
                n = self.lines[step]
                axes[0, step].set_title("1 line" if n == 1 else f"{n} lines", fontsize="medium")
        for row, title in enumerate(["disclosed", "p(class)", "expected", "most probable"]):
            axes[row, 0].set_ylabel(title)
        self.figure_, self.axes_ = figure, axes
        return self

    def _draw_probabilities(self, axis: Any, step: int) -> None:
        """A bar for each class on an axis from 0 to 1, that of the true class in orange."""
        places = np.arange(len(self.classes))
        colors = ["tab:orange" if c == self.true_class else "tab:blue" for c in self.classes.tolist()]
        axis.bar(places, self.probabilities[step], color=colors)
        axis.set(ylim=(0, 1), yticks=[0, 0.5, 1], xticks=places)
        axis.set_xticklabels([str(c) for c in self.classes], fontsize=7)
        axis.tick_params(axis="y", labelsize=7, labelleft=step == 0)
        axis.grid(axis="y", alpha=0.3)


def _check_lines(lines: Any, height: int) -> list[int]:
    """Numbers of lines from 0 to the height; by default in about five equal steps, and all."""
    if lines is None:
        return sorted({*range(0, height, max(1, round(height / 4))), height})
    steps = list(lines) if np.ndim(lines) == 1 else []
    whole = all(isinstance(n, Integral) and 0 <= int(n) <= height for n in steps)
    if not steps or not whole:
        raise ValueError(f"lines={lines!r}; allowed is a sequence of integers from 0 to the height {height}.")
    return [int(n) for n in steps]


def _like_fitted(estimator: Any, rows: np.ndarray) -> Any:
    """Rows as the estimator saw them: under the same names, or in the same array library."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return asarray_like(rows, estimator.priors_)
    from pandas import DataFrame  # names come from data frames

    return DataFrame(rows, columns=names)
