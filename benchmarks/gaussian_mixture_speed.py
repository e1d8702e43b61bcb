"""Speed and memory of Gaussian-mixture classifiers beside scikit-learn's `GaussianMixture`, in one run.

    python benchmarks/gaussian_mixture_speed.py [em] [restarts] [hybrid] [memory]
    SCIPY_ARRAY_API=1 python benchmarks/gaussian_mixture_speed.py gpu

- em        20 iterations on 50,000 x 50, one fit beside ten of scikit-learn, from the same start
- restarts  50 starts on 300 x 10: a fixed number of iterations, the same tolerance, each library's own tolerance
- hybrid    value and gradient of the hybrid objective beside the likelihood of all classes
- memory    1,000,000 x 50 from a memory map and from an array (Linux)
- gpu       1,000,000 x 50 in main memory and on a CUDA device; needs torch

All but the last by default. The tables are drawn at random.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import sklearn
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from latentia import GaussianMixtureClassifier
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Hybrid, Likelihood, RowProblem
from latentia.engine.tree import select_restart
from latentia.families.gaussian_mixture.family import COVARIANCES, GaussianMixtures, GaussianParams
from latentia.solvers import EM
from latentia.table.standardization import Standardizer, column_moments

warnings.simplefilter("ignore", ConvergenceWarning)


def blobs(
    n_rows: int, n_features: int, n_classes: int, rng: np.random.Generator, n_clusters: int = 5
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Classes of some overlapping clusters each: rows, classes, and the clusters' centers."""
    y = rng.integers(n_classes, size=n_rows)
    centers = rng.normal(scale=0.7, size=(n_classes, n_clusters, n_features))
    return centers[y, rng.integers(n_clusters, size=n_rows)] + rng.normal(size=(n_rows, n_features)), y, centers


def warm_seconds(fit: Callable[[], float]) -> tuple[float, float]:
    """Seconds of a second run right after the first, and its result.

    BLAS threads spin for a tenth of a second after their last product, which would slow down whatever comes next; and after a pause the scheduler may keep
    threads on one core for as long.
    """
    time.sleep(0.5)
    fit()
    start = time.perf_counter()
    result = fit()
    return time.perf_counter() - start, result


def em() -> None:
    """20 iterations from the same start: ten scikit-learn fits, one of ours."""
    rng = np.random.default_rng(0)
    C, K = 10, 16
    X, y, centers = blobs(50_000, 50, C, rng, K)
    # Starts near the centers: no component closes in on a single row, where the two floors of variance differ.
    means = centers + rng.normal(scale=0.7, size=centers.shape)
    floor = 1e-6
    preprocess = Standardizer(np.zeros(50), np.ones(50), None)
    family = GaussianMixtures(np.full(C, K), COVARIANCES["diag"](floor))
    params = GaussianParams(
        np.full((1, C), -np.log(C)), np.full((1, C, K), -np.log(K)), means[None], np.ones((1, C, K, 50))
    )

    def ours() -> float:
        problem = RowProblem(family, Likelihood(), ArraySource(X, y, None, preprocess.prepare))
        return float(EM(max_iter=20, tol=-np.inf).solve(problem, params).value[0])

    def theirs() -> float:
        total = 0.0
        for c in range(C):
            mine = X[y == c]
            model = GaussianMixture(
                K,
                covariance_type="diag",
                max_iter=20,
                tol=0.0,
                reg_covar=0.0,
                weights_init=np.full(K, 1 / K),
                means_init=means[c],
                precisions_init=np.ones((K, 50)),
                init_params="random_from_data",
            ).fit(mine)
            total += model.score_samples(mine).sum() + len(mine) * np.log(len(mine) / len(X))
        return total

    ratios = []
    for _ in range(7):
        our_seconds, a = warm_seconds(ours)
        their_seconds, b = warm_seconds(theirs)
        ratios.append(their_seconds / our_seconds)
        print(
            f"em 50000 x 50, 10 x 16, 20 iterations: ours {our_seconds:.2f} s, scikit-learn {their_seconds:.2f} s, "
            f"ratio {ratios[-1]:.1f}; log likelihood {a:.3f} v. {b:.3f}, relative difference {abs(a - b) / abs(b):.1e}"
        )
    print(f"em: median ratio {np.median(ratios):.1f}")


def restarts() -> None:
    """50 starts on a small table: 100 iterations each, the same tolerance, and each library's own tolerance."""
    rng = np.random.default_rng(0)
    X, y, _ = blobs(300, 10, 3, rng)
    for what, ours, theirs in [
        ("100 iterations each", {"tol": 0.0}, {"tol": 0.0}),
        ("tol=1e-4 in both", {"tol": 1e-4}, {"tol": 1e-4}),
        ("own tol (1e-4 v. 1e-3)", {}, {}),
    ]:
        ratios = []
        for _ in range(3):
            start = time.perf_counter()
            GaussianMixtureClassifier(3, n_init=50, max_iter=100, random_state=0, **ours).fit(X, y)
            middle = time.perf_counter()
            for c in range(3):
                GaussianMixture(3, covariance_type="diag", n_init=50, max_iter=100, random_state=0, **theirs).fit(
                    X[y == c]
                )
            end = time.perf_counter()
            ratios.append((end - middle) / (middle - start))
        print(
            f"restarts 300 x 10, 3 x 3, n_init=50, {what}: ours {middle - start:.3f} s, scikit-learn {end - middle:.2f} s, "
            f"median ratio {np.median(ratios):.1f}"
        )


def hybrid() -> None:
    """One value and gradient of the hybrid objective beside one likelihood over all classes."""
    rng = np.random.default_rng(0)
    X, y, _ = blobs(50_000, 50, 10, rng)
    family = GaussianMixtures(np.full(10, 16), COVARIANCES["diag"](1e-3))
    source = ArraySource(X, y, None, Standardizer.from_moments(*column_moments(X, None, np.float64)).prepare)
    params = select_restart(family.init(source, rng, 1), 0)
    rows = RowProblem(family, Likelihood(), source).rows_per_chunk(params)
    problem = RowProblem(family, Hybrid(2.0), source)

    def likelihood() -> None:
        source.sum_over_chunks(lambda block: {"value": family.infer(params, block.rows).log_joint.sum()}, rows)

    def gradient() -> None:
        family.gradient(params, problem.sweep(params).stats)

    ratios = []
    for _ in range(7):
        start = time.perf_counter()
        likelihood()
        middle = time.perf_counter()
        gradient()
        end = time.perf_counter()
        ratios.append((end - middle) / (middle - start))
    print(
        f"hybrid: likelihood over all classes {middle - start:.3f} s, objective and gradient {end - middle:.3f} s, "
        f"median ratio {np.median(ratios):.2f}"
    )


def memory() -> None:
    """A million rows from an array and from a read-only memory map."""
    np.random.default_rng(0)
    n_rows, n_features = 1_000_000, 50
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n_rows, n_features))
        y = np.empty(n_rows, dtype=np.int64)
        for start in range(0, n_rows, 100_000):
            part = slice(start, start + 100_000)
            rows[part], y[part], _ = blobs(100_000, n_features, 10, np.random.default_rng(1))
        rows.flush()
        del rows
        X = np.load(path, mmap_mode="r")
        before = _anonymous_peak()
        start = time.perf_counter()
        GaussianMixtureClassifier(16, n_init=1, max_iter=3, tol=0, random_state=0).fit(X, y)
        print(
            f"memory map 1000000 x 50, 10 x 16: {time.perf_counter() - start:.1f} s for 3 iterations, "
            f"peak extra memory {_anonymous_peak() - before:.0f} MB besides the mapped file"
        )
        X = np.array(X)
        before = _anonymous_peak()
        GaussianMixtureClassifier(16, n_init=1, max_iter=3, tol=0, random_state=0).fit(X, y)
        print(f"array 1000000 x 50, 10 x 16: peak extra memory {_anonymous_peak() - before:.0f} MB")
        print(
            f"(peak resident memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB)"
        )


def gpu() -> None:
    """The same fit on the main memory and on a CUDA device, in double precision."""
    import torch

    sklearn.set_config(array_api_dispatch=True)
    X, y, _ = blobs(1_000_000, 50, 10, np.random.default_rng(0))
    model = GaussianMixtureClassifier(16, n_init=1, max_iter=20, tol=0, random_state=0)
    start = time.perf_counter()
    here = model.fit(X, y).score_samples(X[:1000])
    seconds = time.perf_counter() - start
    rows, labels = torch.asarray(X, device="cuda"), torch.asarray(y, device="cuda")
    for _ in range(2):  # the first fit loads the kernels
        start = time.perf_counter()
        there = model.fit(rows, labels).score_samples(rows[:1000]).cpu().numpy()
        on_device = time.perf_counter() - start
    print(
        f"gpu 1000000 x 50, 10 x 16, 20 iterations: NumPy {seconds:.2f} s, {torch.cuda.get_device_name()} {on_device:.2f} s, "
        f"largest difference of log densities {np.abs(here - there).max():.1e}"
    )


def _anonymous_peak() -> float:
    """Peak of the memory that is not backed by a file, sampled by a thread since the last call, in MB."""
    global _sampler
    peak = _sampler.stop() if _sampler else _anonymous()
    _sampler = _Sampler()
    return peak


def _anonymous() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    raise OSError("no RssAnon in /proc/self/status")


class _Sampler:
    def __init__(self) -> None:
        import threading

        self.peak, self.done = _anonymous(), False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while not self.done:
            self.peak = max(self.peak, _anonymous())
            time.sleep(0.002)

    def stop(self) -> float:
        self.done = True
        self.thread.join()
        return self.peak


_sampler: _Sampler | None = None


def main() -> None:
    parts = {part.__name__: part for part in (em, restarts, hybrid, memory, gpu)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(parts)}; all but gpu by default")
    chosen = parser.parse_args().parts or ["em", "restarts", "hybrid", "memory"]
    if unknown := set(chosen) - set(parts):
        parser.error(f"unknown part {sorted(unknown)[0]!r}; choose from {', '.join(parts)}")
    for name in chosen:
        parts[name]()


if __name__ == "__main__":
    main()
