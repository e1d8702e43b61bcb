"""All figures of the library on a GPU, beside the cores of the same machine, as JSON.

    python benchmarks/speed/gpu.py [case ...] [--only estimator ...] [--file gpu.json]

Needs PyTorch with CUDA. Each case is tried by itself: a failure is noted with its message, and the
next one runs. Cases, all by default:

- sweep       an EM sweep of 1,000,000 x 128, 1,024 diagonal components, float32
- estimators  a few iterations of every estimator at its large shape, on the device and on the cores
- transfers   copies between host and device that one more iteration costs, by PyTorch's profiler
- crossover   from how many rows on the device is faster

With `--cpu`, PyTorch on the cores stands in for the device and shapes are small: a test of this
script, not a measurement.
"""

from __future__ import annotations

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # before SciPy is imported

import argparse
import json
import platform
import signal
import subprocess
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from large_shapes import ESTIMATORS, Shape

import latentia
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.families.gaussian_mixture.family import COVARIANCES, GaussianMixtures, GaussianParams

#: Seconds that one case may take.
CASE_SECONDS = 300

DEVICE, SMALL = "cuda", False

#: The estimators that are measured one by one.
CHOSEN = dict(ESTIMATORS)


def synchronize() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def best(fn: Callable[[], Any], times: int = 3) -> float:
    """Least seconds of some runs."""
    seconds = []
    for _ in range(times):
        synchronize()
        start = time.perf_counter()
        fn()
        synchronize()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def diagonal_problem(source: ArraySource, n_components: int) -> tuple[RowProblem, GaussianParams]:
    """One class of diagonal components, begun at rows of the table."""
    family = GaussianMixtures(np.array([n_components]), COVARIANCES["diag"](1e-3))
    means = torch.asarray(source.X[:n_components]).to(DEVICE)
    ones = torch.ones_like(means)
    params = GaussianParams(
        torch.zeros((1, 1), dtype=means.dtype, device=DEVICE),
        torch.full((1, 1, n_components), -float(np.log(n_components)), dtype=means.dtype, device=DEVICE),
        means[None, None],
        ones[None, None],
    )
    return RowProblem(family, Likelihood(), source), params


def sweep() -> Iterator[dict[str, Any]]:
    n_rows, n_columns, n_components = (20_000, 16, 32) if SMALL else (1_000_000, 128, 1024)
    X = torch.randn((n_rows, n_columns), dtype=torch.float32, device=DEVICE)
    problem, params = diagonal_problem(ArraySource(X, np.zeros(n_rows, dtype=np.int64)), n_components)
    problem.sweep(params)
    flops = 8 * n_rows * n_columns * n_components  # two products with x and x^2 in each of two passes
    for _ in range(2):
        seconds = best(lambda: problem.family.update(params, problem.sweep(params).stats), 5)
    a = torch.randn((8192, 8192), dtype=torch.float32, device=DEVICE) if not SMALL else X[:16] @ X.T[:, :16]
    rate = 2 * len(a) ** 3 / best(lambda: a @ a, 5)
    yield {
        "case": f"EM sweep and update {n_rows} x {n_columns}, {n_components} diagonal components, float32",
        "ms": 1e3 * seconds,
        "tflops": flops / seconds / 1e12,
        "measured_matmul_tflops": rate / 1e12,
        "share": flops / seconds / rate,
        "rows_per_chunk": problem.rows_per_chunk(params),
    }


def to_device(shape: Shape) -> tuple[Any, Any]:
    X, y = shape.draw()
    return torch.asarray(X, device=DEVICE), torch.asarray(y, device=DEVICE)


#: How many times the rows of `large_shapes`, and how many iterations: what one would use a device for.
DEVICE_SHAPES = {
    "mixture diag ml": (2, 20),
    "mixture diag vb": (2, 20),
    "factors ml": (2, 20),
    "factors vb": (4, 20),
    "factors binary": (1, 20),
    "factors mixed, gaps": (4, 10),
    "softmax ml": (5, 5),
    "embedding": (2, 10),
    "factor search": (20, 20),
    "latent classifier": (800, 5),
}


def estimators() -> Iterator[dict[str, Any]]:
    for name, case in CHOSEN.items():
        scale, iterations = DEVICE_SHAPES.get(name, (1, case.iterations))
        large = replace(case, iterations=iterations).at(0.02 if SMALL else scale)
        yield from guarded(f"estimator {name}", lambda large=large: beside_cores(large))


def beside_cores(case: Any) -> dict[str, Any]:
    X, y = to_device(case.shape)
    case.model().fit(X, y)  # the first fit loads the kernels
    on_device = best(lambda: case.model().fit(X, y), 2)
    X, y = X.cpu().numpy(), y.cpu().numpy()
    on_cores = best(lambda: case.model().fit(X, y), 1)
    return {
        "shape": case.shape.words(),
        "iterations": case.iterations,
        "device_s": on_device,
        "cores_s": on_cores,
        "cores": os.cpu_count(),
        "ratio": on_cores / on_device,
    }


def transfers() -> Iterator[dict[str, Any]]:
    for name, case in CHOSEN.items():
        yield from guarded(f"transfers {name}", lambda case=case: copies(case.at(0.02 if SMALL else 0.1)))


def copies(case: Any) -> dict[str, Any]:
    """Copies and their bytes of two more iterations, by the difference of two fits."""
    X, y = to_device(case.shape)
    short, long = case.iterations, 3 * case.iterations
    counts = []
    for n_iter in (short, short, long):  # the first loads the kernels
        model = case.model(max_iter=n_iter)
        kinds = [torch.profiler.ProfilerActivity.CPU]
        if DEVICE == "cuda":
            kinds = [torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=kinds) as profile:
            model.fit(X, y)
            synchronize()
        counts.append((model_iterations(model), count_copies(profile)))
    (few, before), (many, after) = counts[1:]
    extra = max(1, many - few)
    per_iteration = {kind: (after[kind] - before[kind]) / extra for kind in after}
    return {"shape": case.shape.words(), "iterations": [few, many], "per_iteration": per_iteration}


def model_iterations(model: Any) -> int:
    return int(np.max(np.asarray(getattr(model, "n_iter_", 0))))


def count_copies(profile: Any) -> dict[str, float]:
    """Copies with their bytes, waits of the host, and kernels."""
    found = dict.fromkeys(("HtoD", "DtoH", "HtoD_bytes", "DtoH_bytes", "waits", "kernels"), 0.0)
    if DEVICE != "cuda":
        return found
    for event in profile.profiler.kineto_results.events():
        name = event.name()
        if name.startswith("Memcpy"):
            kind = "HtoD" if "HtoD" in name else "DtoH" if "DtoH" in name else None
            if kind:
                found[kind] += 1
                found[f"{kind}_bytes"] += max(0, event.nbytes())
        elif "Synchronize" in name:
            found["waits"] += 1
        elif event.device_type() == torch.autograd.DeviceType.CUDA:
            found["kernels"] += 1
    return found


def crossover() -> Iterator[dict[str, Any]]:
    """Seconds of a fit by number of rows: the least at which the device wins, for every estimator."""
    scales = (0.002, 0.01) if SMALL else (0.005, 0.02, 0.08, 0.3)
    for name, case in CHOSEN.items():
        yield from guarded(f"crossover {name}", lambda case=case: one_crossover(case, scales))


def one_crossover(case: Any, scales: tuple[float, ...]) -> dict[str, Any]:
    rows: list[dict[str, float]] = []
    for scale in scales:
        smaller = case.at(scale)
        found = beside_cores(smaller)
        rows.append({"rows": smaller.shape.rows, "device_s": found["device_s"], "cores_s": found["cores_s"]})
        if found["cores_s"] > 1.5 * found["device_s"]:
            break
    wins = [row["rows"] for row in rows if row["cores_s"] > row["device_s"]]
    return {"columns": case.shape.words(), "times": rows, "wins_from": wins[0] if wins else None}


def guarded(name: str, fn: Callable[[], Any]) -> Iterator[dict[str, Any]]:
    """What `fn` finds, or why it does not; after `CASE_SECONDS` it is ended."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"more than {CASE_SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    outer = signal.alarm(CASE_SECONDS)
    start = time.perf_counter()
    try:
        found = fn()
        results = [found] if isinstance(found, dict) else list(found)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        results = [
            {"failed": f"{type(error).__name__}: {error}"[:400], "at": f"{Path(place.filename).name}:{place.lineno}"}
        ]
    finally:
        signal.alarm(max(1, outer - int(time.perf_counter() - start)) if outer else 0)
        signal.signal(signal.SIGALRM, before)
    if DEVICE == "cuda":
        torch.cuda.empty_cache()
    for result in results:
        result = {"name": name, **result, "case_s": round(time.perf_counter() - start, 1)}
        print(json.dumps(result), flush=True)
        yield result


def machine() -> dict[str, Any]:
    folder = Path(__file__).parent
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True)
    return {
        "device": torch.cuda.get_device_name() if DEVICE == "cuda" else "PyTorch on the cores",
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "latentia": latentia.__version__,
        "commit": commit.stdout.strip() or None,
    }


CASES = {
    "sweep": sweep,
    "estimators": estimators,
    "transfers": transfers,
    "crossover": crossover,
}
WHOLE = {"sweep"}  # guarded in one piece; the others by estimator


def main() -> None:
    global DEVICE, SMALL, CHOSEN
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="case", help=f"of {', '.join(CASES)}; all by default")
    parser.add_argument("--only", nargs="+", choices=ESTIMATORS, metavar="estimator", help="all by default")
    parser.add_argument("--file", type=Path, help="where the JSON goes besides")
    parser.add_argument("--cpu", action="store_true", help="small shapes on the cores, to test the script")
    parser.add_argument("--seconds", type=float, default=450, help="no case is begun after so many seconds")
    options = parser.parse_args()
    if unknown := set(options.cases) - set(CASES):
        parser.error(f"unknown case {sorted(unknown)[0]!r}; choose from {', '.join(CASES)}")
    CHOSEN = {name: case for name, case in ESTIMATORS.items() if name in (options.only or ESTIMATORS)}
    if options.cpu:
        DEVICE, SMALL = "cpu", True
    elif not torch.cuda.is_available():
        parser.error("PyTorch finds no CUDA device; --cpu tests the script without one")
    warnings.simplefilter("ignore")
    sklearn.set_config(array_api_dispatch=True)
    start, results, this = time.perf_counter(), [], machine()
    for name in options.cases or CASES:
        found = guarded(name, CASES[name]) if name in WHOLE else CASES[name]()
        while time.perf_counter() - start < options.seconds and (result := next(found, None)) is not None:
            results.append(result)
            report = {"machine": this, "seconds": round(time.perf_counter() - start), "results": results}
            if options.file:  # after each, so that a run that is cut off has its figures too
                options.file.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
