"""One page on a fitted model and a table."""

import re
import warnings
from copy import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from page_reader import check_page
from sklearn.datasets import load_iris
from sklearn.metrics import confusion_matrix, log_loss, precision_score, recall_score

from latentia import (
    CalibrationDisplay,
    GaussianMixtureClassifier,
    LatentClassificationModel,
    LatentClassifier,
    MixtureOfExpertsRegressor,
    MultimodalSoftmaxClassifier,
    ProbitEmbeddingClassifier,
)
from latentia.apps.report import factor_sections, facts, reason_sections, report_html, write_report
from latentia.apps.report.elements import number, percent
from latentia.apps.report.facts import MAX_POINTS, Facts
from latentia.apps.report.svg import Plot, ticks
from latentia.apps.report.training_sections import reproduce
from latentia.estimators.latent_classifier.classifier import reasons_array

pandas = pytest.importorskip("pandas")


def mixed_table(n_rows=90, hostile=False):
    """Numbers, text and ordered classes with gaps; rows without a label."""
    rng = np.random.default_rng(3)
    codes = rng.integers(2, size=n_rows)
    names = ["<script>alert(1)</script>", "b & c"] if hostile else ["no", "yes"]
    levels = ['<img src=x onerror="alert(2)">', "plain"] if hostile else ["red", "green"]
    X = pandas.DataFrame(
        {
            "income </td>" if hostile else "income": rng.normal(3 * codes, 1.0),
            "age": rng.normal(40 - 5 * codes, 6.0),
            "color": np.where(rng.random(n_rows) < 0.2 + 0.6 * codes, levels[0], levels[1]).astype(object),
            "member": rng.random(n_rows) < 0.5,
        },
        index=[f"<b>person {k}" for k in range(n_rows)] if hostile else None,
    )
    X.iloc[::7, 1] = np.nan
    X.iloc[1::9, 2] = None
    y = pandas.Series(np.array(names, dtype=object)[codes], index=X.index)
    y[::6] = None
    return X, y


@pytest.fixture(scope="module")
def stack():
    X, y = mixed_table()
    return LatentClassifier(effort="fast", cv=3, random_state=0).fit(X, y), X, y


ALWAYS = {"At a glance", "The table", "Objective curves", "How to reproduce it"}
CLASSES = {"Confusion", "Calibration", "What matters for each class", "Decision regions"}


def test_every_estimator_has_a_report(case, data, fits):
    model = fits(case, "quick")
    page = check_page(report_html(model, data.X, case.y(data)))
    found = set(page.headings)
    assert found >= ALWAYS
    if case.target == "classes":
        assert found >= CLASSES
    assert ("The most surprising rows" in found) == hasattr(model, "score_samples")
    assert ("Factors and loadings" in found) == hasattr(getattr(model, "factor_estimator_", model), "loadings_")
    assert ("Leaderboard" in found) == hasattr(model, "leaderboard_")
    assert ("Labels right and wrong" in found) == (case.target == "labels")
    assert "What was imputed" not in found  # there are no gaps


def test_a_frame_with_gaps_text_and_unlabeled_rows_has_all_sections(stack):
    model, X, y = stack
    page = check_page(report_html(model, X, y, title="Customers"))
    assert page.headings == [
        "Customers",
        "At a glance",
        "Leaderboard",
        "Confusion",
        "Calibration",
        "What matters for each class",
        "Latent map",
        "Decision regions",
        "Factors and loadings",
        "The most surprising rows",
        "Labels the model doubts",
        "The table",
        "What was imputed",
        "Objective curves",
        "How to reproduce it",
    ]
    for text in ("income", "color = red", "Cross-validated", "LatentClassifier(cv=3, effort=", "(no label)"):
        assert text in page.text
    assert len(page.all("figure")) == 5


@pytest.mark.filterwarnings("ignore:Column 'empty' has no known value")
def test_gaps_of_a_column_without_any_value_are_not_filled_in(rng):
    X, y = pandas.DataFrame({"size": rng.normal(size=40), "empty": np.nan}), np.arange(40) % 2
    model = GaussianMixtureClassifier(inference="ml", random_state=0).fit(X, y)
    assert "What was imputed" not in check_page(report_html(model, X, y)).headings
    X.loc[3, "size"] = np.nan
    html = report_html(model, X, y)
    assert "empty" not in html[html.index("What was imputed</h2>") : html.index("How to reproduce it</h2>")]


def test_binary_numbers_are_filled_in_with_a_mean_and_others_with_the_most_frequent_value(rng):
    y = np.arange(60) % 2
    frame = pandas.DataFrame(
        {"smoker": rng.integers(0, 2, 60), "member": rng.random(60) < 0.8, "sex": ["f", "f", "m"] * 20}
    )
    gaps = frame.astype({"smoker": "Int64", "member": "boolean"}).mask(rng.random(frame.shape) < 0.2)
    model = LatentClassificationModel(1, 1, kinds={"sex": "binary"}, random_state=0).fit(gaps, y)
    html = report_html(model, gaps, y)
    part = html[html.index("What was imputed</h2>") : html.index("Examples of filled cells")]
    filled = model.impute(gaps)["smoker"][gaps["smoker"].isna()].astype(float)
    assert f"mean {number(gaps['smoker'].mean())}" in part and f"mean {number(filled.mean())}" in part
    assert part.count("mostly True") == 2 and part.count("mostly f") == 2 and part.count("mostly ") == 4


def test_polars_frames_do_as_well(stack):
    polars = pytest.importorskip("polars")
    _, X, y = stack
    model = LatentClassificationModel(2, random_state=0, tol=0.1).fit(polars.from_pandas(X), y.to_list())
    page = check_page(report_html(model, polars.from_pandas(X), y.to_list()))
    assert {"What was imputed", "What matters for each class", "Decision regions", "Latent map"} <= set(page.headings)


def test_names_are_text_whatever_they_hold():
    X, y = mixed_table(hostile=True)
    model = LatentClassificationModel(2, random_state=0, tol=0.1).fit(X, y)
    html = report_html(model, X, y, title="</title><script>alert(3)</script>")
    page = check_page(html)  # has no script and no image
    assert "<script" not in html and "<img" not in html and "<b>" not in html
    for name in ("<script>alert(1)</script>", "b & c", "income </td>", "<b>person", '<img src=x onerror="alert(2)">'):
        assert name in page.text


def test_confusion_and_scores_are_those_of_held_out_rows(stack):
    model, X, y = stack
    labeled = y.notna().to_numpy()
    proba = model.held_out_proba_
    np.testing.assert_array_equal(np.isnan(proba).all(axis=1), ~labeled)
    codes = np.searchsorted(model.classes_, y[labeled].to_numpy(dtype=str))
    assert log_loss(codes, proba[labeled]) == pytest.approx(model.expected_log_loss_, rel=1e-6)
    counts = confusion_matrix(codes, proba[labeled].argmax(axis=1))
    page = check_page(report_html(model, X, y))
    start = page.texts.index("Confusion matrix: a line for each true class")
    cells = [int(text) for text in page.texts[start:] if text.isdigit()][:4]
    assert cells == counts.ravel().tolist()
    assert f"{np.trace(counts)} of {counts.sum()} rows are right" in page.text
    error, of_fit = (
        CalibrationDisplay.from_predictions(codes, p[labeled], plot=False).error
        for p in (proba, model.predict_proba(X))
    )
    assert f"Expected calibration error: {error:.3f}." in page.text and f"{of_fit:.3f}" != f"{error:.3f}"


def test_the_numbers_of_a_label_are_those_of_the_rows_where_it_is_known(rng):
    X = rng.normal(size=(80, 3))
    Y = (2 * X + rng.normal(size=X.shape) > [0.0, 0.5, 1.0]).astype(int)
    Y[rng.random(Y.shape) < [0.0, 0.2, 0.4]] = -1
    model = ProbitEmbeddingClassifier(2, tol=0.1, random_state=0).fit(X, Y)
    texts = [text.strip() for text in check_page(report_html(model, X, Y)).texts if text.strip()]
    lines, differ = ["|".join(texts[k : k + 5]) for k in range(len(texts))], []
    for label in range(3):
        use = Y[:, label] >= 0
        true, proba = Y[use, label], model.predict_proba(X[use])[:, label]
        said = proba > 0.5
        scores = (true == said).mean(), precision_score(true, said), recall_score(true, said)
        loss = number(log_loss(true, proba), 3)
        assert "|".join([f"label {label}", *(percent(score) for score in scores), loss]) in lines
        counted = [f"label {label}", str(true.sum()), str(use.sum()), percent(true.mean())]
        assert any(line.startswith("|".join(counted)) for line in lines)
        differ.append(percent(scores[1]) != percent(scores[2]))
    assert any(differ)  # or one could stand for the other


def test_held_out_predictions_serve_the_rows_of_fit_alone(stack):
    model, X, y = stack
    assert Facts.of(model, X, y).is_held_out
    assert not Facts.of(model, X[:50], y[:50]).is_held_out
    moved = X.assign(age=X["age"] + 1)  # as many rows of the same classes and gaps
    facts = Facts.of(model, moved, y)
    assert not facts.is_held_out
    np.testing.assert_array_equal(facts.judged, model.predict_proba(moved))


def test_reasons_are_differences_to_rows_with_a_hidden_cell(stack, monkeypatch):
    model, X, _ = stack
    rows = X[:8]
    found = reasons_array(model.explain(rows))
    hidden = rows.assign(income=np.nan)
    proba = [np.asarray(model.predict_proba(r)) for r in (rows, hidden)]
    odds = [np.log(p) - np.log1p(-p) for p in proba]
    np.testing.assert_allclose(found[:, 0], odds[0] - odds[1], rtol=1e-6, atol=1e-9)
    monkeypatch.setattr("latentia.estimators.latent_classifier.classifier.EXPLAINED_ROWS", 1)
    np.testing.assert_allclose(reasons_array(model.explain(rows)), found, rtol=1e-9, atol=1e-9)
    assert (found[rows["age"].isna(), 1] == 0).all()
    some = reason_sections._contributions(
        Facts.of(model, rows, None), np.arange(8), np.array([0, 2])
    )  # of a wide table
    np.testing.assert_allclose(some, found[:, [0, 2]], rtol=1e-6, atol=1e-9)


def test_a_summary_of_a_stack_has_its_candidates_and_what_to_expect(stack):
    model, board = copy(stack[0]), stack[0]._model.leaderboard
    model._model = replace(model._model, leaderboard=board | {"weight": [0.0, *board["weight"][1:]]})
    text = model.summary()
    assert f"expected accuracy  {model.expected_accuracy_:.1%}" in re.sub(" {3,}", "  ", text)
    for name, weight in zip(model.leaderboard_["candidate"], model.leaderboard_["weight"], strict=True):
        assert (f"{name} " in text) == (weight > 0)
    assert "expected log loss" in model._repr_html_()
    told = (
        f"a log loss of {number(model.expected_log_loss_, 3)} and an accuracy of {percent(model.expected_accuracy_)} on"
    )
    assert told in report_html(*stack)


def test_a_page_says_which_rows_a_model_is_judged_on():
    X, y = load_iris(return_X_y=True)
    model = GaussianMixtureClassifier(random_state=0).fit(X[::2], y[::2])
    assert "that the model was fitted to" in check_page(report_html(model, X[::2], y[::2])).text
    page = check_page(report_html(model, X[1::2], y[1::2])).text  # the same labels in the same order
    assert "On the rows of this report" in page and "Cross-validated" not in page


def test_rows_without_labels_are_described_without_errors():
    X, y = load_iris(return_X_y=True)
    model = GaussianMixtureClassifier(random_state=0).fit(X, y)
    found = check_page(report_html(model, X, None)).headings
    assert "Decision regions" in found and "The most surprising rows" in found
    assert "Confusion" not in found and "Calibration" not in found and "Labels the model doubts" not in found


def test_labels_that_were_swapped_are_doubted():
    X, y = load_iris(return_X_y=True, as_frame=True)
    y = y.copy()
    y[3], y[120] = 2, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GaussianMixtureClassifier(random_state=0).fit(X, y)
    page = check_page(report_html(model, X, y))
    start = page.texts.index("Doubted labels")
    assert {"3", "120"} <= set(page.texts[start : start + 30])


def test_rows_of_a_part_have_their_own_names(monkeypatch):
    """Of a large table a part is looked at; what is said of a row is said of the row of that name."""
    monkeypatch.setattr(facts, "MAX_PREDICTED", 60)
    X, y = load_iris(return_X_y=True, as_frame=True)
    X.index = [f"r{k}" for k in range(150)]
    labels = y.to_numpy().copy()
    labels[::4] = (labels[::4] + 1) % 3
    model = GaussianMixtureClassifier(1, random_state=0).fit(X, y)
    page = check_page(report_html(model, X, labels))
    proba, density = model.predict_proba(X), model.score_samples(X)
    for caption, header, cells in (("Doubted labels", 5, 5), ("Surprising rows", 4, 4)):
        start = page.texts.index(caption) + 1 + header
        rows = [page.texts[k : k + cells] for k in range(start, start + 10 * cells, cells)]
        for name, label, *rest in rows:
            row = int(name[1:])
            assert label == str(labels[row])
            if caption == "Doubted labels":
                best = proba[row].argmax()
                assert rest == [percent(proba[row, labels[row]]), str(best), percent(proba[row, best])]
            else:
                assert rest[0] == number(density[row])


def test_rows_that_are_drawn_have_the_color_of_their_own_class(monkeypatch):
    monkeypatch.setattr(facts, "MAX_POINTS", 40)
    drawn = []
    monkeypatch.setattr(factor_sections, "_draw_points", lambda plot, points, codes, n: drawn.append((points, codes)))
    X, y = load_iris(return_X_y=True)
    model = LatentClassificationModel(2, random_state=0, tol=0.1).fit(X, y)
    of_model = Facts.of(model, X, y)
    assert factor_sections.latent_map(of_model) and factor_sections.decision_regions(of_model)
    rows, (in_map, in_regions) = of_model.rows[of_model.drawn], drawn
    np.testing.assert_array_equal(in_map[1], y[rows])
    first, second = sorted(range(4), key=lambda k: -of_model.separation[k])[:2]
    classes = {(a, b): set(y[(X[:, first] == a) & (X[:, second] == b)]) for a, b in X[:, [first, second]]}
    assert all(code in classes[tuple(point)] for point, code in zip(*in_regions, strict=True))


def test_an_outlier_is_the_most_surprising_row_and_its_cell_is_named():
    X, y = load_iris(return_X_y=True, as_frame=True)
    X.iloc[77, 1] = 19.5
    page = check_page(report_html(GaussianMixtureClassifier(random_state=0).fit(X, y), X, y))
    start = page.texts.index("Surprising rows")
    first = page.texts[start + 5 : start + 9]
    assert first[0] == "77" and first[3].startswith("sepal width (cm) = 19.5")


def test_large_tables_are_sampled_and_the_file_stays_small(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=30_000)
    X = rng.normal(y[:, None] * [1.0, 0.0, 0.5], 1.0)
    model = GaussianMixtureClassifier(random_state=0, tol=1.0).fit(X, y)
    path = write_report(model, X, y, tmp_path / "report.html")
    assert path == tmp_path / "report.html" and path.stat().st_size < 400_000
    page = check_page(path.read_text(encoding="utf-8"))
    marks = sum(d["d"].count("M") for d in page.all("path") if "mark" in d.get("class", ""))
    assert MAX_POINTS * 0.9 < marks < MAX_POINTS + 100
    assert "30,000" in page.text


def test_many_classes_are_listed_by_their_confusions():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(25), 8)
    X = rng.normal(y[:, None] * [0.3, -0.2], 1.0)
    model = GaussianMixtureClassifier(random_state=0).fit(X, y)
    page = check_page(report_html(model, X, y))
    start = page.texts.index("Most frequent confusions") + 4
    listed = [tuple(map(int, page.texts[k : k + 3])) for k in range(start, start + 30, 3)]
    counts = confusion_matrix(y, model.predict(X))
    assert all(own != said and counts[own, said] == n for own, said, n in listed)
    np.fill_diagonal(counts, 0)
    assert [n for *_, n in listed] == sorted(counts.ravel().tolist(), reverse=True)[:10]


def test_wide_and_sparse_tables_have_a_report():
    sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(0)
    X = sparse.csr_array((rng.random((40, 150)) < 0.1).astype(float))
    Y = (np.asarray(X @ rng.standard_normal((150, 3))) > 0).astype(int)
    page = check_page(report_html(ProbitEmbeddingClassifier(2, tol=0.1).fit(X, Y), X, Y))
    assert "Labels right and wrong" in page.headings and "50 more columns are not listed." in page.text


def test_models_without_gaps_are_explained_at_the_mean():
    X, y = load_iris(return_X_y=True)
    model = MultimodalSoftmaxClassifier(1, random_state=0).fit(X, y)
    page = check_page(report_html(model, X, y))
    assert "at the column's mean" in page.text and "all other columns at their mean" in page.text


def test_bad_input_is_refused_by_name():
    X, y = load_iris(return_X_y=True)
    model = GaussianMixtureClassifier(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=re.escape("y holds the class 7, which was not seen in fit")):
        report_html(model, X, np.full(150, 7))
    with pytest.raises(ValueError, match="y has 10 entries and X has 150 rows"):
        report_html(model, X, y[:10])
    with pytest.raises(ValueError, match="X has 3 columns, but the model was fitted to 4"):
        report_html(model, X[:, :3], y)
    with pytest.raises(Exception, match="not fitted"):
        report_html(GaussianMixtureClassifier(), X, y)


def test_a_report_of_a_regression_says_how_far_it_is_off():
    X, y = load_iris(return_X_y=True, as_frame=True)
    X = X - X.mean()
    model = MixtureOfExpertsRegressor(1, random_state=0).fit(X[::2], y[::2])
    page = check_page(report_html(model, X[1::2], y[1::2].mask(y[1::2].index % 5 == 0)))
    known = y[1::2][y[1::2].index % 5 != 0]
    off = model.predict(X.loc[known.index]) - known
    assert f"variance explained {percent(1 - (off**2).mean() / known.var(ddof=0))}" in page.text
    assert f"root mean squared error {number(float(np.sqrt((off**2).mean())))}" in page.text
    assert "variance explained none" in check_page(report_html(model, X, np.ones(150))).text
    fitted = check_page(report_html(model, X[::2], y[::2])).text
    assert "variance explained (fitted rows)" in fitted
    assert "variance explained" not in check_page(report_html(model, X, None)).text
    whole = check_page(report_html(MixtureOfExpertsRegressor(1, random_state=0).fit(X, y), X, y)).text
    assert "mean 0" in whole and "e-1" not in whole  # columns that were centered
    with pytest.raises(ValueError, match="y has 3 entries and X has 150 rows"):
        report_html(model, X, y[:3])


def test_a_search_over_subclasses_is_shown():
    """Its results hold lists of different lengths, which lead from setting to setting."""
    X, y = load_iris(return_X_y=True)
    model = MultimodalSoftmaxClassifier(random_state=0).fit(X, y)
    assert len({len(children) for children in model.search_results_["children"]}) > 1
    page = check_page(report_html(model, X, y))
    assert "Search" in page.headings and "n subclasses" in page.text and "children" not in page.text
    best = ", ".join(map(str, model.n_subclasses_))
    assert f"The best by score of the criterion, of which more is better: subclasses ({best})." in page.text


def test_a_report_says_from_where_rows_are_counted(stack):
    model, X, y = stack
    assert check_page(report_html(model, X, y)).text.count("Rows are counted from 0.") == 3
    shifted = X.set_axis(pandas.RangeIndex(1, len(X) + 1))
    assert check_page(report_html(model, shifted, y)).text.count("Rows are counted from 1.") == 3
    named = X.set_axis([f"person {k}" for k in range(len(X))])
    assert "Rows are counted" not in check_page(report_html(model, named, y)).text


def test_one_number_is_its_own_tick():
    assert ticks(5, 5) == [5.0]


def test_an_ellipse_reaches_as_far_as_its_radii_along_each_axis():
    plot = Plot((-3.0, 5.0), (10.0, 400.0))
    plot.ellipse(np.array([1.0, 100.0]), np.array([2.0, 50.0]), 0)
    cx, cy, rx, ry = (float(re.search(rf' {name}="([^"]+)"', plot.parts[0])[1]) for name in ("cx", "cy", "rx", "ry"))
    np.testing.assert_allclose([cx - rx, cx + rx], [plot.x(-1.0), plot.x(3.0)], atol=0.11)
    np.testing.assert_allclose([cy + ry, cy - ry], [plot.y(50.0), plot.y(150.0)], atol=0.11)


@pytest.mark.parametrize("low,high", [(0.0, 1.0), (-3.2, 4.1), (1e-9, 3e-9), (99_990.0, 100_010.0), (-5e7, 2e8)])
def test_ticks_are_few_round_numbers_within_the_ends(low, high):
    found = np.array(ticks(low, high))
    assert 2 <= found.size <= 7
    assert found.min() >= low - 1e-9 * (high - low) and found.max() <= high + 1e-9 * (high - low)
    steps = np.diff(found)
    np.testing.assert_allclose(steps, steps[0])
    mantissa = steps[0] / 10 ** np.floor(np.log10(steps[0]) + 1e-9)
    assert np.isclose(mantissa, [1, 2, 5, 10]).any()


def test_a_report_decides_as_the_model_does_where_mistakes_cost_differently():
    X, y = load_iris(return_X_y=True)
    losses = np.array([[0, 1, 1], [30, 0, 1], [1, 9, 0]])
    model = GaussianMixtureClassifier(loss_matrix=losses, random_state=0, tol=0.1).fit(X[:, :2], y)
    facts = Facts.of(model, X[:, :2], y)
    np.testing.assert_array_equal(facts.decide(facts.proba), model.predict(X[:, :2]))
    assert (facts.decide(facts.proba) != facts.proba.argmax(axis=1)).any()


@pytest.mark.parametrize("seed", [None, 0, 7])
def test_only_a_model_without_a_seed_is_said_to_differ_when_fitted_again(seed):
    model = GaussianMixtureClassifier(2, random_state=seed)
    found = reproduce(SimpleNamespace(model=model)).body
    assert ("another fit may differ" in found) == (seed is None)
    for line in ("from latentia import GaussianMixtureClassifier", "n_components=2", "model.fit(X, y)"):
        assert line in found


def test_of_many_rows_each_is_judged_by_what_was_said_of_it(monkeypatch, rng):
    """Of those that are predicted, too, if these are not all."""
    monkeypatch.setattr(facts, "MAX_PREDICTED", 20)
    proba, codes = rng.dirichlet(np.ones(3), 50), np.arange(50) % 3
    proba[::7] = np.nan
    record = {"n_rows": 50, "label_counts": np.bincount(codes).tolist()}
    model = SimpleNamespace(held_out_proba_=proba, training_record_=record, classes_=np.arange(3))
    found = Facts(model, np.zeros((50, 1)), codes)
    assert found.rows.size == 20 and found.is_held_out
    np.testing.assert_array_equal(found.judged, proba[found.rows])
    np.testing.assert_array_equal(found.known, codes[found.rows])
    np.testing.assert_array_equal(found.is_judged, found.rows % 7 != 0)
    assert set(found.drawn) == set(range(20))
    for other in (
        np.where(codes == 2, -1, codes),
        codes[:49],
        codes % 2,
        np.append(codes, -1),
    ):  # other rows than those of the fit
        assert not Facts(model, np.zeros((len(other), 1)), other).is_training_table


def test_other_labels_are_other_rows_than_those_of_the_fit(rng):
    X, Y = rng.normal(size=(30, 2)), (rng.random((30, 2)) < 0.5).astype(int)
    model = ProbitEmbeddingClassifier(1, max_iter=50, tol=1.0, random_state=0).fit(X, Y)
    assert Facts.of(model, X, Y).is_training_table
    fewer = Y.copy()
    fewer[np.flatnonzero(Y[:, 1])[0], 1] = 0
    for other in (1 - Y, fewer):
        assert not Facts.of(model, X, other).is_training_table
    assert not Facts.of(model, X[:29], Y[:29]).is_training_table
