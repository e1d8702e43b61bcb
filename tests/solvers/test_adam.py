"""Mini-batches: near where L-BFGS ends, by the seed alone, watched and stopped by callbacks, from wherever rows are."""

import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris

import latentia
from latentia import GaussianMixtureClassifier
from latentia.engine.parts import ChunkedSource, LocalParts
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Hybrid, RowProblem
from latentia.engine.tree import add_restart_axis, tree_map
from latentia.solvers import Adam, Outcome

pytestmark = pytest.mark.filterwarnings("ignore:.*stopped before it converged")


def iris(**options):
    settings = {"objective": "hybrid", "trade_off": 3.0, "n_init": 2, "random_state": 0} | options
    return GaussianMixtureClassifier(2, **settings).fit(*load_iris(return_X_y=True))


def in_parts(rows, cuts):
    pieces = [rows.subset(index) for index in np.split(np.arange(rows.n_rows), cuts)]
    return ChunkedSource(
        LocalParts([lambda piece=piece: piece for piece in pieces], True, True),
        [piece.label_totals for piece in pieces],
        rows.n_features,
        rows.is_weighted,
    )


@pytest.mark.parametrize("name", ["hybrid", "conditional"])
def test_it_ends_near_lbfgs(name):
    X, y = load_digits(n_class=4, return_X_y=True)
    options = {"objective": name, "trade_off": 3.0, "n_init": 1, "random_state": 0, "max_iter": 60}
    slow = GaussianMixtureClassifier(2, **options).fit(X, y).objective_curve_
    fast = GaussianMixtureClassifier(2, solver=Adam(32, 20), **options).fit(X, y).objective_curve_
    assert len(fast) == 21 and fast[-1] - fast[0] > 0.95 * (slow[-1] - fast[0]) > 0


def test_the_seed_decides():
    first, again, other = (iris(solver=Adam(25, 3), random_state=seed).objective_curve_ for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_callbacks_watch_and_stop():
    seen = []

    def watch(step):
        seen.append((step.solver, step.iteration))
        return step.solver == "Adam" and step.iteration == 2

    model = iris(solver="adam", callback=watch)
    assert [step for step in seen if step[0] == "Adam"] == [("Adam", 1), ("Adam", 2)]
    assert model.stopping_reason_ == Outcome.STOPPED.value and model.n_iter_ == 2


def test_held_out_rows_stop_it():
    model = iris(solver=Adam(16, 40, 0.1), early_stopping=True, validation_fraction=0.3, n_iter_no_change=3)
    assert model.stopping_reason_ == Outcome.VALIDATED.value and model.n_iter_ < 37


def test_no_ascent_returns_the_start():
    family = GaussianMixtureClassifier(1, objective="hybrid", max_iter=1, random_state=0)
    model = family.fit(*load_iris(return_X_y=True))._model
    X, y = load_iris(return_X_y=True)
    problem = RowProblem(model.family, Hybrid(1.0), ArraySource(X, y, preprocess=model.preprocessor.prepare))
    start = add_restart_axis(model.params)
    found = Adam(32, 3, 50.0).solve(problem, start)
    assert found.outcomes == [Outcome.NO_ASCENT] and found.n_iter[0] == 0
    np.testing.assert_array_equal(found.params.means, start.means)


def test_a_batch_that_no_component_explains_moves_nothing(monkeypatch):
    """Its gradient is no number, and would leave none."""
    X, y = load_iris(return_X_y=True)
    model = GaussianMixtureClassifier(1, objective="hybrid", max_iter=1).fit(X, y)._model
    problem = RowProblem(model.family, Hybrid(1.0), ArraySource(X, y, preprocess=model.preprocessor.prepare))
    batches = RowProblem.batches

    class Unexplained(RowProblem):
        def sweep(self, params):
            return tree_map(lambda a: a * np.nan, super().sweep(params))

    def with_another(self, n_rows, rng):
        yield Unexplained(self.family, self.objective, self.source)
        yield from batches(self, n_rows, rng)

    monkeypatch.setattr(RowProblem, "batches", with_another)
    found = Adam(32, 3, 0.02).solve(problem, add_restart_axis(model.params))
    assert found.outcomes != [Outcome.NO_ASCENT] and found.value[0] > found.curves[0][0]


@pytest.mark.parametrize("weighted", [False, True])
def test_batches_hold_each_row_once_and_weigh_as_much_as_all(weighted, monkeypatch):
    y = np.arange(60) % 4 - 1
    weight = np.where(np.arange(60) % 5 == 0, 0.0, 2.0) if weighted else None
    rows = ArraySource(np.arange(120.0).reshape(60, 2), y, weight).labeled_only()
    counted = np.flatnonzero((y >= 0) & (weight > 0 if weighted else True))
    small, large = in_parts(rows, [7, 30]), in_parts(rows, [7, 30])
    first = {}
    for source in (rows, small, large):
        monkeypatch.setattr("latentia.engine.parts.MIXED_MIB", 0 if source is large else 256)
        batches = list(source.batches(10, np.random.default_rng(0)))
        numbers = np.concatenate([batch.X[:, 0] for batch in batches]) / 2
        np.testing.assert_array_equal(np.sort(numbers), counted)
        first[source] = numbers
    np.testing.assert_array_equal(first[rows], first[small])  # the same wherever rows are
    assert not np.array_equal(first[rows], first[large])
    problem = RowProblem(None, None, rows)
    for batch in problem.batches(10, np.random.default_rng(0)):
        assert batch.total_weight == pytest.approx(problem.total_weight)


def test_tables_in_parts_give_the_same_model():
    da = pytest.importorskip("dask.array")
    X, y = load_iris(return_X_y=True)
    X[::9, 1] = np.nan
    model = GaussianMixtureClassifier(2, objective="hybrid", solver=Adam(25, 3), n_init=2, random_state=0)
    expected = clone(model).fit(X, y).objective_curve_
    lazy = clone(model).fit(da.from_array(X, chunks=(40, 4)), da.from_array(y, chunks=40))
    np.testing.assert_allclose(lazy.objective_curve_, expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        ("sgd", "solver='sgd'; allowed are 'lbfgs', 'adam' and instances of latentia.solvers.Adam"),
        (Adam(batch_size=0), "solver.batch_size=0"),
        (Adam(n_passes=0), "solver.n_passes=0"),
        (Adam(n_passes=2.5), "solver.n_passes=2.5"),
        (Adam(learning_rate=0.0), "solver.learning_rate=0.0"),
        (Adam(learning_rate=float("nan")), "solver.learning_rate=nan"),
    ],
)
def test_mistakes_are_named(solver, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        iris(solver=solver)


def test_it_is_saved(tmp_path):
    model = iris(solver=Adam(50, 2))
    model.save(tmp_path / "model.latentia")
    assert latentia.load(tmp_path / "model.latentia").solver == Adam(50, 2)
