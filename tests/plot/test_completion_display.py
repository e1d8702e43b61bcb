"""The display of completions: what is shown is what the model says."""

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from latentia import GaussianMixtureClassifier, LatentClassificationModel, MultimodalSoftmaxClassifier
from latentia.plot.factors import CompletionDisplay, _check_lines

matplotlib.use("Agg")


@pytest.fixture
def model_and_image(rng):
    y = np.arange(80) % 2
    X = (rng.random((80, 12)) < np.where(y[:, None] == np.arange(12) % 2, 0.9, 0.1)).astype(int)
    model = LatentClassificationModel(1, kinds="binary", n_init=1, tol=1e-2, random_state=0).fit(X, y)
    return model, X[0].astype(float)


def test_lines_become_known_from_the_top(model_and_image):
    model, image = model_and_image
    display = CompletionDisplay.from_estimator(model, image, shape=(3, 4), lines=[0, 1, 3])
    assert display.axes_.shape == (4, 3)
    np.testing.assert_allclose(display.probabilities[0], model.priors_, atol=1e-9)
    np.testing.assert_array_equal(np.isnan(display.disclosed).sum(axis=(1, 2)), [12, 8, 0])
    np.testing.assert_array_equal(display.expected[2], image.reshape(3, 4))
    np.testing.assert_array_equal(display.expected[1, 0], image[:4])
    assert set(np.unique(display.probable)) <= {0.0, 1.0}
    assert ((display.expected[1, 1:] > 0) & (display.expected[1, 1:] < 1)).all()
    assert display.probabilities[2].max() > display.probabilities[0].max()
    matplotlib.pyplot.close(display.figure_)


def test_titles_axes_and_the_true_class(model_and_image):
    model, image = model_and_image
    display = CompletionDisplay.from_estimator(model, image, shape=(3, 4), true_class=1)
    assert display.lines == [0, 1, 2, 3]
    assert [axis.get_title() for axis in display.axes_[0]] == ["0 lines", "1 line", "2 lines", "3 lines"]
    for axis in display.axes_[1]:
        assert axis.get_ylim() == (0, 1) and axis.get_yticks().tolist() == [0, 0.5, 1]
        colors = [to_hex(bar.get_facecolor()) for bar in axis.patches]
        assert colors == [to_hex("tab:blue"), to_hex("tab:orange")]
    matplotlib.pyplot.close(display.figure_)


def test_default_steps_are_even():
    assert _check_lines(None, 8) == [0, 2, 4, 6, 8]
    assert _check_lines(None, 28) == [0, 7, 14, 21, 28]
    assert _check_lines(None, 1) == [0, 1]


@pytest.mark.filterwarnings("error")
def test_models_of_frames_and_gaussian_mixtures_complete_images(model_and_image, rng):
    _, image = model_and_image
    X = pd.DataFrame(rng.normal(size=(40, 12)), columns=[f"pixel{k}" for k in range(12)])
    y = np.arange(40) % 2
    for model in (GaussianMixtureClassifier(), LatentClassificationModel(1, n_init=1, tol=1e-2, random_state=0)):
        display = CompletionDisplay.from_estimator(model.fit(X, y), image, shape=(3, 4), lines=[2], plot=False)
        assert np.isfinite(display.expected).all() and display.probabilities.shape == (1, 2)


@pytest.mark.parametrize("kinds", ["binary", "continuous"])
def test_every_picture_is_what_the_model_says_of_the_known_cells(kinds, rng):
    """The last one given the most probable class: others, which know better of single pixels, do not count."""
    y = (np.arange(90) % 3 > 0) + (np.arange(90) % 9 == 4)  # classes of 30, 50 and 10 rows
    X = (rng.random((90, 12)) < np.array([0.1, 0.55, 0.9])[(y[:, None] + np.arange(12)) % 3]).astype(float)
    models = [LatentClassificationModel(1, kinds=kinds, n_init=1, tol=0.1, random_state=0)]
    if kinds == "continuous":
        X += 0.1 * rng.normal(size=X.shape)
        models.append(GaussianMixtureClassifier(random_state=0))
    for model in models:
        display = CompletionDisplay.from_estimator(model.fit(X, y), X[0], shape=(3, 4), lines=[0, 1, 2, 3], plot=False)
        rows = np.where(np.arange(12) < 4 * np.arange(4)[:, None], X[0], np.nan)
        np.testing.assert_allclose(display.probabilities, model.predict_proba(rows))
        np.testing.assert_allclose(display.expected.reshape(4, 12), model.impute(rows))
        given_class = model.impute(rows, method="mode", condition="class")
        np.testing.assert_allclose(display.probable.reshape(4, 12), given_class)
        assert np.abs(given_class - model.impute(rows, method="mode")).max() > 0.01  # or nothing would be told


@pytest.mark.parametrize(
    "wrong",
    [
        {"shape": (2, 4)},
        {"shape": (3, 4), "lines": [4]},
        {"shape": (3, 4), "lines": []},
        {"shape": (3, 4), "lines": 3},
        {"shape": (3, 4), "lines": [0.5]},
        {"shape": (3, 4), "true_class": 7},
    ],
)
def test_shapes_that_do_not_fit_are_refused(wrong, model_and_image):
    with pytest.raises(ValueError, match="shape=|lines=.*; allowed|true_class=7; allowed"):
        CompletionDisplay.from_estimator(*model_and_image, **wrong)


def test_models_that_complete_nothing_are_refused(rng):
    model = MultimodalSoftmaxClassifier(1)
    with pytest.raises(TypeError, match="estimator is a MultimodalSoftmaxClassifier, which does not complete rows"):
        CompletionDisplay.from_estimator(model, np.zeros(12), shape=(3, 4))
