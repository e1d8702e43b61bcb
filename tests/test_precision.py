"""Hard but valid tables: far from zero in float32, huge scales, rare classes, constant and empty columns, fewer rows than features."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from tolerances import SINGLE

from latentia import GaussianMixtureClassifier

SHAPES = ["diag", "full", "tied", "spherical"]


@pytest.mark.parametrize("covariance", SHAPES)
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


@pytest.mark.parametrize("covariance", SHAPES)
@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e30, 1e150])
def test_units_do_not_matter(covariance, scale):
    X, y = load_iris(return_X_y=True)
    plain = GaussianMixtureClassifier(covariance=covariance).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(
        GaussianMixtureClassifier(covariance=covariance).fit(X * scale, y).predict_proba(X * scale),
        plain,
        rtol=1e-6,
        atol=1e-9,
    )


@pytest.mark.parametrize("objective_name", ["likelihood", "conditional", "margin", "hybrid"])
@pytest.mark.parametrize("covariance", SHAPES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:X has no value")
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
        3, covariance=covariance, objective=objective_name, n_init=2, max_iter=20, random_state=0
    ).fit(X, y)
    check_finite(model, X)


def check_finite(model, X):
    proba = model.predict_proba(X)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-6)
    assert np.isfinite(model.impute(X)).all()
    assert np.isfinite(model.sample(5)[0]).all()
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(model.means_).all() and np.isfinite(model.covariances_).all()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_rows=st.integers(2, 30),
    n_features=st.integers(1, 6),
    n_classes=st.integers(1, 4),
    gaps=st.floats(0, 0.9),
    exponent=st.integers(-100, 100),
    covariance=st.sampled_from(SHAPES),
    n_components=st.integers(1, 4),
    weighted=st.booleans(),
)
@pytest.mark.filterwarnings("ignore")
def test_random_hostile_tables(seed, n_rows, n_features, n_classes, gaps, exponent, covariance, n_components, weighted):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n_rows, n_features)), rng.integers(0, 3)) * 10.0**exponent
    X[rng.random(X.shape) < gaps] = np.nan
    y = rng.integers(n_classes, size=n_rows)
    labelled = np.where(rng.random(n_rows) < 0.2, -1, y)
    labelled[0] = y[0]
    weight = rng.exponential(size=n_rows) if weighted else None
    model = GaussianMixtureClassifier(n_components, covariance=covariance, n_init=2, max_iter=15, random_state=0)
    model.fit(X, labelled, sample_weight=weight)
    check_finite(model, X)
    worst = np.diff(model.objective_curve_).min(initial=0.0)
    assert worst >= -1e-8 * max(np.abs(model.objective_curve_).max(), 1.0)  # rows without a value have a curve of zeros
