"""Fits that do not depend on how their rows were written down, and rows held out."""

import numpy as np
import pytest
from estimator_cases import answer, quietly

from latentia import MixtureOfExpertsClassifier, MixtureOfExpertsRegressor, MultimodalSoftmaxClassifier
from latentia.estimators.softmax.training import held_out_weight, hold_out, merge_equal_rows
from latentia.scale import tables as small_tables

SEARCHES = [
    MultimodalSoftmaxClassifier(max_subclasses=2, max_models=3, n_init=2, max_iter=10, random_state=0),
    MixtureOfExpertsClassifier(max_experts=2, n_init=2, max_iter=10, random_state=0),
    MixtureOfExpertsRegressor(max_experts=2, n_init=2, max_iter=10, random_state=0),
]


@pytest.mark.parametrize("model", SEARCHES, ids=lambda model: type(model).__name__)
def test_weights_are_repeats_and_order_is_nothing_to_the_last_digit(model):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)).round(1)
    y = (np.abs(X[:, 0]) > 0.7).astype(int) ^ (rng.random(60) < 0.1)
    weight = rng.integers(0, 4, 60)
    again = rng.permutation(np.repeat(np.arange(60), weight))
    weighted = quietly(model.fit, X, y, weight.astype(float))
    scores, said = weighted.search_results_["score"], answer(weighted, X)
    repeated = quietly(model.fit, X[again], y[again])
    np.testing.assert_array_equal(repeated.search_results_["score"], scores)
    np.testing.assert_array_equal(answer(repeated, X), said)
    assert len(scores) == 2 or len(scores) == 3
    unweighted = answer(quietly(model.fit, X, y), X)
    assert np.abs(unweighted - said).max() > 1e-3


def test_equal_rows_are_merged_with_their_weights():
    X = np.array([[1.0, 2.0], [-0.0, 1.0], [1.0, 2.0], [0.0, 1.0], [1.0, 2.0], [5.0, 5.0]])
    y = np.array([0, 1, 1, 1, 0, 0])
    rows, labels, weight = merge_equal_rows(X, y, np.array([1.0, 2.0, 3.0, 0.5, 4.0, 0.0]))
    found = {(*row, label): w for row, label, w in zip(rows.tolist(), labels.tolist(), weight, strict=True)}
    assert found == {(1.0, 2.0, 0): 5.0, (1.0, 2.0, 1): 3.0, (0.0, 1.0, 1): 2.5}
    assert merge_equal_rows(X[[0, 1]], y[[0, 1]], None)[2] is None


def test_a_quarter_of_each_class_is_held_out_and_equal_inputs_together():
    rng = np.random.default_rng(1)
    X = np.repeat(rng.normal(size=(200, 3)), 2, axis=0)
    y = np.repeat([0, 1], [120, 280])
    y[::10] = 1 - y[::10]  # some pairs of equal inputs have both labels
    apart = held_out_weight(X, y, None, 0.25, rng)
    assert set(apart) == {0.0, 1.0} and 0.2 < apart[y == 0].mean() < 0.3 and 0.2 < apart[y == 1].mean() < 0.3
    np.testing.assert_array_equal(apart[::2], apart[1::2])
    single = held_out_weight(X[::2], np.zeros(200, int), None, 0.25, rng)
    assert single.sum() == 50


def test_few_inputs_are_held_out_in_part():
    X, weight = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([10.0, 30.0, 25.0, 35.0])
    apart = held_out_weight(X, np.array([0, 1, 0, 1]), weight, 0.25, np.random.default_rng(0))
    np.testing.assert_allclose(apart, weight / 4)


@pytest.mark.parametrize("seed", range(4))
def test_a_search_holds_out_a_quarter_of_each_class_or_of_all_outputs(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(52, 2)), np.repeat([0, 1, 2], [40, 8, 4])
    for model, targets in (
        (MultimodalSoftmaxClassifier(), y),
        (MixtureOfExpertsClassifier(), y),
        (MixtureOfExpertsRegressor(), rng.normal(size=52)),
    ):
        rows = model._read_input(X, targets, None).rows
        rest, apart = hold_out(rows, np.random.default_rng(seed))
        assert rest.modeled.total_weight + apart.total_weight == pytest.approx(rows.modeled.total_weight)
        if targets is y:
            assert [(total.n_weighted, label) for label, total in apart.label_totals.items()] == [
                (10, 0),
                (2, 1),
                (1, 2),
            ]
        else:
            assert apart.total_weight == 13


def test_large_tables_are_taken_as_they_come(monkeypatch):
    monkeypatch.setattr(small_tables, "SMALL_TABLE_MIB", 0)
    X, y = np.zeros((40, 2)), np.repeat([0, 1], 20)
    data = MultimodalSoftmaxClassifier()._read_input(X, y, None)
    assert data.rows.modeled.X is X and not data.rows.are_distinct
    rest, apart = hold_out(data.rows, np.random.default_rng(0))
    assert np.bincount(apart.y).tolist() == [5, 5] and rest.modeled.total_weight == 30
