"""Tables as newcomers bring them: what is read, and what is refused with a sentence that helps."""

import datetime

import numpy as np
import pytest

import latentia

ESTIMATORS = [
    latentia.GaussianMixtureClassifier(random_state=0),
    latentia.LatentClassificationModel(n_init=1, random_state=0),
    latentia.ProbitEmbeddingClassifier(),
    latentia.MultimodalSoftmaxClassifier(1),
    latentia.MixtureOfExpertsRegressor(1),
]
every_estimator = pytest.mark.parametrize("model", ESTIMATORS, ids=lambda m: type(m).__name__)


@pytest.fixture
def y():
    return np.arange(40) % 2


@pytest.mark.parametrize("model", ESTIMATORS[:2], ids=lambda m: type(m).__name__)
def test_masked_cells_are_missing(model, rng, y):
    X = rng.normal(size=(40, 3)) + y[:, None]
    mask = rng.random(X.shape) < 0.2
    masked = model.fit(np.ma.masked_array(X, mask), y).predict_proba(np.ma.masked_array(X, mask))
    np.testing.assert_array_equal(
        masked, model.fit(np.where(mask, np.nan, X), y).predict_proba(np.where(mask, np.nan, X))
    )


def test_masked_labels_are_unknown(rng, y):
    X, mask = rng.normal(size=(40, 2)) + y[:, None], np.arange(40) % 5 == 0
    a = latentia.GaussianMixtureClassifier().fit(X, np.ma.masked_array(y, mask))
    b = latentia.GaussianMixtureClassifier(unlabeled=-1).fit(X, np.where(mask, -1, y))
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))


@pytest.mark.parametrize("bad", [[np.inf, 0.0], [-np.inf, np.inf], [1.5, np.inf]])
def test_infinity_in_a_frame_is_refused(bad, y):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": np.arange(40.0), "c": np.resize(bad, 40)})
    with pytest.raises(ValueError, match="infinity"):
        latentia.LatentClassificationModel().fit(frame, y)


@every_estimator
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_dates_are_refused_by_the_name_of_their_column(model, zone, y):
    pandas = pytest.importorskip("pandas")
    dates = pandas.Series(pandas.date_range("2020", periods=40)).dt.tz_localize(zone)
    with pytest.raises(TypeError, match="column 'd' of X holds dates.*convert"):
        model.fit(pandas.DataFrame({"a": range(40), "d": dates}), y)


@every_estimator
@pytest.mark.parametrize("cell", [[1, 2], datetime.date(2020, 1, 1)], ids=["list", "date"])
def test_objects_are_refused_by_the_name_of_their_column(model, cell, y):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": range(40), "c": [cell] * 40})
    with pytest.raises(TypeError, match="column 'c' of X holds"):
        model.fit(frame, y)


@every_estimator
def test_tables_without_columns_are_refused(model, y):
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="no column"):
        model.fit(pandas.DataFrame(index=range(40)), y)


@every_estimator
def test_lazy_frames_are_refused_with_the_cure(model):
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match=r"call \.collect\(\)"):
        model.fit(polars.DataFrame({"a": [1.0, 2.0]}).lazy(), [0, 1])


@pytest.mark.parametrize("model", ESTIMATORS[:2], ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(
    "labels, message", [("target", "pass the labels themselves"), ([["a"], ["b", "c"]], "MultiLabelBinarizer")]
)
def test_labels_that_are_no_labels_are_refused_with_the_cure(model, labels, message):
    with pytest.raises(ValueError, match=message):
        model.fit([[0.0], [1.0]], labels)


def test_a_regressor_is_not_sent_to_classifiers(y):
    with pytest.raises(ValueError, match=r"SimpleImputer\(\), MixtureOfExpertsRegressor\(\)\)\.$"):
        latentia.MixtureOfExpertsRegressor(1).fit([[np.nan], [1.0], [2.0]], [0.0, 1.0, 2.0])


@pytest.mark.parametrize("model", ESTIMATORS[:2], ids=lambda m: type(m).__name__)
def test_densities_of_rows_with_gaps_change_with_the_units_of_their_known_cells(model, rng, y):
    X, units = rng.normal(size=(40, 3)) + y[:, None], np.array([0.01, 3.0, 200.0])
    X[rng.random(X.shape) < 0.3] = np.nan
    plain, scaled = model.fit(X, y).score_samples(X), model.fit(X * units, y).score_samples(X * units)
    np.testing.assert_allclose(scaled, plain - ~np.isnan(X) @ np.log(units), rtol=1e-6)


@pytest.mark.filterwarnings("ignore:Column 1 has no known value")
def test_categories_without_a_known_value():
    X = np.column_stack([np.arange(6.0), np.full(6, np.nan)])
    model = latentia.LatentClassificationModel(kinds=["continuous", "categorical"], random_state=0).fit(X, [0, 1] * 3)
    assert model.impute(X).dtype == np.float64 and model.sample(3)[0].dtype == np.float64
    np.testing.assert_array_equal(model.impute(X)[:, 0], X[:, 0])


@pytest.mark.parametrize("cell", [3.0, -1.0, 0.5])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_numbers_beside_the_codes_of_a_column_are_unknown(cell, rng):
    """Also the next one, which a new category would have."""
    X, y = np.column_stack([np.arange(30) % 3, rng.normal(size=30)]), np.arange(30) % 2
    model = latentia.LatentClassificationModel(
        1, kinds=["categorical", "continuous"], handle_unknown="error", max_iter=2, random_state=0
    ).fit(X, y)
    with pytest.raises(ValueError, match="which fit did not see"):
        model.predict([[cell, 0.0]])
