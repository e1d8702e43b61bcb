"""How much unlabeled rows count: given by the user, or chosen by held-out labels."""

import numpy as np
import pytest
from tolerances import REFIT

from latentia import GaussianMixtureClassifier, LatentClassificationModel
from latentia.engine.rows import ArraySource
from latentia.estimators.base import training as unlabeled_weight
from latentia.estimators.base.training import N_FOLDS, WEIGHTS, assign_folds

MODELS = [
    GaussianMixtureClassifier(2, n_init=2, tol=1e-3, unlabeled=-1, random_state=0),
    LatentClassificationModel(2, tol=1e-2, unlabeled=-1, random_state=0),
]
both = pytest.mark.parametrize("model", MODELS, ids=["mixture", "factors"])


@pytest.fixture
def table(rng):
    y = np.arange(60) % 2
    return rng.normal(size=(60, 2)) + 1.5 * y[:, None], y


def fitted(model, X, y, weight=None, **options):
    return type(model)(**(model.get_params() | {"marginals": "normal"} | options)).fit(X, y, sample_weight=weight)


@both
def test_without_weight_unlabeled_rows_are_absent(model, table):
    """The table again without labels: columns keep their units, which are those of all rows."""
    X, y = table
    alone = fitted(model, X, y)
    twice = fitted(model, np.r_[X, X], np.r_[y, np.full(60, -1)], unlabeled_weight=0)
    np.testing.assert_allclose(twice.predict_joint_log_proba(X), alone.predict_joint_log_proba(X), **REFIT)
    assert (twice.unlabeled_weight_, alone.unlabeled_weight_) == (0.0, 1.0)
    counted = fitted(model, np.r_[X, X], np.r_[y, np.full(60, -1)], unlabeled_weight=1.0)
    assert np.abs(counted.predict_joint_log_proba(X) - alone.predict_joint_log_proba(X)).max() > 0.01


@both
def test_a_weight_of_one_half_is_a_sample_weight(model, table):
    """All rows are in pairs of equal moments, so that half a pair has the units of the whole."""
    X, y = table
    some = np.r_[y, np.full(60, -1)]
    half = fitted(model, np.r_[X, X], some, unlabeled_weight=0.5)
    weighted = fitted(model, np.r_[X, X], some, np.where(some < 0, 0.5, 1.0), unlabeled_weight=1.0)
    np.testing.assert_allclose(half.predict_proba(X), weighted.predict_proba(X), **REFIT)


def few_labels(seed, misleading, n=60):
    """Some labels, and many rows without: of the same two classes, or all at one point between them."""
    rng, y, unknown = np.random.default_rng(seed), np.arange(n) % 2, np.arange(500) % 2
    D, distance = (2, 2.0) if misleading else (20, 0.7)
    rows = (
        1 + 0.1 * rng.normal(size=(500, D)) if misleading else rng.normal(size=(500, D)) + distance * unknown[:, None]
    )
    return np.r_[rng.normal(size=(n, D)) + distance * y[:, None], rows], np.r_[y, np.full(500, -1)]


def test_the_weight_that_held_out_labels_prefer_is_chosen():
    model = GaussianMixtureClassifier(tol=1e-2, unlabeled=-1, random_state=0)
    chosen = [[fitted(model, *few_labels(s, m)).unlabeled_weight_ for s in range(3)] for m in (True, False)]
    assert set(np.ravel(chosen)) <= set(WEIGHTS)
    assert 0.0 in chosen[0] and max(chosen[0]) < 1.0 and 1.0 in chosen[1] and min(chosen[1]) > 0.0
    few = few_labels(0, False, 20)  # too few to choose by
    assert fitted(model, *few).unlabeled_weight_ == 0.0
    assert fitted(LatentClassificationModel(2, tol=1e-2, unlabeled=-1), *few).unlabeled_weight_ == 0.03


def test_folds_follow_the_rows(rng):
    X, y = np.repeat(rng.normal(size=(15, 3)), 2, axis=0), np.repeat(np.arange(15) % 2, 2)
    y[-4:] = -1
    folds = assign_folds(ArraySource(X, y), N_FOLDS)
    np.testing.assert_array_equal(folds[::2], folds[1::2])  # equal rows share one
    assert (folds[-4:] == -1).all() and set(folds[:-4]) == set(range(N_FOLDS))
    order = rng.permutation(30)
    np.testing.assert_array_equal(assign_folds(ArraySource(X[order][:, [2, 0, 1]], y[order]), N_FOLDS), folds[order])


def test_only_labeled_rows_count_towards_those_that_are_held_out(rng, monkeypatch):
    def look(*args):
        raise InterruptedError

    monkeypatch.setattr(unlabeled_weight, "_held_out_log_likelihoods", look)
    X, y = rng.normal(size=(90, 2)), np.arange(90) % 2
    model = GaussianMixtureClassifier(1, covariance="diag", unlabeled=-1, random_state=0)
    few = np.where(np.arange(90) < unlabeled_weight.MIN_LABELED - 1, y, -1)
    assert fitted(model, X, few).unlabeled_weight_ == 0.0
    with pytest.raises(InterruptedError):
        fitted(model, X, np.where(np.arange(90) < unlabeled_weight.MIN_LABELED, y, -1))


def test_of_many_rows_each_is_as_likely_to_choose_the_weight_whatever_it_weighs(rng, monkeypatch):
    """The rows that are drawn keep their weights: they would count twice if heavy ones were drawn more often."""
    monkeypatch.setattr(unlabeled_weight, "MAX_HELD_OUT_ROWS", 40)
    drawn = []

    def look(family, max_iter, source, folds, factors, rng):
        drawn.append(source.weight)
        raise InterruptedError

    monkeypatch.setattr(unlabeled_weight, "_held_out_log_likelihoods", look)
    X, y = rng.normal(size=(600, 2)), np.arange(600) % 2
    weight = np.where(np.arange(600) % 10 < 5, 0.01, 1.0)
    with pytest.raises(InterruptedError):
        fitted(MODELS[0], X, np.where(np.arange(600) % 3, y, -1), weight)
    assert len(drawn[0]) == 120 and 30 < (drawn[0] < 0.5).sum() < 90


@both
@pytest.mark.parametrize("seed", range(3))
def test_the_choice_counts_rows_by_their_weight(model, seed):
    """A row of weight two is that row twice, and one of weight zero is absent, where rows choose what they weigh."""
    rng, (X, y) = np.random.default_rng(seed), few_labels(seed, True)
    X, y = X[:160], y[:160]
    weight = rng.integers(0, 4, y.size)
    again, counted = np.repeat(np.arange(y.size), weight), weight > 0
    weighted = fitted(model, X, y, weight.astype(float))
    twice, absent = fitted(model, X[again], y[again]), fitted(model, X[counted], y[counted], weight[counted])
    for other in (twice, absent):
        assert weighted.unlabeled_weight_ == other.unlabeled_weight_
        np.testing.assert_allclose(weighted.class_offsets_, other.class_offsets_, atol=1e-6)


def test_larger_weights_must_lead_by_more():
    """By half a standard error for a tenth, by one and a half for full weight, and never by next to nothing."""
    noise = np.tile([1.0, -1.0], 50)  # of which the standard error is a tenth
    weight, none = np.ones(100), np.full(100, 3.0)

    def choice(tenth, full):
        return WEIGHTS[unlabeled_weight._best(np.stack([none, none - tenth + noise, none - full - noise]), weight)]

    assert choice(0.04, 0.14) == 0.0 and choice(0.06, 0.0) == 0.1 and choice(0.0, 0.16) == 1.0
    assert choice(0.06, 0.3) == 0.1  # whose error is twice that beside a tenth
    assert choice(0.06, 0.4) == 1.0
    slight = np.stack([none, none - 0.009, none - 0.018])
    assert WEIGHTS[unlabeled_weight._best(slight, weight)] == 1.0
    assert WEIGHTS[unlabeled_weight._best(slight[:, :1] + np.zeros((3, 100)) + [[0.0], [0.0], [0.009]], weight)] == 0.0
