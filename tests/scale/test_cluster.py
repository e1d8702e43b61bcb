"""A cluster of two worker processes: the same answer, also when a worker dies; clear words when the client does."""

import os
import signal
import warnings

import numpy as np
import pytest
from scale_cases import CHUNKS, CLASSES, OUTPUTS, table
from sklearn.base import clone

from latentia.scale import tables as small_tables

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

pytestmark = [pytest.mark.matrix, pytest.mark.filterwarnings("ignore")]

MODELS = {**CLASSES, **OUTPUTS}


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(autouse=True)
def parts_stay_apart_and_where_they_are(monkeypatch):
    """Small as they are."""
    monkeypatch.setattr(small_tables, "SMALL_MIB", 0)
    monkeypatch.setattr(small_tables, "SMALL_TABLE_MIB", 0)


def case(name):
    """A model, and a table for it in an array and in parts."""
    model = clone(MODELS[name])
    X, y = table(name in OUTPUTS, gaps=name.startswith(("mixture", "factors")))
    if hasattr(model, "unlabeled"):
        model.set_params(unlabeled=-1)
    return model, (X, y), (da.from_array(X, chunks=(CHUNKS, 3)), da.from_array(y, chunks=100))


def answer(model, X):
    return getattr(model, "predict_proba", model.predict)(X)


@pytest.mark.parametrize("name", ["mixture", "experts", "embedding"])
def test_a_client_that_closes_is_named(name):
    model, in_memory, in_parts = case(name)
    before = answer(model.fit(*in_memory), in_memory[0])
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster:
        client = distributed.Client(cluster)
        model.callback = lambda step: client.close() and False
        with warnings.catch_warnings(), pytest.raises(RuntimeError, match="Dask client was closed"):
            warnings.simplefilter("ignore")
            model.fit(*in_parts)
    np.testing.assert_array_equal(answer(model, in_memory[0]), before)


@pytest.mark.parametrize(
    "name",
    ["mixture", "factors", "mixture, early", "softmax, points", "experts", "embedding", "linear experts, search"],
)
def test_two_workers_agree_with_arrays(client, name):
    model, in_memory, in_parts = case(name)
    curve, found = model.fit(*in_memory).objective_curve_, answer(model, in_memory[0])
    model.fit(*in_parts)
    np.testing.assert_allclose(model.objective_curve_, curve, rtol=1e-8)
    np.testing.assert_allclose(answer(model, in_parts[0]).compute(), found, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ["sizes", "stack"])
def test_searches_on_two_workers_agree_with_arrays(client, name):
    """Where the sample that they look at is the whole table."""
    model, in_memory, in_parts = case(name)
    found = answer(model.fit(*in_memory), in_memory[0])
    np.testing.assert_allclose(answer(model.fit(*in_parts), in_parts[0]).compute(), found, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ["mixture", "embedding"])
def test_a_worker_that_dies_changes_nothing(client, name):
    """All but the embedding, which remembers its rows, go through the same sweep over parts."""
    client.wait_for_workers(2)  # the test before may have killed one
    model, in_memory, in_parts = case(name)
    curve = model.fit(*in_memory).objective_curve_
    steps, killed = [], []

    def kill(step):
        steps.append(step)
        if len(steps) == 4:
            info = client.scheduler_info(n_workers=-1)["workers"]
            killed.append(next(iter(client.run(os.getpid, workers=list(info)[:1]).values())))
            os.kill(killed[0], signal.SIGKILL)

    model.set_params(callback=kill).fit(*in_parts)
    assert killed and len(steps) > 5
    np.testing.assert_allclose(model.objective_curve_, curve, rtol=1e-8)
