"""ProbitEmbeddingClassifier from the user's side."""

import os
import pickle
import subprocess
import sys
import warnings
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tolerances import EQUAL, NAMESPACE

from latentia import LatentClassifier
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.estimators.probit_embedding import ProbitEmbeddingClassifier, best_size, learned_attributes
from latentia.families.probit_embedding.family import PRECISION_SHARING, ProbitEmbedding
from latentia.plot.embedding import EmbeddingDisplay
from latentia.solvers import EM

PRIORS = ["entries", "columns", "rows"]


def data(seed=0, n_rows=150, n_features=8, n_labels=5, rank=2, unknown=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features)) * np.arange(1, n_features + 1) + 3
    scores = (
        (X - 3)
        / np.arange(1, n_features + 1)
        @ rng.standard_normal((n_features, rank))
        @ rng.standard_normal((rank, n_labels))
    )
    Y = (scores + 0.5 * rng.standard_normal(scores.shape) > 0).astype(int)
    return X, np.where(rng.random(Y.shape) < unknown, -1, Y)


def after_some_steps(X, Y, sample_weight=None, **options):
    """Probabilities after a fixed number of iterations from the same start, where two ways to sum differ by rounding alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return ProbitEmbeddingClassifier(tol=0, max_iter=25, **options).fit(X, Y, sample_weight)


@pytest.mark.parametrize("prior", PRIORS)
def test_it_learns_a_low_rank_problem(prior):
    X, Y = data(unknown=0.2)
    X_test, Y_test = data(0, 400)[0][150:], data(0, 400)[1][150:]
    X_train, truth = data(0, 400)[0][:150], data(0, 400)[1][:150]
    model = ProbitEmbeddingClassifier(2, prior=prior).fit(X_train, np.where(Y == -1, -1, truth))
    assert (model.predict(X_test) == Y_test).mean() > 0.85
    assert model.converged_ and model.log_evidence_ == model.objective_curve_[-1]
    assert model.projection_.shape == (8, 2) and model.weights_.shape == (5, 2) and model.intercepts_.shape == (5,)
    assert model.precisions_.shape == {"entries": (8, 2), "columns": (1, 2), "rows": (8, 1)}[prior]
    assert model.weights_covariance_.shape == (5, 3, 3)
    assert len(model.objective_curve_) == model.n_iter_ + 1
    assert np.diff(model.objective_curve_).min() >= 0


@pytest.mark.parametrize("prior", PRIORS)
def test_hyper_priors_have_the_mean_shape_times_scale(prior):
    """A prior that is sure of the precisions decides them."""
    X, Y = data(n_rows=40)
    model = after_some_steps(X, Y, prior=prior, shape=1e7, scale=3e-7)
    np.testing.assert_allclose(model.precisions_, 3.0, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:.*rows have no label")
def test_minus_one_nan_and_none_mark_unknown_entries():
    X, Y = data(n_rows=60, unknown=0.3)
    with_nan, with_none = np.where(Y < 0, np.nan, Y), np.where(Y < 0, None, Y.astype(object))
    fits = [
        ProbitEmbeddingClassifier(2).fit(X, y).predict_proba(X) for y in (Y, with_nan, with_none, sparse.csr_array(Y))
    ]
    for other in fits[1:]:
        np.testing.assert_array_equal(other, fits[0])


def test_classes_of_any_kind():
    X, Y = data()
    words = np.array(["down", "up"], dtype=object)[Y[:, 0]]
    binary = ProbitEmbeddingClassifier(1).fit(X, words)
    assert binary.classes_.tolist() == ["down", "up"] and binary.score(X, words) > 0.85
    assert binary.weights_.shape == (1, 1)
    proba = binary.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1, **EQUAL)
    three = 10 * Y[:, 0] + 10 * Y[:, 1]
    many = ProbitEmbeddingClassifier(2).fit(X, three)
    proba = many.predict_proba(X)
    assert many.classes_.tolist() == [0, 10, 20] and proba.shape == (150, 3)
    np.testing.assert_allclose(proba.sum(axis=1), 1, **EQUAL)
    np.testing.assert_array_equal(many.predict(X), many.classes_[proba.argmax(axis=1)])
    far = many.predict_log_proba(1e6 * X)
    assert np.isfinite(far).all()


def test_the_predictive_probability_averages_over_everything():
    X, Y = data(n_rows=60)
    model = ProbitEmbeddingClassifier(2).fit(X, Y)
    params, rng, n_importance_samples = model._model.params, np.random.default_rng(0), 100_000
    row = np.asarray((X[:1] - model.feature_shift_) / model.feature_scale_)[0]
    spread = np.einsum("d,sde,e->s", row, params.covariance, row)
    z = params.projection @ row + np.sqrt(1 + spread) * rng.standard_normal((n_importance_samples, 2))
    for label in range(3):
        draws = rng.multivariate_normal(params.weights[label], params.weights_cov[label], n_importance_samples)
        p = stats.norm.cdf(draws[:, 0] + (draws[:, 1:] * z).sum(axis=1)).mean()
        # t is a product of normals: not normal, but nearly so
        np.testing.assert_allclose(model.predict_proba(X[:1])[0, label], p, atol=0.02)
    mean, cov = model.transform(X[:1], return_cov=True)
    np.testing.assert_allclose(mean[0], params.projection @ row, **EQUAL)
    np.testing.assert_allclose(cov[0], np.diag(1 + spread), **EQUAL)
    bold = ProbitEmbeddingClassifier(2, averaging="weights").fit(X, Y).predict_proba(X)
    assert (np.abs(bold - 0.5) >= np.abs(model.predict_proba(X) - 0.5) - 1e-12).all()


@pytest.mark.parametrize("dims", [(0, 1), (2, 0)], ids=str)
def test_lines_are_drawn_where_a_row_with_the_mean_of_the_other_dimensions_is_even(dims):
    """Of rows that were not fitted: the mean of those that were is zero in every dimension."""
    figure = pytest.importorskip("matplotlib.figure").Figure()
    X, Y = data(rank=3)
    model = ProbitEmbeddingClassifier(3).fit(X, Y)
    moved = X[:40] + X.std(axis=0)
    display = EmbeddingDisplay.from_estimator(model, moved, Y[:40], dims=dims, figure=figure)
    middle, rest = model.transform(moved).mean(axis=0), ({0, 1, 2} - set(dims)).pop()
    assert np.abs(model.weights_[:, rest] * middle[rest]).max() > 0.1  # or the law would say nothing
    for weights, intercept, line in zip(model.weights_, model.intercepts_, display.lines_, strict=True):
        row = np.tile(middle, (2, 1))
        row[:, list(dims)] = line.get_xydata()
        np.testing.assert_allclose(row @ weights + intercept, 0, atol=1e-9)


def test_the_evidence_finds_the_rank():
    X, Y = data(3, n_rows=300, n_labels=6, rank=2)
    model = ProbitEmbeddingClassifier("evidence", latent_noise=0.3).fit(X, Y)
    assert model.n_latent_ == 2
    found = model.search_results_
    assert found["n_latent"][np.argmax(found["log_evidence"])] == 2
    assert model.log_evidence_ == found["log_evidence"].max()


class Scripted(NamedTuple):
    """Stands in for a fit of some size."""

    n_latent: int
    log_evidence: float
    search_results: Any = None

    @property
    def model(self):
        return SimpleNamespace(family=SimpleNamespace(n_latent=self.n_latent))

    @property
    def summary(self):
        return self.n_latent, self.log_evidence, 7


@pytest.mark.parametrize(
    "evidence, tried, best",
    [
        ([1, 2, 3, 4, 5], 5, 5),
        ([5, 4, 6, 5, 4, 9], 5, 3),  # a dip of one size is passed, one of two ends the search
        ([5, 4, 3, 9], 3, 1),
        ([5, 5, 5, 9], 3, 1),  # in a tie the smaller size wins
        ([5], 1, 1),
    ],
)
def test_the_search_for_a_size_passes_a_dip(evidence, tried, best):
    found = best_size(lambda k: Scripted(k, evidence[k - 1]), len(evidence), lambda: False)
    assert found.n_latent == best
    assert found.search_results.n_latent.tolist() == list(range(1, tried + 1))
    assert found.search_results.log_evidence.tolist() == evidence[:tried]
    alone = best_size(lambda k: Scripted(k, evidence[k - 1]), len(evidence), lambda: True)
    assert alone.search_results.n_latent.tolist() == [1]  # after a callback has stopped the fit


@pytest.mark.parametrize("semi_supervised", [False, True])
@pytest.mark.filterwarnings("ignore:.*rows have no label")
def test_probabilities_of_classes_add_up_and_of_labels_lie_between(semi_supervised):
    X, Y = data(unknown=0.3)
    options = dict(semi_supervised=semi_supervised, margin=0.8)
    for classes in (Y[:, 0], np.where((Y[:, :2] < 0).any(axis=1), -1, Y[:, :2].sum(axis=1))):
        proba = after_some_steps(X, classes, unlabeled=-1, **options).predict_proba(X)
        np.testing.assert_allclose(proba.sum(axis=1), 1, **EQUAL)
    present = after_some_steps(X, Y, **options).predict_proba(X)
    absent = after_some_steps(X, np.where(Y < 0, -1, 1 - Y), **options).predict_proba(X)  # labels by other names
    np.testing.assert_allclose(present + absent, 1, atol=1e-5)


def test_predictions_do_not_depend_on_the_working_memory():
    X, Y = data(n_rows=40, n_features=60)
    for rows in (X, sparse.csr_array(X)):
        for prior in PRIORS:
            model = after_some_steps(rows, Y, prior=prior, standardize=False)
            answers = [model.predict_proba(rows), *model.transform(rows, return_cov=True)]
            with config_context(working_memory=0.01):
                in_chunks = [model.predict_proba(rows), *model.transform(rows, return_cov=True)]
            for a, b in zip(in_chunks, answers, strict=True):
                np.testing.assert_allclose(a, b, **EQUAL)


def test_column_priors_switch_superfluous_dimensions_off():
    X, Y = data(3, n_rows=400, n_labels=8, rank=2)
    model = ProbitEmbeddingClassifier(5, prior="columns", latent_noise=0.3).fit(X, Y)
    assert model.n_latent_ == 5 and model.n_effective_latent_ == 2


@pytest.mark.parametrize("unit", [0.1, 1.0, 100.0])
def test_relevance_and_effective_dimensions_by_hand(unit):
    X, Y = data(3, n_rows=200, n_labels=6, rank=2)
    model = after_some_steps(unit * X, Y, n_latent=4, prior="columns", standardize=False)
    squares = np.einsum("lr,fr->rlf", model.weights_, model.projection_) ** 2  # of what each dimension adds to scores
    by_dimension, by_feature = squares.sum(axis=(1, 2)), squares.sum(axis=(0, 1))
    assert model.n_effective_latent_ == (by_dimension > 0.01 * by_dimension.sum()).sum()
    np.testing.assert_allclose(model.feature_relevance_, by_feature / by_feature.sum(), **EQUAL)
    fitted = model._model  # the share is of all, of which two large ones make more
    size = np.sqrt(np.array([1.0, 0.9, 0.015, 0.03]) / by_dimension)
    scaled = fitted.params._replace(projection=fitted.params.projection * size[:, None])
    assert learned_attributes(fitted._replace(params=scaled))["n_effective_latent_"] == 3


def test_row_priors_find_the_features():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 30))
    Y = (X[:, [4, 9]] @ rng.standard_normal((2, 6)) + 0.3 * rng.standard_normal((300, 6)) > 0).astype(int)
    relevance = ProbitEmbeddingClassifier(2, prior="rows").fit(X, Y).feature_relevance_
    assert set(np.argsort(relevance)[-2:]) == {4, 9}
    assert relevance[[4, 9]].sum() > 0.9
    np.testing.assert_allclose(relevance.sum(), 1, **EQUAL)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("n_rows", [100, 12])
def test_sparse_rows_are_treated_as_dense_ones(prior, n_rows):
    rng = np.random.default_rng(0)
    X = rng.poisson(0.5, (n_rows, 25)).astype(float)
    Y = (X[:, :3] @ rng.standard_normal((3, 4)) + rng.standard_normal((n_rows, 4)) > 0).astype(int)
    dense = after_some_steps(X, Y, prior=prior, standardize=False)
    for kind in (sparse.csr_array, sparse.csc_matrix):
        model = after_some_steps(kind(X), Y, prior=prior, standardize=False)
        np.testing.assert_allclose(model.predict_proba(kind(X)), dense.predict_proba(X), atol=1e-6)
        np.testing.assert_allclose(
            model.transform(X, return_cov=True)[1], dense.transform(kind(X), return_cov=True)[1], atol=1e-6
        )
    scaled = after_some_steps(sparse.csr_array(X * np.arange(1, 26)), Y, prior=prior)
    other = after_some_steps(sparse.csr_array(X), Y, prior=prior)
    np.testing.assert_allclose(scaled.predict_proba(X * np.arange(1, 26)), other.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("prior", PRIORS)
def test_rows_that_do_not_fit_in_memory_are_read_again(prior, tmp_path):
    X, Y = data(n_rows=60, unknown=0.2)
    kept = after_some_steps(X, Y, prior=prior)
    np.save(tmp_path / "X.npy", X)
    with config_context(working_memory=4e-3):
        streamed = after_some_steps(np.load(tmp_path / "X.npy", mmap_mode="r"), Y, prior=prior)
        np.testing.assert_allclose(streamed.predict_proba(X), kept.predict_proba(X), atol=1e-6)


def test_more_starts_are_never_worse():
    X, Y = data(n_rows=60, unknown=0.2)
    one = ProbitEmbeddingClassifier(3, random_state=0).fit(X, Y)
    many = ProbitEmbeddingClassifier(3, n_init=4, random_state=0).fit(X, Y)
    assert many.log_evidence_ >= one.log_evidence_ - 1e-2 * abs(one.log_evidence_) / 100


@pytest.mark.filterwarnings("ignore:.*rows have no label")
def test_low_density_separation_moves_the_line_to_the_gap():
    """Two clusters with few labels, all at one side of each cluster: unlabeled rows show where the gap is."""
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(-3, 0.7, 200), rng.normal(3, 0.7, 200)][:, None]
    y = np.full(400, -1)
    y[[int(np.argmax(X[:200, 0])), 200 + int(np.argmax(X[200:, 0]))]] = 0, 1
    grid = np.linspace(-6, 6, 241)[:, None]

    def line(**options):
        model = ProbitEmbeddingClassifier(1, unlabeled=-1, **options).fit(X, y)
        assert np.diff(model.objective_curve_).min() >= 0
        return abs(float(grid[np.argmin(np.abs(model.predict_proba(grid)[:, 1] - 0.5)), 0]))

    assert line(semi_supervised=True) < line()


@pytest.mark.matrix
@pytest.mark.parametrize("shape", [(80, 6), (20, 30)])
@pytest.mark.parametrize("prior", PRIORS)
def test_problems_in_other_namespaces_rise_as_in_numpy(prior, shape):
    import array_api_strict

    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    X, Y = data(1, *shape, unknown=0.2)
    curves = []
    for make in (np.asarray, torch.asarray, array_api_strict.asarray):
        rows = ArraySource(make(X), Y, np.linspace(0.5, 2, shape[0]))
        problem = RowProblem(ProbitEmbedding(5, 2, PRECISION_SHARING[prior]), Likelihood(), rows)
        start = problem.family.init(rows, np.random.default_rng(0), 2)
        solution = EM(5, -np.inf).solve(problem, start)
        assert type(solution.params.projection) is type(make(X))
        curves.append(np.array(solution.curves))
    np.testing.assert_allclose(curves[1], curves[0], **NAMESPACE)
    np.testing.assert_allclose(curves[2], curves[0], **NAMESPACE)


IN_TORCH = """
import numpy, sklearn, torch
from latentia import ProbitEmbeddingClassifier
torch.set_num_threads(1)
sklearn.set_config(array_api_dispatch=True)
X = numpy.random.default_rng(0).standard_normal((60, 5))
Y = (X[:, :3] + X[:, 2:] > 0).astype(int)
expected, model = (ProbitEmbeddingClassifier(2, max_iter=8).fit(make(X), Y) for make in (numpy.asarray, torch.asarray))
proba, labels = model.predict_proba(torch.asarray(X)), model.predict(torch.asarray(X))
assert isinstance(proba, torch.Tensor) and isinstance(labels, torch.Tensor) and isinstance(model.projection_, torch.Tensor)
assert abs(proba.numpy() - expected.predict_proba(X)).max() < 1e-6
assert (model.transform(torch.asarray(X), return_cov=True)[1].shape) == (60, 2, 2)
"""


def test_tensors_in_tensors_out():
    pytest.importorskip("torch")
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IN_TORCH], check=True, env={**os.environ, "SCIPY_ARRAY_API": "1"}
    )


def test_a_label_without_a_positive_row_is_said_and_predicted_absent():
    X, Y = data()
    Y[:, 3] = 0
    with pytest.warns(UserWarning, match="no positive entry in column 3"):
        model = ProbitEmbeddingClassifier().fit(X, Y)
    assert model.predict_proba(X)[:, 3].max() < 0.2


@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda Y: np.where(Y == 1, 2, Y), "y holds 2; allowed in a label matrix are 0, 1, and -1, NaN or None"),
        (lambda Y: np.where(Y == 1, "a", "b"), "y holds '[ab]'; allowed"),
        (lambda Y: np.column_stack([Y, np.full(len(Y), -1)]), "y has no known entry in column 5"),
        (lambda Y: Y[:-1], "y has 19 rows and X has 20"),
        (lambda Y: Y[:, :0], "y has 0 columns"),
        (lambda Y: Y[:, :, None], r"y has shape \(20, 5, 1\)"),
        (lambda Y: np.full(20, -1), "y has no label"),
    ],
)
def test_bad_labels_are_refused(spoil, message):
    X, Y = data(n_rows=20)
    with pytest.raises(ValueError, match=message):
        ProbitEmbeddingClassifier().fit(X, spoil(Y))


def test_weights_that_hide_a_label_are_refused():
    X, Y = data(n_rows=20)
    Y[2:, 2] = -1
    Y[:2, 2] = 0, 1
    with pytest.raises(ValueError, match="zero for every row with a known entry in column 2"):
        ProbitEmbeddingClassifier().fit(X, Y, sample_weight=np.r_[0, 0, np.ones(18)])


@pytest.mark.filterwarnings("ignore:y has no positive entry in column 2:UserWarning")
def test_a_label_that_no_row_has_may_be_weighted():
    X, Y = data(n_rows=20)
    Y[:, 2] = 0
    plain, weighted = after_some_steps(X, Y), after_some_steps(X, Y, np.ones(20))
    np.testing.assert_allclose(weighted.predict_proba(X), plain.predict_proba(X), **EQUAL)


def test_data_frames_keep_their_names():
    pd = pytest.importorskip("pandas")
    X, Y = data(unknown=0.1)
    frame = pd.DataFrame(X, columns=[f"f{k}" for k in range(8)])
    labels = pd.DataFrame(Y, columns=list("abcde"))
    model = ProbitEmbeddingClassifier(2, tol=1e-1).fit(frame, labels)
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert model.label_names_.tolist() == list("abcde")
    assert model.get_feature_names_out().tolist() == ["probitembeddingclassifier0", "probitembeddingclassifier1"]
    np.testing.assert_array_equal(model.predict(frame), clone(model).fit(X, Y).predict(X))
    assert not hasattr(model.fit(frame, Y), "label_names_")  # of the fit before


def test_it_works_among_other_estimators():
    X, Y = data()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), ProbitEmbeddingClassifier(tol=1e-1)),
        {"probitembeddingclassifier__n_latent": [1, 2]},
        cv=2,
    )
    assert search.fit(X, Y).best_score_ > 0.2
    model = search.best_estimator_[-1]
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert clone(model).get_params() == model.get_params()


def test_the_score_counts_known_entries_only():
    X, Y = data()
    model = ProbitEmbeddingClassifier().fit(X, Y)
    found = model.predict(X)
    right = (found == Y).all(axis=1)
    assert model.score(X, Y) == pytest.approx(right.mean())
    wrong_hidden = np.where(found == Y, Y, -1)
    assert model.score(X, wrong_hidden) == 1.0
    unlabeled_first, weight = np.where(np.arange(150)[:, None] < 3, -1, Y), np.arange(150.0)
    expected = np.average(right[3:], weights=weight[3:])
    assert model.score(X, unlabeled_first, sample_weight=weight) == pytest.approx(expected)
    with pytest.raises(ValueError, match="no known label"):
        model.score(X, np.full_like(Y, -1))
    with pytest.raises(ValueError, match=r"y has shape \(150, 4\); expected is \(150, 5\)"):
        model.score(X, Y[:, :4])


@pytest.mark.parametrize("estimator", [ProbitEmbeddingClassifier(), LatentClassifier(effort="fast", random_state=0)])
def test_a_summary_has_shares_among_the_known_labels(estimator, rng):
    """Unknown entries are not absent ones."""
    X = rng.normal(size=(40, 3))
    Y = pd.DataFrame({"half": np.arange(40) % 2, "all": np.arange(40) % 4 == 0}, dtype=float)
    Y.iloc[:20, 0] = np.nan
    text = clone(estimator).fit(X, Y).summary()
    assert "10 rows (50.0% of 20 known)" in text and "10 rows (25.0%)" in text


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_without_a_label_are_told_of_unless_they_are_used():
    """As the softmax and the experts tell; they count in the scale of the columns. Label matrices often have some."""
    X, Y = data(n_rows=60)
    Y[:7] = -1
    y = np.where(Y[:, 0] < 0, None, np.array(["no", "yes"], dtype=object)[Y[:, 0]])
    model = ProbitEmbeddingClassifier(1, max_iter=2, unlabeled=-1)
    with pytest.warns(
        UserWarning, match="7 of 60 rows have no label: .*nothing but how columns are scaled.*semi_"
    ) as told:
        model.fit(X, y)
    assert sum("have no label" in str(each.message) for each in told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        clone(model).fit(X, Y)
        model.set_params(semi_supervised=True).fit(X, y)
    few = model.set_params(semi_supervised=False, standardize=True)
    with pytest.warns(UserWarning, match="have no label"):
        far = few.fit(np.r_[X[:7] * 100, X[7:]], y).predict_proba(X)
    with pytest.warns(UserWarning, match="have no label"):
        assert np.abs(few.fit(X, y).predict_proba(X) - far).max() > 1e-3
