"""Nothing escapes the matrix, and what is added from outside passes through it."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
import test_objectives
import test_sweep
from found_parts import FAMILIES, OBJECTIVES, concrete
from sklearn.base import clone
from sklearn.datasets import load_wine

from latentia import GaussianMixtureClassifier, LatentClassificationModel
from latentia.arrays.namespace import namespace, one_hot, softmax
from latentia.engine.contracts import Family, Objective
from latentia.engine.sweep import Conditional, Likelihood, RowProblem, check_compatible


def test_every_objective_is_in_the_matrix():
    assert {type(o) for o in OBJECTIVES} == set(concrete(Objective))


def test_every_family_has_examples():
    assert {type(f.part) for f in FAMILIES} == set(concrete(Family))


def test_parts_do_not_change_in_a_sweep(family, rows, params):
    before = pickle.dumps((family, rows.X, rows.y, params))
    RowProblem(family, Likelihood(), rows).sweep(params)
    assert pickle.dumps((family, rows.X, rows.y, params)) == before


@pytest.mark.parametrize("falling", [o for o in OBJECTIVES if not o.rises_under_em], ids=repr)
def test_em_refuses_objectives_that_may_fall(falling):
    with pytest.raises(ValueError, match=f"objective={type(falling).__name__} can fall under EM"):
        check_compatible(FAMILIES[0].part, falling, needs_em=True, needs_gradient=False)


@pytest.mark.families("conditional")
def test_conditional_families_refuse_comparisons_of_classes(family):
    with pytest.raises(ValueError, match="scores only the given labels"):
        check_compatible(family, Conditional(), needs_em=False, needs_gradient=False)


@dataclass(frozen=True)
class Quadratic(Objective):
    """Minus the squared distance between class probabilities and the label, as docs/add_an_objective.md has it."""

    sharpness: float = 1.0

    def evaluate(self, log_joint, y):
        xp = namespace(log_joint)
        own, labeled = one_hot(y, log_joint.shape[-2], log_joint.dtype), y >= 0
        p = softmax(self.sharpness * log_joint, axis=-2)
        error = own - p
        value = -xp.sum(error * error, axis=-2)
        weight = 2 * self.sharpness * p * (error - xp.sum(error * p, axis=-2, keepdims=True))
        return xp.where(labeled, value, xp.zeros_like(value)), xp.where(labeled, weight, xp.zeros_like(weight))


def test_an_objective_from_outside_obeys_the_laws_of_objectives(rng):
    scores = rng.normal(scale=3.0, size=(2, 4, 19)), rng.integers(-1, 4, size=19)
    test_objectives.test_weight_is_the_derivative_of_the_value(Quadratic(), scores)
    test_objectives.test_weights_of_a_row_add_up(Quadratic(), scores)
    test_objectives.test_classes_may_be_permuted(Quadratic(), scores)
    test_objectives.test_a_single_class_has_no_competitor(Quadratic())
    test_objectives.test_weights_add_up_in_single_precision_however_far_the_scores_are(Quadratic(), -1e5, rng)


@pytest.mark.families("smooth", "generative")
def test_an_objective_from_outside_sweeps_with_every_family(family, rows, params, rng):
    test_sweep.test_gradient_is_the_slope_of_the_value(family, Quadratic(), rows, params, rng)
    test_sweep.test_chunks_do_not_matter(family, Quadratic(), rows, params)
    test_sweep.test_a_row_of_weight_two_is_that_row_twice(family, Quadratic(), rows, params, rng)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", [GaussianMixtureClassifier, LatentClassificationModel])
def test_an_objective_from_outside_is_an_option_of_the_estimators(estimator):
    X, y = load_wine(return_X_y=True)
    X = X[:, :3]
    options = dict(n_components=1, random_state=0, n_init=2, max_iter=40, tol=1e-6)
    plain, model = estimator(**options), estimator(objective=Quadratic(0.5), **options)
    assert clone(model).objective == Quadratic(0.5)

    def total(fitted):
        """The objective by hand, on the probabilities of the sharpened scores."""
        p = softmax(0.5 * fitted.predict_joint_log_proba(X), axis=1)
        return -((np.eye(3)[y] - p) ** 2).sum()

    plain.fit(X, y)
    model.fit(X, y)
    np.testing.assert_allclose(model.objective_curve_[-1], total(model), rtol=1e-6)
    assert total(model) > total(plain) + 1.0
