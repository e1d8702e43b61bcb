"""The same script of everyday use on every public estimator: pipelines, searches, calibration, ensembles, displays, frames."""

from __future__ import annotations

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from estimator_cases import CASES, answer, public_estimators
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import StackingClassifier, StackingRegressor, VotingClassifier, VotingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import PredictionErrorDisplay, RocCurveDisplay
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

#: One case of each public estimator, by discovery.
FIRST = {type(case.quick): case for case in reversed(CASES) if type(case.quick) in public_estimators()}
#: Those that fit many models try it in the matrix.
SLOW = dict.fromkeys(("LatentClassifier", "LatentClassificationModelCV"), [pytest.mark.matrix])
everyday = pytest.mark.parametrize(
    "first", [pytest.param(case, id=cls.__name__, marks=SLOW.get(cls.__name__, [])) for cls, case in FIRST.items()]
)

COLUMNS = ["a", "b", "c", "d"]


@pytest.fixture(autouse=True)
def quiet():
    plt.switch_backend("agg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a few steps are enough here
        yield
    plt.close("all")


@pytest.fixture
def model(first):
    """Few steps, one piece: this is about how tools and estimators meet."""
    quick = clone(first.quick).set_params(n_init=1, max_iter=4)
    return quick.set_params(**{name: 1 for name in ("n_experts", "n_subclasses") if name in quick.get_params()})


@pytest.fixture
def table(data):
    return pd.DataFrame(data.X, columns=COLUMNS, index=np.arange(100, 145))


@pytest.fixture
def target(first, data):
    """Classes as text, or numbers."""
    return np.array(["low", "mid", "top"])[data.classes] if is_classifier(first.quick) else data.numbers


def test_every_public_estimator_takes_part():
    assert set(FIRST) == public_estimators()


@everyday
def test_pipeline_and_column_transformer(model, table, target):
    scale = ColumnTransformer([("scale", StandardScaler(), ["a", "b"])], remainder="passthrough")
    scale.set_output(transform="pandas")
    pipeline = make_pipeline(scale, model).fit(table, target)
    assert pipeline.predict(table).shape == target.shape
    assert pipeline[-1].feature_names_in_.tolist() == ["scale__a", "scale__b", "remainder__c", "remainder__d"]


@everyday
def test_grid_search(model, table, target):
    search = GridSearchCV(model, {"max_iter": [2, 4]}, cv=2, error_score="raise").fit(table, target)
    assert search.best_params_["max_iter"] in (2, 4) and np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.predict(table).shape == target.shape


@everyday
def test_cross_validated_predictions(model, table, target):
    method = "predict_proba" if is_classifier(model) else "predict"
    found = cross_val_predict(model, table, target, cv=2, method=method)
    assert np.isfinite(found).all()
    if is_classifier(model):
        np.testing.assert_allclose(found.sum(axis=1), 1.0)


@everyday
def test_voting_and_stacking(model, table, target):
    pairs = [("one", model), ("two", clone(model).set_params(random_state=1))]
    if is_classifier(model):
        together = [VotingClassifier(pairs, voting="soft"), StackingClassifier(pairs, LogisticRegression(), cv=2)]
    else:
        together = [VotingRegressor(pairs), StackingRegressor(pairs, Ridge(), cv=2)]
    for ensemble in together:
        assert ensemble.fit(table, target).predict(table).shape == target.shape


@everyday
def test_calibration(model, table, target):
    if not is_classifier(model):
        with pytest.raises(ValueError):  # there is nothing to calibrate
            CalibratedClassifierCV(model, cv=2).fit(table, target)
        return
    proba = CalibratedClassifierCV(model, cv=2).fit(table, target).predict_proba(table)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)


@everyday
def test_permutation_importance_and_displays(model, table, target):
    binary = np.where(target == "low", "low", "other") if is_classifier(model) else target
    model.fit(table, binary)
    found = permutation_importance(model, table, binary, n_repeats=2, random_state=0)
    assert found.importances_mean.shape == (4,) and np.isfinite(found.importances_mean).all()
    if is_classifier(model):
        assert RocCurveDisplay.from_estimator(model, table, binary, pos_label="low").roc_auc > 0.5
        assert CalibrationDisplay.from_estimator(model, table, binary, n_bins=3, pos_label="low").prob_true.size
    else:
        assert PredictionErrorDisplay.from_estimator(model, table, binary).y_pred.shape == (45,)


def frame_of(library: str, table: pd.DataFrame):
    if library == "pyarrow":
        return pytest.importorskip("pyarrow").Table.from_pandas(table, preserve_index=False)
    return pytest.importorskip("narwhals").from_native(pl.from_pandas(table))


@everyday
@pytest.mark.parametrize("library", ["pyarrow", "narwhals"])
def test_frames_of_any_library_are_tables(first, table, target, library, data, fits):
    """Those of pandas and polars have a law of their own, over all settings."""
    model, frame = clone(first.settled), frame_of(library, table)
    expected = answer(fits(first, "settled"), data.X)
    np.testing.assert_allclose(answer(model.fit(frame, target), frame), expected, rtol=1e-4, atol=1e-6)
