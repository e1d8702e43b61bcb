"""Streams: one pass over batches comes near to what a fit of all rows finds."""

import types
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import latentia
from latentia import GaussianMixtureClassifier, LatentClassificationModel

MODELS = pytest.mark.parametrize(
    "model",
    [
        GaussianMixtureClassifier(2, covariance="diag", marginals="normal"),
        GaussianMixtureClassifier(2, covariance="full", marginals="normal", inference="ml"),
        LatentClassificationModel(2, marginals="normal"),
        LatentClassificationModel(2, marginals="normal", inference="ml"),
    ],
    ids=["posterior", "points", "factors", "factor points"],
)


def stream(n=3000):
    """Two clusters in each class, rows with gaps, some without a label."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 4)) @ rng.normal(size=(4, 4)) + 2 * y[:, None] + 3 * rng.integers(0, 2, (n, 1))
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, np.where(rng.random(n) < 0.1, -1, y)


@MODELS
def test_one_pass_comes_near_to_the_batch(model):
    X, y = stream()
    model = clone(model).set_params(unlabeled=-1, unlabeled_weight=1.0, random_state=0)
    whole = clone(model).fit(X, y).score_samples(X).mean()
    first = clone(model).fit(X[:150], y[:150]).score_samples(X).mean()
    for start in range(0, 3000, 150):
        here = slice(start, start + 150)
        model.partial_fit(X[here], y[here], classes=[0, 1] if start == 0 else None)
    found = model.score_samples(X).mean()
    assert model.n_iter_ == 20 and len(model.objective_curve_) == 20
    assert abs(found - whole) < 0.01 * abs(whole), (found, whole, first)
    assert found > first + 0.5 * (whole - first)  # and it has learned from the stream


def test_weights_count_rows_and_batches_may_lack_classes():
    X, y = stream(900)
    model = GaussianMixtureClassifier(covariance="diag", unlabeled=-1, unlabeled_weight=1.0, random_state=0)
    twice, weighted = clone(model), clone(model)
    for m in (twice, weighted):
        m.partial_fit(X[:300], y[:300], classes=[0, 1])
    one = np.flatnonzero(y[300:600] == 1) + 300
    twice.partial_fit(np.r_[X[one], X[one]], np.r_[y[one], y[one]])
    weighted.partial_fit(X[one], y[one], sample_weight=np.full(one.size, 2.0))
    np.testing.assert_allclose(weighted.means_, twice.means_, rtol=1e-9)
    before = twice.priors_.copy()
    twice.partial_fit(X[600:], np.full(300, -1))
    assert not np.allclose(twice.priors_, before)


def test_a_saved_stream_goes_on(tmp_path):
    X, y = stream(600)
    for model in (GaussianMixtureClassifier(2), LatentClassificationModel(1)):
        model.set_params(unlabeled=-1, unlabeled_weight=1.0, random_state=0).partial_fit(X[:300], y[:300], [0, 1])
        model.save(tmp_path / "stream")
        loaded = latentia.load(tmp_path / "stream").partial_fit(X[300:], y[300:])
        assert "600" in loaded.summary() and loaded.training_record_["label_counts"] == np.bincount(y[y >= 0]).tolist()
        np.testing.assert_array_equal(loaded.predict_proba(X), model.partial_fit(X[300:], y[300:]).predict_proba(X))


def test_forgetting_follows_a_change():
    """The classes move after half of the stream."""
    rng = np.random.default_rng(0)
    models = {rate: GaussianMixtureClassifier(covariance="diag", marginals="normal") for rate in (0.51, 1.0)}
    for t in range(20):
        y = np.arange(200) % 2
        X = rng.normal(size=(200, 2)) + y[:, None] + (3.0 if t >= 10 else 0.0)
        for rate, model in models.items():
            model.partial_fit(X, y, classes=[0, 1], forgetting=rate)
    fast, even = (models[rate].means_.mean() for rate in (0.51, 1.0))
    assert fast > even + 0.5 and abs(even - 2.0) < 0.1  # the mean of 0.5 and 3.5


def test_a_fit_ends_a_stream_and_a_failed_batch_changes_nothing():
    X, y = stream(600)
    model = LatentClassificationModel(1, unlabeled=-1, unlabeled_weight=1.0, random_state=0)
    with pytest.raises(ValueError, match="classes=None"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="it must have rows of every class"):
        model.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="objective='hybrid'"):
        clone(model).set_params(objective="hybrid").partial_fit(X, y, classes=[0, 1])
    model.partial_fit(X[:300], y[:300], classes=[0, 1])
    before = model.loadings_.copy()
    for bad in ({"y": np.full(300, 7)}, {"X": X[300:, :2]}, {"classes": [0, 2]}, {"forgetting": 0.5}):
        with pytest.raises(ValueError):
            model.partial_fit(**{"X": X[300:], "y": y[300:], **bad})
        np.testing.assert_array_equal(model.loadings_, before)
    model.fit(X, y)
    assert not hasattr(model, "_stream_")


@MODELS
def test_batches_without_labels_leave_what_was_given(model):
    X, y = stream(200)
    model = clone(model).set_params(unlabeled=-1, unlabeled_weight=0.0, temperature=3.0, random_state=0)
    model.partial_fit(X[y >= 0], y[y >= 0], classes=[0, 1])
    before = model.predict_proba(X)
    model.partial_fit(X + 100, np.full(200, -1))
    assert model.temperature_ == 3 and model.unlabeled_weight_ == 0
    counts = np.bincount(y[y >= 0]).tolist()
    assert model.training_record_ == {"n_rows": 200 + sum(counts), "label_counts": counts, "n_unlabeled": 200}
    np.testing.assert_allclose(model.predict_proba(X), before, rtol=1e-6)


def test_the_temperature_is_that_of_the_last_batch_with_labels():
    rng, y = np.random.default_rng(0), np.arange(80) % 2
    X = rng.normal(size=(80, 2)) + 2 * y[:, None]
    model = GaussianMixtureClassifier(covariance="diag", marginals="normal", unlabeled=-1, random_state=0)
    found = [model.partial_fit(X, y, classes=[0, 1]).temperature_]
    found.append(model.partial_fit(X, rng.permutation(y)).temperature_)  # which say nothing of these labels
    found.append(model.partial_fit(X, np.full(80, -1)).temperature_)
    assert found[0] < 1.5 < 2.5 < found[1] == found[2]
    assert model.set_params(temperature=2.0).partial_fit(X, y).temperature_ == 2


def test_no_row_of_a_stream_is_kept():
    X, y = stream(300)
    for model in (GaussianMixtureClassifier(1, covariance="diag"), LatentClassificationModel(1)):
        model.set_params(unlabeled=-1, unlabeled_weight=1.0, random_state=0, max_iter=2)
        model.partial_fit(X, y, [0, 1], sample_weight=np.ones(300)).partial_fit(X, y)
        assert not [leaf for leaf in arrays_in(model) if 300 in leaf.shape]


def arrays_in(value, seen=None):
    """All arrays that an object holds, however deep."""
    seen = {} if seen is None else seen
    if id(value) in seen or isinstance(value, str | type | types.ModuleType | types.FunctionType):
        return
    seen[id(value)] = value
    if isinstance(value, np.ndarray):
        yield value
    parts = list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list | tuple) else []
    for part in [*parts, *getattr(value, "__dict__", {}).values()]:
        yield from arrays_in(part, seen)


@MODELS
def test_later_batches_may_have_gaps_where_the_first_has_none(model):
    """And are learned from as if the first had shown, in a row without weight, that there can be gaps."""
    X, y = stream(200)
    full, y = np.nan_to_num(X), np.maximum(y, 0)
    later = np.where(np.arange(4) % 2, np.nan, X[100:])
    warned, weight = full[:101].copy(), np.r_[np.ones(100), 0.0]
    warned[-1, 0] = np.nan
    answers = []
    for first, n_rows in ((full, 100), (warned, 101)):
        own = clone(model).set_params(random_state=0, max_iter=3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            own.partial_fit(first[:n_rows], y[:n_rows], classes=[0, 1], sample_weight=weight[:n_rows])
            before = own.score_samples(X)
            own.partial_fit(later, y[100:])
        answers.append(own.score_samples(X))
        assert not np.allclose(before, answers[-1])
    np.testing.assert_allclose(answers[0], answers[1], rtol=1e-6)
