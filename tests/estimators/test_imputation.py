"""What `impute` says of a missing cell beside the density of its row: the mean and the median of a skewed column."""

import copy
import dataclasses
from types import SimpleNamespace

import array_api_strict
import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from tolerances import NAMESPACE

from latentia import GaussianMixtureClassifier, LatentClassificationModel
from latentia.arrays.namespace import to_numpy
from latentia.families.gaussian_mixture.covariance import Covariance
from latentia.families.gaussian_mixture.family import Diagonal
from latentia.table.standardization import PowerTransform

SKEWED = 1  # the column that is log-normal; the others are normal


@pytest.fixture(scope="module")
def table():
    """Classes that differ in all columns; the skewed one follows the first."""
    rng = np.random.default_rng(0)
    y = np.arange(1000) % 2
    X = rng.normal(size=(1000, 3)) + 1.5 * y[:, None] * [1, 0, -1]
    X[:, SKEWED] = 100 * np.exp(0.5 * X[:, 0] + 0.7 * X[:, SKEWED] + 0.4 * y)
    return X, y


def with_gaps(table):
    X, _ = table
    return np.where(np.random.default_rng(1).random(X.shape) < 0.4, np.nan, X)


MODELS = {
    "full": GaussianMixtureClassifier(2, covariance="full", random_state=0),
    "tied, points": GaussianMixtureClassifier(1, covariance="tied", inference="ml", random_state=0),
    "diagonal, points": GaussianMixtureClassifier(3, covariance="diag", inference="ml", random_state=0),
    "factors": LatentClassificationModel(2, random_state=0),
    "factors, points": LatentClassificationModel(1, 2, inference="ml", noise="untied", random_state=0),
}


@pytest.fixture(scope="module", params=MODELS)
def fitted(request, table):
    model = MODELS[request.param].set_params(n_init=1, tol=1e-2, temperature=1).fit(*table)
    assert isinstance(model._model.preprocessor, PowerTransform)
    np.testing.assert_array_equal(model._model.preprocessor.power != 1.0, [False, True, False])
    return model


def density_of_cell(row, score):
    """A fine grid of values for the skewed cell of a row, and the probabilities of the cells between them."""
    grid = np.linspace(-600.0, 12_000.0, 20_000)
    rows = np.tile(row, (grid.size, 1))
    rows[:, SKEWED] = grid
    log_density = score(rows)
    mass = np.exp(log_density - log_density.max())
    return grid, mass / mass.sum()


@pytest.mark.parametrize("known", [[], [0], [0, 2]], ids=str)
def test_the_mean_is_the_integral_of_the_density(fitted, table, known):
    """Cells beyond those that were seen count as the last of them."""
    X, _ = table
    row = np.full(3, np.nan)
    row[known] = X[3, known]
    grid, mass = density_of_cell(row, fitted.score_samples)
    expected = mass @ np.clip(grid, X[:, SKEWED].min(), X[:, SKEWED].max())
    found, median = (fitted.impute(row[None], method=method)[0, SKEWED] for method in ("mean", "median"))
    assert found == pytest.approx(expected, rel=0.005)
    assert found > 1.1 * median  # or the law would say little


@pytest.mark.parametrize("name", ["tied, points", "factors"])
@pytest.mark.parametrize("code", [0, 1])
def test_the_median_of_one_component_halves_the_mass(table, name, code):
    X, y = table
    model = MODELS[name].set_params(n_init=1, tol=1e-2, temperature=1).fit(X, y)
    row = X[5].copy()
    row[SKEWED] = np.nan
    grid, mass = density_of_cell(row, lambda rows: model.predict_joint_log_proba(rows)[:, code])
    found = model.impute(row[None], [code], method="median")[0, SKEWED]
    assert mass[grid < found].sum() == pytest.approx(0.5, abs=0.003)


def test_columns_that_stay_as_they_are_have_one_answer(fitted, table):
    gaps = with_gaps(table)
    mean, median, mode = (fitted.impute(gaps, method=method) for method in ("mean", "median", "mode"))
    np.testing.assert_array_equal(median, mode)
    np.testing.assert_allclose(mean[:, [0, 2]], median[:, [0, 2]], rtol=1e-12, atol=1e-14)
    assert (mean != median)[np.isnan(gaps)[:, SKEWED], SKEWED].all()


@pytest.mark.parametrize("make", [GaussianMixtureClassifier, LatentClassificationModel])
def test_without_a_transform_mean_and_median_are_the_same_numbers(table, make):
    _, y = table
    gaps = with_gaps(table)
    model = make(marginals="normal", random_state=0, max_iter=20, tol=1e-1).fit(gaps, y)
    np.testing.assert_array_equal(model.impute(gaps), model.impute(gaps, method="median"))


def test_columns_of_other_kinds_have_one_answer(table):
    """Beside a skewed column they keep what is expected of them."""
    X, y = table
    rng = np.random.default_rng(2)
    codes = np.column_stack([rng.random(1000) < 0.3 + 0.4 * y, rng.integers(3, size=1000), rng.poisson(2 + y)])
    whole = np.column_stack([X[:, SKEWED], codes, rng.integers(4, size=1000)])[:300]
    gaps = np.where(rng.random(whole.shape) < 0.3, np.nan, whole)
    kinds = ["continuous", "binary", "categorical", "count", "ordinal"]
    model = LatentClassificationModel(1, kinds=kinds, random_state=0, max_iter=10, tol=1e-1).fit(gaps, y[:300])
    mean, median = (model.impute(gaps, method=method) for method in ("mean", "median"))
    np.testing.assert_array_equal(mean[:, 1:], median[:, 1:])
    assert (mean > median)[np.isnan(gaps[:, 0]), 0].all()


def test_a_family_without_variances_fills_medians(fitted, table):
    gaps = with_gaps(table)
    family = fitted._model.family
    bare = SimpleNamespace(
        n_classes=2,
        infer=family.infer,
        impute=family.impute,
        impute_floats_per_row=family.impute_floats_per_row,
    )
    other = copy.copy(fitted)
    other._model = dataclasses.replace(fitted._model, family=bare)
    np.testing.assert_array_equal(other.impute(gaps), fitted.impute(gaps, method="median"))


def test_a_covariance_type_without_variances_takes_cells_as_certain(table, monkeypatch):
    X, y = table
    gaps = with_gaps(table)
    model = GaussianMixtureClassifier(1, covariance="diag", random_state=0).fit(X, y)
    monkeypatch.setattr(Diagonal, "conditional_variance", Covariance.conditional_variance)
    np.testing.assert_allclose(model.impute(gaps, y), model.impute(gaps, y, method="median"), rtol=1e-9)


def test_single_precision_is_near_double(table):
    _, y = table
    gaps = with_gaps(table)
    model = GaussianMixtureClassifier(1, covariance="tied", random_state=0, max_iter=20, tol=1e-1)
    double = model.fit(gaps, y).impute(gaps)
    single = model.fit(gaps.astype(np.float32), y).impute(gaps.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("has_gaps", [False, True])
def test_known_integers_that_no_float_holds_are_unchanged(library, has_gaps):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"order": rng.integers(2**60, 2**60 + 10**9, 40), "size": rng.normal(size=40)})
    frame.loc[0, "size"] = np.nan
    if has_gaps:
        frame["order"] = frame["order"].astype("Int64").mask(frame.index == 3)
    own = frame["order"].drop(3)
    assert (own != own.astype(float).astype(int)).any()
    make = {"pandas": lambda f: f, "polars": lambda f: pytest.importorskip("polars").from_pandas(f)}
    table = make.get(library, lambda f: pytest.importorskip("pyarrow").Table.from_pandas(f))(frame)
    full = GaussianMixtureClassifier(random_state=0).fit(table, np.arange(40) % 2).impute(table)
    cells = full["order"].to_pylist() if library == "pyarrow" else full["order"].to_list()
    assert [cells[k] for k in own.index] == own.tolist() and None not in cells


@pytest.mark.matrix
@pytest.mark.parametrize("method", ["mean", "median"])
def test_other_namespaces_agree(fitted, table, method):
    torch = pytest.importorskip("torch")
    gaps, y = with_gaps(table)[:200], table[1][:200]
    model = type(fitted)(**(fitted.get_params() | {"max_iter": 10}))
    expected = model.fit(gaps, y).impute(gaps, method=method)
    for xp in (torch, array_api_strict):
        with config_context(array_api_dispatch=True):
            there = xp.asarray(gaps)
            found = model.fit(there, xp.asarray(y)).impute(there, method=method)
        assert type(found) is type(there)
        np.testing.assert_allclose(to_numpy(found), expected, **NAMESPACE)
