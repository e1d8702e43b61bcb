"""Speed of latent classification models: restarts in one batch, the linear model on a million rows, a sweep over binary rows, prediction, the wrapper on iris.

python benchmarks/lcm_speed.py [--only batch linear binary predict wrapper]
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
import warnings

import numpy as np
from sklearn.datasets import load_iris

from latentia import LatentClassificationModel, LatentClassificationModelCV
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.families.latent_factors.family import LatentFactors
from latentia.families.latent_factors.kinds import Bernoulli, ColumnLayout
from latentia.solvers import EM


def best_of(times: int, fn) -> float:
    """Least wall time; the least processor time is printed too, which depends less on what else is running."""
    wall, processor = [], []
    for _ in range(times):
        started = time.perf_counter(), time.process_time()
        fn()
        wall.append(time.perf_counter() - started[0])
        processor.append(time.process_time() - started[1])
    print(f"  processor time {min(processor):.2f} s, wall time {min(wall):.2f} s")
    return min(wall)


def batch() -> None:
    """50 restarts on 200 rows, as one batch and one by one."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = rng.normal(size=(200, 6)) + y[:, None]
    for m in (1, 2):

        def together(m=m):
            LatentClassificationModel(2, m, n_init=50, max_iter=30, tol=0, random_state=0).fit(X, y)

        def apart(m=m):
            for seed in range(50):
                LatentClassificationModel(2, m, n_init=1, max_iter=30, tol=0, random_state=seed).fit(X, y)

        one, many = best_of(3, together), best_of(1, apart)
        print(
            f"50 restarts on 200 x 6, q=2, m={m}, 30 iterations: batch {one:.2f} s, one by one {many:.2f} s, ratio {many / one:.1f}"
        )


def linear() -> None:
    """The linear model, N = 1,000,000, n = 30, q = 8, 20 restarts."""
    rng = np.random.default_rng(0)
    n_rows, n, q = 1_000_000, 30, 8
    y = np.arange(n_rows) % 3
    X = (
        rng.normal(size=(n_rows, q)) @ rng.normal(size=(q, n))
        + rng.normal(size=(3, n))[y]
        + 0.5 * rng.normal(size=(n_rows, n))
    )
    family = LatentFactors(ColumnLayout.continuous_columns(n), 3, q, complete=True)
    rows = ArraySource(X, y)
    started = time.perf_counter()
    problem = RowProblem(family, Likelihood(), family.condensed(Likelihood(), rows))
    one_pass = time.perf_counter() - started
    params = family.init(rows, rng, 20)
    started = time.perf_counter()
    solution = EM(200, 1e-4).solve(problem, params)
    print(
        f"linear, 1e6 x 30, q=8, 20 restarts: pass {one_pass:.2f} s, EM {time.perf_counter() - started:.2f} s, iterations {solution.n_iter.tolist()}"
    )
    seconds = best_of(1, lambda: LatentClassificationModel(q, n_init=20, random_state=0).fit(X, y))
    print(f"the whole fit, with the choice of the start by training accuracy: {seconds:.1f} s")


def binary() -> None:
    """A sweep of EM at 4,649 x 256 binary, q = 35, two components, three inner rounds."""
    rng = np.random.default_rng(0)
    X = (rng.random((4649, 256)) < rng.random(256)).astype(float)
    rows = ArraySource(X, np.arange(4649) % 10)
    family = LatentFactors(ColumnLayout([Bernoulli(range(256))]), 10, 35, 2, ridge=0.3, bound_tol=0.0, bound_max_iter=3)
    params = family.init(rows, rng, 1)
    problem = RowProblem(family, Likelihood(), rows)
    seconds = best_of(5, lambda: family.update(params, problem.sweep(params).stats))
    print(
        f"sweep and update, 4,649 x 256 binary, q=35, m=2, three rounds: {seconds:.2f} s, {problem.rows_per_chunk(params)} rows per chunk"
    )


def predict() -> None:
    """Prediction of 4,649 binary rows, ten classes."""
    rng = np.random.default_rng(0)
    X = (rng.random((4649, 256)) < rng.random(256)).astype(float)
    y = np.arange(4649) % 10
    model = LatentClassificationModel(
        35, 2, kinds="binary", n_init=1, max_iter=3, tol=1e9, bound_max_iter=3, random_state=0
    ).fit(X, y)
    tracemalloc.start()
    seconds = best_of(1, lambda: model.predict(X))
    print(
        f"prediction of 4,649 x 256 binary, q=35, m=2, ten classes: {seconds:.2f} s, peak of new memory {tracemalloc.get_traced_memory()[1] / 2**20:.0f} MiB"
    )
    tracemalloc.stop()


def wrapper() -> None:
    """The paper's protocol on iris for one training set: q up to 12, its set of m, five folds, 100 restarts, greedy search."""
    X, y = load_iris(return_X_y=True)
    train = np.arange(150) % 5 > 0
    started = time.perf_counter()
    model = LatentClassificationModelCV(n_init=100, max_iter=100, tol=1e-3, random_state=0).fit(X[train], y[train])
    seconds = time.perf_counter() - started
    print(
        f"wrapper on iris: {len(model.search_results_)} pairs, chose q={model.n_latent_}, m={model.n_components_}, {seconds:.0f} s"
    )


def main() -> None:
    tasks = {task.__name__: task for task in (batch, linear, binary, predict, wrapper)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=tasks, default=list(tasks), help="all by default")
    warnings.simplefilter("ignore")
    for name in parser.parse_args().only:
        tasks[name]()


if __name__ == "__main__":
    main()
