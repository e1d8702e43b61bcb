"""Files: the same answer as from memory, in memory that does not grow with the file."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from latentia import GaussianMixtureClassifier, LatentClassificationModel, MixtureOfExpertsRegressor, scan
from latentia.engine import rows as array_source
from latentia.scale import files as scanned_tables
from latentia.scale import tables as lazy_tables

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 500)
    frame = pd.DataFrame(rng.normal(size=(500, 3)) + y[:, None], columns=list("abc"))
    frame[rng.random(frame.shape) < 0.1] = np.nan
    frame["label"] = np.array(["x", "y", "z"], dtype=object)[y]
    frame.loc[rng.random(500) < 0.2, "label"] = None
    frame["w"] = rng.uniform(0.5, 2, 500)
    return frame


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of few rows, none of which are kept."""
    monkeypatch.setattr(scanned_tables, "MAX_PART_ROWS", 70)
    monkeypatch.setattr(scanned_tables, "CACHE_MIB", 0)
    monkeypatch.setattr(lazy_tables, "SMALL_MIB", 0)


pytestmark = pytest.mark.filterwarnings("ignore:score leaves out")


def agree(model, frame, table):
    X, y = frame[list("abc")], frame["label"]
    one = model.fit(X, y, **({"sample_weight": frame["w"]} if table.weight else {}))
    curve, proba, filled, score = one.objective_curve_, one.predict_proba(X), one.impute(X), one.score(X, y)
    other = model.fit(table)
    np.testing.assert_allclose(other.objective_curve_, curve, rtol=1e-8)
    answers = other.predict_proba(table)
    assert len(answers) == len(frame) and len(list(answers)) == len(list(table))
    np.testing.assert_allclose(answers.compute(), proba, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(other.impute(table).compute(), filled, rtol=1e-8)
    return other, score


@pytest.mark.parametrize(
    "model", [GaussianMixtureClassifier(covariance="diag"), LatentClassificationModel(n_components=1)]
)
def test_parquet_agrees(frame, tmp_path, small_parts, model):
    for part, rows in enumerate((frame[:210], frame[210:211], frame[211:])):
        rows.to_parquet(tmp_path / f"{part}.parquet", row_group_size=100)
    model.set_params(random_state=0, tol=0.1)
    table = scan(tmp_path / "*.parquet", target="label", columns=list("abc"))
    assert table.shape == (500, 3) and "500 rows" in repr(table)
    other, score = agree(model, frame, table)
    assert other.score(table) == pytest.approx(score)
    assert other.feature_names_in_.tolist() == list("abc")
    weighted = scan(str(tmp_path), target="label", weight="w")
    assert list(weighted.columns) == list("abc")
    agree(model, frame, weighted)


@pytest.mark.parametrize("options", [{"max_categories": 3}, {"min_frequency": 0.2}], ids=lambda o: next(iter(o)))
def test_which_categories_are_rare_counts_rows_by_their_weight(frame, tmp_path, small_parts, options):
    frame = frame.assign(text=list("vwxyz") * 100).drop(columns=["b", "c"])
    frame["w"] = frame["text"].map({"v": 1.0, "w": 2.0, "x": 1.5, "y": 0.5, "z": 3.0})
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=100)
    model = LatentClassificationModel(1, 1, random_state=0, tol=1.0, **options)
    weighted = model.fit(scan(str(tmp_path), target="label", weight="w")).infrequent_categories_[1].tolist()
    whole = model.fit(frame[["a", "text"]], frame["label"], sample_weight=frame["w"]).infrequent_categories_[1].tolist()
    assert weighted == whole == ["v", "x", "y"]


def test_other_kinds_of_files(frame, tmp_path):
    model = GaussianMixtureClassifier(covariance="diag", random_state=0)
    frame.to_feather(tmp_path / "rows.feather")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.assign(place=np.where(frame["a"] > 0, "p", "q")).to_parquet(tmp_path / "folder", partition_cols=["place"])
    for name in ("rows.feather", "rows.csv"):
        agree(model, frame, scan(tmp_path / name, target="label", columns=list("abc"), weight="w"))
    (tmp_path / "feathers" / "part=1").mkdir(parents=True)
    frame.to_feather(tmp_path / "feathers" / "part=1" / "rows.feather")
    for mark in ("_SUCCESS", ".rows.feather.crc"):  # as programs leave them beside their files
        (tmp_path / "feathers" / "part=1" / mark).write_text("")
    agree(model, frame, scan(tmp_path / "feathers", target="label", columns=list("abc")))
    folder = scan(tmp_path / "folder", target="label")
    assert folder.columns == ["a", "b", "c", "w", "place"] and len(folder) == 500
    assert set(pd.concat(list(folder))["place"]) == {"p", "q"}
    mixed = LatentClassificationModel(1, random_state=0, tol=1.0).fit(folder)
    assert mixed.kinds_[-1] == "categorical" and mixed.predict(folder).compute().shape == (500,)


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_rows_of_a_part_are_in_no_other(frame, tmp_path, small_parts, ending):
    path = tmp_path / f"rows.{ending}"
    getattr(frame, f"to_{ending}")(path)
    parts = list(scan(path, columns=list("abcw")))
    assert [len(part) for part in parts] == [70] * 7 + [10]
    np.testing.assert_array_equal(pd.concat(parts), frame[list("abcw")])


def test_answers_are_written_as_they_are_computed(frame, tmp_path, small_parts):
    """Part by part: arrays of one and two axes, frames, whatever the method."""
    rows = frame[list("abc")].mask(np.random.default_rng(0).random((len(frame), 3)) < 0.1)
    rows.assign(label=frame["label"]).to_parquet(tmp_path / "rows.parquet", row_group_size=90)
    table = scan(tmp_path / "rows.parquet", target="label")
    model = GaussianMixtureClassifier(1, covariance="diag", random_state=0).fit(rows, frame["label"])
    for method in ("predict", "predict_proba", "score_samples", "impute", "transform"):
        answers, expected = getattr(model, method)(table), getattr(model, method)(rows)
        answers.to_parquet(tmp_path / "answers.pq")
        written = pd.read_parquet(tmp_path / "answers.pq").to_numpy()
        np.testing.assert_array_equal(np.reshape(written, np.shape(expected)), np.asarray(expected), err_msg=method)
        joined = answers.compute()
        np.testing.assert_array_equal(np.asarray(joined), np.asarray(expected), err_msg=method)
        assert not hasattr(joined, "index") or joined.index.tolist() == list(range(500))  # of the whole table


@pytest.mark.parametrize("outputs", [["c"], ["c", "w"]])
def test_means_and_standard_deviations_are_written_side_by_side(frame, tmp_path, small_parts, outputs):
    rows = frame[["a", "b", "c", "w"]].fillna(0.0)
    X, y = rows[["a", "b"]], rows[outputs[0]] if len(outputs) == 1 else rows[outputs]
    model = MixtureOfExpertsRegressor(1, inference="ml", random_state=0).fit(X, y)
    X.to_parquet(tmp_path / "rows.parquet")
    model.predict(scan(tmp_path / "rows.parquet"), return_std=True).to_parquet(tmp_path / "answers.pq")
    expected = np.column_stack(model.predict(X, return_std=True))
    np.testing.assert_allclose(pd.read_parquet(tmp_path / "answers.pq"), expected, rtol=1e-12)


def test_dtypes_do_not_depend_on_gaps(tmp_path, small_parts):
    """Integers with a gap in one part alone, text in dictionaries that differ from file to file."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"n": pd.array(np.arange(200) % 2, dtype="Int64"), "t": rng.normal(size=200)})
    frame["u"] = (frame["n"] + 1).astype("UInt8")
    frame.loc[3, ["n", "u"]] = pd.NA
    frame["color"] = pd.Categorical(
        np.where(np.arange(200) < 100, "red", np.array(["blue", "red"])[np.arange(200) % 2])
    )
    frame["y"] = (frame["t"] > 0).astype(int)
    for k in range(2):
        part = frame[100 * k : 100 * k + 100]
        part.assign(color=part["color"].cat.remove_unused_categories()).to_parquet(tmp_path / f"{k}.parquet")
    model = LatentClassificationModel(1, random_state=0, tol=1.0).fit(scan(tmp_path, target="y"))
    assert model.kinds_ == ("binary", "continuous", "binary", "categorical")
    assert model.categories_[3].tolist() == ["blue", "red"]
    model.impute(scan(tmp_path, target="y")).to_parquet(tmp_path / "full.pq")
    assert pd.read_parquet(tmp_path / "full.pq").shape == (200, 4)


def test_csv_files_keep_their_name(frame, tmp_path):
    """They are read from a working copy, of which nobody need know."""
    path = tmp_path / "rows.csv"
    frame.to_csv(path, index=False)
    assert repr(scan(path)).startswith(f"<a table scanned from {path}: 500 rows")
    with pytest.raises(TypeError, match=f"X is a table scanned from {path}"):
        GaussianMixtureClassifier().fit(scan(path), frame["label"])
    other = tmp_path / "other.csv"
    frame.assign(a="x").to_csv(other, index=False)
    with pytest.raises(ValueError, match=f"column 'a' is string in the file {other}"):
        scan([path, other])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a;b\n1;2\n1,5;3\n", "cannot be read as CSV in UTF-8, with commas between cells and one dtype"),
        ("\u00e4,b\n1,2\n".encode("latin-1"), "cannot be read as CSV in UTF-8, with commas"),
        (b"a,a\n1,2\n", "has several columns of the name 'a': give each a name of its own"),
    ],
    ids=["semicolons", "encoding", "same names"],
)
def test_csv_files_that_cannot_be_read_are_named(content, message, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"the file {path} {message}"):
        scan(path)


def test_bad_files_are_named(frame, tmp_path, small_parts):
    model = GaussianMixtureClassifier(random_state=0)
    with pytest.raises(FileNotFoundError, match="nothing.parquet"):
        scan(tmp_path / "nothing.parquet")
    frame[:250].to_parquet(tmp_path / "0.parquet")
    frame[250:].to_parquet(tmp_path / "1.parquet")
    with pytest.raises(ValueError, match="target='kind' is no column"):
        scan(tmp_path, target="kind")
    with pytest.raises(TypeError, match="latentia.scan.*target"):
        model.fit(scan(tmp_path), frame["label"])
    with pytest.raises(ValueError, match="y=None"):
        model.fit(scan(tmp_path, columns=["a"]))
    table = scan(tmp_path, target="label", columns=["a", "b"])
    (tmp_path / "1.parquet").unlink()
    with pytest.raises(FileNotFoundError, match="1.parquet has vanished"):
        model.fit(table)
    assert not hasattr(model, "classes_")
    frame[250:].assign(a="text").to_parquet(tmp_path / "1.parquet")
    with pytest.raises(ValueError, match="column 'a' is .*string in the file .*1.parquet"):
        scan(tmp_path, target="label")
    frame[250:].drop(columns="b").to_parquet(tmp_path / "1.parquet")
    with pytest.raises(ValueError, match="1.parquet has no column 'b'"):
        scan(tmp_path, target="label")
    (tmp_path / "1.parquet").write_bytes(b"no parquet")
    with pytest.raises(OSError, match="1.parquet"):
        scan(tmp_path, target="label")
    assert array_source.CACHE_MIB == 64


MEMORY = """
import resource, sys
import latentia
from latentia.scale import files
files.CACHE_MIB = 0  # nothing is small
model = latentia.GaussianMixtureClassifier(covariance="diag", max_iter=2, random_state=0, callback=lambda step: True)
for path in sys.argv[1:]:
    table = latentia.scan(path, target="y")
    model.fit(table)
    for part in model.predict_proba(table):
        pass
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.matrix
def test_memory_stays_flat_while_the_file_grows(tmp_path):
    """The most that a process has held after a small file, and after a large one."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 20_000)
    X = rng.normal(size=(20_000, 20)) + y[:, None]
    rows = pa.table({**{f"x{k}": X[:, k] for k in range(20)}, "y": y})
    paths = [tmp_path / "small.parquet", tmp_path / "large.parquet"]
    for path, n_batches in zip(paths, (4, 14), strict=True):
        with pq.ParquetWriter(path, rows.schema, use_dictionary=False, compression="none") as writer:
            for _ in range(n_batches):
                writer.write_table(rows)
    peaks = [int(peak) / 1024 for peak in subprocess.check_output([sys.executable, "-c", MEMORY, *paths]).split()]
    growth = 10 * 20_000 * 20 * 8 / 2**20
    assert peaks[1] < peaks[0] + 12 and growth > 30, peaks  # MiB
