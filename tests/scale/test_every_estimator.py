"""Every estimator finds the same in an array, a memory map, files and Dask, be the table small or large."""

import numpy as np
import pandas as pd
import pytest
from scale_cases import CHUNKS, CLASSES, OUTPUTS, table

import latentia
from latentia.engine import array_source
from latentia.estimators.base import table_reading
from latentia.inputs import scanned_tables, small_tables

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pytest.importorskip("pyarrow")

pytestmark = pytest.mark.filterwarnings("ignore")

#: Those that are quick enough to be tried whenever tests run.
DEFAULT = ("mixture, early", "softmax, points", "embedding", "linear experts, search")
CASES = [
    pytest.param(name, marks=() if name in DEFAULT else pytest.mark.matrix, id=name) for name in (*CLASSES, *OUTPUTS)
]


@pytest.fixture
def parts_stay_apart(monkeypatch):
    """Small as they are."""
    monkeypatch.setattr(table_reading, "SMALL_MIB", 0)
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
    if y.ndim == 1:
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


@pytest.mark.parametrize("name", CASES)
def test_the_same_answer(name, size, tmp_path):
    model = {**CLASSES, **OUTPUTS}[name]
    gaps = name.startswith(("mixture", "factors", "sizes", "stack"))
    X, y = table(name in OUTPUTS, gaps)
    if hasattr(model, "unlabeled"):
        model.set_params(unlabeled=-1)
    model.fit(X, y)
    known = slice(50 if name in OUTPUTS else 0, None)
    told, expected = numbers(model, X[known], y[known]), answers(model, X)
    for what, (rows, targets) in lay_out(X, y, tmp_path).items():
        model.fit(rows, targets)
        if name not in OUTPUTS:
            found = numbers(model, rows, targets)
            for key, value in told.items():
                np.testing.assert_allclose(found[key], value, rtol=1e-8, err_msg=f"{key} of {what}")
        for key, answer in answers(model, rows).items():
            answer = answer.compute() if hasattr(answer, "compute") else answer
            np.testing.assert_allclose(answer, expected[key], rtol=1e-8, atol=1e-8, err_msg=f"{key} of {what}")
