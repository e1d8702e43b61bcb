"""scikit-learn's conventions, on every public estimator; then what all of one kind share, on one of them."""

import inspect
import pickle
import tracemalloc

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted
from tolerances import EQUAL

import latentia
from latentia import (
    GaussianMixtureClassifier,
    LatentClassificationModel,
    LatentClassificationModelCV,
    MixtureOfExpertsClassifier,
    MixtureOfExpertsRegressor,
    MultimodalSoftmaxClassifier,
    ProbitEmbeddingClassifier,
)

BRIEF = {"n_init": 1, "max_iter": 8, "tol": 1e-3, "random_state": 0}

#: Every public estimator, with settings that are quick.
EVERY = [
    GaussianMixtureClassifier(2, n_init=2, random_state=0),
    LatentClassificationModel(n_init=2, tol=1e-2, random_state=0),
    # a single factor is too few for the accuracy that scikit-learn asks for
    LatentClassificationModelCV([2], [1], cv=2, n_init=1, tol=1e-2, random_state=0),
    MixtureOfExpertsClassifier(2, **BRIEF),
    MixtureOfExpertsRegressor(2, **BRIEF),
    MultimodalSoftmaxClassifier(2, **BRIEF),
    ProbitEmbeddingClassifier(max_iter=30, random_state=0),
]

#: Checks that cannot hold, with the reason.
KNOWN = {
    MultimodalSoftmaxClassifier: {
        "check_sample_weight_equivalence_on_dense_data": "k-means starts draw rows, and the ascent from equal sums stops where rounding takes it: equal to 1e-7 only at the optimum",
    },
}


@parametrize_with_checks(
    [GaussianMixtureClassifier(), *EVERY, ProbitEmbeddingClassifier(prior="columns", max_iter=30)],
    expected_failed_checks=lambda estimator: KNOWN.get(type(estimator), {}),
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(params=EVERY, ids=lambda model: type(model).__name__)
def model(request):
    return clone(request.param)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def answer(model, X):
    """All that a fitted model says of rows."""
    return model.predict_proba(X) if hasattr(model, "predict_proba") else np.stack(model.predict(X, return_std=True))


def test_no_public_estimator_is_left_out():
    public = [getattr(latentia, name) for name in latentia.__all__]
    assert {type(m) for m in EVERY} == {c for c in public if inspect.isclass(c) and issubclass(c, BaseEstimator)}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_pickled_model_says_the_same_and_a_clone_has_learned_nothing(model, iris):
    X, y = iris
    before = pickle.dumps(model.get_params())
    model.fit(X, y)
    assert pickle.dumps(model.get_params()) == before
    np.testing.assert_array_equal(answer(pickle.loads(pickle.dumps(model)), X), answer(model, X))
    with pytest.raises(NotFittedError):
        check_is_fitted(clone(model))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_same_random_state_gives_the_same_model(model, iris):
    X, y = iris
    first, second = (answer(clone(model).set_params(random_state=3).fit(X, y), X) for _ in range(2))
    np.testing.assert_array_equal(first, second)


class Spoiled(Exception):
    """What the callback of a spoiled fit raises."""


def spoil(step):
    """Breaks a fit in its first step, a search only in the fit of its winner."""
    if hasattr(step, "solver"):
        raise Spoiled


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("mishap", ["infinite", "too few labels", "no labels", "other columns", "other outputs"])
def test_a_failed_fit_loses_nothing(model, mishap, iris):
    X, y = iris
    before, predicted = answer(model.fit(X, y), X), model.predict(X)
    names = sorted(vars(model))
    bad_X, bad_y = {
        "infinite": (np.where(X > 7, np.inf, X), y),
        "too few labels": (X, y[:-1]),
        "no labels": (X, np.full(150, np.nan)),
        "other columns": (X[:, :2] / 3, y),  # well, but for the callback
        "other outputs": (X, np.column_stack([y == 0, y == 1]).astype(int) if takes_matrices(model) else y == 0),
    }[mishap]
    if mishap.startswith("other"):
        model.set_params(callback=spoil)
    with pytest.raises((ValueError, Spoiled)):
        model.fit(bad_X, bad_y)
    assert sorted(vars(model)) == names
    np.testing.assert_array_equal(answer(model, X), before)
    np.testing.assert_array_equal(model.predict(X), predicted)


def takes_matrices(model):
    return model.__sklearn_tags__().target_tags.multi_output


def test_grid_search_and_pipeline(iris):
    X, y = iris
    pipeline = make_pipeline(StandardScaler(), GaussianMixtureClassifier(random_state=0))
    search = GridSearchCV(pipeline, {"gaussianmixtureclassifier__n_components": [1, 2]}, cv=3).fit(X, y)
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict_proba(X), search.predict_proba(X))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_results_do_not_depend_on_the_number_of_threads(iris, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40_000, 8)), rng.integers(3, size=40_000)
    results = []
    for threads in ["1", "2"]:
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        results.append(GaussianMixtureClassifier(2, n_init=1, max_iter=3, tol=0, random_state=0).fit(X, y).means_)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("frame", ["pandas", "polars"])
def test_frames_keep_their_names(model, frame, iris):
    library = pytest.importorskip(frame)
    X, y = iris
    names = ["a", "b", "c", "d"]
    table = library.DataFrame(dict(zip(names, X.T, strict=True)))
    X = table.to_numpy()  # its columns lie as the frame's: sums in another order round otherwise
    plain = answer(clone(model).fit(X, y), X)
    assert model.fit(table, y).feature_names_in_.tolist() == names
    np.testing.assert_allclose(answer(model, table), plain, **EQUAL)


@pytest.mark.parametrize(
    "unlabeled, classes",
    [(-1, [0, 1, 2]), (None, ["x", "y", "z"]), (np.nan, [0.0, 1.0, 2.0])],
)
def test_marks_of_unlabeled_rows(unlabeled, classes, iris):
    X, y = iris
    labels = np.array([classes[c] for c in y], dtype=object if unlabeled is None else None)
    labels[::3] = unlabeled
    model = GaussianMixtureClassifier().fit(X, labels)
    assert model.classes_.tolist() == classes
    assert (model.predict(X) == np.array(classes)[y]).mean() > 0.9


def test_minus_one_and_one_are_two_classes(iris):
    X, y = iris
    model = GaussianMixtureClassifier().fit(X[:100], 2 * y[:100] - 1)
    assert model.classes_.tolist() == [-1, 1] and model.score(X[:100], 2 * y[:100] - 1) == 1.0


def test_loss_matrix_changes_the_decision_and_nothing_else(iris):
    X, y = iris
    plain = GaussianMixtureClassifier().fit(X, y)
    loss = np.array([[0, 1, 1], [1, 0, 1], [100, 100, 0]])  # missing a virginica is dear
    careful = GaussianMixtureClassifier(loss_matrix=loss).fit(X, y)
    proba = careful.predict_proba(X)
    np.testing.assert_array_equal(proba, plain.predict_proba(X))
    np.testing.assert_array_equal(careful.predict(X), (proba @ loss).argmin(axis=1))
    assert (careful.predict(X) == 2).sum() > (plain.predict(X) == 2).sum()


def test_priors(iris):
    X, y = iris
    X, y = X[:130], y[:130]
    given = {0: 0.2, 1: 0.3, 2: 0.5}
    np.testing.assert_allclose(GaussianMixtureClassifier().fit(X, y).priors_, np.bincount(y) / 130)
    np.testing.assert_allclose(GaussianMixtureClassifier(priors="uniform").fit(X, y).priors_, 1 / 3)
    np.testing.assert_allclose(GaussianMixtureClassifier(priors=given).fit(X, y).priors_, [0.2, 0.3, 0.5])
    np.testing.assert_allclose(GaussianMixtureClassifier(priors=[2, 3, 5]).fit(X, y).priors_, [0.2, 0.3, 0.5])


def test_components_by_bic_count_weights():
    """A row of weight 11 is the row 11 times, one of weight zero is none, and weights that sum to one reward no parameter."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.repeat([0, 1], 30)
    X[0], weight = 9.0, np.ones(60)
    options = dict(n_components="bic", random_state=0, n_init=3)

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

    normal = GaussianMixtureClassifier(**options).fit(X, y, sample_weight=np.full(60, 1 / 60))
    assert normal.n_components_.tolist() == [1, 1]


def test_rare_classes_keep_honest_probabilities():
    rng = np.random.default_rng(0)
    y = (rng.random(4000) < 0.05).astype(int)
    X = rng.normal(size=(4000, 4)) + 0.8 * y[:, None]
    model = GaussianMixtureClassifier(2, random_state=0).fit(X[:2000], y[:2000])
    assert abs(model.predict_proba(X[2000:])[:, 1].mean() - 0.05) < 0.01


def test_callbacks_see_and_stop_the_fit(iris):
    X, y = iris
    seen = []

    def watch(step):
        seen.append((step.solver, step.iteration))
        return step.solver == "EM" and step.iteration == 2

    model = GaussianMixtureClassifier(2, tol=1e-12, callback=watch, random_state=0).fit(X, y)
    assert seen == [("EM", 1), ("EM", 2)]
    assert model.n_iter_ == 2 and model.stopping_reason_ == "stopped by the callback"


@pytest.mark.parametrize("objective_name", ["likelihood", "conditional", "hybrid"])
@pytest.mark.parametrize("n_components", [2, "bic"])
def test_a_callback_that_stops_a_fit_hears_of_no_further_step(iris, objective_name, n_components):
    X, y = iris
    seen = []

    def stop(step):
        seen.append((step.solver, step.iteration))
        return len(seen) == 2

    options = dict(objective=objective_name, tol=1e-12, random_state=0, n_init=2)
    model = GaussianMixtureClassifier(n_components, callback=stop, **options).fit(X, y)
    assert [solver for solver, _ in seen] == ["EM", "EM"]
    assert model.stopping_reason_ == "stopped by the callback" and not model.converged_
    own = model.predict_joint_log_proba(X)[np.arange(150), y].sum()  # the curve is that of EM, in the units of X
    np.testing.assert_allclose(model.objective_curve_[-1], own, **EQUAL)


def test_scikit_learn_callbacks_get_estimators_that_predict(iris):
    callback = pytest.importorskip("sklearn.callback")
    X, y = iris

    class Recorder:
        scores: list = []

        def setup(self, estimator, context): ...
        def teardown(self, estimator, context): ...
        def on_fit_task_begin(self, estimator, context): ...
        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            if fitted_estimator is not None:
                self.scores.append(fitted_estimator.score(X, y))
            return len(self.scores) == 3

    watch = Recorder()
    assert isinstance(watch, callback.FitCallback)
    model = GaussianMixtureClassifier(2, tol=1e-12, random_state=0).set_callbacks(watch).fit(X, y)
    assert len(watch.scores) == 3 and min(watch.scores) > 0.5
    assert model.stopping_reason_ == "stopped by the callback"


def test_verbose_shows_progress(iris, capsys):
    X, y = iris
    GaussianMixtureClassifier(2, verbose=1, random_state=0).fit(X, y)
    assert "EM step" in "".join(capsys.readouterr())


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
    y = np.arange(400) % 40
    X = rng.normal(size=(400, 100)) + y[:, None]
    X[rng.random(X.shape) < 0.1] = np.nan
    model = GaussianMixtureClassifier().fit(X, y)
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
