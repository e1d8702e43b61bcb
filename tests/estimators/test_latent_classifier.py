"""The estimator one starts with: what it tries, how it weighs, what it promises, and tables that are hard."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.datasets import load_iris, load_wine, make_classification
from sklearn.metrics import log_loss
from sklearn.model_selection import ShuffleSplit, train_test_split
from tolerances import REFIT

from latentia import LatentClassifier
from latentia.estimators.latent_classifier import classifier, stacking
from latentia.estimators.latent_classifier.classifier import reasons_array
from latentia.estimators.latent_classifier.stacking import HeldOut, fit_stack, fit_weights, pool, temper
from latentia.families.latent_factors.family import LatentFactors

FAST = {"effort": "fast", "random_state": 0}


@pytest.fixture(scope="module")
def halves():
    X, y = make_classification(400, 8, n_informative=5, n_classes=3, class_sep=1.0, random_state=3)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    return train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)


@pytest.fixture(scope="module")
def fitted(halves):
    return LatentClassifier(random_state=0).fit(halves[0], halves[2])


@pytest.mark.matrix
def test_what_it_expects_is_what_new_rows_show(fitted, halves):
    _, X, _, y = halves
    losses = -fitted.predict_log_proba(X)[np.arange(y.size), y]
    error = losses.std() / np.sqrt(y.size)
    assert abs(fitted.expected_log_loss_ - losses.mean()) < 4 * error
    assert abs(fitted.expected_accuracy_ - fitted.score(X, y)) < 4 * np.sqrt(0.25 / y.size)


def test_the_stack_is_no_worse_than_its_best_member(fitted, halves):
    _, X, _, y = halves
    board = fitted.leaderboard_
    assert list(board["log_loss"]) == sorted(board["log_loss"])
    assert board["weight"].sum() == pytest.approx(1.0) and len(fitted.weights_) == len(board)
    assert log_loss(y, fitted.predict_proba(X)) < board["log_loss"].iloc[0] + 0.03
    votes = [vote.weight for vote in fitted._model.votes]  # nobody without weight is fitted again
    assert min(votes) > 0 and len(votes) == np.count_nonzero(board["weight"]) < len(board)


def test_held_out_predictions_agree_with_what_is_expected(fitted, halves):
    held_out, y = fitted.held_out_proba_, halves[2]
    known = np.isfinite(held_out).all(axis=1)
    assert known.mean() > 0.95
    own = held_out[known, y[known]]
    assert -np.log(own).mean() == pytest.approx(fitted.expected_log_loss_, rel=0.05)


@pytest.mark.parametrize("effort", ["fast", "balanced", "best"])
def test_folds_are_drawn_again_where_few_labels_count(effort, monkeypatch, rng):
    """Rows without a label, or without weight, make no table larger; one of weight two is that row twice."""
    drawn = []

    def look(cv, data, max_rows, n_repeats, rng):
        drawn.append(n_repeats)
        raise InterruptedError

    monkeypatch.setattr(classifier, "search_folds", look)
    for n_labeled, n_unlabeled, n_without_weight in ((99, 0, 0), (99, 40, 0), (99, 0, 40), (100, 0, 0), (100, 40, 40)):
        n = n_labeled + n_unlabeled + n_without_weight
        y = np.where(np.arange(n) < n_unlabeled, -1, np.arange(n) % 2)
        weight = np.where(np.arange(n) < n - n_without_weight, 1.0, 0.0)
        with pytest.raises(InterruptedError):
            LatentClassifier(effort=effort, unlabeled=-1).fit(rng.normal(size=(n, 2)), y, weight)
    with pytest.raises(InterruptedError):
        LatentClassifier(effort=effort).fit(rng.normal(size=(50, 2)), np.arange(50) % 2, np.full(50, 2.0))
    often = {"fast": 1, "balanced": 2, "best": 4}[effort]
    assert drawn == [often, often, often, 1, 1, 1]


@pytest.mark.matrix
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_efforts_try_more_and_more(halves):
    X, y = halves[0][:45, :3], halves[2][:45]
    efforts = ("fast", "balanced", "best")
    sizes = [len(LatentClassifier(effort=e, max_iter=3, random_state=0).fit(X, y).leaderboard_) for e in efforts]
    assert sizes[0] < sizes[1] < sizes[2]


def test_explanations_point_at_the_columns_that_tell(halves):
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = rng.normal(size=(200, 3))
    X[:, 1] += 3 * y
    X[::7, 1] = np.nan
    model = LatentClassifier(**FAST).fit(X, y)
    parts = model.explain(X)
    assert parts.shape == (200, 3, 2)
    assert np.abs(parts[:, 1, 1]).mean() > 5 * np.abs(parts[:, 0, 1]).mean()
    np.testing.assert_array_equal(parts[::7, 1], 0.0)  # gaps add nothing
    shown = ~np.isnan(X[:, 1])
    assert (np.sign(parts[shown, 1, 1]) == np.sign(2 * y - 1)[shown]).mean() > 0.9


@pytest.mark.parametrize("gaps", [0.0, 0.2])
def test_members_that_share_a_model_say_what_each_says_alone(gaps, rng):
    """One that completes rows for others and votes itself looks at each row once, also without a cell."""
    y = np.arange(60) % 2
    X = pd.DataFrame({f"c{k}": rng.choice(list("abc"), 60) for k in range(3)}).assign(n=rng.normal(size=60) + y)
    X = X.mask(rng.random(X.shape) < gaps)
    model = LatentClassifier(**FAST).fit(X, y)
    votes, rows = model._model.votes, model._check_rows(X)
    assert {"factors", "softmax"} <= {vote.name for vote in votes}
    for vote, said in zip(votes, model._model._say(rows), strict=True):
        np.testing.assert_allclose(said, vote.member.log_proba(rows), rtol=1e-10, atol=1e-12)
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("infer", "infer_rows"):
            method = getattr(LatentFactors, name)

            def count(family, params, rows, *args, method=method):
                seen.append(rows.values.shape[0])
                return method(family, params, rows, *args)

            patch.setattr(LatentFactors, name, count)
        model.explain(X)
    assert sum(seen) == 60 + X.notna().to_numpy().sum()


def test_explanations_of_frames_have_classes_columns_and_index(halves):
    X, y = halves[0][:60, :3], halves[2][:60]
    model = LatentClassifier(**FAST).fit(X, np.array(["no", "yes", "maybe"])[y % 3])
    expected = model.explain(X[:4])
    table = pd.DataFrame(X[:4], columns=["a", "b", "c"], index=[7, 5, 3, 1])
    with pytest.warns(UserWarning, match="feature names"):
        found = model.explain(table)
    assert found.columns.names == ["class", "column"] and found.index.equals(table.index)
    with pytest.warns(UserWarning, match="feature names"):
        structs = model.explain(pl.from_pandas(table))
    for place, label in enumerate(model.classes_):
        assert list(found[label].columns) == list("abc")
        np.testing.assert_array_equal(found[label], expected[:, :, place])
        np.testing.assert_array_equal(structs[label].struct.unnest()["b"], expected[:, 1, place])
    for form in (expected, found, structs):
        np.testing.assert_array_equal(reasons_array(form), expected)


def test_told_to_stop_it_still_answers(halves):
    X, _, y, _ = halves
    seen = []
    model = LatentClassifier(random_state=0, callback=lambda trial: seen.append(trial) or len(seen) == 2).fit(X, y)
    assert len(model.leaderboard_) == 2 and not model.converged_
    assert [trial.candidate for trial in seen] == ["factors", "softmax"] and "leads" in seen[1].summary()
    assert model.score(X, y) > 0.5


@pytest.mark.matrix
def test_all_at_once_is_one_after_the_other(halves):
    X, _, y, _ = halves
    alone, together = (LatentClassifier(n_jobs=n, **FAST).fit(X[:80], y[:80]) for n in (None, 2))
    np.testing.assert_allclose(together.predict_proba(X), alone.predict_proba(X), **REFIT)


@pytest.mark.filterwarnings("ignore:Column 1 has no known value")
def test_hard_tables_get_sober_probabilities():
    one_each = LatentClassifier(**FAST).fit([[0.0, np.nan], [5.0, np.nan]], ["a", "b"])
    proba = one_each.predict_proba([[0.0, 1.0], [2.5, 1.0], [np.nan, np.nan]])
    assert proba.min() > 0.02 and np.abs(proba[1:] - 0.5).max() < 0.1
    assert np.isnan(one_each.expected_log_loss_)
    X, y = load_iris(return_X_y=True)
    rare = np.r_[y[:-1], 7]  # a class of one row, which no fold can hold out
    with pytest.warns(UserWarning, match="rows of 7 could not be held out") as told:
        model = LatentClassifier(**FAST).fit(X, rare)
    assert model.predict_proba(X).shape == (150, 4) and np.isfinite(model.expected_log_loss_)
    assert len(told) == 1 and model.never_held_out_.tolist() == [7] and "7 (never held out)" in model.summary()
    assert one_each.never_held_out_.tolist() == ["a", "b"]  # and the expectations, which are NaN, say it


@pytest.mark.parametrize("is_matrix", [False, True])
def test_classes_that_are_never_held_out_are_named(is_matrix, rng):
    """Two rows that are equal are one: none is predicted by its own copy. A label needs two known entries."""
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    labels = np.array(["no", "yes"])[y]
    assert LatentClassifier(**FAST).fit(X, labels).never_held_out_.size == 0
    labels, X[1] = np.r_[["twin"] * 2, labels[2:]], X[0]
    if is_matrix:
        labels = pd.DataFrame({"no": labels == "no", "twin": np.r_[1.0, np.full(59, np.nan)]}).astype(float)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = LatentClassifier(**FAST).fit(X, labels)
    assert model.never_held_out_.tolist() == ["twin"] and np.isfinite(model.expected_accuracy_)
    assert sum("rows of 'twin' could not be held out" in str(each.message) for each in told) == 1
    assert np.isnan(model.held_out_proba_[:1]).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_many_columns_and_many_rows():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    wide = rng.normal(size=(60, 200)) + 0.3 * y[:, None]
    assert LatentClassifier(max_iter=5, **FAST).fit(wide, y).score(wide, y) > 0.9
    y = rng.integers(0, 3, 12_000)
    long = rng.normal(size=(12_000, 4)) + y[:, None]
    model = LatentClassifier(max_iter=10, **FAST).fit(
        long, y
    )  # the search looks at some of the rows, the models at all
    assert model.score(long, y) > 0.75 and np.isfinite(model.held_out_proba_).all(axis=1).sum() < 12_000


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_users_folds_may_lack_a_class():
    X, y = load_wine(return_X_y=True)
    folds = [(np.flatnonzero(y != 2), np.flatnonzero(y == 2)), (np.flatnonzero(y == 2), np.flatnonzero(y != 2))]
    model = LatentClassifier(cv=folds, max_iter=20, **FAST).fit(X, y)
    assert np.isfinite(model.expected_log_loss_) and model.predict_proba(X).shape == (178, 3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("cv", [ShuffleSplit(1, test_size=8, random_state=0), [(np.arange(10, 40), np.arange(10))]])
def test_expectations_of_label_matrices_are_weighted_and_come_from_the_given_folds(cv, rng):
    X, weight = rng.normal(size=(40, 2)), rng.uniform(0.5, 5, 40)
    Y = (X + rng.normal(size=(40, 2)) > 0).astype(int)
    Y[::6, 1] = -1
    model = LatentClassifier(cv=cv, max_iter=2, **FAST).fit(X, Y, weight)
    test = next(cv.split(X))[1] if hasattr(cv, "split") else cv[0][1]
    held_out = model.held_out_proba_
    assert np.isfinite(held_out[test]).all() and np.isnan(np.delete(held_out, test, axis=0)).all()
    own = np.where(Y == 1, held_out, 1 - held_out)[test]
    weights = weight[test, None] * (Y[test] >= 0)
    assert model.expected_log_loss_ == pytest.approx(np.average(-np.log(own), weights=weights))
    assert model.expected_accuracy_ == pytest.approx(np.average(own > 0.5, weights=weights))


def test_losses_and_priors_of_classes_are_refused_for_label_matrices(rng):
    """They were left out of account in silence."""
    X = rng.normal(size=(40, 3))
    Y = (X[:, :2] > 0).astype(int)
    for options in ({"priors": [0.5, 0.5]}, {"priors": "uniform"}, {"loss_matrix": [[0, 1], [5, 0]]}):
        with pytest.raises(ValueError, match=f"{next(iter(options))} is for classes, and y is a label matrix"):
            LatentClassifier(**FAST, **options).fit(X, Y)
    model = LatentClassifier(**FAST).fit(X, Y)
    assert model.predict(X).shape == Y.shape
    with pytest.raises(ValueError, match="loss_matrix is for classes"):
        model.set_params(loss_matrix=[[0, 1], [5, 0]]).predict(X)  # classes would need no fit


def test_frames_with_text_gaps_and_empty_labels():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 120)
    frame = pd.DataFrame({
        "x": rng.normal(size=120) + 3 * y, "plan": np.where(rng.random(120) < 0.3 + 0.4 * y, "plus", "basic")
    })  # fmt: skip
    frame.loc[::5, "x"] = np.nan
    frame.loc[::6, "plan"] = None
    labels = pd.Series(np.where(y == 1, "yes", "no"), dtype=object).where(rng.random(120) < 0.5)
    model = LatentClassifier(**FAST).fit(frame, labels)
    assert list(model.classes_) == ["no", "yes"] and not model.impute(frame).isna().any().any()
    assert (
        model.sample(4)[0].columns.tolist() == ["x", "plan"] and model.score(frame, np.where(y == 1, "yes", "no")) > 0.8
    )
    draws = [model.set_params(random_state=seed).sample(4)[0]["x"].to_numpy() for seed in (0, 0, 1)]
    assert (draws[0] == draws[1]).all() and (draws[0] != draws[2]).any()  # by the state that is set now


def held_out(log_proba, codes):
    n = codes.size
    return HeldOut(codes, np.ones(n), np.arange(n) % 5, np.arange(n), np.log(np.full(3, 1 / 3)), log_proba)


def test_weights_go_to_who_predicts(rng):
    codes = rng.integers(0, 3, 400)
    good = np.log(np.where(np.eye(3)[codes] == 1, 0.8, 0.1))
    bad = np.log(np.full((400, 3), 1 / 3))
    stack = fit_stack(held_out(np.stack([bad, good]), codes), 500, 1e-6)
    assert stack.weights[1] > 0.9 and (np.diff(stack.curve) >= -1e-12).all()
    np.testing.assert_allclose(np.exp(pool(held_out(np.stack([bad, good]), codes), stack)).sum(axis=1), 1.0)


def test_a_certain_mistake_costs_much_but_not_everything():
    with np.errstate(divide="ignore"):
        log_proba = np.log([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]])
    found = stacking.log_loss(log_proba, np.array([0, 1, 0]), np.array([1.0, 2.0, 3.0]))
    assert found == pytest.approx((-stacking.MIN_LOG_PROBA + 2 * np.log(2)) / 6)


def test_few_rows_weigh_all_alike(rng):
    own = np.log(rng.uniform(0.4, 0.6, size=(4, 1)))
    weights, _, _ = fit_weights(own, np.ones(1), 500, 1e-6)
    assert weights.min() > 0.15


def test_too_sure_members_are_tempered(rng):
    codes = rng.integers(0, 3, 2000)
    shown = np.where(rng.random(2000) < 0.7, codes, rng.integers(0, 3, 2000))
    sure = np.log(np.where(np.eye(3)[shown] == 1, 0.998, 0.001))
    data = held_out(sure[None], codes)
    stack = fit_stack(data, 500, 1e-6)
    own = temper(sure, data.log_prior, stack.temperatures[0])
    assert stack.temperatures[0] > 2 and np.exp(own).max(axis=1).mean() == pytest.approx(0.8, abs=0.05)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_stands_for_the_density_answers_as_the_stack_was_told_to(rng):
    """It knows the mark of unlabeled rows and the seed; `sample` follows a seed that is set later."""
    y = np.where(np.arange(60) % 5 == 0, 9, np.arange(60) % 2)
    X = rng.normal(size=(60, 2)) + y[:, None] % 9
    options = {"unlabeled": 9, "random_state": 3, "handle_unknown": "error"}
    model = LatentClassifier(effort="fast", cv=2, max_iter=2, **options).fit(X, y)
    gaps = np.where(np.arange(2) == np.arange(60)[:, None] % 2, X, np.nan)
    member = model.density_estimator_
    for name, value in options.items():
        assert member.get_params().get(name, value) == value
    np.testing.assert_array_equal(model.impute(gaps[::5], y[::5]), model.impute(gaps[::5]))
    np.testing.assert_array_equal(member.impute(gaps[::5], y[::5]), model.impute(gaps[::5]))
    assert np.isfinite(model.bic(X, y))
    rows, classes = model.sample(20)
    model.set_params(random_state=4)
    others, other_classes = model.sample(20)
    assert not np.array_equal(rows, others) and not np.array_equal(classes, other_classes)
    assert not np.array_equal(model.sample(5, y=1)[0], model.set_params(random_state=3).sample(5, y=1)[0])
    np.testing.assert_array_equal(model.sample(20)[0], rows)
    assert member.random_state == 3
