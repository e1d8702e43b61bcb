"""Gaussian mixtures beside dense densities, conditional expectations and counting, with gaps in the rows."""

import numpy as np
import pytest
from estimator_cases import POINTS
from scipy.stats import multivariate_normal, multivariate_t, norm
from sklearn.base import clone
from tolerances import BRUTE_FORCE, EQUAL, SAMPLING

from latentia import GaussianMixtureClassifier
from latentia.engine.rows import ArraySource, MaskedRows
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.families.gaussian_mixture import gaps as missing_data
from latentia.families.gaussian_mixture import gaps as missingness_patterns
from latentia.families.gaussian_mixture import gaps as scattered_rows
from latentia.families.gaussian_mixture.family import COVARIANCES, GaussianMixtures, student_variance


@pytest.fixture(
    params=[(name, inference) for name in COVARIANCES for inference in ("ml", "vb")], ids=str, scope="module"
)
def fitted(request):
    covariance, inference = request.param
    options = POINTS | dict(
        covariance=covariance, inference=inference, temperature=1, random_state=0, max_iter=100, tol=1e-2
    )
    rng = np.random.default_rng(3)
    y = rng.integers(3, size=90)
    X = rng.normal(size=(90, 4)) @ rng.normal(size=(4, 4)) * [1, 10, 0.1, 1] + 3 * rng.normal(size=(3, 4))[y]
    X[rng.random(X.shape) < 0.25] = np.nan
    X[5] = np.nan
    return GaussianMixtureClassifier([2, 1, 3], **options).fit(X, y), X, y


def matrices(model):
    C, K, D = model.means_.shape
    V = model.covariances_
    if model.covariance == "diag":
        return V[..., None] * np.eye(D)
    if model.covariance == "spherical":
        return V[..., None, None] * np.eye(D)
    return np.broadcast_to(V, (C, K, D, D))


def brute_force_components(model, x):
    """Log weight and density of the known cells, (C, K)."""
    known = ~np.isnan(x)
    out = np.full(model.weights_.shape, -np.inf)
    sigma = matrices(model)
    for c, n_components in enumerate(model.n_components_):
        for k in range(n_components):
            density = 0.0
            if known.any():
                center, scale = model.means_[c, k][known], sigma[c, k][np.ix_(known, known)]
                density = multivariate_t(center, scale, df=model.dof_[c, k]).logpdf(x[known])
            out[c, k] = np.log(model.weights_[c, k]) + density
    return out


def test_log_joint_is_the_dense_one(fitted):
    model, X, _ = fitted
    expected = [np.log(model.priors_) + np.logaddexp.reduce(brute_force_components(model, x), axis=1) for x in X]
    np.testing.assert_allclose(model.predict_joint_log_proba(X), expected, **BRUTE_FORCE)
    np.testing.assert_allclose(model.score_samples(X), np.logaddexp.reduce(expected, axis=1), **BRUTE_FORCE)


@pytest.mark.parametrize("fitted", [(name, "ml") for name in COVARIANCES], ids=str, indirect=True)
def test_curve_ends_at_the_log_likelihood_in_the_units_of_X(fitted):
    model, X, y = fitted
    own = model.predict_joint_log_proba(X)[np.arange(len(y)), y].sum()
    np.testing.assert_allclose(model.objective_curve_[-1], own, **EQUAL)
    assert model.bic(X, y) == pytest.approx(-2 * own + model._model.family.n_free(4) * np.log(len(y)))
    assert model.aic(X, y) == pytest.approx(-2 * own + 2 * model._model.family.n_free(4))


def test_imputation_is_the_conditional_expectation(fitted):
    model, X, _ = fitted
    sigma = matrices(model)
    filled = model.impute(X)
    for x, ours in zip(X[:20], filled[:20], strict=True):
        known = ~np.isnan(x)
        score = brute_force_components(model, x) + np.log(model.priors_)[:, None]
        share = np.exp(score - np.logaddexp.reduce(score, axis=None))
        expected = np.zeros(4)
        for c in range(3):
            for k in range(model.n_components_[c]):
                mean, S = model.means_[c, k], sigma[c, k]
                guess = mean.copy()
                gain = S[np.ix_(~known, known)] @ np.linalg.pinv(S[np.ix_(known, known)])
                guess[~known] += gain @ (x - mean)[known]
                expected += share[c, k] * guess
        np.testing.assert_allclose(ours[~known], expected[~known], rtol=1e-7, atol=1e-7)
        np.testing.assert_array_equal(ours[known], x[known])


def test_a_row_without_values_gets_the_priors(fitted):
    model, X, _ = fitted
    np.testing.assert_allclose(model.predict_proba(X[5:6])[0], model.priors_, **EQUAL)


def test_samples_have_the_moments_of_the_model(fitted):
    model, _, _ = fitted
    for c in range(3):
        X, y = model.sample(20_000, y=model.classes_[c])
        assert (y == model.classes_[c]).all()
        weights = model.weights_[c][:, None]
        mean = (weights * model.means_[c]).sum(axis=0)
        second = (weights * (np.diagonal(matrices(model)[c], axis1=-2, axis2=-1) + model.means_[c] ** 2)).sum(axis=0)
        sd = np.sqrt(second - mean**2)
        assert (np.abs(X.mean(axis=0) - mean) < SAMPLING * sd / np.sqrt(20_000)).all()
        # the variance of a sample variance is at most (kurtosis - 1) sd^4 / n; mixtures here stay below a kurtosis of 9
        assert (np.abs(X.var(axis=0) / sd**2 - 1) < SAMPLING * np.sqrt(8 / 20_000)).all()


def test_refitting_on_samples_recovers_the_scores(fitted):
    model, X, _ = fitted
    drawn, labels = model.sample(6000)
    again = clone(model).set_params(var_floor=1e-6, n_init=5, max_iter=500, tol=1e-4).fit(drawn, labels)
    fresh, _ = model.sample(2000)
    assert np.mean(model.score_samples(fresh) - again.score_samples(fresh)) < 0.05


def test_unlabeled_rows_count_by_their_density():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.integers(2, size=60)
    X += 3 * y[:, None]
    some = np.where(np.arange(60) % 3 == 0, y, -1)
    model = GaussianMixtureClassifier(unlabeled=-1, random_state=0, tol=1e-9, **POINTS).fit(X, some)
    joint = model.predict_joint_log_proba(X)
    labeled = some >= 0
    value = joint[labeled, some[labeled]].sum() + np.logaddexp.reduce(joint[~labeled], axis=1).sum()
    np.testing.assert_allclose(model.objective_curve_[-1], value, **EQUAL)
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("covariance", ["full", "tied"])
def test_rows_of_one_pattern_together_or_each_alone(covariance, monkeypatch):
    rng = np.random.default_rng(5)
    y = rng.integers(2, size=60)
    X = rng.normal(size=(60, 4)) @ rng.normal(size=(4, 4)) + y[:, None]
    X[::3, :2] = np.nan
    X[1::3, 3] = np.nan
    X[4] = np.nan

    def answers(many, floats=2**19):
        monkeypatch.setattr(missingness_patterns, "MIN_PATTERN_ROWS", many)
        monkeypatch.setattr(missingness_patterns, "MIN_GROUP_ROWS", 4)
        monkeypatch.setattr(missingness_patterns, "GROUP_FLOATS", floats)
        model = GaussianMixtureClassifier(2, covariance=covariance, n_init=2, tol=1e-2, random_state=0).fit(X, y)
        return model.means_, model.covariances_, model.score_samples(X), model.impute(X)

    for together, alone, in_small_groups in zip(answers(1), answers(1000), answers(1000, 0), strict=True):
        np.testing.assert_allclose(together, alone, **BRUTE_FORCE)
        np.testing.assert_allclose(together, in_small_groups, **BRUTE_FORCE)


def test_groups_of_rows_that_miss_about_as_many_cells():
    """Every row is in one of them, and their systems are few enough for the caches, whatever the number of matrices."""
    n_missing = np.random.default_rng(0).integers(1, 9, size=500)
    for n_matrices in (1, 7):
        floats = 4000 // n_matrices
        groups = missingness_patterns._about_as_many(np.arange(500), n_missing, floats)
        assert sorted(np.concatenate(groups)) == list(range(500))
        for group in groups:
            most = n_missing[group].max()
            assert group.size <= max(missingness_patterns.MIN_GROUP_ROWS, floats / (most * (most + 1) / 2))
            assert most - n_missing[group].min() <= missingness_patterns.MAX_DIFFERENCE
    assert (
        len(missingness_patterns._about_as_many(np.arange(500), n_missing, None)) == 2
    )  # on a device, the fewer the better


def test_gaps_beside_nearly_equal_columns():
    """A column that is nearly another tells its missing cell; densities of what is left do not suffer."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(200, 2))
    sigma = np.cov(np.column_stack([a, a + 1e-5 * rng.normal(size=(200, 2))]).T)
    X = rng.multivariate_normal(np.zeros(4), sigma, size=40)
    known = np.ones(4, dtype=bool)
    known[[0, 3]] = False
    holes = np.where(known, X, np.nan)
    cells = MaskedRows(np.where(known, X, 0.0), np.tile(known.astype(float), (40, 1)))
    (group,) = missingness_patterns.MissingnessPatterns.from_mask(cells, 1).groups
    assert isinstance(group, scattered_rows.ScatteredRows)
    means, sigmas = np.zeros((1, 1, 4)), sigma[None, None]
    precision = missing_data.Precision.from_covariance(means, sigmas)
    density = group.complete(means, sigmas, precision).log_density(means, precision)[0, 0]
    expected = multivariate_normal(np.zeros(2), sigma[np.ix_(known, known)]).logpdf(holes[:, known])
    np.testing.assert_allclose(density, expected, rtol=0, atol=1e-6)
    filled = group.expected_rows(means[0], sigmas[0])[0]
    np.testing.assert_allclose(filled, X, rtol=0, atol=1e-3)


def test_variances_of_missing_cells_are_those_of_their_density(fitted):
    """Of one missing cell given the rest, under one component: beside the second moments of the density on a grid."""
    model, X, _ = fitted
    family, params = model._model.family, model._model.params
    student = np.zeros_like(params.log_weights) + (params.dof if model.inference == "vb" else np.inf)
    row = np.nan_to_num(model._model.preprocessor.prepare(X[:1]).values)
    for column in range(4):
        observed = (np.arange(4) != column)[None].astype(float)
        rows = MaskedRows(row * observed, observed)
        posterior = family.infer(params, rows)
        for c, k in [(0, 0), (0, 1), (2, 2)]:
            if student[c, k] < 6:  # too heavy tails for a grid
                continue
            variance = family.covariance_type.conditional_variance(params.means, params.covariance, rows, k)
            variance = np.broadcast_to(variance, (3, 1, 4))[c, 0, column]
            if model.inference == "vb":
                variance = variance * student_variance(posterior.square, params.dof, rows)[c, k, 0]
            mean = family.covariance_type.conditional_mean(params.means, params.covariance, rows, k)[c, 0, column]
            grid = mean + np.sqrt(variance) * np.linspace(-60, 60, 6001)
            filled = np.tile(row, (grid.size, 1))
            filled[:, column] = grid
            only = np.full_like(params.log_weights, -np.inf)
            only[:, k] = 0.0
            density = family.infer(params._replace(log_weights=only, natural=()), MaskedRows(filled, None)).log_joint[c]
            mass = np.exp(density - density.max())
            assert mass @ (grid - mean) ** 2 / mass.sum() == pytest.approx(variance, rel=0.02)
            assert mass @ grid / mass.sum() == pytest.approx(mean, abs=1e-3 * np.sqrt(variance))


def test_variances_of_missing_cells_do_not_depend_on_how_rows_are_grouped(fitted):
    model, X, _ = fitted
    family, params = model._model.family, model._model.params
    rows = model._model.preprocessor.prepare(X[:20])
    find = family.covariance_type.conditional_variance
    one = np.broadcast_to(find(params.means, params.covariance, rows, 0), (3, 20, 4))
    many = MaskedRows(*(np.tile(a, (80, 1)) for a in rows))  # patterns of many rows
    again = np.broadcast_to(find(params.means, params.covariance, many, 0), (3, 1600, 4))
    is_missing = rows.observed == 0
    np.testing.assert_allclose(again[:, -20:][:, is_missing], one[:, is_missing], **EQUAL)


@pytest.mark.parametrize("weight", [30.0, 3000.0])
@pytest.mark.parametrize("unlike, chosen", [(0.1, "tied"), (0.4, "full")])
def test_classes_get_matrices_of_their_own_by_what_a_cell_gains_however_many_rows_there_are(unlike, chosen, weight):
    """Variances of 1 + d and 1 - d gain about d^2 / 4 nats a cell over one for both; too little is too little."""
    grid = norm.ppf((np.arange(12) + 0.5) / 12)
    X = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2) / grid.std()
    X = X @ np.linalg.cholesky([[1.0, 0.9], [0.9, 1.0]]).T  # columns that need a matrix
    both = np.concatenate([X * np.sqrt(1 + unlike), X * np.sqrt(1 - unlike) + 3.0])
    y = np.repeat([0, 1], len(X))
    model = GaussianMixtureClassifier(marginals="normal", random_state=0).fit(both, y, np.full(len(y), weight))
    assert model.covariance_ == chosen


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_what_no_row_speaks_of_stays_as_it_was(covariance, rng):
    """A class without rows, and a component that explains none."""
    family = GaussianMixtures(np.array([2, 2, 2]), COVARIANCES[covariance](1e-3))
    rows = ArraySource(rng.normal(size=(30, 2)), np.arange(30) % 2)
    old = family.init(rows, rng, 2)
    log_weights = np.tile(np.log([0.3, 0.7]), (2, 3, 1))
    log_weights[:, 1, 1] = -1e4
    old = old._replace(log_weights=log_weights, covariance=1.7 * old.covariance)
    new = family.update(old, RowProblem(family, Likelihood(), rows).sweep(old).stats)
    np.testing.assert_array_equal(new.log_weights[:, 2], old.log_weights[:, 2])
    for name in ["means"] if covariance == "tied" else ["means", "covariance"]:
        a, b = getattr(new, name), getattr(old, name)
        np.testing.assert_array_equal(a[:, 2], b[:, 2])
        np.testing.assert_array_equal(a[:, 1, 1], b[:, 1, 1])
        assert (a[:, :2, 0] != b[:, :2, 0]).all()  # of which rows speak


@pytest.mark.filterwarnings("ignore")  # of columns without a value
@pytest.mark.parametrize("inference", ["vb", "ml"])
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_a_table_of_gaps_alone_leaves_the_class_priors(covariance, inference):
    X, y = np.full((8, 2), np.nan), np.array([0, 0, 0, 1] * 2)
    model = GaussianMixtureClassifier(2, covariance=covariance, inference=inference, n_init=1, max_iter=3).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(np.array([[np.nan, np.nan], [0.3, -1.0]])), [[0.75, 0.25]] * 2)
