"""Timing of several fits in turn, and ratios with their spread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Run(NamedTuple):
    """Seconds of one fit, and what it has reached."""

    wall: float
    processor: float
    value: Any


def run_once(fn: Callable[[], Any]) -> Run:
    """BLAS threads spin for a moment after their last product: wait until they rest."""
    time.sleep(0.2)
    wall, processor = time.perf_counter(), time.process_time()
    value = fn()
    return Run(time.perf_counter() - wall, time.process_time() - processor, value)


def in_turn(fits: dict[str, Callable[[], Any]], repeats: int) -> dict[str, Any]:
    """Least seconds of each fit; of all but the first, the ratios to the first in the same round."""
    runs: dict[str, list[Run]] = {name: [] for name in fits}
    for _ in range(repeats):
        for name, fn in fits.items():
            runs[name].append(run_once(fn))
    ours, *others = runs
    found: dict[str, Any] = {"repeats": repeats}
    for name, mine in runs.items():
        value = mine[-1].value
        found[name] = {
            "wall_s": min(run.wall for run in mine),
            "processor_s": min(run.processor for run in mine),
            "value": None if value is None else float(value),
        }
    for name in others:
        rounds = [b.wall / a.wall for a, b in zip(runs[ours], runs[name], strict=True)]
        found[name] |= {
            "ratio": found[name]["wall_s"] / found[ours]["wall_s"],
            "ratio_low": min(rounds),
            "ratio_high": max(rounds),
            "processor_ratio": found[name]["processor_s"] / found[ours]["processor_s"],
        }
    return found


def least_wall(fn: Callable[[], Any], repeats: int) -> float:
    return min(run_once(fn).wall for _ in range(repeats))


def least_processor(fn: Callable[[], Any], repeats: int) -> float:
    """Processor seconds: those of the clock on one thread of a quiet machine, and steadier on another."""
    return min(run_once(fn).processor for _ in range(repeats))


def slope(sizes: list[float], seconds: list[float]) -> float:
    """Of log seconds in log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
