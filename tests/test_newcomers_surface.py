"""What newcomers stumbled on, at the surface: methods, options, messages, pictures, progress."""

from __future__ import annotations

import io
import itertools
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.exceptions import NotFittedError

from latentia import (
    GaussianMixtureClassifier,
    LatentClassificationModel,
    LatentClassificationModelCV,
    MixtureOfExpertsClassifier,
    MixtureOfExpertsRegressor,
    MultimodalSoftmaxClassifier,
    ProbitEmbeddingClassifier,
)
from latentia.estimators.base import estimator as progress_line
from latentia.solvers import Step

GENERATIVE = [
    GaussianMixtureClassifier(2, n_init=2, random_state=0),
    LatentClassificationModel(2, n_init=2, tol=1e-2, random_state=0),
]
generative = pytest.mark.parametrize("model", GENERATIVE, ids=lambda model: type(model).__name__)


@pytest.fixture
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture
def frame():
    """Iris as a data frame with gaps, an index of its own and a column of nullable integers."""
    X, y = load_iris(return_X_y=True, as_frame=True)
    X = X.set_axis(["a", "b", "c", "d"], axis=1).set_index(np.arange(1000, 1150))
    X["b"] = X["b"].mask(np.arange(150) % 3 == 0)
    X["n"] = pd.array(np.arange(150) % 7, dtype="Int64")
    return X, y.to_numpy()


# One behavior across the generative estimators.


@generative
def test_frames_in_and_frames_out(model, frame):
    X, y = frame
    full = model.fit(X, y).impute(X)
    assert list(full.columns) == list(X.columns) and full.index.equals(X.index)
    assert full.dtypes.equals(X.dtypes)
    pd.testing.assert_frame_equal(full.where(X.notna()), X)
    assert full.notna().all(axis=None)
    drawn, _ = model.sample(3)
    assert list(drawn.columns) == list(X.columns) and drawn["a"].dtype == X["a"].dtype


@generative
def test_polars_frames_come_back_as_polars_frames(model, frame):
    X, y = frame
    X = pl.from_pandas(X)
    full = model.fit(X, y).impute(X)
    assert isinstance(full, pl.DataFrame) and full.schema == X.schema and full.null_count().sum_horizontal()[0] == 0
    assert isinstance(model.sample(2)[0], pl.DataFrame)


@generative
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_latent_values_have_names(model, frame, library):
    X, y = frame
    latent = model.set_output(transform=library).fit(X, y).transform(X)
    model.set_output(transform="default")
    assert list(latent.columns) == list(model.get_feature_names_out()) and latent.shape[0] == 150


@generative
def test_responsibilities_are_probabilities(model, frame):
    X, y = frame
    found = model.fit(X, y).responsibilities(X)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)


def test_responsibilities_of_a_class_add_up_to_its_probability(iris):
    X, y = iris
    model = GaussianMixtureClassifier([1, 3, 2], n_init=2, random_state=0).fit(X, y)
    by_class = np.add.reduceat(model.responsibilities(X), [0, 1, 4], axis=1)
    np.testing.assert_allclose(by_class, model.predict_proba(X), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.transform(X), model.responsibilities(X))


@generative
def test_cells_are_completed_given_known_labels(model, frame):
    X, y = frame
    model.fit(X, y)
    nothing = X.iloc[:3].astype(float)
    nothing[:] = np.nan
    given = model.impute(nothing, [0, 1, 2])  # of a row without a known cell the class alone is known
    means = [model.impute(nothing, [c] * 3).iloc[0] for c in range(3)]
    for c in range(3):
        pd.testing.assert_series_equal(given.iloc[c], means[c], check_names=False)
    assert means[0]["c"] < means[1]["c"] < means[2]["c"]
    blind = model.impute(nothing)
    for unknown in ([-1, -1, -1], [None, None, None], [np.nan] * 3):
        pd.testing.assert_frame_equal(model.impute(nothing, unknown), blind)
    some = model.impute(nothing, [2, -1, 0])
    pd.testing.assert_series_equal(some.iloc[1], blind.iloc[1])
    pd.testing.assert_series_equal(some.iloc[0], means[2], check_names=False)
    with pytest.raises(ValueError, match="y holds the class 7, which was not seen in fit"):
        model.impute(nothing, [7, 0, 0])


@generative
def test_imputation_takes_the_same_options(model, frame):
    X, y = frame
    model.fit(X, y)
    by_class = model.impute(X, method="mode", condition="class")
    pd.testing.assert_frame_equal(by_class, model.impute(X, model.predict(X), method="mode"))
    with pytest.raises(ValueError, match="condition=1; allowed are 'class', or None"):
        model.impute(X, condition=1)
    with pytest.raises(ValueError, match="method='draw'; allowed are 'mean', 'median', 'mode'"):
        model.impute(X, method="draw")


def test_both_generative_estimators_share_names_and_iterations():
    mixture, factors = GaussianMixtureClassifier().get_params(), LatentClassificationModel().get_params()
    shared = (set(mixture) & set(factors)) - {"tol", "n_components"}
    assert {name: mixture[name] for name in shared} == {name: factors[name] for name in shared}


@pytest.mark.parametrize(
    "model", [MultimodalSoftmaxClassifier(1), MixtureOfExpertsClassifier(1), ProbitEmbeddingClassifier(1)]
)
def test_discriminative_classifiers_say_what_to_put_before_them(model, iris):
    X, y = iris
    X[3, 1] = np.nan
    name = type(model).__name__
    with pytest.raises(ValueError, match=rf"make_pipeline\(SimpleImputer\(\), {name}\(\)\), or use GaussianMixture"):
        model.fit(X, y)


def test_regressors_do_not_advise_classifiers(iris):
    X, y = iris
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="SimpleImputer") as caught:
        MixtureOfExpertsRegressor(1).fit(X, y)
    with pytest.raises(ValueError, match="OneHotEncoder") as other:
        MixtureOfExpertsRegressor(1).fit(pd.DataFrame({"a": ["u", "v"] * 75}), y)
    assert "Classif" not in str(caught.value) + str(other.value)


# The size of an embedding.


def test_two_classes_have_one_dimension_by_default():
    X, y = load_breast_cancer(return_X_y=True)
    model = ProbitEmbeddingClassifier(tol=1e-2).fit(X, y)
    assert model.n_latent_ == 1 and model.transform(X).shape == (569, 1)


def test_an_embedding_has_as_many_dimensions_as_labels_can_tell_apart(iris):
    X, y = iris
    model = ProbitEmbeddingClassifier(tol=1e-2).fit(X, y)
    assert model.n_latent_ == 2
    assert abs(np.corrcoef(model.transform(X).T)[0, 1]) < 0.99
    labels = (X[:, [0, 1, 2, 3, 0]] > [5, 3, 4, 1, 6]).astype(int)
    assert ProbitEmbeddingClassifier(tol=1e-1).fit(X, labels).n_latent_ == 4  # no more than there are columns
    assert ProbitEmbeddingClassifier(tol=1e-1).fit(X, labels[:, :3]).n_latent_ == 3


def test_default_embedding_of_many_classes_is_accurate():
    X, y = load_digits(return_X_y=True)
    model = ProbitEmbeddingClassifier(tol=1e-2).fit(X[:900], y[:900])
    assert model.n_latent_ == 9 and model.score(X[900:], y[900:]) > 0.88  # two dimensions have less than 0.7


# Summaries.


def people():
    """A frame of mixed columns with gaps, and labels of which some are unknown."""
    rng = np.random.default_rng(0)
    code = np.arange(60) % 2
    X = pd.DataFrame({"age": rng.normal(size=60) + code, "city": pd.Categorical(rng.choice(["u", "v"], 60))})
    X.loc[::4, "age"] = np.nan
    y = np.array(["no", "yes"], dtype=object)[code]
    y[:6] = None
    return X, y


def test_a_summary_counts_the_columns_and_classes_that_it_does_not_list(rng):
    X, y = rng.normal(size=(60, 17)), np.arange(60) % 15
    text = LatentClassificationModel(1, n_init=1, tol=1.0, random_state=0).fit(X, y).summary()
    listed = re.findall(r"continuous, [\d.]+% missing", text)
    assert len(listed) + int(re.search(r"(\d+) more columns", text)[1]) == 17
    classes = re.findall(r"4 rows \([\d.]+%\)", text)
    assert len(classes) + int(re.search(r"(\d+) more\n", text)[1]) == 15


def test_a_summary_speaks_of_one_row(rng):
    y = np.array(["a"] * 10 + ["b", None], dtype=object)
    told = GaussianMixtureClassifier(random_state=0).fit(rng.normal(size=(12, 2)), y).summary()
    assert "10 rows (90.9%)" in told and "1 row (9.1%)" in told and told.count("1 row\n") == 1 and "1 rows" not in told


def test_a_summary_tells_what_was_given_and_learned():
    X, y = people()
    model = LatentClassificationModel(1, n_init=1, tol=1e-2, random_state=0)
    with pytest.raises(NotFittedError):
        model.summary()
    text = model.fit(X, y).summary()
    for line in (
        r"rows +60",
        r"columns +1 continuous, 1 categorical",
        r"age +continuous, 25.0% missing",
        r"city +categorical, 2 values, 0.0% missing",
        r"no +27 rows \(50.0%\)",
        r"without a label +6 rows",
        r"latent dimensions +1",
        r"factor 1 explains +(age|city)",
        rf"iterations +{model.n_iter_}",
        rf"ended +{model.stopping_reason_}",
        r"time +[\d.]+ m?s",
    ):
        assert re.search(line, text), f"{line!r} is not in\n{text}"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_estimator_has_a_summary_and_shows_it_in_html(case, fits):
    model = fits(case, "quick")
    text = model.summary()
    assert text.startswith(type(model).__name__) and "Training" in text
    assert ("Labels" in text) == (case.target != "numbers")
    html = model._repr_html_()
    assert "sk-top-container" in html  # scikit-learn's own diagram stays
    assert "What was learned" in html and "iterations" in html
    assert "What was learned" in model._repr_mimebundle_()["text/html"]
    assert "What was learned" not in clone(model)._repr_html_()


def test_names_in_a_summary_are_escaped_in_html(iris):
    X, y = iris
    model = LatentClassificationModel(1, n_init=1, tol=1e-1).fit(pd.DataFrame(X, columns=["<b>", "x", "y", "z"]), y)
    assert "<td" in model._repr_html_() and "&lt;b&gt;" in model._repr_html_().split("What was learned")[1]


# Options that would be ignored, and components that describe nothing.


@pytest.mark.parametrize("model", [MultimodalSoftmaxClassifier, MixtureOfExpertsClassifier, MixtureOfExpertsRegressor])
@pytest.mark.parametrize("option", [{"criterion": "evidence"}, {"criterion": "bound"}, {"averaging": "posterior"}])
def test_options_without_a_meaning_are_refused(model, option, iris):
    ((name, value),) = option.items()
    with pytest.raises(ValueError, match=f"{name}='{value}' has no meaning with inference='ml'.*or inference='vb'"):
        model(1, inference="ml", **option).fit(*iris)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_more_components_than_rows_are_warned_of(iris):
    X, y = iris
    quick = {"covariance": "diag", "inference": "ml", "n_init": 1, "max_iter": 5, "random_state": 0}
    with pytest.warns(UserWarning, match="n_components=60, but class 0 has 50 rows: components without a row"):
        GaussianMixtureClassifier(60, **quick).fit(X, y)
    with pytest.warns(UserWarning, match="n_components=9, but class 2 has 8 rows"):
        GaussianMixtureClassifier([1, 1, 9], **quick).fit(X[:108], y[:108])
    with pytest.warns(UserWarning, match="n_components=20, but X has 15 rows"):
        LatentClassificationModel(1, 20, n_init=1, tol=1, random_state=0).fit(X[::10], y[::10])
    GaussianMixtureClassifier(50, **quick).fit(X, y)  # a row each is no reason


# Progress of slow fits.


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def slow_clock(monkeypatch):
    """A clock on which a second passes at every look."""
    ticks = itertools.count()
    monkeypatch.setattr(progress_line, "clock", lambda: float(next(ticks)))


@pytest.mark.parametrize(
    "model",
    [
        GaussianMixtureClassifier(2, tol=0, max_iter=60, random_state=0),
        LatentClassificationModelCV([1], [1], kinds="continuous", cv=2, n_init=1, tol=0, max_iter=60, random_state=0),
        MixtureOfExpertsClassifier(max_experts=2, n_init=1, max_iter=30, tol=1e-3, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_slow_fit_shows_one_line_on_a_terminal_and_removes_it(model, iris, slow_clock, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(progress_line.sys, "stderr", terminal)
    model.fit(*iris)
    shown = terminal.getvalue()
    assert f"{type(model).__name__}: 30.0 s, " in shown and "step" in shown
    assert "\n" not in shown  # one line, updated in place
    assert shown.endswith("\r") and shown.split("\r")[-2].strip() == ""  # and blank at the end


def test_a_shorter_line_leaves_nothing_of_a_longer_one(slow_clock, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(progress_line.sys, "stderr", terminal)
    monkeypatch.setattr(progress_line, "PATIENCE", 0.0)
    line = progress_line.ProgressLine("Model")
    for value in (-123456.0, 1.0):
        line(Step("EM", 1, value, 1, dict))
    longer, shorter = terminal.getvalue().split("\r")[1:]
    assert len(shorter) == len(longer) > len(shorter.rstrip())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_nothing_is_shown_elsewhere_or_early(iris, slow_clock, monkeypatch):
    pipe, terminal = io.StringIO(), Terminal()
    monkeypatch.setattr(progress_line.sys, "stderr", pipe)
    GaussianMixtureClassifier(2, tol=0, max_iter=60, random_state=0).fit(*iris)
    monkeypatch.setattr(progress_line.sys, "stderr", terminal)
    GaussianMixtureClassifier(1, covariance="diag", inference="ml", max_iter=5).fit(*iris)  # is over too soon
    assert pipe.getvalue() == terminal.getvalue() == ""


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_unlabeled", [0, 3, 4])
def test_components_may_describe_unlabeled_rows(n_unlabeled, rng):
    """Rows without a label can be of any class; rows of other classes cannot."""
    y = np.array([0] * 20 + [1] * 5 + [-1] * n_unlabeled)
    quick = {"covariance": "diag", "n_init": 1, "max_iter": 2, "random_state": 0, "unlabeled": -1}
    model = GaussianMixtureClassifier([2, 9], inference="ml", unlabeled_weight=1.0, **quick)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        model.fit(rng.normal(size=(y.size, 2)), y)
    said = [str(w.message) for w in caught if "n_components" in str(w.message)]
    assert len(said) == (n_unlabeled < 4)
    assert all(f"n_components=9, but class 1 has {5 + n_unlabeled} rows" in text for text in said)
