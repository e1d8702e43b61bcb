"""The display of completions: what is shown is what the model says."""

import matplotlib
import numpy as np
import pytest

from latentia import LatentClassificationModel
from latentia.display.completion import CompletionDisplay

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


@pytest.mark.parametrize("wrong", [{"shape": (2, 4)}, {"shape": (3, 4), "lines": [4]}, {"shape": (3, 4), "lines": []}])
def test_shapes_that_do_not_fit_are_refused(wrong, model_and_image):
    with pytest.raises(ValueError, match="shape=|lines="):
        CompletionDisplay.from_estimator(*model_and_image, **wrong)
