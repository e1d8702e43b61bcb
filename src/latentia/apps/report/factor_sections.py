"""Maps: the latent space, decision regions; and which columns the factors tell of."""

from __future__ import annotations

import numpy as np

from latentia.apps.report.elements import Cell, Section, Shade, figure, paragraph, table
from latentia.apps.report.facts import Facts
from latentia.apps.report.svg import Plot, legend
from latentia.apps.report.tables import numbers_of, rows_of, with_values
from latentia.arrays.namespace import is_sparse
from latentia.plot.factors import ELLIPSES, LatentMapDisplay, LoadingsDisplay

#: Cells of a map of decision regions along each axis; shades of a class.
GRID, SHADES = 36, 4

#: Classes that have their name and ellipses in a map.
MAX_NAMED = 12


def latent_map(facts: Facts) -> Section | None:
    """Rows and class ellipses in the plane of the two factors that tell the classes apart best."""
    if facts.factors is None or not facts.has_classes or facts.factors.latent_means_.shape[1] < 2:
        return None
    rows = facts.rows[facts.drawn]
    found = LatentMapDisplay.from_estimator(facts.model, rows_of(facts.X, rows), plot=False)
    codes, points = facts.codes[rows], found.positions
    wide = max(ELLIPSES) * found.stds
    reach = np.concatenate([points, found.means - wide, found.means + wide])
    plot = Plot(_ends(reach[:, 0]), _ends(reach[:, 1]))
    plot.axes(f"{found.axis_names[0]}, standard deviations", f"{found.axis_names[1]}, standard deviations")
    _draw_points(plot, points, codes, len(facts.classes))
    few = len(facts.classes) <= MAX_NAMED
    for group in range(len(facts.classes) if few else 0):
        for scale in ELLIPSES:
            plot.ellipse(found.means[group], scale * found.stds[group], group, "thin" if scale > 1 else "")
    for group in range(len(facts.classes) if few else 0):
        plot.label(found.means[group], facts.classes[group], group)
    drawing = plot.draw(
        "Latent map", f"{len(points):,} rows at {found.axis_names[0]} and {found.axis_names[1]}, by their class."
    )
    caption = "A row lies where its known cells place it. Ellipses: one and two standard deviations of a class."
    return Section(
        "Latent map",
        paragraph("The two factors that tell the classes apart best, of those that explain the columns.")
        + _with_legend(facts, drawing, caption, codes),
        half=True,
    )


def decision_regions(facts: Facts) -> Section | None:
    """What the model says where only the two most telling columns are known."""
    numeric = [k for k, kind in enumerate(facts.kinds) if kind == "continuous"]
    if not facts.has_classes or len(numeric) < 2 or is_sparse(facts.X):
        return None
    first, second = sorted(numeric, key=lambda k: -facts.separation[k])[:2]
    points = np.stack([numbers_of(facts.X, k)[facts.rows[facts.drawn]] for k in (first, second)], axis=1)
    known = ~np.isnan(points).any(axis=1)
    if not known.any():
        return None
    across, up = (_ends(np.quantile(points[known, k], (0.005, 0.995))) for k in (0, 1))
    plot = Plot(across, up)
    _draw_regions(facts, plot, first, second)
    plot.axes(facts.columns[first][:40], facts.columns[second][:32])
    inside = known & _inside(points, across, up)
    codes = facts.known[facts.drawn][inside]
    _draw_points(plot, points[inside], codes, len(facts.classes))
    drawing = plot.draw(
        "Decision regions", f"Most probable class by {facts.columns[first]} and {facts.columns[second]}, with the rows."
    )
    rest = "all other cells missing" if facts.takes_gaps else "all other columns at their mean"
    caption = f"The most probable class with {rest}; stronger where it is surer. Marks: rows by their class."
    return Section(
        "Decision regions",
        paragraph("The two columns of numbers that differ most between the classes.")
        + _with_legend(facts, drawing, caption, codes),
        half=True,
    )


def _draw_regions(facts: Facts, plot: Plot, first: int, second: int) -> None:
    """Rectangles of one class and shade, as wide as they go."""
    edges = [np.linspace(*ends, GRID + 1) for ends in (plot.across, plot.up)]
    centers = [(e[:-1] + e[1:]) / 2 for e in edges]
    a, b = (c.ravel() for c in np.meshgrid(*centers))
    fill = {k: np.nan for k in range(facts.n_columns)}
    if not facts.takes_gaps:
        fill = {k: float(numbers_of(facts.X, k).mean()) for k in range(facts.n_columns)}
    proba = facts.proba_of(with_values(facts.X, {first: a, second: b}, fill))
    best = proba.argmax(axis=1).reshape(GRID, GRID)
    floor = 1 / proba.shape[1]
    sure = (proba.max(axis=1).reshape(GRID, GRID) - floor) / (1 - floor)
    shade = np.minimum((sure * SHADES).astype(int), SHADES - 1)
    for row in range(GRID):
        start = 0
        for column in range(1, GRID + 1):
            same = column < GRID and (best[row, column], shade[row, column]) == (best[row, start], shade[row, start])
            if not same:
                box = (edges[0][start], edges[0][column]), (edges[1][row], edges[1][row + 1])
                plot.box(*box, int(best[row, start]), 0.08 + 0.07 * int(shade[row, start]))
                start = column


def _draw_points(plot: Plot, points: np.ndarray, codes: np.ndarray, n_classes: int) -> None:
    for group in range(-1, n_classes):
        plot.marks(points[codes == group], group)


def _with_legend(facts: Facts, drawing: str, caption: str, codes: np.ndarray) -> str:
    many = len(facts.classes) > 2 * MAX_NAMED
    return figure(("" if many else legend(facts.classes, bool((codes < 0).any()))) + drawing, caption)


def loadings(facts: Facts) -> Section | None:
    """Correlations of the columns with the factors."""
    if facts.factors is None:
        return None
    found = LoadingsDisplay.from_estimator(facts.model, plot=False)
    if not found.factor_names:
        return None
    rows: list[list[Cell]] = [
        [name, *(_shaded(value) for value in row)]
        for name, row in zip(found.row_names, found.correlations.tolist(), strict=True)
    ]
    body = paragraph(
        "Correlations of columns with the latent factors; a square is the share of a column's variance that a "
        "factor explains."
    )
    return Section("Factors and loadings", body + table("Loadings", ["column", *found.factor_names], rows))


def _shaded(value: float) -> Cell:
    return Shade(f"{value:+.2f}", value) if abs(value) >= 0.005 else "0"


def _ends(values: np.ndarray) -> tuple[float, float]:
    low, high = float(np.min(values)), float(np.max(values))
    room = 0.05 * (high - low)
    return low - room, high + room


def _inside(points: np.ndarray, across: tuple[float, float], up: tuple[float, float]) -> np.ndarray:
    low, high = np.array([across[0], up[0]]), np.array([across[1], up[1]])
    return np.asarray(((points >= low) & (points <= high)).all(axis=1))
