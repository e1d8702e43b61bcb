"""Work on all cores: threads that live on between calls, BLAS libraries that leave the cores to
them, and memory that stays with a process while it computes.

A sweep makes and drops arrays of some MiB, chunk after chunk. The C library of Linux learns to keep
such memory for the next chunk; where MALLOC_TRIM_THRESHOLD_ is set it does not, and every array
lies in new pages, which the system has to clear: that takes more time than the arithmetic. Dask
sets it for its workers, so that they hold little while they wait. `kept_heap` suspends it as long
as a task runs.
"""

from __future__ import annotations

import ctypes
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from threading import Lock, local
from typing import Protocol, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")

_local = local()


@contextmanager
def one_thread() -> Iterator[None]:
    """The calling thread works alone, as a task of Dask: the other cores have work of their own."""
    before = getattr(_local, "alone", False)
    _local.alone = True
    try:
        with one_blas_thread(), kept_heap():
            yield
    finally:
        _local.alone = before


def n_threads() -> int:
    """Cores this process may use; joblib's workers get fewer through the environment, tasks of Dask
    by `one_thread`.
    """
    if getattr(_local, "alone", False):
        return 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(allowed or 1, int(wanted) if wanted.isdigit() else allowed or 1))


def parallel(fn: Callable[[T], R], tasks: Sequence[T], threaded: bool = True) -> list[R]:
    """Results of the tasks in order, on all cores with single-threaded BLAS if there is more than
    one task.

    The calling thread works too: one thread less to take turns with, and calls may nest.
    """
    workers = min(n_threads(), len(tasks))
    if not threaded or workers < 2:
        return list(map(fn, tasks))
    results: dict[int, R] = {}
    waiting = deque(range(len(tasks)))

    def work() -> None:
        while waiting:
            try:
                k = waiting.popleft()
            except IndexError:  # another thread was faster
                return
            results[k] = fn(tasks[k])

    with one_blas_thread():
        others = [_pool(n_threads() - 1).submit(work) for _ in range(workers - 1)]
        try:
            work()
        finally:
            waiting.clear()  # after an error or an interrupt nothing more is begun
            for other in others:
                if not other.cancel():  # what has not begun by now has nothing left to do
                    other.result()
    return [results[k] for k in range(len(tasks))]


def one_blas_thread(wanted: bool = True) -> AbstractContextManager[object]:
    """Products of small matrices lose more to waiting for each other than a second thread gains."""
    # asking is cheap, and setting what is set already is not
    if not wanted or all(library.get_num_threads() == 1 for library in _blas()):
        return nullcontext()
    limit: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return limit


class BlasLibrary(Protocol):
    """A library with threads of its own."""

    def get_num_threads(self) -> int: ...


@cache
def _blas() -> list[BlasLibrary]:
    return list(_controller().select(user_api="blas").lib_controllers)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    """New threads would start with cold memory arenas each time."""
    return ThreadPoolExecutor(workers, thread_name_prefix="latentia")


if hasattr(os, "register_at_fork"):  # threads do not survive a fork
    os.register_at_fork(after_in_child=_pool.cache_clear)


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
    """The first task that begins keeps memory, the last that ends restores what was set."""
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
