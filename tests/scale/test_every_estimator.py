"""Every estimator finds the same in an array, a memory map, files and Dask, be the table small or large."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scale_cases import CHUNKS, CLASSES, OUTPUTS, table
from sklearn.base import clone
from sklearn.metrics import r2_score

import latentia
from latentia.engine import rows as array_source
from latentia.estimators.softmax.experts import r_squared
from latentia.scale import files as scanned_tables
from latentia.scale import tables as small_tables

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pytest.importorskip("pyarrow")

pytestmark = pytest.mark.filterwarnings("ignore")

#: Those that are quick enough to be tried whenever tests run.
DEFAULT = ("softmax, points", "embedding")
#: Whose rows stay in parts however few there are: for them a large table is only one that nothing keeps.
IN_PARTS = ("mixture", "factors")
CASES = [
    pytest.param(name, size, marks=() if name in DEFAULT else pytest.mark.matrix, id=f"{size}-{name}")
    for name in (*CLASSES, *OUTPUTS)
    for size in (["large"] if name.startswith(IN_PARTS) else ["small", "large"])
]


@pytest.fixture
def parts_stay_apart(monkeypatch):
    """Small as they are."""
    monkeypatch.setattr(small_tables, "SMALL_MIB", 0)
    monkeypatch.setattr(scanned_tables, "MAX_PART_ROWS", 60)


@pytest.fixture(params=["small", "large"])
def size(request, monkeypatch, parts_stay_apart):
    """Whether tables in parts may be brought here."""
    if request.param == "large":
        monkeypatch.setattr(small_tables, "SMALL_TABLE_MIB", 0)
        monkeypatch.setattr(scanned_tables, "CACHE_MIB", 0)
        monkeypatch.setattr(array_source, "CACHE_MIB", 0)
    return request.param


def answers(model, X, y=None):
    """What a fitted model says."""
    methods = ("predict_proba", "score_samples", "transform", "impute", "expert_proba", "subclass_proba")
    found = {name: getattr(model, name)(X) for name in methods if hasattr(model, name)}
    if not hasattr(model, "predict_proba"):
        found["predict"] = model.predict(X)
    return found


def numbers(model, X, y=None):
    """What it says of all rows together."""
    found = {name: getattr(model, name)(X, y) for name in ("score", "bic", "aic") if hasattr(model, name)}
    return found | {"curve": model.objective_curve_, "iterations": model.n_iter_}


def lay_out(X, y, folder):
    """The same table in a memory map, in Dask arrays and data frames, and in files."""
    np.save(folder / "x.npy", X)
    frame = pd.DataFrame(X, columns=list("abc"))
    targets = ["y"] if y.ndim == 1 else [f"y{k}" for k in range(y.shape[1])]
    frame[targets] = y[:, None] if y.ndim == 1 else y
    if y.ndim == 1 and y.dtype.kind == "i":
        frame["y"] = frame["y"].astype("Int64").where(frame["y"] >= 0, pd.NA)
    for k, rows in enumerate((frame[:100], frame[100:101], frame[101:])):
        rows.to_parquet(folder / f"{k}.parquet", row_group_size=90)
    target = targets[0] if y.ndim == 1 else targets
    lazy = dd.concat([dd.from_pandas(part, npartitions=2) for part in (frame[:100], frame[100:])])
    return {
        "memory map": (np.load(folder / "x.npy", mmap_mode="r"), y),
        "Dask array": (da.from_array(X, chunks=(CHUNKS, 2)), da.from_array(y, chunks=100)),
        "Dask frame": (lazy[list("abc")], lazy[target]),
        "files": (latentia.scan(folder / "*.parquet", target=target), None),
    }


@pytest.mark.parametrize("name, size", CASES, indirect=["size"])
def test_the_same_answer(name, size, tmp_path):
    model = clone({**CLASSES, **OUTPUTS}[name])
    gaps = name.startswith((*IN_PARTS, "sizes", "stack"))
    X, y = table(name in OUTPUTS, gaps)
    if hasattr(model, "unlabeled"):
        model.set_params(unlabeled=-1)
    model.fit(X, y)
    known = slice(50 if name in OUTPUTS else 0, None)
    told, expected = numbers(model, X[known], y[known]), answers(model, X)
    tables = lay_out(X, y, tmp_path)
    if name not in DEFAULT:  # read by the same steps, whoever asks
        del tables["Dask array"]
        tables = {"files": tables["files"]} if size == "small" else tables
    for what, (rows, targets) in tables.items():
        model.fit(rows, targets)
        if name not in OUTPUTS:
            found = numbers(model, rows, targets)
            for key, value in told.items():
                np.testing.assert_allclose(found[key], value, rtol=1e-8, err_msg=f"{key} of {what}")
        for key, answer in answers(model, rows).items():
            answer = answer.compute() if hasattr(answer, "compute") else answer
            np.testing.assert_allclose(answer, expected[key], rtol=1e-8, atol=1e-8, err_msg=f"{key} of {what}")


@pytest.mark.parametrize("name", ["mixture", "softmax, points", "embedding", "stack"])
def test_bad_tables_are_named(name, size, tmp_path):
    model, (X, y) = clone(CLASSES[name]).set_params(unlabeled=-1), table()
    if name == "stack":
        model.set_params(tol=1.0)
    model.fit(X, y)
    before = model.predict_proba(X)
    rows, labels = da.from_array(X, chunks=(CHUNKS, 3)), da.from_array(y, chunks=100)
    frame = dd.from_pandas(pd.DataFrame({"a": X[:, 0], "y": y}), npartitions=3).clear_divisions()
    mixed = dd.from_map(_part_of_other_dtype, [0, 1], meta=pd.DataFrame({"a": [0.5]}).iloc[:0])
    for k in range(2):
        pd.DataFrame({"a": X[:, 0], "y": y}).to_parquet(tmp_path / f"{k}.parquet")
    category = frame.assign(b=frame["a"].astype(str).astype("category"))
    files = latentia.scan(tmp_path / "*.parquet", target="y")
    (tmp_path / "1.parquet").unlink()
    cases = [
        ((rows, y), TypeError, "y is a ndarray, but X is a Dask Array"),
        ((X, labels), TypeError, "y is a Dask Array, but X is in memory"),
        ((rows, labels[:-1]), ValueError, "y has 239 entries and X has 240 rows"),
        ((rows, None), ValueError, "y"),
        ((rows[:0], labels[:0]), ValueError, "without any row"),
        ((rows[:, 0], labels), ValueError, "two axes"),
        ((rows.astype(str), labels), TypeError, "dtype <U"),
        ((category[["b"]], frame["y"]), ValueError, "column 'b' of X is a category"),
        ((rows, da.full_like(labels, -1)), ValueError, "no (label|known entry)"),
        ((frame[["a"]], frame["y"].repartition(npartitions=1)), ValueError, "unknown divisions"),
        ((mixed, dd.from_map(_labels, [0, 1], meta=pd.Series([0], dtype="int64"))), ValueError, "column 'a'"),
        ((da.where(rows > 3, np.inf, rows), labels), ValueError, "infinity"),
        ((files, None), FileNotFoundError, "1.parquet has vanished"),
    ]
    if name not in ("mixture", "stack"):
        cases.append(((da.where(rows > 3, np.nan, rows), labels), ValueError, "missing cells"))
    for given, error, text in cases:
        with pytest.raises(error, match=text):
            model.fit(*given)
        np.testing.assert_array_equal(model.predict_proba(X), before)  # nothing half-fitted is left


@pytest.mark.parametrize("name", ["mixture", "softmax, points", "embedding"])
def test_labels_and_weights_must_be_divided_as_the_rows_are(name, size):
    """Of parts whose sizes nobody knows before they are read."""
    X, y = table()
    cuts = {"rows": (0, 100, 240), "other": (0, 99, 240)}

    def in_parts(values, cut):
        lazy = da.from_array(values, chunks=(tuple(np.diff(cuts[cut])), *values.shape[1:]))
        return lazy[da.ones(len(values), chunks=lazy.chunks[0], dtype=bool)]  # of unknown sizes

    model = clone(CLASSES[name]).set_params(unlabeled=-1, max_iter=2)
    model.fit(in_parts(X, "rows"), in_parts(y, "rows"), in_parts(np.ones(240), "rows"))
    for what, cut in (("y", ("other", "rows")), ("sample_weight", ("rows", "other"))):
        with pytest.raises(ValueError, match=f"{what} has (99|141) entries"):
            model.fit(in_parts(X, "rows"), in_parts(y, cut[0]), in_parts(np.ones(240), cut[1]))


def _part_of_other_dtype(k):
    return pd.DataFrame({"a": [0.5, 1.5] if k == 0 else ["2", "3"]})


def _labels(k):
    return pd.Series([0, 1])


def test_label_matrices(size, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 3))
    Y = (X @ rng.normal(size=(3, 3)) + rng.normal(size=(240, 3)) > 0).astype(int)
    Y[:50] = -1
    Y[rng.random(Y.shape) < 0.1] = -1
    model = latentia.ProbitEmbeddingClassifier(2, max_iter=7).fit(X, Y)
    told, expected, record = numbers(model, X, Y), answers(model, X), model.training_record_
    for what, (rows, targets) in lay_out(X, Y, tmp_path).items():
        model.fit(rows, targets)
        for key, value in numbers(model, rows, targets).items():
            np.testing.assert_allclose(value, told[key], rtol=1e-8, err_msg=f"{key} of {what}")
        found = model.predict_proba(rows)
        found = found.compute() if hasattr(found, "compute") else found
        np.testing.assert_allclose(found, expected["predict_proba"], rtol=1e-8, atol=1e-8)
        for counted in ("label_counts", "known_counts"):
            assert model.training_record_[counted] == record[counted]
        assert model.multilabel_ and ("label_names_" in vars(model)) == (what in ("Dask frame", "files"))


@pytest.mark.parametrize("n_classes", [1, 2, 3])
def test_records_are_those_of_the_whole_table(n_classes, size):
    X, y = table()
    X, y = np.repeat(X, 2, axis=0), np.minimum(np.repeat(y, 2), n_classes - 1)  # equal rows are counted, too
    rows, labels = da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=100)
    for name in ("softmax, points", "embedding", "mixture") if n_classes == 3 else ("embedding",):
        model = clone(CLASSES[name]).set_params(unlabeled=-1, max_iter=2)
        record = model.fit(X, y).training_record_
        other = model.fit(rows, labels).training_record_
        assert {**record, "seconds": 0} == {**other, "seconds": 0}
        assert other["n_rows"] == 480 and other["label_counts"] == np.bincount(y[y >= 0]).tolist()


@pytest.mark.parametrize("name", ["softmax, points", "linear experts", "embedding"])
def test_rows_that_are_dropped_are_told_of_alike(name, size):
    X, y = table(outputs=name in OUTPUTS)
    model = clone({**CLASSES, **OUTPUTS}[name]).set_params(max_iter=1, n_init=1)

    def told(*given):
        with pytest.warns(UserWarning, match="of 240 rows have no (label|output)") as found:
            model.fit(*given)
        return [str(w.message) for w in found if "rows have no" in str(w.message)]

    assert told(X, y) == told(da.from_array(X, chunks=(CHUNKS, 3)), da.from_array(y, chunks=100))


def test_weighted_rows(size):
    X, y = table()
    weight = np.random.default_rng(1).uniform(0, 2, len(y))
    weight[60:70] = 0
    lazy = (da.from_array(X, chunks=(CHUNKS, 3)), da.from_array(y, chunks=100), da.from_array(weight, chunks=90))
    for name in ("softmax, points", "embedding"):
        model = clone(CLASSES[name]).set_params(unlabeled=-1, max_iter=5)
        proba = model.fit(X, y, weight).predict_proba(X)
        np.testing.assert_allclose(model.fit(*lazy).predict_proba(X), proba, rtol=1e-8, atol=1e-8)
        with pytest.raises(ValueError, match="sample_weight is zero for every row"):
            model.fit(*lazy[:2], da.zeros_like(lazy[2]))


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_the_score_of_outputs(n_outputs, size, tmp_path):
    X, y = table(outputs=True)
    X, y = X[50:], y[50:, 0] if n_outputs == 1 else y[50:]
    weight = np.random.default_rng(0).uniform(size=190)
    weight[:60] = 0.0  # all of a part
    model = latentia.MixtureOfExpertsRegressor(1, inference="ml", max_iter=5).fit(X, y)
    rows, outputs = da.from_array(X, chunks=((60, 0, 130), 3)), da.from_array(y, chunks=70)
    assert model.score(rows, outputs) == pytest.approx(model.score(X, y), rel=1e-10)
    weights = da.from_array(weight, chunks=50)
    assert model.score(rows, outputs, weights) == pytest.approx(model.score(X, y, weight), rel=1e-10)
    targets = [f"y{k}" for k in range(n_outputs)]
    pd.DataFrame(np.column_stack([X, y]), columns=[*"abc", *targets]).to_parquet(tmp_path / "rows.parquet")
    files = latentia.scan(tmp_path / "rows.parquet", target=targets)
    assert model.score(files) == pytest.approx(model.score(X, y), rel=1e-10)
    with pytest.raises(ValueError, match="NaN"):
        model.score(rows, da.where(outputs > 1, np.nan, outputs))


class Shifted:
    """Predicts its rows, and is off by so much."""

    def __init__(self, off):
        self.off = off

    def predict(self, X):
        return np.asarray(X) + self.off


@pytest.mark.parametrize("off", [[0.0, 0.0, 0.0], [0.0, 0.5, 0.0], [0.5, 0.5, 0.1], [0.5, 0.0, 0.0]], ids=str)
def test_an_output_that_does_not_vary_scores_one_where_it_is_met_and_else_zero(off):
    """As scikit-learn has it."""
    y = np.column_stack([np.full(50, 3.0), np.full(50, -1.0), np.arange(50.0)])
    rows = da.from_array(y, chunks=(20, 3))
    found = r_squared(Shifted(off), rows, rows, None)
    assert found == pytest.approx(r2_score(y, y + off), rel=1e-12)


@pytest.mark.matrix
@pytest.mark.parametrize("name", [*CLASSES, *OUTPUTS])
def test_what_was_learned_in_parts_is_saved_without_them(name, size, tmp_path):
    X, y = table(name in OUTPUTS)
    model = clone({**CLASSES, **OUTPUTS}[name]).set_params(max_iter=2)
    if name not in OUTPUTS:
        model.set_params(unlabeled=-1)
    model.fit(da.from_array(X, chunks=(CHUNKS, 3)), da.from_array(y, chunks=100))
    model.save(tmp_path / "model.latentia")
    found, expected = answers(latentia.load(tmp_path / "model.latentia"), X), answers(model, X)
    for key, answer in expected.items():
        np.testing.assert_array_equal(found[key], answer)
    assert (tmp_path / "model.latentia").stat().st_size < 100_000 and len(pickle.dumps(model)) < 200_000
