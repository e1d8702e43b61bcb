"""Dask: the same answer as from arrays, lazily, and nothing of the table's size in the client."""

import pickle

import numpy as np
import pandas as pd
import pytest

import latentia
from latentia import GaussianMixtureClassifier, LatentClassificationModel
from latentia.estimators.base import reading as generative_input
from latentia.scale import dask as dask_tables
from latentia.scale import tables as small_tables
from latentia.scale.tables import AnswerPart

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

#: Uneven, with an empty partition and one of a single row.
CHUNKS = (150, 0, 220, 1, 229)


@pytest.fixture(autouse=True)
def parts_stay_apart(monkeypatch):
    """Small as they are."""
    monkeypatch.setattr(small_tables, "SMALL_MIB", 0)


def table(n=600):
    """Rows with gaps, of which the first partition has no label and the third a single class."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 4)) + y[:, None]
    X[:, 1] = np.exp(X[:, 1])
    X[rng.random(X.shape) < 0.1] = np.nan
    y[rng.random(n) < 0.2] = -1
    y[:150] = -1
    y[150:370] = np.where(y[150:370] >= 0, 1, -1)
    return X, y


def in_parts(X, y):
    return da.from_array(X, chunks=(CHUNKS, 2)), da.from_array(y, chunks=100)  # cut otherwise than X


def small(model, **options):
    return type(model)(**{**model.get_params(), "unlabeled": -1, "random_state": 0, "tol": 1e-2, **options})


def agree(model, other, X, dask_X, tol=1e-8):
    np.testing.assert_allclose(other.objective_curve_, model.objective_curve_, rtol=tol)
    for method in ("predict_proba", "score_samples", "transform", "impute"):
        lazy = getattr(other, method)(dask_X)
        expected = getattr(model, method)(X)
        assert isinstance(lazy, da.Array) and lazy.dtype == expected.dtype and lazy.shape == expected.shape
        np.testing.assert_allclose(lazy.compute(), expected, rtol=tol, atol=tol)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_sample_weights_agree():
    X, y = table()
    weight = np.random.default_rng(1).uniform(0, 2, len(y))
    dask_X, dask_y = in_parts(X, y)
    dask_weight = da.from_array(weight, chunks=250)
    for model in (GaussianMixtureClassifier(), LatentClassificationModel(n_latent=1)):
        one = small(model, max_iter=5).fit(X, y, weight)
        other = small(model, max_iter=5).fit(dask_X, dask_y, dask_weight)
        agree(one, other, X, dask_X)


def test_small_partitions_are_joined(monkeypatch):
    assert small_tables.group_small([3, 3, 3, 9, 1, 1], 6) == [[0, 1], [2], [3], [4, 5]]
    X, y = table()
    curve = small(GaussianMixtureClassifier(covariance="diag")).fit(X, y).objective_curve_
    monkeypatch.setattr(small_tables, "SMALL_MIB", 400 * 4 * 8 / 2**20)
    joined = small(GaussianMixtureClassifier(covariance="diag")).fit(*in_parts(X, y))
    np.testing.assert_allclose(joined.objective_curve_, curve, rtol=1e-8)


def test_cells_given_the_class():
    X, y = table()
    rows, labels = in_parts(X, y)
    model = small(GaussianMixtureClassifier(covariance="diag")).fit(X, y)
    np.testing.assert_allclose(model.impute(rows, labels).compute(), model.impute(X, y), rtol=1e-8)
    np.testing.assert_allclose(model.impute(rows, y=labels).compute(), model.impute(X, y), rtol=1e-8)
    with pytest.raises(
        TypeError, match="y is a ndarray, but X is a Dask Array: pass y as a column or an array of Dask"
    ):
        model.impute(rows, y)
    with pytest.raises(ValueError, match=f"y has {len(y) - 1} entries and X has {len(y)} rows"):
        model.impute(rows, labels[1:])


def mixed_table(n=300):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    frame = pd.DataFrame({"a": rng.normal(size=n) + y, "b": rng.normal(size=n)})
    frame["color"] = np.array(["red", "green", "blue"])[(y + rng.integers(0, 2, n)) % 3]
    frame["sure"] = rng.random(n) < (y + 1) / 3
    frame["size"] = pd.Categorical(np.array(["s", "m", "l"])[(y + rng.integers(0, 2, n)) % 3], ["s", "xs", "m", "l"])
    frame["visits"] = rng.poisson(y + 1.0)
    frame.loc[rng.random(n) < 0.1, ["a", "color"]] = np.nan
    frame["kind"] = np.array(["x", "z"], dtype=object)[y]
    frame.loc[rng.random(n) < 0.3, "kind"] = None
    return frame


def test_mixed_frames_agree():
    """The bounds of rows settle chunk by chunk, so they agree as far as their tolerance says."""
    frame = mixed_table()
    lazy, y = dd.from_pandas(frame, npartitions=3), frame.pop("kind")
    lazy_y = lazy.pop("kind")
    options = {"kinds": {"visits": "count"}, "bound_tol": 1e-10, "bound_max_iter": 1000, "max_iter": 3}
    model = LatentClassificationModel(1, unlabeled_weight=0.1, random_state=0, **options)
    with pytest.warns(UserWarning, match="max_iter=3"):
        one = model.fit(frame, y)
    curve, proba, filled = one.objective_curve_, one.predict_proba(frame), one.impute(frame)
    categories = [None if c is None else c.tolist() for c in one.categories_]
    with pytest.warns(UserWarning, match="max_iter=3"):
        other = model.fit(lazy, lazy_y)
    np.testing.assert_allclose(other.objective_curve_, curve, rtol=1e-7)
    assert [None if c is None else c.tolist() for c in other.categories_] == categories
    np.testing.assert_allclose(other.predict_proba(lazy).compute(), proba, atol=1e-6)
    completed = other.impute(lazy)
    assert completed.divisions == lazy.divisions and list(completed.columns) == list(frame.columns)
    completed = completed.compute()
    assert not completed.isna().any().any()
    pd.testing.assert_frame_equal(completed.astype(filled.dtypes), filled, rtol=1e-5, check_index_type=False)
    assert set(other.predict(lazy).compute()) <= {"x", "z"}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_part_without_a_known_cell_does_not_change_what_the_columns_are():
    X, y = np.where(np.arange(60)[:, None] // 20 == 1, np.nan, np.eye(3)[np.arange(60) % 3]), np.arange(60) % 2
    model = LatentClassificationModel(1, max_iter=2, random_state=0)
    assert model.fit(da.from_array(X, chunks=(20, 3)), da.from_array(y, chunks=20)).kinds_ == ("binary",) * 3


def test_a_class_without_weight_is_named():
    X, y, weight = (da.from_array(a, chunks=20) for a in (np.eye(60)[:, :2], np.arange(60) % 2, np.arange(60) % 2.0))
    with pytest.raises(ValueError, match="sample_weight is zero for every row of class 0"):
        GaussianMixtureClassifier().fit(X.rechunk((20, 2)), y, weight)


def test_a_table_is_small_if_all_of_its_parts_are_together(monkeypatch):
    frame = pd.DataFrame({"a": np.arange(90.0), "b": np.arange(90.0)})
    table = dask_tables.DaskTable(dd.from_pandas(frame, npartitions=3))  # which does not know its rows
    monkeypatch.setattr(small_tables, "SMALL_TABLE_MIB", 16 * 90 / 2**20)
    pd.testing.assert_frame_equal(small_tables.bring_small(table, None, None).X, frame)
    monkeypatch.setattr(small_tables, "SMALL_TABLE_MIB", 16 * 89 / 2**20)
    assert small_tables.bring_small(table, None, None) is None


@pytest.mark.matrix
def test_searches_look_at_a_sample_of_a_large_table(monkeypatch):
    monkeypatch.setattr(small_tables, "SMALL_TABLE_MIB", 0)
    monkeypatch.setattr(generative_input, "SAMPLE_MIB", 300 * 4 * 8 / 2**20)
    X, y = table()
    rows, labels = in_parts(X, y)
    stack = latentia.LatentClassifier(effort="fast", cv=2, tol=1e-1, unlabeled=-1, random_state=0).fit(rows, labels)
    assert stack.training_record_["n_rows"] == 600 and 290 < len(stack.held_out_proba_) <= 300
    alone = latentia.GaussianMixtureClassifier(covariance="diag", unlabeled=-1, unlabeled_weight=0.0, n_init=1).fit(
        X, y
    )
    members = {vote.name: vote.member.model.params for vote in stack._model.votes if vote.name.startswith("Gaussians")}
    np.testing.assert_allclose(  # which have seen all rows
        members["Gaussians, no correlations"].means, alone._model.params.means, rtol=1e-6, atol=1e-6
    )
    sizes = latentia.LatentClassificationModelCV([1], [1], cv=2, n_init=1, tol=1e-1, unlabeled=-1, random_state=0)
    assert sizes.fit(rows, labels).training_record_["n_rows"] == 600  # the chosen model sees all
    with pytest.raises(TypeError, match="y is a matrix of labels and X a large table"):
        stack.fit(rows, da.stack([labels, labels], axis=1))
    for model in (stack, sizes):
        with pytest.raises(ValueError, match="cv is a list that names rows"):
            model.set_params(cv=[(np.arange(400), np.arange(400, 600))]).fit(rows, labels)


@pytest.mark.matrix
def test_a_stack_of_a_large_table_of_mixed_columns(monkeypatch):
    monkeypatch.setattr(small_tables, "SMALL_TABLE_MIB", 0)
    monkeypatch.setattr(generative_input, "SAMPLE_MIB", 200 * 6 * 8 / 2**20)
    frame = mixed_table()
    lazy, y = dd.from_pandas(frame, npartitions=3), frame.pop("kind")
    lazy_y = lazy.pop("kind")
    stack = latentia.LatentClassifier(effort="fast", cv=2, tol=1.0, random_state=0).fit(lazy, lazy_y)
    found = stack.predict_proba(lazy).compute()
    np.testing.assert_allclose(found, stack.predict_proba(frame), rtol=1e-8)
    assert len(stack.held_out_proba_) < 200 and stack.score(frame[~y.isna()], y[~y.isna()]) > 0.7


@pytest.mark.parametrize(
    "model",
    [
        GaussianMixtureClassifier(covariance="diag", tol=1.0, random_state=0),
        latentia.MultimodalSoftmaxClassifier(1, inference="ml", max_iter=2, random_state=0),
        latentia.ProbitEmbeddingClassifier(1, max_iter=2, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore:.*stopped before it converged")
def test_what_comes_to_the_client_does_not_grow(monkeypatch, model):
    """Sums, samples and counts: three times the rows send no more."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(small_tables, "SMALL_TABLE_MIB", 0)
    sizes = []

    def spied(receive):
        def spy(*args):
            found = receive(*args)
            sizes.append(sum(len(pickle.dumps(value)) for value in found))
            return found

        return spy

    monkeypatch.setattr(dask_tables, "_compute", spied(dask_tables._compute))
    monkeypatch.setattr(dask_tables.ClusterParts, "_fetch", spied(dask_tables.ClusterParts._fetch))

    def received(n_rows):
        sizes.clear()
        y = np.arange(n_rows) % 2
        X = np.random.default_rng(0).normal(size=(n_rows, 2)) + y[:, None]
        rows, labels = da.from_array(X, chunks=(n_rows // 4, 2)), da.from_array(y, chunks=n_rows // 4)
        model.fit(rows, labels)
        return max(sizes)

    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        assert received(30_000) < 1.05 * received(10_000) < 30_000 * 16


def test_scores_count_classes_that_fit_has_not_seen_as_mistakes():
    X, y = table()
    model = small(GaussianMixtureClassifier(), unlabeled=-1).fit(X, y)
    other = np.where((y == 1) & (np.arange(len(y)) % 2 == 0), 9, y)
    assert 0 < model.score(X, other) < model.score(X, y)
    assert model.score(*in_parts(X, other)) == pytest.approx(model.score(X, other))


def test_scores_know_the_mark_of_unlabeled_rows():
    X, y = table()
    y = np.where(y < 0, 7, y)
    model = small(GaussianMixtureClassifier(), unlabeled=7).fit(X, y)
    assert model.score(*in_parts(X, y)) == pytest.approx(model.score(X, y))


def test_answers_in_parts_leave_the_listener_of_the_model(rng):
    """A listener does not travel to the parts, and is still there for the next fit."""
    heard = []

    def listen(step):
        heard.append(step)

    X, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    model = GaussianMixtureClassifier(1, covariance="diag", random_state=0, callback=listen).fit(X, y)
    expected, part = model.predict_proba(X), AnswerPart(model, "predict_proba", {})
    np.testing.assert_array_equal(model.predict_proba(da.from_array(X, chunks=(15, 2))).compute(), expected)
    assert part.estimator is not model and part.estimator.callback is None and model.callback is listen
    model.set_params(temperature=3.0, callback=None)  # what is asked later does not change what was asked
    np.testing.assert_array_equal(part(X), expected)
    assert heard
