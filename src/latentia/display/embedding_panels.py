"""Panels of an embedding: a plane with regions of labels or classes, or a line of histograms."""

from __future__ import annotations

from typing import Any

import numpy as np

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


def class_colors(n_classes: int) -> list[Any]:
    """A color for each class; beyond eight those of a larger palette."""
    if n_classes <= len(CLASS_COLORS):
        return list(CLASS_COLORS[:n_classes])
    import matplotlib.pyplot as plt

    palette = plt.get_cmap("tab10" if n_classes <= 10 else "tab20")
    return [palette(k % palette.N) for k in range(n_classes)]


def fit_legend(figure: Any, handles: list[Any], names: list[str]) -> int:
    """A legend above the panels, in as many columns as the figure is wide enough for; the number of
    its lines.
    """
    names = [name if len(name) <= LEGEND_LETTERS else f"{name[: LEGEND_LETTERS - 1]}…" for name in names]
    options = {"loc": "outside upper center", "fontsize": "small", "frameon": False, "markerscale": 2}
    for n_columns in range(max(1, min(LEGEND_COLUMNS, len(names))), 0, -1):
        legend = figure.legend(handles, names, ncols=n_columns, **options)
        if n_columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            break
        legend.remove()
    return -(-len(names) // n_columns)


def draw_groups(ax: Any, points: np.ndarray, groups: np.ndarray, names: list[str], colors: Any, size: float) -> None:
    """Points in the color of their group: in a plane as marks, on a line as stacked histograms."""
    parts = [points[groups == k] for k in range(len(names))]
    if points.shape[1] == 1:
        edges = np.linspace(*limits(points[:, 0]), BINS + 1)
        ax.hist([part[:, 0] for part in parts], edges, stacked=True, color=colors, label=names, linewidth=0)
        return
    for part, name, color in zip(parts, names, colors, strict=True):
        ax.scatter(*part.T, s=size, color=color, alpha=0.7, linewidths=0, label=name)


def draw_decision(ax: Any, weight: np.ndarray, intercept: float, across: Limits, up: Limits | None) -> Any:
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
    ax: Any, weights: np.ndarray, intercepts: np.ndarray, colors: Any, across: Limits, up: Limits | None
) -> None:
    """A tint of the class whose score is largest."""
    horizontal = np.linspace(*across, GRID)
    vertical = np.zeros(2) if up is None else np.linspace(*up, GRID)
    grid = np.stack(np.meshgrid(horizontal, vertical), axis=-1)[..., : weights.shape[1]]
    scores = grid @ weights.T + intercepts
    if weights.shape[0] == 1:  # of two classes the second has a score
        scores = np.concatenate([-scores, scores], axis=-1)
    best = np.argmax(scores, axis=-1)
    y = ax.get_ylim() if up is None else up
    image = np.array([_rgb(color) for color in colors])[best]
    ax.imshow(image, extent=(*across, *y), origin="lower", aspect="auto", alpha=0.15, zorder=0, interpolation="nearest")
    ax.set(xlim=across, ylim=y)


def limits(values: np.ndarray) -> Limits:
    """Ends with a little room about all values."""
    low, high = float(values.min()), float(values.max())
    room = 0.05 * (high - low if high > low else 1.0)
    return low - room, high + room


def _rgb(color: Any) -> Any:
    from matplotlib.colors import to_rgb

    return to_rgb(color)


def _line_in_box(normal: np.ndarray, offset: float, across: Limits, up: Limits) -> np.ndarray:
    """Two points of the line normal . z + offset = 0 on the edges of a box (or beyond, if it misses
    it).
    """
    flat = abs(normal[1]) * (across[1] - across[0]) >= abs(normal[0]) * (up[1] - up[0])
    if flat:
        return np.array([(a, -(offset + normal[0] * a) / normal[1]) for a in across])
    return np.array([(-(offset + normal[1] * b) / normal[0], b) for b in up])
