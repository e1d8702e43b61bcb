"""Speed: cases are runnable, ratios are of the same round, slopes are slopes, a run goes on where it ended."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("matplotlib")
sys.path.insert(0, str(Path(__file__).parents[1] / "speed"))

import growth  # noqa: E402
import peers  # noqa: E402
import run  # noqa: E402
import timing  # noqa: E402
from large_shapes import ESTIMATORS, Shape  # noqa: E402
from report import write_report  # noqa: E402

pytestmark = pytest.mark.matrix


def test_slopes_and_ratios():
    sizes = [100.0, 200.0, 400.0]
    assert timing.slope(sizes, [3e-4 * size**1.3 for size in sizes]) == pytest.approx(1.3)
    found = timing.in_turn({"ours": lambda: 1.0, "theirs": lambda: sum(range(200_000))}, 2)
    assert found["theirs"]["ratio"] > 1 and found["theirs"]["ratio_low"] <= found["theirs"]["ratio_high"]
    assert "ratio" not in found["ours"] and found["ours"]["value"] == 1.0


def test_tables_have_the_columns_asked_for():
    shape = Shape(400, 6, 3, gaps=0.25, binary=2, levels=4)
    X, y = shape.draw()
    assert X.shape == (400, 6) and X.dtype == np.float32 and set(y) == {0, 1, 2}
    assert np.isnan(X).mean() == pytest.approx(0.25, abs=0.05)
    assert set(X[:, 0][~np.isnan(X[:, 0])]) == {0, 1} and set(X[:, -1][~np.isnan(X[:, -1])]) <= {0, 1, 2, 3}
    assert shape.kinds == ["binary"] * 2 + ["continuous"] * 3 + ["categorical"]
    assert Shape(50, 3, labels=4).draw()[1].shape == (50, 4)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_ours_and_theirs_reach_the_same_likelihood(covariance):
    data = peers.Clusters(600, 5, 2, 2)
    ours, theirs = (getattr(data, name)(covariance, 5) for name in ("ours", "scikit_learn"))
    assert ours == pytest.approx(theirs, rel=1e-10)


@pytest.mark.filterwarnings("ignore")
def test_every_estimator_fits_its_table():
    for name in {*growth.MODEST, *ESTIMATORS} - {"latent classifier", "factor search"}:
        case = growth.with_rows(growth.MODEST.get(name, ESTIMATORS[name]), 200)
        case.model(2).fit(*case.shape.draw())


def test_a_run_passes_over_what_it_has(tmp_path, monkeypatch, capsys):
    calls = []
    case = {"peers": {"one": lambda: calls.append(1) or {"what": "w", "ours": {"wall_s": 1.0, "value": None}}}}
    monkeypatch.setattr(run, "parts", lambda: case)
    monkeypatch.setattr(sys, "argv", ["run.py", "--file", str(tmp_path / "speed.json")])
    run.main()
    run.main()
    assert len(calls) == 1 and "one" in json.loads((tmp_path / "speed.json").read_text())["peers"]
    assert "| w | ours | 1.00 |" in (tmp_path / "speed.md").read_text()


def test_curves_are_drawn(tmp_path):
    rows = {"a": {"rows": [1, 2, 4], "seconds": [1.0, 2.0, 4.0], "slope": 1.0}}
    shares = {"shares": [0, 0.1, 0.25, 0.5], "seconds": [1.0, 1.0, 1.0, 3.0], "half_missing": 3.0, "shape": "t"}
    write_report({"rows": rows, "gaps": {"a": shares}}, tmp_path / "speed.md", tmp_path)
    assert (tmp_path / "speed_growth.svg").read_text().startswith("<?xml")
    assert "| a | 1: 1.000, 2: 2.000, 4: 4.000 | 1.00 |" in (tmp_path / "speed.md").read_text()
