"""Tables that stream to a device: every estimator finds what it finds in an array, and mistakes are named.

The device is PyTorch's processor here, so that the law is tested wherever tests run.
"""

import numpy as np
import pandas as pd
import pytest
from scale_cases import CLASSES, OUTPUTS, table
from sklearn.base import clone

import latentia
from latentia.engine import device_stream as row_stream
from latentia.engine.device_stream import Device, RowStream
from latentia.scale import device as device_tables
from latentia.scale import tables as small_tables

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.matrix, pytest.mark.filterwarnings("ignore")]

#: MiB in which twenty or so rows are a part.
MEMORY = 0.003


def answers(model, X):
    methods = ("predict_proba", "score_samples", "transform", "impute", "expert_proba", "subclass_proba", "predict")
    return {name: getattr(model, name)(X) for name in methods if hasattr(model, name)}


@pytest.mark.parametrize("name", [*CLASSES, *OUTPUTS])
def test_the_same_answer(name, monkeypatch):
    monkeypatch.setattr(small_tables, "SMALL_TABLE_MIB", 0)  # of which equal rows are not merged
    model = clone({**CLASSES, **OUTPUTS}[name])
    X, y = table(name in OUTPUTS, gaps=name.startswith(("mixture", "factors", "sizes", "stack")))
    if hasattr(model, "unlabeled"):
        model.set_params(unlabeled=-1)
    known = name not in OUTPUTS  # where some outputs are unknown
    model.fit(X, y)
    curve, expected = model.objective_curve_, answers(model, X)
    numbers = (
        {key: getattr(model, key)(X, y) for key in ("score", "bic", "aic") if hasattr(model, key)} if known else {}
    )
    rows = latentia.on_device(X, "cpu", memory=MEMORY)
    assert len(RowStream(X, rows.device).ranges) > 8
    model.fit(rows, y)
    np.testing.assert_allclose(model.objective_curve_, curve, rtol=1e-8)
    for key, value in numbers.items():
        assert getattr(model, key)(rows, y) == pytest.approx(value, rel=1e-8)
    for key, answer in answers(model, rows).items():
        assert isinstance(answer, np.ndarray)
        np.testing.assert_allclose(answer, expected[key], rtol=1e-8, atol=1e-8, err_msg=key)


def test_weights_tensors_memory_maps_and_frames(tmp_path):
    X, y = table(gaps=True)
    weight = np.random.default_rng(1).uniform(0, 2, len(y))
    model = latentia.GaussianMixtureClassifier(2, covariance="diag", unlabeled=-1, tol=1e-1, random_state=0)
    expected = model.fit(X, y, weight).predict_proba(X)
    np.save(tmp_path / "x.npy", X)
    given = {
        "tensor": torch.asarray(X),
        "memory map": np.load(tmp_path / "x.npy", mmap_mode="r"),
        "columns first": np.asfortranarray(X),
        "backwards": np.ascontiguousarray(X[::-1])[::-1],
        "frame": pd.DataFrame(X, columns=list("abc")),
        "list": X.tolist(),
    }
    for what, rows in given.items():
        lazy = latentia.on_device(rows, "cpu", memory=MEMORY)
        found = model.fit(lazy, torch.asarray(y), weight).predict_proba(lazy)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8, err_msg=what)
        assert isinstance(model.means_, torch.Tensor) and model.training_record_["n_rows"] == len(y)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_mixed_frames(library, monkeypatch):
    rng = np.random.default_rng(0)
    y = np.array(["no", "yes"])[rng.integers(0, 2, 200)]
    frame = pd.DataFrame(
        {"a": rng.normal(size=200) + (y == "yes"), "color": np.array(["r", "g"])[rng.integers(0, 2, 200)]}
    )
    frame.loc[::7, "color"] = None
    frame = frame if library == "pandas" else pytest.importorskip("polars").from_pandas(frame)
    model = latentia.LatentClassificationModel(1, bound_tol=1e-10, bound_max_iter=1000, max_iter=3, random_state=0)
    curve, filled = model.fit(frame, y).objective_curve_, model.impute(frame)
    proba = model.predict_proba(frame)
    table = latentia.on_device(frame, "cpu", memory=MEMORY)
    np.testing.assert_allclose(model.fit(table, y).objective_curve_, curve, rtol=1e-7)
    monkeypatch.setattr(device_tables, "PART_MIB", 0.001)  # answers come in several parts
    np.testing.assert_allclose(model.predict_proba(table), proba, rtol=1e-5)
    given = model.impute(table, y)  # the classes come in parts, too
    np.testing.assert_allclose(given["a"], model.impute(frame, y)["a"], rtol=1e-5)
    found = model.impute(table)
    assert type(found) is type(frame)
    np.testing.assert_allclose(found["a"], filled["a"], rtol=1e-5)
    assert list(found["color"]) == list(filled["color"]) and found.shape == (200, 2)
    if library == "pandas":
        pd.testing.assert_index_equal(found.index, frame.index)


def test_parts_cover_the_rows_once(monkeypatch):
    X = np.random.default_rng(0).normal(size=(1000, 4)).astype(np.float32)
    for memory, n_parts in ((None, 1), (0.05, 3), (0.01, 14)):
        stream = RowStream(X, Device("cpu", memory))
        assert len(stream.ranges) == n_parts
        for _ in range(2):
            np.testing.assert_array_equal(np.concatenate(list(stream)), X)
    monkeypatch.setattr(row_stream, "PART_MIB", 0.002)
    whole, some, none = (RowStream(X, Device("cpu", memory)).stays for memory in (1.0, 0.024, 0.0001))
    assert whole == set(range(8)) and len(some) == 3 and not none


def test_mistakes_are_named():
    X, y = table()
    rows = latentia.on_device(X, "cpu")
    model = latentia.GaussianMixtureClassifier(unlabeled=-1, random_state=0).fit(X, y)
    before = model.means_.copy()
    with pytest.raises(ValueError, match="y has 239 entries and X has 240 rows"):
        model.fit(rows, y[:-1])
    with pytest.raises(ValueError, match="infinity"):
        model.fit(latentia.on_device(np.where(X > 3, np.inf, X), "cpu"), y)
    np.testing.assert_array_equal(model.means_, before)
    with pytest.raises(ValueError, match="device='cpuu' is no device"):
        latentia.on_device(X, "cpuu")
    with pytest.raises(ValueError, match="memory=-1"):
        latentia.on_device(X, "cpu", memory=-1)
    with pytest.raises(TypeError, match="on_device takes tables in the main memory"):
        latentia.on_device(rows, "cpu")
    with pytest.raises(ValueError, match="is on meta already"):
        latentia.on_device(torch.empty((3, 2), device="meta"), "cpu")
    assert repr(rows) == "<a table on its way to cpu: 240 rows, 3 columns>" and rows.shape == (240, 3)
