"""Early stopping: the rows held out do not train, count by their weight, and say when the ascent ends."""

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from found_parts import N_ROWS
from sklearn import config_context
from tolerances import EQUAL

from latentia import GaussianMixtureClassifier
from latentia.engine import rows as sources
from latentia.engine.rows import ArraySource
from latentia.engine.tree import select_restart
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


@pytest.mark.estimators("generative")
def test_it_waits_for_as_many_iterations_as_asked(case, quick, data, rng):
    """Of labels by chance, of which nothing can be learned; the record ends where the loss was least."""
    heard = []
    quick.set_params(objective="conditional", early_stopping=True, validation_fraction=0.4, n_iter_no_change=3)
    quick.set_params(n_init=1, max_iter=40, tol=1e-6, callback=lambda step: heard.append(getattr(step, "solver", None)))
    model = quick.fit(data.X, rng.integers(2, size=45))
    assert model.stopping_reason_ == "converged: the loss on held-out rows stopped falling"
    assert heard.count("L-BFGS") - model.n_iter_ == 3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kept", [64, 0], ids=["kept in memory", "read in chunks"])
def test_rows_held_out_do_not_train(monkeypatch, rng, kept):
    """Priors tell, by the last digits of the weights, which rows were held out; to swap these between classes changes no step."""
    monkeypatch.setattr(sources, "CACHE_MIB", kept)
    y, unit = np.repeat([0, 1, 2, -1], [12, 12, 3, 5]), 2.0**-38
    X, weight = rng.normal(size=(32, 2)) + y[:, None], np.r_[np.tile(1 + unit * 2.0 ** np.arange(12), 2), np.ones(8)]
    options = dict(objective="conditional", early_stopping=True, validation_fraction=0.25, unlabeled=-1, random_state=0)

    def fit(X):
        heard = []
        model = GaussianMixtureClassifier(
            callback=lambda step: heard.append((step.solver, step.value)), max_iter=4, tol=0.0, **options
        )
        return model.fit(X, y, sample_weight=weight), heard

    model, heard = fit(X)
    in_class = 3 * model.priors_ / model.priors_[2]  # of three rows a quarter is none
    digits = np.round((in_class[:2] - 9) / unit).astype(int)
    apart = np.array([[k for k in range(12) if not digits[c] >> k & 1] for c in range(2)]) + [[0], [12]]
    assert apart.shape == (2, 3)  # a quarter of each class
    swapped, moved = X.copy(), X.copy()
    swapped[apart] = X[apart[::-1]]
    again = fit(swapped)[1]
    assert {solver for solver, _ in heard} == {"EM", "L-BFGS"} == {solver for solver, _ in again}
    for (solver, value), (other_solver, other) in zip(heard, again, strict=False):  # the one may stop before the other
        assert solver == other_solver
        np.testing.assert_allclose(other, value, rtol=1e-5)
    rest = np.setdiff1d(np.arange(12), apart[0])[:3]  # other rows do change the steps
    moved[[rest, apart[1]]] = X[[apart[1], rest]]
    assert abs(fit(moved)[1][-1][1] / heard[-1][1] - 1) > 1e-3


@pytest.mark.families("smooth", "generative")
def test_a_held_out_row_of_weight_two_is_that_row_twice(family, rows, params, rng):
    X, y, params = rows.X, np.maximum(rows.y, 0), select_restart(params, 0)
    weight = rng.integers(0, 4, N_ROWS)
    again = np.repeat(np.arange(N_ROWS), weight)
    weighted = estimator.validation_loss(family, ArraySource(X, y, weight.astype(float)))(params)
    repeated = estimator.validation_loss(family, ArraySource(X[again], y[again]))(params)
    np.testing.assert_allclose(weighted, repeated, **EQUAL)


class Says:
    """A family whose parameters are the scores of all rows."""

    def infer(self, params, rows):
        return SimpleNamespace(log_joint=params)

    def floats_per_row(self, params):
        return 1


@pytest.mark.parametrize("size", [3.0, 1e3, 1e9])
def test_one_mistake_however_sure_is_better_than_two(size):
    y = np.arange(4) % 2
    loss = estimator.validation_loss(Says(), ArraySource(np.zeros((4, 1)), y))
    one, two = (
        np.where(np.eye(2)[np.where(np.arange(4) < k, 1 - y, y)].T > 0, s, 0.0) for k, s in ((1, size), (2, 0.1))
    )
    assert loss(one) < loss(two)
    assert 0.25 < loss(one) < 0.252  # the log loss breaks ties alone


@pytest.mark.matrix
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_rows_that_stay_are_not_copied_from_a_memory_map(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=60_000)
    on_disk = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float64, shape=(60_000, 40))
    on_disk[:] = rng.normal(size=on_disk.shape) + y[:, None]
    on_disk.flush()
    X = np.load(tmp_path / "x.npy", mmap_mode="r")
    options = dict(objective="conditional", covariance="diag", early_stopping=True, max_iter=3, random_state=0)
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
