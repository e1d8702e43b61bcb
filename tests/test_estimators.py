"""scikit-learn's conventions, on every public estimator."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from latentia import GaussianMixtureClassifier

#: Checks that cannot hold, with the reason.
KNOWN = {}


@parametrize_with_checks([GaussianMixtureClassifier()], expected_failed_checks=lambda estimator: KNOWN)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def test_grid_search_pipeline_and_pickle(iris):
    X, y = iris
    pipeline = make_pipeline(StandardScaler(), GaussianMixtureClassifier(random_state=0))
    search = GridSearchCV(pipeline, {"gaussianmixtureclassifier__n_components": [1, 2]}, cv=3).fit(X, y)
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict_proba(X), search.predict_proba(X))
    assert clone(search.best_estimator_[-1]).get_params() == search.best_estimator_[-1].get_params()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_results_do_not_depend_on_the_number_of_threads(iris, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40_000, 8)), rng.integers(3, size=40_000)
    results = []
    for threads in ["1", "2"]:
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        results.append(GaussianMixtureClassifier(2, n_init=1, max_iter=3, tol=0, random_state=0).fit(X, y).means_)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("frame", ["pandas", "polars"])
def test_frames_keep_their_names(frame, iris):
    library = pytest.importorskip(frame)
    X, y = iris
    names = ["a", "b", "c", "d"]
    table = library.DataFrame(dict(zip(names, X.T, strict=True)))
    model = GaussianMixtureClassifier().fit(table, y)
    assert model.feature_names_in_.tolist() == names
    np.testing.assert_array_equal(model.predict(table), GaussianMixtureClassifier().fit(X, y).predict(X))


@pytest.mark.parametrize(
    "unlabelled, classes",
    [(-1, [0, 1, 2]), (None, ["x", "y", "z"]), (np.nan, [0.0, 1.0, 2.0])],
)
def test_marks_of_unlabelled_rows(unlabelled, classes, iris):
    X, y = iris
    labels = np.array([classes[c] for c in y], dtype=object if unlabelled is None else None)
    labels[::3] = unlabelled
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


def test_rare_classes_keep_honest_probabilities():
    rng = np.random.default_rng(0)
    y = (rng.random(4000) < 0.05).astype(int)
    X = rng.normal(size=(4000, 4)) + 0.8 * y[:, None]
    model = GaussianMixtureClassifier(2, random_state=0).fit(X[:2000], y[:2000])
    assert abs(model.predict_proba(X[2000:])[:, 1].mean() - 0.05) < 0.01


def test_early_stopping_keeps_the_best_parameters():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 10)), rng.integers(2, size=80)
    X[:, 0] += y
    options = dict(n_components=2, objective="conditional", max_iter=300, random_state=0)
    early = GaussianMixtureClassifier(early_stopping=True, n_iter_no_change=5, **options).fit(X, y)
    assert early.stopping_reason_ == "converged: the loss on held-out rows stopped falling"
    late = GaussianMixtureClassifier(**{**options, "tol": 1e-3}).fit(X, y)
    assert early.n_iter_ < late.n_iter_


def test_callbacks_see_and_stop_the_fit(iris):
    X, y = iris
    seen = []

    def watch(step):
        seen.append((step.solver, step.iteration))
        return step.solver == "EM" and step.iteration == 2

    model = GaussianMixtureClassifier(2, tol=1e-12, callback=watch, random_state=0).fit(X, y)
    assert seen == [("EM", 1), ("EM", 2)]
    assert model.n_iter_ == 2 and model.stopping_reason_ == "stopped by the callback"


def test_scikit_learn_callbacks_get_estimators_that_predict(iris):
    callback = pytest.importorskip("sklearn.callback")
    X, y = iris

    class Watch:
        scores: list = []

        def setup(self, estimator, context): ...
        def teardown(self, estimator, context): ...
        def on_fit_task_begin(self, estimator, context): ...
        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            if fitted_estimator is not None:
                self.scores.append(fitted_estimator.score(X, y))
            return len(self.scores) == 3

    watch = Watch()
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
