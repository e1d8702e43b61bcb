"""Laws of the comparison protocol."""

from __future__ import annotations

import builtins
import importlib
import io
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris, make_blobs
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GroupKFold,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import LinearSVC

from latentia import GaussianMixtureClassifier
from latentia.engine.messages import format_column, format_seconds
from latentia.evaluation.compare import Comparison, compare, corrected_t_test

TWO = {"NB": GaussianNB(), "LDA": LinearDiscriminantAnalysis()}


class Recorder(ClassifierMixin, BaseEstimator):
    """Predicts the first class; remembers the rows it saw (the first column holds row numbers)."""

    seen: list = []

    def __init__(self, tag="a"):
        self.tag = tag

    def fit(self, X, y, sample_weight=None):
        present = np.array([v is not None and v != -1 and v == v for v in y])
        self.classes_ = np.unique(np.asarray(y)[present])
        self.trained_ = X[:, 0].astype(int)
        self.weight_ = sample_weight
        return self

    def predict(self, X):
        Recorder.seen.append((self.tag, self.trained_, X[:, 0].astype(int), self.weight_))
        return np.full(len(X), self.classes_[0])


@pytest.fixture
def recorder():
    Recorder.seen.clear()
    return Recorder.seen


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(120, 3, centers=3, cluster_std=4.0, random_state=3)
    return X, y


def test_scores_are_those_of_a_plain_loop(blobs):
    X, y = blobs
    result = compare(TWO, X, y, 4, random_state=7)
    predicted, probability = np.empty_like(y), np.empty((len(y), 3))
    folds = list(StratifiedKFold(4, shuffle=True, random_state=7).split(X, y))
    for e, model in enumerate(TWO.values()):
        for j, (train, test) in enumerate(folds):
            model.fit(X[train], y[train])
            predicted[test], probability[test] = model.predict(X[test]), model.predict_proba(X[test])
            assert result.fold_accuracy[0][e, j] == pytest.approx(np.mean(predicted[test] == y[test]))
        accuracy = np.mean(predicted == y)
        assert result.accuracy[0, e] == pytest.approx(accuracy)
        assert result.accuracy_se[0, e] == pytest.approx(np.sqrt(accuracy * (1 - accuracy) / len(y)))
        assert result.log_loss[0, e] == pytest.approx(log_loss(y, probability))
        own = -np.log(probability[np.arange(len(y)), y])
        assert result.log_loss_se[0, e] == pytest.approx(own.std() / np.sqrt(len(y)))


def test_all_estimators_get_the_same_folds_even_from_an_unseeded_splitter(recorder, blobs):
    X = np.column_stack([np.arange(120), blobs[0]])
    compare({"a": Recorder("a"), "b": Recorder("b")}, X, blobs[1], StratifiedKFold(3, shuffle=True))
    a = [(train.tolist(), test.tolist()) for tag, train, test, _ in recorder if tag == "a"]
    b = [(train.tolist(), test.tolist()) for tag, train, test, _ in recorder if tag == "b"]
    assert a == b and len(a) == 3
    assert sorted(row for _, test in a for row in test) == list(range(120))


def test_corrected_t_test_has_the_published_form_and_more_doubt_than_the_plain_one():
    d = np.array([0.03, 0.01, 0.05, -0.01, 0.02])
    t, p = corrected_t_test(d, 0.25)
    plain = stats.ttest_1samp(d, 0.0)
    assert t == pytest.approx(plain.statistic * np.sqrt((1 / 5) / (1 / 5 + 0.25)))
    assert p == pytest.approx(2 * stats.t.sf(abs(t), 4)) and p > plain.pvalue
    assert corrected_t_test(-d, 0.25) == pytest.approx((-t, p))
    assert corrected_t_test(np.zeros(5), 0.25) == (0.0, 1.0)
    assert corrected_t_test(np.full(5, 0.1), 0.25) == (np.inf, 0.0)


def test_corrected_t_test_keeps_its_level_where_the_plain_one_does_not():
    """Two equally good rules, the same rows scored again and again: the plain test rejects far too often."""
    rng = np.random.default_rng(0)
    splits = RepeatedStratifiedKFold(n_splits=4, n_repeats=8, random_state=0)
    tests = [test for _, test in splits.split(np.zeros(60), np.arange(60) % 2)]
    d = [[row[test].mean() for test in tests] for row in rng.standard_normal((400, 60))]
    corrected = np.mean([corrected_t_test(differences, 1 / 3)[1] < 0.1 for differences in d])
    plain = np.mean([stats.ttest_1samp(differences, 0.0).pvalue < 0.1 for differences in d])
    assert corrected < 0.16 < 0.4 < plain


def test_p_values_compare_with_the_best_by_fold_accuracy(blobs):
    X, y = blobs
    result = compare({**TWO, "dummy": DummyClassifier()}, X, y)
    best = result.best[0]
    assert result.rank[0, best] == 1 and result.p_value[0, best] == 1.0
    difference = result.fold_accuracy[0][best] - result.fold_accuracy[0][2]
    assert result.p_value[0, 2] == pytest.approx(corrected_t_test(difference, 24 / 96)[1])
    assert result.mark(0, 2) == "*" and result.mark(0, best) == "+"


def test_adjusted_p_values_are_those_of_holm(blobs):
    """Against a closed test of all subsets by Bonferroni, of which Holm's method is the short form."""
    result = compare({**TWO, "dummy": DummyClassifier(), "half": DummyClassifier(strategy="uniform")}, *blobs)
    p, best = result.p_value[0], int(result.best[0])
    others = [e for e in range(4) if e != best]
    subsets = [s for size in (1, 2, 3) for s in combinations(others, size)]
    for e in others:
        hardest = max(min(1.0, len(s) * p[list(s)].min()) for s in subsets if e in s)
        assert result.p_adjusted[0, e] == pytest.approx(hardest)
    assert result.p_adjusted[0, best] == 1.0 and (result.p_adjusted >= result.p_value).all()
    known = replace(result, estimators=tuple("abcde"), p_value=np.array([[0.01, 0.04, 1.0, 0.03, 0.005]]))
    np.testing.assert_allclose(known.p_adjusted, [[0.03, 0.06, 1.0, 0.06, 0.02]])
    np.testing.assert_allclose(compare(TWO, *blobs).p_adjusted, compare(TWO, *blobs).p_value)  # a single test


def test_p_values_count_labeled_rows_alone(blobs):
    """The test sees how many rows were scored for each that taught something, which unlabeled rows do not."""
    X, y = blobs
    some = np.where(np.arange(120) % 3 == 0, -1, y)
    result = compare({**TWO, "dummy": DummyClassifier()}, X, some, cv=4)
    best = result.best[0]
    for other in {0, 1, 2} - {int(best)}:
        difference = result.fold_accuracy[0][best] - result.fold_accuracy[0][other]
        assert result.p_value[0, other] == pytest.approx(corrected_t_test(difference, 20 / 60)[1])


def test_ties_share_a_win_and_the_smaller_log_loss_is_called_best(blobs):
    X, y = blobs
    sure, unsure = DummyClassifier(strategy="most_frequent"), DummyClassifier(strategy="prior")
    result = compare({"sure": sure, "unsure": unsure}, X, y)
    assert result.accuracy[0, 0] == result.accuracy[0, 1]
    assert result.rank.tolist() == [[1, 1]] and result.estimators[result.best[0]] == "unsure"
    assert [row.n_wins for row in result.summary()] == [1, 1]


def test_summary_over_data_sets_counts_what_the_table_shows(blobs):
    X, y = blobs
    models = {**TWO, "dummy": DummyClassifier(), "dummy 2": DummyClassifier(strategy="uniform", random_state=0)}
    data = {
        "blobs": (X, y),
        "iris": load_iris(return_X_y=True),
        "noise": (np.random.default_rng(0).standard_normal((120, 2)), y),
    }
    result = compare(models, data, cv=3)
    assert result.datasets == tuple(data) and result.accuracy.shape == (3, 4)
    for e, row in enumerate(result.summary()):
        assert row.mean_accuracy == pytest.approx(result.accuracy[:, e].mean())
        assert row.n_wins == sum(result.accuracy[d, e] == result.accuracy[d].max() for d in range(3))
        assert row.n_worse_p01 <= row.n_worse_p10 == sum(result.mark(d, e) in "-*" for d in range(3))
        assert row.n_top3 == sum(np.sum(result.accuracy[d] > result.accuracy[d, e]) < 3 for d in range(3))
    single = compare(models, *data["iris"], cv=3)
    np.testing.assert_array_equal(single.accuracy[0], result.accuracy[1])


@pytest.mark.parametrize(
    "marked",
    [
        lambda y: np.where(np.arange(len(y)) % 3 == 0, -1, y),
        lambda y: np.where(np.arange(len(y)) % 3 == 0, np.nan, y.astype(float)),
        lambda y: np.where(np.arange(len(y)) % 3 == 0, None, np.array(["x", "y", "z"])[y]),
        lambda y: [None if i % 3 == 0 else f"class {v}" for i, v in enumerate(y)],
        lambda y: np.where(np.arange(len(y)) % 3 == 0, None, y),
    ],
)
def test_unlabeled_rows_are_in_every_training_part_and_never_scored(recorder, blobs, marked):
    X = np.column_stack([np.arange(120), blobs[0]])
    unlabeled = set(range(0, 120, 3))
    for cv in (4, [(np.arange(60, 120), np.arange(60)), (np.arange(60), np.arange(60, 120))]):
        recorder.clear()
        compare({"a": Recorder()}, X, marked(blobs[1]), cv)
        for _, train, test, _ in recorder:
            assert unlabeled <= set(train.tolist()) and not unlabeled & set(test.tolist())
            assert len(set(train.tolist())) == len(train) and not set(train.tolist()) & set(test.tolist())


def test_estimators_that_cannot_use_unlabeled_rows_are_trained_without_them(blobs):
    X, y = blobs
    marked = np.where(np.arange(len(y)) % 2 == 0, -1, y)
    result = compare(
        {"NB": GaussianNB(), "spread": LabelSpreading(kernel="knn", n_neighbors=9)}, X, marked, 3, random_state=1
    )
    assert result.fitted_on_labeled_only == {"NB"} and "labeled rows alone: NB" in str(result)
    rows = marked >= 0
    alone = compare({"NB": GaussianNB()}, X[rows], y[rows], 3, random_state=1)
    assert alone.accuracy[0, 0] == result.accuracy[0, 0] and alone.log_loss[0, 0] == pytest.approx(
        result.log_loss[0, 0]
    )
    floats = compare({"NB": GaussianNB()}, X, np.where(rows, y, np.nan), 3, random_state=1)
    assert floats.fitted_on_labeled_only == {"NB"} and floats.accuracy[0, 0] == result.accuracy[0, 0]


class Nearest(BaseEstimator):
    """The label of the nearest row; it does not say which classes it knows."""

    def fit(self, X, y):
        self.X_, self.y_ = X, y
        return self

    def predict(self, X):
        return self.y_[((X[:, None] - self.X_) ** 2).sum(axis=2).argmin(axis=1)]

    def predict_proba(self, X):
        return (self.predict(X)[:, None] == np.unique(self.y_)).astype(float)


def test_an_estimator_without_classes_is_trained_on_labeled_rows_and_has_no_log_loss(blobs):
    X, y = blobs
    marked = np.where(np.arange(len(y)) % 2 == 0, -1, y)
    result, known = compare(Nearest(), X, marked, 3), compare(KNeighborsClassifier(1), X[1::2], y[1::2], 3)
    assert result.fitted_on_labeled_only == {"Nearest"} and np.isnan(result.log_loss).all()
    np.testing.assert_array_equal(result.fold_accuracy[0], known.fold_accuracy[0])


def test_estimators_of_the_library_use_unlabeled_rows(blobs):
    X, y = blobs
    marked = np.where(np.arange(len(y)) % 2 == 0, -1, y)
    model = GaussianMixtureClassifier(covariance="diag", unlabeled=-1, tol=0.1, random_state=0)
    assert compare(model, X, marked, 3).fitted_on_labeled_only == frozenset()
    for mark in (None, float("nan")):
        words = [mark if m < 0 else "abc"[m] for m in marked]
        assert compare(model, X, words, 3).fitted_on_labeled_only == frozenset()
        assert model.fit(X, words).classes_.tolist() == ["a", "b", "c"]


def test_minus_one_and_one_are_two_classes(blobs):
    X, y = blobs
    signs, names = compare(TWO, X, np.where(y > 0, 1, -1)), compare(TWO, X, np.where(y > 0, "b", "a"))
    np.testing.assert_array_equal(signs.accuracy, names.accuracy)


@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: make_pipeline(StandardScaler(), model)])
def test_which_rows_are_unlabeled_is_what_the_estimators_say(blobs, wrap):
    X, y = blobs
    model = wrap(GaussianMixtureClassifier(covariance="diag", unlabeled=None, tol=0.1, random_state=0))
    shifted, plain = (compare({"own": model, "NB": GaussianNB()}, X, labels, 3) for labels in (y - 1, y))
    np.testing.assert_array_equal(shifted.accuracy, plain.accuracy)
    model = wrap(GaussianMixtureClassifier(covariance="diag", unlabeled=2, tol=0.1, random_state=0))
    result = compare({"own": model, "NB": GaussianNB()}, X, y, 3)
    assert result.fitted_on_labeled_only == {"NB"} and result.accuracy.min() > 0.5


def test_estimators_must_agree_on_the_rows_that_are_unlabeled(blobs):
    X, y = blobs
    quick = {"covariance": "diag", "tol": 0.1, "random_state": 0}
    models = {str(mark): GaussianMixtureClassifier(unlabeled=mark, **quick) for mark in ("auto", None)}
    with pytest.raises(ValueError, match=r"auto: unlabeled='auto', None: unlabeled=None\): give all the same"):
        compare(models, X, y - 1, 3)
    compare(models, X, y, 3)  # nothing to disagree about


def test_weights_reach_fit_and_score(recorder, blobs):
    X = np.column_stack([np.arange(120), blobs[0]])
    w = np.random.default_rng(0).uniform(0.5, 2.0, 120)
    result = compare({"a": Recorder()}, X, blobs[1], 3, sample_weight=w)
    for _, train, _, weight in recorder:
        np.testing.assert_array_equal(weight, w[train])
    assert result.accuracy[0, 0] == pytest.approx(w[blobs[1] == 0].sum() / w.sum())
    zero = np.where(np.arange(120) < 20, 0.0, 1.0)
    recorder.clear()
    compare({"a": Recorder()}, X, blobs[1], 3, sample_weight=zero)
    assert min(test.min() for _, _, test, _ in recorder) == 20
    scaled = compare(TWO["NB"], *blobs, sample_weight=np.full(120, 7.0))
    plain = compare(TWO["NB"], *blobs)
    np.testing.assert_allclose(
        [scaled.accuracy, scaled.accuracy_se, scaled.log_loss, scaled.log_loss_se],
        [plain.accuracy, plain.accuracy_se, plain.log_loss, plain.log_loss_se],
    )


def test_a_row_of_weight_zero_is_no_row(blobs):
    """Neither in the parts nor in the ratio of their sizes, by which the test corrects."""
    X, y = blobs
    w = np.random.default_rng(0).choice([0.0, 1.0, 2.0], 120, p=[0.5, 0.3, 0.2])
    kept, part = np.flatnonzero(w > 0), np.random.default_rng(1).integers(0, 3, 120)
    part[kept[:6]], part[w == 0] = 0, 1  # weightless rows in one fold: the ratios of the others would change most

    def folds(part):
        return [(np.flatnonzero(part != k), np.flatnonzero(part == k)) for k in range(3)]

    models = {"NB": GaussianNB(), "dummy": DummyClassifier()}
    for cv, cv_kept in ((folds(part), folds(part[kept])), (StratifiedKFold(3), StratifiedKFold(3)), (4, 4)):
        whole = compare(models, X, y, cv, sample_weight=w)
        without = compare(models, X[kept], y[kept], cv_kept, sample_weight=w[kept])
        for name in ("accuracy", "accuracy_se", "log_loss", "log_loss_se", "p_value"):
            np.testing.assert_array_equal(getattr(whole, name), getattr(without, name), err_msg=name)


def test_a_class_whose_only_weighted_row_is_in_the_test_part_costs_loss_not_an_error(blobs):
    X, y = blobs
    w = np.where(y == 2, 0.0, 1.0)
    w[np.flatnonzero(y == 2)[0]] = 1.0
    part = np.arange(120) % 3
    folds = [(np.flatnonzero(part != k), np.flatnonzero(part == k)) for k in range(3)]
    result = compare(GaussianMixtureClassifier(random_state=0), X, y, folds, sample_weight=w)
    assert 0 < result.accuracy[0, 0] < 1


def test_a_class_with_fewer_rows_than_folds_is_no_error(recorder, blobs):
    X = np.column_stack([np.arange(120), blobs[0]])
    compare(Recorder(), X, np.where(np.arange(120) < 2, 3, blobs[1]), 5)
    assert sorted(row for _, _, test, _ in recorder for row in test) == list(range(120))


def test_the_standard_error_counts_weighted_rows_by_their_effective_number(blobs):
    w = np.random.default_rng(0).exponential(size=120)
    result = compare(GaussianNB(), *blobs, sample_weight=w)
    a = result.accuracy[0, 0]
    assert 0 < a < 1
    assert result.accuracy_se[0, 0] == pytest.approx(np.sqrt(a * (1 - a) / (w.sum() ** 2 / (w**2).sum())))


def test_weights_pass_through_a_pipeline_and_are_refused_where_fit_takes_none(blobs):
    X, y = blobs
    w = np.where(y == 0, 5.0, 1.0)
    piped = compare(make_pipeline(StandardScaler(), GaussianNB()), X, y, sample_weight=w)
    bare = compare(GaussianNB(), X, y, sample_weight=w)
    np.testing.assert_allclose(piped.log_loss, bare.log_loss, rtol=1e-6)
    nested = make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), GaussianNB()))
    np.testing.assert_allclose(compare(nested, X, y, sample_weight=w).log_loss, bare.log_loss, rtol=1e-6)
    with pytest.raises(ValueError, match="'k-NN'.*takes none"):
        compare({"k-NN": KNeighborsClassifier()}, X, y, sample_weight=w)


def test_a_class_that_the_training_part_lacks_costs_loss_not_an_error(blobs):
    X, y = blobs
    folds = [(np.flatnonzero(y < 2), np.flatnonzero(y == 2)), (np.flatnonzero(y > 0), np.flatnonzero(y == 0))]
    result = compare(GaussianNB(), X, y, folds)
    assert result.accuracy[0, 0] == 0.0
    assert result.log_loss[0, 0] == pytest.approx(-np.log(np.finfo(float).eps))


def test_no_probabilities_no_log_loss(blobs):
    result = compare({"svc": LinearSVC(), "NB": GaussianNB()}, *blobs)
    assert np.isnan(result.log_loss[0, 0]) and np.isfinite(result.log_loss[0, 1])
    assert "none" in str(result)


def test_repeated_folds_count_a_row_once_in_the_standard_error(blobs):
    result = compare(GaussianNB(), *blobs, RepeatedStratifiedKFold(n_splits=4, n_repeats=5, random_state=0))
    a = result.accuracy[0, 0]
    assert result.fold_accuracy[0].shape == (1, 20)
    assert a == pytest.approx(result.fold_accuracy[0].mean())
    assert result.accuracy_se[0, 0] == pytest.approx(np.sqrt(a * (1 - a) / 120))


def test_estimators_without_names_get_their_class_numbered(blobs):
    result = compare([GaussianNB(), LinearDiscriminantAnalysis(), GaussianNB(), ("own", GaussianNB())], *blobs)
    assert result.estimators == ("GaussianNB", "LinearDiscriminantAnalysis", "GaussianNB 2", "own")


def test_names_are_text_and_an_automatic_one_takes_the_next_free_number(blobs):
    numbered = compare({1: GaussianNB(), 2: GaussianNB()}, *blobs)
    assert numbered.estimators == ("1", "2")
    given = [GaussianNB(), ("", GaussianNB()), ("GaussianNB 2", GaussianNB()), (None, GaussianNB())]
    assert compare(given, *blobs).estimators == ("GaussianNB", "GaussianNB 3", "GaussianNB 2", "GaussianNB 4")
    taken = compare([GaussianNB(), ("GaussianNB", LinearDiscriminantAnalysis())], *blobs)
    assert taken.estimators == ("GaussianNB 2", "GaussianNB")


def test_folds_may_be_numbers_masks_or_an_iterator(blobs):
    X, y = blobs
    folds = list(StratifiedKFold(3).split(X, y))
    masks = [(np.isin(np.arange(120), train), np.isin(np.arange(120), test)) for train, test in folds]
    expected = compare(TWO, X, y, StratifiedKFold(3)).fold_accuracy[0]
    for cv in (folds, iter(folds), masks):
        np.testing.assert_array_equal(compare(TWO, X, y, cv).fold_accuracy[0], expected)
    twice = compare(TWO, {"a": (X, y), "b": (X, y)}, cv=iter(folds))
    np.testing.assert_array_equal(twice.fold_accuracy[1], expected)


def test_groups_stay_together(recorder, blobs):
    X = np.column_stack([np.arange(120), blobs[0]])
    groups = np.arange(120) // 5
    compare(Recorder(), X, blobs[1], StratifiedGroupKFold(3), groups=groups)
    for _, train, test, _ in recorder:
        assert not set(groups[train]) & set(groups[test])


@pytest.mark.matrix
def test_parallel_jobs_and_containers_change_nothing(blobs):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X, y = blobs
    one = compare(TWO, X, y)
    with pytest.warns(UserWarning, match="the same index in another order, and are matched by position"):
        frame = compare(TWO, pandas.DataFrame(X, columns=["a", "b", "c"]), pandas.Series(y, index=np.arange(120)[::-1]))
    jobs, lists = compare(TWO, X, y, n_jobs=2), compare(list(TWO.items()), X.tolist(), y.tolist())
    polar = compare(TWO, polars.DataFrame(X, schema=["a", "b", "c"]), polars.Series(y))
    for other in (frame, jobs, lists, polar):
        np.testing.assert_array_equal(one.fold_accuracy[0], other.fold_accuracy[0])
        np.testing.assert_allclose(one.log_loss, other.log_loss)


def test_tensors_change_nothing(blobs):
    torch = pytest.importorskip("torch")
    X, y = blobs
    tensors = compare(TWO, torch.asarray(X), torch.asarray(y))
    np.testing.assert_array_equal(compare(TWO, X, y).fold_accuracy[0], tensors.fold_accuracy[0])


@pytest.mark.parametrize("container", ["array", "list", "pandas", "polars", "torch"])
def test_labels_may_come_as_a_column(blobs, container):
    X, y = blobs
    if container in ("array", "list"):
        column = y[:, None] if container == "array" else y[:, None].tolist()
    else:
        library = pytest.importorskip(container)
        column = library.asarray(y)[:, None] if container == "torch" else library.DataFrame({"label": y})
    plain = compare(TWO, X, y, 3)
    np.testing.assert_array_equal(compare(TWO, X, column, 3).fold_accuracy[0], plain.fold_accuracy[0])


def test_gaps_in_a_column_of_words_stay_gaps(blobs):
    X, y = blobs
    words = np.array(["a", "b", "c"], dtype=object)[y]
    words[::3] = np.nan
    flat, column = (compare(TWO, X, labels, 3) for labels in (words.tolist(), words[:, None].tolist()))
    np.testing.assert_array_equal(flat.fold_accuracy[0], column.fold_accuracy[0])


def test_rows_may_come_as_a_tuple(blobs):
    X, y = blobs
    rows = tuple(map(tuple, X.tolist()))
    np.testing.assert_array_equal(compare(TWO, rows, y, 3).accuracy, compare(TWO, X, y, 3).accuracy)


def test_frames_hold_the_figures(blobs):
    pytest.importorskip("pandas")
    result = compare(TWO, {"a": blobs, "b": load_iris(return_X_y=True)})
    frame = result.to_frame().set_index(["dataset", "estimator"])
    assert frame.loc[("b", "LDA"), "accuracy"] == result.accuracy[1, 1]
    assert frame.groupby(level="dataset")["best"].sum().tolist() == [1, 1]
    assert result.summary_frame().loc["NB", "n_wins"] == result.summary()[0].n_wins


def test_frames_without_pandas_say_what_is_missing(blobs, monkeypatch):
    real = builtins.__import__

    def without_pandas(name, *args, **kwargs):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    result = compare(GaussianNB(), *blobs)
    monkeypatch.setattr(builtins, "__import__", without_pandas)
    with pytest.raises(ImportError, match="pip install pandas"):
        result.to_frame()


def test_printed_table_aligns_and_names_everything(blobs):
    result = compare(TWO, {"first": blobs, "second set": load_iris(return_X_y=True)}, scoring="balanced_accuracy")
    grid, summary = (table.splitlines() for table in str(result).split("\n\n")[:2])
    for e, name in enumerate(TWO):  # means over the data sets
        shown = [f"{100 * result.accuracy[:, e].mean():.1f}", f"{result.log_loss[:, e].mean():.3f}"]
        line = next(line for line in summary if line.startswith(f"{name} "))
        assert line.split()[len(name.split()) :][:3] == [
            *shown,
            f"{result.scores['balanced_accuracy'][:, e].mean():.3f}",
        ]
    assert len({len(line) for line in grid}) == 1
    assert "second set" in grid[3] and f"{100 * result.accuracy[1, 1]:.1f}" in grid[3]
    assert all(name in grid[0] for name in TWO)


def test_rich_renders_the_same_cells(blobs):
    console = pytest.importorskip("rich.console")
    result = compare(TWO, *blobs)
    screen = io.StringIO()
    console.Console(width=120, file=screen).print(result)
    assert f"{100 * result.accuracy[0, 0]:.1f}" in screen.getvalue()


def test_a_narrow_terminal_shows_whole_names_and_marks_apart_from_numbers(blobs):
    console = pytest.importorskip("rich.console")
    X, y = blobs
    models = {"LatentClassificationModel": GaussianNB(), "imputation + a guess": DummyClassifier()}
    screen = io.StringIO()
    console.Console(width=80, file=screen).print(compare(models, X, y))
    lines = screen.getvalue().splitlines()
    assert lines[1].split()[0] == "estimator" and all(len(line) <= 80 for line in lines)
    assert "LatentClassificationModel  + " in lines[2] and "…" not in screen.getvalue()


@pytest.mark.parametrize("kind", [int, bool, str])
def test_labels_that_are_objects_do_for_classifiers_of_scikit_learn(blobs, kind):
    """As those with None for unlabeled rows are; also where scorers look at them."""
    X, y = blobs
    plain = (y == y[0]).astype(kind)
    models = {"nb": GaussianNB(), "mixture": GaussianMixtureClassifier(covariance="diag", random_state=0, tol=0.1)}
    expected = compare(models, X, plain, cv=3, scoring="balanced_accuracy")
    objects = plain.astype(object)
    found = compare(models, X, objects, cv=3, scoring="balanced_accuracy")
    np.testing.assert_array_equal(found.accuracy, expected.accuracy)
    np.testing.assert_array_equal(found.scores["balanced_accuracy"], expected.scores["balanced_accuracy"])
    objects[::5] = None
    assert compare(models, X, objects, cv=3).fitted_on_labeled_only == {"nb"}


def test_tables_of_arrow_change_nothing(blobs):
    pyarrow = pytest.importorskip("pyarrow")
    X, y = blobs
    table = pyarrow.table({f"x{k}": column for k, column in enumerate(X.T)})
    mixture = {"mixture": GaussianMixtureClassifier(covariance="diag", random_state=0, tol=0.1)}
    expected = compare(mixture, X, y, cv=2).log_loss
    for labels in (y, pyarrow.array(y), pyarrow.chunked_array([y[:50], y[50:]])):
        np.testing.assert_allclose(compare(mixture, table, labels, cv=2).log_loss, expected)


def test_a_class_in_place_of_an_estimator_is_named(blobs):
    with pytest.raises(TypeError, match=r"estimators\['a'\] is the class GaussianNB; make an instance of it"):
        compare({"a": GaussianNB}, *blobs)


def test_rich_shows_names_with_brackets_as_they_are(blobs):
    console = pytest.importorskip("rich.console")
    X, y = blobs
    marked = np.where(np.arange(120) % 3 == 0, -1, y)
    names = ["LCM [tied]", "x [/b]", "+ [bold]", ":warning:"]
    for data in ({"one [/i] set": (X, marked)}, {"one [/i] set": (X, marked), "[red]": (X, y)}):
        screen = io.StringIO()
        console.Console(width=200, file=screen).print(compare(dict.fromkeys(names, GaussianNB()), data, cv=3))
        table, legend = screen.getvalue().split("trained on labeled rows alone")
        assert all(name in table and name in legend for name in names)
        assert all(name in table for name in data)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda X, y: ({}, X, y), "estimators is empty; allowed are one or more classifiers"),
        (lambda X, y: ([("a", GaussianNB()), ("a", GaussianNB())], X, y), "one name each"),
        (lambda X, y: ({"scale": StandardScaler()}, X, y), r"estimators\['scale'\] must be a classifier"),
        (lambda X, y: (TWO, X), "y must be given"),
        (lambda X, y: (TWO, {"a": (X, y)}, y), "must be None"),
        (lambda X, y: (TWO, {"a": X}), r"\(X, y\)"),
        (lambda X, y: (TWO, X, y[:-1]), "y has 119 entries and X has 120 rows"),
        (lambda X, y: (TWO, X, np.full(120, -1)), "no label"),
        (lambda X, y: (TWO, X, np.where(y > 0, 3, -1)), r"at least 2 classes, got \[3\]"),
        (lambda X, y: ({1: GaussianNB(), "1": GaussianNB()}, X, y), r"one name each.*\['1', '1'\]"),
        (lambda X, y: ([("a", GaussianNB(), 3)], X, y), r"estimators holds \('a', GaussianNB\(\), 3\)"),
        (lambda X, y: (TWO, (X, y), y), "X of data set 'data' is a tuple whose rows differ in length"),
        (lambda X, y: (TWO, 3.0, y), "X of data set 'data' must be an array.* got 3.0"),
        (lambda X, y: (TWO, X, np.eye(2)[y % 2]), r"y of data set 'data' has shape \(120, 2\); allowed is one class"),
        (lambda X, y: (TWO, X, y, 1), "cv=1; allowed is an integer >= 2"),
        (lambda X, y: (TWO, X, y, 121), "cv=121, but X has n_samples=120 labeled rows"),
        (lambda X, y: (TWO, X, y, "five"), "cv='five'; allowed"),
        (lambda X, y: (TWO, X, y, []), r"cv=\[\] has no folds; allowed"),
        (lambda X, y: (TWO, X, y, [3, 4]), "cv holds 3; allowed"),
        (lambda X, y: (TWO, X, y, [([0, 120], [1])]), "cv holds the row 120; allowed are 0 to 119"),
        (lambda X, y: (TWO, X, y, [([0, -1], [1])]), "cv holds the row -1; allowed are 0 to 119"),
        (lambda X, y: (TWO, X, y, [([0.5], [1])]), "cv holds a part of shape .* and dtype float64; allowed"),
        (lambda X, y: (TWO, X, y, [(y > 0, y[1:] > 1)]), r"cv holds a part of shape \(119,\) and dtype bool; allowed"),
        (lambda X, y: (TWO, X, y, [([0], [1]), ([0], [])]), "the test part of fold 1 has no labeled row"),
        (lambda X, y: (TWO, X, y, [([], [1]), ([0], [1])]), "the training part of fold 0 has no labeled row"),
        (lambda X, y: (TWO, {"iris": load_iris()}), r"X\['iris'\] is a Bunch.*return_X_y=True"),
        (lambda X, y: (TWO, load_iris()), r"X is a Bunch.*return_X_y=True"),
    ],
)
def test_bad_input_is_named(blobs, arguments, message):
    with pytest.raises(ValueError, match=message):
        compare(*arguments(*blobs))


def test_a_number_of_jobs_is_an_integer(blobs):
    with pytest.raises(ValueError, match="n_jobs='x'; allowed is an integer, or None"):
        compare(TWO, *blobs, n_jobs="x")


def test_groups_of_another_length_are_refused(blobs):
    with pytest.raises(ValueError, match=r"groups has shape \(119,\), but X has 120 rows"):
        compare(TWO, *blobs, GroupKFold(3), groups=np.arange(119))


def test_a_splitter_that_counts_rows_it_does_not_see_is_told_so(blobs):
    X, y = blobs
    marked = np.where(np.arange(120) % 2 == 0, -1, y)
    with pytest.raises(ValueError, match="the labeled rows of positive weight, which a splitter sees"):
        compare(TWO, X, marked, PredefinedSplit(np.arange(120) % 3))


@pytest.mark.parametrize("weight", [np.ones(3), np.full(120, -1.0), np.full(120, np.inf)])
def test_bad_weights_are_refused(blobs, weight):
    with pytest.raises(ValueError, match="sample_weight"):
        compare(TWO, *blobs, sample_weight=weight)


def test_a_failing_estimator_is_named(blobs):
    X, y = blobs
    with pytest.raises(ValueError) as caught:
        compare({"broken": KNeighborsClassifier(n_neighbors=10_000)}, X, y)
    assert any("'broken' on data set 'data'" in note for note in caught.value.__notes__)


def test_factors_of_columns_that_share_none_are_the_columns(monkeypatch):
    """A single column, and two without any correlation: FA/BIC is naive Bayes then."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))  # scripts, not a package
    models = importlib.import_module("baselines").baselines()
    X, y = load_iris(return_X_y=True)
    grid = np.tile([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], (5, 1))
    for rows, labels in ((X[:, :1], y), (grid, np.arange(20) // 3 % 2)):
        factors, bayes = models["FA/BIC"].fit(rows, labels), models["NB"].fit(rows, labels)
        np.testing.assert_allclose(factors.predict_proba(rows), bayes.predict_proba(rows), rtol=1e-6)


def test_a_single_split_is_scored_but_not_tested(blobs):
    X, y = blobs
    result = compare(TWO, X, y, cv=[(np.arange(0, 120, 2), np.arange(1, 120, 2))])
    assert np.isfinite(result.accuracy).all() and result.fold_accuracy[0].shape == (2, 1)
    assert np.isnan(np.delete(result.p_value[0], result.best[0])).all() and "none" in str(result)
    np.testing.assert_array_equal(result.p_adjusted, result.p_value)


def test_further_scores_are_means_over_the_folds(blobs):
    X, y = blobs
    result = compare(TWO, X, y, cv=3, scoring={"balanced": "balanced_accuracy", "share": lambda m, X, y: len(y) / 120})
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    for e, model in enumerate(TWO.values()):
        expected = cross_val_score(model, X, y, cv=folds, scoring="balanced_accuracy").mean()
        assert result.scores["balanced"][0, e] == pytest.approx(expected)
    np.testing.assert_allclose(result.scores["share"], 1 / 3)
    assert "balanced" in str(result) and "balanced" in result.to_frame().columns
    weighted = compare([GaussianNB()], X, y, cv=3, scoring="accuracy", sample_weight=1.0 + y)
    assert weighted.scores["accuracy"] == pytest.approx(weighted.accuracy, abs=1e-2)
    with pytest.raises(ValueError, match="scoring=3; allowed are None, the name of a scorer"):
        compare(TWO, X, y, scoring=3)


def test_notebooks_and_terminals_show_the_whole_table(blobs):
    X, y = blobs
    result = compare({"<b>": GaussianNB(), "other": DummyClassifier()}, {"one": (X, y), "two": (X, y)}, cv=2)
    html = result._repr_html_()
    assert html.count("<table>") == 2 and "&lt;b&gt;" in html and "<b>+" in html and "significantly worse" in html
    assert repr(result) == str(result)


def test_times_share_a_unit():
    assert format_column([0.0044, 0.347, 0.0001]) == ["4 ms", "347 ms", "<1 ms"]
    assert format_column([12.0, 0.347, 0.001]) == ["12.00 s", "0.35 s", "<0.01 s"]
    assert [format_seconds(t) for t in (0.02, 3.21, 300, 9000)] == ["20 ms", "3.2 s", "5 min", "2.5 h"]


def test_the_accuracy_of_a_fold_counts_rows_by_their_weight(rng):
    X, y = load_iris(return_X_y=True)
    weight = rng.uniform(0.1, 5, y.size)
    folds = [(np.flatnonzero(np.arange(150) % 3 != k), np.flatnonzero(np.arange(150) % 3 == k)) for k in range(3)]
    found = compare({"nb": GaussianNB(), "lda": GaussianNB(var_smoothing=0.5)}, X, y, cv=folds, sample_weight=weight)
    for k, (train, test) in enumerate(folds):
        model = GaussianNB().fit(X[train], y[train], weight[train])
        assert found.fold_accuracy[0][0, k] == pytest.approx(model.score(X[test], y[test], weight[test]))
        losses = -model.predict_log_proba(X[test])[np.arange(test.size), y[test]]
        assert found.fold_log_loss[0][0, k] == pytest.approx(np.average(losses, weights=weight[test]))


def test_estimators_that_are_compared_stay_as_they_were():
    X, y = np.arange(24.0).reshape(12, 2) % 7, np.arange(12) % 2
    model = GaussianNB()
    compare([model, ("again", model)], X, y, cv=2)
    assert not hasattr(model, "classes_")


def test_the_summary_counts_places_and_levels_and_marks_show_the_strictest():
    accuracy = np.array([[0.9, 0.8, 0.7, 0.7, 0.1], [0.5, 0.9, 0.6, 0.8, 0.7]])
    p_value = np.array([[1.0, 0.2, 0.07, 0.005, 0.1], [0.01, 1.0, 0.02, 0.009, np.nan]])
    nothing = np.zeros((2, 5))
    result = Comparison(
        datasets=("one", "two"),
        estimators=tuple("abcde"),
        accuracy=accuracy,
        accuracy_se=nothing + 0.01,
        log_loss=1 - accuracy,
        log_loss_se=nothing,
        p_value=p_value,
        best=np.array([0, 1]),
        rank=np.array([[1, 2, 3, 3, 5], [5, 1, 4, 2, 3]]),
        fit_seconds=nothing,
        fold_accuracy=(),
        fold_log_loss=(),
        fitted_on_labeled_only=frozenset("b"),
    )
    assert [row[3:] for row in result.summary()] == [
        (1, 1, 1, 0),
        (1, 2, 0, 0),
        (0, 1, 2, 0),
        (0, 2, 2, 2),
        (0, 1, 0, 0),
    ]
    assert [row.mean_accuracy for row in result.summary()] == pytest.approx(accuracy.mean(axis=0))
    assert [row.mean_log_loss for row in result.summary()] == pytest.approx(1 - accuracy.mean(axis=0))
    assert ["".join(result.mark(d, e) for e in range(5)) for d in (0, 1)] == ["+ -* ", "-+-* "]
    assert "trained on labeled rows alone: b" in str(result)
