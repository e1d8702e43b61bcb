"""Hard but valid tables: far from zero in float32, huge scales, rare classes, constant and empty columns, fewer rows than features."""

import numpy as np
import pytest
from estimator_cases import POINTS
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from tolerances import SINGLE

from latentia import GaussianMixtureClassifier

COVARIANCES = ["diag", "full", "tied", "spherical"]


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_single_precision_far_from_zero(covariance):
    X, y = load_iris(return_X_y=True)
    far = (X + 1e4).astype(np.float32)
    single = GaussianMixtureClassifier(2, covariance=covariance, random_state=0, n_init=3).fit(far, y)
    double = GaussianMixtureClassifier(2, covariance=covariance, random_state=0, n_init=3).fit(
        far.astype(np.float64), y
    )
    ours, reference = single.predict_proba(far), double.predict_proba(far)
    assert ours.dtype == np.float32 and single.means_.dtype == np.float32
    assert (ours.argmax(axis=1) == reference.argmax(axis=1)).mean() > 0.99
    np.testing.assert_allclose(single.score_samples(far).mean(), double.score_samples(far).mean(), **SINGLE)


@pytest.mark.parametrize("covariance", COVARIANCES)
def test_units_do_not_matter(covariance):
    X, y = load_iris(return_X_y=True)
    plain = GaussianMixtureClassifier(covariance=covariance).fit(X, y).predict_proba(X)
    for scale in (1e-150, 1e-30, 1e30, 1e150):
        model = GaussianMixtureClassifier(covariance=covariance).fit(X * scale, y)
        np.testing.assert_allclose(model.predict_proba(X * scale), plain, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("objective_name", ["likelihood", "conditional", "margin", "hybrid"])
@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:Column . has no known value", "ignore:n_components=3"
)
def test_hard_tables(covariance, objective_name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 15))  # fewer rows than features
    X[:, 3] = 7.0  # constant
    X[:, 4] = np.nan  # empty
    X[:, 5] = X[:, 6]  # twice
    X[3] = np.nan  # a row without values
    X[4] = X[5] = X[6]  # the same row again
    y = np.array([0] * 6 + [1] * 5 + [2])  # a class of one row
    model = GaussianMixtureClassifier(
        3, covariance=covariance, objective=objective_name, n_init=2, max_iter=8, random_state=0
    ).fit(X, y)
    check_finite(model, X)


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize(
    "dtype, far", [(np.float64, 1e155), (np.float64, 1e308), (np.float32, 1e20), (np.float32, 3e38)]
)
def test_rows_far_out_have_probabilities(covariance, dtype, far):
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    X = (rng.normal(size=(80, 2)) + y[:, None]).astype(dtype)
    model = GaussianMixtureClassifier(2, covariance=covariance, random_state=0, n_init=2).fit(X, y)
    for row in ([far, 0.0], [-far, far], [far, np.nan]):
        proba = model.predict_proba(np.array([row], dtype=dtype))
        assert proba.min() >= 0
        np.testing.assert_allclose(proba.sum(), 1.0, rtol=1e-5)
        assert np.isfinite(model.score_samples(np.array([row], dtype=dtype))).all()
    np.testing.assert_array_equal(model.predict_proba(np.r_[X, [[far, 0]]].astype(dtype))[:-1], model.predict_proba(X))


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("objective_name", ["likelihood", "hybrid"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:The objective fell")
def test_any_var_floor_on_columns_that_follow_from_others(covariance, dtype, objective_name):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = ((rng.normal(size=(60, 3)) + y[:, None]) @ rng.normal(size=(3, 30))).astype(dtype)
    for var_floor in (1e-7, 1e-16, 1e-300):
        model = GaussianMixtureClassifier(
            covariance=covariance, var_floor=var_floor, objective=objective_name, max_iter=3
        )
        check_finite(model.fit(X, y), X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_var_floor_below_the_rounding_unit_stands_for_that_unit(dtype, rng):
    y = np.arange(40) % 2
    X = np.column_stack([1 - y, rng.normal(size=40)]).astype(dtype)  # the first column is constant in each class
    floors = [float(np.finfo(dtype).eps), 1e-300]
    options = dict(covariance="diag", **POINTS)
    unit, tiny = (GaussianMixtureClassifier(var_floor=floor, **options).fit(X, y) for floor in floors)
    np.testing.assert_array_equal(tiny.covariances_, unit.covariances_)
    assert (unit.covariances_ > 0).all()


@pytest.mark.filterwarnings("ignore:sample_weight sums to")
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_the_unit_of_the_weights_does_not_matter_to_points(covariance):
    """Posteriors count rows by their weight: with next to none, they are the priors."""
    X, y = load_iris(return_X_y=True)
    X[::4, 1] = np.nan
    options = dict(n_components=2, covariance=covariance, random_state=0, n_init=2, **POINTS)
    plain = GaussianMixtureClassifier(**options).fit(X, y, sample_weight=np.ones(150))
    for unit in (1e-11, 1e-30):
        small = GaussianMixtureClassifier(**options).fit(X, y, sample_weight=np.full(150, unit))
        np.testing.assert_allclose(small.predict_proba(X), plain.predict_proba(X), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("first", ["empty", "constant and huge"])
@pytest.mark.filterwarnings("ignore:Column . has no known value")
def test_spherical_covariances_beside_a_column_that_does_not_vary(first):
    rng = np.random.default_rng(0)
    y = np.arange(100) % 2
    X = 5 * rng.normal(size=(100, 3)) + y[:, None]
    X[:, 0] = np.nan if first == "empty" else 1e20
    model = GaussianMixtureClassifier(covariance="spherical", **POINTS).fit(X, y)
    varying = [X[y == c, 1:].var(axis=0).sum() / (2 if first == "empty" else 3) for c in (0, 1)]
    np.testing.assert_allclose(model.covariances_[:, 0], varying, rtol=1e-6)


def check_finite(model, X):
    proba = model.predict_proba(X)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-6)
    assert np.isfinite(model.impute(X)).all()
    assert np.isfinite(model.sample(5)[0]).all()
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(model.means_).all() and np.isfinite(model.covariances_).all()


@pytest.mark.matrix
@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    n_rows=st.integers(2, 30),
    n_features=st.integers(1, 6),
    n_classes=st.integers(1, 4),
    gaps=st.floats(0, 0.9),
    exponent=st.integers(-100, 100),
    covariance=st.sampled_from(COVARIANCES),
    n_components=st.integers(1, 4),
    weighted=st.booleans(),
)
@pytest.mark.filterwarnings("ignore")
def test_random_hostile_tables(seed, n_rows, n_features, n_classes, gaps, exponent, covariance, n_components, weighted):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n_rows, n_features)), rng.integers(0, 3)) * 10.0**exponent
    X[rng.random(X.shape) < gaps] = np.nan
    y = rng.integers(n_classes, size=n_rows)
    labeled = np.where(rng.random(n_rows) < 0.2, -1, y)
    labeled[0] = y[0]
    weight = rng.exponential(size=n_rows) if weighted else None
    model = GaussianMixtureClassifier(n_components, covariance=covariance, n_init=2, max_iter=8, random_state=0)
    model.fit(X, labeled, sample_weight=weight)
    check_finite(model, X)
    worst = np.diff(model.objective_curve_).min(initial=0.0)
    assert worst >= -1e-8 * max(np.abs(model.objective_curve_).max(), 1.0)  # rows without a value have a curve of zeros
