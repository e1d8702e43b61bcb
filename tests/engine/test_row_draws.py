"""Rows that are drawn: by their weight, and the same ones wherever a table is cut."""

import numpy as np
import pytest

from latentia.engine.parts import ChunkedSource, LocalParts
from latentia.engine.rows import ArraySource, draw_rows


def test_rows_are_drawn_in_proportion_to_their_weight():
    weight = np.array([1.0, 2.0, 0.0, 5.0, 2.0])
    drawn = [draw_rows(np.zeros(5, dtype=int), weight, 1, seed)[0].rows[0] for seed in range(2000)]
    np.testing.assert_allclose(np.bincount(drawn, minlength=5) / 2000, weight / 10, atol=0.04)


def test_a_row_that_was_drawn_by_its_weight_is_not_weighed_again(rng):
    """Those of a small label are all there, and keep their weights; those of a large one stand for as much each."""
    y, weight = np.repeat([0, 1, -1], (6000, 30, 20)), rng.choice([1.0, 2.0, 9.0, 0.0], 6050)
    weight[y == 1] = rng.uniform(0.1, 3.0, 30)
    source = ArraySource(weight[:, None], y, weight)  # whose only column is the weight
    drawn, large = source.sample_rows(600, rng), weight[y == 0]
    of_large = drawn.y == 0
    assert of_large.sum() == 600 and np.ptp(drawn.weight[of_large]) < 1e-12
    assert drawn.weight[of_large][0] == pytest.approx(drawn.rows.values[of_large].mean())  # together what they weigh
    expected = np.average(large, weights=large)
    assert np.average(drawn.rows.values[of_large, 0]) == pytest.approx(expected, abs=5 * large.std() / np.sqrt(600))
    np.testing.assert_array_equal(drawn.weight[~of_large], drawn.rows.values[~of_large, 0])
    alike = source.draw_rows(600, rng, by_weight=False)  # where each weighs what it weighs
    np.testing.assert_array_equal(alike.weight, alike.X[:, 0])


def test_restarts_that_have_drawn_together_weigh_rows_by_their_own(rng):
    """A row that one of them leaves out has no weight there, however it was drawn."""
    weights = rng.uniform(0.5, 2.0, (5000, 2)) * (np.arange(5000)[:, None] % 5 != np.arange(2))
    x = np.arange(5000) % 7 + weights[:, 0]
    drawn = ArraySource(x[:, None], np.zeros(5000, int), weights).sample_rows(1000, rng)
    rows, mean = drawn.rows.values[:, 0], drawn.weight.mean(axis=1)
    np.testing.assert_allclose(mean, mean[0])
    for k in range(2):
        assert (drawn.weight[:, k] == 0).sum() > 100
        assert np.average(rows, weights=drawn.weight[:, k]) == pytest.approx(
            np.average(x, weights=weights[:, k]), abs=0.4
        )


def test_a_table_in_parts_draws_the_rows_of_the_whole_in_their_order(rng):
    y = rng.integers(-1, 3, 90)
    X, weight = rng.normal(size=(90, 2)), rng.integers(0, 4, 90).astype(float)
    whole = ArraySource(X, y, weight)
    pieces = [ArraySource(X[a:b], y[a:b], weight[a:b]) for a, b in ((0, 20), (20, 21), (21, 90))]
    parts = LocalParts.keep(pieces, fits_memory=False)
    chunked = ChunkedSource(parts, [piece.label_totals for piece in pieces], 2, is_weighted=True)
    for by_weight in (True, False):
        own, other = (source.draw_rows(7, np.random.default_rng(3), by_weight=by_weight) for source in (whole, chunked))
        for name in ("X", "y", "weight"):
            np.testing.assert_array_equal(getattr(other, name), getattr(own, name))
    for labeled in (True, False):
        own, other = (source.spread_rows(11, labeled) for source in (whole, chunked))
        np.testing.assert_array_equal(other.X, own.X)
        assert not labeled or (own.y >= 0).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_of_parts_keep_their_weights_also_where_a_part_has_no_unlabeled_row(weighted):
    """The weight of unlabeled rows is one that only parts with such rows know."""
    rng = np.random.default_rng(1)
    X, y = np.arange(60.0).reshape(30, 2), np.r_[np.full(5, -1), rng.integers(0, 2, 25)]
    weight = rng.uniform(0.5, 2.0, 30) if weighted else None
    whole = ArraySource(X, y, weight).with_unlabeled_weight(0.3)
    cuts = [slice(0, 10), slice(10, 18), slice(18, 30)]
    pieces = [ArraySource(X[cut], y[cut], None if weight is None else weight[cut]) for cut in cuts]
    parts = LocalParts.keep(pieces, fits_memory=False)
    chunked = ChunkedSource(parts, [piece.label_totals for piece in pieces], 2, weighted).with_unlabeled_weight(0.3)
    assert chunked.total_weight == pytest.approx(whole.total_weight)
    rows = np.array([12, 3, 29, 4, 17])
    for some, expected in (
        (chunked.subset(rows), whole.subset(rows)),
        (chunked.first_rows(12), whole.first_rows(12)),
        (chunked.spread_rows(12), whole.spread_rows(12)),
    ):
        np.testing.assert_array_equal(some.X, expected.X)
        np.testing.assert_allclose(some.weight, expected.weight)


@pytest.mark.parametrize("labeled", [True, False])
def test_rows_without_weight_are_never_among_those_that_stand_for_the_table(labeled):
    y, weight = np.arange(100) % 3 - 1, (np.arange(100) % 2).astype(float)
    whole = ArraySource(np.arange(200.0).reshape(100, 2), y, weight)
    counted = weight > 0
    absent = ArraySource(whole.X[counted], y[counted], weight[counted])
    np.testing.assert_array_equal(whole.spread_rows(20, labeled).X, absent.spread_rows(20, labeled).X)
    alike = whole.draw_rows(200, np.random.default_rng(0), by_weight=False)
    assert alike.n_rows == 50 and (alike.weight > 0).all()
