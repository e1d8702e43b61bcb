"""Laws of objectives: weights are derivatives, unlabeled rows are marginal, classes may be permuted."""

import numpy as np
import pytest
from tolerances import EQUAL, GRADIENT, STEP

from latentia.engine.sweep import Conditional, Hybrid, Likelihood, Margin, soft_hinge


@pytest.fixture
def scores(rng):
    return rng.normal(scale=3.0, size=(2, 4, 19)), rng.integers(-1, 4, size=19)


def test_weight_is_the_derivative_of_the_value(objective, scores):
    s, y = scores
    _, weight = objective.evaluate(s, y)
    numeric = np.empty_like(weight)
    for c in range(s.shape[-2]):
        step = np.zeros_like(s)
        step[..., c, :] = STEP
        numeric[..., c, :] = (objective.evaluate(s + step, y)[0] - objective.evaluate(s - step, y)[0]) / (2 * STEP)
    assert np.abs(weight - numeric).max() < 1e-4  # the kinks of the soft hinge are a finite step wide
    smooth = np.abs(weight - numeric) < GRADIENT * np.abs(numeric).max()
    assert smooth.mean() > 0.98


def test_weights_of_a_row_add_up(objective, scores):
    s, y = scores
    weight = objective.evaluate(s, y)[1].sum(axis=-2)
    if isinstance(objective, Likelihood | Hybrid):
        np.testing.assert_allclose(weight, 1.0, **EQUAL)
    else:
        np.testing.assert_allclose(weight, 0.0, **EQUAL)


@pytest.mark.parametrize("level", [0.0, -1e3, -1e5, -1e7, 1e7])
def test_weights_add_up_in_single_precision_however_far_the_scores_are(objective, level, rng):
    """Wide tables have scores so far from zero that float32 has few digits left for their differences."""
    s = (level + rng.integers(-4, 5, size=(2, 4, 19))).astype(np.float32)
    y = rng.integers(-1, 4, size=19)
    value, weight = objective.evaluate(s, y)
    assert value.dtype == weight.dtype == np.float32 and np.isfinite(value).all()
    expected = 1.0 if isinstance(objective, Likelihood | Hybrid) else 0.0
    np.testing.assert_allclose(weight.sum(axis=-2), expected, atol=8 * np.finfo(np.float32).eps)
    # the numbers that single precision rounds the scores to have these weights
    np.testing.assert_allclose(weight, objective.evaluate(s.astype(float), y)[1], rtol=1e-4, atol=1e-5)


def test_classes_may_be_permuted(objective, scores):
    s, y = scores
    order = np.array([2, 0, 3, 1])
    new_code = np.argsort(order)
    value, weight = objective.evaluate(s, y)
    permuted_value, permuted_weight = objective.evaluate(s[..., order, :], np.where(y < 0, -1, new_code[y]))
    np.testing.assert_allclose(permuted_value, value, **EQUAL)
    np.testing.assert_allclose(permuted_weight, weight[..., order, :], **EQUAL)


def test_unlabeled_rows_are_marginal(scores):
    s, _ = scores
    nobody = np.full(s.shape[-1], -1)
    marginal = np.logaddexp.reduce(s, axis=-2)
    np.testing.assert_allclose(Likelihood().evaluate(s, nobody)[0], marginal, **EQUAL)
    np.testing.assert_allclose(Hybrid(3.0).evaluate(s, nobody)[0], marginal, **EQUAL)
    assert not Conditional().evaluate(s, nobody)[1].any()
    assert not Margin().evaluate(s, nobody)[1].any()


def test_no_trade_off_is_likelihood(scores):
    s, y = scores
    for ours, theirs in zip(Hybrid(0.0).evaluate(s, y), Likelihood().evaluate(s, y), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("hybrid", Hybrid.examples(), ids=repr)
def test_a_hybrid_is_a_likelihood_and_so_many_times_its_margin(hybrid, scores):
    parts = Likelihood().evaluate(*scores), Margin(hybrid.margin, hybrid.ramp).evaluate(*scores)
    for ours, likelihood, margin in zip(hybrid.evaluate(*scores), *parts, strict=True):
        np.testing.assert_allclose(ours, likelihood + hybrid.trade_off * margin, **EQUAL)


def test_margin_bounds_the_number_of_errors(scores):
    s, y = scores
    s, y = s[0], np.maximum(y, 0)
    wrong = (s.argmax(axis=0) != y).sum()
    assert -Margin(margin=0.7).evaluate(s, y)[0].sum() / 0.7 >= wrong


def test_the_ramp_limits_the_loss_of_a_row():
    far = np.array([[0.0, 0.0], [1e3, 1e6]])
    value, weight = Margin(margin=1.0, ramp=2.0).evaluate(far, np.array([0, 0]))
    np.testing.assert_allclose(value, -2.0)
    assert not weight.any()


def test_soft_hinge_meets_the_hinge_at_its_ends():
    t = np.array([-5.0, -0.1, 0.0, 0.1, 5.0])
    value, slope = soft_hinge(t)
    np.testing.assert_allclose(value, [0, 0, 0.025, 0.1, 5.0], atol=1e-15)
    np.testing.assert_allclose(slope, [0, 0, 0.5, 1, 1], atol=1e-12)


def test_a_single_class_has_no_competitor(objective):
    value, weight = objective.evaluate(np.array([[-3.0, 2.0]]), np.array([0, -1]))
    assert np.isfinite(value).all() and np.isfinite(weight).all()
