"""Limits in which a model is another, well-known one."""

import numpy as np
import pytest
from estimator_cases import POINTS
from sklearn.datasets import load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import GaussianNB

from latentia import GaussianMixtureClassifier

one_class_will_do = pytest.mark.filterwarnings("ignore:y has a single class:UserWarning")


@pytest.fixture(params=[load_iris, load_wine])
def table(request):
    return request.param(return_X_y=True)


def test_one_diagonal_component_is_gaussian_naive_bayes(table):
    X, y = table
    ours = GaussianMixtureClassifier(var_floor=1e-12, **POINTS).fit(X, y)
    theirs = GaussianNB(var_smoothing=0).fit(X, y)
    np.testing.assert_allclose(ours.predict_joint_log_proba(X), theirs.predict_joint_log_proba(X), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours.means_[:, 0], theirs.theta_, rtol=1e-10)
    np.testing.assert_allclose(ours.covariances_[:, 0], theirs.var_, rtol=1e-8)


def test_one_full_component_is_quadratic_discriminant_analysis(table):
    X, y = table
    ours = GaussianMixtureClassifier(covariance="full", var_floor=1e-12, **POINTS).fit(X, y)
    counts = np.bincount(y)
    for c in range(3):  # scikit-learn divides by n - 1
        np.testing.assert_allclose(ours.covariances_[c, 0], np.cov(X[y == c].T, bias=True), rtol=1e-8, atol=1e-10)
    theirs = QuadraticDiscriminantAnalysis().fit(X, y)
    assert np.abs(ours.predict_proba(X) - theirs.predict_proba(X)).max() < 10 / counts.min()


def test_one_tied_component_is_linear_discriminant_analysis(table):
    X, y = table
    ours = GaussianMixtureClassifier(covariance="tied", var_floor=1e-12, **POINTS).fit(X, y)
    theirs = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-6, atol=1e-9)


def test_no_trade_off_is_maximum_likelihood(table):
    X, y = table
    options = dict(random_state=0, tol=1e-8, max_iter=2000, **POINTS)
    likelihood = GaussianMixtureClassifier(2, **options).fit(X, y)
    hybrid = GaussianMixtureClassifier(2, objective="hybrid", trade_off=0, **options).fit(X, y)
    assert hybrid.objective_curve_[-1] == pytest.approx(likelihood.objective_curve_[-1], rel=1e-4)
    np.testing.assert_array_equal(hybrid.predict(X), likelihood.predict(X))


def test_all_rows_labeled_is_supervised(table):
    X, y = table
    text = np.array(["a", "b", "c"], dtype=object)[y]
    np.testing.assert_array_equal(
        GaussianMixtureClassifier().fit(X, text).predict_proba(X),
        GaussianMixtureClassifier().fit(X, y).predict_proba(X),
    )


@pytest.mark.parametrize("covariance", ["diag", "full", "tied", "spherical"])
def test_a_mask_without_gaps_is_no_mask(covariance):
    """A far row with one gap makes every block carry a mask; its zero weight leaves the sums alone."""
    X, y = load_iris(return_X_y=True)
    with_gap = np.vstack([X, X[:1]])
    with_gap[-1, 2] = np.nan
    weight = np.r_[np.ones(150), 0.0]
    plain = GaussianMixtureClassifier(covariance=covariance).fit(X, y)
    masked = GaussianMixtureClassifier(covariance=covariance).fit(with_gap, np.r_[y, 0], sample_weight=weight)
    np.testing.assert_allclose(
        masked.predict_joint_log_proba(X), plain.predict_joint_log_proba(X), rtol=1e-9, atol=1e-9
    )


def test_more_components_by_bic_where_there_are_more_clusters():
    rng = np.random.default_rng(0)
    two = np.r_[rng.normal(-4, 1, (150, 2)), rng.normal(4, 1, (150, 2))]
    X, y = np.r_[rng.normal(0, 1, (200, 2)) + [0, 12], two], np.r_[np.zeros(200, int), np.ones(300, int)]
    np.testing.assert_array_equal(GaussianMixtureClassifier("bic", random_state=0).fit(X, y).n_components_, [1, 2])


@one_class_will_do
@pytest.mark.parametrize(
    "covariance, seed",
    [
        ("diag", 49),
        ("full", 23),
        ("spherical", 36),
        ("tied", 109),
    ],
)
def test_components_by_bic_are_those_of_the_model_with_the_least_bic(covariance, seed):
    """On tables where the mixing weights decide: without them the BIC would choose more components."""
    rng = np.random.default_rng(seed)
    X, y, numbers = rng.normal(size=(90, 2)), np.zeros(90, int), np.arange(1, 5)
    X[:30, 0] += 2.5 + 0.5 * (seed % 4)
    options = dict(covariance=covariance, n_init=3, tol=1e-6, random_state=0, **POINTS)
    bic = np.array([GaussianMixtureClassifier(k, **options).fit(X, y).bic(X, y) for k in numbers])
    assert np.argmin(bic - (numbers - 1) * np.log(90)) > np.argmin(bic)
    chosen = GaussianMixtureClassifier("bic", **options).fit(X, y).n_components_
    assert chosen.tolist() == [numbers[np.argmin(bic)]]


@one_class_will_do
@pytest.mark.parametrize("covariance, seed", [("diag", 14), ("spherical", 42), ("full", 39)])
def test_components_by_bic_may_lie_beyond_a_number_that_is_worse(covariance, seed):
    """Clusters about a center, which two components describe worse than one does, and three better."""
    rng, k = np.random.default_rng(seed), 3 + seed % 2
    angle = 2 * np.pi * (np.arange(60) % k) / k + 0.3
    X = 1.3 * (1.2 + 0.15 * (seed % 6)) * np.c_[np.cos(angle), np.sin(angle)] + 0.8 * rng.normal(size=(60, 2))
    y, options = np.zeros(60, int), dict(covariance=covariance, n_init=3, tol=1e-6, random_state=0, **POINTS)
    bic = [GaussianMixtureClassifier(n, **options).fit(X, y).bic(X, y) for n in range(1, 6)]
    assert bic[1] > bic[0] and np.argmin(bic) == 2  # or there is no dip
    assert GaussianMixtureClassifier("bic", **options).fit(X, y).n_components_.tolist() == [3]


@one_class_will_do
@pytest.mark.parametrize("covariance, seed", [("diag", 13), ("spherical", 3)])
def test_components_by_bic_are_those_that_a_class_has_alone(covariance, seed):
    """A penalty for all rows instead of those of the class would leave the small class one component."""
    rng = np.random.default_rng(seed)
    small = rng.normal(size=(40, 2))
    small[:16, 0] += 2.6 + 0.3 * (seed % 5)
    options = dict(covariance=covariance, n_init=3, tol=1e-6, random_state=0, **POINTS)
    alone = [GaussianMixtureClassifier(k, **options).fit(small, np.zeros(40, int)) for k in (1, 2)]
    bic, aic = (
        np.array([getattr(model, name)(small, np.zeros(40, int)) for model in alone]) for name in ("bic", "aic")
    )
    n_free = (bic - aic) / (np.log(40) - 2)
    assert np.argmin(bic) == 1 and np.argmin(bic + n_free * np.log(440 / 40)) == 0
    X, y = np.r_[small, rng.normal(size=(400, 2)) + [0, 9]], np.repeat([0, 1], [40, 400])
    assert GaussianMixtureClassifier("bic", **options).fit(X, y).n_components_[0] > 1
