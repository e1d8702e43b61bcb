"""Scaling out: results replace those of the same size, files are as large as asked for, curves show all that was measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("matplotlib")
sys.path.insert(0, str(Path(__file__).parents[1]))

import scaling_out  # noqa: E402


def test_new_results_take_the_place_of_old_ones():
    old = [{"rows": 10, "where": "here", "s": 1.0}, {"rows": 20, "where": "here", "s": 2.0}]
    found = scaling_out.join(old, [{"rows": 10, "where": "here", "s": 3.0}], "rows", "where")
    assert sorted(each["s"] for each in found) == [2.0, 3.0]


def test_a_file_is_fitted_in_a_process_of_its_own(tmp_path):
    scaling_out.write_rows(tmp_path / "rows.parquet", 500, 3, group=200)
    file = parquet.ParquetFile(tmp_path / "rows.parquet")
    assert file.metadata.num_rows == 500 and file.metadata.num_row_groups == 3 and len(file.schema_arrow) == 4
    found = scaling_out.memory(0.0004)
    assert found["rows"] == 1000 and found["peak_mib"] > 50 and found["fit_s"] > 0


def test_curves_come_from_the_committed_results(tmp_path, monkeypatch):
    results = json.loads(scaling_out.RESULTS.read_text())
    assert max(each["gigabytes"] for each in results["memory"]) >= 10
    assert all(each["peak_mib"] < 1000 for each in results["memory"])
    assert {each["where"] for each in results["iterations"]} == {"array, one thread", "one worker", "two workers"}
    assert all(each["median_s"] < 0.06 for each in results["overhead"])
    monkeypatch.setattr(scaling_out, "IMAGE", tmp_path / "curves.svg")
    scaling_out.draw(results)
    assert (tmp_path / "curves.svg").stat().st_size > 10_000
