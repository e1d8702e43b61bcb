"""How LatentClassifier holds rows out, weighs what was said of them, and reads columns: by hand."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_softmax, logsumexp
from sklearn.base import clone
from tolerances import EQUAL, REFIT

from latentia import LatentClassificationModel, LatentClassifier
from latentia.estimators.latent_classifier.candidates import (
    Options,
    SearchFold,
    TrainingRows,
    assign_folds,
    completed_rows,
    make_candidates,
    search_folds,
)
from latentia.estimators.latent_classifier.classifier import FEW_ROWS
from latentia.estimators.latent_classifier.features import (
    MAX_DISTANCE,
    MIN_RELEVANCE,
    KernelMap,
    NumberColumns,
    class_relevance,
    share_of_gaps,
)
from latentia.estimators.latent_classifier.search import run_search
from latentia.estimators.latent_classifier.stacking import HeldOut, log_loss, predict_held_out, without_small
from latentia.solvers import Outcome
from latentia.table.weights import content_keys, folds_by_content, sum_of_cubes

few_steps = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def held_out_twice(rng, n_rows=30, n_classes=3, n_candidates=4):
    """Every row in one fold of each of two repeats; one candidate sees the class, more or less."""
    rows = np.tile(np.arange(n_rows), 2)
    fold = np.r_[np.arange(n_rows) % 2, 2 + rng.permutation(n_rows) % 2]
    codes = rng.integers(n_classes, size=n_rows)[rows]
    scores = rng.normal(size=(n_candidates, 2 * n_rows, n_classes))
    scores[0, np.arange(2 * n_rows), codes] += 1.0
    prior = np.log(np.bincount(codes, minlength=n_classes) / codes.size)
    return HeldOut(codes, np.full(2 * n_rows, 0.5), fold, rows, prior, log_softmax(scores, axis=-1))


def test_no_other_copy_of_a_row_counts_in_what_is_expected_of_it(rng):
    """What the candidates say of a fold's rows in other folds, and how those rows are labeled there, is not seen."""
    before = held_out_twice(rng)
    said = predict_held_out(before, 200, 1e-3)
    for fold in range(4):
        mine = before.fold == fold
        copies = np.isin(before.rows, before.rows[mine]) & ~mine
        log_proba, codes = before.log_proba.copy(), before.codes.copy()
        log_proba[:, copies] = log_proba[::-1, copies]
        codes[copies] = (codes[copies] + 1) % 3
        other = predict_held_out(before._replace(log_proba=log_proba, codes=codes), 200, 1e-3)
        np.testing.assert_allclose(other[mine], said[mine], **EQUAL)


@few_steps
def test_a_row_that_is_held_out_several_times_weighs_as_much_as_once(rng):
    X, y = rng.normal(size=(40, 3)), np.where(np.arange(40) % 5 == 0, -1, np.arange(40) % 2)
    weight = rng.uniform(0.5, 2.0, 40)
    data = LatentClassificationModel(kinds="continuous", unlabeled=-1)._read_input(X, y, weight)
    folds = search_folds(2, data, 1000, 3, rng)
    found = run_search(
        make_candidates("fast", data, Options(1, 2, 1e-2))[:1], data, folds, 0, None, lambda trial: False
    )
    assert np.bincount(found.held_out.rows).max() == 3
    np.testing.assert_allclose(
        np.bincount(found.held_out.rows, found.held_out.weight, minlength=40), np.where(y >= 0, weight, 0.0), **EQUAL
    )


@few_steps
def test_the_pool_is_the_mean_of_members_tempered_about_the_shares_of_the_classes(rng):
    y = (np.arange(90) % 9 == 0).astype(int)
    X = rng.normal(size=(90, 3)) + y[:, None]
    X[::4, 1] = np.nan
    model = LatentClassifier(effort="fast", cv=3, random_state=0).fit(X, y)
    stack, share = model._model, np.log([80 / 90, 10 / 90])

    def tempered(log_proba, temperature):
        return log_softmax(share + (log_proba - share) / temperature, axis=1)

    votes = [np.log(vote.weight) + tempered(vote.member.log_proba(X), vote.temperature) for vote in stack.votes]
    expected = tempered(logsumexp(votes, axis=0), stack.temperature)
    temperatures = np.array([stack.temperature, *(vote.temperature for vote in stack.votes)])
    assert np.abs(np.log(temperatures)).max() > 0.02  # or the law would say nothing
    np.testing.assert_allclose(model.predict_log_proba(X), expected, **EQUAL)


@pytest.mark.filterwarnings("ignore:Column 1 has no known value")
def test_columns_without_a_value_are_left_out(rng):
    X = np.where(np.arange(3) == 1, np.nan, rng.normal(size=(20, 3)))
    data = LatentClassificationModel(kinds="continuous")._read_input(X, np.arange(20) % 2, None)
    columns = NumberColumns.from_encoder(data.encoder, data.preprocessor.empty_columns)
    np.testing.assert_array_equal(columns.expand(X), X[:, [0, 2]])
    assert columns.n_columns == 2
    assert make_candidates("fast", data, Options(1, 2, 1e-2))[0].settings["n_latent"] == 2


def test_a_missing_category_is_missing_in_all_columns_made_of_it():
    X = np.array([[0.5, 2.0, 7.0], [np.nan, np.nan, 7.0], [1.5, 0.0, np.nan]])
    numbers = NumberColumns((1, 3, 0)).expand(X)  # the last column has no values
    np.testing.assert_array_equal(
        numbers, [[0.5, 0.0, 0.0, 1.0], [np.nan, np.nan, np.nan, np.nan], [1.5, 1.0, 0.0, 0.0]]
    )


@few_steps
def test_labels_that_are_unknown_do_not_count_in_what_is_expected(rng):
    X = rng.normal(size=(60, 3))
    Y = (X[:, :2] + 0.5 * rng.normal(size=(60, 2)) > 0).astype(int)
    Y[rng.random(Y.shape) < 0.3] = -1
    frame = pd.DataFrame(X, columns=list("abc"))
    model = LatentClassifier(effort="fast", cv=3, max_iter=20, random_state=0)
    model.fit(frame, pd.DataFrame(Y, columns=["large", "wide"]))
    assert model.explain(frame[:2]).columns.tolist() == [(label, c) for label in ("large", "wide") for c in "abc"]
    own = np.where(Y == 1, model.held_out_proba_, 1 - model.held_out_proba_)[
        (Y >= 0) & np.isfinite(model.held_out_proba_)
    ]
    assert model.expected_log_loss_ == pytest.approx(-np.log(own).mean(), rel=1e-9)
    assert model.expected_accuracy_ == (own > 0.5).mean()


def test_the_largest_weight_stays_however_small():
    np.testing.assert_allclose(without_small(np.full(100, 0.01)), np.full(100, 0.01), **EQUAL)
    few = np.r_[np.full(60, 0.01), 0.02, 0.38]
    np.testing.assert_allclose(without_small(few), np.r_[np.zeros(60), 0.05, 0.95], **EQUAL)


def test_a_part_of_what_was_held_out_is_that_part_of_everything(rng):
    whole = held_out_twice(rng)
    whole = whole._replace(weight=rng.random(60))
    kept = rng.random(60) < 0.4
    part = whole.subset(kept)
    for name in ("codes", "weight", "fold", "rows"):
        np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[kept])
    np.testing.assert_array_equal(part.log_proba, whole.log_proba[:, kept])
    np.testing.assert_array_equal(part.log_prior, whole.log_prior)


def test_unlabeled_rows_without_weight_ask_for_no_further_candidates(rng):
    X, y = rng.normal(size=(30, 3)), np.where(np.arange(30) < 10, -1, np.arange(30) % 2)
    reader = LatentClassificationModel(kinds="continuous", unlabeled=-1)
    tables = [(X, y, np.ones(30)), (X, y, (y >= 0) * 1.0), (X[10:], y[10:], None)]
    read = [make_candidates("balanced", reader._read_input(*table), Options(1, 2, 1e-2)) for table in tables]
    some, none, labeled = ([candidate.name for candidate in candidates] for candidates in read)
    assert none == labeled and set(labeled) < set(some)


@few_steps
def test_what_is_said_of_rows_of_a_class_that_a_fold_lacks_adds_up_to_one(rng, monkeypatch):
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 3
    data = LatentClassificationModel(kinds="continuous")._read_input(X, y, None)
    folds = search_folds([(np.flatnonzero(y != 2), np.flatnonzero(y == 2))], data, 100, 1, rng)
    candidates = make_candidates("fast", data, Options(1, 2, 1e-2))[:3]
    said = np.exp(run_search(candidates, data, folds, 0, None, lambda trial: False).held_out.log_proba)
    np.testing.assert_allclose(said.sum(axis=2), 1.0, rtol=1e-4)
    np.testing.assert_allclose(said[..., 2], 1 / 22, rtol=1e-4)  # as if the next row was the first of its class


@few_steps
@pytest.mark.parametrize("n_searched", [24, 30])
def test_members_of_a_search_among_some_rows_are_not_those_of_all(rng, n_searched):
    data = LatentClassificationModel(kinds="continuous")._read_input(rng.normal(size=(30, 2)), np.arange(30) % 2, None)
    fold = SearchFold(np.arange(12), np.arange(12, n_searched))
    found = run_search(make_candidates("fast", data, Options(1, 2, 1e-2))[:1], data, [fold], 0, None, bool)
    assert (found.members is None) == (n_searched < 30)


def test_a_class_that_a_softmax_has_not_seen_is_impossible_for_it(rng):
    X, y = rng.normal(size=(30, 3)), np.arange(30) % 3
    reader = LatentClassificationModel(1, 1, kinds="continuous", max_iter=2, random_state=0)
    data = reader._read_input(X, y, None)
    rows = TrainingRows(data, np.stack([(y != 1) * 1.0, np.ones(30)], axis=1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        base, softmax = make_candidates("fast", data, Options(1, 2, 1e-2))[:2]
        bases = base.fit(rows, None, 0)
        members = softmax.fit(rows, completed_rows(bases, rows), 0)
    said = members[0].log_proba(np.r_[X, np.full((1, 3), np.nan)])
    assert (said[:30, 1] == -np.inf).all() and np.isfinite(said[:, [0, 2]]).all()
    np.testing.assert_allclose(np.exp(said).sum(axis=1), 1.0, **EQUAL)
    np.testing.assert_allclose(said[30], bases[0].model.params.log_prior, **EQUAL)  # nothing is known of that row
    assert (said[:30, [0, 2]].argmax(axis=1)[y != 1] == y[y != 1] // 2).mean() > 0.5
    assert np.isfinite(members[1].log_proba(X)).all()


def test_it_changes_nothing_whether_completed_rows_are_kept(rng, monkeypatch):
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    X[rng.random(X.shape) < 0.2] = np.nan
    data = LatentClassificationModel(kinds="continuous")._read_input(X, y, None)
    folds = search_folds(2, data, 100, 1, rng)
    found = []
    for most in (0, 1000):
        monkeypatch.setattr("latentia.estimators.latent_classifier.candidates.MAX_KEPT", most)
        chosen = make_candidates("balanced", data, Options(1, 2, 1e-2))
        found.append(run_search(chosen, data, folds, 0, None, bool).held_out.log_proba)
    np.testing.assert_array_equal(*found)


@few_steps
def test_a_class_that_a_training_part_lacks_is_as_probable_as_a_row_that_nobody_has_seen(rng):
    X, y = rng.normal(size=(30, 3)), np.arange(30) % 3
    data = LatentClassificationModel(kinds="continuous")._read_input(X, y, None)
    folds = [SearchFold(np.flatnonzero(y != 1), np.flatnonzero(y == 1)), SearchFold(np.arange(20), np.arange(20, 30))]
    candidates = make_candidates("fast", data, Options(1, 2, 1e-2))[:2]
    said = np.exp(run_search(candidates, data, folds, 0, None, lambda trial: False).held_out.log_proba)
    np.testing.assert_allclose(said.sum(axis=-1), 1.0, **EQUAL)
    np.testing.assert_allclose(said[:, :10, 1] / (1 - said[:, :10, 1]), 1 / (20 + 1), **EQUAL)


def test_far_rows_are_as_similar_to_landmarks_as_rows_at_the_largest_distance(rng):
    rows = rng.normal(size=(20, 3)) * [1.0, 5.0, 0.2]
    kernel = KernelMap.learn(rows, 50, rng)
    edge = kernel.shift + MAX_DISTANCE * kernel.scale * [1, -1, 0]
    far = kernel.shift + 50 * kernel.scale * [1, -1, 0]
    np.testing.assert_allclose(kernel.similarities(far[None, :]), kernel.similarities(edge[None, :]), **EQUAL)
    assert not np.allclose(
        kernel.similarities((0.9 * edge + 0.1 * kernel.shift)[None, :]), kernel.similarities(edge[None, :])
    )


def test_columns_are_as_relevant_as_they_tell_classes_apart(rng):
    y = np.arange(300) % 3
    far, near, bent = 4.0 * y, 1.0 * y, 3.0 * (y == 1) * rng.choice([-1, 1], size=300)
    X = np.column_stack([far, near, bent, np.zeros((300, 2))]) + rng.normal(size=(300, 5))
    X[:, 4] = 7.0  # one value alone
    weight = np.ones(300)
    relevance = class_relevance(X, y, weight)
    assert relevance[0] > relevance[1] > relevance[3] and relevance[2] > 5 * relevance[3]
    np.testing.assert_allclose(relevance[4], MIN_RELEVANCE * (relevance[0] - relevance[4]), **EQUAL)
    order = rng.permutation(300)
    np.testing.assert_allclose(class_relevance(np.exp(X[order]), 2 - y[order], weight), relevance, **EQUAL)
    twice = rng.integers(1, 3, size=300)
    again = np.repeat(np.arange(300), twice)
    np.testing.assert_allclose(
        class_relevance(X[again], y[again], np.ones(again.size)), class_relevance(X, y, twice.astype(float)), **EQUAL
    )
    np.testing.assert_array_equal(class_relevance(X[:, 4:], y, weight), [1.0])  # nothing tells anything


def test_similarities_by_relevance_hardly_see_other_columns(rng):
    rows = rng.normal(size=(30, 4))
    kernel = KernelMap.learn(rows, 30, rng, np.array([1.0, 1.0, 1e-9, 1e-9]))
    moved = rows + np.array([0.0, 0.0, 1.0, -1.0])
    np.testing.assert_allclose(
        kernel.similarities(moved) @ kernel.similarities(moved).T,
        kernel.similarities(rows) @ kernel.similarities(rows).T,
        atol=1e-6,
    )
    assert np.abs(kernel.similarities(rows + [1.0, 0, 0, 0]) - kernel.similarities(rows)).max() > 0.1


def test_cells_may_be_missing_because_of_the_class(rng):
    """Their values say nothing; whether they are known does."""
    y = np.arange(120) % 2
    X = rng.normal(size=(120, 3))
    X[:, 1] = np.where(rng.random(120) < np.where(y == 1, 0.9, 0.1), np.nan, X[:, 1])

    def candidates(X):
        data = LatentClassificationModel(kinds="continuous")._read_input(X, y, None)
        return data, {c.name: c for c in make_candidates("balanced", data, Options(1, 5, 1e-2))}

    name, (data, found) = "softmax of similarities and gaps", candidates(X)
    folds = [SearchFold(np.arange(40, 120), np.arange(40)), SearchFold(np.arange(80), np.arange(80, 120))]
    chosen = [found["factors"], found["softmax of similarities by relevance"], found[name]]
    said = run_search(chosen, data, folds, 0, None, lambda trial: False).held_out.log_proba
    right = (said.argmax(axis=-1) == np.concatenate([y[:40], y[80:]])).mean(axis=1)
    assert right[2] > 0.75 and right[2] > right[1] + 0.1
    assert name not in candidates(np.nan_to_num(X))[1]


@few_steps
def test_priors_that_are_given_are_no_parameters(rng):
    X, y = rng.normal(size=(40, 2)), np.arange(40) % 3

    def n_free(priors):
        model = LatentClassifier(effort="fast", cv=2, max_iter=2, priors=priors, random_state=0).fit(X, y)
        joint = model.density_estimator_.predict_joint_log_proba(X)[np.arange(40), y].sum()
        return round((model.aic(X, y) + 2 * joint) / 2, 6)

    assert n_free("empirical") - n_free([0.2, 0.3, 0.5]) == 2


@pytest.fixture
def label_table(rng):
    X = rng.normal(size=(40, 3))
    return X, (X[:, :2] + 0.5 * rng.normal(size=(40, 2)) > 0).astype(int)


@few_steps
def test_a_row_of_labels_of_weight_two_is_that_row_twice(label_table):
    """In what is learned, and in what is expected of new rows."""
    X, Y = label_table
    times = np.arange(40) % 3  # some do not count at all
    model = LatentClassifier(effort="fast", cv=2, max_iter=4, random_state=0)
    weighted = clone(model).fit(X, Y, times.astype(float))
    repeated = clone(model).fit(np.repeat(X, times, axis=0), np.repeat(Y, times, axis=0))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), **REFIT)
    assert weighted.expected_log_loss_ == pytest.approx(repeated.expected_log_loss_, rel=REFIT["rtol"])
    assert weighted.expected_accuracy_ == pytest.approx(repeated.expected_accuracy_, rel=REFIT["rtol"])
    plain = clone(model).fit(X, Y)
    assert np.abs(plain.predict_proba(X) - weighted.predict_proba(X)).max() > 1e-3  # or the law would say nothing


@few_steps
def test_a_listener_of_label_matrices_hears_the_steps_may_stop_and_is_not_kept_inside(label_table):
    heard = []

    def listen(step):
        heard.append(step.iteration)
        return step.iteration == 2

    model = LatentClassifier(effort="fast", cv=2, random_state=0, callback=listen).fit(*label_table)
    assert heard == [1, 2] and model.stopping_reason_ == Outcome.STOPPED.value and not model.converged_
    assert np.isnan(model.held_out_proba_).all() and np.isnan(model.expected_log_loss_)  # nothing was held out
    assert model.callback is listen and model._model.embedding.callback is None


def test_the_log_loss_of_certain_rows_is_zero_and_has_no_sign():
    log_proba = np.array([[0.0, -np.inf], [-np.inf, 1e-16]])  # which rounding may make of certainty
    loss = log_loss(log_proba, np.array([0, 1]), np.ones(2))
    assert loss == 0.0 and not np.signbit(loss)
    X = np.c_[np.arange(60) % 2 * 1000.0, np.arange(60) % 7]
    model = LatentClassifier(effort="fast", random_state=0).fit(X, np.arange(60) % 2)
    losses = np.asarray(model.leaderboard_["log_loss"])
    assert losses.min() == 0.0 and not np.signbit(losses).any() and not np.signbit(model.expected_log_loss_)


def test_rows_of_weight_two_are_twice_in_similarities_gaps_and_numbers_of_folds(rng):
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 3)) + y[:, None]
    X[::9, 1] = np.nan
    weight = rng.integers(1, 4, size=60)
    again = np.repeat(np.arange(60), weight)
    assert y.size < FEW_ROWS <= again.size
    weighted = LatentClassifier(random_state=0).fit(X, y, weight.astype(float))
    repeated = LatentClassifier(random_state=0).fit(X[again], y[again])
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)
    assert weighted.expected_log_loss_ == pytest.approx(repeated.expected_log_loss_, rel=1e-6)
    assert share_of_gaps(X, (weight == 1).astype(float)) == pytest.approx(np.isnan(X[weight == 1]).mean())


def _votes_of_neighbors(key, codes, folds):
    """The share of rows whose class most of the 15 nearest rows of other folds have."""
    right = []
    for fold in np.unique(folds):
        inside, outside = folds == fold, folds != fold
        near = np.argsort(np.abs(key[inside][:, None] - key[outside]), axis=1)[:, :15]
        right.append((codes[outside][near].mean(axis=1) > 0.5) == codes[inside])
    return np.concatenate(right).mean()


def test_rows_held_out_do_not_know_their_neighbors(rng):
    """Labels that say nothing of the only column are predicted by chance alone."""
    tables = [(rng.normal(size=100), rng.permutation(100) % 2) for _ in range(60)]
    accuracy = [_votes_of_neighbors(key, codes, folds_by_content(key, codes, None, 5)) for key, codes in tables]
    assert abs(np.mean(accuracy) - 0.5) < 4 * np.std(accuracy) / np.sqrt(60) + 0.01


def test_folds_by_content_are_even_shared_by_equal_rows_and_indifferent_to_order(rng):
    key, codes = np.repeat(rng.normal(size=40), 2), np.repeat(rng.integers(-1, 3, size=40), 2)
    folds = folds_by_content(key, codes, None, 3)
    np.testing.assert_array_equal(folds[::2], folds[1::2])
    assert ((folds < 0) == (codes < 0)).all()
    for label in range(3):
        counts = np.bincount(folds[codes == label], minlength=3)
        assert counts.max() - counts.min() <= 2
    order = rng.permutation(80)
    np.testing.assert_array_equal(
        folds_by_content(key[order], np.where(codes < 0, -1, 2 - codes)[order], None, 3), folds[order]
    )
    assert (folds_by_content(np.ones(4), np.array([0, 0, 1, -1]), None, 3) == -1).all()


def test_rows_of_the_same_codes_in_other_columns_have_keys_of_their_own(rng):
    """Whatever the order of the columns; equal rows have one key."""
    X = np.unique((rng.random((400, 9)) < np.linspace(0.2, 0.6, 9)).astype(float), axis=0)
    weight = rng.integers(1, 4, size=len(X)).astype(float)
    cubes = weight @ X**3 / weight.sum()
    keys = content_keys(X, cubes)
    assert len(np.unique(keys)) == len(X) > 10 * len(np.unique(X.sum(axis=1)))
    order = rng.permutation(9)
    np.testing.assert_array_equal(content_keys(X[:, order], cubes[order]), keys)


def test_folds_of_categories_are_even():
    """Nearly as many rows in each, though sums of codes take few values."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.choice(list("abc"), size=(200, 8)))
    data = LatentClassificationModel()._read_input(X, np.arange(200) % 2, None)
    assert np.ptp(np.bincount(assign_folds(data, 5), minlength=5)) <= 4


def test_folds_of_a_sample_are_those_of_its_rows_alone(rng):
    """The other rows are not even looked at: a table has millions of them, a search a thousand."""
    X, y = rng.normal(size=(200, 3)), np.arange(200) % 2
    data = LatentClassificationModel()._read_input(X, y, None)
    folds = search_folds(3, data, 40, 2, np.random.default_rng(0))
    rows = np.unique(np.concatenate([fold.test for fold in folds]))
    assert rows.size == 40
    alone = search_folds(3, data.subset(rows), 40, 2, rng)
    for mine, other in zip(folds, alone, strict=True):
        np.testing.assert_array_equal(mine.train, rows[other.train])
        np.testing.assert_array_equal(mine.test, rows[other.test])


def test_equal_rows_are_held_out_together_whatever_their_class(rng):
    """A row of weight two is that row twice, and a class in one fold alone stays where it is."""
    key, codes = rng.integers(0, 40, size=300) / 7, rng.integers(0, 3, size=300)
    folds = folds_by_content(key, codes, None, 4)
    assert all(np.unique(folds[key == content]).size == 1 for content in np.unique(key))
    pairs, first, count = np.unique(np.stack([key, codes]), axis=1, return_index=True, return_counts=True)
    np.testing.assert_array_equal(folds_by_content(pairs[0], pairs[1].astype(int), count, 4), folds[first])
    rare = folds_by_content(np.arange(9.0), np.array([0] * 4 + [1] * 4 + [2]), None, 2)
    assert rare[-1] == -1 and (rare[:-1] >= 0).all()


def test_rows_without_weight_may_hold_numbers_of_any_size_and_change_no_fold(rng):
    X, weight = rng.normal(size=(40, 3)), np.r_[np.ones(39), 0.0]
    X[-1] = 1e200
    np.testing.assert_array_equal(sum_of_cubes(X, weight), sum_of_cubes(X[:-1], weight[:-1]))


@pytest.mark.parametrize("closeness", [1.0, 2.0])
def test_similarities_of_what_is_near_are_powers_of_the_others(rng, closeness):
    """Distances that count twice as much: the kernel to the fourth power."""
    X = rng.normal(size=(30, 2))
    features = KernelMap.learn(X, 50, rng, closeness=closeness).similarities(X)
    usual = KernelMap.learn(X, 50, rng).similarities(X)
    np.testing.assert_allclose(features @ features.T, (usual @ usual.T) ** closeness**2, atol=1e-4)


@pytest.mark.parametrize(("n_columns", "gaps", "effort", "tried"), [
    (30, True, "balanced", True), (31, True, "balanced", False), (31, False, "balanced", True),
    (61, False, "balanced", False), (61, True, "best", True),
])  # fmt: skip
def test_pairs_of_covariances_are_tried_where_columns_are_not_too_many(rng, n_columns, gaps, effort, tried):
    X = rng.normal(size=(40, n_columns))
    X[0] = np.nan if gaps else 0.0
    data = LatentClassificationModel(kinds="continuous")._read_input(X, np.arange(40) % 2, None)
    names = [candidate.name for candidate in make_candidates(effort, data, Options(1, 5, 1e-2))]
    assert ("two Gaussians a class" in names) == tried
