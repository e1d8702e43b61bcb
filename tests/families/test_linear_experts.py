"""Linear leaves: what the bound says of rows and of the prior, beside quadrature and draws from the posterior."""

import numpy as np
import pytest
from scipy import integrate, stats
from tolerances import SAMPLING

from latentia.arrays.linalg import packed_outer
from latentia.engine.rows import MaskedRows
from latentia.families.blocks.bounds import GammaPrior
from latentia.families.softmax_tree.leaves import (
    NOISE_FLOOR,
    GaussianWeights,
    LinearLeaves,
    LinearPosterior,
    score_variance,
)
from latentia.families.softmax_tree.posterior import BoundPosterior
from latentia.families.softmax_tree.tree import Posterior, SoftmaxTree


@pytest.fixture
def posterior(rng):
    """Of one expert for two outputs of rows with two features and a one."""
    half = rng.normal(size=(1, 2, 3, 3))
    covariance = half @ np.swapaxes(half, -1, -2) + 0.1 * np.eye(3)
    weights = GaussianWeights(
        rng.normal(size=(1, 2, 3)), covariance, np.linalg.slogdet(covariance)[1], rng.uniform(1, 3, (1, 2))
    )
    return LinearPosterior(weights, rng.uniform(1.5, 3, (1, 2)), rng.uniform(0.5, 2, (1, 2)))


PRIOR, NOISE = GammaPrior(1.5, 0.7), GammaPrior(3.0, 0.3)


def family():
    return BoundPosterior(SoftmaxTree((1,), LinearLeaves(2, PRIOR, NOISE), PRIOR))


def gate():
    return GaussianWeights(np.zeros((1, 1, 3)), np.eye(3)[None, None], np.zeros((1, 1)), np.ones((1, 1)))


def test_a_row_has_its_expected_log_density(posterior, rng):
    X, Y = rng.normal(size=(4, 2)), rng.normal(size=(4, 2))
    found = family().infer(Posterior((gate(),), posterior), MaskedRows(X, None), Y).log_joint
    x = np.column_stack([X, np.ones(4)])
    expected = np.zeros(4)
    for o in range(2):
        tau = stats.gamma(posterior.shape[0, o], scale=1 / posterior.rate[0, o])
        log_tau = integrate.quad(lambda t, tau=tau: np.log(t) * tau.pdf(t), 0, np.inf)[0]
        mean = x @ posterior.weights.mean[0, o]
        variance = np.einsum("ni,ij,nj->n", x, posterior.weights.covariance[0, o], x)
        square = (Y[:, o] - mean) ** 2 + variance
        expected += (log_tau - np.log(2 * np.pi) - tau.mean() * square) / 2
    np.testing.assert_allclose(np.ravel(found), expected, rtol=1e-6)


def test_predictions_have_the_moments_of_draws(posterior, rng):
    """Of the weights from their posterior, then of the outputs."""
    X, leaves = 3 * rng.normal(size=(4, 2)), family().tree.leaves
    x = np.column_stack([X, np.ones(4)])
    mean, variance = leaves.predictive_moments(posterior, x, packed_outer(x))
    for o in range(2):
        weights = posterior.weights
        w = rng.multivariate_normal(weights.mean[0, o], weights.covariance[0, o], 100_000)
        noise = leaves.point_of(posterior).noise_variance[0, o]
        y = w @ x.T + np.sqrt(noise) * rng.normal(size=(100_000, 4))
        assert (np.abs(y.mean(axis=0) - mean[0, o]) < SAMPLING * y.std(axis=0) / np.sqrt(len(y))).all()
        np.testing.assert_allclose(variance[0, o], y.var(axis=0), rtol=0.03)
    log_density = leaves.log_density(posterior, x, packed_outer(x), mean[0].T).value
    np.testing.assert_allclose(log_density[0], -0.5 * np.log(2 * np.pi * variance[0]).sum(axis=0), rtol=1e-9)


def test_the_prior_counts_by_minus_the_divergence(posterior, rng):
    """E[log p(w, alpha, tau) - log q(w, alpha, tau)] over draws from q."""
    n, total = 100_000, np.zeros(100_000)
    for o in range(2):
        mean, covariance = posterior.weights.mean[0, o], posterior.weights.covariance[0, o]
        w = rng.multivariate_normal(mean, covariance, n)
        q_alpha = stats.gamma(PRIOR.shape + 1.5, scale=1 / posterior.weights.rate[0, o])
        q_tau = stats.gamma(posterior.shape[0, o], scale=1 / posterior.rate[0, o])
        alpha, tau = q_alpha.rvs(n, random_state=rng), q_tau.rvs(n, random_state=rng)
        total += 1.5 * np.log(alpha / (2 * np.pi)) - alpha * (w**2).sum(axis=1) / 2
        total += stats.gamma(PRIOR.shape, scale=1 / PRIOR.rate).logpdf(alpha) - q_alpha.logpdf(alpha)
        total += stats.gamma(NOISE.shape, scale=1 / NOISE.rate).logpdf(tau) - q_tau.logpdf(tau)
        total -= stats.multivariate_normal(mean, covariance).logpdf(w)
    found = float(np.squeeze(family().log_prior(Posterior((gate(),), posterior))))
    assert abs(found - total.mean()) < SAMPLING * total.std() / np.sqrt(n)


def test_the_point_of_the_noise_is_its_expected_variance(posterior):
    """Where that exists: of next to no rows, one over the mean of the precision."""
    some = posterior._replace(shape=np.array([[3.0, 1.2]]), rate=np.array([[0.7, 0.4]]))
    np.testing.assert_allclose(some.noise_variance[0], [stats.invgamma(3.0, scale=0.7).mean(), 0.4 / 1.2])


def test_noise_below_the_floor_has_its_point_just_above_it(posterior):
    """Outputs may be met to rounding; the point is what a search goes on from."""
    point = family().tree.leaves.point_of(posterior._replace(rate=np.array([[1e-30, 0.0]])))
    np.testing.assert_allclose(point.noise_variance, NOISE_FLOOR, rtol=2e-3)
    assert np.isfinite(point.log_noise).all()


def test_no_score_has_a_negative_variance_however_far_its_row_lies(rng):
    """Where the posterior is flat across a direction, rounding is all that is left of the variance along it."""
    x = 1e8 * rng.normal(size=(200, 3))
    along = x / np.linalg.norm(x, axis=1, keepdims=True)
    covariance = np.eye(3) - along[:, :, None] * along[:, None, :]
    assert (score_variance(covariance, packed_outer(x)) >= 0).all()
