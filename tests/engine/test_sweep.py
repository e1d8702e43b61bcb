"""Laws of the sweep, for every family and objective: gradients, chunks, weights, starts."""

import numpy as np
import pytest
from found_parts import N_ROWS
from tolerances import EQUAL, GRADIENT, STEP

from latentia.arrays import linalg as entrywise_spd
from latentia.arrays import linalg as matmul
from latentia.arrays import linalg as packed_symmetric
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import flatten, leaves, select_restart, tree_map, unflatten
from latentia.families.gaussian_mixture import gaps as missingness_patterns


def assert_same(a, b):
    for x, y in zip(leaves(a), leaves(b), strict=True):
        np.testing.assert_allclose(x, y, **EQUAL)


@pytest.mark.families("smooth")
def test_gradient_is_the_slope_of_the_value(family, objective, rows, params, rng):
    problem = RowProblem(family, objective, rows)
    family, params = problem.family, select_restart(params, 0)
    free = family.to_free(params)
    vector = flatten(free)

    def value(v):
        return float(problem.sweep(family.from_free(unflatten(v, free), params)).value)

    here = family.from_free(free, params)
    analytic = flatten(family.gradient(here, problem.sweep(here).stats))
    some = rng.choice(vector.size, min(vector.size, 12), replace=False)
    directions = np.vstack([np.eye(vector.size)[some], rng.normal(size=(6, vector.size))])  # the last ones touch all
    numeric = np.array([(value(vector + STEP * d) - value(vector - STEP * d)) / (2 * STEP) for d in directions])
    assert np.abs(directions @ analytic - numeric).max() < GRADIENT * max(1.0, np.abs(numeric).max())
    assert np.abs(numeric).max() > 1e-3  # a law about zeros would say nothing


def test_chunks_do_not_matter(family, objective, rows, params):
    whole = RowProblem(family, objective, rows, max_chunk_rows=10 * N_ROWS).sweep(params)
    for size in (1, 7):
        assert_same(RowProblem(family, objective, rows, max_chunk_rows=size).sweep(params), whole)


#: Sizes of the pieces in which work is done, for the sake of time and memory alone.
PIECES = (
    (missingness_patterns, "MIN_PATTERN_ROWS"),
    (missingness_patterns, "MIN_GROUP_ROWS"),
    (entrywise_spd, "WORK_FLOATS"),
    (matmul, "TILE_ROWS"),
    (matmul, "SUM_TILE_ROWS"),
    (packed_symmetric, "LONG_RUN_ROWS"),
)


def test_the_size_of_the_pieces_of_work_does_not_matter(family, rows, params):
    """Rows are few, so that all work is one piece unless pieces are made small."""
    whole = RowProblem(family, Likelihood(), rows).sweep(params)
    for module, name in PIECES:
        assert getattr(module, name) > 1
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, name, 1)
            assert_same(RowProblem(family, Likelihood(), rows).sweep(params), whole)


def test_a_row_of_weight_two_is_that_row_twice(family, objective, rows, params, rng):
    weight = rng.integers(0, 3, size=rows.n_rows)
    again = np.repeat(np.arange(rows.n_rows), weight)
    weighted = RowProblem(family, objective, ArraySource(rows.X, rows.y, weight.astype(float))).sweep(params)
    repeated = RowProblem(family, objective, ArraySource(rows.X[again], rows.y[again])).sweep(params)
    assert_same(weighted, repeated)


def test_it_starts_where_the_repeated_rows_do(family, rows, rng):
    """A row of weight two is that row twice before the first step, too; of three starts, since kinds of starts take turns."""
    weight = rng.integers(0, 3, size=rows.n_rows)
    again = np.repeat(np.arange(rows.n_rows), weight)
    sources = ArraySource(rows.X, rows.y, weight.astype(float)), ArraySource(rows.X[again], rows.y[again])
    assert_same(*(family.init(source, np.random.default_rng(0), 3) for source in sources))


@pytest.mark.families("of classes")
def test_a_class_that_a_restart_has_no_row_of_has_a_start(family, rows, rng):
    """Its rows may be those that are held out; and no restart need have one."""
    weights = np.stack([np.where(rows.y == 2, 0.0, 1.0), np.ones(rows.n_rows)], axis=1)
    without = rows.subset(np.flatnonzero(rows.y != 2))
    for source in (ArraySource(rows.X, rows.y, weights), without):
        assert not any(np.isnan(a).any() for a in leaves(family.init(source, rng, 2)))


def test_restarts_do_not_see_each_other(family, objective, rows, params):
    problem = RowProblem(family, objective, rows)
    both = problem.sweep(params)
    for k in range(2):
        alone = problem.sweep(select_restart(params, k))
        assert_same(alone, tree_map(lambda a, k=k: a[k], both))


@pytest.mark.families("generative")
def test_own_class_is_all_that_likelihood_needs(family, rows, params):
    """The path that scores a row's own class alone agrees with the one that scores all classes.

    Of rows without a label the bound may be looser, never tighter.
    """

    class AllClasses(Likelihood):
        own_class_only = False

    labeled = rows.labeled_only()
    assert_same(
        RowProblem(family, AllClasses(), labeled).sweep(params), RowProblem(family, Likelihood(), labeled).sweep(params)
    )
    whole, own = (RowProblem(family, objective, rows).sweep(params) for objective in (AllClasses(), Likelihood()))
    if family.takes_all_labels:
        assert (own.value <= whole.value + 1e-9 * np.abs(whole.value)).all()
        assert (own.value >= whole.value - 0.05 * np.abs(whole.value)).all()
    else:
        assert_same(whole, own)


def test_order_of_rows_does_not_matter(family, objective, rows, params, rng):
    order = rng.permutation(rows.n_rows)
    shuffled = ArraySource(rows.X[order], rows.y[order])
    assert_same(
        RowProblem(family, objective, shuffled).sweep(params), RowProblem(family, objective, rows).sweep(params)
    )


def test_precomputed_parameters_say_the_same(family, rows, params):
    """What a sweep computes of the parameters beforehand, `infer` computes when it is given the plain ones."""
    cells, y = (
        rows.sample_rows(N_ROWS, np.random.default_rng(0)).rows,
        rows.sample_rows(N_ROWS, np.random.default_rng(0)).y,
    )
    plain, prepared = (family.infer(p, cells, y).log_joint for p in (params, family.precompute(params)))
    np.testing.assert_array_equal(plain, prepared)
