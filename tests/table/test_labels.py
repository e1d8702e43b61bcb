"""Labels of any type, with gaps: what is learned, predicted, sampled and counted."""

import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.model_selection import GroupKFold

from latentia import (
    GaussianMixtureClassifier,
    LatentClassificationModelCV,
    MixtureOfExpertsRegressor,
    MultimodalSoftmaxClassifier,
)
from latentia.scale.tables import digest_labels, read_classes
from latentia.table.labels import (
    check_label_columns,
    encode_known_labels,
    encode_label_matrix,
    encode_labels,
    read_labels,
    split_unlabeled,
)
from latentia.table.weights import check_weight, make_folds

X = np.random.default_rng(0).normal(size=(60, 3))
Y = np.random.default_rng(1).integers(0, 2, 60)
X[:, 0] += 2 * Y


def with_gaps(values):
    return np.array([None if k % 5 == 0 else v for k, v in enumerate(values)], dtype=object)


@pytest.mark.parametrize(
    "y, classes",
    [
        (with_gaps(Y.tolist()), [0, 1]),
        (with_gaps([np.int32(v) for v in Y]), [0, 1]),
        (with_gaps([float(v) for v in Y]), [0.0, 1.0]),
        (with_gaps([bool(v) for v in Y]), [False, True]),
        (with_gaps(["ab"[v] for v in Y]), ["a", "b"]),
        (pd.Series(with_gaps(Y.tolist()), dtype="Int64"), [0, 1]),
        (pl.Series(with_gaps(Y.tolist()).tolist(), dtype=pl.Int64), [0, 1]),
        (pd.DataFrame({"y": pd.array(with_gaps(Y.tolist()), dtype="Int64")}), [0, 1]),
        (pl.DataFrame({"y": with_gaps(Y.tolist()).tolist()}), [0, 1]),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
def test_labels_keep_their_type(y, classes):
    model = GaussianMixtureClassifier(1).fit(X, y)
    assert model.classes_.tolist() == classes
    assert {type(v) for v in model.predict(X).tolist()} == {type(classes[0])}
    reference = GaussianMixtureClassifier(1, unlabeled=-1).fit(X, np.where(np.arange(60) % 5 == 0, -1, Y))
    np.testing.assert_allclose(model.predict_proba(X), reference.predict_proba(X))


def test_labels_of_two_types_are_refused():
    with pytest.raises(ValueError, match="labels of the types int, str"):
        GaussianMixtureClassifier().fit(X, ["a", *Y[1:].tolist()])


@pytest.mark.parametrize(
    "y, asked", [(np.array(["a", "ccc"])[Y], "cccd"), (Y, 1.7), (Y, "1"), (Y > 0, "x"), (Y, [0, 2])]
)
def test_a_class_that_is_none_is_not_sampled(y, asked):
    model = GaussianMixtureClassifier(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="y holds the class"):
        model.sample(2, y=asked)


def test_names_of_classes_do_not_matter_to_the_wrapper():
    """A fold that lacks the single row of a class has labels -1 and 1, or -1 and 0."""
    y = np.r_[0, np.ones(29, int), np.full(30, -1)]
    other = np.where(y < 0, -1, 1 - y)
    fits = [
        LatentClassificationModelCV([1], [1], cv=3, n_init=1, unlabeled=-1, random_state=0).fit(X, labels)
        for labels in (y, other)
    ]
    assert fits[0].search_results_["mean_log_loss"][0] == pytest.approx(
        fits[1].search_results_["mean_log_loss"][0], rel=1e-6
    )


def test_every_class_stays_when_rows_are_set_apart():
    y = np.r_[2, Y[1:]]
    for seed in range(5):
        options = dict(objective="conditional", early_stopping=True, validation_fraction=0.4, tol=1e-2)
        model = GaussianMixtureClassifier(random_state=seed, **options).fit(X, y)
        assert model.priors_.min() > 0 and np.isfinite(model.predict_log_proba(X)).all()


@pytest.mark.parametrize("seed", range(3))
def test_rows_without_weight_are_not_set_apart(seed):
    weight = np.zeros(60)
    for label in (0, 1):
        weight[np.flatnonzero(Y == label)[:6]] = 1.0
    model = MultimodalSoftmaxClassifier(max_subclasses=2, max_models=2, n_init=1, tol=1e-2, random_state=seed)
    assert np.isfinite(model.fit(X, Y, sample_weight=weight).search_results_["score"]).all()
    # five rows of one class and one of the other that count
    weight[np.flatnonzero(Y == 1)[1:]] = 0.0
    search = LatentClassificationModelCV([1], [1], cv=3, n_init=1, random_state=seed).fit(X, Y, sample_weight=weight)
    assert np.isfinite(search.search_results_["mean_log_loss"]).all()


def test_outputs_that_count_nothing_are_refused():
    y = np.r_[np.nan, np.ones(59)]
    with pytest.warns(UserWarning, match="dropped"), pytest.raises(ValueError, match="sample_weight is zero"):
        MixtureOfExpertsRegressor(1).fit(X, y, sample_weight=np.eye(60)[0])


def test_rows_held_out_see_a_mixture_of_outputs():
    """Two flat lines: one normal with their common variance says nothing against one expert; their mixture does."""
    rng = np.random.default_rng(0)
    x, side = rng.uniform(-2, 2, (200, 1)), rng.integers(0, 2, 200)
    y = np.where(side, 3.0, -3.0) + 0.3 * rng.normal(size=200)
    model = MixtureOfExpertsRegressor(max_experts=2, random_state=0, n_init=3).fit(x, y)
    assert model.n_experts_ == 2
    # scores are of y as it came: mean log densities per row
    alone = MixtureOfExpertsRegressor(max_experts=2, random_state=0, n_init=3).fit(x, 10 * y)
    np.testing.assert_allclose(alone.search_results_["score"], model.search_results_["score"] - np.log(10), rtol=1e-6)


@pytest.mark.parametrize("values", [[0, 1, -1, 2], [-1, 1, 1], [1, 0], [-1, -1], [3, -1], [-1, 1, 5]])
@pytest.mark.parametrize("mark", ["auto", None, -1, 1, 7])
@pytest.mark.parametrize("classes", [None, [0, 1], [-1, 1]])
def test_integers_are_read_alike_as_a_whole_and_one_by_one(values, mark, classes):
    known = None if classes is None else np.array(classes)
    whole, each = (split_unlabeled(np.array(values, dtype=dtype), len(values), mark, known) for dtype in (int, object))
    np.testing.assert_array_equal(whole.labels, each.labels)
    np.testing.assert_array_equal(whole.unlabeled, each.unlabeled)
    assert whole.n_assumed == each.n_assumed


@pytest.mark.parametrize("empty", ["", " ", "nan", "None", "?", "NA"])
def test_empty_labels_that_became_text_are_told(empty):
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.repeat(["a", empty], [13, 7])
    with pytest.warns(
        UserWarning, match=f"the text {re.escape(repr(empty))} in 7 rows, .* None or NaN marks unlabeled rows"
    ):
        model = GaussianMixtureClassifier(covariance="diag", random_state=0).fit(X, y)
    assert sorted(model.classes_) == sorted({"a", empty})


def test_labels_as_a_matrix_have_a_column_for_each_class_and_one_for_one_or_two():
    """A single class is there in every row that is labeled."""
    one, two, three = (
        encode_label_matrix(np.array(y, dtype=object), 4, "auto").codes
        for y in (["a", None, "a", "a"], ["b", "a", None, "b"], ["c", "a", None, "b"])
    )
    np.testing.assert_array_equal(one[:, 0], [1, -1, 1, 1])
    np.testing.assert_array_equal(two[:, 0], [1, 0, -1, 1])
    np.testing.assert_array_equal(three, [[0, 0, 1], [1, 0, 0], [-1, -1, -1], [0, 1, 0]])


def test_label_matrices_of_arrow_name_their_labels():
    pyarrow = pytest.importorskip("pyarrow")
    labels = pyarrow.table({"large": Y, "odd": [None if k % 5 == 0 else k % 2 for k in range(60)]})
    found = encode_label_matrix(labels, 60, "auto")
    assert found.names.tolist() == ["large", "odd"] and found.codes[:3].tolist() == [[Y[0], -1], [Y[1], 1], [Y[2], 0]]


@pytest.mark.parametrize("n_empty", [1, 10, 11])
@pytest.mark.parametrize("named", [True, False])
def test_what_is_wrong_with_columns_of_labels_names_the_first_ten(named, n_empty):
    """By the names of a frame, else by their numbers."""
    names = np.array([f"label {k}" for k in range(14)], dtype=object) if named else None
    few = np.where(np.arange(14) < 2, 5, np.where(np.arange(14) < 2 + n_empty, 0, 3))
    shown = [repr(f"label {k}") if named else str(k) for k in range(2, 2 + min(n_empty, 10))]
    told = "in column " + ", ".join(shown) + (", ...:" if n_empty > 10 else ":")
    with pytest.raises(ValueError, match=re.escape(f"y has no known entry {told}")):
        check_label_columns(few, few, names)
    known = np.full(14, 5)
    with pytest.warns(UserWarning, match=re.escape(f"y has no positive entry {told}")) as warned:
        check_label_columns(known, np.minimum(few, 3), names)
    assert len(warned) == 1
    with pytest.warns(UserWarning, match=re.escape(f"y has no negative entry {told}")) as warned:
        check_label_columns(known, known - np.minimum(few, 3), names)
    assert len(warned) == 1 and "If -1 stands for no" not in str(warned[0].message)
    with pytest.warns(UserWarning, match="If -1 stands for no, write 0"):
        check_label_columns(known, known, names)


FORMS = {  # labels, which integer marks unlabeled rows, the classes, their codes
    "truths": ([True, False, None, True], "auto", [False, True], [1, 0, -1, 1]),
    "truths beside a mark that equals one": ([True, False, None], 1, [False, True], [1, 0, -1]),
    "a mark among truths": (np.array([True, False, 7], dtype=object), 7, [False, True], [1, 0, -1]),
    "whole floats": ([-1.0, 1.0, 2.0], "auto", [-1.0, 1.0, 2.0], [0, 1, 2]),
    "whole floats with a mark": ([-1.0, 1.0, 2.0, np.nan], -1, [1.0, 2.0], [-1, 0, 1, -1]),
    "nullable integers": (pd.array([5, None, 3], dtype="Int64"), "auto", [3, 5], [1, -1, 0]),
    "nullable integers with the usual mark": (pd.array([5, None, -1, 3], dtype="Int64"), -1, [3, 5], [1, -1, -1, 0]),
    "polars integers": (pl.Series([5, None, 3]), "auto", [3, 5], [1, -1, 0]),
    "masked integers": (np.ma.array([5, 4, 3], mask=[0, 1, 0]), "auto", [3, 5], [1, -1, 0]),
    "text": (["b", None, "a", float("nan")], 3, ["a", "b"], [1, -1, 0, -1]),
    "unsigned": (np.array([3, 0, 7], dtype=np.uint8), "auto", [0, 3, 7], [1, 0, 2]),
    "a mark of its own": ([3, 0, 7, -1], 7, [-1, 0, 3], [2, 1, -1, 0]),
    "two signs": ([-1, 1, 1], "auto", [-1, 1], [0, 1, 1]),
    "no mark": ([-1, 1, 2], None, [-1, 1, 2], [0, 1, 2]),
}


@pytest.mark.parametrize("form", FORMS)
def test_labels_of_every_form_are_read_for_what_they_are(form):
    y, mark, classes, codes = FORMS[form]
    found = encode_labels(y, len(codes), mark)
    assert found.classes.tolist() == classes and found.codes.tolist() == codes and found.n_assumed == 0
    assert {type(label) for label in found.classes.tolist()} == {type(label) for label in classes}
    assert encode_known_labels(y, found.classes, len(codes), mark).tolist() == codes


@pytest.mark.parametrize(
    "y", [[3, -1, 5], np.array([3, -1, 5], dtype=object), np.array([3, None, -1, 5], dtype=object)]
)
def test_the_usual_mark_is_assumed_among_integers_and_counted(y):
    found = encode_labels(y, len(y), "auto")
    assert found.classes.tolist() == [3, 5] and found.n_assumed == 1 and (found.codes < 0).sum() == len(y) - 2


@pytest.mark.parametrize("weight, is_told", [([0.1] * 10, False), ([0.1] * 11, True), ([0.1] * 10 + [0.0], False)])
def test_weights_that_look_like_shares_are_told_where_many_rows_count(weight, is_told):
    codes = np.arange(len(weight)) % 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_weight(weight, codes.size, codes, np.array([0, 1]))
        check_weight([*weight, 5.0], codes.size + 1, np.append(codes, 1), np.array([0, 1]))  # as much as two rows
    assert len(caught) == is_told


def test_groups_stay_together_whichever_rows_a_splitter_does_not_see():
    codes = np.r_[-1, -1, np.arange(12) % 2, 1]
    weight, groups = np.r_[np.ones(14), 0.0], np.r_[9, 9, np.arange(12) // 3, 9]
    folds = make_folds(GroupKFold(4), codes, weight, lambda: 0, groups)
    assert sorted(groups[test].tolist() for _, test in folds) == [[g] * 3 for g in range(4)]
    for train, test in folds:
        assert train.tolist() == [0, 1, *(row for row in range(2, 14) if groups[row] != groups[test[0]])]


@pytest.mark.parametrize("y", [[3, -1, 5, None, 3, -1, None], ["a", "nan", "b", None, "a", "nan", "b"]])
def test_of_labels_in_parts_the_same_is_told_as_of_the_whole(y):
    labels = np.array(y, dtype=object)
    with pytest.warns(UserWarning) as whole:
        classes = read_labels(labels, 7, "auto").classes
    with pytest.warns(UserWarning) as parts:
        found = read_classes([digest_labels(labels[:3]), digest_labels(labels[3:])], "auto")
    assert found.tolist() == classes.tolist()
    assert [str(w.message) for w in parts] == [str(w.message) for w in whole]
