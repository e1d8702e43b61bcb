"""Speed of the library: beside its peers, as tables grow, in units of matrix products, in memory.

    python benchmarks/speed/run.py [part ...] [--only word ...] [--redo] [--file speed.json]

Parts: peers, rows, axes, gaps, rates, memory; all by default. A case that the results have already
is passed over, so that a run may be ended and begun again; `--redo` forgets the chosen ones first.
At the end `results/speed.md` and the curves of `docs/images` are written from all results.
pomegranate and StepMix are timed where they are installed (see README.md).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import growth  # noqa: E402
import peers  # noqa: E402
import rates  # noqa: E402
from timing import in_turn  # noqa: E402

from latentia.arrays.parallel import n_threads  # noqa: E402

RESULTS = HERE.parent / "results"

#: Rounds of cases that take long.
ROUNDS = {"mixture_full": 2, "mixture_full_classes": 2, "mixture_pomegranate": 2, "mixed_gaps": 2}


def peer(name: str) -> dict[str, Any]:
    case = peers.CASES[name]
    what = f"{(case.__doc__ or '').strip()} Threads: {n_threads()}."
    return {"what": what, **in_turn(case(), ROUNDS.get(name, 3))}


def parts() -> dict[str, dict[str, Callable[[], dict[str, Any]]]]:
    sweeps = {
        f"{name}, {dtype}": partial(rates.sweep_rate, name, dtype)
        for name in rates.sweep_cases()
        for dtype in ("float64", "float32")
    }
    return {
        "peers": {f"{name}, threads={n_threads()}": partial(peer, name) for name in peers.CASES},
        "gaps": {name: partial(growth.gaps, name) for name in growth.WITH_GAPS},
        "rates": sweeps,
        "rows": {name: partial(growth.in_rows, name) for name in growth.MODEST},
        "axes": dict(growth.OTHER_AXES),
        "memory": {name: partial(rates.peak_memory, name, scale) for name, scale in rates.MEMORY_CASES.items()},
    }


def machine() -> dict[str, Any]:
    def version(name: str) -> str | None:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            return None

    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, cwd=HERE, capture_output=True, text=True).stdout.strip()
    libraries = ("latentia", "numpy", "scipy", "scikit-learn", "torch", "pomegranate", "stepmix")
    versions = {name: version(name) for name in libraries}
    return {
        "cores": len(os.sched_getaffinity(0)),
        "threads": n_threads(),
        "python": platform.python_version(),
        **versions,
        "commit": commit,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    available = parts()
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(available)}; all by default")
    parser.add_argument("--only", nargs="+", metavar="word", help="cases whose name contains one of these")
    parser.add_argument("--redo", action="store_true", help="run chosen cases also where there is a result")
    parser.add_argument("--file", type=Path, default=RESULTS / "speed.json")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(available):
        parser.error(f"unknown part {sorted(unknown)[0]!r}; choose from {', '.join(available)}")
    warnings.simplefilter("ignore")
    results = json.loads(options.file.read_text()) if options.file.exists() else {}
    for part in options.parts or available:
        for name, case in available[part].items():
            if options.only and not any(word in name for word in options.only):
                continue
            if name in results.get(part, {}) and not options.redo:
                continue
            start = time.perf_counter()
            found = {**case(), "case_s": round(time.perf_counter() - start, 1), "machine": machine()}
            results.setdefault(part, {})[name] = found
            options.file.write_text(json.dumps(results, indent=1) + "\n")
            shown = {key: value for key, value in found.items() if key != "machine"}
            print(f"{part} {name}: {json.dumps(shown)}", flush=True)
    from report import write_report

    write_report(results, options.file.with_suffix(".md"))


if __name__ == "__main__":
    main()
