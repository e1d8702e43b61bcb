"""Work on all cores: threads that live on between calls, and BLAS libraries that leave the cores to
them.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from threading import local
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
        with one_blas_thread():
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
