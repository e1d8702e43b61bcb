"""Multilabel scores over known entries."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, hamming_loss

from latentia.evaluation.multilabel import known_f1_score, known_hamming_loss


@pytest.fixture
def labels(rng):
    return (rng.random((40, 5)) < 0.4).astype(int), (rng.random((40, 5)) < 0.5).astype(int)


def test_complete_labels_score_as_in_scikit_learn(labels, rng):
    truth, found = labels
    weight = rng.random(40)
    assert known_hamming_loss(truth, found) == pytest.approx(hamming_loss(truth, found))
    assert known_hamming_loss(truth, found, sample_weight=weight) == pytest.approx(
        hamming_loss(truth, found, sample_weight=weight)
    )
    for average in ("macro", "micro"):
        assert known_f1_score(truth, found, average=average) == pytest.approx(f1_score(truth, found, average=average))
        weighted = known_f1_score(truth, found, average=average, sample_weight=weight)
        assert weighted == pytest.approx(f1_score(truth, found, average=average, sample_weight=weight))


def test_unknown_entries_count_nothing(labels, rng):
    truth, found = labels
    unknown = rng.random(truth.shape) < 0.3
    for mark in (-1, np.nan):
        holes = np.where(unknown, mark, truth)
        for other in (found, np.where(unknown, 1 - found, found)):  # whatever is predicted there
            assert known_hamming_loss(holes, other) == pytest.approx((truth != found)[~unknown].mean())
            each = [f1_score(truth[~u, k], found[~u, k]) for k, u in enumerate(unknown.T)]
            assert known_f1_score(holes, other) == pytest.approx(np.mean(each))
            assert known_f1_score(holes, other, average="micro") == pytest.approx(
                f1_score(truth[~unknown], found[~unknown])
            )


def test_labels_without_positives_and_without_entries():
    truth = np.array([[1, 0, -1], [0, 0, -1]])
    found = np.array([[1, 0, 1], [0, 0, 0]])
    assert known_f1_score(truth, found) == 0.5
    assert known_f1_score(truth, found, zero_division=1.0) == 1.0


@pytest.mark.parametrize(
    "truth, found, message",
    [
        ([[1, 0]], [[1, 0], [0, 1]], r"y_true has shape \(1, 2\) and y_pred \(2, 2\)"),
        ([[1, 0]], [[1, -1]], "y_pred holds unknown entries"),
        ([[1, 0]], [[0.3, 0.7]], "y_pred holds 0.3; allowed in a label matrix"),
        ([[-1, -1]], [[0, 1]], "y_true has no known entry"),
        ([1, 0], [1, 0], r"y_true has shape \(2,\)"),
    ],
)
def test_bad_input_is_refused(truth, found, message):
    for score in (known_hamming_loss, known_f1_score):
        with pytest.raises(ValueError, match=message):
            score(truth, found)


@pytest.mark.parametrize("value", ["nonsense", -1, np.nan])
def test_a_bad_score_for_nothing_is_refused(value):
    with pytest.raises(ValueError, match=f"zero_division={value!r}; allowed is a finite number >= 0"):
        known_f1_score([[1]], [[1]], zero_division=value)


def test_an_unknown_average_is_refused():
    with pytest.raises(ValueError, match="average='weighted'; allowed are 'macro', 'micro'"):
        known_f1_score([[1]], [[1]], average="weighted")
