"""How seconds of a fit grow: in rows for every estimator, and in what else a user may raise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from large_shapes import ESTIMATORS, EstimatorCase, Shape, factors, mixture
from timing import least_processor, slope

#: Numbers of rows of the curves, and for estimators with cheap rows, whose starts see 2,000 rows of each class at most.
ROWS, MANY_ROWS = (2000, 8000, 32_000, 64_000), (16_000, 64_000, 128_000, 256_000)
CHEAP = {
    "mixture diag ml",
    "mixture diag vb",
    "mixture full ml",
    "mixture hybrid",
    "factors ml",
    "factors vb",
    "softmax ml",
}

#: Estimators at modest sizes: what one more row costs is what they have in common.
MODEST: dict[str, EstimatorCase] = {
    name: replace(ESTIMATORS[name], shape=replace(ESTIMATORS[name].shape, columns=columns, dtype="float64", **changes))
    for name, columns, changes in [
        ("mixture diag ml", 30, {"classes": 4}),
        ("mixture diag vb", 30, {"classes": 4}),
        ("mixture full ml", 20, {}),
        ("mixture hybrid", 20, {"classes": 4}),
        ("factors ml", 30, {}),
        ("factors vb", 30, {}),
        ("factors binary", 12, {"binary": 12}),
        ("factors mixed, gaps", 12, {"binary": 4}),
        ("softmax", 20, {}),
        ("softmax ml", 20, {}),
        ("experts", 12, {}),
        ("experts regression", 12, {}),
        ("embedding", 30, {"labels": 8}),
    ]
}


def seconds(case: EstimatorCase, repeats: int = 2) -> float:
    X, y = case.shape.draw()
    return least_processor(lambda: case.model().fit(X, y), repeats)


def with_rows(case: EstimatorCase, rows: int) -> EstimatorCase:
    return replace(case, shape=replace(case.shape, rows=rows))


def in_rows(name: str) -> dict[str, Any]:
    """The curve of an estimator, and the slope of its last three points (few rows do not fill a sweep)."""
    sizes = MANY_ROWS if name in CHEAP else ROWS
    case = replace(MODEST[name], iterations=30 if name in CHEAP else 10)
    found = [seconds(with_rows(case, rows), 1 + (rows < 64_000)) for rows in sizes]
    return {"rows": list(sizes), "seconds": found, "slope": slope(list(sizes)[-3:], found[-3:])}


def curve(make: Callable[[float], EstimatorCase], values: list[float]) -> dict[str, Any]:
    found = [seconds(make(value)) for value in values]
    return {"values": values, "seconds": found, "slope": slope(values, found)}


def columns() -> dict[str, Any]:
    make = mixture("diag", 8, inference="ml")
    return curve(lambda d: EstimatorCase(make, Shape(20_000, int(d), dtype="float64")), [10, 20, 40, 80])


def columns_full() -> dict[str, Any]:
    make = mixture("full", 8, inference="ml")
    return curve(lambda d: EstimatorCase(make, Shape(10_000, int(d), dtype="float64")), [10, 20, 40, 80])


def components() -> dict[str, Any]:
    return curve(
        lambda k: EstimatorCase(mixture("diag", int(k), inference="ml"), Shape(20_000, 30, dtype="float64")),
        [4, 8, 16, 32],
    )


def classes() -> dict[str, Any]:
    """With as many components in all: rows see their own class alone."""
    return curve(
        lambda c: EstimatorCase(mixture("diag", 8, inference="ml"), Shape(20_000, 30, int(c), dtype="float64")),
        [2, 4, 8, 16],
    )


def latent_factors() -> dict[str, Any]:
    return curve(
        lambda q: EstimatorCase(factors(int(q), 4, inference="ml"), Shape(20_000, 40, dtype="float64")), [2, 4, 8, 16]
    )


#: What half the cells missing costs: estimators that take gaps, and their tables.
WITH_GAPS: dict[str, EstimatorCase] = {
    "mixture diag ml": EstimatorCase(mixture("diag", 8, inference="ml"), Shape(20_000, 20, dtype="float64")),
    "mixture diag vb": EstimatorCase(mixture("diag", 8), Shape(20_000, 20, dtype="float64")),
    "mixture full ml": EstimatorCase(mixture("full", 2, inference="ml"), Shape(5000, 10, dtype="float64")),
    "mixture full vb": EstimatorCase(mixture("full", 2), Shape(5000, 10, dtype="float64")),
    "factors ml": EstimatorCase(factors(4, 2, inference="ml"), Shape(20_000, 20, dtype="float64")),
    "factors vb": EstimatorCase(factors(4, 2), Shape(20_000, 20, dtype="float64")),
    "factors binary": EstimatorCase(factors(3, 2), Shape(5000, 20, binary=20, dtype="float64")),
    "mixture tied ml, wide": EstimatorCase(mixture("tied", 4, inference="ml"), Shape(20_000, 50, dtype="float64")),
    "mixture full ml, wide": EstimatorCase(mixture("full", 4, inference="ml"), Shape(20_000, 50, dtype="float64")),
    "factors ml, wide": EstimatorCase(factors(8, 4, inference="ml"), Shape(20_000, 50, dtype="float64")),
    "no factors, mixed": EstimatorCase(factors(0, 4), Shape(20_000, 12, binary=4, levels=4, dtype="float64")),
}


def gaps(name: str) -> dict[str, Any]:
    """Seconds by the share of missing cells."""
    case = WITH_GAPS[name]
    shares = [0.0, 0.1, 0.25, 0.5]
    found = [seconds(replace(case, shape=replace(case.shape, gaps=share))) for share in shares]
    return {"shape": case.shape.words(), "shares": shares, "seconds": found, "half_missing": found[-1] / found[0]}


OTHER_AXES = {fn.__name__: fn for fn in (columns, columns_full, components, classes, latent_factors)}
