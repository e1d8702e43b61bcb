"""Accuracy where classes are known, and warnings that point at the user's line."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from latentia import GaussianMixtureClassifier, MultimodalSoftmaxClassifier, ProbitEmbeddingClassifier


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.mark.parametrize(
    "model", [GaussianMixtureClassifier(1), MultimodalSoftmaxClassifier(1), ProbitEmbeddingClassifier(2)]
)
def test_rows_without_a_class_do_not_count(model, iris):
    X, y = iris
    model.fit(X, y)
    weight = np.linspace(1, 2, len(y))
    some = np.where(np.arange(len(y)) % 3 == 0, -1, y)
    known = some >= 0
    assert model.score(X, some) == pytest.approx(model.score(X[known], y[known]))
    assert model.score(X, some, weight) == pytest.approx(model.score(X[known], y[known], weight[known]))
    with pytest.raises(ValueError, match="y has no label"):
        model.score(X, np.full(len(y), -1))


def test_minus_one_is_a_class_where_it_was_one_in_training(iris):
    X, y = iris[0][:100], np.where(iris[1][:100] == 0, -1, 1)
    model = GaussianMixtureClassifier(1, random_state=0).fit(X, y)
    assert model.score(X[:50], y[:50]) == 1.0  # all of them -1
    assert model.score(np.vstack([X, X[:1]]), [*y, 1]) == pytest.approx(100 / 101)
    drawn, labels = model.sample(3, y=[-1, -1, -1])
    assert labels.tolist() == [-1] * 3 and np.isfinite(drawn).all()


def test_words_with_gaps(iris):
    X, names = iris[0], np.array(["setosa", "versicolor", "virginica"], dtype=object)[iris[1]]
    model = GaussianMixtureClassifier(1).fit(X, names)
    some = names.copy()
    some[::2] = None
    assert model.score(X, some) == pytest.approx(model.score(X[1::2], names[1::2]))


@pytest.mark.parametrize(
    "model",
    [
        GaussianMixtureClassifier(2, max_iter=1),
        MultimodalSoftmaxClassifier(2, n_init=1, max_iter=2),
        ProbitEmbeddingClassifier(2, max_iter=1),
    ],
)
def test_warnings_point_at_the_line_that_called(model, iris):
    with pytest.warns(Warning, match="stopped before it converged") as heard:
        model.fit(*iris)
    assert {warning.filename for warning in heard} == {__file__}
