"""Power transforms of columns: there and back, slopes, what is left alone, weights."""

import numpy as np
import pytest
from sklearn.base import clone
from tolerances import SAMPLING

from latentia import GaussianMixtureClassifier, LatentClassificationModel, LatentClassifier
from latentia.engine.rows import MaskedRows
from latentia.table import standardization
from latentia.table.standardization import MAX_ROWS, PowerTransform, Standardizer, column_moments, learn_power_transform


def learned(X, weight=None, dtype=np.float64):
    standardizer = Standardizer.from_moments(*column_moments(X.astype(dtype), weight, dtype))
    return learn_power_transform(X.astype(dtype), weight, standardizer, [True] * X.shape[1])


@pytest.fixture
def skewed(rng):
    """Columns of either skew and a normal one, in units of their own."""
    n = 400
    columns = [rng.lognormal(size=n), -rng.exponential(size=n), rng.chisquare(1, size=n), rng.normal(size=n)]
    return np.column_stack(columns) * [1e-3, 5.0, 1e6, 2.0] + [0.0, 7.0, -1e6, 1.0]


def skewness(a):
    return np.abs((((a - a.mean(axis=0)) / a.std(axis=0)) ** 3).mean(axis=0))


def test_skewed_columns_become_symmetric_and_normal_ones_stay(skewed):
    transform = learned(skewed)
    values = transform.prepare(skewed).values
    assert (skewness(values)[:2] < 0.3 * skewness(skewed)[:2]).all() and (skewness(skewed)[:2] > 1).all()
    np.testing.assert_allclose([values[:, :3].mean(axis=0), values[:, :3].std(axis=0)], [[0] * 3, [1] * 3], atol=1e-9)
    np.testing.assert_array_equal(transform.power == 1.0, [False, False, False, True])
    np.testing.assert_allclose(values[:, 3], transform.standardizer.prepare(skewed).values[:, 3], rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_a_table_of_normal_columns_is_only_standardized(seed):
    assert isinstance(learned(np.random.default_rng(seed).normal(size=(300, 3))), Standardizer)


def test_columns_that_no_transform_makes_normal_stay(rng):
    """Columns of few values, without any, or with a single one."""
    few = np.column_stack([rng.integers(3, size=200) ** 4, np.full(200, np.nan), np.full(200, 3.0)]).astype(float)
    assert isinstance(learned(few), Standardizer)
    few[5, 1] = 2.0
    assert isinstance(learned(few), Standardizer)


@pytest.mark.parametrize("far", [1e4, -1e6, 1e9])
def test_one_cell_far_away_leaves_the_others_apart(far, rng):
    """It makes the standard deviation large, beside which the others are next to equal."""
    X = rng.normal(size=(200, 2))
    X[7, 0] = far
    transform = learned(X)
    others = np.delete(transform.prepare(X).values[:, 0], 7)
    assert others.std() > 0.3 and transform.power[1] == 1.0
    np.testing.assert_allclose(np.argsort(others), np.argsort(np.delete(X[:, 0], 7)))
    np.testing.assert_allclose(transform.inverse_transform(transform.prepare(X).values), X, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("draw", [np.random.Generator.standard_cauchy, lambda rng, size: rng.standard_t(2, size)])
def test_two_long_tails_are_both_shortened(draw, rng):
    """Yeo and Johnson's transform shortens one and lengthens the other."""
    X = draw(rng, size=(500, 1))
    transform = learned(X)
    values = transform.prepare(X).values
    assert transform.power == transform.below < 1 and np.abs(values).max() < 6
    np.testing.assert_allclose(transform.inverse_transform(values), X, rtol=1e-8)
    step = 1e-6 * np.abs(X)
    slopes = (transform.prepare(X + step).values - transform.prepare(X - step).values) / (2 * step)
    np.testing.assert_allclose(transform.log_det_jacobian(transform.prepare(X)), -np.log(slopes[:, 0]), atol=1e-5)


@pytest.mark.filterwarnings("ignore:column 0 of X holds 99999")
@pytest.mark.parametrize(
    "model",
    [
        GaussianMixtureClassifier(n_init=2, random_state=0),
        LatentClassificationModel(1, 1, random_state=0),
        LatentClassifier(effort="fast", random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_slip_in_the_column_that_tells_the_classes_apart_is_survived(model, rng):
    y = rng.integers(2, size=1200)
    X = rng.normal(size=(1200, 3)) + 2 * y[:, None] * [1, 0, 0]
    X[7, 0] = 99999
    assert clone(model).fit(X[:200], y[:200]).score(X[200:], y[200:]) > 0.7


def test_columns_far_out_on_both_sides_take_no_longer(rng):
    """Beside 1e100 and -1e100 all else is equal, at any scale that a number can hold."""
    X = rng.normal(size=(50, 1))
    X[:2, 0] = [1e100, -1e100]
    assert np.isfinite(learned(X).prepare(X).values).all()
    assert len(standardization._scales_below(np.finfo(float).eps)) < 30


def test_there_and_back(skewed, rng):
    transform = learned(skewed)
    for X in (skewed, skewed.mean(axis=0) + 20 * skewed.std(axis=0) * rng.normal(size=skewed.shape)):
        np.testing.assert_allclose(transform.inverse_transform(transform.prepare(X).values), X, rtol=1e-7)
    np.testing.assert_allclose(transform.prepare(transform.shift[None, :]).values, 0.0, atol=1e-9)


def test_slopes_are_those_of_finite_differences(skewed, rng):
    """`log_det_jacobian` of rows with gaps, and `scale` where the transform is zero."""
    transform = learned(skewed)
    step = 1e-6 * skewed.std(axis=0)
    slopes = (transform.prepare(skewed + step).values - transform.prepare(skewed - step).values) / (2 * step)
    observed = (rng.random(skewed.shape) < 0.7).astype(float)
    rows = transform.prepare(np.where(observed > 0, skewed, np.nan))
    np.testing.assert_array_equal(rows.observed, observed)
    found = transform.log_det_jacobian(rows)
    np.testing.assert_allclose(found, -(observed * np.log(slopes)).sum(axis=1), rtol=1e-5)
    complete = transform.log_det_jacobian(MaskedRows(transform.prepare(skewed).values, None))
    np.testing.assert_allclose(complete, -np.log(slopes).sum(axis=1), rtol=1e-5)
    zero = transform.shift[None, :]
    local = (transform.prepare(zero + step).values - transform.prepare(zero - step).values)[0] / (2 * step)
    np.testing.assert_allclose(transform.scale, 1 / local, rtol=1e-5)


def parts(transform):
    assert isinstance(transform, PowerTransform)
    return [transform.center, transform.stretch, transform.power, transform.mean, transform.deviation]


def test_a_row_of_weight_two_is_that_row_twice_and_one_without_weight_is_absent(skewed, rng):
    weight = rng.integers(3, size=len(skewed)).astype(float)
    far = np.where(weight[:, None] > 0, skewed, 1e150)  # rows without weight may hold anything
    again = np.repeat(skewed, weight.astype(int), axis=0)
    for a, b in zip(parts(learned(far, weight)), parts(learned(again)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_of_many_rows_some_tell_the_transform_each_by_its_own_weight(skewed, rng, monkeypatch):
    monkeypatch.setattr(standardization, "MAX_ROWS", 100)
    weight, chosen = rng.uniform(size=400) * (np.arange(400) > 200), 201 + np.linspace(0, 198, 100).astype(int)
    standardizer = Standardizer.from_moments(*column_moments(skewed, None, np.float64))
    of_all = learn_power_transform(skewed, weight, standardizer, [True] * 4)
    of_some = learn_power_transform(skewed[chosen], weight[chosen], standardizer, [True] * 4)
    np.testing.assert_array_equal(of_all.prepare(skewed).values, of_some.prepare(skewed).values)


def test_single_precision_is_near_double(skewed):
    single, double = learned(skewed, dtype=np.float32), learned(skewed)
    assert all(a.dtype == np.float32 for a in parts(single))
    np.testing.assert_array_equal(single.power, double.power.astype(np.float32))
    np.testing.assert_allclose(
        single.prepare(skewed.astype(np.float32)).values, double.prepare(skewed).values, atol=1e-3
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_of_any_size_have_finite_squares(skewed, dtype):
    transform = learned(skewed, dtype=dtype)
    most = np.finfo(dtype).max
    values = transform.prepare(np.array([[most] * 4, [-most] * 4], dtype=dtype)).values
    assert np.isfinite(values**2).all() and values.dtype == dtype


def test_expected_cells_stay_among_the_values_that_were_seen(skewed):
    """A steep transform sends a little beyond them far away: no cell is expected there."""
    transform = learned(skewed)
    changed = transform.power != 1.0
    assert changed.sum() == 3
    far = np.array([[9.0] * 4, [-9.0] * 4])
    filled, plain = transform.inverse_transform_expected(far), transform.inverse_transform(far)
    np.testing.assert_allclose(filled[:, changed], [skewed.max(axis=0)[changed], skewed.min(axis=0)[changed]])
    np.testing.assert_array_equal(filled[:, ~changed], plain[:, ~changed])
    seen = transform.prepare(skewed).values
    np.testing.assert_allclose(transform.inverse_transform_expected(seen), skewed, rtol=1e-6, atol=1e-9)


def test_expectations_of_normal_cells_are_those_of_draws(skewed, rng):
    """Of some columns in any order, under several classes; where nothing varies, the originals."""
    transform = learned(skewed)
    columns, mean = [3, 0, 1], rng.normal(size=(2, 3, 3))
    scale, shift = transform.standardizer.scale[columns], transform.standardizer.shift[columns]
    variance = rng.random((2, 1, 3))
    found = transform.expected_standardized(mean, variance, columns, None)
    draws = np.zeros((10_000, 2, 3, 4))
    draws[..., columns] = mean + np.sqrt(variance) * rng.normal(size=(10_000, 2, 3, 3))
    raw = transform.inverse_transform_expected(draws)
    expected, error = raw.mean(axis=0)[..., columns], raw.std(axis=0)[..., columns] / 100
    assert (np.abs(found * scale + shift - expected) < SAMPLING * error + 0.002 * np.abs(expected)).all()
    np.testing.assert_array_equal(found[..., 0], mean[..., 0])  # a column that stays as it is
    certain = transform.expected_standardized(mean, np.zeros_like(mean), columns, None)
    full = np.zeros((2, 3, 4))
    full[..., columns] = mean
    originals = transform.inverse_transform_expected(full)[..., columns]
    np.testing.assert_allclose(certain * scale + shift, originals, rtol=1e-9)


def test_known_cells_are_not_integrated(skewed, rng):
    transform = learned(skewed)
    mean, variance = rng.normal(size=(2, 6, 4)), np.ones((2, 6, 4))
    observed = (rng.random((6, 4)) < 0.5).astype(float)
    some, all_of_them = (transform.expected_standardized(mean, variance, range(4), o) for o in (observed, None))
    np.testing.assert_array_equal(some, np.where(observed > 0, mean, all_of_them))
    columns = [2, 0]
    few = transform.expected_standardized(mean[..., columns], variance[..., columns], columns, observed)
    np.testing.assert_array_equal(few, some[..., columns])


def test_every_second_row_without_weight_changes_no_transform(rng):
    """Of many rows the transform sees some: those that have weight."""
    X, weight = np.exp(rng.normal(size=(2 * MAX_ROWS, 1))), (np.arange(2 * MAX_ROWS) % 2).astype(float)
    y = np.arange(2 * MAX_ROWS) // 2 % 2
    model = GaussianMixtureClassifier(covariance="diag", random_state=0)
    weighted, absent = clone(model).fit(X, y, weight), clone(model).fit(X[1::2], y[1::2])
    np.testing.assert_allclose(weighted.score_samples(X), absent.score_samples(X), rtol=1e-9)
    plain = clone(model).set_params(marginals="normal").fit(X, y)
    assert absent.score_samples(X).mean() > plain.score_samples(X).mean() + 0.2  # there is one to be learned
