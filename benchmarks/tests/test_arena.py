"""The arena: every method sees the same rows, scores are what they are said to be, runs go on where they stopped."""

from __future__ import annotations

import csv
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics
from sklearn.datasets import load_iris

pandas = pytest.importorskip("pandas")
sys.path.insert(0, str(Path(__file__).parents[1]))

import arena  # noqa: E402
import arena_trials as trials  # noqa: E402
import methods  # noqa: E402
import usual_choices as usual  # noqa: E402
from arena_report import Scores, against, read, report  # noqa: E402
from arena_trials import SETTINGS, Trial, draw, run_trial  # noqa: E402

pytestmark = pytest.mark.matrix


@pytest.fixture(autouse=True)
def bundled_tables_only(monkeypatch):
    monkeypatch.delenv("LATENTIA_DATA", raising=False)
    trials.load.cache_clear()


@pytest.mark.parametrize("table", ["iris", "synthetic-mixed"])
def test_gaps_and_labels_are_nested_and_rows_are_the_same_in_all_settings(table):
    drawn = {name: draw(table, 3, *setting)[0] for name, setting in SETTINGS.items()}
    whole = drawn["complete"]
    missing = {name: np.asarray(pandas.isna(rows.X_train)) for name, rows in drawn.items()}
    assert missing["complete"].sum() == 0
    assert missing["gaps20"].mean() == pytest.approx(0.2, abs=0.05)
    assert np.all(missing["gaps50"] >= missing["gaps20"])
    np.testing.assert_array_equal(missing["gaps50"], missing["both"])
    for name, rows in drawn.items():
        np.testing.assert_array_equal(rows.y_test, whole.y_test)
        left = ~missing[name]
        np.testing.assert_array_equal(np.asarray(rows.X_train)[left], np.asarray(whole.X_train)[left])
    for fewer, more, n in (("few5", "few10", 5), ("few10", "few20", 10), ("both", "few20", 10)):
        labeled = drawn[fewer].y_train >= 0
        np.testing.assert_array_equal(np.bincount(drawn[fewer].y_train[labeled]), n)
        np.testing.assert_array_equal(drawn[fewer].y_train[labeled], drawn[more].y_train[labeled])
        np.testing.assert_array_equal(drawn[fewer].y_train[labeled], whole.y_train[labeled])
    assert not np.array_equal(draw(table, 4)[0].X_test, whole.X_test)


def test_scores_are_log_loss_and_top_label_calibration():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    proba = rng.dirichlet(np.ones(3), 200)
    assert trials.log_loss(proba, y) == pytest.approx(metrics.log_loss(y, proba))
    assert trials.log_loss(np.array([[1.0, 0.0]]), np.array([1])) == pytest.approx(-np.log(np.finfo(float).eps))
    sure = np.array([[0.82, 0.18], [0.88, 0.12], [0.61, 0.39], [1.0, 0.0]])
    by_bin = [abs(1 - 0.82 + 0 - 0.88), abs(1 - 0.61), abs(1 - 1.0)]  # the first two share a bin
    assert trials.calibration_error(sure, np.array([0, 1, 0, 0])) == pytest.approx(sum(by_bin) / 4)


def test_dummies_know_missing_from_unseen():
    frame = pandas.DataFrame({"color": pandas.Categorical(["red", "blue", None, "red"]), "x": [1.0, 2.0, 3.0, np.nan]})
    later = pandas.DataFrame({"color": pandas.Categorical(["green", None, "blue"]), "x": [0.0, 0.0, 0.0]})
    plain, gaps = usual.Dummies().fit(frame), usual.Dummies(keep_gaps=True).fit(frame)
    np.testing.assert_array_equal(plain.transform(later), [[0, 0, 0], [0, 0, 0], [0, 0, 1]])
    np.testing.assert_array_equal(gaps.transform(later), [[0, 0, 0], [0, np.nan, np.nan], [0, 0, 1]])


def test_naive_bayes_of_both_kinds_is_the_product_of_its_parts():
    X, y = load_iris(return_X_y=True)
    ours = usual.MixedNaiveBayes().fit(X, y).predict_proba(X)
    np.testing.assert_allclose(ours, usual.GaussianNB().fit(X, y).predict_proba(X), atol=1e-12)
    both = np.column_stack([X, X[:, :2] > X[:, :2].mean(axis=0)])
    odds = usual.BernoulliNB().fit(both[:, 4:], y).predict_proba(both[:, 4:])  # equal class proportions
    expected = ours * odds / (ours * odds).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(usual.MixedNaiveBayes().fit(both, y).predict_proba(both), expected, atol=1e-12)


@pytest.mark.parametrize("method", [*usual.CLASSIFIERS])
def test_every_usual_choice_takes_gaps_categories_and_few_labels(method, monkeypatch):
    monkeypatch.setitem(trials.SETTINGS, "hard", trials.Setting(gaps=0.5, labels=4))  # fewer rows than folds
    result = run_trial(Trial("synthetic-mixed", "hard", 0, method))
    assert result["status"] == "ok"
    assert result["bad_rows"] == 0 or method == "label-spreading"  # rows that no label reaches
    assert np.isfinite(result["log_loss"]) and 0.3 < result["accuracy"] < 1


def test_only_methods_that_know_unlabeled_rows_get_them(monkeypatch):
    seen = {}

    class Spy(usual.DummyClassifier):
        def fit(self, X, y):
            seen[self.constant] = y
            return super().fit(X, np.where(y < 0, 0, y))

    monkeypatch.setattr(usual, "Spy", Spy, raising=False)
    monkeypatch.setattr(methods, "TAKE_FRAMES", ("Spy",))
    monkeypatch.setitem(methods.CLASSIFIERS, "usual", lambda: Spy(strategy="prior", constant="usual"))
    for name in ("ours", "ours@labeled"):
        run_trial(Trial("iris", "few5", 0, name, f"Spy(strategy='prior', constant={name!r})"))
    run_trial(Trial("iris", "few5", 0, "usual"))
    assert len(seen["ours"]) == 75 and (seen["ours"] == -1).sum() == 60
    assert len(seen["ours@labeled"]) == len(seen["usual"]) == 15 and seen["usual"].min() == 0
    confused = run_trial(Trial("iris", "few5", 0, "ours", "make_pipeline(filled(), logistic())"))
    assert "@labeled" in confused["status"] and "log_loss" not in confused


def test_a_method_that_fails_or_takes_too_long_is_a_result(monkeypatch):
    class Slow(usual.DummyClassifier):
        def fit(self, X, y):
            time.sleep(5)

    monkeypatch.setitem(methods.CLASSIFIERS, "slow", Slow)
    assert run_trial(Trial("iris", "complete", 0, "slow"), limit=0.1)["status"] == "over 0.1 s"
    assert run_trial(Trial("iris", "complete", 0, "ours", "1 / 0"))["status"].startswith("ZeroDivisionError")
    assert "must be one of" in run_trial(Trial("iris", "complete", 0, "unheard-of"))["status"]


def test_imputation_error_is_in_standard_deviations():
    mean = run_trial(Trial("wine", "impute50", 0, "mean"))
    near = run_trial(Trial("wine", "impute10", 0, "neighbors"))
    assert mean["rmse"] == pytest.approx(1.0, abs=0.1) and near["rmse"] < 0.9 * mean["rmse"]


def test_quick_run_goes_on_where_it_stopped(tmp_path, capsys):
    file = tmp_path / "arena.csv"
    arena.main(["run", "--quick", "--file", str(file)])
    arena.main(["impute", "--quick", "--file", str(file)])
    rows = read([file])
    assert len(rows) == 2 * 2 * 5 + 3 and {row["status"] for row in rows} == {"ok"}
    more = ["--tables", "iris", "--settings", "complete", "--ours", "two=GaussianMixtureClassifier(2, random_state=0)"]
    arena.main(["run", *more, "--repeats", "1", "--file", str(file)])
    assert "1 trials to run, 23 in" in capsys.readouterr().out
    arena.main(["run", "--quick", "--redo", "logistic", "--file", str(file)])
    assert "4 trials to run, 20 in" in capsys.readouterr().out
    again = {tuple(row[k] for k in Trial._fields): row["log_loss"] for row in read([file])}
    assert all(again[tuple(row[k] for k in Trial._fields)] == row["log_loss"] for row in rows)
    with pytest.raises(SystemExit, match="choose another name"):
        arena.main(["run", *more[:-1], "two=GaussianMixtureClassifier()", "--file", str(file)])
    arena.main(["report", "--files", str(file), "--by-table"])
    text = file.with_suffix(".md").read_text()
    assert "| two |" in text and "impute30: rmse by table" in text and text in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--tables", "irises"], "--tables must be of .*iris.*got 'irises'"),
        (["--methods", "forrest"], "--methods must be of .*forest.*got 'forrest'"),
        (["--methods", "mean"], "got 'mean'"),
    ],
)
def test_slips_are_told_before_anything_runs(wrong, said, tmp_path):
    with pytest.raises(SystemExit, match=said):
        arena.main(["run", *wrong, "--file", str(tmp_path / "a.csv")])
    with pytest.raises(NameError, match="LatentClass"):
        arena.main(["run", "--ours", "a=LatentClass()", "--file", str(tmp_path / "a.csv")])
    assert not (tmp_path / "a.csv").exists()


def results(**losses):
    """Rows of a setting: for each method the log loss of its tables, two repeats of one value each."""
    return [
        {"table": f"t{i}", "setting": "complete", "repeat": r, "method": method, "status": "ok" if v else "failed",
         "log_loss": v and v * (1 + 0.01 * r), "accuracy": 0.5, "calibration": 0.1, "cpu_seconds": 1.0}
        for method, values in losses.items()
        for i, v in enumerate(values)
        for r in range(2)
    ]  # fmt: skip


def test_report_means_ratios_ranks_and_failures():
    rows = results(prior=[1.0, 2.0], logistic=[0.5, 1.0], ours=[0.25, None])
    scores = Scores(rows)
    np.testing.assert_allclose(scores.array("log_loss")[0], [0.25 * 1.005, 2.0 * 1.005])  # failed: the prior's
    assert scores.failures("ours") == 2 and scores.failures("logistic") == 0
    assert against(scores, "ours", "logistic").startswith("1 : 1 (1 : 1)")
    lines = report(rows).splitlines()
    where = next(i for i, line in enumerate(lines) if "Mean of log loss / logistic" in line)
    assert {line.split("|")[1].strip(): line.split("|")[2].strip() for line in lines[where + 4 : where + 7]} == {
        "prior": "2.00",
        "logistic": "**1.00**",
        "ours": "1.25",
    }


def test_report_compares_on_the_tables_that_all_methods_have():
    rows = results(logistic=[0.5, 1.0, 3.0], ours=[0.25, 0.5], begun=[0.1], **{"ours@labeled": [0.1, 0.1]})
    scores = Scores(rows)
    assert (
        scores.tables == ["t0", "t1"]
        and scores.methods == ["ours", "logistic"]
        and scores.left_out == ["begun", "ours@labeled"]
    )
    assert Scores(rows, ["begun", "ours"]).tables == ["t0"]
    np.testing.assert_allclose(scores.array("log_loss").mean(axis=1), [0.375 * 1.005, 0.75 * 1.005])


def test_results_are_plain_csv(tmp_path):
    arena.append(tmp_path / "a.csv", [{**Trial("iris", "few5", 1, "m", "f(a, b)")._asdict(), "status": "x, y"}])
    with (tmp_path / "a.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert row["expression"] == "f(a, b)" and row["status"] == "x, y" and row["log_loss"] == ""
