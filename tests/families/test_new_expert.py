"""A kind of expert added outside the package, in this one file, keeps all laws and serves both inferences."""

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
from latentia.estimators.softmax.exact_posterior import ExactPosterior
from latentia.estimators.softmax.models import ExpertTreeSpec
from latentia.families.blocks.weights import (
    GammaPrior,
    NaturalStats,
    from_accelerated,
    posterior_around,
    score_moments,
    score_variance,
    to_accelerated,
    update_weights,
    weights_log_prior,
)
from latentia.families.softmax_tree.experts import Expert
from latentia.families.softmax_tree.tree import Experts, ExpertsLikelihood
from latentia.solvers import EM, BatchedLBFGS


class UnitScores(NamedTuple):
    score: object  # (..., L, N)
    target: object  # (O, N)


class UnitPoint(NamedTuple):
    weights: object  # (..., L, O, D)


class UnitPointScores(NamedTuple):
    value: object  # (..., L, N)
    residual: object  # (..., L, O, N)


@dataclass(frozen=True)
class UnitNoiseExpert(Expert):
    """Linear in x, with Gaussian noise of variance one."""

    n_outputs: int
    prior: GammaPrior = field(default_factory=GammaPrior)

    n_classes = 1

    @property
    def n_scores(self):
        return self.n_outputs

    def n_free(self, size):
        return self.n_outputs * size

    def posterior_around(self, weights, variance):
        return posterior_around(weights, variance, self.prior)

    def infer(self, posterior, x, outer, y):
        square = (transpose(y) - params_at_rows(posterior.mean, x)) ** 2 + score_variance(posterior.covariance, outer)
        return UnitScores(-namespace(x).sum(square + LOG_2PI, axis=-2) / 2, transpose(y))

    def statistics(self, scores, responsibilities, x, outer):
        weight = responsibilities[..., None, :] + namespace(x).zeros_like(scores.target)
        return NaturalStats(weighted_row_sums(weight, outer), weighted_row_sums(weight * scores.target, x))

    def update(self, posterior, stats, beta):
        return update_weights(posterior, stats, self.prior, beta)

    def log_prior(self, posterior, beta):
        return namespace(posterior.mean).sum(weights_log_prior(posterior, self.prior, beta), axis=(-2, -1))

    def to_accelerated(self, posterior):
        return to_accelerated(posterior)

    def from_accelerated(self, coordinates, posterior):
        return from_accelerated(coordinates, posterior)

    def point_of(self, posterior):
        return UnitPoint(posterior.mean)

    def initial_point(self, weights):
        return UnitPoint(weights)

    def log_likelihood(self, point, x, y):
        residual = transpose(y) - params_at_rows(point.weights, x)
        return UnitPointScores(-namespace(x).sum(residual**2 + LOG_2PI, axis=-2) / 2, residual)

    def gradient_sums(self, scores, responsibilities, x):
        return UnitPoint(weighted_row_sums(responsibilities[..., None, :] * scores.residual, x))

    def predictive_moments(self, point, posterior, x, outer):
        mean, variance = score_moments(point.weights, posterior, x, outer)
        return mean, np.ones_like(mean) + (0.0 if variance is None else variance)

    def log_predictive(self, point, posterior, x, outer, y):
        mean, variance = self.predictive_moments(point, posterior, x, outer)
        return -np.sum((y.T - mean) ** 2 / variance + np.log(variance) + LOG_2PI, axis=-2) / 2


EXPERT = UnitNoiseExpert(2)
VARIATIONAL = [Experts((3,), EXPERT), Experts((2, 2), EXPERT, GammaPrior(2.0, 0.5)), Experts((2,), EXPERT, beta=0.5)]
LIKELIHOOD = [ExpertsLikelihood((3,), EXPERT, 0.3), ExpertsLikelihood((2, 2), EXPERT)]
EXACT = [ExactPosterior(ExpertTreeSpec((3,), EXPERT))]


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
    X, y = EXPERT.example_rows(rng, N_ROWS, N_FEATURES)
    family = Experts((1,), EXPERT)
    problem = RowProblem(family, Likelihood(), ArraySource(X, y))
    solution = EM(200, 1e-13).solve(problem, family.init(problem.source, rng, 1))
    posterior = solution.params.experts
    x = np.column_stack([X, np.ones(N_ROWS)])
    alpha = EXPERT.prior.precision(posterior.rate, x.shape[1])[0, 0]
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
        def _expert(self, n_targets):
            return UnitNoiseExpert(n_targets, self._prior)

        def _model_attributes(self, data, model):  # it has no noise to publish
            return super(MixtureOfExpertsRegressor, self)._model_attributes(data, model)

    X = rng.normal(size=(150, 2))
    y = np.abs(X[:, 0]) + 0.1 * rng.normal(size=150)
    model = UnitNoiseRegressor(max_experts=2, inference=inference, ridge=0.01, n_init=1, tol=1e-2, random_state=0).fit(
        X, y
    )
    mean, std = model.predict(X, return_std=True)
    assert mean.shape == std.shape == (150,) and model.score(X, y) > 0.5
    assert (std >= model.output_scale_).all()  # the noise alone
