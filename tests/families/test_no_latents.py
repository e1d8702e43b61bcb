"""Without factors, products with the cells of rows give what the posterior of each row gives."""

import numpy as np
import pytest
from sklearn.base import clone
from tolerances import EQUAL

from latentia import LatentClassificationModel
from latentia.engine.rows import ArraySource, MaskedRows
from latentia.engine.tree import leaves
from latentia.families.latent_factors import e_step_gaussian as e_step_no_latents
from latentia.families.latent_factors.columns import LogisticColumnModel
from latentia.families.latent_factors.e_step import BoundRules, infer_rows
from latentia.families.latent_factors.e_step_gaussian import infer_without_latents
from latentia.families.latent_factors.family import LatentFactors
from latentia.families.latent_factors.kinds import COLUMN_MODELS, ColumnLayout
from latentia.families.latent_factors.posterior import BayesianLatentFactors

KINDS = [*COLUMN_MODELS, "categorical", "categorical", "continuous"]
N_ROWS = 60


def a_table(rng, gaps):
    layout = ColumnLayout.from_kinds(KINDS, [2 if kind == "binary" else 3 + k % 3 for k, kind in enumerate(KINDS)])
    X = np.empty((N_ROWS, len(KINDS)))
    for model in layout.models:
        X[:, list(model.columns)] = model.example_cells(rng.normal(size=(N_ROWS, len(model.columns))))
    if gaps:
        X[rng.random(X.shape) < 0.3] = np.nan
    return layout, ArraySource(X, np.arange(N_ROWS) % 3)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("uncertain", [False, True])
def test_scores_and_statistics_are_those_of_rows(gaps, tied, uncertain, rng):
    layout, source = a_table(rng, gaps)
    family = LatentFactors(layout, 3, 0, 2, tied=tied, bound_tol=1e-12)
    params, uncertainty = family.init(source, rng, 2), None
    if uncertain:
        bayesian = BayesianLatentFactors(family)
        params, uncertainty = bayesian.precompute(bayesian.init(source, rng, 2)).expected
    rows = source.preprocess(source.X)
    scores, posterior = infer_without_latents(layout, params, rows, uncertainty)
    by_rows = infer_rows(layout, params, rows, BoundRules(1e-12, 100), uncertainty)
    np.testing.assert_allclose(scores, by_rows.scores, **EQUAL)
    weight = rng.normal(size=scores.shape)
    assert posterior.latent_means(params, rows).shape == by_rows.latent_means(params, rows).shape
    statistics = [each.statistics(params, layout, rows, weight, False) for each in (posterior, by_rows)]
    for a, b in zip(leaves(statistics[0]), leaves(statistics[1]), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, **EQUAL)


def test_a_kind_without_terms_is_left_to_its_rows(rng, monkeypatch):
    layout, source = a_table(rng, True)
    family = LatentFactors(layout, 3, 0, 2)
    params = family.init(source, rng, 1)
    rows = MaskedRows(*source.preprocess(source.X))
    expected = family.infer(params, rows).log_joint
    monkeypatch.setattr(e_step_no_latents, "SharedBoundModel", LogisticColumnModel)  # which a categorical one is not
    assert infer_without_latents(layout, params, rows, None) is None
    np.testing.assert_allclose(family.infer(params, rows).log_joint, expected, **EQUAL)


@pytest.mark.parametrize("n_components", [1, 2])
def test_tables_laid_out_by_column_are_predicted_like_others(n_components, rng):
    """As data frames of numbers are."""
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 3)) + y[:, None]
    model = LatentClassificationModel(0, n_components, random_state=0)
    by_row, by_column = (clone(model).fit(table, y).predict_proba(table) for table in (X, np.asfortranarray(X)))
    np.testing.assert_allclose(by_column, by_row, rtol=1e-9)
