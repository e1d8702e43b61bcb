"""Latent classification models on continuous columns: exact densities, the three paths, limits, presentation, structure."""

import numpy as np
import pytest
from estimator_cases import POINTS
from scipy.stats import multivariate_normal
from sklearn.datasets import load_iris, load_wine
from tolerances import BRUTE_FORCE, EQUAL, MAX_RELATIVE_DECREASE

from latentia.engine.rows import ArraySource, MaskedRows
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import leaves, select_restart, take_restarts, tree_map
from latentia.estimators.base.summary import loading_correlations, strongest_by_column
from latentia.estimators.latent_classification import LatentClassificationModel
from latentia.families.latent_factors import structure as structure_search
from latentia.families.latent_factors.family import LatentFactors
from latentia.families.latent_factors.kinds import ColumnLayout, Gaussian
from latentia.families.latent_factors.parameters import to_canonical_form
from latentia.families.latent_factors.posterior import BayesianLatentFactors
from latentia.families.latent_factors.structure import SCALE, SHAPE, TAU, best_edges
from latentia.solvers import EM, StructuralEM

N, D, C = 23, 5, 3


def a_table(rng, gaps=0.0):
    X, y = rng.normal(size=(N, D)), rng.integers(0, C, N)
    X[rng.random(X.shape) < gaps] = np.nan
    return ArraySource(X, y)


def of_sums(family, rows):
    """The problem that sees sums of the rows of each class."""
    condensed = family.condensed(Likelihood(), rows)
    assert condensed is not rows
    return RowProblem(family, Likelihood(), condensed)


def a_family(q, m, tied, complete):
    return LatentFactors(ColumnLayout.continuous_columns(D), C, q, m, tied=tied, complete=complete)


def some_params(family, rows, rng):
    params = family.init(rows, rng, 2)
    return params._replace(
        noise=np.exp(rng.normal(size=params.noise.shape)),
        log_mix=np.log(rng.dirichlet(np.ones(params.log_mix.shape[-1]), params.log_mix.shape[:-1])),
    )


def dense_scores(family, params, X):
    """log p(x, c) from full covariance matrices, over the known cells of each row."""
    scores = np.full((family.n_classes, len(X)), -np.inf)
    for c in range(family.n_classes):
        for m in range(family.n_components):
            L, theta = params.loadings[m], params.noise[0 if family.tied else m]
            V, mean = L * params.variances[c] @ L.T + np.diag(theta), L @ params.means[c] + params.offsets[m]
            for n, x in enumerate(X):
                k = ~np.isnan(x)
                density = multivariate_normal(mean[k], V[np.ix_(k, k)]).logpdf(x[k]) if k.any() else 0.0
                scores[c, n] = np.logaddexp(scores[c, n], params.log_prior[c] + params.log_mix[c, m] + density)
    return scores


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("q", [0, 1, 3, D, 8])
@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_scores_are_those_of_the_dense_gaussian_mixture(q, m, tied, gaps, rng):
    rows = a_table(rng, gaps)
    family = a_family(q, m, tied, complete=gaps == 0)
    params = some_params(family, rows, rng)
    scores = family.infer(params, rows.preprocess(rows.X)).log_joint
    for k in range(2):
        np.testing.assert_allclose(scores[k], dense_scores(family, select_restart(params, k), rows.X), **BRUTE_FORCE)


@pytest.mark.parametrize("q,m,tied", [(0, 1, True), (2, 1, True), (8, 1, False), (3, 2, False)])
def test_complete_rows_and_rows_with_a_mask_agree(q, m, tied, rng):
    rows = a_table(rng)
    family = a_family(q, m, tied, complete=False)
    params = some_params(family, rows, rng)
    plain = MaskedRows(rows.X, None)
    masked = MaskedRows(rows.X, np.ones_like(rows.X))
    weight = rng.normal(size=(2, C, N))
    one, other = family.infer(params, plain), family.infer(params, masked)
    np.testing.assert_allclose(one.log_joint, other.log_joint, **EQUAL)
    sums = family.statistics(params, plain, one, weight), family.statistics(params, masked, other, weight)
    for a, b in zip(leaves(sums[0]), leaves(sums[1]), strict=True):
        np.testing.assert_allclose(a, b, **EQUAL)


@pytest.mark.parametrize("q,m", [(0, 2), (2, 1), (3, 2)])
def test_complete_rows_and_rows_with_a_mask_agree_where_weights_are_uncertain(q, m, rng):
    rows = a_table(rng)
    family = BayesianLatentFactors(a_family(q, m, True, complete=False))
    belief = family.init(rows, rng, 2)
    plain, masked = MaskedRows(rows.X, None), MaskedRows(rows.X, np.ones_like(rows.X))
    weight = rng.normal(size=(2, C, N))
    one, other = family.infer(belief, plain), family.infer(belief, masked)
    np.testing.assert_allclose(one.log_joint, other.log_joint, **EQUAL)
    np.testing.assert_allclose(one.component, other.component, **EQUAL)
    sums = family.statistics(belief, plain, one, weight), family.statistics(belief, masked, other, weight)
    for a, b in zip(leaves(sums[0]), leaves(sums[1]), strict=True):
        np.testing.assert_allclose(a, b, **EQUAL)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("q", [0, 2])
def test_class_moments_give_the_sweep_of_posteriors(q, weighted, rng):
    """Also where each restart has weights of its own."""
    rows = a_table(rng)
    if weighted:
        rows = ArraySource(rows.X, rows.y, rng.random((N, 3)))
    family = BayesianLatentFactors(a_family(q, 1, True, complete=True))
    belief = family.init(rows, rng, 3)
    short, long = of_sums(family, rows), RowProblem(family, Likelihood(), rows)
    for a, b in zip(leaves(short.sweep(belief)), leaves(long.sweep(belief)), strict=True):
        np.testing.assert_allclose(a, b, **EQUAL)
    index = np.array([2, 0])
    some = tree_map(lambda a: a[index], belief)
    fewer = short.take_restarts(index).sweep(some), long.take_restarts(index).sweep(some)
    for a, b in zip(leaves(fewer[0]), leaves(fewer[1]), strict=True):
        np.testing.assert_allclose(a, b, **EQUAL)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("q", [0, 2, 8])
def test_class_moments_give_the_sweep_over_rows(q, weighted, rng):
    rows = a_table(rng)
    if weighted:
        rows = ArraySource(rows.X, rows.y, rng.random(N))
    family = a_family(q, 1, True, complete=True)
    params = some_params(family, rows, rng)
    short, long = (
        of_sums(family, rows).sweep(params),
        RowProblem(family, Likelihood(), rows).sweep(params),
    )
    for a, b in zip(leaves(short), leaves(long), strict=True):
        np.testing.assert_allclose(a, b, **EQUAL)


@pytest.mark.parametrize("weighted", [False, True])
def test_class_moments_of_labeled_rows_alone(weighted, rng):
    """Rows without a label that a source skips do not count: their sums are left out, and the rest is as over rows."""
    rows = a_table(rng)
    y = np.where(np.arange(N) % 4 == 0, -1, rows.y)
    weight = rng.random(N) if weighted else None
    labeled = ArraySource(rows.X, y, weight).labeled_only()
    dropped = ArraySource(rows.X[y >= 0], y[y >= 0], None if weight is None else weight[y >= 0])
    family = a_family(2, 1, True, complete=True)
    params = some_params(family, rows, rng)
    short = of_sums(family, labeled)
    assert short.total_weight == pytest.approx(dropped.total_weight)
    for problem in (RowProblem(family, Likelihood(), labeled), RowProblem(family, Likelihood(), dropped)):
        for a, b in zip(leaves(short.sweep(params)), leaves(problem.sweep(params)), strict=True):
            np.testing.assert_allclose(a, b, **EQUAL)


def test_class_moments_of_many_columns_too(rng):
    """A wide table: one sum of products is cheaper than passes as long as there are rows enough."""
    X, y = rng.normal(size=(60, 40)), rng.integers(0, C, 60)
    family, rows = LatentFactors(ColumnLayout.continuous_columns(40), C, 2, complete=True), ArraySource(X, y)
    params = some_params(family, rows, rng)
    short, long = of_sums(family, rows), RowProblem(family, Likelihood(), rows)
    for a, b in zip(leaves(short.sweep(params)), leaves(long.sweep(params)), strict=True):
        np.testing.assert_allclose(a, b, **EQUAL)
    few = ArraySource(X[:30], y[:30])
    assert family.condensed(Likelihood(), few) is few  # fewer rows than columns


@pytest.mark.parametrize("seed", range(12))
def test_em_with_gaps_does_not_fall_at_a_low_floor(seed):
    """Twin columns and noise of 1e-5: the posterior of the latents is known to few digits, the value must be to more."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(20, 4)), np.arange(20) % 2
    X[:, 1] = X[:, 0]
    X[rng.random(X.shape) < 0.3] = np.nan
    family = LatentFactors(ColumnLayout.continuous_columns(4), 2, 6, 2, tied=True, complete=False, var_floor=1e-5)
    rows = ArraySource(X, y)
    solution = EM(40, -np.inf).solve(RowProblem(family, Likelihood(), rows), family.init(rows, rng, 2))
    for curve in solution.curves:
        assert np.diff(curve).min() >= -MAX_RELATIVE_DECREASE * np.abs(curve).max()


def test_no_shortcut_where_rows_are_needed(rng):
    rows = a_table(rng)
    assert a_family(2, 2, True, complete=True).condensed(Likelihood(), rows) is rows
    assert a_family(2, 1, True, complete=False).condensed(Likelihood(), rows) is rows
    unlabeled = ArraySource(rows.X, np.where(np.arange(N) < 3, -1, rows.y))
    assert a_family(2, 1, True, complete=True).condensed(Likelihood(), unlabeled) is unlabeled


@pytest.mark.matrix
def test_worst_step_of_em_over_random_problems():
    worst = np.inf
    for trial in range(30):
        rng = np.random.default_rng(trial)
        gaps = rng.choice([0.0, 0.2, 0.6])
        q, m, tied = int(rng.integers(0, 8)), int(rng.integers(1, 4)), bool(rng.integers(2))
        rows = a_table(rng, gaps)
        family = a_family(q, m, tied, complete=gaps == 0)
        solution = EM(max_iter=20, tol=-np.inf).solve(RowProblem(family, Likelihood(), rows), family.init(rows, rng, 3))
        worst = min(worst, min((np.diff(c) / np.abs(c[1:])).min() for c in solution.curves))
    assert worst >= -MAX_RELATIVE_DECREASE


def test_a_family_of_known_loadings_is_recovered_from_its_own_sample(rng):
    family = a_family(2, 1, True, complete=True)
    rows = a_table(rng)
    params = select_restart(some_params(family, rows, rng), 0)._replace(log_prior=np.log([0.2, 0.3, 0.5]))
    codes = rng.choice(C, 30_000, p=[0.2, 0.3, 0.5])
    X = family.sample(params, codes, rng)
    for c in range(C):  # moments of the sample are the model's
        L, mine = params.loadings[0], X[codes == c]
        cov = L * params.variances[c] @ L.T + np.diag(params.noise[0])
        mean = L @ params.means[c] + params.offsets[0]
        assert np.abs(mine.mean(axis=0) - mean).max() < 5 * np.sqrt(np.diag(cov).max() / len(mine))
        assert np.abs(np.cov(mine.T) - cov).max() < 10 * np.abs(cov).max() / np.sqrt(len(mine))
    sample = ArraySource(X, codes)
    solution = EM(300, 1e-7).solve(of_sums(family, sample), family.init(sample, rng, 5))
    truth = RowProblem(family, Likelihood(), sample).sweep(params).value
    assert solution.value.max() > truth - 5  # at the optimum the likelihood exceeds the truth's
    assert solution.value.max() < truth + 60


def test_without_latents_it_is_a_mixture_that_the_classes_share(rng):
    X, y = load_iris(return_X_y=True)
    options = {"marginals": "normal", "temperature": 1.0, "random_state": 0}
    model = LatentClassificationModel(0, 3, noise="untied", **options).fit(X, y)
    joint = np.full((len(X), 3), -np.inf)
    for c in range(3):
        for m in range(3):
            density = multivariate_normal(model.intercepts_[m], np.diag(model.noise_variances_[m])).logpdf(X)
            joint[:, c] = np.logaddexp(joint[:, c], np.log(model.priors_[c] * model.mixing_weights_[c, m]) + density)
    np.testing.assert_allclose(model.predict_joint_log_proba(X), joint, **BRUTE_FORCE)


def test_published_parameters_are_the_model():
    X, y = load_wine(return_X_y=True)
    model = LatentClassificationModel(4, 2, noise="untied", random_state=0, tol=0.02, **POINTS).fit(X, y)
    joint = np.full((len(X), 3), -np.inf)
    for c in range(3):
        for m in range(2):
            L = model.loadings_[m]
            cov = L * model.latent_variances_[c] @ L.T + np.diag(model.noise_variances_[m])
            density = multivariate_normal(L @ model.latent_means_[c] + model.intercepts_[m], cov).logpdf(X)
            joint[:, c] = np.logaddexp(joint[:, c], np.log(model.priors_[c] * model.mixing_weights_[c, m]) + density)
    np.testing.assert_allclose(model.predict_joint_log_proba(X), joint, rtol=1e-8)
    curve = np.logaddexp.reduce(np.where(np.arange(3) == y[:, None], joint, -np.inf), axis=1).sum()
    np.testing.assert_allclose(model.objective_curve_[-1], curve, rtol=1e-8)


def test_as_many_latents_as_columns_and_classes_reach_full_gaussians():
    """Proposition 1 of the paper: with q = n C each class may have any covariance."""
    X, y = load_iris(return_X_y=True)
    model = LatentClassificationModel(
        12, var_floor=1e-5, max_iter=2000, tol=1e-5, selection="likelihood", random_state=0, **POINTS
    ).fit(X, y)
    full = sum(
        multivariate_normal(X[y == c].mean(0), np.cov(X[y == c].T, bias=True)).logpdf(X[y == c]).sum() for c in range(3)
    )
    full += len(X) * np.log(1 / 3)
    assert full >= model.objective_curve_[-1] >= full - 0.02 * abs(full)


def test_the_presentation_changes_nothing_but_the_coordinates(rng):
    family = a_family(3, 2, True, complete=True)
    rows = a_table(rng)
    params = select_restart(some_params(family, rows, rng), 0)
    shown = to_canonical_form(params)
    cells = MaskedRows(rows.X, None)
    np.testing.assert_allclose(family.infer(shown, cells).log_joint, family.infer(params, cells).log_joint, **EQUAL)
    prior = np.exp(shown.log_prior)
    np.testing.assert_allclose(prior @ shown.means, 0, atol=1e-12)
    np.testing.assert_allclose(prior @ (shown.variances + shown.means**2), 1)
    for a, b in zip(leaves(to_canonical_form(shown)), leaves(shown), strict=True):
        np.testing.assert_allclose(a, b, **EQUAL)


def test_factors_come_in_the_order_scale_and_sign_that_is_documented(rng):
    """Unit variance under the priors, most loading first, its largest entry positive; components count by their share."""
    family, rows = a_family(3, 2, True, complete=True), a_table(rng)
    for _ in range(10):
        params = select_restart(some_params(family, rows, rng), 0)
        edges = (rng.random((D, 3)) < 0.7).astype(float)
        params = params._replace(
            log_prior=np.log(rng.dirichlet(np.ones(C))),
            log_mix=np.log(rng.dirichlet([0.3, 0.3], C)),
            means=rng.normal(size=(C, 3)),
            loadings=rng.normal(size=(2, D, 3)) * np.exp(rng.normal(size=(2, 1, 3))) * edges,
            edges=edges,
        )
        shown = to_canonical_form(params)
        prior = np.exp(shown.log_prior)
        np.testing.assert_allclose(prior @ shown.means, 0, atol=1e-12)
        np.testing.assert_allclose(prior @ (shown.variances + shown.means**2), 1)
        share = prior @ np.exp(shown.log_mix)
        weighed = (np.sqrt(share)[:, None, None] * shown.loadings).reshape(2 * D, 3)
        assert (np.diff((weighed**2).sum(axis=0)) <= 0).all()
        assert (weighed[np.abs(weighed).argmax(axis=0), np.arange(3)] > 0).all()
        for loadings in shown.loadings:  # the edges go with their factor
            np.testing.assert_array_equal(shown.edges > 0, loadings != 0)


def test_factors_are_the_posterior_means(rng):
    X, y = load_iris(return_X_y=True)
    model = LatentClassificationModel(2, marginals="normal", temperature=1.0, tol=1e-2, random_state=0).fit(X, y)
    L, shift = model.loadings_[0], model.intercepts_[0]
    proba, expected = model.predict_proba(X), np.zeros((len(X), 2))
    for c in range(3):
        V = L * model.latent_variances_[c] @ L.T + np.diag(model.noise_variances_[0])
        B = (model.latent_variances_[c][:, None] * L.T) @ np.linalg.inv(V)
        z = model.latent_means_[c] + (X - shift - L @ model.latent_means_[c]) @ B.T
        expected += proba[:, c : c + 1] * z
    np.testing.assert_allclose(model.transform(X), expected, atol=1e-8)
    gaps = X.copy()
    gaps[:, 1] = np.nan
    assert model.transform(gaps).shape == (150, 2)
    np.testing.assert_allclose(model.responsibilities(gaps), 1.0)


def brute_force_score(G, c, x2, n, parents, known_noise):
    """The regression score of `structure`, from determinants and solves."""
    index, total, rss, cells = [*parents, G.shape[-1] - 1], 0.0, 0.0, 0.0
    for m in range(len(G)):
        A = G[m][np.ix_(index, index)] + np.diag([TAU] * len(parents) + [0.0])
        explained = c[m][index] @ np.linalg.solve(A, c[m][index])
        total += 0.5 * len(parents) * np.log(TAU) - 0.5 * np.linalg.slogdet(A)[1]
        total += 0.5 * explained if known_noise else 0.0
        rss, cells = rss + x2[m] - explained, cells + n[m]
    return total if known_noise else total - (SHAPE + cells / 2) * np.log(SCALE + rss / 2)


@pytest.mark.parametrize("kind", ["continuous", "binary"])
def test_no_single_edge_improves_a_learned_structure(kind, rng):
    """Greedy search ends where brute force finds no better neighbor."""
    q, family, rows = 3, a_family(3, 2, True, complete=False), a_table(rng, 0.2)
    if kind == "binary":  # many rows, or no edge is worth its price
        family = LatentFactors(ColumnLayout.from_kinds(["binary"] * D, [2] * D), C, q, 2)
        y = np.arange(400) % C
        X = rng.normal(size=(400, q)) @ (rng.normal(size=(q, D)) * 2) > 0
        rows = ArraySource(np.where(rng.random(X.shape) < 0.2, np.nan, X), y)
    params = select_restart(some_params(family, rows, rng), 0)
    stats = RowProblem(family, Likelihood(), rows).sweep(params).stats
    edges = best_edges(family.layout, True, params.edges, stats)
    assert 0 < edges.sum() < edges.size
    gram, cross = (stats.gram, stats.cross) if kind == "continuous" else (stats.bound_gram, stats.bound_cross)
    full = np.zeros((2, D, q + 1, q + 1))
    upper = np.triu_indices(q)
    full[..., upper[0], upper[1]] = full[..., upper[1], upper[0]] = gram[..., : -q - 1]
    full[..., :q, q] = full[..., q, :q] = gram[..., -q - 1 : -1]
    full[..., q, q] = gram[..., -1]
    sum_x2 = stats.sum_x2 if kind == "continuous" else np.zeros((2, D))
    for i in range(D):
        pieces = full[:, i], cross[:, i], sum_x2[:, i], gram[:, i, -1]
        here = set(np.flatnonzero(edges[i]))
        score = brute_force_score(*pieces, sorted(here), kind == "binary")
        for j in range(q):
            assert brute_force_score(*pieces, sorted(here ^ {j}), kind == "binary") <= score + 1e-8


def test_a_learned_structure_holds_loadings_at_zero():
    X, y = load_wine(return_X_y=True)
    model = LatentClassificationModel(4, 2, structure="learn", random_state=0, n_init=2, tol=1e-2).fit(X, y)
    assert model.edges_.shape == (13, 4) and 0 < (~model.edges_).sum()
    np.testing.assert_array_equal((model.loadings_ != 0).all(axis=0), model.edges_)
    assert model.score(X, y) > 0.95
    full = LatentClassificationModel(4, 2, noise="tied", random_state=0, n_init=1, tol=1e-1).fit(X, y)
    n_parameters = [m._model.family.n_free(13) for m in (full, model)]
    assert n_parameters[0] - n_parameters[1] == 2 * (~model.edges_).sum()


@pytest.mark.matrix
def test_a_start_learns_its_structure_whatever_others_do():
    """But for the order of the factors, and for near ties of structures: both are rounding's, and this table has none."""
    (X, y), rng = load_iris(return_X_y=True), np.random.default_rng(0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    X[rng.random(X.shape) < 0.2] = np.nan
    rows = ArraySource(X, y)
    family = LatentFactors(ColumnLayout.continuous_columns(4), 3, 3, complete=False, all_edges=False)
    params, problem = family.init(rows, rng, 5), RowProblem(family, Likelihood(), rows)
    solver = StructuralEM(EM(60, 1e-3))
    together = solver.solve(problem, params)
    for k in range(5):
        alone = solver.solve(problem, take_restarts(params, [k]))
        np.testing.assert_allclose(together.curves[k], alone.curves[0], **EQUAL)
        mine, other = (np.unique(edges, axis=1) for edges in (together.params.edges[k], alone.params.edges[0]))
        np.testing.assert_array_equal(mine, other)


def test_columns_may_come_in_any_order(rng):
    X, y = load_iris(return_X_y=True)
    order = rng.permutation(4)
    kwargs = dict(n_latent=2, n_components=2, random_state=3, n_init=2, tol=1e-2)
    one, other = LatentClassificationModel(**kwargs).fit(X, y), LatentClassificationModel(**kwargs).fit(X[:, order], y)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X[:, order]), atol=1e-6)
    np.testing.assert_allclose(one.loadings_[:, order], other.loadings_, atol=1e-5)


def test_wide_and_masked_rows_have_the_latents_of_complete_ones(rng):
    """Posterior means of z agree by every path."""
    rows = a_table(rng)
    family = a_family(2, 2, True, complete=True)
    params = select_restart(some_params(family, rows, rng), 0)
    scores, z = family.latent_means(params, MaskedRows(rows.X, None))
    for cells in (MaskedRows(rows.X, None), MaskedRows(rows.X, np.ones_like(rows.X))):
        by_row = family.infer_rows(params, cells)
        np.testing.assert_allclose(by_row.mean, z, **EQUAL)
        np.testing.assert_allclose(by_row.scores, scores, **EQUAL)


def test_layouts_may_leave_columns_out(rng):
    """A column of no kind has no part in the model."""
    X = rng.normal(size=(N, D))
    some = LatentFactors(ColumnLayout([Gaussian([0, 2])], D), C, 1)
    alone = LatentFactors(ColumnLayout.continuous_columns(2), C, 1)
    params = alone.init(ArraySource(X[:, [0, 2]], rng.integers(0, C, N)), rng, 1)
    np.testing.assert_allclose(
        some.infer(params, MaskedRows(X, None)).log_joint,
        alone.infer(params, MaskedRows(X[:, [0, 2]], None)).log_joint,
        **EQUAL,
    )


def test_an_update_takes_the_moments_of_the_posteriors(rng):
    """One M-step from anywhere: means and variances of z in a class are those of its rows' posteriors, about the new mean."""
    X, y = rng.normal(size=(60, 4)) + 2.0, np.arange(60) % 2
    family = LatentFactors(ColumnLayout.continuous_columns(4), 2, 2)
    rows = ArraySource(X, y)
    old = family.init(rows, rng, 1)
    new = select_restart(family.update(old, RowProblem(family, Likelihood(), rows).sweep(old).stats), 0)
    old = select_restart(old, 0)
    L, noise = old.loadings[0], np.broadcast_to(old.noise[0], 4)
    for c in range(2):
        cov = np.linalg.inv(np.diag(1 / old.variances[c]) + L.T / noise @ L)
        z = old.means[c] + (X[y == c] - old.offsets[0] - L @ old.means[c]) / noise @ L @ cov
        np.testing.assert_allclose(new.means[c], z.mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(new.variances[c], np.diag(cov) + z.var(axis=0), rtol=1e-6)


@pytest.mark.parametrize("tied", [True, False])
def test_what_no_row_speaks_of_stays_as_it_was(tied, rng):
    """A class without rows, a component that explains none, and a column without a value."""
    X, y = rng.normal(size=(N, D)), np.arange(N) % 2
    X[:, 1] = np.nan
    family = a_family(2, 2, tied, complete=False)
    rows = ArraySource(X, y)
    old = some_params(family, rows, rng)
    old = old._replace(
        log_mix=np.array([0.0, -1e4]) + np.zeros_like(old.log_mix),
        variances=np.exp(rng.normal(size=old.variances.shape)),
        loadings=rng.normal(size=old.loadings.shape),
    )
    new = family.update(old, RowProblem(family, Likelihood(), rows).sweep(old).stats)
    told_of = {
        "class": lambda p: (p.log_mix[:, 2], p.means[:, 2], p.variances[:, 2]),
        "component": lambda p: (p.loadings[:, 1], p.offsets[:, 1], *(() if tied else [p.noise[:, 1]])),
        "column": lambda p: (p.loadings[:, :, 1], p.offsets[:, :, 1], p.noise[..., 1]),
    }
    for name, take in told_of.items():
        for a, b in zip(take(new), take(old), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9, err_msg=name)


@pytest.mark.filterwarnings("error")
def test_a_column_without_values_has_no_say_in_the_structure_of_others(rng):
    X, y = rng.normal(size=(60, D)), np.arange(60) % C
    X[:, 3] += 2 * X[:, 0]
    X[:, 1] = np.nan
    family = LatentFactors(ColumnLayout.continuous_columns(D), C, 2, all_edges=False)
    rows = ArraySource(X, y)
    params = EM(10).solve(RowProblem(family, Likelihood(), rows), family.init(rows, rng, 1)).params
    found, _ = family.update_structure(params, RowProblem(family, Likelihood(), rows).sweep(params).stats)
    others = np.array([0, 2, 3, 4])
    alone = LatentFactors(ColumnLayout.continuous_columns(D - 1), C, 2, all_edges=False)
    cut = params._replace(
        loadings=params.loadings[:, :, others],
        offsets=params.offsets[:, :, others],
        noise=params.noise[:, :, others],
        edges=params.edges[:, others],
    )
    rows = ArraySource(X[:, others], y)
    expected, _ = alone.update_structure(cut, RowProblem(alone, Likelihood(), rows).sweep(cut).stats)
    np.testing.assert_array_equal(found.edges[:, others], expected.edges)
    assert np.isin(found.edges, [0.0, 1.0]).all() and 0 < expected.edges.mean() < 1  # or the law would say nothing


def test_lazy_bounds_never_fall_and_end_where_settled_ones_do(rng):
    """One round of the bounds in each sweep: EM rises all the same, to the same place."""
    y = np.arange(60) % 3
    z = rng.normal(size=(60, 2)) + np.array([[0, 0], [3, 0], [0, 3]])[y]
    X = np.concatenate([z @ rng.normal(size=(2, 2)), np.digitize(z @ rng.normal(size=(2, 3)), [-1, 1])], axis=1)
    X[rng.random(X.shape) < 0.2] = np.nan
    source = ArraySource(X, np.where(rng.random(60) < 0.3, -1, y))
    layout = ColumnLayout.from_kinds(["continuous"] * 2 + ["categorical"] * 3, [0, 0, 3, 3, 3])
    model = LatentFactors(layout, 3, 2, bound_tol=1e-6)
    ends = []
    for lazy in (True, False):
        family = BayesianLatentFactors(model, lazy_bounds=lazy)
        problem = RowProblem(family, Likelihood(), ArraySource(source.X, source.y))
        solution = EM(100, 0.0).solve(problem, family.init(source, np.random.default_rng(0), 1))
        assert np.diff(solution.curves[0]).min() >= -1e-9 * np.abs(solution.value[0])
        ends.append(solution.value[0])
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-4)


def test_correlations_with_the_factors_have_the_sign_of_the_loadings_and_explain_the_variance(rng):
    loadings, noise = rng.normal(size=(1, 4, 2)), np.array([[0.5, 2.0, np.nan]])
    columns = np.array([0, 1, 2, 2])  # the last column has two predictors, and logistic noise
    found = loading_correlations(loadings, columns, noise)
    np.testing.assert_array_equal(np.sign(found), np.sign(loadings[0]))
    left = np.array([0.5, 2.0, np.pi**2 / 3, np.pi**2 / 3])
    np.testing.assert_allclose((found**2).sum(axis=1), 1 - left / (left + (loadings[0] ** 2).sum(axis=1)))
    strongest = strongest_by_column(found, columns, 3)
    np.testing.assert_array_equal(strongest[:2], found[:2])
    np.testing.assert_array_equal(np.abs(strongest[2]), np.abs(found[2:]).max(axis=0))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", ["continuous", "binary"])
def test_the_gain_of_an_edge_is_the_change_of_the_score(kind, tied, rng):
    """Of latents far from zero too, where a price of the intercept would show."""
    q, n_heads, n_components, known = 3, 4, 2, kind == "binary"
    Z = np.concatenate([rng.normal(3.0, 1.0, (n_components, 30, q)), np.ones((n_components, 30, 1))], axis=-1)
    x = Z @ rng.normal(size=(n_components, q + 1, n_heads)) + rng.normal(size=(n_components, 30, n_heads))
    G = np.broadcast_to((Z.swapaxes(1, 2) @ Z)[:, None], (n_components, n_heads, q + 1, q + 1))
    cross, x2 = np.einsum("mni,mnh->mhi", Z, x), (0 if known else 1) * (x * x).sum(axis=1)
    upper = np.triu_indices(q)
    gram = np.concatenate([G[..., upper[0], upper[1]], G[..., q, :]], axis=-1)
    edges = (np.arange(n_heads)[:, None] + np.arange(q)) % 2.0
    state = structure_search._sweep_in(structure_search._regressions(gram, cross, x2, q), edges)
    counts = np.full((n_components, n_heads), 30.0)
    gains = structure_search._gains(state, edges, counts, 0 if known else n_heads, tied)
    for i in range(n_heads):
        groups = [[0, 1]] if tied else [[0], [1]]  # components that share their noise
        for j in range(q):
            here = set(np.flatnonzero(edges[i]))
            before, after = (
                sum(brute_force_score(G[m, i], cross[m, i], x2[m, i], counts[m, i], sorted(p), known) for m in groups)
                for p in (here, here ^ {j})
            )
            np.testing.assert_allclose(gains[i, j], after - before, rtol=1e-6)
