"""Numbers that are far from all others of their column: a code of missing values, or a slip."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import latentia
from latentia.table.rows import FAR, far_cells

MODELS = [
    latentia.GaussianMixtureClassifier(max_iter=2),
    latentia.LatentClassificationModel(1, 1, max_iter=2),
    latentia.LatentClassificationModel(1, 1, kinds="count", max_iter=2),
    latentia.LatentClassifier(effort="fast", cv=2),
]
of_generative_models = pytest.mark.parametrize("model", MODELS, ids=str)


@pytest.fixture
def table(rng):
    """Whole numbers, which models of counts take, too."""
    return pd.DataFrame({"age": rng.integers(20, 70, 60), "visits": rng.poisson(3, 60)})


def told(model, table, **options):
    """What a fit says of columns."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.set_params(random_state=0).fit(table, np.arange(len(table)) % 2, **options)
    return [str(warning.message) for warning in found]


@of_generative_models
def test_cells_far_from_all_others_are_told_of_once(model, table):
    assert told(model, table) == []
    table.loc[[3, 5], "age"] = 9999
    (text,) = told(model, table)
    assert text.startswith("column 'age' of X holds 9999 in 2 of 60 known cells") and "visits" not in text
    assert told(model, table.assign(age=table["age"].astype(float).replace(9999, np.nan))) == []


@of_generative_models
def test_rows_without_weight_are_not_told_of(model, table):
    table.loc[3, "age"] = 9999
    assert told(model, table, sample_weight=(table["age"] < 9999).astype(float)) == []


def test_one_warning_names_the_first_columns(rng):
    X = rng.normal(size=(60, 8))
    X[0] = -1e6
    (text,) = told(latentia.GaussianMixtureClassifier(max_iter=2), X)
    assert text.count("column ") == 5 and "; 3 more columns" in text


@pytest.mark.parametrize(("unit", "origin"), [(1.0, 0.0), (-1e-9, 5.0), (1e9, -3e9)])
def test_units_and_signs_do_not_matter(rng, unit, origin):
    cells = np.append(rng.uniform(size=50), np.nan)
    for away, is_far in [(FAR + 1.5, True), (0.9 * FAR, False)]:
        found = far_cells((np.append(cells, [away] * 2)) * unit + origin)
        assert (found is not None) == is_far
    assert far_cells(np.append(cells, [60, 70]) * unit + origin).n_far == 2


@pytest.mark.parametrize(
    "cells",
    [
        np.exp(2 * np.random.default_rng(0).normal(size=1000)),
        np.random.default_rng(0).poisson(0.1, 1000),
        np.random.default_rng(0).standard_cauchy(50),
        np.repeat([0.0, 1e6], [30, 20]),  # two groups of equal cells
        np.append(np.zeros(30), 1.0),
        np.ones(30),
        np.full(30, np.nan),
    ],
    ids=str,
)
def test_long_tails_and_groups_are_not_far(cells):
    assert far_cells(np.asarray(cells, dtype=float)) is None
