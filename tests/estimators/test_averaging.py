"""Models of several sizes, whose predictions are averaged where sizes are left to the estimator."""

from copy import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss
from tolerances import EQUAL, SAMPLING

import latentia
from latentia import GaussianMixtureClassifier, LatentClassificationModel
from latentia.estimators import latent_classification as training
from latentia.estimators.base.estimator import StepNotifier
from latentia.estimators.base.tuning import WEIGHTS
from latentia.estimators.latent_classification import AVERAGED_COMPONENTS
from latentia.solvers import Outcome
from latentia.table.options import random_generator

pytestmark = pytest.mark.filterwarnings("ignore:.*stopped before it converged")
SIZES = [1, *AVERAGED_COMPONENTS]
QUICK = {"max_iter": 20, "random_state": 0}


@pytest.fixture(scope="module")
def table():
    """Classes of different sizes, a column with gaps."""
    X, y = (np.delete(a, np.s_[100:130], axis=0) for a in load_iris(return_X_y=True))
    X = X[:, [0, 2, 3]]
    X[::5, 1] = np.nan
    return X, y


@pytest.fixture(scope="module")
def model(table):
    return LatentClassificationModel(temperature=1.5, **QUICK).fit(*table)


@pytest.fixture(scope="module")
def members(model):
    """Estimators with one of the models each."""
    alone = [copy(model) for _ in model._model.members]
    for estimator, one in zip(alone, model._model.members, strict=True):
        estimator._model = replace(one, others=())
    return alone


def test_sizes_that_are_left_to_the_estimator_are_averaged_over(model, members, table):
    assert model.averaged_components_ == SIZES == [one._model.family.n_components for one in members]
    assert model.loadings_.shape[0] == 1 == model.responsibilities(table[0]).shape[1]
    assert "1, 2, 3, 4, 6 (averaged)" in model.summary()
    np.testing.assert_array_equal(model.transform(table[0]), members[0].transform(table[0]))


def test_densities_and_what_rows_say_of_classes_are_averaged_each_by_itself(model, members, table):
    X, _ = table
    joints = np.stack([one.predict_joint_log_proba(X) for one in members])
    np.testing.assert_allclose(
        model.score_samples(X), logsumexp(logsumexp(joints, axis=2), axis=0) - np.log(len(SIZES)), **EQUAL
    )
    ratios = np.exp(joints - joints.max(axis=2, keepdims=True)) / model.priors_
    said = model.priors_ * (ratios / ratios.sum(axis=2, keepdims=True)).sum(axis=0)
    np.testing.assert_allclose(model.predict_proba(X), said / said.sum(axis=1, keepdims=True), **EQUAL)


def test_weights_of_unlabeled_rows_that_are_left_to_the_estimator_are_averaged_over(table):
    """Of one component all, of more in turn; each member is the model of its setting."""
    X, y = table[0], np.where(np.arange(len(table[1])) % 3, -1, table[1])
    options = {"unlabeled": -1, "temperature": 1.5, "max_iter": 5}
    model = LatentClassificationModel(random_state=0, **options).fit(X, y)
    rest = [weight for weight in WEIGHTS if weight != model.unlabeled_weight_]
    settings = [(2, WEIGHTS[0]), (3, WEIGHTS[1]), (4, WEIGHTS[2]), (6, WEIGHTS[0]), *((1, weight) for weight in rest)]
    assert len(rest) == 2 and model.averaged_components_ == [1, *(size for size, _ in settings)]
    _, *seeds = random_generator(0).integers(2**31, size=1 + len(AVERAGED_COMPONENTS) + len(WEIGHTS))
    for member, (size, weight), seed in zip(model._model.others, settings, seeds, strict=False):
        own = {"n_components": size, "unlabeled_weight": weight, "n_init": 1, "tol": training.AVERAGED_TOL * model.tol}
        alone = LatentClassificationModel(**own, **options)
        fit = alone._train(alone._read_input(X, y, None), np.random.default_rng(seed), StepNotifier())
        np.testing.assert_allclose(member.log_proba(X), fit.model.log_proba(X), **EQUAL)
    members = [replace(one, others=()) for one in model._model.members]
    said = [np.exp(one.log_proba(X)) / np.exp(one.params.log_prior) for one in members]
    said = [votes * p / p.sum(axis=1, keepdims=True) for votes, p in zip([3, *[1] * len(settings)], said, strict=True)]
    p = np.sum(said, axis=0) * model.priors_  # the one whose weight is chosen counts for three
    np.testing.assert_allclose(model.predict_proba(X), p / p.sum(axis=1, keepdims=True), **EQUAL)
    given = LatentClassificationModel(random_state=0, unlabeled_weight=0.1, **options).fit(X, y)
    assert given.averaged_components_ == SIZES


@pytest.mark.parametrize("labeled", [False, True])
def test_what_members_expect_of_missing_cells_is_averaged(model, members, table, labeled):
    X, y = table
    gap, given = np.isnan(X), y if labeled else None
    each = np.stack([one.impute(X, given) for one in members])
    np.testing.assert_allclose(model.impute(X, given), each.mean(axis=0), **EQUAL)
    assert np.ptp(each, axis=0)[gap].max() > 0.01  # they do not agree


def test_cells_given_the_most_probable_class_are_those_given_the_class_that_is_predicted(model, members, table):
    X, _ = table
    assert (model.predict(X) != members[-1].predict(X)).any()  # whose own class would be another
    np.testing.assert_allclose(model.impute(X, condition="class"), model.impute(X, model.predict(X)), **EQUAL)


def test_a_model_averaged_with_itself_is_itself(model, members, table):
    X, _ = table
    twice = copy(members[1])
    twice._model = replace(members[1]._model, others=(members[1]._model,))
    for ask in ("predict_joint_log_proba", "impute"):
        np.testing.assert_allclose(getattr(twice, ask)(X), getattr(members[1], ask)(X), **EQUAL)


def test_rows_are_drawn_from_all_members(model, members):
    drawn = [one.sample(4000, y=1)[0] for one in (model, *members)]
    means, errors = np.mean(drawn, axis=1), np.std(drawn, axis=1) / np.sqrt(4000)
    np.testing.assert_array_less(np.abs(means[0] - means[1:].mean(axis=0)), SAMPLING * errors[0])
    assert np.unique(model.sample(50, component=0)[0], axis=0).shape == (50, 3)
    with pytest.raises(ValueError, match="component=1"):
        model.sample(3, component=1)


def test_the_density_integrates_to_one():
    y = np.arange(60) % 2
    X = np.exp(np.random.default_rng(0).normal(size=60) + y)[:, None]  # the transform is not linear
    model = LatentClassificationModel(**QUICK).fit(X, y)
    cells = np.sinh(np.linspace(-14, 14, 20001))
    density = np.exp(model.score_samples(cells[:, None]))
    assert len(model.averaged_components_) > 1
    assert np.trapezoid(density, cells) == pytest.approx(1, abs=1e-4)


def test_a_size_or_another_way_of_training_is_taken_as_given(table):
    X, y = table
    for options in ({"n_components": 1}, {"n_latent": 2}, {"inference": "ml"}, {"refine": "importance"}):
        assert LatentClassificationModel(**options, **QUICK).fit(X, y).averaged_components_ == [1], options
    frame = pd.DataFrame(X, columns=list("abc")).assign(c=pd.cut(X[:, 2], 3, labels=list("xyz")))
    assert LatentClassificationModel(**QUICK).fit(frame, y).averaged_components_ == [1]


@pytest.mark.matrix
def test_few_labels_allow_few_components(table):
    X, y = table
    few = np.where(np.arange(len(y)) % 12 == 0, y, -1)
    assert (few >= 0).sum() == 10
    assert LatentClassificationModel(unlabeled=-1, **QUICK).fit(X, few).averaged_components_ == [1, 2, 3, 1, 1]
    heavy = LatentClassificationModel(unlabeled=-1, **QUICK).fit(X, few, sample_weight=np.full(len(y), 2.0))
    assert heavy.averaged_components_ == [1, 2, 3, 4, 6, 1, 1]


def test_a_component_needs_as_many_rows_as_there_are_columns(table):
    X, y = table
    wide = np.hstack([X] * 10) + np.random.default_rng(0).normal(size=(len(y), 30))
    assert LatentClassificationModel(**QUICK).fit(wide, y).averaged_components_ == [1, 2, 3, 4]
    assert LatentClassificationModel(**QUICK).fit(wide[::2], y[::2]).averaged_components_ == [1, 2]


@pytest.mark.matrix
def test_of_large_tables_the_others_see_a_sample(table, monkeypatch):
    X, y = (np.repeat(a, 4, axis=0) for a in table)
    whole = LatentClassificationModel(**QUICK).fit(X, y)
    monkeypatch.setattr(training, "AVERAGED_ROWS", 240)
    some = LatentClassificationModel(**QUICK).fit(X, y)
    np.testing.assert_array_equal(some.loadings_, whole.loadings_)
    apart = np.abs(some.predict_proba(X) - whole.predict_proba(X)).max()
    assert some.averaged_components_ == SIZES and 1e-4 < apart < 0.3


def test_a_callback_that_stops_the_first_stops_all(table):
    model = LatentClassificationModel(callback=lambda step: step.iteration == 2, **QUICK).fit(*table)
    assert model.averaged_components_ == [1] and model.stopping_reason_ == Outcome.STOPPED.value


def test_it_is_saved_whole(model, table, tmp_path):
    model.save(tmp_path / "model.latentia")
    again = latentia.load(tmp_path / "model.latentia")
    np.testing.assert_array_equal(again.predict_proba(table[0]), model.predict_proba(table[0]))


def test_an_average_is_near_the_better_of_one_and_several_components():
    def losses(make_classes):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(400, 4))
        y = make_classes(X, rng)
        models = [LatentClassificationModel(n_components=n, **QUICK).fit(X[:150], y[:150]) for n in (1, "auto")]
        return [log_loss(y[150:], model.predict_proba(X[150:])) for model in models]

    one, many = losses(lambda X, rng: (X[:, 0] * X[:, 1] > 0).astype(int))  # no class is one cloud
    assert many < 0.9 * one
    one, many = losses(lambda X, rng: (X[:, 0] + 0.5 * rng.normal(size=400) > 0).astype(int))
    assert many < 1.1 * one


@pytest.fixture(scope="module")
def three_to_one():
    """Two mixtures of the same two columns that agree in nothing, the first of which has three votes; and each alone."""
    rng, y = np.random.default_rng(1), np.arange(40) % 2
    X = rng.normal(size=(40, 2)) * [1.0, 3.0] + 10.0 * y[:, None]
    made = GaussianMixtureClassifier(covariance="diag", marginals="normal", temperature=1.3, random_state=0).fit(X, y)
    one = GaussianMixtureClassifier(covariance="full", marginals="normal", temperature=4.0, random_state=0)
    one.fit(X @ [[0.3, 1.0], [1.0, -0.2]], y)
    other = copy(made)
    other._model = replace(one._model, preprocessor=made._model.preprocessor)
    both = copy(made)
    both._model = replace(made._model, others=(other._model,), n_votes=3)
    return both, made, other, X


def test_votes_count_in_densities_classes_and_cells(three_to_one):
    both, one, other, X = three_to_one
    X = X + [0.0, 5.0]  # between the classes
    share = np.log([0.75, 0.25])[:, None]
    density = logsumexp(share + [one.score_samples(X), other.score_samples(X)], axis=0)
    np.testing.assert_allclose(both.score_samples(X), density, **EQUAL)
    said = [m.predict_proba(X) / m.priors_ for m in (one, other)]
    said = both.priors_ * sum(v * p / p.sum(axis=1, keepdims=True) for v, p in zip((3, 1), said, strict=True))
    np.testing.assert_allclose(both.predict_proba(X), said / said.sum(axis=1, keepdims=True), **EQUAL)
    gaps = np.where(np.eye(2, dtype=bool)[np.arange(40) % 2], np.nan, X)
    for given in (None, np.arange(40) % 2):
        cells = 0.75 * one.impute(gaps, given) + 0.25 * other.impute(gaps, given)
        np.testing.assert_allclose(both.impute(gaps, given), cells, **EQUAL)
    assert both._n_free_params() == one._n_free_params() + other._n_free_params()


def test_votes_count_in_draws_and_each_row_is_of_its_class(three_to_one):
    both, one, other, _ = (copy(each) for each in three_to_one)
    params = other._model.params
    other._model = replace(other._model, params=params._replace(means=params.means + 30.0))  # rows tell who drew them
    both._model = replace(both._model, others=(other._model,))
    labels = np.arange(400) % 5 // 4  # few rows of one class, among the others
    X, y = both.sample(400, labels)
    centers = np.stack([[m.sample(200, c)[0].mean(axis=0) for c in (0, 1)] for m in (one, other)])
    nearest = np.abs(X[:, None, None, 0] - centers[None, ..., 0]).reshape(400, 4).argmin(axis=1)
    assert (nearest % 2 == labels).mean() > 0.97
    np.testing.assert_array_equal(y, labels)
    assert abs((nearest >= 2).mean() - 0.25) < SAMPLING * np.sqrt(0.25 * 0.75 / 400)
