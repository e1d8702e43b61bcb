"""A kind of leaf added outside the package, in this one file, keeps all laws and serves both inferences."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pytest
from engine import test_sweep as sweep_laws
from found_parts import N_FEATURES, N_ROWS
from solvers import test_solvers as solver_laws
from tolerances import EQUAL

from latentia import MixtureOfExpertsRegressor
from latentia.arrays.linalg import params_at_rows, weighted_row_sums
from latentia.arrays.namespace import LOG_2PI, namespace, transpose
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.families.blocks.bounds import GammaPrior
from latentia.families.softmax_tree.leaves import (
    AcceleratedCoordinates,
    GaussianWeights,
    LeafRows,
    Leaves,
    NaturalStats,
    from_accelerated,
    join_branches,
    posterior_around,
    score_moments,
    to_accelerated,
    update_weights,
    weights_log_prior,
)
from latentia.families.softmax_tree.posterior import BoundPosterior, ExactPosterior
from latentia.families.softmax_tree.tree import SoftmaxTree, TreeLikelihood
from latentia.solvers import EM, BatchedLBFGS


class UnitPoint(NamedTuple):
    weights: object  # (..., L, O, D)


class UnitPosterior(NamedTuple):
    weights: GaussianWeights  # (..., L, O, D)


@dataclass(frozen=True)
class UnitNoiseLeaves(Leaves):
    """Linear in x, with Gaussian noise of variance one."""

    n_outputs: int
    prior: GammaPrior = field(default_factory=GammaPrior)

    n_classes = 1

    @property
    def n_scores(self):
        return self.n_outputs

    def n_free(self, size):
        return self.n_outputs * size

    def initial_point(self, weights):
        return UnitPoint(weights)

    def map_weights(self, point, fn):
        return UnitPoint(fn(point.weights))

    def log_likelihood(self, point, x, y):
        residual = transpose(y) - params_at_rows(point.weights, x)
        return LeafRows(-namespace(x).sum(residual**2 + LOG_2PI, axis=-2) / 2, (residual,))

    def gradient(self, rows, node, share, x):
        return UnitPoint(weighted_row_sums(join_branches(node * share)[..., None, :] * rows.slopes[0], x))

    def point_log_prior(self, point, ridge):
        value = -namespace(point.weights).sum(ridge * point.weights**2, axis=(-3, -2, -1)) / 2
        return value, UnitPoint(-ridge * point.weights)

    def posterior_around(self, point, variance):
        return UnitPosterior(posterior_around(point.weights, variance, self.prior))

    def point_of(self, posterior):
        return UnitPoint(posterior.weights.mean)

    def expected_log_likelihood(self, posterior, x, outer, y):
        mean, variance = score_moments(posterior.weights, x, outer)
        square = (transpose(y) - mean) ** 2 + variance
        return LeafRows(-namespace(x).sum(square + LOG_2PI, axis=-2) / 2, (transpose(y),))

    def statistics(self, rows, node, share, x, outer):
        (target,) = rows.slopes
        weight = join_branches(node * share)[..., None, :] + namespace(x).zeros_like(target)
        return NaturalStats(weighted_row_sums(weight, outer), weighted_row_sums(weight * target, x))

    def update(self, posterior, stats, beta):
        return UnitPosterior(update_weights(posterior.weights, stats, self.prior, beta))

    def log_prior(self, posterior, beta):
        by_vector = weights_log_prior(posterior.weights, self.prior, beta)
        return namespace(by_vector).sum(by_vector, axis=(-2, -1))

    def to_accelerated(self, posterior):
        return tuple(to_accelerated(posterior.weights))

    def from_accelerated(self, coordinates, posterior):
        return UnitPosterior(from_accelerated(AcceleratedCoordinates(*coordinates), posterior.weights))

    def predictive_moments(self, params, x, outer):
        mean, variance = score_moments(params.weights, x, outer)
        return mean, np.ones_like(mean) + (0.0 if variance is None else variance)

    def log_density(self, params, x, outer, y):
        mean, variance = self.predictive_moments(params, x, outer)
        return LeafRows(-np.sum((y.T - mean) ** 2 / variance + np.log(variance) + LOG_2PI, axis=-2) / 2)


LEAVES = UnitNoiseLeaves(2)
FLAT, DEEP = SoftmaxTree((3,), LEAVES), SoftmaxTree((2, 2), LEAVES, GammaPrior(2.0, 0.5))
VARIATIONAL = [BoundPosterior(FLAT), BoundPosterior(DEEP), BoundPosterior(SoftmaxTree((2,), LEAVES), beta=0.5)]
LIKELIHOOD = [TreeLikelihood(FLAT, 0.3), TreeLikelihood(DEEP)]
EXACT = [ExactPosterior(FLAT)]


def rows_and_params(family, rng):
    X, y = family.example_rows(rng, N_ROWS, N_FEATURES)
    rows = ArraySource(X, y)
    problem, start = RowProblem(family, Likelihood(), rows), family.init(rows, rng, 2)
    if family in EXACT:
        return rows, family.damped_update(start, problem.sweep(start).stats, 0.3)
    solver = EM(2, -np.inf) if family in VARIATIONAL else BatchedLBFGS(max_iter=2)
    return rows, solver.solve(problem, start).params


@pytest.mark.parametrize("member", [*VARIATIONAL, *LIKELIHOOD, *EXACT], ids=lambda member: type(member).__name__)
def test_it_keeps_the_laws_of_the_sweep(member, rng):
    rows, params = rows_and_params(member, rng)
    sweep_laws.test_chunks_do_not_matter(member, Likelihood(), rows, params)
    sweep_laws.test_a_row_of_weight_two_is_that_row_twice(member, Likelihood(), rows, params, rng)
    sweep_laws.test_restarts_do_not_see_each_other(member, Likelihood(), rows, params)
    sweep_laws.test_order_of_rows_does_not_matter(member, Likelihood(), rows, params, rng)


@pytest.mark.parametrize("member", VARIATIONAL, ids=str)
def test_its_bound_never_falls(member, rng):
    solver_laws.test_em_never_falls(member, rng)


@pytest.mark.parametrize("member", LIKELIHOOD, ids=str)
def test_its_gradient_is_the_slope_of_the_value(member, rng):
    sweep_laws.test_gradient_is_the_slope_of_the_value(member, Likelihood(), *rows_and_params(member, rng), rng)


def test_one_such_expert_is_bayesian_linear_regression(rng):
    """With the weights' precision at its posterior mean, the posterior of the weights is that of ridge regression."""
    X, y = FLAT.example_rows(rng, N_ROWS, N_FEATURES)
    family = BoundPosterior(SoftmaxTree((1,), LEAVES))
    problem = RowProblem(family, Likelihood(), ArraySource(X, y))
    solution = EM(200, 1e-13).solve(problem, family.init(problem.source, rng, 1))
    posterior = solution.params.leaves.weights
    x = np.column_stack([X, np.ones(N_ROWS)])
    alpha = LEAVES.prior.precision(posterior.rate, x.shape[1])[0, 0]
    for output in range(2):
        precision = x.T @ x + alpha[output] * np.eye(x.shape[1])
        np.testing.assert_allclose(
            posterior.mean[0, 0, output], np.linalg.solve(precision, x.T @ y[:, output]), atol=1e-5
        )
        np.testing.assert_allclose(
            posterior.covariance[0, 0, output], np.linalg.inv(precision), **EQUAL | {"rtol": 1e-5}
        )


@pytest.mark.parametrize("inference", ["vb", "ml"])
def test_an_estimator_takes_it(rng, inference):
    class UnitNoiseRegressor(MixtureOfExpertsRegressor):
        def _leaves(self, n_outputs):
            return UnitNoiseLeaves(n_outputs, self._prior)

        def _model_attributes(self, data, model):  # it has no noise to publish
            return {}

    X = rng.normal(size=(150, 2))
    y = np.abs(X[:, 0]) + 0.1 * rng.normal(size=150)
    model = UnitNoiseRegressor(max_experts=2, inference=inference, ridge=0.01, n_init=1, tol=1e-2, random_state=0).fit(
        X, y
    )
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == (150,) and model.score(X, y) > 0.5
    assert (std >= model.output_scale_).all()  # the noise alone
