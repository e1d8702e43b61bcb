"""Options drawn at random: what happens where several meet.

Each line is a fit of a few steps with options, a table, labels and weights of its own. Nobody has looked at whether the combination makes
sense; an error is an answer, too.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from latentia import (
    GaussianMixtureClassifier,
    LatentClassificationModel,
    LatentClassificationModelCV,
    LatentClassifier,
    MixtureOfExpertsClassifier,
    MixtureOfExpertsRegressor,
    MultimodalSoftmaxClassifier,
    ProbitEmbeddingClassifier,
)

from ..describe import answers, learned
from ..digest import Frame, digest
from ..registry import Group
from ..tables import Table, binary, complete, label_matrix, mixed, numbers, outputs

SCENARIOS = Group()

#: The first value of each option is drawn half of the time.
COMMON: dict[str, list[Any]] = {
    "priors": ["empirical", "uniform", [0.2, 0.5, 0.3]],
    "loss_matrix": [None, [[0.0, 1.0, 4.0], [2.0, 0.0, 1.0], [1.5, 3.0, 0.0]]],
    "random_state": [0, 1, 2],
}
GENERATIVE: dict[str, list[Any]] = COMMON | {
    "inference": ["vb", "ml"],
    "marginals": ["power", "normal"],
    "unlabeled_weight": [0.5, 0.0, 1.0, "auto", 3.0],
    "temperature": ["auto", 1.0, 1.8, 0.7],
    "objective": ["likelihood", "likelihood", "conditional", "margin", "hybrid"],
    "trade_off": [1.0, 0.3, 0.0],
    "margin": [1.0, 0.4],
    "ramp": [None, 1.5],
    "var_floor": [1e-3, 0.3],
    "n_init": [1, 2, 3],
    "max_iter": [2, 1, 4],
    "tol": [1e-3, 0.5, 0.0],
    "early_stopping": [False, True],
    "validation_fraction": [0.1, 0.4],
    "n_iter_no_change": [10, 1],
}
SOFTMAX: dict[str, list[Any]] = {
    "inference": ["vb", "ml"],
    "criterion": ["validation", "evidence", "bound", "bic"],
    "averaging": ["corrected", "posterior", "plugin"],
    "shape": [1.0, 2.5],
    "rate": [1.0, 0.2],
    "ridge": [0.0, 0.5],
    "annealing": [False, True],
    "standardize": [True, False],
    "patience": [2, 0, 1],
    "n_init": [1, 2],
    "max_iter": [3, 1, 5],
    "tol": [1e-5, 0.3],
    "random_state": [0, 1],
}
SPACES: dict[str, tuple[type, dict[str, list[Any]]]] = {
    "mixtures": (
        GaussianMixtureClassifier,
        GENERATIVE
        | {
            "n_components": [1, 2, [1, 3, 2], "bic"],
            "covariance": ["auto", "diag", "full", "tied", "spherical"],
            "solver": ["lbfgs", "lbfgs"],  # twice: the draws of other options stay as they were
        },
    ),
    "factors": (
        LatentClassificationModel,
        GENERATIVE
        | {
            "n_latent": ["auto", 0, 1, 2, 5],
            "n_components": [1, 2, 3],
            "noise": ["auto", "tied", "untied"],
            "structure": ["full", "full", "full", "learn"],
            "selection": ["accuracy", "likelihood"],
            "ridge": [0.3, 2.0],
            "max_categories": [None, 2, 3],
            "min_frequency": [None, 4, 0.2],
            "refine": [None, "importance"],
            "n_importance_samples": [20],
            "bound_tol": [1e-3, 0.1],
            "bound_max_iter": [100, 2],
        },
    ),
    "searches": (
        LatentClassificationModelCV,
        COMMON
        | {
            "n_latent": [[1, 2, 3], [2, 1], [0, 1, 4], None],
            "n_components": [[1], [2, 1], [1, 2, 3], None],
            "objective": [None, ["conditional", "likelihood"], "hybrid"],
            "ridge": [None, [0.1, 3.0]],
            "search": ["greedy", "exhaustive"],
            "patience": [3, 1, 2],
            "scoring": [None, "accuracy", "log_loss"],
            "refit_n_init": [None, 2],
            "cv": [2, 3],
            "unlabeled_weight": [0.3, 1.0],
            "inference": ["ml", "vb"],
            "noise": ["tied", "untied"],
            "max_iter": [1, 2],
            "n_init": [1],
        },
    ),
    "stacks": (
        LatentClassifier,
        COMMON
        | {
            "effort": ["fast"],
            "cv": [2, 3, None],
            "max_categories": [None, 2],
            "n_init": [1, 2],
            "max_iter": [1, 2],
            "tol": [1e-3, 0.3],
        },
    ),
    "subclasses": (
        MultimodalSoftmaxClassifier,
        SOFTMAX
        | {
            "n_subclasses": ["auto", "auto", 1, [2, 1, 3]],
            "max_subclasses": [2, 3, 2],
            "threshold": [0.05, 0.3, [0.1, 0.4]],
            "search": ["compressive", "exhaustive"],
            "max_rounds": [2, 1, 3],
            "max_models": [3, 2, 5],
            "loss_matrix": COMMON["loss_matrix"],
        },
    ),
    "experts": (
        MixtureOfExpertsClassifier,
        SOFTMAX
        | {
            "n_experts": ["auto", 1, 2, [2, 3]],
            "depth": [1, 2],
            "max_experts": [2, 3, 4],
            "loss_matrix": COMMON["loss_matrix"],
        },
    ),
    "regressors": (
        MixtureOfExpertsRegressor,
        SOFTMAX | {"n_experts": ["auto", 1, 2, [2, 2]], "depth": [1, 2], "max_experts": [2, 3, 4]},
    ),
    "embeddings": (
        ProbitEmbeddingClassifier,
        {
            "n_latent": ["auto", 1, 2, 4, "evidence"],
            "prior": ["entries", "columns", "rows"],
            "shape": [1.0, 2.5],
            "scale": [1.0, 0.3],
            "latent_noise": [1.0, 0.4],
            "averaging": ["full", "weights"],
            "semi_supervised": [False, True],
            "margin": [1.0, 0.5],
            "standardize": [True, False],
            "n_init": [1, 3],
            "max_iter": [3, 12, 1],
            "tol": [1e-4, 0.3],
            "random_state": [0, 1],
        },
    ),
}


def tables(kind: str, rng: np.random.RandomState) -> tuple[Any, Any, Any, Any]:
    """Rows, labels, weights or None, and other rows."""
    weighted = rng.uniform() < 0.6
    if kind == "regressors":
        X, y, weight, new, _ = outputs(seed=rng.randint(99), n_outputs=rng.randint(1, 3))
        return X, y, weight if weighted else None, new
    if kind == "embeddings" and rng.uniform() < 0.6:
        X, Y, new, _ = label_matrix(seed=rng.randint(99))
        if rng.uniform() < 0.4:  # more columns than rows
            spread = rng.normal(size=(5, 46))
            X, new = X @ spread, new @ spread
        return X, Y, rng.uniform(0.2, 2.0, 40) if weighted else None, new
    seed = int(rng.randint(99))
    choices: list[Callable[[], Table]] = [lambda: complete(seed, (14, 9, 7))]
    if kind in ("mixtures", "factors", "searches", "stacks"):
        choices += [
            lambda: numbers(seed=seed, sizes=(17, 12, 8)),
            lambda: numbers(seed=seed, sizes=(24, 18, 12), unlabeled=0.4),
        ]
    if kind in ("factors", "searches", "stacks"):
        choices += [lambda: mixed(seed, 26), lambda: binary(seed)]
    table = choices[rng.randint(len(choices))]()
    if rng.uniform() < 0.4:  # rows that do not count
        table = table._replace(weight=np.where(rng.uniform(size=len(table.weight)) < 0.15, 0.0, table.weight))
    y = table.y
    if kind in ("subclasses", "experts", "embeddings"):
        y = np.where(rng.uniform(size=len(y)) < 0.15, -1, y)
    return table.X, y, table.weight if weighted else None, table.new


def line(kind: str, number: int) -> Any:
    """One fit, as one leaf."""
    rng = np.random.RandomState(zlib.crc32(f"{kind} {number}".encode()) % 2**31)
    cls, space = SPACES[kind]
    options = {
        name: values[0] if rng.uniform() < 0.5 else values[rng.randint(len(values))] for name, values in space.items()
    }
    X, y, weight, new = tables(kind, rng)
    if "unlabeled" in cls().get_params() and getattr(y, "ndim", 1) == 1 and y.dtype.kind == "i":
        options["unlabeled"] = -1
    try:
        model = cls(**options).fit(X, y, sample_weight=weight)
        found = digest(learned(model, at_length=False) | answers(model, new))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    leaves = [(path, leaf) for path, leaf in found.items()]
    words = zlib.crc32(" ".join(f"{path} {leaf.text}" for path, leaf in leaves).encode())
    numbers_of = [value / scale for _, leaf in leaves for value, scale in zip(leaf.numbers, leaf.scales, strict=True)]
    return Frame([f"{words:08x}"], [numbers_of])


#: Fits that hang by a thread: other processors take another way.
UNSTABLE = {("factors", 16), ("subclasses", 7)}


def batch(kind: str, first: int, last: int) -> Callable[[], dict[str, Any]]:
    return lambda: {str(k): line(kind, k) for k in range(first, last) if (kind, k) not in UNSTABLE}


SIZES = {
    "mixtures": 30,
    "factors": 30,
    "searches": 12,
    "stacks": 8,
    "subclasses": 16,
    "experts": 16,
    "regressors": 16,
    "embeddings": 20,
}
for name, size in SIZES.items():
    for start in range(0, size, 8):
        SCENARIOS.add(
            f"{name}_{start}",
            batch(name, start, min(start + 8, size)),
            rtol=1e-5,
            is_slow=True,
        )
