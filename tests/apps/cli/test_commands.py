"""From a file to an answer: what each command reads, shows and writes."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import shlex
import subprocess
import sys
import time
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.ipc
import pyarrow.parquet
import pytest
from small_tables import make_table

import latentia as library
from latentia.__main__ import main
from latentia.apps.cli import answer_commands, options, training_commands
from latentia.apps.cli.app import run
from latentia.apps.cli.console import Screen
from latentia.apps.tables.class_labels import amounts_note, read_labels
from latentia.apps.tables.failures import Failure
from latentia.apps.tables.table_files import Reading, Table, read_table
from latentia.apps.tables.text_tables import MISSING, find_delimiter
from latentia.apps.tables.typed_columns import features_as_fitted, find_features
from latentia.persistence.files import save_model


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        pytest.param("docs/quick_start.md", marks=pytest.mark.matrix),
        pytest.param("docs/command_line.md", marks=pytest.mark.matrix),
    ],
)
def test_the_commands_of_the_first_pages_run_one_after_the_other(latentia, page, tmp_path, monkeypatch):
    root = Path(__file__).parents[3]
    blocks = re.findall(r"```sh\n(.*?)```", (root / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    commands = [
        shlex.split(line, comments=True)[1:]
        for block in blocks
        for line in block.splitlines()
        if line.startswith("latentia ")
    ]
    assert [command[0] for command in commands] == ["fit", "predict"]
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "customers.csv").write_bytes((root / "examples" / "customers.csv").read_bytes())
    monkeypatch.chdir(tmp_path)
    for command in commands:
        ended = latentia(*command, *(["--effort", "fast"] if command[0] == "fit" else []))
        assert ended.code == 0, ended.err
    assert len(rows_of((tmp_path / "answers.csv").read_text())) == 160


def test_fit_shows_what_it_found_and_saves_the_model(latentia, tmp_path):
    table, model, answers = tmp_path / "a.csv", tmp_path / "a.latentia", tmp_path / "p.csv"
    table.write_text(make_table())
    ended = latentia("fit", table, "--target", "kind", "-o", model, "--effort", "fast", "--predictions", answers)
    assert ended.code == 0 and ended.errors == []
    for words in (
        "60 rows, 4 columns",
        "size     continuous",
        "color   categorical",
        "binary",
        "no 24, yes 24; unlabeled 12",
        "expected of new rows",
        str(model),
    ):
        assert words in ended.out
    loaded = library.load(model)
    assert type(loaded).__name__ == "LatentClassifier" and loaded.target_name_ == "kind" and loaded.callback is None
    assert loaded.kinds_ == ("continuous", "categorical", "binary", "categorical")
    found = pd.read_csv(answers)
    assert list(found) == ["prediction", "p(no)", "p(yes)", "outlier_score"] and len(found) == 60
    np.testing.assert_allclose(found["p(no)"] + found["p(yes)"], 1.0)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.csv", "a.latentia", "p.csv"]


def test_fit_for_machines(latentia, tmp_path):
    table = tmp_path / "a.csv"
    table.write_text(make_table())
    ended = latentia("fit", table, "-t", "kind", "-o", tmp_path / "m", "--effort", "fast", "--json", "--ignore", "code")
    facts = json.loads(ended.out)
    assert ended.code == 0 and ended.err == ""
    assert [c["name"] for c in facts["columns"]] == ["size", "color", "two"]
    assert (facts["n_rows"], facts["n_unlabeled"], facts["classes"], facts["class_counts"]) == (
        60,
        12,
        ["no", "yes"],
        [24, 24],
    )
    assert 0 < facts["expected_accuracy"] <= 1 and len(facts["leaderboard"]) >= 2


def test_fit_says_which_classes_its_expectations_leave_out(latentia, tmp_path):
    table = pd.read_csv(io.StringIO(make_table()))
    table.loc[0, "kind"] = "rare"
    table.to_csv(tmp_path / "a.csv", index=False)
    files = ("-o", tmp_path / "m", "--report", tmp_path / "r.html")
    ended = latentia("fit", tmp_path / "a.csv", "-t", "kind", *files, "--effort", "fast")
    assert ended.code == 0 and "(without rare: never held out)" in ended.out
    page = (tmp_path / "r.html").read_text()
    assert "says nothing about rare, of which no row could be held out" in page


def large_table(n=1000):
    """Columns of numbers, counts and text that know of three classes, with gaps and empty labels."""
    rng = np.random.default_rng(0)
    code = rng.integers(0, 3, n)
    table = pd.DataFrame({f"number {k}": rng.normal(size=n) + 0.5 * rng.normal() * code for k in range(10)})
    for k in range(3):
        table[f"count {k}"] = rng.poisson(2 + code)
    for size in (2, 5, 12):
        shares = rng.dirichlet(np.ones(size), 3)
        table[f"text of {size}"] = [f"value {rng.choice(size, p=shares[c])}" for c in code]
    labels = pd.Series(np.array(["low", "middle", "high"])[code])
    return table.mask(rng.random(table.shape) < 0.1).assign(kind=labels.mask(rng.random(n) < 0.3))


@pytest.mark.matrix
def test_a_thousand_rows_would_have_their_answers_within_a_minute(latentia, tmp_path):
    """With all that is asked for in one command: three hundred have them in half of it. Two cores share the seconds."""
    large_table(300).to_csv(tmp_path / "a.csv", index=False)
    files = ("-o", tmp_path / "m", "--report", tmp_path / "r.html", "--predictions", tmp_path / "p.csv")
    started = time.process_time()
    ended = latentia("fit", tmp_path / "a.csv", "--target", "kind", *files)
    assert time.process_time() - started < 30
    assert ended.code == 0 and "unlabeled" in ended.out and (tmp_path / "r.html").stat().st_size > 50_000
    assert (pd.read_csv(tmp_path / "p.csv").filter(like="p(").sum(axis=1) - 1).abs().max() < 1e-9
    assert library.load(tmp_path / "m").expected_accuracy_ > 0.8


def test_predictions_are_those_of_the_library(latentia, fitted):
    ended = latentia("predict", fitted / "model.latentia", fitted / "table.csv")
    assert ended.code == 0 and ended.err == ""
    found = rows_of(ended.out)
    model = library.load(fitted / "model.latentia")
    table = pd.read_csv(fitted / "table.csv", dtype={"code": str}, na_values=["?"])
    table["two"] = table["two"].astype("Int64")
    proba = model.predict_proba(table[["size", "color", "two", "code"]])
    np.testing.assert_allclose([float(row["p(yes)"]) for row in found], proba[:, 1], rtol=1e-12)
    assert {row["prediction"] for row in found} <= {"no", "yes"}


def test_columns_may_come_in_any_order_with_others_and_are_kept_on_request(latentia, fitted):
    table = pd.read_csv(fitted / "table.csv", dtype=str, keep_default_na=False)
    straight = latentia("predict", fitted / "model.latentia", fitted / "table.csv")
    turned = table[table.columns[::-1]].assign(name=[f"n{k}" for k in range(len(table))]).to_csv(index=False)
    ended = latentia("predict", fitted / "model.latentia", "-", "--keep", "name", stdin=turned.encode())
    assert ended.code == 0
    assert [row.pop("name") for row in rows_of(ended.out)] == [f"n{k}" for k in range(60)]
    assert ended.out.splitlines()[5].partition(",")[2] == straight.out.splitlines()[5]


def test_labels_too_few_to_hold_some_out_are_told(latentia, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,kind\n1,a\n2,b\n")
    ended = latentia("fit", path, "-t", "kind", "-o", tmp_path / "m", "--effort", "fast")
    assert ended.code == 0 and "2 rows, 1 column, 0.0%" in ended.out and "nan" not in ended.out
    assert "expected of new rows: unknown: too few different labeled rows to hold some out" in ended.out


def test_reports_count_the_rows_of_a_file_from_one(latentia, fitted, tmp_path):
    ended = latentia("report", fitted / "model.latentia", fitted / "table.csv", "-o", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert ended.code == 0 and "Rows are counted from 1." in page
    assert "<h1>kind in table.csv</h1>" in page and str(fitted) not in page  # pages are for others, folders are not


@pytest.mark.matrix
def test_padded_numbers_are_codes_with_a_word_and_numbers_if_asked_for(latentia, tmp_path):
    path, model = tmp_path / "a.csv", tmp_path / "m.latentia"
    rng = np.random.default_rng(0)
    amounts = 20 * rng.integers(0, 15, 60) + 200 * (np.arange(60) % 2)
    path.write_text(
        "amount,code,grade,kind\n" + "".join(f"{a:05d},{k % 7:02d},{k % 4},{k % 2}\n" for k, a in enumerate(amounts))
    )
    ended = latentia("fit", path, "-t", "kind", "-o", model, "--effort", "fast")
    assert ended.code == 0 and "amount  categorical" in ended.out
    assert ended.err.splitlines() == [
        "note: column 'amount' is text, since it holds '00000', and leading zeros make codes of its numbers; "
        "--kind amount=continuous makes numbers of them"
    ]
    asked = ["--kind", "amount=count", "--kind", "code=categorical", "--kind", "grade=ordinal"]
    ended = latentia("fit", path, "-t", "kind", "-o", model, "--effort", "fast", "--force", *asked)
    assert ended.code == 0 and ended.err == "" and "amount        count" in ended.out
    fitted = library.load(model)
    assert fitted.kinds_ == ("count", "categorical", "ordinal")
    ended = latentia("predict", model, "-", stdin=b"amount,code,grade\n00417,03,3\n12,06,\n")
    assert ended.code == 0 and [row["prediction"] for row in rows_of(ended.out)] == ["1", "0"]


@pytest.mark.matrix
def test_compare_takes_kinds_and_classes_of_whole_numbers(latentia, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("amount,kind\n" + "".join(f"{k * 7 % 50:05d},{k % 2}\n" for k in range(60)))
    ended = latentia("compare", path, "-t", "kind", "--folds", "2", "--kind", "amount=count")
    assert ended.code == 0 and "amount  count" in ended.out and "gradient boosting" in ended.out


def test_predictions_and_reasons_are_of_the_class_that_costs_least(latentia, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 2)) + (np.arange(60) % 2)[:, None], columns=["a", "b"])
    model = library.LatentClassifier(effort="fast", cv=3, loss_matrix=[[0, 1], [20, 0]], random_state=0)
    model.fit(X, np.array(["no", "yes"])[np.arange(60) % 2]).save(tmp_path / "m.latentia")
    X.to_csv(tmp_path / "a.csv", index=False)
    said = model.predict(X).tolist()
    assert said != model.classes_[model.predict_proba(X).argmax(axis=1)].tolist()
    ended = latentia("predict", tmp_path / "m.latentia", tmp_path / "a.csv")
    assert [row["prediction"] for row in rows_of(ended.out)] == said
    latentia("explain", tmp_path / "m.latentia", tmp_path / "a.csv", "-o", tmp_path / "e.csv")
    found = pd.read_csv(tmp_path / "e.csv")
    assert found["prediction"].tolist() == said
    own = model.predict_proba(X)[np.arange(60), (np.array(said) == "yes").astype(int)]
    np.testing.assert_allclose(found["probability"], own)
    np.testing.assert_allclose(found["adds:a"][said.index("yes")], model.explain(X)["yes"]["a"][said.index("yes")])


@pytest.mark.parametrize(
    "cells, numbers",
    [
        (["$1,034", "$300", "-$5", "($6.50)"], [1034, 300, -5, -6.5]),
        (["$210,000", "$180,500"], [210000, 180500]),
        (["300 €", "1.200 €", ""], [300, 1200, np.nan]),
        (["1.200,50 €", "3 €"], [1200.5, 3]),
        (["EUR 5", "EUR 1.000.000"], [5, 1000000]),
        (["20%", "5.5 %", "12.345%"], [20, 5.5, 12.345]),
        (["1,5", "2", "0,123"], [1.5, 2, 0.123]),
        (["300", "1,200"], [300, 1200]),
        (["1\u202f200,5\u00a0€", "3\u00a0€", "\u22127\u00a0€"], [1200.5, 3, -7]),
        (["1'200.125", "5"], [1200.125, 5]),
        (["₹1,24,900", "₹300"], [124900, 300]),
    ],
)
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_amounts_that_can_be_read_in_one_way_are_numbers_with_a_note(cells, numbers, ending, tmp_path):
    frame, path = pd.DataFrame({"price": cells, "x": 1.5}), tmp_path / f"a{ending}"
    frame.to_csv(path, index=False) if ending == ".csv" else frame.replace("", None).to_parquet(path)
    found = find_features(read_table(str(path), Reading()), ["price", "x"])
    np.testing.assert_array_equal(
        found.frame["price"].astype("Float64").to_numpy(dtype=float, na_value=np.nan), numbers
    )
    assert len(found.notes) == 1 and found.notes[0].startswith("column 'price' is read as numbers, ")
    assert "; --kind price=categorical keeps" in found.notes[0]
    kept = find_features(read_table(str(path), Reading()), ["price", "x"], {"price": "categorical"})
    assert kept.frame["price"].dropna().tolist() == [c for c in cells if c] and kept.notes == []
    asked = find_features(read_table(str(path), Reading()), ["price", "x"], {"price": "continuous"})
    pd.testing.assert_series_equal(asked.frame["price"], found.frame["price"])


@pytest.mark.parametrize(
    "cells",
    [
        ["1.200 €", "2.400 €", "3.500 €"],
        ["$1.299", "$1.319", "$1.309"],
        ["1,000", "2,500", "3,100"],
        ["1200 €", "1.200 €", "7 €"],
        ["$5", "5 €", "7 €"],
        ["5%", "5", "6%"],
        ["12,345%", "5%", "7%"],
        ["1,5 €", "1.5 €", "2.5 €"],
    ],
)
def test_amounts_that_can_be_read_in_several_ways_are_left_out(cells, tmp_path):
    path = tmp_path / "a.csv"
    pd.DataFrame({"price": np.resize(cells, 90), "x": 1.5}).to_csv(path, index=False)
    found = find_features(read_table(str(path), Reading()), ["price", "x"])
    assert list(found.frame) == ["x"] and found.notes == []
    assert re.match(
        r"amounts such as '.*', of unclear marks or different signs, 3 different ones in 90 cells; as plain",
        found.left_out["price"],
    )


def test_a_word_among_amounts_is_named_with_the_cure(tmp_path):
    path = tmp_path / "a.csv"
    pd.DataFrame({"price": ["unknown"] + [f"${k % 9}" for k in range(89)], "x": 1.5}).to_csv(path, index=False)
    found = find_features(read_table(str(path), Reading()), ["price", "x"])
    said = "column 'price' is text, since it holds 'unknown' among 89 amounts; --missing unknown makes gaps of such"
    assert found.notes[0].startswith(said) and found.explained == {"price"}
    found = find_features(read_table(str(path), Reading(missing=MISSING | {"unknown"})), ["price", "x"])
    assert found.frame["price"].sum() == sum(k % 9 for k in range(89))


@pytest.mark.parametrize(
    "form", ["2020-{:02d}-01", "2020-{:02d}", "{}/1/2020", "{}.1.2020", "Jan {}, 2020", "{}-feb-2020"]
)
def test_few_dates_are_categories_with_a_note_and_many_are_left_out(form, tmp_path):
    path = tmp_path / "a.csv"
    for n_values in (12, 13):
        form = form if n_values == 12 else form.replace("2020-{:02d}", "20{:02d}-12")
        days = [form.format(1 + k % n_values) for k in range(800)]
        pd.DataFrame({"day": days, "x": 1.5}).to_csv(path, index=False)
        found = find_features(read_table(str(path), Reading()), ["day", "x"])
        said = f"dates, {n_values} different ones in 800 cells; as numbers, such as days, they could be used"
        if n_values == 12:
            assert found.notes == [f"column 'day' is categorical, though it holds {said}"] and found.explained == {
                "day"
            }
        else:
            assert found.left_out == {"day": said} and found.notes == []


@pytest.fixture(scope="module")
def of_amounts(tmp_path_factory):
    """A folder with a model that was fitted to prices, shares and incomes as text."""
    folder, a = tmp_path_factory.mktemp("amounts"), np.random.default_rng(0).integers(20, 480, 200)
    euros = [f"{7 * v:,}".replace(",", ".") + ",50 €" for v in a]
    frame = pd.DataFrame({"price": [f"${v}" for v in a], "share": [f"{v % 37}%" for v in a], "income": euros})
    frame.assign(y=np.where(a > 250, "high", "low")).to_csv(folder / "a.csv", index=False)
    assert run(["fit", str(folder / "a.csv"), "-t", "y", "-o", str(folder / "m"), "--effort", "fast", "-q"]) == 0
    return folder


def test_models_of_amounts_read_new_ones_as_those_they_were_fitted_to(latentia, of_amounts, tmp_path):
    model = library.load(of_amounts / "m")
    assert model.kinds_ == ("continuous",) * 3 and model.expected_accuracy_ > 0.95
    assert model.number_forms_ == {"price": ("$", ""), "share": ("%", ""), "income": ("€", ",")}
    plain = pd.DataFrame({"price": [400, 30], "share": [30, 30], "income": [2800.0, 1200.0]})
    expected = model.predict_proba(plain)[:, 0]
    rows = {"price": ["$400", "$30"], "share": ["30%", "30 %"], "income": ["2.800 €", "1.200"]}
    for frame in (pd.DataFrame(rows), plain.assign(income=["2800.0", "1200.0"])):
        for ending in (".csv", ".parquet"):
            path = tmp_path / f"rows{ending}"
            frame.to_csv(path, index=False) if ending == ".csv" else frame.to_parquet(path)
            ended = latentia("predict", of_amounts / "m", path)
            np.testing.assert_allclose([float(row["p(high)"]) for row in rows_of(ended.out)], expected)
    for command in (["report", "-o", tmp_path / "r.html"], ["explain"], ["impute"]):
        assert latentia(command[0], of_amounts / "m", of_amounts / "a.csv", *command[1:]).code == 0
    ended = latentia("impute", of_amounts / "m", "-", stdin="price,share,income\n$400,,2.800 €\n".encode())
    assert rows_of(ended.out)[0]["income"] == "2800.0" and rows_of(ended.out)[0]["price"] == "400"


@pytest.mark.parametrize("price, income", [("400 €", "2.800 €"), ("$1.200", "2.800 €"), ("$400", "2,800.00 €")])
def test_new_amounts_of_another_form_are_refused(latentia, of_amounts, price, income):
    ended = latentia("predict", of_amounts / "m", "-", stdin=f'price,share,income\n"{price}",5%,"{income}"\n'.encode())
    assert ended.code == 3 and "no number as the model expects; as plain numbers, with a decimal point" in ended.err


def test_new_rows_hold_true_and_false_where_the_model_does(latentia, tmp_path):
    """Other words are refused: as gaps they would be lost without a word."""
    X = pd.DataFrame({"x": np.arange(20.0), "member": np.arange(20) % 3 == 0})
    library.LatentClassificationModel(1, random_state=0).fit(X, np.arange(20) % 2).save(tmp_path / "m.latentia")
    ended = latentia("predict", tmp_path / "m.latentia", "-", stdin=b"x,member\n1,TRUE\n2,0\n3,\n")
    assert ended.code == 0 and len(rows_of(ended.out)) == 3
    ended = latentia("predict", tmp_path / "m.latentia", "-", stdin=b"x,member\n1,true\n2,yes\n")
    assert ended.code == 3 and ended.errors == [
        "latentia: standard input: column 'member' holds 'yes', which is neither true nor false as the model expects; "
        "--missing yes makes a gap of it"
    ]


def test_new_rows_are_read_as_the_model_knows_the_columns(latentia, fitted):
    """A column of codes stays text though all of its values here are plain numbers; a column without values is fine."""
    ended = latentia(
        "predict", fitted / "model.latentia", "-", stdin=b"size,color,two,code\n1.5,red,,000\n,,,\n2,blue,1,001\n"
    )
    assert ended.code == 0 and ended.err == "" and len(rows_of(ended.out)) == 3
    ended = latentia("predict", fitted / "model.latentia", "-", stdin=b"size,color,two,code\n1.5,red,,7\n")
    assert ended.code == 0 and "note:" in ended.err and "'7'" in ended.err  # no code of the table fitted: missing
    ended = latentia("predict", fitted / "model.latentia", "-", stdin=b"size,color,two,code\nbig,red,,000\n")
    assert ended.code == 3 and ended.errors == [
        "latentia: standard input: column 'size' holds 'big', which is no number as the model expects; "
        "--missing big makes a gap of it"
    ]
    ended = latentia("predict", fitted / "model.latentia", "-", stdin=b"size,color\n1,red\n")
    assert ended.code == 3 and "needs the columns 'two', 'code', which it does not have; empty cells will" in ended.err
    ended = latentia("predict", fitted / "model.latentia", "-", stdin=b"size,color,two\n1,red,1\n")
    assert ended.code == 3 and "needs the column 'code', which" in ended.err


def odd_table(n=90):
    """A number with one word, a small number with another, dates as text, codes with a leading zero."""
    rows = ["age,visits,day,code,kind"]
    for k in range(n):
        age, visits = ("forty" if k == 7 else 20 + k / 4), ("don't know" if k == 9 else k % 5)
        rows.append(f"{age},{visits},2020-{k // 28 + 1:02d}-{k % 28 + 1:02d},{k % 9:03d},{'no' if k % 2 else 'yes'}")
    return "\n".join(rows) + "\n"


def test_words_among_numbers_and_dates_are_named_with_the_cure(latentia, tmp_path):
    table, model = tmp_path / "a.csv", tmp_path / "m"
    table.write_text(odd_table())
    ended = latentia("fit", table, "-t", "kind", "-o", model, "--effort", "fast")
    assert ended.code == 0
    age, visits = "'forty' among 89 numbers; --missing forty", '"don\'t know" among 89 numbers; --missing'
    assert f"column 'age' is left out: {age} makes gaps of such cells and numbers of the others" in ended.err
    assert f"column 'visits' is text, since it holds {visits}" in ended.err
    assert "column 'day' is left out: dates, 90 different ones" in ended.err
    assert ended.err.count("visits") == 1  # the library need not say it again
    assert library.load(model).kinds_ == ("categorical", "categorical")  # codes as 007 stay text
    options = ("--missing", "forty", "--missing", "don't know", "--force", "--quiet")
    ended = latentia("fit", table, "-t", "kind", "-o", model, "--effort", "fast", *options)
    assert ended.code == 0 and library.load(model).kinds_ == ("continuous", "continuous", "categorical")
    assert latentia("predict", model, table).code == 0  # the marks of gaps are part of the model
    assert latentia("report", model, table, "-o", tmp_path / "r.html").code == 0


def test_one_leading_zero_in_many_numbers_is_told(latentia, tmp_path):
    numbers = [str(k + 100) for k in range(89)] + ["012"]
    path = tmp_path / "a.csv"
    path.write_text("number,kind\n" + "".join(f"{v},{k % 2}\n" for k, v in enumerate(numbers)))
    found = find_features(read_table(str(path), Reading()), ["number", "kind"])
    assert (
        "'012' among 89 numbers, and leading zeros make codes of its numbers; --kind number=continuous"
        in found.left_out["number"]
    )


def test_the_quiet_get_answers_and_nothing_else(latentia, fitted, tmp_path, monkeypatch):
    monkeypatch.setattr(training_commands, "usual_choices", lambda frame, seed: {})
    model, table = fitted / "model.latentia", fitted / "table.csv"
    loud, quiet = latentia("explain", model, table), latentia("explain", model, table, "-q")
    assert quiet.code == 0 and quiet.out == loud.out != "" and quiet.err == ""
    few = ("--ignore", "code", "--ignore", "color", "--folds", "2")
    ended = latentia("compare", table, "-t", "kind", *few, "--quiet")
    assert ended.code == 0 and "LatentClassifier" in ended.out and ended.err == ""
    assert "cells missing" not in ended.out  # what was found is no answer
    for command in (["predict", "-o", tmp_path / "p.csv"], ["report", "-o", tmp_path / "r.html"]):
        assert latentia(command[0], model, table, *command[1:], "-q") == (0, "", "")


def test_columns_that_are_kept_have_other_names_than_answers(latentia, fitted, monkeypatch):
    model, table = fitted / "model.latentia", fitted / "table.csv"
    ended = latentia("predict", model, table, "--keep", "color", "--keep", "size", "--keep", "color")
    assert list(rows_of(ended.out)[0]) == ["color", "size", "prediction", "p(no)", "p(yes)", "outlier_score"]
    monkeypatch.setattr(answer_commands, "prediction_table", None)  # nothing is predicted
    ended = latentia("predict", model, table, "--keep", "nothing")
    assert ended.code == 3 and "--keep nothing: there is no such column" in ended.err
    monkeypatch.setattr(answer_commands, "read_table", None)  # nor read
    for name in ("prediction", "p(yes)", "outlier_score"):
        ended = latentia("predict", model, table, "--keep", "color", "--keep", name)
        assert ended.code == 2 and f"--keep {name}: the output has a column of this name" in ended.err


@pytest.mark.parametrize(
    "command",
    [
        "fit table.csv -t kind -o table.csv",
        "fit table.csv -t kind -o m --report ./table.csv",
        "fit table.csv -t kind -o m --predictions link.csv",
        "compare table.csv -t kind -o table.csv",
        "predict model.latentia table.csv -o table.csv",
        "impute model.latentia link.csv -o table.csv",
        "explain model.latentia table.csv -o link.csv",
        "report model.latentia table.csv -o table.csv",
        "report model.latentia table.csv -o model.latentia",
        "sample model.latentia -o model.latentia",
    ],
)
def test_what_a_command_reads_is_never_overwritten(latentia, fitted, command, tmp_path, monkeypatch):
    for name in ("table.csv", "model.latentia"):
        (tmp_path / name).write_bytes((fitted / name).read_bytes())
    (tmp_path / "link.csv").hardlink_to(tmp_path / "table.csv")
    monkeypatch.chdir(tmp_path)
    for force in ([], ["--force"]):
        ended = latentia(*command.split(), *force)
        assert ended.code == 2 and "is what the command reads; name another file" in ended.err
    for name in ("table.csv", "model.latentia"):
        assert (tmp_path / name).read_bytes() == (fitted / name).read_bytes()
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("option, value", [("--ignore", "kind"), ("--kind", "kind=categorical")])
@pytest.mark.parametrize("command", ["fit", "compare"])
def test_options_of_columns_are_not_for_the_target(latentia, fitted, command, option, value, tmp_path):
    output = ["-o", tmp_path / "m"] if command == "fit" else []
    ended = latentia(command, fitted / "table.csv", "-t", "kind", option, value, *output)
    assert (ended.code, ended.out, ended.err) == (2, "", f"latentia: {option} kind: kind is the target\n")


def test_cells_that_look_like_amounts_are_not_told_to_be_gaps(latentia, fitted, tmp_path):
    plainly = "as plain numbers, with a decimal point and without signs and marks of thousands, such cells can be read"
    rows = b'size,color,two,code\n"1,5",red,1,007\n'
    ended = latentia("predict", fitted / "model.latentia", "-", stdin=rows)
    assert (
        ended.code == 3
        and f"column 'size' holds '1,5', which is no number as the model expects; {plainly}" in ended.err
    )
    path = tmp_path / "a.csv"
    path.write_text("discount,x,y\n" + "".join(f"{5 + k}{'%' * (k % 9 > 0)},1.5,{k % 2}\n" for k in range(60)))
    asked = ["-t", "y", "-o", tmp_path / "m", "--kind", "discount=continuous"]
    ended = latentia("fit", path, *asked)
    assert ended.code == 3 and f"'discount' holds '6%', which is no number as --kind says; {plainly}" in ended.err
    path.write_text("size,y\n" + "".join(f"{k if k else '3_5'}.5,{k % 2}\n" for k in range(60)))
    ended = latentia("fit", path, "-t", "y", "-o", tmp_path / "m", "--kind", "size=continuous")
    assert ended.code == 3 and "holds '3_5.5', which is no number as --kind says; --missing 3_5.5 makes" in ended.err
    path.write_text("size;y\n" + "".join(f"{k / 7 if k else '3,5 €'};{k % 2}\n" for k in range(60)))
    found = find_features(read_table(str(path), Reading()), ["size", "y"])
    assert found.left_out["size"] == f"'3,5 €' among 59 numbers; {plainly}"


@pytest.mark.parametrize(
    "header, hint",
    [
        ("SIZE,color,two,code", "did you mean 'SIZE'? empty"),
        ("Size,COLOR,two,code", "did you mean 'Size', 'COLOR'? empty"),
        ("size,colour,two,code", "did you mean 'colour'? empty"),
        ("other,color,two,code", "which it does not have; empty"),
        ("Size,other,two,code", "which it does not have; empty"),
    ],
)
def test_columns_of_almost_the_same_name_are_shown(latentia, fitted, header, hint):
    ended = latentia("predict", fitted / "model.latentia", "-", stdin=f"{header}\n1.5,red,1,007\n".encode())
    assert ended.code == 3 and hint in ended.err
    ended = latentia("fit", fitted / "table.csv", "-t", "KIND", "-o", fitted / "none")
    assert "no column 'KIND'; did you mean 'kind'? its columns are" in ended.err


def test_ordinal_text_has_the_order_that_is_given(latentia, tmp_path):
    table, model = tmp_path / "a.csv", tmp_path / "m"
    answers = ["very bad", "bad", "ok", "good", ""]
    table.write_text("q,x,y\n" + "".join(f"{answers[k % 5]},{k % 7},{int(k % 5 > 1)}\n" for k in range(60)))
    fit = ["fit", table, "-t", "y", "-o", model, "--effort", "fast", "--quiet", "--kind"]
    ended = latentia(*fit, "q=ordinal")
    assert ended.code == 3 and "text without an order; --kind 'q=ordinal:bad<good<ok<very bad' names its" in ended.err
    for order, said in (
        ("very bad<bad<ok", "the column holds 'good'"),
        ("very bad<bad<ok<good<bad", "a level is empty or named twice"),
        ("very bad<bad<ok<good<", "a level is empty or named twice"),
    ):
        ended = latentia(*fit, f"q=ordinal:{order}")
        assert ended.code == 3 and f"--kind q=ordinal:{order}: {said}; allowed are all its values" in ended.err
    assert latentia(*fit, "q=ordinal: very bad < bad < ok < good").code == 0
    fitted = library.load(model)
    assert fitted.kinds_[0] == "ordinal" and fitted._model.encoder.categories[0].tolist() == answers[:4]
    rows = rows_of(latentia("predict", model, table, "--keep", "q").out)
    assert all(float(row["p(1)"]) > 0.5 for row in rows if row["q"] in ("ok", "good"))
    assert all(row["q"] in answers[:4] for row in rows_of(latentia("impute", model, table).out))
    assert latentia("report", model, table, "-o", tmp_path / "r.html").code == 0


def test_impute_fills_the_gaps_and_nothing_else(latentia, fitted, tmp_path):
    ended = latentia("impute", fitted / "model.latentia", fitted / "table.csv", "-o", tmp_path / "full.csv")
    before = pd.read_csv(fitted / "table.csv", dtype=str, na_values=["?"])
    after = pd.read_csv(tmp_path / "full.csv", dtype=str)
    n_gaps = before[["size", "color", "two", "code"]].isna().sum().sum()
    assert ended.code == 0 and f"{n_gaps} cells filled" in ended.out and before["kind"].isna().any()
    assert list(after) == list(before) and after[["size", "color", "two", "code"]].notna().all(axis=None)
    for name in ("color", "code", "kind"):
        known = before[name].notna()
        assert (after[name][known] == before[name][known]).all()
    known = before["size"].notna()
    np.testing.assert_array_equal(after["size"][known].astype(float), before["size"][known].astype(float))


@pytest.mark.filterwarnings("ignore:Columns .* have no known value")
@pytest.mark.parametrize("is_stack", [False, True])
def test_impute_leaves_and_does_not_count_gaps_of_columns_that_it_has_seen_no_value_of(
    latentia, is_stack, tmp_path, rng
):
    frame = pd.DataFrame({"size": rng.normal(size=40), "empty": np.nan, "blank": pd.Series([None] * 40, dtype=object)})
    frame.loc[:4, "size"] = np.nan
    alone = library.LatentClassificationModel(1, 1, random_state=0)
    model = library.LatentClassifier(effort="fast", random_state=0) if is_stack else alone
    model.fit(frame, np.arange(40) % 2).save(tmp_path / "m")
    frame.loc[7, "empty"] = 2.5
    frame.to_csv(tmp_path / "t.csv", index=False)
    ended = latentia("impute", tmp_path / "m", tmp_path / "t.csv", "-o", tmp_path / "full.csv")
    full = pd.read_csv(tmp_path / "full.csv")
    assert ended.code == 0 and "5 cells filled" in ended.out
    pd.testing.assert_frame_equal(full[["empty", "blank"]], pd.read_csv(tmp_path / "t.csv")[["empty", "blank"]])
    assert full["size"].notna().all()


@pytest.mark.parametrize("digits", [17, 19])
def test_impute_leaves_the_digits_of_long_numbers(latentia, digits, tmp_path, rng):
    frame = pd.DataFrame(
        {"order": rng.integers(10 ** (digits - 1), 9 * 10 ** (digits - 1), 40), "kind": ["a", "b"] * 20}
    )
    frame["order"] = frame["order"].astype("Int64").mask(frame.index == 3)
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert latentia("fit", tmp_path / "t.csv", "-t", "kind", "-o", tmp_path / "m", "--effort", "fast").code == 0
    assert latentia("impute", tmp_path / "m", tmp_path / "t.csv", "-o", tmp_path / "full.csv").code == 0
    full = pd.read_csv(tmp_path / "full.csv", dtype=str)["order"]
    assert full.notna().all() and full.drop(3).tolist() == frame["order"].drop(3).astype(str).tolist()


def test_impute_takes_the_methods_of_the_library(latentia, fitted, tmp_path):
    model, full = library.load(fitted / "model.latentia"), tmp_path / "full.csv"
    frame = pd.read_csv(fitted / "table.csv", dtype={"code": str}, na_values=["?"])[list(model.feature_names_in_)]
    for method in ("mean", "median", "mode"):
        ended = latentia(
            "impute", fitted / "model.latentia", fitted / "table.csv", "--method", method, "-o", full, "--force"
        )
        assert ended.code == 0
        np.testing.assert_allclose(pd.read_csv(full)["size"], model.impute(frame, method=method)["size"], rtol=1e-9)


def test_sample_draws_rows_by_a_seed(latentia, fitted):
    first = latentia("sample", fitted / "model.latentia", "-n", 5, "--seed", 3)
    assert first.code == 0 and len(rows_of(first.out)) == 5
    assert list(rows_of(first.out)[0]) == ["size", "color", "two", "code", "kind"]
    assert latentia("sample", fitted / "model.latentia", "-n", 5, "--seed", 3).out == first.out
    assert latentia("sample", fitted / "model.latentia", "-n", 5, "--seed", 4).out != first.out
    only = latentia("sample", fitted / "model.latentia", "-n", 4, "--class", "yes", "--json")
    assert [row["kind"] for row in json.loads(only.out)["rows"]] == ["yes"] * 4
    wrong = latentia("sample", fitted / "model.latentia", "--class", "perhaps")
    assert wrong.code == 2 and "the classes of this model are no, yes" in wrong.err


def test_explain_ranks_columns_and_writes_rows(latentia, fitted, tmp_path):
    ended = latentia("explain", fitted / "model.latentia", fitted / "table.csv", "-o", tmp_path / "why.parquet")
    assert ended.code == 0 and ended.out.index("size") < ended.out.index("color")
    why = pd.read_parquet(tmp_path / "why.parquet")
    assert list(why) == ["prediction", "probability", "adds:size", "adds:color", "adds:two", "adds:code"]
    model = library.load(fitted / "model.latentia")
    facts = json.loads(latentia("explain", fitted / "model.latentia", fitted / "table.csv", "--json").out)
    assert list(facts["importance"])[0] == "size" and len(facts["rows"]) == 60 and len(model.classes_) == 2
    adds = [abs(row["adds:size"]) for row in facts["rows"]]  # of two classes, one loses what the other gains
    assert list(facts["importance"]["size"].values()) == pytest.approx([np.mean(adds)] * 2)


@pytest.mark.matrix
def test_compare_ranks_estimators_beside_the_usual_choices(latentia, fitted, tmp_path):
    ended = latentia("compare", fitted / "table.csv", "-t", "kind", "--folds", 2, "-o", tmp_path / "c.csv")
    assert ended.code == 0 and "gradient boosting" in ended.out
    ranking = pd.read_csv(tmp_path / "c.csv")
    assert {"LatentClassifier", "LatentClassificationModel", "gradient boosting"} <= set(ranking["estimator"])
    assert ranking["rank"].is_monotonic_increasing and ranking["p_value"].notna().any()


def test_the_report_is_a_page(latentia, fitted, tmp_path):
    ended = latentia(
        "report", fitted / "model.latentia", fitted / "table.csv", "-o", tmp_path / "r.html", "--title", "Kinds"
    )
    assert ended.code == 0 and ended.errors == []
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>") and "Kinds</title>" in page and "color" in page
    ended = latentia("report", fitted / "model.latentia", fitted / "table.csv", "-o", "-")
    assert ended.code == 0 and ended.out.startswith("<!DOCTYPE html>") and "kind in table.csv</title>" in ended.out


def test_classes_that_are_numbers_are_known_however_they_are_written(latentia, tmp_path):
    model = library.GaussianMixtureClassifier(inference="ml", random_state=0)
    model.fit(pd.DataFrame({"x": np.arange(20.0) % 7}), [f"{k % 2}.0" for k in range(20)])
    model.target_name_ = "y"
    model.save(tmp_path / "m")
    table = "x,y\n" + "".join(f"{k % 7},{k % 2}\n" for k in range(20))
    assert latentia("report", tmp_path / "m", "-", "-o", tmp_path / "r.html", stdin=table.encode()).code == 0
    assert latentia("sample", tmp_path / "m", "--class", "1").code == 0


@pytest.mark.filterwarnings("ignore:y holds the text")
def test_a_class_of_the_text_none_is_no_gap_in_a_report(latentia, tmp_path, monkeypatch):
    x, labels = np.arange(30.0) % 7, np.where(np.arange(30) % 2, "None", "some").astype(object)
    model = library.GaussianMixtureClassifier(inference="ml", random_state=0).fit(pd.DataFrame({"x": x}), labels)
    model.target_name_ = "y"
    model.save(tmp_path / "m")
    labels[:4] = None
    pd.DataFrame({"x": x, "y": labels}).to_parquet(tmp_path / "t")
    reported = []
    monkeypatch.setattr(training_commands, "report_html", lambda model, X, y, title: reported.append(y) or "")
    assert latentia("report", tmp_path / "m", tmp_path / "t", "-o", tmp_path / "r.html").code == 0
    assert reported[0].tolist() == labels.tolist()


def test_notes_name_no_arguments_of_python(latentia, fitted, tmp_path):
    (tmp_path / "new.csv").write_text("size,color,two,code\n1,St. Clair,1,007\n")
    note = latentia("predict", fitted / "model.latentia", tmp_path / "new.csv").err
    assert "column 'color' holds 'St. Clair', which fit did not see" in note and "treated as missing. The" in note
    assert "handle_unknown" not in note


def test_lines_are_not_broken_in_files_and_pipes(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    Screen(as_json=False, quiet=False).grid(["column", "kind"], [["a" * 90, "count"]])
    assert f"{'a' * 90}  count" in capsys.readouterr().out.splitlines()


def test_answers_to_one_row_speak_of_one_row(latentia, fitted, tmp_path):
    (tmp_path / "one.csv").write_text("size,color,two,code\n,red,1,007\n")
    ended = latentia("impute", fitted / "model.latentia", tmp_path / "one.csv", "-o", tmp_path / "full.csv")
    assert ended.out.startswith("1 cell filled; 1 row written to ")


@pytest.mark.parametrize("command", ["predict", "impute", "explain"])
def test_answers_to_standard_output_are_one_table_or_one_object(latentia, fitted, command):
    arguments = (command, fitted / "model.latentia", fitted / "table.csv", "-o", "-")
    assert len(pd.read_csv(io.StringIO(latentia(*arguments).out))) == 60
    assert len(json.loads(latentia(*arguments, "--json").out)["rows"]) == 60


@pytest.mark.parametrize(
    "arguments, words", [(["--version"], library.__version__), (["-h"], "Exit codes"), (["fit", "-h"], "--target")]
)
def test_help_ends_well(latentia, arguments, words):
    ended = latentia(*arguments)
    assert ended.code == 0 and words in ended.out and ended.err == ""


# ---------------------------------------------------------------- files
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".csv.gz", ".parquet", ".feather", ".arrow"])
def test_tables_of_every_format_are_read_and_written(latentia, fitted, ending, tmp_path):
    copy, answers = tmp_path / f"copy{ending}", tmp_path / f"answers{ending}"
    text = read_table(str(fitted / "table.csv"), Reading())
    typed = find_features(text, ["size", "color", "two", "code"]).frame
    if ending in (".parquet", ".feather", ".arrow"):
        typed.to_parquet(copy) if ending == ".parquet" else typed.to_feather(copy)
    else:
        content = make_table(delimiter="\t" if ending == ".tsv" else ",").encode()
        copy.write_bytes(gzip.compress(content) if ending == ".csv.gz" else content)
    ended = latentia("predict", fitted / "model.latentia", copy, "-o", answers)
    assert ended.code == 0 and ended.err == ""
    straight = rows_of(latentia("predict", fitted / "model.latentia", fitted / "table.csv").out)
    again = read_table(str(answers), Reading()).frame
    assert [float(v) for v in again["p(yes)"]] == [float(row["p(yes)"]) for row in straight]


@pytest.mark.parametrize("form", ["parquet", "file", "stream"])
def test_what_gzip_holds_is_read_by_its_own_first_bytes(form, tmp_path):
    table = pyarrow.table({"size": [1.5, None, 3.0], "kind": ["a", "b", None]})
    content = pyarrow.BufferOutputStream()
    if form == "parquet":
        pyarrow.parquet.write_table(table, content)
    else:
        new = pyarrow.ipc.new_file if form == "file" else pyarrow.ipc.new_stream
        with new(content, table.schema) as writer:
            writer.write_table(table)
    for name, packed in (("plain", content.getvalue()), ("packed", gzip.compress(content.getvalue()))):
        (tmp_path / name).write_bytes(packed)
    plain, packed = (read_table(str(tmp_path / name), Reading()) for name in ("plain", "packed"))
    assert not plain.is_text and not packed.is_text
    pd.testing.assert_frame_equal(packed.frame, plain.frame)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_delimiters_and_ends_of_lines_are_found(delimiter, ends, tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(make_table(delimiter=delimiter).replace("\n", ends).encode("utf-8-sig"))
    table = read_table(str(path), Reading())
    assert table.names == ["size", "color", "two", "code", "kind"] and len(table.frame) == 60


def typed(text, **options):
    path = options.pop("path")
    path.write_bytes(text.encode(options.get("encoding", "utf-8")))
    table = read_table(str(path), Reading(**options))
    return table, find_features(table, table.names)


def test_cells_become_numbers_only_where_all_of_them_are(tmp_path):
    text = 'a,b,c,d,e,f,g,h\n1,1.5,007,x,TRUE,1e3,-3,\n2,NA,008,?,FALSE,.5,,\n 3 ,2,009,"y, z",TRUE,inf,4,\n'
    table, found = typed(text, path=tmp_path / "a.csv")
    frame = found.frame
    assert [str(frame[name].dtype) for name in ("a", "b", "f", "g")] == ["int64", "float64", "float64", "Int64"]
    assert found.left_out == {"h": "empty in every row"}
    assert frame["c"].tolist() == ["007", "008", "009"] and frame["d"].tolist()[2] == "y, z"
    assert frame["g"].isna().tolist() == [False, True, False]


def test_decimal_commas_and_other_encodings(tmp_path):
    _, found = typed("größe;wort\n1,5;é\n2;ü\n", path=tmp_path / "a.csv", encoding="latin-1")
    assert found.frame["größe"].tolist() == [1.5, 2.0] and found.frame["wort"].tolist() == ["é", "ü"]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_marks_of_gaps_that_are_numbers_count_however_they_are_written(ending, tmp_path):
    frame = pd.DataFrame(
        {"a": [1.5, -999.0, 3.0], "b": [-999, 2, 3], "c": ["x", "none", "y"], "d": [True, False, True]}
    )
    path = tmp_path / f"a{ending}"
    frame.to_csv(path, index=False) if ending == ".csv" else frame.to_parquet(path)
    found = read_table(str(path), Reading(missing=MISSING | {"-999", "none"}))
    columns = find_features(found, found.names).frame
    assert columns.isna().to_numpy().tolist() == [[0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]]
    assert [str(columns[name].dtype) for name in "ab"] == ["float64", "Int64"]


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".feather"])
def test_empty_texts_and_those_that_users_name_are_gaps_in_every_format(ending, tmp_path):
    frame = pd.DataFrame({"text": ["a", "b", "", "?"], "price": ["$5", "$6", "", "?"], "y": ["no", "yes", "", "?"]})
    frame["level"], frame["n"] = frame["text"].astype("category"), 1.5
    if ending != ".csv":
        frame["list"], frame["day"] = [[1, 2]] * 4, pd.Timestamp("2020-01-01")
    path = tmp_path / f"a{ending}"
    frame.to_csv(path, index=False) if ending == ".csv" else getattr(frame, f"to_{ending[1:]}")(path)
    found = read_table(str(path), Reading(missing=frozenset({"?"})))
    features = find_features(found, ["text", "price", "level", "n"])
    assert features.frame.notna().sum().to_dict() == {"text": 2, "price": 2, "level": 2, "n": 4}
    assert features.frame["price"].dropna().tolist() == [5, 6] and len(features.notes) == 1
    assert sorted(features.frame["level"].astype("category").cat.categories) == ["a", "b"]
    assert read_labels(found, "y").tolist() == ["no", "yes", None, None]


def test_text_of_parquet_files_that_may_be_gaps_or_numbers_is_told_of_by_options_that_are_heard(latentia, tmp_path):
    frame = pd.DataFrame({"text": ["a", "b", "?"] * 8, "age": [f"{k}.5" for k in range(24)], "y": ["no", "yes"] * 12})
    frame.to_parquet(tmp_path / "t")
    command = ("fit", tmp_path / "t", "-t", "y", "--effort", "fast", "--force", "-o", tmp_path / "m")
    notes = latentia(*command).err.splitlines()
    assert len(notes) == 2 and "--missing '?' makes gaps" in notes[0] and "--kind age=continuous makes" in notes[1]
    assert latentia(*command, "--missing", "?", "--kind", "age=continuous").err == ""
    columns = json.loads(latentia(*command, "--missing", "?", "--kind", "age=continuous", "--json").out)["columns"]
    assert [(column["kind"], column["missing"] > 0) for column in columns] == [
        ("categorical", True),
        ("continuous", False),
    ]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_two_whole_numbers_are_binary_with_and_without_gaps(latentia, ending, tmp_path):
    frame = pd.DataFrame(
        {"whole": [0, 1] * 12, "gaps": [0.0, 1.0, None] * 8, "half": [0.5, 1.0] * 12, "y": list("aabb") * 6}
    )
    path = tmp_path / f"t{ending}"
    frame.to_csv(path, index=False) if ending == ".csv" else frame.to_parquet(path)
    facts = json.loads(latentia("fit", path, "-t", "y", "--effort", "fast", "-o", tmp_path / "m", "--json").out)
    assert [column["kind"] for column in facts["columns"]] == ["binary", "binary", "continuous"]
    (tmp_path / "plain.csv").write_text(frame.to_csv(index=False).replace(".0", ""))
    answers = [latentia("predict", tmp_path / "m", table).out for table in (path, tmp_path / "plain.csv")]
    assert answers[0] == answers[1] and answers[0].startswith("prediction")


def test_a_blank_line_is_an_empty_cell_where_there_is_one_column_and_nothing_else(tmp_path):
    path = tmp_path / "a.csv"
    for text, rows in (("a\n1\n\n3\n", [["1"], [None], ["3"]]), ("a,b\n1,2\n\n3,4\n", [["1", "2"], ["3", "4"]])):
        path.write_text(text)
        assert read_table(str(path), Reading()).frame.to_numpy().tolist() == rows


def test_the_delimiter_is_the_one_by_which_records_are_as_long_as_the_header():
    assert find_delimiter(["a;b, c, d\n", "1;2\n", "3;4\n"]) == ";"
    assert find_delimiter(["a,b,c|d\n", "1,2,3|4\n"]) == ","  # of several the one that makes more cells


def test_a_column_may_have_the_sign_of_its_option_in_its_name():
    assert options.kinds(["a=b=count", "c=binary"]) == {"a=b": "count", "c": "binary"}
    assert options.kinds(["a=b=ordinal:low<= 5<high"]) == {"a=b": "ordinal:low<= 5<high"}


def test_a_model_of_an_array_takes_all_columns_but_its_target(rng):
    X, y = rng.normal(size=(20, 2)), np.arange(20) % 2
    model = library.GaussianMixtureClassifier(inference="ml").fit(X, y)
    frame = pd.DataFrame({"a": X[:, 0], "kind": y, "b": X[:, 1]})
    with pytest.raises(Failure, match="3 columns; the model was fitted on 2"):
        features_as_fitted(Table("t", frame, is_text=False), model)
    model.target_name_ = "kind"
    assert list(features_as_fitted(Table("t", frame, is_text=False), model)) == ["a", "b"]


def test_names_ids_and_dates_are_left_out_and_said(tmp_path):
    lines = ["id,day,x,mixed"] + [f"a{k},2020-01-{k % 28:02d}-{k},{k},{k if k else 'many'}" for k in range(120)]
    table, found = typed("\n".join(lines), path=tmp_path / "a.csv")
    assert list(found.frame) == ["x"] and set(found.left_out) == {"id", "day", "mixed"}
    assert "120 different values in 120 cells" in found.left_out["id"]
    assert found.notes == ["column 'x' counts the rows, from 0 on; --ignore x leaves it out"]
    assert "'many' among 119 numbers; --missing many" in found.left_out["mixed"]
    stamps = pd.DataFrame({"t": pd.date_range("2020-01-01", periods=3), "x": [1.0, 2.0, 3.0]})
    stamps.to_parquet(tmp_path / "a.parquet")
    assert (
        find_features(read_table(str(tmp_path / "a.parquet"), Reading()), ["t", "x"]).left_out["t"].startswith("dates;")
    )


@pytest.mark.parametrize("first", [0, 1])
def test_row_numbers_without_a_name_are_left_out(first, tmp_path):
    path, frame = tmp_path / "a.csv", pd.DataFrame({"x": [2.0, 3.5, 1.0], "column_1": [5, 6, 8]})
    frame.set_index(np.arange(3) + first).to_csv(path, columns=["x"])
    found = find_features(read_table(str(path), Reading()), ["column_1", "x"])
    assert list(found.frame) == ["x"] and found.left_out == {"column_1": "row numbers"}
    frame[["column_1", "x"]].to_csv(path, index=False)
    assert list(find_features(read_table(str(path), Reading()), ["column_1", "x"]).frame) == ["column_1", "x"]
    frame.assign(column_1=[5, 6, 7])[["column_1", "x"]].to_csv(path, index=False)  # counts, but from elsewhere
    assert list(find_features(read_table(str(path), Reading()), ["column_1", "x"]).frame) == ["column_1", "x"]


@pytest.mark.parametrize("n_rows, numbers, is_told", [(10, 1, True), (9, 1, False), (10, 2, False)])
def test_columns_that_count_the_rows_are_told(n_rows, numbers, is_told, tmp_path):
    frame = pd.DataFrame({"year": 2000 + numbers * np.arange(n_rows), "x": 0.5})
    frame.to_csv(tmp_path / "a.csv", index=False)
    found = find_features(read_table(str(tmp_path / "a.csv"), Reading()), ["year", "x"])
    assert list(found.frame) == ["year", "x"] and len(found.notes) == is_told
    assert not is_told or "'year' counts the rows, from 2000 on; --ignore year" in found.notes[0]


def test_columns_of_a_given_kind_keep_their_gaps(tmp_path):
    (tmp_path / "a.csv").write_text("code,size,x\n007,01,1\n,02,2\n7,,3\n007,10,4\n")
    kinds = {"code": "categorical", "size": "continuous"}
    found = find_features(read_table(str(tmp_path / "a.csv"), Reading()), ["code", "size", "x"], kinds)
    assert found.frame["code"].fillna("a gap").tolist() == ["007", "a gap", "7", "007"]
    np.testing.assert_array_equal(found.frame["size"], [1.0, 2.0, np.nan, 10.0])
    assert [found.kind(name) for name in found.frame] == ["categorical", "continuous", "continuous"]


@pytest.mark.parametrize(
    "content, words",
    [
        (b"PK\x03\x04 and more", "an Excel file or another archive: save the table as CSV first"),
        (b'[{"a": 1}, {"a": 2}]', "JSON: save the table as CSV first"),
        (b"<!DOCTYPE html><html></html>", "a web page"),
        (b"SQLite format 3", "a database"),
        (gzip.compress(b"SQLite format 3", mtime=0), "a database"),
        (gzip.compress(gzip.compress(make_table().encode(), mtime=0), mtime=0), "compressed by gzip twice"),
    ],
)
def test_files_of_other_programs_are_named(latentia, content, words, tmp_path):
    (tmp_path / "a").write_bytes(content)
    ended = latentia("fit", tmp_path / "a", "-t", "kind", "-o", tmp_path / "m")
    assert ended.code == 3 and words in ended.err and len(ended.err.splitlines()) == 1


@pytest.mark.parametrize(
    "cells, classes",
    [
        (["1", "2", ""], [1, 2, None]),
        (["01", "2", ""], ["01", "2", None]),
        (["-1", "1", "?"], [-1, 1, None]),
        (["1.0", "2.0", ""], [1, 2, None]),  # as pandas writes whole numbers with gaps
        (["1.0", "2.5", ""], ["1.0", "2.5", None]),
        (["a", "1", "1"], ["a", "1", "1"]),
    ],
)
def test_labels_are_integers_or_text(cells, classes, tmp_path):
    table, _ = typed("x,y\n" + "".join(f"{k},{c}\n" for k, c in enumerate(cells)), path=tmp_path / "a.csv")
    assert read_labels(table, "y").tolist() == classes


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".txt"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_delimiter_that_is_given_counts_whatever_the_name_of_the_file(ending, delimiter, tmp_path):
    path = tmp_path / f"table{ending}"
    path.write_text(make_table(12, delimiter))
    found = read_table(str(path), Reading(delimiter=delimiter))
    assert found.names == ["size", "color", "two", "code", "kind"] and len(found.frame) == 12


# ---------------------------------------------------------------- ends
def test_nothing_is_overwritten_without_force(latentia, fitted, tmp_path):
    target = tmp_path / "out.csv"
    target.write_text("mine")
    for arguments in (
        ["predict", fitted / "model.latentia", fitted / "table.csv", "-o", target],
        ["impute", fitted / "model.latentia", fitted / "table.csv", "-o", target],
        ["explain", fitted / "model.latentia", fitted / "table.csv", "-o", target],
        ["sample", fitted / "model.latentia", "-o", target],
        ["fit", fitted / "table.csv", "-t", "kind", "-o", target],
        ["fit", fitted / "table.csv", "-t", "kind", "-o", tmp_path / "m", "--report", target],
        ["fit", fitted / "table.csv", "-t", "kind", "-o", tmp_path / "m", "--predictions", target],
        ["compare", fitted / "table.csv", "-t", "kind", "-o", target],
        ["report", fitted / "model.latentia", fitted / "table.csv", "-o", target],
    ):
        ended = latentia(*arguments)
        assert ended.code == 5 and ended.errors == [f"latentia: {target} exists; --force overwrites it"]
    assert target.read_text() == "mine" and len(list(tmp_path.iterdir())) == 1
    assert latentia("sample", fitted / "model.latentia", "-o", target, "--force").code == 0
    assert target.read_text() != "mine"


def test_an_output_that_cannot_be_finished_is_named_and_leaves_nothing_behind(latentia, fitted, tmp_path, monkeypatch):
    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    model, table = fitted / "model.latentia", fitted / "table.csv"
    for command in (["predict", model, table], ["impute", model, table], ["explain", model, table], ["sample", model]):
        ended = latentia(*command, "-o", tmp_path / "out.csv")
        assert ended.errors == [f"latentia: {tmp_path / 'out.csv'}: No space left on device"]
        assert ended.code == 5 and not list(tmp_path.iterdir())


def test_folds_and_seed_are_handed_on(latentia, fitted, monkeypatch):
    heard = []

    def compare(candidates, X, y, folds, **options):
        heard.append((folds, options, {m.random_state for name, m in candidates.items() if name.startswith("Latent")}))
        raise ValueError("enough")

    monkeypatch.setattr(training_commands, "compare_classifiers", compare)
    assert latentia("compare", fitted / "table.csv", "-t", "kind", "--folds", 3, "--seed", 7).code == 3
    assert heard == [(3, {"random_state": 7}, {7})]


@pytest.mark.matrix
def test_a_seed_says_which_folds_are_compared(latentia, fitted):
    """As an estimator shows that draws nothing itself."""
    options = ("-t", "kind", "--folds", 2, "--ignore", "color", "--ignore", "code", "--json")
    found = [
        json.loads(latentia("compare", fitted / "table.csv", *options, "--seed", seed).out)["ranking"]
        for seed in (3, 4)
    ]
    losses = [{line["estimator"]: line["log_loss"] for line in ranking} for ranking in found]
    assert "GaussianMixtureClassifier" in losses[0]  # without the columns of text
    (usual,) = [name for name in losses[0] if "logistic regression" in name]
    assert losses[0][usual] != losses[1][usual]


@pytest.mark.parametrize(
    "arguments, code, words",
    [
        (["predict", "no such model", "TABLE"], 4, "cannot be read: No such file"),
        (["predict", "TABLE", "TABLE"], 4, "is no model file"),
        (["predict", "MODEL", "no such table"], 3, "cannot be read: No such file"),
        (["predict", "MODEL", "FOLDER"], 3, "cannot be read: Is a directory"),
        (["predict", "MODEL", "MODEL"], 3, "MODEL: "),
        (["predict", "MODEL", "TABLE", "-o", "FOLDER"], 5, "is a folder"),
        (["predict", "MODEL", "TABLE", "-o", "FOLDER/no/such.csv"], 5, "does not exist"),
        (["predict", "MODEL", "TABLE", "-o", "FOLDER/a.xlsx"], 2, "the endings of tables are .csv"),
        (["predict", "MODEL", "TABLE", "--keep", "x"], 3, "--keep x: there is no such column"),
        (["predict", "MODEL"], 2, "Missing argument"),
        (["predict", "MODEL", "TABLE", "--encoding", "utf-99"], 3, "no encoding of this name"),
        (["predict", "MODEL", "TABLE", "--delimiter", "abc"], 3, "a single character"),
        (["impute", "MODEL", "TABLE", "--method", "draw"], 2, "--method draw: allowed are mean, median, mode"),
        (["fit", "TABLE", "-o", "FOLDER/m"], 2, "Missing option"),
        (["fit", "TABLE", "-t", "kind", "-o", "FOLDER/m", "--effort", "huge"], 2, "allowed are fast, balanced, best"),
        (["fit", "TABLE", "-t", "kind", "-o", "FOLDER/m", "--seed", "-1"], 2, "--seed"),
        (["fit", "TABLE", "-t", "kind", "-o", "FOLDER/m", "--ignore", "x"], 3, "--ignore x: there is no such column"),
        (
            ["fit", "TABLE", "-t", "kind", "-o", "FOLDER/m", "--report", "FOLDER/./m"],
            2,
            "two outputs have the same name",
        ),
        (["fit", "TABLE", "-t", "kind", "-o", "FOLDER/m", "--kind", "size"], 2, "--kind size: allowed is COLUMN=KIND"),
        (["fit", "TABLE", "-t", "kind", "-o", "FOLDER/m", "--kind", "size=big"], 2, "with one of continuous, binary"),
        (
            ["fit", "TABLE", "-t", "kind", "-o", "FOLDER/m", "--kind", "sizes=count"],
            3,
            "--kind sizes: there is no such",
        ),
        (["fit", "TABLE", "-t", "kind", "-o", "FOLDER/m", "--kind", "color=count"], 3, "is no number as --kind says"),
        (["fit", "TABLE", "-t", "kind", "-o", "-"], 2, "- is no output of this command"),
        (["fit", "TABLE", "-t", "kind", "-o", "FOLDER/m", "--report", "-"], 2, "- is no output of this command"),
        (["report", "MODEL", "TABLE", "-o", "-", "--json"], 2, "--output -: --json writes to standard output, too"),
        (["sample", "MODEL", "-n", "0"], 2, "--rows"),
        (["predict", "MODEL", "MODEL"], 3, "a model file, no table"),
        (["dance"], 2, "No such command 'dance'"),
        (["--nonsense"], 2, "No such option"),
    ],
)
def test_failures_are_one_line_and_have_their_code(latentia, fitted, arguments, code, words, tmp_path):
    places = {"MODEL": fitted / "model.latentia", "TABLE": fitted / "table.csv"}
    arguments = [str(places.get(a, a)).replace("FOLDER", str(tmp_path)) for a in arguments]
    ended = latentia(*arguments)
    assert (ended.code, len(ended.err.splitlines()), ended.out) == (code, 1, "")
    assert words.replace("MODEL", str(places["MODEL"])) in ended.err and ended.err.startswith("latentia: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["regressor", "unfitted", "no density"])
def test_models_that_do_not_serve_are_refused(latentia, kind, fitted, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 2
    model = {
        "regressor": library.MixtureOfExpertsRegressor(1, n_init=1, max_iter=300),
        "unfitted": library.LatentClassifier(),
        "no density": library.MultimodalSoftmaxClassifier(1, n_init=1, max_iter=300),
    }[kind]
    if kind != "unfitted":
        model.fit(X, y)
    save_model(model, tmp_path / "m")
    ended = latentia("impute", tmp_path / "m", fitted / "table.csv")
    assert ended.code == 4 and len(ended.err.splitlines()) == 1


def test_models_of_arrays_predict_tables_by_position(latentia, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 2
    model = library.GaussianMixtureClassifier(covariance="diag", inference="ml", n_init=1, unlabeled_weight=1.0).fit(
        X, y
    )
    model.save(tmp_path / "m")
    ended = latentia(
        "predict", tmp_path / "m", "-", stdin=("a,b\n" + "".join(f"{float(p)!r},{float(q)!r}\n" for p, q in X)).encode()
    )
    np.testing.assert_allclose(
        [float(row["p(1)"]) for row in rows_of(ended.out)], model.predict_proba(X)[:, 1], rtol=1e-12
    )
    assert latentia("predict", tmp_path / "m", "-", stdin=b"a\n1\n").code == 3


@pytest.mark.parametrize(
    "given, expected",
    [
        ([], {"effort": "balanced", "random_state": 0, "n_jobs": None}),
        (["--effort", "best", "--seed", "7", "--jobs", "3"], {"effort": "best", "random_state": 7, "n_jobs": 3}),
        (["--jobs", "1"], {"n_jobs": None}),
    ],
    ids=str,
)
def test_options_reach_the_classifier(latentia, fitted, tmp_path, monkeypatch, given, expected):
    asked = []

    def look(model, X, y):
        asked.append(model.get_params())
        raise KeyboardInterrupt

    monkeypatch.setattr(library.LatentClassifier, "fit", look)
    latentia("fit", fitted / "table.csv", "-t", "kind", "-o", tmp_path / "m", *given)
    assert {name: asked[0][name] for name in expected} == expected and asked[0]["unlabeled"] is None


def test_an_interrupt_is_no_traceback(latentia, fitted, tmp_path, monkeypatch):
    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(library.LatentClassifier, "fit", interrupt)
    ended = latentia("fit", fitted / "table.csv", "-t", "kind", "-o", tmp_path / "m")
    assert ended.code == 130 and ended.errors == ["latentia: interrupted"] and not list(tmp_path.iterdir())


def test_what_nobody_expected_is_one_line_too(latentia, fitted, tmp_path, monkeypatch):
    def fail(*args, **options):
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr(library.LatentClassifier, "fit", fail)
    ended = latentia("fit", fitted / "table.csv", "-t", "kind", "-o", tmp_path / "m")
    assert ended.code == 1 and ended.errors == ["latentia: ZeroDivisionError: by zero (LATENTIA_DEBUG=1 shows where)"]


@pytest.mark.parametrize(
    "arguments, code, words",
    [
        ([], 0, "demo"),
        (["--help"], 0, "demo"),
        (["--version"], 0, library.__version__),
        (["fit", "a.csv"], 2, "latentia[cli]"),
    ],
)
def test_without_the_extra_the_demo_is_offered(arguments, code, words, monkeypatch, capsys):
    """As on an installation with the hard dependencies alone."""
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "latentia.apps.cli.app")
    monkeypatch.setattr(sys, "argv", ["latentia", *arguments])
    assert main() == code
    said = capsys.readouterr()
    assert words in (said.err if code else said.out)


@pytest.mark.parametrize("made_an_exit", [False, True])
def test_a_pipe_that_its_reader_closed_is_no_failure(made_an_exit, monkeypatch):
    """Whatever the version of typer makes of it; other exits stay what they are."""
    from latentia.apps.cli import app

    left = []
    monkeypatch.setattr(app, "leave_closed_pipe", lambda: left.append(True))

    def end_by(error):
        def main(*arguments, **options):
            try:
                raise error
            except OSError:
                if made_an_exit:
                    raise SystemExit(1)  # noqa: B904 (as typer does)
                raise

        monkeypatch.setattr(app.typer.main, "get_command", lambda app: types.SimpleNamespace(main=main))
        return app.run(["predict"])

    assert end_by(BrokenPipeError()) == 0 and left == [True]
    if made_an_exit:
        with pytest.raises(SystemExit):
            end_by(FileNotFoundError())
    else:
        assert end_by(FileNotFoundError(2, "no such file", "t.csv")) == 5
    with pytest.raises(SystemExit):
        end_by(SystemExit(3))
    assert left == [True]


@pytest.mark.matrix
def test_a_reader_that_leaves_loses_no_model(tmp_path):
    """As `latentia fit ... | head -1` does."""
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b"], 30)
    pd.DataFrame({"x": rng.normal(size=60) + (y == "a"), "z": rng.normal(size=60), "y": y}).to_csv(
        tmp_path / "t.csv", index=False
    )
    fit = ["fit", "t.csv", "-t", "y", "-o", "m.latentia", "--effort", "fast"]
    for command in (fit, ["predict", "m.latentia", "t.csv"]):
        command = [sys.executable, "-m", "latentia", *command]
        with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.close()
            errors = process.stderr.read().decode()
        assert process.returncode == 0 and (tmp_path / "m.latentia").exists(), errors


@pytest.mark.parametrize("n_classes, n_labeled", [(21, 42), (20, 20), (2, 2)])
def test_rows_without_a_label_do_not_hide_that_each_row_has_its_own_class(n_classes, n_labeled):
    def table(n_labeled):
        cells = [f"id {k % n_classes}" for k in range(n_labeled)] + [None] * 200
        return Table("t.csv", pd.DataFrame({"y": pd.Series(cells, dtype=object)}), True)

    assert len(read_labels(table(n_labeled), "y")) == n_labeled + 200
    if n_classes > 20:
        with pytest.raises(Failure, match=f"has {n_classes} different values in {n_labeled - 1} labels"):
            read_labels(table(n_labeled - 1), "y")


def test_who_may_have_meant_an_amount_is_told_that_each_number_is_a_class():
    def note(classes):
        cells = pd.Series([None, *classes] * 3, dtype=object)
        return amounts_note(read_labels(Table("t.csv", pd.DataFrame({"age": cells}), True), "age"), "age")

    ages = [str(20 + k) for k in range(21)]
    assert note(ages) == ["the target 'age' holds 21 different numbers; each is learned as a class, not as an amount"]
    assert note([f"{age}.5" for age in ages]) == note(ages)
    assert note(ages[1:]) == note([*ages[1:], "old"]) == []
