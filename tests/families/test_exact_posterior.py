"""Posteriors under the exact likelihood: a bound below the evidence and above the quadratic one, gradients, the shift."""

import warnings

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.exceptions import ConvergenceWarning
from tolerances import EQUAL, GRADIENT, STEP

from latentia import MixtureOfExpertsClassifier, MixtureOfExpertsRegressor, MultimodalSoftmaxClassifier
from latentia.arrays.linalg import packed_outer
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import add_restart_axis, flatten, select_restart, unflatten
from latentia.families.blocks.bounds import GammaPrior
from latentia.families.softmax_tree.leaves import (
    GaussianWeights,
    LinearLeaves,
    augment,
    inverse,
    weights_log_prior,
)
from latentia.families.softmax_tree.posterior import (
    BoundPosterior,
    ExactPosterior,
    GatePosterior,
    gate_log_prior,
    standard_points,
)
from latentia.families.softmax_tree.tree import (
    SoftmaxTree,
    TreeLikelihood,
    gate_rows,
    mixture_of_experts,
    multimodal_softmax,
)
from latentia.solvers import DampedAscent, Outcome

TREES = [
    multimodal_softmax((2, 1, 3)),
    mixture_of_experts((3,), 3),
    mixture_of_experts((2, 2), 3),
    SoftmaxTree((3,), LinearLeaves(2)),
]


@pytest.fixture(params=TREES, ids=str)
def tree(request):
    return request.param


@pytest.fixture
def table(tree):
    X, y = tree.example_rows(np.random.default_rng(0), 23, 2)
    return ArraySource(X, y)


def initial(tree, table):
    """A posterior under the bound away from any optimum, with an axis of one restart."""
    point = TreeLikelihood(tree).init(table, np.random.default_rng(3), 2)
    return add_restart_axis(select_restart(BoundPosterior(tree).posterior_around(point, 0.3), 1))


def ascend(tree, table, max_iter=500, on_step=lambda step: False):
    family = ExactPosterior(tree)
    problem = RowProblem(family, Likelihood(), table)
    return DampedAscent(max_iter, tree.leaves.exact_tol).solve(
        problem, family.from_posterior(initial(tree, table)), on_step
    )


def test_gradients_are_the_derivatives_in_the_scores(tree, table):
    x, posterior = augment(table.X), initial(tree, table)
    rng, ones = np.random.default_rng(1), np.ones((1, len(x)))
    rows = tree.leaves.expected_log_likelihood(posterior.leaves, x, packed_outer(x), table.y)
    scores = [rng.normal(size=(*gate.mean.shape[:-1], len(x))) for gate in posterior.gates]

    def explained(scores):
        gates, probs = zip(*(gate_rows(gate) for gate in scores), strict=True)
        return tree.explain(gates, rows, table.y), probs

    (_, shares), probs = explained(scores)
    for k, (node, share, prob) in enumerate(zip(tree.descend(shares, ones), shares, probs, strict=True)):
        gradient = node * (share - prob)
        for place in np.ndindex(gradient.shape[:-1]):
            ends = []
            for h in (STEP, -STEP):
                moved = [s.copy() for s in scores]
                moved[k][place] += h
                ends.append(explained(moved)[0].log_likelihood[0])
            numeric = (ends[0] - ends[1]) / (2 * STEP)
            np.testing.assert_allclose(gradient[place], numeric, atol=GRADIENT * np.abs(gradient).max())


def test_steps_rise_and_say_how_they_ended(tree, table):
    solution = ascend(tree, table)
    assert np.diff(solution.curves[0]).min() >= 0 and solution.curves[0][-1] > solution.curves[0][0]
    assert solution.converged[0] and solution.n_iter[0] == len(solution.curves[0]) - 1
    assert solution.value[0] == solution.curves[0][-1]
    for max_iter in (0, 1, 4):
        short = ascend(tree, table, max_iter)
        assert short.outcomes == [Outcome.MAX_ITER] and short.n_iter[0] == max_iter
        np.testing.assert_array_equal(short.curves[0], solution.curves[0][: max_iter + 1])


def test_callbacks_see_and_stop_the_steps(tree, table):
    family = ExactPosterior(tree)
    seen = []
    solution = ascend(tree, table, on_step=lambda step: seen.append(step) or step.iteration == 3)
    assert [step.iteration for step in seen] == [1, 2, 3] and solution.outcomes == [Outcome.STOPPED]
    np.testing.assert_array_equal([step.value for step in seen], solution.curves[0][1:])
    for step in seen:
        value = RowProblem(family, Likelihood(), table).sweep(step.params()).value
        assert float(value) == pytest.approx(step.value, rel=EQUAL["rtol"])


def test_the_exact_bound_is_stationary_at_its_end(tree, table):
    """In every direction of means, precisions and rates the slope has all but gone."""
    family = ExactPosterior(tree)
    problem, rng = RowProblem(family, Likelihood(), table), np.random.default_rng(2)

    def moved(softmax, direction, length):
        """Along a direction in units of the posterior's own standard deviations."""
        (weights, precision), (mean, shape, rate) = softmax, direction
        root = np.linalg.cholesky(precision)
        precision = root @ (np.eye(precision.shape[-1]) + length * shape) @ np.swapaxes(root, -1, -2)
        step = np.linalg.solve(np.swapaxes(root, -1, -2), mean[..., None])[..., 0]
        rate = weights.rate * np.exp(length * rate)
        return GatePosterior(GaussianWeights(weights.mean + length * step, *inverse(precision), rate), precision)

    def random_direction(weights):
        shape = rng.normal(size=weights.covariance.shape)
        parts = (
            rng.normal(size=weights.mean.shape),
            shape + np.swapaxes(shape, -1, -2),
            rng.normal(size=weights.rate.shape),
        )
        size = np.sqrt(sum((part**2).sum() for part in parts))
        return [0.0 * part if weights.mean.shape[-2] == 1 else part / size for part in parts]

    def largest_slope(params):
        slopes = []
        for _ in range(12):
            directions = [random_direction(softmax.weights) for softmax in params.gates]
            ends = [
                problem.sweep(
                    params._replace(gates=tuple(moved(s, d, h) for s, d in zip(params.gates, directions, strict=True)))
                ).value[0]
                for h in (STEP, -STEP)
            ]
            slopes.append((ends[0] - ends[1]) / (2 * STEP))
        return np.abs(slopes).max()

    assert largest_slope(ascend(tree, table).params) < 0.05 < largest_slope(family.from_posterior(initial(tree, table)))


def test_coordinates_lead_there_and_back(tree, table):
    family = ExactPosterior(tree)
    params = family.from_posterior(initial(tree, table))
    coordinates = family.to_accelerated(params)
    again = family.from_accelerated(unflatten(flatten(coordinates), coordinates), params)
    np.testing.assert_allclose(flatten(again), flatten(params), **EQUAL)
    negative = tuple(c._replace(precision=-c.precision) for c in coordinates)
    assert family.from_accelerated(negative, params) is None


def test_the_common_shift_is_the_divergence_of_dependent_weights():
    """Beside a dense normal posterior of all weights of the softmax, at the best covariance T of the shift and near it."""
    rng, prior, size = np.random.default_rng(2), GammaPrior(1.5, 0.7), 3
    half = rng.normal(size=(4, size, size))
    precision = half @ half.transpose(0, 2, 1) + 3 * np.eye(size)
    covariance, log_det = inverse(precision)
    weights = GaussianWeights(rng.normal(size=(4, size)), covariance, log_det, rng.uniform(2, 5, size=4))
    alpha = prior.precision(weights.rate, size)
    assert np.linalg.eigvalsh(precision).min() > alpha.max()

    def dense(shift):
        blocks = np.zeros((4, size, 4, size))
        for i in range(4):
            blocks[i, :, i] = covariance[i]
        joint = (blocks + shift[None, :, None, :]).reshape(4 * size, 4 * size)
        apart = weights_log_prior(weights, prior).sum() - log_det.sum() / 2
        return apart + np.linalg.slogdet(joint)[1] / 2 - alpha.sum() * np.trace(shift) / 2

    best = np.eye(size) / alpha.sum() - np.linalg.inv(precision.sum(axis=0))
    one_model = GatePosterior(add_restart_axis(weights), precision[None])
    assert gate_log_prior(one_model, prior) == pytest.approx(dense(best), rel=EQUAL["rtol"])
    assert dense(best) > max(dense(0.9 * best), dense(1.1 * best), dense(best + 0.01 * np.eye(size)))


def test_there_is_no_shift_where_the_weights_are_wider_than_their_prior():
    """A shift adds variance: where even none would be too much, the bound gains nothing."""
    prior, size = GammaPrior(), 3
    wide = np.full(size, 1e-9) * np.eye(size)[None].repeat(2, axis=0)
    covariance, log_det = inverse(wide)
    weights = GaussianWeights(np.zeros((2, size)), covariance, log_det, np.ones(2))
    apart = weights_log_prior(weights, prior).sum()
    assert gate_log_prior(GatePosterior(add_restart_axis(weights), wide[None]), prior) == pytest.approx(apart)


def test_extrapolated_steps_do_not_leave_the_probabilities():
    """Rows on which such steps once went to precisions of negative sum, and an evidence of 1e10."""
    X, y = load_breast_cancer(return_X_y=True)
    kept = np.random.default_rng(5).permutation(569)[:427]
    model = MultimodalSoftmaxClassifier(1).fit(X[kept], y[kept])
    assert model.log_evidence_ < model.corrected_log_evidence_ < 0 and model.score(X[kept], y[kept]) > 0.98


def test_points_are_standard():
    for z in standard_points([np.zeros((2, 1, 5, 3)), np.zeros((2, 2, 20, 3))], 64):
        flat = z.reshape(len(z), -1)
        np.testing.assert_allclose(flat.mean(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(flat.T @ flat / len(flat), np.eye(flat.shape[1]), atol=1e-10)


def test_corrected_evidence_is_near_the_log_marginal_likelihood(rng):
    """Beside simulation from the prior, which a few rows allow."""
    x, y = np.array([-1.2, -0.4, 0.3, 1.5]), np.array([0, 1, 0, 0])
    X1 = np.column_stack([x, np.ones(4)])
    options = dict(shape=2.0, rate=3.0, tol=1e-8, random_state=0)
    model = MultimodalSoftmaxClassifier([2, 1], **options).fit(x[:, None], y)
    alpha = rng.gamma(2.0, 1 / 3.0, size=(50_000, 3, 1))
    scores = (rng.normal(size=(50_000, 3, 2)) / np.sqrt(alpha)) @ X1.T
    own = np.where(y == 0, logsumexp(scores[:, :2], axis=1), scores[:, 2])
    exact = logsumexp((own - logsumexp(scores, axis=1)).sum(axis=1)) - np.log(50_000)
    bound = model.corrected_log_evidence_ - np.log(2)  # of one of the two equal posteriors
    assert model.log_evidence_ + np.log(2) < bound < exact
    assert bound > exact - 1.0  # the quadratic bound is up to six below


@pytest.fixture(scope="module")
def moons():
    return make_moons(120, noise=0.15, random_state=0)


@pytest.mark.matrix
def test_corrected_evidence_is_above_the_quadratic_bound(moons):
    options = dict(criterion="evidence", n_init=2, tol=1e-4, random_state=0)
    table = MixtureOfExpertsClassifier(max_experts=3, **options).fit(*moons).search_results_
    both = np.log([1.0, 2.0, 6.0])
    assert np.all(table["corrected_log_evidence"] - both > table["log_evidence"] + both)


ESTIMATORS = [MultimodalSoftmaxClassifier(2), MixtureOfExpertsClassifier(2), MixtureOfExpertsRegressor(2)]


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_a_fit_tells_of_the_steps_and_can_be_stopped_in_them(model, moons):
    steps = []

    def stop_at_third(step):
        steps.append((step.solver, step.iteration))
        return step.solver == "exact posterior" and step.iteration == 3

    model.set_params(n_init=1, random_state=0, callback=stop_at_third).fit(*moons)
    assert steps[-3:] == [("exact posterior", k) for k in (1, 2, 3)]
    assert [step for step in steps[:-3] if step[0] != "EM"] == []
    assert model.stopping_reason_ == "stopped by the callback" and not model.converged_
    assert model.n_iter_ == len(steps) - 3  # those of the bound, as `objective_curve_` has them
    assert np.isfinite(model.predict(moons[0])).all()


@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_max_iter_limits_each_solver(model, moons):
    steps = []
    model.set_params(n_init=1, random_state=0, tol=0.1, max_iter=7, callback=lambda step: steps.append(step) and False)
    with pytest.warns(ConvergenceWarning, match="max_iter=7 reached"):
        model.fit(*moons)
    last = {step.solver: step.iteration for step in steps}
    assert max(step.iteration for step in steps) == 7 == last["exact posterior"]
    assert not model.converged_
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.set_params(max_iter=600).fit(*moons)


def test_the_ascent_ends_at_its_first_gain_below_tol_per_unit_of_weight(tree, table):
    family, tol = ExactPosterior(tree), 1e-3
    problem = RowProblem(family, Likelihood(), table)
    solution = DampedAscent(500, tol).solve(problem, family.from_posterior(initial(tree, table)))
    assert solution.outcomes == [Outcome.CONVERGED]
    curve = solution.curves[0]
    raised = curve[np.r_[True, np.diff(curve) > 0]]  # six steps that raised it count together
    small = raised[6:] - raised[:-6] < tol * table.total_weight
    assert small[-1] and not small[:-1].any()
