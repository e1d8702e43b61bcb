"""The picture of an embedding."""

import numpy as np
import pytest

from latentia.estimators.probit_embedding.classifier import ProbitEmbeddingClassifier

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from latentia.display.embedding import EmbeddingDisplay  # noqa: E402


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
        for code, marks in zip((-1, 0, 1), ax.collections, strict=True):
            np.testing.assert_allclose(marks.get_offsets(), z[Y[:, label] == code])
        ends = line.get_xydata()
        np.testing.assert_allclose(ends @ model.weights_[label] + model.intercepts_[label], 0, atol=1e-9)
        inside = z @ model.weights_[label] + model.intercepts_[label] > 0
        np.testing.assert_array_equal(inside, model.predict(X)[:, label] == 1)  # the line parts the predictions
    words = [text.get_text() for text in display.figure_.legends[0].get_texts()]
    assert words == ["unknown", "absent", "present"]


def test_other_dimensions_stand_at_their_mean():
    model, X, Y = fitted(n_latent=3)
    display = EmbeddingDisplay.from_estimator(model, X, Y, dims=(2, 0), n_columns=2)
    z = model.transform(X)
    np.testing.assert_allclose(display.embedding, z[:, [2, 0]])
    np.testing.assert_allclose(display.intercepts, model.intercepts_ + model.weights_[:, 1] * z[:, 1].mean())
    assert display.axis_names == ("z3", "z1")


def test_classes_are_drawn_one_by_one():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    y = np.array(["x", "y", "z"])[np.argmax(X[:, :3], axis=1)]
    display = EmbeddingDisplay.from_estimator(ProbitEmbeddingClassifier(2).fit(X, y), X, y)
    assert [ax.get_title() for ax in display.axes_] == ["x", "y", "z"]
    assert (display.labels.sum(axis=1) == 1).all()
    two = EmbeddingDisplay.from_estimator(ProbitEmbeddingClassifier(2).fit(X, y == "x"), X, y == "x")
    assert len(two.axes_) == 1


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
    with pytest.raises(ValueError, match=r"dims=\(0, 2\); allowed are two different numbers from 0 to 1"):
        EmbeddingDisplay.from_estimator(model, X, Y, dims=(0, 2))
    with pytest.raises(ValueError, match=r"y has shape \(60, 3\); expected is \(60, 4\)"):
        EmbeddingDisplay.from_estimator(model, X, Y[:, :3])
    line, X, Y = fitted(n_latent=1)
    with pytest.raises(ValueError, match="n_latent_=1; a plane needs at least 2"):
        EmbeddingDisplay.from_estimator(line, X, Y)
