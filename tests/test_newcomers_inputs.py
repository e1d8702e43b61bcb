"""What newcomers hand in: every snippet of what once hurt them, and what should come of it."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.preprocessing import OneHotEncoder

import latentia
from latentia import GaussianMixtureClassifier, LatentClassificationModel

X, y = load_iris(return_X_y=True)


def quick_gmm(**options):
    return GaussianMixtureClassifier(covariance="diag", inference="ml", unlabeled_weight=1.0, n_init=1, **options)


def quick_classifiers():
    """One of each that takes unlabeled rows, cheap to fit."""
    return [
        quick_gmm(random_state=0),
        LatentClassificationModel(1, n_init=1, max_iter=20, random_state=0),
        latentia.LatentClassificationModelCV([1], [1], cv=2, n_init=1, max_iter=20, random_state=0),
        latentia.ProbitEmbeddingClassifier(1, max_iter=20),
        latentia.MultimodalSoftmaxClassifier(1, n_init=1, max_iter=20, random_state=0),
        latentia.MixtureOfExpertsClassifier(1, n_init=1, max_iter=20, random_state=0),
    ]


every_classifier = pytest.mark.parametrize("model", quick_classifiers(), ids=lambda m: type(m).__name__)
few_steps = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# ---------------------------------------------------------------- A2: which integer marks unlabeled rows
@every_classifier
@few_steps
@pytest.mark.filterwarnings("ignore:.*rows have no label")
def test_minus_one_among_three_labels_is_said_to_count_as_unlabeled(model):
    model = clone(model)
    with pytest.warns(UserWarning, match="50 of 150 labels are -1 and count as unlabeled.*unlabeled=None") as said:
        model.fit(X, y - 1)
    assert sum("count as unlabeled" in str(w.message) for w in said) == 1  # once per fit
    assert model.classes_.tolist() == [0, 1]
    with pytest.warns(UserWarning, match="score leaves out 50 of 150 rows.*unlabeled=None"):
        model.score(X, y - 1)


@every_classifier
@few_steps
def test_minus_one_is_a_class_where_no_integer_marks_unlabeled_rows(model):
    model = clone(model).set_params(unlabeled=None).fit(X, y - 1)
    assert model.classes_.tolist() == [-1, 0, 1]
    assert model.score(X, y - 1) == (model.predict(X) == y - 1).mean()
    assert model.score(X[:60], np.where(np.arange(60) < 50, -1, 7)) <= 50 / 60  # what is no class is never right


@every_classifier
@few_steps
@pytest.mark.filterwarnings("ignore:.*rows have no label")
@pytest.mark.parametrize("mark", [-1, 9])
def test_who_names_the_mark_hears_no_more_of_it(model, mark):
    """Also where the only labeled class is 1, which with -1 would be two classes."""
    semi = np.where(np.arange(150) % 2 == 0, mark, 1 - (y > 0))
    model = clone(model).set_params(unlabeled=mark).fit(X, semi)
    assert model.classes_.tolist() == [0, 1]
    model.score(X, semi)
    with pytest.warns(UserWarning, match="y has a single class, 1"):
        assert model.fit(X, np.where(y == 1, 1, mark)).classes_.tolist() == [1]


@pytest.mark.parametrize("mark", [-1, 9])
def test_a_named_mark_is_one_in_every_type_of_label(mark):
    some = np.arange(150) % 3 == 0
    plain = quick_gmm(unlabeled=mark).fit(X, np.where(some, mark, y))
    for labels in (np.where(some, float(mark), y), np.where(some, np.array(mark, dtype=object), y)):
        model = quick_gmm(unlabeled=mark).fit(X, labels)
        np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))


def test_scores_and_cross_validation_agree_when_minus_one_is_a_class():
    model = quick_gmm(unlabeled=None)
    own, accuracy = cross_val_score(model, X, y - 1), cross_val_score(model, X, y - 1, scoring="accuracy")
    np.testing.assert_array_equal(own, accuracy)
    assert own.mean() > 0.9


@pytest.mark.parametrize("labels", [np.array([-1, 1]), np.array([-1.0, 0.0, 1.0]), np.array(["-1", "0", "1"])])
def test_labels_that_are_plainly_classes_are_no_reason_to_warn(labels):
    target = labels[y % len(labels)]
    model = quick_gmm().fit(X, target)
    assert model.classes_.tolist() == sorted(set(labels.tolist()))
    model.score(X, target)


@pytest.mark.parametrize("mark", [None, np.nan])
def test_none_and_nan_are_unlabeled_whatever_the_option(mark):
    words = np.array([mark if k % 5 == 0 else "abc"[c] for k, c in enumerate(y)], dtype=object)
    for unlabeled in ("auto", -1, None):
        model = quick_gmm(unlabeled=unlabeled).fit(X, words)
        assert model.classes_.tolist() == ["a", "b", "c"]
    with pytest.warns(UserWarning, match=r"score leaves out 30 of 150 rows, which have no label\.$"):
        model.score(X, words)


@pytest.mark.parametrize("wrong", ["no", 1.5, True, [-1]])
def test_marks_that_are_none_are_refused(wrong):
    with pytest.raises(ValueError, match="unlabeled=.*allowed are 'auto'"):
        quick_gmm(unlabeled=wrong).fit(X, y)


def test_unknown_entries_of_a_label_matrix_are_as_they_were():
    Y = np.c_[y == 0, y == 1].astype(int)
    Y[::3, 1] = -1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        models = [latentia.ProbitEmbeddingClassifier(1, unlabeled=u).fit(X, Y) for u in ("auto", -1, None)]
    for model in models[1:]:
        np.testing.assert_array_equal(model.predict_proba(X), models[0].predict_proba(X))


# ---------------------------------------------------------------- A4: kinds do not change with the fold
def quick_lcm(**options):
    return LatentClassificationModel(1, **{"n_init": 1, "max_iter": 3, "tol": 0.1, "random_state": 0} | options)


def kinds_of_folds(table, labels, n_folds):
    """The kinds that each test part of some folds has: few rows, so that rare values are absent from many."""
    rows = StratifiedKFold(n_folds, shuffle=True, random_state=0).split(labels, labels)
    return {quick_lcm().fit(take(table, test), labels[test]).kinds_ for _, test in rows}


def take(table, rows):
    return table.iloc[rows] if hasattr(table, "iloc") else table[rows]


@few_steps
@pytest.mark.parametrize("as_frame", [False, True])
def test_columns_of_digits_are_continuous_in_every_fold(as_frame):
    data, digit = load_digits(return_X_y=True, as_frame=as_frame)
    assert kinds_of_folds(data, np.asarray(digit), 18) == {("continuous",) * 64}


@few_steps
def test_arrays_of_bits_are_binary_and_arrays_with_some_are_not(rng):
    bits = (rng.random((60, 12)) < 0.1).astype(float)
    bits[::7, 3] = np.nan
    labels = np.arange(60) % 2
    assert kinds_of_folds(bits, labels, 6) == {("binary",) * 12}  # also those of zeros alone
    assert quick_lcm().fit(bits.astype(bool), labels).kinds_ == ("binary",) * 12
    mixed = np.c_[bits, rng.normal(size=60)]
    assert kinds_of_folds(mixed, labels, 6) == {("continuous",) * 13}


@few_steps
def test_the_dtypes_of_a_frame_say_what_is_binary(rng):
    labels = np.arange(60) % 2
    frame = pd.DataFrame(
        {
            "bool": rng.random(60) < 0.5,
            "maybe": pd.array(np.where(rng.random(60) < 0.2, None, rng.random(60) < 0.5), dtype="boolean"),
            "integer": rng.integers(0, 2, 60),
            "nullable": pd.array(np.where(rng.random(60) < 0.2, None, rng.integers(0, 2, 60)), dtype="Int64"),
            "coded": rng.integers(1, 3, 60),
            "float": rng.integers(0, 2, 60).astype(float),
            "number": rng.normal(size=60),
            "text": rng.choice(["yes", "no"], 60),
        }
    )
    assert quick_lcm().fit(frame, labels).kinds_ == (*["binary"] * 5, "continuous", "continuous", "categorical")


@few_steps
@pytest.mark.parametrize("column", ["float", 1, -1])
def test_kinds_are_given_by_name_or_by_number(column):
    frame = pd.DataFrame({"a": np.arange(20.0), "float": np.arange(20) % 2 * 1.0})
    assert quick_lcm(kinds={column: "binary"}).fit(frame, np.arange(20) // 10).kinds_ == ("continuous", "binary")


@pytest.mark.parametrize("column", ["b", 2, -3])
def test_a_kind_of_no_column_is_refused(column):
    with pytest.raises(ValueError, match="names the column .*, which X does not have; its columns are"):
        quick_lcm(kinds={column: "binary"}).fit(pd.DataFrame({"a": [0.0, 1.0], "c": [0.0, 1.0]}), [0, 1])


@few_steps
@pytest.mark.parametrize(
    "values, other, cure",
    [([0, 1], 2, r"kinds=\{'visits': 'continuous'\}.*handle_unknown='error'"), ("ab", "c", "handle_unknown='error'")],
)
def test_what_fit_did_not_see_is_named_with_the_cure(values, other, cure):  # E22
    frame = pd.DataFrame({"a": np.arange(20.0), "visits": list(values) * 10})
    model = quick_lcm().fit(frame, np.arange(20) // 10)
    with pytest.warns(UserWarning, match=f"column 'visits' holds {other!r}.*treated as missing. {cure}"):
        model.predict(pd.DataFrame({"a": [0.0], "visits": [other]}))
    with pytest.raises(ValueError, match="handle_unknown='missing'"):
        model.set_params(handle_unknown="error").predict(pd.DataFrame({"a": [0.0], "visits": [other]}))


# ---------------------------------------------------------------- A8: categories of any type
def categories_of_any_type():
    age, days = np.arange(40.0), pd.date_range("2020-01-01", periods=4)
    return {
        "intervals": pd.cut(age, 3),
        "dates": pd.Categorical(days.take(np.arange(40) % 4)),
        "dates with a zone": pd.Categorical(days.tz_localize("Europe/Paris").take(np.arange(40) % 4)),
        "spans": pd.Categorical((days - days[0]).take(np.arange(40) % 4)),
        "periods": pd.Categorical(days.to_period("M").take([0] * 40)).add_categories([pd.Period("2021-05", "M")]),
        "tuples": pd.Categorical(pd.Index([(1, "a"), (2, "b"), (3, "c")] * 13 + [(1, "a")], tupleize_cols=False)),
        "mixed": pd.Categorical([1, "x", 2.5, "1"] * 10),
        "numbers": pd.Categorical([30, 10, 20, 10] * 10, categories=[30, 10, 20]),
        "two numbers": pd.Categorical([1, 2] * 20),
        "bool": pd.Categorical([True, False] * 20),
        "text": pd.Categorical(list("abca") * 10),
    }


@few_steps
@pytest.mark.parametrize("name", categories_of_any_type())
def test_categories_of_any_type_come_back_as_they_were(name):
    group, labels = categories_of_any_type()[name], np.arange(40) // 20
    frame = pd.DataFrame({"group": group, "x": np.arange(40) % 7 + labels})
    model = quick_lcm().fit(frame, labels)
    assert model.kinds_[0] == ("ordinal" if group.ordered else "categorical")
    gaps = frame.copy()
    gaps.loc[5, "group"] = None
    full = model.impute(gaps)
    pd.testing.assert_frame_equal(full.drop(index=5), frame.drop(index=5), check_dtype=True)
    assert full["group"].dtype == frame["group"].dtype and full.loc[5, "group"] in set(group)
    drawn, _ = model.sample(20)
    assert drawn["group"].dtype == frame["group"].dtype and set(drawn["group"]) <= set(group)
    assert set(model.categories_[0].tolist()) == set(group)


@few_steps
def test_text_and_numbers_in_one_column_stay_what_they_are():
    cells = np.array([["a", 1, "1", 2.5][k % 4] for k in range(40)], dtype=object)
    frame = pd.DataFrame({"group": cells, "x": np.arange(40.0)})
    model = quick_lcm().fit(frame, np.arange(40) // 20)
    assert model.impute(frame)["group"].tolist() == cells.tolist()


# ---------------------------------------------------------------- A9: saving by skops
def saved_by_skops(model):
    skops = pytest.importorskip("skops.io")
    stored = skops.dumps(model)
    return skops.loads(stored, trusted=skops.get_untrusted_types(data=stored)), skops.get_untrusted_types(data=stored)


@few_steps
@pytest.mark.parametrize("name", ["text", "intervals", "dates with a zone", "tuples", "mixed", "bool"])
def test_models_of_frames_with_categories_go_through_skops(name):
    labels = np.arange(40) // 20
    frame = pd.DataFrame(
        {"group": categories_of_any_type()[name], "x": np.arange(40) % 7 + labels, "t": ["u", "v"] * 20}
    )
    model = quick_lcm().fit(frame, labels)
    loaded, names = saved_by_skops(model)
    np.testing.assert_array_equal(loaded.predict_proba(frame), model.predict_proba(frame))
    pd.testing.assert_frame_equal(loaded.impute(frame), model.impute(frame))
    assert all(name.startswith("latentia.") for name in names), names


@few_steps
@pytest.mark.filterwarnings("ignore:.*standard deviation")
@pytest.mark.parametrize(
    "model",
    [*quick_classifiers(), latentia.MixtureOfExpertsRegressor(1, n_init=1, max_iter=20)],
    ids=lambda m: type(m).__name__,
)
def test_every_estimator_goes_through_skops_and_asks_for_names_of_the_library_alone(model):
    model = clone(model).fit(X, y)
    loaded, names = saved_by_skops(model)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert all(name.startswith("latentia.") for name in names) and len(names) <= 13
    if hasattr(model, "search_results_"):
        assert type(loaded.search_results_) is type(model.search_results_)


# ---------------------------------------------------------------- A15: samples of integer columns
@few_steps
@pytest.mark.parametrize("make", [quick_lcm, quick_gmm], ids=["LCM", "GMM"])
def test_samples_of_integer_columns_are_whole(make, rng):
    labels = np.arange(40) % 2
    visits = rng.poisson(3 + labels)
    frame = pd.DataFrame({"visits": pd.array(visits, dtype="Int64"), "weight": rng.normal(size=40)})
    drawn, _ = make().fit(frame, labels).sample(50)
    assert drawn["visits"].dtype == "Int64" and (drawn["weight"] % 1 > 0).all()
    array, _ = make().fit(np.c_[visits, rng.poisson(9, 40)], labels).sample(50)
    np.testing.assert_array_equal(array, np.rint(array))
    gaps = np.array([[2.5, np.nan]])
    filled = make().fit(np.c_[visits, rng.poisson(9, 40)], labels).impute(gaps, method="mode")
    assert filled[0, 0] == 2.5 and filled[0, 1] == np.rint(filled[0, 1])  # known cells stay as they are


# ---------------------------------------------------------------- A3: ids, and columns of many values
def table_with(text, n=200):
    rng = np.random.default_rng(3)
    labels = np.arange(n) % 2
    return pd.DataFrame({"a": rng.normal(size=n) + labels, "text": text}), labels


@pytest.mark.parametrize("make", [list, pd.Categorical], ids=["text", "category"])
def test_a_column_of_ids_is_refused_by_its_name(make):
    frame, labels = table_with(make([f"cust{k}" for k in range(200)]))
    with pytest.raises(
        ValueError, match="column 'text' of X has 200 different values.*Drop such columns.*max_categories"
    ):
        LatentClassificationModel().fit(frame, labels)


@few_steps
def test_many_values_are_a_reason_to_warn_and_a_kind_given_is_none():
    frame, labels = table_with([f"city {k % 40}" for k in range(200)])
    with pytest.warns(UserWarning, match="column 'text' of X has 40 different values.*min_frequency"):
        quick_lcm().fit(frame, labels)
    quick_lcm(kinds={"text": "categorical"}).fit(frame, labels)
    frame, labels = table_with([f"city {k % 30}" for k in range(200)])
    quick_lcm().fit(frame, labels)


@few_steps
@pytest.mark.parametrize(
    "options", [{"max_categories": 4}, {"min_frequency": 20}, {"min_frequency": 0.1}], ids=lambda o: next(iter(o))
)
def test_rare_values_become_one_category_as_in_one_hot_encoder(options):
    counts = {"a": 90, "b": 60, "c": 31, "d": 10, "e": 5, "f": 4}
    text = np.random.default_rng(0).permutation(np.repeat(list(counts), list(counts.values())))
    frame, labels = table_with(text)
    model = quick_lcm(**options).fit(frame, labels)
    encoder = OneHotEncoder(**options).fit(frame[["text"]])
    assert model.infrequent_categories_[1].tolist() == encoder.infrequent_categories_[0].tolist() == ["d", "e", "f"]
    assert model.categories_[1].tolist() == ["a", "b", "c", "d"]  # the most frequent stands for the rare ones
    assert model.loading_features_.tolist() == [0, 1, 1, 1, 1]
    proba = [model.predict_proba(pd.DataFrame({"a": [0.3], "text": [value]})) for value in "def"]
    np.testing.assert_array_equal(proba[0], proba[1])
    np.testing.assert_array_equal(proba[0], proba[2])
    drawn, _ = model.sample(100)
    assert set(drawn["text"]) == set("abcd")
    gaps = frame.copy()
    gaps.loc[::9, "text"] = None
    full = model.impute(gaps)["text"]
    known = gaps["text"].notna()
    assert full[known].tolist() == frame["text"][known].tolist() and set(full[~known]) <= set("abcd")


@few_steps
def test_ids_are_one_category_when_rare_values_are_merged():
    frame, labels = table_with([f"cust{k}" for k in range(200)])
    model = quick_lcm(min_frequency=2).fit(frame, labels)
    assert len(model.infrequent_categories_[1]) == 200 and len(model.categories_[1]) == 1
    search = latentia.LatentClassificationModelCV([1], [1], cv=2, n_init=1, max_iter=3, min_frequency=2, random_state=0)
    assert np.isfinite(search.fit(frame, labels).best_score_)


@pytest.mark.parametrize(
    "wrong", [{"max_categories": 0}, {"min_frequency": 1.5}, {"min_frequency": 0}, {"min_frequency": "few"}]
)
def test_merging_by_no_number_is_refused(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ValueError, match=f"{name}={value!r}; allowed"):
        quick_lcm(**wrong).fit(X, y)


# ---------------------------------------------------------------- A15: counts and ordered levels
@few_steps
def test_ordered_categories_are_ordinal_and_come_back_in_their_order(rng):
    labels = np.arange(60) % 2
    grades = pd.Categorical(
        np.array(["low", "mid", "high"])[np.clip(rng.integers(0, 2, 60) + labels, 0, 2)],
        categories=["low", "mid", "high"],
        ordered=True,
    )
    frame = pd.DataFrame({"grade": grades, "x": rng.normal(size=60)})
    model = quick_lcm().fit(frame, labels)
    assert model.kinds_ == ("ordinal", "continuous")
    assert model.categories_[0].tolist() == ["low", "mid", "high"]
    assert model.loading_features_.tolist() == [0, 0, 1]  # a step from each level to the next
    frame.loc[7, "grade"] = None
    full = model.impute(frame)
    assert full["grade"].dtype == frame["grade"].dtype and full.loc[7, "grade"] in ("low", "mid", "high")
    _, names = saved_by_skops(model)
    assert all(name.startswith("latentia.") for name in names)


@few_steps
@pytest.mark.parametrize("dtype", ["Int64", "float64"])
def test_counts_are_drawn_as_counts(rng, dtype):
    labels = np.arange(60) % 2
    frame = pd.DataFrame({"visits": pd.array(rng.poisson(0.5 + labels), dtype=dtype), "x": rng.normal(size=60)})
    frame.loc[::9, "visits"] = pd.NA if dtype == "Int64" else np.nan
    model = quick_lcm(kinds={"visits": "count"}).fit(frame, labels)
    drawn = model.sample(300)[0]["visits"]
    assert drawn.dtype == dtype and (drawn >= 0).all() and (drawn == drawn.round()).all()
    assert (model.impute(frame)["visits"] >= 0).all()
    assert set(model.impute(frame, method="mode")["visits"]) <= set(range(10))


@few_steps
@pytest.mark.parametrize("wrong", [-1.0, 0.5])
def test_what_is_no_count_is_refused_by_the_name_of_its_column(wrong):
    frame = pd.DataFrame({"visits": [0.0, 2.0, np.nan, 1.0], "x": np.arange(4.0)})
    bad = frame.assign(visits=[0.0, wrong, 1.0, 2.0])
    with pytest.raises(ValueError, match=f"column 'visits' of X holds {wrong:g}, but its kind is 'count'"):
        quick_lcm(kinds={"visits": "count"}).fit(bad, [0, 1, 0, 1])
    model = quick_lcm(kinds={"visits": "count"}, tol=1e9).fit(frame, [0, 1, 0, 1])
    with pytest.raises(ValueError, match="column 'visits' of X holds"):
        model.predict(bad)
    with pytest.raises(ValueError, match="column 0 of X holds"):
        quick_lcm(kinds={0: "count"}).fit(bad.to_numpy(), [0, 1, 0, 1])


# ---------------------------------------------------------------- E: messages
def every_estimator():
    return [
        *quick_classifiers()[:2],
        *quick_classifiers()[3:],
        latentia.MixtureOfExpertsRegressor(1, n_init=1, max_iter=20),
    ]


every_model = pytest.mark.parametrize("model", every_estimator(), ids=lambda m: type(m).__name__)
TWO = np.arange(40) % 2
NUMBERS = np.random.default_rng(0).normal(size=(40, 2)) + TWO[:, None]


@pytest.mark.parametrize("model", every_estimator()[:-1], ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(
    "form", [list, pd.Series, lambda lists: pd.Series(lists).to_numpy()], ids=["list", "series", "array"]
)
@pytest.mark.parametrize(
    "lists", [[["a"], ["b", "c"]], [["a", "b"], ["b", "c"]], [{"a"}, {"b"}]], ids=["ragged", "even", "sets"]
)
def test_lists_of_labels_are_refused_with_the_cure(model, form, lists):  # E5
    with pytest.raises(ValueError, match="y holds lists of labels.*MultiLabelBinarizer"):
        model.fit(NUMBERS, form(lists * 20))


@few_steps
def test_lists_of_zeros_and_ones_are_a_label_matrix():
    Y = [[int(v), 1 - int(v)] for v in TWO]
    assert latentia.ProbitEmbeddingClassifier(1, max_iter=20).fit(NUMBERS, Y).multilabel_


@every_model
@pytest.mark.parametrize(
    "table, error, message",
    [
        (lambda: np.array(pd.date_range("2020", periods=40))[:, None], TypeError, "column 0 of X holds dates"),  # E7
        (
            lambda: pd.DataFrame({"d": pd.period_range("2020", periods=40, freq="D")}),
            TypeError,
            "column 'd' of X holds dates",
        ),
        (
            lambda: pd.DataFrame({"d": pd.Series(list(pd.date_range("2020", periods=40)), dtype=object)}),
            TypeError,
            "column 'd' of X holds dates",
        ),
        (lambda: [[1.0], [1.0, 2.0]] * 20, ValueError, "rows of 1 and of 2 cells"),  # E11
        (lambda: {"a": NUMBERS[:, 0]}, TypeError, "X is a dict"),
        (lambda: pd.DataFrame(NUMBERS, columns=["inc", "inc"]), ValueError, "several columns of the name 'inc'"),  # E17
        (
            lambda: pd.DataFrame({"a": NUMBERS[:, 0], "inc": NUMBERS[:, 1] * 1e155}),
            ValueError,
            "column 'inc' so far apart",
        ),  # E23
        (lambda: NUMBERS * [1, 1e155], ValueError, "column 1 so far apart"),
        (
            lambda: pd.DataFrame({"a": NUMBERS[:, 0], "inc": np.r_[np.inf, NUMBERS[1:, 1]]}),
            ValueError,
            "infinity in column 'inc'",
        ),
    ],
    ids=["dates", "periods", "timestamps", "ragged", "dict", "same names", "large", "large array", "infinity"],
)
def test_tables_that_cannot_be_read_are_refused_by_the_names_of_their_columns(model, table, error, message):
    with pytest.raises(error, match=message):
        clone(model).fit(table(), TWO)


@every_model
def test_a_fit_without_labels_is_told_to_pass_them(model):  # E15, E16
    with pytest.raises(ValueError, match="requires y to be passed"):
        model.fit(NUMBERS)
    with pytest.raises(ValueError, match="y='target' is a string: pass the"):
        model.fit(NUMBERS, "target")


@pytest.mark.parametrize("wrong", ["a", 1.5])
def test_numbers_of_jobs_are_checked_here(wrong):  # E13
    with pytest.raises(ValueError, match=f"n_jobs={wrong!r}; allowed is an integer, or None"):
        latentia.LatentClassificationModelCV(n_jobs=wrong).fit(NUMBERS, TWO)


@few_steps
@every_model
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_narwhals_frames_keep_their_names(model, library):
    narwhals = pytest.importorskip("narwhals")
    frame = narwhals.from_native(pytest.importorskip(library).DataFrame({"a": NUMBERS[:, 0], "b": NUMBERS[:, 1]}))
    model = clone(model).fit(frame, TWO)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="names should match"):
        model.predict(frame.select("b", "a"))
    if hasattr(model, "impute"):
        assert type(model.impute(frame)).__module__.startswith(library)


@few_steps
def test_text_in_narwhals_and_pyarrow_frames_is_read():
    frame = pd.DataFrame({"a": NUMBERS[:, 0], "b": ["u", "v"] * 20})
    for table in (
        pytest.importorskip("narwhals").from_native(frame),
        pytest.importorskip("pyarrow").Table.from_pandas(frame),
    ):
        assert quick_lcm().fit(table, TWO).kinds_ == ("continuous", "categorical")


@pytest.mark.parametrize("max_categories", [None, 3])
@pytest.mark.filterwarnings("ignore:.*which fit did not see", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_value_that_fit_did_not_see_is_filled_and_a_rare_one_stays(max_categories, rng):
    letters = np.array(list("aaaaaabbbbccdef"), dtype=object)
    frame = pd.DataFrame({"size": rng.normal(size=60), "letter": np.tile(letters, 4)})
    model = quick_lcm(max_categories=max_categories).fit(frame, np.arange(60) % 2)
    frame.loc[:3, "letter"] = ["new", None, "f", "a"]
    filled = model.impute(frame, method="mode")["letter"].tolist()
    assert filled[2:] == frame["letter"].tolist()[2:]
    assert {filled[0], filled[1]} <= set(letters)


# ---------------------------------------------------------------- rows and labels in another order
def test_labels_in_another_order_than_their_rows_are_told():
    """Each way is matched by position, as scikit-learn does: a shuffled table with labels as they were learns noise."""
    frame, labels = pd.DataFrame(X), pd.Series(y)
    shuffled = frame.sample(frac=1, random_state=0)
    told = "X and y have the same index in another order.*pass y.loc"
    for fit in (
        quick_gmm().fit,
        latentia.MixtureOfExpertsRegressor(1).fit,
        lambda X, y: latentia.compare(quick_gmm(), X, y),
    ):
        with pytest.warns(UserWarning, match=told) as found:
            fit(shuffled, labels)
        assert len(found) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows, own in (
            (shuffled, labels.loc[shuffled.index]),
            (frame, labels),
            (shuffled, y),
            (shuffled.reset_index(drop=True), labels),
            (shuffled, labels.set_axis(np.arange(150) + 7)),
            (frame.set_axis([0] * 150), labels.set_axis([0] * 150)),
        ):
            quick_gmm().fit(rows, own)


@few_steps
@pytest.mark.parametrize(
    "options", [{"max_categories": 3}, {"min_frequency": 12}, {"min_frequency": 0.15}], ids=lambda o: next(iter(o))
)
def test_which_categories_are_rare_counts_rows_by_their_weight(options, rng):
    counts = {"d": 6, "b": 9, "e": 8, "c": 10, "f": 7}
    frame, labels = table_with(rng.permutation(np.repeat(list(counts), list(counts.values()))), n=40)
    weight = frame["text"].map({"d": 3, "b": 1, "e": 1, "c": 2, "f": 3}).to_numpy()
    twice = np.repeat(np.arange(40), weight)
    weighted = quick_lcm(**options).fit(frame, labels, sample_weight=weight)
    repeated = quick_lcm(**options).fit(frame.iloc[twice].reset_index(drop=True), labels[twice])
    plain = quick_lcm(**options).fit(frame, labels).infrequent_categories_[1]
    assert weighted.infrequent_categories_[1].tolist() == repeated.infrequent_categories_[1].tolist()
    assert plain is None or plain.tolist() != weighted.infrequent_categories_[1].tolist()
    np.testing.assert_allclose(weighted.predict_proba(frame), repeated.predict_proba(frame), rtol=1e-9)


@few_steps
def test_categories_that_never_occur_change_nothing_of_which_are_rare(rng):
    """A column of pandas with unused categories is merged as the same column of text."""
    counts = {"d": 40, "b": 9, "e": 8, "c": 3, "f": 2}
    frame, labels = table_with(rng.permutation(np.repeat(list(counts), list(counts.values()))), n=62)
    typed = frame.assign(text=pd.Categorical(frame["text"], categories=list("aAbBcCdDeEfF")))
    for options in ({"max_categories": 3}, {"min_frequency": 8}, {"min_frequency": 0.14}):
        plain, of_type = (quick_lcm(**options).fit(X, labels) for X in (frame, typed))
        assert sorted(of_type.infrequent_categories_[1]) == sorted(plain.infrequent_categories_[1])
        assert sorted(of_type.categories_[1]) == sorted(plain.categories_[1])
        np.testing.assert_allclose(of_type.predict_proba(typed), plain.predict_proba(frame), rtol=1e-9)
