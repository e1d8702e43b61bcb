"""A cluster of two worker processes: the same answer, also when a worker dies; clear words when the client does."""

import os
import signal
import warnings

import numpy as np
import pytest

from latentia import GaussianMixtureClassifier, LatentClassificationModel
from latentia.estimators.base import table_reading

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

pytestmark = [pytest.mark.matrix, pytest.mark.filterwarnings("ignore")]

CHUNKS = (150, 0, 220, 1, 229)


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(autouse=True)
def parts_stay_apart(monkeypatch):
    """Small as they are."""
    monkeypatch.setattr(table_reading, "SMALL_MIB", 0)


def table():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 600)
    X = rng.normal(size=(600, 4)) + y[:, None]
    X[rng.random(X.shape) < 0.1] = np.nan
    y[:150] = -1  # a partition without a label
    y[150:370] = 1  # and one with a single class
    return X, y


def in_parts(X, y):
    return da.from_array(X, chunks=(CHUNKS, 4)), da.from_array(y, chunks=(CHUNKS,))


def test_a_client_that_closes_is_named():
    X, y = table()
    rows, labels = in_parts(X, y)
    model = GaussianMixtureClassifier(unlabeled=-1, random_state=0, n_init=1).fit(X, y)
    before = model.means_.copy()
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        client = distributed.Client(cluster)
        model.callback = lambda step: client.close() and False
        with warnings.catch_warnings(), pytest.raises(RuntimeError, match="Dask client was closed"):
            warnings.simplefilter("ignore")
            model.fit(rows, labels)
    np.testing.assert_array_equal(model.means_, before)


@pytest.mark.parametrize(
    "model",
    [GaussianMixtureClassifier(2, n_init=2), LatentClassificationModel(), LatentClassificationModel(inference="ml")],
    ids=["mixture", "factors", "points"],
)
def test_two_workers_agree_with_arrays(client, model):
    X, y = table()
    model.set_params(unlabeled=-1, random_state=0, tol=1e-2)
    curve, proba = model.fit(X, y).objective_curve_, model.predict_proba(X)
    rows, labels = in_parts(X, y)
    model.fit(rows, labels)
    np.testing.assert_allclose(model.objective_curve_, curve, rtol=1e-8)
    np.testing.assert_allclose(model.predict_proba(rows).compute(), proba, rtol=1e-8, atol=1e-8)


def test_a_worker_that_dies_changes_nothing(client):
    X, y = table()
    rows, labels = in_parts(X, y)
    killed = []

    def kill(step):
        if step.iteration == 3 and not killed:
            info = client.scheduler_info(n_workers=-1)["workers"]
            killed.append(next(iter(client.run(os.getpid, workers=list(info)[:1]).values())))
            os.kill(killed[0], signal.SIGKILL)

    options = {"n_components": 2, "n_init": 2, "unlabeled": -1, "random_state": 0, "tol": 1e-2}
    curve = GaussianMixtureClassifier(**options).fit(X, y).objective_curve_
    model = GaussianMixtureClassifier(callback=kill, **options).fit(rows, labels)
    assert killed and len(curve) > 4
    np.testing.assert_allclose(model.objective_curve_, curve, rtol=1e-8)
