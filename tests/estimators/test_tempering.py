"""How much a row says of its class."""

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.base import clone
from tolerances import REFIT

from latentia import GaussianMixtureClassifier, LatentClassificationModel
from latentia.estimators.base.fitted_model import (
    MAX_TEMPERATURE,
    OFFSET_PRECISION,
    LabeledRows,
    Tempering,
    best_tempering,
)


def test_columns_that_repeat_each_other_are_tempered_and_a_row_of_weight_two_counts_twice(rng):
    y = np.arange(80) % 2
    X = (rng.normal(size=80) + y)[:, None] + 0.3 * rng.normal(size=(80, 8))
    weight = rng.integers(1, 4, 80)
    model = GaussianMixtureClassifier(covariance="diag", marginals="normal", random_state=0)
    model.fit(X, y, sample_weight=weight.astype(float))
    weighted, offsets = model.temperature_, model.class_offsets_
    model.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted == pytest.approx(model.temperature_, rel=REFIT["rtol"]) and weighted > 1.2
    np.testing.assert_allclose(offsets, model.class_offsets_, atol=REFIT["rtol"])


@pytest.mark.parametrize("doubt", [0.0, 0.2])
def test_rows_are_never_made_surer_than_they_are(doubt):
    codes = np.arange(60) % 2
    said = np.where(np.arange(60) % 10 < 10 * doubt, 1 - codes, codes)  # which is right more often than it says
    log_likelihood = np.log(np.where(np.eye(2)[said] > 0, 0.6, 0.4)).T
    assert best_tempering(LabeledRows(log_likelihood, np.ones(60), codes, np.ones(60))).temperature == 1.0


def rows(rng, n_rows=90, size=4.0):
    """With log likelihoods that say class 0 too often."""
    codes = rng.integers(0, 3, n_rows)
    log_likelihood = size * rng.normal(size=(3, n_rows)) + size * np.eye(3)[:, codes] + size * np.eye(3)[:, :1]
    return LabeledRows(log_likelihood, rng.integers(0, 6, n_rows), codes, rng.uniform(0.2, 2.0, n_rows))


def objective(data, log_temperature, offsets):
    """By hand."""
    log_likelihood, known, codes, weight = data
    shares, prior_units = 1 + np.bincount(codes, weight, minlength=3), max(1.0, known.max()) * offsets
    scores = np.log(shares / shares.sum()) + log_likelihood.T / np.exp(log_temperature) + known[:, None] * offsets
    losses = -log_softmax(scores, axis=1)[np.arange(codes.size), codes]
    return weight @ losses + log_temperature**2 + OFFSET_PRECISION / 2 * prior_units @ prior_units


@pytest.mark.parametrize("size", [0.1, 4.0, 300.0])
def test_nothing_near_the_best_tempering_is_better(rng, size):
    data = rows(rng, size=size)
    best = best_tempering(data)
    value = objective(data, np.log(best.temperature), best.offsets)
    for _ in range(40):
        step = 1e-2 * rng.normal(size=4)
        log_temperature = np.clip(np.log(best.temperature) + step[0], 0.0, np.log(MAX_TEMPERATURE))
        near = log_temperature, best.offsets + step[1:]
        assert objective(data, *near) >= value - 1e-7 * abs(value)


def test_a_row_that_holds_everything_against_its_class_does_not_decide(rng):
    """A cell that no other row has can cost its class a hundred thousand nats, where log loss ends at 36."""
    data = rows(rng)
    found = []
    for nats in (50.0, 1e3, 1e5):
        odd = data.log_likelihood.copy()
        odd[data.codes[0], 0] = odd[:, 0].max() - nats
        found.append(best_tempering(data._replace(log_likelihood=odd).with_bounded_mistakes).temperature)
    assert (
        found[0] == pytest.approx(found[1]) == pytest.approx(found[2])
        and found[0] < 1.5 * best_tempering(data).temperature
    )


def test_rows_without_weight_have_no_say_in_the_best_tempering(rng):
    data = rows(rng)
    other, known = rows(rng, 2), np.r_[data.known, 40, 50]  # which would change the units of the offsets
    more = LabeledRows(
        np.c_[data.log_likelihood, other.log_likelihood],
        known,
        np.r_[data.codes, other.codes],
        np.r_[data.weight, 0, 0],
    )
    plain, found = best_tempering(data), best_tempering(more)
    assert found.temperature == pytest.approx(plain.temperature, rel=REFIT["rtol"])
    np.testing.assert_allclose(found.offsets, plain.offsets, **REFIT)


def test_offsets_bring_the_mean_probability_of_each_class_to_its_share(rng):
    """Up to their prior, whose slope is what is left of the difference."""
    log_likelihood, _, codes, weight = data = rows(rng, 900)
    known = np.ones(900)
    best = best_tempering(data._replace(known=known))
    shares = 1 + np.bincount(codes, weight, minlength=3)
    proba = np.exp(log_softmax(np.log(shares)[:, None] + best.apply(log_likelihood, known), axis=0))
    said, labeled = proba @ weight, np.bincount(codes, weight, minlength=3)
    np.testing.assert_allclose(said + OFFSET_PRECISION * best.offsets, labeled, rtol=1e-5)
    plain = Tempering(best.temperature)
    unmoved = np.exp(log_softmax(np.log(shares)[:, None] + plain.apply(log_likelihood, known), axis=0)) @ weight
    assert abs(unmoved - labeled).max() > 4 * abs(said - labeled).max()  # or the law would say nothing


def test_given_priors_do_not_change_what_rows_say(rng):
    y = (np.arange(300) % 10 == 0).astype(int)
    X = rng.normal(size=(300, 3)) + y[:, None]
    options = {"covariance": "diag", "marginals": "normal", "random_state": 0}
    own = GaussianMixtureClassifier(**options).fit(X, y)
    given = GaussianMixtureClassifier(**options, priors=[0.5, 0.5]).fit(X, y)
    assert given.temperature_ == pytest.approx(own.temperature_, rel=1e-3)
    np.testing.assert_allclose(given.class_offsets_, own.class_offsets_, atol=1e-3)


def test_a_given_temperature_points_and_streams_have_no_offsets(rng):
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    models = [GaussianMixtureClassifier(temperature=2.0), GaussianMixtureClassifier(inference="ml")]
    fitted = [model.set_params(random_state=0).fit(X, y) for model in models]
    some = np.where(np.arange(60) % 3 == 0, -1, y)  # whose weight labels are held out for, which ask for another
    fitted.insert(0, GaussianMixtureClassifier(temperature=2.0, unlabeled=-1, random_state=0).fit(X, some))
    fitted.append(GaussianMixtureClassifier(2, covariance="diag", random_state=0).partial_fit(X, y, classes=[0, 1]))
    assert [model.temperature_ for model in fitted[:3]] == [2.0, 2.0, 1.0]
    assert all((model.class_offsets_ == 0).all() and model.class_offsets_.shape == (2,) for model in fitted)


def test_rows_without_any_cell_have_the_priors_and_offsets_count_by_known_cells(rng):
    X, y = rng.normal(size=(90, 4)), np.arange(90) % 3
    X[y == 0] **= 3
    model = GaussianMixtureClassifier(covariance="diag", marginals="normal", random_state=0).fit(X, y)
    assert abs(model.class_offsets_).max() > 0.003  # or the law would say nothing
    np.testing.assert_allclose(model.predict_proba(np.full((1, 4), np.nan))[0], model.priors_, rtol=1e-9)
    gaps = np.where([True, False, False, True], np.nan, X)
    plain = GaussianMixtureClassifier(covariance="diag", marginals="normal", temperature=model.temperature_)
    odds = model.predict_log_proba(gaps) - plain.set_params(random_state=0).fit(X, y).predict_log_proba(gaps)
    expected = model.class_offsets_ - model.class_offsets_[0]
    np.testing.assert_allclose(odds - odds[:, :1], np.broadcast_to(2 * expected, odds.shape), atol=1e-8)


@pytest.mark.parametrize("size", [0.1, 4.0, 40.0])
def test_rounding_does_not_change_the_best_tempering(rng, size):
    data = rows(rng, size=size)
    moved = data._replace(log_likelihood=data.log_likelihood + 100.0)  # the same for all classes
    one, other = best_tempering(data), best_tempering(moved)
    assert one.temperature == pytest.approx(other.temperature, rel=1e-10)
    np.testing.assert_allclose(one.offsets, other.offsets, atol=1e-10)


def test_refined_probabilities_are_tempered_too(rng):
    y = np.arange(80) % 2
    X = (rng.random((80, 3)) < 0.3 + 0.4 * y[:, None]).astype(int)
    model = LatentClassificationModel(1, 1, kinds="binary", inference="ml", refine="importance", random_state=0)
    plain, tempered = (clone(model).set_params(temperature=t).fit(X, y) for t in (1.0, 3.0))
    log_odds = [np.diff(one.predict_log_proba(X), axis=1)[:, 0] for one in (plain, tempered)]
    prior = np.diff(np.log(plain.priors_))[0]
    np.testing.assert_allclose(log_odds[1] - prior, (log_odds[0] - prior) / 3.0, rtol=1e-6, atol=1e-9)
