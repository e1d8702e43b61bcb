"""Learned structures of latent classification models: rotation to sparse axes, choice between graphs, planted graphs."""

from itertools import permutations

import array_api_strict
import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.datasets import load_wine
from tolerances import EQUAL, NAMESPACE

from latentia import LatentClassificationModel
from latentia.arrays.namespace import to_numpy
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import leaves, select_restart, take_restarts, tree_map
from latentia.families.latent_factors.family import LatentFactors
from latentia.families.latent_factors.kinds import Bernoulli, Categorical, ColumnLayout, Gaussian
from latentia.families.latent_factors.parameters import FactorParams
from latentia.families.latent_factors.structure import best_angle, rotate, sparsest_rotation
from latentia.solvers import EM, Outcome, StructuralEM
from latentia.solvers.structural import best_structure, penalized


def a_rotation(rng, *shape):
    return np.linalg.qr(rng.normal(size=shape))[0]


def planted(seed, n_classes=2, edges=None, n_rows=600, noise=0.1):
    """Rows of a graph (default: two factors feed three columns each), loadings near one, classes with means of their own."""
    rng = np.random.default_rng(seed)
    edges = np.repeat(np.eye(2), 3, axis=0) if edges is None else edges
    loadings = edges * rng.uniform(0.8, 1.2, edges.shape)
    y = rng.integers(0, n_classes, n_rows)
    z = rng.normal(size=(n_classes, edges.shape[1]))[y] + rng.normal(size=(n_rows, edges.shape[1]))
    return z @ loadings.T + noise * rng.normal(size=(n_rows, len(edges))), y, edges > 0


def wrong_edges(found, true):
    """How many edges differ, with the latents in the best order."""
    return min((found[:, list(order)] != true).sum() for order in permutations(range(true.shape[1])))


# ---------------------------------------------------------------- rotation
def test_the_angle_of_a_turn_is_the_best_of_all(rng):
    a, b = rng.normal(size=(2, 50, 9))
    best = best_angle(a, b)

    def sizes(angle):
        return (np.abs(a * np.cos(angle) + b * np.sin(angle)) + np.abs(b * np.cos(angle) - a * np.sin(angle))).sum(-1)

    found = sizes(best[:, None])
    for angle in np.linspace(0, np.pi / 2, 2001):
        assert (found <= sizes(angle) + 1e-12).all()


@pytest.mark.parametrize("several_parents", [0.0, 0.2])
def test_a_rotation_is_undone_if_columns_have_few_parents(several_parents, rng):
    q, n_heads, n_starts = 4, 40, 10
    edges = np.eye(q)[np.arange(n_heads) % q]
    edges = np.maximum(edges, rng.random((n_starts, n_heads, q)) < several_parents)
    loadings = edges * rng.uniform(0.5, 1.0, edges.shape) * rng.choice([-1, 1], edges.shape)
    found = loadings @ (hidden := a_rotation(rng, n_starts, q, q)) @ sparsest_rotation(loadings @ hidden)
    for one, true in zip(found, edges > 0, strict=True):
        assert wrong_edges(np.abs(one) > 1e-6, true) == 0


def test_every_start_is_rotated_alone(rng):
    rows = rng.normal(size=(4, 12, 3))
    together = sparsest_rotation(rows)
    np.testing.assert_allclose(together @ np.swapaxes(together, -1, -2), np.tile(np.eye(3), (4, 1, 1)), atol=1e-12)
    for k in range(4):
        np.testing.assert_allclose(sparsest_rotation(rows[k : k + 1])[0], together[k], atol=1e-12)


MIXED = ColumnLayout([Gaussian([0, 1, 2]), Bernoulli([3]), Categorical([4], [3])])


def mixed_rows(rng, n_rows=60):
    X = rng.normal(size=(n_rows, 5))
    X[:, 3], X[:, 4] = X[:, 3] > 0, rng.integers(0, 3, n_rows)
    X[rng.random(X.shape) < 0.2] = np.nan
    return ArraySource(X, rng.integers(-1, 3, n_rows))


@pytest.mark.parametrize("n_components", [1, 2])
def test_rotation_leaves_the_likelihood_if_variances_are_proportional(n_components, rng):
    source, q = mixed_rows(rng), 3
    family = LatentFactors(MIXED, 3, q, n_components, tied=False, bound_tol=1e-12, bound_max_iter=1000)
    params = family.init(source, rng, 2)
    variances = rng.uniform(0.5, 2.0, (2, 3, 1)) * rng.uniform(0.5, 2.0, (2, 1, q))
    params = params._replace(variances=variances, log_prior=np.log(rng.dirichlet(np.ones(3), 2)))
    problem = RowProblem(family, Likelihood(), source)
    turned = rotate(params, a_rotation(rng, 2, q, q))
    assert np.abs(turned.loadings - params.loadings).max() > 0.1
    np.testing.assert_allclose(problem.sweep(turned).value, problem.sweep(params).value, **EQUAL)
    # else the axes are a property of the classes, and only no rotation leaves all as it is
    params = params._replace(variances=rng.uniform(0.2, 5.0, (2, 3, q)))
    other = problem.sweep(rotate(params, a_rotation(rng, 2, q, q))).value
    assert np.abs(other - problem.sweep(params).value).min() > 1e-3
    for before, after in zip(leaves(params), leaves(rotate(params, np.tile(np.eye(q), (2, 1, 1)))), strict=True):
        np.testing.assert_allclose(after, before, **EQUAL)


# ---------------------------------------------------------------- choice
def test_structures_are_compared_by_bic(rng):
    value, size = rng.normal(-500, 20, 50), rng.integers(1, 30, 50).astype(float)
    for n_rows in (1.0, 70.0, 1e5):
        bic = -2 * value + size * np.log(n_rows)
        score = penalized(value, size, n_rows)
        np.testing.assert_allclose(np.subtract.outer(score, score), np.subtract.outer(bic, bic) / -2, atol=1e-9)


def test_the_choice_between_structures():
    value, size = np.array([-100.0, -104.0, -120.0, -101.0]), np.array([12.0, 6.0, 3.0, 12.0])
    assert best_structure(value, size, 600) == 1  # six parameters for four units are too dear
    assert best_structure(value - [0, 30, 30, 0], size, 600) == 0
    assert best_structure(value, np.full(4, 12.0), 600) == 0
    # the penalty alone would take the small one; the test against the large one does not
    assert best_structure(np.array([-100.0, -300.0]), np.array([200.0, 100.0]), 600) == 0
    assert best_structure(np.array([-100.0, -160.0]), np.array([200.0, 100.0]), 600) == 1
    # twice the loss is chi-squared: its quantile of a hundred degrees is 135.8
    assert best_structure(np.array([-100.0, -167.5]), np.array([200.0, 100.0]), 600) == 1
    assert best_structure(np.array([-100.0, -168.5]), np.array([200.0, 100.0]), 600) == 0


# ---------------------------------------------------------------- planted graphs
@pytest.mark.parametrize("selection", ["accuracy", "likelihood"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_two_factors_with_three_columns_each_are_found(n_classes, selection):
    for seed in range(5):
        X, y, edges = planted(seed, n_classes)
        model = LatentClassificationModel(2, structure="learn", selection=selection, n_init=4, random_state=seed)
        model.fit(X, y)
        assert wrong_edges(model.edges_, edges) == 0
        np.testing.assert_array_equal(model.loadings_[0] != 0, model.edges_)


@pytest.mark.parametrize("tol", [1e-1, 1e-4])
def test_the_structure_does_not_hang_on_the_tolerance(tol):
    X, y, edges = planted(0)
    model = LatentClassificationModel(2, structure="learn", tol=tol, n_init=2, random_state=0).fit(X, y)
    assert wrong_edges(model.edges_, edges) == 0


def test_a_column_may_have_several_parents_and_a_latent_no_column():
    edges = np.repeat(np.eye(3), 4, axis=0)
    edges[0, 1] = edges[5, 2] = 1
    X, y, edges = planted(3, 3, edges)
    model = LatentClassificationModel(4, structure="learn", n_init=3, random_state=0).fit(X, y)
    assert model.edges_[:, -1].sum() == 0
    assert wrong_edges(model.edges_[:, :3], edges) == 0


def test_components_share_a_planted_structure(rng):
    """From true parameters that a rotation hides; rough starts might miss the components themselves."""
    family = LatentFactors(ColumnLayout.continuous_columns(6), 3, 2, 2, complete=True, all_edges=False)
    edges = np.repeat(np.eye(2), 3, axis=0)
    params = FactorParams(
        np.full((1, 3), -np.log(3)),
        np.full((1, 3, 2), -np.log(2)),
        rng.normal(size=(1, 3, 2)),
        np.ones((1, 3, 2)),
        edges * rng.uniform(0.8, 1.2, (1, 2, 6, 2)),
        np.array([[[0.0] * 6, [3.0] * 6]]),
        np.full((1, 1, 6), 0.01),
        edges[None],
    )
    y = rng.integers(0, 3, 600)
    source = ArraySource(family.sample(select_restart(params, 0), y, rng), y)
    hidden = rotate(params, a_rotation(rng, 1, 2, 2))
    solution = StructuralEM(EM(100, 1e-3)).solve(RowProblem(family, Likelihood(), source), hidden)
    assert wrong_edges(solution.params.edges[0] > 0, edges > 0) == 0
    np.testing.assert_array_equal(solution.params.loadings[0] != 0, np.tile(solution.params.edges[0] > 0, (2, 1, 1)))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_columns_of_all_kinds_share_a_planted_structure(rng):
    X, y, _ = planted(0, noise=0.5, n_rows=400)
    X[:, 2] = X[:, 2] + 0.5 * rng.logistic(size=400) > np.median(X[:, 2])
    X[:, 5] = np.digitize(X[:, 5] + 0.5 * rng.logistic(size=400), np.quantile(X[:, 5], [0.33, 0.67]))
    X[rng.random(X.shape) < 0.05] = np.nan
    kinds = ["continuous"] * 2 + ["binary"] + ["continuous"] * 2 + ["categorical"]
    model = LatentClassificationModel(2, structure="learn", kinds=kinds, n_init=2, max_iter=30, random_state=0)
    model.fit(X, y)
    assert wrong_edges(model.edges_, np.repeat(np.eye(2, dtype=bool), 3, axis=0)) == 0
    by_loading = model.edges_[model.loading_features_]
    assert (model.loadings_[:, ~by_loading] == 0).all() and (model.loadings_[:, by_loading] != 0).all()


def test_a_learned_density_is_that_of_its_attributes():
    X, y, _ = planted(1, 3)
    model = LatentClassificationModel(2, structure="learn", n_init=2, random_state=0).fit(X, y)
    L, noise = model.loadings_[0], np.diag(model.noise_variances_[0])
    for c in range(3):
        mean = L @ model.latent_means_[c] + model.intercepts_[0]
        covariance = L @ np.diag(model.latent_variances_[c]) @ L.T + noise
        expected = multivariate_normal(mean, covariance).logpdf(X) + np.log(model.priors_[c])
        np.testing.assert_allclose(model.predict_joint_log_proba(X)[:, c], expected, rtol=1e-8)


def test_where_there_is_no_structure_nothing_is_lost(rng):
    """Every factor feeds every column: the learned density is as good on new rows."""
    n, q, n_columns = 400, 3, 8
    loadings = rng.uniform(0.3, 1.0, (n_columns, q)) * rng.choice([-1, 1], (n_columns, q))
    y = rng.integers(0, 3, 2 * n)
    z = 2 * rng.normal(size=(3, q))[y] + rng.normal(size=(2 * n, q)) * rng.uniform(0.5, 2.0, (3, q))[y]
    X = z @ loadings.T + 0.5 * rng.normal(size=(2 * n, n_columns))
    density = {}
    for structure in ("full", "learn"):
        model = LatentClassificationModel(q, structure=structure, n_init=3, random_state=0).fit(X[:n], y[:n])
        density[structure] = model.score_samples(X[n:]).mean()
    assert density["learn"] > density["full"] - 0.02


# ---------------------------------------------------------------- the search as a solver
def a_search(rng, dtype=np.float64, weight=None, n_rows=150):
    X, y, _ = planted(5, n_rows=n_rows, noise=0.5)
    X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(dtype)
    family = LatentFactors(ColumnLayout.continuous_columns(6), 2, 2, complete=True, all_edges=False)
    source = ArraySource(X, y, weight)
    return family, RowProblem(family, Likelihood(), source), family.init(source, rng, 2)


def test_within_a_structure_em_rises_and_single_precision_stays(rng):
    for dtype in (np.float64, np.float32):
        _, problem, params = a_search(rng, dtype)
        solution = StructuralEM(EM(50, 1e-4)).solve(problem, params)
        assert all(leaf.dtype == dtype for leaf in leaves(solution.params))
        for curve in solution.curves:
            assert (np.diff(curve) > -1e-5 * np.abs(curve[1:])).all()
        at_end = problem.sweep(solution.params).value
        np.testing.assert_allclose(solution.value, at_end, rtol=1e-10 if dtype == np.float64 else 1e-5)


def test_a_callback_stops_the_search_anywhere(rng):
    _, problem, params = a_search(rng)
    solver, steps = StructuralEM(EM(20, 1e-3)), []

    def solve(last):
        steps.clear()
        return solver.solve(problem, params, lambda step: steps.append(step) or len(steps) == last)

    solve(None)
    n_steps = len(steps)
    for last in (1, n_steps // 3, 2 * n_steps // 3, n_steps):
        solution = solve(last)
        assert len(steps) == last and len(solution.value) == 2
        assert solution.outcomes == [Outcome.STOPPED] * 2


def test_more_rounds_end_better(rng):
    X, y = load_wine(return_X_y=True)
    source = ArraySource((X - X.mean(axis=0)) / X.std(axis=0), y)
    family = LatentFactors(ColumnLayout.continuous_columns(13), 3, 4, complete=True, all_edges=False)
    problem = RowProblem(family, Likelihood(), family.condensed(Likelihood(), source))
    params = family.init(source, rng, 3)
    ends = [StructuralEM(EM(50, 1e-3), n_rounds).solve(problem, params) for n_rounds in (0, 1, 10)]
    scores = [end.value - 0.5 * np.log(len(y)) * end.params.edges.sum(axis=(1, 2)) for end in ends]
    gains = np.diff(scores, axis=0)
    assert (gains >= 0).all() and (gains > 0).any(axis=1).all()


def test_the_size_of_a_structure_is_the_number_of_free_loadings(rng):
    source = mixed_rows(rng)
    family = LatentFactors(MIXED, 3, 2, 3, all_edges=False)
    params = family.init(source, rng, 4)
    edges = (rng.random(params.edges.shape) < 0.5).astype(float)
    params = params._replace(edges=edges, loadings=params.loadings * edges[:, None])
    np.testing.assert_array_equal(family.structure_size(params), (params.loadings != 0).sum(axis=(1, 2, 3)))


def test_a_search_runs_in_any_namespace(rng):
    family, problem, params = a_search(rng)
    device = array_api_strict.Device("device1")
    source = ArraySource(array_api_strict.asarray(problem.source.X, device=device), problem.source.y)
    moved = tree_map(lambda a: array_api_strict.asarray(a, device=device), params)
    solver = StructuralEM(EM(30, 1e-3))
    expected, found = solver.solve(problem, params), solver.solve(RowProblem(family, Likelihood(), source), moved)
    for a, b in zip(leaves(found.params), leaves(expected.params), strict=True):
        assert a.device == device
        np.testing.assert_allclose(to_numpy(a), b, **NAMESPACE)


def test_a_search_depends_on_no_other_start(rng):
    _, problem, params = a_search(rng)
    solver = StructuralEM(EM(30, 1e-3))
    together = solver.solve(problem, params)
    for k in range(2):
        alone = solver.solve(problem, take_restarts(params, [k]))
        # which latent comes first may turn on rounding, and says nothing
        by_latent = [sorted(map(tuple, edges.T)) for edges in (alone.params.edges[0], together.params.edges[k])]
        assert by_latent[0] == by_latent[1]
        np.testing.assert_allclose(alone.value[0], together.value[k], **EQUAL)


def test_a_row_of_weight_two_is_that_row_twice():
    X, y, _ = planted(2, n_rows=120, noise=0.5)
    twice = np.arange(120) % 3 == 0
    options = dict(structure="learn", n_init=2, random_state=0)
    weighed = LatentClassificationModel(2, **options).fit(X, y, np.where(twice, 2.0, 1.0))
    repeated = LatentClassificationModel(2, **options).fit(np.concatenate([X, X[twice]]), np.concatenate([y, y[twice]]))
    np.testing.assert_array_equal(weighed.edges_, repeated.edges_)
    np.testing.assert_allclose(weighed.predict_proba(X), repeated.predict_proba(X), atol=1e-6)


def test_without_factors_there_is_no_structure_to_learn(rng):
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 2
    options = dict(inference="ml", n_init=1, max_iter=5, tol=1.0, random_state=0)
    learned, full = (LatentClassificationModel(0, 2, structure=s, **options).fit(X, y) for s in ("learn", "full"))
    np.testing.assert_array_equal(learned.predict_proba(X), full.predict_proba(X))
    np.testing.assert_array_equal(learned.objective_curve_, full.objective_curve_)
