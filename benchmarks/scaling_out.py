"""Time of one EM iteration on Dask with one and with two workers, overhead, and memory of fits of files.

    python benchmarks/scaling_out.py [workers] [overhead] [memory] [draw]

- workers   10 classes x 8 components, diagonal, --rows N ... x 50, partitions of about 140,000 rows at most: one worker of one thread beside two,
            and an array on one thread. On a busy machine the least time of an iteration, and the processor time of the busiest worker, say more than
            the median
- overhead  time of an iteration on 2,000 x 5, where the arithmetic takes next to nothing: an array beside Dask
- memory    peak of a process that fits and predicts a Parquet file of --gigabytes G ... (of 50 columns); needs twice as much on the disk
- draw      the curves of docs/images/scaling_out.svg from all that was measured

All of them by default, at sizes that take a minute or two. What is measured goes to results/scaling_out.json, in the place of what was measured before
at the same size. Needs the extras dask and files. The tables are drawn at random.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

N_ITER = 12

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "scaling_out.json"
IMAGE = HERE.parent / "docs" / "images" / "scaling_out.svg"

FIT = """
import json, resource, sys, time
from latentia import GaussianMixtureClassifier, scan
began = time.perf_counter()
table = scan(sys.argv[1], target="y")
options = {"covariance": "diag", "n_init": 1, "max_iter": 2, "tol": 0.0, "random_state": 0}
model = GaussianMixtureClassifier(2, **options).fit(table)
fitted = time.perf_counter()
n_rows = sum(len(part) for part in model.predict_proba(table))
seconds = {"fit_s": fitted - began, "predict_s": time.perf_counter() - fitted}
print(json.dumps({"rows": n_rows, "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, **seconds}))
"""


def some_rows(y: np.ndarray, n_features: int) -> np.ndarray:
    """Rows about the centers of their classes, each with a few clusters."""
    rng = np.random.default_rng(y[:10])
    centers = np.random.default_rng(0).normal(size=(10, 8, n_features))
    return rng.normal(size=(y.size, n_features)) + centers[y, rng.integers(0, 8, y.size)]


def table(n_rows: int, n_features: int, n_chunks: int) -> tuple[Any, Any]:
    import dask.array as da

    y = da.random.default_rng(0).integers(0, 10, n_rows, chunks=-(-n_rows // n_chunks))
    X = y.map_blocks(some_rows, n_features, new_axis=1, chunks=(y.chunks[0], (n_features,)), dtype=float)
    return X, y


def seconds_per_iteration(X: Any, y: Any, n_components: int, client: Any = None) -> dict[str, float]:
    """The median and the least time between steps, and the processor time of the busiest worker in one."""
    from latentia import GaussianMixtureClassifier

    times, spent = [], []

    def tick(step: object) -> None:
        if client is not None and len(times) in (1, N_ITER - 1):
            spent.append(client.run(time.process_time))
        times.append(time.perf_counter())

    options = {"covariance": "diag", "inference": "ml", "marginals": "normal", "tol": 0.0, "max_iter": N_ITER}
    GaussianMixtureClassifier(n_components, n_init=1, callback=tick, random_state=0, **options).fit(X, y)
    found = {"median_s": float(np.median(np.diff(times))), "least_s": float(np.diff(times).min())}
    if client is not None:
        first, last = spent
        found["busiest_s"] = max(last[worker] - first[worker] for worker in last) / (N_ITER - 2)
    return found


def cluster(n_workers: int) -> Any:
    from distributed import LocalCluster

    return LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None)


def workers(n_rows: int) -> list[dict[str, Any]]:
    """An array on one thread if it is not too large, one worker and two."""
    from distributed import Client, wait

    found: list[dict[str, Any]] = []
    n_chunks = max(8, 2 * (n_rows // 280_000))

    def note(where: str, times: dict[str, float]) -> None:
        found.append({"where": where, "rows": n_rows, "partitions": n_chunks, **times})
        busiest = f", of which the busiest worker computes {times['busiest_s']:.3f} s" if "busiest_s" in times else ""
        print(f"{n_rows} x 50, {where}: {times['median_s']:.3f} s an iteration (least {times['least_s']:.3f}){busiest}")

    note("array, one thread", seconds_per_iteration(*(np.asarray(a) for a in table(n_rows, 50, n_chunks)), 8))
    for n_workers, where in ((1, "one worker"), (2, "two workers")):
        with cluster(n_workers) as local, Client(local) as client:
            X, y = (a.persist() for a in table(n_rows, 50, n_chunks))
            wait([X, y])
            note(where, seconds_per_iteration(X, y, 8, client))
    ratios = [found[1][key] / found[2][key] for key in ("median_s", "least_s", "busiest_s")]
    print("two workers beside one: {:.2f} times as fast, by the least {:.2f}; {:.2f} times less each".format(*ratios))
    return found


def overhead() -> list[dict[str, Any]]:
    import dask.array as da
    from distributed import Client

    X, y = (np.asarray(a) for a in table(2000, 5, 1))
    rows, labels = da.from_array(X, chunks=(500, 5)), da.from_array(y, chunks=500)
    found = [{"where": "array, one thread", **seconds_per_iteration(X, y, 1)}]
    found.append({"where": "Dask, threads", **seconds_per_iteration(rows, labels, 1)})
    with cluster(2) as local, Client(local):
        found.append({"where": "two workers", **seconds_per_iteration(rows, labels, 1)})
    for each in found:
        print(f"2,000 x 5, {each['where']}: {1000 * each['median_s']:.1f} ms an iteration")
    return found


def write_rows(path: Path, n_rows: int, n_features: int = 50, group: int = 200_000) -> None:
    """A Parquet file of three classes."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    schema = pa.schema([*((f"x{k}", pa.float64()) for k in range(n_features)), ("y", pa.int64())])
    with parquet.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for first in range(0, n_rows, group):
            y = rng.integers(0, 3, min(group, n_rows - first))
            X = rng.standard_normal((y.size, n_features)) + y[:, None]
            writer.write_table(pa.table([*X.T, y], schema=schema))


def memory(gigabytes: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write_rows(path, round(gigabytes * 1e9 / 400))
        command = [sys.executable, "-W", "ignore", "-c", FIT, str(path)]
        found = {
            "gigabytes": gigabytes,
            **json.loads(subprocess.check_output(command, env=os.environ | {"TMPDIR": folder})),
        }
    print(
        "{gigabytes} GB of rows: peak {peak_mib:.0f} MiB, fit {fit_s:.0f} s, predict {predict_s:.0f} s".format(**found)
    )
    return found


def draw(results: dict[str, Any]) -> None:
    """Seconds of an iteration by rows and workers, and memory by the size of a file."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "scaling_out"
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for color, where in zip(("0.4", "C0", "C1"), ("array, one thread", "one worker", "two workers"), strict=True):
        own = sorted((each["rows"], each["least_s"]) for each in results["iterations"] if each["where"] == where)
        left.loglog(*zip(*own, strict=True), color=color, marker="o", ms=4, label=where)
    left.set(xlabel="rows of 50 columns", ylabel="seconds of an iteration", title="10 classes x 8 components")
    files = sorted((each["gigabytes"], each["peak_mib"]) for each in results["memory"])
    right.semilogx(*zip(*files, strict=True), color="C0", marker="o", ms=4, label="fit and predict")
    right.semilogx(
        [size for size, _ in files], [size * 1e9 / 2**20 for size, _ in files], ":", color="0.6", label="the rows"
    )
    right.set(xlabel="GB of rows in a Parquet file", ylabel="MiB", title="Peak memory of the process", ylim=(0, 1100))
    right.axhline(1000, color="0.8", lw=0.8)
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    figure.savefig(IMAGE, metadata={"Date": None})
    pyplot.close(figure)


def join(old: list[dict[str, Any]], new: list[dict[str, Any]], *keys: str) -> list[dict[str, Any]]:
    """What was measured, the new in the place of the old."""
    found = {tuple(each[key] for key in keys): each for each in [*old, *new]}
    return [found[key] for key in sorted(found, key=str)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["workers", "overhead", "memory", "draw"])
    parser.add_argument("--rows", type=int, nargs="+", default=[25_000, 100_000, 400_000])
    parser.add_argument("--gigabytes", type=float, nargs="+", default=[0.1, 0.3, 1.0])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results: dict[str, Any] = {"iterations": [], "overhead": [], "memory": []}
    if RESULTS.exists():
        results |= json.loads(RESULTS.read_text())
    if "workers" in options.what:
        for n_rows in options.rows:
            results["iterations"] = join(results["iterations"], workers(n_rows), "rows", "where")
    if "overhead" in options.what:
        results["overhead"] = overhead()
    if "memory" in options.what:
        for gigabytes in options.gigabytes:
            results["memory"] = join(results["memory"], [memory(gigabytes)], "gigabytes")
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    if "draw" in options.what:
        draw(results)


if __name__ == "__main__":
    main()
