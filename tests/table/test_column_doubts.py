"""Columns that are not what they would be read as, rows and labels in the wrong place: named, with the cure."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV

from latentia import (
    GaussianMixtureClassifier,
    LatentClassificationModel,
    LatentClassifier,
    MixtureOfExpertsRegressor,
    compare,
    write_report,
)
from latentia.table.cells import amount_in

N = 120
y = np.arange(N) % 2
NUMBERS = np.random.default_rng(0).normal(size=N).round(3) + y
few_steps = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def quick(**options):
    return LatentClassificationModel(1, n_init=1, max_iter=3, random_state=0, **options)


def with_words(*words, numbers=NUMBERS, as_text=False):
    """A column of numbers whose first cells are words."""
    cells = [f"{v:g}" if as_text else float(v) for v in numbers]
    cells[: len(words)] = words
    return pd.DataFrame({"age": pd.Series(cells, dtype=object), "b": NUMBERS})


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize(
    "words, said",
    [
        (["forty"], "'forty' among 119 numbers"),
        (["forty", "forty"], r"'forty' \(2 times\) among 118 numbers"),
        (["forty", "ten"], "'forty' and 1 more cell of text among 118 numbers"),
    ],
)
def test_a_word_among_numbers_is_named_with_the_cure(words, said, as_text):
    frame = with_words(*words, as_text=as_text)
    with pytest.raises(ValueError, match=rf"column 'age' of X holds {said}.*to_numeric\(X\['age'\].*kinds=\{{'age'"):
        quick().fit(frame, y)
    with pytest.raises(ValueError, match=rf"column 'age' of X holds {said}"):
        LatentClassifier(effort="fast").fit(frame, y)
    with pytest.raises(ValueError, match=f"X holds text in column 'age': {said}.*to_numeric"):
        GaussianMixtureClassifier().fit(frame, y)
    with pytest.raises(ValueError, match=f"column 'age' of X holds text.*: {said}"):
        quick(kinds={"age": "continuous"}).fit(frame, y)


@pytest.mark.parametrize("form", ["{} €", "${}", "{} %", "1.00{}"])
def test_amounts_are_told_from_names(form):
    cells = [form.format(f"{v:.2f}".replace(".", ",")) for v in np.abs(NUMBERS)]
    frame = pd.DataFrame({"income": cells, "b": NUMBERS})
    said = "column 'income' of X holds amounts as text, such as '.*': [0-9]+ different ones in 120 cells"
    with pytest.raises(ValueError, match=f"{said}.*pandas.to_numeric.*decimal and thousands") as error:
        quick().fit(frame, y)
    assert "names and ids" not in str(error.value)


def test_the_example_of_an_amount_is_one_that_no_reader_takes_for_a_number():
    assert amount_in(["3", "4,50 €", "5"]) == "4,50 €"
    assert amount_in(["3", "4.5"]) is None and amount_in(["4,50 €", "five", "six"]) is None


@few_steps
@pytest.mark.parametrize(
    "form, what, cure",
    [
        (
            "${},500",
            "amounts as text, such as '\\$1,500': 9 different",
            "with a decimal point, pandas.to_numeric makes",
        ),
        ("{}0%", "amounts as text, such as '10%': 9 different", r"to_numeric\(X\['a'\].str.rstrip\(' %'\)\) makes"),
        ("2020-0{}-01", "dates as text, such as '2020-01-01': 9 different", "pandas.to_datetime"),
        ("{} Mar 2020", "dates as text, such as '1 Mar 2020': 9 different", "pandas.to_datetime"),
    ],
)
def test_a_few_amounts_and_dates_as_text_are_told_of_once(form, what, cure):
    frame = pd.DataFrame({"a": [form.format(1 + k % 9) for k in range(N)], "b": NUMBERS})
    for options in ({}, {"max_categories": 5}):
        for model in (quick(**options), LatentClassifier(effort="fast", cv=2, **options)):
            with pytest.warns(UserWarning) as told:
                model.fit(frame, y)
            said = [str(w.message) for w in told if "'a'" in str(w.message)]
            assert len(said) == 1 and re.search(f"column 'a' of X holds {what}.*{cure}.*ends this warning", said[0])
    quick(kinds={"a": "categorical"}).fit(frame, y)
    quick().fit(frame.assign(a=np.resize(["10%", "20%"], N)), y)  # two values are two values


@few_steps
def test_amounts_where_a_model_expects_numbers_are_named():
    model = quick().fit(pd.DataFrame({"a": NUMBERS * 100, "b": NUMBERS}), y)
    with pytest.raises(ValueError, match=r"'a' of X holds text where numbers .*: '\$1,034'. Without signs and sep"):
        model.predict(pd.DataFrame({"a": ["$1,034", "$7"], "b": NUMBERS[:2]}))


@few_steps
@pytest.mark.parametrize(
    "texts, said",
    [
        ([""], "'' in 40 cells"),
        (["?"], r"'\?' in 40 cells"),
        (["  ", "?"], r"'  ', '\?' in 60 cells"),
        (["nan"], "'nan' in 40 cells"),
        (["NA", "null"], "'NA', 'null' in 60 cells"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"max_categories": 5}])
def test_text_that_stands_for_gaps_is_told_of_once(texts, said, options):
    frame = pd.DataFrame({"city": np.resize(["u", "v", *texts], N), "b": NUMBERS})
    for table in (frame, frame.astype({"city": "category"})):
        for model in (quick(**options), LatentClassifier(effort="fast", cv=2, **options)):
            with pytest.warns(UserWarning) as told:
                model.fit(table, y)
            about = [str(w.message) for w in told if "'city'" in str(w.message)]
            assert len(about) == 1 and re.search(f"column 'city' of X holds the text {said}, which counts", about[0])
    quick(kinds={"city": "categorical"}, **options).fit(frame, y)
    quick(**options).fit(frame.assign(city=frame["city"].replace(texts, np.nan)), y)  # the cure


ANSWERS = ["very bad", "bad", "ok", "good"]


@few_steps
@pytest.mark.parametrize(
    "column, levels",
    [
        (pd.Categorical(np.resize(ANSWERS, N), ANSWERS, ordered=True), ANSWERS),
        (pd.Categorical(np.resize(ANSWERS, N), ANSWERS), ANSWERS),  # which is not the alphabet
        (np.resize(["10", "9", "2", "100"], N), ["2", "9", "10", "100"]),
        (np.resize([10, 9, 2, 100], N), [2, 9, 10, 100]),
        (np.resize(["worse", "better"], N), ["better", "worse"]),  # two values have no middle
    ],
)
def test_ordinal_columns_have_the_order_of_their_levels(column, levels):
    model = quick(kinds={"q": "ordinal"}).fit(pd.DataFrame({"q": column, "b": NUMBERS}), y)
    assert model.kinds_[0] == "ordinal" and model.categories_[0].tolist() == levels


@pytest.mark.parametrize("make", [lambda c: c, lambda c: c.astype("category"), lambda c: c.str.replace("ok", "3")])
def test_text_without_an_order_is_not_ordinal(make):
    frame = pd.DataFrame({"q": make(pd.Series(np.resize(ANSWERS, N))), "b": NUMBERS})
    for model in (quick(kinds={"q": "ordinal"}), LatentClassifier(effort="fast", kinds={"q": "ordinal"})):
        with pytest.raises(ValueError, match=r"column 'q' of X is to be ordinal, but .*'bad', 'good'.*ordered=True"):
            model.fit(frame, y)


def test_codes_with_leading_zeros_are_told_from_words():
    frame = with_words("01067", "04109", numbers=10_000 + np.arange(N), as_text=True)
    said = "column 'age' of X holds '01067' and 1 more cell with a leading zero among 118 numbers"
    with pytest.raises(ValueError, match=rf"{said}.*to_numeric\(X\['age'\]\) makes numbers of all cells"):
        quick().fit(frame, y)


def test_text_in_a_column_of_counts_is_named():
    frame = pd.DataFrame({"plan": ["basic", "plus"] * (N // 2), "b": NUMBERS})
    with pytest.raises(ValueError, match="column 'plan' of X holds text where numbers are expected: 'basic'. Correct"):
        quick(kinds={"plan": "count"}).fit(frame, y)


@few_steps
def test_the_cures_cure():
    frame = with_words("forty")
    assert quick().fit(frame.assign(age=pd.to_numeric(frame["age"], errors="coerce")), y).kinds_[0] == "continuous"
    assert quick(kinds={"age": "categorical"}).fit(frame, y).kinds_[0] == "categorical"


@few_steps
def test_a_word_among_few_values_or_merged_ones_is_a_warning():
    few, twice = with_words("ten", numbers=np.arange(N) % 10), with_words("ten", "ten", numbers=np.arange(N) % 10)
    for frame, options in ((few, {}), (twice, {}), (with_words("ten"), {"max_categories": 5})):
        said = r"column 'age' of X holds 'ten'( \(2 times\))? among 11[89] numbers, so all its values are"
        with pytest.warns(UserWarning, match=said):
            assert quick(**options).fit(frame, y).kinds_[0] == "categorical"
        quick(kinds={"age": "categorical"}, **options).fit(frame, y)


@few_steps
def test_a_value_that_is_often_a_word_is_a_category():
    """As in 0, 1, 2, 3+; and codes with a leading zero are no numbers."""
    often = pd.DataFrame({"children": np.resize(["0", "1", "2", "0", "1", "2", "0", "1", "2", "3+"], N)})
    codes = pd.DataFrame({"code": np.resize(["007", "015", "123", "X12"], N)})
    for frame in (often, codes):
        assert quick().fit(frame, y).kinds_ == ("categorical",)


def table_of_strangers():
    days = pd.date_range("2020-01-01", periods=N)
    return pd.DataFrame(
        {
            "id": [f"cust{k}" for k in range(N)],
            "when": days,
            "day": [str(day.date()) for day in days],
            "name": [f"name {k}" for k in range(N)],
            "number": [f"{v:g}" for v in NUMBERS],
            "date": pd.Series([day.date() for day in days], dtype=object),
            "b": NUMBERS,
        }
    )


@pytest.mark.parametrize("model", [quick(), LatentClassifier(effort="fast")], ids=["LCM", "LatentClassifier"])
def test_all_columns_that_cannot_be_used_are_refused_in_one_error(model):
    with pytest.raises(ValueError, match="6 columns cannot be used as they are") as caught:
        model.fit(table_of_strangers(), y)
    for said in (
        "column 'id' of X has 120 different values",
        "column 'name' of X has 120 different values",
        "column 'when' of X holds dates (datetime64",
        "column 'date' of X holds dates (date)",
        "column 'day' of X holds dates as text, such as '2020-01-01'",
        "column 'number' of X holds numbers as text",
        "pandas.to_datetime",
        "kinds={'id': 'categorical', 'name': 'categorical'}",
    ):
        assert said in str(caught.value)
    assert "'b'" not in str(caught.value)


def test_models_of_numbers_name_all_dates_and_all_text():
    table = table_of_strangers()
    with pytest.raises(TypeError, match="2 columns cannot be used .*(?s:.)*'when'.*'also'"):
        GaussianMixtureClassifier().fit(table[["when", "b"]].assign(also=table["when"]), y)
    with pytest.raises(ValueError, match="X holds text in column 'id': 'cust0'; column 'name': 'name 0'.*OneHotEnc"):
        GaussianMixtureClassifier().fit(table[["id", "name", "b"]], y)
    both = with_words("forty").assign(name=table["name"])  # what cures a slip does not cure names
    with pytest.raises(ValueError, match="column 'age': 'forty' among 119 numbers; column 'name': .*OneHotEncoder"):
        GaussianMixtureClassifier().fit(both, y)


@pytest.mark.parametrize("name", ["{odd}", "a b"])
def test_columns_of_any_name_can_be_refused(name):
    frame = with_words("forty").rename(columns={"age": name})
    with pytest.raises(ValueError, match="forty"):
        quick().fit(frame, y)


@pytest.mark.parametrize(
    "model", [GaussianMixtureClassifier(), quick(), LatentClassifier(), MixtureOfExpertsRegressor()]
)
@pytest.mark.parametrize("make", [np.asarray, list, pd.Series], ids=["array", "list", "series"])
def test_a_table_without_columns_is_refused_in_short(model, make):
    with pytest.raises(
        ValueError, match=r"Expected 2D array, got 1D array.*shape \(120,\).*Reshape your data"
    ) as caught:
        model.fit(make(NUMBERS), y)
    assert len(str(caught.value)) < 300
    with pytest.raises(ValueError, match=r"Expected 2D array, got 1D array.*shape \(2,\).*Reshape your data"):
        model.fit([1.5, None], y[:2])
    with pytest.raises(ValueError, match=r"Were they swapped\? The table comes first: fit\(X, y\)"):
        model.fit(np.asarray(y), np.c_[NUMBERS, NUMBERS])


@few_steps
@pytest.mark.parametrize("labels", [y, np.array(["no", "yes"])[y]], ids=["numbers", "text"])
def test_the_target_among_the_columns_is_named(labels):
    frame = pd.DataFrame({"b": NUMBERS, "churned": labels})
    gaps = [np.zeros(120, bool), np.arange(120) < 41, np.arange(120) % 3 == 1]  # wherever labels are unknown
    for known, rows in [(np.where(gap, None, labels), 120 - gap.sum()) for gap in gaps]:
        with pytest.warns(UserWarning, match=f"column 'churned' of X equals y in all {rows} labeled rows: is it the"):
            quick().fit(frame, known)
    order = np.argsort(labels, kind="stable")
    with pytest.warns(UserWarning, match="column 'churned' of X equals y in all 120 labeled rows"):
        quick().fit(frame.iloc[order], labels[order])  # sorted by class: the first rows are of one
    other = labels.copy()
    other[-1] = other[0]
    quick().fit(frame, other)  # one difference is enough
    quick().fit(frame[:18], labels[:18])  # few rows may agree by chance


@few_steps
def test_the_target_is_named_whatever_marks_rows_without_a_label():
    frame = pd.DataFrame({"b": NUMBERS, "churned": y})
    with pytest.warns(UserWarning, match="column 'churned' of X equals y in all 80 labeled rows"):
        quick(unlabeled=9).fit(frame, np.where(np.arange(N) % 3 == 1, 9, y))


def test_the_target_in_an_array_is_named_by_its_number():
    with pytest.warns(UserWarning, match="column 1 of X equals y"):
        GaussianMixtureClassifier(covariance="diag", inference="ml", n_init=1).fit(np.c_[NUMBERS, y], y)


def test_warnings_of_folds_are_one_text_for_all():
    X = np.c_[NUMBERS, NUMBERS[::-1]]
    some = np.where(np.arange(N) % 7 == 0, -1, y)
    model = GaussianMixtureClassifier(covariance="diag", inference="ml", unlabeled_weight=1.0, n_init=1)
    with pytest.warns(UserWarning) as said:
        GridSearchCV(model, {"n_components": [1, 2]}, cv=4, refit=False).fit(X, some)
    assert {str(w.message).split(".")[0] for w in said} == {
        "labels of -1 count as unlabeled",
        "score leaves out rows that have no label, in every fold",
    }


@few_steps
@pytest.mark.parametrize(
    "cells, said",
    [
        (
            ["u", "z", "u", None],
            "holds 'z', which fit did not see, in 1 of its 3 known cells; known are ['u', 'v']: such",
        ),
        (["z", "z", "x", None], "holds 'x' and 1 other value, which fit did not see, in 3 of its 3 known cells"),
        (
            ["z", "z", "z", "z"],
            "handle_unknown='error' refuses such rows. The column tells the model nothing here: is it",
        ),
        (["U ", "u", "u", "u"], "'U ' looks like 'u': write both alike."),
    ],
)
def test_values_that_fit_did_not_see_are_counted(cells, said):
    model = quick().fit(pd.DataFrame({"city": np.resize(["u", "v"], N), "b": NUMBERS}), y)
    with pytest.warns(UserWarning) as told:
        model.predict(pd.DataFrame({"city": cells, "b": NUMBERS[:4]}))
    assert said in str(told[0].message) and len(told) == 1


@pytest.mark.parametrize(
    "model, name, meant",
    [
        (GaussianMixtureClassifier(), "covariance_type", "covariance"),
        (GaussianMixtureClassifier(), "n_component", "n_components"),
        (MixtureOfExpertsRegressor(), "n_components", "n_experts"),
        (quick(), "n_factors", "n_latent"),
    ],
)
def test_names_of_other_libraries_are_translated(model, name, meant):
    with pytest.raises(ValueError, match=f"Invalid parameter '{name}' for estimator .*Did you mean '{meant}'?"):
        model.set_params(**{name: 1})
    with pytest.raises(ValueError, match="Invalid parameter 'xyz'") as caught:
        model.set_params(xyz=1)
    assert "mean" not in str(caught.value)


def test_a_matrix_of_labels_is_sent_to_those_who_take_it():
    for fit in (GaussianMixtureClassifier().fit, lambda X, y: compare({"a": GaussianMixtureClassifier()}, X, y)):
        with pytest.raises(
            ValueError, match=r"has shape \(120, 2\); allowed is one class for each row.*ProbitEmbedding"
        ):
            fit(np.c_[NUMBERS, NUMBERS], np.c_[y, y])


@pytest.mark.parametrize("model", [GaussianMixtureClassifier(), quick(), LatentClassifier()])
@pytest.mark.parametrize(
    "table, error, said",
    [
        ("a.csv", ValueError, "X='a.csv' is no table. If it names a file, read it first.*read_csv"),
        (Path("a.csv"), ValueError, "is no table. If it names a file"),
        (None, ValueError, "X is None; allowed is a table"),
        ([{"a": 1.0}] * N, TypeError, "X is a list of dicts: pass a data frame"),
        (pd.Series(NUMBERS), ValueError, r"a single row of a frame is frame.iloc\[\[0\]\]"),
    ],
    ids=["text", "path", "None", "dicts", "series"],
)
def test_what_is_no_table_is_named(model, table, error, said):
    with pytest.raises(error, match=said):
        model.fit(table, y)


@pytest.mark.parametrize("labels", [set(y.tolist()), dict(enumerate(y)), iter(y), 3])
def test_what_are_no_labels_is_named(labels):
    with pytest.raises(ValueError, match="y is a [a-z_]+; allowed is a list, an array or a column of labels"):
        GaussianMixtureClassifier().fit(NUMBERS[:, None], labels)


@few_steps
def test_numbers_beside_text_in_lists_stay_numbers():
    rows = [[float(v), "red" if c else "blue", bool(c)] for v, c in zip(NUMBERS, np.roll(y, 3), strict=True)]
    model = quick().fit(rows, y)
    assert model.kinds_ == ("continuous", "categorical", "binary")
    assert model.predict([[1.5, "red", True]]).shape == (1,)


def test_a_column_of_labels_is_told_of_once():
    with pytest.warns(UserWarning) as said:
        GaussianMixtureClassifier(covariance="diag", inference="ml", n_init=1).fit(NUMBERS[:, None], y[:, None])
    assert len(said) == 1 and "column-vector y" in str(said[0].message)


def test_a_report_asks_for_the_model_first():
    with pytest.raises(TypeError, match="model is a DataFrame; allowed is a fitted estimator"):
        write_report(pd.DataFrame({"a": NUMBERS}), quick(), y, "a.html")


@few_steps
def test_row_numbers_are_told_of():
    frame = pd.DataFrame({"Unnamed: 0": np.arange(N), "b": NUMBERS})
    for first in (1, 0):
        with pytest.warns(UserWarning, match="column 'Unnamed: 0' of X holds row numbers.*index_col=0"):
            quick().fit(frame.assign(**{"Unnamed: 0": np.arange(N) + first}), y)
    quick().fit(frame.rename(columns={"Unnamed: 0": "year"}), y)
    quick().fit(frame.assign(**{"Unnamed: 0": NUMBERS.argsort()[::-1] // 2}), y)
