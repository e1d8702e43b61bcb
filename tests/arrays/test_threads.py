"""Work on all cores ends as work on one does: with its results in order, or with its error."""

import threading
import time

import pytest

from latentia.arrays import parallel as threads


@pytest.fixture
def two_at_work(monkeypatch):
    """A barrier that holds two tasks until each has a thread of its own, on any machine."""
    monkeypatch.setattr(threads, "n_threads", lambda: 2)
    return threading.Barrier(2, timeout=10)


def test_results_come_in_the_order_of_the_tasks(two_at_work):
    def work(k):
        two_at_work.wait()
        time.sleep(0.01 * (k % 2))
        return k, threading.get_ident()

    found = threads.parallel(work, range(4))
    assert [k for k, _ in found] == [0, 1, 2, 3] and len({thread for _, thread in found}) == 2


@pytest.mark.parametrize("fails", ["caller", "other", "both"])
@pytest.mark.parametrize("slow", ["caller", "other"])
def test_an_error_of_any_thread_reaches_the_caller_whoever_ends_first(fails, slow, two_at_work):
    caller, begun = threading.get_ident(), []

    def work(k):
        begun.append(k)
        two_at_work.wait()
        me = "caller" if threading.get_ident() == caller else "other"
        time.sleep(0.05 if me == slow else 0.0)
        if fails in (me, "both"):
            raise RuntimeError(f"no task {k}")
        return k

    with pytest.raises(RuntimeError, match="no task"):
        threads.parallel(work, range(2))
    assert sorted(begun) == [0, 1]
    assert threads.parallel(lambda k: -k, range(5)) == [0, -1, -2, -3, -4]  # the threads live on


def test_after_an_error_nothing_more_is_begun(two_at_work):
    begun = []

    def work(k):
        begun.append(k)
        if k < 2:
            two_at_work.wait()
            raise RuntimeError("no such task")

    with pytest.raises(RuntimeError, match="no such task"):
        threads.parallel(work, range(50))
    assert begun == [0, 1]


def test_who_works_alone_starts_no_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    with threads.one_thread():
        assert threads.n_threads() == 1
        found = threads.parallel(lambda k: threading.get_ident(), range(3))
        with threads.one_thread():
            pass
        assert threads.n_threads() == 1
    assert set(found) == {threading.get_ident()}
    assert threads.n_threads() == threads.n_threads() > 0
