"""What newcomers get without any option: answers as good and as quick as they may expect, on the snippets that once hurt."""

from __future__ import annotations

import time
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from latentia import (
    GaussianMixtureClassifier,
    LatentClassificationModel,
    LatentClassificationModelCV,
    LatentClassifier,
    MixtureOfExpertsClassifier,
    MultimodalSoftmaxClassifier,
    ProbitEmbeddingClassifier,
)

HALVES = StratifiedKFold(2, shuffle=True, random_state=0)


@contextmanager
def cpu_seconds(limit):
    """What a fit may cost; some five times what it does cost, of what it once cost a tenth."""
    started = time.process_time()
    yield
    assert time.process_time() - started < limit


def held_out(model, X, y, folds=5):
    """Accuracy and log loss of the first of some folds."""
    train, test = next(iter(StratifiedKFold(folds, shuffle=True, random_state=0).split(X, y)))
    take = (lambda rows: X.iloc[rows]) if hasattr(X, "iloc") else (lambda rows: X[rows])
    proba = model.fit(take(train), y[train]).predict_proba(take(test))
    return float((model.classes_[proba.argmax(axis=1)] == y[test]).mean()), float(log_loss(y[test], proba))


def mixed_cancer():
    """Six columns of the breast cancer table, and four of text and numbers that know of the class, with gaps."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    rng, y = np.random.default_rng(0), y.to_numpy()
    X = X.iloc[:, :6].copy()
    X["color"] = np.where(rng.random(569) < 0.6, np.array(["red", "blue"])[y], rng.choice(["red", "blue", "gray"], 569))
    X["grade"] = pd.Categorical(rng.choice(list("abcd"), 569))
    X["visits"] = rng.poisson(2 + y)
    X["smoker"] = rng.random(569) < 0.3
    return X.astype({"smoker": "boolean"}).mask(rng.random(X.shape) < 0.05), y


def test_a_mixed_table_is_learned_well_by_default():  # A1: accuracy 90.5 %, log loss 0.249
    assert LatentClassificationModel().n_latent == "auto"
    X, y = mixed_cancer()
    with cpu_seconds(10):
        accuracy, loss = held_out(LatentClassificationModel(random_state=0), X, y)
    assert accuracy > 0.92 and loss < 0.2


def test_fifty_categories_are_no_coffee_break():  # A3: 62 s
    rng, n = np.random.default_rng(0), 1000
    y = np.arange(n) % 2
    table = pd.DataFrame(rng.normal(size=(n, 6)) + 0.3 * y[:, None], columns=list("abcdef"))
    for size in (2, 3, 5, 8, 50):
        table[f"c{size}"] = [f"v{v}" for v in rng.integers(0, size, n)]
    table = table.mask(rng.random(table.shape) < 0.05)
    with pytest.warns(UserWarning, match="column 'c50' of X has 50 different values"), cpu_seconds(12):
        LatentClassificationModel(random_state=0).fit(table, y)


def test_digits_are_numbers_in_every_part():  # A4: 150 s, and cells called missing at prediction
    X, y = load_digits(return_X_y=True)
    with cpu_seconds(10):
        accuracy, _ = held_out(LatentClassificationModel(10, random_state=0), X, y, 2)
    assert accuracy > 0.85


@pytest.mark.parametrize("model", [MultimodalSoftmaxClassifier, MixtureOfExpertsClassifier])
def test_searches_are_cheap_where_one_piece_is_enough(model):  # A12: 3 s
    with cpu_seconds(5):
        assert held_out(model(random_state=0), *load_iris(return_X_y=True))[0] > 0.9


@pytest.mark.matrix
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("model", [MultimodalSoftmaxClassifier, MixtureOfExpertsClassifier])
def test_searches_on_thirty_columns_are_quick_and_their_probabilities_can_be_scored(
    model,
):  # A12: 11 and 19 s for three folds
    with cpu_seconds(6):
        _, loss = held_out(model(random_state=0), *load_breast_cancer(return_X_y=True), 3)
    assert loss < 0.2


@pytest.mark.matrix
def test_sizes_are_searched_in_seconds():  # A5: 40 s, and no better for it
    """Each half of the rows by the other: one fold of thirty rows says little of an accuracy."""
    X, y = load_iris(return_X_y=True)
    with cpu_seconds(14):
        predicted = cross_val_predict(LatentClassificationModelCV(random_state=0), X, y, cv=HALVES)
    assert (predicted == y).mean() > 0.94


@pytest.mark.matrix
def test_sizes_are_searched_in_seconds_on_thirty_columns():  # A5: 246 s, and accuracy 0.919
    with cpu_seconds(25):
        accuracy, _ = held_out(LatentClassificationModelCV(random_state=0), *load_breast_cancer(return_X_y=True), 2)
    assert accuracy > 0.93


@pytest.mark.matrix
def test_patience_goes_past_the_first_step_that_does_not_help():  # A5: one factor, accuracy 0.919
    X, y = load_breast_cancer(return_X_y=True)
    model = LatentClassificationModelCV(n_components=[1], n_init=3, random_state=0).fit(X, y)
    assert model.n_latent_ > 1 and model.best_score_ > 0.95


@pytest.mark.matrix
@pytest.mark.parametrize(
    "model, accuracy, loss",  # B: 88.7 % and 2.067; 51.1 % and 1.376; 70.2 % and 1.107
    [
        (GaussianMixtureClassifier(random_state=0), 0.95, 0.45),
        (LatentClassificationModel(random_state=0), 0.82, 0.6),
        (ProbitEmbeddingClassifier(), 0.9, 0.5),
    ],
    ids=lambda value: type(value).__name__,
)
def test_digits_by_default(model, accuracy, loss):
    found = held_out(model, *load_digits(return_X_y=True))
    assert found[0] > accuracy and found[1] < loss


@pytest.mark.matrix
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_first_estimator_is_as_good_as_any_on_a_mixed_table():
    X, y = mixed_cancer()
    accuracy, loss = held_out(LatentClassifier(effort="fast", random_state=0), X, y)
    assert accuracy > 0.93 and loss < 0.17


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model", [MultimodalSoftmaxClassifier(2), MixtureOfExpertsClassifier(3)], ids=lambda model: type(model).__name__
)
def test_no_probability_is_above_one_by_the_last_bit(model):
    """Metrics of scikit-learn refuse it: averages over points add up to one but for rounding."""
    X, y = load_breast_cancer(return_X_y=True)
    model.set_params(n_init=1, max_iter=30, random_state=0).fit(X, y)
    proba = model.predict_proba(np.concatenate([X, X.mean(axis=0) + 5 * (X - X.mean(axis=0))]))
    assert 1 - 1e-6 < proba.max() <= 1
