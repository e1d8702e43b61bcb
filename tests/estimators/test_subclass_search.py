"""Compressive search, refinement and brute force on made-up scores."""

import numpy as np
import pytest

from latentia import MultimodalSoftmaxClassifier
from latentia.engine.rows import ArraySource
from latentia.engine.tree import select_restart
from latentia.estimators.softmax import multimodal
from latentia.estimators.softmax.multimodal import (
    FittedConfiguration,
    Proposal,
    SubclassSearch,
    pruned_configurations,
    subclass_proportions,
)
from latentia.estimators.softmax.training import FittedModel, HeldOutScore, Patience, best_model, is_better
from latentia.families.softmax_tree.posterior import BoundPosterior
from latentia.families.softmax_tree.tree import TreeLikelihood, multimodal_softmax


class Landscape:
    """Fits whose score falls with the distance from a peak, and whose surplus subclasses hold next to nothing."""

    def __init__(self, limits, peak, relevant, patience=0):
        self.search, self.peak, self.relevant = SubclassSearch(limits, patience), peak, relevant
        self.fitted = []

    def run(self, proposals):
        for proposal in proposals:
            configuration = proposal.configuration
            sources = [(parent.fitted.model, parent.kept.sum()) for parent in proposal.sources]
            self.fitted.append((configuration, sources))
            proportions = []
            for n, most in zip(configuration, self.relevant, strict=True):
                part = np.where(np.arange(n) < most, 1.0, 1e-4)
                proportions.append(part / part.sum())
            score = -float(np.abs(np.subtract(configuration, self.peak)).sum())
            fitted = FittedConfiguration(score, np.concatenate(proportions), configuration)
            self.search.record(proposal, fitted)
        return self.search.entries

    def compressive(self, thresholds, max_rounds, max_models=0):
        return self.run(self.search.compressive(thresholds, max_rounds, max_models))

    def climb(self, max_models):
        return self.run(self.search.neighbors(max_models))


def test_compressive_search_finds_what_larger_models_are_pruned_to():
    land = Landscape((5, 5, 5), peak=(3, 1, 2), relevant=(3, 1, 2))
    entries = land.compressive([0.05], max_rounds=2)
    assert land.search.best == (3, 1, 2)
    assert entries[(3, 1, 2)].parents == [(3, 3, 3), (4, 4, 4), (5, 5, 5)]
    children = land.search.children()
    assert children[(5, 5, 5)] == [(3, 1, 2)] and children[(1, 1, 1)] == []
    assert children[(2, 2, 2)] == [(2, 1, 2)] and entries[(2, 1, 2)].round == 2
    # a child starts from the subclasses its parents kept
    assert dict(land.fitted)[(3, 1, 2)] == [((3, 3, 3), 6), ((4, 4, 4), 6), ((5, 5, 5), 6)]
    assert len(entries) == len(land.fitted) <= 10


def test_one_round_has_no_children_fitted():
    land = Landscape((4, 4), peak=(3, 1), relevant=(3, 1))
    assert list(land.compressive([0.05], max_rounds=1)) == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert not any(land.search.children().values())


def test_several_thresholds_make_several_children():
    fitted = FittedConfiguration(0.0, np.array([0.5, 0.35, 0.12, 0.03, 0.9, 0.1]), None)
    children = pruned_configurations((4, 2), fitted, [0.05, 0.2, 0.99])
    assert list(children) == [(3, 2), (2, 1), (1, 1)]  # the largest subclass of a class always stays
    assert children[(2, 1)].tolist() == [True, True, False, False, True, False]


def test_limits_of_small_classes_are_kept():
    land = Landscape((2, 5), peak=(2, 5), relevant=(9, 9))
    assert list(land.compressive([0.05], max_rounds=2)) == [(1, 1), (2, 2), (2, 3), (2, 4), (2, 5)]


@pytest.mark.parametrize(
    "options, limits",
    [
        ({}, (3, 2, 2)),
        ({"max_subclasses": 2}, (2, 2, 2)),
        ({"patience": 0}, (4, 4, 3)),
        ({"search": "exhaustive"}, (4, 4, 3)),
    ],
    ids=str,
)
def test_a_search_tries_no_subclass_with_fewer_rows_than_weights(options, limits, monkeypatch, rng):
    """But always two of them, and in an exhaustive search as many as there are rows."""
    asked = []

    def look(limits, patience):
        asked.append(limits)
        raise InterruptedError

    monkeypatch.setattr(multimodal, "SubclassSearch", look)
    y = np.repeat([0, 1, 2], [30, 11, 3])
    weight = np.where(np.arange(44) < 2, 0.0, 3.0)  # rows without weight are none
    with pytest.raises(InterruptedError):
        model = MultimodalSoftmaxClassifier(**{"max_subclasses": 4, **options})
        model.fit(rng.normal(size=(44, 7)), y, weight)
    assert asked == [limits]


@pytest.mark.parametrize("peak", [(1, 3), (4, 2), (2, 2), (3, 4)])
def test_refinement_climbs_within_the_budget(peak):
    land = Landscape((5, 5), peak, relevant=(9, 9))  # nothing is pruned
    land.compressive([0.05], max_rounds=2)
    assert len(land.climb(max_models=10)) == len(land.fitted) <= 10
    assert land.search.best == peak


@pytest.mark.parametrize("max_rounds", [1, 2, 3])
def test_parents_and_children_are_fitted_and_agree(max_rounds):
    land = Landscape((4, 4), peak=(3, 1), relevant=(3, 1))
    land.compressive([0.05, 0.4], max_rounds)
    entries, children = land.climb(max_models=12), land.search.children()
    assert set(children) == set(entries)
    pairs = {(parent, child) for child, entry in entries.items() for parent in entry.parents}
    assert pairs == {(parent, child) for parent, several in children.items() for child in several}
    assert {configuration for pair in pairs for configuration in pair} <= set(entries)


@pytest.mark.parametrize("max_models", [1, 2, 5, 7, 10])
def test_no_more_models_are_fitted_than_allowed(max_models):
    unlimited = Landscape((12, 12, 12), (3, 1, 2), relevant=(3, 1, 2))
    unlimited.compressive([0.05], max_rounds=2)
    assert len(unlimited.fitted) > 10
    land = Landscape((12, 12, 12), (3, 1, 2), relevant=(3, 1, 2))
    land.compressive([0.05], 2, max_models)
    assert len(land.climb(max_models)) == max_models
    assert [configuration for configuration, _ in land.fitted] == [c for c, _ in unlimited.fitted][:max_models]


def test_the_default_budget_leaves_compressive_search_alone():
    for relevant in ((1, 1), (3, 1), (2, 5), (9, 9)):
        free, limited = (Landscape((5, 5), (3, 2), relevant) for _ in range(2))
        free.compressive([0.05], max_rounds=2)
        limited.compressive([0.05], 2, 10)
        assert free.fitted == limited.fitted


def test_refinement_without_budget_does_nothing():
    land = Landscape((3, 3), (4, 1), relevant=(9, 9))
    land.compressive([0.05], max_rounds=2)
    land.climb(max_models=0)
    assert len(land.fitted) == 3


def test_brute_force_fits_every_configuration():
    land = Landscape((4, 3), (3, 2), relevant=(9, 9))
    entries = land.run(land.search.exhaustive())
    assert len(entries) == 12 == len({configuration for configuration, _ in land.fitted})
    assert land.search.best == (3, 2)


def test_patience_ends_the_search_where_one_subclass_is_enough():
    land = Landscape((5,) * 4, (1,) * 4, relevant=(9,) * 4, patience=2)
    land.compressive([0.05], max_rounds=2)
    assert [sum(c) for c, _ in land.fitted] == [4, 8, 12]  # two in a row are no better
    land.climb(max_models=50)
    assert [sum(c) for c, _ in land.fitted[3:]] == [5] * 4  # and so are four neighbors
    assert land.search.best == (1, 1, 1, 1)


def test_patience_is_renewed_by_what_is_better():
    land = Landscape((8, 8), (5, 5), relevant=(9, 9), patience=1)
    land.compressive([0.05], max_rounds=2)
    assert [c for c, _ in land.fitted] == [(k, k) for k in range(1, 7)]


def test_a_smaller_neighbor_starts_without_the_smallest_subclass_of_its_class():
    search = SubclassSearch((3, 2), patience=5)
    search.record(Proposal((3, 2)), FittedConfiguration(0.0, np.array([0.5, 0.1, 0.4, 0.3, 0.7]), "parent"))
    kept = {}
    for proposal in search.neighbors(3):
        kept[proposal.configuration] = [parent.kept.tolist() for parent in proposal.sources]
        search.record(proposal, FittedConfiguration(-1.0, np.ones(4) / 2, "child"))
    assert kept == {(2, 2): [[True, False, True, True, True]], (3, 1): [[True, True, True, False, True]]}


def test_the_smallest_of_equal_models_wins():
    scores = [-1.0, -0.5 + 1e-5, -0.5, -0.5 - 2e-3]
    assert best_model(scores, [1, 4, 3, 2]) == 2
    assert best_model(scores, [1, 3, 3, 2]) == 1  # of equal sizes the first
    assert best_model([np.nan, -1.0], [1, 2]) == 1 and best_model([np.nan, np.nan], [2, 1]) == 1
    assert is_better(0.0, np.nan) and not is_better(np.nan, 0.0) and not is_better(1e-4, 0.0) and is_better(0.01, 0.0)


@pytest.mark.parametrize("has_posterior", [True, False])
def test_proportions_are_of_the_class_and_a_weight_of_two_is_the_row_twice(rng, has_posterior):
    tree = multimodal_softmax((2, 1, 3))
    X, y = tree.example_rows(rng, 40, 2)
    point = TreeLikelihood(tree).init(ArraySource(X, y), rng, 2)
    posterior = select_restart(BoundPosterior(tree).posterior_around(point, 0.3), 1) if has_posterior else None
    model = FittedModel(tree, select_restart(point, 1), posterior)
    weight = rng.integers(1, 4, 40)
    again = np.repeat(np.arange(40), weight)
    weighted = subclass_proportions(model, ArraySource(X, y, weight.astype(float)))
    repeated = subclass_proportions(model, ArraySource(X[again], y[again]))
    np.testing.assert_allclose(weighted, repeated, rtol=1e-9)
    np.testing.assert_allclose(np.add.reduceat(weighted, [0, 2, 3]), 1.0)
    plain = subclass_proportions(model, ArraySource(X, y))
    assert np.abs(plain - weighted).max() > 1e-3


def test_what_is_worse_than_chance_explains_ends_a_sequence_at_once():
    """The gap is 0.1; its standard error is 0.01 where rows agree, and 0.5 where they do not."""
    weight, gain = np.full(4, 25.0), np.array([1.0, -1.0, 1.0, -1.0])
    for spread, ends in ((0.1, True), (5.0, False)):
        patience = Patience(2)
        assert not patience.ends_with(HeldOutScore(np.full(4, -1.0), weight))
        assert patience.ends_with(HeldOutScore(np.full(4, -1.1) + spread * gain, weight)) is ends
    assert not Patience(0, HeldOutScore(np.zeros(4), weight)).ends_with(HeldOutScore(np.full(4, -9.0), weight))
    assert HeldOutScore(np.array([0.0, 1.0]), np.array([1.0, 3.0])) == 0.75


def test_a_held_out_row_of_weight_two_is_that_row_twice_in_what_chance_explains(rng):
    other, spread, weight = rng.normal(size=8), rng.normal(size=8) ** 3, rng.integers(1, 6, 8)
    again = np.repeat(np.arange(8), weight)
    verdicts = []
    for lead in np.linspace(-2, 2, 81):
        mine = other + spread - lead
        weighted = HeldOutScore(mine, weight).is_worse(HeldOutScore(other, weight))
        verdicts.append(weighted)
        one = np.ones(again.size)
        assert HeldOutScore(mine[again], one).is_worse(HeldOutScore(other[again], one)) == weighted
    assert 0 < sum(verdicts) < 81


def test_an_unsure_loser_counts_as_one_of_several():
    weight, gain = np.full(4, 25.0), np.array([1.0, -1.0, 1.0, -1.0])
    patience = Patience(2, HeldOutScore(np.zeros(4), weight))
    unsure = HeldOutScore(np.full(4, -0.1) + 5 * gain, weight)
    assert [patience.ends_with(unsure) for _ in range(2)] == [False, True]
