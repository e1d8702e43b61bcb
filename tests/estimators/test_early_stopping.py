"""Early stopping: the rows held out do not train, count by their weight, and say when the ascent ends."""

import tracemalloc

import numpy as np
import pytest
from conftest import N_ROWS
from sklearn import config_context
from tolerances import EQUAL

from latentia import GaussianMixtureClassifier
from latentia.engine import array_source as sources
from latentia.engine.array_source import ArraySource
from latentia.engine.problem import RowProblem
from latentia.engine.pytree import select_restart
from latentia.estimators.base import generative as estimator


def test_the_ascent_ends_when_the_held_out_loss_does_not_fall():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 10)), rng.integers(2, size=80)
    X[:, 0] += y
    options = dict(n_components=2, objective="conditional", max_iter=300, random_state=0)
    early = GaussianMixtureClassifier(early_stopping=True, n_iter_no_change=5, **options).fit(X, y)
    assert early.stopping_reason_ == "converged: the loss on held-out rows stopped falling"
    late = GaussianMixtureClassifier(**{**options, "tol": 1e-3}).fit(X, y)
    assert early.n_iter_ < late.n_iter_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_held_out_do_not_train(monkeypatch, rng):
    X, weight = np.column_stack([np.arange(60), rng.normal(size=(60, 2))]), 1.0 + np.arange(60)
    y = np.where(np.arange(60) % 5 == 0, -1, np.arange(60) % 3)
    trained, held_out = [], []

    class Watched(RowProblem):
        def __init__(self, family, objective, source):
            trained.append(source)
            super().__init__(family, objective, source)

    def watched(family, rows):
        held_out.append(rows)
        return error_on(family, rows)

    error_on = estimator.validation_loss
    monkeypatch.setattr(estimator, "RowProblem", Watched)
    monkeypatch.setattr(estimator, "validation_loss", watched)
    options = dict(objective="conditional", early_stopping=True, validation_fraction=0.25, max_iter=3, random_state=0)
    model = GaussianMixtureClassifier(**options).fit(X, y, sample_weight=weight)
    (apart,) = held_out
    numbers = apart.X[:, 0].astype(int)
    assert len(numbers) == 12 and set(y[numbers]) == {0, 1, 2}  # a quarter of the labeled rows, some of each class
    np.testing.assert_array_equal(apart.weight, weight[numbers])
    rest = np.setdiff1d(np.arange(60), numbers)
    for rows in trained:  # by EM and by L-BFGS
        np.testing.assert_array_equal(rows.X[:, 0], rest)
        np.testing.assert_array_equal(rows.weight, weight[rest])
    assert len(trained) == 2
    counted = np.bincount(y[rest][y[rest] >= 0], weight[rest][y[rest] >= 0])
    np.testing.assert_allclose(model.priors_, counted / counted.sum(), **EQUAL)


@pytest.mark.families("smooth", "generative")
def test_a_held_out_row_of_weight_two_is_that_row_twice(family, rows, params, rng):
    X, y, params = rows.X, np.maximum(rows.y, 0), select_restart(params, 0)
    weight = rng.integers(0, 4, N_ROWS)
    again = np.repeat(np.arange(N_ROWS), weight)
    weighted = estimator.validation_loss(family, ArraySource(X, y, weight.astype(float)))(params)
    repeated = estimator.validation_loss(family, ArraySource(X[again], y[again]))(params)
    np.testing.assert_allclose(weighted, repeated, **EQUAL)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_rows_that_stay_are_not_copied_from_a_memory_map(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=60_000)
    on_disk = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float64, shape=(60_000, 40))
    on_disk[:] = rng.normal(size=on_disk.shape) + y[:, None]
    on_disk.flush()
    X = np.load(tmp_path / "x.npy", mmap_mode="r")
    options = dict(objective="conditional", early_stopping=True, max_iter=3, random_state=0)
    copied = GaussianMixtureClassifier(**options).fit(np.array(X), y)
    monkeypatch.setattr(sources, "CACHE_MIB", 1)
    tracemalloc.start()
    with config_context(working_memory=1):
        model = GaussianMixtureClassifier(**options).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * X.nbytes  # a tenth is held out; a copy of the rest would be nine tenths
    np.testing.assert_allclose(model.objective_curve_, copied.objective_curve_, rtol=1e-6)
    np.testing.assert_allclose(model.predict_proba(X[:99]), copied.predict_proba(X[:99]), rtol=1e-4, atol=1e-6)
