"""Waiting: rows are as described, ratios are to the forest on the same rows, slow fits end at the limit."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

pandas = pytest.importorskip("pandas")
sys.path.insert(0, str(Path(__file__).parents[1]))

import waiting  # noqa: E402
from waiting import CASES, GROWTH, Case, Timing, drawn, for_forest, ratio  # noqa: E402

pytestmark = pytest.mark.matrix


def test_drawn_rows_have_the_shape_gaps_labels_and_levels_asked_for():
    rows = drawn(120, 3, (4, 6), n_classes=5, gaps=0.5, labels=2)
    assert rows.X_train.shape == rows.X_test.shape == (120, 5)
    assert np.asarray(rows.X_train.isna()).mean() == pytest.approx(0.5, abs=0.06)
    np.testing.assert_array_equal(np.bincount(rows.y_train[rows.y_train >= 0]), 2)
    assert rows.X_train["c1"].nunique() <= 6
    encoded = for_forest(rows)
    assert len(encoded.X_train) == 10 and np.isfinite(encoded.X_train).all() and np.isfinite(encoded.X_test).all()


def test_names_are_text_of_which_no_two_training_rows_share_one():
    rows = drawn(50, 2, (50,), text=True)
    assert rows.X_train["c0"].nunique() == 50 and not isinstance(rows.X_train["c0"].dtype, pandas.CategoricalDtype)
    assert set(rows.X_test["c0"]) <= set(rows.X_train["c0"])
    assert for_forest(rows).X_train.shape == (50, 52)


def test_every_case_and_curve_has_rows_that_its_estimator_may_take(monkeypatch):
    monkeypatch.delenv("LATENTIA_DATA", raising=False)
    cases = [*CASES.values(), *(case for curve in GROWTH.values() for case in curve.values())]
    for case in cases:
        rows = case.rows()
        assert len(rows.X_train) == len(rows.y_train) and len(np.unique(rows.y_test)) == rows.n_classes
        assert hasattr(waiting.evaluate(case.expression), "fit")
    assert all(waiting.find(f"{curve} @ {point}") is case for curve, c in GROWTH.items() for point, case in c.items())
    assert waiting.credit().X_train.shape == (345, 15)


def test_ratios_are_ours_over_the_forests():
    forest, ours = Timing(0.5, 0.5, 0.9, 0.3), Timing(2.0, 4.0, 0.8, 0.4)
    assert ratio(forest, ours, "") == "4"
    assert ratio(forest, None, "over 60") == "> 120"
    assert ratio(forest, None, "ValueError: no") == "failed"


def test_measure_prints_the_forest_and_ours(capsys):
    waiting.measure(Case(lambda: drawn(60, 4), "GaussianMixtureClassifier(random_state=0)"))
    forest, ours = (Timing(*waiting.json.loads(line)) for line in capsys.readouterr().out.splitlines())
    assert 0 < ours.seconds < forest.seconds and forest.accuracy > 0.5 and ours.log_loss < 1


def test_a_case_in_its_own_process():
    forest, ours, error = waiting.wait_for("iris: diagonal", 60)
    assert forest.seconds > 0 and ours.accuracy > 0.8 and error == ""


def test_a_promise_is_waited_for(monkeypatch):
    late = "print([.5, .5, 1, 0], flush=True); import time; time.sleep(0.4); print([0.4, 0.4, 1, 0])"
    monkeypatch.setattr(waiting, "MEASURE", [sys.executable, "-c", late])
    assert waiting.wait_for("iris: softmax", 0.01)[1].seconds == 0.4  # promised within 3 forests
    assert waiting.wait_for("iris: diagonal", 0.01)[1] is None


def test_a_fit_that_fails_or_is_too_slow_ends_its_curve(monkeypatch, tmp_path):
    to = tmp_path / "waiting.md"
    for then, found in (
        ("import time; time.sleep(60)", "0.0: > 0.4\n"),
        ("raise ValueError('no')", "0.0: failed (ValueError"),
    ):
        monkeypatch.setattr(waiting, "MEASURE", [sys.executable, "-c", f"print([.5, .5, 1, 0], flush=True); {then}"])
        waiting.main(["growth", "--only", "18: diagonal", "--limit", "0.2", "--to", str(to)])
        assert found in to.read_text() and "0.1:" not in to.read_text()
