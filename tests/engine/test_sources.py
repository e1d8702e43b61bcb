"""Sources: files are never loaded, memory is bounded by the chunk, every row is seen once in a pass."""

import multiprocessing
import tracemalloc

import numpy as np
import pytest
from sklearn import config_context
from tolerances import EQUAL

from latentia import GaussianMixtureClassifier
from latentia.arrays.parallel import parallel
from latentia.engine import rows as array_source
from latentia.engine import rows as source_module
from latentia.engine.rows import ArraySource, rows_per_chunk
from latentia.engine.sweep import Hybrid, Likelihood, RowProblem
from latentia.engine.tree import leaves
from latentia.families.gaussian_mixture.family import COVARIANCES, GaussianMixtures
from latentia.table.standardization import column_moments


@pytest.fixture
def table(rng):
    X, y = rng.normal(size=(500, 6)), rng.integers(-1, 3, size=500)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


#: So little working memory that no table is kept.
TIGHT = {"working_memory": 0.01}


def visited_chunks(source, max_rows, by_label=False):
    chunks = []

    def visit(chunk):
        assert chunk.rows.values.shape[0] <= max_rows
        chunks.append(chunk)
        return {"sum": chunk.rows.values.sum()}

    source.sum_over_chunks(visit, max_rows, by_label)
    return chunks


def mapped(X, tmp_path):
    np.save(tmp_path / "x.npy", X)
    return np.load(tmp_path / "x.npy", mmap_mode="r")


@pytest.mark.parametrize("by_label", [False, True])
@pytest.mark.parametrize("max_rows", [1, 7, 1000])
@pytest.mark.parametrize("skip", [False, True])
def test_every_row_is_seen_once(table, max_rows, by_label, skip, tmp_path):
    X, y = table
    counted = np.flatnonzero(y >= 0) if skip else np.arange(500)
    for rows, cache_mib in ((X, None), (X, 0), (mapped(X, tmp_path), 0)):
        source = ArraySource(rows, y, np.arange(500.0), skip_unlabeled=skip, cache_mib=cache_mib)
        chunks = visited_chunks(source, max_rows, by_label)
        assert all((c.label is None) != by_label and (not by_label or (c.y == c.label).all()) for c in chunks)
        order = np.concatenate([c.weight for c in chunks]).astype(int)
        np.testing.assert_array_equal(np.sort(order), counted)
        assert source.total_weight == counted.sum()
        values = np.concatenate([c.rows.values for c in chunks])
        np.testing.assert_array_equal(values, np.nan_to_num(X)[order])
        np.testing.assert_array_equal(np.concatenate([c.y for c in chunks]), y[order])


@pytest.mark.parametrize("n_columns", [6, 70])
def test_rows_that_miss_the_same_cells_lie_side_by_side(rng, n_columns):
    """Within a label, by how many cells they miss and then by which; rows without gaps stay in their order."""
    X, y = rng.normal(size=(400, n_columns)), rng.integers(-1, 2, size=400)
    X[:, 2:5][rng.random((400, 3)) < 0.4] = np.nan
    for chunk in visited_chunks(ArraySource(X, y), 400, by_label=True):
        missing = 1 - chunk.rows.observed
        n_missing = missing.sum(axis=1)
        assert (np.diff(n_missing) >= 0).all()
        n_runs = 1 + np.any(missing[1:] != missing[:-1], axis=1).sum()
        assert n_runs == len(np.unique(missing, axis=0)) == 8
        whole = chunk.rows.values[n_missing == 0]
        np.testing.assert_array_equal(whole, X[(y == chunk.label) & ~np.isnan(X).any(axis=1)])


@pytest.mark.parametrize(
    "y", [np.array([[0, -1], [-1, -1], [1, 1]]), np.array([-0.5, 2.0, -3.0])], ids=["matrix", "numbers"]
)
@pytest.mark.parametrize("cache_mib", [None, 0])
def test_only_class_codes_know_unlabeled_rows(y, cache_mib):
    source = ArraySource(np.arange(6.0).reshape(3, 2), y, cache_mib=cache_mib).labeled_only()
    assert source.total_weight == 3 and not source.any_unlabeled
    chunks = visited_chunks(source, 2, by_label=True)
    assert [c.label for c in chunks] == [None, None]
    np.testing.assert_array_equal(np.concatenate([c.y for c in chunks]), y)
    assert len(source.sample_rows(3, np.random.default_rng(0)).y) == 3


@pytest.mark.parametrize("by_label", [False, True])
def test_sums_do_not_depend_on_the_number_of_threads(rng, by_label, monkeypatch):
    X, y = rng.normal(size=(999, 3)) * 10.0 ** rng.integers(-9, 9, size=(999, 1)), rng.integers(-1, 3, size=999)

    def total(cache_mib, n_threads):
        monkeypatch.setenv("OMP_NUM_THREADS", str(n_threads))
        source = ArraySource(X, y, np.linspace(0.1, 3, 999), cache_mib=cache_mib)
        return source.sum_over_chunks(lambda c: {"sum": c.weight @ c.rows.values}, 5, by_label)["sum"]

    for cache_mib in (None, 0):
        assert total(cache_mib, 1).tobytes() == total(cache_mib, 2).tobytes()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cache_mib", [None, 0])
def test_rows_that_are_dropped_do_not_train(table, weighted, cache_mib):
    X, y = table
    weight = np.random.default_rng(1).uniform(0.5, 2.0, 500) if weighted else None
    dropped = np.arange(0, 500, 3)
    stay = np.setdiff1d(np.arange(500), dropped)
    source = ArraySource(X, y, weight, cache_mib=cache_mib).drop_rows(dropped)
    alone = ArraySource(X[stay], y[stay], None if weight is None else weight[stay])
    np.testing.assert_allclose(source.total_weight, alone.total_weight, **EQUAL)
    np.testing.assert_allclose(source.labeled_only().total_weight, alone.labeled_only().total_weight, **EQUAL)
    far = X.copy()
    far[dropped] = 1e3  # would be noticed
    family = GaussianMixtures(np.array([2, 1, 1]), COVARIANCES["diag"](1e-3))
    params = family.init(alone, np.random.default_rng(0), 2)
    left = ArraySource(far, y, weight, cache_mib=cache_mib).drop_rows(dropped)
    for objective in (Likelihood(), Hybrid()):
        sweeps = [RowProblem(family, objective, rows).sweep(params) for rows in (left, alone)]
        for a, b in zip(*map(leaves, sweeps), strict=True):
            np.testing.assert_allclose(a, b, **EQUAL)
    sample = left.sample_rows(500, np.random.default_rng(0))
    assert sample.y.shape[0] == stay.size and sample.rows.values.max() < 1e3


@pytest.mark.parametrize("seed", range(3))
def test_a_share_of_each_class_is_held_out(seed, monkeypatch):
    X = np.arange(60.0)[:, None]
    y, weight = np.where(np.arange(60) < 12, -1, np.arange(60) % 2), (np.arange(60) % 3 > 0).astype(float)
    rest, held_out = ArraySource(X, y, weight).hold_out(0.4, np.random.default_rng(seed))
    assert np.bincount(held_out.y).tolist() == [6, 6] and (held_out.weight > 0).all()  # of 16 that count in each
    assert rest.total_weight == weight.sum() - 12 and not rest.weight[held_out.X[:, 0].astype(int)].any()
    assert ArraySource(X, y, weight).hold_out(0.01, np.random.default_rng(seed))[1] is None
    monkeypatch.setattr(source_module, "MAX_HELD_OUT_MIB", 8 * 8 / 2**20)  # of a large table no more than eight rows
    assert ArraySource(X, y, weight).hold_out(0.4, np.random.default_rng(seed))[1].n_rows == 8


@pytest.mark.matrix
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_reading_by_chunks_agrees_with_keeping(table):
    X, y = table
    options = dict(n_components=2, unlabeled=-1, random_state=0, max_iter=6, tol=1e-2, n_init=2)
    with config_context(**TIGHT):
        read = GaussianMixtureClassifier(**options).fit(X, y)
    kept = GaussianMixtureClassifier(**options).fit(X, y)
    np.testing.assert_allclose(read.objective_curve_, kept.objective_curve_, **EQUAL)


@pytest.mark.parametrize("by_label", [False, True])
@pytest.mark.parametrize("cache_mib", [None, 0])
def test_chunks_find_what_the_last_sweep_left_unless_the_table_is_large(table, by_label, cache_mib, monkeypatch):
    def visit(chunk):
        if chunk.memo is not None:
            chunk.memo["visits"] = chunk.memo.get("visits", 0) + 1
        return {"n": chunk.y.shape[0], "visits": 0 if chunk.memo is None else chunk.memo["visits"] * chunk.y.shape[0]}

    rows = ArraySource(*table, cache_mib=cache_mib)
    assert [rows.sum_over_chunks(visit, 7, by_label) for _ in range(3)][-1] == {"n": 500, "visits": 1500}
    monkeypatch.setattr(array_source, "MEMO_MIB", 0)
    rows = ArraySource(*table, cache_mib=cache_mib)
    assert [rows.sum_over_chunks(visit, 7, by_label) for _ in range(3)][-1] == {"n": 500, "visits": 0}


@pytest.mark.matrix
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_read_only_memory_map_is_not_loaded(tmp_path):
    options = {"n_init": 1, "covariance": "full", "max_iter": 3}
    rng = np.random.default_rng(0)
    n_rows, n_features = 60_000, 20
    y = rng.integers(3, size=n_rows)
    on_disk = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float64, shape=(n_rows, n_features))
    on_disk[:] = rng.normal(size=(n_rows, n_features)) + y[:, None]
    on_disk.flush()
    X = np.load(tmp_path / "x.npy", mmap_mode="r")
    tracemalloc.start()
    with config_context(working_memory=1):
        model = GaussianMixtureClassifier(**options).fit(X, y)
        proba = model.predict_proba(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes * 0.8  # codes, probabilities, a sample of rows, but no copy of all
    kept = GaussianMixtureClassifier(**options).fit(np.array(X), y)
    np.testing.assert_allclose(proba, kept.predict_proba(X), **EQUAL)


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
    options = dict(n_components=2, covariance=covariance, unlabeled=-1, random_state=0, n_init=2, tol=1e-3)
    for labels in ([0, 1], [-1, -1]):
        model = GaussianMixtureClassifier(**options).fit(with_far, np.r_[y, labels], sample_weight=weights)
        plain = GaussianMixtureClassifier(**options).fit(X, y, sample_weight=weight)
        np.testing.assert_allclose(model.objective_curve_, plain.objective_curve_, rtol=1e-9)
        np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), rtol=1e-7, atol=1e-12)


def test_threads_ignore_the_floating_point_errors_that_their_caller_ignores(rng, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    rows = ArraySource(rng.normal(size=(64, 2)), np.zeros(64, int))
    with np.errstate(over="ignore"):
        rows.sum_over_chunks(lambda chunk: {"sum": np.exp(1e4 + chunk.rows.values).sum()}, 1)
    with pytest.raises(FloatingPointError), np.errstate(over="raise"):
        rows.sum_over_chunks(lambda chunk: {"sum": np.exp(1e4 + chunk.rows.values).sum()}, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("missing", [0.0, 1e-4, 0.3])
def test_rows_cached_chunk_by_chunk_are_the_rows(rng, dtype, missing):
    X = rng.normal(size=(300, 4)).astype(dtype)
    X[rng.random(X.shape) < missing] = np.nan
    X[0, 0] = np.nan if missing else 0.0
    y, weight = rng.integers(-1, 3, size=300), rng.random(300)
    together, in_chunks = (
        visited_chunks(ArraySource(X, y, weight, gather_chunk_rows=size), 300)[0] for size in (300, 64)
    )
    assert (in_chunks.rows.observed is None) == (missing == 0.0)
    for a, b in zip((*together.rows, *together[1:3]), (*in_chunks.rows, *in_chunks[1:3]), strict=True):
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

    def fail(chunk):
        raise RuntimeError("no such chunk")

    with pytest.raises(RuntimeError, match="no such chunk"):
        rows.sum_over_chunks(fail, 5)
    assert rows.sum_over_chunks(lambda chunk: {"n": chunk.y.shape[0]}, 5)["n"] == len(X)


def test_work_on_all_cores_may_nest():
    assert parallel(lambda k: sum(parallel(lambda j: j * k, range(5))), range(6)) == [10 * k for k in range(6)]
