"""Counts and ordered levels: densities, bounds, and what they are in their limits."""

import numpy as np
import pytest
from scipy.stats import nbinom, poisson
from tolerances import EQUAL

from latentia import LatentClassificationModel
from latentia.families.latent_factors.kinds import MAX_SHAPE, MIN_SHAPE, Bernoulli, NegativeBinomial, Sequential

MODELS = [NegativeBinomial([0, 1], [0.7, 4.0]), Sequential([0, 1], [4, 2])]
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda m: m.kind)


def some_cells(model, rng, n=40):
    values = model.example_cells(rng.normal(size=(n, 2)))
    return values, (rng.random((n, 2)) < 0.7).astype(float)


def test_counts_are_negative_binomial(rng):
    model, a = MODELS[0], rng.normal(size=(40, 2))
    values, observed = some_cells(model, rng)
    exact = nbinom.logpmf(values, model.shapes, 1 / (1 + np.exp(a)))
    np.testing.assert_allclose(model.log_density(values, None, a), exact.sum(axis=1), rtol=1e-9)
    np.testing.assert_allclose(model.log_density(values, observed, a), (exact * observed).sum(axis=1), rtol=1e-9)


def test_counts_of_a_large_shape_are_poisson(rng):
    model, rate, counts = NegativeBinomial([0], [1e6]), rng.uniform(0.5, 9, (30, 1)), rng.integers(0, 12, (30, 1)) * 1.0
    np.testing.assert_allclose(
        model.log_density(counts, None, np.log(rate / 1e6)), poisson.logpmf(counts, rate)[:, 0], atol=1e-3
    )


def test_levels_are_climbed_one_by_one(rng):
    """The probabilities of the levels are those of stopping after so many steps, and add up to one."""
    model = Sequential([0], [4])
    a = rng.normal(size=(7, 3))
    passes = 1 / (1 + np.exp(-a))
    by_hand = np.stack([np.prod(passes[:, :k], axis=1) * (1 - passes[:, k] if k < 3 else 1) for k in range(4)], axis=1)
    ours = [np.exp(model.log_density(np.full((7, 1), float(k)), None, a)) for k in range(4)]
    np.testing.assert_allclose(np.stack(ours, axis=1), by_hand, rtol=1e-12)
    np.testing.assert_allclose(by_hand.sum(axis=1), 1.0)


def test_two_levels_are_a_binary_column(rng):
    ordinal, binary = Sequential([0, 1], [2, 2]), Bernoulli([0, 1])
    values, observed = rng.integers(0, 2, (9, 2)).astype(float), (rng.random((9, 2)) < 0.7).astype(float)
    mean, variance = rng.normal(size=(3, 9, 2)), rng.random((3, 9, 2))
    for seen in (None, observed):
        for a, b in zip(
            ordinal.bound(values, seen, mean, variance), binary.bound(values, seen, mean, variance), strict=True
        ):
            np.testing.assert_allclose(a, b, **EQUAL)


@every_model
def test_quadratics_stay_below_the_density_and_touch_it(model, rng):
    values, observed = some_cells(model, rng)
    mean, variance = rng.normal(size=(40, model.n_predictors)), rng.random((40, model.n_predictors))
    for seen in (None, observed):
        curvature, linear, constant = model.bound(values, seen, mean, variance)
        a = 4 * rng.normal(size=(300, 40, model.n_predictors))
        below = constant + (linear * a - 0.5 * curvature * a**2).sum(axis=-1)
        assert (below <= model.log_density(values, seen, a) + 1e-10).all()
        xi = np.sqrt(mean**2 + variance)
        at = constant + (linear * xi - 0.5 * curvature * xi**2).sum(axis=-1)
        np.testing.assert_allclose(at, model.log_density(values, seen, xi), rtol=1e-9, atol=1e-9)


@every_model
def test_the_bound_is_best_at_the_moments_of_the_predictors(model, rng):
    """What a quadratic expects of Gaussian predictors is largest for that of their own moments, where its slope is zero."""
    values, _ = some_cells(model, rng, n=1)
    mean, variance = rng.normal(size=(1, model.n_predictors)), rng.random((1, model.n_predictors))

    def expected(scale):
        curvature, linear, constant = model.bound(values, None, scale * np.sqrt(mean**2 + variance), 0 * variance)
        return float(constant[0] + (linear * mean - 0.5 * curvature * (mean**2 + variance)).sum())

    steps = [expected(1 + h) - expected(1.0) for h in (-1e-3, 1e-3, -0.2, 0.2)]
    assert max(steps) < 1e-12 and abs(steps[0] - steps[1]) < 1e-5 < -steps[2]


@pytest.mark.parametrize("mean, variance, ratio", [(4.0, 4.0, MAX_SHAPE), (4.0, 8.0, 2.0), (1.0, 200.0, MIN_SHAPE)])
def test_the_shape_of_counts_follows_their_variance(mean, variance, ratio):
    cells = mean + np.sqrt(variance) * np.repeat([-1.0, 1.0], 50)
    assert NegativeBinomial.column_size(cells) == pytest.approx(ratio * mean)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_counts_stay_numbers_however_far_their_predictors_are(dtype, rng):
    model, far = NegativeBinomial([0], [2.0]), np.array([[-1e4], [1e4]], dtype)
    assert np.isfinite(model.expected(far, np.ones_like(far))).all()
    assert np.isfinite(model.sample(far.astype(float), far[:, :0], rng)).all()


def test_columns_without_counts_have_a_shape():
    assert NegativeBinomial.column_size(np.zeros(5)) == NegativeBinomial.column_size(np.zeros(0)) == 1.0


def test_counts_of_one_cause_tell_of_each_other():
    """Counts whose rates a factor drives: missing ones are filled better than by their means, and samples are counts."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 500)
    z = rng.normal(size=500) + 1.5 * y
    rate = np.exp(np.outer(z, [0.6, -0.5, 0.4]) + [0.5, 1.0, 2.0])
    X = np.c_[rng.poisson(rate), 3 * z + rng.normal(size=500)].astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    kinds = ["count"] * 3 + ["continuous"]
    model = LatentClassificationModel(1, kinds=kinds, n_init=2, random_state=0).fit(X, y)
    assert model.kinds_ == tuple(kinds) and model.score(X, y) > 0.72
    hidden = X.copy()
    hidden[:, 2] = np.nan
    known = ~np.isnan(X[:, 2])
    error = np.abs(model.impute(hidden)[known, 2] - X[known, 2]).mean()
    assert error < 0.75 * np.abs(X[known, 2].mean() - X[known, 2]).mean()
    drawn, _ = model.sample(4000)
    assert (drawn[:, :3] >= 0).all() and (drawn[:, :3] == np.round(drawn[:, :3])).all()
    np.testing.assert_allclose(drawn[:, :3].mean(axis=0), np.nanmean(X[:, :3], axis=0), rtol=0.15)
    np.testing.assert_allclose(model.loadings_[0, :3, 0] / model.loadings_[0, 0, 0], [1, -5 / 6, 2 / 3], atol=0.15)


def test_ordered_levels_follow_their_factor():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 500)
    z = rng.normal(size=500) + 1.5 * y
    noisy = z[:, None] + rng.normal(size=(500, 3)) * 0.7
    X = np.stack([np.digitize(noisy[:, k], [-0.5, 0.5, 1.5]) for k in range(3)], axis=1).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    model = LatentClassificationModel(1, kinds="ordinal", n_init=2, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.7
    assert (model.loadings_ > 0).all()  # each step up needs more of the factor
    drawn, _ = model.sample(4000)
    for k in range(3):
        shares = [np.mean(drawn[:, k] == level) for level in range(4)]
        np.testing.assert_allclose(
            shares, [np.mean(X[~np.isnan(X[:, k]), k] == level) for level in range(4)], atol=0.06
        )
    hidden = X.copy()
    hidden[:, 1] = np.nan
    known = ~np.isnan(X[:, 1])
    assert (model.impute(hidden)[known, 1] == X[known, 1]).mean() > 0.4
