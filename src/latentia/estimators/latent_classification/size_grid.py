"""Which settings the search over sizes tries: given ones, else the defaults for such tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from latentia.engine.sweep import OBJECTIVES
from latentia.estimators.base.generative_input import TrainingTable
from latentia.estimators.base.generative_options import check_objective
from latentia.estimators.latent_classification.size_search import Setting
from latentia.table.encoder import ColumnEncoder
from latentia.table.options import check_number

#: Numbers of factors that are tried for continuous tables, first with one component. Then numbers
#: of components with the best number of factors, half of it, and few: many small components win
#: where classes are no ellipsoids. Langseth & Nielsen (2005) try all numbers of factors, each with
#: twelve numbers of components up to 40.
LATENT = (1, 2, 4, 8, 16)

COMPONENTS = (3, 10, 20)

FEW_LATENT = (1, 2)

#: Numbers of factors and components that they try for binary tables (2009).
BINARY_LATENT = (2, 5, 10, 15, 20, 25, 30, 35, 40, 50, 75, 100)

BINARY_COMPONENTS = (1, 2)

RIDGE = 0.3

#: What is tried for mixed tables, which no paper has.
MIXED_LATENT = (0, 2, 4, 8)

MIXED_COMPONENTS = (1, 2)

MIXED_RIDGES = (0.3, 3.0)


def search_settings(grids: dict[str, list[Any] | None], data: TrainingTable, n_rows: int) -> list[list[Setting]]:
    """What is tried, by the number of factors: what is given, else what is usual for tables of this
    kind.
    """
    q_grid = latent_sizes(grids, data)
    groups = []
    for q in q_grid:
        usual = default_grids(data, q)
        m_grid, objectives, ridges = (grids[name] or usual[name] for name in Setting._fields[1:])
        sizes = [m for m in sorted(set(m_grid)) if q * m <= n_rows]
        groups.append([Setting(int(q), int(m), o, float(r)) for m in sizes for o in objectives for r in ridges])
    groups = [group for group in groups if group]
    if not groups:
        raise ValueError(
            f"n_latent={q_grid} and n_components={m_grid}: no pair has n_latent * n_components <= {n_rows}, "
            "the rows of a fold."
        )
    return groups


def refinements(grids: dict[str, list[Any] | None], data: TrainingTable, n_rows: int, best: Setting) -> list[Setting]:
    """What is tried beside the best of the settings: components, where only one was tried."""
    if grids["n_components"] is not None or set(data.encoder.kinds) != {"continuous"}:
        return []
    few = {*FEW_LATENT, max(1, best.n_latent // 2), best.n_latent}
    sizes = sorted(few.intersection(latent_sizes(grids, data)))
    return [best._replace(n_latent=q, n_components=m) for q in sizes for m in COMPONENTS if q * m <= n_rows]


def latent_sizes(grids: dict[str, list[Any] | None], data: TrainingTable) -> list[Any]:
    """Numbers of factors to try, given or usual, that such a table can have."""
    q_grid, most = grids["n_latent"] or default_grids(data, 0)["n_latent"], data.X.shape[1] * data.n_classes
    found = [q for q in q_grid if q <= most]
    if not found:
        raise ValueError(f"n_latent={q_grid}; at least one must be at most n_features * n_classes = {most}.")
    return found


def default_grids(data: TrainingTable, q: int) -> dict[str, Sequence[Any]]:
    """Numbers of factors, and what is tried with q of them, for tables of this kind."""
    if set(data.encoder.kinds) == {"continuous"}:
        grids: Any = LATENT, [1], ["likelihood"], [RIDGE]
    elif not is_mixed(data.encoder):
        grids = BINARY_LATENT, BINARY_COMPONENTS, ["likelihood"], [RIDGE]
    elif q > 0:
        grids = MIXED_LATENT, MIXED_COMPONENTS, ["likelihood"], MIXED_RIDGES
    else:  # a single component without factors would know no classes
        grids = MIXED_LATENT, {2, data.n_classes}, ["likelihood", "conditional"], MIXED_RIDGES
    return dict(zip(Setting._fields, grids, strict=True))


def check_grids(grids: dict[str, list[Any] | None]) -> None:
    """Validate what the arguments ask to be tried."""
    for name, ge, whole in (("n_latent", 0, True), ("n_components", 1, True), ("ridge", 0, False)):
        grid = grids[name]
        if grid is not None and (not grid or isinstance(grid[0], str)):
            given, what = grid[0] if grid else grid, "integer" if whole else "number"
            raise ValueError(f"{name}={given!r}; allowed are None, one {what} or a sequence of {what}s >= {ge}.")
        for value in grid or []:
            check_number(name, value, ge=ge, integer=whole)
    objectives = grids["objective"]
    if objectives is not None and not objectives:
        raise ValueError(f"objective={objectives!r}; allowed are None, or one or more of {list(OBJECTIVES)}.")
    for objective in objectives or []:
        check_objective("objective", objective)


def is_mixed(encoder: ColumnEncoder) -> bool:
    """Whether the table is none of those that the papers treat."""
    return set(encoder.kinds) not in ({"continuous"}, {"binary"})


def as_list(grid: Any) -> list[Any]:
    """One value or several as a list; checks refuse what is neither."""
    grid = grid.tolist() if hasattr(grid, "tolist") else grid
    return list(grid) if isinstance(grid, Sequence) and not isinstance(grid, str) else [grid]
