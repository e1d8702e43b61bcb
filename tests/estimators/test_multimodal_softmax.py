"""MultimodalSoftmaxClassifier: limits, evidence, labels, weights, hard and bad input."""

import warnings

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from tolerances import MAX_RELATIVE_DECREASE

from latentia import MultimodalSoftmaxClassifier
from latentia.engine.rows import ArraySource
from latentia.engine.sweep import Likelihood, RowProblem
from latentia.engine.tree import take_restarts
from latentia.estimators.softmax import training as modeled_rows
from latentia.estimators.softmax.training import AVERAGES, HeldOutScore
from latentia.families.blocks.bounds import GammaPrior
from latentia.families.softmax_tree.posterior import BoundPosterior
from latentia.families.softmax_tree.tree import Point, TreeLikelihood, multimodal_softmax
from latentia.solvers import EM, LBFGS
from latentia.solvers.em import AcceleratedEM
from latentia.solvers.lbfgs import BatchedLBFGS


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(120, noise=0.15, random_state=0)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def contrasts(weights):
    return weights - weights.mean(axis=0)


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_one_subclass_by_likelihood_is_logistic_regression(rng, scale):
    X = rng.normal(size=(300, 4))
    y = (X @ rng.normal(size=(4, 3)) + rng.gumbel(size=(300, 3))).argmax(axis=1)
    reference = LogisticRegression(C=np.inf, tol=1e-10, max_iter=2000).fit(X, y)
    model = MultimodalSoftmaxClassifier(1, inference="ml").fit(X * scale + 3 * scale, y)
    np.testing.assert_allclose(contrasts(model.weights_) * scale, contrasts(reference.coef_), atol=1e-4)
    np.testing.assert_allclose(model.predict_proba(X * scale + 3 * scale), reference.predict_proba(X), atol=1e-4)
    n_free = 2 * 5
    log_likelihood = reference.predict_log_proba(X)[np.arange(300), y].sum()
    assert model.bic(X * scale + 3 * scale, y) == pytest.approx(-2 * log_likelihood + n_free * np.log(300), rel=1e-6)
    assert not hasattr(model, "log_evidence_")


def test_ridge_is_a_penalty_on_standardized_columns(iris):
    X, y = iris
    reference = LogisticRegression(C=1 / 3.0, tol=1e-10, max_iter=2000, fit_intercept=False)
    reference.fit(np.column_stack([X, np.ones(len(X))]), y)
    model = MultimodalSoftmaxClassifier(1, inference="ml", ridge=3.0, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(contrasts(model.weights_), contrasts(reference.coef_[:, :-1]), atol=1e-4)


def test_evidence_is_below_the_log_marginal_likelihood(rng):
    """Beside simulation from the prior, which a few rows allow."""
    x, y = np.array([-1.2, -0.4, 0.3, 1.5]), np.array([0, 1, 0, 0])
    X1 = np.column_stack([x, np.ones(4)])
    family = BoundPosterior(multimodal_softmax((2, 1), GammaPrior(2.0, 3.0)))
    rows = ArraySource(x[:, None], y)
    bound = (
        EM(max_iter=300, tol=1e-10).solve(RowProblem(family, Likelihood(), rows), family.init(rows, rng, 5)).value.max()
    )
    alpha = rng.gamma(2.0, 1 / 3.0, size=(50_000, 3, 1))
    scores = (rng.normal(size=(50_000, 3, 2)) / np.sqrt(alpha)) @ X1.T
    own = np.where(y == 0, logsumexp(scores[:, :2], axis=1), scores[:, 2])
    exact = logsumexp((own - logsumexp(scores, axis=1)).sum(axis=1)) - np.log(50_000)
    assert exact - 6.0 < bound < exact  # loose: half of the gap is the softmax bound's, half the posterior's


def test_bound_beside_a_plain_transcription(rng):
    """The sweep's value from the equations with loops and full matrices."""
    X, y = rng.normal(size=(7, 2)), np.array([0, 1, 1, 0, 1, 0, 1])
    family = BoundPosterior(multimodal_softmax((2, 1)))
    rows = ArraySource(X, y)
    params = take_restarts(family.init(rows, rng, 1), [0])
    params = family.update(params, RowProblem(family, Likelihood(), rows).sweep(params).stats)
    value = float(RowProblem(family, Likelihood(), rows).sweep(params).value[0])
    mean, covariance = params.gates[0].mean[0, 0], params.gates[0].covariance[0, 0]
    total = float(family.log_prior(params)[0])
    for row, label in zip(np.column_stack([X, np.ones(7)]), y, strict=True):
        m, v = mean @ row, np.array([row @ c @ row for c in covariance])
        grid = np.linspace(m.min() - 5, m.max() + 5, 20001)
        xi = np.sqrt((m[:, None] - grid) ** 2 + v[:, None])
        bound = (grid + ((m[:, None] - grid - xi) / 2 + np.log1p(np.exp(xi))).sum(axis=0)).min()
        total += logsumexp(m[:2] if label == 0 else m[2:]) - bound
    assert value == pytest.approx(total, abs=1e-5)


def test_posterior_means_are_biased_and_the_correction_is_not(rng):
    """Two subclasses: contrasts tend to twice those of maximum likelihood (see the docs)."""
    X = rng.normal(size=(8000, 2))
    y = (X @ [1.0, -0.5] + rng.logistic(size=8000) > 0).astype(int)
    model = MultimodalSoftmaxClassifier(1, tol=1e-9).fit(X, y)
    exact = LogisticRegression(C=np.inf).fit(X, y).coef_[0]
    means = model.posterior_means_[:, :-1]
    np.testing.assert_allclose(means[1] - means[0], 2 * exact, rtol=0.03)
    np.testing.assert_allclose(model.weights_[1] - model.weights_[0], exact, rtol=0.01)


def test_the_best_restart_has_run_to_its_end(rng):
    """Restarts that end at the same optimum differ by rounding; one that was dropped must not win."""
    X = rng.normal(size=(2000, 2))
    for seed in (6, 7, 13, 16):
        y = (X @ [1.0, -0.5] + np.random.default_rng(seed).logistic(size=2000) > 0).astype(int)
        model = MultimodalSoftmaxClassifier(1, tol=1e-9, random_state=seed).fit(X, y)
        assert model.converged_ and model.n_iter_ == len(model.objective_curve_) - 1


def test_accelerated_steps_never_fall_and_end_higher(iris):
    X, y = iris
    family = BoundPosterior(multimodal_softmax((1, 2, 2)))
    problem = RowProblem(family, Likelihood(), ArraySource(X, y))
    start = family.init(problem.source, np.random.default_rng(0), 3)
    fast = AcceleratedEM(max_iter=60, tol=-1.0).solve(problem, start)
    plain = EM(max_iter=60, tol=-np.inf).solve(problem, start)
    assert min(np.diff(curve).min() for curve in fast.curves) >= -MAX_RELATIVE_DECREASE * np.abs(fast.value).max()
    assert (fast.value > plain.value).all()
    assert fast.n_iter.tolist() == [60] * 3 and not fast.converged.any()
    alone = AcceleratedEM(max_iter=60, tol=-1.0).solve(problem, take_restarts(start, [1]))
    np.testing.assert_allclose(alone.value[0], fast.value[1], rtol=1e-6)


def test_batched_lbfgs_finds_what_scipys_finds(iris):
    X, y = iris
    family = TreeLikelihood(multimodal_softmax((1, 1, 1)), 0.1)
    problem = RowProblem(family, Likelihood(), ArraySource(X, y))
    start = Point((np.random.default_rng(0).normal(size=(4, 1, 3, 5)),), ())
    batch = BatchedLBFGS(max_iter=300, tol=1e-8).solve(problem, start)
    single = LBFGS(max_iter=300, tol=1e-8).solve(problem, take_restarts(start, [2]))
    np.testing.assert_allclose(batch.value, single.value[0], rtol=1e-6)
    assert batch.converged.all() and min(np.diff(curve).min() for curve in batch.curves) >= 0


def test_memory_holds_no_matrix_per_row(rng):
    import tracemalloc

    X, y = rng.normal(size=(20_000, 30)), rng.integers(0, 2, 20_000)
    family = BoundPosterior(multimodal_softmax((2, 2)))
    problem = RowProblem(family, Likelihood(), ArraySource(X, y))
    params = family.posterior_around(Point((0.1 * rng.normal(size=(1, 1, 4, 31)),), ()), 0.1)
    problem.sweep(params)
    tracemalloc.start()
    problem.sweep(params)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000 * 31 * 31 * 8 / 3


@pytest.mark.matrix
def test_search_table_and_evidence(moons):
    X, y = moons
    options = dict(criterion="bound", n_init=2, tol=1e-2, random_state=0)
    model = MultimodalSoftmaxClassifier(max_subclasses=3, threshold=[0.05, 0.1], **options).fit(X, y)
    table = model.search_results_
    best = int(np.argmax(table["log_evidence"]))
    assert table["n_subclasses"][best] == tuple(model.n_subclasses_)
    assert table["log_evidence"][best] == model.log_evidence_
    assert len({len(column) for column in table.values()}) == 1
    assert len(table["bic"]) <= 10
    penalty = sum(np.log(np.arange(1, n + 1)).sum() for n in model.n_subclasses_)
    assert model.log_evidence_ == pytest.approx(model.objective_curve_[-1] - penalty)
    assert model.restart_objectives_[0] == model.objective_curve_[-1]
    assert np.diff(model.objective_curve_).min() >= -MAX_RELATIVE_DECREASE * np.abs(model.objective_curve_).max()
    assert model.score(X, y) > 0.95


@pytest.mark.matrix
def test_the_search_finds_what_trying_all_finds(moons):
    X, y = moons
    options = dict(criterion="bound", n_init=2, tol=1e-3, random_state=0)
    model = MultimodalSoftmaxClassifier(max_subclasses=3, threshold=[0.05, 0.1], **options).fit(X, y)
    full = MultimodalSoftmaxClassifier(max_subclasses=3, search="exhaustive", **options).fit(X, y)
    assert len(full.search_results_["bic"]) == 9
    assert abs(full.log_evidence_ - model.log_evidence_) < 0.01 * abs(full.log_evidence_)


@pytest.mark.parametrize("options", [{"criterion": "bic"}, {"inference": "ml", "criterion": "bic"}])
def test_bic_chooses_too(moons, options):
    X, y = moons
    model = MultimodalSoftmaxClassifier(max_subclasses=2, n_init=1, tol=1e-2, random_state=0, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # separable rows have no maximum of the likelihood
        model.fit(X, y)
    table = model.search_results_
    assert table["n_subclasses"][int(np.argmin(table["bic"]))] == tuple(model.n_subclasses_)
    assert model.bic(X, y) == pytest.approx(table["bic"].min(), rel=1e-6)
    assert model.aic(X, y) < model.bic(X, y)


def test_probabilities_add_up(moons):
    X, y = moons
    model = MultimodalSoftmaxClassifier([2, 3], n_init=1, random_state=0).fit(X, y)
    for averaging in ("corrected", "posterior", "plugin"):
        model.set_params(averaging=averaging)
        proba, parts = model.predict_proba(X), model.subclass_proba(X)
        assert parts.shape == (120, 5) and model.subclass_labels_.tolist() == [0, 0, 1, 1, 1]
        np.testing.assert_allclose(np.column_stack([parts[:, :2].sum(axis=1), parts[:, 2:].sum(axis=1)]), proba)
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), proba)


def test_averaging_is_less_sure_than_plugging_in(moons):
    X, y = moons
    model = MultimodalSoftmaxClassifier(2, n_init=1, random_state=0).fit(X, y)
    averaged = model.predict_proba(4 * X).max(axis=1).mean()
    assert averaged < model.set_params(averaging="plugin").predict_proba(4 * X).max(axis=1).mean()


def test_unlabeled_rows_are_dropped_with_a_warning(iris):
    X, y = iris
    gaps = np.where(np.arange(150) % 4 == 0, -1, y)
    with pytest.warns(UserWarning, match="38 of 150 rows have no label and are dropped"):
        model = MultimodalSoftmaxClassifier(1, unlabeled=-1, random_state=0).fit(X, gaps)
    dropped = MultimodalSoftmaxClassifier(1, random_state=0).fit(X[gaps >= 0], y[gaps >= 0])
    np.testing.assert_array_equal(model.weights_, dropped.weights_)


@pytest.mark.parametrize("averaging", list(AVERAGES))
def test_rows_held_out_count_by_their_weight(rng, iris, averaging):
    """What chooses among models is the weighted mean of the log probabilities that the fitted estimator predicts."""
    X, y = iris
    model = MultimodalSoftmaxClassifier([1, 2, 2], n_init=1, averaging=averaging, tol=1e-3, random_state=0).fit(X, y)
    weight = rng.exponential(size=150)
    own = model.predict_log_proba(X)[np.arange(150), y]
    fitted, preprocessor = model._model.fitted, model._model.preprocessor
    log_predictive = fitted.log_scores(averaging, ArraySource(X, y, weight, preprocessor.prepare))
    np.testing.assert_allclose(log_predictive, own, rtol=1e-10)
    assert HeldOutScore(log_predictive, weight) == pytest.approx(np.average(own, weights=weight))


def test_weights_count_where_small_subclasses_are_dropped():
    """A cluster of three rows is a tenth of its class, or half of it where each of them weighs nine."""
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(-4, 0.5, (27, 1)), rng.normal(4, 0.5, (3, 1)), rng.normal(0, 0.5, (20, 1))]
    y, weight = np.repeat([0, 1], [30, 20]), np.repeat([1, 9, 1], [27, 3, 20])
    again = np.repeat(np.arange(50), weight)
    options = dict(threshold=0.2, max_subclasses=2, max_models=0, criterion="bound", n_init=1, tol=1e-2, random_state=0)
    children = [
        MultimodalSoftmaxClassifier(**options).fit(*rows).search_results_["children"][1]
        for rows in ((X, y), (X, y, weight.astype(float)), (X[again], y[again]))
    ]
    assert children == [[(1, 1)], [(2, 1)], [(2, 1)]]


def test_basis_expansion_in_a_pipeline(rng):
    X = rng.normal(size=(300, 2))
    y = (np.hypot(*X.T) > 1.1).astype(int)
    model = make_pipeline(PolynomialFeatures(2, include_bias=False), StandardScaler(), MultimodalSoftmaxClassifier(1))
    assert model.fit(X, y).score(X, y) > 0.95


def test_an_annealed_fit_does_not_fall(moons):
    X, y = moons
    annealed = MultimodalSoftmaxClassifier(3, n_init=2, annealing=True, random_state=0).fit(X, y)
    assert np.diff(annealed.objective_curve_).min() >= -MAX_RELATIVE_DECREASE * np.abs(annealed.objective_curve_).max()


def test_a_callback_stops_the_search(moons):
    X, y = moons
    steps = []
    stopped = MultimodalSoftmaxClassifier(
        n_init=2, random_state=0, callback=lambda step: steps.append(step.iteration) or len(steps) >= 5
    ).fit(X, y)
    assert len(stopped.search_results_["bic"]) == 1 and stopped.stopping_reason_ == "stopped by the callback"
    assert steps[:5] == [1, 2, 3, 4, 5] and set(steps[5:]) <= {1}  # what was still to come ends at its first step
    assert np.isfinite(stopped.predict_proba(X)).all()


@pytest.mark.matrix
def test_a_fit_in_torch(moons):
    torch = pytest.importorskip("torch")
    X, y = moons
    reference = MultimodalSoftmaxClassifier([2, 1], n_init=2, random_state=0).fit(X, y)
    with config_context(array_api_dispatch=True):
        model = MultimodalSoftmaxClassifier([2, 1], n_init=2, random_state=0).fit(torch.asarray(X), torch.asarray(y))
        proba, codes = model.predict_proba(torch.asarray(X)), model.predict(torch.asarray(X))
    assert isinstance(proba, torch.Tensor) and isinstance(codes, torch.Tensor)
    assert model.log_evidence_ == pytest.approx(reference.log_evidence_, rel=1e-3)
    np.testing.assert_allclose(proba.numpy(), reference.predict_proba(X), atol=2e-2)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"n_subclasses": "many"}, "n_subclasses='many'; allowed are 'auto'"),
        ({"n_subclasses": [1, 2]}, r"n_subclasses=\[1, 2\] has 2 entries, but y has 3 classes"),
        ({"threshold": 1.5}, "threshold=1.5"),
        ({"threshold": [0.1, -1]}, "threshold=-1"),
        ({"criterion": "aic"}, "criterion='aic'; allowed are 'validation', 'evidence', 'bound', 'bic'"),
    ],
)
def test_bad_options_are_named(iris, options, message):
    with pytest.raises(ValueError, match=message):
        MultimodalSoftmaxClassifier(**options).fit(*iris)


@pytest.mark.parametrize("standardize", [True, False])
def test_learned_weights_are_in_the_units_of_the_columns(moons, standardize):
    X, y = moons[0] * [0.3, 5.0] + [7.0, -2.0], moons[1]
    options = dict(averaging="plugin", n_init=2, standardize=standardize, tol=1e-3, random_state=0)
    model = MultimodalSoftmaxClassifier(2, **options).fit(X, y)
    scores = X @ model.weights_.T + model.intercepts_
    probs = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(probs / probs.sum(axis=1, keepdims=True), model.subclass_proba(X), rtol=1e-8)
    # the posterior of the scores is the same, whichever units its weights are in
    posterior = model._model.fitted.bound_posterior.gates[0]
    rows = np.column_stack([model._model.preprocessor.prepare(X).values, np.ones(len(X))])
    own = np.column_stack([X, np.ones(len(X))])
    np.testing.assert_allclose(own @ model.posterior_means_.T, rows @ posterior.mean[0].T, rtol=1e-8)
    variances = [
        np.einsum("ni,sij,nj->ns", a, c, a)
        for a, c in ((own, model.posterior_covariances_), (rows, posterior.covariance[0]))
    ]
    np.testing.assert_allclose(variances[0], variances[1], rtol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_search_fits_no_more_models_than_allowed_and_names_no_others(rng):
    X = rng.normal(size=(60, 2))
    y = (np.abs(X[:, 0]) > 0.7).astype(int)
    options = dict(n_init=1, max_iter=10, tol=1e-3, patience=0, random_state=0)
    table = MultimodalSoftmaxClassifier(max_subclasses=3, max_models=2, **options).fit(X, y).search_results_
    assert len(table["n_subclasses"]) == 2
    table = (
        MultimodalSoftmaxClassifier(max_subclasses=3, max_rounds=1, max_models=5, **options).fit(X, y).search_results_
    )
    fitted = table["n_subclasses"]
    assert len(fitted) == 5
    for config, parents, children in zip(fitted, table["parents"], table["children"], strict=True):
        assert all(config in table["children"][fitted.index(parent)] for parent in parents)
        assert all(config in table["parents"][fitted.index(child)] for child in children)


@pytest.mark.parametrize("shape, rate", [(1.0, 1.0), (2.0, 0.5)])
def test_expected_precisions_are_those_of_their_gamma_posteriors(iris, shape, rate):
    """Of all entries of a subclass, its bias among them."""
    X, y = iris
    options = dict(standardize=False, shape=shape, rate=rate, n_init=1, tol=1e-9, max_iter=5000, random_state=0)
    model = MultimodalSoftmaxClassifier(1, **options).fit((X - X.mean(axis=0)) / X.std(axis=0), y)
    squares = (model.posterior_means_**2).sum(axis=1) + np.trace(model.posterior_covariances_, axis1=1, axis2=2)
    expected = (shape + (X.shape[1] + 1) / 2) / (rate + squares / 2)
    np.testing.assert_allclose(model.precisions_, expected, rtol=1e-3)


@pytest.mark.parametrize("inference", ["vb", "ml"])
def test_restarts_on_a_sample_end_at_an_optimum_of_all_rows(monkeypatch, moons, inference):
    """Not far from where restarts end that all see all rows, and not lower by much."""
    X, y = moons
    model = MultimodalSoftmaxClassifier(
        2, inference=inference, ridge=0.1 * (inference == "ml"), n_init=4, random_state=0
    )
    whole = clone(model).fit(X, y)
    monkeypatch.setattr(modeled_rows, "SAMPLE_ROWS", len(y) // 2)
    monkeypatch.setattr(modeled_rows, "SAMPLE_ROWS_PER_COLUMN", 1)
    sampled = model.fit(X, y)
    assert len(whole.restart_objectives_) == 4 and len(sampled.restart_objectives_) == 1
    assert sampled.converged_ and np.diff(sampled.objective_curve_).min() > -1e-9
    assert sampled.objective_curve_[-1] > whole.objective_curve_[-1] - 1.0
    np.testing.assert_allclose(sampled.predict_proba(X), whole.predict_proba(X), atol=0.1)
