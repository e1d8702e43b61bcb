"""Laws of the solvers: EM never falls, its fixed point has no slope, L-BFGS does not fall from it, starts are independent."""

import numpy as np
import pytest
from scipy.optimize import OptimizeResult
from sklearn.datasets import load_iris
from tolerances import EQUAL, MAX_RELATIVE_DECREASE

from latentia import GaussianMixtureClassifier, MixtureOfExpertsClassifier
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Hybrid, Likelihood, RowProblem
from latentia.engine.tree import flatten, leaves, select_restart, tree_map
from latentia.solvers import EM, LBFGS, Outcome, lbfgs


@pytest.mark.families("em")
def test_em_never_falls(family, rng):
    """On other rows than the laws of restarts have."""
    rows = ArraySource(*family.example_rows(np.random.default_rng(0), 23, 5))
    solution = EM(max_iter=12, tol=-np.inf).solve(RowProblem(family, Likelihood(), rows), family.init(rows, rng, 3))
    for curve in solution.curves:
        worst = np.diff(curve).min()
        assert worst >= -MAX_RELATIVE_DECREASE * np.abs(curve).max()
        assert curve[-1] > curve[0]


@pytest.mark.families("smooth", "em")
def test_no_slope_where_em_rests(family, rng):
    X, y = family.example_rows(rng, 90, 5)  # enough complete rows to stay off the floor of the variances
    rows = ArraySource(np.nan_to_num(X), y)
    problem = RowProblem(family, Likelihood(), rows)
    start = family.init(rows, rng, 1)
    rest = EM(max_iter=150, tol=1e-10).solve(problem, start).params
    slopes = []
    for params in (select_restart(start, 0), select_restart(rest, 0)):
        slopes.append(np.abs(flatten(problem.family.gradient(params, problem.sweep(params).stats))).max())
    assert slopes[1] < 5e-2 * slopes[0]


@pytest.mark.families("smooth", "generative")
def test_lbfgs_rises_from_where_em_rests(family, rows, rng):
    start = EM(max_iter=20).solve(RowProblem(family, Likelihood(), rows), family.init(rows, rng, 1)).params
    solution = LBFGS(max_iter=10).solve(RowProblem(family, Hybrid(3.0), rows), start)
    assert solution.value[0] > solution.curves[0][0]
    assert np.diff(solution.curves[0]).min() >= -MAX_RELATIVE_DECREASE * np.abs(solution.value[0])


@pytest.mark.families("em")
def test_reaching_max_iter_is_said(family, rows, rng):
    solution = EM(max_iter=2, tol=-np.inf).solve(RowProblem(family, Likelihood(), rows), family.init(rows, rng, 1))
    assert solution.outcomes == [Outcome.MAX_ITER] and not solution.converged[0]


@pytest.mark.families("smooth", "generative")
def test_lbfgs_says_that_a_callback_stopped_it(family, rows, rng):
    start = family.init(rows, rng, 1)
    solution = LBFGS(tol=0.0).solve(RowProblem(family, Hybrid(3.0), rows), start, lambda step: step.iteration == 2)
    assert solution.outcomes == [Outcome.STOPPED] and not solution.converged[0]
    assert solution.n_iter.tolist() == [2]


@pytest.mark.families("smooth", "generative")
def test_lbfgs_returns_the_parameters_with_the_least_held_out_loss(family, rows, rng):
    losses, seen = [3.0, 2.0, 1.0, 4.0, 5.0, 1.5, 6.0], []  # the first is the start's

    def validate(params):
        seen.append(tree_map(np.copy, params))  # SciPy goes on in the memory of its vector
        return losses[len(seen) - 1]

    problem = RowProblem(family, Hybrid(3.0), rows)
    solution = LBFGS(tol=0.0, validate=validate, patience=4).solve(problem, family.init(rows, rng, 1))
    assert solution.outcomes == [Outcome.VALIDATED]
    assert len(seen) == len(losses)
    best = select_restart(solution.params, 0)
    for a, b in zip(leaves(best), leaves(seen[2]), strict=True):
        np.testing.assert_array_equal(a, b)
    # the record is of the way to these parameters
    np.testing.assert_allclose(solution.value[0], problem.sweep(best).value, **EQUAL)
    assert solution.n_iter.tolist() == [2] and len(solution.curves[0]) == 3
    assert solution.curves[0][-1] == solution.value[0]


@pytest.mark.families("smooth", "generative")
def test_what_a_callback_keeps_of_lbfgs_stays_as_it_was(family, rows, rng):
    problem, kept = RowProblem(family, Hybrid(3.0), rows), []
    LBFGS(max_iter=4).solve(problem, family.init(rows, rng, 1), lambda s: kept.append((s.params(), s.value)) and False)
    for params, value in kept:
        np.testing.assert_allclose(problem.sweep(params).value, value, **EQUAL)


@pytest.mark.parametrize(
    "status, slope, unit, outcome",
    [
        (0, 1.0, 2e-16, Outcome.CONVERGED),
        (1, 1.0, 2e-16, Outcome.MAX_ITER),
        (2, 1e-9, 2e-16, Outcome.AT_ROUNDING),
        (2, 1e-4, 2e-16, Outcome.NO_ASCENT),
        (2, 1e-4, 1e-7, Outcome.AT_ROUNDING),
    ],
)
def test_how_lbfgs_ended(status, slope, unit, outcome):
    ended = OptimizeResult(success=status == 0, status=status, jac=np.array([0.0, -slope]), fun=0.3, x=np.zeros(2))
    assert lbfgs.outcome_of(ended, unit) is outcome


def test_lbfgs_converges_also_where_tol_is_below_rounding():
    X, y = load_iris(return_X_y=True)
    for seed in range(12):  # the rounding of each order of the rows ends the line search in its own way
        rows = np.random.default_rng(seed).permutation(100) + 50
        model = MixtureOfExpertsClassifier(1, inference="ml", tol=0.0).fit(X[rows], y[rows])
        assert model.converged_, model.stopping_reason_


def test_lbfgs_stays_among_the_numbers_where_slopes_vanish():
    """Classes so far apart that squares of the slope are zero."""
    X = np.r_[np.linspace(-1, 1, 20), np.linspace(-1, 1, 20) + 20][:, None]
    y = np.repeat([0, 1], 20)
    model = GaussianMixtureClassifier(objective="conditional", tol=0).fit(X, y)
    assert np.isfinite(model.predict_proba([[0.0]])).all() and np.isfinite(model.objective_curve_).all()
    assert model.score(X, y) == 1.0


@pytest.mark.families("smooth", "generative")
def test_lbfgs_ends_at_the_best_point_it_has_seen_where_scipy_ends_at_none(family, rows, rng, monkeypatch):
    problem, start = RowProblem(family, Hybrid(3.0), rows), family.init(rows, rng, 1)
    real = lbfgs.minimize

    def lose(loss, vector, **options):
        result = real(loss, vector, **options)
        real(loss, result.x, **options | {"callback": None})  # a line search that goes on, and ends at no step
        result.x, result.fun, result.success = np.full_like(vector, np.nan), lbfgs.INVALID_LOSS, True
        return result

    found = LBFGS(max_iter=5, tol=0.0).solve(problem, start)
    monkeypatch.setattr(lbfgs, "minimize", lose)
    lost = LBFGS(max_iter=5, tol=0.0).solve(problem, start)
    assert lost.outcomes == [Outcome.NO_ASCENT] and not lost.converged[0]
    assert lost.value[0] > found.value[0]
    np.testing.assert_allclose(problem.sweep(select_restart(lost.params, 0)).value, lost.value[0], **EQUAL)


@pytest.mark.filterwarnings("error::RuntimeWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_line_searches_that_leave_the_numbers_warn_nobody(rng, monkeypatch):
    X, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    real = lbfgs.minimize

    def stray(loss, vector, **options):
        assert loss(vector + 1e3)[0] == lbfgs.INVALID_LOSS
        return real(loss, vector, **options)

    monkeypatch.setattr(lbfgs, "minimize", stray)
    model = GaussianMixtureClassifier(objective="conditional", max_iter=5).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
