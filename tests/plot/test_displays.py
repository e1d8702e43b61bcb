"""Every display draws, and draws what it should."""

import copy
import inspect
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from estimator_cases import quietly
from sklearn.base import BaseEstimator
from sklearn.datasets import load_iris

import latentia
from latentia import (
    CalibrationDisplay,
    CompletionDisplay,
    EmbeddingDisplay,
    GaussianMixtureClassifier,
    LatentClassificationModel,
    LatentClassificationModelCV,
    LatentClassifier,
    LatentMapDisplay,
    LoadingsDisplay,
    MultimodalSoftmaxClassifier,
    ObjectiveCurveDisplay,
    ProbitEmbeddingClassifier,
    SearchResultsDisplay,
    StructureDisplay,
)
from latentia.apps.report.facts import Facts
from latentia.estimators.base.summary import loading_correlations
from latentia.plot.general import SCORES, class_names, visible_range

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True, as_frame=True)
    X.columns = ["sl", "sw", "pl", "pw"]
    return X, y


@pytest.fixture(scope="module")
def factors(iris):
    return LatentClassificationModel(3, random_state=0).fit(*iris)


def test_every_bad_option_of_a_display_is_named(factors, iris):
    """Also limits below one, which would leave out the last rows instead of keeping the first."""
    searched = Searched({"n_latent": [1, 2, 3], "mean_accuracy": [0.7, 0.9, 0.8], "mean_log_loss": [0.1, 0.4, 0.3]})
    searched.best_score_ = 0.9
    labels = np.stack([iris[1] == 0, iris[1] == 1], axis=1).astype(int)
    embedding = quietly(ProbitEmbeddingClassifier(2, max_iter=2).fit, iris[0], labels)
    given = {
        CalibrationDisplay: (factors, *iris),
        CompletionDisplay: (factors, iris[0].to_numpy()[0]),
        EmbeddingDisplay: (embedding, iris[0], labels),
        LatentMapDisplay: (factors, *iris),
        LoadingsDisplay: (factors,),
        ObjectiveCurveDisplay: (factors,),
        SearchResultsDisplay: (searched,),
        StructureDisplay: (factors,),
    }
    assert {cls.__name__ for cls in given} == {name for name in latentia.__all__ if name.endswith("Display")}
    for cls, arguments in given.items():
        options = list(inspect.signature(cls.from_estimator).parameters)[len(arguments) :]
        plain = {"plot": False} if "plot" in options else {}
        plain |= {"shape": (2, 2)} if cls is CompletionDisplay else {}
        for name in set(options) - {"plot", "ax", "figure", "options", "shape"}:
            for value in ("nonsense", -3, 0.5) if not name.endswith("_names") else (["one name"],):
                if (name, value) != ("min_correlation", 0.5):
                    with pytest.raises(ValueError, match=rf"{name}( has|=)"):
                        cls.from_estimator(*arguments, **plain, **{name: value})


def test_every_display_has_a_picture_and_a_paragraph_in_the_documentation():
    names = [name for name in latentia.__all__ if name.endswith("Display")]
    assert len(names) == 8
    page = (ROOT / "docs/pictures.md").read_text(encoding="utf-8")
    pictures = sorted((ROOT / "docs/images/displays").glob("*.png"))
    for name in names:
        assert f"### `{name}`" in page
        assert hasattr(getattr(latentia, name), "from_estimator")
    for picture in pictures:
        assert f"images/displays/{picture.name}" in page and picture.stat().st_size < 60_000
    assert page.count("](images/displays/") == len(pictures)


def test_a_map_shows_every_row_once_and_ellipses_of_one_and_two_standard_deviations(factors, iris):
    X, y = iris
    some = y.astype(object).where(y.index % 5 > 0, None)
    display = LatentMapDisplay.from_estimator(factors, X, some)
    drawn = np.concatenate([marks.get_offsets() for marks in display.ax_.collections])
    assert len(drawn) == 150 and display.figure_ is display.ax_.figure
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert legend == ["0", "1", "2", "no label"]
    chosen = list(display.factors)
    np.testing.assert_allclose(display.positions, factors.transform(X)[:, chosen])
    stds = np.sqrt(factors.latent_variances_[:, chosen])
    for place, ellipse in enumerate(display.ellipses_):
        group, scale = place // 2, 1 + place % 2
        np.testing.assert_allclose(ellipse.center, factors.latent_means_[group, chosen])
        np.testing.assert_allclose([ellipse.width, ellipse.height], 2 * scale * stds[group])


def test_the_factors_of_a_map_tell_the_classes_apart_best_or_are_asked_for(factors, iris):
    X, y = iris
    means = factors.latent_means_
    between = factors.priors_ @ (means - factors.priors_ @ means) ** 2
    best = LatentMapDisplay.from_estimator(factors, X, plot=False).axis_names
    assert best == tuple(f"factor {k + 1}" for k in np.argsort(-between)[:2])
    asked = LatentMapDisplay.from_estimator(factors, X, y, factors=(2, 0), plot=False, max_points=40)
    assert asked.axis_names == ("factor 3", "factor 1") and asked.positions.shape == (40, 2)
    with pytest.raises(ValueError, match=r"factors=\(0, 3\); allowed are two different numbers from 0 to 2"):
        LatentMapDisplay.from_estimator(factors, X, y, factors=(0, 3))
    with pytest.raises(TypeError, match="GaussianMixtureClassifier without latent factors"):
        LatentMapDisplay.from_estimator(GaussianMixtureClassifier(random_state=0).fit(X, y), X, y)


def test_a_map_leaves_out_factors_that_explain_no_column(factors, iris):
    X, y = iris
    model, best = copy.copy(factors), LatentMapDisplay.from_estimator(factors, X, plot=False).factors
    model.loadings_ = np.where(np.arange(3) == best[0], 1e-3, 1.0) * factors.loadings_
    assert set(LatentMapDisplay.from_estimator(model, X, plot=False).factors) == {0, 1, 2} - {best[0]}
    assert f"factor {best[0] + 1}" not in LoadingsDisplay.from_estimator(model, plot=False).factor_names


@pytest.mark.parametrize("max_points", [40, 150])
def test_a_row_that_is_drawn_keeps_its_place_and_its_class(factors, iris, max_points):
    X, y = iris
    some = y.astype(object).where(y.index % 5 > 0, None)
    display = LatentMapDisplay.from_estimator(factors, X, some, max_points=max_points, plot=False)
    places = factors.transform(X)[:, display.factors]
    codes = {tuple(z): -1 if c is None else c for z, c in zip(places, some, strict=True)}
    assert display.codes.tolist() == [codes[tuple(z)] for z in display.positions]


def test_loadings_are_correlations_of_samples(factors):
    display = LoadingsDisplay.from_estimator(factors)
    np.testing.assert_array_equal(display.image_.get_array(), display.correlations)
    assert sorted(display.row_names) == ["pl", "pw", "sl", "sw"]
    assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == list(display.row_names)
    assert (np.abs(display.correlations) <= 1).all()
    assert ((display.correlations**2).sum(axis=1) <= 1 + 1e-9).all()
    shares = (factors.loadings_[0] ** 2).sum(axis=1)
    shares = shares / (shares + factors.noise_variances_[0])
    order = ["sl", "sw", "pl", "pw"]
    for name, row in zip(display.row_names, display.correlations, strict=True):
        assert (row**2).sum() == pytest.approx(shares[order.index(name)], abs=0.02)  # weak factors may be left out


@pytest.mark.parametrize("cls", [LoadingsDisplay, StructureDisplay])
def test_factors_keep_their_numbers_where_weak_ones_are_left_out(factors, cls):
    weak = copy.copy(factors)
    weak.loadings_ = factors.loadings_ * [1e-6, 1.0, 1.0]
    display = cls.from_estimator(weak, plot=False)
    numbers = [int(name.removeprefix("factor ")) for name in display.factor_names]
    assert numbers and 1 not in numbers
    found = loading_correlations(weak.loadings_, weak.loading_features_, weak.noise_variances_)
    rows = display.row_names if cls is LoadingsDisplay else display.feature_names
    places = [weak.feature_names_in_.tolist().index(name) for name in rows]
    np.testing.assert_allclose(display.correlations, found[np.ix_(places, np.array(numbers) - 1)])


@pytest.mark.parametrize("cls, most", [(LoadingsDisplay, "max_rows"), (StructureDisplay, "max_columns")])
def test_of_many_columns_those_are_shown_that_the_factors_tell_most_of(factors, cls, most):
    found = np.abs(loading_correlations(factors.loadings_, factors.loading_features_, factors.noise_variances_))
    display = cls.from_estimator(factors, plot=False, **{most: 2})
    rows = display.row_names if cls is LoadingsDisplay else display.feature_names
    assert set(rows) == set(factors.feature_names_in_[np.argsort(found.max(axis=1))[2:]])


def test_labels_of_a_matrix_have_their_names_or_numbers():
    labels = {"multilabel_": True, "classes_": np.arange(2)}
    assert class_names(SimpleNamespace(**labels, label_names_=np.array(["cat", "dog"]))) == ["cat", "dog"]
    assert class_names(SimpleNamespace(**labels)) == ["label 0", "label 1"]
    assert class_names(SimpleNamespace(classes_=np.array([3, 5]))) == ["3", "5"]


def test_columns_of_a_graph_stand_by_the_factors_that_they_have_an_edge_to():
    edges = np.array([[True, False], [False, True]])
    display = StructureDisplay(np.array([[0.3, 0.9], [0.9, 0.3]]), edges, ["a", "b"], ["factor 1", "factor 2"]).plot()
    places = {text.get_text(): text.get_position()[0] for text in display.ax_.texts}
    assert places["a"] < places["b"] and places["factor 1"] < places["factor 2"]


def test_shares_of_several_components_do_not_cancel():
    """Squares of the correlations are shares of the variance of a column, over all components."""
    loadings = np.array([[[1.0, 0.5], [0.0, 2.0]], [[-0.8, 0.5], [0.0, 1.0]]])
    found = loading_correlations(loadings, np.arange(2), np.array([[1.0, 0.5], [3.0, 0.5]]))
    explained = (loadings**2).mean(axis=0)
    np.testing.assert_allclose(found**2, explained / (explained.sum(axis=1) + [2.0, 0.5])[:, None])


def test_rows_of_a_column_of_categories_are_named_by_value(iris):
    X, y = iris
    color = np.array(["red", "green", "blue"], dtype=object)[(y + (X["sl"] > 6)) % 3]
    model = LatentClassificationModel(1, random_state=0, tol=0.1).fit(X[["pl"]].assign(color=color), y)
    names = LoadingsDisplay.from_estimator(model, plot=False).row_names
    assert set(names) == {"pl", "color = blue", "color = green", "color = red"}


def test_a_graph_has_an_edge_for_each_strong_correlation_or_learned_edge(factors, iris):
    display = StructureDisplay.from_estimator(factors, min_correlation=0.3)
    assert len(display.edges_) == display.edges.sum() == (np.abs(display.correlations) >= 0.3).sum()
    texts = [text.get_text() for text in display.ax_.texts]
    assert {"class", "sl", "sw", "pl", "pw", "factor 1"} <= set(texts)
    learned = LatentClassificationModel(2, structure="learn", n_init=1, random_state=0, tol=0.1).fit(*iris)
    learned.edges_ = learned.edges_ & ~np.eye(4, 2, dtype=bool)
    assert StructureDisplay.from_estimator(learned, plot=False).edges.sum() == learned.edges_.sum()
    learned.edges_ = np.array([[1, 0], [1, 0], [0, 1], [0, 0]], dtype=bool)
    one = StructureDisplay.from_estimator(learned, max_columns=1, plot=False)
    assert one.edges.tolist() == [[True]]  # and the factor that feeds no column that is shown is not shown
    place = ["sl", "sw", "pl"].index(one.feature_names[0])
    assert one.factor_names == [f"factor {1 + place // 2}"]


def test_a_curve_is_that_of_the_model(factors, iris):
    display = ObjectiveCurveDisplay.from_estimator(factors)
    np.testing.assert_array_equal(display.line_.get_ydata(), factors.objective_curve_)
    assert factors.stopping_reason_ in display.ax_.get_title()
    _, ax = plt.subplots()
    assert display.plot(ax=ax).ax_ is ax


def test_first_values_that_dwarf_the_others_are_cut_off():
    low, high = visible_range(np.array([-1e6, -50.0, -3.0, -2.0, -1.0]))
    assert -5 < low < -3 and -1 < high < 0
    assert visible_range(np.array([2.0])) == (1.5, 2.5)


def test_calibration_bins_hold_all_probabilities_and_their_outcomes(iris):
    X, y = iris
    model = GaussianMixtureClassifier(random_state=0).fit(X, y)
    display = CalibrationDisplay.from_estimator(model, X, y, n_bins=5)
    assert display.counts.sum() == 450
    assert display.counts @ display.observed == pytest.approx(150)  # one class of each row is true
    assert display.counts @ display.predicted == pytest.approx(150)
    assert (display.lower <= display.observed).all() and (display.observed <= display.upper).all()
    assert f"{display.error:.3f}" in display.ax_.get_title()
    partly = y.astype(object).where(y.index < 100, None)
    assert CalibrationDisplay.from_estimator(model, X, partly, plot=False).counts.sum() == 300


def test_rows_without_a_label_are_those_that_the_model_was_told_of(factors, iris):
    X, y = iris
    model, marked = copy.copy(factors).set_params(unlabeled=9), np.where(np.arange(150) < 100, y, 9)
    assert CalibrationDisplay.from_estimator(model, X, marked, plot=False).counts.sum() == 300
    expected = np.where(marked == 9, -1, marked)
    np.testing.assert_array_equal(LatentMapDisplay.from_estimator(model, X, marked, plot=False).codes, expected)
    np.testing.assert_array_equal(Facts.of(model, X, marked).codes, expected)  # and of the report


def test_intervals_of_calibration_cover_the_truth():
    rng = np.random.default_rng(0)
    p = rng.random(4000)
    true = (rng.random(4000) < p).astype(int)
    display = CalibrationDisplay.from_predictions(true, np.stack([1 - p, p], axis=1), plot=False)
    assert ((display.lower <= display.predicted) & (display.predicted <= display.upper)).mean() >= 0.8
    wrong = CalibrationDisplay.from_predictions(true, np.stack([1 - p**3, p**3], axis=1), plot=False)
    assert wrong.error > 5 * display.error
    with pytest.raises(ValueError, match=r"y has shape \(3,\) and proba \(4, 2\)"):
        CalibrationDisplay.from_predictions([0, 1, 0], np.full((4, 2), 0.5))
    with pytest.raises(ValueError, match="nothing to compare"):
        CalibrationDisplay.from_predictions([-1, -1], np.full((2, 2), 0.5))


@pytest.mark.parametrize(
    "classes", [(1, 2), (10, 20), (-1, 1), ("no", "yes"), (False, True), (0.0, 1.0), ("10", "9")], ids=str
)
def test_calibration_of_labels_goes_by_their_order(classes):
    """Whatever the classes are called, sorted they are the columns of the probabilities."""
    rng = np.random.default_rng(0)
    p, codes = rng.random(200), rng.integers(0, 2, 200)
    proba = np.stack([1 - p, p], axis=1)
    expected = CalibrationDisplay.from_predictions(codes, proba, plot=False)
    assert expected.counts @ expected.observed == pytest.approx(200)  # one class of each row came true
    y = np.array(classes)[codes]
    for labels in (y, y.tolist(), pd.Series(y)):
        found = CalibrationDisplay.from_predictions(labels, proba, plot=False)
        np.testing.assert_array_equal(found.observed, expected.observed)
    turned = CalibrationDisplay.from_predictions(y, proba[:, ::-1], classes=classes[::-1], plot=False)
    np.testing.assert_array_equal(turned.observed, expected.observed)


@pytest.mark.parametrize(
    ("y", "options"),
    [
        (["a", None, "b", "a"], {}),
        ([0.0, np.nan, 1.0, 0.0], {}),
        ([0, -1, 1, 0], {}),
        ([4, 7, 5, 4], {"unlabeled": 7}),
        (pd.Series([3, None, 4, 3], dtype="Int64"), {}),
    ],
)
def test_rows_of_unknown_class_do_not_count_in_calibration(y, options):
    proba = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8], [0.6, 0.4]])
    found = CalibrationDisplay.from_predictions(y, proba, plot=False, **options)
    expected = CalibrationDisplay.from_predictions([0, 1, 0], proba[[0, 2, 3]], plot=False)
    np.testing.assert_array_equal(found.observed, expected.observed)
    np.testing.assert_array_equal(found.counts, expected.counts)


def test_calibration_says_which_classes_it_needs():
    proba = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
    absent = CalibrationDisplay.from_predictions(["a", "c"], proba, classes=["a", "b", "c"], n_bins=2, plot=False)
    assert absent.observed.tolist() == [0.0, 1.0] and absent.counts.tolist() == [4, 2]
    for y in (["a", "c"], [1, 2], [0, 2]):
        with pytest.raises(ValueError, match=r"y has 2 classes .* and proba has 3 columns: .*classes=model.classes_"):
            CalibrationDisplay.from_predictions(y, proba, plot=False)
    with pytest.raises(ValueError, match="unlabeled=None if it is a class"):
        CalibrationDisplay.from_predictions([-1, 0, 1], proba[[0, 1, 0]], plot=False)
    of_signs = CalibrationDisplay.from_predictions([-1, 1], proba, classes=[-1, 0, 1], n_bins=2, plot=False)
    assert of_signs.observed.tolist() == [0.0, 1.0]
    with pytest.raises(ValueError, match=r"y holds the class 'd', which is not among classes=\['a', 'b', 'c'\]"):
        CalibrationDisplay.from_predictions(["a", "d"], proba, classes=["a", "b", "c"], plot=False)
    for classes in (["a", "c"], ["a", "a", "c"]):
        with pytest.raises(ValueError, match="allowed are 3 different ones"):
            CalibrationDisplay.from_predictions(["a", "c"], proba, classes=classes, plot=False)
    with pytest.raises(ValueError, match="all columns that predict_proba gives"):
        CalibrationDisplay.from_predictions(["a", "c"], proba[:, 1], plot=False)


def test_label_matrices_are_calibrated_entry_by_entry():
    codes = np.array([[1, 0], [-1, 1]])
    display = CalibrationDisplay.from_predictions(codes, np.array([[0.9, 0.2], [0.5, 0.9]]), n_bins=2, plot=False)
    assert display.counts.tolist() == [1, 2] and display.observed.tolist() == [0.0, 1.0]
    unknown = CalibrationDisplay.from_predictions([0, 1], [[0.9, 0.1], [np.nan, np.nan]], n_bins=2, plot=False)
    assert unknown.counts.tolist() == [1, 1] and unknown.observed.tolist() == [0.0, 1.0]  # of the first row alone


def test_what_was_tried_is_sorted_with_the_best_on_top(iris):
    X, y = iris
    searched = LatentClassificationModelCV([1, 2], [1], cv=2, n_init=1, tol=0.1, random_state=0).fit(X, y)
    display = SearchResultsDisplay.from_estimator(searched)
    assert set(display.names) == {"latent 1", "latent 2"}
    assert (np.diff(display.scores) <= 0).all() and display.score_name == "cross-validated accuracy"
    assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == list(display.names)
    top, bottom = display.ax_.get_ylim()
    assert top > bottom  # the first is on top
    softmax = MultimodalSoftmaxClassifier(max_subclasses=2, n_init=1, tol=1.0, random_state=0).fit(X, y)
    display = SearchResultsDisplay.from_estimator(softmax)
    assert (np.diff(display.scores) <= 0).all() and "subclasses (1, 1, 1)" in display.names
    with pytest.raises(TypeError, match="GaussianMixtureClassifier that has not searched"):
        SearchResultsDisplay.from_estimator(GaussianMixtureClassifier(covariance="diag", random_state=0).fit(X, y))


def test_the_best_of_what_was_tried_is_what_was_taken():
    """By accuracy, equal ones by log loss; by log loss where that has chosen."""
    table = {
        "n_latent": [1, 2, 3],
        "mean_accuracy": [0.7, 0.9, 0.9],
        "mean_log_loss": [0.1, 0.4, 0.3],
        "std_accuracy": [0.01, 0.02, 0.03],
        "std_log_loss": [0.1, 0.2, 0.3],
    }
    for best_score, names in (
        (0.9, ["latent 3", "latent 2", "latent 1"]),
        (-0.1, ["latent 1", "latent 3", "latent 2"]),
    ):
        searched = Searched(table)
        searched.best_score_ = best_score
        assert SearchResultsDisplay.from_estimator(searched, plot=False).names == names


class Searched(BaseEstimator):
    """Has tried some settings, with these scores."""

    def __init__(self, table):
        self.search_results_ = table

    def fit(self, X, y):
        return self


@pytest.mark.parametrize("column, error, name, more", SCORES)
def test_every_line_of_a_search_keeps_its_own_name_score_and_error(column, error, name, more):
    scores = {3: 0.5, 1: 0.9, 4: 0.1, 2: 0.7}
    table = {column: list(scores.values()), "n_latent": list(scores)}
    if error is not None:
        table[error] = [k / 100 for k in scores]
    display = SearchResultsDisplay.from_estimator(Searched(table), max_rows=3, plot=False)
    order = sorted(scores, key=scores.get, reverse=more)[:3]
    assert display.names == [f"latent {k}" for k in order] and display.score_name == name
    assert display.scores.tolist() == [scores[k] for k in order]
    assert error is None or display.errors.tolist() == [k / 100 for k in order]


def test_displays_take_a_stack(iris):
    model = LatentClassifier(effort="fast", cv=2, random_state=0).fit(*iris)
    names = SearchResultsDisplay.from_estimator(model, plot=False).names
    assert names == list(model.leaderboard_["candidate"])
    for display in (LatentMapDisplay, LoadingsDisplay, StructureDisplay, ObjectiveCurveDisplay):
        rows = {"X": iris[0], "y": iris[1]} if "X" in inspect.signature(display.from_estimator).parameters else {}
        assert display.from_estimator(model, **rows).figure_ is not None


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_pictures_of_classes_refuse_label_matrices(iris):
    X, y = iris
    model = LatentClassifier(effort="fast", cv=2, max_iter=2, random_state=0).fit(X, np.eye(3, dtype=int)[y])
    for ask in (
        lambda: LatentMapDisplay.from_estimator(model, X, plot=False),
        lambda: CompletionDisplay.from_estimator(model, X.iloc[0], shape=(2, 2), plot=False),
    ):
        with pytest.raises(
            ValueError, match="a LatentClassifier fitted to a label matrix; allowed are those fitted to"
        ):
            ask()


def test_the_calibration_error_is_that_of_all_probabilities_not_of_bins():
    proba = np.array([0.1, 0.1, 0.1, 0.1, 0.9])
    display = CalibrationDisplay.from_predictions([[0], [0], [0], [1], [0]], proba[:, None], n_bins=2, plot=False)
    assert display.error == pytest.approx((4 * abs(0.25 - 0.1) + abs(0 - 0.9)) / 5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("display", [LoadingsDisplay, StructureDisplay])
def test_pictures_say_how_many_columns_they_leave_out(display, rng):
    X = rng.normal(size=(60, 1)) * np.linspace(1, 3, 40) + rng.normal(size=(60, 40))
    model = LatentClassificationModel(2, 1, n_init=1, max_iter=5, tol=1.0, random_state=0).fit(X, X[:, 0] > 0)
    limit = {LoadingsDisplay: "max_rows", StructureDisplay: "max_columns"}[display]
    words = [text.get_text() for text in display.from_estimator(model, **{limit: 7}).ax_.texts]
    assert sum(text == "7 of 40 columns:\nthe largest loadings" for text in words) == 1
    words = [text.get_text() for text in display.from_estimator(model, **{limit: 40}).ax_.texts]
    assert not any("of 40" in text for text in words)


def test_factors_are_called_factors_however_many_there_are():
    names = [f"factor {k + 1}" for k in range(6)]
    display = StructureDisplay(np.ones((6, 6)), np.eye(6, dtype=bool), list("abcdef"), names).plot()
    words = [text.get_text().replace("\n", " ") for text in display.ax_.texts]
    assert set(names) <= set(words)
