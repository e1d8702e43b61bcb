"""Rows that are held out are unknown to the models that are scored on them: neither training nor starts see their labels."""

import numpy as np
import pytest
from tolerances import EQUAL

from latentia import GaussianMixtureClassifier, LatentClassificationModel
from latentia.engine.rows import ArraySource
from latentia.estimators.base import training as unlabeled_weight
from latentia.estimators.base.estimator import StepNotifier

FEW_STEPS = {"n_init": 2, "max_iter": 3, "unlabeled": -1, "unlabeled_weight": 0.1, "random_state": 0}
MODELS = [
    GaussianMixtureClassifier(2, covariance="full", **FEW_STEPS),
    GaussianMixtureClassifier(1, covariance="tied", **FEW_STEPS),
    GaussianMixtureClassifier(2, inference="ml", **FEW_STEPS),
    LatentClassificationModel(2, 2, **FEW_STEPS),
    LatentClassificationModel(1, 2, inference="ml", **FEW_STEPS),
]


@pytest.fixture
def rows(rng):
    """Few labels, and which of them are held out."""
    X, y = rng.normal(size=(60, 3)), np.where(np.arange(60) < 24, np.arange(60) % 2, -1)
    return X, y, np.arange(60) % 24 < 6


@pytest.mark.parametrize("model", MODELS, ids=lambda m: f"{type(m).__name__}-{m.inference}-{m.n_components}")
@pytest.mark.filterwarnings("ignore:.*stopped before it converged")
def test_labels_of_rows_without_weight_are_not_seen(model, rows):
    X, y, held_out = rows
    held_out = held_out & (y >= 0)
    columns = np.stack([~held_out, np.ones(60)], axis=1).astype(float)

    def models(labels):
        data = model._read_input(X, labels, None)
        return [fit.model.log_proba(X) for fit in model._train_columns(data, columns, np.random.default_rng(0))]

    mine, all_rows = models(y)
    others, all_others = models(np.where(held_out, 1 - y, y))
    np.testing.assert_allclose(mine, others, **EQUAL)
    assert np.abs(all_rows - all_others).max() > 0.01  # which has seen them


def test_the_choice_of_a_weight_for_unlabeled_rows_does_not_see_held_out_labels(rows):
    X, y, _ = rows
    model = GaussianMixtureClassifier(2, covariance="full", unlabeled=-1, random_state=0)
    data = model._read_input(X, y, None)
    whole = data.make_source()
    family = model._plan(data, whole, np.random.default_rng(0), StepNotifier()).trained
    folds = np.where(y >= 0, np.arange(60) % 3, -1)
    seen = []
    for labels in (y, np.where(folds == 0, 1 - y, y)):
        source = ArraySource(data.X, labels, None, whole.preprocess)
        rng = np.random.default_rng(0)
        seen.append(
            unlabeled_weight._held_out_log_likelihoods(family, 2, source, folds, unlabeled_weight.WEIGHTS, rng)[
                ..., : (folds == 0).sum()
            ]
        )
    np.testing.assert_allclose(*seen, **EQUAL)
