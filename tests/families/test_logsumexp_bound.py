"""The quadratic bound of log-sum-exp, the averaged softmax, and the posteriors of weights."""

import array_api_strict
import numpy as np
import pytest
from random_problems import SEEDS
from scipy.special import digamma as exact_digamma
from scipy.special import gammaln, logsumexp
from scipy.stats import gamma, multivariate_normal, norm
from tolerances import BRUTE_FORCE, EQUAL, MAX_RELATIVE_DECREASE

from latentia.arrays.linalg import pack, packed_outer, params_at_rows, unpack
from latentia.arrays.namespace import digamma, log_gamma, to_numpy
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.families.blocks.bounds import (
    GammaPrior,
    approximate_bound,
    log_expected_softmax,
    logit_expected_sigmoid,
    softmax_bound,
    softmax_bound_near,
)
from latentia.families.softmax_tree.leaves import GaussianWeights, LinearLeaves, score_variance, weights_log_prior
from latentia.families.softmax_tree.posterior import BoundPosterior
from latentia.families.softmax_tree.tree import SoftmaxTree, mixture_of_experts, multimodal_softmax
from latentia.solvers import EM


def scores(rng, n_scores=4, n_rows=200):
    return rng.normal(scale=3, size=(n_scores, n_rows)), rng.exponential(size=(n_scores, n_rows))


def paper_bound(mean, variance, n_rounds=2000):
    """Eq. 19, 30 and 31 as they stand (with S/2), alternated."""
    n_scores = mean.shape[0]
    center = mean.mean(axis=0)
    for _ in range(n_rounds):
        xi = np.sqrt((mean - center) ** 2 + variance)
        lam = (1 / (1 + np.exp(-xi)) - 0.5) / (2 * xi)
        center = (0.5 * (n_scores / 2 - 1) + (lam * mean).sum(axis=0)) / lam.sum(axis=0)
    xi = np.sqrt((mean - center) ** 2 + variance)
    return center + ((mean - center - xi) / 2 + np.log1p(np.exp(xi))).sum(axis=0)


@pytest.mark.parametrize("n_scores", [2, 3, 7])
def test_newton_finds_what_the_paper_alternates_to(rng, n_scores):
    mean, variance = scores(rng, n_scores)
    np.testing.assert_allclose(softmax_bound(mean, variance).value, paper_bound(mean, variance), rtol=1e-9)


@pytest.mark.parametrize("n_scores, width", [(2, 1e4), (3, 1e2), (3, 1e6), (20, 1e2)])
def test_no_center_makes_the_bound_better_however_wide_the_scores_are(rng, n_scores, width):
    mean, variance = rng.normal(scale=3, size=(n_scores, 50)), rng.exponential(scale=width, size=(n_scores, 50))
    best = softmax_bound(mean, variance)
    unit = np.sqrt(n_scores * width)
    for distance in unit * np.r_[-np.geomspace(1e-6, 10, 30), np.geomspace(1e-6, 10, 30)]:
        offset = mean - (best.center + distance)
        xi = np.sqrt(offset**2 + variance)
        value = best.center + distance + (offset / 2 + xi / 2 + np.log1p(np.exp(-xi))).sum(axis=0)
        assert (value >= best.value * (1 - 1e-12)).all()


@pytest.mark.parametrize("n_scores", [1, 2, 3])
def test_it_is_a_bound_and_its_quadratic_touches_it(rng, n_scores):
    mean, variance = scores(rng, n_scores, 20)
    bound = softmax_bound(mean, variance)
    draws = mean + np.sqrt(variance) * rng.normal(size=(20_000, n_scores, 20))
    assert n_scores == 1 or (bound.value > logsumexp(draws, axis=1).mean(axis=0)).all()

    def change(step):
        """Of the expected bound by another mean, along which the quadratic is tangent."""
        return softmax_bound(mean + step, variance).value - bound.value

    step = 1e-5 * rng.normal(size=mean.shape)
    slope = (bound.curvature * mean - bound.slope) * step
    np.testing.assert_allclose(change(step) - change(-step), 2 * slope.sum(axis=0), rtol=1e-5, atol=1e-12)


def test_a_common_shift_moves_the_bound_by_itself_and_extremes_stay_finite(rng):
    mean, variance = scores(rng)
    np.testing.assert_allclose(
        softmax_bound(mean + 7, variance).value, softmax_bound(mean, variance).value + 7, **EQUAL
    )
    wild = np.array([[-1e8, 0.0, 1e4], [1e8, 0.0, -1e4], [0.0, 0.0, 3.0]])
    for size in (0.0, 1e-20, 1e10):
        bound = softmax_bound(wild, np.full_like(wild, size))
        assert all(np.isfinite(a).all() for a in bound)
        assert (bound.value >= wild.max(axis=0)).all()


def test_one_score_needs_no_bound():
    mean = np.array([[1.0, -2.0]])
    bound = softmax_bound(mean, np.ones_like(mean))
    np.testing.assert_array_equal(bound.value, mean[0])
    np.testing.assert_array_equal(bound.curvature, 0.0)


def test_two_known_scores_get_the_square_of_a_logistic():
    """Where the weights are known the bound reads P >= sigm(d/2)^2: the source of the bias that the docs tell of."""
    gap = np.linspace(-6, 6, 13)
    mean = np.stack([gap, np.zeros_like(gap)])
    log_proba = mean[0] - softmax_bound(mean, np.zeros_like(mean)).value
    np.testing.assert_allclose(log_proba, -2 * np.log1p(np.exp(-gap / 2)), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("spread, largest", [(1.0, 0.02), (10.0, 0.04), (100.0, 0.08)])
def test_averages_are_near_sampling(rng, spread, largest):
    mean, variance = rng.normal(scale=2, size=(5, 40)), rng.exponential(scale=spread, size=(5, 40))
    draws = mean + np.sqrt(variance) * rng.normal(size=(10_000, 5, 40))
    sampled = np.exp(draws - logsumexp(draws, axis=1, keepdims=True)).mean(axis=0)
    averaged = np.exp(log_expected_softmax(mean, variance))
    plain = np.exp(log_expected_softmax(mean, None))
    np.testing.assert_allclose(averaged.sum(axis=0), 1.0)
    assert np.abs(averaged - sampled).max() < largest
    assert np.abs(averaged - sampled).mean() < np.abs(plain - sampled).mean() / 2


def test_averages_without_spread_are_plain(rng):
    mean = rng.normal(size=(3, 10))
    np.testing.assert_allclose(
        log_expected_softmax(mean, np.zeros_like(mean)), log_expected_softmax(mean, None), **EQUAL
    )


def test_special_functions_agree_with_scipy():
    """Those of NumPy are SciPy's; other libraries have the series."""
    x = np.geomspace(1e-3, 1e6, 300)
    for there in (x, array_api_strict.asarray(x)):
        np.testing.assert_allclose(to_numpy(digamma(there)), exact_digamma(x), rtol=1e-11)
        np.testing.assert_allclose(to_numpy(log_gamma(there)), gammaln(x), rtol=1e-11, atol=1e-11)


def test_packed_products(rng):
    x, factor = rng.normal(size=(9, 4)), rng.normal(size=(2, 3, 4, 4))
    covariance = factor @ factor.swapaxes(-1, -2)
    np.testing.assert_allclose(unpack(pack(covariance), 4), covariance)
    expected = np.einsum("nd,abde,ne->abn", x, covariance, x)
    np.testing.assert_allclose(score_variance(covariance, packed_outer(x)), expected, **BRUTE_FORCE)
    mean = rng.normal(size=(2, 3, 4))
    np.testing.assert_allclose(params_at_rows(mean, x), np.einsum("abd,nd->abn", mean, x), **BRUTE_FORCE)


@pytest.mark.parametrize("beta", [1.0, 0.4])
def test_log_prior_is_minus_the_divergence(rng, beta):
    """Beside a Monte-Carlo estimate of E ln p(w | alpha) p(alpha) / q(w) q(alpha); entropies count 1 / beta times."""
    prior = GammaPrior(1.5, 0.7)
    factor = rng.normal(size=(3, 3))
    covariance, mean, rate = factor @ factor.T / 3, rng.normal(size=3), 2.3
    weights = GaussianWeights(mean, covariance, np.linalg.slogdet(covariance)[1], np.array(rate))
    shape = beta * (prior.shape - 1 + 1.5) + 1
    q_w, q_alpha = multivariate_normal(mean, covariance), gamma(shape, scale=1 / rate)
    w, alpha = q_w.rvs(200_000, random_state=1), q_alpha.rvs(200_000, random_state=2)
    log_p = norm(0, alpha[:, None] ** -0.5).logpdf(w).sum(axis=1) + gamma(prior.shape, scale=1 / prior.rate).logpdf(
        alpha
    )
    sample = log_p - (q_w.logpdf(w) + q_alpha.logpdf(alpha)) / beta
    error = sample.std() / np.sqrt(sample.size)
    assert abs(float(weights_log_prior(weights, prior, beta)) - sample.mean()) < 5 * error


def random_family(which, rng):
    n_classes, width = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    if which == "softmax":
        return BoundPosterior(multimodal_softmax(rng.integers(1, 4, n_classes)))
    if which == "linear":
        return BoundPosterior(SoftmaxTree((width,), LinearLeaves(2)))
    return BoundPosterior(mixture_of_experts((width,) if which == "experts" else (2, width), n_classes))


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("which", ["softmax", "experts", "tree", "linear"])
def test_bounds_rise_on_random_problems(which, seeds):
    for seed in seeds:
        rng = np.random.default_rng(seed)
        family = random_family(which, rng)
        n_rows = int(rng.integers(4, 25))
        X, y = family.example_rows(rng, n_rows, int(rng.integers(1, 4)) if which != "linear" else 2)
        rows = ArraySource(X * rng.choice([0.1, 1.0, 10.0]), y, rng.choice([0.5, 1.0, 2.0], n_rows))
        start = family.init(rows, rng, 1)
        curve = EM(max_iter=6, tol=-np.inf).solve(RowProblem(family, Likelihood(), rows), start).curves[0]
        assert np.diff(curve).min() >= -MAX_RELATIVE_DECREASE * np.abs(curve).max(), seed
        assert curve[-1] > curve[0]


def test_averages_of_two_scores_are_those_of_quadrature():
    """Far into the tails, where a scaled logistic function is wrong by orders of magnitude."""
    z, w = np.polynomial.hermite_e.hermegauss(200)
    for mean in (0.5, 2.0, 5.0, 10.0):
        for variance in (0.1, 1.0, 9.0, 36.0):
            exact = (w / w.sum()) @ (1 / (1 + np.exp(mean + np.sqrt(variance) * z)))
            scores, spread = np.array([[mean], [0.0]]), np.array([[variance], [0.0]])
            averaged = np.exp(log_expected_softmax(scores, spread))[:, 0]
            np.testing.assert_allclose(averaged, [1 - exact, exact], rtol=1e-3)
    far = log_expected_softmax(np.array([[800.0], [0.0]]), np.array([[1.0], [1.0]]))
    assert np.all(np.isfinite(far))


def test_rough_bounds_are_bounds_and_end_at_the_best(rng):
    mean, variance = rng.normal(scale=3, size=(4, 5, 200)), rng.exponential(size=(4, 5, 200))
    best = softmax_bound(mean, variance)

    def value(center):
        """The expected bound with this center, written out."""
        xi = np.sqrt((mean - center[:, None]) ** 2 + variance)
        return center + ((mean - center[:, None]) / 2 + np.log(2 * np.cosh(xi / 2))).sum(axis=1)

    curvature, slope, center = approximate_bound(mean, variance, best.center + rng.normal(size=best.center.shape))
    assert (value(center) >= best.value - 1e-12).all() and (value(center) > best.value + 1e-6).any()
    for _ in range(20):
        curvature, slope, center = approximate_bound(mean, variance, center)
    np.testing.assert_allclose(value(center), best.value, rtol=1e-9)
    np.testing.assert_allclose(curvature, best.curvature, rtol=1e-5)
    np.testing.assert_allclose(slope, best.slope, rtol=1e-5, atol=1e-7)


def test_a_gamma_prior_takes_shapes_of_any_kind(rng):
    """Numbers and arrays of shapes agree, and are minus the divergence of the gamma posterior."""
    prior, shape, rate = GammaPrior(1.5, 0.7), 2.7, rng.uniform(1, 3, size=(2, 3))
    by_number = prior.bound_terms(shape, rate)
    np.testing.assert_allclose(prior.bound_terms(np.full_like(rate, shape), rate), by_number, rtol=1e-11)
    q = gamma(shape, scale=1 / rate[0, 0])
    tau = q.ppf((np.arange(200_000) + 0.5) / 200_000)
    log_ratio = gamma(prior.shape, scale=1 / prior.rate).logpdf(tau) - q.logpdf(tau)
    assert by_number[0, 0] == pytest.approx(log_ratio.mean(), abs=1e-4)


@pytest.mark.parametrize("variance", [0.0, 1e-6, 0.1, 3.0, 100.0])
def test_an_average_of_the_logistic_is_never_surer_than_its_mean(variance):
    mean = np.concatenate([np.linspace(-700, 700, 1401), np.geomspace(1e-6, 1, 30)])
    odds = logit_expected_sigmoid(mean, np.full_like(mean, variance))
    assert (np.sign(odds) == np.sign(mean)).all()
    assert (np.abs(odds) <= np.abs(mean) * (1 + 1e-12) + 1e-8).all()
    assert (np.diff(odds[:1401]) > 0).all()  # a larger mean makes it surer


@pytest.mark.parametrize("n_scores", [1, 2, 5])
def test_a_bound_near_another_holds_and_is_the_best_near_the_best(rng, n_scores):
    """From any center it is an upper bound of the best one; from the best center it is that one."""
    mean, variance = scores(rng, n_scores)
    best = softmax_bound(mean, variance)
    for near in (None, best.center, best.center + rng.normal(size=best.center.shape)):
        found = softmax_bound_near(mean, variance, near)
        assert (found.value >= best.value - 1e-12 * np.abs(best.value)).all()
        for part, same in zip(found[1:], approximate_bound(mean, variance, near), strict=True):
            np.testing.assert_array_equal(part, same)
    for a, b in zip(softmax_bound_near(mean, variance, best.center), best, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
