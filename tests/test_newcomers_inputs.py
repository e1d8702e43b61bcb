"""What newcomers hand in: every snippet of what once hurt them, and what should come of it."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score

import latentia
from latentia import GaussianMixtureClassifier, LatentClassificationModel

X, y = load_iris(return_X_y=True)


def quick_classifiers():
    """One of each that takes unlabeled rows, cheap to fit."""
    return [
        GaussianMixtureClassifier(random_state=0),
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
@pytest.mark.filterwarnings("ignore:.*are dropped")
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
@pytest.mark.filterwarnings("ignore:.*are dropped")
@pytest.mark.parametrize("mark", [-1, 9])
def test_who_names_the_mark_hears_no_more_of_it(model, mark):
    """Also where the only labeled class is 1, which with -1 would be two classes."""
    semi = np.where(np.arange(150) % 2 == 0, mark, 1 - (y > 0))
    model = clone(model).set_params(unlabeled=mark).fit(X, semi)
    assert model.classes_.tolist() == [0, 1]
    model.score(X, semi)
    assert model.fit(X, np.where(y == 1, 1, mark)).classes_.tolist() == [1]


@pytest.mark.parametrize("mark", [-1, 9])
def test_a_named_mark_is_one_in_every_type_of_label(mark):
    some = np.arange(150) % 3 == 0
    plain = GaussianMixtureClassifier(unlabeled=mark).fit(X, np.where(some, mark, y))
    for labels in (np.where(some, float(mark), y), np.where(some, np.array(mark, dtype=object), y)):
        model = GaussianMixtureClassifier(unlabeled=mark).fit(X, labels)
        np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))


def test_scores_and_cross_validation_agree_when_minus_one_is_a_class():
    model = GaussianMixtureClassifier(unlabeled=None)
    own, accuracy = cross_val_score(model, X, y - 1), cross_val_score(model, X, y - 1, scoring="accuracy")
    np.testing.assert_array_equal(own, accuracy)
    assert own.mean() > 0.9


@pytest.mark.parametrize("labels", [np.array([-1, 1]), np.array([-1.0, 0.0, 1.0]), np.array(["-1", "0", "1"])])
def test_labels_that_are_plainly_classes_are_no_reason_to_warn(labels):
    target = labels[y % len(labels)]
    model = GaussianMixtureClassifier().fit(X, target)
    assert model.classes_.tolist() == sorted(set(labels.tolist()))
    model.score(X, target)


@pytest.mark.parametrize("mark", [None, np.nan])
def test_none_and_nan_are_unlabeled_whatever_the_option(mark):
    words = np.array([mark if k % 5 == 0 else "abc"[c] for k, c in enumerate(y)], dtype=object)
    for unlabeled in ("auto", -1, None):
        model = GaussianMixtureClassifier(unlabeled=unlabeled).fit(X, words)
        assert model.classes_.tolist() == ["a", "b", "c"]
    with pytest.warns(UserWarning, match=r"score leaves out 30 of 150 rows, which have no label\.$"):
        model.score(X, words)


@pytest.mark.parametrize("wrong", ["no", 1.5, True, [-1]])
def test_marks_that_are_none_are_refused(wrong):
    with pytest.raises(ValueError, match="unlabeled=.*allowed are 'auto'"):
        GaussianMixtureClassifier(unlabeled=wrong).fit(X, y)


def test_unknown_entries_of_a_label_matrix_are_as_they_were():
    Y = np.c_[y == 0, y == 1].astype(int)
    Y[::3, 1] = -1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        models = [latentia.ProbitEmbeddingClassifier(1, unlabeled=u).fit(X, Y) for u in ("auto", -1, None)]
    for model in models[1:]:
        np.testing.assert_array_equal(model.predict_proba(X), models[0].predict_proba(X))
