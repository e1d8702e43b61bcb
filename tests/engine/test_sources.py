"""Sources: files are never loaded, memory is bounded by the chunk, every row is seen once in a pass."""

import multiprocessing
import time
import tracemalloc

import numpy as np
import pytest
from sklearn import config_context
from tolerances import EQUAL

from latentia import GaussianMixtureClassifier
from latentia.engine import array_source as sources
from latentia.engine.array_source import ArraySource
from latentia.engine.problem import rows_per_chunk
from latentia.inputs.standardization import column_moments
from latentia.numerics.threads import parallel


@pytest.fixture
def table(rng):
    X, y = rng.normal(size=(500, 6)), rng.integers(-1, 3, size=500)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


@pytest.fixture
def small_memory(monkeypatch):
    """As if every table were too large to be kept."""
    monkeypatch.setattr(sources, "CACHE_MIB", 0)


def visit_rows(source, rows, by_label):
    seen = []

    def visit(block):
        assert block.cells.values.shape[0] <= rows
        if by_label:
            assert (block.y == block.label).all()
        seen.append(block)
        return {"sum": block.cells.values.sum()}

    source.sum_over_chunks(visit, rows, by_label)
    return seen


@pytest.mark.parametrize("by_label", [False, True])
@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_every_row_is_seen_once(table, rows, by_label, monkeypatch):
    X, y = table
    for kept in (sources.CACHE_MIB, 0):
        monkeypatch.setattr(sources, "CACHE_MIB", kept)
        blocks = visit_rows(ArraySource(X, y, np.arange(500.0)), rows, by_label)
        weights = np.concatenate([b.weight for b in blocks])
        np.testing.assert_array_equal(np.sort(weights), np.arange(500.0))
        order = weights.astype(int)
        values = np.concatenate([b.cells.values for b in blocks])
        np.testing.assert_array_equal(values, np.nan_to_num(X)[order])
        np.testing.assert_array_equal(np.concatenate([b.y for b in blocks]), y[order])


def test_labeled_rows_alone(table):
    X, y = table
    rows = ArraySource(X, y).labeled_only()
    assert sum(b.y.size for b in visit_rows(rows, 50, True)) == (y >= 0).sum() == rows.total_weight


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kept", [64, 0], ids=["kept in memory", "read in chunks"])
def test_rows_that_are_dropped_count_nothing(table, rng, monkeypatch, kept, weighted):
    monkeypatch.setattr(sources, "CACHE_MIB", kept)
    X, y = table
    index, weight = rng.permutation(500)[:100], 1.0 + rng.random(500)
    rest = np.setdiff1d(np.arange(500), index)

    def visit(block):
        counted = np.ones(block.y.shape) if block.weight is None else block.weight
        return {"rows": counted.sum(), "cells": counted @ block.cells.values}

    found = ArraySource(X, y, weight if weighted else None).drop_rows(index)
    expected = ArraySource(X[rest], y[rest], weight[rest] if weighted else None)
    assert found.total_weight == pytest.approx(expected.total_weight)
    for by_label in (False, True):
        one, other = (source.sum_over_chunks(visit, 50, by_label) for source in (found, expected))
        np.testing.assert_allclose(one["rows"], other["rows"], **EQUAL)
        np.testing.assert_allclose(one["cells"], other["cells"], **EQUAL)


def test_sums_do_not_depend_on_who_finishes_first(monkeypatch):
    """Numbers whose sum depends on their order, and a first block that takes its time."""
    rows = ArraySource(np.array([[1.0], [1e17], [-1e17], [3.0], [-1.0], [1e-3]] * 5), np.zeros(30, int))
    sums = []
    for threads in ("1", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        first = iter([0.05])

        def visit(block, first=first):
            time.sleep(next(first, 0.0))
            return {"sum": block.cells.values.sum()}

        sums.append(rows.sum_over_chunks(visit, 1)["sum"])
    assert sums[0] == sums[1]


def test_a_read_only_memory_map_is_not_loaded(tmp_path, small_memory):
    rng = np.random.default_rng(0)
    n_rows, n_features = 60_000, 20
    y = rng.integers(3, size=n_rows)
    on_disk = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float64, shape=(n_rows, n_features))
    on_disk[:] = rng.normal(size=(n_rows, n_features)) + y[:, None]
    on_disk.flush()
    X = np.load(tmp_path / "x.npy", mmap_mode="r")
    tracemalloc.start()
    with config_context(working_memory=1):
        model = GaussianMixtureClassifier(n_init=1).fit(X, y)
        proba = model.predict_proba(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes * 0.7  # codes, probabilities and a check for infinity, but no copy of the rows
    np.testing.assert_allclose(proba, GaussianMixtureClassifier(n_init=1).fit(np.array(X), y).predict_proba(X), **EQUAL)


def test_working_memory_sets_the_chunk():
    with config_context(working_memory=1):
        assert rows_per_chunk(1000) == 2**20 // 8000
    assert rows_per_chunk(10**12) == 1


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float16, np.float32])
def test_rows_of_any_number_type(dtype, rng):
    X, y = rng.integers(0, 9, size=(60, 3)).astype(dtype), np.arange(60) % 2
    model = GaussianMixtureClassifier().fit(X, y)
    expected = np.float32 if dtype in (np.float16, np.float32) else np.float64
    assert model.predict_proba(X).dtype == model.means_.dtype == expected


def test_column_moments(table, rng):
    X, _ = table
    X = X * [1, 1e6, 1e-6, 1, 1, 1] + [0, 1e9, 0, 5, 0, 0]
    weight = rng.integers(0, 3, size=500).astype(float)
    mass, mean, deviation = column_moments(X, weight, np.float64)
    again = np.repeat(X, weight.astype(int), axis=0)
    np.testing.assert_allclose(mass, (~np.isnan(again)).sum(axis=0))
    np.testing.assert_allclose(mean, np.nanmean(again, axis=0), rtol=1e-10)
    np.testing.assert_allclose(deviation, np.nanstd(again, axis=0), rtol=1e-8)


@pytest.mark.parametrize("unseen", ["missing", "without weight"])
def test_column_moments_where_the_first_rows_are_no_guide(rng, unseen):
    X, weight = (1e4 + 0.1 * rng.normal(size=(3000, 2))).astype(np.float32), np.ones(3000)
    if unseen == "missing":
        X[:1000, 1] = np.nan
    else:
        X[:1000], weight[:1000] = -1e6, 0.0
    _, mean, deviation = column_moments(X, weight, np.float32)
    known = X[1000:].astype(float)
    np.testing.assert_allclose(mean, known.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(deviation, known.std(axis=0), rtol=2e-2)  # column 0 may have its first rows, too


@pytest.mark.parametrize("dtype, scale", [(np.float32, 1e-23), (np.float32, 1e-30), (np.float64, 1e-170)])
def test_columns_whose_squares_vanish_are_not_constant(rng, dtype, scale):
    y = np.arange(200) % 2
    X = ((rng.normal(size=(200, 2)) + 3 * y[:, None]) * [1.0, scale]).astype(dtype)
    _, _, deviation = column_moments(X, None, dtype)
    np.testing.assert_allclose(deviation / X.std(axis=0, dtype=np.longdouble).astype(dtype), 1.0, rtol=1e-5)
    assert GaussianMixtureClassifier().fit(X[:, 1:], y).score(X[:, 1:], y) > 0.9


def test_a_column_with_one_cell_far_out_has_moments(rng):
    X = np.r_[rng.normal(size=(2000, 1)) * 1e-25, [[1.0]]].astype(np.float32)
    _, mean, deviation = column_moments(X, None, np.float32)
    np.testing.assert_allclose([mean[0], deviation[0]], [X.mean(), X.std()], rtol=1e-4)


@pytest.mark.parametrize("far", [1e160, 1e308])
@pytest.mark.parametrize("covariance", ["diag", "full", "tied", "spherical"])
def test_rows_without_weight_are_absent_wherever_they_lie(rng, covariance, far):
    y = np.arange(60) % 2
    X, weight = rng.normal(size=(60, 2)) + y[:, None], 1.0 + np.arange(60) % 3
    with_far, weights = np.r_[X, [[far, 0.0], [0.0, -far]]], np.r_[weight, 0.0, 0.0]
    options = dict(n_components=2, covariance=covariance, random_state=0, n_init=2, tol=1e-3)
    for labels in ([0, 1], [-1, -1]):
        model = GaussianMixtureClassifier(**options).fit(with_far, np.r_[y, labels], sample_weight=weights)
        plain = GaussianMixtureClassifier(**options).fit(X, y, sample_weight=weight)
        np.testing.assert_allclose(model.objective_curve_, plain.objective_curve_, rtol=1e-9)
        np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), rtol=1e-7, atol=1e-12)


def test_threads_ignore_the_floating_point_errors_that_their_caller_ignores(rng, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    rows = ArraySource(rng.normal(size=(64, 2)), np.zeros(64, int))
    with np.errstate(over="ignore"):
        rows.sum_over_chunks(lambda block: {"sum": np.exp(1e4 + block.cells.values).sum()}, 1)
    with pytest.raises(FloatingPointError), np.errstate(over="raise"):
        rows.sum_over_chunks(lambda block: {"sum": np.exp(1e4 + block.cells.values).sum()}, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("gaps", [0.0, 1e-4, 0.3])
def test_rows_gathered_in_pieces_are_the_rows(rng, monkeypatch, dtype, gaps):
    X = rng.normal(size=(300, 4)).astype(dtype)
    X[rng.random(X.shape) < gaps] = np.nan
    X[0, 0] = np.nan if gaps else 0.0
    y, weight = rng.integers(-1, 3, size=300), rng.random(300)
    whole = visit_rows(ArraySource(X, y, weight), 300, False)[0]
    monkeypatch.setattr(sources, "GATHER_CHUNK_ROWS", 64)
    pieces = visit_rows(ArraySource(X, y, weight), 300, False)[0]
    assert (pieces.cells.observed is None) == (gaps == 0.0)
    for a, b in zip((*whole.cells, whole.y, whole.weight), (*pieces.cells, pieces.y, pieces.weight), strict=True):
        if a is not None:
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)


def _fit_in_child(queue, X, y):
    queue.put(GaussianMixtureClassifier(2, n_init=1, random_state=0).fit(X, y).score(X, y))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own(rng):
    X, y = rng.normal(size=(6000, 20)), rng.integers(2, size=6000)
    here = GaussianMixtureClassifier(2, n_init=1, random_state=0).fit(X, y).score(X, y)  # starts the threads
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_fit_in_child, args=(queue, X, y), daemon=True)
    child.start()
    assert queue.get(timeout=60) == pytest.approx(here)
    child.join(timeout=60)


def test_an_error_in_a_thread_reaches_the_caller(table):
    X, y = table
    rows = ArraySource(X, y)

    def fail(block):
        raise RuntimeError("no such block")

    with pytest.raises(RuntimeError, match="no such block"):
        rows.sum_over_chunks(fail, 5)
    assert rows.sum_over_chunks(lambda block: {"n": block.y.shape[0]}, 5)["n"] == len(X)


def test_work_on_all_cores_may_nest():
    assert parallel(lambda k: sum(parallel(lambda j: j * k, range(5))), range(6)) == [10 * k for k in range(6)]
