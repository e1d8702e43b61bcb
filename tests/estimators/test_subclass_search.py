"""Compressive search, refinement and brute force on made-up scores."""

import numpy as np
import pytest

from latentia.estimators.latent_softmax.subclass_search import (
    Trial,
    best_configuration,
    children_of,
    compressions,
    compressive_search,
    exhaustive_search,
    refine,
)


def landscape(peak, relevant):
    """Fits whose score falls with the distance from a peak, and whose surplus subclasses hold next to nothing."""
    fitted = []

    def fit(config, parents):
        fitted.append((config, [(trial.model, keep.sum()) for trial, keep in parents]))
        proportions = []
        for n, most in zip(config, relevant, strict=True):
            part = np.where(np.arange(n) < most, 1.0, 1e-4)
            proportions.append(part / part.sum())
        return Trial(-float(np.abs(np.subtract(config, peak)).sum()), np.concatenate(proportions), config)

    return fit, fitted


def test_compressive_search_finds_what_larger_models_compress_to():
    fit, fitted = landscape(peak=(3, 1, 2), relevant=(3, 1, 2))
    seen = compressive_search(fit, (5, 5, 5), [0.05], max_rounds=2)
    assert best_configuration(seen) == (3, 1, 2)
    assert seen[(3, 1, 2)].parents == [(3, 3, 3), (4, 4, 4), (5, 5, 5)]
    children = children_of(seen)
    assert children[(5, 5, 5)] == [(3, 1, 2)] and children[(1, 1, 1)] == []
    assert children[(2, 2, 2)] == [(2, 1, 2)] and seen[(2, 1, 2)].round == 2
    # a child starts from the subclasses its parents kept
    assert dict(fitted)[(3, 1, 2)] == [((3, 3, 3), 6), ((4, 4, 4), 6), ((5, 5, 5), 6)]
    assert len(seen) == len(fitted) <= 10


def test_one_round_has_no_children_fitted():
    fit, fitted = landscape(peak=(3, 1), relevant=(3, 1))
    seen = compressive_search(fit, (4, 4), [0.05], max_rounds=1)
    assert list(seen) == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert not any(children_of(seen).values())


def test_several_thresholds_spawn_several_children():
    trial = Trial(0.0, np.array([0.5, 0.35, 0.12, 0.03, 0.9, 0.1]), None)
    children = compressions((4, 2), trial, [0.05, 0.2, 0.99])
    assert list(children) == [(3, 2), (2, 1), (1, 1)]  # the largest subclass of a class always stays
    assert children[(2, 1)].tolist() == [True, True, False, False, True, False]


def test_limits_of_small_classes_are_kept():
    fit, _ = landscape(peak=(2, 5), relevant=(9, 9))
    seen = compressive_search(fit, (2, 5), [0.05], max_rounds=2)
    assert list(seen) == [(1, 1), (2, 2), (2, 3), (2, 4), (2, 5)]


@pytest.mark.parametrize("peak", [(1, 3), (4, 2), (2, 2), (3, 4)])
def test_refinement_climbs_within_the_budget(peak):
    fit, fitted = landscape(peak, relevant=(9, 9))  # nothing compresses
    seen = compressive_search(fit, (5, 5), [0.05], max_rounds=2)
    refine(fit, seen, (5, 5), max_models=10)
    assert len(seen) == len(fitted) <= 10
    assert best_configuration(seen) == peak


@pytest.mark.parametrize("max_rounds", [1, 2, 3])
def test_parents_and_children_are_fitted_and_agree(max_rounds):
    fit, _ = landscape(peak=(3, 1), relevant=(3, 1))
    seen = compressive_search(fit, (4, 4), [0.05, 0.4], max_rounds)
    refine(fit, seen, (4, 4), max_models=12)
    children = children_of(seen)
    assert set(children) == set(seen)
    pairs = {(parent, config) for config, entry in seen.items() for parent in entry.parents}
    assert pairs == {(parent, config) for parent, found in children.items() for config in found}
    assert {config for pair in pairs for config in pair} <= set(seen)


@pytest.mark.parametrize("max_models", [1, 2, 5, 7, 10])
def test_no_more_models_are_fitted_than_allowed(max_models):
    everything = landscape((3, 1, 2), relevant=(3, 1, 2))
    compressive_search(everything[0], (12, 12, 12), [0.05], max_rounds=2)
    assert len(everything[1]) > 10
    fit, fitted = landscape((3, 1, 2), relevant=(3, 1, 2))
    seen = compressive_search(fit, (12, 12, 12), [0.05], 2, max_models)
    refine(fit, seen, (12, 12, 12), max_models)
    assert len(seen) == max_models
    assert [config for config, _ in fitted] == [config for config, _ in everything[1]][:max_models]


def test_the_default_budget_leaves_compressive_search_alone():
    for relevant in ((1, 1), (3, 1), (2, 5), (9, 9)):
        free, limited = landscape((3, 2), relevant), landscape((3, 2), relevant)
        compressive_search(free[0], (5, 5), [0.05], max_rounds=2)
        compressive_search(limited[0], (5, 5), [0.05], 2, 10)
        assert free[1] == limited[1]


def test_refinement_without_budget_does_nothing():
    fit, fitted = landscape((4, 1), relevant=(9, 9))
    seen = compressive_search(fit, (3, 3), [0.05], max_rounds=2)
    refine(fit, seen, (3, 3), max_models=0)
    assert len(fitted) == 3


def test_brute_force_fits_every_configuration():
    fit, fitted = landscape((3, 2), relevant=(9, 9))
    seen = exhaustive_search(fit, (4, 3))
    assert len(seen) == 12 == len({config for config, _ in fitted})
    assert best_configuration(seen) == (3, 2)


def test_a_wish_to_stop_ends_the_search():
    fit, fitted = landscape((3, 2), relevant=(9, 9))
    for search in (compressive_search, exhaustive_search):
        fitted.clear()
        options = ([0.05], 2) if search is compressive_search else ()
        search(fit, (4, 3), *options, stopped=lambda: len(fitted) == 2)
        assert len(fitted) == 2
