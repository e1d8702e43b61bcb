"""scikit-learn's own checks on every public estimator; then what all of one kind share, on one of them."""

import pickle
import tracemalloc

import numpy as np
import pytest
from estimator_cases import POINTS, public_estimators
from scipy import stats
from sklearn import config_context
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator
from tolerances import EQUAL

from latentia import (
    GaussianMixtureClassifier,
    LatentClassificationModel,
    LatentClassificationModelCV,
    LatentClassifier,
    MixtureOfExpertsClassifier,
    MixtureOfExpertsRegressor,
    MultimodalSoftmaxClassifier,
    ProbitEmbeddingClassifier,
)
from latentia.engine.rows import ArraySource
from latentia.estimators.gaussian_mixture import _class_sizes

BRIEF = {"n_init": 1, "max_iter": 3, "tol": 1e-3, "random_state": 0}

#: Every public estimator, with settings that are quick.
CHECKED = [
    GaussianMixtureClassifier(2, covariance="diag", **BRIEF),
    LatentClassificationModel(n_components=1, **BRIEF | {"max_iter": 8}),
    MixtureOfExpertsClassifier(2, **BRIEF),
    MixtureOfExpertsRegressor(2, **BRIEF),
    MultimodalSoftmaxClassifier(2, **BRIEF),
    ProbitEmbeddingClassifier(max_iter=6, random_state=0),
]
SLOWLY_CHECKED = [
    LatentClassificationModel(**BRIEF),
    # a single factor is too few for the accuracy that scikit-learn asks for
    LatentClassificationModelCV([2], [1], cv=2, **BRIEF | {"max_iter": 8}),
    LatentClassifier(effort="fast", cv=2, **BRIEF | {"max_iter": 2}),
    GaussianMixtureClassifier(**BRIEF),
    ProbitEmbeddingClassifier(prior="columns", max_iter=12),
]


def parametrize_with_checks(estimators):
    """As scikit-learn's, with names that cost no drawing of every estimator for each of its checks."""
    pairs = [pair for estimator in estimators for pair in estimator_checks_generator(estimator)]
    names = [
        f"{type(estimator).__name__}-{getattr(check.func, 'func', check.func).__name__}" for estimator, check in pairs
    ]
    return pytest.mark.parametrize("estimator, check", pairs, ids=names)


@parametrize_with_checks(CHECKED)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.matrix
@parametrize_with_checks(SLOWLY_CHECKED)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks_of_slower_ones(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def test_no_public_estimator_goes_unchecked():
    assert {type(m) for m in CHECKED + SLOWLY_CHECKED} == public_estimators()


def test_grid_search_and_pipeline(iris):
    X, y = iris
    pipeline = make_pipeline(StandardScaler(), GaussianMixtureClassifier(covariance="diag", random_state=0))
    search = GridSearchCV(pipeline, {"gaussianmixtureclassifier__n_components": [1, 2]}, cv=3).fit(X, y)
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict_proba(X), search.predict_proba(X))


@pytest.mark.parametrize("covariance", ["full", "tied"])
def test_attributes_of_a_posterior_are_those_of_its_student_t(covariance):
    """`covariances_` are scale matrices, as documented: the density follows from them, `dof_` and `means_`."""
    X, y = load_iris(return_X_y=True)
    options = dict(covariance=covariance, marginals="normal", temperature=1.0, random_state=0)
    model = GaussianMixtureClassifier(1, **options).fit(X[:60, :2], y[:60])
    scale = model.covariances_[:, 0] if covariance == "full" else np.stack([model.covariances_] * 2)
    expected = [
        stats.multivariate_t(model.means_[c, 0], scale[c], model.dof_[c, 0]).logpdf(X[:60, :2])
        + np.log(model.priors_[c])
        for c in range(2)
    ]
    np.testing.assert_allclose(model.predict_joint_log_proba(X[:60, :2]), np.stack(expected, axis=1), rtol=1e-9)


def test_components_by_bic_count_weights():
    """A row of weight 11 is the row 11 times, one of weight zero is none, and weights that sum to one reward no parameter."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.repeat([0, 1], 30)
    X[0], weight = 9.0, np.ones(60)
    options = dict(n_components="bic", covariance="diag", marginals="normal", random_state=0, n_init=3)

    few = np.array([0, 1, 30, 31, 32])  # of class 0 two rows, one of them many times
    heavy = np.array([1.0, 11.0, 5.0, 5.0, 5.0])
    again = np.repeat(few, heavy.astype(int))
    weighted = GaussianMixtureClassifier(**options).fit(X[few], y[few], sample_weight=heavy)
    repeated = GaussianMixtureClassifier(**options).fit(X[again], y[again])
    np.testing.assert_array_equal(weighted.n_components_, repeated.n_components_)
    assert weighted.n_components_[0] == 2

    weight[2:30] = 0.0  # two rows left of class 0, too few for two components
    absent = GaussianMixtureClassifier(**options).fit(X, y, sample_weight=weight)
    assert absent.n_components_[0] == 1

    with pytest.warns(UserWarning, match="sample_weight sums to 1 over 60 rows"):
        normal = GaussianMixtureClassifier(**options).fit(X, y, sample_weight=np.full(60, 1 / 60))
    assert normal.n_components_.tolist() == [1, 1]


def test_components_by_bic_take_weights_that_are_shares_for_no_fewer_rows(rng):
    y = np.arange(60) % 2
    source = ArraySource(rng.normal(size=(60, 1)), y, None)
    assert _class_sizes(source, 2).tolist() == [30, 30]
    assert _class_sizes(source.with_weight(np.full(60, 3.0)), 2).tolist() == [90, 90]
    assert _class_sizes(source.with_weight(np.where(np.arange(60) < 10, 0.0, 0.01)), 2).tolist() == [25, 25]


def test_rare_classes_keep_honest_probabilities():
    rng = np.random.default_rng(0)
    y = (rng.random(4000) < 0.05).astype(int)
    X = rng.normal(size=(4000, 4)) + 0.8 * y[:, None]
    model = GaussianMixtureClassifier(2, random_state=0).fit(X[:2000], y[:2000])
    assert abs(model.predict_proba(X[2000:])[:, 1].mean() - 0.05) < 0.01


@pytest.mark.parametrize("objective_name", ["likelihood", "conditional", "hybrid"])
@pytest.mark.parametrize("n_components", [2, "bic"])
def test_a_callback_that_stops_a_fit_hears_of_no_further_step(iris, objective_name, n_components):
    X, y = iris
    seen = []

    def stop(step):
        seen.append((step.solver, step.iteration))
        return len(seen) == 2

    options = dict(objective=objective_name, tol=1e-12, random_state=0, n_init=2, unlabeled=-1, **POINTS)
    labels = y if objective_name == "likelihood" else np.where(np.arange(150) % 5 == 0, -1, y)  # which EM leaves out
    model = GaussianMixtureClassifier(n_components, callback=stop, **options).fit(X, labels)
    assert [solver for solver, _ in seen] == ["EM", "EM"]
    assert model.stopping_reason_ == "stopped by the callback" and not model.converged_
    own = model.predict_joint_log_proba(X)[np.arange(150), y][labels >= 0].sum()  # that of EM, in the units of X
    np.testing.assert_allclose(model.objective_curve_[-1], own, **EQUAL)


@pytest.mark.matrix
def test_cross_validation_in_processes(iris):
    X, y = iris
    one, two = (cross_val_score(GaussianMixtureClassifier(2, random_state=0), X, y, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_known_cells_are_imputed_as_they_are_in_any_precision(iris):
    X, y = iris
    model = GaussianMixtureClassifier().fit(X.astype(np.float32), y)
    gaps = X + 1e-12 * np.arange(4)
    gaps[::3, 1] = np.nan
    filled = model.impute(gaps)
    np.testing.assert_array_equal(filled[~np.isnan(gaps)], gaps[~np.isnan(gaps)])
    assert np.isfinite(filled).all() and filled.dtype == np.float64
    assert model.impute(gaps.astype(np.float32)).dtype == np.float32
    whole = np.full((3, 4), 2**25 + 1)
    np.testing.assert_array_equal(model.impute(whole), whole)


def test_imputation_takes_little_memory_for_many_classes_and_columns():
    rng = np.random.default_rng(0)
    y = np.arange(200) % 40
    X = rng.normal(size=(200, 100)) + y[:, None]
    X[rng.random(X.shape) < 0.1] = np.nan
    model = GaussianMixtureClassifier(covariance="diag").fit(X, y)
    with config_context(working_memory=1):
        tracemalloc.start()
        model.impute(X)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 4 * 2**20 < X.size * 40 * 8  # the table and the chunks of two threads, not a table for each class


def test_samples_of_many_columns_take_little_memory():
    X, y = np.random.default_rng(0).normal(size=(40, 1000)), np.arange(40) % 2
    for covariance in ("diag", "spherical"):
        model = GaussianMixtureClassifier(covariance=covariance).fit(X, y)
        tracemalloc.start()
        model.sample(5)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1000 * 1000 * 8 / 4  # not a matrix of the columns


@pytest.mark.matrix
def test_imputation_wants_the_library_of_the_rows_fitted(iris):
    torch = pytest.importorskip("torch")
    X, y = iris
    with config_context(array_api_dispatch=True):
        model = GaussianMixtureClassifier().fit(torch.asarray(X), torch.asarray(y))
        with pytest.raises(ValueError, match=r"GaussianMixtureClassifier.impute\(\) must use the same namespace"):
            model.impute(X)


@pytest.mark.parametrize("dispatch", [False, pytest.param(True, marks=pytest.mark.matrix)])
def test_a_fit_is_no_part_of_what_a_tensor_is_trained_through(iris, dispatch):
    torch = pytest.importorskip("torch")
    X, y = iris
    tracked = torch.asarray(X).requires_grad_()
    with config_context(array_api_dispatch=dispatch):
        model = GaussianMixtureClassifier().fit(tracked, y)
        for found in (model.means_, model.covariances_, model.predict_proba(tracked), model.impute(tracked)):
            assert not getattr(found, "requires_grad", False)
