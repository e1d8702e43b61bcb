"""The picture of an embedding."""

import numpy as np
import pytest

from latentia import LatentClassificationModel
from latentia.estimators.probit_embedding import ProbitEmbeddingClassifier
from latentia.table.labels import class_columns

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from latentia.plot.embedding import EmbeddingDisplay, class_colors  # noqa: E402


@pytest.fixture(autouse=True)
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def fitted(n_latent=2, n_labels=4, unknown=0.2):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    Y = (X @ rng.standard_normal((5, n_labels)) > 0).astype(int)
    Y = np.where(rng.random(Y.shape) < unknown, -1, Y)
    return ProbitEmbeddingClassifier(n_latent).fit(X, Y), X, Y


def test_every_label_has_a_panel_with_its_rows_and_its_line():
    model, X, Y = fitted()
    display = EmbeddingDisplay.from_estimator(model, X, Y, label_names=list("abcd"))
    assert [ax.get_title() for ax in display.axes_] == list("abcd")
    z = model.transform(X)
    for label, (ax, line) in enumerate(zip(display.axes_, display.lines_, strict=True)):
        for code, marks in zip((-1, 0, 1), ax.collections[:3], strict=True):
            np.testing.assert_allclose(marks.get_offsets(), z[Y[:, label] == code])
        ends = line.get_xydata()
        np.testing.assert_allclose(ends @ model.weights_[label] + model.intercepts_[label], 0, atol=1e-9)
        inside = z @ model.weights_[label] + model.intercepts_[label] > 0
        np.testing.assert_array_equal(inside, model.predict(X)[:, label] == 1)  # the line parts the predictions
    words = [text.get_text() for text in display.figure_.legends[0].get_texts()]
    assert words == ["unknown", "absent", "present"]
    model.label_names_ = np.array(list("efgh"), dtype=object)  # as of a data frame
    assert [ax.get_title() for ax in EmbeddingDisplay.from_estimator(model, X, Y).axes_] == list("efgh")


def test_other_dimensions_stand_at_their_mean():
    model, X, Y = fitted(n_latent=3)
    X = X + [1.0, -2.0, 0.5, 1.5, -1.0]  # rows away from those fitted, or all means are zero
    display = EmbeddingDisplay.from_estimator(model, X, Y, dims=(2, 0), n_columns=2)
    z = model.transform(X)
    assert np.abs(model.weights_[:, 1] * z[:, 1].mean()).min() > 1e-3
    np.testing.assert_allclose(display.embedding, z[:, [2, 0]])
    np.testing.assert_allclose(display.intercepts, model.intercepts_ + model.weights_[:, 1] * z[:, 1].mean())
    assert display.axis_names == ("dimension 3", "dimension 1")


@pytest.fixture
def classes():
    X = np.random.default_rng(0).standard_normal((60, 5))
    return X, np.array(["x", "y", "z"])[np.argmax(X[:, :3], axis=1)]


@pytest.mark.parametrize(
    "names",
    [
        [
            "software engineer",
            "project manager",
            "sales assistant",
            "customer support",
            "data scientist",
            "human resources",
        ],
        [f"department of long names, number {k}" for k in range(12)],
        ["a", "b"],
        ["w" * 80, "x" * 300],
    ],
    ids=["six", "twelve", "short", "endless"],
)
def test_the_legend_is_inside_the_figure(names, rng):
    """However long the names are; a figure of our own leaves the panel its room."""
    n_labels = len(names) if len(names) > 2 else 1
    codes = class_columns(np.arange(60) % len(names), len(names))
    parts = rng.normal(size=(60, 2)), codes, rng.normal(size=(n_labels, 2)), np.zeros(n_labels)
    display = EmbeddingDisplay(*parts, label_names=names, exclusive=True).plot()
    display.figure_.canvas.draw()
    whole, inner = display.figure_.bbox, display.figure_.legends[0].get_window_extent()
    assert inner.x0 >= whole.x0 and inner.x1 <= whole.x1 and inner.y0 >= whole.y0 and inner.y1 <= whole.y1
    for name, shown in zip(names, legend(display), strict=True):
        assert shown == name or shown.endswith("…") and name.startswith(shown[:-1])
    panel = display.axes_[0].get_window_extent()
    assert not panel.overlaps(inner) and panel.height > 0.6 * panel.width


def legend(display):
    return [text.get_text() for text in display.figure_.legends[0].get_texts()]


def test_classes_share_a_panel(classes):
    X, y = classes
    model = ProbitEmbeddingClassifier().fit(X, y)
    some = np.where(np.arange(60) < 5, None, y)
    display = EmbeddingDisplay.from_estimator(model, X, some)
    assert len(display.axes_) == 1 and display.lines_ == []
    assert legend(display) == ["no label", "x", "y", "z"]
    z = model.transform(X)
    for name, marks in zip((None, "x", "y", "z"), display.axes_[0].collections, strict=True):
        np.testing.assert_allclose(marks.get_offsets(), z[[v == name for v in some]])
    assert legend(EmbeddingDisplay.from_estimator(model, X, y, label_names=list("uvw"))) == ["u", "v", "w"]


@pytest.mark.filterwarnings("ignore:.*rows have no label")
def test_rows_without_a_label_are_those_that_the_model_was_told_of(classes):
    X, y = classes
    numbers = np.where(np.arange(60) < 5, 0, 1 + (y == "x"))
    display = EmbeddingDisplay.from_estimator(ProbitEmbeddingClassifier(unlabeled=0).fit(X, numbers), X, numbers)
    np.testing.assert_array_equal(display.labels[:, 0], numbers - 1)


@pytest.mark.filterwarnings("ignore:y has a single class:UserWarning")
@pytest.mark.filterwarnings("ignore:.*rows have no label")
def test_a_single_class_is_present_in_every_row_that_has_it(classes):
    X, some = classes[0], np.where(np.arange(60) < 5, None, "x")
    display = EmbeddingDisplay.from_estimator(ProbitEmbeddingClassifier().fit(X, some), X, some)
    np.testing.assert_array_equal(display.labels[:, 0], np.where(np.arange(60) < 5, -1, 1))
    assert legend(display) == ["unknown", "present"]


def test_two_classes_lie_on_a_line(classes):
    X, y = classes
    y = np.where(y == "x", "benign", "malignant")
    model = ProbitEmbeddingClassifier().fit(X, y)
    display = EmbeddingDisplay.from_estimator(model, X, y)
    assert display.embedding.shape == (60, 1) and legend(display) == ["benign", "malignant"]
    heights = sum(bar.get_height() for bar in display.axes_[0].patches)
    assert heights == 60  # every row once
    regions = display.axes_[0].images[0]
    ends = model.predict(X[[display.embedding.argmin(), display.embedding.argmax()]])
    assert sorted(ends) == ["benign", "malignant"]  # the tint is that of the class that is predicted there
    for end, tint in zip(ends, regions.get_array()[0, [0, -1]], strict=True):
        color = class_colors(2)[model.classes_.tolist().index(end)]
        np.testing.assert_allclose(tint, matplotlib.colors.to_rgb(color))


def test_labels_of_one_dimension_have_histograms():
    model, X, Y = fitted(n_latent=1)
    display = EmbeddingDisplay.from_estimator(model, X, Y)
    for label, line in enumerate(display.lines_):
        at = line.get_xdata()[0] * model.weights_[label, 0] + model.intercepts_[label]
        np.testing.assert_allclose(at, 0, atol=1e-9)
        shade = display.axes_[label].patches[-1].get_extents().transformed(display.axes_[label].transData.inverted())
        z, present = model.transform(X)[:, 0], model.predict(X)[:, label] == 1
        np.testing.assert_array_equal((shade.x0 <= z) & (z <= shade.x1), present)  # where the label is said to be
    assert set(np.sign(model.weights_[:, 0])) == {-1, 1}


def test_every_column_of_panels_has_tick_labels():
    model, X, Y = fitted()
    display = EmbeddingDisplay.from_estimator(model, X, Y)  # four labels in three columns
    display.figure_.canvas.draw()
    shown = [any(t.get_visible() and t.get_text() for t in ax.get_xticklabels()) for ax in display.axes_]
    assert shown == [False, True, True, True]


def test_a_label_without_weights_has_no_line():
    display = EmbeddingDisplay(np.eye(2), np.array([[1], [0]]), np.zeros((1, 2)), np.ones(1)).plot()
    assert display.lines_ == [None]


def test_a_given_figure_is_used():
    import matplotlib.pyplot as plt

    model, X, Y = fitted()
    figure = plt.figure()
    assert EmbeddingDisplay.from_estimator(model, X, Y, figure=figure).figure_ is figure


def test_bad_input_is_refused():
    model, X, Y = fitted()
    with pytest.raises(ValueError, match=r"dims=\(0, 2\); allowed are one or two different numbers from 0 to 1"):
        EmbeddingDisplay.from_estimator(model, X, Y, dims=(0, 2))
    with pytest.raises(ValueError, match=r"y has shape \(60, 3\); expected is \(60, 4\)"):
        EmbeddingDisplay.from_estimator(model, X, Y[:, :3])
    with pytest.raises(ValueError, match=r"label_names has 1 entries, \['a'\], but there are 4 labels"):
        EmbeddingDisplay.from_estimator(model, X, Y, label_names=["a"])
    with pytest.raises(ValueError, match=r"label_names=3; allowed are a name for each, or None"):
        EmbeddingDisplay.from_estimator(model, X, Y, label_names=3)
    other = LatentClassificationModel(1, n_init=1, tol=1).fit(X, Y[:, 0] > 0)
    with pytest.raises(TypeError, match="estimator is a LatentClassificationModel; allowed is a ProbitEmbedding"):
        EmbeddingDisplay.from_estimator(other, X, Y[:, 0])
