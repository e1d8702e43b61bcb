"""Sweeps in units of the measured matrix-product rate, and peak memory of whole fits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from timing import least_wall

from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import select_restart
from latentia.families.gaussian_mixture.family import COVARIANCES, GaussianMixtures
from latentia.families.latent_factors.family import LatentFactors
from latentia.families.latent_factors.kinds import ColumnLayout


def product_rate(dtype: str) -> float:
    """Flops a second of a large matrix product, on all cores."""
    a = np.random.default_rng(0).standard_normal((1500, 1500), dtype=dtype)
    return 2 * 1500**3 / least_wall(lambda: a @ a, 15)


def sweep_cases() -> dict[str, tuple[Any, int, int, int]]:
    """Family, rows, columns, and flops of the matrix products of one row."""
    return {
        "diagonal, 64 components": (
            GaussianMixtures(np.array([64]), COVARIANCES["diag"](1e-3)),
            100_000,
            50,
            8 * 64 * 50,
        ),
        "full, 16 components": (
            GaussianMixtures(np.array([16]), COVARIANCES["full"](1e-3)),
            30_000,
            50,
            4 * 16 * (50 * 53 // 2 + 1),
        ),
        "8 factors, 4 components": (
            LatentFactors(ColumnLayout.continuous_columns(40), 1, 8, 4, complete=True),
            100_000,
            40,
            4 * (4 * 8 * 40 + 2 * 8 * 8 + 6 * 40),
        ),
    }


def sweep_rate(name: str, dtype: str, scale: float = 1.0) -> dict[str, Any]:
    family, n_rows, n_columns, flops = sweep_cases()[name]
    n_rows = int(n_rows * scale)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_columns), dtype=dtype)
    source = ArraySource(X, np.zeros(n_rows, dtype=int), cache_mib=1024)
    params = select_restart(family.init(source, rng, 1), slice(0, 1))
    problem = RowProblem(family, Likelihood(), source)
    problem.sweep(params)
    seconds = least_wall(lambda: problem.sweep(params), 7)
    rate = product_rate(dtype)
    done = flops * n_rows / seconds
    return {
        "rows": n_rows,
        "seconds": seconds,
        "gflops": done / 1e9,
        "product_gflops": rate / 1e9,
        "share": done / rate,
    }


MEMORY = """
import resource, sys
sys.path[:0] = [{here!r}]
from large_shapes import ESTIMATORS
case = ESTIMATORS[{name!r}].at({scale})
X, y = case.shape.draw()
case.at(0.0).model().fit(*case.at(0.0).shape.draw())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = case.model().fit(X, y)
print(case.shape.words(), X.nbytes / 2**20, before / 1024, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, sep="|")
"""


def peak_memory(name: str, scale: float) -> dict[str, Any]:
    """MiB that a fit takes beyond what the process had, and the table's own; in a process of its own."""
    code = MEMORY.format(here=str(Path(__file__).parent), name=name, scale=scale)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    shape, table, before, after = done.stdout.strip().split("\n")[-1].split("|")
    return {"shape": shape, "table_mib": float(table), "extra_mib": float(after) - float(before)}


MEMORY_CASES = {
    "mixture diag ml": 0.2,
    "mixture full ml": 0.2,
    "factors ml": 0.3,
    "factors vb": 0.3,
    "softmax": 0.2,
    "embedding": 0.3,
}
