"""Laws of labels and probabilities that every public estimator obeys: classes, unlabeled rows, losses, priors, scores, samples."""

import numpy as np
import pytest
from estimator_cases import answer, quietly
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.base import clone
from tolerances import EQUAL, REFIT, SAMPLING

from latentia import GaussianMixtureClassifier

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:.*(count as unlabeled|score leaves out)"),  # see test_newcomers_inputs
]


# ---------------------------------------------------------------- probabilities and decisions
@pytest.mark.estimators("classifier")
@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_add_up_and_the_most_probable_class_is_predicted(case, quick, data, y, fits, n_classes):
    model = fits(case, "quick") if n_classes == 3 else quick.fit(data.X, np.minimum(y, 1))
    X = np.r_[data.X, data.X * [100, 100, 100, 1]]  # near and far
    proba = model.predict_proba(X)
    assert proba.shape == (90, n_classes) and (proba >= 0).all() and (proba <= 1).all()
    assert (model.predict_log_proba(X) <= 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, **EQUAL)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), proba, **EQUAL)
    np.testing.assert_array_equal(model.predict(X), proba.argmax(axis=1))


@pytest.mark.estimators("multilabel")
def test_labels_that_are_more_likely_there_than_not_are_predicted(case, data, fits):
    model = fits(case, "quick")
    np.testing.assert_array_equal(model.predict(data.X), answer(model, data.X) > 0.5)


@pytest.mark.estimators("embeds")
@pytest.mark.parametrize("averaging", ["full", "weights"])
def test_labels_are_as_probable_as_the_published_posterior_says(case, quick, data, y, averaging):
    """A label is there where t ~ N(b + w z, 1) is positive; t is taken for normal, with its own mean and variance."""
    model = quick.set_params(averaging=averaging, latent_noise=0.7).fit(data.X, y)
    z, cov = model.transform(data.X, return_cov=True)
    means, covs = np.c_[model.intercepts_, model.weights_], model.weights_covariance_  # of (b, w)
    with_one = np.c_[np.ones(45), z]
    second = np.einsum("ni,nj->nij", with_one, with_one)  # E[(1, z)(1, z)'], or that of z at its mean
    if averaging == "full":
        second[:, 1:, 1:] += cov
    mean = with_one @ means.T
    square = 1 + np.einsum("nij,lij->nl", second, covs + means[:, :, None] * means[:, None, :])
    margin = model.margin if model.semi_supervised else 0.0
    there, not_there = (norm.logcdf((side * mean - margin) / np.sqrt(square - mean**2)) for side in (1, -1))
    if model.semi_supervised:  # given that t is not within the margin
        there = there - np.logaddexp(there, not_there)
    if case.target == "classes":
        there = there - logsumexp(there, axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(data.X), np.exp(there), **EQUAL)


@pytest.mark.estimators("has loss matrix")
def test_a_loss_matrix_changes_the_decision_and_nothing_else(case, quick, data, y, fits, rng):
    one, other = rng.integers(45, size=(2, 300))
    X = data.X[one]
    X[:, :3] = (X[:, :3] + data.X[other, :3]) / 2  # between the classes, where decisions are open
    loss = np.array([[0.0, 1.0, 3.0], [5.0, 0.0, 1.0], [9.0, 30.0, 0.0]])  # row: the class, column: what is predicted
    model = quick.set_params(loss_matrix=loss).fit(data.X, np.array(["a", "b", "c"])[y])
    proba = model.predict_proba(X)
    np.testing.assert_array_equal(proba, fits(case, "quick").predict_proba(X))
    expected = np.array([[sum(p[i] * loss[i, j] for i in range(3)) for j in range(3)] for p in proba]).argmin(axis=1)
    np.testing.assert_array_equal(model.predict(X), np.array(["a", "b", "c"])[expected])
    turned, plain = (proba @ loss.T).argmin(axis=1), proba.argmax(axis=1)
    assert (expected != turned).any() and (expected != plain).any()  # or the law would say nothing


@pytest.mark.estimators("has priors")
@pytest.mark.parametrize(
    "priors, expected",
    [
        ("empirical", [21 / 45, 15 / 45, 9 / 45]),
        ("uniform", [1 / 3, 1 / 3, 1 / 3]),
        ([0.2, 0.3, 0.5], [0.2, 0.3, 0.5]),
        ({2: 0.5, 0: 0.2, 1: 0.3}, [0.2, 0.3, 0.5]),
    ],
    ids=["empirical", "uniform", "numbers", "dict"],
)
def test_priors(case, settled, data, y, priors, expected):
    """Unlabeled rows have no say in priors that are given."""
    some = y if priors == "empirical" else np.where(np.arange(45) % 4 == 0, -1, y)
    model = settled.set_params(priors=priors, unlabeled=-1, max_iter=2).fit(data.X, some)
    np.testing.assert_allclose(model.priors_, expected, **EQUAL)
    np.testing.assert_allclose(model.predict_proba(np.full((1, 4), np.nan))[0], expected, **EQUAL)
    for part in ("best_estimator_", "density_estimator_", "factor_estimator_"):
        if hasattr(model, part):
            np.testing.assert_allclose(getattr(model, part).priors_, expected, **EQUAL)


@pytest.mark.estimators("has priors")
def test_other_priors_multiply_the_odds(case, settled, data, y):
    """Of rows with gaps, too; what is learned of the rows of a class does not depend on its prior."""
    if "objective" in settled.get_params():
        settled.set_params(objective="likelihood")
    gaps = np.where(np.eye(4, dtype=bool)[np.arange(45) % 4], np.nan, data.X)
    alike, other = (
        clone(settled).set_params(priors=priors, max_iter=2).fit(data.X, y).predict_proba(gaps)
        for priors in ("uniform", [0.2, 0.3, 0.5])
    )
    odds = alike * [2, 3, 5]
    np.testing.assert_allclose(other, odds / odds.sum(axis=1, keepdims=True), **REFIT)


@pytest.mark.estimators("has priors")
def test_priors_that_do_not_sum_to_one_are_said_to_be_divided(case, quick, data, y):
    told = r"priors=\[2.0, 3.0, 5.0\] sum to 10, not to 1"
    with pytest.warns(UserWarning, match=told) as said:
        model = clone(quick).set_params(priors=[2, 3, 5]).fit(data.X, y)
    assert sum("not to 1" in str(each.message) for each in said) == 1
    shares = quick.set_params(priors={0: 0.2, 1: 0.3, 2: 0.5 + 1e-9}).fit(data.X, y)  # but for rounding
    np.testing.assert_allclose(answer(model, data.X), answer(shares, data.X), rtol=1e-6)


# ---------------------------------------------------------------- names of classes
@pytest.mark.estimators("classifier")
@pytest.mark.parametrize(
    "names", [["no", "yes"], [-1, 1], [3.0, 7.0], [False, True]], ids=["words", "signs", "floats", "flags"]
)
def test_classes_of_any_kind_keep_it(case, settled, data, y, fits, names):
    """-1 and 1 are two classes, and -1 is one of them in every method."""
    labels = np.array(names)[np.minimum(y, 1)]
    model = settled.set_params(max_iter=2).fit(data.X, labels)
    assert model.classes_.tolist() == names
    found = model.predict(data.X)
    assert {type(v) for v in found.tolist()} == {type(names[0])}
    plain = fits.of_two_classes(case)
    np.testing.assert_array_equal(found, np.array(names)[plain.predict(data.X)])
    assert model.score(data.X, labels) == plain.score(data.X, np.minimum(y, 1))
    first = labels == names[0]
    assert model.score(data.X[first], labels[first]) == (found[first] == names[0]).mean()
    if hasattr(model, "bic"):
        assert model.bic(data.X, labels) == pytest.approx(plain.bic(data.X, np.minimum(y, 1)), rel=1e-12)
    if hasattr(model, "sample"):
        assert model.sample(3, y=names[0])[1].tolist() == [names[0]] * 3


# ---------------------------------------------------------------- unlabeled rows
def with_gaps(values, gap):
    labels = np.array(values, dtype=object if gap is None else None)
    labels[::4] = gap
    return labels


@pytest.mark.estimators("classifier")
@pytest.mark.filterwarnings("ignore:.*rows have no label")
def test_marks_of_unlabeled_rows(case, settled, data, y):
    settled.set_params(max_iter=2)
    plain = clone(settled).fit(data.X, with_gaps(y, -1))
    for gap, values, classes in (
        (None, np.array(["x", "y", "z"])[y], ["x", "y", "z"]),
        (np.nan, y.astype(float), [0.0, 1.0, 2.0]),
        (None, y, [0, 1, 2]),
    ):
        model = clone(settled).fit(data.X, with_gaps(values, gap))
        assert model.classes_.tolist() == classes
        np.testing.assert_array_equal(answer(model, data.X), answer(plain, data.X))
        assert model.score(data.X, with_gaps(values, gap)) == plain.score(data.X, with_gaps(y, -1))


@pytest.mark.estimators("no use of unlabeled")
@pytest.mark.filterwarnings("ignore:.*rows have no (label|output)")
@pytest.mark.parametrize("n_classes", [2, 3])
def test_unlabeled_rows_change_nothing(case, settled, data, y, n_classes):
    """The table again without labels: the columns keep their moments."""
    mark = -1 if case.target == "classes" else np.nan
    y = np.minimum(y, n_classes - 1) if case.target == "classes" else y
    alone = answer(clone(settled).fit(data.X, y), data.X)
    both = settled.fit(np.r_[data.X, data.X], np.r_[y, np.full(45, mark)])
    np.testing.assert_allclose(answer(both, data.X), alone, **REFIT)


@pytest.mark.filterwarnings("ignore:rows of 1 could not be held out")  # a single one has a label
@pytest.mark.estimators("learns unlabeled", "classifier")
def test_unlabeled_rows_are_learned_from(case, settled, data, y):
    some = np.where(np.arange(45) % 3 > 0, -1, y)
    alone = answer(clone(settled).fit(data.X[::3], y[::3]), data.X)
    assert np.abs(answer(settled.fit(data.X, some), data.X) - alone).max() > 0.01


@pytest.mark.estimators("classifier")
def test_rows_without_a_class_do_not_count_in_the_score(case, data, y, fits):
    model, weight = fits(case, "quick"), np.linspace(1, 3, 45)
    y = np.where(np.arange(45) % 5 == 1, (y + 1) % 3, y)  # not as fitted: a score of one would say nothing of weights
    some = np.where(np.arange(45) % 3 == 0, -1, y)  # the first row among them
    known = some >= 0
    right = model.predict(data.X) == y
    assert 0 < right[known].mean() < 1
    assert model.score(data.X, y, weight) == pytest.approx(np.average(right, weights=weight))
    assert model.score(data.X, some) == pytest.approx(right[known].mean())
    assert model.score(data.X, some, weight) == pytest.approx(np.average(right[known], weights=weight[known]))
    with pytest.raises(ValueError, match="y has no label"):
        model.score(data.X, np.full(45, -1))
    with pytest.raises(ValueError, match="sample_weight is zero for every row with a label; at least one"):
        model.score(data.X, some, ~known)


@pytest.mark.estimators("multilabel")
def test_entries_that_are_unknown_do_not_count_in_the_score(case, data, y, fits):
    model, weight = fits(case, "quick"), np.linspace(1, 3, 45)
    some = np.where(np.arange(45)[:, None] % [3, 2] == 0, -1, y)  # no entry is known in the first row
    known = (some >= 0).any(axis=1)
    right = ((model.predict(data.X) == y) | (some < 0)).all(axis=1)[known]
    assert not known[0] and 0 < right.mean() < 1
    assert model.score(data.X, some) == pytest.approx(right.mean())
    assert model.score(data.X, some, weight) == pytest.approx(np.average(right, weights=weight[known]))
    with pytest.raises(ValueError, match="sample_weight is zero for every row with a label; at least one"):
        model.score(data.X, some, ~known)


def test_one_weight_for_all_rows_changes_no_score(case, data, y, fits):
    model = fits(case, "quick")
    assert model.score(data.X, y, 3.0) == model.score(data.X, y)
    with pytest.raises(ValueError, match="sample_weight holds -1.0"):
        model.score(data.X, y, -1.0)


@pytest.mark.estimators("has bic", "conditional")
def test_criteria_of_conditional_models_count_labeled_rows_alone(case, data, y, fits):
    model, some = fits(case, "quick"), np.where(np.arange(45) % 3 == 0, -1, y)
    known = some >= 0
    assert model.bic(data.X, some) == pytest.approx(model.bic(data.X[known], y[known]), rel=1e-12)
    assert model.aic(data.X, some) == pytest.approx(model.aic(data.X[known], y[known]), rel=1e-12)


@pytest.mark.estimators("has bic", "generative")
def test_criteria_of_generative_models_count_unlabeled_rows_by_their_density(case, data, y, fits):
    model, some = fits(case, "quick"), np.where(np.arange(45) % 3 == 0, -1, y)
    joint = model.predict_joint_log_proba(data.X)
    np.testing.assert_allclose(model.score_samples(data.X), logsumexp(joint, axis=1), **EQUAL)
    log_likelihood = np.where(some >= 0, joint[np.arange(45), y], model.score_samples(data.X)).sum()
    n_free = (model.bic(data.X, y) - model.aic(data.X, y)) / (np.log(45) - 2)
    assert n_free == pytest.approx(round(n_free)) and n_free > 0
    assert model.bic(data.X, some) == pytest.approx(-2 * log_likelihood + n_free * np.log(45))
    assert model.aic(data.X, some) == pytest.approx(-2 * log_likelihood + 2 * n_free)


# ---------------------------------------------------------------- samples
@pytest.mark.estimators("generative")
def test_samples_have_the_moments_of_the_model(case, data, y, fits):
    """A row without cells is completed by the mean of all rows of the model."""
    model = fits(case, "quick")
    X, labels = model.sample(20_000)
    share = np.bincount(labels, minlength=3) / len(labels)
    np.testing.assert_allclose(share, model.priors_, atol=SAMPLING * np.sqrt(0.25 / len(labels)))
    error = X.std(axis=0) / np.sqrt(len(X))
    mean = model.impute(np.full((1, 4), np.nan))[0]
    exact = np.isfinite(error) & (model.get_params().get("kinds") != "auto" or np.arange(4) < 3)
    assert (np.abs(X.mean(axis=0) - mean) < SAMPLING * error)[exact].all()
    assert np.abs(X.mean(axis=0) - mean)[3] < 0.1  # the mean of a binary column is an approximation
    for c in range(3):
        assert set(model.sample(3, y=c)[1]) == {c}
    asked = [2, 0, 1, 1]
    assert model.sample(4, y=asked)[1].tolist() == asked
    for wrong in (7, "a", [0, 1]):
        with pytest.raises(ValueError, match="y h"):
            model.sample(4, y=wrong)


def test_a_component_that_a_class_does_not_have_is_refused(data):
    model = GaussianMixtureClassifier([1, 3, 2], max_iter=2, n_init=1, random_state=0)
    model = quietly(model.fit, data.X, data.classes)
    for y, least in (([1, 2, 1], 2), ([0, 1, 2], 1), ([1, 1, 1], 3), (1, 3)):
        assert len(model.sample(3, y=y, component=least - 1)[0]) == 3
        with pytest.raises(ValueError, match=f"component={least}; allowed is an integer >= 0 and < {least}"):
            model.sample(3, y=y, component=least)


@pytest.mark.estimators("generative")
def test_probabilities_are_calibrated_on_rows_of_the_model(case, data, fits):
    """Classes that are drawn with their rows are as frequent as their probabilities say, wherever one looks."""
    model = quietly(
        clone(fits(case, "quick")).set_params(temperature=1.0).fit, data.X, data.classes
    )  # as rows are drawn
    X, labels = model.sample(5000)
    proba = model.predict_proba(X)
    gap = (labels[:, None] == np.arange(3)) - proba  # of mean zero, whatever it is multiplied with
    for factor in (1.0, proba[:, :1], proba[:, 1:2], (X[:, :1] - X[:, 0].mean()) / X[:, 0].std()):
        terms = gap * factor
        assert (np.abs(terms.mean(axis=0)) < SAMPLING * terms.std(axis=0) / np.sqrt(len(X)) + 0.01).all()
