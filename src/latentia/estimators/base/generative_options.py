"""Options of generative classifiers: what is allowed, and what is worth a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from latentia.engine.contracts import Objective
from latentia.engine.messages import warn_at_caller
from latentia.engine.sweep import OBJECTIVES
from latentia.solvers import Adam
from latentia.table.options import check_choice, check_number


def check_objective(name: str, value: Any) -> None:
    """The name of an objective, or an objective."""
    if isinstance(value, Objective) or (isinstance(value, str) and value in OBJECTIVES):
        return
    names = ", ".join(repr(a) for a in OBJECTIVES)
    raise ValueError(f"{name}={value!r}; allowed are {names} and instances of Objective.")


#: Solvers of discriminative objectives by name: how they take mini-batches, None for all rows.
SOLVERS: dict[str, Adam | None] = {"lbfgs": None, "adam": Adam()}


def check_solver(name: str, value: Any) -> None:
    """The name of a solver of discriminative objectives, or one that goes by mini-batches."""
    if isinstance(value, Adam):
        for field in ("batch_size", "n_passes"):
            check_number(f"{name}.{field}", getattr(value, field), ge=1, integer=True)
        check_number(f"{name}.learning_rate", value.learning_rate, gt=0)
    else:
        check_choice(name, value, list(SOLVERS), " and instances of latentia.solvers.Adam")


def check_n_init(name: str, value: Any) -> None:
    """A number of starts, or "auto"."""
    if isinstance(value, str):
        check_choice(name, value, ["auto"], " and integers >= 1")
    else:
        check_number(name, value, ge=1, integer=True, besides=", or 'auto'")


def check_temperature(name: str, value: Any) -> None:
    """A temperature, or "auto"."""
    if isinstance(value, str):
        check_choice(name, value, ["auto"], " and numbers > 0")
    else:
        check_number(name, value, gt=0, besides=", or 'auto'")


def check_unlabeled_weight(name: str, value: Any) -> None:
    """A weight, or "auto"."""
    if isinstance(value, str):
        check_choice(name, value, ["auto"], " and numbers >= 0")
    else:
        check_number(name, value, ge=0, besides=", or 'auto'")


def warn_of_idle_components(n_components: Any, n_rows: Any, owners: Sequence[str]) -> None:
    """Say where there are more components than rows that they could describe."""
    sizes, rows = np.broadcast_arrays(n_components, n_rows)
    idle = np.flatnonzero(sizes > rows)
    if idle.size:
        k = int(idle[0])
        warn_at_caller(
            f"n_components={sizes[k]}, but {owners[k]} has {int(rows[k])} rows: components without a row of their own "
            "describe nothing. Use fewer components."
        )
