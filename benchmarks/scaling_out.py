"""Time of one EM iteration on Dask with one and with two workers, overhead, and memory of a scan.

    python benchmarks/scaling_out.py [workers] [overhead] [memory]

- workers   10 classes x 8 components, diagonal, 400,000 x 50 (or --rows N), partitions of about 140,000 rows: one worker of one thread beside two.
            On a busy machine the processor time of the busiest worker says more than the clock
- overhead  time of an iteration on 2,000 x 5, where the arithmetic takes next to nothing: an array beside Dask
- memory    peak of a process that fits and predicts a Parquet file of 120 MB and of 370 MB

All of them by default. Needs the extras dask and files. The tables are drawn at random.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait

from latentia import GaussianMixtureClassifier

N_ITER = 12

FIT = """
import resource, sys
from latentia import GaussianMixtureClassifier, scan
table = scan(sys.argv[1], target="y")
model = GaussianMixtureClassifier(covariance="diag", max_iter=3, random_state=0).fit(table)
for part in model.predict_proba(table):
    pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def some_rows(y: np.ndarray, n_features: int) -> np.ndarray:
    """Rows about the centers of their classes, each with a few clusters."""
    rng = np.random.default_rng(y[:10])
    centers = np.random.default_rng(0).normal(size=(10, 8, n_features))
    return rng.normal(size=(y.size, n_features)) + centers[y, rng.integers(0, 8, y.size)]


def table(n_rows: int, n_features: int, n_chunks: int) -> tuple[da.Array, da.Array]:
    y = da.random.default_rng(0).integers(0, 10, n_rows, chunks=-(-n_rows // n_chunks))
    X = y.map_blocks(some_rows, n_features, new_axis=1, chunks=(y.chunks[0], (n_features,)), dtype=float)
    return X, y


def seconds_per_iteration(X: object, y: object, n_components: int, client: Client | None = None) -> tuple[float, float]:
    """The median time between steps, and the processor time of the busiest worker in one."""
    times, spent = [], []

    def tick(step: object) -> None:
        if client is not None and len(times) in (1, N_ITER - 1):
            spent.append(client.run(time.process_time))
        times.append(time.perf_counter())

    options = {"covariance": "diag", "inference": "ml", "marginals": "normal", "tol": 0.0, "max_iter": N_ITER}
    GaussianMixtureClassifier(n_components, n_init=1, callback=tick, random_state=0, **options).fit(X, y)
    busiest = 0.0
    if client is not None:
        first, last = spent
        busiest = max(last[worker] - first[worker] for worker in last) / (N_ITER - 2)
    return float(np.median(np.diff(times))), busiest


def workers(n_rows: int) -> None:
    found = {}
    for n_workers in (1, 2):
        options = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": None}
        with LocalCluster(**options) as cluster, Client(cluster) as client:
            X, y = (a.persist() for a in table(n_rows, 50, max(8, 2 * (n_rows // 280_000))))
            wait([X, y])
            found[n_workers] = seconds_per_iteration(X, y, 8, client)
            words = "{:.3f} s an iteration, of which the busiest worker computes {:.3f} s".format(*found[n_workers])
            print(f"{n_workers} worker(s): {words}", flush=True)
    wall, busiest = (found[1][k] / found[2][k] for k in range(2))
    print(
        f"two workers beside one at {n_rows} x 50: {wall:.2f} times as fast, {busiest:.2f} times less to compute each"
    )


def overhead() -> None:
    X, y = (np.asarray(a) for a in table(2000, 5, 1))
    print(f"array: {1000 * seconds_per_iteration(X, y, 1)[0]:.1f} ms an iteration of 2,000 x 5")
    rows, labels = da.from_array(X, chunks=(500, 5)), da.from_array(y, chunks=500)
    print(f"Dask, threads: {1000 * seconds_per_iteration(rows, labels, 1)[0]:.1f} ms")
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        print(f"Dask, two workers: {1000 * seconds_per_iteration(rows, labels, 1)[0]:.1f} ms")


def memory() -> None:
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for n_groups in (40, 120):
            path = Path(folder) / f"{n_groups}.parquet"
            schema = pa.schema([*((f"x{k}", pa.float64()) for k in range(20)), ("y", pa.int64())])
            with parquet.ParquetWriter(path, schema) as writer:
                for _ in range(n_groups):
                    y = rng.integers(0, 2, 20_000)
                    X = rng.normal(size=(20_000, 20)) + y[:, None]
                    writer.write_table(pa.table([*X.T, y], schema=schema))
            began = time.perf_counter()
            peak = int(subprocess.check_output([sys.executable, "-c", FIT, path])) / 1024
            size = n_groups * 20_000 * 160 / 2**20
            print(f"{size:.0f} MiB of rows: peak {peak:.0f} MiB, {time.perf_counter() - began:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["workers", "overhead", "memory"])
    parser.add_argument("--rows", type=int, default=400_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if "workers" in options.what:
        workers(options.rows)
    if "overhead" in options.what:
        overhead()
    if "memory" in options.what:
        memory()


if __name__ == "__main__":
    main()
