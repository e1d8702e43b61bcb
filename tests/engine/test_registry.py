"""Nothing escapes the matrix."""

import pickle

import pytest
from conftest import FAMILIES, OBJECTIVES, concrete

from latentia.engine.contracts import Family, Objective
from latentia.engine.objectives import Conditional, Likelihood
from latentia.engine.problem import RowProblem, check_compatible


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
