"""Posteriors under the exact likelihood: a bound below the evidence and above the quadratic one, slopes, the common shift."""

import numpy as np
import pytest
from scipy.special import logsumexp
from tolerances import EQUAL, GRADIENT, STEP

from latentia import MixtureOfExpertsClassifier, MultimodalSoftmaxClassifier
from latentia.engine.array_source import ArraySource
from latentia.estimators.latent_softmax.exact_posterior import _log_prior, _Node, _points, _sweep, refine_posterior
from latentia.estimators.latent_softmax.model_specs import ExpertTreeSpec, SubclassSpec
from latentia.families.building_blocks.gamma_prior import GammaPrior
from latentia.families.building_blocks.gaussian_weights import GaussianWeights, augment, inverse, weights_log_prior
from latentia.numerics.packed_symmetric import packed_outer

STRUCTURES = [
    SubclassSpec((2, 1, 3)),
    ExpertTreeSpec((3,), 3),
    ExpertTreeSpec((2, 2), 3),
    ExpertTreeSpec((3,), 2, linear=True),
]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(23, 2)), np.arange(23) % 3
    return X + y[:, None], y


def start_of(structure, seed=0, variance=0.3):
    rng = np.random.default_rng(seed)
    if isinstance(structure, SubclassSpec):
        return structure.variational().start(rng.normal(size=(sum(structure.n_subclasses), 3)), variance)
    gates = tuple(
        rng.normal(size=(int(np.prod(structure.branches[:level])), b, 3)) for level, b in enumerate(structure.branches)
    )
    experts = rng.normal(size=(int(np.prod(structure.branches)), structure.n_scores, 3))
    return structure.variational().start(gates, experts, variance)


def labels_of(structure, X, y):
    return X if getattr(structure, "linear", False) else y


@pytest.mark.parametrize("structure", STRUCTURES, ids=str)
def test_slopes_are_the_derivatives_in_the_scores(structure, rows):
    X, y = rows
    x, rng = augment(X), np.random.default_rng(1)
    outer, y, params = packed_outer(x), labels_of(structure, X, y), start_of(structure)
    at = structure.row_likelihood(params)
    scores = tuple(rng.normal(size=(1, *node.mean.shape[:-1], len(X))) for node in structure.nodes(params))
    _, slopes = at(scores, x, outer, y)
    for k, slope in enumerate(slopes):
        for place in np.ndindex(slope.shape[:-1]):
            ends = []
            for h in (STEP, -STEP):
                moved = [s.copy() for s in scores]
                moved[k][place] += h
                ends.append(at(tuple(moved), x, outer, y)[0][0])
            np.testing.assert_allclose(
                slope[place], (ends[0] - ends[1]) / (2 * STEP), atol=GRADIENT * np.abs(slope).max()
            )


@pytest.mark.parametrize("structure", STRUCTURES, ids=str)
def test_steps_rise_and_weights_count_as_repetitions(structure, rows):
    X, y = rows
    y, params = labels_of(structure, X, y), start_of(structure)
    values = [refine_posterior(structure, ArraySource(X, y), params, n_steps).value for n_steps in (0, 1, 2, 4, 8, 60)]
    assert min(np.diff(values)) >= 0 and values[-1] > values[0]
    weighted = refine_posterior(structure, ArraySource(X, y, np.full(len(X), 2.0)), params, 60)
    repeated = refine_posterior(structure, ArraySource(np.repeat(X, 2, axis=0), np.repeat(y, 2, axis=0)), params, 60)
    assert weighted.value == pytest.approx(repeated.value, rel=1e-9)


def test_the_common_shift_is_the_divergence_of_dependent_weights():
    """Beside a dense normal posterior of all weights of the softmax, at the best covariance T of the shift and near it."""
    rng, prior, size = np.random.default_rng(2), GammaPrior(1.5, 0.7), 3
    half = rng.normal(size=(4, size, size))
    precision = half @ half.transpose(0, 2, 1) + 3 * np.eye(size)
    covariance, log_det = inverse(precision)
    mean, rate = rng.normal(size=(4, size)), rng.uniform(2, 5, size=4)
    alpha = prior.precision(rate, size)
    assert np.linalg.eigvalsh(precision).min() > alpha.max()
    node = _Node(GaussianWeights(mean, covariance, log_det, rate), precision)

    def dense(shift):
        blocks = np.zeros((4, size, 4, size))
        for i in range(4):
            blocks[i, :, i] = covariance[i]
        whole = (blocks + shift[None, :, None, :]).reshape(4 * size, 4 * size)
        apart = weights_log_prior(node.weights, prior).sum() - log_det.sum() / 2
        return apart + np.linalg.slogdet(whole)[1] / 2 - alpha.sum() * np.trace(shift) / 2

    best = np.eye(size) / alpha.sum() - np.linalg.inv(precision.sum(axis=0))
    assert _log_prior(node, prior) == pytest.approx(dense(best), rel=EQUAL["rtol"])
    assert dense(best) > max(dense(0.9 * best), dense(1.1 * best), dense(best + 0.01 * np.eye(size)))


def test_points_are_standard():
    for z in _points([np.zeros((5, 3)), np.zeros((2, 20, 3))]):
        flat = z.reshape(len(z), -1)
        np.testing.assert_allclose(flat.mean(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(flat.T @ flat / len(flat), np.eye(flat.shape[1]), atol=1e-10)


def test_tight_evidence_is_near_the_log_marginal_likelihood(rng):
    """Beside simulation from the prior, which a few rows allow."""
    x, y = np.array([-1.2, -0.4, 0.3, 1.5]), np.array([0, 1, 0, 0])
    X1 = np.column_stack([x, np.ones(4)])
    options = dict(shape=2.0, rate=3.0, tol=1e-8, random_state=0)
    model = MultimodalSoftmaxClassifier([2, 1], **options).fit(x[:, None], y)
    alpha = rng.gamma(2.0, 1 / 3.0, size=(200_000, 3, 1))
    scores = (rng.normal(size=(200_000, 3, 2)) / np.sqrt(alpha)) @ X1.T
    own = np.where(y == 0, logsumexp(scores[:, :2], axis=1), scores[:, 2])
    exact = logsumexp((own - logsumexp(scores, axis=1)).sum(axis=1)) - np.log(200_000)
    bound = model.corrected_log_evidence_ - np.log(2)  # of one of the two equal posteriors
    assert model.log_evidence_ + np.log(2) < bound < exact
    assert bound > exact - 1.0  # the quadratic bound is up to six below


def test_tight_evidence_is_above_the_quadratic_bound(moons_of_experts):
    X, y = moons_of_experts
    table = (
        MixtureOfExpertsClassifier(max_experts=3, criterion="evidence", n_init=2, tol=1e-4, random_state=0)
        .fit(X, y)
        .search_results_
    )
    both = np.log([1.0, 2.0, 6.0])
    assert np.all(table["corrected_log_evidence"] - both > table["log_evidence"] + both)


@pytest.fixture(scope="module")
def moons_of_experts():
    from sklearn.datasets import make_moons

    return make_moons(120, noise=0.15, random_state=0)


@pytest.mark.parametrize("structure", STRUCTURES, ids=str)
def test_the_exact_bound_is_stationary_at_its_end(structure, rows):
    """In every direction of means, precisions and rates the slope has all but gone."""
    X, y = rows
    table = ArraySource(X, labels_of(structure, X, y))
    start = start_of(structure)
    end = refine_posterior(structure, table, start)
    assert end.converged
    rng = np.random.default_rng(2)

    def bound(params, direction, length):
        nodes = []
        for weights, (mean, shape, rate) in zip(structure.nodes(params), direction, strict=True):
            precision = inverse(weights.covariance)[0]
            root = np.linalg.cholesky(precision)
            precision = root @ (np.eye(precision.shape[-1]) + length * shape) @ np.swapaxes(root, -1, -2)
            covariance, log_det = inverse(precision)
            step = np.linalg.solve(np.swapaxes(root, -1, -2), mean[..., None])[..., 0]
            moved = GaussianWeights(
                weights.mean + length * step, covariance, log_det, weights.rate * np.exp(length * rate)
            )
            nodes.append(_Node(moved, precision))
        points = _points([node.weights.mean for node in nodes])
        value, _ = _sweep(structure.row_likelihood(params), table, tuple(nodes), points)
        return value + sum(_log_prior(node, structure.prior) for node in nodes)

    def largest_slope(params):
        slopes = []
        for _ in range(12):
            direction = []
            for weights in structure.nodes(params):
                shape = rng.normal(size=weights.covariance.shape)
                pieces = (
                    rng.normal(size=weights.mean.shape),
                    shape + np.swapaxes(shape, -1, -2),
                    rng.normal(size=weights.rate.shape),
                )
                size = np.sqrt(sum((piece**2).sum() for piece in pieces))
                still = 0.0 if weights.mean.shape[-2] == 1 else 1.0
                direction.append([still * piece / size for piece in pieces])
            slopes.append((bound(params, direction, STEP) - bound(params, direction, -STEP)) / (2 * STEP))
        return np.abs(slopes).max()

    assert largest_slope(end.params) < 0.05 < largest_slope(start)
