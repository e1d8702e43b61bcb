"""Memory that stays with a process while it computes.

A sweep makes and drops arrays of some MiB, chunk after chunk. The C library of Linux learns to keep
such memory for the next chunk; where MALLOC_TRIM_THRESHOLD_ is set it does not, and every array
lies in new pages, which the system has to clear: that takes more time than the arithmetic. Dask
sets it for its workers, so that they hold little while they wait. `kept_heap` suspends it as long
as a task runs.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock

SETTING = "MALLOC_TRIM_THRESHOLD_"

#: Options of mallopt: free memory that is given back, arrays that get pages of their own.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3

#: Of both while a task runs; the latter is the most that the library allows.
KEPT_BYTES = 2**28
LARGE_BYTES = 2**25

#: The library's own.
DEFAULT_LARGE_BYTES = 2**17

_lock = Lock()
_n_tasks = 0


@contextmanager
def kept_heap() -> Iterator[None]:
    """Memory of up to some MiB is kept for the next array, if the environment says otherwise."""
    mallopt = _mallopt()
    if mallopt is None:
        yield
        return
    _count(1, mallopt)
    try:
        yield
    finally:
        _count(-1, mallopt)


def _count(change: int, mallopt: Callable[[int, int], int]) -> None:
    """The first task that begins keeps memory, the last that ends restores what was told."""
    global _n_tasks
    with _lock:
        before, _n_tasks = _n_tasks, _n_tasks + change
        if before == 0:
            mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
            mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        elif _n_tasks == 0:
            mallopt(M_MMAP_THRESHOLD, DEFAULT_LARGE_BYTES)
            mallopt(M_TRIM_THRESHOLD, int(os.environ[SETTING]))


@cache
def _mallopt() -> Callable[[int, int], int] | None:
    """The function of the C library; None where it has none, or nothing is to be suspended."""
    if not os.environ.get(SETTING, "").isdigit() or "MALLOC_MMAP_THRESHOLD_" in os.environ:
        return None
    try:
        found: Callable[[int, int], int] = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return None
    return found
