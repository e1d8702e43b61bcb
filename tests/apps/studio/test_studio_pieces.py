"""Pieces of Studio by themselves: what may be chosen, a fit under way, cells and gaps of a row, which labels are doubted."""

from __future__ import annotations

import time
import warnings
from types import SimpleNamespace

import numpy as np
import pandas
import pytest
from sklearn.exceptions import ConvergenceWarning

from latentia.apps.studio import fit_job, gap_view, row_view
from latentia.apps.studio.choices import choose
from latentia.apps.studio.columns import Column
from latentia.apps.studio.limits import MIN_LABELED
from latentia.apps.studio.map_view import MapView
from latentia.apps.studio.problems import Problem
from latentia.apps.studio.table_view import TableView, cell_text, number_text
from latentia.apps.tables.table_files import Table
from latentia.estimators.latent_classifier.search import Trial


def view_of(**columns) -> TableView:
    """A table of text."""
    cells = {
        name: pandas.Series([None if v is None else str(v) for v in c], dtype=object) for name, c in columns.items()
    }
    return TableView(Table("t.csv", pandas.DataFrame(cells), is_text=True))


def test_row_numbers_are_left_out_and_numbers_that_count_rows_are_told_of():
    view = view_of(column_1=range(12), order=range(7, 19), size=[3, 1, 4] * 4, y=["a", "b"] * 6)
    (index, order, *_) = view.describe()["columns"]
    assert (index["kind"], index["reason"]) == ("left out", "row numbers") and order["kind"] == "continuous"
    assert view.notes == ["column 'order' counts the rows, from 7 on"]
    assert list(choose(view, "y", {}, "fast").frame) == ["order", "size"]
    assert list(choose(view, "y", {"column_1": "continuous"}, "fast").frame) == ["column_1", "order", "size"]


def test_columns_that_are_left_out_say_why_and_nothing_else():
    view = view_of(day=[f"2021-01-{k:02d}" for k in range(1, 29)], zip=[f"{k:05d}" for k in range(500, 528)])
    day, codes = view.describe()["columns"]
    assert day["kind"] == "left out" and day["reason"].startswith("dates, 28 different ones")
    assert "categorical" not in " ".join(view.notes) and "--" not in str(codes["reason"])


def test_so_many_labeled_rows_are_enough_and_one_less_is_not():
    labels = ["a", "b"] * 3 + [None] * 4
    assert len(labels) - 4 == MIN_LABELED
    assert choose(view_of(x=range(10), y=labels), "y", {}, "fast").labels.tolist() == labels
    with pytest.raises(Problem, match=f"{MIN_LABELED - 1} rows with a class"):
        choose(view_of(x=range(10), y=[None, *labels[1:]]), "y", {}, "fast")


def test_kinds_are_given_where_they_are_not_what_the_model_would_find():
    words = [f"name {k}" for k in range(60)]
    view = view_of(
        size=[k / 2 for k in range(60)],
        legs=[k % 4 for k in range(60)],
        ids=words,
        slip=[k if k != 7 else "many" for k in range(30)] * 2,
        color=["red", "blue"] * 30,
        y=["a", "b", "c"] * 20,
    )
    plain = choose(view, "y", {}, "best")
    assert list(plain.frame) == ["size", "legs", "slip", "color"] and plain.kinds == {"slip": "categorical"}
    asked = {"size": "continuous", "legs": "count", "ids": "categorical", "slip": "left out", "color": "categorical"}
    chosen = choose(view, "y", asked, "fast")
    assert list(chosen.frame) == ["size", "legs", "ids", "color"]
    assert chosen.kinds == {"legs": "count", "ids": "categorical"}  # one that was left out is told to be learned from
    options = chosen.classifier().get_params()
    assert (options["kinds"], options["effort"], options["unlabeled"]) == (chosen.kinds, "fast", None)
    assert choose(view_of(x=range(9), y=["a", "b", "c"] * 3), "y", {}, "fast").classifier().kinds == "auto"


def test_amounts_are_numbers_whose_form_the_model_remembers():
    view = view_of(price=[f"${k},500" for k in range(1, 61)], y=["a", "b"] * 30)
    chosen = choose(view, "y", {}, "fast")
    assert chosen.frame["price"].tolist() == [1000 * k + 500 for k in range(1, 61)]
    assert chosen.forms == {"price": ("$", ".")} and chosen.kinds == {}
    assert view.notes == ["column 'price' is read as numbers, '$10,500' as 10500"]
    assert view.describe()["columns"][0]["allowed"] == ["continuous", "count"]


class Model:
    """Tells of three candidates and of a step, unless it is stopped."""

    def set_params(self, callback):
        self.callback = callback
        return self

    def fit(self, frame, labels):
        for k in range(3):
            if self.callback(Trial(f"model {k}", k / 7, k / 3, 0.12345, "model 0", 0.0)):
                return
        self.callback(SimpleNamespace(value=2.5))
        warnings.warn("b is odd", UserWarning, stacklevel=1)
        warnings.warn("a is odd", UserWarning, stacklevel=1)
        warnings.warn("b is odd", UserWarning, stacklevel=1)
        warnings.warn("of no interest", FutureWarning, stacklevel=1)
        warnings.warn("not converged", ConvergenceWarning, stacklevel=1)


def run_job(model=None, finished=lambda job, model: None, stop=False):
    model = Model() if model is None else model
    choices = SimpleNamespace(classifier=lambda: model, frame=None, labels=None, target="kind", effort="fast", forms={})
    job = fit_job.FitJob(choices, finished)
    if stop:
        job.stop()
    job.start()
    job.wait(20)
    return job, model


def test_a_fit_tells_of_its_candidates_and_of_what_users_should_know():
    phases = []
    job, model = run_job(finished=lambda job, model: phases.append((job.phase, job.is_running, model.target_name_)))
    told = job.describe()
    assert phases == [("drawing the map", True, "kind")] and model.callback is None
    assert told["phase"] == "done" and not told["running"] and not told["stopped"] and told["message"] == ""
    assert told["trials"][1] == {"candidate": "model 1", "log_loss": 0.14286, "accuracy": 0.33333, "seconds": 0.123}
    assert told["curve"] == [2.5] and told["notes"] == ["a is odd", "b is odd"]
    before = job.seconds
    time.sleep(0.01)
    assert job.seconds == before  # it has ended


@pytest.mark.parametrize("how", ["asked", "too long"])
def test_a_fit_that_is_stopped_keeps_what_it_has(how, monkeypatch):
    if how == "too long":
        monkeypatch.setattr(fit_job, "FIT_SECONDS", -1.0)
    job, _ = run_job(stop=how == "asked")
    assert job.was_stopped and len(job.trials) == 1 and job.phase == "done" and job.curve == []


@pytest.mark.parametrize(
    "error, message",
    [
        (ValueError("column 'a' is odd"), "column 'a' is odd. Change the kind of that column, or leave it out."),
        (MemoryError(), "There is not enough memory for this table. Leave columns out, or open fewer rows."),
        (KeyError("a"), "The fit ended with an error (KeyError: 'a'). Leave columns out."),
    ],
)
def test_a_fit_that_fails_says_what_to_do(error, message):
    class Failing(Model):
        def fit(self, frame, labels):
            raise error

    job, _ = run_job(Failing())
    assert job.phase == "failed" and job.message == message and not job.is_running


def test_levels_are_in_the_order_of_their_values():
    numbers = Column.of("n", "ordinal", pandas.Series([10, 9, 100, 9, None]))
    assert numbers.levels == (9, 10, 100) and numbers.describe()["levels"] == ["9", "10", "100"]
    assert numbers.value("100") == 100 and numbers.value(" ") is None
    truths = Column.of("t", "binary", pandas.Series([True, False]))
    assert truths.levels == (False, True) and not truths.is_number and truths.value("True") is True


@pytest.mark.parametrize(
    "kind, cells, grid",
    [
        ("count", [0, 3], [0, 1, 2, 3]),
        ("continuous", [2.0, 5.0], [2, 3, 4, 5]),  # whole numbers stay whole
        ("count", [0, 66], np.arange(0, 76, 3)),
        ("continuous", [0.5, 2.5], np.linspace(0.2, 2.8, 33)),
        ("continuous", [0.5, 0.5], np.linspace(0.35, 0.65, 33)),
    ],
)
def test_the_values_that_a_gap_could_have(kind, cells, grid):
    np.testing.assert_allclose(Column.of("a", kind, pandas.Series(cells)).grid(), grid, atol=1e-12)


@pytest.mark.parametrize("text, value", [("1,5", 1.5), (" -2 ", -2.0), ("1e3", 1000.0), ("", None), (None, None)])
def test_numbers_are_read_as_people_write_them(text, value):
    assert Column.of("a", "continuous", pandas.Series([0.5, 1.0])).value(text) == value


@pytest.mark.parametrize("kind, text", [("count", "-1"), ("count", "1.5"), ("count", "x"), ("continuous", "1e151")])
def test_cells_that_cannot_be_are_refused(kind, text):
    with pytest.raises(Problem) as refused:
        Column.of("a", kind, pandas.Series([0, 1])).value(text)
    assert refused.value.column == "a"


@pytest.mark.parametrize(
    "value, text",
    [
        (3.0, "3"),
        (-2.5, "-2.5"),
        (1234567.25, "1.23457e+06"),
        (1e15, "1e+15"),
        (999999999999999.0, "999999999999999"),
        (np.float32(0.5), "0.5"),
        (np.nan, None),
        (None, None),
        (pandas.NA, None),
        (True, "True"),
        ("x" * 300, "x" * 200),
    ],
)
def test_cells_as_the_page_shows_them(value, text):
    assert cell_text(value) == text
    if isinstance(value, float) and text:
        assert number_text(value) == text


def test_labels_are_doubted_where_another_class_is_likelier():
    """The least likely first; a class of less than one half may still be the likeliest."""
    judged = np.array(
        [[0.4, 0.35, 0.25], [0.3, 0.6, 0.1], [0.1, 0.8, 0.1], [0.5, 0.3, 0.2], [np.nan] * 3, [0.2, 0.5, 0.3]]
    )
    facts = SimpleNamespace(judged=judged, known=np.array([0, 0, 2, 1, 0, -1]))
    facts.is_judged = (facts.known >= 0) & ~np.isnan(judged).any(axis=1)
    assert MapView._disputed(SimpleNamespace(facts=facts)).tolist() == [2, 1, 3]


def a_view(density):
    """A map whose model has a density and equal classes; the second column tells more than the first."""
    frame = pandas.DataFrame({"a": [0.0, 4.0, None], "b": [1.5, None, 3.0], "c": ["x", "y", None]})
    columns = [Column.of(n, k, frame[n]) for n, k in (("a", "count"), ("b", "continuous"), ("c", "categorical"))]

    def predict_proba(X):
        p = 1 / (1 + np.exp(-np.nan_to_num(X["a"].to_numpy()) - 10 * np.nan_to_num(X["b"].to_numpy())))
        return np.stack([1 - p, p], axis=1)

    model = SimpleNamespace(predict_proba=predict_proba, impute=lambda X: X.assign(a=2.0, b=0.123456, c="y"))
    facts = SimpleNamespace(known=np.array([1, -1, 0]), judged=np.full((3, 2), 0.5), is_held_out=False)
    return SimpleNamespace(
        frame=frame,
        known=frame.notna().to_numpy(),
        columns=columns,
        separation=np.array([0.1, 0.9, 0.0]),
        model=model,
        facts=facts,
        as_fitted=lambda X: X,
        plane=SimpleNamespace(place=lambda X: np.tile([1.5, -2.0], (len(X), 1))),
        log_density=density,
        surprise=SimpleNamespace(of=lambda log_density, known: log_density, share_below=lambda s: np.asarray(s)),
    )


def test_a_row_is_told_with_what_each_known_cell_adds(monkeypatch):
    view = a_view(None)
    told = row_view.describe_row(view, 1, {"b": "2"})
    assert told["cells"] == ["4", "2", "y"] and told["label"] == -1 and told["judged"] is None
    np.testing.assert_allclose(np.array(told["added"])[:, 1], [4.0, 20.0, 0.0], atol=1e-3)
    np.testing.assert_allclose(np.array(told["added"])[:, 0], [-4.0, -20.0, 0.0], atol=1e-3)
    assert (told["x"], told["y"]) == (1.5, -2.0)
    monkeypatch.setattr(row_view, "MAX_EXPLAINED", 1)
    np.testing.assert_allclose(np.array(row_view.describe_row(view, 0, {})["added"])[:, 1], [0, 15, 0], atol=1e-3)
    view.facts.is_held_out = True
    assert row_view.describe_row(view, 0, {})["judged"] == [0.5, 0.5]
    for row in (-1, 3):
        with pytest.raises(Problem, match=f"no row {row + 1}; the rows are 1 to 3"):
            row_view.describe_row(view, row, {})


def test_a_gap_is_told_by_the_density_of_the_row_with_every_value():
    def density(rows):
        a, b = (np.nan_to_num(rows[name].to_numpy(dtype=float), nan=-1.0) for name in "ab")
        return np.where(a == 1, 3.0, 0.0) + np.where(b > 2.9, 5.0, 0.0) + np.where(rows["c"] == "x", 1.0, 0.0)

    view = a_view(density)
    told = gap_view.describe_gaps(view, 2, {"b": None})
    assert told["surprise"] == 0.0 and list(told["gaps"]) == ["a", "b", "c"]  # the row itself comes first
    levels = told["gaps"]["c"]
    assert levels["value"] == "y" and levels["levels"] == [["x", 0.7311], ["y", 0.2689]]
    counts = told["gaps"]["a"]
    np.testing.assert_allclose(counts["curve"], np.exp([-3, 0, -3, -3, -3]), atol=1e-3)
    assert counts["value"] == "2" and (counts["low"], counts["high"]) == ("0", "3")
    numbers = told["gaps"]["b"]
    assert numbers["value"] == "0.1235" and float(numbers["low"]) > 2.7 and len(numbers["curve"]) == 33
    assert gap_view.describe_gaps(view, 0, {}) == {"row": 0, "surprise": 1.0, "gaps": {}}
