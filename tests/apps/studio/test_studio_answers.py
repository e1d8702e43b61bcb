"""What Studio answers is what the library says: the map, a row, its gaps, the drawing board, what can be taken along; and a sentence for hard tables."""

from __future__ import annotations

import gzip
import io
import re

import numpy as np
import pandas
import pytest
from scipy.special import logsumexp
from sklearn.datasets import load_digits
from studio_client import Studio

import latentia
from latentia import GaussianMixtureClassifier, LatentClassificationModel
from latentia.apps.studio import board, planes, surprise
from latentia.apps.studio.columns import Column
from latentia.apps.studio.problems import Problem
from latentia.apps.studio.table_view import TableView
from latentia.apps.studio.workspace import Workspace
from latentia.apps.tables.table_files import Table
from latentia.estimators.latent_classifier.classifier import reasons_array

N_ROWS = 90

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def mixed_csv(n_rows=N_ROWS, seed=0) -> bytes:
    """Numbers with gaps, whole numbers, text, an id, and rows without a class."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n_rows)
    frame = pandas.DataFrame(
        {
            "id": [f"row-{k}" for k in range(n_rows)],
            "size": np.round(rng.normal(kind * 1.5, 1.0), 3),
            "weight": np.round(rng.normal(-kind, 1.0) + 0.5 * kind, 3),
            "legs": rng.poisson(2 + kind),
            "code": [f"{k:03d}" for k in rng.integers(0, 4, n_rows)],
            "color": np.array(["red", "green", "blue"])[(kind + rng.integers(0, 2, n_rows)) % 3],
            "kind": np.array(["ant", "bee", "cat"])[kind],
        }
    )
    for name, share in (("size", 0.1), ("color", 0.1), ("legs", 0.1), ("kind", 0.1)):
        frame[name] = frame[name].astype(object).mask(rng.random(n_rows) < share)
    return frame.to_csv(index=False).encode()


@pytest.fixture(scope="module")
def studio():
    """Studio with a fitted table."""
    with Studio() as running:
        opened = running.send("POST", "/api/table?name=../../kinds.csv", mixed_csv()).json
        running.opened = opened["table"]
        running.progress = running.fit("kind", {"legs": "count", "color": "categorical"})
        running.map = running.get("/api/map")
        yield running


def test_a_table_shows_gaps_kinds_levels_and_the_likeliest_target(studio):
    table = studio.opened
    columns = {column["name"]: column for column in table["columns"]}
    assert table["name"] == "kinds.csv" and table["rows"] == N_ROWS and table["target"] == "kind"
    assert columns["id"]["kind"] == "left out" and "ids" in columns["id"]["reason"]
    assert columns["size"]["kind"] == "continuous" and sum(columns["size"]["histogram"]["counts"]) == N_ROWS - round(
        N_ROWS * columns["size"]["missing"]
    )
    assert columns["code"]["kind"] == "categorical" and {level for level, _ in columns["code"]["levels"]} == {
        "000",
        "001",
        "002",
        "003",
    }
    assert "count" in columns["legs"]["allowed"] and columns["legs"]["missing"] > 0.02


def test_a_fit_tells_of_every_candidate_and_ends_with_weights(studio):
    found = studio.progress
    assert found["phase"] == "done" and not found["stopped"] and len(found["trials"]) == len(found["weights"]) >= 4
    assert sum(found["weights"].values()) == pytest.approx(1)
    assert found["curve"] == sorted(found["curve"]), "the score of the weights rises"
    assert 0 < found["together"]["log_loss"] < 1.2


def test_chosen_kinds_are_those_of_the_model(studio):
    kinds = {column["name"]: column["kind"] for column in studio.map["columns"]}
    assert kinds == {
        "size": "continuous",
        "weight": "continuous",
        "legs": "count",
        "code": "categorical",
        "color": "categorical",
    }


def test_the_map_has_every_row_where_the_model_places_it(studio):
    view = studio.workspace.view
    assert len(studio.map["x"]) == len(studio.map["proba"]) == len(studio.map["surprise"]) == N_ROWS
    np.testing.assert_allclose(studio.map["proba"], view.model.predict_proba(view.frame), atol=6e-5)
    assert len(studio.map["ellipses"]) == 3
    doubted, held_out = studio.map["doubted"], view.model.held_out_proba_
    codes = np.array(studio.map["codes"])
    own = np.where(codes >= 0, held_out[np.arange(N_ROWS), np.maximum(codes, 0)], np.nan)
    assert set(doubted) == {k for k in range(N_ROWS) if own[k] < 0.5 and held_out[k].argmax() != codes[k]}
    assert own[doubted].tolist() == sorted(own[doubted].tolist()) and len(doubted) > 2


def test_a_row_is_answered_as_the_library_does(studio):
    view = studio.workspace.view
    for row in (0, 7, 31):
        found = studio.post("/api/row", {"row": row, "changes": {}})
        one = view.frame.iloc[[row]]
        np.testing.assert_allclose(found["proba"], view.model.predict_proba(one)[0], atol=1e-9)
        np.testing.assert_allclose(found["added"], reasons_array(view.model.explain(one))[0], atol=2e-4)
        np.testing.assert_allclose([found["x"], found["y"]], view.plane.place(one)[0], atol=1e-9)
        assert [cell is None for cell in found["cells"]] == one.isna().to_numpy()[0].tolist()
        held_out = view.model.held_out_proba_[row]
        assert (found["judged"] is None) == np.isnan(held_out).any()
        assert found["judged"] is None or found["judged"] == held_out.tolist()


def test_an_edited_cell_counts_and_a_blank_one_is_missing(studio):
    view = studio.workspace.view
    row = int(np.flatnonzero(view.known.all(axis=1))[0])
    found = studio.post("/api/row", {"row": row, "changes": {"size": "4,5", "color": None, "code": "002"}})
    edited = view.frame.iloc[[row]].assign(size=4.5, color=[None], code=["002"])
    np.testing.assert_allclose(found["proba"], view.model.predict_proba(edited)[0], atol=1e-9)
    assert found["cells"][0] == "4.5" and found["cells"][-1] is None
    here, away = (studio.post("/api/gaps", {"row": row, "changes": {"size": size}}) for size in (None, "40"))
    assert away["surprise"] > 0.99 > here["surprise"] and away["gaps"] == {}
    as_it_is = studio.post("/api/gaps", {"row": row, "changes": {}})
    assert as_it_is["surprise"] == pytest.approx(studio.map["surprise"][row], abs=1e-3)
    assert view.frame.iloc[row]["size"] != 4.5, "the table stays as it is"


@pytest.mark.parametrize(
    "changes,words",
    [
        ({"size": "abc"}, "no number"),
        ({"size": "inf"}, "finite"),
        ({"legs": "1.5"}, "whole number"),
        ({"color": "violet"}, "known are blue, green, red"),
    ],
)
def test_cells_that_cannot_be_are_refused_by_their_column(studio, changes, words):
    found = studio.post("/api/row", {"row": 0, "changes": changes})
    assert words in found["problem"] and found["column"] == next(iter(changes))


def test_what_fills_a_gap_is_the_density_of_the_row(studio):
    view = studio.workspace.view
    row = int(np.flatnonzero(view.known.all(axis=1))[1])
    gaps = studio.post("/api/gaps", {"row": row, "changes": {"size": None, "color": None, "legs": None}})["gaps"]
    assert set(gaps) == {"size", "color", "legs"}
    one = view.frame.iloc[[row]].assign(size=np.nan, color=[None], legs=np.nan)
    filled = view.model.impute(one).iloc[0]
    assert float(gaps["size"]["value"]) == pytest.approx(filled["size"], rel=1e-3)
    assert float(gaps["size"]["low"]) < float(gaps["size"]["value"]) < float(gaps["size"]["high"])
    log_density = [view.model.score_samples(one.assign(color=[c]))[0] for c in ("blue", "green", "red")]
    shares = np.exp(log_density - logsumexp(log_density))
    assert {level: pytest.approx(p, abs=1e-3) for level, p in gaps["color"]["levels"]} == dict(
        zip(("blue", "green", "red"), shares, strict=True)
    )
    assert re.fullmatch(r"\d+", gaps["legs"]["low"]) and int(gaps["legs"]["low"]) <= int(gaps["legs"]["high"])


@pytest.mark.parametrize(
    "kind, cells",
    [
        ("continuous", [0.5, 2.25, -1.0, None]),
        ("continuous", [3, 1, 9, 4]),
        ("continuous", [0, 500, 3, 100]),
        ("count", [0, 2, 7, None]),
        ("count", [3, 500, 37, None]),
        ("binary", [True, False, None, True]),
        ("categorical", ["b", "a", None, "c"]),
    ],
)
def test_a_gap_could_have_every_value_that_was_seen(kind, cells):
    series = pandas.Series(cells)
    column = Column.of("a", kind, series)
    grid, seen = column.grid(), series.dropna().tolist()
    if column.levels or (column.is_whole and max(seen) - min(seen) <= 33):
        assert set(seen) <= set(grid)
    else:
        assert min(grid) <= min(seen) and max(seen) <= max(grid)
    assert kind != "count" or all(value.is_integer() for value in grid)
    assert len(grid) < 40 and grid == sorted(grid) and len(set(grid)) == len(grid)


@pytest.mark.matrix
def test_eight_in_ten_hidden_cells_lie_in_their_range(studio):
    view = studio.workspace.view
    rows = np.flatnonzero(view.known[:, 1])[:60]
    inside = 0
    for row in rows:
        gap = studio.post("/api/gaps", {"row": int(row), "changes": {"weight": None}})["gaps"]["weight"]
        inside += float(gap["low"]) <= view.frame.iloc[row]["weight"] <= float(gap["high"])
    assert 0.66 < inside / rows.size < 0.94  # four standard errors around 0.8, nearly


@pytest.mark.matrix
def test_the_code_that_is_taken_along_fits_the_same_model(studio, tmp_path, monkeypatch, capsys):
    for name in ("table.csv", "code.py", "model.latentia", "report.html"):
        (tmp_path / name).write_bytes(studio.send("GET", f"/api/take/{name}").content)
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!DOCTYPE html>") and "kind in kinds.csv" in page and "Rows are counted from 1." in page
    saved = latentia.load(tmp_path / "model.latentia")
    assert saved.target_name_ == "kind"
    (tmp_path / "model.latentia").unlink()
    (tmp_path / "report.html").unlink()
    monkeypatch.chdir(tmp_path)
    assert "callback" not in (tmp_path / "code.py").read_text()  # nobody stopped the fit
    exec(compile((tmp_path / "code.py").read_text(), "code.py", "exec"), {})
    assert "factors" in capsys.readouterr().out
    again, view = latentia.load(tmp_path / "model.latentia"), studio.workspace.view
    np.testing.assert_allclose(again.predict_proba(view.frame), saved.predict_proba(view.frame), atol=1e-12)
    assert (tmp_path / "report.html").exists()


@pytest.mark.matrix
def test_a_fit_that_is_stopped_keeps_what_it_has_and_its_code_stops_there_too(tmp_path, monkeypatch, capsys):
    workspace = Workspace()
    workspace.open_table(mixed_csv(), "kinds.csv")
    workspace.start_fit("kind", {}, "fast")
    workspace.stop_fit()
    with pytest.raises(Problem, match="under way"):
        workspace.open_example("iris")
    workspace._job.wait(60)
    found = workspace.fit_progress()
    assert found["phase"] == "done" and found["stopped"] and len(found["trials"]) == 1
    (tmp_path / "table.csv").write_bytes(workspace.file("table.csv")[0])
    monkeypatch.chdir(tmp_path)
    exec(compile(workspace.file("code.py")[0], "code.py", "exec"), {})
    again = latentia.load(tmp_path / "model.latentia")
    assert list(again.leaderboard_["candidate"]) == ["factors"]
    np.testing.assert_allclose(again.predict_proba(workspace.view.frame), workspace.view.proba, atol=1e-12)


def test_names_of_columns_stay_text_in_the_code(tmp_path):
    rng = np.random.default_rng(0)
    hostile = 'x"""\nraise SystemExit(1)\n"""'
    frame = pandas.DataFrame(
        {hostile: rng.normal(size=40), "'); import os; ('": ["a", "b"] * 20, "{y}": ["no", "yes"] * 20}
    )
    workspace = Workspace()
    workspace.open_table(frame.to_csv(index=False).encode(), "t.csv")
    workspace.start_fit("{y}", {}, "fast")
    workspace.stop_fit()
    workspace._job.wait(60)
    code = workspace.file("code.py")[0].decode()
    statements = [type(node).__name__ for node in __import__("ast").parse(code).body]
    assert statements[:3] == ["Import", "ImportFrom", "Assign"] and "Raise" not in statements
    assert not [line for line in code.splitlines() if line.startswith("raise")]


HARD = {
    "no label": (b"x,y\n" + b"".join(b"%d,\n" % k for k in range(30)), "y", "no label in any row"),
    "one class": (b"x,y\n" + b"".join(b"%d,a\n" % k for k in range(30)), "y", "second class"),
    "two rows": (b"x,y\n1,a\n2,b\n", "y", "Add rows"),
    "classes are numbers": (
        b"x,y\n" + b"".join(b"%d,%d.5\n" % (k, k) for k in range(60)),
        "y",
        "Choose another column",
    ),
    "text only": (
        b"story,y\n" + b"".join(b"this is story number %d,%s\n" % (k, [b"a", b"b"][k % 2]) for k in range(80)),
        "y",
        "add columns of numbers or categories",
    ),
}
BROKEN = {
    "two thousand columns": (
        ",".join(f"c{k}" for k in range(2000)).encode() + b"\n" + b",".join([b"1"] * 2000) + b"\n",
        "at most 300",
    ),
    "ragged": (b"a,b\n1,2\n1,2,3\n", "line 3"),
    "an open quote": (b'a,b\n"1,2\n', "quote"),
    "no text": (b"\x00\x01\x02\x03", "Correct the file"),
    "another encoding": ("a,b\nä,ö\n".encode("utf-16"), "UTF-8"),
    "empty": (b"", "empty"),
    "header only": (b"a,b\n", "no rows"),
    "one column": (b"a\n1\n2\n", "one column"),
    "Parquet": (b"PAR1 and so on", "latentia studio"),
    "half of a gzip file": (b"\x1f\x8b\x08\x00\x00", "gzip"),
}


@pytest.mark.parametrize("name", HARD)
def test_tables_that_cannot_be_learned_get_a_sentence_that_says_what_to_do(name):
    content, target, words = HARD[name]
    workspace = Workspace()
    assert workspace.open_table(content, f"{name}.csv")["table"]["rows"] >= 2
    with pytest.raises(Problem) as found:
        workspace.start_fit(target, {}, "fast")
    assert words in str(found.value) and str(found.value).endswith(".") and "--" not in str(found.value)


@pytest.mark.parametrize("name", BROKEN)
def test_files_that_are_no_tables_get_a_sentence_too(name):
    content, words = BROKEN[name]
    workspace = Workspace()
    with pytest.raises(Problem) as found:
        workspace.open_table(content, f"{name}.csv")
    assert words in str(found.value) and str(found.value).endswith(".") and "--" not in str(found.value)
    assert workspace.describe()["table"] is None


def test_a_gzip_file_is_read_to_its_end_or_refused():
    """Wherever it was cut off: a table that lacks its last rows looks like any other."""
    text = b"size,kind\n" + b"".join(b"%d.5,%s\n" % (k, [b"a", b"b"][k % 2]) for k in range(40))
    packed = gzip.compress(text)
    joined = gzip.compress(text[:100]) + gzip.compress(text[100:])  # as programs that pack by blocks write it
    for content in (packed, joined):
        assert Workspace().open_table(content, "t.csv.gz")["table"]["rows"] == 40
    for end in (*range(2, len(packed), 7), len(packed) - 8, len(packed) - 1):
        with pytest.raises(Problem, match="gzip file"):
            Workspace().open_table(packed[:end], "t.csv.gz")
    with pytest.raises(Problem, match="damaged"):
        Workspace().open_table(packed[:-8] + bytes(8), "t.csv.gz")  # another sum of its bytes


def test_what_a_page_does_not_open_is_not_opened_from_a_gzip_file_either():
    frame, parquet = pandas.DataFrame({"size": [1.5, 2.5], "kind": ["a", "b"]}), io.BytesIO()
    frame.to_parquet(parquet)
    with pytest.raises(Problem, match="is a Parquet or Arrow file"):
        Workspace().open_table(gzip.compress(parquet.getvalue()), "t.parquet.gz")
    with pytest.raises(Problem, match="compressed by gzip twice"):  # of which no limit would be checked
        Workspace().open_table(gzip.compress(gzip.compress(frame.to_csv(index=False).encode())), "t.csv.gz.gz")


def test_a_model_file_shows_rows_of_its_own_and_then_those_of_a_table(tmp_path):
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({"a": rng.normal(size=80), "b": rng.normal(size=80), "c": rng.normal(size=80)})
    y = np.where(X["a"] + rng.normal(size=80) > 0, "up", "down")
    model = LatentClassificationModel(2, random_state=0, tol=0.1).fit(X, y)
    model.target_name_ = "way"
    model.save(tmp_path / "m.latentia")
    workspace = Workspace()
    workspace.open_path(str(tmp_path / "m.latentia"))
    assert (
        workspace.describe_map()["origin"] == "rows drawn from the model" and len(workspace.describe_map()["x"]) == 300
    )
    table = X.assign(way=y, other="x")
    workspace.open_table(table.to_csv(index=False).encode(), "rows.csv")
    found = workspace.describe_map()
    assert found["origin"] == "rows.csv" and np.unique(found["codes"]).tolist() == [0, 1]
    np.testing.assert_allclose(found["proba"], model.predict_proba(X), atol=6e-5)
    assert workspace.describe_row(5, {})["judged"] is None  # no model was fitted without these rows
    assert b"latentia.load" in workspace.file("code.py")[0]
    with pytest.raises(Problem, match="no file"):
        workspace.file("table.csv")


def test_a_model_of_an_array_has_a_report_that_counts_rows_from_one(tmp_path, rng):
    model = GaussianMixtureClassifier(inference="ml", random_state=0).fit(rng.normal(size=(30, 2)), np.arange(30) % 2)
    model.save(tmp_path / "m.latentia")
    workspace = Workspace()
    workspace.open_path(str(tmp_path / "m.latentia"))
    page = workspace.file("report.html")[0].decode()
    assert "<title>class in rows drawn from the model</title>" in page and "Rows are counted from 1." in page


def test_classes_that_are_numbers_are_known_in_every_type(tmp_path, rng):
    frame = pandas.DataFrame({"a": rng.normal(size=30), "b": rng.normal(size=30)})
    model = GaussianMixtureClassifier(inference="ml", random_state=0).fit(frame, np.arange(30) % 3)
    model.target_name_ = "y"
    model.save(tmp_path / "m.latentia")
    workspace = Workspace()
    workspace.open_path(str(tmp_path / "m.latentia"))
    frame["y"] = np.arange(30.0) % 3
    frame.loc[4, "y"] = np.nan
    frame.to_parquet(tmp_path / "t.parquet")
    workspace.open_path(str(tmp_path / "t.parquet"))
    assert workspace.describe_map()["codes"] == [-1 if k == 4 else k % 3 for k in range(30)]


@pytest.mark.filterwarnings("ignore:y holds the text")
@pytest.mark.parametrize("text, gap", [("None", None), ("nan", np.nan)])
def test_a_class_that_reads_like_a_gap_is_no_gap(tmp_path, rng, text, gap):
    frame = pandas.DataFrame({"a": rng.normal(size=30), "b": rng.normal(size=30)})
    labels = np.array([text, "some", "zz"], dtype=object)[np.arange(30) % 3]
    model = GaussianMixtureClassifier(inference="ml", random_state=0).fit(frame, labels)
    model.target_name_ = "y"
    model.save(tmp_path / "m.latentia")
    labels[:6] = gap
    labels[6] = "another"  # which the model does not know
    frame.assign(y=labels).to_parquet(tmp_path / "t.parquet")
    workspace = Workspace()
    for name in ("m.latentia", "t.parquet"):
        workspace.open_path(str(tmp_path / name))
    classes = model.classes_.tolist()
    assert workspace.describe_map()["codes"] == [classes.index(v) if v in classes else -1 for v in labels]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_marks_of_gaps_that_a_model_knows_are_gaps_of_a_table_beside_it(tmp_path, rng, ending):
    frame = pandas.DataFrame({"a": rng.normal(size=30), "b": rng.normal(size=30), "y": np.arange(30) % 2})
    model = GaussianMixtureClassifier(inference="ml", random_state=0).fit(frame[["a", "b"]], frame["y"])
    model.target_name_, model.missing_marks_ = "y", ("-999", "unknown")
    model.save(tmp_path / "m.latentia")
    frame.loc[3, ["a", "b"]] = -999.0
    frame = frame.assign(b=frame["b"].astype(object).where(frame.index != 5, "unknown")) if ending == "csv" else frame
    frame.to_csv(tmp_path / "t.csv", index=False) if ending == "csv" else frame.to_parquet(tmp_path / "t.parquet")
    workspace = Workspace()
    for name in ("m.latentia", f"t.{ending}"):
        workspace.open_path(str(tmp_path / name))
    found = workspace.describe_map()
    gaps = [2 * (k == 3) + (k == 5 and ending == "csv") for k in range(30)]
    assert found["origin"] == f"t.{ending}" and found["gaps"] == gaps
    assert workspace.describe()["table"]["missing"] == 0.0  # which a fit of the table would know nothing of


def test_model_files_of_strangers_are_refused_in_a_sentence(tmp_path):
    workspace = Workspace()
    for content in (b"", b"PK\x03\x04nonsense", b"\x80\x04."):
        with pytest.raises(Problem, match=r"^m\.latentia cannot be loaded.*latentia fit has written\.$"):
            workspace.open_model(content, "m.latentia")
    softmax = latentia.MultimodalSoftmaxClassifier(1, random_state=0).fit(
        [[0.0], [1.0], [2.0], [3.0]] * 5, [0, 0, 1, 1] * 5
    )
    softmax.save(tmp_path / "s.latentia")
    with pytest.raises(Problem, match="has no score_samples"):
        workspace.open_model((tmp_path / "s.latentia").read_bytes(), "s.latentia")


def test_models_without_factors_have_a_plane_as_well():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = pandas.DataFrame(rng.normal(size=(90, 4)) + np.eye(4)[y] * 4, columns=list("abcd")).mask(
        rng.random((90, 4)) < 0.1
    )
    model = GaussianMixtureClassifier(covariance="diag", random_state=0).fit(X, y)
    plane = planes.plane_of(model, X, y)
    points = plane.place(X)
    assert isinstance(plane, planes.PrincipalPlane) and points.shape == (90, 2)
    np.testing.assert_allclose(plane.place(X.iloc[[5]])[0], points[5], atol=1e-9)
    means = np.stack([points[y == c].mean(axis=0) for c in range(3)])
    apart = np.linalg.norm(means[:, None] - means[None], axis=2)[np.triu_indices(3, 1)]
    assert apart.min() > 2, "the classes are apart in the plane"
    ellipses = plane.ellipses(points, y, 3)
    assert all(e["a"] >= e["b"] > 0 for e in ellipses)
    for c, ellipse in enumerate(ellipses):  # one standard deviation of the rows of a class, in every direction
        turn = np.radians(ellipse["angle"])
        axes = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        axes = axes * [ellipse["a"], ellipse["b"]]
        np.testing.assert_allclose(axes @ axes.T, np.cov(points[y == c].T), atol=1e-9)
    one = planes.plane_of(GaussianMixtureClassifier(random_state=0).fit(X[["a"]], y), X[["a"]], y)
    assert one.place(X[["a"]]).shape == (90, 2)


def test_surprise_compares_rows_with_the_same_cells_known():
    rng = np.random.default_rng(0)
    known = rng.random((400, 3)) < 0.7
    log_density = known @ np.array([-3.0, -5.0, 2.0]) + 0.1 * rng.normal(size=400)
    log_density[7] -= 3
    found = surprise.Surprise(log_density, known.astype(float))
    assert found.of_rows.argmax() == 7 and abs(np.delete(found.of_rows, 7)).max() < 0.6
    assert found.of(float(log_density[7]), known[7].astype(float)) == pytest.approx(found.of_rows[7])
    assert found.share_below(found.of_rows.max()) == pytest.approx(399 / 400)


def test_the_unit_of_the_densities_surprises_nobody(rng):
    log_density, known = rng.normal(size=50), rng.random((50, 3)) < 0.7
    surprises = [surprise.Surprise(log_density + shift, known.astype(float)).of_rows for shift in (0.0, 1e3)]
    np.testing.assert_allclose(surprises[1], surprises[0], atol=1e-6)


@pytest.mark.matrix
def test_half_a_digit_is_recognized_and_completed():
    drawing = board.Board()
    pictures = [(digit, np.array(p)) for digit, some in enumerate(drawing.describe()["examples"]) for p in some]
    assert len(pictures) == 10 * board.N_EXAMPLES, "none of which the model has seen"
    right, error = 0, []
    for digit, picture in pictures:
        answer = drawing.answer([p if k < 32 else None for k, p in enumerate(picture)])
        right += int(np.argmax(answer["proba"])) == digit
        np.testing.assert_allclose(answer["expected"][:32], picture[:32], atol=0.01)
        error.append(np.abs(np.array(answer["expected"][32:]) - picture[32:]).mean())
        shares = [answer["proba"][given["digit"]] for given in answer["given"]]
        assert shares == sorted(answer["proba"], reverse=True)[:3]
    assert right >= 30  # of 40, with the lower half hidden
    pixels = load_digits().data
    blind = np.abs(pixels[:, 32:] - pixels[:, 32:].mean(axis=0)).mean()
    assert np.mean(error) < 0.75 * blind
    assert max(drawing.answer([None] * 64)["proba"]) < 0.12


def test_a_table_view_reads_binary_formats_as_they_are():
    frame = pandas.DataFrame(
        {"when": pandas.date_range("2024-01-01", periods=6), "yes": [True, False] * 3, "y": list("aabbab")}
    )
    view = TableView(Table("t.parquet", frame, is_text=False)).describe()
    kinds = {column["name"]: column["kind"] for column in view["columns"]}
    assert kinds["when"] == "left out" and view["target"] == "y"


def test_a_new_table_ends_the_story_of_the_last_fit():
    """The map stays until there is another; neither the progress nor a file from before is taken for the table's."""
    workspace = Workspace()
    workspace.open_table(mixed_csv(), "one.csv")
    workspace.start_fit("kind", {}, "fast")
    with pytest.raises(Problem, match="A fit is under way"):
        workspace.open_table(mixed_csv(), "two.csv")
    workspace.stop_fit()
    workspace._job.wait(60)
    fitted, version = workspace.describe(), workspace.describe_map()["version"]
    assert fitted["fit"]["phase"] == "done" and fitted["map"] == version
    opened = workspace.open_table(mixed_csv(20), "two.csv")
    assert opened["fit"] is None and opened["map"] == version and opened["table"]["name"] == "two.csv"
    assert workspace.describe_map()["origin"] == "one.csv"
    assert len(workspace.file("table.csv")[0].splitlines()) == N_ROWS + 1
    for ask in (workspace.fit_progress, workspace.stop_fit):
        with pytest.raises(Problem, match="No fit has been started"):
            ask()


def test_what_a_column_may_be_follows_from_its_values():
    n = 62
    frame = pandas.DataFrame(
        {
            "two": np.arange(n) % 2 * 5,
            "thirty": np.arange(n) % 30,
            "thirty-one": np.arange(n) % 31,
            "negative": np.arange(n) % 30 - 1,
            "halves": np.arange(n) / 2,
            "gaps": np.where(np.arange(n) % 3, np.arange(n) % 4, np.nan),
            "empty": np.nan,
            "infinite": np.where(np.arange(n) == 3, np.inf, np.arange(n) * 1.0),
            "always": True,
            "text": np.array(list("ab"))[np.arange(n) % 2],
        }
    )
    view = TableView(Table("t.parquet", frame, is_text=False))
    few = ["categorical", "ordinal"]
    assert {name: view.allowed_kinds(name) for name in frame} == {
        "two": ["continuous", "binary", *few, "count"],
        "thirty": ["continuous", *few, "count"],
        "thirty-one": ["continuous", "count"],
        "negative": ["continuous", *few],
        "halves": ["continuous"],
        "gaps": ["continuous", *few, "count"],
        "empty": ["continuous", *few],
        "infinite": ["continuous", "count"],
        "always": ["continuous", *few, "count"],
        "text": ["categorical"],
    }
    told = {column["name"]: column for column in view.describe()["columns"]}
    assert view.could_be_target == ["two", "thirty", "negative", "gaps", "text"] and view.target == "text"
    assert told["always"]["kind"] == "continuous"  # it looks binary, but has one value
    assert told["empty"]["kind"] == "left out" and told["gaps"]["missing"] == pytest.approx(21 / n)
    assert (
        told["thirty"]["levels"][0] == ["0", 3]
        and len(told["thirty"]["levels"]) == 12
        and not told["thirty-one"]["levels"]
    )
    assert sum(told["infinite"]["histogram"]["counts"]) == n - 1 and told["empty"]["histogram"] is None
    assert (told["halves"]["histogram"]["low"], told["halves"]["histogram"]["high"]) == ("0", "30.5")


@pytest.mark.parametrize(
    "names, target",
    [
        (["Outcome", "species", "a"], "Outcome"),  # the first that is called like classes
        (["a", "b", "many"], "b"),  # the last of those with few values
        (["many", "ids"], "many"),
        (["ids"], None),
    ],
)
def test_the_likeliest_target(names, target):
    n_values = {"many": 25, "ids": 40}
    frame = pandas.DataFrame({name: np.arange(40) % n_values.get(name, 3) for name in names})
    assert TableView(Table("t.parquet", frame, is_text=False)).target == target


def test_notes_of_a_table_name_no_option_of_the_command_line():
    cells = "\n".join(f"{k if k != 7 else 'many'},{'ab'[k % 2]}" for k in range(30))
    notes = Workspace().open_table(f"x,y\n{cells}\n".encode(), "t.csv")["table"]["notes"]
    assert notes == ["column 'x' is text, since it holds 'many' among 29 numbers"]
