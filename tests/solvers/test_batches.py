"""Laws of the solvers that raise many restarts at once: none falls, none sees the others, callbacks see the best."""

import re

import numpy as np
import pytest
from found_parts import FAMILIES, N_FEATURES, N_ROWS
from tolerances import EQUAL, MAX_RELATIVE_DECREASE

from latentia.engine.contracts import AcceleratedFamily, EMFamily, QuasiNewtonFamily, SmoothFamily
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import leaves, select_restart, take_restarts
from latentia.solvers import EM, AcceleratedEM, BatchedLBFGS, Outcome, QuasiNewtonVB
from latentia.solvers.lbfgs import LBFGSHistory

SOLVERS = {EM: EMFamily, AcceleratedEM: AcceleratedFamily, QuasiNewtonVB: QuasiNewtonFamily, BatchedLBFGS: SmoothFamily}
PAIRS = [
    pytest.param(solver, family.part, id=f"{solver.__name__}-{family.name}")
    for solver, contract in SOLVERS.items()
    for family in FAMILIES
    if isinstance(family.part, contract)
]


@pytest.fixture
def problem(part, rng):
    return RowProblem(part, Likelihood(), ArraySource(*part.example_rows(rng, N_ROWS, N_FEATURES)))


@pytest.fixture
def start(problem, rng):
    return problem.family.init(problem.source, rng, 3)


@pytest.mark.parametrize("solver, part", PAIRS)
def test_no_restart_falls_and_the_record_ends_where_the_parameters_are(solver, problem, start):
    solution = solver(max_iter=11, tol=0.0).solve(problem, start)
    for curve, n_iter in zip(solution.curves, solution.n_iter, strict=True):
        assert np.diff(curve).min() >= -MAX_RELATIVE_DECREASE * np.abs(curve).max() and curve[-1] > curve[0]
        assert len(curve) == n_iter + 1 <= 12
    np.testing.assert_allclose(problem.sweep(solution.params).value, solution.value, **EQUAL)


@pytest.mark.parametrize("solver, part", PAIRS)
def test_restarts_do_not_see_each_other(solver, problem, start):
    """Those that have converged leave the batch, and nothing else changes."""
    if solver is BatchedLBFGS and isinstance(problem.family, EMFamily):  # class priors that differ stay as they are
        start = EM(max_iter=2, tol=-np.inf).solve(problem, start).params
    max_iter = 5 if solver is BatchedLBFGS else 10
    together = solver(max_iter=max_iter, tol=1e-2).solve(problem, start)
    some = [2, 0]  # without the one between them, and in another order
    apart = solver(max_iter=max_iter, tol=1e-2).solve(problem, take_restarts(start, some))
    assert apart.n_iter.tolist() == together.n_iter[some].tolist()
    assert apart.outcomes == [together.outcomes[k] for k in some]
    for i, k in enumerate(some):
        np.testing.assert_allclose(apart.curves[i], together.curves[k], rtol=1e-6)
        for a, b in zip(
            leaves(select_restart(apart.params, i)), leaves(select_restart(together.params, k)), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=EQUAL["rtol"] * 1e3, atol=EQUAL["atol"] * 1e3)


#: Over how many steps the gain of a restart counts, and every how many steps it is looked at.
GAIN_STEPS = {EM: (1, 1), AcceleratedEM: (6, 1), QuasiNewtonVB: (10, 10)}


@pytest.mark.parametrize("solver, part", [pair for pair in PAIRS if pair.values[0] in GAIN_STEPS])
def test_a_restart_ends_at_its_first_gain_below_tol_per_unit_of_weight(solver, part, problem, start):
    """However many rows there are, and whatever they weigh."""
    (n_steps, every), rows = GAIN_STEPS[solver], problem.source
    weighted = RowProblem(part, Likelihood(), ArraySource(rows.X, rows.y, np.linspace(1, 13, N_ROWS)))
    solution = solver(max_iter=60, tol=0.03).solve(weighted, start)
    for curve, outcome in zip(solution.curves, solution.outcomes, strict=True):
        small = (curve[n_steps:] - curve[:-n_steps])[::every] <= 0.03 * 7 * N_ROWS
        assert not small[:-1].any() and small[-1] == (outcome is Outcome.CONVERGED)
    assert Outcome.CONVERGED in solution.outcomes  # or the law would say nothing


@pytest.mark.parametrize("solver, part", PAIRS)
def test_callbacks_see_the_best_restart_and_stop_them_all(solver, problem, start):
    steps = []

    def third(step):
        steps.append(step._replace(params=step.params()))
        return step.iteration == 3

    solution = solver(max_iter=30, tol=0.0).solve(problem, start, third)
    running = [outcome is Outcome.STOPPED for outcome in solution.outcomes]
    assert [step.iteration for step in steps] == [1, 2, 3] and any(running)
    assert (solution.n_iter[running] == 3).all()
    last = steps[-1]
    np.testing.assert_allclose(problem.sweep(last.params).value, last.value, **EQUAL)
    seen = max(curve[2 if solver is EM else 3] for curve, runs in zip(solution.curves, running, strict=True) if runs)
    np.testing.assert_allclose(last.value, seen, **EQUAL)  # EM reports before it updates
    assert next(leaves(last.params)).shape == next(leaves(select_restart(start, 0))).shape


def test_the_two_loop_recursion_is_the_inverse_hessian_of_bfgs(rng):
    """Pair by pair, as the textbooks build it; pairs without positive curvature are left out."""
    n_restarts, n_free, memory = 3, 5, 4
    history = LBFGSHistory(memory)
    pairs = [rng.normal(size=(2, n_restarts, n_free)) for _ in range(6)]
    for step, gradient_diff in pairs:
        gradient_diff += 2 * step
        gradient_diff[0] *= np.sign((step[0] * gradient_diff[0]).sum())  # the first restart can use them all
        history.add(step.copy(), gradient_diff.copy())
    history.forget(np.array([2]))
    gradient = rng.normal(size=(n_restarts, n_free))
    found = history.times_inverse_hessian(gradient, history.initial_inverse_hessian)
    for k in range(2):
        usable = [(s[k], y[k]) for s, y in pairs[-memory:] if s[k] @ y[k] > 0]
        s, y = usable[-1]
        H = np.eye(n_free) * (s @ y) / (y @ y)
        for s, y in usable:
            rho, eye = 1 / (s @ y), np.eye(n_free)
            H = (eye - rho * np.outer(s, y)) @ H @ (eye - rho * np.outer(y, s)) + rho * np.outer(s, s)
        np.testing.assert_allclose(found[k], H @ gradient[k], **EQUAL)
    np.testing.assert_array_equal(found[2], gradient[2])  # which has forgotten everything


#: Families whose restarts may be trained on different rows, one of each kind.
WEIGHTED = [
    pair for pair in PAIRS if re.fullmatch(r"(Accelerated)?EM-(Bayesian)?(GaussianMixtures|LatentFactors)0", pair.id)
]


@pytest.mark.parametrize("solver, part", WEIGHTED)
def test_each_restart_may_have_weights_of_its_own(solver, problem, start, rng):
    """It goes where it would go alone, also when others have left the batch."""
    rows, weight = problem.source, np.arange(N_ROWS) % 5 + 0.1
    weights = np.stack([weight, rng.permutation(weight), weight[::-1]], axis=1)  # which sum to the same
    own = [RowProblem(problem.family, Likelihood(), ArraySource(rows.X, rows.y, w)) for w in (weights, *weights.T)]
    together = solver(max_iter=60, tol=0.01).solve(own[0], start)
    for k in range(3):
        alone = solver(max_iter=60, tol=0.01).solve(own[1 + k], take_restarts(start, [k]))
        np.testing.assert_allclose(together.curves[k], alone.curves[0], rtol=1e-6)
